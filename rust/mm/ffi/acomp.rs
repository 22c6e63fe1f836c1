// SPDX-License-Identifier: GPL-2.0

//! Compression contexts, one for each CPU.
//!
//! A context is used by whoever holds its mutex ([`Locked`]), on whatever CPU: the CPU at the time
//! of locking only chooses one that is likely free.
//!
//! # CPU hotplug
//!
//! The context of a CPU is made when the CPU is first prepared, before it comes online, and stays
//! until all go. So there is one for every CPU that was ever online, and a task that goes on
//! elsewhere, or whose CPU goes, keeps the context that it locked.
//!
//! C headers: [`include/crypto/acompress.h`](srctree/include/crypto/acompress.h),
//! [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

use super::{
    folio::{
        Bytes,
        SwapPage, //
    },
    zsmalloc::Parts, //
};
use crate::warn::warn_on_once;
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
    cpu::nr_cpu_ids,
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*,
    types::NotThreadSafe, //
};

// Lengths go to C as `unsigned int`.
const PAGE_LEN: u32 = PAGE_SIZE as u32;

/// Whether there is a compressor of that name. May sleep, and load modules.
pub(crate) fn exists(name: &CStr) -> bool {
    // SAFETY: `name` is a string.
    unsafe { bindings::zswap_has_acomp(name.as_char_ptr()) }
}

/// A compressor's transform.
struct Transform(NonNull<bindings::crypto_acomp>);

impl Transform {
    fn new(name: &CStr, node: c_int) -> Result<Self> {
        // SAFETY: `name` is a string.
        let acomp = unsafe { bindings::crypto_alloc_acomp_node(name.as_char_ptr(), 0, 0, node) };
        let acomp = from_err_ptr(acomp).inspect_err(|error| {
            pr_err!("could not alloc crypto acomp {name} : {error:?}\n");
        })?;
        NonNull::new(acomp).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for Transform {
    fn drop(&mut self) {
        // SAFETY: Made by `crypto_alloc_acomp_node()`, and ours.
        unsafe { bindings::zswap_free_acomp(self.0.as_ptr()) };
    }
}

/// A request.
struct Request(NonNull<bindings::acomp_req>);

impl Request {
    fn new(transform: &Transform) -> Result<Self> {
        // SAFETY: The transform exists.
        let req = unsafe { bindings::zswap_acomp_request_alloc(transform.0.as_ptr()) };
        NonNull::new(req).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: Made by `acomp_request_alloc()`, and ours.
        unsafe { bindings::zswap_acomp_request_free(self.0.as_ptr()) };
    }
}

c_functions! {
    fn buffer_alloc(node: c_int) -> *mut c_void = zswap_buffer_alloc;
    fn percpu_alloc() -> *mut bindings::zswap_acomp_ctx = zswap_acomp_alloc_percpu;
}

/// A page of memory for the compressor's output.
struct Buffer(NonNull<u8>);

impl Buffer {
    fn new(node: c_int) -> Result<Self> {
        NonNull::new(buffer_alloc(node).cast())
            .map(Self)
            .ok_or(ENOMEM)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: Made by `kmalloc()`, and ours.
        unsafe { bindings::kfree(self.0.as_ptr().cast()) };
    }
}

/// The contexts of a compressor.
///
/// # Invariants
///
/// The pointer is to per-CPU memory of ours. Each context is all zeros, or complete, and becomes
/// complete before its CPU is online.
pub(crate) struct Contexts(NonNull<bindings::zswap_acomp_ctx>);

// SAFETY: All but the mutex and the callback data of a context is under its mutex.
unsafe impl Send for Contexts {}
// SAFETY: All but the mutex and the callback data of a context is under its mutex.
unsafe impl Sync for Contexts {}

impl Contexts {
    /// No contexts, and the place for them. May sleep.
    pub(crate) fn new() -> Result<Self> {
        // INVARIANT: It is zeroed.
        NonNull::new(percpu_alloc()).map(Self).ok_or(ENOMEM)
    }

    /// Makes the context of a CPU, if it has none. May sleep.
    ///
    /// # Safety
    ///
    /// The CPU is not online or the caller excludes CPU hotplug, and nobody has locked a context of
    /// this CPU yet if it has none: this is the prepare callback.
    pub(super) unsafe fn prepare(&self, cpu: c_uint, name: &CStr) -> Result {
        // SAFETY: The pointer is to per-CPU memory; `cpu` is possible, as it is being prepared.
        // Nobody writes the context but we.
        let (ctx, node, is_complete) = unsafe {
            let ctx = bindings::zswap_acomp_of_cpu(self.0.as_ptr(), cpu);
            (
                ctx,
                bindings::zswap_cpu_to_node(cpu),
                !(*ctx).acomp.is_null(),
            )
        };
        if is_complete {
            // It was online before.
            return Ok(());
        }
        let buffer = Buffer::new(node)?;
        let acomp = Transform::new(name, node)?;
        let request = Request::new(&acomp)?;
        // From here on it cannot fail, and the context owns the three.
        // SAFETY: Nobody uses the context before this CPU, which is not online, or before the pool
        // that we are part of is used.
        // INVARIANT: It is complete.
        unsafe {
            (*ctx).buffer = ManuallyDrop::new(buffer).0.as_ptr();
            (*ctx).req = ManuallyDrop::new(request).0.as_ptr();
            (*ctx).acomp = ManuallyDrop::new(acomp).0.as_ptr();
            bindings::zswap_shim_acomp_init(ctx);
        }
        Ok(())
    }

    /// Locks a context: the one of this CPU. Sleeps while somebody else uses it.
    #[inline]
    pub(crate) fn lock(&self) -> Result<Locked<'_>> {
        // SAFETY: The pointer is to per-CPU memory. The task may go to another CPU right away. What
        // is looked at was written before this CPU came online.
        let (ctx, missing) = unsafe {
            let ctx = bindings::zswap_acomp_this_cpu(self.0.as_ptr());
            (ctx, (*ctx).acomp.is_null())
        };
        if warn_on_once!(missing) {
            return Err(EINVAL);
        }
        // SAFETY: The context is complete, so its mutex is initialized.
        unsafe { bindings::mutex_lock(&raw mut (*ctx).mutex) };
        // INVARIANT: Locked.
        Ok(Locked {
            // SAFETY: Per-CPU memory is not at NULL.
            ctx: unsafe { NonNull::new_unchecked(ctx) },
            _contexts: PhantomData,
            _task: NotThreadSafe,
        })
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        for cpu in 0..nr_cpu_ids() {
            // SAFETY: NULL, or the context of a possible CPU. Nobody uses it: they borrow from
            // `self`. CPUs that are prepared from now on do not come here: the owner took itself
            // off that list.
            let ctx = unsafe { bindings::zswap_acomp_of_cpu(self.0.as_ptr(), cpu).as_ref() };
            let Some(ctx) = ctx else {
                continue;
            };
            // A request must go before its transform.
            drop(NonNull::new(ctx.req).map(Request));
            drop(NonNull::new(ctx.acomp).map(Transform));
            drop(NonNull::new(ctx.buffer).map(Buffer));
        }
        // SAFETY: The memory is ours, and what it owned is gone.
        unsafe { bindings::zswap_acomp_free_percpu(self.0.as_ptr()) };
    }
}

/// A context that is ours until the value is dropped.
///
/// # Invariants
///
/// `ctx` is complete, and we have its mutex.
pub(crate) struct Locked<'a> {
    ctx: NonNull<bindings::zswap_acomp_ctx>,
    _contexts: PhantomData<&'a Contexts>,
    // A mutex is unlocked by the task that locked it.
    _task: NotThreadSafe,
}

impl Locked<'_> {
    /// Runs a request from `src` to `dst`; returns what C says, and the length that came out.
    ///
    /// # Safety
    ///
    /// `src` and `dst` are lists that describe at least as much memory as the lengths say, to read
    /// and to write.
    #[inline]
    unsafe fn run(
        &mut self,
        op: unsafe extern "C" fn(*mut bindings::acomp_req) -> c_int,
        src: (*mut bindings::scatterlist, u32),
        dst: (*mut bindings::scatterlist, u32),
    ) -> (c_int, u32) {
        let ctx = self.ctx.as_ptr();
        // SAFETY: The context is complete and ours, by the invariants, and the lists are as
        // required of the caller. The request is over when this returns: if the driver works on
        // its own, `crypto_wait_req()` waits for it.
        unsafe {
            let req = (*ctx).req;
            bindings::zswap_acomp_set_params(req, src.0, dst.0, src.1, dst.1);
            let ret = bindings::zswap_crypto_wait_req(op(req), &raw mut (*ctx).wait);
            (ret, (*req).dlen)
        }
    }

    /// Compresses a page. Returns the length that the compressor says, or its error; the bytes are
    /// in [`Self::output`], as far as they fit.
    #[inline]
    pub(crate) fn compress(&mut self, page: &SwapPage<'_>) -> Result<usize, c_int> {
        let mut input = MaybeUninit::<bindings::scatterlist>::uninit();
        let mut output = MaybeUninit::<bindings::scatterlist>::uninit();
        // SAFETY: `input` is initialized to the page, which stays, and `output` to the buffer,
        // which is ours and has the length of a page.
        let (ret, len) = unsafe {
            bindings::zswap_sg_one_page(input.as_mut_ptr(), page.as_ptr());
            bindings::sg_init_one(
                output.as_mut_ptr(),
                self.ctx.as_ref().buffer.cast(),
                PAGE_LEN,
            );
            self.run(
                bindings::crypto_acomp_compress,
                (input.as_mut_ptr(), PAGE_LEN),
                (output.as_mut_ptr(), PAGE_LEN),
            )
        };
        if ret == 0 {
            Ok(len as usize)
        } else {
            Err(ret)
        }
    }

    /// The first bytes of what was compressed, at most a page.
    #[inline]
    pub(crate) fn output(&self, len: usize) -> Bytes<'_> {
        // SAFETY: The buffer is a page long, and nobody else's while we have the mutex.
        unsafe { Bytes::new(self.ctx.as_ref().buffer, len.min(PAGE_SIZE)) }
    }

    /// Decompresses an object of `len` bytes to the first page of a folio. Returns what the
    /// compressor says, and the length that came out.
    #[inline]
    pub(crate) fn decompress(
        &mut self,
        object: &mut Parts,
        len: u32,
        page: &SwapPage<'_>,
    ) -> (c_int, u32) {
        let mut output = MaybeUninit::<bindings::scatterlist>::uninit();
        // SAFETY: `object` describes `len` bytes, and `output` is initialized to the page, which
        // stays, and which nobody reads before it is uptodate.
        unsafe {
            bindings::zswap_sg_one_page(output.as_mut_ptr(), page.as_ptr());
            self.run(
                bindings::crypto_acomp_decompress,
                (object.as_sg(), len),
                (output.as_mut_ptr(), PAGE_LEN),
            )
        }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: We have the mutex, by the invariants.
        unsafe { bindings::mutex_unlock(&raw mut (*self.ctx.as_ptr()).mutex) };
    }
}

/// Copies an object that is a plain page to a page.
#[inline]
pub(crate) fn copy_plain(object: &mut Parts, page: &SwapPage<'_>) {
    // A plain page has a page of its own in zsmalloc, as it fits no smaller class.
    warn_on_once!(object.first_len() != PAGE_SIZE);
    page.with_bytes(|bytes| {
        // SAFETY: `object` describes a page, and the page's bytes are mapped; nobody reads them
        // before it is uptodate.
        unsafe {
            bindings::memcpy_from_sglist(
                bytes.as_ptr().cast_mut().cast(),
                object.as_sg(),
                0,
                PAGE_SIZE as c_uint,
            )
        }
    });
    // SAFETY: The folio stays.
    unsafe { bindings::zswap_flush_dcache_folio(page.folio_ptr()) };
}
