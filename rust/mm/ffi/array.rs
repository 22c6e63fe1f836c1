// SPDX-License-Identifier: GPL-2.0

//! An array of references that grows by chunks, and is read without a lock.

use crate::ffi::cluster::ModeLock;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    }, //
};

/// Number of elements of a chunk.
pub(crate) const CHUNK: usize = bindings::VSWAP_CHUNK as usize;

/// An element of the root or of a chunk: a reference, or nothing.
///
/// # Invariants
///
/// The pointer is NULL, or points to a `T` that is never freed.
struct Element<T: 'static>(Atomic<*const T>);

impl<T: Sync> Element<T> {
    const fn empty() -> Self {
        // INVARIANT: The pointer is NULL.
        Self(Atomic::new(core::ptr::null()))
    }

    #[inline]
    fn get(&self) -> Option<&'static T> {
        // `Acquire` pairs with `Release` in `set()`, and with `Full` in `Array::reserve()`. So the
        // caller sees the `T` as it was when the pointer was stored.
        // SAFETY: By the invariants, the pointer is NULL, or points to a `T` that is never freed.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    fn set(&self, value: &'static T) {
        // `Release` pairs with `Acquire` in `get()`.
        // INVARIANT: `value` points to a `T` that is never freed, because its lifetime is
        // `'static`.
        self.0.store(value, Release);
    }
}

type Chunk<T> = [Element<T>; CHUNK];

/// A chunk that is in no array yet.
///
/// # Invariants
///
/// The value owns zeroed memory for a [`Chunk`].
struct NewChunk(NonNull<c_void>);

c_functions! {
    // C returns zeroed memory for `CHUNK` pointers, or NULL.
    safe fn alloc_chunk(gfp: bindings::gfp_t) -> Option<NewChunk> = vswap_chunk_alloc;
}

c_owned! {
    fn drop(NewChunk: c_void) = kfree;
}

/// An array of references. Its root has a pointer for each possible chunk. The root, and each
/// chunk in it, is never freed.
///
/// # Invariants
///
/// `root` points to `len` elements, which are never freed, or `len` is 0.
pub(crate) struct Array<T: 'static> {
    root: Atomic<*const Element<Chunk<T>>>,
    len: Atomic<usize>,
}

impl<T: Sync> Array<T> {
    /// Returns an array without elements.
    pub(crate) const fn new() -> Self {
        // INVARIANT: `len` is 0.
        Self {
            root: Atomic::new(core::ptr::null()),
            len: Atomic::new(0),
        }
    }

    /// Allocates the root, unless it exists. The root gets room for `max` elements, rounded up to
    /// whole chunks, and for at least one chunk. Returns `ENOMEM` if there is no memory. `_setup`
    /// proves that no other task calls this function. May sleep.
    pub(crate) fn setup(&self, max: usize, _setup: &ModeLock<'_>) -> Result {
        if self.most() != 0 {
            return Ok(());
        }
        let len = max.div_ceil(CHUNK).max(1);
        let mut root = KVVec::<Element<Chunk<T>>>::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            root.push(Element::empty(), GFP_KERNEL)?;
        }
        // INVARIANT: `root` points to `len` elements, which are not dropped. By the invariants of
        // `ModeLock`, no other task stores a root. `len` is stored after `root`, with release
        // ordering. So a reader that has loaded `len` with acquire ordering also sees `root`.
        self.root.store(ManuallyDrop::new(root).as_ptr(), Relaxed);
        self.len.store(len, Release);
        Ok(())
    }

    /// Returns how many elements the root has room for; 0 until [`Self::setup`] has succeeded.
    pub(crate) fn most(&self) -> usize {
        self.len.load(Relaxed).saturating_mul(CHUNK)
    }

    #[inline]
    fn place(&self, index: usize) -> Option<&'static Element<Chunk<T>>> {
        let nth = index / CHUNK;
        if nth >= self.len.load(Acquire) {
            return None;
        }
        // SAFETY: By the invariants, the root has more than `nth` elements, and is never freed.
        Some(unsafe { &*self.root.load(Relaxed).add(nth) })
    }

    /// Returns the element at `index`, or `None` if it was not set.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&'static T> {
        self.place(index)?.get()?.get(index % CHUNK)?.get()
    }

    /// Allocates the chunk of the element at `index`, unless the chunk exists. Returns `None` if
    /// there is no memory, or if the root has no room for the element. May sleep if `gfp` allows
    /// it.
    pub(crate) fn reserve(&self, index: usize, gfp: bindings::gfp_t) -> Option<()> {
        let place = self.place(index)?;
        if place.get().is_none() {
            let new = alloc_chunk(gfp)?;
            let chunk = new.0.as_ptr().cast_const().cast();
            if place.0.cmpxchg(core::ptr::null(), chunk, Full).is_ok() {
                // INVARIANT: The chunk is zeroed, so its elements are NULL. The chunk is not
                // freed.
                let _ = ManuallyDrop::new(new);
            }
        }
        Some(())
    }

    /// Sets the element at `index`, so that readers find it. Does nothing if the chunk of the
    /// element does not exist.
    pub(crate) fn set(&self, index: usize, value: &'static T) {
        let chunk = self.place(index).and_then(Element::get);
        if let Some(place) = chunk.and_then(|chunk| chunk.get(index % CHUNK)) {
            place.set(value);
        }
    }
}
