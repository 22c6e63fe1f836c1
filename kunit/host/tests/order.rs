// SPDX-License-Identifier: GPL-2.0

//! Tests of the order of writeback: its rules, and its quality compared with the list of C's zswap.
//!
//! The quality is that of the real decisions (`order::turn()`, the bits of members) in a model of
//! rings. The traces are artificial, or recorded from programs: each file in the folder
//! VSWAP_TRACES has the numbers of the pages that a program touched, one on a line. Counts pages
//! that were written back and needed again. C's list is exact: an entry goes to its end when it is
//! stored, and once more when the shrinker first meets it.

use proptest::prelude::*;
use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
};
use vswap_host::thp_4k::{
    order::{bits_of, estimate, fill, next_bit, park, retire, turn, MemberOps, Seat, Turn},
    record::{Kept, Pattern, Record},
};

/// A member that no other thread changes. `loom.rs` tests members that several threads change.
struct Alone {
    bits: Cell<u64>,
    seat: Cell<Seat<u32>>,
}

impl MemberOps for Alone {
    type RingId = u32;

    fn bits(&self) -> u64 {
        self.bits.get()
    }

    fn set_bits(&self, bits: u64) {
        self.bits.set(bits);
    }

    fn seat(&self) -> Seat<u32> {
        self.seat.get()
    }

    fn exchange_seat(&self, from: Seat<u32>, to: Seat<u32>) -> bool {
        let is = self.seat.get() == from;
        if is {
            self.seat.set(to);
        }
        is
    }

    fn full_barrier(&self) {}
}

/// A member that gets a bit while the hand parks it, from a store that has not seen the free seat.
struct Raced(Alone);

impl MemberOps for Raced {
    type RingId = u32;

    fn bits(&self) -> u64 {
        self.0.bits()
    }

    fn set_bits(&self, bits: u64) {
        self.0.set_bits(bits);
    }

    fn seat(&self) -> Seat<u32> {
        self.0.seat()
    }

    fn exchange_seat(&self, from: Seat<u32>, to: Seat<u32>) -> bool {
        self.0.exchange_seat(from, to)
    }

    fn full_barrier(&self) {
        self.set_bits(1);
    }
}

#[test]
fn a_member_that_gets_a_bit_meanwhile_stays() {
    let member = Raced(Alone {
        bits: Cell::new(0),
        seat: Cell::new(Seat::On(1)),
    });
    let listed = Cell::new(true);
    assert!(!park(&member, 1, || listed.set(false), || listed.set(true)));
    assert!(listed.get());
    assert_eq!(member.seat(), Seat::On(1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// A store changes no bit but its own. The first page of a member puts it on a ring, and takes
    /// it off another.
    #[test]
    fn stores_keep_the_bits_of_others(
        bits in prop_oneof![Just(0), any::<u64>()],
        n in 0..64u32,
        idle in prop_oneof![Just(Seat::Free), Just(Seat::On(1)), Just(Seat::On(2))],
    ) {
        let seat = if bits == 0 { idle } else { Seat::On(1) };
        let member = Alone { bits: Cell::new(bits), seat: Cell::new(seat) };
        let mut left = None;
        let joins = fill(&member, 1 << n, 1, |ring, to| {
            left = Some(ring);
            member.exchange_seat(Seat::On(ring), to)
        });
        prop_assert_eq!(joins, seat != Seat::On(1));
        prop_assert_eq!(left, (seat == Seat::On(2)).then_some(2));
        prop_assert_eq!(member.bits(), bits | 1 << n);
        prop_assert_eq!(member.seat(), Seat::On(1));
    }

    /// The hand takes a member off the ring if no bit is set, and only then.
    #[test]
    fn members_without_bits_leave(bits in prop_oneof![Just(0), any::<u64>()]) {
        let member = Alone { bits: Cell::new(bits), seat: Cell::new(Seat::On(1)) };
        let mut left = false;
        let parked = park(&member, 1, || left = true, || unreachable!());
        prop_assert_eq!((parked, left), (bits == 0, bits == 0));
        let seat = if bits == 0 { Seat::Free } else { Seat::On(1) };
        prop_assert_eq!(member.seat(), seat);
    }

    #[test]
    fn bits_are_those_of_the_slots(from in 0..70u32, nr in 0..200u32) {
        let bits = bits_of(from, nr);
        for n in 0..64 {
            prop_assert_eq!(bits >> n & 1 != 0, from < 64 && n >= from && n - from < nr);
        }
    }

    #[test]
    fn next_bits_are_all_bits(bits in any::<u64>()) {
        let (mut seen, mut at) = (0u64, 0);
        while let Some(n) = next_bit(bits, at) {
            prop_assert!(n >= at);
            seen |= 1 << n;
            at = n + 1;
        }
        prop_assert_eq!(seen, bits);
    }

    #[test]
    fn estimates_are_exact_of_what_was_looked_at(members in 0..1000usize, pages in 0..64usize) {
        prop_assert_eq!(estimate(members, members, members * pages), members * pages);
        if members >= 32 {
            prop_assert_eq!(estimate(members, 32, 32 * pages), members * pages);
        }
    }
}

/// The product may overflow.
#[test]
fn estimates_of_many_are_large() {
    assert!(estimate(1 << 40, 1 << 20, 1 << 26) >= 1 << 43);
}

/// A member that leaves its ring while it is retired is looked at again.
#[test]
fn a_member_is_retired_from_the_ring_that_it_is_on() {
    let retired = |seat, moves: &[Seat<u32>]| {
        let member = Alone {
            bits: Cell::new(0),
            seat: Cell::new(seat),
        };
        let (mut asked, mut moves) = (Vec::new(), moves.iter());
        retire(&member, |ring, to| {
            asked.push(ring);
            let moved = moves.next();
            member.seat.set(*moved.unwrap_or(&to));
            moved.is_none()
        });
        (member.seat.get(), asked)
    };
    assert_eq!(retired(Seat::Free, &[]), (Seat::Gone, vec![]));
    assert_eq!(retired(Seat::On(3), &[]), (Seat::Gone, vec![3]));
    assert_eq!(
        retired(Seat::On(3), &[Seat::On(5)]),
        (Seat::Gone, vec![3, 5])
    );
    assert_eq!(retired(Seat::On(3), &[Seat::Free]), (Seat::Gone, vec![3]));
    assert_eq!(retired(Seat::Gone, &[]), (Seat::Gone, vec![]));
}

/// A store does not put a retired member on a ring, because its table is about to be freed.
#[test]
fn a_retired_member_joins_no_ring() {
    let member = Alone {
        bits: Cell::new(0),
        seat: Cell::new(Seat::On(1)),
    };
    retire(&member, |_, to| member.exchange_seat(Seat::On(1), to));
    assert!(!fill(&member, 1, 1, |_, _| unreachable!()));
    assert_eq!(member.seat(), Seat::Gone);
}

#[test]
fn what_is_no_record_is_passed() {
    for word in [0, 0b010, 0b110, 1] {
        assert_eq!(turn(word, |_| unreachable!()), Turn::Pass);
    }
}

#[test]
fn a_page_has_one_second_chance() {
    let record = Record::new(Kept::Same(Pattern::new(7).unwrap()));
    let mut word = record.encode();
    let before = word;
    assert_eq!(
        turn(before, |new| {
            word = new;
            true
        }),
        Turn::Spare
    );
    assert_eq!(word, record.passed().encode());
    assert_eq!(turn(word, |_| unreachable!()), Turn::WriteBack);
    // The exchange fails if the page was freed, or stored again, meanwhile.
    assert_eq!(turn(before, |_| false), Turn::Pass);
}

/// A compressed cache with room for a number of pages.
trait Cache {
    fn store(&mut self, page: usize);
    /// Removes a page. Returns true if it was stored.
    fn load(&mut self, page: usize) -> bool;
}

/// C's list.
struct List {
    room: usize,
    order: VecDeque<(usize, u64)>,
    // When a page was put in its place, and whether the shrinker has not met it yet.
    there: HashMap<usize, (u64, bool)>,
    time: u64,
}

impl List {
    fn new(room: usize) -> Self {
        Self {
            room,
            order: VecDeque::new(),
            there: HashMap::new(),
            time: 0,
        }
    }

    fn put(&mut self, page: usize, referenced: bool) {
        self.time += 1;
        self.order.push_back((page, self.time));
        self.there.insert(page, (self.time, referenced));
    }
}

impl Cache for List {
    fn store(&mut self, page: usize) {
        while self.there.len() >= self.room {
            let (page, time) = self.order.pop_front().unwrap();
            match self.there.get(&page) {
                Some((now, true)) if *now == time => self.put(page, false),
                Some((now, false)) if *now == time => {
                    self.there.remove(&page);
                }
                _ => {}
            }
        }
        self.put(page, true);
    }

    fn load(&mut self, page: usize) -> bool {
        self.there.remove(&page).is_some()
    }
}

/// The clock. Each page takes the lowest free slot of the current cluster.
struct Clock {
    room: usize,
    nr: usize,
    words: Vec<u64>,
    pages: Vec<usize>,
    slots: HashMap<usize, usize>,
    free: std::collections::BTreeSet<usize>,
    ring: VecDeque<usize>,
    on: Vec<bool>,
    at: u32,
}

impl Clock {
    fn new(room: usize) -> Self {
        let slots = room.next_multiple_of(64);
        Self {
            room,
            nr: 0,
            words: vec![0; slots],
            pages: vec![0; slots],
            slots: HashMap::new(),
            free: (0..slots).collect(),
            ring: VecDeque::new(),
            on: vec![false; slots / 64],
            at: 0,
        }
    }

    fn bits(&self, member: usize) -> u64 {
        (0..64).fold(0, |bits, n| {
            bits | u64::from(self.words[member * 64 + n] != 0) << n
        })
    }

    fn free_slot(&mut self, slot: usize) {
        self.words[slot] = 0;
        self.slots.remove(&self.pages[slot]);
        self.free.insert(slot);
        self.nr -= 1;
    }

    fn pass(&mut self) {
        let Some(&member) = self.ring.front() else {
            return;
        };
        let bits = self.bits(member);
        let Some(n) = next_bit(bits, self.at) else {
            self.ring.pop_front();
            self.at = 0;
            self.on[member] = bits != 0;
            if bits != 0 {
                self.ring.push_back(member);
            }
            return;
        };
        self.at = n + 1;
        let slot = member * 64 + n as usize;
        let mut new = self.words[slot];
        match turn(self.words[slot], |word| {
            new = word;
            true
        }) {
            Turn::Spare => self.words[slot] = new,
            Turn::WriteBack => self.free_slot(slot),
            Turn::Pass => {}
        }
    }
}

impl Cache for Clock {
    fn store(&mut self, page: usize) {
        while self.nr >= self.room {
            self.pass();
        }
        let slot = self.free.pop_first().unwrap();
        self.words[slot] = Record::new(Kept::Same(Pattern::new(1).unwrap())).encode();
        self.pages[slot] = page;
        self.slots.insert(page, slot);
        self.nr += 1;
        if !self.on[slot / 64] {
            self.on[slot / 64] = true;
            self.ring.push_back(slot / 64);
        }
    }

    fn load(&mut self, page: usize) -> bool {
        match self.slots.get(&page) {
            Some(&slot) => {
                self.free_slot(slot);
                true
            }
            None => false,
        }
    }
}

/// Simulates memory of `frames` pages in LRU order above a cache. Returns how many touches found a
/// known page in neither.
fn faults(cache: &mut dyn Cache, frames: usize, trace: impl Iterator<Item = usize>) -> usize {
    let (mut memory, mut order) = (HashMap::new(), VecDeque::new());
    let mut seen = std::collections::HashSet::new();
    let mut major = 0;
    for (time, page) in trace.enumerate() {
        let is_fault = memory.insert(page, time).is_none() && !cache.load(page);
        if is_fault && !seen.insert(page) {
            major += 1;
        }
        order.push_back((page, time));
        while memory.len() > frames {
            let (page, then) = order.pop_front().unwrap();
            if memory.get(&page) == Some(&then) {
                memory.remove(&page);
                cache.store(page);
            }
        }
    }
    major
}

/// A generator of numbers below a bound.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % bound
    }
}

const TOUCHES: usize = 200_000;

/// A working set that is touched at random, and a stream of pages that are touched once.
fn stream() -> Vec<usize> {
    let mut numbers = Numbers(1);
    (0..TOUCHES)
        .map(|n| {
            if n % 3 == 0 {
                100_000 + n
            } else {
                numbers.below(3000)
            }
        })
        .collect()
}

/// A few pages are touched often, many seldom.
fn zipf() -> Vec<usize> {
    let mut numbers = Numbers(2);
    (0..TOUCHES)
        .map(|_| {
            let u = (numbers.below(1 << 20) + 1) as f64 / (1 << 20) as f64;
            (u.powf(4.0) * 20_000.0) as usize
        })
        .collect()
}

/// Working sets that change over time.
fn phases() -> Vec<usize> {
    let mut numbers = Numbers(3);
    (0..TOUCHES)
        .map(|n| n / 20_000 * 1500 + numbers.below(3500))
        .collect()
}

/// Several passes over more pages than fit.
fn cycle() -> Vec<usize> {
    (0..TOUCHES).map(|n| n % 3800).collect()
}

/// Sizes of memory and of the cache below it.
type Sizes = [(usize, usize); 3];

fn no_worse_than_the_list(name: &str, trace: &[usize], sizes: Sizes) {
    for (frames, room) in sizes {
        let list = faults(&mut List::new(room), frames, trace.iter().copied());
        let clock = faults(&mut Clock::new(room), frames, trace.iter().copied());
        let result = format!("{name} {frames}+{room}: list {list} clock {clock}");
        println!("{result}");
        assert!(clock as f64 <= list as f64 * 1.02 + 50.0, "{result}");
    }
}

#[test]
fn no_worse_than_the_list_on_artificial_traces() {
    let sizes = [(1000, 1000), (1000, 2000), (2000, 1000)];
    no_worse_than_the_list("stream", &stream(), sizes);
    no_worse_than_the_list("zipf", &zipf(), sizes);
    no_worse_than_the_list("phases", &phases(), sizes);
    no_worse_than_the_list("cycle", &cycle(), sizes);
}

#[test]
#[ignore = "needs recorded traces"]
fn no_worse_than_the_list_on_recorded_traces() {
    let folder = std::env::var_os("VSWAP_TRACES").expect("VSWAP_TRACES names no folder");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let trace: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        let pages = trace.iter().collect::<std::collections::HashSet<_>>().len();
        let name = format!("{} of {pages}", path.display());
        let sizes = [(8, 8), (8, 4), (4, 8)].map(|(a, b)| (pages / a, pages / b));
        no_worse_than_the_list(&name, &trace, sizes);
    }
}
