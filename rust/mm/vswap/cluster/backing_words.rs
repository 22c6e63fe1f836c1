// SPDX-License-Identifier: GPL-2.0

//! The backing words of a cluster: which zswap entry or device slot backs a slot.
//!
//! zswap writes a word when it stores a page, and this file when a page goes to a device. The owner
//! of the page reserves the word before ([`Promise`]), so that writing it needs no memory. A slot
//! with data on a bound device cluster needs no word: see `binding`.

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use crate::ffi::device;
use crate::{
    ffi::{
        call::FromC,
        device::DeviceSlots,
        layout::SWAPFILE_CLUSTER,
        zsmalloc::Name, //
    },
    vswap::{
        cluster::{
            binding::idle_replaced,
            decode_backing,
            Cluster,
            LockedCluster, //
        },
        swap_table::Backing, //
    },
    zswap::{
        pool::{
            FreeBatch,
            Word, //
        },
        record::{
            Record,
            Sum, //
        },
        table::{
            LockedTable,
            NewTable,
            Promise,
            Words, //
        }, //
    }, //
};
use core::ptr::NonNull;
use kernel::bindings;

/// Returns the device slot that the backing word of the virtual slot at `offset` named. `None`: the
/// word was corrupt.
///
/// # Safety
///
/// The caller has locked the cluster of the slot, and has just replaced its word `old`, which named
/// no stored page. No I/O uses the device slot that `old` named.
#[inline]
unsafe fn device_slot(old: u64, offset: usize) -> Option<Backed> {
    let Backing::Phys(slot) = decode_backing(old) else {
        return None;
    };
    // SAFETY: By the invariants of `Word`, the word owned the device slot until the caller replaced
    // it. So no other value or word names the device slot now. As required of the caller, the
    // cluster is locked, and no I/O uses the device slot.
    let slot = unsafe { DeviceSlots::from_word(slot, offset) };
    slot.map(Backed::Device)
}

/// Returns the virtual cluster of a table, or `None` for the table of a device cluster.
#[inline]
fn cluster_of(table: &LockedTable<'_>) -> Option<&'static Cluster> {
    let ci = table.as_ci();
    // SAFETY: By the invariants of `LockedTable`, the cluster is valid and locked. Only a virtual
    // cluster has this value in `flags`.
    unsafe {
        let is_virtual = (*ci.as_ptr()).flags == bindings::VSWAP_CLUSTER_FLAG as u8;
        is_virtual.then(|| FromC::from_c(ci))
    }
}

/// Takes the device slot that backed a slot before a store to zswap replaced the word `old` of the
/// slot.
///
/// # Safety
///
/// The caller has the right to the slot, and has just replaced its word `old`. A stored page that
/// `old` named was freed. No I/O uses the device slot of the slot.
#[inline]
pub(crate) unsafe fn take_replaced(
    table: &mut LockedTable<'_>,
    off: u32,
    old: u64,
) -> Option<Backed> {
    if old != 0 && !Record::is_tag(old) {
        // The word of a device cluster is corrupt if it names a device slot.
        let offset = cluster_of(table)?.first().wrapping_add(off as usize);
        // SAFETY: By the invariants of `LockedTable`, the cluster is locked. As required of the
        // caller, it has just replaced `old`, which names no stored page, and no I/O uses the
        // device slot.
        return unsafe { device_slot(old, offset) };
    }
    // SAFETY: As required of the caller, it has the right to the slot, and no I/O uses the device
    // slot.
    let idle = unsafe { idle_replaced(table, off) };
    idle.then_some(Backed::Bound)
}

/// Returns true if a cluster keeps its table of backing words although no word is in use. A virtual
/// cluster does while it has a free slot, because the next slot to be allocated may need a word.
#[inline]
pub(crate) fn keeps_table(table: &LockedTable<'_>) -> bool {
    cluster_of(table).is_some_and(|cluster| cluster.peek_used() < SWAPFILE_CLUSTER)
}

/// The backing that was removed from a slot.
pub(crate) enum Backed {
    /// A zswap entry, which was freed. The caller uncharges it.
    Zswap(Sum),
    /// A device slot that the backing word named. Dropping the value frees the slot.
    Device(DeviceSlots),
    /// The device slot of a slot of a bound cluster. It becomes idle before the unlock.
    Bound,
}

/// Where the page of a slot can be read synchronously.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) enum AtHand {
    /// Stored nowhere: the page is all zeros.
    Zeros,
    /// In zswap.
    Zswap,
    /// On a device with synchronous I/O, such as zram.
    Device,
}

impl LockedCluster<'_> {
    /// Returns true if a slot has a backing.
    #[inline]
    pub(super) fn is_backed(&self, off: u32) -> bool {
        self.cluster().has_bit(off) || self.backing_word(off).is_some_and(|word| word.load() != 0)
    }

    /// Returns the backing of a slot.
    #[inline]
    pub(crate) fn backing(&self, off: u32) -> Backing {
        if let Some(slot) = self.cluster().find_device(off) {
            return Backing::Phys(slot);
        }
        match self.backing_word(off) {
            Some(word) => decode_backing(word.load()),
            None => Backing::None,
        }
    }

    /// Returns where the page of a slot can be read synchronously, if anywhere. `zero` is the zero
    /// flag of the slot.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(crate) fn at_hand(&self, off: u32, zero: bool) -> Option<AtHand> {
        // Test the tag first: a full decode would cost each fault from zswap 95 instructions.
        if self
            .backing_word(off)
            .is_some_and(|word| Record::is_tag(word.load()))
        {
            return Some(AtHand::Zswap);
        }
        match self.backing(off) {
            Backing::Phys(slot) => device::is_fast(slot.ty().into()).then_some(AtHand::Device),
            Backing::Zswap(_) => Some(AtHand::Zswap),
            Backing::None => zero.then_some(AtHand::Zeros),
        }
    }

    #[inline]
    pub(super) fn backing_word(&self, off: u32) -> Option<&Word> {
        self.backings()?.0.get(off as usize)
    }

    #[inline]
    pub(super) fn backings(&self) -> Option<&Words> {
        // SAFETY: The table changes under the lock only, which is held by the invariants.
        unsafe {
            (*self.cluster().ci.get())
                .zswap
                .as_ref()?
                .words
                .cast::<Words>()
                .as_ref()
        }
    }

    /// Returns the table of backing words.
    #[inline]
    pub(super) fn table(&mut self) -> LockedTable<'_> {
        // SAFETY: `ci->lock` is held while `self` is borrowed, and `self` cannot be used meanwhile.
        unsafe { LockedTable::from_c(NonNull::from(&self.cluster().ci).cast()) }
    }

    /// Calls `f` with the table of backing words.
    #[inline]
    pub(super) fn with_table<R>(&self, f: impl FnOnce(&LockedTable<'_>) -> R) -> R {
        // SAFETY: `ci->lock` is held while `self` is borrowed. `f` gets a shared reference only.
        f(&unsafe { LockedTable::from_c(NonNull::from(&self.cluster().ci).cast()) })
    }

    /// Returns the number of slots that have a backing word, or the promise of one.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn nr_backed(&self) -> u32 {
        self.with_table(|table| table.nr())
    }

    /// Returns true if zswap's writeback order has exactly the zswap entries of the cluster.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn order_agrees(&self) -> bool {
        self.with_table(|table| table.agrees())
    }

    /// Returns true if any slot has a backing word, or the promise of one.
    #[inline]
    pub(crate) fn any_backed(&self) -> bool {
        self.with_table(|table| table.nr()) != 0
    }

    /// Reserves backing words for `nr` slots, so that backing them later needs no memory. `None` if
    /// the cluster has no table of backing words, or if too many words are reserved already.
    #[inline]
    pub(crate) fn reserve(&mut self, nr: u32) -> Option<Promise> {
        self.table().promise(nr)
    }

    /// Releases a promise of backing words that was not used.
    #[inline]
    pub(crate) fn unreserve(&mut self, promise: Promise) {
        self.table().take_back(promise);
    }

    /// Installs `table` as the table of backing words, unless the cluster has one.
    pub(crate) fn add_backing_table(&mut self, table: NewTable) {
        self.table().give(table);
    }

    /// Returns the name of a slot's object in zsmalloc.
    #[inline]
    pub(super) fn name(&self, off: u32) -> Name {
        Name::of_virtual(self.cluster().first()).add(off)
    }

    /// Clears the backing word of a slot, and returns the backing that the word named. Adds a zswap
    /// entry to `freed`.
    ///
    /// # Safety
    ///
    /// `word` is the backing word of the slot, which the caller has the right to. No I/O uses its
    /// device slot.
    #[inline]
    pub(super) unsafe fn take_word(
        &self,
        off: u32,
        word: &Word,
        freed: &mut FreeBatch,
    ) -> Option<Backed> {
        let value = word.load();
        if value == 0 {
            return None;
        }
        if Record::is_tag(value) {
            let mut sum = Sum::NONE;
            // SAFETY: `word` belongs to the slot, which the caller has the right to, as required.
            // The cluster is locked, by the invariants of `LockedCluster`.
            unsafe { freed.take(word, self.name(off), 0, &mut sum) };
            return Some(Backed::Zswap(sum));
        }
        // SAFETY: The cluster is locked, by the invariants of `LockedCluster`. The word names no
        // object, and the device slot that it names is taken over below.
        unsafe { word.set(0) };
        let offset = self.cluster().first().wrapping_add(off as usize);
        // SAFETY: The cluster is locked. The word `value`, which names no stored page, was just
        // cleared. As required of the caller, no I/O uses the device slot.
        unsafe { device_slot(value, offset) }
    }
}
