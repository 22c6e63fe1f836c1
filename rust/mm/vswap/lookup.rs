// SPDX-License-Identifier: GPL-2.0

//! The folio that the swap cache has for a slot, found without a lock.
//!
//! Page faults ask this for every entry, so it takes neither the lock of the cluster nor that of
//! the folio: it reads the word, takes a reference to what is at the page frame that it names, and
//! reads the word again.
//!
//! # What can happen between two steps
//!
//! - *The folio leaves the swap cache, and is freed.* Its count is 0 then, and no reference can be
//!   had; or there is one to be had, and the word has changed.
//! - *The page frame is used again*, be it for a folio of another slot, or for something that is no
//!   folio of the swap cache. The reference is to that, and the word has changed. It is put, like
//!   any other.
//! - *The page frame is used again inside of a larger folio*, which the reference is to. When that
//!   is split, or freed but for our reference, the frame can become a folio of this slot, and the
//!   word what it was. So the folio that the frame is of is compared, too, not its number alone.
//! - *The page frame is used again for a folio of this slot*, so that the word is what it was. That
//!   folio is as good: it is in the swap cache for the slot, and the reference is to it.
//! - *The folio is frozen*: reclaim, migration and splitting set the count to 0 for a moment in
//!   which the word still names the folio. They do it under the lock of the cluster, and either
//!   change the word or give the count back before they let go of that, so that this waits for them
//!   as for a spinlock.
//! - *The count or the zero flag in the word changes.* That is not looked at.
//!
//! # What it relies on
//!
//! - A word names a folio only while the swap cache has a reference to it: the word changes first,
//!   and the reference goes after that. Hence a folio that the word names *while one has a
//!   reference to it*, is in the swap cache for the slot at that moment.
//! - Taking a reference is fully ordered, so that the second look is not an early one, and a page
//!   frame passes through locks of the page allocator between its uses: who gets a reference to the
//!   next user sees what was written to the word before. That an unlock followed by a lock orders
//!   the writes before and after for everybody is a promise of the kernel's memory model, not one
//!   of the language's.
//! - There is a `struct page` for each page frame number that ever was in a word; C's lookup relies
//!   on that, too.
//! - The words themselves stay for who looks without the lock: see `ffi::cluster`.
//!
//! The folio may leave the swap cache as soon as it was found. Who needs it to stay locks it, and
//! looks whether it is still the one.
//!
//! # Context
//!
//! Values only, like [`swap_table`](super::swap_table). On the host, this is run with all
//! interleavings of those who change words and counts: `kunit/host/tests/loom.rs`.
//!
//! C: `swap_cache_get_folio()`.

#![forbid(unsafe_code)]

use super::swap_table::{
    Pfn,
    State, //
};

/// The folio that the swap cache has for a slot, with a reference.
///
/// `peek` reads the word of the slot. `try_get` takes a reference to the folio that a page frame is
/// of, unless its count is 0; dropping an `R` puts the reference. `is_at` returns true if the page
/// frame is of that folio now.
#[inline]
pub fn cached<R>(
    mut peek: impl FnMut() -> State,
    mut try_get: impl FnMut(Pfn) -> Option<R>,
    mut is_at: impl FnMut(&R, Pfn) -> bool,
) -> Option<R> {
    loop {
        let State::Pfn { pfn, .. } = peek() else {
            return None;
        };
        let Some(folio) = try_get(pfn) else {
            continue;
        };
        if matches!(peek(), State::Pfn { pfn: now, .. } if now == pfn && is_at(&folio, now)) {
            return Some(folio);
        }
    }
}
