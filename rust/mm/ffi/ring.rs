// SPDX-License-Identifier: GPL-2.0

//! The rings on which the order of writeback stands; the protocol is that of
//! [`order`].
//!
//! # What keeps them
//!
//! - A ring is in the lruvec of a cgroup and node. The cgroup stays while it is referred to, and
//!   for RCU readers. When it goes offline, its members move to the nearest ring above that is not
//!   dead ([`Ring::leave`]); who joins it nevertheless sees that it is dead, and moves them again.
//! - A member stays for RCU readers when its table goes. It has left its ring before.
//!
//! # Locks
//!
//! That of a ring is inside the lock of a cluster, and that of a ring above inside it. Under it is
//! RCU: what is on a ring stays meanwhile, and so does its table.
//!
//! C header: [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

use super::{
    folio::{
        SwapEntry,
        SwapPage, //
    },
    memcg::Memcg, //
};
use crate::order::{
    self,
    Seat, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        barrier::smp_mb,
        rcu, //
    },
    types::Opaque, //
};

type RawRing = *mut bindings::zswap_lruvec_state;

/// The seat of a member whose table is going, in the place of a pointer.
const GONE: RawRing = core::ptr::without_provenance_mut(1);

/// How many members are looked at for an estimate.
const SAMPLE: usize = 32;

/// The pages of a ring among 64 slots.
///
/// # Invariants
///
/// It was made by [`NewMember`], and is of a table. `list` and `at` are protected by the lock of
/// the ring that the seat names. The words are those of the table.
#[repr(transparent)]
pub(super) struct Member(Opaque<bindings::zswap_member>);

// SAFETY: See the invariants for what protects it.
unsafe impl Sync for Member {}

impl Member {
    /// # Safety
    ///
    /// `member` is NULL or valid during `'a`, as a member is.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(member: *mut bindings::zswap_member) -> Option<&'a Self> {
        // SAFETY: As required of the caller.
        unsafe { member.cast::<Self>().as_ref() }
    }

    #[inline]
    fn bits_cell(&self) -> &Atomic<u64> {
        // SAFETY: It is accessed atomically only.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.get()).bits) }
    }

    #[inline]
    fn seat_cell(&self) -> &Atomic<RawRing> {
        // SAFETY: It is accessed atomically only.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.get()).ring) }
    }

    /// The next one of the same slots.
    #[inline]
    pub(super) fn next(&self) -> Option<&Self> {
        // SAFETY: It is set before the member is found, and those of a table stay together.
        unsafe { Self::from_raw((*self.0.get()).next) }
    }

    /// Clears the bits of slots.
    #[inline]
    pub(super) fn clear(&self, bits: u64) {
        let cell = self.bits_cell();
        let before = cell.load(Relaxed);
        if before & bits != 0 {
            cell.store(before & !bits, Relaxed);
        }
    }

    /// Its bits.
    #[inline]
    pub(super) fn bits(&self) -> u64 {
        self.bits_cell().load(Relaxed)
    }

    /// Returns true if it stands on a ring.
    #[inline]
    pub(super) fn is_on(&self, ring: Ring<'_>) -> bool {
        self.seat_cell().load(Relaxed) == ring.0.as_ptr()
    }

    #[inline]
    fn links(&self) -> *mut bindings::list_head {
        // SAFETY: The address of a field.
        unsafe { &raw mut (*self.0.get()).list }
    }

    /// Takes it off the ring that it stands on, if it does, and leaves the seat free, or gone for
    /// good. It has no bits. Caller holds the lock of its cluster.
    pub(super) fn leave(&self, gone: bool) {
        let to = if gone { Seat::Gone } else { Seat::Free };
        let rcu = rcu::read_lock();
        order::retire(self, to, |ring, to| {
            let Some(ring) = NonNull::new(ring) else {
                return true;
            };
            // A ring stays for RCU readers, from before a member leaves it.
            let mut locked = Ring(ring, PhantomData::<&rcu::Guard>).lock();
            if order::Member::seat(self) != Seat::On(ring.as_ptr()) {
                return false;
            }
            locked.settle();
            locked.unlink(self);
            order::Member::exchange_seat(self, Seat::On(ring.as_ptr()), to)
        });
        drop(rcu);
    }
}

impl order::Member for Member {
    type Ring = RawRing;

    #[inline]
    fn bits(&self) -> u64 {
        self.bits_cell().load(Relaxed)
    }

    #[inline]
    fn set_bits(&self, bits: u64) {
        self.bits_cell().store(bits, Relaxed);
    }

    #[inline]
    fn seat(&self) -> Seat<RawRing> {
        let ring = self.seat_cell().load(Relaxed);
        if ring.is_null() {
            Seat::Free
        } else if ring == GONE {
            Seat::Gone
        } else {
            Seat::On(ring)
        }
    }

    #[inline]
    fn exchange_seat(&self, from: Seat<RawRing>, to: Seat<RawRing>) -> bool {
        let raw = |seat| match seat {
            Seat::Free => core::ptr::null_mut(),
            Seat::On(ring) => ring,
            Seat::Gone => GONE,
        };
        self.seat_cell().cmpxchg(raw(from), raw(to), Full).is_ok()
    }

    #[inline]
    fn full_barrier(&self) {
        smp_mb(Full);
    }
}

/// A member that is of no table yet.
pub(crate) struct NewMember(NonNull<bindings::zswap_member>);

impl NewMember {
    /// Allocates. May sleep.
    pub(crate) fn alloc(nid: c_int) -> Option<Self> {
        // SAFETY: The cache was made before anything could be stored.
        let member = unsafe { bindings::zswap_member_alloc(bindings::ZSWAP_GFP_ENTRY, nid) };
        NonNull::new(member).map(Self)
    }

    /// Makes it one of a table, before `next`.
    ///
    /// # Safety
    ///
    /// `words` are those of 64 slots of the table, or of as many as there are, and `entry` is the
    /// entry of the first. The member is freed with the table.
    #[inline]
    pub(super) unsafe fn place(
        self,
        next: *mut bindings::zswap_member,
        words: *mut bindings::atomic_long_t,
        entry: SwapEntry,
    ) -> *mut bindings::zswap_member {
        let member = core::mem::ManuallyDrop::new(self).0.as_ptr();
        // SAFETY: It is zeroed, and ours.
        unsafe {
            (*member).next = next;
            (*member).words = words;
            (*member).entry = entry.as_raw().val;
        }
        member
    }
}

impl Drop for NewMember {
    fn drop(&mut self) {
        // SAFETY: It is of no table.
        unsafe { bindings::zswap_member_free(self.0.as_ptr()) };
    }
}

/// A ring.
///
/// # Invariants
///
/// It is valid during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a>(
    NonNull<bindings::zswap_lruvec_state>,
    PhantomData<&'a rcu::Guard>,
);

impl<'a> Ring<'a> {
    /// The ring of a cgroup and node.
    pub(crate) fn of(memcg: Memcg<'a>, nid: c_int) -> Option<Self> {
        // SAFETY: The cgroup is NULL or valid during `'a`, and C has the node.
        let ring = unsafe { bindings::zswap_memcg_ring(memcg.as_ptr(), nid) };
        NonNull::new(ring).map(|ring| Self(ring, PhantomData))
    }

    /// The ring for what is stored of a folio: of its cgroup, or the nearest above that is there.
    #[inline]
    pub(super) fn of_page(page: &SwapPage<'_>, rcu: &'a rcu::Guard) -> Option<Self> {
        // SAFETY: The folio is locked. RCU keeps its cgroup.
        let ring = NonNull::new(unsafe { bindings::zswap_ring_of_folio(page.folio_ptr()) })?;
        Self(ring, PhantomData).alive(rcu)
    }

    /// The ring, or the nearest above that is not dead.
    #[inline]
    fn alive(mut self, _rcu: &'a rcu::Guard) -> Option<Self> {
        while self.is_dead() {
            // SAFETY: Those above a cgroup stay as long as it does.
            self.0 = NonNull::new(unsafe { bindings::zswap_ring_above(self.0.as_ptr()) })?;
        }
        Some(self)
    }

    #[inline]
    fn dead_cell(&self) -> &Atomic<bool> {
        // SAFETY: The ring is valid, and this is accessed atomically only.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).dead) }
    }

    #[inline]
    fn is_dead(&self) -> bool {
        self.dead_cell().load(Relaxed)
    }

    #[inline]
    fn joined_cell(&self) -> &Atomic<*mut bindings::zswap_member> {
        // SAFETY: The ring is valid, and this is accessed atomically only.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).joined) }
    }

    /// Sets the bit of a slot whose page is stored, in a member that has no seat or one on this
    /// ring; the member joins the ring if it has none. Caller holds the lock of its cluster.
    #[inline]
    pub(super) fn fill(self, member: &Member, bit: u64, rcu: &'a rcu::Guard) {
        if order::fill(member, bit, self.0.as_ptr()) {
            self.join(member, rcu);
        }
    }

    /// Puts a member that has just got its seat on the ring, without a lock.
    #[cold]
    fn join(self, member: &Member, rcu: &'a rcu::Guard) {
        let links = member.links();
        let mut head = self.joined_cell().load(Relaxed);
        loop {
            // SAFETY: The member is on no list, and who has given it the seat may put it on one.
            unsafe { (*links).next = head.cast() };
            match self.joined_cell().cmpxchg(head, member.0.get(), Full) {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        // SAFETY: The ring is valid.
        unsafe { bindings::zswap_ring_filled(self.0.as_ptr()) };
        smp_mb(Full);
        // Otherwise who declares it dead finds the member.
        if self.is_dead() {
            self.move_up(rcu);
        }
    }

    /// Declares the rings of a cgroup that goes offline dead.
    pub(crate) fn leave(memcg: Memcg<'a>) {
        for nid in all_nodes() {
            if let Some(ring) = Self::of(memcg, nid) {
                ring.dead_cell().store(true, Relaxed);
                // Who joins afterwards sees it.
                smp_mb(Full);
                let rcu = rcu::read_lock();
                Ring(ring.0, PhantomData).move_up(&rcu);
            }
        }
    }

    /// Moves the members of a dead ring to the nearest one above that is not.
    fn move_up(self, rcu: &'a rcu::Guard) {
        let mut from = self.lock();
        from.settle();
        // One that never had a member does not know its node.
        if from.len() == 0 {
            return;
        }
        let mut next = self.alive(rcu);
        while let Some(to) = next {
            // SAFETY: The ring is valid. Those above are locked inside.
            unsafe { bindings::zswap_ring_lock_nested(to.0.as_ptr()) };
            // INVARIANT: Locked.
            let mut locked = LockedRing {
                ring: to,
                _rcu: rcu::read_lock(),
            };
            // One that dies after this finds what was moved to it.
            if !to.is_dead() {
                from.give(&mut locked);
                drop(locked);
                // SAFETY: The ring is valid.
                unsafe { bindings::zswap_ring_filled(to.0.as_ptr()) };
                return;
            }
            drop(locked);
            next = to.alive(rcu);
        }
    }

    /// Locks it.
    #[inline]
    pub(crate) fn lock(self) -> LockedRing<'a> {
        let rcu = rcu::read_lock();
        // SAFETY: The ring is valid, and its lock is initialized. Inside the locks of clusters.
        unsafe { bindings::spin_lock(&raw mut (*self.0.as_ptr()).lock) };
        // INVARIANT: Locked.
        LockedRing {
            ring: self,
            _rcu: rcu,
        }
    }

    /// How many pages stand on it, by estimate: 0 only if there are none.
    pub(crate) fn count(self) -> usize {
        loop {
            let mut ring = self.lock().settled();
            if ring.first_filled(&mut { SAMPLE }).is_some() {
                return ring.estimate();
            }
            if ring.len() == 0 {
                return 0;
            }
        }
    }
}

/// A ring that is locked.
///
/// # Invariants
///
/// The lock is held, and so is RCU.
pub(crate) struct LockedRing<'a> {
    ring: Ring<'a>,
    _rcu: rcu::Guard,
}

impl LockedRing<'_> {
    #[inline]
    fn raw(&self) -> *mut bindings::zswap_lruvec_state {
        self.ring.0.as_ptr()
    }

    #[inline]
    fn head(&self) -> *mut bindings::list_head {
        // SAFETY: The address of a field.
        unsafe { &raw mut (*self.raw()).members }
    }

    /// How many members stand on it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // SAFETY: Protected by the lock.
        unsafe { (*self.raw()).nr_members }
    }

    fn add_len(&mut self, nr: usize) {
        // SAFETY: Protected by the lock.
        unsafe { (*self.raw()).nr_members = (*self.raw()).nr_members.wrapping_add(nr) };
    }

    /// The ring, with those that joined.
    pub(crate) fn settled(mut self) -> Self {
        self.settle();
        self
    }

    /// Those that joined go to the end, in the order in which they came.
    fn settle(&mut self) {
        let joined = self.ring.joined_cell();
        if joined.load(Relaxed).is_null() {
            return;
        }
        let mut last = joined.xchg(core::ptr::null_mut(), Full);
        // Where the next one goes before: the last came first.
        let mut at = self.head();
        while !last.is_null() {
            // SAFETY: What joined is a member that stays: its table goes when it has left the ring,
            // under the lock that is held. Nobody else looks at its links.
            unsafe {
                let links = &raw mut (*last).list;
                last = (*links).next.cast();
                bindings::list_add_tail(links, at);
                at = links;
            }
            self.add_len(1);
        }
    }

    fn unlink(&mut self, member: &Member) {
        // SAFETY: The member is on the ring, as who calls has seen under the lock.
        unsafe { bindings::zswap_list_del(member.links()) };
        self.add_len(usize::MAX);
    }

    /// Gives all members to another ring.
    fn give(&mut self, to: &mut LockedRing<'_>) {
        let nr = self.len();
        for member in self.members() {
            // Both locks are held.
            member.seat_cell().store(to.raw(), Release);
        }
        // SAFETY: Both lists are locked.
        unsafe { bindings::zswap_list_splice_tail_init(self.head(), to.head()) };
        to.add_len(nr);
        self.add_len(nr.wrapping_neg());
    }

    /// The members, next first.
    fn members(&self) -> impl Iterator<Item = &Member> {
        let head = self.head();
        let mut at = head;
        core::iter::from_fn(move || {
            // SAFETY: `at` is the head, or the links of a member, and the list is locked.
            at = unsafe { (*at).next };
            if at == head {
                return None;
            }
            // SAFETY: All but the head are the links of members, at their beginning.
            unsafe { Member::from_raw(at.cast()) }
        })
    }

    /// Passes pages: `budget` at most, of `members` at most, each once; both become what is left.
    ///
    /// `wants` says of the first slot of a member whether its pages are of interest. `meet` gets
    /// the entry of a page and its word, and returns whether to go on.
    pub(crate) fn pass(
        &mut self,
        budget: &mut usize,
        members: &mut usize,
        wants: impl Fn(SwapEntry) -> bool,
        mut meet: impl FnMut(SwapEntry, &Atomic<u64>) -> bool,
    ) {
        self.settle();
        while *budget != 0 {
            let Some(first) = self.first_filled(members) else {
                return;
            };
            // SAFETY: It is on the ring, which is locked.
            let member = unsafe { first.as_ref() };
            if self.pass_one(member, budget, &wants, &mut meet) {
                return;
            }
            *members = members.wrapping_sub(1);
            // SAFETY: It is on the ring, which is locked.
            unsafe {
                (*member.0.get()).at = 0;
                bindings::zswap_list_move_tail(member.links(), self.head());
            }
        }
    }

    /// The first member that has pages. Those before it leave the ring: `members` at most, which
    /// becomes what is left. `None`: none is left of these, or on the ring.
    fn first_filled(&mut self, members: &mut usize) -> Option<NonNull<Member>> {
        while *members != 0 {
            let Some(first) = self.members().next().map(NonNull::from) else {
                *members = 0;
                break;
            };
            // SAFETY: It is on the ring, which is locked, and stays for RCU if it is parked.
            if !self.park(unsafe { first.as_ref() }) {
                return Some(first);
            }
            *members = members.wrapping_sub(1);
        }
        None
    }

    /// Estimates how many pages stand on it.
    fn estimate(&self) -> usize {
        let (mut looked, mut pages) = (0usize, 0usize);
        for member in self.members().take(SAMPLE) {
            looked = looked.wrapping_add(1);
            pages = pages.wrapping_add(member.bits().count_ones() as usize);
        }
        order::estimate(self.len(), looked, pages)
    }

    fn park(&mut self, member: &Member) -> bool {
        let (head, ring) = (self.head(), self.raw());
        let parked = order::park(
            member,
            ring,
            // SAFETY: It is on the ring, which is locked.
            || unsafe { bindings::zswap_list_del(member.links()) },
            // SAFETY: It is on no list, and its seat is on this ring.
            || unsafe { bindings::list_add_tail(member.links(), head) },
        );
        if parked {
            self.add_len(usize::MAX);
        }
        parked
    }

    /// Returns true if the hand stays at the member.
    fn pass_one(
        &mut self,
        member: &Member,
        budget: &mut usize,
        wants: &impl Fn(SwapEntry) -> bool,
        meet: &mut impl FnMut(SwapEntry, &Atomic<u64>) -> bool,
    ) -> bool {
        // SAFETY: Set before the member was found, and never changed.
        let (words, entry) = unsafe { ((*member.0.get()).words, (*member.0.get()).entry) };
        let first = SwapEntry::from_raw(bindings::swp_entry_t { val: entry });
        if !wants(first) {
            return false;
        }
        // SAFETY: Protected by the lock.
        let at = unsafe { &mut (*member.0.get()).at };
        while let Some(n) = order::next_bit(member.bits(), *at) {
            if *budget == 0 {
                return true;
            }
            *budget = budget.wrapping_sub(1);
            *at = n.wrapping_add(1);
            // SAFETY: The table stays while the member is on the ring. A bit is that of a slot,
            // which has a word there.
            let word = unsafe { Atomic::<u64>::from_ptr(words.add(n as usize).cast()) };
            if !meet(first.add(n as usize), word) {
                return true;
            }
        }
        false
    }
}

impl Drop for LockedRing<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Locked, by the invariants.
        unsafe { bindings::spin_unlock(&raw mut (*self.raw()).lock) };
    }
}

/// All nodes that there can be rings of: also those without memory for the kernel, or now without
/// any, whose pages are stored.
pub(crate) fn all_nodes() -> impl Iterator<Item = c_int> {
    let mut from = 0;
    core::iter::from_fn(move || {
        // SAFETY: No requirements.
        let nid = unsafe { bindings::zswap_possible_node(from) };
        from = nid.saturating_add(1);
        (nid < bindings::ZSWAP_MAX_NUMNODES).then_some(nid)
    })
}
