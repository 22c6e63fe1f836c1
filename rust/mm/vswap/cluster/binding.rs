// SPDX-License-Identifier: GPL-2.0

//! The binding of a cluster to a device cluster, whose slot with the same index backs a slot.
//!
//! While a cluster is bound, the bits of its `DeviceMap` say which slots have data on the device.
//! These slots need no backing word. [`scatter`](LockedCluster::scatter) ends the binding when
//! other slots need the idle device slots, [`leave_device`](LockedCluster::leave_device) for
//! swapoff, and [`unbind_idle`](LockedCluster::unbind_idle) when the last slot is free.

use crate::{
    ffi::{
        call::FromC,
        layout::SWAPFILE_CLUSTER, //
    },
    vswap::{
        bound::{
            self,
            DeviceMap, //
        },
        cluster::{
            create::Tables,
            Cluster,
            LockedCluster, //
        },
        cluster_list::Lists,
        slot_map::WORDS,
        swap_table::{
            Backing,
            PhysSlot, //
        }, //
    },
    warn::warn_on_once,
    zswap::table::{
        LockedTable,
        NewTable, //
    }, //
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

impl bound::Word for Atomic<u64> {
    #[inline]
    fn load(&self) -> u64 {
        Atomic::load(self, Acquire)
    }

    #[inline]
    fn store(&self, value: u64) {
        Atomic::store(self, value, Release);
    }
}

/// If a cluster is bound, makes the device slot of one of its slots idle, because zswap has stored
/// the page. Returns true if the device slot had data.
///
/// # Safety
///
/// The caller has the right to the slot. No I/O uses the device slot.
#[inline]
pub(super) unsafe fn idle_replaced(table: &mut LockedTable<'_>, off: u32) -> bool {
    let ci = table.as_ci();
    // SAFETY: By the invariants of `LockedTable`, which is borrowed mutably, the cluster is locked,
    // and no `LockedCluster` is used meanwhile. Only a virtual cluster has this value in `flags`.
    // As required of the caller, it has the right to the slot, and no I/O uses the device slot.
    unsafe {
        (*ci.as_ptr()).flags == bindings::VSWAP_CLUSTER_FLAG as u8
            && LockedCluster::from_c(ci).idle_device(off, 1) != 0
    }
}

/// The binding of a cluster, and the bits of the slots with data on the device. Only this file
/// changes it, because a bit owns a device slot.
pub(super) struct Binding(DeviceMap<Atomic<u64>>);

impl Binding {
    /// Returns the binding of a cluster that is not bound.
    pub(super) const fn none() -> Self {
        Self(DeviceMap::new(
            Atomic::new(0),
            [const { Atomic::new(0) }; WORDS],
        ))
    }
}

impl Cluster {
    /// Returns true if the cluster is bound. Does not take the lock.
    #[inline]
    pub(super) fn is_bound(&self) -> bool {
        self.device.0.is_bound()
    }

    /// Returns true if the bit of a slot is set: the slot has data on the bound device cluster.
    /// Does not take the lock.
    #[inline]
    pub(crate) fn has_bit(&self, off: u32) -> bool {
        self.device.0.has(off)
    }

    /// Returns the device slot that has the data of a slot, if its bit is set. Does not take the
    /// lock: see [`DeviceMap::find`].
    #[inline]
    pub(super) fn find_device(&self, off: u32) -> Option<PhysSlot> {
        self.device.0.find(off)
    }

    /// Returns the first slot of the bound device cluster, if any. Does not take the lock.
    #[inline]
    pub(crate) fn peek_binding(&self) -> Option<PhysSlot> {
        self.device.0.binding()
    }

    /// Returns true if the bound device cluster has an idle slot, one without data. Takes no lock.
    pub(crate) fn peek_idle(&self) -> bool {
        self.is_bound() && self.device.0.count() < SWAPFILE_CLUSTER
    }

    /// Returns the first slot at or after `from` with data on the device cluster that begins with
    /// `first`. `None` if the cluster is not bound to that device cluster, or no such slot has
    /// data. Does not take the lock.
    pub(crate) fn peek_next_on(&self, first: PhysSlot, from: u32) -> Option<u32> {
        if self.peek_binding() != Some(first) {
            return None;
        }
        self.device.0.next(from)
    }
}

impl LockedCluster<'_> {
    #[inline]
    fn device(&self) -> &'static DeviceMap<Atomic<u64>> {
        &self.cluster().device.0
    }

    /// If the cluster is bound, takes the device slots of `nr` slots from `start` on into use.
    /// Returns false if the cluster is not bound, if the device slots are not idle, or if swapoff
    /// has begun.
    ///
    /// # Safety
    ///
    /// The caller has the right to the slots, which have no backing, or is taking them into use.
    #[inline]
    pub(super) unsafe fn take_device(&mut self, start: u32, nr: u32) -> bool {
        let device = self.device();
        let Some(first) = device.binding() else {
            return false;
        };
        if !device.set(start, nr) {
            return false;
        }
        // SAFETY: By the invariants of `Cluster`, which is bound, the device stays. The lock is
        // held.
        let taken = unsafe { bindings::vswap_take_bound(first.ty().into(), nr) };
        if !taken {
            device.clear(start, nr, |_, _| {});
        }
        taken
    }

    /// If the cluster is bound, makes the device slots of `nr` slots from `start` on idle. Returns
    /// how many of them had data, for the caller to uncharge.
    ///
    /// # Safety
    ///
    /// The caller has the right to the slots, or frees them. No I/O uses the device slots.
    #[inline]
    pub(super) unsafe fn idle_device(&self, start: u32, nr: u32) -> u32 {
        let device = self.device();
        let Some(first) = device.binding() else {
            return 0;
        };
        device.clear(start, nr, |at, len| {
            let offset = first.offset().wrapping_add(at);
            // SAFETY: By the invariants of `Cluster`, the bits owned the device slots until they
            // were cleared, and the bound cluster keeps the device. The lock is held, so the
            // binding stays.
            unsafe { bindings::vswap_idle_bound(first.ty().into(), offset, len) };
        })
    }

    /// Binds the cluster, which has no slot in use, to a free cluster of the device of type `ty`.
    /// Returns false if the device has none, or if the cluster is bound already.
    pub(crate) fn bind(&mut self, ty: u8) -> bool {
        // Otherwise nobody would end the binding of the second device cluster.
        if warn_on_once!(self.cluster().is_bound()) {
            return false;
        }
        // SAFETY: `ci->lock` is held.
        let offset = unsafe { bindings::vswap_bind(ty.into(), self.cluster().index()) };
        match PhysSlot::new(ty, offset) {
            Some(first) if offset != 0 => self.device().bind(first),
            _ => false,
        }
    }

    /// Ends the binding. If a slot has data on the device, warns and keeps the binding instead.
    pub(super) fn unbind_idle(&mut self) {
        // Keep the binding. Otherwise another task could allocate the device slots and overwrite
        // the data.
        if warn_on_once!(self.device().count() != 0) {
            return;
        }
        if let Some(first) = self.device().unbind(|_, _| {}) {
            let (ty, offset) = (first.ty().into(), first.offset());
            // SAFETY: The device cluster was bound to this cluster, whose lock is held. By the
            // invariants of `Cluster`, the device stays until C has ended the binding.
            unsafe {
                bindings::vswap_unbind(ty, offset, 0, core::ptr::null(), core::ptr::null_mut())
            };
        }
    }

    /// Ends the binding to the device of type `ty`, which swapoff turns off. `EBUSY`: a slot still
    /// has data there, so the device must stay.
    pub(crate) fn leave_device(&mut self, ty: u8) -> Result {
        if self.cluster().peek_binding().map(PhysSlot::ty) == Some(ty) {
            self.unbind_idle();
            if self.cluster().is_bound() {
                return Err(EBUSY);
            }
            Lists::lock().retire(self);
        }
        Ok(())
    }

    /// Ends the binding, and frees the idle slots of the device cluster. Slots with data there get
    /// backing words, for which this takes `memory`. Returns false if the cluster is not bound, or
    /// if there is no memory for the words.
    pub(crate) fn scatter(&mut self, memory: &mut Option<Scatter>) -> bool {
        let nr = self.device().count();
        if !self.cluster().is_bound() {
            return false;
        }
        if nr == 0 {
            self.unbind_idle();
            Lists::lock().retire(self);
            return true;
        }
        let Some(Scatter { table, words }) = memory.take() else {
            return false;
        };
        self.table().give(table);
        // The backing words that are written below consume the promise.
        if self.reserve(nr).is_none() {
            return false;
        }
        let mut bits = [0u64; WORDS];
        let first = self.device().unbind(|slot, place| {
            let word = self.backing_word(slot);
            if let Some(word) = word.filter(|word| !warn_on_once!(word.load() != 0)) {
                // SAFETY: The cluster is locked, and the word is 0. By the invariants of `Cluster`,
                // the bit owns the device slot. The bit is cleared next.
                unsafe { word.set(Backing::Phys(place).encode()) };
            }
            if let Some(word) = bits.get_mut((slot / u64::BITS) as usize) {
                *word |= 1u64.wrapping_shl(slot);
            }
        });
        if let Some(first) = first {
            // SAFETY: The device cluster was bound to this cluster, whose lock is held.
            unsafe { words.give(first, self.cluster().first(), &bits) };
        }
        Lists::lock().retire(self);
        true
    }
}

/// The memory that ending a binding needs: a table of backing words, and tables for the device
/// cluster.
pub(crate) struct Scatter {
    table: NewTable,
    words: Tables,
}

impl Scatter {
    /// Allocates the backing table and the tables of the device cluster. May sleep.
    pub(crate) fn alloc() -> Option<Self> {
        // Allocate the device cluster's tables first, without emergency reserves. If that fails, no
        // backing table was taken from these reserves, which RCU would refill late.
        let words = Tables::alloc(bindings::VSWAP_GFP_DEVICE_TABLE, false).ok()?;
        Some(Self {
            table: NewTable::alloc_uncharged()?,
            words,
        })
    }
}

impl Tables {
    /// Ends the binding of a device cluster, and installs the tables in it. `bits` says which
    /// device slots have data. The words of these name the virtual slots with the same index in the
    /// cluster that begins at `voffset`.
    ///
    /// # Safety
    ///
    /// The device cluster that begins with `first` was bound, until now, to the virtual cluster
    /// that begins at `voffset`, whose lock the caller holds.
    unsafe fn give(self, first: PhysSlot, voffset: usize, bits: &[u64; WORDS]) {
        let (ty, offset) = (first.ty().into(), first.offset());
        let bits = bits.as_ptr().cast::<c_ulong>();
        // SAFETY: As required of the caller, the device cluster was bound to a virtual cluster
        // whose lock is held. There is a bit for each slot.
        // INVARIANT: C moves the tables out of the value.
        unsafe { bindings::vswap_unbind(ty, offset, voffset, bits, self.as_ptr()) };
    }
}
