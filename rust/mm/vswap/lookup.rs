// SPDX-License-Identifier: GPL-2.0

//! Finds the folio that the swap cache has for a slot, without a lock.
//!
//! Swap faults look up folios, so a lookup takes neither the cluster lock nor the folio lock. It
//! reads the swap table word of the slot, and takes a reference to the folio at the page frame in
//! the word. Then it reads the word again, and checks that the page frame still belongs to the
//! folio.
//!
//! # Races between two steps
//!
//! - *The folio leaves the swap cache, and is freed.* Its reference count is 0 then, so the lookup
//!   gets no reference, and retries.
//! - *The page frame is used again*, for a folio of another slot, or for a page outside the swap
//!   cache. The lookup gets a reference to this other folio, but the word has changed. So the
//!   lookup puts the reference and retries.
//! - *The page frame is used again inside of a larger folio*, and the lookup gets a reference to
//!   the larger folio. If that folio is split later, the frame becomes a folio of its own, and can
//!   enter the swap cache for this slot. Then the word has its old value. So the lookup also
//!   checks that the frame still belongs to the folio that the reference is to.
//! - *The page frame is used again for a folio of this slot*, so that the word has its old value.
//!   This folio is the right one: it is in the swap cache for the slot, and the reference is to
//!   it.
//! - *The folio is frozen.* Reclaim and migration set its reference count to 0 under the lock of
//!   the cluster, and a split does so just before it takes that lock, while the word still names
//!   the folio. Before they drop the lock, they change the word or restore the count. So the
//!   lookup retries, as a task that waits for a spinlock does.
//! - *The swap count or the zero flag in the word changes.* The lookup ignores both.
//!
//! # Requirements
//!
//! - A folio is not freed while a word names it. A task that adds the folio has a reference until
//!   the swap cache has one. When the folio is removed, the word changes before the references of
//!   the swap cache are put. So if the word names a folio *while the lookup has a reference to
//!   this folio*, the folio is in the swap cache at that moment, or is being added or removed
//!   under the lock of the cluster.
//! - Taking a reference is fully ordered, so that the second read of the word cannot be reordered
//!   before it. A page frame passes through locks of the page allocator between its uses. So a
//!   task that gets a reference to the next user of the frame sees the earlier change of the word.
//!   The kernel's memory model, not Rust's, promises that an unlock followed by a lock orders the
//!   writes before and after them for all CPUs.
//! - Each page frame whose number ever was in a word has a `struct page`. C's lookup relies on
//!   that, too.
//! - RCU keeps the table of words for readers without the lock: see `cluster`.
//!
//! The folio may leave the swap cache as soon as it was found. A caller that needs the folio in
//! the swap cache locks it, and then checks that it is still the folio of the slot.
//!
//! # Context
//!
//! The code accesses memory only through the closures that the caller passes.
//! `kunit/host/tests/loom.rs` runs it on the host, with all interleavings of tasks that change
//! words and counts.
//!
//! The corresponding function in C is `swap_cache_get_folio()`.

#![forbid(unsafe_code)]

/// Returns the folio that the swap cache has for a slot, with a reference. Returns `None` if the
/// word names no folio.
///
/// `peek` reads the word of the slot, and returns the page frame number of the folio that it
/// names. `try_get` takes a reference to the folio that a page frame belongs to. It returns `None`
/// if the reference count of the folio is 0. Dropping an `R` puts the reference. `is_at` returns
/// true if the page frame belongs to the folio of the reference now.
///
/// The type of page frame numbers is a parameter, so that this function cannot make them up. It
/// can only pass on those that `peek` has returned.
#[inline]
pub fn cached<P: Copy + PartialEq, R>(
    mut peek: impl FnMut() -> Option<P>,
    mut try_get: impl FnMut(P) -> Option<R>,
    mut is_at: impl FnMut(&R, P) -> bool,
) -> Option<R> {
    loop {
        let pfn = peek()?;
        let Some(folio) = try_get(pfn) else {
            continue;
        };
        if peek().is_some_and(|now| now == pfn && is_at(&folio, now)) {
            return Some(folio);
        }
    }
}
