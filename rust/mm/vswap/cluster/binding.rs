// SPDX-License-Identifier: GPL-2.0

//! The binding of a virtual cluster to a device cluster. Each slot of the device cluster can back
//! the virtual slot with the same index.
//!
//! While a cluster is bound, the bits of its `DeviceMap` say which slots have data on the device.
//! A slot whose bit is set needs no backing word. The device slots of the other slots are *idle*:
//! C counts them as free. Three functions end the binding:
//! [`unbind_in_use`](LockedCluster::unbind_in_use) when C's allocator needs the idle device slots,
//! [`leave_device`](LockedCluster::leave_device) for swapoff, and
//! [`unbind_empty`](LockedCluster::unbind_empty) when the last slot in use was freed.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device::{
            self,
            NewBinding, //
        },
        layout::SWAPFILE_CLUSTER, //
    },
    vswap::{
        cluster::{
            backing_words::OwnedSlots,
            Cluster,
            LockedCluster,
            Tables, //
        },
        cluster_list::ListsGuard,
        device_map::{
            self,
            DeviceMap, //
        },
        slot_map::WORDS,
        swap_table::PhysSlot, //
    },
    warn::warn_on_once,
    zswap::{
        pool::{
            name_bit,
            BackingWord, //
        },
        table::LooseBackingTable, //
    }, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Range, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Release, //
    }, //
};

impl device_map::MapWord for Atomic<u64> {
    #[inline]
    fn load(&self) -> u64 {
        Atomic::load(self, Acquire)
    }

    #[inline]
    fn store(&self, value: u64) {
        Atomic::store(self, value, Release);
    }
}

/// The binding of a cluster, and the bits of the slots with data on the device. Only this file
/// changes the bits, because a set bit owns a device slot.
pub(crate) struct Binding(DeviceMap<Atomic<u64>>);

impl Binding {
    /// Returns the binding of a cluster that is not bound.
    pub(super) const fn none() -> Self {
        Self(DeviceMap::new(
            Atomic::new(0),
            [const { Atomic::new(0) }; WORDS],
        ))
    }

    /// Records a device cluster in the virtual cluster that C has bound it to. Returns false, and
    /// drops `new`, if the virtual cluster is bound already.
    pub(crate) fn record(new: NewBinding<'_>) -> bool {
        let recorded = new.owner().device().bind(new.first());
        if recorded {
            // The virtual cluster keeps the device cluster, so `new` is not dropped.
            let _ = ManuallyDrop::new(new);
        }
        recorded
    }
}

/// Bits of a bound cluster that were just set.
///
/// # Invariants
///
/// The lock of the cluster is held during `'l`, and the cluster is bound to the device cluster
/// that begins with `first`. The bits of `nr` slots were just set, and were clear before. C still
/// counts the device slots of these slots as idle.
#[must_use]
pub(crate) struct SetBits<'l> {
    first: PhysSlot,
    nr: u32,
    _lock: PhantomData<&'l ()>,
}

impl SetBits<'_> {
    /// Returns the first slot of the device cluster, and the number of bits.
    #[inline]
    pub(crate) fn into_parts(self) -> (PhysSlot, u32) {
        (self.first, self.nr)
    }
}

/// Bits of a bound cluster that were just cleared.
///
/// # Invariants
///
/// The lock of the cluster is held during `'l`, and the cluster is bound to the device cluster
/// that begins with `first`. The value owns `nr` slots of the device cluster, from index `at` on.
/// Bits owned these device slots until they were cleared. No I/O uses the device slots.
#[must_use]
pub(crate) struct ClearedBits<'l> {
    first: PhysSlot,
    at: u32,
    nr: u32,
    _lock: PhantomData<&'l ()>,
}

impl ClearedBits<'_> {
    /// Returns the first slot of the device cluster, the index of the first device slot that the
    /// value owns, and the number of these device slots. If the caller does not make them idle,
    /// they are leaked.
    #[inline]
    pub(crate) fn into_parts(self) -> (PhysSlot, u32, u32) {
        (self.first, self.at, self.nr)
    }
}

/// The backing word of a slot whose bit owns a device slot.
///
/// # Invariants
///
/// The lock of the cluster is held during `'l`. `word` is the backing word of a slot, whose bit
/// owns the device slot `device`. The holder of the lock clears the bit before it unlocks.
#[must_use]
pub(crate) struct BitWord<'l> {
    word: &'l BackingWord,
    device: PhysSlot,
}

impl<'l> BitWord<'l> {
    /// Returns the word and the device slot.
    #[inline]
    pub(crate) fn into_parts(self) -> (&'l BackingWord, PhysSlot) {
        (self.word, self.device)
    }
}

/// A binding that the virtual cluster has ended, and that C has not ended yet.
///
/// # Invariants
///
/// The lock of the virtual cluster is held during `'l`. The virtual cluster begins at `offset`,
/// and was bound to the device cluster that begins with `first`. No bit of the virtual cluster is
/// set any more. For each slot in `bits`, the backing word owns the device slot, or the device
/// slot is leaked because the word was corrupt or missing. If `bits` has a slot, there are tables.
#[must_use]
pub(crate) struct EndedBinding<'l> {
    first: PhysSlot,
    offset: usize,
    bits: [u64; WORDS],
    tables: Option<Tables>,
    _lock: PhantomData<&'l ()>,
}

impl EndedBinding<'_> {
    /// Returns the first slot of the device cluster, and the offset of the virtual cluster.
    pub(crate) fn binding(&self) -> (PhysSlot, usize) {
        (self.first, self.offset)
    }

    /// Returns a bit for each slot, set for those with data on the device.
    pub(crate) fn bits(&self) -> &[u64; WORDS] {
        &self.bits
    }

    /// Returns the tables that the device cluster takes over. Returns `None` if there are none,
    /// because no slot has data on the device.
    pub(crate) fn tables(&self) -> Option<&Tables> {
        self.tables.as_ref()
    }
}

impl Cluster {
    /// Returns true if the cluster is bound. Does not take the lock.
    #[inline]
    pub(super) fn is_bound(&self) -> bool {
        self.shared().device.0.is_bound()
    }

    /// Returns true if the bit of a slot is set: the slot has data on the bound device cluster.
    /// Does not take the lock.
    #[inline]
    pub(crate) fn has_bit(&self, off: u32) -> bool {
        self.shared().device.0.has(off)
    }

    /// Returns the device slot that has the data of a slot, if its bit is set. Does not take the
    /// lock: see [`DeviceMap::find`].
    #[inline]
    pub(crate) fn find_device(&self, off: u32) -> Option<PhysSlot> {
        self.shared().device.0.find(off)
    }

    /// Returns the device slot that has the data of the first slot of a range, if the bits of all
    /// its slots are set. Does not take the lock: see [`DeviceMap::find`].
    #[inline]
    pub(crate) fn find_run(&self, slots: &Range<u32>) -> Option<PhysSlot> {
        self.shared()
            .device
            .0
            .find_run(slots.start, slots.len() as u32)
    }

    /// Returns the first slot of the bound device cluster, if any. Does not take the lock.
    #[inline]
    pub(crate) fn peek_binding(&self) -> Option<PhysSlot> {
        self.shared().device.0.binding()
    }

    /// Returns true if the bound device cluster has an idle slot, one without data. Takes no lock.
    pub(crate) fn peek_idle(&self) -> bool {
        self.is_bound() && self.shared().device.0.count() < SWAPFILE_CLUSTER
    }

    /// Returns the first slot at or after `from` with data on the device cluster that begins with
    /// `first`. Returns `None` if the cluster is not bound to that device cluster, or if no such
    /// slot has data. Does not take the lock.
    pub(crate) fn peek_next_on(&self, first: PhysSlot, from: u32) -> Option<u32> {
        if self.peek_binding() != Some(first) {
            return None;
        }
        self.shared().device.0.next(from)
    }
}

impl OwnedSlots<'_> {
    /// If the cluster is bound, takes the device slots with the same indices as these slots into
    /// use. The slots have no backing yet. Returns false, and changes nothing, if the cluster is
    /// not bound, if a device slot is not idle, or if swapoff of the device has begun.
    // Inlined, so that the compiler drops the loops for a folio of one page.
    #[inline(always)]
    pub(super) fn take_device(self) -> bool {
        let map = self.cluster().device();
        let Some(first) = map.binding() else {
            return false;
        };
        let (start, nr) = self.run();
        if !map.set(start, nr) {
            return false;
        }
        // INVARIANT: The cluster is locked and bound. `DeviceMap::set()` found the bits clear and
        // has set them, so C still counts the device slots as idle.
        let taken = device::take_bound(SetBits {
            first,
            nr,
            _lock: PhantomData,
        });
        if !taken {
            map.clear(start, nr, |_, _| {});
        }
        taken
    }

    /// If the cluster is bound, makes the device slots of these slots idle. Returns how many of
    /// these slots had data on the device. Does not uncharge them.
    #[inline]
    pub(super) fn idle(self) -> u32 {
        let map = self.cluster().device();
        let Some(first) = map.binding() else {
            return 0;
        };
        let (start, nr) = self.run();
        map.clear(start, nr, |at, len| {
            // INVARIANT: By the invariants of `Cluster`, the bits owned the device slots until
            // `DeviceMap::clear()` cleared the bits. `ci->lock` is held, so no other task ends the
            // binding. By the invariants of `OwnedSlots`, no I/O uses the device slots.
            device::idle_bound(ClearedBits {
                first,
                at,
                nr: len,
                _lock: PhantomData,
            });
        })
    }
}

impl LockedCluster<'_> {
    #[inline]
    fn device(&self) -> &'static DeviceMap<Atomic<u64>> {
        &self.cluster().shared().device.0
    }

    /// Binds the cluster, which has no slot in use, to a free cluster of the device of type `ty`.
    /// Returns false if the device has none that C can lock without waiting, or if swapoff of the
    /// device has begun. Warns and returns false if the cluster is bound already.
    pub(crate) fn bind(&mut self, ty: u8) -> bool {
        // Check this before C binds a second device cluster, because no task would end the second
        // binding.
        if warn_on_once!(self.cluster().is_bound()) {
            return false;
        }
        device::bind(ty, self).is_some_and(Binding::record)
    }

    /// Ends the binding. If a slot has data on the device, warns and keeps the binding instead.
    pub(super) fn unbind_empty(&mut self) {
        self.unbind(None);
    }

    /// Ends the binding. Slots with data on the device get backing words, and their device slots
    /// get reverse map words in `tables`, which the device cluster takes over. Without `tables`,
    /// warns and keeps the binding if a slot has data on the device.
    fn unbind(&mut self, tables: Option<Tables>) {
        // Without reverse map words, C's allocator could give the device slots to another task,
        // which would overwrite the data.
        if warn_on_once!(tables.is_none() && self.device().count() != 0) {
            return;
        }
        let mut bits = [0u64; WORDS];
        let first = self.device().unbind(|slot, place| {
            if let Some(word) = self.backing_word(slot) {
                // INVARIANT: The cluster is locked. By the invariants of `Cluster`, the bit of the
                // slot owns the device slot. `DeviceMap::unbind()` clears the bit next.
                name_bit(BitWord {
                    word,
                    device: place,
                });
            }
            if let Some(word) = bits.get_mut((slot / u64::BITS) as usize) {
                *word |= 1u64.wrapping_shl(slot);
            }
        });
        let Some(first) = first else {
            return;
        };
        // INVARIANT: By the invariants of `Cluster`, the device cluster was bound to this cluster,
        // whose lock is held. `DeviceMap::unbind()` has cleared the bits. `name_bit()` has written
        // the backing words of the slots in `bits`, unless a word is missing, or `name_bit()` has
        // warned of a corrupt word. If `bits` has a slot, there are tables, as checked above.
        device::end_binding(EndedBinding {
            first,
            offset: self.cluster().first(),
            bits,
            tables,
            _lock: PhantomData,
        });
    }

    /// Ends the binding to the device of type `ty`, which swapoff turns off. Does nothing if the
    /// cluster is not bound to that device. If a slot still has data on the device, warns, keeps
    /// the binding and returns `EBUSY`. swapoff then fails.
    pub(crate) fn leave_device(&mut self, ty: u8) -> Result {
        if self.cluster().peek_binding().map(PhysSlot::ty) == Some(ty) {
            self.unbind_empty();
            if self.cluster().is_bound() {
                return Err(EBUSY);
            }
            ListsGuard::lock().retire(self);
        }
        Ok(())
    }

    /// Ends the binding, so that the idle slots of the device cluster become free. If slots have
    /// data on the device, consumes `memory`, and writes their backing words. Returns false, and
    /// keeps the binding, if the cluster is not bound, or if slots have data and the memory or the
    /// reservation of their words is missing.
    pub(crate) fn unbind_in_use(&mut self, memory: &mut Option<UnbindMemory>) -> bool {
        let nr = self.device().count();
        if !self.cluster().is_bound() {
            return false;
        }
        if nr == 0 {
            self.unbind_empty();
            ListsGuard::lock().retire(self);
            return true;
        }
        let Some(UnbindMemory { table, words }) = memory.take() else {
            return false;
        };
        self.table().give(table);
        // Count the backing words as in use now, because `unbind()` writes them without counting.
        if self.reserve(nr).is_none() {
            return false;
        }
        self.unbind(Some(words));
        ListsGuard::lock().retire(self);
        true
    }
}

/// The memory that ending a binding needs: a table of backing words, and tables for the device
/// cluster.
pub(crate) struct UnbindMemory {
    table: LooseBackingTable,
    words: Tables,
}

impl UnbindMemory {
    /// Allocates the backing table and the tables of the device cluster. Returns `None` without
    /// memory. May sleep.
    pub(crate) fn alloc() -> Option<Self> {
        // Allocate the device cluster's tables first, without emergency reserves. If that fails,
        // no backing table has been taken from the reserves in vain. It would return to them only
        // after an RCU grace period.
        let words = Tables::alloc(bindings::VSWAP_GFP_DEVICE_TABLE, false).ok()?;
        Some(Self {
            table: LooseBackingTable::alloc_uncharged()?,
            words,
        })
    }
}
