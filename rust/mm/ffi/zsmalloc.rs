// SPDX-License-Identifier: GPL-2.0

//! zsmalloc pools of owned objects, in which zswap stores pages.
//!
//! An owned object has no handle. Instead, a word in zswap's table names it: the word of the slot
//! whose page the object has. A new object, which no word names yet, is a [`NewObject`], and
//! zsmalloc does not move it. Dropping the [`NewObject`] frees the object. zswap stores the place
//! of the object in the word, and then unpins the object. From then on, zsmalloc may move the
//! object, and then updates the place in the word. An object in a word is an [`InWord`]. The
//! *owner's bits* are the bits of a word below the place. zswap may change them at any time.
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
    zswap::{
        pool::PoolRef,
        record, //
    }, //
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

/// Number of bits of a swap offset in a name. An offset on a device has up to 32 bits, a virtual
/// one up to 34.
const OFFSET_BITS: u32 = 34;
#[cfg(CONFIG_RUST_VSWAP)]
static_assert!(crate::vswap::swap_table::VOFFSET_BITS <= OFFSET_BITS);

/// The name of an object, which identifies the slot whose page the object has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObjectName(u64);

impl ObjectName {
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

    /// Creates a name from the number that zsmalloc stores in an object.
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

/// A function that returns the word of the object with a name, or NULL. zsmalloc calls it under
/// `class->lock`, so the function takes no lock.
pub(crate) type FindWord = unsafe extern "C" fn(u64) -> *mut u64;

/// Converts the result of a C function that returns the length of an object, or a negative error
/// number.
#[inline]
fn length(ret: c_int) -> Result<u32> {
    u32::try_from(ret).map_err(|_| Error::from_errno(ret))
}

/// A zsmalloc pool of owned objects.
///
/// # Invariants
///
/// The pointer is to a pool of owned objects, which is not destroyed before the value is dropped.
/// The pool has no objects when the value is dropped.
pub(crate) struct ZsPool(NonNull<bindings::zs_pool>);

impl ZsPool {
    /// Creates an empty pool. Returns `ENOMEM` if there is no memory. May sleep.
    ///
    /// # Safety
    ///
    /// - For each object that is in a word and not pinned, `find_word` returns that word for the
    ///   object's name, until the object is freed.
    /// - Each object is freed before the pool is dropped, or the pool is never dropped. So a
    ///   [`NewObject`] that only borrows the pool must not be leaked. One that owns a reference to
    ///   the pool may be leaked, because then the pool is never dropped.
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
        /// Returns how many pages of memory the pool uses.
        pub(crate) safe fn total_pages(&self) -> usize = zs_get_total_pages;
    }

    /// Frees an object that was read and is still pinned, and sets its word to `new`. If its
    /// zspage becomes empty, adds the zspage to `emptied`, or leaves it to zsmalloc to free later.
    ///
    /// # Safety
    ///
    /// The object is in this pool. The caller has read it through `word`, and `pin` is the pin of
    /// that read. No other task reads or frees the object, or changes the word, except for the
    /// owner's bits by compare-and-exchange.
    #[inline]
    pub(crate) unsafe fn free_read(
        &self,
        pin: ReadPin<'_>,
        word: &Atomic<u64>,
        new: u64,
        emptied: &mut Emptied,
    ) {
        let place = ManuallyDrop::new(pin).place;
        // SAFETY: As required of the caller, the object is in this pool and in `word`, and `pin`
        // is its only pin. No other task uses the object, or changes the word except for the
        // owner's bits.
        unsafe {
            bindings::zs_owned_free_pinned(self.as_ptr(), place, word.as_ptr(), new, &mut emptied.0)
        };
    }

    /// Frees the zspages in `emptied`, which became empty when objects were freed.
    ///
    /// # Safety
    ///
    /// All zspages in `emptied` are of this pool.
    #[inline]
    pub(crate) unsafe fn give_back(&self, emptied: &mut Emptied) {
        if !emptied.0.first.is_null() {
            // SAFETY: As required of the caller, the zspages are of this pool.
            unsafe { bindings::zs_owned_free_emptied(self.as_ptr(), &mut emptied.0) };
        }
    }
}

/// Marks an [`InWord`] whose object other tasks may read, too.
pub(crate) enum Readable {}

/// Marks an [`InWord`] whose owner may free the object.
pub(crate) enum Freeable {}

/// An object in the word of its slot.
///
/// # Invariants
///
/// The word names an object of the pool, which has the name and was unpinned. During `'a`,
/// zsmalloc may move the object. Only the owner of the value may free the object, and only if `A`
/// is [`Freeable`]. If `A` is [`Freeable`], no other task reads the object, or changes the word,
/// except for the owner's bits by compare-and-exchange.
pub(crate) struct InWord<'a, A> {
    pool: &'a ZsPool,
    word: &'a Atomic<u64>,
    name: ObjectName,
    _access: PhantomData<A>,
}

impl<'a, A> InWord<'a, A> {
    /// Returns the object that a word names.
    ///
    /// # Safety
    ///
    /// The object is in the pool. It was stored with the name, put into the word, and then
    /// unpinned. During `'a`, only the owner of the result may free the object, and only if `A` is
    /// [`Freeable`]. If `A` is [`Freeable`], no other task reads the object, or changes the word,
    /// except for the owner's bits by compare-and-exchange.
    #[inline]
    pub(crate) unsafe fn new(pool: &'a ZsPool, word: &'a Atomic<u64>, name: ObjectName) -> Self {
        // INVARIANT: As required of the caller, the word names an object of the pool that has the
        // name and was unpinned, and only the owner of the result may free it.
        Self {
            pool,
            word,
            name,
            _access: PhantomData,
        }
    }
}

impl<'a> InWord<'a, Readable> {
    /// Pins the object, and calls `f` with its memory. Dropping the returned [`ReadPin`] unpins
    /// the object. If the word is corrupt, warns, returns an error, and does not call `f`.
    #[inline]
    pub(crate) fn read<R>(self, f: impl FnOnce(Parts<'_>) -> R) -> Result<(R, ReadPin<'a>)> {
        let mut list = [const { MaybeUninit::<bindings::scatterlist>::uninit() }; 2];
        let mut place = 0;
        // SAFETY: By the invariants, the word names an object of the pool. C fills one entry or
        // two of the list, as many as the object has parts, and marks the last.
        let len = unsafe {
            bindings::zs_owned_read_begin(
                self.pool.as_ptr(),
                self.word.as_ptr(),
                self.name.0,
                list.as_mut_ptr().cast(),
                &mut place,
            )
        };
        let len = length(len)?;
        // INVARIANT: C has pinned the object. By the invariants of `InWord`, the object is not
        // freed during `'a`, so its word names it during `'a`.
        let pin = ReadPin {
            place,
            _object: PhantomData,
        };
        // INVARIANT: C has filled the list, and the object is pinned while `f` runs.
        let ret = f(Parts {
            list: list.as_mut_ptr().cast(),
            len,
            _object: PhantomData,
        });
        Ok((ret, pin))
    }
}

impl InWord<'_, Freeable> {
    /// Frees the object, and sets the word to `new`. Returns the length of the object's data. If
    /// the word is corrupt, warns, only sets the word, and returns an error. A zspage that becomes
    /// empty is treated as in [`ZsPool::free_read`].
    #[inline]
    pub(crate) fn free(self, new: u64, emptied: &mut Emptied) -> Result<u32> {
        // SAFETY: By the invariants of `InWord`, the word names the object, which was unpinned. As
        // `A` is `Freeable`, no other task reads the object. Other tasks change only the owner's
        // bits of the word, by compare-and-exchange.
        let len = unsafe {
            bindings::zs_owned_free(
                self.pool.as_ptr(),
                self.word.as_ptr(),
                self.name.0,
                new,
                &mut emptied.0,
            )
        };
        length(len)
    }
}

c_owned! {
    // Destroying the pool is safe, because it has no objects any more, by the invariants of
    // `ZsPool`.
    fn drop(ZsPool: bindings::zs_pool) = zs_destroy_pool;
}

/// The pin of an object. Dropping the value unpins the object, so that zsmalloc may move it.
///
/// # Invariants
///
/// The value owns one pin of the object at `place`. The object is in the word that `find_word`
/// returns for its name, and is not freed while the value exists.
pub(crate) struct ReadPin<'a> {
    place: u64,
    _object: PhantomData<&'a ()>,
}

impl Drop for ReadPin<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The value owns a pin of the object, which is in its word, by the invariants.
        unsafe { bindings::zs_owned_unpin(self.place) };
    }
}

/// A list of zspages that became empty, for [`ZsPool::give_back`] to free after the caller has
/// dropped its locks.
pub(crate) struct Emptied(bindings::zs_emptied);

impl Emptied {
    /// No zspages.
    pub(crate) const NONE: Self = Self(bindings::zs_emptied {
        first: core::ptr::null_mut(),
    });
}

/// The memory of an object while it is read. It is in two parts if the object crosses a page.
///
/// The value includes the length, and is passed by value. So a caller cannot combine the memory of
/// one object with the length of another.
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
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn as_sg(&mut self) -> *mut bindings::scatterlist {
        self.list
    }
}

mod keeper {
    //! The trait for values that keep a pool from being freed. Only this module implements the
    //! trait, because [`NewObject`](super::NewObject) relies on the implementations.

    use super::{
        PoolRef,
        ZsPool, //
    };

    /// A value that keeps a pool from being freed. [`Self::zs`] always returns the same pool,
    /// which is not freed while the value exists.
    pub(crate) trait Keeper {
        /// Returns the pool.
        fn zs(&self) -> &ZsPool;
    }

    impl Keeper for PoolRef {
        #[inline]
        fn zs(&self) -> &ZsPool {
            (**self).zs()
        }
    }

    #[cfg(CONFIG_RUST_ZSWAP_KUNIT_TEST)]
    impl Keeper for &ZsPool {
        fn zs(&self) -> &ZsPool {
            self
        }
    }
}
use keeper::Keeper;

/// A new object that no word names. Dropping it frees the object.
///
/// # Invariants
///
/// The object is in the pool that `pool.zs()` returns, and is pinned. Only this value owns it.
#[must_use]
pub(crate) struct NewObject<P: Keeper> {
    // Dropping this field may free the pool. `NewObject::drop()` frees the object before that.
    pool: P,
    place: u64,
}

impl<P: Keeper> NewObject<P> {
    /// Allocates an object in a pool, and copies the bytes into it. Does not sleep or enter direct
    /// reclaim. Returns `EINVAL` if there are no bytes or the name is not valid, `ENOSPC` if there
    /// are more bytes than a page, `ENOMEM`, or `EOVERFLOW` if the place of the object does not
    /// fit in a word.
    #[inline]
    pub(crate) fn store(pool: P, bytes: Bytes<'_>, node: Node, name: ObjectName) -> Result<Self> {
        // SAFETY: The pool exists, by the invariants of `ZsPool`. C only reads the bytes, which
        // are readable, by the invariants of `Bytes`. It does not matter if user space changes the
        // bytes meanwhile, because C may copy any values.
        let place = unsafe {
            bindings::zs_owned_store(
                pool.zs().as_ptr(),
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
        Ok(Self {
            pool,
            place: place as u64,
        })
    }

    /// Returns the place of the object.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// Unpins the object, so that zsmalloc may move it.
    ///
    /// # Safety
    ///
    /// The object is in the word that `find_word` returns for its name, and is not freed before
    /// this function returns. The word then owns the object, and the reference to the pool that
    /// `self` had.
    #[inline]
    pub(crate) unsafe fn unpin(self) {
        // INVARIANT: The pin passes to the new value. As required of the caller, the object is in
        // its word, and is not freed meanwhile.
        drop(ReadPin {
            place: ManuallyDrop::new(self).place,
            _object: PhantomData,
        });
    }
}

impl<P: Keeper> Drop for NewObject<P> {
    #[inline]
    fn drop(&mut self) {
        let (zs, mut emptied) = (self.pool.zs(), Emptied::NONE);
        // SAFETY: The value owns the object, which is pinned, by the invariants. A zspage that
        // becomes empty is of this pool.
        unsafe {
            bindings::zs_owned_free_pinned(
                zs.as_ptr(),
                self.place,
                core::ptr::null_mut(),
                0,
                &mut emptied.0,
            );
            zs.give_back(&mut emptied);
        }
    }
}
