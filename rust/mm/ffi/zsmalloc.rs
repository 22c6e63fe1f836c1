// SPDX-License-Identifier: GPL-2.0

//! The allocator of compressed pages.
//!
//! An allocation is a value: it is freed when it is dropped, once. To keep it in a place of eight
//! bytes it is turned into a [`Handle`], which only the pool that it came from can turn back.
//!
//! C header: [`include/linux/zsmalloc.h`](srctree/include/linux/zsmalloc.h).

use super::folio::Bytes;
use core::{
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*, //
};

/// A pool of objects.
///
/// # Invariants
///
/// The pointer is to a pool that exists as long as the value.
pub(crate) struct ZsPool(NonNull<bindings::zs_pool>);

// SAFETY: zsmalloc locks for itself.
unsafe impl Send for ZsPool {}
// SAFETY: zsmalloc locks for itself.
unsafe impl Sync for ZsPool {}

impl ZsPool {
    /// A new, empty pool. May sleep.
    pub(crate) fn create(name: &CStr) -> Result<Self> {
        // SAFETY: `name` is a string; C copies it.
        let pool = unsafe { bindings::zs_create_pool(name.as_char_ptr()) };
        // INVARIANT: It was just made.
        NonNull::new(pool).map(Self).ok_or(ENOMEM)
    }

    /// The pages that the pool takes.
    #[inline]
    pub(crate) fn total_pages(&self) -> usize {
        // SAFETY: The pool exists, by the invariants.
        unsafe { bindings::zs_get_total_pages(self.0.as_ptr()) }
    }

    /// Stores a copy of the bytes. Does not sleep, and asks for no more than is at hand.
    #[inline]
    pub(crate) fn store(&self, bytes: Bytes<'_>, nid: c_int) -> Result<Object<'_>> {
        // SAFETY: The pool exists, by the invariants.
        let handle = unsafe {
            bindings::zs_malloc(
                self.0.as_ptr(),
                bytes.len(),
                bindings::ZSWAP_GFP_OBJECT,
                nid,
            )
        };
        // C encodes errors as in pointers.
        from_err_ptr(handle as *mut c_void)?;
        // INVARIANT: The allocation is this pool's, and nobody else knows of it.
        let object = Object {
            pool: self,
            handle: Handle(handle),
        };
        // SAFETY: The object was allocated with the length that is written, and it is ours.
        // `zs_obj_write()` reads from the bytes, which are readable; that they may change while it
        // copies matters to nobody.
        unsafe {
            bindings::zs_obj_write(
                self.0.as_ptr(),
                handle,
                bytes.as_ptr().cast_mut().cast(),
                bytes.len(),
            )
        };
        Ok(object)
    }

    /// Takes an object back.
    ///
    /// # Safety
    ///
    /// `handle` is the result of [`Object::into_handle`] of an object of this very pool.
    #[inline]
    pub(super) unsafe fn adopt(&self, handle: Handle) -> Object<'_> {
        // INVARIANT: It is this pool's as required of the caller, and a `Handle` exists once.
        Object { pool: self, handle }
    }

    /// Gives the memory of an object to `f`, as a list of one or two parts.
    ///
    /// # Safety
    ///
    /// `handle` is the result of [`Object::into_handle`] of an object of this very pool.
    #[inline]
    pub(super) unsafe fn read<R>(
        &self,
        handle: &Handle,
        len: usize,
        f: impl FnOnce(&mut Parts) -> R,
    ) -> R {
        let mut parts = MaybeUninit::<Parts>::uninit();
        // SAFETY: The object exists, as the handle does and is this pool's. C fills one entry or
        // two of the list, as many as the object has parts, and marks the last. The end is below,
        // on all ways out of `f`, as a panic does not unwind.
        unsafe {
            bindings::zs_obj_read_sg_begin(
                self.0.as_ptr(),
                handle.0,
                parts.as_mut_ptr().cast(),
                len,
            )
        };
        // SAFETY: `Parts` has no invariant for the second entry: it is `MaybeUninit`, and the first
        // was filled.
        let ret = f(unsafe { parts.assume_init_mut() });
        // SAFETY: Begun above.
        unsafe { bindings::zs_obj_read_sg_end(self.0.as_ptr(), handle.0) };
        ret
    }
}

impl Drop for ZsPool {
    fn drop(&mut self) {
        // SAFETY: The pool exists, by the invariants. All objects are gone: they borrow the pool,
        // or who holds their handles (a counted reference to its owner) keeps it.
        unsafe { bindings::zs_destroy_pool(self.0.as_ptr()) };
    }
}

/// The memory of an object.
#[repr(C)]
pub(crate) struct Parts {
    first: bindings::scatterlist,
    // Only there if the first is not marked as the last.
    second: MaybeUninit<bindings::scatterlist>,
}

impl Parts {
    #[inline]
    pub(super) fn as_sg(&mut self) -> *mut bindings::scatterlist {
        // The whole, not only `first`: C steps on to the second.
        core::ptr::from_mut(self).cast()
    }

    /// The length of the first part.
    #[inline]
    pub(super) fn first_len(&self) -> usize {
        self.first.length as usize
    }
}

/// The name of an allocation, without its pool.
///
/// It exists once, and to let it go is a leak: it cannot know what to free it from.
#[must_use]
#[cfg_attr(CONFIG_RUST_ZSWAP_KUNIT_TEST, derive(PartialEq))]
#[repr(transparent)]
pub(crate) struct Handle(usize);

impl Handle {
    /// The handle at a place that [`Object::place`] returned.
    ///
    /// # Safety
    ///
    /// The allocation exists, and there is no other handle of it that is used.
    #[inline]
    pub(super) unsafe fn at(place: u64) -> Self {
        // SAFETY: Computes a number from a number.
        Self(unsafe { bindings::zswap_handle_at(place) })
    }
}

/// An allocation.
///
/// # Invariants
///
/// `handle` is of an allocation of `pool`, and of nobody else.
pub(crate) struct Object<'p> {
    pool: &'p ZsPool,
    handle: Handle,
}

impl Object<'_> {
    /// The physical address of its handle, which a word is to name.
    #[inline]
    pub(super) fn place(&self) -> u64 {
        // SAFETY: Computes a number from a number.
        unsafe { bindings::zswap_handle_place(self.handle.0) }
    }

    /// Transfers the allocation out of reach of `drop`.
    #[inline]
    pub(crate) fn into_handle(self) -> Handle {
        Handle(ManuallyDrop::new(self).handle.0)
    }
}

impl Drop for Object<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { bindings::zs_free(self.pool.0.as_ptr(), self.handle.0) };
    }
}
