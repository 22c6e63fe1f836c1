// SPDX-License-Identifier: GPL-2.0

//! Compression contexts. A context has what a task needs to compress and decompress pages: a
//! transform, a request with its completion, and an output buffer. Each pool has one context for
//! each CPU that is or was online while the pool exists.
//!
//! A task uses a context while it holds the mutex of the context ([`LockedContext`]). The task
//! locks the context of the CPU that it runs on, because that context is likely unlocked. The task
//! may then move to another CPU.
//!
//! # CPU hotplug
//!
//! The context of a CPU is created together with the pool, or by the hotplug callback before the
//! CPU comes online. It is freed together with the pool, not when the CPU goes offline. A task
//! that moves to another CPU, or whose CPU goes offline, continues to use the context that it has
//! locked.
//!
//! C header: [`include/crypto/acompress.h`](srctree/include/crypto/acompress.h).

use crate::{
    ffi::{
        folio::{
            Bytes,
            EmptyPage,
            FilledPage,
            SwapPage, //
        },
        zsmalloc::Parts, //
    },
    warn::warn_on_once, //
};
use core::{
    alloc::Layout,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    alloc::{
        allocator::Kmalloc,
        Allocator,
        KVVec,
        NumaNode, //
    },
    bindings,
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    error::{
        from_err_ptr,
        to_result, //
    },
    page::PAGE_SIZE,
    prelude::*,
    str::CString,
    sync::{
        new_mutex,
        Mutex,
        MutexGuard,
        SetOnce, //
    },
    types::Opaque, //
};

// The crypto API takes lengths as `unsigned int`.
const PAGE_LEN: u32 = PAGE_SIZE as u32;

c_functions! {
    /// Returns true if there is a compressor with this name. May sleep, and may load a module.
    pub(crate) safe fn exists(name: &CStr) -> bool = zswap_has_acomp;
    /// Returns the NUMA node of a CPU, or a negative number if the CPU is not possible.
    safe fn cpu_to_node(cpu: CpuId) -> c_int = zswap_cpu_to_node;
    /// Allocates a transform on the NUMA node of a CPU. Returns an `ERR_PTR` on failure. May
    /// sleep.
    safe fn alloc_acomp(name: &CStr, cpu: CpuId) -> *mut bindings::crypto_acomp = zswap_alloc_acomp;
    safe fn alloc_request(transform: &Transform) -> Option<Request> = zswap_acomp_request_alloc;
}

/// A compressor's transform: C's `struct crypto_acomp`.
///
/// # Invariants
///
/// The value owns the transform.
struct Transform(NonNull<bindings::crypto_acomp>);

impl Transform {
    fn new(name: &CStr, cpu: CpuId) -> Result<Self> {
        let acomp = from_err_ptr(alloc_acomp(name, cpu)).inspect_err(|error| {
            pr_err!("could not alloc crypto acomp {name} : {error:?}\n");
        })?;
        // INVARIANT: C has allocated the transform for this value alone.
        NonNull::new(acomp).map(Self).ok_or(ENOMEM)
    }
}

to_c!(&Transform => *mut bindings::crypto_acomp = |this| this.0.as_ptr());

/// A request to a transform: C's `struct acomp_req`.
///
/// # Invariants
///
/// The value owns the request.
struct Request(NonNull<bindings::acomp_req>);

c_owned! {
    // C requires that a request is freed before its transform. `ContextState` drops its fields in
    // order, so the request first. If `Context::new()` fails, locals are dropped in reverse, so the
    // request is dropped first there, too.
    fn drop(Transform: bindings::crypto_acomp) = zswap_free_acomp;
    fn drop(Request: bindings::acomp_req) = zswap_acomp_request_free;
}

/// Allocates memory for a `T`, from a NUMA node if that has free memory. Returns `ENOMEM` if there
/// is no memory. May sleep.
fn alloc_on<T>(node: NumaNode) -> Result<KBox<MaybeUninit<T>>> {
    let memory = Kmalloc::alloc(Layout::new::<T>(), GFP_KERNEL, node)?;
    // SAFETY: `Kmalloc`, the allocator of `KBox`, has just allocated the memory with the size and
    // alignment of a `T`. Any bytes are a valid `MaybeUninit<T>`. The box takes over the memory.
    Ok(unsafe { KBox::from_raw(memory.as_ptr().cast()) })
}

/// The part of a context that its mutex protects.
///
/// # Invariants
///
/// The request is for the transform. Its completion is `done` of the context that has this state.
struct ContextState {
    // Declared first, so that it is dropped before its transform.
    request: Request,
    _transform: Transform,
    /// The compressor's output.
    output: KBox<[u8; PAGE_SIZE]>,
}

/// The compression context of a CPU in a pool.
#[pin_data]
struct Context {
    // The completion of the request. Only the task that holds the mutex of `state` uses it, and
    // the callback of the request that this task has started.
    #[pin]
    done: Opaque<bindings::crypto_wait>,
    #[pin]
    state: Mutex<ContextState>,
}

impl Context {
    /// Creates the context of a CPU. Returns `ENOMEM`, or the error of the allocation of the
    /// transform. May sleep.
    fn new(cpu: CpuId, name: &CStr) -> Result<Pin<KBox<Self>>> {
        let node = NumaNode::new(cpu_to_node(cpu)).unwrap_or(NumaNode::NO_NODE);
        let output = alloc_on::<[u8; PAGE_SIZE]>(node)?.write_init(pin_init::init_zeroed())?;
        let transform = Transform::new(name, cpu)?;
        let request = alloc_request(&transform).ok_or(ENOMEM)?;
        let req = request.0.as_ptr();
        alloc_on::<Self>(node)?.write_pin_init(try_pin_init!(Self {
            // SAFETY: `req` is valid, because `request` owns it. C stores a pointer to the
            // completion in it. The completion is pinned, and the request does not run when the
            // context is dropped, because `IdleRequest::run()` waits for its end.
            done <- Opaque::ffi_init(|done| unsafe { bindings::zswap_acomp_init_wait(req, done) }),
            // INVARIANT: The request was just made for the transform, and uses `done`.
            state <- new_mutex!(ContextState {
                request,
                _transform: transform,
                output,
            }),
        }))
    }
}

/// The compression contexts of a zswap pool, and the name of their compressor.
pub(crate) struct Contexts {
    /// Indexed by CPU.
    contexts: KVVec<SetOnce<Pin<KBox<Context>>>>,
    /// The name of the compressor of all contexts.
    compressor: CString,
}

impl Contexts {
    /// Allocates the array, with room for the context of each possible CPU. May sleep.
    pub(crate) fn new(compressor: &CStr) -> Result<Self> {
        let nr = nr_cpu_ids();
        let mut contexts = KVVec::with_capacity(nr as usize, GFP_KERNEL)?;
        for _ in 0..nr {
            contexts.push(SetOnce::new(), GFP_KERNEL)?;
        }
        Ok(Self {
            contexts,
            compressor: CString::try_from(compressor)?,
        })
    }

    /// Returns the name of the compressor.
    pub(crate) fn compressor(&self) -> &CStr {
        &self.compressor
    }

    /// Creates the context of a CPU, unless it exists already. Returns `EINVAL` if the number of
    /// the CPU is too large, or the error of [`Context::new`]. May sleep.
    pub(crate) fn prepare(&self, cpu: CpuId) -> Result {
        let place = self.contexts.get(cpu.as_u32() as usize).ok_or(EINVAL)?;
        if place.as_ref().is_none() {
            place.populate(Context::new(cpu, &self.compressor)?);
        }
        Ok(())
    }

    /// Locks the context of this CPU. Sleeps while another task uses the context. Warns and
    /// returns `EINVAL` if the CPU has no context.
    #[inline]
    pub(crate) fn lock(&self) -> Result<LockedContext<'_>> {
        // The task may migrate to another CPU at any time. That is fine, because a task on any CPU
        // may use the context while it holds the mutex.
        let place = self.contexts.get(CpuId::current().as_u32() as usize);
        let Some(context) = place.and_then(SetOnce::as_ref) else {
            warn_on_once!(true);
            return Err(EINVAL);
        };
        let context = context.as_ref().get_ref();
        // INVARIANT: `state` and `done` belong to the same context.
        Ok(LockedContext {
            state: context.state.lock(),
            done: &context.done,
        })
    }
}

/// The buffer of a context.
///
/// # Invariants
///
/// The buffer was allocated with `kmalloc()`, so `sg_set_buf()` can find its page.
struct Buffer<'a>(&'a mut [u8; PAGE_SIZE]);

to_c!(Buffer<'_> => *mut c_void = |this| this.0.as_mut_ptr().cast());
to_c!(&SwapPage<'_> => *mut bindings::page = |this| this.as_ptr());
to_c!(&EmptyPage<'_> => *mut bindings::page = |this| this.as_ptr());

/// A scatterlist of one entry. It is uninitialized until a `describe` method fills it.
struct ScatterList(Opaque<bindings::scatterlist>);

impl ScatterList {
    #[inline]
    fn new() -> Self {
        Self(Opaque::uninit())
    }

    #[inline]
    fn as_ptr(&self) -> *mut bindings::scatterlist {
        self.0.get()
    }

    c_methods! {
        // C fills the entry of the list. It does not access the bytes of the page or the buffer.
        safe fn describe(&self, page: &SwapPage<'_>) = zswap_sg_one_page;
        safe fn describe_empty(&self, page: &EmptyPage<'_>) = zswap_sg_one_page;
        safe fn describe_buffer(&self, buffer: Buffer<'_>, len: u32) = zswap_sg_one_buf;
    }
}

/// Memory that a request reads.
///
/// # Invariants
///
/// `list` describes `len` bytes, which are readable during `'m`.
struct AcompSrc<'m> {
    list: *mut bindings::scatterlist,
    len: u32,
    _memory: PhantomData<&'m ()>,
}

impl<'m> AcompSrc<'m> {
    #[inline]
    fn page(list: &'m mut ScatterList, page: &'m SwapPage<'_>) -> Self {
        list.describe(page);
        // INVARIANT: The list describes the page. The page is not freed during `'m`, because its
        // folio is locked.
        Self {
            list: list.as_ptr(),
            len: PAGE_LEN,
            _memory: PhantomData,
        }
    }

    #[inline]
    fn object(object: &'m mut Parts<'_>) -> Self {
        // INVARIANT: By the invariants of `Parts`, the list describes `len` bytes of the object.
        Self {
            list: object.as_sg(),
            len: object.len(),
            _memory: PhantomData,
        }
    }
}

/// A page of memory that a request writes.
///
/// # Invariants
///
/// `list` describes `PAGE_LEN` bytes. During `'m` they are writable, and nothing else uses them.
struct AcompDst<'m> {
    list: *mut bindings::scatterlist,
    _memory: PhantomData<&'m mut ()>,
}

impl<'m> AcompDst<'m> {
    #[inline]
    fn page(list: &'m mut ScatterList, page: &'m EmptyPage<'_>) -> Self {
        list.describe_empty(page);
        // INVARIANT: The list describes the page. No task uses its bytes, by the invariants of
        // `EmptyPage`.
        Self {
            list: list.as_ptr(),
            _memory: PhantomData,
        }
    }

    #[inline]
    fn buffer(list: &'m mut ScatterList, buffer: Buffer<'m>) -> Self {
        list.describe_buffer(buffer, PAGE_LEN);
        // INVARIANT: The list describes the buffer, which is as long as a page. The buffer is
        // borrowed mutably during `'m`.
        Self {
            list: list.as_ptr(),
            _memory: PhantomData,
        }
    }
}

/// What a request does.
#[derive(Clone, Copy)]
enum Operation {
    Compress,
    Decompress,
}

/// The request of a locked context, and the completion of the request. The request is not running.
///
/// # Invariants
///
/// The request uses the completion. No other task uses either of them during `'a`.
struct IdleRequest<'a> {
    request: &'a mut Request,
    done: &'a Opaque<bindings::crypto_wait>,
}

impl IdleRequest<'_> {
    /// Compresses or decompresses `src` to `dst`, and waits for the end. Returns the compressor's
    /// error, if any, and the length that the request reports. Only on success, that is the length
    /// of the output.
    #[inline]
    fn run(self, operation: Operation, src: AcompSrc<'_>, dst: AcompDst<'_>) -> (Result, u32) {
        let operation = match operation {
            Operation::Compress => bindings::crypto_acomp_compress,
            Operation::Decompress => bindings::crypto_acomp_decompress,
        };
        let (req, done) = (self.request.0.as_ptr(), self.done.get());
        // SAFETY: By the invariants of `IdleRequest`, `done` is the completion of the request, and
        // no other task uses either. By those of `AcompSrc` and `AcompDst`, the lists describe
        // memory of the given lengths. C returns after the request is complete, because it waits
        // for asynchronous drivers. So `dlen` can be read.
        let (ret, len) = unsafe {
            let ret = bindings::zswap_acomp_run(
                Some(operation),
                req,
                src.list,
                dst.list,
                src.len,
                PAGE_LEN,
                done,
            );
            (ret, (*req).dlen)
        };
        // Call `to_result()` only on error, because it is out of line, and each load and store
        // runs this.
        let result = if ret == 0 { Ok(()) } else { to_result(ret) };
        (result, len)
    }
}

/// A locked context. Dropping it unlocks the context.
///
/// # Invariants
///
/// `done` is the completion of the context whose `state` is locked.
#[must_use]
pub(crate) struct LockedContext<'a> {
    state: MutexGuard<'a, ContextState>,
    done: &'a Opaque<bindings::crypto_wait>,
}

impl LockedContext<'_> {
    /// Returns the request, and the buffer for the output of the compressor.
    #[inline]
    fn split(&mut self) -> (IdleRequest<'_>, Buffer<'_>) {
        let ContextState {
            request, output, ..
        } = &mut *self.state;
        // INVARIANT: By the invariants of `ContextState` and `LockedContext`, the completion of the
        // request is `done`. No other task uses either, because the mutex is held.
        let request = IdleRequest {
            request,
            done: self.done,
        };
        // INVARIANT: A `KBox` was allocated with `kmalloc()`.
        (request, Buffer(output))
    }

    /// Compresses a page. Returns the length of the output as the compressor reports it, or the
    /// compressor's error. [`Self::output`] returns the output.
    #[inline]
    pub(crate) fn compress(&mut self, page: &SwapPage<'_>) -> Result<usize> {
        let (mut input, mut output) = (ScatterList::new(), ScatterList::new());
        let (request, buffer) = self.split();
        let src = AcompSrc::page(&mut input, page);
        let dst = AcompDst::buffer(&mut output, buffer);
        let (result, len) = request.run(Operation::Compress, src, dst);
        result.map(|()| len as usize)
    }

    /// Returns the first `len` bytes of the output of the last compression, at most a page.
    #[inline]
    pub(crate) fn output(&self, len: usize) -> Bytes<'_> {
        let output = self.state.output.as_slice();
        Bytes::of(output.get(..len).unwrap_or(output))
    }

    /// Decompresses an object to a page. Returns the proof that the page is filled, or else the
    /// compressor's error, or `EIO` if the output is not as long as a page. Also returns the
    /// length of the output.
    #[inline]
    pub(crate) fn decompress<'p>(
        &mut self,
        mut object: Parts<'_>,
        page: &EmptyPage<'p>,
    ) -> (Result<FilledPage<'p>>, u32) {
        let mut output = ScatterList::new();
        let (request, _) = self.split();
        let src = AcompSrc::object(&mut object);
        let dst = AcompDst::page(&mut output, page);
        let (result, len) = request.run(Operation::Decompress, src, dst);
        let filled = match result {
            // SAFETY: The compressor has written `len` bytes, which is all of the page.
            Ok(()) if len == PAGE_LEN => Ok(unsafe { page.filled() }),
            Ok(()) => Err(EIO),
            Err(error) => Err(error),
        };
        (filled, len)
    }
}

/// Copies an uncompressed object to a page. Returns `EIO` if the object is not as long as a page.
#[inline]
pub(crate) fn copy_plain<'p>(
    mut object: Parts<'_>,
    page: &EmptyPage<'p>,
) -> Result<FilledPage<'p>> {
    if object.len() != PAGE_LEN {
        return Err(EIO);
    }
    // SAFETY: The object is as long as a page. `to` is a mapped page, whose bytes no task uses, by
    // the invariants of `EmptyPage`. C writes all of the page.
    Ok(unsafe {
        page.overwrite(|to| {
            bindings::memcpy_from_sglist(to.cast(), object.as_sg(), 0, PAGE_LEN);
        })
    })
}
