// SPDX-License-Identifier: GPL-2.0

//! The order in which pages are written back: a clock.
//!
//! A *ring* has the pages of one cgroup on one node. It consists of *members*: the pages of the
//! ring among 64 consecutive slots, with one bit for each. The hand is at the head of the ring. It
//! passes the pages of the first member one by one, then moves that member to the end. When the
//! hand meets a page for the first time, it clears the referenced bit in the record: the page has a
//! second chance. When the hand meets a page with this bit clear, the page is written back.
//!
//! So a page stays for one round of the hand at least, and for two at most. That needs no
//! timestamp. Even a page that is stored just before the hand comes to its slot is met once. The
//! hand does not meet it again for a whole round.
//!
//! # Locking
//!
//! - The lock of the cluster: the bits of a member, and the words of its slots. Two parts of a word
//!   change without it, by compare-and-exchange. The hand clears the referenced bit, and zsmalloc
//!   changes the place.
//! - The lock of the ring: the ring, and the seats of the members that stand on it.
//!
//! A store takes only the lock of the cluster. It sets the bit of its slot, and is done if the
//! member had bits before. The hand takes members without bits off the ring, so that it passes over
//! them once. [`fill`] and [`park`] settle the race between the two. The store changes the bits,
//! then reads the seat. The hand changes the seat, then reads the bits. At least one of them sees
//! the change of the other. The one that takes the free seat puts the member on a ring.
//!
//! A member is freed with its table, when its slots have no bits any more. [`retire`] takes its
//! seat away for good. So the hand cannot put back a member that it took off, and whose bits it may
//! still be reading. RCU keeps the memory of the member for readers, one of which is the hand.
//!
//! # Context
//!
//! Values only, like [`record`](super::record). On the host, this is run with all interleavings:
//! `kunit/host/tests/loom.rs`.

#![forbid(unsafe_code)]

use super::record::Record;

/// Where a member stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seat<R> {
    /// On no ring.
    Free,
    /// On a ring, or about to be.
    On(R),
    /// On none ever again.
    Gone,
}

/// A member, as far as the protocol goes.
pub trait Member {
    /// Names a ring.
    type Ring: Copy + PartialEq;

    /// Its bits. The lock of the cluster is held, or that of the ring.
    fn bits(&self) -> u64;

    /// Changes them, under the lock of the cluster.
    fn set_bits(&self, bits: u64);

    /// Its seat.
    fn seat(&self) -> Seat<Self::Ring>;

    /// Changes the seat, if it is `from`: fully ordered. Returns whether it was.
    fn exchange_seat(&self, from: Seat<Self::Ring>, to: Seat<Self::Ring>) -> bool;

    /// Orders what was written before with what is read after.
    fn full_barrier(&self);
}

/// A page is stored: its bit is set. Returns true if the caller has to put the member on `ring`.
///
/// The caller holds the lock of the cluster, and has seen that the member has no seat or one on
/// that ring.
#[inline]
pub fn fill<M: Member>(member: &M, bit: u64, ring: M::Ring) -> bool {
    let before = member.bits();
    member.set_bits(before | bit);
    if before != 0 {
        return false;
    }
    member.full_barrier();
    member.seat() == Seat::Free && member.exchange_seat(Seat::Free, Seat::On(ring))
}

/// Takes a member off the ring if it has no bits. Returns true if the member left the ring.
///
/// The caller holds the lock of the ring, and RCU. `unlink` and `relink` take the member off the
/// ring and put it back.
#[inline]
pub fn park<M: Member>(
    member: &M,
    ring: M::Ring,
    unlink: impl FnOnce(),
    relink: impl FnOnce(),
) -> bool {
    if member.bits() != 0 {
        return false;
    }
    unlink();
    // The seat of a member on the ring changes under the lock alone.
    member.exchange_seat(Seat::On(ring), Seat::Free);
    member.full_barrier();
    // A store that did not see the free seat has set its bit before.
    if member.bits() != 0 && member.exchange_seat(Seat::Free, Seat::On(ring)) {
        relink();
        return false;
    }
    true
}

/// Takes the seat of a member that has no bits, and leaves `to`, which is not a ring.
///
/// The caller holds the lock of the cluster, and RCU. `remove` takes the member off a ring, under
/// the lock of that, and leaves `to`; `false` if it does not stand there any more.
#[inline]
pub fn retire<M: Member>(
    member: &M,
    to: Seat<M::Ring>,
    mut remove: impl FnMut(M::Ring, Seat<M::Ring>) -> bool,
) {
    loop {
        let done = match member.seat() {
            Seat::Free => member.exchange_seat(Seat::Free, to),
            Seat::On(ring) => remove(ring, to),
            Seat::Gone => true,
        };
        if done {
            return;
        }
    }
}

/// What the hand does with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Nothing is there, or it changes.
    Pass,
    /// It has had its second chance.
    Spare,
    /// It is written back.
    WriteBack,
}

/// Decides that. `exchange` changes the word, if it is still what was read.
#[inline]
pub fn turn(word: u64, exchange: impl FnOnce(u64) -> bool) -> Turn {
    match Record::decode(word) {
        Ok(record) if record.referenced => {
            if exchange(record.passed().encode()) {
                Turn::Spare
            } else {
                Turn::Pass
            }
        }
        Ok(_) => Turn::WriteBack,
        Err(_) => Turn::Pass,
    }
}

/// The number of the first slot with a bit, at or after one of the 64.
#[inline]
pub const fn next_bit(bits: u64, from: u32) -> Option<u32> {
    let Some(mask) = u64::MAX.checked_shl(from) else {
        return None;
    };
    match bits & mask {
        0 => None,
        left => Some(left.trailing_zeros()),
    }
}

/// The bits of `nr` slots from one of the 64 on: those that are among them.
#[inline]
pub const fn bits_of(from: u32, nr: u32) -> u64 {
    if nr == 0 || from >= u64::BITS {
        return 0;
    }
    let all = if nr >= u64::BITS {
        u64::MAX
    } else {
        u64::MAX >> u64::BITS.saturating_sub(nr)
    };
    all << from
}

/// How many pages stand on a ring with `members`, when the first `looked` of them have `pages`.
#[inline]
pub const fn estimate(members: usize, looked: usize, pages: usize) -> usize {
    if looked >= members {
        return pages;
    }
    match members.saturating_mul(pages).checked_div(looked) {
        Some(pages) => pages,
        None => 0,
    }
}
