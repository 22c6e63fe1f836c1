// SPDX-License-Identifier: GPL-2.0

//! The rings of the order of writeback. Their protocol is that of [`order`].
//!
//! # Lifetime
//!
//! - A ring is in the lruvec of a cgroup and node, or without cgroups in an array by node.
//!   References and RCU readers keep the cgroup. When it goes offline, the members of its ring move
//!   to the nearest ring above that is not dead ([`Ring::leave`]). A store that joins the ring
//!   later sees that it is dead, and moves them again.
//! - A member is freed with its table, after an RCU grace period. It has left its ring before.
//!
//! # Locks
//!
//! The lock of a ring is taken inside that of a cluster. The lock of a ring above is taken inside
//! that of a ring below. [`LockedRing`] also holds the RCU read lock, which keeps the members of
//! the ring and their tables.
//!
//! C header: [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

use crate::{
    ffi::{
        folio::{
            Folio,
            SwapEntry, //
        },
        memcg::Memcg,
        node::Node, //
    },
    zswap::order::{
        self,
        Seat,
        Turn, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    interop::list::{
        CList,
        CListHead, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        barrier::smp_mb,
        rcu,
        SpinLock,
        SpinLockGuard, //
    }, //
};

type RawRing = *mut RingState;

/// The seat of a member whose table is going, in the place of a pointer.
const GONE: RawRing = core::ptr::without_provenance_mut(1);

/// How many members are looked at for an estimate.
const SAMPLE: usize = 32;

/// The pages of a ring among 64 slots: C's `struct zswap_member`.
///
/// # Invariants
///
/// It is of a table, and its words are those of the table. `links` and `at` are protected by the
/// lock of the ring that the seat names.
#[repr(C)]
pub(crate) struct Member {
    links: CListHead,
    next: Atomic<*mut Member>,
    seat: Atomic<RawRing>,
    bits: Atomic<u64>,
    words: Atomic<*mut u64>,
    entry: Atomic<usize>,
    at: Atomic<u32>,
}

same_layout!(Member = bindings::zswap_member {
    links = list,
    next = next,
    seat = ring,
    bits = bits,
    words = words,
    entry = entry,
    at = at,
});

/// A ring, as C has it: `struct zswap_lruvec_state`.
///
/// # Invariants
///
/// `members` and `nr_members` are protected by the lock. What is on the list are members.
#[repr(C)]
pub(crate) struct RingState {
    nr_disk_swapins: Atomic<i64>,
    lock: SpinLock<()>,
    dead: Atomic<bool>,
    members: CList<Member, { core::mem::offset_of!(Member, links) }>,
    nr_members: Atomic<usize>,
    joined: Atomic<*mut Member>,
}

same_layout!(RingState = bindings::zswap_lruvec_state {
    nr_disk_swapins = nr_disk_swapins,
    lock = lock,
    dead = dead,
    members = members,
    nr_members = nr_members,
    joined = joined,
});

impl RingState {
    /// # Safety
    ///
    /// `ring` is NULL or valid during `'a`.
    #[inline]
    unsafe fn from_raw<'a>(ring: *mut bindings::zswap_lruvec_state) -> Option<&'a Self> {
        // SAFETY: As required of the caller. The layout is C's.
        unsafe { ring.cast::<Self>().as_ref() }
    }

    #[inline]
    fn as_raw(&self) -> RawRing {
        core::ptr::from_ref(self).cast_mut()
    }

    #[inline]
    fn as_ptr(&self) -> *mut bindings::zswap_lruvec_state {
        self.as_raw().cast()
    }

    c_methods! {
        /// Makes reclaim of the cgroup call the zswap shrinker from now on.
        fn tell_filled(&self) = zswap_ring_filled;
        fn raw_above(&self) -> *mut bindings::zswap_lruvec_state = zswap_ring_above;
    }
}

impl Member {
    /// Clears the bits of slots.
    #[inline]
    pub(crate) fn clear(&self, bits: u64) {
        let before = self.bits();
        if before & bits != 0 {
            self.bits.store(before & !bits, Relaxed);
        }
    }

    /// Returns its bits.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.bits.load(Relaxed)
    }

    /// Returns true if it stands on a ring.
    #[inline]
    pub(crate) fn is_on(&self, ring: Ring<'_>) -> bool {
        self.seat.load(Relaxed) == ring.0.as_raw()
    }

    #[inline]
    fn links(&self) -> *mut bindings::list_head {
        self.links.as_raw()
    }

    /// Takes it off the ring that it stands on, if it does, and leaves the seat free, or gone for
    /// good. It has no bits. Caller holds the lock of its cluster.
    pub(crate) fn leave(&self, gone: bool) {
        let to = if gone { Seat::Gone } else { Seat::Free };
        let rcu = rcu::read_lock();
        order::retire(self, to, |ring, to| {
            // SAFETY: A ring stays for RCU readers, from before a member leaves it.
            let Some(ring) = (unsafe { ring.as_ref() }) else {
                return true;
            };
            let mut locked = Ring(ring).lock();
            let here = Seat::On(ring.as_raw());
            if order::Member::seat(self) != here {
                return false;
            }
            locked.settle();
            locked.unlink(self);
            order::Member::exchange_seat(self, here, to)
        });
        drop(rcu);
    }
}

impl order::Member for Member {
    type Ring = RawRing;

    #[inline]
    fn bits(&self) -> u64 {
        self.bits.load(Relaxed)
    }

    #[inline]
    fn set_bits(&self, bits: u64) {
        self.bits.store(bits, Relaxed);
    }

    #[inline]
    fn seat(&self) -> Seat<RawRing> {
        let ring = self.seat.load(Relaxed);
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
        self.seat.cmpxchg(raw(from), raw(to), Full).is_ok()
    }

    #[inline]
    fn full_barrier(&self) {
        smp_mb(Full);
    }
}

/// The members of a group of 64 slots, each of another ring: a chain that only gets longer.
///
/// # Invariants
///
/// A pointer is NULL or to a member, which stays as long as the chain does.
#[repr(transparent)]
pub(crate) struct Chain(Atomic<*mut Member>);

impl Chain {
    /// Returns the members.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        let mut at = &self.0;
        core::iter::from_fn(move || {
            // SAFETY: By the invariants.
            let member = unsafe { at.load(Relaxed).as_ref() }?;
            at = &member.next;
            Some(member)
        })
    }

    /// Adds a member. Caller holds the lock of the cluster.
    ///
    /// # Safety
    ///
    /// `words` are those of the 64 slots from `entry` on, of the table that the chain is of. It
    /// frees its chains.
    #[inline]
    pub(crate) unsafe fn add(&self, new: NewMember, words: *mut u64, entry: SwapEntry) -> &Member {
        let place = core::mem::ManuallyDrop::new(new).0;
        // SAFETY: It is ours, and zeroed.
        let member = unsafe { place.as_ref() };
        member.next.store(self.0.load(Relaxed), Relaxed);
        member.words.store(words, Relaxed);
        member.entry.store(entry.as_raw().val, Relaxed);
        // INVARIANT: It stays, as required of the caller.
        self.0.store(place.as_ptr(), Relaxed);
        member
    }
}

/// A member that is of no table yet.
///
/// # Invariants
///
/// The member is ours, and zeroed.
#[must_use]
pub(crate) struct NewMember(NonNull<Member>);

impl NewMember {
    /// Allocates. May sleep.
    pub(crate) fn alloc(node: Node) -> Option<Self> {
        // INVARIANT: C returns zeroed memory for a member, or NULL.
        NonNull::new(alloc_member(bindings::ZSWAP_GFP_ENTRY, node).cast()).map(Self)
    }
}

c_functions! {
    // The cache was made before anything could be stored.
    fn alloc_member(
        gfp: bindings::gfp_t, node: Node
    ) -> *mut bindings::zswap_member = zswap_member_alloc;
}

impl Drop for NewMember {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { bindings::zswap_member_free(self.0.as_ptr().cast()) };
    }
}

/// A ring, which is not freed during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a>(&'a RingState);

impl<'a> Ring<'a> {
    /// Returns the ring of a cgroup and node.
    pub(crate) fn of(memcg: Memcg<'a>, node: Node) -> Option<Self> {
        // SAFETY: The ring is in the cgroup, or stays for ever.
        unsafe { RingState::from_raw(raw_of(memcg, node)) }.map(Self)
    }

    /// Returns the ring of the cgroup and node of a folio.
    #[inline]
    pub(crate) fn of_folio(folio: &Folio, _rcu: &'a rcu::Guard) -> Option<Self> {
        // SAFETY: RCU keeps the cgroup, which the ring is in; or it stays for ever.
        unsafe { RingState::from_raw(raw_of_folio(folio)) }.map(Self)
    }

    /// Returns the ring, or the nearest above that is not dead.
    #[inline]
    pub(crate) fn alive(mut self, _rcu: &'a rcu::Guard) -> Option<Self> {
        while self.is_dead() {
            // SAFETY: Those above a cgroup stay as long as it does.
            self.0 = unsafe { RingState::from_raw(self.0.raw_above()) }?;
        }
        Some(self)
    }

    #[inline]
    fn is_dead(self) -> bool {
        self.0.dead.load(Relaxed)
    }

    /// Returns the counter of swap-ins from a device that zswap would have had, had less been
    /// written back.
    #[inline]
    pub(crate) fn disk_swapins(self) -> &'a Atomic<i64> {
        &self.0.nr_disk_swapins
    }

    /// Sets the bit of a slot whose page is stored, in a member that has no seat or one on this
    /// ring; the member joins the ring if it has none. Caller holds the lock of its cluster.
    #[inline]
    pub(crate) fn fill(self, member: &Member, bit: u64, rcu: &'a rcu::Guard) {
        if order::fill(member, bit, self.0.as_raw()) {
            self.join(member, rcu);
        }
    }

    /// Adds a member whose seat has just become this ring to `joined`. Takes locks only if the ring
    /// is dead: then moves its members up.
    #[cold]
    fn join(self, member: &Member, rcu: &'a rcu::Guard) {
        let joined = &self.0.joined;
        let mut head = joined.load(Relaxed);
        loop {
            // SAFETY: The member is on no list, and the task that gave it the seat may put it on
            // one.
            unsafe { (*member.links()).next = head.cast() };
            match joined.cmpxchg(head, core::ptr::from_ref(member).cast_mut(), Full) {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        self.0.tell_filled();
        smp_mb(Full);
        // Otherwise the task that declares it dead finds the member.
        if self.is_dead() {
            self.move_up(rcu);
        }
    }

    /// Declares the rings of a cgroup that goes offline dead.
    pub(crate) fn leave(memcg: Memcg<'a>) {
        for ring in Node::all().filter_map(|node| Self::of(memcg, node)) {
            ring.0.dead.store(true, Relaxed);
            // A store that joins afterwards sees it.
            smp_mb(Full);
            let rcu = rcu::read_lock();
            Ring(ring.0).move_up(&rcu);
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
            let mut locked = to.lock_above();
            // One that dies after this finds what was moved to it.
            if !to.is_dead() {
                from.give(&mut locked);
                drop(locked);
                to.0.tell_filled();
                return;
            }
            drop(locked);
            next = to.alive(rcu);
        }
    }

    /// Locks the ring. Inside the locks of clusters.
    #[inline]
    pub(crate) fn lock(self) -> LockedRing<'a> {
        let rcu = rcu::read_lock();
        LockedRing {
            ring: self.0,
            _lock: self.0.lock.lock(),
            _rcu: rcu,
        }
    }

    /// Locks the ring while the caller holds the lock of a ring below.
    fn lock_above(self) -> LockedRing<'a> {
        let rcu = rcu::read_lock();
        // SAFETY: The lock is initialized, and it is always the one above that is taken inside.
        unsafe { bindings::zswap_ring_lock_nested(self.0.as_ptr()) };
        LockedRing {
            ring: self.0,
            // SAFETY: Just locked.
            _lock: unsafe { SpinLockGuard::new(&self.0.lock, ()) },
            _rcu: rcu,
        }
    }

    /// Returns how many pages stand on it, by estimate: 0 only if there are none.
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

c_functions! {
    fn raw_of(
        memcg: Memcg<'_>, node: Node
    ) -> *mut bindings::zswap_lruvec_state = zswap_memcg_ring;
    // Its cgroup is looked at under RCU.
    fn raw_of_folio(folio: &Folio) -> *mut bindings::zswap_lruvec_state = zswap_ring_of_folio;
}

/// A ring that is locked.
#[must_use]
pub(crate) struct LockedRing<'a> {
    ring: &'a RingState,
    _lock: SpinLockGuard<'a, ()>,
    // Keeps the members of the ring, and their tables, from being freed.
    _rcu: rcu::Guard,
}

impl<'a> LockedRing<'a> {
    #[inline]
    fn head(&self) -> *mut bindings::list_head {
        // A list is its head.
        (&raw const self.ring.members).cast_mut().cast()
    }

    /// Returns how many members stand on it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ring.nr_members.load(Relaxed)
    }

    fn add_len(&mut self, nr: usize) {
        self.ring
            .nr_members
            .store(self.len().wrapping_add(nr), Relaxed);
    }

    /// Returns the ring, with those that joined.
    pub(crate) fn settled(mut self) -> Self {
        self.settle();
        self
    }

    /// Puts those that joined at the end, in the order in which they came.
    fn settle(&mut self) {
        let joined = &self.ring.joined;
        if joined.load(Relaxed).is_null() {
            return;
        }
        let mut last = joined.xchg(core::ptr::null_mut(), Full);
        // Where the next one goes before: the last came first.
        let mut at = self.head();
        // SAFETY: What joined is a member that stays: its table goes when it has left the ring,
        // under the lock that is held.
        while let Some(member) = unsafe { last.as_ref() } {
            let links = member.links();
            // SAFETY: As above. Only this task looks at its links now, and at the list.
            unsafe {
                last = (*links).next.cast();
                bindings::list_add_tail(links, at);
            }
            at = links;
            self.add_len(1);
        }
    }

    /// Takes a member off the list, on which it is.
    fn remove(&self, member: &Member) {
        // SAFETY: It is on the list, as the caller has seen under the lock.
        unsafe { bindings::zswap_list_del(member.links()) };
    }

    /// Puts a member, which is on no list, at the end.
    fn push(&self, member: &Member) {
        // SAFETY: Only this task looks at its links, and at the list, which is locked.
        unsafe { bindings::list_add_tail(member.links(), self.head()) };
    }

    /// Takes a member off the ring, on which it stands.
    fn unlink(&mut self, member: &Member) {
        self.remove(member);
        self.add_len(usize::MAX);
    }

    /// Gives all members to another ring.
    fn give(&mut self, to: &mut LockedRing<'_>) {
        let nr = self.len();
        for member in self.ring.members.iter() {
            // Both locks are held.
            member.seat.store(to.ring.as_raw(), Release);
        }
        // SAFETY: Both lists are locked.
        unsafe { bindings::zswap_list_splice_tail_init(self.head(), to.head()) };
        to.add_len(nr);
        self.add_len(nr.wrapping_neg());
    }

    /// Passes pages: `budget` at most, of `members` at most, each once; both become what is left.
    ///
    /// `wants` says of the first slot of a member whether its pages are of interest. `meet` gets
    /// the entry of a page, its word and what the hand has decided, and returns whether to go on.
    pub(crate) fn pass(
        &mut self,
        budget: &mut usize,
        members: &mut usize,
        wants: impl Fn(SwapEntry) -> bool,
        mut meet: impl FnMut(SwapEntry, u64, Turn) -> bool,
    ) {
        self.settle();
        while *budget != 0 {
            let Some(first) = self.first_filled(members) else {
                return;
            };
            if Self::pass_one(first, budget, &wants, &mut meet) {
                return;
            }
            *members = members.wrapping_sub(1);
            first.at.store(0, Relaxed);
            self.remove(first);
            self.push(first);
        }
    }

    /// Returns the first member that has pages. Those before it leave the ring: `members` at most,
    /// which becomes what is left. `None`: none is left of these, or on the ring.
    fn first_filled(&mut self, members: &mut usize) -> Option<&'a Member> {
        while *members != 0 {
            let Some(first) = self.ring.members.iter().next() else {
                *members = 0;
                break;
            };
            if !self.park(first) {
                return Some(first);
            }
            *members = members.wrapping_sub(1);
        }
        None
    }

    /// Estimates how many pages stand on it.
    fn estimate(&self) -> usize {
        let (mut looked, mut pages) = (0usize, 0usize);
        for member in self.ring.members.iter().take(SAMPLE) {
            looked = looked.wrapping_add(1);
            pages = pages.wrapping_add(member.bits().count_ones() as usize);
        }
        order::estimate(self.len(), looked, pages)
    }

    fn park(&mut self, member: &Member) -> bool {
        let ring = self.ring.as_raw();
        let parked = order::park(member, ring, || self.remove(member), || self.push(member));
        if parked {
            self.add_len(usize::MAX);
        }
        parked
    }

    /// Returns true if the hand stays at the member.
    fn pass_one(
        member: &Member,
        budget: &mut usize,
        wants: &impl Fn(SwapEntry) -> bool,
        meet: &mut impl FnMut(SwapEntry, u64, Turn) -> bool,
    ) -> bool {
        let words = member.words.load(Relaxed);
        let first = SwapEntry::from_raw(bindings::swp_entry_t {
            val: member.entry.load(Relaxed),
        });
        if !wants(first) {
            return false;
        }
        while let Some(n) = order::next_bit(member.bits(), member.at.load(Relaxed)) {
            if *budget == 0 {
                return true;
            }
            *budget = budget.wrapping_sub(1);
            member.at.store(n.wrapping_add(1), Relaxed);
            // SAFETY: The table stays while the member is on the ring. A bit is that of a slot,
            // which has a word there.
            let word = unsafe { Atomic::<u64>::from_ptr(words.add(n as usize)) };
            let value = word.load(Relaxed);
            let turn = order::turn(value, |new| word.cmpxchg(value, new, Relaxed).is_ok());
            if !meet(first.add(n as usize), value, turn) {
                return true;
            }
        }
        false
    }
}
