// SPDX-License-Identifier: GPL-2.0

//! Where the slots for a folio come from.
//!
//! Each CPU has a cluster for each order, from which it allocates alone: the fast path takes the
//! CPU's own lock and that of a cluster which others lock only to free slots in it. When there is
//! no place left in it, the CPU goes on with a partly used one, the fullest first as far as the
//! order of the list says so, then with one that has no tables.
//!
//! A cluster that becomes empty loses its tables at once, also while it is a CPU's. The CPU notices
//! when it next looks: the cluster is not its own any more.
//!
//! # Locks, in the order in which they are taken
//!
//! 1. folio lock, page table lock: the caller's.
//! 2. the CPU's own ([`Local`]): allocation only. Dropped to sleep for memory.
//! 3. the lock of a virtual cluster ([`Locked`](crate::ffi::cluster::Locked)): one at a time.
//! 4. the lock of the lists ([`Lists`]); the lock of zswap's LRU, zsmalloc's locks, and the lock of
//!    a physical cluster. Leaves, seen from here.
//!
//! No lock of a physical cluster is held when one of these is taken. The per-CPU lock of their
//! allocator may be when 3 is, where it reclaims slots of a full device; never when 2 is.
//! Interrupts may be off under 3 (reclaim, migration): nothing inside turns them on, sleeps, or
//! allocates in a way that could.
//!
//! # Races, and what settles them
//!
//! - *A CPU's cluster is emptied and taken by another CPU.* Who allocates looks under the lock of
//!   the cluster whether it is still its own.
//! - *The task moves to another CPU while it sleeps for memory.* It goes on with the state of that
//!   one. A cluster that it finds there is retired to the list, not lost.
//! - *Turned off while a task allocates.* Who allocates looks at the switch under the lock of the
//!   cluster. [`quiesce`] takes each of these locks once after the switch was changed: who had the
//!   lock before has published its slots, which a drain then finds; who gets it later sees the
//!   switch. A new cluster gets its number before it is locked for the first time, and the numbers
//!   are read after the switch was changed.

#![forbid(unsafe_code)]

use crate::ffi::{
    cluster::{
        Cluster,
        Directory,
        Guard,
        Lists,
        Local,
        Spare, //
    },
    params, //
};

/// Slots that were taken for a folio, whose words are still null. The cluster is locked.
///
/// To let it go without using the slots, give them back: [`Run::cancel`].
#[must_use]
pub(crate) struct Run {
    // In the order in which they are released.
    pub(crate) guard: Guard,
    pub(crate) off: u32,
    _local: Local,
}

impl Run {
    /// Gives the slots back.
    pub(crate) fn cancel(mut self) {
        if let Some(nr) = 1u32.checked_shl(self.guard.order()) {
            self.guard.free_run(self.off, nr);
        }
    }
}

/// Takes slots for a folio of an order. May sleep. `None`: the limit is reached, or there is no
/// memory.
#[inline]
pub(crate) fn alloc_run(order: u32) -> Option<Run> {
    let mut local = Local::lock();

    if let Some(cluster) = local.current(order) {
        let mut guard = cluster.lock();
        if guard.is_for(local.cpu(), order) {
            if let Some(off) = guard.take_run() {
                return Some(Run {
                    guard,
                    off,
                    _local: local,
                });
            }
            Lists::lock().retire(&mut guard);
        }
        drop(guard);
        local.set_current(order, None);
    }
    refill(local, order)
}

/// Goes on with another cluster.
#[cold]
fn refill(mut local: Local, order: u32) -> Option<Run> {
    loop {
        // The lock of the lists goes at the end of the statement, before a leaf is taken again.
        let partial = Lists::lock().take_partial(local.cpu(), order);
        let Some(mut guard) = partial else { break };
        if let Some(off) = guard.take_run() {
            local.set_current(order, Some(guard.cluster()));
            return Some(Run {
                guard,
                off,
                _local: local,
            });
        }
        // It is off the list now, and stays off until it has a place: the loop ends.
        Lists::lock().retire(&mut guard);
    }

    if !Lists::lock().count_populated() {
        return None;
    }
    let spare = Lists::lock().take_spare();
    let (spare, local) = match spare {
        Some(spare) => (Some(spare), local),
        None => {
            drop(local);
            (Spare::create(), Local::lock())
        }
    };
    let Some(spare) = spare else {
        Lists::lock().uncount_populated();
        return None;
    };
    let (populated, mut local) = match spare.populate(false) {
        Ok(populated) => (populated, local),
        Err(spare) => {
            drop(local);
            let result = spare.populate(true);
            let local = Local::lock();
            match result {
                Ok(populated) => (populated, local),
                Err(spare) => {
                    let mut lists = Lists::lock();
                    lists.put_spare(spare);
                    lists.uncount_populated();
                    return None;
                }
            }
        }
    };
    // Only after sleeping there can be one.
    if let Some(other) = local.current(order) {
        give_up(other, local.cpu(), order);
    }
    let mut guard = populated.claim(local.cpu(), order);
    local.set_current(order, Some(guard.cluster()));
    // There is always a place in an empty cluster.
    let off = guard.take_run()?;
    Some(Run {
        guard,
        off,
        _local: local,
    })
}

/// The CPU does not allocate from the cluster any more, if it did.
fn give_up(cluster: &'static Cluster, cpu: u32, order: u32) {
    let mut guard = cluster.lock();
    if guard.is_for(cpu, order) {
        Lists::lock().retire(&mut guard);
    }
}

/// Gives up what a CPU that is gone allocated from.
pub(crate) fn cpu_dead(cpu: u32, order: u32, cluster: &'static Cluster) {
    give_up(cluster, cpu, order);
}

/// Waits for those who allocate.
pub(crate) fn quiesce() {
    for cluster in all() {
        drop(cluster.lock());
    }
}

/// All clusters that there are, with or without tables.
pub(crate) fn all() -> impl Iterator<Item = &'static Cluster> {
    let directory = Directory::get();
    // Numbers are read under the lock: see `quiesce` in the races above.
    let lists = Lists::lock();
    let len = directory.len() as usize;
    drop(lists);
    // Cluster 0 has no slots.
    (1..len).filter_map(move |index| directory.find(index))
}

/// Whether a slot is in use.
pub(crate) fn any_in_use() -> bool {
    all().any(|cluster| cluster.peek_used() != 0)
}

/// The offset of the next slot in use after `prev`; 0 if there is none.
pub(crate) fn next_used(prev: usize, slots: usize) -> usize {
    // Whoever asks again and again should not keep others from running.
    params::cond_resched();
    let from = prev.wrapping_add(1);
    let first = from.checked_div(slots).unwrap_or(0).max(1);
    for index in first..Directory::get().len() as usize {
        let Some(cluster) = Directory::get().find(index) else {
            continue;
        };
        if cluster.peek_used() == 0 {
            params::cond_resched();
            continue;
        }
        let off = from.saturating_sub(cluster.first()) as u32;
        if let Some(off) = cluster.lock().next_used(off) {
            return cluster.first().wrapping_add(off as usize);
        }
    }
    0
}
