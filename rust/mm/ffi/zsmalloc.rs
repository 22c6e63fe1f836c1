// SPDX-License-Identifier: GPL-2.0

//! zsmalloc pools with owned objects: the allocator of compressed pages.
//!
//! Only the word of a slot refers to the object of the slot. The word is both zswap's record and
//! the allocator's handle. A new object is a [`Pinned`], which the allocator does not move.
//! Dropping the [`Pinned`] frees the object. zswap stores the place of the object in the word, and
//! then unpins the object. From then on the allocator may move the object. When it does, it updates
//! the place in the word.
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
    error::Error,
    prelude::*,
    sync::atomic::Atomic, //
};

static_assert!(record::PLACE_SHIFT == bindings::ZS_PLACE_SHIFT);

/// Number of bits of an offset in a name. A device offset has up to 32 bits, a virtual one 34.
const OFFSET_BITS: u32 = 34;
#[cfg(CONFIG_RUST_VSWAP)]
static_assert!(crate::vswap::swap_table::VOFFSET_BITS <= OFFSET_BITS);

/// The name of an object, which identifies the slot whose page it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name(u64);

impl Name {
    /// Returns the name for a slot.
    #[inline]
    pub(crate) fn of(entry: SwapEntry) -> Self {
        Self((entry.ty() as u64) << OFFSET_BITS | entry.offset() as u64)
    }

    /// Returns the name for a virtual slot.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn of_virtual(offset: usize) -> Self {
        Self((bindings::VSWAP_SWP_VSWAP as u64) << OFFSET_BITS | offset as u64)
    }

    /// Returns the name for the slot `n` slots after this one, in the same cluster.
    #[inline]
    pub(crate) fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n.into()))
    }

    /// Creates a name from the number that C keeps.
    #[inline]
    pub(crate) fn from_raw(name: u64) -> Self {
        Self(name)
    }

    /// Returns the swap entry of the slot.
    #[inline]
    pub(crate) fn entry(self) -> SwapEntry {
        let offset = self.0 & ((1 << OFFSET_BITS) - 1);
        SwapEntry::new((self.0 >> OFFSET_BITS) as u8, offset)
    }
}

/// Returns the word that points to the object with this name. Called under `class->lock`.
pub(crate) type FindWord = unsafe extern "C" fn(u64) -> *mut u64;

/// Returns the length of an object, or the error, that a function of C has returned.
#[inline]
fn length(ret: c_int) -> Result<u32> {
    if ret < 0 {
        Err(Error::from_errno(ret))
    } else {
        Ok(ret as u32)
    }
}

/// A zsmalloc pool of owned objects.
///
/// # Invariants
///
/// The pointer is to a pool of owned objects that exists as long as the value does. The pool has no
/// objects when the value is dropped.
pub(crate) struct ZsPool(NonNull<bindings::zs_pool>);

impl ZsPool {
    /// Creates an empty pool. May sleep.
    ///
    /// # Safety
    ///
    /// - For each object that is in a word and not pinned, `find_word` returns that word for the
    ///   object's name, until the object is freed.
    /// - Each object is freed before the pool is dropped. So no [`Pinned`] of the pool is leaked,
    ///   unless its object is freed in another way.
    pub(crate) unsafe fn create(name: &CStr, find_word: FindWord) -> Result<Self> {
        // SAFETY: `name` is a string, which C copies. As required of the caller, `find_word`
        // returns the word of each object that is in a word and not pinned.
        let pool = unsafe { bindings::zs_create_owned_pool(name.as_char_ptr(), Some(find_word)) };
        // INVARIANT: The pool was just created. As required of the caller, it has no objects when
        // the value is dropped.
        NonNull::new(pool).map(Self).ok_or(ENOMEM)
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::zs_pool {
        self.0.as_ptr()
    }

    c_methods! {
        /// Returns the number of pages of memory that the pool uses.
        pub(crate) safe fn total_pages(&self) -> usize = zs_get_total_pages;
    }

    /// Allocates an object, and copies the bytes into it. Does not sleep or enter direct reclaim.
    /// `EOVERFLOW`: the object would be at an address that does not fit in a word.
    #[inline]
    pub(crate) fn store(&self, bytes: Bytes<'_>, node: Node, name: Name) -> Result<Pinned<'_>> {
        // SAFETY: The pool exists, by the invariants. C only reads the bytes, which are readable.
        // If the bytes change meanwhile, it may copy any value.
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
        // INVARIANT: The object is new, pinned, and in this pool.
        Ok(Pinned {
            pool: self,
            place: place as u64,
        })
    }

    /// Calls `f` with the memory of the object that a word names. The object stays pinned until the
    /// returned [`ReadPin`] is dropped. Fails if the word is corrupt.
    ///
    /// # Safety
    ///
    /// The object is in the word, was unpinned, and is not freed before the result is dropped.
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
        let len = length(len)?;
        // INVARIANT: C has pinned the object. As required of the caller, the object stays in its
        // word.
        let pin = ReadPin { place };
        // INVARIANT: C has filled the list, and the object is pinned while `f` runs.
        let ret = f(Parts {
            list: list.as_mut_ptr().cast(),
            len,
            _object: PhantomData,
        });
        Ok((ret, pin))
    }

    /// Frees the object that a word names, and sets the word to `new`. Returns the length of the
    /// object's data. Fails if the word is corrupt: then it only sets the word.
    ///
    /// # Safety
    ///
    /// The object was stored in the word, and then unpinned. No other task reads or frees it, or
    /// changes the word, except for the owner's bits by compare-and-exchange.
    #[inline]
    pub(crate) unsafe fn free(
        &self,
        word: &Atomic<u64>,
        name: Name,
        new: u64,
        emptied: &mut Emptied,
    ) -> Result<u32> {
        // SAFETY: As required of the caller, the object is in the word and not pinned. No other
        // task uses it, or changes the word except for the owner's bits.
        let len = unsafe {
            bindings::zs_owned_free(self.as_ptr(), word.as_ptr(), name.0, new, &mut emptied.0)
        };
        length(len)
    }

    /// Frees an object that was read, and sets its word to `new`.
    ///
    /// # Safety
    ///
    /// The object is in this pool. The caller has read it through `word`, and `pin` is the pin of
    /// that read. No other task reads or frees the object, or changes the word, except for the
    /// owner's bits by compare-and-exchange.
    #[inline]
    pub(crate) unsafe fn free_read(
        &self,
        pin: ReadPin,
        word: &Atomic<u64>,
        new: u64,
        emptied: &mut Emptied,
    ) {
        let place = ManuallyDrop::new(pin).place;
        // SAFETY: As required of the caller, the object is in this pool and in `word`, and was
        // pinned by the read. No other task uses it, or changes the word except for the owner's
        // bits.
        unsafe {
            bindings::zs_owned_free_pinned(self.as_ptr(), place, word.as_ptr(), new, &mut emptied.0)
        };
    }

    /// Frees zspages that became empty when objects were freed.
    ///
    /// # Safety
    ///
    /// All of the zspages are of this pool.
    #[inline]
    pub(crate) unsafe fn give_back(&self, emptied: &mut Emptied) {
        if !emptied.0.first.is_null() {
            // SAFETY: As required of the caller, the zspages are of this pool.
            unsafe { bindings::zs_owned_free_emptied(self.as_ptr(), &mut emptied.0) };
        }
    }
}

c_owned! {
    // Safe: by the invariants of `ZsPool`, the pool has no objects any more.
    fn drop(ZsPool: bindings::zs_pool) = zs_destroy_pool;
}

/// The pin of an object that was read. Dropping it unpins the object.
///
/// # Invariants
///
/// The value owns one pin of the object at `place`. The object is in the word that `find_word`
/// returns for its name, and is not freed while the value exists.
pub(crate) struct ReadPin {
    place: u64,
}

impl Drop for ReadPin {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The value owns a pin of the object, which is in its word, by the invariants.
        unsafe { unpin(self.place) };
    }
}

/// Zspages that became empty, to be freed after the locks were dropped.
pub(crate) struct Emptied(bindings::zs_emptied);

impl Emptied {
    /// No zspages.
    pub(crate) const NONE: Self = Self(bindings::zs_emptied {
        first: core::ptr::null_mut(),
    });
}

/// The memory of an object, in one part or two, while it is read.
///
/// The value includes the length, and is not passed by reference. So a caller cannot swap it for
/// the memory of another object.
///
/// # Invariants
///
/// The list describes `len` bytes, which belong to the object during `'p`.
pub(crate) struct Parts<'p> {
    list: *mut bindings::scatterlist,
    len: u32,
    _object: PhantomData<&'p mut ()>,
}

impl Parts<'_> {
    /// Returns the length of the object.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn as_sg(&mut self) -> *mut bindings::scatterlist {
        self.list
    }
}

/// A new object that no word names. Dropping it frees the object.
///
/// # Invariants
///
/// The object is in the pool, and pinned. Only this value names it.
#[must_use]
pub(crate) struct Pinned<'p> {
    pool: &'p ZsPool,
    place: u64,
}

impl<'p> Pinned<'p> {
    /// Returns the place of the object.
    #[inline]
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// Consumes the value, and returns the place of the object. The object stays pinned until
    /// [`unpin`].
    #[inline]
    pub(crate) fn into_place(self) -> u64 {
        ManuallyDrop::new(self).place
    }

    /// Restores a value from the place that [`Pinned::into_place`] returned.
    ///
    /// # Safety
    ///
    /// [`Pinned::into_place`] returned `place`, for an object of this pool. The caller does not use
    /// the place otherwise.
    #[inline]
    pub(crate) unsafe fn from_place(pool: &'p ZsPool, place: u64) -> Self {
        // INVARIANT: As required of the caller, `place` came from `into_place()` for an object of
        // this pool, and only this value uses it. The object stays pinned until `unpin()`.
        Self { pool, place }
    }
}

/// Unpins an object whose place is in a word, so that the allocator may move it.
///
/// # Safety
///
/// The caller owns a pin of the object, which is in the word that `find_word` returns for its name.
#[inline]
pub(crate) unsafe fn unpin(place: u64) {
    // SAFETY: The object is in its word, and the caller owns a pin of it, as required.
    unsafe { bindings::zs_owned_unpin(place) };
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut emptied = Emptied::NONE;
        // SAFETY: The value owns the object, which is pinned, by the invariants. A zspage that
        // becomes empty is of this pool.
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
