// SPDX-License-Identifier: GPL-2.0

//! The lock-free protocols, run with every interleaving, and with every value that a read may
//! return, as far as loom supports it: it models no value of a later write.
//!
//! `Cargo.toml` says how to run this. The models are as small as they can be and still fail. They
//! do what the kernel does, access by access:
//!
//! - Words and the switch are read and written relaxed. Locks acquire and release, no more.
//! - Atomic operations that return a value are full barriers, as in the kernel. In Rust that takes
//!   fences around them ([`mb`]).
//! - If a thread unlocks one lock and then locks another, other threads see its writes in that
//!   order. The kernel promises that for any two locks; here it takes a fence ([`World::alloc`]).

#![cfg(loom)]

use loom::{
    sync::{
        atomic::{fence, AtomicBool, AtomicU64, AtomicUsize, Ordering::*},
        Mutex,
    },
    thread,
};
// The standard `Arc`, because freeing the world is not under test.
use std::sync::Arc;
use vswap_host::thp_4k::{
    lookup::cached,
    order::{self, MemberOps as _, Seat, Turn},
    record::{Kept, Object, Pattern, Place, Record},
    swap_table::{
        cache_add_word, consume_word, dup_word, is_last_word, pfn_of_word, put_word, Count, Flags,
        Pfn, Shadow, State,
    },
};
use vswap_host::um::{
    device_map::{DeviceMap, MapWord},
    swap_table::{Backing, PhysSlot},
};

/// Runs a model to its end: every interleaving, or those with at most `bound` preemptions.
fn model(bound: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // `LOOM_MAX_PREEMPTIONS` overrides the bound, for longer runs.
    builder.preemption_bound = builder.preemption_bound.or(bound);
    builder.check(f);
}

/// A full barrier.
fn mb() {
    fence(SeqCst);
}

// Folios.

const FRAMES: usize = 2;

/// The slot that is looked up, and another one.
const SLOT: usize = 0;
const OTHER: usize = 1;

/// What a page frame is really used for. The code under test does not see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// It is free, or allocated for another purpose.
    None,
    /// It is a folio in the swap cache for a slot.
    Cached(usize),
    /// It was one, and its removal is visible to all threads.
    Left(usize),
}

/// A [`Use`], and how often the frame was allocated before.
///
/// Read with read-modify-write operations, which return the newest value. A load could return an
/// older one.
struct Truth(AtomicUsize);

impl Truth {
    fn encode(times: usize, this: Use) -> usize {
        times << 4
            | match this {
                Use::None => 0,
                Use::Cached(slot) => slot << 2 | 1,
                Use::Left(slot) => slot << 2 | 2,
            }
    }

    fn new(this: Use) -> Self {
        Self(AtomicUsize::new(Self::encode(0, this)))
    }

    fn get(&self) -> (usize, Use) {
        let value = self.0.fetch_add(0, Relaxed);
        let slot = value >> 2 & 3;
        let this = match value & 3 {
            1 => Use::Cached(slot),
            2 => Use::Left(slot),
            _ => Use::None,
        };
        (value >> 4, this)
    }

    /// Called by the owner of the frame.
    fn set(&self, this: Use) {
        let times = self.get().0 + usize::from(this == Use::None);
        self.0.swap(Self::encode(times, this), Relaxed);
    }
}

/// A page frame.
struct Frame {
    count: AtomicUsize,
    truth: Truth,
}

/// A cluster with two slots, some memory, and the page allocator.
struct World {
    // The lock of the cluster, held to write words.
    ci: Mutex<()>,
    words: [AtomicU64; 2],
    frames: [Frame; FRAMES],
    // The first frame of the folio that a frame belongs to. C: `compound_head`.
    heads: [AtomicUsize; FRAMES],
    free: Mutex<Vec<usize>>,
}

fn cached_state(frame: usize) -> State {
    State::Pfn {
        flags: Flags::EMPTY,
        // Frame number 0 is valid.
        pfn: Pfn::new(frame as u64).unwrap(),
    }
}

fn shadow() -> State {
    let count = Count::new(1).unwrap();
    State::Shadow {
        flags: Flags { count, zero: false },
        value: Shadow::NONE,
    }
}

impl World {
    /// Makes a world: frame 0 is in the swap cache for [`SLOT`], and its count is `count`. The
    /// others are free.
    fn new(count: usize) -> Arc<Self> {
        let frame = |count, this| Frame {
            count: AtomicUsize::new(count),
            truth: Truth::new(this),
        };
        Arc::new(Self {
            ci: Mutex::new(()),
            words: [
                AtomicU64::new(cached_state(0).encode()),
                AtomicU64::new(shadow().encode()),
            ],
            frames: [frame(count, Use::Cached(SLOT)), frame(0, Use::None)],
            heads: [AtomicUsize::new(0), AtomicUsize::new(1)],
            free: Mutex::new((1..FRAMES).collect()),
        })
    }

    fn peek(&self, slot: usize) -> State {
        State::decode(self.words[slot].load(Relaxed)).unwrap()
    }

    /// C: `page_folio()`, and `folio_try_get()`.
    fn try_get(self: &Arc<Self>, frame: usize) -> Option<Ref> {
        let frame = self.heads[frame].load(Relaxed);
        let Frame { count, truth } = &self.frames[frame];
        let before = truth.get();
        let mut n = count.load(Relaxed);
        while n != 0 {
            mb();
            match count.compare_exchange(n, n + 1, AcqRel, Relaxed) {
                Ok(_) => {
                    mb();
                    return Some(Ref {
                        world: self.clone(),
                        frame,
                        before,
                    });
                }
                Err(now) => n = now,
            }
        }
        // Without this, loom would assume that the loop can go on for ever.
        thread::yield_now();
        None
    }

    /// C: `folio_put()`.
    fn put(&self, frame: usize) {
        mb();
        let n = self.frames[frame].count.fetch_sub(1, AcqRel);
        mb();
        assert_ne!(n, 0, "a reference is put that was not there");
        if n == 1 {
            self.free(frame);
        }
    }

    /// C: `folio_ref_freeze()`.
    fn freeze(&self, frame: usize, count: usize) -> bool {
        let counter = &self.frames[frame].count;
        mb();
        let frozen = counter.compare_exchange(count, 0, AcqRel, Relaxed).is_ok();
        mb();
        frozen
    }

    /// C: `folio_ref_unfreeze()`.
    fn unfreeze(&self, frame: usize, count: usize) {
        self.frames[frame].count.store(count, Release);
    }

    fn free(&self, frame: usize) {
        self.free.lock().unwrap().push(frame);
    }

    /// Allocates a page, if there is one, with one reference.
    fn alloc(&self) -> Option<usize> {
        let frame = self.free.lock().unwrap().pop()?;
        // The previous owner unlocked the list, and this thread has locked it afterwards.
        fence(AcqRel);
        self.frames[frame].truth.set(Use::None);
        // C: `set_page_refcounted()`, which orders nothing.
        self.frames[frame].count.store(1, Relaxed);
        Some(frame)
    }

    /// Adds a folio to the swap cache, which has no folio for the slot. Called under the lock.
    fn cache_add(&self, frame: usize, slot: usize) {
        self.frames[frame].truth.set(Use::Cached(slot));
        self.frames[frame].count.fetch_add(1, Relaxed);
        self.words[slot].store(cached_state(frame).encode(), Relaxed);
    }

    /// Allocates a folio, adds it to the swap cache, and puts its reference.
    fn swap_in(&self, slot: usize) {
        if let Some(frame) = self.alloc() {
            let lock = self.ci.lock().unwrap();
            self.cache_add(frame, slot);
            drop(lock);
            self.put(frame);
        }
    }

    /// Removes a folio from the swap cache. Called under the lock.
    fn cache_del(&self, slot: usize) {
        self.words[slot].store(shadow().encode(), Relaxed);
    }

    /// Allocates all frames as one large folio with one reference, if they are free. The last frame
    /// is its head.
    fn alloc_large(&self) -> Option<usize> {
        let mut free = self.free.lock().unwrap();
        if free.len() < FRAMES {
            return None;
        }
        free.clear();
        drop(free);
        fence(AcqRel);
        for frame in 0..FRAMES {
            self.frames[frame].truth.set(Use::None);
            self.heads[frame].store(FRAMES - 1, Relaxed);
        }
        self.frames[FRAMES - 1].count.store(1, Relaxed);
        Some(FRAMES - 1)
    }

    /// Splits a large folio into one folio for each frame. Frees all but frame 0, which keeps one
    /// reference.
    fn split(&self, large: usize) {
        for frame in 0..FRAMES {
            self.heads[frame].store(frame, Relaxed);
        }
        // C: `smp_wmb()` and the page allocator order it before what the frames are used for.
        mb();
        self.frames[0].count.store(1, Relaxed);
        self.put(large);
    }

    /// Looks [`SLOT`] up as the kernel does, and checks what is found.
    fn lookup(self: &Arc<Self>) -> Option<Ref> {
        let found = cached(
            || pfn_of_word(self.peek(SLOT).encode()),
            |pfn| self.try_get(pfn.get() as usize),
            |found, pfn| {
                // In C, an address dependency: the word says where to look.
                fence(Acquire);
                self.heads[pfn.get() as usize].load(Relaxed) == found.frame
            },
        )?;
        found.check();
        Some(found)
    }

    /// Checks at the end that each reference was put, except those of the swap cache.
    fn check_references(&self) {
        let free = self.free.lock().unwrap();
        for (n, frame) in self.frames.iter().enumerate() {
            let cached = |slot: &usize| self.peek(*slot) == cached_state(n);
            let names = [SLOT, OTHER].iter().filter(|slot| cached(slot)).count();
            assert_eq!(frame.count.load(Relaxed), names, "frame {n}");
            let times_free = free.iter().filter(|other| **other == n).count();
            assert_eq!(times_free, usize::from(names == 0), "frame {n}");
        }
    }
}

/// A reference to the folio at a page frame, which is put when it is dropped.
struct Ref {
    world: Arc<World>,
    frame: usize,
    // The use of the frame before the reference was taken.
    before: (usize, Use),
}

impl Ref {
    /// Checks that this is a folio in the swap cache for [`SLOT`], or was one when the reference
    /// was taken or later.
    fn check(&self) {
        let frame = &self.world.frames[self.frame];
        let (times, this) = frame.truth.get();
        assert!(
            this == Use::Cached(SLOT) || this == Use::Left(SLOT),
            "the lookup found {this:?}"
        );
        assert_ne!(
            self.before,
            (times, Use::Left(SLOT)),
            "the folio had left before"
        );
    }
}

impl Drop for Ref {
    fn drop(&mut self) {
        self.world.put(self.frame);
    }
}

/// Runs `f` and, in threads of their own, lookups with their checks.
fn with_lookups(
    world: Arc<World>,
    lookups: usize,
    check: fn(Option<&Ref>),
    f: impl FnOnce(&World),
) {
    let threads: Vec<_> = (0..lookups)
        .map(|_| {
            let world = world.clone();
            thread::spawn(move || {
                let found = world.lookup();
                check(found.as_ref());
            })
        })
        .collect();
    f(&world);
    for thread in threads {
        thread.join().unwrap();
    }
    world.check_references();
}

/// Reclaims an isolated folio like `__remove_mapping()`: freezes it, removes it from the swap cache
/// and frees it. The page is then used for a folio of the slot `next`.
fn reclaim(world: &World, next: usize) {
    let lock = world.ci.lock().unwrap();
    if !world.freeze(0, 2) {
        drop(lock);
        world.put(0);
        return;
    }
    world.cache_del(SLOT);
    drop(lock);
    world.free(0);
    world.swap_in(next);
}

#[test]
fn lookup_beside_reclaim_for_another_slot() {
    model(None, || {
        with_lookups(World::new(2), 1, |_| (), |world| reclaim(world, OTHER));
    });
}

#[test]
fn lookup_beside_reclaim_for_the_same_slot() {
    model(None, || {
        with_lookups(World::new(2), 1, |_| (), |world| reclaim(world, SLOT));
    });
}

/// Removes the folio from the swap cache while it has users, like `folio_free_swap()`, and puts it.
/// Whoever puts the last reference frees it, possibly a lookup.
fn take_out(world: &World) {
    let lock = world.ci.lock().unwrap();
    world.cache_del(SLOT);
    drop(lock);
    // C: `folio_ref_sub()`, which orders nothing. This thread still has a reference.
    world.frames[0].count.fetch_sub(1, Relaxed);
    mb();
    world.frames[0].truth.set(Use::Left(SLOT));
    world.put(0);
}

fn take_out_and_swap_in(world: &World) {
    take_out(world);
    world.swap_in(OTHER);
}

#[test]
fn lookup_beside_removal() {
    model(None, || {
        with_lookups(World::new(2), 1, |_| (), take_out_and_swap_in)
    });
}

#[test]
fn lookups_beside_removal() {
    model(Some(2), || {
        with_lookups(World::new(2), 2, |_| (), take_out_and_swap_in)
    });
}

#[test]
fn lookup_beside_removal_and_allocation_elsewhere() {
    model(Some(3), || {
        let world = World::new(2);
        let other = world.clone();
        with_lookups(
            world,
            1,
            |_| (),
            |world| {
                // Takes whichever frame is free by then.
                let thread = thread::spawn(move || other.swap_in(OTHER));
                take_out(world);
                thread.join().unwrap();
            },
        );
    });
}

/// The frame becomes a part of a larger folio, which is split, and then holds a folio of the same
/// slot. The word is the same again, while a lookup may have a reference to the larger folio.
#[test]
fn lookup_beside_a_larger_folio() {
    model(Some(4), || {
        with_lookups(
            World::new(2),
            1,
            |_| (),
            |world| {
                take_out(world);
                let Some(large) = world.alloc_large() else {
                    return;
                };
                world.split(large);
                let lock = world.ci.lock().unwrap();
                world.cache_add(0, SLOT);
                drop(lock);
                world.put(0);
            },
        );
    });
}

/// During migration the slot always has a folio, so a lookup must find one.
#[test]
fn lookup_beside_migration() {
    let always = |found: Option<&Ref>| assert!(found.is_some(), "the folio is overlooked");
    model(None, move || {
        with_lookups(World::new(2), 1, always, |world| {
            let new = world.alloc().unwrap();
            let lock = world.ci.lock().unwrap();
            if world.freeze(0, 2) {
                world.cache_add(new, SLOT);
                world.unfreeze(0, 1);
                mb();
                world.frames[0].truth.set(Use::Left(SLOT));
            }
            drop(lock);
            world.put(0);
            world.put(new);
        });
    });
}

// The switch.

const CLUSTERS: usize = 2;

/// Clusters by number, and whether new slots may be taken.
struct Layer {
    on: AtomicBool,
    lists: Mutex<()>,
    // Like `Directory`: the next number, and which clusters can be found.
    next: AtomicUsize,
    published: [AtomicBool; CLUSTERS],
    clusters: [Cluster; CLUSTERS],
}

/// A cluster with the number of its slots in use, which is changed under the lock and read without
/// it.
struct Cluster {
    lock: Mutex<()>,
    used: AtomicUsize,
}

impl Cluster {
    fn add(&self, nr: usize) {
        self.used.store(self.used.load(Relaxed) + nr, Relaxed);
    }

    fn sub(&self, nr: usize) {
        self.used.store(self.used.load(Relaxed) - nr, Relaxed);
    }
}

impl Layer {
    /// Makes a layer with `len` clusters.
    fn new(len: usize) -> Arc<Self> {
        Arc::new(Self {
            on: AtomicBool::new(true),
            lists: Mutex::new(()),
            next: AtomicUsize::new(len),
            published: std::array::from_fn(|n| AtomicBool::new(n < len)),
            clusters: std::array::from_fn(|_| Cluster {
                lock: Mutex::new(()),
                used: AtomicUsize::new(0),
            }),
        })
    }

    /// `alloc_folio()`: takes slots, and checks whether it may keep them.
    fn alloc_from(&self, index: usize) {
        let cluster = &self.clusters[index];
        let lock = cluster.lock.lock().unwrap();
        cluster.add(1);
        if !self.on.load(Relaxed) {
            // `AllocatedRun::cancel()`.
            cluster.sub(1);
        }
        drop(lock);
    }

    /// `refill()`, if there is no cluster to take.
    fn alloc_from_new(&self) {
        // `count_populated()`, `take_spare()`.
        drop(self.lists.lock().unwrap());
        // `SpareCluster::create()`.
        mb();
        let index = self.next.fetch_add(1, AcqRel);
        mb();
        let lists = self.lists.lock().unwrap();
        self.published[index].store(true, Release);
        drop(lists);
        // `claim()`.
        self.alloc_from(index);
    }

    /// Returns the clusters with a number below `len` that are published already.
    fn clusters(&self, len: usize) -> impl Iterator<Item = &Cluster> {
        (0..len)
            .filter(|index| self.published[*index].load(Acquire))
            .map(|index| &self.clusters[index])
    }

    /// `quiesce()`.
    fn quiesce(&self) {
        let lists = self.lists.lock().unwrap();
        let len = self.next.load(Acquire);
        drop(lists);
        for cluster in self.clusters(len) {
            drop(cluster.lock.lock().unwrap());
        }
    }

    /// Returns how many slots a drain finds. Like `next_used()`, does not lock clusters that look
    /// empty.
    fn used(&self) -> usize {
        let len = self.next.load(Acquire);
        self.clusters(len)
            .filter(|cluster| cluster.used.load(Relaxed) != 0)
            .map(|cluster| {
                let _lock = cluster.lock.lock().unwrap();
                cluster.used.load(Relaxed)
            })
            .sum()
    }
}

/// Turns the layer off while threads allocate.
fn quiesce(len: usize, bound: Option<usize>, allocators: &'static [fn(&Layer)]) {
    model(bound, move || {
        let layer = Layer::new(len);
        let threads: Vec<_> = allocators
            .iter()
            .map(|alloc| {
                let layer = layer.clone();
                thread::spawn(move || alloc(&layer))
            })
            .collect();
        layer.on.store(false, Relaxed);
        layer.quiesce();
        let found = layer.used();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(layer.used(), found, "slots of which the drain did not know");
    });
}

#[test]
fn quiesce_beside_allocation() {
    quiesce(
        1,
        None,
        &[|layer| layer.alloc_from(0), |layer| layer.alloc_from(0)],
    );
}

#[test]
fn quiesce_beside_allocation_from_a_new_cluster() {
    quiesce(0, None, &[Layer::alloc_from_new]);
}

#[test]
fn quiesce_beside_new_clusters() {
    quiesce(0, Some(3), &[Layer::alloc_from_new, Layer::alloc_from_new]);
}

// The order of writeback: stores, frees and the hand of the clock.

const FREE: usize = usize::MAX;
const GONE: usize = usize::MAX - 1;

/// A member of the order, with one slot.
struct Member {
    bits: AtomicU64,
    seat: AtomicUsize,
    word: AtomicU64,
}

impl order::MemberOps for Member {
    type RingId = usize;

    fn bits(&self) -> u64 {
        self.bits.load(Relaxed)
    }

    fn set_bits(&self, bits: u64) {
        self.bits.store(bits, Relaxed);
    }

    fn seat(&self) -> Seat<usize> {
        match self.seat.load(Relaxed) {
            FREE => Seat::Free,
            GONE => Seat::Gone,
            ring => Seat::On(ring),
        }
    }

    fn exchange_seat(&self, from: Seat<usize>, to: Seat<usize>) -> bool {
        let raw = |seat| match seat {
            Seat::Free => FREE,
            Seat::On(ring) => ring,
            Seat::Gone => GONE,
        };
        mb();
        let done = self
            .seat
            .compare_exchange(raw(from), raw(to), SeqCst, Relaxed)
            .is_ok();
        mb();
        done
    }

    fn full_barrier(&self) {
        mb();
    }
}

/// A ring: how often the member is on its list, under the lock, and how many members have joined.
struct Ring {
    list: Mutex<usize>,
    joined: AtomicUsize,
    dead: AtomicBool,
}

impl Ring {
    fn new(listed: usize) -> Self {
        Self {
            list: Mutex::new(listed),
            joined: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
        }
    }

    /// Moves members that have joined to the list.
    fn settle(&self, listed: &mut usize) {
        *listed += self.joined.swap(0, SeqCst);
    }
}

/// One cluster with a member, and two rings, the second of which is the parent of the first.
struct Order {
    ci: Mutex<()>,
    member: Member,
    rings: [Ring; 2],
    // The ring of the cgroup that stored last.
    owner: AtomicUsize,
    // The table was freed: an RCU section that began later must not touch the member.
    freed: AtomicBool,
}

fn stored(value: u64) -> u64 {
    Record::new(Kept::Same(Pattern::new(value).unwrap())).encode()
}

impl Order {
    /// Makes a cluster with a member on the first ring, with one stored page or none.
    fn new(bits: u64) -> Arc<Self> {
        Arc::new(Self {
            ci: Mutex::new(()),
            member: Member {
                bits: AtomicU64::new(bits),
                seat: AtomicUsize::new(0),
                word: AtomicU64::new(if bits != 0 { stored(1) } else { 0 }),
            },
            rings: [Ring::new(1), Ring::new(0)],
            owner: AtomicUsize::new(0),
            freed: AtomicBool::new(false),
        })
    }

    /// Returns the ring for a store that would take ring `ring`.
    fn alive(&self, ring: usize) -> usize {
        if self.rings[ring].dead.load(Relaxed) {
            1
        } else {
            ring
        }
    }

    /// `LockedSpan::put()`, by the cgroup of a ring.
    fn store_for(&self, ring: usize, value: u64) {
        let _ci = self.ci.lock().unwrap();
        let ring = self.alive(ring);
        if self.member.seat() != Seat::On(ring) && self.member.bits() != 0 {
            // Another member would take the bit.
            return;
        }
        self.member.word.store(stored(value), Relaxed);
        if order::fill(&self.member, 1, ring, |ring, to| self.leave(ring, to)) {
            self.join(ring);
        }
        self.owner.store(ring, Relaxed);
    }

    fn store(&self, value: u64) {
        self.store_for(0, value);
    }

    /// `Ring::join()`.
    fn join(&self, ring: usize) {
        mb();
        self.rings[ring].joined.fetch_add(1, SeqCst);
        mb();
        if self.rings[ring].dead.load(Relaxed) {
            self.move_up();
        }
    }

    /// `Ring::move_up()`.
    fn move_up(&self) {
        let mut from = self.rings[0].list.lock().unwrap();
        self.rings[0].settle(&mut from);
        if *from == 0 {
            return;
        }
        let mut to = self.rings[1].list.lock().unwrap();
        self.member.seat.store(1, Release);
        *to += *from;
        *from = 0;
    }

    /// `Ring::leave()`.
    fn offline(&self) {
        self.rings[0].dead.store(true, Relaxed);
        mb();
        self.move_up();
    }

    /// `LockedSpan::free()`. `table` means that it frees the table, because it was the last.
    fn free(&self, table: bool) {
        let _ci = self.ci.lock().unwrap();
        self.member.word.store(0, Relaxed);
        self.member.set_bits(0);
        if table {
            order::retire(&self.member, |ring, to| self.leave(ring, to));
            self.freed.store(true, SeqCst);
        }
    }

    /// `Member::leave()`.
    fn leave(&self, ring: usize, to: Seat<usize>) -> bool {
        let mut list = self.rings[ring].list.lock().unwrap();
        if self.member.seat() != Seat::On(ring) {
            return false;
        }
        self.rings[ring].settle(&mut list);
        assert_eq!(*list, 1, "a member with a seat is on the ring");
        *list = 0;
        self.member.exchange_seat(Seat::On(ring), to)
    }

    /// `RingGuard::pass()`: returns the page that it would write back.
    fn hand(&self, ring: usize) -> Option<u64> {
        let mut list = self.rings[ring].list.lock().unwrap();
        self.rings[ring].settle(&mut list);
        if *list == 0 {
            return None;
        }
        let freed = self.freed.load(SeqCst);
        assert!(!freed, "a member of a table that went is on the ring");
        let listed = std::cell::RefCell::new(list);
        if order::park(
            &self.member,
            ring,
            || **listed.borrow_mut() -= 1,
            || **listed.borrow_mut() += 1,
        ) {
            return None;
        }
        if self.member.bits() & 1 == 0 {
            return None;
        }
        let word = self.member.word.load(Relaxed);
        let turn = order::turn(word, |new| {
            self.member
                .word
                .compare_exchange(word, new, Relaxed, Relaxed)
                .is_ok()
        });
        (turn == Turn::WriteBack).then_some(word)
    }

    /// Checks at the end: a member with a seat is once on one ring, and a member with a stored page
    /// has a seat.
    fn check(&self) {
        let mut listed = [0; 2];
        for (ring, listed) in self.rings.iter().zip(&mut listed) {
            let mut list = ring.list.lock().unwrap();
            ring.settle(&mut list);
            *listed = *list;
        }
        if self.freed.load(SeqCst) {
            assert_eq!(listed, [0, 0], "on no ring without a table");
        }
        match self.member.seat() {
            Seat::On(ring) => {
                assert_eq!(listed[ring], 1, "once on its ring");
                assert_eq!(listed[1 - ring], 0, "on no other");
                assert!(!self.rings[ring].dead.load(Relaxed), "not on a dead one");
                let owner = self.alive(self.owner.load(Relaxed));
                assert_eq!(ring, owner, "on the ring of its cgroup");
            }
            _ => {
                assert_eq!(listed, [0, 0], "on no ring without a seat");
                assert_eq!(self.member.bits(), 0, "what is stored stands in the order");
            }
        }
    }
}

/// Runs threads and the hand, and checks the order afterwards.
fn order_of(bits: u64, bound: Option<usize>, threads: &'static [fn(&Order)]) {
    model(bound, move || {
        let order = Order::new(bits);
        let threads: Vec<_> = threads
            .iter()
            .map(|run| {
                let order = order.clone();
                thread::spawn(move || run(&order))
            })
            .collect();
        order.hand(0);
        for thread in threads {
            thread.join().unwrap();
        }
        order.check();
    });
}

#[test]
fn store_beside_the_hand_that_parks() {
    order_of(0, None, &[|order| order.store(2)]);
}

#[test]
fn store_of_another_cgroup_beside_the_hand_that_parks() {
    order_of(0, None, &[|order| order.store_for(1, 2)]);
}

#[test]
fn store_and_free_beside_the_hand() {
    order_of(
        0,
        None,
        &[|order| {
            order.store(2);
            order.free(true);
        }],
    );
}

#[test]
fn free_and_store_beside_the_hand() {
    order_of(
        1,
        None,
        &[|order| {
            order.free(false);
            order.store(2);
        }],
    );
}

#[test]
fn store_beside_removal_of_the_cgroup() {
    order_of(
        0,
        Some(3),
        &[|order| order.store(2), |order| order.offline()],
    );
}

#[test]
fn stores_and_frees_beside_removal_of_the_cgroup() {
    order_of(
        1,
        Some(2),
        &[
            |order| {
                order.free(false);
                order.store(2);
                order.free(true);
            },
            |order| order.offline(),
        ],
    );
}

// Objects that move.

const PLACES: usize = 2;

/// State of the allocator: which places are in use, and how often each is pinned.
#[derive(Default)]
struct Objects {
    // Content of the places in use.
    used: [Option<u64>; PLACES],
    pins: [usize; PLACES],
}

/// One slot, its word, and an allocator with room for two objects: `mm/zsmalloc_owned.h`.
struct Zs {
    ci: Mutex<()>,
    word: AtomicU64,
    // `class->lock`, and what it protects.
    class: Mutex<Objects>,
}

fn object_at(place: usize) -> u64 {
    let place = Place::new(place as u64 + 1).unwrap();
    Record::new(Kept::Object(Object::new(place, 0, false).unwrap())).encode()
}

fn place_of(word: u64) -> usize {
    match Record::decode(word).unwrap().kept {
        Kept::Object(object) => object.place().get() as usize - 1,
        Kept::Same(_) => panic!("no object"),
    }
}

impl Zs {
    /// Makes an allocator with nothing stored, or with one object at place 0.
    fn new(content: Option<u64>) -> Arc<Self> {
        let objects = Objects {
            used: [content, None],
            ..Default::default()
        };
        Arc::new(Self {
            ci: Mutex::new(()),
            word: AtomicU64::new(content.map_or(0, |_| object_at(0))),
            class: Mutex::new(objects),
        })
    }

    // All threads agree on the order in which a word changes. So the exchange of the hand fails if
    // the word that it read has been replaced. Loom models that for read-modify-write operations,
    // but not for stores.

    fn write(&self, word: u64) {
        self.word.swap(word, Relaxed);
    }

    fn newest(&self) -> u64 {
        self.word.fetch_or(0, Relaxed)
    }

    /// `zs_owned_store()`: the object is pinned.
    fn alloc(&self, content: u64) -> Option<usize> {
        let mut objects = self.class.lock().unwrap();
        let place = objects.used.iter().position(Option::is_none)?;
        objects.used[place] = Some(content);
        objects.pins[place] += 1;
        Some(place)
    }

    /// `zs_owned_unpin()`.
    fn unpin(&self, place: usize) {
        self.class.lock().unwrap().pins[place] -= 1;
    }

    /// `zs_owned_free()`, with the lock of the cluster.
    fn free(&self, new: u64) {
        let mut objects = self.class.lock().unwrap();
        let place = place_of(self.newest());
        assert!(objects.used[place].take().is_some(), "freed twice");
        self.write(new);
    }

    /// A swap-out: `table::put()`, `NewStoredPage::publish()`.
    fn store(&self, content: u64) {
        let Some(place) = self.alloc(content) else {
            return;
        };
        let ci = self.ci.lock().unwrap();
        if Record::is_tag(self.newest()) {
            self.free(object_at(place));
        } else {
            self.write(object_at(place));
        }
        self.unpin(place);
        drop(ci);
    }

    /// Frees the slot.
    fn forget(&self) {
        let _ci = self.ci.lock().unwrap();
        if Record::is_tag(self.newest()) {
            self.free(0);
        }
    }

    /// `zs_owned_read_begin()`, by the owner of the right to the slot. Returns the content.
    fn load(&self) -> u64 {
        let mut objects = self.class.lock().unwrap();
        let place = place_of(self.newest());
        objects.pins[place] += 1;
        drop(objects);
        // Other threads run, but do not move the object.
        thread::yield_now();
        let content = self.class.lock().unwrap().used[place];
        self.unpin(place);
        content.expect("what is read is there")
    }

    /// A swap-in: `table::read_and_free()`, `zs_owned_free_pinned()`.
    fn consume(&self) -> u64 {
        let mut objects = self.class.lock().unwrap();
        let place = place_of(self.newest());
        objects.pins[place] += 1;
        drop(objects);
        thread::yield_now();
        let _ci = self.ci.lock().unwrap();
        let mut objects = self.class.lock().unwrap();
        objects.pins[place] -= 1;
        let content = objects.used[place].take();
        self.write(0);
        content.expect("what is read is there")
    }

    /// Compaction: `migrate_zspage()`, `owned_moved()`.
    fn compact(&self) {
        let mut objects = self.class.lock().unwrap();
        for from in 0..PLACES {
            let to = 1 - from;
            if objects.pins[from] != 0 || objects.used[to].is_some() {
                continue;
            }
            let Some(content) = objects.used[from] else {
                continue;
            };
            objects.used[to] = Some(content);
            let mut old = self.newest();
            loop {
                assert_eq!(place_of(old), from, "the word of an object names it");
                let new = object_at(to) >> 6 << 6 | old & 63;
                match self.word.compare_exchange(old, new, Relaxed, Relaxed) {
                    Ok(_) => break,
                    Err(now) => old = now,
                }
            }
            objects.used[from] = None;
            return;
        }
    }

    /// The hand of the clock, which reads only the word.
    fn hand(&self) {
        let word = self.word.load(Relaxed);
        order::turn(word, |new| {
            let exchanged = self.word.compare_exchange(word, new, Relaxed, Relaxed);
            exchanged.is_ok()
        });
    }

    /// Checks at the end that only the object that the word names is in use.
    fn check(&self, content: Option<u64>) {
        let objects = self.class.lock().unwrap();
        let word = self.newest();
        let named = Record::is_tag(word).then(|| place_of(word));
        for place in 0..PLACES {
            let expected = if named == Some(place) { content } else { None };
            assert_eq!(objects.used[place], expected, "place {place}");
            assert_eq!(objects.pins[place], 0);
        }
        assert_eq!(named.is_some(), content.is_some());
    }
}

/// Runs an owner of the slot, compaction and the hand.
fn moving(before: Option<u64>, after: Option<u64>, owner: fn(&Zs)) {
    model(None, move || {
        let zs = Zs::new(before);
        let others: [fn(&Zs); 2] = [|zs| zs.compact(), |zs| zs.hand()];
        let others = others.map(|run| {
            let zs = zs.clone();
            thread::spawn(move || run(&zs))
        });
        owner(&zs);
        for other in others {
            other.join().unwrap();
        }
        zs.check(after);
    });
}

#[test]
fn store_beside_compaction() {
    moving(None, Some(1), |zs| zs.store(1));
}

#[test]
fn store_over_an_old_object_beside_compaction() {
    moving(Some(1), Some(2), |zs| zs.store(2));
}

#[test]
fn load_and_free_beside_compaction() {
    moving(Some(1), None, |zs| {
        assert_eq!(zs.load(), 1);
        zs.forget();
    });
}

#[test]
fn consume_beside_compaction() {
    moving(Some(1), None, |zs| assert_eq!(zs.consume(), 1));
}

// Claim and consume: faults on a slot backed by zswap, as in `table` and mm/vswap_swapin.c.

/// A page table entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pte {
    None,
    /// The slot.
    Swap,
    /// A page with that content.
    Mapped(u64),
}

/// What the cluster lock protects. The word is separate, because it is also read without the lock.
#[derive(Default)]
struct Backed {
    zswap: Option<u64>,
    // How often the folio is counted in the statistics of the swap cache.
    counted: isize,
}

/// What the lock of a folio protects. Each fault has a frame of its own.
#[derive(Default)]
struct FolioState {
    content: Option<u64>,
    dirty: bool,
    counted: bool,
}

const PARENT: usize = 0;
const CHILD: usize = 1;
const CONTENT: u64 = 7;

/// One slot, the page tables of a process and its child, and a frame for each of two faults.
struct Swapped {
    ptl: Mutex<[Pte; 2]>,
    word: AtomicU64,
    ci: Mutex<Backed>,
    folios: [Mutex<FolioState>; 2],
}

impl Swapped {
    /// Makes a page that is swapped out, and named by the first `nr` page tables.
    fn new(nr: usize) -> Arc<Self> {
        let count = Count::new(nr as u8).unwrap();
        let flags = Flags { count, zero: false };
        let value = Shadow::NONE;
        let ptes = [0, 1].map(|at| if at < nr { Pte::Swap } else { Pte::None });
        Arc::new(Self {
            ptl: Mutex::new(ptes),
            word: AtomicU64::new(State::Shadow { flags, value }.encode()),
            ci: Mutex::new(Backed {
                zswap: Some(CONTENT),
                counted: 0,
            }),
            folios: Default::default(),
        })
    }

    fn pfn(frame: usize) -> Pfn {
        Pfn::new(frame as u64).unwrap()
    }

    /// Returns the frame of the folio in the swap cache.
    fn cached(&self) -> Option<usize> {
        match State::decode(self.word.load(Relaxed)) {
            Ok(State::Pfn { pfn, .. }) => Some(pfn.get() as usize),
            _ => None,
        }
    }

    fn set(&self, word: u64) {
        self.word.store(word, Relaxed);
    }

    /// Drops one swap count. Called under the cluster lock.
    fn put(&self, backed: &mut Backed) {
        let word = self.word.load(Relaxed);
        if is_last_word(word) {
            self.set(State::Null.encode());
            backed.zswap = None;
        } else {
            self.set(put_word(word).unwrap());
        }
    }

    /// `settle`: the folio is not mapped, or its slot has another swap count.
    fn settle(&self, folio: &mut FolioState) {
        let mut backed = self.ci.lock().unwrap();
        backed.counted += 1;
        folio.counted = true;
        folio.dirty = true;
        backed.zswap = None;
    }

    /// A fault on the page that a page table names.
    fn fault(&self, at: usize, frame: usize) {
        if self.ptl.lock().unwrap()[at] != Pte::Swap {
            return;
        }
        if let Some(other) = self.cached() {
            return self.fault_cached(at, other);
        }
        let mut folio = self.folios[frame].lock().unwrap();
        {
            let backed = self.ci.lock().unwrap();
            let Some(word) = cache_add_word(self.word.load(Relaxed), Self::pfn(frame)) else {
                // Another fault was faster, or the slot is free: the fault is tried again.
                return;
            };
            assert!(backed.zswap.is_some());
            self.set(word);
        }
        folio.content = Some(self.ci.lock().unwrap().zswap.unwrap());
        let mut ptes = self.ptl.lock().unwrap();
        if ptes[at] != Pte::Swap {
            drop(ptes);
            return self.settle(&mut folio);
        }
        ptes[at] = Pte::Mapped(folio.content.unwrap());
        let mut backed = self.ci.lock().unwrap();
        if let Some(word) = consume_word(self.word.load(Relaxed), Self::pfn(frame)) {
            self.set(word);
            assert!(is_last_word(word));
            self.set(State::Null.encode());
            backed.zswap = None;
        } else {
            self.put(&mut backed);
            drop(backed);
            self.settle(&mut folio);
        }
    }

    /// A fault that finds the folio of another fault, and waits for it.
    fn fault_cached(&self, at: usize, frame: usize) {
        let folio = self.folios[frame].lock().unwrap();
        if self.cached() != Some(frame) {
            return;
        }
        assert!(
            folio.counted,
            "unlocked, in the swap cache, and not counted"
        );
        let mut ptes = self.ptl.lock().unwrap();
        if ptes[at] == Pte::Swap {
            ptes[at] = Pte::Mapped(folio.content.unwrap());
            self.put(&mut self.ci.lock().unwrap());
        }
    }

    /// `fork()`: copies the page table entry to the child.
    fn fork(&self) {
        let mut ptes = self.ptl.lock().unwrap();
        ptes[CHILD] = ptes[PARENT];
        if ptes[CHILD] == Pte::Swap {
            let _ci = self.ci.lock().unwrap();
            self.set(dup_word(self.word.load(Relaxed)).unwrap());
        }
    }

    /// `munmap()`
    fn zap(&self) {
        let mut ptes = self.ptl.lock().unwrap();
        if std::mem::replace(&mut ptes[PARENT], Pte::None) == Pte::Swap {
            self.put(&mut self.ci.lock().unwrap());
        }
    }

    /// Checks the state at the end.
    fn check(&self) {
        let ptes = self.ptl.lock().unwrap();
        let backed = self.ci.lock().unwrap();
        let state = State::decode(self.word.load(Relaxed)).unwrap();
        let swapped = ptes.iter().filter(|pte| **pte == Pte::Swap).count();
        let count = state.flags().map_or(0, |flags| flags.count.get());
        assert_eq!(usize::from(count), swapped);
        for pte in &*ptes {
            assert!(!matches!(pte, Pte::Mapped(content) if *content != CONTENT));
        }
        let cached = self.cached();
        assert_eq!(backed.counted, cached.is_some() as isize);
        match cached {
            // The folio has the only copy.
            Some(frame) => {
                let folio = self.folios[frame].lock().unwrap();
                assert_eq!(folio.content, Some(CONTENT));
                assert!(folio.dirty);
                assert_eq!(backed.zswap, None);
            }
            None => assert_eq!(backed.zswap.is_some(), swapped != 0),
        }
    }
}

/// Runs a fault of the parent and other threads.
fn claiming(nr: usize, others: &'static [fn(&Swapped)]) {
    model(None, move || {
        let swapped = Swapped::new(nr);
        let others: Vec<_> = others
            .iter()
            .map(|run| {
                let swapped = swapped.clone();
                thread::spawn(move || run(&swapped))
            })
            .collect();
        swapped.fault(PARENT, 0);
        for other in others {
            other.join().unwrap();
        }
        swapped.check();
    });
}

#[test]
fn claim_beside_a_fault() {
    claiming(1, &[|swapped| swapped.fault(PARENT, 1)]);
}

#[test]
fn claim_beside_a_fault_of_the_child() {
    claiming(2, &[|swapped| swapped.fault(CHILD, 1)]);
}

#[test]
fn claim_beside_fork_and_unmapping() {
    claiming(1, &[|swapped| swapped.fork(), |swapped| swapped.zap()]);
}

#[test]
fn claim_beside_a_fault_and_unmapping() {
    claiming(
        1,
        &[|swapped| swapped.fault(PARENT, 1), |swapped| swapped.zap()],
    );
}

// Bound clusters.

/// One slot of a bound cluster, and the state of the device that matters to it.
struct BoundCluster {
    /// The lock of the virtual cluster. Besides `map` and `word`, protects whether the device
    /// cluster was given back to C.
    given_back: Mutex<bool>,
    map: DeviceMap<Shared>,
    /// The backing word of the slot.
    word: AtomicU64,
    /// `SWP_WRITEOK`.
    gives: AtomicBool,
    /// Slots with data.
    in_use: AtomicUsize,
}

struct Shared(AtomicU64);

impl MapWord for Shared {
    fn load(&self) -> u64 {
        self.0.load(Acquire)
    }

    fn store(&self, value: u64) {
        self.0.store(value, Release);
    }
}

const BOUND_SLOT: u32 = 70;

fn first_slot() -> PhysSlot {
    PhysSlot::new(1, 256).unwrap()
}

impl BoundCluster {
    fn new(has_data: bool) -> Self {
        let this = Self {
            given_back: Mutex::new(false),
            map: DeviceMap::new(
                Shared(AtomicU64::new(0)),
                core::array::from_fn(|_| Shared(AtomicU64::new(0))),
            ),
            word: AtomicU64::new(0),
            gives: AtomicBool::new(true),
            in_use: AtomicUsize::new(has_data.into()),
        };
        assert!(this.map.bind(first_slot()));
        if has_data {
            assert!(this.map.set(BOUND_SLOT, 1));
        }
        this
    }

    /// Returns where the data of the slot is. The caller has the right to the slot, but not the
    /// lock.
    fn place(&self) -> Option<PhysSlot> {
        if let Some(slot) = self.map.find(BOUND_SLOT) {
            return Some(slot);
        }
        match Backing::decode(self.word.load(Relaxed)) {
            Ok(Backing::Phys(slot)) => Some(slot),
            _ => None,
        }
    }

    /// Returns true if the data of the slot is on a device. The caller has the right to the slot,
    /// but not the lock.
    fn is_on_device(&self) -> bool {
        self.map.has(BOUND_SLOT)
            || matches!(
                Backing::decode(self.word.load(Relaxed)),
                Ok(Backing::Phys(_))
            )
    }

    /// Swap-out: takes the slot together with the device slot.
    fn take(&self) {
        let given_back = self.given_back.lock().unwrap();
        if self.map.set(BOUND_SLOT, 1) {
            assert!(!*given_back, "the slot of the device is somebody else's");
            if self.gives.load(Relaxed) {
                self.in_use.fetch_add(1, AcqRel);
            } else {
                self.map.clear(BOUND_SLOT, 1, |_, _| {});
            }
        }
    }

    /// The last user frees the slot.
    fn free(&self) {
        let mut given_back = self.given_back.lock().unwrap();
        let idle = self.map.clear(BOUND_SLOT, 1, |_, _| assert!(!*given_back));
        if idle == 0 {
            self.word.store(0, Relaxed);
        }
        self.in_use.fetch_sub(1, AcqRel);
        if self.map.unbind(|_, _| panic!("it has no data")).is_some() {
            *given_back = true;
        }
    }

    /// The device is full: unbinds, and the slot gets a backing word.
    fn unbind_in_use(&self) {
        let mut given_back = self.given_back.lock().unwrap();
        let first = self.map.unbind(|slot, place| {
            assert_eq!(slot, BOUND_SLOT);
            self.word.store(Backing::Phys(place).encode(), Relaxed);
        });
        if first.is_some() {
            assert!(!*given_back);
            *given_back = true;
        }
    }

    /// Swapoff of the device.
    fn swapoff(&self) {
        self.gives.store(false, Relaxed);
        drop(self.given_back.lock().unwrap());
        if self.in_use.load(Acquire) != 0 {
            // The folio is read and marked dirty, so the device slot is freed.
            let given_back = self.given_back.lock().unwrap();
            let idle = self.map.clear(BOUND_SLOT, 1, |_, _| assert!(!*given_back));
            if idle != 0 || self.word.swap(0, Relaxed) != 0 {
                self.in_use.fetch_sub(1, AcqRel);
            }
        }
        assert_eq!(self.in_use.load(Acquire), 0, "the pass found all");
        let mut given_back = self.given_back.lock().unwrap();
        assert_eq!(self.map.count(), 0);
        if self.map.unbind(|_, _| panic!("it has no data")).is_some() {
            assert!(!*given_back);
            *given_back = true;
        }
    }
}

fn bound(has_data: bool, threads: &'static [fn(&BoundCluster)], then: fn(&BoundCluster)) {
    model(None, move || {
        let cluster = Arc::new(BoundCluster::new(has_data));
        let others: Vec<_> = threads
            .iter()
            .map(|f| {
                let cluster = cluster.clone();
                thread::spawn(move || f(&cluster))
            })
            .collect();
        then(&cluster);
        for other in others {
            other.join().unwrap();
        }
    });
}

fn reads(cluster: &BoundCluster) {
    let run = cluster.map.find_run(BOUND_SLOT, 1);
    let place = run.or_else(|| cluster.place());
    assert_eq!(place, first_slot().nth(BOUND_SLOT));
    assert_eq!(cluster.place(), first_slot().nth(BOUND_SLOT));
}

#[test]
fn io_beside_a_full_device() {
    bound(true, &[BoundCluster::unbind_in_use], reads);
}

#[test]
fn swap_out_again_beside_a_full_device() {
    bound(true, &[BoundCluster::unbind_in_use], |cluster| {
        assert!(cluster.is_on_device())
    });
}

#[test]
fn swap_out_beside_swapoff() {
    bound(false, &[BoundCluster::take], BoundCluster::swapoff);
}

#[test]
fn swap_out_beside_a_full_device() {
    bound(
        false,
        &[BoundCluster::take, BoundCluster::unbind_in_use],
        |_| {},
    );
}

#[test]
fn free_beside_a_full_device() {
    bound(true, &[BoundCluster::free], BoundCluster::unbind_in_use);
}

#[test]
fn swapoff_beside_a_full_device() {
    bound(true, &[BoundCluster::unbind_in_use], BoundCluster::swapoff);
}
