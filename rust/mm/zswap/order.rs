// SPDX-License-Identifier: GPL-2.0

//! The order in which pages are written back: a clock.
//!
//! A *ring* has the pages of one memory cgroup on one node. It consists of *members*. A member has
//! pages of the ring among 64 consecutive slots, with one bit for each. The clock hand is at the
//! head of the ring. It passes the pages of the first member one by one, then moves that member to
//! the end. When the hand meets a page for the first time, it clears the referenced bit in the
//! record: the page loses its second chance. When the hand meets a page with this bit clear, the
//! page is written back.
//!
//! So the hand chooses a page for writeback one round after it was stored at the earliest, and two
//! rounds at the latest, without a timestamp. (Rounds in which the hand skips the member, because
//! its pages cannot be written back, do not count.)
//! A page that is stored just before the hand reaches its slot loses its second chance right away.
//! The hand does not meet it again for a whole round.
//!
//! # Locking
//!
//! - The cluster lock protects the bits of a member and the words of its slots. Two parts of a word
//!   change without it, by compare-and-exchange: the hand clears the referenced bit, and zsmalloc
//!   changes the place of the object.
//! - A member's seat says which ring it is on ([`Seat`]). The ring lock protects the ring, and the
//!   seats of the members on it.
//!
//! To set the bit of its slot, a store holds the cluster lock. It waits for a ring lock only if it
//! moves a member without bits from one ring to another, or if the cgroup of the ring was removed.
//! The hand removes members without bits from the ring, so that it passes over them only once.
//! [`fill`] and [`park`] resolve the race between a store and the hand. [`fill`] changes the bits,
//! then reads the seat, unless the member had bits before. [`park`] changes the seat, then reads
//! the bits. So the store sees the new seat, or the hand sees the new bits, or both. The task that
//! changes the seat from [`Seat::Free`] to [`Seat::On`] puts the member on that ring.
//!
//! A member is freed with its table, when none of its slots has a bit. Before that, [`retire`]
//! sets its seat to [`Seat::Gone`]. Otherwise a hand that is still in [`park`] could put the
//! member back on the ring. The memory of the member is freed after an RCU grace period, because
//! the hand can still read it.
//!
//! # Context
//!
//! This file accesses members only through the trait [`MemberOps`]. So `kunit/host/tests/loom.rs`
//! can implement the trait, and run this file in all interleavings.

#![forbid(unsafe_code)]

use super::record::Record;

/// The ring that a member is on, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seat<R> {
    /// The member is on no ring.
    Free,
    /// The member is on this ring, or about to join it.
    On(R),
    /// The member is on no ring, and never joins one again.
    Gone,
}

/// The operations on a member that the protocol uses.
pub trait MemberOps {
    /// Identifies a ring.
    type RingId: Copy + PartialEq;

    /// Returns the bits. Caller holds the cluster lock or the ring lock.
    fn bits(&self) -> u64;

    /// Sets the bits. Caller holds the cluster lock.
    fn set_bits(&self, bits: u64);

    /// Returns the seat.
    fn seat(&self) -> Seat<Self::RingId>;

    /// Changes the seat to `to` if it is `from`, with full ordering. Returns true if it was `from`.
    fn exchange_seat(&self, from: Seat<Self::RingId>, to: Seat<Self::RingId>) -> bool;

    /// Orders all earlier writes before all later reads.
    fn full_barrier(&self);
}

/// Sets the bit of a stored page. Returns true if the caller has to put the member on `ring`.
///
/// Caller holds the cluster lock and the RCU read lock. The member is on `ring`, or has no bits. A
/// member without bits can still be on another ring. Then `remove` removes it from there, as in
/// [`retire`]. Until then, the hand of that ring can meet the page. That costs the page its second
/// chance at most: it cannot be written back yet, because its folio is still locked in the swap
/// cache.
#[inline]
pub fn fill<M: MemberOps>(
    member: &M,
    bit: u64,
    ring: M::RingId,
    remove: impl FnMut(M::RingId, Seat<M::RingId>) -> bool,
) -> bool {
    let before = member.bits();
    member.set_bits(before | bit);
    if before != 0 {
        return false;
    }
    member.full_barrier();
    reseat(member, Seat::On(ring), remove)
}

/// Removes a member from its ring if it has no bits. Returns true if the member left the ring.
///
/// Caller holds the ring lock and the RCU read lock. `unlink` removes the member from the ring, and
/// `relink` puts it back.
#[inline]
pub fn park<M: MemberOps>(
    member: &M,
    ring: M::RingId,
    unlink: impl FnOnce(),
    relink: impl FnOnce(),
) -> bool {
    if member.bits() != 0 {
        return false;
    }
    unlink();
    // Succeeds, because the seat of a member on a ring changes only under the lock of that ring.
    member.exchange_seat(Seat::On(ring), Seat::Free);
    member.full_barrier();
    // A store that did not see the free seat has set its bit before this read.
    if member.bits() != 0 && member.exchange_seat(Seat::Free, Seat::On(ring)) {
        relink();
        return false;
    }
    true
}

/// Removes a member without bits from its ring, if it is on one. The member never joins a ring
/// again.
///
/// Caller holds the cluster lock and the RCU read lock. `remove` removes the member from a ring
/// under the ring lock, and changes the seat to its second argument. `remove` returns false if the
/// member has left that ring.
#[inline]
pub fn retire<M: MemberOps>(member: &M, remove: impl FnMut(M::RingId, Seat<M::RingId>) -> bool) {
    reseat(member, Seat::Gone, remove);
}

/// Changes the seat of a member to `to`. Returns false if that is its seat already, or if the
/// member is gone.
#[inline]
fn reseat<M: MemberOps>(
    member: &M,
    to: Seat<M::RingId>,
    mut remove: impl FnMut(M::RingId, Seat<M::RingId>) -> bool,
) -> bool {
    loop {
        let done = match member.seat() {
            seat if seat == to || seat == Seat::Gone => return false,
            Seat::On(ring) => remove(ring, to),
            free => member.exchange_seat(free, to),
        };
        if done {
            return true;
        }
    }
}

/// What the clock hand does with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Nothing is done, because the word is no valid record, or has changed meanwhile.
    Pass,
    /// The hand has cleared the referenced bit. The page is not written back this time.
    Spare,
    /// The page is to be written back.
    WriteBack,
}

/// Decides what the clock hand does with a page, and clears the referenced bit if it is set.
/// `exchange` replaces the word by its argument if it is still `word`, and returns true if it was.
#[inline]
pub fn turn(word: u64, exchange: impl FnOnce(u64) -> bool) -> Turn {
    match Record::decode(word) {
        Some(record) if !record.referenced => Turn::WriteBack,
        Some(record) if exchange(record.passed().encode()) => Turn::Spare,
        _ => Turn::Pass,
    }
}

/// Returns the number of the first slot whose bit is set, starting at slot `from` of the 64.
/// Returns `None` if there is none.
#[inline]
pub fn next_bit(bits: u64, from: u32) -> Option<u32> {
    match bits & u64::MAX.checked_shl(from)? {
        0 => None,
        left => Some(left.trailing_zeros()),
    }
}

/// Returns the bits of `nr` slots starting at slot `from` of the 64. Slots beyond the 64 have no
/// bit.
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

/// Estimates the number of pages on a ring with `members` members, the first `looked` of which have
/// `pages` pages.
#[inline]
pub fn estimate(members: usize, looked: usize, pages: usize) -> usize {
    if looked >= members {
        return pages;
    }
    let scaled = members.saturating_mul(pages);
    scaled.checked_div(looked).unwrap_or(0)
}
