// SPDX-License-Identifier: GPL-2.0

//! The fields of C's `struct swap_cluster_info` that `ci->lock` protects, and the extend table,
//! which one of them owns.
//!
//! Only this file accesses the cells. It reads them through a [`LockedCluster`], and changes them
//! only through a `&mut LockedCluster`.

use crate::{
    vswap::cluster::{
        Cluster,
        LockedCluster,
        SwapWords, //
    },
    warn::warn_on_once,
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
        swap_cluster_info, //
    },
    prelude::*,
    sync::SpinLock,
    types::Opaque, //
};

/// The counts in an extend table: the swap counts that do not fit in the words of their slots, and
/// 0 for all other slots.
type Counts = [Cell<u32>; SLOTS];

#[repr(C)]
struct Fields {
    lock: SpinLock<()>,
    _count: Opaque<u16>,
    _flags: Opaque<u8>,
    order: Cell<u8>,
    table: TablePtr<SwapWords>,
    /// The extend table, which the cluster owns, or NULL.
    counts: TablePtr<Counts>,
}

/// A pointer to a table of a locked cluster, or NULL.
///
/// # Invariants
///
/// The table stays valid as long as the pointer does not change. It changes only with the lock
/// held, and in Rust only with `&mut LockedCluster`.
#[repr(transparent)]
struct TablePtr<T>(Cell<*mut T>);

impl<T> TablePtr<T> {
    /// Returns the table. The lock is held while `self` is borrowed.
    #[inline]
    fn get(&self) -> Option<&T> {
        // SAFETY: By the invariants of the type, the table is valid, and stays while `self` is
        // borrowed from a locked cluster.
        unsafe { self.0.get().as_ref() }
    }
}

static_assert!(offset_of!(Fields, lock) == offset_of!(swap_cluster_info, lock));
static_assert!(offset_of!(Fields, order) == offset_of!(swap_cluster_info, order));
static_assert!(offset_of!(Fields, table) == offset_of!(swap_cluster_info, table));
static_assert!(offset_of!(Fields, counts) == offset_of!(swap_cluster_info, extend_table));

/// The number of slots whose swap count is in the extend table. Protected by `ci->lock`.
pub(super) struct Extended(Cell<u32>);

impl Extended {
    /// Returns the value for a cluster without an extend table: 0.
    pub(super) const fn none() -> Self {
        Self(Cell::new(0))
    }
}

impl Cluster {
    #[inline]
    fn fields(&self) -> &Fields {
        // SAFETY: The layout is that of C's structure. C has initialized the lock, and uses it as a
        // spinlock, too. The lock protects the cells: all other functions here hold it.
        unsafe { &*self.as_ci().cast() }
    }

    /// Returns `ci->lock`. Interrupt handlers never take it, so interrupts may stay on.
    #[inline]
    pub(super) fn ci_lock(&self) -> &SpinLock<()> {
        &self.fields().lock
    }
}

impl LockedCluster<'_> {
    #[inline]
    fn fields(&self) -> &Fields {
        self.cluster().fields()
    }

    /// Returns the swap table.
    #[inline]
    pub(super) fn words(&self) -> Option<&SwapWords> {
        self.fields().table.get()
    }

    /// Returns the count of a slot in the extend table.
    #[inline]
    fn extend_word(&self, off: u32) -> Option<&Cell<u32>> {
        self.fields().counts.get()?.get(off as usize)
    }

    /// Returns true if the cluster has an extend table.
    #[inline]
    pub(crate) fn can_extend(&self) -> bool {
        self.extend_word(0).is_some()
    }

    /// Returns the swap count of a slot from the extend table; 0 if there is no such table.
    #[inline]
    pub(crate) fn extended(&self, off: u32) -> u32 {
        self.extend_word(off).map_or(0, Cell::get)
    }

    /// Adds one to the swap count of a slot in the extend table. Returns false, and changes
    /// nothing, if the word of the slot does not say that the count is in the table, or if the
    /// table has no count (0) or the maximum. Reads the word and the count only once, because fork
    /// calls this function for every PTE.
    #[inline]
    pub(in crate::vswap) fn raise_extended(&mut self, off: u32) -> bool {
        if !self.is_extended(off) {
            return false;
        }
        let Some(count) = self.extend_word(off) else {
            return false;
        };
        match count.get() {
            0 | u32::MAX => false,
            now => {
                count.set(now.wrapping_add(1));
                true
            }
        }
    }

    /// Sets the swap count of a slot in the extend table; 0 removes the count. Frees the table when
    /// no count is left in it.
    pub(in crate::vswap) fn set_extended(&mut self, off: u32, count: u32) {
        let Some(word) = self.extend_word(off) else {
            warn_on_once!(true);
            return;
        };
        let nr = &self.cluster().extended.0;
        match (word.replace(count), count) {
            (0, 0) => {}
            (0, _) => nr.set(nr.get().wrapping_add(1)),
            (_, 0) => nr.set(nr.get().wrapping_sub(1)),
            _ => {}
        }
        if nr.get() == 0 {
            drop(self.replace_counts(None));
        }
    }

    /// Installs `table` as the extend table. Frees `table` instead if the cluster has an extend
    /// table already, or has no swap table.
    pub(crate) fn add_extend_table(&mut self, table: ExtendTable) {
        if self.has_words() && !self.can_extend() {
            self.cluster().extended.0.set(0);
            self.replace_counts(Some(table));
        }
    }

    /// Frees the extend table, if there is one, of a cluster without slots in use. Usually
    /// [`Self::set_extended`] has freed it with the last count.
    pub(super) fn drop_counts(&mut self) {
        drop(self.replace_counts(None));
    }

    /// Replaces the extend table, and returns the old one.
    fn replace_counts(&mut self, new: Option<ExtendTable>) -> Option<ExtendTable> {
        let new = new.map_or(null_mut(), |table| ManuallyDrop::new(table).0.as_ptr());
        let old = self.fields().counts.0.replace(new.cast());
        // INVARIANT: The cluster owned the old table, and does not own it any more.
        NonNull::new(old.cast()).map(ExtendTable)
    }

    /// Returns the order of the folios that slots of the cluster are allocated for.
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
        /// Allocates a table. May sleep if `gfp` allows it.
        pub(crate) safe fn alloc(gfp: bindings::gfp_t) -> Option<ExtendTable> = vswap_extend_alloc;
    }

    /// Allocates a table without sleeping.
    pub(crate) fn alloc_atomic() -> Option<Self> {
        Self::alloc(bindings::GFP_ATOMIC)
    }
}
