// SPDX-License-Identifier: GPL-2.0

//! The allocator of compressed pages.
//!
//! Only the word of a slot refers to its object: it is zswap's record and the allocator's handle at
//! once. A new object is a value, [`Pinned`]: the allocator does not move it, and dropping it frees
//! it. zswap unpins the object when it has stored it in the word. From then on the allocator may
//! move the object, and updates the place in the word when it does.
//!
//! C header: [`include/linux/zsmalloc_owned.h`](srctree/include/linux/zsmalloc_owned.h).

use crate::{
    ffi::{
        call::ToC,
        folio::{
            Bytes,
            SwapEntry, //
        },
        node::Node, //
    },
    zswap::record, //
};
use core::{
    marker::PhantomData,
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::{
        to_result,
        Error, //
    },
    prelude::*,
    sync::atomic::Atomic, //
};

static_assert!(record::PLACE_SHIFT == bindings::ZS_PLACE_SHIFT);

/// Bits of an offset in a name: an offset of a device has 32, a virtual one 34.
const OFFSET_BITS: u32 = 34;
#[cfg(CONFIG_RUST_VSWAP)]
static_assert!(crate::vswap::swap_table::VOFFSET_BITS <= OFFSET_BITS);

/// Names an object: the slot whose page it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name(u64);

impl Name {
    /// Returns that of a slot.
    #[inline]
    pub(crate) fn of(entry: SwapEntry) -> Self {
        Self((entry.ty() as u64) << OFFSET_BITS | entry.offset() as u64)
    }

    /// Returns that of a virtual slot.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn of_virtual(offset: usize) -> Self {
        Self((bindings::VSWAP_SWP_VSWAP as u64) << OFFSET_BITS | offset as u64)
    }

    /// Returns that of the slot `n` slots after, of the same cluster.
    #[inline]
    pub(crate) fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n.into()))
    }

    /// Makes a name of the number that C has.
    #[inline]
    pub(crate) fn from_raw(name: u64) -> Self {
        Self(name)
    }

    /// Returns the entry of the slot.
    #[inline]
    pub(crate) fn entry(self) -> SwapEntry {
        let offset = self.0 & ((1 << OFFSET_BITS) - 1);
        SwapEntry::new((self.0 >> OFFSET_BITS) as u8, offset)
    }
}

/// Finds the word of an object. Called with locks of the allocator held.
pub(crate) type FindWord = unsafe extern "C" fn(u64) -> *mut u64;

/// A pool of objects.
///
/// # Invariants
///
/// The pointer is to a pool of owned objects that exists as long as the value.
pub(crate) struct ZsPool(NonNull<bindings::zs_pool>);

// SAFETY: zsmalloc locks for itself.
unsafe impl Send for ZsPool {}
// SAFETY: zsmalloc locks for itself.
unsafe impl Sync for ZsPool {}

impl ZsPool {
    /// Makes an empty pool. May sleep.
    ///
    /// # Safety
    ///
    /// For the name of an object that is in a word, and not pinned, `find_word` returns that word,
    /// until the object is freed.
    pub(crate) unsafe fn create(name: &CStr, find_word: FindWord) -> Result<Self> {
        // SAFETY: `name` is a string; C copies it. `find_word` as required of the caller.
        let pool = unsafe { bindings::zs_create_owned_pool(name.as_char_ptr(), Some(find_word)) };
        // INVARIANT: It was just made.
        NonNull::new(pool).map(Self).ok_or(ENOMEM)
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::zs_pool {
        self.0.as_ptr()
    }

    c_methods! {
        /// Returns the pages that the pool takes.
        pub(crate) fn total_pages(&self) -> usize = zs_get_total_pages;
    }

    /// Stores a copy of the bytes. Does not sleep, and asks for no more than is at hand.
    /// `EOVERFLOW`: it would be in memory that a word cannot name.
    #[inline]
    pub(crate) fn store(&self, bytes: Bytes<'_>, node: Node, name: Name) -> Result<Pinned<'_>> {
        // SAFETY: The pool exists, by the invariants. C reads from the bytes, which are readable;
        // that they may change while it copies matters to nobody.
        let place = unsafe {
            bindings::zs_owned_store(
                self.as_ptr(),
                bytes.as_ptr().cast(),
                bytes.len(),
                bindings::ZSWAP_GFP_OBJECT,
                node.to_c(),
                name.0,
            )
        };
        if place < 0 {
            return Err(Error::from_errno(place as c_int));
        }
        // INVARIANT: The object is new, and this pool's.
        Ok(Pinned {
            pool: self,
            place: place as u64,
        })
    }

    /// Gives the memory of the object that a word names to `f`. The object stays pinned as long as
    /// the result. Fails if the word is damaged.
    ///
    /// # Safety
    ///
    /// The object is in the word, was unpinned, and is not freed while the result is there.
    #[inline]
    pub(crate) unsafe fn read<R>(
        &self,
        word: &Atomic<u64>,
        name: Name,
        f: impl FnOnce(Parts<'_>) -> R,
    ) -> Result<(R, ReadPin)> {
        let mut list = [const { MaybeUninit::<bindings::scatterlist>::uninit() }; 2];
        let mut place = 0;
        // SAFETY: The word names an object of this pool. C fills one entry or two of the list, as
        // many as the object has parts, and marks the last.
        let len = unsafe {
            bindings::zs_owned_read_begin(
                self.as_ptr(),
                word.as_ptr(),
                name.0,
                list.as_mut_ptr().cast(),
                &mut place,
            )
        };
        to_result(len)?;
        // INVARIANT: Pinned.
        let pin = ReadPin { place };
        // INVARIANT: C has filled the list, and the object is pinned while `f` runs.
        let ret = f(Parts {
            list: list.as_mut_ptr().cast(),
            len: len as u32,
            _object: PhantomData,
        });
        Ok((ret, pin))
    }

    /// Frees the object that a word names, which is `new` then; returns the length of its data.
    /// Fails if the word was damaged: then only the word is changed.
    ///
    /// # Safety
    ///
    /// The object was put into the word, and unpinned then. Nobody reads it, frees it, or changes
    /// the word, but for the owner's bits by compare-and-exchange.
    #[inline]
    pub(crate) unsafe fn free(
        &self,
        word: &Atomic<u64>,
        name: Name,
        new: u64,
        emptied: &mut Emptied,
    ) -> Result<u32> {
        // SAFETY: As required of the caller.
        let len = unsafe {
            bindings::zs_owned_free(self.as_ptr(), word.as_ptr(), name.0, new, &mut emptied.0)
        };
        to_result(len).map(|()| len as u32)
    }

    /// Frees an object that was read, whose word is `new` then.
    ///
    /// # Safety
    ///
    /// As for [`Self::free`], but for this one who has read it, by way of that word. It is this
    /// pool's.
    #[inline]
    pub(crate) unsafe fn free_read(
        &self,
        pin: ReadPin,
        word: &Atomic<u64>,
        new: u64,
        emptied: &mut Emptied,
    ) {
        let place = ManuallyDrop::new(pin).place;
        // SAFETY: As required of the caller.
        unsafe {
            bindings::zs_owned_free_pinned(self.as_ptr(), place, word.as_ptr(), new, &mut emptied.0)
        };
    }

    /// Gives memory back that has become free.
    ///
    /// # Safety
    ///
    /// All of it is of this pool.
    #[inline]
    pub(crate) unsafe fn give_back(&self, emptied: &mut Emptied) {
        if !emptied.0.first.is_null() {
            // SAFETY: As required of the caller.
            unsafe { bindings::zs_owned_free_emptied(self.as_ptr(), &mut emptied.0) };
        }
    }
}

impl Drop for ZsPool {
    fn drop(&mut self) {
        // SAFETY: The pool exists, by the invariants. All objects are gone: they borrow the pool,
        // or who has put them into words (a counted reference to its owner) keeps it.
        unsafe { bindings::zs_destroy_pool(self.as_ptr()) };
    }
}

/// An object that was read: dropping unpins it.
///
/// # Invariants
///
/// The object at the place is pinned, once for this. It is in the word that is found for its name,
/// and not freed meanwhile.
pub(crate) struct ReadPin {
    place: u64,
}

impl Drop for ReadPin {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { unpin(self.place) };
    }
}

/// Memory that has become free, to be given back after the locks were dropped.
pub(crate) struct Emptied(bindings::zs_emptied);

impl Emptied {
    /// None.
    pub(crate) const NONE: Self = Self(bindings::zs_emptied {
        first: core::ptr::null_mut(),
    });
}

/// The memory of an object, in one part or two, while it is read.
///
/// It goes to who reads by value, and has its length with it: there is no other to swap it with.
///
/// # Invariants
///
/// The list describes `len` bytes, which are the object's during `'p`.
pub(crate) struct Parts<'p> {
    list: *mut bindings::scatterlist,
    len: u32,
    _object: PhantomData<&'p mut ()>,
}

impl Parts<'_> {
    /// Returns its length.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn as_sg(&mut self) -> *mut bindings::scatterlist {
        self.list
    }
}

/// A new object, which is in no word: dropping frees it.
///
/// # Invariants
///
/// The object is one of the pool, and pinned. This value alone names it.
#[must_use]
pub(crate) struct Pinned<'p> {
    pool: &'p ZsPool,
    place: u64,
}

impl<'p> Pinned<'p> {
    /// Returns its place.
    #[inline]
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// Leaves the object to the caller, who knows its place. It stays pinned until [`unpin`].
    #[inline]
    pub(crate) fn into_place(self) -> u64 {
        ManuallyDrop::new(self).place
    }

    /// Returns the object that was left by [`Pinned::into_place`].
    ///
    /// # Safety
    ///
    /// It was, by one of this pool, and this is its only way back.
    #[inline]
    pub(crate) unsafe fn from_place(pool: &'p ZsPool, place: u64) -> Self {
        // INVARIANT: As required of the caller.
        Self { pool, place }
    }
}

/// Lets the allocator move an object: a word says its place.
///
/// # Safety
///
/// It is pinned by the caller, and in the word that is found for its name.
#[inline]
pub(crate) unsafe fn unpin(place: u64) {
    // SAFETY: As required of the caller.
    unsafe { bindings::zs_owned_unpin(place) };
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut emptied = Emptied::NONE;
        // SAFETY: By the invariants. What has become free is this pool's.
        unsafe {
            bindings::zs_owned_free_pinned(
                self.pool.as_ptr(),
                self.place,
                core::ptr::null_mut(),
                0,
                &mut emptied.0,
            );
            self.pool.give_back(&mut emptied);
        }
    }
}
