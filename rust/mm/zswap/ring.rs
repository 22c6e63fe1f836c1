// SPDX-License-Identifier: GPL-2.0

//! The rings, which have the stored pages in the order of writeback. The documentation of
//! [`order`] describes rings, members, seats and the clock hand.
//!
//! # Lifetime
//!
//! - A ring is in the lruvec of a memory cgroup and node. A task that uses a ring has a reference
//!   to the cgroup, or stays in the RCU section in which it has found the ring. If memory cgroups
//!   are disabled, the rings are in an array indexed by node, which is never freed. When a
//!   cgroup goes offline, its rings are marked dead. Their members move to the nearest live ring
//!   of an ancestor on the same node ([`OfflineMemcg`]). A store that later adds a member to a dead
//!   ring sees that the ring is dead, and moves the members of the ring.
//! - A member is freed with its table, after an RCU grace period. It leaves its ring before that.
//!
//! # Locks
//!
//! The ring lock nests inside the cluster lock. The lock of an ancestor's ring nests inside the
//! lock of a descendant's ring. [`RingGuard`] also holds the RCU read lock, which keeps the
//! members of the ring and their tables from being freed.
//!
//! C header: [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

use crate::{
    ffi::{
        call::{
            Refines,
            View, //
        },
        folio::{
            Folio,
            SwapEntry, //
        },
        memcg::Memcg,
        node::Node, //
    },
    zswap::{
        order::{
            self,
            MemberOps as _,
            Seat,
            Turn, //
        },
        table::{
            Group,
            LockedMember, //
        }, //
    }, //
};
use core::{
    mem::ManuallyDrop,
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
        rcu,
        SpinLock,
        SpinLockGuard, //
    }, //
};

type RawRing = *mut RingState;

/// A ring that a member has its seat on.
///
/// # Invariants
///
/// The pointer is to a ring, which is not freed before its members have left it and an RCU grace
/// period has passed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RingPtr(RawRing);

/// The raw seat of a member whose table is being freed.
const GONE: RawRing = core::ptr::without_provenance_mut(1);

/// Number of members that an estimate samples. Also, how many members without bits [`Ring::count`]
/// removes at most before it unlocks the ring for a moment.
const SAMPLE: usize = 32;

/// The pages of one ring among 64 consecutive slots: C's `struct zswap_member`.
///
/// # Invariants
///
/// The member belongs to a table, and `words` points to the words of its 64 slots in that table. It
/// leaves its ring before the table is freed, so the table is not freed while the member is on a
/// ring whose lock is held. The lock of the ring that the seat names protects `at`, and `links` as
/// [`Links`] says.
#[repr(C)]
pub(crate) struct Member {
    links: Links,
    next: Chain,
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

/// The place of a member in the list of a ring, or in [`RingState::joined`], which only uses
/// `next`: C's `struct list_head`.
///
/// This is not a `CListHead`, whose pointers must always be valid: while a member is on no list,
/// its pointers are not. The pointers are atomic, because tasks change them through shared
/// references.
///
/// C's list functions access the pointers only while the ring is locked, which excludes all other
/// accesses. Before a member is in `joined`, only the task that gave it its seat accesses them.
#[repr(C)]
struct Links {
    next: Atomic<*mut Member>,
    _prev: Atomic<*mut Member>,
}

same_layout!(Links = bindings::list_head {
    next = next,
    _prev = prev,
});

mod members {
    //! The list of a ring. Only this module can access it, so that other code cannot read it
    //! without locking the ring.

    use super::{
        Member,
        RingGuard, //
    };
    use kernel::interop::list::CList;

    type MemberList = CList<Member, { core::mem::offset_of!(Member, links) }>;

    /// The list of the members of a ring, without those in `joined`.
    #[repr(transparent)]
    pub(super) struct Members(MemberList);

    impl RingGuard<'_> {
        /// Returns the members on the list of the ring.
        pub(super) fn members(&self) -> &MemberList {
            &self.ring.members.0
        }
    }
}
use members::Members;

/// A ring: C's `struct zswap_lruvec_state`.
///
/// # Invariants
///
/// `members` and `nr_members` are protected by `lock`. Each element of `members` and of `joined` is
/// a [`Member`] of a table.
#[repr(C)]
pub(crate) struct RingState {
    nr_disk_swapins: Atomic<i64>,
    lock: SpinLock<()>,
    dead: Atomic<bool>,
    members: Members,
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

// SAFETY: `RingState` has the layout of C's structure. C initializes a ring before Rust uses it.
// Afterwards, C locks and unlocks `lock`, and its list functions access `members` only when Rust
// calls them with the ring locked. C accesses no other field.
unsafe impl View for RingState {
    type C = bindings::zswap_lruvec_state;
}

impl RingState {
    #[inline]
    fn as_raw(&self) -> RawRing {
        core::ptr::from_ref(self).cast_mut()
    }

    /// Returns the ring as the seat of a member.
    #[inline]
    fn as_seat(&self) -> RingPtr {
        // INVARIANT: The pointer is to a ring. Its members leave it when its cgroup goes offline,
        // and the cgroup is freed an RCU grace period later at the earliest. A ring without a
        // cgroup is never freed.
        RingPtr(self.as_raw())
    }

    #[inline]
    fn as_ptr(&self) -> *mut bindings::zswap_lruvec_state {
        self.as_raw().cast()
    }

    c_methods! {
        /// Sets the shrinker bit of the cgroup and node, so that reclaim calls the zswap shrinker.
        // C uses the shrinker, which is registered: this is called when the ring gets a member,
        // and C allocates members only after it has registered the shrinker.
        safe fn tell_filled(&self) = zswap_ring_filled;
        // Takes the ring lock while the caller holds the lock of a descendant's ring.
        safe fn lock_nested(&self) = zswap_ring_lock_nested;
        /// Returns the parent cgroup's ring on the same node. It is not freed before this ring,
        /// because a cgroup has a reference to its parent. Returns `None` for the root, and if
        /// memory cgroups are disabled.
        safe fn above(&self) -> Option<&RingState> = zswap_ring_above;
    }
}

impl LockedMember<'_> {
    /// Clears the bits in the mask `bits`. Does not write if they are clear already.
    #[inline]
    pub(crate) fn clear(self, bits: u64) {
        let before = self.get().bits();
        if before & bits != 0 {
            self.get().bits.store(before & !bits, Relaxed);
        }
    }

    /// Removes a member without bits from its ring, if it is on one. The member never joins a ring
    /// again.
    pub(crate) fn retire(self) {
        let rcu = rcu::read_lock();
        order::retire(&Seats(self.get()), self.get().leave(&rcu));
    }
}

impl Member {
    /// Returns the bits of the slots that have a page on the ring.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.bits.load(Relaxed)
    }

    /// Returns true if the member's seat is on `ring`.
    #[inline]
    pub(crate) fn is_on(&self, ring: Ring<'_>) -> bool {
        self.seat.load(Relaxed) == ring.0.as_raw()
    }

    #[inline]
    fn links(&self) -> *mut bindings::list_head {
        // `Links` has the layout of a `list_head`, and consists of atomics.
        core::ptr::from_ref(&self.links).cast_mut().cast()
    }

    /// Returns a function that removes the member from a ring, its first argument, and changes the
    /// seat to its second argument. The function returns false if the member has left that ring
    /// already. Its caller has read the ring from the member's seat under `_rcu`.
    fn leave<'r>(
        &'r self,
        _rcu: &'r rcu::Guard,
    ) -> impl FnMut(RingPtr, Seat<RingPtr>) -> bool + 'r {
        move |ring, to| {
            // SAFETY: The RCU read lock is held since before the seat was read. So by the
            // invariants of `RingPtr`, this is a ring that is not freed meanwhile.
            let ring = unsafe { &*ring.0 };
            let seats = Seats(self);
            let mut locked = Ring(ring).lock();
            let here = Seat::On(ring.as_seat());
            if seats.seat() != here {
                return false;
            }
            locked.settle();
            // INVARIANT: The seat is on this ring, so the member was on the list or in `joined`,
            // and `settle()` has just moved it to the list. No store is about to add the member to
            // `joined`, because stores and `leave()` run under the lock of the member's cluster.
            locked.remove(Listed(self));
            // The sum wraps: this subtracts 1.
            locked.add_len(usize::MAX);
            seats.exchange_seat(here, to)
        }
    }
}

/// A member whose seat can change. Private to this file, because a seat and the list of its ring
/// change together, and because a copy of a [`RingPtr`] must not be used after its ring is freed.
struct Seats<'m>(&'m Member);

impl order::MemberOps for Seats<'_> {
    type RingId = RingPtr;

    #[inline]
    fn bits(&self) -> u64 {
        self.0.bits()
    }

    #[inline]
    fn set_bits(&self, bits: u64) {
        self.0.bits.store(bits, Relaxed);
    }

    #[inline]
    fn seat(&self) -> Seat<RingPtr> {
        let ring = self.0.seat.load(Relaxed);
        if ring.is_null() {
            Seat::Free
        } else if ring == GONE {
            Seat::Gone
        } else {
            // INVARIANT: Only `exchange_seat()` and `give()` set the seat. Except for NULL and
            // `GONE`, they set it to a ring, as `RingPtr` requires.
            Seat::On(RingPtr(ring))
        }
    }

    #[inline]
    fn exchange_seat(&self, from: Seat<RingPtr>, to: Seat<RingPtr>) -> bool {
        let raw = |seat| match seat {
            Seat::Free => core::ptr::null_mut(),
            Seat::On(RingPtr(ring)) => ring,
            Seat::Gone => GONE,
        };
        self.0.seat.cmpxchg(raw(from), raw(to), Full).is_ok()
    }

    #[inline]
    fn full_barrier(&self) {
        smp_mb(Full);
    }
}

/// A link of the list of members of a group of 64 slots: the head, which is in a table, or
/// `Member::next`. The members of one group can be on different rings. Members are only added.
///
/// # Invariants
///
/// The pointer is NULL, or points to a member of the table that has this link. The member is freed
/// together with the table.
#[repr(transparent)]
pub(crate) struct Chain(Atomic<*mut Member>);

impl Chain {
    /// Returns the first member of the chain.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Member> {
        // SAFETY: By the invariants of `Chain`, a member is not freed while the chain is borrowed.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// Returns the members of the chain.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        members_from(self.first())
    }

    /// Adds a member to the chain of a group. `entry` names the first slot of the group.
    #[inline]
    pub(crate) fn add<'t>(group: Group<'t>, new: NewMember, entry: SwapEntry) -> &'t Member {
        let chain = group.chain();
        let new = ManuallyDrop::new(new).0.cast::<Member>();
        // SAFETY: By the invariants of `NewMember`, this function owns the member, which is zeroed.
        // Zeros are a valid `Member`. The chain takes the member over below. By the invariants of
        // `Chain`, it is freed together with the chain, which is borrowed during `'t`.
        let member: &'t Member = unsafe { new.as_ref() };
        // INVARIANT: By the invariants of `Group`, the words belong to the same table as the
        // chain. The members behind the new one are the previous members of this chain.
        member.words.store(group.words(), Relaxed);
        member.next.0.store(chain.0.load(Relaxed), Relaxed);
        member.entry.store(entry.as_raw().val, Relaxed);
        // INVARIANT: The chain takes over the member. C frees the members of a table's chains
        // together with the table. By the invariants of `Group`, the cluster is locked, so no other
        // task reads the chain meanwhile.
        chain.0.store(new.as_ptr(), Relaxed);
        member
    }
}

/// Returns a member and the members behind it in its chain.
#[inline]
pub(crate) fn members_from(first: Option<&Member>) -> impl Iterator<Item = &Member> {
    core::iter::successors(first, |member| member.next.first())
}

/// A member that is not in a table yet.
///
/// # Invariants
///
/// This value owns the member. The member is zeroed.
#[must_use]
pub(crate) struct NewMember(NonNull<bindings::zswap_member>);

impl NewMember {
    /// Allocates a member. Returns `None` if there is no memory, or before zswap is set up. May
    /// sleep.
    pub(crate) fn alloc(node: Node) -> Option<Self> {
        alloc_member(bindings::ZSWAP_GFP_ENTRY, node)
    }
}

c_functions! {
    // C returns zeroed memory, or NULL.
    safe fn alloc_member(gfp: bindings::gfp_t, node: Node) -> Option<NewMember>
        = zswap_member_alloc;
}

c_owned! {
    fn drop(NewMember: bindings::zswap_member) = zswap_member_free;
}

/// A memory cgroup that goes offline. Dropping the value makes the members of its rings leave.
///
/// # Invariants
///
/// The cgroup is going offline. C frees it only after an RCU grace period that begins after the
/// value was dropped.
pub(crate) struct OfflineMemcg<'a>(Memcg<'a>);

impl<'a> Refines<*mut bindings::mem_cgroup> for OfflineMemcg<'a> {
    type Base = Memcg<'a>;

    /// # Safety
    ///
    /// The cgroup is going offline. The caller frees it only after an RCU grace period that begins
    /// after the called function has returned.
    unsafe fn refine(memcg: Memcg<'a>) -> Self {
        // INVARIANT: As required of the caller, the cgroup is going offline, and is freed after a
        // grace period.
        Self(memcg)
    }
}

impl OfflineMemcg<'_> {
    /// Returns the cgroup.
    pub(crate) fn memcg(&self) -> Memcg<'_> {
        self.0
    }
}

impl Drop for OfflineMemcg<'_> {
    fn drop(&mut self) {
        Ring::leave(self.0);
    }
}

/// A reference to a ring, which is not freed during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a>(&'a RingState);

impl<'a> Ring<'a> {
    /// Returns the ring of a memory cgroup and node. Returns `None` if memory cgroups are disabled
    /// and zswap is not set up.
    pub(crate) fn of(memcg: Memcg<'a>, node: Node) -> Option<Self> {
        ring_of(memcg, node).map(Self)
    }

    /// Returns the ring of the memory cgroup and node of a folio.
    #[inline]
    pub(crate) fn of_folio(folio: &Folio, rcu: &'a rcu::Guard) -> Option<Self> {
        UnderRcu(rcu).ring_of_folio(folio).map(Self)
    }

    /// Returns this ring, or if it is dead, the nearest live ring of an ancestor cgroup. Returns
    /// `None` if there is none.
    #[inline]
    pub(crate) fn alive(mut self, _rcu: &'a rcu::Guard) -> Option<Self> {
        while self.is_dead() {
            self.0 = self.0.above()?;
        }
        Some(self)
    }

    #[inline]
    fn is_dead(self) -> bool {
        self.0.dead.load(Relaxed)
    }

    /// Returns the counter of recent swap-ins from a device. For each of them, the shrinker leaves
    /// one more page in zswap, because these pages were written back too early.
    pub(crate) fn disk_swapins(self) -> &'a Atomic<i64> {
        &self.0.nr_disk_swapins
    }

    /// Sets the bit of a slot whose page is stored. The member is on this ring, or has no bits. A
    /// member without bits may be on no ring or still on another ring. Then it joins this ring.
    #[inline]
    pub(crate) fn fill(self, member: LockedMember<'_>, bit: u64, rcu: &'a rcu::Guard) {
        let member = member.get();
        if order::fill(&Seats(member), bit, self.0.as_seat(), member.leave(rcu)) {
            self.join(member, rcu);
        }
    }

    /// Adds a member to `joined`, the ring's lockless list. The caller has set the member's seat
    /// to this ring. Waits for locks only if the ring is dead, to move its members to an
    /// ancestor's ring.
    #[cold]
    fn join(self, member: &Member, rcu: &'a rcu::Guard) {
        let joined = &self.0.joined;
        let mut head = joined.load(Relaxed);
        loop {
            // The member is on no list. Only this task may put it on one, because this task gave
            // it the seat.
            member.links.next.store(head, Relaxed);
            match joined.cmpxchg(head, core::ptr::from_ref(member).cast_mut(), Full) {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        self.0.tell_filled();
        // Keep `joined` short, because the task that next uses the list moves all members of
        // `joined` to it, and may hold a cluster lock meanwhile.
        if let Some(mut locked) = self.try_lock() {
            locked.settle();
        }
        smp_mb(Full);
        // If the ring is not dead here, the task that sets `dead` later finds the member in
        // `joined`, or on the list.
        if self.is_dead() {
            self.move_up(rcu);
        }
    }

    /// Marks the rings of a cgroup that goes offline as dead, and moves their members to rings of
    /// ancestors.
    fn leave(memcg: Memcg<'a>) {
        for ring in Node::all().filter_map(|node| Self::of(memcg, node)) {
            ring.0.dead.store(true, Relaxed);
            // A store that adds a member after this barrier sees that the ring is dead: see the
            // barrier in `join()`.
            smp_mb(Full);
            let rcu = rcu::read_lock();
            Ring(ring.0).move_up(&rcu);
        }
    }

    /// Moves the members of a dead ring to the nearest live ring of an ancestor.
    fn move_up(self, rcu: &'a rcu::Guard) {
        let mut from = self.lock();
        from.settle();
        // Without members there is nothing to move.
        if from.len() == 0 {
            return;
        }
        let mut next = self.alive(rcu);
        while let Some(to) = next {
            let mut locked = to.lock_above();
            // If the ancestor's ring dies after this check, the task that sets `dead` moves the
            // members again.
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

    /// Locks the ring. Nests inside the cluster lock.
    #[inline]
    pub(crate) fn lock(self) -> RingGuard<'a> {
        let rcu = rcu::read_lock();
        RingGuard {
            ring: self.0,
            _lock: self.0.lock.lock(),
            _rcu: rcu,
        }
    }

    fn try_lock(self) -> Option<RingGuard<'a>> {
        let rcu = rcu::read_lock();
        Some(RingGuard {
            ring: self.0,
            _lock: self.0.lock.try_lock()?,
            _rcu: rcu,
        })
    }

    /// Locks the ring while the caller holds the lock of a descendant's ring.
    fn lock_above(self) -> RingGuard<'a> {
        let rcu = rcu::read_lock();
        self.0.lock_nested();
        RingGuard {
            ring: self.0,
            // SAFETY: The call above has locked it, and the guard takes over the lock.
            _lock: unsafe { SpinLockGuard::new(&self.0.lock, ()) },
            _rcu: rcu,
        }
    }

    /// Estimates the number of pages on the ring. First removes members without bits from the
    /// front of the ring, until it finds a member with bits. If there is none, returns 0.
    pub(crate) fn count(self) -> usize {
        loop {
            let ring = self.lock().settled();
            if ring.first_filled(&mut { SAMPLE }).is_some() {
                return ring.estimate();
            }
            if ring.len() == 0 {
                return 0;
            }
        }
    }
}

/// An RCU read-side critical section. A ring that is found in it is not freed before it ends.
///
/// # Invariants
///
/// The RCU read lock is held during `'a`.
struct UnderRcu<'a>(#[expect(dead_code)] &'a rcu::Guard);

impl<'a> UnderRcu<'a> {
    c_guarded! {
        // The cgroup of the folio is not freed under RCU. The ring is part of the cgroup, or is in
        // an array that is never freed. C returns NULL before that array is allocated.
        safe fn ring_of_folio(&self, folio: &Folio) -> Option<&'a RingState> = zswap_ring_of_folio;
    }
}

c_functions! {
    // The ring is part of the cgroup, or is in an array that is never freed.
    safe fn ring_of(memcg: Memcg<'_>, node: Node) -> Option<&RingState> = zswap_memcg_ring;
}

/// A member on the list of a ring that this task has locked.
///
/// # Invariants
///
/// The member is on the list of the ring. The lock of the ring is held while the value is used.
struct Listed<'m>(&'m Member);

/// A member that was removed from the list of a ring that this task has locked, or taken from
/// `joined`. The task may put it on the list.
///
/// # Invariants
///
/// The member is on no list. The lock of the ring is held while the value is used, so only this
/// task uses the links of the member.
struct Unlisted<'m>(&'m Member);

/// A locked ring. Dropping it unlocks the ring.
#[must_use]
pub(crate) struct RingGuard<'a> {
    ring: &'a RingState,
    _lock: SpinLockGuard<'a, ()>,
    // Keeps the members of the ring and their tables from being freed.
    _rcu: rcu::Guard,
}

impl RingGuard<'_> {
    #[inline]
    fn head(&self) -> *mut bindings::list_head {
        // `Members` has the layout of its `list_head`.
        (&raw const self.ring.members).cast_mut().cast()
    }

    /// Returns the number of members on the list of the ring.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ring.nr_members.load(Relaxed)
    }

    fn add_len(&self, nr: usize) {
        self.ring
            .nr_members
            .store(self.len().wrapping_add(nr), Relaxed);
    }

    /// Moves the members in `joined` to the list, and returns the ring.
    pub(crate) fn settled(mut self) -> Self {
        self.settle();
        self
    }

    /// Moves the members in `joined` to the end of the list, in the order in which they joined.
    fn settle(&mut self) {
        let joined = &self.ring.joined;
        if joined.load(Relaxed).is_null() {
            return;
        }
        let mut last = joined.xchg(core::ptr::null_mut(), Full);
        // `joined` starts with the member that joined last. So each following member is inserted
        // in front of the member that was inserted before.
        let mut behind = None;
        // SAFETY: By the invariants of `RingState`, each element is a member. A member is freed
        // only after it has left its ring under the ring lock, which is held.
        while let Some(member) = unsafe { last.as_ref() } {
            last = member.links.next.load(Relaxed);
            // INVARIANT: The member was in `joined`, and so on no list. The ring lock is held.
            behind = Some(self.insert(Unlisted(member), behind));
            self.add_len(1);
        }
    }

    /// Removes a member from the list.
    fn remove<'m>(&self, member: Listed<'m>) -> Unlisted<'m> {
        let Listed(member) = member;
        // SAFETY: The member is on the list of a locked ring, by the invariants of `Listed`.
        unsafe { bindings::zswap_list_del(member.links()) };
        // INVARIANT: The member was just removed, and the ring lock is held.
        Unlisted(member)
    }

    /// Adds a member to the list, in front of `behind`, or at the end of the list.
    fn insert<'m>(&self, member: Unlisted<'m>, behind: Option<Listed<'_>>) -> Listed<'m> {
        let Unlisted(member) = member;
        let at = behind.map_or(self.head(), |Listed(behind)| behind.links());
        // SAFETY: The ring lock is held, so only this task uses the list. By the invariants of
        // `Unlisted` and `Listed`, the member is on no list, only this task uses its links, and
        // `at` is on the list.
        unsafe { bindings::list_add_tail(member.links(), at) };
        // INVARIANT: The member was just added, and the ring lock is held.
        Listed(member)
    }

    /// Adds a member to the end of the list.
    fn push(&self, member: Unlisted<'_>) {
        self.insert(member, None);
    }

    /// Moves all members on the list to the list of another ring.
    fn give(&mut self, to: &mut RingGuard<'_>) {
        let nr = self.len();
        for member in self.members().iter() {
            // No compare-and-exchange is needed, because the seat of a member on a ring changes
            // only under the lock of that ring, which is held.
            member.seat.store(to.ring.as_raw(), Release);
        }
        // SAFETY: The locks of both rings are held, so only this task uses the lists.
        unsafe { bindings::zswap_list_splice_tail_init(self.head(), to.head()) };
        to.add_len(nr);
        self.add_len(nr.wrapping_neg());
    }

    /// Moves the clock hand over at most `budget` pages, and over at most `members` members.
    /// Subtracts from both how many the hand has passed.
    ///
    /// `wants` gets the entry of the first slot of a member, and returns true if the hand should
    /// visit the pages of the member. `meet` gets the swap entry of a page, its word and what the
    /// hand has decided. It returns false to stop the hand.
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
            if Self::pass_one(first.0, budget, &wants, &mut meet) {
                return;
            }
            *members = members.wrapping_sub(1);
            first.0.at.store(0, Relaxed);
            self.push(self.remove(first));
        }
    }

    /// Returns the first member that has bits. Removes the members in front of it from the ring,
    /// and subtracts their number from `members`. Returns `None` if `members` becomes 0. Sets
    /// `members` to 0 and returns `None` if the ring is empty.
    fn first_filled(&self, members: &mut usize) -> Option<Listed<'_>> {
        while *members != 0 {
            let Some(first) = self.members().iter().next() else {
                *members = 0;
                break;
            };
            // INVARIANT: The member was found on the list.
            let first = self.park(Listed(first));
            if first.is_some() {
                return first;
            }
            *members = members.wrapping_sub(1);
        }
        None
    }

    /// Estimates the number of pages on the ring from the first [`SAMPLE`] members.
    fn estimate(&self) -> usize {
        let (mut looked, mut pages) = (0usize, 0usize);
        for member in self.members().iter().take(SAMPLE) {
            looked = looked.wrapping_add(1);
            pages = pages.wrapping_add(member.bits().count_ones() as usize);
        }
        order::estimate(self.len(), looked, pages)
    }

    /// Removes a member from the ring if it has no bits, and returns `None`. Otherwise returns the
    /// member. It may be at the end of the list now, if a store has set a bit meanwhile.
    fn park<'m>(&self, member: Listed<'m>) -> Option<Listed<'m>> {
        let (ring, Listed(member)) = (self.ring.as_seat(), member);
        // INVARIANT: The member is on the list until `order::park()` calls `unlink`, which removes
        // it. `order::park()` calls `relink` only after that.
        let unlink = || {
            self.remove(Listed(member));
        };
        let relink = || self.push(Unlisted(member));
        if order::park(&Seats(member), ring, unlink, relink) {
            // The sum wraps: this subtracts 1.
            self.add_len(usize::MAX);
            return None;
        }
        // INVARIANT: The member was not removed, or is on the list again.
        Some(Listed(member))
    }

    /// Moves the clock hand over the pages of a member. Returns true if the hand stops, because
    /// `budget` is used up or `meet` returned false.
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
            // SAFETY: By the invariants of `Member`, `words` points to 64 words, one for each bit,
            // and the table is not freed while the member is on the ring, whose lock is held.
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
