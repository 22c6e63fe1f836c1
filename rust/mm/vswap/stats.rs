// SPDX-License-Identifier: GPL-2.0

//! Counts slots, clusters and their memory when root reads a file of `stats/` in sysfs.
//!
//! Counters of slots by state and backing would slow down every swap-out. So reading a file walks
//! the words of all clusters with slots in use instead, each cluster in an RCU read-side critical
//! section. Slots may change meanwhile, so the numbers need not fit together.

#![forbid(unsafe_code)]

use crate::{
    vswap::{
        cluster::{
            backing_size,
            sizes, //
        },
        cluster_list::ListsGuard,
        directory::Directory,
        slot_alloc,
        swap_table::{
            Backing,
            State, //
        }, //
    }, //
};
use kernel::bindings;

/// Counts slots, clusters, and the memory of headers, tables and backing tables. The caller holds
/// no spinlock.
pub(crate) fn collect() -> bindings::vswap_stats {
    let mut stats = bindings::vswap_stats::default();
    let (header, tables) = sizes();

    for cluster in slot_alloc::all() {
        stats.bytes = stats.bytes.wrapping_add(header);
        if cluster.peek_binding().is_some() {
            stats.bound = stats.bound.wrapping_add(1);
        }
        if cluster.peek_has_backing() {
            stats.bytes = stats.bytes.wrapping_add(backing_size());
        }
        if cluster.peek_used() != 0 {
            cluster.peek_all(|state, backing| count(&mut stats, state, backing));
        }
    }
    stats.clusters = ListsGuard::populated();
    stats.headers = Directory::len() as usize;
    stats.bytes = stats
        .bytes
        .wrapping_add(stats.clusters.wrapping_mul(tables));
    stats
}

fn count(stats: &mut bindings::vswap_stats, state: State, backing: Backing) {
    let Ok(flags) = state.flags() else { return };
    stats.used = stats.used.wrapping_add(1);
    if matches!(state, State::Pfn { .. }) {
        stats.cached = stats.cached.wrapping_add(1);
    }
    if flags.zero {
        stats.zero = stats.zero.wrapping_add(1);
    }
    match backing {
        Backing::Zswap(_) => stats.zswap = stats.zswap.wrapping_add(1),
        Backing::Phys(_) => stats.device = stats.device.wrapping_add(1),
        Backing::None => {}
    }
}
