// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the allocation, counting and freeing of virtual slots. They also check that no
//! slot, and no table, is leaked.
//!
//! The slots have no folio, and no PTE names them. The tests write the words of the slots
//! directly, with swap counts as if PTEs named them. vswap should be off, because the tests
//! compare the number of clusters before and after. A task that swaps meanwhile would change this
//! number.
//!
//! Host tests in `kunit/host` test the slot map of a cluster and the transitions of words more
//! thoroughly.

use crate::{
    ffi::{
        device,
        folio::ChargeTarget,
        layout::{
            MAX_SWAPFILES,
            SWAPFILE_CLUSTER, //
        },
        vswap::{
            self,
            IdRefs,
            PinnedSlots,
            SwapCounts, //
        },
        vswap_kunit::{
            setup,
            MadeUp,
            MigrateDisabled, //
        }, //
    },
    vswap::{
        backing,
        capacity,
        cluster::{
            swap_cache::{
                self,
                made_up, //
            },
            ExtendTable, //
        },
        cluster_list::{
            ClusterKind,
            ListsGuard, //
        },
        directory::{
            find,
            Directory, //
        },
        slot,
        slot_alloc,
        stats,
        swap_table::{
            set_zero_word,
            Count,
            Flags,
            Pfn,
            PhysSlot,
            Shadow,
            State, //
        }, //
    },
    zswap::table::{
        LooseBackingTable,
        SLOTS, //
    }, //
};
use kernel::{
    bindings,
    prelude::*, //
};

/// Returns the state of a slot that is swapped out, and not in the swap cache.
fn swapped_out(count: u8) -> Result<State> {
    Ok(State::Shadow {
        flags: Flags {
            count: Count::new(count).ok_or(EINVAL)?,
            zero: false,
        },
        value: Shadow::NONE,
    })
}

/// Returns the number of clusters with tables.
fn populated() -> usize {
    ListsGuard::populated()
}

fn in_use() -> usize {
    let mut used = 0;
    for cluster in slot_alloc::all() {
        used += cluster.peek_used() as usize;
    }
    used
}

/// Allocates a run of slots, and gives each a swap count of 1. Returns the offset of the first
/// slot.
///
/// Returns `EEXIST` if some of the slots were in use already, which is a bug of the allocator.
fn alloc(order: u32) -> Result<usize> {
    let used = swapped_out(1)?;
    let mut run =
        slot_alloc::alloc_run(order, ClusterKind::Unbound, ChargeTarget::NONE).ok_or(ENOMEM)?;
    let (cluster, start) = (run.taken.cluster(), run.taken.start());
    let mut locked = run.taken.lend();
    let mut in_use = false;
    // SAFETY: The slots are in use, only this test uses them, and the state has no page frame
    // number.
    let right = unsafe { MadeUp::new() };
    for off in start..start + (1 << order) {
        in_use |= locked.state(off) != State::Null;
        locked.make_up(off, used, right);
    }
    drop(run);
    if in_use {
        return Err(EEXIST);
    }
    Ok(cluster.first() + start as usize)
}

/// A limit on the number of clusters with tables. Dropping it restores the default limit.
struct Limit;

impl Limit {
    fn at(clusters: usize) -> Self {
        capacity::set_max_slots(clusters * SLOTS);
        Self
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        capacity::set_default_max_slots();
    }
}

/// Adds one swap count to each of `nr` slots.
fn dup(offset: usize, nr: u32) -> Result {
    // SAFETY: Only this test uses the slots. They have a swap count or a folio.
    let pinned = unsafe { PinnedSlots::make_up(offset, nr) };
    slot::dup_entries(pinned)
}

/// Drops one swap count of each of `nr` slots.
fn put(offset: usize, nr: usize) {
    // SAFETY: Only this test uses the slots. A test may own no swap count of them, to check that
    // nothing is dropped then.
    let counts = unsafe { SwapCounts::make_up(offset, nr as u32) };
    slot::put_entries(counts, false);
}

/// Drops one swap count of each slot in `offsets`.
fn put_all(offsets: &[usize]) {
    for offset in offsets {
        put(*offset, 1);
    }
}

/// Returns true if each of `nr` slots has the swap count `count`.
fn all_count(offset: usize, nr: usize, count: u32) -> bool {
    (offset..offset + nr).all(|at| slot::count(at) == count)
}

/// Allocates single slots until `nr` of them are consecutive and naturally aligned. Returns the
/// offset of the first of these `nr` slots. Adds the other slots to `slots`.
fn alloc_row(nr: usize, slots: &mut KVec<usize>) -> Result<usize> {
    for _ in 0..2 * SLOTS {
        let offset = alloc(0)?;
        slots.push(offset, GFP_KERNEL)?;
        let start = offset - offset % nr;
        // A slot with swap count 1 belongs to this test, because no other task uses virtual slots.
        if all_count(start, nr, 1) {
            slots.retain(|at| *at < start || *at >= start + nr);
            return Ok(start);
        }
    }
    Err(ENOSPC)
}

fn set_state(offset: usize, state: State) -> Result {
    let (cluster, off) = find(offset).ok_or(EINVAL)?;
    // SAFETY: The slot is in use, and only this test uses it until its word has no made-up page
    // frame number any more.
    let right = unsafe { MadeUp::new() };
    cluster.lock().lend().make_up(off, state, right);
    Ok(())
}

/// Returns true if the cluster of a slot has an extend table.
fn can_extend(offset: usize) -> Result<bool> {
    let (cluster, _) = find(offset).ok_or(EINVAL)?;
    let guard = cluster.lock();
    Ok(guard.can_extend())
}

/// Returns the error with which the swap cache refuses a folio of `nr` pages for a slot, or `None`
/// if it accepts the folio.
fn refused(offset: usize, nr: u32, with_id: bool) -> Result<Option<Error>> {
    let (cluster, off) = find(offset).ok_or(EINVAL)?;
    let guard = cluster.lock();
    Ok(swap_cache::may_add(&guard, off, nr, with_id).err())
}

#[kunit_tests(rust_vswap_slots)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_aligned_disjoint_and_given_back() -> Result {
        setup()?;
        let (clusters, slots) = (populated(), in_use());

        for order in 0..bindings::VSWAP_SWAP_NR_ORDERS as u32 {
            let nr = 1usize << order;
            // Together, the runs have more slots than two clusters.
            let runs = 2 * SLOTS / nr + 1;
            let mut offsets = KVec::with_capacity(runs, GFP_KERNEL)?;

            for _ in 0..runs {
                // alloc() fails if runs overlap.
                let offset = alloc(order)?;
                assert_eq!(offset % nr, 0);
                assert_eq!(offset / SLOTS, (offset + nr - 1) / SLOTS);
                assert!(offset >= SLOTS);
                offsets.push(offset, GFP_KERNEL)?;
            }
            assert_eq!(in_use(), slots + runs * nr);
            assert_eq!(in_use(), stats::collect().used);
            assert!(populated() >= clusters + 3);

            // Free every other run, and allocate as many again.
            for offset in offsets.iter().step_by(2) {
                put(*offset, nr);
            }
            for offset in offsets.iter_mut().step_by(2) {
                *offset = alloc(order)?;
                assert_eq!(*offset % nr, 0);
            }
            assert_eq!(in_use(), slots + runs * nr);

            for offset in &offsets {
                assert!(all_count(*offset, nr, 1));
                put(*offset, nr);
                assert!(slot::peek(*offset) == State::Null);
            }
            assert_eq!(in_use(), slots);
            // An empty cluster has no tables, even if a CPU allocates from it.
            assert_eq!(populated(), clusters);
        }
        Ok(())
    }

    #[test]
    fn a_run_that_is_cancelled_leaves_nothing() -> Result {
        setup()?;
        let (clusters, slots) = (populated(), in_use());

        for order in 0..bindings::VSWAP_SWAP_NR_ORDERS as u32 {
            let run = slot_alloc::alloc_run(order, ClusterKind::Unbound, ChargeTarget::NONE)
                .ok_or(ENOMEM)?;
            run.taken.cancel();
            drop(run.local);
            assert_eq!(in_use(), slots);
            assert_eq!(populated(), clusters);
        }
        Ok(())
    }

    /// Huge pages with one page still swapped out must not block the free slots of their other
    /// pages.
    #[test]
    fn order_0_takes_what_higher_orders_leave() -> Result {
        setup()?;
        // Stay on this CPU, because each CPU allocates from a cluster of its own.
        let _pinned = MigrateDisabled::new();
        let top = bindings::VSWAP_SWAP_NR_ORDERS as u32 - 1;
        // `top` is 0 without large folios in the configuration.
        for order in 1..=top {
            let (clusters, slots) = (populated(), in_use());
            let size = 1usize << order;
            // Fill two clusters. This CPU allocates from the second.
            let mut runs = KVec::new();
            while runs.len() < 2 * SLOTS / size {
                runs.push(alloc(order)?, GFP_KERNEL)?;
            }
            assert_eq!(populated(), clusters + 2);
            for run in &runs {
                put(*run, size - 1);
            }
            let left = runs.len();
            assert_eq!(in_use(), slots + left);

            let limit = Limit::at(populated());
            let mut singles = KVec::new();
            while let Ok(single) = alloc(0) {
                singles.push(single, GFP_KERNEL)?;
            }
            drop(limit);
            // Single slots fill both clusters, and no cluster gets tables for them.
            assert!(singles.len() >= 2 * SLOTS - left);
            assert_eq!(populated(), clusters + 2);

            put_all(&singles);
            assert_eq!(in_use(), slots + left);
            for run in &runs {
                put(*run + size - 1, 1);
            }
            assert_eq!(in_use(), slots);
            assert_eq!(populated(), clusters);
        }
        Ok(())
    }

    /// A cluster goes back to the partial list when a run of its order is free again.
    #[test]
    fn a_scattered_cluster_is_found_when_a_run_is_free_again() -> Result {
        const ORDER: u32 = 2;

        setup()?;
        if bindings::VSWAP_SWAP_NR_ORDERS as u32 <= ORDER {
            return Ok(());
        }
        let _pinned = MigrateDisabled::new();
        let (clusters, slots) = (populated(), in_use());
        let mut runs = KVec::new();
        while runs.len() < (2 * SLOTS) >> ORDER {
            runs.push(alloc(ORDER)?, GFP_KERNEL)?;
        }
        // One free slot of each run is not enough for a folio of this order.
        for run in &runs {
            put(*run, 1);
        }
        let limit = Limit::at(populated());
        assert!(alloc(ORDER).is_err());
        let run = *runs.first().ok_or(EINVAL)?;
        put(run + 1, 3);
        assert_eq!(alloc(ORDER)?, run);
        put(run, 1 << ORDER);
        drop(limit);

        for run in runs.iter().skip(1) {
            put(*run + 1, 3);
        }
        assert_eq!(in_use(), slots);
        assert_eq!(populated(), clusters);
        Ok(())
    }

    #[test]
    fn the_limit_is_a_limit() -> Result {
        setup()?;
        let _pinned = MigrateDisabled::new();
        let limit = Limit::at(populated() + 1);
        let mut slots = KVec::new();
        while let Ok(slot) = alloc(0) {
            slots.push(slot, GFP_KERNEL)?;
        }
        assert!(slots.len() >= SLOTS);
        assert!(slots.len() <= capacity::max_slots());
        put_all(&slots);
        drop(limit);
        Ok(())
    }

    #[test]
    fn slots_in_use_are_found_in_order() -> Result {
        setup()?;
        let mut slots = KVec::new();
        let start = alloc_row(4, &mut slots)?;

        put(start + 1, 1);
        assert_eq!(slot_alloc::next_used(start - 1), start);
        assert_eq!(slot_alloc::next_used(start), start + 2);
        assert_eq!(slot_alloc::next_used(start + 1), start + 2);
        assert_eq!(slot_alloc::next_used(start + 2), start + 3);
        // A walk over all slots finds each slot in use once.
        let (mut at, mut found) = (0, 0);
        loop {
            let next = slot_alloc::next_used(at);
            if next == 0 {
                break;
            }
            assert!(next > at);
            at = next;
            found += 1;
        }
        assert_eq!(found, in_use());

        put_all(&slots);
        put_all(&[start, start + 2, start + 3]);
        Ok(())
    }

    #[test]
    fn counts_that_a_word_cannot_hold() -> Result {
        const MORE: u32 = 40;

        setup()?;
        let clusters = populated();
        let slot = alloc(0)?;
        let inline_max = u32::from(Count::INLINE_MAX.get());

        assert_eq!(slot::count(slot), 1);
        for n in 2..=1 + MORE {
            dup(slot, 1)?;
            assert_eq!(slot::count(slot), n);
            assert!(slot::any_counted(slot, 1));
            // The extend table exists as soon as a count needs it.
            assert_eq!(can_extend(slot)?, n > inline_max);
        }
        for n in (1..=MORE).rev() {
            put(slot, 1);
            assert_eq!(slot::count(slot), n);
            assert!(slot::any_counted(slot, 1));
            // The extend table is freed with the last count that needs it.
            assert_eq!(can_extend(slot)?, n > inline_max);
        }
        assert!(slot::peek(slot) == swapped_out(1)?);

        put(slot, 1);
        assert!(slot::peek(slot) == State::Null);
        assert_eq!(slot::count(slot), 0);
        assert!(!slot::any_counted(slot, 1));
        assert_eq!(populated(), clusters);
        Ok(())
    }

    #[test]
    fn a_dup_that_can_never_succeed_is_not_retried() -> Result {
        fn extend(slot: usize) -> Result {
            slot::extend(
                slot,
                ExtendTable::alloc(bindings::GFP_KERNEL).ok_or(ENOMEM)?,
            )
        }

        setup()?;
        let slot = alloc(0)?;
        // The word says that the count is in the extend table, but there is none.
        set_state(slot, swapped_out(Count::EXTENDED.get())?)?;
        assert_eq!(extend(slot), Err(EINVAL));
        set_state(slot, swapped_out(1)?)?;
        // The count fits in the word, so no table is needed.
        extend(slot)?;
        assert!(!can_extend(slot)?);
        for _ in 1..Count::INLINE_MAX.get() {
            dup(slot, 1)?;
        }
        extend(slot)?;
        assert!(can_extend(slot)?);
        dup(slot, 1)?;
        extend(slot)?;

        for _ in 0..=Count::INLINE_MAX.get() {
            assert!(slot::count(slot) > 0);
            put(slot, 1);
        }
        assert_eq!(extend(slot), Err(EINVAL));
        Ok(())
    }

    #[test]
    fn large_counts_share_a_table() -> Result {
        setup()?;
        let clusters = populated();
        let mut slots = KVec::new();
        let start = alloc_row(2, &mut slots)?;

        for _ in 0..20 {
            dup(start, 2)?;
        }
        assert!(all_count(start, 2, 21));
        // Only the count of the first slot moves back to its word.
        for _ in 0..20 {
            put(start, 1);
        }
        assert_eq!(slot::count(start), 1);
        assert_eq!(slot::count(start + 1), 21);
        assert!(can_extend(start)?);
        for _ in 0..20 {
            put(start + 1, 1);
        }
        assert!(all_count(start, 2, 1));
        assert!(!can_extend(start)?);

        put(start, 2);
        put_all(&slots);
        assert_eq!(populated(), clusters);
        Ok(())
    }

    #[test]
    fn a_range_is_counted_once_when_a_table_is_missing() -> Result {
        setup()?;
        let clusters = populated();
        let mut slots = KVec::new();
        let start = alloc_row(8, &mut slots)?;

        // Raise the count of one slot to the most that its word can hold. Then `dup_entries()` has
        // to allocate the extend table in the middle of the range.
        for _ in 1..Count::INLINE_MAX.get() {
            dup(start + 3, 1)?;
        }
        assert!(!can_extend(start)?);
        dup(start, 8)?;
        assert!(can_extend(start)?);
        for at in start..start + 8 {
            let inline_max = u32::from(Count::INLINE_MAX.get());
            let count = if at == start + 3 { inline_max + 1 } else { 2 };
            assert_eq!(slot::count(at), count);
        }
        put(start, 8);
        assert!(!can_extend(start)?);
        for _ in 1..Count::INLINE_MAX.get() {
            put(start + 3, 1);
        }
        assert!(all_count(start, 8, 1));

        put(start, 8);
        put_all(&slots);
        assert_eq!(populated(), clusters);
        Ok(())
    }

    #[test]
    fn a_range_of_two_clusters() -> Result {
        /// The number of slots on each side of the border.
        const NR: usize = 8;

        setup()?;
        let (clusters, used) = (populated(), in_use());
        let mut slots = KVec::new();
        let mut border = 0;

        // Allocate until the slots on both sides of a border of two clusters are in use. New
        // clusters have consecutive numbers.
        let max = (Directory::len() as usize + 4) * SLOTS;
        while border == 0 && slots.len() < max {
            let slot = alloc(0)?;
            slots.push(slot, GFP_KERNEL)?;
            // The new slot may complete a range at either end of its cluster.
            for at in [slot - slot % SLOTS, slot - slot % SLOTS + SLOTS] {
                if border == 0 && all_count(at - NR - 1, 2 * NR + 2, 1) {
                    border = at;
                }
            }
        }
        assert!(border != 0);
        let (start, end) = (border - NR, border + NR);
        assert!(find(start).map(|(_, off)| off) == Some(SWAPFILE_CLUSTER - NR as u32));
        assert!(find(border).map(|(_, off)| off) == Some(0));

        dup(start, NR as u32)?;
        assert!(all_count(start, NR, 2));
        assert!(all_count(border, NR, 1));
        dup(border, NR as u32)?;
        assert!(all_count(start, 2 * NR, 2));

        put(start, 2 * NR);
        assert!(all_count(start, 2 * NR, 1));
        assert_eq!(in_use(), used + slots.len());
        put(start, 2 * NR);
        assert!(all_count(start, 2 * NR, 0));
        assert_eq!(in_use(), used + slots.len() - 2 * NR);
        // The slots beside the range have not changed.
        assert_eq!(slot::count(start - 1), 1);
        assert_eq!(slot::count(end), 1);

        slots.retain(|at| *at < start || *at >= end);
        put_all(&slots);
        assert_eq!(in_use(), used);
        assert_eq!(populated(), clusters);
        Ok(())
    }

    #[test]
    fn a_folio_may_enter_where_it_fits() -> Result {
        setup()?;
        let clusters = populated();
        let mut slots = KVec::new();
        let start = alloc_row(4, &mut slots)?;
        let used = swapped_out(1)?;
        let folio = State::Pfn {
            flags: Flags::EMPTY,
            // No task looks up this page frame, because only this test uses the slot.
            pfn: Pfn::new(0).ok_or(EINVAL)?,
        };

        for nr in [1, 2, 4] {
            assert_eq!(refused(start, nr, true)?, None);
            assert_eq!(refused(start + 3, nr, true)?, None);
        }

        // EEXIST if the slot itself has a folio, EBUSY if another slot of the range has one.
        set_state(start + 1, folio)?;
        for nr in [1, 2, 4] {
            assert_eq!(refused(start + 1, nr, true)?, Some(EEXIST));
        }
        assert_eq!(refused(start, 1, true)?, None);
        assert_eq!(refused(start, 2, true)?, Some(EBUSY));
        assert_eq!(refused(start, 4, true)?, Some(EBUSY));
        assert_eq!(refused(start + 2, 2, true)?, None);
        assert_eq!(refused(start + 2, 4, true)?, Some(EBUSY));

        // ENOENT if the swap count of the slot itself is 0, because the slot is about to be freed.
        set_state(start + 1, swapped_out(0)?)?;
        assert_eq!(refused(start + 1, 1, true)?, Some(ENOENT));
        assert_eq!(refused(start, 1, true)?, None);
        assert_eq!(refused(start, 2, true)?, Some(EBUSY));

        // The slots of a folio may have different swap counts.
        set_state(start + 1, swapped_out(5)?)?;
        assert_eq!(refused(start, 4, true)?, None);

        // The slots of a large folio must have the same zero flag.
        let zeros = set_zero_word(used.encode(), true).ok_or(EINVAL)?;
        let zeros = State::decode(zeros).map_err(|_| EINVAL)?;
        set_state(start + 1, zeros)?;
        assert_eq!(refused(start + 1, 1, true)?, None);
        assert_eq!(refused(start, 2, true)?, Some(EBUSY));
        assert_eq!(refused(start + 1, 2, true)?, Some(EBUSY));
        assert_eq!(refused(start + 2, 2, true)?, None);
        assert_eq!(backing::zero_batch(start, 4), (1, false));
        assert_eq!(backing::zero_batch(start + 1, 3), (1, true));
        assert_eq!(backing::zero_batch(start + 2, 2), (2, false));
        set_state(start, zeros)?;
        assert_eq!(refused(start, 2, true)?, None);
        assert_eq!(refused(start, 4, true)?, Some(EBUSY));
        assert_eq!(backing::zero_batch(start, 4), (2, true));
        assert_eq!(backing::zero_batch(start, 1), (1, true));
        // Larger than a cluster.
        let most = SWAPFILE_CLUSTER.wrapping_mul(2);
        assert_eq!(refused(start, most, true)?, Some(EBUSY));
        set_state(start, used)?;
        set_state(start + 1, used)?;

        // ENOENT if the slot itself is free.
        put(start + 2, 1);
        assert_eq!(refused(start + 2, 1, true)?, Some(ENOENT));
        assert_eq!(refused(start + 2, 4, true)?, Some(ENOENT));
        assert_eq!(refused(start, 2, true)?, None);
        assert_eq!(refused(start, 4, true)?, Some(EBUSY));

        put(start, 2);
        put(start + 3, 1);
        put_all(&slots);
        assert_eq!(populated(), clusters);
        // All slots are free, and the cluster may have lost its tables.
        assert_eq!(refused(start, 1, true)?, Some(ENOENT));
        assert_eq!(refused(start, 4, true)?, Some(ENOENT));
        Ok(())
    }

    #[test]
    fn a_folio_is_of_one_cgroup() -> Result {
        setup()?;
        let mut slots = KVec::new();
        let start = alloc_row(4, &mut slots)?;
        let (cluster, off) = find(start).ok_or(EINVAL)?;

        // It does not matter whether a cgroup has this id.
        // SAFETY: The reference is never put, because the id is overwritten below, before the slot
        // is freed.
        let made_up = unsafe { IdRefs::make_up(7) };
        cluster.lock().lend().set_ids(off + 1, made_up);
        // If memory cgroups are disabled, the cluster has no ids.
        let noted = cluster.lock().id(off + 1) == 7;
        let expected = noted.then_some(EBUSY);
        let with_id = [
            refused(start, 2, true)?,
            refused(start + 1, 2, true)?,
            refused(start, 4, true)?,
        ];
        let without = refused(start, 4, false)?;
        let single = refused(start + 1, 1, true)?;
        let others = refused(start + 2, 2, true)?;
        let found = swap_cache::may_add(&cluster.lock(), off + 1, 1, true)?.id;
        // SAFETY: Id 0 means no cgroup, so there is no reference to put.
        let none = unsafe { IdRefs::make_up(0) };
        cluster.lock().lend().set_ids(off + 1, none);

        assert_eq!(cluster.lock().id(SWAPFILE_CLUSTER), 0);
        assert!(with_id.iter().all(|error| *error == expected));
        assert_eq!(without, None);
        assert_eq!(single, None);
        assert_eq!(others, None);
        assert_eq!(found, if noted { 7 } else { 0 });
        assert_eq!(refused(start, 4, true)?, None);

        put(start, 4);
        put_all(&slots);
        Ok(())
    }

    #[test]
    fn a_folio_comes_and_goes() -> Result {
        setup()?;
        let (clusters, used) = (populated(), in_use());
        let mut slots = KVec::new();
        let start = alloc_row(4, &mut slots)?;
        let (cluster, off) = find(start).ok_or(EINVAL)?;
        // These page frame numbers are made up. Only this test uses the slots, so no task looks
        // for folios at these numbers.
        let old = Pfn::new(8).ok_or(EINVAL)?;
        let new = Pfn::new(4).ok_or(EINVAL)?;
        let value = Shadow::new(0x1234).ok_or(EINVAL)?;
        let flags = Flags {
            count: Count::new(1).ok_or(EINVAL)?,
            zero: false,
        };
        let cached = |flags, pfn| State::Pfn { flags, pfn };
        let gone = State::Shadow { flags, value };

        // A folio enters with all of its slots, or with none.
        set_state(start + 2, cached(flags, new))?;
        // SAFETY: No task looks up the page frames, because only this test uses the slots.
        let right = unsafe { MadeUp::new() };
        let refused = !made_up::add(&mut cluster.lock().lend(), off, 4, old, right);
        assert!(refused);
        for at in [start, start + 1, start + 3] {
            assert!(slot::peek(at) == swapped_out(1)?);
        }
        assert!(slot::peek(start + 2) == cached(flags, new));
        set_state(start + 2, swapped_out(1)?)?;

        let added = made_up::add(&mut cluster.lock().lend(), off, 4, old, right);
        assert!(added);
        for at in start..start + 4 {
            assert!(slot::peek(at) == cached(flags, old));
        }

        // With swap counts of 0, only the folio pins the slots.
        put(start + 1, 2);
        assert!(slot::peek(start) == cached(flags, old));
        assert!(slot::peek(start + 1) == cached(Flags::EMPTY, old));
        assert!(slot::peek(start + 2) == cached(Flags::EMPTY, old));
        assert!(slot::none_counted(&cluster.lock(), off + 1, 2));
        assert!(!slot::none_counted(&cluster.lock(), off, 2));
        assert!(slot::any_counted(start, 4));
        assert!(slot::any_counted(start, 2));
        assert!(slot::any_counted(start + 2, 2));
        assert!(!slot::any_counted(start + 1, 2));
        // The swap count can rise again.
        dup(start + 1, 1)?;
        assert!(slot::peek(start + 1) == cached(flags, old));
        put(start + 1, 1);
        assert_eq!(in_use(), used + slots.len() + 4);

        // Split the folio.
        made_up::replace(&mut cluster.lock().lend(), off + 2, 2, old, new, right);
        assert!(slot::peek(start + 1) == cached(Flags::EMPTY, old));
        assert!(slot::peek(start + 2) == cached(Flags::EMPTY, new));
        assert!(slot::peek(start + 3) == cached(flags, new));

        // The slots with a swap count of 0 are freed when the folio is removed: a large one, and
        // two of one page.
        made_up::del(&mut cluster.lock().lend(), off, 2, old, value, right);
        for at in [off + 2, off + 3] {
            made_up::del(&mut cluster.lock().lend(), at, 1, new, value, right);
        }
        assert!(slot::peek(start) == gone);
        assert!(slot::peek(start + 1) == State::Null);
        assert!(slot::peek(start + 2) == State::Null);
        assert!(slot::peek(start + 3) == gone);
        assert_eq!(in_use(), used + slots.len() + 2);

        put(start, 1);
        put(start + 3, 1);
        put_all(&slots);
        assert_eq!(in_use(), used);
        assert_eq!(populated(), clusters);
        Ok(())
    }

    #[test]
    fn what_was_left_in_a_slot_is_found() -> Result {
        setup()?;
        let slot = alloc(0)?;
        let (cluster, off) = find(slot).ok_or(EINVAL)?;
        let value = Shadow::new(0x1234).ok_or(EINVAL)?;
        let flags = Flags {
            count: Count::new(1).ok_or(EINVAL)?,
            zero: false,
        };

        set_state(slot, State::Shadow { flags, value })?;
        let found = swap_cache::may_add(&cluster.lock(), off, 1, true)?;
        assert!(found.shadow == Some(value));
        assert_eq!(found.id, 0);

        put(slot, 1);
        Ok(())
    }

    #[test]
    fn a_promise_of_a_backing_keeps_the_table() -> Result {
        setup()?;
        let slot = alloc(0)?;
        let (cluster, _) = find(slot).ok_or(EINVAL)?;

        assert!(!cluster.peek_has_backing());
        assert!(cluster.lock().lend().reserve(1).is_none());
        let (one, two) = (
            LooseBackingTable::alloc().ok_or(ENOMEM)?,
            LooseBackingTable::alloc().ok_or(ENOMEM)?,
        );
        cluster.lock().lend().add_backing_table(one);
        let first = cluster.lock().lend().reserve(1).ok_or(EINVAL)?;
        let second = cluster.lock().lend().reserve(1).ok_or(EINVAL)?;
        // A reservation for which the count of words would overflow is refused.
        assert!(cluster.lock().lend().reserve(u32::MAX).is_none());
        assert!(cluster.lock().lend().reserve(u32::MAX - 1).is_none());
        assert!(cluster.lock().any_backed());
        // `add_backing_table()` drops a second table.
        cluster.lock().lend().add_backing_table(two);
        cluster.lock().lend().unreserve(first);
        assert!(cluster.peek_has_backing());
        cluster.lock().lend().unreserve(second);
        assert!(!cluster.lock().any_backed());
        // The table stays, because the next slot may need it.
        assert!(cluster.peek_has_backing());

        put(slot, 1);
        assert!(!cluster.peek_has_backing());
        Ok(())
    }

    #[test]
    fn a_full_cluster_frees_its_backing_table_with_the_last_backing() -> Result {
        setup()?;
        let mut others = KVec::new();
        let first = alloc_row(SLOTS, &mut others)?;
        let (cluster, _) = find(first).ok_or(EINVAL)?;

        let table = LooseBackingTable::alloc().ok_or(ENOMEM)?;
        cluster.lock().lend().add_backing_table(table);
        let one = cluster.lock().lend().reserve(1).ok_or(EINVAL)?;
        let rest = cluster.lock().lend().reserve(SWAPFILE_CLUSTER - 1);
        cluster.lock().lend().unreserve(one);
        assert!(cluster.peek_has_backing());
        cluster.lock().lend().unreserve(rest.ok_or(EINVAL)?);
        assert!(!cluster.peek_has_backing());

        put(first, SLOTS);
        put_all(&others);
        Ok(())
    }

    /// Also runs if vswap was never on. Then `swp_is_virtual()` returns false for each entry, and
    /// `try_reclaim()` must do nothing.
    #[test]
    fn a_slot_without_a_folio_is_not_reclaimed() -> Result {
        setup()?;
        let slot = alloc(0)?;

        assert_eq!(vswap::try_reclaim(slot), 0);
        assert_eq!(slot::count(slot), 1);
        assert_eq!(vswap::try_reclaim(0), 0);

        put(slot, 1);
        Ok(())
    }

    #[test]
    fn what_never_was_a_slot_is_free() -> Result {
        setup()?;
        let end = Directory::len() as usize * SLOTS;

        // Cluster 0 has no slots, and the other offsets are outside of all clusters.
        for offset in [0, SLOTS - 1, end, end + SLOTS, usize::MAX] {
            assert!(slot::peek(offset) == State::Null);
            assert_eq!(slot::count(offset), 0);
            assert!(!slot::any_counted(offset, 1));
        }
        assert!(!slot::any_counted(0, 4));
        assert_eq!(backing::zero_batch(0, 4), (4, false));
        assert_eq!(slot_alloc::next_used(end), 0);
        // Virtual slot 0 is never used, so no device slot backs it, whether or not that device
        // slot exists.
        for ty in 0..MAX_SWAPFILES {
            for offset in [0, 1, u32::MAX] {
                let slot = PhysSlot::new(ty, offset).ok_or(EINVAL)?;
                assert!(!device::is_for(slot, 0, false));
                assert!(!device::is_for(slot, 0, true));
            }
            // The header of a device is no slot, and no device has 16 TiB.
            for offset in [0, u32::MAX] {
                let slot = PhysSlot::new(ty, offset).ok_or(EINVAL)?;
                assert!(device::entry_of(slot).is_none());
            }
        }
        Ok(())
    }
}
