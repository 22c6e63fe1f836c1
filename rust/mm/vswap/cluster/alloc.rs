// SPDX-License-Identifier: GPL-2.0

//! Allocates slots of a cluster. [`Taken`] is a run of slots that was taken into use for a folio.
//! This file also changes the slot map, the number of slots in use, and which list the cluster is
//! on.

#![forbid(unsafe_code)]

use crate::{
    ffi::vswap::{
        self,
        AddedFolio,
        NewCharge,
        RecordedFolio,
        SlotUsage,
        Uncharge, //
    },
    vswap::{
        backing::RemovedBacking,
        cluster::{
            backing_words::OwnedSlots,
            state::free::Cleared,
            swap_cache,
            Cluster,
            ClusterGuard,
            LockedCluster, //
        },
        cluster_list::{
            ClusterKind,
            ListsGuard, //
        },
        slot::free_slots,
        slot_map::{
            ListMove,
            ListState,
            SlotMap, //
        }, //
    },
    warn::warn_on_once, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// The key that lets only this file change [`LockedFields`] and the number of slots in use: see
/// [`crate::ffi::cluster`].
#[derive(Clone, Copy)]
pub(crate) struct AllocKey(());

const KEY: AllocKey = AllocKey(());

/// Which slots of a cluster are in use, and which list the cluster is on. Protected by `ci->lock`.
/// Only this file changes them.
pub(crate) struct LockedFields {
    map: SlotMap,
    list: ListState,
}

impl LockedFields {
    /// The value for a new cluster: all slots are free, and the cluster has no tables.
    pub(crate) const NEW: Self = Self {
        map: SlotMap::EMPTY,
        list: ListState::Free,
    };
}

/// The number of slots in use. Only this file changes it.
pub(super) struct NrUsed(Atomic<u32>);

impl NrUsed {
    /// Returns the value for a new cluster: no slot is in use.
    pub(super) const fn none() -> Self {
        Self(Atomic::new(0))
    }

    #[inline]
    pub(super) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// A run of free slots of a locked cluster, which the holder of the lock takes into use next.
///
/// # Invariants
///
/// The slots are free in the slot map. The task that holds `ci->lock` takes them into use before
/// it drops the lock, unless `take_device()` fails.
pub(super) struct FreeRun<'a> {
    cluster: &'a LockedCluster<'a>,
    start: u32,
    nr: u32,
}

impl<'a> FreeRun<'a> {
    /// Returns the locked cluster, the first slot and the number of slots.
    #[inline]
    pub(super) fn parts(&self) -> (&'a LockedCluster<'a>, u32, u32) {
        (self.cluster, self.start, self.nr)
    }
}

impl LockedCluster<'_> {
    /// Returns the number of slots in use.
    #[inline]
    pub(crate) fn used(&self) -> u32 {
        self.cluster().peek_used()
    }

    /// Returns true if the cluster is of `kind`, and `cpu` allocates from it for folios of
    /// `order`.
    #[inline]
    pub(crate) fn is_for(&self, cpu: u32, order: u32, kind: ClusterKind) -> bool {
        self.own().list == ListState::Cpu(cpu)
            && self.order() == order
            && self.cluster().is_bound() == (kind == ClusterKind::Bound)
    }

    /// Assigns the cluster to a CPU, to allocate slots for folios of an order. Warns, and does
    /// nothing, if the cluster is on a partial list or the frag list.
    pub(in crate::vswap) fn assign(&mut self, cpu: u32, order: u32) {
        if warn_on_once!(self.own().list.is_listed()) {
            return;
        }
        // The cast is lossless, because an order is less than `SWAP_NR_ORDERS`.
        self.set_order(order as u8, KEY);
        self.own_mut(KEY).list = ListState::Cpu(cpu);
    }

    /// Records the list that the cluster is on. The caller moves the cluster to this list, or off
    /// its list, under the same lock of the lists.
    #[inline]
    pub(in crate::vswap) fn set_list(&mut self, list: ListState, _lists: &mut ListsGuard) {
        self.own_mut(KEY).list = list;
    }

    /// Returns true if the cluster has a free run for a folio of its order.
    pub(in crate::vswap) fn has_run(&self) -> bool {
        self.own().map.find(self.order()).is_some()
    }

    /// Takes a free run for a folio of an order into use, for [`ClusterGuard::take_run`]. Returns
    /// the first slot and the number of slots, or `None` where [`ClusterGuard::take_run`] returns
    /// `Err`.
    #[inline(always)]
    fn take_run(&mut self, order: u32) -> Option<(u32, u32)> {
        // Take slots only from a cluster that has words, because the invariants of `Taken` say
        // that the words of its slots are null.
        if warn_on_once!(!self.has_words()) {
            return None;
        }
        let start = self.own().map.find(order)?;
        let nr = 1u32.checked_shl(order)?;
        if self.cluster().is_bound() {
            // INVARIANT: The slot map says that the slots are free. This function takes them into
            // use, unless `take_device()` returns false.
            let run = FreeRun {
                cluster: self,
                start,
                nr,
            };
            if !OwnedSlots::of_free(&run).take_device() {
                return None;
            }
        }
        self.own_mut(KEY).map.take(start, nr);
        let used = self.used().wrapping_add(nr);
        self.cluster().shared().used.0.store(used, Relaxed);
        SlotUsage::change(nr as c_long, KEY);
        Some((start, nr))
    }

    /// Returns the first slot in use at or after `from`.
    pub(crate) fn next_used(&self, from: u32) -> Option<u32> {
        self.own().map.next_used(from)
    }
}

impl<'g> Cleared<'g> {
    /// Marks the slots as free in the slot map. Returns the locked cluster, and the list that the
    /// caller moves it to. If a slot was free already, which is a bug, warns, returns `None` and
    /// does not change the number of slots in use.
    // The slots may become free, because by the invariants of `Cleared`, their words are null,
    // they have no backing, and no other value gives access to them.
    #[inline(always)]
    pub(super) fn give_back(self) -> Option<(LockedCluster<'g>, ListMove)> {
        let (mut cluster, start, nr) = self.into_parts();
        let order = cluster.order();
        let own = cluster.own_mut(KEY);
        // Do not subtract these slots, because a count that is too low would free the tables while
        // slots are in use.
        if warn_on_once!(!own.map.free(start, nr)) {
            return None;
        }
        let list = own.list;
        // Skip the search for a free run unless one would move the cluster to the partial list.
        let has_run = list.awaits_run() && own.map.freed_run(order, start, nr);
        let used = cluster.used().wrapping_sub(nr);
        cluster.cluster().shared().used.0.store(used, Relaxed);
        SlotUsage::change((nr as c_long).wrapping_neg(), KEY);
        Some((cluster, list.after_free(used, has_run)))
    }
}

impl ClusterGuard {
    /// Takes a free run for a folio of `order` into use. In a bound cluster, also takes the device
    /// slots of the run into use. Returns the lock as `Err` if there is no free run, if the
    /// cluster is bound and swapoff of its device has begun, or if the cluster has no swap table,
    /// which is a bug.
    // `order` is an argument rather than read from the cluster, so that it is the constant 0 where
    // this is inlined for a folio of one page.
    #[inline]
    pub(crate) fn take_run(mut self, order: u32) -> Result<Taken, Self> {
        let run = self.lend().take_run(order);
        match run {
            // INVARIANT: The slots were just taken, by the only value that can be used for the
            // locked cluster. They were free, so by the invariants of `Cluster` their words are
            // null, and they had no backing. `take_run()` has added only the device slots of a
            // bound cluster.
            Some((start, nr)) => Ok(Taken {
                guard: self,
                start,
                nr,
            }),
            None => Err(self),
        }
    }
}

/// A run of slots that was taken for a folio, with the lock of its cluster.
///
/// Dropping the value unlocks the cluster and leaks the slots. [`Self::cancel`] frees them.
///
/// # Invariants
///
/// The slots are in use in the slot map. Their words are null. Their only backing is the device
/// slots, if the cluster is bound. No other value gives access to the slots.
#[must_use]
pub(crate) struct Taken {
    guard: ClusterGuard,
    start: u32,
    nr: u32,
}

impl Taken {
    /// Returns the cluster of the slots.
    #[inline]
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.guard.cluster()
    }

    /// Returns the first slot.
    pub(crate) fn start(&self) -> u32 {
        self.start
    }

    /// Lends access to the locked cluster.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) fn lend(&mut self) -> LockedCluster<'_> {
        self.guard.lend()
    }

    /// Returns the number of slots.
    pub(super) fn nr(&self) -> u32 {
        self.nr
    }

    /// Returns the lock, the first slot and the number of slots. If the caller neither uses nor
    /// frees the slots, they are leaked.
    #[inline]
    pub(super) fn into_parts(self) -> (ClusterGuard, u32, u32) {
        (self.guard, self.start, self.nr)
    }

    /// Frees the slots, and unlocks the cluster.
    pub(crate) fn cancel(self) {
        // There is nothing to uncharge here, because no cgroup id is recorded in the slots yet.
        let mut uncharge = Uncharge::none();
        let mut freed = RemovedBacking::nothing();
        self.unlock_after(|slots| free_slots(slots, &mut freed, &mut uncharge));
    }

    /// Adds a folio to the swap cache for the slots, and records the memory cgroup id of the
    /// slots. With `zeros`, also sets the zero flags of the slots, which own this charge. It came
    /// with `recorded`. Returns the lock and the folio. If vswap is off, or if the folio has
    /// another number of pages, frees the slots, unlocks, and returns the folio as `Err`. Then the
    /// caller must undo the charge.
    // Inlined, because each swap-out calls it.
    #[inline(always)]
    pub(crate) fn fill<'a>(
        self,
        recorded: RecordedFolio<'a>,
        zeros: Option<NewCharge>,
    ) -> Result<(ClusterGuard, AddedFolio<'a>), RecordedFolio<'a>> {
        // Check the mode under the lock of the cluster: see the races in `slot_alloc`.
        if !vswap::is_on() {
            self.cancel();
            return Err(recorded);
        }
        match swap_cache::fill(self, recorded, zeros) {
            Ok(filled) => Ok(filled),
            Err((taken, recorded)) => {
                warn_on_once!(true);
                taken.cancel();
                Err(recorded)
            }
        }
    }
}
