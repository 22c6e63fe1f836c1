// SPDX-License-Identifier: GPL-2.0

//! Virtual clusters: their memory, their lock, and what is under it.
//!
//! A cluster begins with C's `struct swap_cluster_info`. So C can lock it and keep a pointer to it,
//! without knowing that it is virtual. Its content belongs to Rust: the words of the swap table, in
//! C's format, and beside them the state that C has no field for.
//!
//! # What keeps a cluster
//!
//! - The *header* is never freed. C holds pointers to it across sleeps, with nothing but a
//!   reference to the device of virtual slots. That device always exists. So clusters are
//!   `'static`.
//! - The *tables* exist while a slot is in use, or is about to be. They come and go under the lock
//!   of the cluster, and are freed after an RCU grace period. Readers without the lock use RCU, and
//!   may see the words of a slot that is free by now.
//!
//! # What is under which lock
//!
//! - `ci->lock` ([`LockedCluster`]) protects words, backing words, cgroup ids, counts and the slot
//!   map. It also protects the binding and its bits ([`DeviceMap`]).
//! - Readers without `ci->lock` load one word under RCU. They may follow a backing word only if
//!   they have the right to the slot.
//! - Two writers change a backing word without `ci->lock`, by compare-and-exchange. The hand of the
//!   clock clears the second chance. zsmalloc changes the place, under `class->lock`.
//! - The lock of the lists ([`Lists`]) nests inside `ci->lock`. It protects the lists and their
//!   numbers.
//! - A cluster changes its [`ListState`] under `ci->lock`. Joining or leaving a list takes both
//!   locks.
//!
//! A task that holds the lock of the lists may only try to lock a cluster.
//!
//! C headers: [`mm/vswap.h`](srctree/mm/vswap.h), [`mm/swap_table.h`](srctree/mm/swap_table.h).

mod count;
pub(crate) mod swap_cache;

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use crate::ffi::device;
use crate::{
    ffi::{
        call::FromC,
        device::DeviceSlots,
        folio::{
            Owner,
            Slot,
            SwapFolio, //
        },
        layout::SWAPFILE_CLUSTER,
        vswap::{
            IdRefs,
            NewSwap, //
        },
        zsmalloc::Name, //
    },
    vswap::{
        bound::{
            self,
            DeviceMap, //
        },
        cluster_list::{
            Kind,
            Lists, //
        },
        directory::{
            find,
            Directory, //
        },
        slot_map::{
            ListMove,
            ListState,
            SlotMap, //
        },
        swap_table::{
            is_extended_word,
            is_zero_word,
            Backing,
            Flags,
            PhysSlot,
            State, //
        }, //
    },
    warn::warn_on_once,
    zswap::{
        pool::FreeBatch,
        record::{
            Record,
            Sum, //
        },
        table::{
            Ci,
            LockedTable,
            NewTable,
            Promise,
            Replaced,
            Words,
            SLOTS, //
        }, //
    }, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{
        Deref,
        Range, //
    },
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        rcu, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};

static_assert!(SLOTS == SWAPFILE_CLUSTER as usize);

/// A virtual cluster.
///
/// # Invariants
///
/// A word that names a folio names one that is in the swap cache for the slot, except that the
/// holder of the lock changes both one after the other.
#[repr(C)]
pub(crate) struct Cluster {
    // C finds it here.
    ci: Opaque<bindings::swap_cluster_info>,
    // Under the lock.
    own: UnsafeCell<Own>,
    // What it is bound to. Changed under the lock.
    device: DeviceMap<Atomic<u64>>,
    // Slots in use. Changed under the lock.
    used: Atomic<u32>,
    // Which cluster it is.
    index: u32,
}

static_assert!(core::mem::offset_of!(Cluster, ci) == 0);

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

struct Own {
    map: SlotMap,
    list: ListState,
    // Slots whose count is in the extend table.
    nr_extended: u32,
}

// SAFETY: See above for what is under which lock.
unsafe impl Sync for Cluster {}
// SAFETY: A cluster belongs to no thread.
unsafe impl Send for Cluster {}

impl Cluster {
    /// # Safety
    ///
    /// `ci` is of a virtual cluster.
    #[inline]
    pub(crate) unsafe fn from_ci(ci: *mut bindings::swap_cluster_info) -> &'static Self {
        // SAFETY: The C part is the first field of a `Cluster`, whose header is never freed.
        unsafe { &*ci.cast::<Self>() }
    }

    /// # Safety
    ///
    /// `ci` is NULL, or of a virtual cluster.
    #[inline]
    pub(super) unsafe fn from_raw(ci: *mut bindings::swap_cluster_info) -> Option<&'static Self> {
        // SAFETY: As above.
        unsafe { ci.cast::<Self>().as_ref() }
    }

    #[inline]
    pub(crate) fn as_ci(&self) -> *mut bindings::swap_cluster_info {
        self.ci.get()
    }

    /// Which cluster it is.
    #[inline]
    pub(super) fn index(&self) -> usize {
        self.index as usize
    }

    /// The offset of its first slot.
    #[inline]
    pub(crate) fn first(&self) -> usize {
        self.index().wrapping_mul(SLOTS)
    }

    /// Locks it.
    #[inline]
    pub(crate) fn lock(&'static self) -> Guard {
        // SAFETY: The lock is initialized. Process context: nothing of this is done in interrupts.
        unsafe { bindings::spin_lock(&raw mut (*self.as_ci()).lock) };
        // INVARIANT: Locked.
        Guard(LockedCluster::new(self))
    }

    /// Locks it, unless somebody else has.
    pub(super) fn try_lock(&'static self) -> Option<Guard> {
        // SAFETY: As above.
        let locked = unsafe { bindings::spin_trylock(&raw mut (*self.as_ci()).lock) } != 0;
        // INVARIANT: Locked, in that case.
        locked.then(|| Guard(LockedCluster::new(self)))
    }

    /// The words, for who looks without the lock.
    #[inline]
    fn words_rcu<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a Words> {
        // SAFETY: The words stay for RCU readers, and are accessed atomically only.
        unsafe {
            bindings::vswap_ci_table_rcu(self.as_ci())
                .cast::<Words>()
                .as_ref()
        }
    }

    /// What the word of a slot says, without the lock: it may be old when it is returned.
    #[inline]
    pub(crate) fn peek(&self, off: u32) -> State {
        decode(self.peek_word(off))
    }

    /// The word of a slot, without the lock.
    #[inline]
    pub(crate) fn peek_word(&self, off: u32) -> u64 {
        let rcu = rcu::read_lock();
        match self
            .words_rcu(&rcu)
            .and_then(|words| words.0.get(off as usize))
        {
            // C pairs with the publication of a folio by reference counting, see `lookup`.
            Some(word) => word.load(Relaxed),
            None => 0,
        }
    }

    /// What backs a slot, without the lock: what is found is not to be followed, unless something
    /// else keeps it.
    #[inline]
    pub(crate) fn peek_backing(&self, off: u32) -> Backing {
        match self.device.find(off) {
            Some(slot) => Backing::Phys(slot),
            None => self.peek_word_backing(off),
        }
    }

    /// As [`Self::peek_backing`], for what has a word. Not in line: it is much.
    #[inline(never)]
    fn peek_word_backing(&self, off: u32) -> Backing {
        decode_backing(self.table().map_or(0, |ci| ci.peek(off)))
    }

    /// Returns where the page of a slot can be read synchronously, if anywhere. Does not take the
    /// lock, so the answer may be stale.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(crate) fn peek_at_hand(&self, off: u32) -> Option<AtHand> {
        let word = || self.table().map_or(0, |ci| ci.peek(off));
        AtHand::of(self.device.find(off), word, || {
            is_zero_word(self.peek_word(off))
        })
    }

    /// Its C part, of which the table is.
    #[inline]
    fn table(&self) -> Option<Ci<'_>> {
        // SAFETY: It is a part of the cluster.
        unsafe { Ci::from_raw(self.as_ci()) }
    }

    /// The first slot of the device cluster that it is bound to, without the lock.
    #[inline]
    pub(crate) fn peek_binding(&self) -> Option<PhysSlot> {
        self.device.binding()
    }

    /// Returns true if it is bound and a slot of the device cluster is idle, without the lock.
    pub(crate) fn peek_idle(&self) -> bool {
        self.device.is_bound() && self.device.count() < SWAPFILE_CLUSTER
    }

    /// Returns the first slot at or after `from` with data on the device cluster that begins with
    /// `first`, without the lock.
    pub(crate) fn peek_next_on(&self, first: PhysSlot, from: u32) -> Option<u32> {
        if self.device.binding() != Some(first) {
            return None;
        }
        self.device.next(from)
    }

    /// Slots in use, without the lock.
    pub(crate) fn peek_used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Returns true if it has a table of backing words, without the lock.
    pub(crate) fn peek_has_backing(&self) -> bool {
        self.table().is_some_and(Ci::peek_has_table)
    }

    /// Shows `f` the word of each slot, and what backs it, without the lock: both may be old.
    pub(crate) fn peek_all(&self, mut f: impl FnMut(State, Backing)) {
        let rcu = rcu::read_lock();
        let Some(words) = self.words_rcu(&rcu) else {
            return;
        };
        let Some(ci) = self.table() else {
            return;
        };
        ci.peek_words(|backings| {
            let mut backings = backings.map(|words| words.0.iter());
            for (off, word) in (0..).zip(&words.0) {
                let backing = backings.as_mut().and_then(|words| words.next());
                let backing = match self.device.find(off) {
                    Some(slot) => Backing::Phys(slot),
                    None => {
                        backing.map_or(Backing::None, |word| decode_backing(word.load(Relaxed)))
                    }
                };
                f(decode(word.load(Relaxed)), backing);
            }
        });
    }
}

/// Where a slot is, if it is a virtual one.
#[inline]
fn place(slot: &Slot<'_>) -> Option<(&'static Cluster, u32)> {
    let entry = slot.entry();
    if warn_on_once!(!entry.is_virtual()) {
        return None;
    }
    find(entry.offset())
}

/// Backs a slot with that of a device, instead of what zswap has, which is freed: returns what is
/// not charged any more. Gives the slot of the device back if there is nothing.
#[inline]
pub(crate) fn exchange(slot: &mut Slot<'_>, slots: DeviceSlots) -> Result<Sum, DeviceSlots> {
    let mut freed = FreeBatch::new();
    match place(slot) {
        // SAFETY: The right to the slot is the caller's.
        Some((cluster, off)) => unsafe { cluster.lock().lend().exchange(off, slots, &mut freed) },
        None => Err(slots),
    }
}

/// What a put replaced of a device.
#[inline]
pub(crate) fn replaced_slots(replaced: &mut Replaced) -> Option<DeviceSlots> {
    match decode_backing(replaced.take_other()) {
        // SAFETY: It was in a `DeviceSlots`, and is in no word any more.
        Backing::Phys(slot) => Some(unsafe { DeviceSlots::from_word(slot) }),
        _ => None,
    }
}

/// Returns true if the table of a cluster stays when no word of it is in use, because a slot is
/// left to allocate.
///
/// # Safety
///
/// The cluster is locked.
#[inline]
pub(crate) unsafe fn keeps_table(ci: NonNull<bindings::swap_cluster_info>) -> bool {
    let ci = ci.as_ptr();
    // SAFETY: As required of the caller. A virtual cluster has this flag, and no other.
    unsafe {
        (*ci).flags == bindings::VSWAP_CLUSTER_FLAG as u8
            && Cluster::from_ci(ci).used.load(Relaxed) < SWAPFILE_CLUSTER
    }
}

/// Makes the slot of the device idle that a bound cluster has for one of its slots, because zswap
/// has stored the page. Returns true if it had data.
///
/// # Safety
///
/// The cluster is locked.
#[inline]
pub(crate) unsafe fn idle_replaced(ci: NonNull<bindings::swap_cluster_info>, off: u32) -> bool {
    let ci = ci.as_ptr();
    // SAFETY: As required of the caller. A virtual cluster has this flag, and no other.
    unsafe {
        (*ci).flags == bindings::VSWAP_CLUSTER_FLAG as u8
            && LockedCluster::by_caller(ci).idle_device(off, 1) != 0
    }
}

/// What backed a slot, and does no more.
pub(crate) enum Backed {
    /// What zswap had, and was freed: it is to be uncharged.
    Zswap(Sum),
    /// A slot of a device, which dropping gives back.
    Device(DeviceSlots),
    /// The slot of the device that a bound cluster has for it, which is idle now.
    Bound,
}

/// Decodes a swap table word. Warns of a corrupt word, and returns [`State::Bad`] for it: an I/O
/// error.
#[inline]
fn decode(word: u64) -> State {
    match State::decode(word) {
        Ok(state) => state,
        Err(_) => {
            warn_on_once!(true);
            State::Bad
        }
    }
}

#[inline]
fn decode_backing(word: u64) -> Backing {
    match Backing::decode(word) {
        Ok(backing) => backing,
        Err(_) => {
            warn_on_once!(true);
            Backing::None
        }
    }
}

/// Where the page of a slot is, if it can be read at once: memory, or what is as fast.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) enum AtHand {
    /// Nowhere: the page is zeros.
    Zeros,
    /// In zswap.
    Zswap,
    /// On a device that is synchronous.
    Device,
}

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
impl AtHand {
    /// `bound`: the slot of the bound cluster that has the page. If none has, `word` is the backing
    /// word. Calls `is_zero` if nothing backs the slot.
    #[inline]
    fn of(
        bound: Option<PhysSlot>,
        word: impl FnOnce() -> u64,
        is_zero: impl FnOnce() -> bool,
    ) -> Option<Self> {
        let backing = match bound {
            Some(slot) => Backing::Phys(slot),
            None => match word() {
                // To decode all of it would cost each fault from zswap 95 instructions.
                word if Record::is_tag(word) => return Some(Self::Zswap),
                word => decode_backing(word),
            },
        };
        match backing {
            Backing::Phys(slot) => device::is_fast(slot.ty()).then_some(Self::Device),
            Backing::Zswap(_) => Some(Self::Zswap),
            Backing::None => is_zero().then_some(Self::Zeros),
        }
    }
}

/// A cluster that is locked.
///
/// It is a right, not the lock itself: dropping it changes nothing. The owner of the lock, a
/// [`Guard`] or C, lends the right out. It never gives a `&mut` to one that it keeps, which could
/// be swapped for that of another cluster.
///
/// # Invariants
///
/// The lock is held during `'g`, and one value at a time can be used.
pub(crate) struct LockedCluster<'g> {
    cluster: &'static Cluster,
    _lock: PhantomData<&'g mut ()>,
    _thread: NotThreadSafe,
}

impl LockedCluster<'_> {
    /// Caller sees to the invariants.
    #[inline]
    fn new(cluster: &'static Cluster) -> Self {
        Self {
            cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        }
    }

    /// A cluster that C has locked.
    ///
    /// # Safety
    ///
    /// `ci` is of a virtual cluster, whose lock the caller holds and keeps while the value lives.
    #[inline]
    pub(crate) unsafe fn by_caller(ci: *mut bindings::swap_cluster_info) -> Self {
        // INVARIANT: As required of the caller.
        // SAFETY: As required of the caller.
        Self::new(unsafe { Cluster::from_ci(ci) })
    }

    /// The cluster.
    #[inline]
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    #[inline]
    pub(super) fn ci(&self) -> *mut bindings::swap_cluster_info {
        self.cluster.as_ci()
    }

    #[inline]
    fn own(&self) -> &Own {
        // SAFETY: Protected by the lock, which is held; `&mut self` is needed to change it.
        unsafe { &*self.cluster.own.get() }
    }

    #[inline]
    fn own_mut(&mut self) -> &mut Own {
        // SAFETY: Protected by the lock, which is held, and borrowed exclusively.
        unsafe { &mut *self.cluster.own.get() }
    }

    #[inline]
    fn words(&self) -> Option<&Words> {
        // SAFETY: The table is changed under the lock only, which is held.
        unsafe { (*self.ci()).table.cast::<Words>().as_ref() }
    }

    /// Returns true if there are tables: without, no slot is in use.
    #[inline]
    pub(crate) fn has_table(&self) -> bool {
        self.words().is_some()
    }

    /// What the word of a slot says.
    #[inline]
    pub(crate) fn state(&self, off: u32) -> State {
        match self.words().and_then(|words| words.0.get(off as usize)) {
            Some(word) => decode(word.load(Relaxed)),
            None => State::Null,
        }
    }

    /// Makes the one value for slots that nothing pins. Caller sees to the invariants.
    #[inline]
    fn unpinned(&mut self, start: u32, nr: u32) -> Unpinned<'_> {
        Unpinned {
            cluster: Self::new(self.cluster),
            start,
            nr,
        }
    }

    /// Makes a word up.
    ///
    /// # Safety
    ///
    /// Nobody but the caller knows the slot, or else the word keeps the invariants of [`Cluster`].
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) unsafe fn make_up(&mut self, off: u32, state: State) {
        self.set_state(off, state);
    }

    /// Notes whether a slot, which is in use, is zeros.
    #[inline]
    fn set_zero(&mut self, off: u32, zero: bool) {
        match self.state(off).with_zero(zero) {
            Ok(state) => self.set_state(off, state),
            Err(_) => {
                warn_on_once!(true);
            }
        }
    }

    /// Changes the word of a slot. Caller keeps the invariants of [`Cluster`].
    #[inline]
    fn set_state(&mut self, off: u32, state: State) {
        match self.words().and_then(|words| words.0.get(off as usize)) {
            Some(word) => word.store(state.encode(), Relaxed),
            None => {
                warn_on_once!(true);
            }
        }
    }

    /// Changes the word of a slot, if `f` knows what it is to become. Caller keeps the invariants
    /// of [`Cluster`].
    #[inline]
    fn try_word(&mut self, off: u32, f: impl FnOnce(u64) -> Option<u64>) -> bool {
        let Some(word) = self.words().and_then(|words| words.0.get(off as usize)) else {
            return false;
        };
        match f(word.load(Relaxed)) {
            Some(new) => {
                word.store(new, Relaxed);
                true
            }
            None => false,
        }
    }

    /// Returns what `f` says of the word of a slot; false if there is no such slot.
    #[inline]
    fn is_word(&self, off: u32, f: impl FnOnce(u64) -> bool) -> bool {
        self.words()
            .and_then(|words| words.0.get(off as usize))
            .is_some_and(|word| f(word.load(Relaxed)))
    }

    /// Returns true if a slot is zeros.
    #[inline]
    pub(crate) fn is_zero(&self, off: u32) -> bool {
        self.is_word(off, is_zero_word)
    }

    /// The slots in use.
    #[inline]
    pub(crate) fn used(&self) -> u32 {
        self.cluster.used.load(Relaxed)
    }

    /// The order of the folios that have slots here.
    #[inline]
    pub(crate) fn order(&self) -> u32 {
        // SAFETY: Changed under the lock only, which is held.
        u32::from(unsafe { (*self.ci()).order })
    }

    /// Returns true if a CPU allocates from it, as a cluster of this kind for folios of an order.
    #[inline]
    pub(crate) fn is_for(&self, cpu: u32, order: u32, kind: Kind) -> bool {
        self.own().list == ListState::Cpu(cpu)
            && self.order() == order
            && self.cluster.device.is_bound() == (kind == Kind::Bound)
    }

    /// Makes it the cluster that a CPU allocates folios of an order from. It is on no list.
    pub(super) fn assign(&mut self, cpu: u32, order: u32) {
        // SAFETY: Under the lock. An order is less than `SWAP_NR_ORDERS`.
        unsafe { (*self.ci()).order = order as u8 };
        self.own_mut().list = ListState::Cpu(cpu);
    }

    /// Notes on which list it is. The lists are locked, or the cluster is on none.
    #[inline]
    pub(super) fn set_list(&mut self, list: ListState) {
        self.own_mut().list = list;
    }

    /// Returns true if a folio of its order fits.
    pub(super) fn has_run(&self) -> bool {
        self.own().map.find(self.order()).is_some()
    }

    /// What [`Guard::take_run`] does. Returns the first slot, and how many there are.
    #[inline]
    fn take_run(&mut self) -> Option<(u32, u32)> {
        let order = self.order();
        let start = self.own().map.find(order)?;
        let nr = 1u32.checked_shl(order)?;
        if self.cluster.device.is_bound() && !self.take_device(start, nr) {
            return None;
        }
        self.own_mut().map.take(start, nr);
        self.cluster
            .used
            .store(self.used().wrapping_add(nr), Relaxed);
        SlotUsage::change(nr as c_long);
        Some((start, nr))
    }

    /// Takes idle slots of the device into use for slots of a bound cluster. Returns false if the
    /// cluster is not bound, if the slots are not idle, or when swapoff has begun.
    #[inline]
    fn take_device(&mut self, start: u32, nr: u32) -> bool {
        let device = &self.cluster.device;
        let Some(first) = device.binding() else {
            return false;
        };
        if !device.set(start, nr) {
            return false;
        }
        // SAFETY: The binding keeps the device, and the lock is held.
        let taken = unsafe { bindings::vswap_take_bound(first.ty().into(), nr) };
        if !taken {
            device.clear(start, nr, |_, _| {});
        }
        taken
    }

    /// Makes the slots of the device idle that back slots of a bound cluster. Returns how many of
    /// them did: these are not charged any more.
    #[inline]
    fn idle_device(&mut self, start: u32, nr: u32) -> u32 {
        // SAFETY: The lock is held.
        unsafe { Self::idle(&self.cluster.device, start, nr) }
    }

    /// # Safety
    ///
    /// The cluster is locked.
    #[inline]
    unsafe fn idle(device: &DeviceMap<Atomic<u64>>, start: u32, nr: u32) -> u32 {
        let Some(first) = device.binding() else {
            return 0;
        };
        device.clear(start, nr, |at, len| {
            let offset = first.offset().wrapping_add(at);
            // SAFETY: The slots were in use, as their bits said, and the binding keeps the device.
            unsafe { bindings::vswap_idle_bound(first.ty().into(), offset, len) };
        })
    }

    /// Binds the cluster, no slot of which is in use, to a free one of a device. Returns false if
    /// the device has none.
    pub(crate) fn bind(&mut self, ty: u8) -> bool {
        // SAFETY: The lock is held.
        let offset = unsafe { bindings::vswap_bind(ty.into(), self.cluster.index as usize) };
        match PhysSlot::new(ty, offset) {
            Some(first) if offset != 0 => self.cluster.device.bind(first),
            _ => false,
        }
    }

    /// Ends the binding of a cluster none of whose slots has data on the device.
    fn unbind_idle(&mut self) {
        // Keep the binding: another task could write over data in slots that were given back.
        if warn_on_once!(self.cluster.device.count() != 0) {
            return;
        }
        if let Some(first) = self.cluster.device.unbind(|_, _| {}) {
            let (ty, offset) = (first.ty().into(), first.offset());
            // SAFETY: The device cluster was bound to this one, whose lock is held.
            unsafe {
                bindings::vswap_unbind(ty, offset, 0, core::ptr::null(), core::ptr::null_mut())
            };
        }
    }

    /// Ends the binding to a device that is being turned off, and has no data any more. `EBUSY`: it
    /// has, and the device has to stay.
    pub(crate) fn leave_device(&mut self, ty: u8) -> Result {
        if self.cluster.device.binding().map(PhysSlot::ty) == Some(ty) {
            self.unbind_idle();
            if self.cluster.device.is_bound() {
                return Err(EBUSY);
            }
            Lists::lock().retire(self);
        }
        Ok(())
    }

    /// Ends the binding: slots with data on the device get backing words, and the others of the
    /// device cluster are free. Returns false if the cluster is not bound, or `memory` is needed
    /// for the words and not there. Takes `memory` if it is used.
    pub(crate) fn scatter(&mut self, memory: &mut Option<Scatter>) -> bool {
        let nr = self.cluster.device.count();
        if !self.cluster.device.is_bound() {
            return false;
        }
        if nr == 0 {
            self.unbind_idle();
            Lists::lock().retire(self);
            return true;
        }
        let Some(Scatter { table, mut words }) = memory.take() else {
            return false;
        };
        self.table().give(table);
        // The words have the promise then.
        if self.reserve(nr).is_none() {
            return false;
        }
        let mut bits = [0u64; bound::WORDS];
        let first = self.cluster.device.unbind(|slot, place| {
            if let Some(word) = self.backing_word(slot) {
                word.store(Backing::Phys(place).encode(), Relaxed);
            }
            if let Some(word) = bits.get_mut((slot / u64::BITS) as usize) {
                *word |= 1u64.wrapping_shl(slot);
            }
        });
        if let Some(first) = first {
            words.give(first, self.cluster.first(), &bits);
        }
        Lists::lock().retire(self);
        true
    }

    /// Gives slots back, whose words are null. The cluster may lose its tables by that.
    #[inline]
    fn free_run(&mut self, start: u32, nr: u32) {
        let order = self.order();
        let own = self.own_mut();
        // A leak is the lesser evil than a slot that two folios have.
        if warn_on_once!(!own.map.free(start, nr)) {
            return;
        }
        let list = own.list;
        // Only then does it matter, and looking costs something.
        let has_run = list.awaits_run() && own.map.freed_run(order, start, nr);
        let used = self.used().wrapping_sub(nr);
        self.cluster.used.store(used, Relaxed);
        SlotUsage::change((nr as c_long).wrapping_neg());
        match list.after_free(used, has_run) {
            ListMove::Stay => {}
            ListMove::ToPartial => Lists::lock().add(self, ListState::Partial),
            ListMove::ToFrag => Lists::lock().add(self, ListState::Frag),
            // Cluster 0, which no folio is in.
            ListMove::ToFree if warn_on_once!(!self.has_table()) => {}
            ListMove::ToFree => {
                if self.cluster.device.is_bound() {
                    self.unbind_idle();
                }
                // A leak is the lesser evil than an entry whose word is gone.
                if !warn_on_once!(self.any_backed()) {
                    // SAFETY: As was just seen.
                    unsafe { self.table().free() };
                }
                // SAFETY: No slot is in use, and the lock is held.
                unsafe { bindings::vswap_tables_free(self.ci()) };
                self.own_mut().nr_extended = 0;
                let mut lists = Lists::lock();
                lists.add(self, ListState::Free);
                lists.uncount_populated();
            }
        }
    }

    /// The first slot in use, at or after `from`.
    pub(crate) fn next_used(&self, from: u32) -> Option<u32> {
        self.own().map.next_used(from)
    }

    /// The memory cgroup id of a slot, 0 for none.
    #[inline]
    pub(crate) fn id(&self, off: u32) -> u16 {
        self.table_ref().id(off)
    }

    /// Notes the memory cgroup id of slots, which have the references from now on.
    #[inline]
    pub(crate) fn set_ids(&mut self, off: u32, ids: IdRefs) {
        let nr = ids.nr();
        if warn_on_once!(nr == 0 || off.saturating_add(nr) > SWAPFILE_CLUSTER) {
            return;
        }
        // SAFETY: The lock is held, and the slots are of the cluster.
        unsafe { ids.give(self.ci(), off) };
    }

    /// What backs a slot.
    #[inline]
    pub(crate) fn backing(&self, off: u32) -> Backing {
        if let Some(slot) = self.cluster.device.find(off) {
            return Backing::Phys(slot);
        }
        match self.backing_word(off) {
            Some(word) => decode_backing(word.load(Relaxed)),
            None => Backing::None,
        }
    }

    /// Returns where the page of a slot can be read at once. `zero`: its flag says zeros.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(crate) fn at_hand(&self, off: u32, zero: bool) -> Option<AtHand> {
        let word = || self.backing_word(off).map_or(0, |word| word.load(Relaxed));
        AtHand::of(self.cluster.device.find(off), word, || zero)
    }

    #[inline]
    fn backing_word(&self, off: u32) -> Option<&Atomic<u64>> {
        self.backings()?.0.get(off as usize)
    }

    #[inline]
    fn backings(&self) -> Option<&Words> {
        // SAFETY: The table changes under the lock only, which is held.
        unsafe {
            (*self.cluster.ci.get())
                .zswap
                .as_ref()?
                .words
                .cast::<Words>()
                .as_ref()
        }
    }

    /// The table of what backs the slots.
    #[inline]
    fn table(&mut self) -> LockedTable<'_> {
        // SAFETY: The lock is held while `self` is borrowed.
        unsafe { LockedTable::by_caller(NonNull::new_unchecked(self.ci())) }
    }

    #[inline]
    fn table_ref(&self) -> impl core::ops::Deref<Target = LockedTable<'_>> + '_ {
        // SAFETY: The lock is held while `self` is borrowed. Shared, it changes nothing.
        Shared(unsafe { LockedTable::by_caller(NonNull::new_unchecked(self.ci())) })
    }

    /// Returns true if a bit says that a slot has data on the device cluster.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn has_bit(&self, off: u32) -> bool {
        self.cluster.device.has(off)
    }

    /// How many slots have a backing word, or a promise of one.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn nr_backed(&self) -> u32 {
        self.table_ref().nr()
    }

    /// Returns true if the order of writeback has the entries, and nothing else.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn order_agrees(&self) -> bool {
        self.table_ref().agrees()
    }

    /// Returns true if any slot has a backing, or a promise of one.
    #[inline]
    pub(crate) fn any_backed(&self) -> bool {
        self.table_ref().nr() != 0
    }

    /// Promises `nr` slots that they can be backed without memory; `None` if there is no table.
    #[inline]
    pub(crate) fn reserve(&mut self, nr: u32) -> Option<Promise> {
        self.table().promise(nr)
    }

    /// Takes a promise back.
    #[inline]
    pub(crate) fn unreserve(&mut self, promise: Promise) {
        self.table().take_back(promise);
    }

    /// Counts backing words no more, which the caller has taken out.
    #[inline]
    fn words_gone(&mut self, nr: u32) {
        // SAFETY: As said. Only this module changes them, under the lock.
        unsafe { self.table().sub(nr) };
    }

    /// Makes `table` that of the backing words, unless there is one.
    pub(crate) fn add_backing_table(&mut self, table: BackingTable) {
        self.table().give(table.0);
    }

    /// Backs slots with those of a device, for which there is a promise. What backed them before
    /// was taken out.
    pub(crate) fn set_slots(
        &mut self,
        off: u32,
        slots: DeviceSlots,
        promise: Promise,
    ) -> Result<(), (DeviceSlots, Promise)> {
        let nr = slots.nr();
        let is_unbacked = |n| matches!(self.backing(off.wrapping_add(n)), Backing::None);
        let fits = self.table_ref().has_promised(&promise, nr) && (0..nr).all(is_unbacked);
        if warn_on_once!(!fits) {
            return Err((slots, promise));
        }
        // The words have the promise then.
        for n in 0..nr {
            match (self.backing_word(off.wrapping_add(n)), slots.nth(n)) {
                (Some(word), Some(slot)) => word.store(Backing::Phys(slot).encode(), Relaxed),
                // There is a word for each slot, and a promise: a table.
                _ => {
                    warn_on_once!(true);
                }
            }
        }
        slots.named();
        Ok(())
    }

    /// Backs a slot with that of a device, instead of an entry, whose promise it has then.
    ///
    /// # Safety
    ///
    /// The caller has the right to the slot.
    unsafe fn exchange(
        &mut self,
        off: u32,
        slots: DeviceSlots,
        freed: &mut FreeBatch,
    ) -> Result<Sum, DeviceSlots> {
        let name = self.name(off);
        let (Some(word), Some(slot)) = (self.backing_word(off), slots.nth(0)) else {
            return Err(slots);
        };
        if slots.nr() != 1 || !Record::is_tag(word.load(Relaxed)) {
            return Err(slots);
        }
        let mut sum = Sum::NONE;
        // SAFETY: As required of the caller.
        unsafe { freed.take(word, name, Backing::Phys(slot).encode(), &mut sum) };
        slots.named();
        self.table().forget(off, 1);
        Ok(sum)
    }

    /// The name of what zswap has of a slot.
    #[inline]
    fn name(&self, off: u32) -> Name {
        Name::of_virtual(self.cluster.first()).add(off)
    }

    /// What [`Unpinned::clear`] does. Returns false, and does nothing, without tables.
    #[inline(always)]
    fn kill(
        &mut self,
        start: u32,
        nr: u32,
        freed: &mut FreeBatch,
        mut f: impl FnMut(u64, IdRefs, Option<Backed>),
    ) -> bool {
        let range = start as usize..start.wrapping_add(nr) as usize;
        let words = self.words().and_then(|words| words.0.get(range.clone()));
        let backings = self.backings().and_then(|words| words.0.get(range));
        let (Some(words), Some(backings)) = (words, backings) else {
            warn_on_once!(true);
            return false;
        };
        let (mut nr_backed, mut any_entry) = (0u32, false);
        let device = &self.cluster.device;
        let bound = device.is_bound();
        for (off, (word, backing)) in (start..).zip(words.iter().zip(backings)) {
            let old = word.load(Relaxed);
            word.store(State::Null.encode(), Relaxed);
            // SAFETY: The lock is held.
            let id = unsafe { IdRefs::take(self.ci(), off) };
            // SAFETY: The name is that of the slot, which nothing pins.
            let mut backed = unsafe { Self::take_word(backing, self.name(off), freed) };
            nr_backed = nr_backed.wrapping_add(backed.is_some().into());
            any_entry |= matches!(backed, Some(Backed::Zswap(_)));
            if bound && device.has(off) {
                backed = Some(Backed::Bound);
            }
            f(old, id, backed);
            self.invalidate_tags(off);
        }
        if bound {
            self.idle_device(start, nr);
        }
        if any_entry {
            self.table().forget(start, nr);
        }
        if nr_backed != 0 {
            self.words_gone(nr_backed);
        }
        true
    }

    /// What [`Unbacked::clear`] does. Returns false, and does nothing, without tables.
    #[inline(always)]
    fn kill_unbacked(&mut self, start: u32, nr: u32, mut f: impl FnMut(IdRefs, u32)) -> bool {
        let end = start.wrapping_add(nr);
        let range = start as usize..end as usize;
        let Some(words) = self.words().and_then(|words| words.0.get(range)) else {
            warn_on_once!(true);
            return false;
        };
        let device = &self.cluster.device;
        let (mut from, mut ids, mut charged) = (start, IdRefs::NONE, 0u32);
        for (off, word) in (start..).zip(words) {
            let old = word.load(Relaxed);
            word.store(State::Null.encode(), Relaxed);
            // SAFETY: The lock is held.
            let id = unsafe { IdRefs::take(self.ci(), off) };
            if let Err(id) = ids.append(id) {
                let before = core::mem::replace(&mut ids, id);
                if before.nr() != 0 {
                    // SAFETY: The lock is held.
                    let idle = unsafe { Self::idle(device, from, before.nr()) };
                    f(before, charged.wrapping_add(idle));
                }
                (from, charged) = (off, 0);
            }
            charged = charged.wrapping_add(is_zero_word(old).into());
        }
        // SAFETY: The lock is held.
        let idle = unsafe { Self::idle(device, from, ids.nr()) };
        f(ids, charged.wrapping_add(idle));
        for off in start..end {
            self.invalidate_tags(off);
        }
        true
    }

    /// Drops what the architecture keeps for a slot that is being freed, such as memory tags.
    #[inline]
    fn invalidate_tags(&self, off: u32) {
        let offset = self.cluster.first().wrapping_add(off as usize);
        // SAFETY: The lock is held, and nothing pins the slot: nobody looks for its tags.
        unsafe { bindings::vswap_invalidate_tags(offset) };
    }

    /// Takes what backs a slot out of its word.
    ///
    /// # Safety
    ///
    /// The name is that of the slot, whose cluster is locked. The caller has the right to it.
    #[inline]
    unsafe fn take_word(word: &Atomic<u64>, name: Name, freed: &mut FreeBatch) -> Option<Backed> {
        let value = word.load(Relaxed);
        if value == 0 {
            return None;
        }
        if Record::is_tag(value) {
            let mut sum = Sum::NONE;
            // SAFETY: As required of the caller.
            unsafe { freed.take(word, name, 0, &mut sum) };
            return Some(Backed::Zswap(sum));
        }
        word.store(0, Relaxed);
        match decode_backing(value) {
            // SAFETY: It was in a `DeviceSlots`, and is in no word any more.
            Backing::Phys(slot) => Some(Backed::Device(unsafe { DeviceSlots::from_word(slot) })),
            _ => None,
        }
    }

    #[inline]
    fn extend_word(&self, off: u32) -> Option<NonNull<u32>> {
        if off >= SWAPFILE_CLUSTER {
            return None;
        }
        // SAFETY: Changed under the lock only, which is held.
        let table = NonNull::new(unsafe { (*self.ci()).extend_table })?;
        // SAFETY: The table has a number for each slot, and `off` is one.
        Some(unsafe { table.add(off as usize) })
    }

    /// Returns true if there is a table for large counts.
    #[inline]
    pub(crate) fn can_extend(&self) -> bool {
        self.extend_word(0).is_some()
    }

    /// The count of a slot whose word says that it is in the extend table.
    #[inline]
    pub(crate) fn extended(&self, off: u32) -> u32 {
        match self.extend_word(off) {
            // SAFETY: Under the lock.
            Some(word) => unsafe { word.read() },
            None => 0,
        }
    }

    /// One more, if the count of a slot is in the extend table: in one look at each, as fork does
    /// it for each entry of a page table. `false`: it is not there, or cannot be more.
    #[inline]
    fn raise_extended(&mut self, off: u32) -> bool {
        let word = self.words().and_then(|words| words.0.get(off as usize));
        if !word.is_some_and(|word| is_extended_word(word.load(Relaxed))) {
            return false;
        }
        let Some(count) = self.extend_word(off) else {
            return false;
        };
        // SAFETY: Under the lock.
        match unsafe { count.read() } {
            // It is not there, or cannot be more.
            0 | u32::MAX => false,
            now => {
                // SAFETY: Likewise.
                unsafe { count.write(now.wrapping_add(1)) };
                true
            }
        }
    }

    /// Changes a count in the extend table; 0 takes it out. The table goes with the last.
    fn set_extended(&mut self, off: u32, count: u32) {
        let Some(word) = self.extend_word(off) else {
            warn_on_once!(true);
            return;
        };
        // SAFETY: Under the lock.
        let old = unsafe { word.replace(count) };
        let own = self.own_mut();
        match (old, count) {
            (0, 0) => {}
            (0, _) => own.nr_extended = own.nr_extended.wrapping_add(1),
            (_, 0) => own.nr_extended = own.nr_extended.wrapping_sub(1),
            _ => {}
        }
        if own.nr_extended == 0 {
            // SAFETY: Under the lock. It was allocated as an `ExtendTable`.
            unsafe {
                let table = (*self.ci()).extend_table;
                (*self.ci()).extend_table = core::ptr::null_mut();
                drop(NonNull::new(table).map(ExtendTable));
            }
        }
    }

    /// Makes `table` that of the large counts, unless there is one or the cluster is not in use.
    pub(crate) fn add_extend_table(&mut self, table: ExtendTable) {
        if self.has_table() && !self.can_extend() {
            let table = ManuallyDrop::new(table).0.as_ptr();
            // SAFETY: Under the lock.
            unsafe { (*self.ci()).extend_table = table };
        }
    }
}

impl FromC<*mut bindings::swap_cluster_info> for LockedCluster<'_> {
    /// # Safety
    ///
    /// `ci` is of a virtual cluster, whose lock the caller holds while the function runs.
    #[inline]
    unsafe fn from_c(ci: *mut bindings::swap_cluster_info) -> Self {
        // SAFETY: As required of the caller.
        unsafe { Self::by_caller(ci) }
    }
}

/// Slots in a row that nothing pins, of a locked cluster: the right to free them.
///
/// Dropping it leaves them in use.
///
/// # Invariants
///
/// The slots are in use, and the swap cache has no folio for them. Nobody counts on them but the
/// owner of the value, who gives that up. There is one value for them.
#[must_use]
pub(crate) struct Unpinned<'g> {
    cluster: LockedCluster<'g>,
    start: u32,
    nr: u32,
}

impl<'g> Unpinned<'g> {
    /// Returns what is freed with less, if the cluster has no backing words.
    #[inline]
    pub(crate) fn unbacked(self) -> Result<Unbacked<'g>, Self> {
        if self.cluster.any_backed() {
            Err(self)
        } else {
            // INVARIANT: Just checked, under the lock.
            Ok(Unbacked(self))
        }
    }

    /// Clears the words, and takes out what backs the slots. `f` gets what each word was, the
    /// reference to the memory cgroup id, and what backed the slot. `None`: the cluster has no
    /// tables, which cannot be, and the slots stay taken.
    // In line, as what there is of tables is looked up once.
    #[inline(always)]
    pub(crate) fn clear(
        mut self,
        freed: &mut FreeBatch,
        f: impl FnMut(u64, IdRefs, Option<Backed>),
    ) -> Option<Cleared<'g>> {
        let cleared = self.cluster.kill(self.start, self.nr, freed, f);
        // INVARIANT: The words are null now.
        cleared.then(|| Cleared(self))
    }
}

/// As [`Unpinned`], of a cluster without backing words.
///
/// # Invariants
///
/// No word backs a slot of the cluster.
#[must_use]
pub(crate) struct Unbacked<'g>(Unpinned<'g>);

impl<'g> Unbacked<'g> {
    /// As [`Unpinned::clear`]: zeros, and what is on the device that the cluster is bound to. `f`
    /// gets the references to a memory cgroup id, and how many of their slots are charged as swap.
    #[inline(always)]
    pub(crate) fn clear(self, f: impl FnMut(IdRefs, u32)) -> Option<Cleared<'g>> {
        let Self(mut slots) = self;
        let cleared = slots.cluster.kill_unbacked(slots.start, slots.nr, f);
        // INVARIANT: The words are null now.
        cleared.then(|| Cleared(slots))
    }
}

/// Slots that were cleared, and are still taken in the slot map: dropping leaves them so.
///
/// # Invariants
///
/// The words of the slots are null, and nothing backs them. There is one value for them.
#[must_use]
pub(crate) struct Cleared<'g>(Unpinned<'g>);

impl Cleared<'_> {
    /// Gives the slots back. The cluster may lose its tables by that.
    #[inline]
    pub(crate) fn free(self) {
        let Self(mut slots) = self;
        slots.cluster.free_run(slots.start, slots.nr);
    }
}

/// Slots in a row that nothing pins, while more of them are found.
///
/// # Invariants
///
/// As of [`Unpinned`], for the slots from `start` to `end`.
struct Row {
    start: u32,
    end: u32,
}

impl Row {
    // INVARIANT: These are none.
    const NONE: Self = Self { start: 0, end: 0 };

    /// Adds a slot of the cluster, for which the invariants hold. Gives those before to `free`, if
    /// they are not in a row with it.
    #[inline]
    fn add(
        &mut self,
        cluster: &mut LockedCluster<'_>,
        off: u32,
        free: &mut impl FnMut(Unpinned<'_>),
    ) {
        if self.end != off {
            self.flush(cluster, free);
            self.start = off;
        }
        self.end = off.wrapping_add(1);
    }

    /// Gives the slots to `free`.
    #[inline]
    fn flush(&mut self, cluster: &mut LockedCluster<'_>, free: &mut impl FnMut(Unpinned<'_>)) {
        let nr = self.end.wrapping_sub(self.start);
        if nr != 0 {
            free(cluster.unpinned(self.start, nr));
        }
        self.start = self.end;
    }
}

/// A cluster that we have locked: dropping unlocks it.
///
/// # Invariants
///
/// The value owns the lock.
#[must_use]
pub(crate) struct Guard(LockedCluster<'static>);

impl Guard {
    /// Lends the right out, which it takes to change anything.
    #[inline]
    pub(crate) fn lend(&mut self) -> LockedCluster<'_> {
        // INVARIANT: Locked while `self` is borrowed, and `self` is not used meanwhile.
        LockedCluster::new(self.0.cluster)
    }

    /// Takes the slots for a folio of its order, if there is a place for one. Those of a bound
    /// cluster are taken together with the slots of the device. `Err`: there is none.
    #[inline]
    pub(crate) fn take_run(mut self) -> Result<Taken, Self> {
        let run = self.lend().take_run();
        match run {
            // INVARIANT: Just taken. The word of a free slot is null.
            Some((start, nr)) => Ok(Taken {
                guard: self,
                start,
                nr,
            }),
            None => Err(self),
        }
    }
}

impl Deref for Guard {
    type Target = LockedCluster<'static>;

    #[inline]
    fn deref(&self) -> &LockedCluster<'static> {
        &self.0
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Locked, by the invariants.
        unsafe { bindings::spin_unlock(&raw mut (*self.0.ci()).lock) };
    }
}

/// The slots of a folio: the right to change what backs them.
///
/// # Invariants
///
/// They are the virtual slots of a folio that is locked and in the swap cache during `'f`. There is
/// one value for them.
pub(crate) struct FolioSlots<'f> {
    cluster: &'static Cluster,
    start: u32,
    nr: u32,
    _lock: PhantomData<&'f mut ()>,
}

impl<'f> FolioSlots<'f> {
    /// The slots of a folio. `None`: they are not virtual ones.
    #[inline]
    pub(crate) fn of(folio: &'f mut SwapFolio<'_>) -> Option<Self> {
        let nr = folio.nr_pages() as u32;
        let (cluster, start) = place(&folio.first_slot())?;
        // INVARIANT: By those of the folio, which is borrowed. Its slots are consecutive.
        Some(Self {
            cluster,
            start,
            nr,
            _lock: PhantomData,
        })
    }

    /// Their cluster.
    #[inline]
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// Which of the cluster they are.
    #[inline]
    pub(crate) fn range(&self) -> Range<u32> {
        self.start..self.start.wrapping_add(self.nr)
    }

    /// Locks their cluster.
    #[inline]
    pub(crate) fn lock(&mut self) -> LockedSlots<'_> {
        LockedSlots {
            guard: self.cluster.lock(),
            slots: self,
        }
    }
}

/// The slots of a folio, whose cluster we have locked: dropping unlocks it.
///
/// # Invariants
///
/// The slots are of the cluster, and were borrowed exclusively.
#[must_use]
pub(crate) struct LockedSlots<'s> {
    guard: Guard,
    slots: &'s FolioSlots<'s>,
}

impl LockedSlots<'_> {
    /// The memory cgroup id of the slots, 0 for none.
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.guard.id(self.slots.start)
    }

    /// Takes idle slots of the device into use for them, and returns the first. `None`: the cluster
    /// is not bound, the slots are not idle, or swapoff has begun.
    #[inline]
    pub(crate) fn take_device(&mut self) -> Option<PhysSlot> {
        let FolioSlots { start, nr, .. } = *self.slots;
        if !self.guard.lend().take_device(start, nr) {
            return None;
        }
        self.slots.cluster.device.find(start)
    }

    /// Makes the slots of the device idle that back them. Returns how many: these are not charged
    /// any more.
    #[inline]
    pub(crate) fn idle_device(&mut self) -> u32 {
        let FolioSlots { start, nr, .. } = *self.slots;
        self.guard.lend().idle_device(start, nr)
    }

    /// Takes away what backing words say backs the slots, whose folio is dirty or about to be. `f`
    /// gets it.
    #[inline]
    pub(crate) fn take(&mut self, freed: &mut FreeBatch, mut f: impl FnMut(Backed)) {
        let FolioSlots { start, nr, .. } = *self.slots;
        let mut cluster = self.guard.lend();
        let (mut nr_backed, mut any_entry) = (0u32, false);
        for off in self.slots.range() {
            let Some(word) = cluster.backing_word(off) else {
                return;
            };
            // SAFETY: The name is that of the slot. The lock of the folio is the right to it.
            let backed = unsafe { LockedCluster::take_word(word, cluster.name(off), freed) };
            if let Some(backed) = backed {
                nr_backed = nr_backed.wrapping_add(1);
                any_entry |= matches!(backed, Backed::Zswap(_));
                f(backed);
            }
        }
        if any_entry {
            cluster.table().forget(start, nr);
        }
        if nr_backed != 0 {
            cluster.words_gone(nr_backed);
        }
    }

    /// Notes that the slots are zeros.
    #[inline]
    pub(crate) fn set_zeros(&mut self) {
        let mut cluster = self.guard.lend();
        for off in self.slots.range() {
            cluster.set_zero(off, true);
        }
    }

    /// Notes that no slot is zeros. Returns how many were.
    #[inline]
    pub(crate) fn clear_zeros(&mut self) -> u32 {
        let mut cluster = self.guard.lend();
        let mut nr = 0u32;
        for off in self.slots.range() {
            if cluster.is_zero(off) {
                cluster.set_zero(off, false);
                nr = nr.wrapping_add(1);
            }
        }
        nr
    }
}

/// Slots in a row that were taken for a folio, of a cluster that we have locked.
///
/// To let it go without using the slots, give them back: [`Self::cancel`].
///
/// # Invariants
///
/// The slots are taken in the slot map, and their words are null. There is one value for them.
#[must_use]
pub(crate) struct Taken {
    guard: Guard,
    start: u32,
    nr: u32,
}

impl Taken {
    /// The cluster.
    #[inline]
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.guard.cluster()
    }

    /// The first of the slots.
    #[inline]
    pub(crate) fn start(&self) -> u32 {
        self.start
    }

    /// Lends the right to change the cluster out.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) fn lend(&mut self) -> LockedCluster<'_> {
        self.guard.lend()
    }

    /// Gives the slots back, and unlocks the cluster.
    pub(crate) fn cancel(self) {
        let Self {
            mut guard,
            start,
            nr,
        } = self;
        let mut cluster = guard.lend();
        cluster.idle_device(start, nr);
        cluster.free_run(start, nr);
    }

    /// Adds a folio to the swap cache for the slots, and notes their memory cgroup id. `Err`: it is
    /// not as large as they are, which are given back.
    #[inline]
    pub(crate) fn fill<'a>(
        self,
        folio: NewSwap<'a>,
        ids: IdRefs,
    ) -> Result<(Guard, SwapFolio<'a>), (NewSwap<'a>, IdRefs)> {
        let pfn = folio.pfn().filter(|_| folio.nr_pages() == self.nr);
        let Some(pfn) = pfn else {
            warn_on_once!(true);
            self.cancel();
            return Err((folio, ids));
        };
        let Self {
            mut guard,
            start,
            nr,
        } = self;
        let mut cluster = guard.lend();
        let state = State::Pfn {
            flags: Flags::EMPTY,
            pfn,
        };
        for off in start..start.wrapping_add(nr) {
            cluster.set_state(off, state);
        }
        if ids.id() != 0 {
            cluster.set_ids(start, ids);
        }
        let offset = cluster.cluster().first().wrapping_add(start as usize);
        // SAFETY: The lock is held. The words of these slots, as many as the folio has pages, name
        // it since just now. By the invariants nobody else has them.
        let folio = unsafe { folio.enter_cache(offset) };
        Ok((guard, folio))
    }
}

/// A cluster that we have locked, one of whose slots nothing pins: as [`Unpinned`].
///
/// # Invariants
///
/// As of [`Unpinned`], for the slot.
#[must_use]
pub(crate) struct UnpinnedAlone {
    guard: Guard,
    off: u32,
}

impl UnpinnedAlone {
    /// Caller sees to the invariants.
    #[inline]
    fn new(guard: Guard, off: u32) -> Self {
        Self { guard, off }
    }

    /// Runs `free` on the slot, and unlocks the cluster.
    #[inline]
    pub(crate) fn unlock_after<R>(self, free: impl FnOnce(Unpinned<'_>) -> R) -> R {
        let Self { mut guard, off } = self;
        let ret = free(guard.lend().unpinned(off, 1));
        drop(guard);
        ret
    }
}

/// Lets a table be looked at, and not changed.
struct Shared<'a>(LockedTable<'a>);

impl<'a> Deref for Shared<'a> {
    type Target = LockedTable<'a>;

    #[inline]
    fn deref(&self) -> &LockedTable<'a> {
        &self.0
    }
}

/// Memory for backing words, all zeros.
pub(crate) struct BackingTable(NewTable);

impl BackingTable {
    /// Allocates, charged to the cgroup of `owner`. May sleep.
    pub(crate) fn alloc(owner: Owner<'_>) -> Option<Self> {
        owner.charged(NewTable::alloc).map(Self)
    }
}

/// What a bound cluster needs to have words: memory for those of its own, and those of the device.
pub(crate) struct Scatter {
    table: NewTable,
    words: DeviceWords,
}

impl Scatter {
    /// Allocates. May sleep.
    pub(crate) fn alloc() -> Option<Self> {
        // First what leaves the reserves alone: a table that is not used is freed late, by RCU.
        let words = DeviceWords::alloc()?;
        Some(Self {
            table: NewTable::alloc()?,
            words,
        })
    }
}

/// The tables of a cluster of a device that is to have words.
///
/// # Invariants
///
/// The tables that are there are nobody else's.
struct DeviceWords(Opaque<bindings::swap_cluster_info>);

impl DeviceWords {
    fn alloc() -> Option<Self> {
        let words = Self(Opaque::zeroed());
        // SAFETY: All zeros is a cluster without tables and flags, which is all that C looks at.
        to_result(unsafe { bindings::vswap_alloc_scatter(words.0.get()) }).ok()?;
        Some(words)
    }

    /// Gives them to a bound cluster of a device, which is bound no more. `bits`: of its slots,
    /// which are to name those from `voffset` on.
    fn give(&mut self, first: PhysSlot, voffset: usize, bits: &[u64; bound::WORDS]) {
        let (ty, offset) = (first.ty().into(), first.offset());
        let bits = bits.as_ptr().cast::<c_ulong>();
        // SAFETY: The device cluster was bound to one whose lock is held. There is a bit for each
        // slot. C takes the tables.
        unsafe {
            bindings::vswap_unbind(ty, offset, voffset, bits, self.0.get());
            // INVARIANT: None are left here.
            core::ptr::write_bytes(self.0.get(), 0, 1);
        }
    }
}

impl Drop for DeviceWords {
    fn drop(&mut self) {
        // SAFETY: By the invariants. C copes with none.
        unsafe { bindings::vswap_free_scatter(self.0.get()) };
    }
}

/// Memory for large counts, all zeros.
pub(crate) struct ExtendTable(NonNull<u32>);

impl ExtendTable {
    /// Allocates with the flags that C's caller gave.
    pub(crate) fn alloc(gfp: bindings::gfp_t) -> Option<Self> {
        // SAFETY: No requirements.
        let table = unsafe { bindings::vswap_extend_alloc(gfp) };
        NonNull::new(table).map(Self)
    }

    /// Allocates without sleeping.
    pub(crate) fn alloc_atomic() -> Option<Self> {
        Self::alloc(bindings::GFP_ATOMIC)
    }
}

impl Drop for ExtendTable {
    fn drop(&mut self) {
        // SAFETY: Allocated as such.
        unsafe { bindings::kfree(self.0.as_ptr().cast()) };
    }
}

/// A cluster without tables, which is on no list: nobody else allocates from it.
///
/// To let it go would be a leak: [`Lists::put_spare`] takes it back.
#[must_use]
pub(crate) struct Spare(&'static Cluster);

impl Spare {
    /// A cluster that was taken off the list of those without tables.
    ///
    /// # Safety
    ///
    /// `ci` is NULL, or that of a virtual cluster without tables, which is on no list.
    pub(super) unsafe fn from_raw(ci: *mut bindings::swap_cluster_info) -> Option<Self> {
        // SAFETY: As required of the caller.
        unsafe { Cluster::from_raw(ci) }.map(Self)
    }

    /// Gives it up, for a list.
    pub(super) fn into_cluster(self) -> &'static Cluster {
        self.0
    }

    /// Allocates a new header, and finds a place for it. May sleep.
    pub(crate) fn create() -> Option<Self> {
        let index = Directory::reserve()?;
        // SAFETY: No requirements.
        let memory = unsafe { bindings::vswap_header_alloc(bindings::VSWAP_GFP_HEADER) };
        let Some(memory) = NonNull::new(memory.cast::<Cluster>()) else {
            Directory::unreserve(index);
            return None;
        };
        // SAFETY: The slab cache was made for a `Cluster`, and the memory is ours. The C part is
        // zeroed, and initialized by C.
        unsafe {
            memory.write(Cluster {
                ci: Opaque::zeroed(),
                own: UnsafeCell::new(Own {
                    map: SlotMap::EMPTY,
                    list: ListState::Free,
                    nr_extended: 0,
                }),
                device: DeviceMap::new(Atomic::new(0), [const { Atomic::new(0) }; bound::WORDS]),
                used: Atomic::new(0),
                index,
            });
            bindings::vswap_cluster_init(memory.as_ref().as_ci());
        }
        // SAFETY: Never freed from here on.
        let cluster: &'static Cluster = unsafe { &*memory.as_ptr() };
        // Under the lock, for who has changed the switch and then looks at all clusters.
        let lists = Lists::lock();
        Directory::publish(cluster);
        drop(lists);
        Some(Self(cluster))
    }

    /// Allocates tables for it, charged to the cgroup of `owner`. Sleeps if it may.
    pub(crate) fn populate(self, owner: Owner<'_>, may_sleep: bool) -> Result<Populated, Self> {
        let gfp = if may_sleep {
            bindings::VSWAP_GFP_TABLE
        } else {
            bindings::VSWAP_GFP_TABLE_ATOMIC
        };
        let mut tables = bindings::vswap_tables::default();
        let error = owner.charged(|| {
            // SAFETY: Writes to `tables` only.
            unsafe { bindings::vswap_tables_alloc(&mut tables, gfp) }
        });
        match to_result(error) {
            Ok(()) => Ok(Populated {
                cluster: self.0,
                tables,
            }),
            Err(_) => Err(self),
        }
    }
}

/// A cluster that is on no list, and the tables it is to have.
#[must_use]
pub(crate) struct Populated {
    cluster: &'static Cluster,
    tables: bindings::vswap_tables,
}

impl Populated {
    /// Locks the cluster, installs its tables, and assigns it to a CPU for slots of an order.
    pub(crate) fn claim(self, cpu: u32, order: u32) -> Guard {
        let mut guard = self.cluster.lock();
        // SAFETY: The lock is held. The cluster was without tables, and its owner is `self`.
        unsafe { bindings::vswap_tables_set(guard.ci(), &self.tables) };
        guard.lend().assign(cpu, order);
        guard
    }
}

/// The slots in use of all clusters: a counter for each CPU, because every CPU allocates and frees.
pub(crate) struct SlotUsage(());

impl SlotUsage {
    c_functions! {
        /// Counts slots that come into use, or go.
        fn change(nr: c_long) = vswap_used_add;
        /// How many slots are in use, by estimate: off by a batch for each CPU at most.
        pub(crate) fn estimate() -> usize = vswap_used_read;
        /// Returns true if any slot is in use.
        pub(crate) fn any() -> bool = vswap_any_used;
    }

    /// Tells C how many there may be.
    pub(crate) fn set_max(slots: usize) {
        // SAFETY: A static, which is accessed in one piece by all.
        let half = unsafe { Atomic::<usize>::from_ptr(&raw mut bindings::vswap_half_max) };
        // Written seldom, read often.
        if half.load(Relaxed) != slots / 2 {
            half.store(slots / 2, Relaxed);
        }
    }
}

/// Makes what clusters need.
///
/// # Safety
///
/// Is called once, or again after a failure.
pub(crate) unsafe fn setup(max: usize) -> Result {
    // SAFETY: Called once, or again after it failed.
    to_result(unsafe {
        bindings::vswap_shim_setup(size_of::<Cluster>(), core::mem::align_of::<Cluster>())
    })?;
    Directory::setup(max)?;
    // Cluster 0 stays as it is, on no list.
    Spare::create().ok_or(ENOMEM)?.into_cluster();
    Ok(())
}

/// The memory that a header takes, and that of the tables of a cluster.
pub(crate) fn sizes() -> (usize, usize) {
    let words = size_of::<Words>();
    (size_of::<Cluster>(), words.saturating_add(id_table_size()))
}

c_functions! {
    fn id_table_size() -> usize = vswap_id_table_size;
}

/// The memory that a table of backing words takes.
pub(crate) fn backing_size() -> usize {
    size_of::<bindings::zswap_table>().saturating_add(size_of::<Words>())
}
