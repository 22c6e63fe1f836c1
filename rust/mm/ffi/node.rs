// SPDX-License-Identifier: GPL-2.0

//! NUMA nodes.
//!
//! C header: [`include/linux/nodemask.h`](srctree/include/linux/nodemask.h).

use crate::ffi::call::FromC;
use kernel::{
    bindings,
    prelude::*, //
};

/// A NUMA node.
///
/// # Invariants
///
/// The node is possible, so that it has a `struct pglist_data` and, in each cgroup, an lruvec.
#[derive(Clone, Copy)]
pub(crate) struct Node(c_int);

c_functions! {
    safe fn possible_node(from: c_int) -> c_int = zswap_possible_node;
}

impl Node {
    /// Returns all possible nodes, not only those with memory, because zswap may still have pages
    /// of a node whose memory was removed.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let nid = possible_node(from);
            from = nid.saturating_add(1);
            // INVARIANT: C returns a possible node, or `MAX_NUMNODES` if no possible node is left.
            (nid < bindings::ZSWAP_MAX_NUMNODES).then_some(Self(nid))
        })
    }
}

impl FromC<c_int> for Node {
    /// # Safety
    ///
    /// The node is possible. Each node that has memory is possible.
    #[inline]
    unsafe fn from_c(nid: c_int) -> Self {
        // INVARIANT: As required of the caller, the node is possible.
        Self(nid)
    }
}

to_c!(Node => c_int = |this| this.0);
