// SPDX-License-Identifier: GPL-2.0

//! Misuses of the API that must not compile. The lint script adds this module to the crate, and
//! checks that the compiler rejects each marked line with the error that the mark names, and no
//! other line.

use crate::{
    ffi::{
        acomp::{
            self,
            Contexts,
            LockedContext, //
        },
        cluster::{
            self,
            ModeLock, //
        },
        cluster_list::ClusterList,
        device::{
            self,
            BackingSlots,
            DeviceSlots,
            LeavingDevice,
            NewBinding,
            UnusedDevice, //
        },
        fault::Fault,
        folio::{
            ChargeTarget,
            EmptyFolio,
            EmptyPage,
            Folio,
            ReadRequest,
            SlotRight,
            SwapEntry,
            SwapFolio,
            SwapFolioGuard,
            SwapPage,
            WritebackFolio,
            Writes, //
        },
        memcg::{
            self,
            Memcg,
            RcuMemcg, //
        },
        params::{
            CompressorParam,
            CompressorWrite, //
        },
        vswap::{
            AddedFolio,
            CountsFrom,
            CountsNr,
            FreedIds,
            IdRefs,
            LeavingFolio,
            NewCharge,
            RecordedFolio,
            SwapCharge,
            SwapCounts,
            UncachedFolio,
            Uncharge, //
        },
        zsmalloc::{
            Emptied,
            InWord,
            NewObject,
            Readable, //
        }, //
    },
    vswap::{
        cluster::{
            swap_cache,
            AllocKey,
            Binding,
            ClearedBits,
            Cluster,
            ClusterGuard,
            EndedBinding,
            ExtendTableKey,
            FolioSlots,
            LockedCluster,
            LockedSlots,
            NewZeros,
            ReplacedDevice,
            SlotChargeKey,
            SpareCluster,
            Tables,
            Taken,
            Unpinned, //
        },
        cluster_list::ListsGuard,
        device_slot::BackKey,
        directory::{
            Directory,
            NewCluster, //
        },
        slot::{
            self,
            FreedKey, //
        },
        slot_map::ListState,
        swap_table::{
            Pfn,
            PhysSlot,
            Shadow,
            State, //
        }, //
    },
    zswap::{
        order,
        pool::{
            FreeBatch,
            Held,
            Initial,
            NewStoredPage,
            PoolRef,
            SlotWord,
            ZswapCharge, //
        },
        record::{
            PageSum,
            Pattern, //
        },
        ring::{
            Chain,
            Member,
            NewMember,
            Ring, //
        },
        table, //
    }, //
};
use kernel::{
    cpu::CpuId,
    prelude::*,
    sync::SetOnce, //
};

// If two guards were swapped, each would unlock the other's folio.
fn a_guard_is_not_swapped_for_another(mut a: SwapFolioGuard<'_>, mut b: SwapFolioGuard<'_>) {
    core::mem::swap(&mut *a, &mut *b); //~ E0596 E0596
}

fn a_new_folio_is_not_written_before_it_is_filled(folio: WritebackFolio, writes: &mut Writes) {
    folio.write(writes); //~ E0599
}

fn a_folio_is_not_uptodate_before_it_is_filled(folio: &mut EmptyFolio<'_>) {
    let _ = folio.fill(|_, _| Ok(())); //~ E0308
}

fn a_page_is_not_filled_by_words(page: &EmptyPage<'_>) {
    let _ = page.filled(); //~ E0624
}

// The page may have newer data than what was swapped out.
fn a_page_in_use_is_not_filled(folio: &mut SwapFolio<'_>, page: &SwapPage<'_>) {
    let _ = page.fill(0); //~ E0599
    let _ = folio.fill(|_, page| Ok(page.fill(0))); //~ E0599
}

// C takes `ENOENT` for a locked folio, reads it from its device and unlocks it.
fn a_folio_that_is_read_is_not_unlocked_before(mut request: ReadRequest<'_>) {
    let mut folio = request.lend();
    let _ = request.end(Ok(())); //~ E0505
    let _ = folio.lend();
}

fn a_lent_folio_is_not_unlocked(folio: EmptyFolio<'_>) {
    folio.forget(); //~ E0599
}

// The same for clusters: each guard would unlock the other's cluster.
fn a_locked_cluster_is_not_swapped_for_another(mut a: ClusterGuard, mut b: ClusterGuard) {
    core::mem::swap(&mut *a, &mut *b); //~ E0596 E0596
}

fn a_lent_cluster_is_not_kept(mut guard: ClusterGuard) {
    let lent = guard.lend();
    drop(guard); //~ E0505
    drop(lent);
}

fn a_lent_folio_is_not_kept(mut folio: SwapFolioGuard<'_>) {
    let lent = folio.lend();
    drop(folio); //~ E0505
    drop(lent);
}

fn the_cgroup_of_an_unlocked_folio_is_unknown(mut folio: SwapFolioGuard<'_>) {
    let owner = folio.lend().owner();
    drop(folio); //~ E0505
    owner.charged(|| ());
}

fn the_cgroup_of_a_read_folio_is_lent(folio: SwapFolioGuard<'_>) {
    let _ = folio.owner(); //~ E0596
}

fn a_folio_is_dropped_once(folio: SwapFolioGuard<'_>) {
    folio.forget();
    drop(folio); //~ E0382
}

fn there_is_one_right_to_a_slot(folio: &mut SwapFolio<'_>) {
    let first = folio.first_slot();
    let second = folio.first_slot(); //~ E0499
    drop((first, second));
}

fn there_is_one_right_to_the_slots_of_a_folio(folio: &mut SwapFolio<'_>) {
    let slots = FolioSlots::of(folio);
    let slot = folio.first_slot(); //~ E0499
    drop((slots, slot));
}

fn the_slots_of_a_folio_are_changed_with_its_right(cluster: &mut LockedCluster<'_>) {
    cluster.set_zero(0, true); //~ E0624
    let _ = cluster.backings(); //~ E0624
}

fn what_is_found_is_not_taken_out_meanwhile(folio: &mut SwapFolio<'_>) {
    let slot = folio.first_slot();
    let held = table::get(&slot);
    table::free_all(folio); //~ E0499
    drop(held);
}

// The device of an entry that was copied earlier may be gone.
fn a_stale_entry_is_not_looked_up(entry: SwapEntry) {
    let _ = table::Ci::of_entry(entry); //~ E0308
}

fn an_entry_is_held_as_long_as_the_right_to_its_slot(folio: &mut SwapFolio<'_>) {
    let held = folio.first_slot().held_entry(); //~ E0716
    let _ = table::Ci::of_entry(held);
}

fn a_device_is_not_kept(device: BackingSlots<'_>) {
    static KEPT: SetOnce<BackingSlots<'static>> = SetOnce::new();
    KEPT.populate(device); //~ E0521
}

fn a_device_that_is_not_turned_off_gives_no_proof(device: BackingSlots<'_>) {
    let _ = device.left(); //~ E0599
}

// C frees the device when swapoff has the proof.
fn the_proof_that_a_device_is_unused_is_not_made_up(
    device: BackingSlots<'_>,
) -> Result<UnusedDevice<'_>> {
    drop(device);
    Ok(UnusedDevice(core::marker::PhantomData)) //~ E0423
}

fn the_proof_that_a_device_is_unused_is_not_kept(device: LeavingDevice<'_>) {
    static KEPT: SetOnce<UnusedDevice<'static>> = SetOnce::new();
    if let Ok(left) = device.left() {
        KEPT.populate(left); //~ E0521
    }
}

fn an_object_is_not_kept(held: &Held<'_>) {
    let mut kept = None;
    let _ = held.read(|object| kept = Some(object)); //~ E0521
}

fn an_object_is_read_once(held: &Held<'_>, page: &EmptyPage<'_>) {
    let _ = held.read(|object| {
        let _ = acomp::copy_plain(object, page);
        acomp::copy_plain(object, page) //~ E0382
    });
}

fn the_length_is_that_of_the_object(
    held: &Held<'_>,
    context: &mut LockedContext<'_>,
    page: &EmptyPage<'_>,
) {
    let _ = held.read(|object| context.decompress(object, 4096, page)); //~ E0061
}

fn output_is_not_read_after_the_context_is_unlocked(context: LockedContext<'_>) {
    let output = context.output(1);
    drop(context); //~ E0505
    output.len();
}

fn a_context_has_the_compressor_of_its_pool(contexts: &Contexts, cpu: CpuId) {
    let _ = contexts.prepare(cpu, c"lzo"); //~ E0061
}

fn a_pool_is_made_current_once(pool: Initial) {
    pool.make_current();
    pool.make_current(); //~ E0382
}

fn an_entry_is_stored_once(folio: &mut SwapFolio<'_>) {
    let Some((mut slot, page)) = folio.nth(0) else {
        return;
    };
    let entry = NewStoredPage::same(Pattern::ZERO, slot.entry());
    let mut sum = ZswapCharge::NONE;
    let _ = table::put(&mut slot, &page, entry, &mut sum);
    let _ = table::put(&mut slot, &page, entry, &mut sum); //~ E0382
}

fn a_number_is_not_a_node(memcg: Memcg<'_>) {
    let _ = Ring::of(memcg, 1000); //~ E0308
}

// RCU does not keep the cgroup while the task sleeps.
fn a_cgroup_under_rcu_is_not_asked_for_what_sleeps(memcg: RcuMemcg<'_>, held: Memcg<'_>) {
    let _ = (held.flush(), memcg.flush()); //~ E0599
    memcg::Cursor::leave(memcg); //~ E0308
}

// C's loop over the pages would not end.
fn a_sample_has_a_step(fault: &Fault<'_>) {
    let _ = fault.used(0, 1, 0, true); //~ E0308
}

fn a_table_does_not_forget_words_that_are_in_use(mut table: table::LockedCi<'_>) {
    table.sub(1); //~ E0308
}

// An object is freed by the task that alone has the right to its slot.
fn an_object_that_others_read_is_not_freed(object: InWord<'_, Readable>, emptied: &mut Emptied) {
    let _ = object.free(0, emptied); //~ E0599
}

fn an_object_is_unpinned_when_it_is_in_its_word(object: NewObject<PoolRef>) {
    object.unpin(); //~ E0133
}

// The hand of the clock follows a pointer of a member to the words of its table.
fn a_member_joins_a_locked_table(chain: &Chain, new: NewMember, entry: SwapEntry) {
    let _ = Chain::add(chain, new, entry); //~ E0308
    let _ = chain.0; //~ E0616
}

// A member follows the pointer in its seat when it leaves its ring. It is on the list of that ring.
fn a_seat_does_not_change_without_the_list(member: &Member) {
    order::retire(member, |_, _| true); //~ E0277
}

// The lock of another cluster is not enough.
fn a_member_changes_with_its_cluster_locked(member: &Member) {
    member.retire(); //~ E0599
    member.clear(1); //~ E0599
    let _ = table::LockedMember(member); //~ E0603
}

fn a_promise_is_taken_back_once(cluster: &mut LockedCluster<'_>) {
    let Some(reserved) = cluster.reserve(1) else {
        return;
    };
    cluster.unreserve(reserved);
    cluster.unreserve(reserved); //~ E0382
}

fn a_word_is_not_stored_beside_its_rules(table: table::LockedCi<'_>) {
    let _ = table.word(0); //~ E0624
    let _ = table.table(); //~ E0624
}

// The word that names a device slot owns it.
fn a_device_slot_is_not_made_of_a_word(slot: PhysSlot) {
    let _ = DeviceSlots::of_word(slot, 0); //~ E0308
}

// A word owns the object or the device slot that it names.
fn a_word_is_not_stored_by_a_reader(ci: table::Ci<'_>) {
    ci.peek_words(|words| {
        if let Some(words) = words {
            FreeBatch::new().take(&words.0[0], None); //~ E0308
        }
    });
}

fn the_right_to_a_word_comes_with_that_to_its_slot(
    words: &table::BackingWords,
    slot: &mut SlotRight<'_>,
) {
    let _ = SlotWord::of(words, 0); //~ E0308
    let _ = SlotWord::of(slot, 0); //~ E0308
}

// A second value for the same slot reads the word again.
fn a_slot_word_is_used_once(freed: &mut FreeBatch, word: SlotWord<'_>, mut sum: ZswapCharge) {
    freed.free(word, &mut sum);
    freed.free(word, &mut sum); //~ E0382
}

fn a_word_is_stored_by_its_owners_alone(words: &table::BackingWords) {
    let _ = &words.0[0].0; //~ E0616
}

fn what_a_store_replaced_is_taken_once(device: ReplacedDevice) {
    device.free();
    device.free(); //~ E0382
}

fn slots_are_uncharged_once(charge: SwapCharge) {
    charge.uncharge();
    charge.uncharge(); //~ E0382
}

fn a_swap_charge_is_not_made_up(recorded: &RecordedFolio<'_>) {
    SwapCharge::of_slots(1, 1000, SlotChargeKey(())).uncharge(); //~ E0423
    NewCharge(()).of(recorded).uncharge(); //~ E0423
}

fn zero_flags_are_not_set_without_a_charge(slots: Taken, folio: RecordedFolio<'_>) {
    let _ = slots.fill(folio, Some(SwapCharge::NONE)); //~ E0308
}

fn slots_of_zeros_are_charged_once(new: NewZeros, slots: &mut LockedSlots<'_>) {
    let _ = new.charge(ChargeTarget::NONE);
    let _ = slots.clear_zeros(new); //~ E0382
}

fn the_list_of_a_cluster_is_not_made_up(cluster: &mut LockedCluster<'_>, lists: &mut ListsGuard) {
    cluster.set_list(ListState::Full, lists); //~ E0624
}

// `SlotReservation` checks that the device slots are for the folio.
fn a_folio_is_not_backed_without_a_check(
    slots: &mut LockedSlots<'_>,
    devices: DeviceSlots,
    reserved: table::ReservedWords,
) {
    let _ = slots.set_slots(devices, reserved, BackKey(())); //~ E0423
    let _ = slots.take_device(BackKey(())); //~ E0423
}

// Only the file that a key belongs to changes the slot map and the extend table.
fn a_key_is_not_made_up(cluster: &mut LockedCluster<'_>) {
    let _ = cluster.own_mut(AllocKey(())); //~ E0423
    let _ = cluster.replace_extend_table(None, ExtendTableKey(())); //~ E0423
}

fn a_cluster_without_tables_is_not_made_up(cluster: &'static Cluster) {
    let _ = SpareCluster::new(cluster); //~ E0624
}

fn a_cluster_gets_no_tables_before_it_is_published(new: NewCluster, tables: Tables) {
    let _ = new.with(tables); //~ E0599
}

fn a_cluster_is_published_once(new: NewCluster) {
    let _ = Directory::publish(new);
    let _ = Directory::publish(new); //~ E0382
}

fn a_cluster_gets_tables_once(spare: SpareCluster, one: Tables, other: Tables) {
    let _ = spare.with(one);
    let _ = spare.with(other); //~ E0382
}

fn a_cluster_is_put_on_the_free_list_once(spare: SpareCluster, lists: &mut ListsGuard) {
    lists.put_spare(spare);
    lists.put_spare(spare); //~ E0382
}

fn a_list_does_not_change_while_it_is_walked(
    lists: &mut ListsGuard,
    cluster: &LockedCluster<'_>,
    list: &'static ClusterList,
) {
    let walk = lists.iter(list);
    lists.move_to(cluster, list); //~ E0502
    drop(walk);
}

fn the_right_to_set_up_is_not_kept(setup: ModeLock<'_>) {
    static KEPT: SetOnce<ModeLock<'static>> = SetOnce::new();
    KEPT.populate(setup); //~ E0521
}

fn a_binding_is_recorded_once(new: NewBinding<'_>) {
    let _ = Binding::record(new);
    let _ = Binding::record(new); //~ E0382
}

fn a_binding_ends_once(ended: EndedBinding<'_>) {
    device::end_binding(ended);
    device::end_binding(ended); //~ E0382
}

fn device_slots_become_idle_once(bits: ClearedBits<'_>) {
    device::idle_bound(bits);
    device::idle_bound(bits); //~ E0382
}

// A lookup reads the `struct page` of the page frame.
fn a_page_frame_is_not_made_up(pfn: Pfn) {
    let _ = cluster::FolioPfn(pfn); //~ E0603
}

// A lookup turns the page frame number in a word into a pointer to a folio.
fn a_word_is_not_made_up(cluster: &mut LockedCluster<'_>, state: State) {
    cluster.set_state(0, state); //~ E0624
    let _ = cluster.try_word(0, Some); //~ E0624
}

fn a_folio_is_added_once(cluster: &mut LockedCluster<'_>, folio: UncachedFolio<'_>) {
    let _ = swap_cache::add(cluster, 0, folio);
    let _ = swap_cache::add(cluster, 1, folio); //~ E0382
}

// Freed slots are allocated again.
fn slots_are_given_back_by_their_owner(cluster: &mut LockedCluster<'_>) {
    let _ = cluster.give_back(0, 1); //~ E0599
}

fn a_folio_that_was_added_is_removed_once(folio: AddedFolio<'_>) {
    folio.remove();
    folio.remove(); //~ E0382
}

// C frees the old name.
fn the_name_of_the_compressor_is_not_used_while_it_changes(compressor: &mut CompressorParam<'_>) {
    let name = compressor.name();
    compressor.set(c""); //~ E0502
    let _ = name.is_empty();
}

fn the_name_of_the_compressor_is_written_once(write: CompressorWrite<'_>) {
    let _ = write.set(c"");
    let _ = write.set(c""); //~ E0382
}

fn a_folio_leaves_once(folio: LeavingFolio<'_>, cluster: &mut LockedCluster<'_>) {
    swap_cache::del(cluster, 0, folio, Shadow::NONE);
    swap_cache::del_folio(folio); //~ E0382
}

fn a_folio_does_not_leave_the_words_of_its_slots(folio: LeavingFolio<'_>) {
    LeavingFolio::leave_cache(folio); //~ E0308
}

fn a_folio_replaces_another_when_c_says_so(
    cluster: &mut LockedCluster<'_>,
    old: &Folio,
    new: &Folio,
) {
    swap_cache::replace(cluster, old, new); //~ E0308
}

fn a_folio_gets_slots_once(one: Taken, other: Taken, folio: RecordedFolio<'_>) {
    let _ = one.fill(folio, None);
    let _ = other.fill(folio, None); //~ E0382
}

fn the_id_of_a_folio_is_recorded_once(folio: UncachedFolio<'_>) {
    let _ = folio.record_id();
    let _ = folio.record_charged(); //~ E0382
}

fn slots_are_for_one_folio(slots: Taken, one: RecordedFolio<'_>, other: RecordedFolio<'_>) {
    let _ = slots.fill(one, None);
    let _ = slots.fill(other, None); //~ E0382
}

fn a_folio_does_not_say_itself_what_its_slots_are(folio: UncachedFolio<'_>) {
    let _ = AddedFolio::of(folio); //~ E0308
}

// A slot whose last count was dropped is freed, although another PTE may name it.
fn swap_counts_are_dropped_by_their_owner(nr: CountsNr) {
    slot::put_entries(512, true); //~ E0308
    let _ = CountsFrom(512).of(nr); //~ E0423
}

fn the_number_of_swap_counts_is_not_made_up(counts: CountsFrom) {
    slot::put_entries(counts.of(1), true); //~ E0308
}

// The slot may be free.
fn swap_counts_are_raised_for_slots_that_stay() {
    let _ = slot::dup_entries(512); //~ E0308
}

fn a_folio_is_consumed_with_a_swap_count(folio: LeavingFolio<'_>) {
    let _ = swap_cache::consume(folio, true); //~ E0308
}

// Only `vswap/` splits counts.
fn swap_counts_are_not_split_elsewhere(counts: SwapCounts) {
    let _ = counts.by_cluster(); //~ E0624
}

fn swap_counts_are_dropped_once(counts: SwapCounts, uncharge: &mut Uncharge) {
    slot::put_entries(counts, true);
    slot::zap_entries(counts, uncharge); //~ E0382
}

fn the_right_to_free_slots_is_not_made_up(taken: Taken) {
    taken.unlock_after(|slots| drop(slots)); //~ E0624
}

fn slots_are_freed_once(slots: Unpinned<'_>) {
    let Ok(slots) = slots.unbacked() else {
        return;
    };
    let _ = slots.clear(|_, _| {});
    let _ = slots.clear(|_, _| {}); //~ E0382
}

// The owner of a count may still use the slot's id.
fn the_id_of_a_slot_in_use_is_not_taken(cluster: &LockedCluster<'_>) {
    let _ = IdRefs::take(cluster); //~ E0308
}

fn references_to_an_id_are_put_once(freed: FreedIds) {
    freed.put();
    freed.put(); //~ E0382
}

// The page counter of memory.swap would underflow.
fn what_freed_slots_leave_is_not_made_up(ids: IdRefs) {
    FreedIds::new(ids, 1000, ZswapCharge::NONE, FreedKey(())).put(); //~ E0423
}

fn stored_pages_are_uncharged_once(sum: ZswapCharge) {
    memcg::unstored(1, sum);
    memcg::unstored(1, sum); //~ E0382
}

fn pages_that_were_not_stored_are_not_uncharged(sum: PageSum) {
    memcg::unstored(1, ZswapCharge(sum)); //~ E0423
}

fn a_number_is_not_a_reference_to_an_id(uncharge: &mut Uncharge) {
    uncharge.add(1); //~ E0308
}
