// SPDX-License-Identifier: GPL-2.0

//! The fields of C's `struct swap_cluster_info` that `ci->lock` protects, and the extend table,
//! which one of them owns.
//!
//! Only this file reaches the cells, so that they change with `&mut LockedCluster` alone.

use crate::{
    vswap::cluster::{
        LockedCluster,
        SwapWords, //
    },
    zswap::table::SLOTS, //
};
use core::{
    cell::Cell,
    mem::{
        offset_of,
        ManuallyDrop, //
    },
    ptr::{
        null_mut,
        NonNull, //
    }, //
};
use kernel::{
    bindings::{
        self,
        spinlock_t,
        swap_cluster_info, //
    },
    prelude::*,
    types::Opaque, //
};

/// Swap counts that do not fit in the words of their slots; 0 for the other slots.
type Counts = [Cell<u32>; SLOTS];

#[repr(C)]
struct Fields {
    _lock: Opaque<spinlock_t>,
    _count: Opaque<u16>,
    _flags: Opaque<u8>,
    order: Cell<u8>,
    table: Cell<*mut SwapWords>,
    /// The extend table, which the cluster owns, or NULL.
    counts: Cell<*mut Counts>,
}

static_assert!(offset_of!(Fields, _lock) == offset_of!(swap_cluster_info, lock));
static_assert!(offset_of!(Fields, order) == offset_of!(swap_cluster_info, order));
static_assert!(offset_of!(Fields, table) == offset_of!(swap_cluster_info, table));
static_assert!(offset_of!(Fields, counts) == offset_of!(swap_cluster_info, extend_table));

impl LockedCluster<'_> {
    #[inline]
    fn fields(&self) -> &Fields {
        // SAFETY: The layout is that of C's structure. The lock, held by the invariants of
        // `LockedCluster`, protects the cells.
        unsafe { &*self.ci().cast() }
    }

    /// Returns the swap table.
    #[inline]
    pub(super) fn words(&self) -> Option<&SwapWords> {
        // SAFETY: The table changes under the lock only, which is held by the invariants.
        unsafe { self.fields().table.get().as_ref() }
    }

    /// Returns the extend table.
    #[inline]
    pub(super) fn counts(&self) -> Option<&Counts> {
        // SAFETY: The cluster owns the table. The lock, held by the invariants, protects it.
        unsafe { self.fields().counts.get().as_ref() }
    }

    /// Replaces the extend table, and returns the old one.
    pub(super) fn replace_counts(&mut self, new: Option<ExtendTable>) -> Option<ExtendTable> {
        let new = new.map_or(null_mut(), |table| ManuallyDrop::new(table).0.as_ptr());
        let old = self.fields().counts.replace(new.cast());
        // INVARIANT: The cluster owned the old table until now.
        NonNull::new(old.cast()).map(ExtendTable)
    }

    /// Returns the order of the folios that slots are allocated for.
    #[inline]
    pub(crate) fn order(&self) -> u32 {
        u32::from(self.fields().order.get())
    }

    pub(super) fn set_order(&mut self, order: u8) {
        self.fields().order.set(order);
    }
}

/// A zeroed extend table, for swap counts that do not fit in a word.
///
/// # Invariants
///
/// The value owns the table, which has a count for each slot.
pub(crate) struct ExtendTable(NonNull<c_void>);

c_owned! {
    fn drop(ExtendTable: c_void) = kfree;
}

impl ExtendTable {
    c_functions! {
        /// Allocates a table with the given flags.
        pub(crate) safe fn alloc(gfp: bindings::gfp_t) -> Option<ExtendTable> = vswap_extend_alloc;
    }

    /// Allocates a table without sleeping.
    pub(crate) fn alloc_atomic() -> Option<Self> {
        Self::alloc(bindings::GFP_ATOMIC)
    }
}
