// SPDX-License-Identifier: GPL-2.0

//! The backing words of a cluster: which zswap entry or device slot backs a slot.
//!
//! Only `zswap::pool` writes the words. zswap calls it to store or free a page. This file and
//! `binding` call it to name a device slot in a word, or to clear a word. Others change only the
//! place and the referenced bit of a word: see the locking in `cluster`. Before a device slot is
//! named in a word that is not in use, the word is reserved ([`ReservedWords`]), so that writing it
//! needs no memory. A slot that a bound device cluster backs needs no word: see `binding`.

#![forbid(unsafe_code)]

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use crate::ffi::device;
use crate::{
    ffi::{
        device::DeviceSlots,
        layout::SWAPFILE_CLUSTER,
        vswap::SwapCharge,
        zsmalloc::ObjectName, //
    },
    vswap::{
        cluster::{
            alloc::FreeRun,
            decode_backing,
            Cluster,
            LockedCluster,
            LockedSlots,
            Unpinned, //
        },
        swap_table::Backing, //
    },
    warn::warn_on_once,
    zswap::{
        pool::{
            BackingWord,
            FreeBatch,
            OldWord,
            ZswapCharge, //
        },
        record::Record,
        table::{
            BackingWords,
            LockedCi,
            LockedSpan,
            LooseBackingTable,
            ReservedWords, //
        }, //
    }, //
};

/// The key that lets only the files of `cluster/` take over the swap charge of slots. They do so
/// for slots that have just lost their zero flag or their device slot.
pub(crate) struct SlotChargeKey(());

pub(super) const CHARGE_KEY: SlotChargeKey = SlotChargeKey(());

/// Consecutive slots of a locked cluster, and the right to change their backing.
///
/// # Invariants
///
/// The task that holds `ci->lock` may change the backing of the slots: it has the right to them
/// (see [`crate::ffi::folio`]), is freeing them, or is taking them into use. No I/O uses their
/// device slots.
#[derive(Clone, Copy)]
pub(super) struct OwnedSlots<'a> {
    cluster: &'a LockedCluster<'a>,
    start: u32,
    nr: u32,
}

impl<'a> OwnedSlots<'a> {
    /// Returns the slots of a free run that is about to be taken into use.
    #[inline]
    pub(super) fn of_free(run: &FreeRun<'a>) -> Self {
        let (cluster, start, nr) = run.parts();
        // INVARIANT: By the invariants of `FreeRun`, the slots are free, and the task that holds
        // the lock takes them into use. By the invariants of `Cluster`, free slots have no
        // backing, so they have no device slots that I/O could use.
        Self { cluster, start, nr }
    }

    /// Returns the slots of a folio.
    #[inline]
    pub(super) fn of_folio(slots: &'a LockedSlots<'_>) -> Self {
        let (cluster, start, nr) = slots.parts();
        // INVARIANT: By the invariants of `LockedSlots`, the cluster is locked. By those of
        // `FolioSlots`, the folio lock gives the right to the slots, and no I/O uses their device
        // slots.
        Self { cluster, start, nr }
    }

    /// Returns slots that are about to be freed.
    #[inline]
    pub(super) fn of_unpinned(slots: &'a Unpinned<'_>) -> Self {
        let (cluster, start, nr) = slots.parts();
        // INVARIANT: By the invariants of `Unpinned`, the swap cache has no folio for the slots,
        // the owner of `slots` frees them, and no I/O uses their device slots.
        Self { cluster, start, nr }
    }

    /// Returns `nr` of the slots, from `start` on. Warns and returns `None` if one of these is not
    /// among the slots of `self`.
    // Inlined, because the compiler drops the check where it sees that these are all slots.
    #[inline(always)]
    pub(super) fn part(self, start: u32, nr: u32) -> Option<Self> {
        let end = self.start.wrapping_add(self.nr);
        if warn_on_once!(start < self.start || start.saturating_add(nr) > end) {
            return None;
        }
        // INVARIANT: The slots are among those of `self`, as just checked, so the invariants hold
        // for them, too.
        Some(Self { start, nr, ..self })
    }

    /// Returns the locked cluster.
    pub(super) fn cluster(self) -> &'a LockedCluster<'a> {
        self.cluster
    }

    /// Returns the first slot and the number of slots.
    #[inline]
    pub(super) fn run(self) -> (u32, u32) {
        (self.start, self.nr)
    }

    /// Returns the backing words of the slots. Returns `None` if the cluster has no table of
    /// backing words.
    #[inline(always)]
    fn words(self) -> Option<impl Iterator<Item = OwnedWord<'a>>> {
        let Self { cluster, start, nr } = self;
        let range = start as usize..start.wrapping_add(nr) as usize;
        let words = cluster.backings()?.0.get(range)?;
        // INVARIANT: `word` is the backing word of slot `off`, which is one of `self`.
        Some(
            (start..)
                .zip(words)
                .map(move |(off, word)| OwnedWord { cluster, off, word }),
        )
    }

    /// Clears the backing words of the slots. Calls `f` for each slot with the next item of
    /// `with`, the slot, and the backing that its word named. Frees zswap entries by way of
    /// `freed`. Returns `None`, and does not call `f`, if the cluster has no table of backing
    /// words.
    #[inline(always)]
    pub(super) fn take_words<T>(
        self,
        with: impl Iterator<Item = T>,
        freed: &mut FreeBatch,
        mut f: impl FnMut(T, u32, Option<Backed>),
    ) -> Option<ClearedWords> {
        let (mut nr_backed, mut any_entry) = (0u32, false);
        for (word, item) in self.words()?.zip(with) {
            let backed = freed.take(&word, None);
            nr_backed = nr_backed.wrapping_add(backed.is_some().into());
            any_entry |= matches!(backed, Some(Backed::Zswap(_)));
            f(item, word.off, backed);
        }
        // INVARIANT: `nr_backed` words were in use, and were just cleared. They are still counted.
        Some(ClearedWords {
            cluster: self.cluster.cluster(),
            slots: (self.start, self.nr),
            nr_backed,
            any_entry,
        })
    }

    /// Makes device slots the backing of the slots, and consumes the reservation of their backing
    /// words. If the device slots or the reserved words do not fit the slots, or if a slot has a
    /// backing, returns both as `Err`.
    pub(super) fn name(
        self,
        mut devices: DeviceSlots,
        reserved: ReservedWords,
    ) -> Result<(), (DeviceSlots, ReservedWords)> {
        let Self { cluster, nr, .. } = self;
        let fits = devices.nr() == nr
            && cluster.with_table(|table| table.has_reserved(&reserved, nr))
            && !self.is_backed();
        let Some(words) = self.words().filter(|_| fits) else {
            return Err((devices, reserved));
        };
        let mut freed = FreeBatch::new();
        for word in words {
            freed.take(&word, Some(&mut devices));
        }
        Ok(())
    }

    /// Replaces the zswap entry that backs the only slot by a device slot, and frees the entry by
    /// way of `freed`. Returns the zswap charge. The caller removes the slot from zswap's
    /// writeback order ([`LockedCi::forget`]). If no zswap entry backs the slot, or if there
    /// are several slots, returns the device slot as `Err`.
    #[inline]
    pub(super) fn exchange(
        self,
        mut device: DeviceSlots,
        freed: &mut FreeBatch,
    ) -> Result<ZswapCharge, DeviceSlots> {
        let fits = self.nr == 1 && device.nr() == 1;
        let word = self.words().and_then(|mut words| words.next());
        let Some(word) = word.filter(|word| fits && Record::is_tag(word.word.load())) else {
            return Err(device);
        };
        match freed.take(&word, Some(&mut device)) {
            Some(Backed::Zswap(stored)) => Ok(stored),
            _ => Err(device),
        }
    }

    /// Returns true if any of the slots has a backing.
    #[inline]
    pub(super) fn is_backed(self) -> bool {
        // Most folios have one slot. This test lets the compiler drop the loop for them.
        if self.nr == 1 {
            return self.cluster.is_backed(self.start);
        }
        (self.start..self.start.wrapping_add(self.nr)).any(|off| self.cluster.is_backed(off))
    }
}

/// The backing word of a slot of a locked cluster, and the right to change it.
///
/// # Invariants
///
/// `word` is the backing word of slot `off`, for which the invariants of [`OwnedSlots`] hold.
pub(crate) struct OwnedWord<'a> {
    cluster: &'a LockedCluster<'a>,
    off: u32,
    word: &'a BackingWord,
}

impl<'a> OwnedWord<'a> {
    /// Returns the word of the slot, and the name that zsmalloc has for the slot's object.
    #[inline]
    pub(crate) fn parts(&self) -> (&'a BackingWord, ObjectName) {
        (self.word, self.cluster.name(self.off))
    }

    /// Reads the word.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        self.word.load()
    }

    /// Returns the offset of the slot.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.cluster.offset(self.off)
    }
}

/// The number of words of consecutive slots that were cleared, for [`LockedCluster::count_taken`].
/// Dropping the value leaks the table of backing words, unless the number is 0.
///
/// # Invariants
///
/// `nr_backed` words of the slots were in use. They were cleared, and the count of words in use
/// still includes them.
#[must_use]
pub(crate) struct ClearedWords {
    cluster: &'static Cluster,
    slots: (u32, u32),
    nr_backed: u32,
    any_entry: bool,
}

impl ClearedWords {
    /// Returns the cluster, and the number of its words that were cleared. If the caller does not
    /// subtract this number from the count of words in use, the table of backing words is leaked.
    #[inline]
    pub(crate) fn into_parts(self) -> (&'static Cluster, u32) {
        (self.cluster, self.nr_backed)
    }
}

/// The device slot that backed a slot until a store to zswap, and the swap charge of the slot.
/// Dropping the value frees the device slot, and leaks the charge.
#[must_use]
pub(crate) struct ReplacedDevice {
    // `None` for the device slot of a bound device cluster, which is idle already.
    device: Option<DeviceSlots>,
    charge: SwapCharge,
}

impl ReplacedDevice {
    /// Uncharges the device slot, and frees it.
    #[inline]
    pub(crate) fn free(self) {
        self.charge.uncharge();
        drop(self.device);
    }
}

/// Removes the device slot that backed the first slot of `span` until a store to zswap. `old` is
/// the backing word that the store has replaced. Returns `None` if no device slot backed the slot.
#[inline]
pub(crate) fn take_replaced(span: &mut LockedSpan<'_>, old: OldWord) -> Option<ReplacedDevice> {
    let (mut table, off) = span.first();
    // For a slot of a device cluster, return `None`. Its word names no device slot, unless the
    // word is corrupt.
    let cluster = LockedCluster::of(&mut table)?;
    // INVARIANT: The slot was charged, because a device slot backed it until now.
    let replaced = |device| ReplacedDevice {
        device,
        charge: SwapCharge::of_slots(cluster.id(off), 1, CHARGE_KEY),
    };
    if old.get() != 0 && !old.was_stored() {
        let device = DeviceSlots::of_word(old, cluster.offset(off))?;
        return Some(replaced(Some(device)));
    }
    // INVARIANT: By the invariants of `LockedSpan`, the cluster is locked, the task has the right
    // to the slot, and no I/O uses the slot's device slot.
    let slot = OwnedSlots {
        cluster: &cluster,
        start: off,
        nr: 1,
    };
    (slot.idle() != 0).then(|| replaced(None))
}

/// Returns true if a cluster keeps its table of backing words although no word is in use. A
/// virtual cluster does while it has a free slot, because the next slot to be allocated may need a
/// word.
#[inline]
pub(crate) fn keeps_table(table: &LockedCi<'_>) -> bool {
    Cluster::of(table).is_some_and(|cluster| cluster.peek_used() < SWAPFILE_CLUSTER)
}

/// A backing that was removed from a slot.
pub(crate) enum Backed {
    /// A zswap entry, which was freed. The caller uncharges it.
    Zswap(ZswapCharge),
    /// A device slot that the backing word named. Dropping the value frees the slot.
    Device(DeviceSlots),
    /// The device slot of a bound device cluster. It is idle already, or becomes idle before the
    /// cluster is unlocked.
    Bound,
}

/// Where the page of a slot can be read synchronously.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) enum ClaimSource {
    /// The page is stored nowhere, because it is all zeros.
    Zeros,
    /// The page is in zswap.
    Zswap,
    /// The page is on a device with synchronous I/O, such as zram.
    Device,
}

impl LockedCluster<'_> {
    /// Returns true if a slot has a backing.
    #[inline]
    pub(super) fn is_backed(&self, off: u32) -> bool {
        self.cluster().has_bit(off) || self.backing_word(off).is_some_and(|word| word.load() != 0)
    }

    /// Returns the backing of a slot. For a corrupt backing word, warns and returns
    /// [`Backing::None`].
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

    /// Returns true if the backing word of a slot has the tag of a [`Record`]. Does not check the
    /// rest of the word.
    #[inline]
    pub(crate) fn has_record(&self, off: u32) -> bool {
        self.backing_word(off)
            .is_some_and(|word| Record::is_tag(word.load()))
    }

    /// Returns where the page of a slot can be read synchronously, if anywhere. `zero` is the zero
    /// flag of the slot.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(crate) fn claim_source(&self, off: u32, zero: bool) -> Option<ClaimSource> {
        // Test the tag first: a full decode would cost each fault from zswap 95 instructions.
        if self.has_record(off) {
            return Some(ClaimSource::Zswap);
        }
        match self.backing(off) {
            Backing::Phys(slot) => device::is_fast(slot.ty().into()).then_some(ClaimSource::Device),
            Backing::Zswap(_) => Some(ClaimSource::Zswap),
            Backing::None => zero.then_some(ClaimSource::Zeros),
        }
    }

    #[inline]
    pub(super) fn backing_word(&self, off: u32) -> Option<&BackingWord> {
        self.backings()?.0.get(off as usize)
    }

    #[inline]
    pub(super) fn backings(&self) -> Option<&BackingWords> {
        LockedCi::words_of(self)
    }

    /// Returns access to the table of backing words, and to the memory cgroup ids. The cluster may
    /// have neither.
    #[inline]
    pub(super) fn table(&mut self) -> LockedCi<'_> {
        LockedCi::of(self)
    }

    /// Calls `f` with read access to the same tables as [`Self::table`].
    #[inline]
    pub(super) fn with_table<R>(&self, f: impl FnOnce(&LockedCi<'_>) -> R) -> R {
        LockedCi::with(self, f)
    }

    /// Returns the number of slots that have a backing word, or a reserved one.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn nr_backed(&self) -> u32 {
        self.with_table(|table| table.nr())
    }

    /// Returns true if zswap's writeback order has exactly the zswap entries of the cluster.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn order_agrees(&self) -> bool {
        self.with_table(|table| table.agrees())
    }

    /// Returns true if any slot has a backing word, or a reserved one.
    #[inline]
    pub(crate) fn any_backed(&self) -> bool {
        self.with_table(|table| table.nr()) != 0
    }

    /// Reserves backing words for `nr` slots, so that backing them later needs no memory. Returns
    /// `None` if the cluster has no table of backing words, or if too many words are reserved
    /// already.
    #[inline]
    pub(crate) fn reserve(&mut self, nr: u32) -> Option<ReservedWords> {
        self.table().reserve_words(nr)
    }

    /// Releases reserved backing words that were not used. Frees the table of backing words if
    /// no word is left in use or reserved, unless the cluster keeps it.
    #[inline]
    pub(crate) fn unreserve(&mut self, reserved: ReservedWords) {
        self.table().take_back(reserved);
    }

    /// Installs `table` as the table of backing words. Frees `table` instead if the cluster has
    /// one.
    pub(crate) fn add_backing_table(&mut self, table: LooseBackingTable) {
        self.table().give(table);
    }

    /// Returns the name of a slot's object in zsmalloc.
    #[inline]
    fn name(&self, off: u32) -> ObjectName {
        ObjectName::of_virtual(self.cluster().first()).add(off)
    }

    /// Returns the offset of a slot.
    #[inline]
    pub(crate) fn offset(&self, off: u32) -> usize {
        self.cluster().first().wrapping_add(off as usize)
    }

    /// Subtracts words that were cleared from the number of words in use. Frees the table of
    /// backing words if no word is left in use or reserved, unless the cluster keeps it: see
    /// [`keeps_table`].
    #[inline(always)]
    pub(super) fn count_taken(&mut self, taken: ClearedWords) {
        let (start, nr) = taken.slots;
        // The compiler drops this check where it sees both sides. Words of another cluster are not
        // subtracted, so `LockedCi::free()` warns and leaks their table.
        if !core::ptr::eq(taken.cluster, self.cluster()) {
            return;
        }
        if taken.any_entry {
            self.table().forget(start, nr);
        }
        if taken.nr_backed != 0 {
            self.table().sub(taken);
        }
    }
}
