// SPDX-License-Identifier: GPL-2.0

//! Folios in the swap cache, and the right to what is stored for a swap slot.
//!
//! # Who may touch the entry of a slot
//!
//! What is stored for a slot is changed by one at a time:
//! - who holds the lock of the folio that the swap cache has for the slot: as long as it is there,
//!   the slot cannot be freed, nor can a second folio come in. [`SwapFolio`] stands for that.
//! - who frees the slot, when no folio is in the swap cache and nobody counts on it any more. That
//!   is under the cluster lock.
//!
//! [`Slot`] is the first of these as a value. The table asks for it, mutably to change. So what is
//! found cannot be kept longer than the right, and is not taken out while it is in use.
//!
//! C headers: [`include/linux/pagemap.h`](srctree/include/linux/pagemap.h),
//! [`include/linux/swapops.h`](srctree/include/linux/swapops.h), [`mm/swap.h`](srctree/mm/swap.h).

use super::params;
#[cfg(CONFIG_RUST_VSWAP)]
use crate::zswap::rules::Variety;
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*, //
};

c_functions! {
    fn swp_entry(ty: usize, offset: usize) -> bindings::swp_entry_t = zswap_swp_entry;
    fn swp_type(entry: bindings::swp_entry_t) -> c_uint = zswap_swp_type;
    fn swp_offset(entry: bindings::swp_entry_t) -> usize = zswap_swp_offset;
    #[cfg(CONFIG_RUST_VSWAP)]
    fn swp_is_virtual(entry: bindings::swp_entry_t) -> bool = zswap_swp_is_virtual;
}

/// A swap entry: the type of a device, or of virtual slots, and an offset in it.
///
/// A name and nothing else. It can be stale: only a [`Slot`] says that it is not.
// The value of a `swp_entry_t`. As such a structure it would go to functions by its address.
#[derive(Clone, Copy)]
pub(crate) struct SwapEntry(c_ulong);

impl SwapEntry {
    #[inline]
    pub(super) fn from_raw(entry: bindings::swp_entry_t) -> Self {
        Self(entry.val)
    }

    #[inline]
    pub(super) fn as_raw(self) -> bindings::swp_entry_t {
        bindings::swp_entry_t { val: self.0 }
    }

    /// The entry of a type and an offset.
    #[inline]
    pub(crate) fn new(ty: u8, offset: u64) -> Self {
        Self::from_raw(swp_entry(ty.into(), offset as usize))
    }

    /// The swap type.
    #[inline]
    pub(crate) fn ty(self) -> usize {
        swp_type(self.as_raw()) as usize
    }

    /// The offset in pages.
    #[inline]
    pub(crate) fn offset(self) -> usize {
        swp_offset(self.as_raw())
    }

    /// Whether it names a virtual slot.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn is_virtual(self) -> bool {
        swp_is_virtual(self.as_raw())
    }

    /// The entry of the same type with another offset.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(crate) fn at(self, offset: usize) -> Self {
        self.add(offset.wrapping_sub(self.offset()))
    }

    /// The entry `n` slots on.
    ///
    /// The offset takes the low bits of an entry, and a folio's slots are of one device.
    #[inline]
    pub(super) fn add(self, n: usize) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The entry `n` slots before.
    #[inline]
    pub(super) fn sub(self, n: usize) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}

/// The sole right to what is stored for a slot.
///
/// # Invariants
///
/// During `'a` nobody else stores or takes what is stored for the slot, nor looks it up to follow
/// it, and the device stays.
pub(crate) struct Slot<'a> {
    entry: SwapEntry,
    _right: PhantomData<&'a mut ()>,
}

impl Slot<'_> {
    /// The name of the slot.
    #[inline]
    pub(crate) fn entry(&self) -> SwapEntry {
        self.entry
    }
}

/// One page of a locked folio.
#[derive(Clone, Copy)]
pub(crate) struct SwapPage<'a> {
    page: NonNull<bindings::page>,
    folio: NonNull<bindings::folio>,
    _folio: PhantomData<&'a ()>,
}

impl SwapPage<'_> {
    /// The first page of a folio.
    ///
    /// # Safety
    ///
    /// The folio stays, and is locked, during the lifetime of the value.
    #[inline]
    pub(super) unsafe fn first_of(folio: NonNull<bindings::folio>) -> Self {
        Self {
            // It is where the folio is.
            page: folio.cast(),
            folio,
            _folio: PhantomData,
        }
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }

    pub(super) fn folio_ptr(&self) -> *mut bindings::folio {
        self.folio.as_ptr()
    }

    /// The NUMA node of its memory.
    #[inline]
    pub(crate) fn nid(&self) -> c_int {
        // SAFETY: The folio is locked, thus stays.
        unsafe { bindings::zswap_folio_nid(self.folio_ptr()) }
    }

    /// The cgroup that is charged for tables.
    #[inline]
    pub(super) fn owner(&self) -> Owner<'_> {
        // SAFETY: The folio is locked, during the lifetime of the value.
        unsafe { Owner::of(self.folio) }
    }

    /// The 64 bits that it repeats, if it does.
    #[inline]
    pub(crate) fn repeats(&self) -> Option<u64> {
        self.with_bytes(|bytes| bytes.repeats())
    }

    /// Fills it with 64 bits.
    pub(crate) fn fill(&self, value: u64) {
        self.with_bytes(|bytes| {
            // SAFETY: The page is mapped, and nobody reads it before it is uptodate.
            unsafe { bindings::zswap_fill(bytes.as_ptr().cast_mut().cast(), value, bytes.len()) }
        });
        // SAFETY: The folio stays.
        unsafe { bindings::zswap_flush_dcache_folio(self.folio_ptr()) };
    }

    /// Whether the cgroup of the page lets it be written to a device.
    #[inline]
    pub(crate) fn writeback_enabled(&self) -> bool {
        // SAFETY: The folio is locked, thus stays. C takes the RCU lock that its cgroup needs.
        unsafe { bindings::zswap_folio_writeback_enabled(self.folio.as_ptr()) }
    }

    /// How varied its content is.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn variety(&self) -> Variety {
        self.with_bytes(|bytes| Variety::of(bytes.sample(Variety::SAMPLE)))
    }

    /// Maps the page while `f` runs.
    ///
    /// Its bytes may change meanwhile: others can have it pinned.
    #[inline]
    pub(crate) fn with_bytes<R>(&self, f: impl FnOnce(Bytes<'_>) -> R) -> R {
        // SAFETY: The page is of a folio that stays. It is mapped until below.
        let (addr, bytes) = unsafe {
            let addr = bindings::kmap_local_page(self.page.as_ptr());
            (addr, Bytes::new(addr.cast(), PAGE_SIZE))
        };
        let ret = f(bytes);
        // SAFETY: Mapped above, the last by this context.
        unsafe { bindings::kunmap_local(addr) };
        ret
    }
}

/// Bytes in memory that can be read during `'a`, and that others may be changing.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    start: *const u8,
    len: usize,
    _memory: PhantomData<&'a ()>,
}

impl Bytes<'_> {
    /// # Safety
    ///
    /// `len` bytes at `start` are readable during the lifetime of the value.
    pub(super) unsafe fn new(start: *const u8, len: usize) -> Self {
        Self {
            start,
            len,
            _memory: PhantomData,
        }
    }

    /// The bytes of a slice.
    #[cfg(CONFIG_RUST_ZSWAP_KUNIT_TEST)]
    pub(super) fn of(bytes: &[u8]) -> Bytes<'_> {
        // SAFETY: They are readable as long as they are borrowed.
        unsafe { Bytes::new(bytes.as_ptr(), bytes.len()) }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// Some of the bytes, from all over them.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn sample(&self, nr: usize) -> impl Iterator<Item = u8> + '_ {
        // Not a power of two, as fields of structures would have it.
        let step = (self.len / nr.max(1)).saturating_sub(1).max(1);
        (0..nr.min(self.len / step)).map(move |n| {
            // SAFETY: Less than `len`. Others may be changing them: what is read is any byte.
            unsafe { self.start.add(n * step).read_volatile() }
        })
    }

    /// The 64 bits that they repeat from their beginning to their end, if they do.
    #[inline]
    fn repeats(&self) -> Option<u64> {
        const WORD: usize = size_of::<u64>();
        let nth = |n: usize| {
            // SAFETY: Less than `len`, and aligned, as pages are. Others may be changing them: what
            // is read is any word.
            unsafe { self.start.add(n * WORD).cast::<u64>().read_volatile() }
        };
        let nr = self.len / WORD;
        let last = nr.checked_sub(1)?;
        let first = nth(0);
        // Most pages end with something else than they begin with.
        (nth(last) == first && (1..last).all(|n| nth(n) == first)).then_some(first)
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// A folio that is locked and in the swap cache.
///
/// # Invariants
///
/// `folio` is locked and in the swap cache during `'a`, and the owner of the value has the lock.
pub(crate) struct SwapFolio<'a> {
    folio: NonNull<bindings::folio>,
    _lock: PhantomData<&'a mut ()>,
}

impl SwapFolio<'_> {
    /// # Safety
    ///
    /// The caller holds the lock of the folio, which is in the swap cache, and keeps it while the
    /// value lives. There is no second value for the folio meanwhile.
    #[inline]
    pub(super) unsafe fn from_raw(folio: NonNull<bindings::folio>) -> Self {
        // SAFETY: The folio stays, being locked. This only looks at it (under `CONFIG_DEBUG_VM`).
        unsafe { bindings::zswap_folio_check(folio.as_ptr()) };
        // INVARIANT: As required of the caller.
        Self {
            folio,
            _lock: PhantomData,
        }
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::folio {
        self.folio.as_ptr()
    }

    c_methods! {
        /// The number of its pages.
        pub(crate) fn nr_pages(&self) -> usize = zswap_folio_nr_pages;
        /// Its bytes are what was swapped out.
        pub(crate) fn mark_uptodate(&self) = zswap_folio_mark_uptodate;
        /// Whether it is large, and was brought in for a fault that has not mapped it: nobody's
        /// yet.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) fn is_unclaimed(&self) -> bool = vswap_folio_unclaimed;
        /// Whether its bytes are what was swapped out.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) fn is_uptodate(&self) -> bool = vswap_folio_uptodate;
        /// Counts that its pages were loaded.
        pub(crate) fn count_zswpin(&self) = zswap_folio_count_zswpin;
        /// Counts that its page is written back.
        pub(crate) fn count_zswpwb(&self) = zswap_folio_count_zswpwb;
        /// Counts it as a large folio that was swapped in.
        pub(crate) fn count_large_swpin(&self) = zswap_folio_count_large_swpin;
        /// It is the only copy. Returns whether that is new.
        pub(crate) fn mark_dirty(&self) -> bool = folio_mark_dirty;
    }

    /// The cgroup that is charged for its tables.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn owner(&self) -> Owner<'_> {
        // SAFETY: Locked, by the invariants, and borrowed as long.
        unsafe { Owner::of(self.folio) }
    }

    /// The right to the slot of its first page.
    #[inline]
    pub(crate) fn first_slot(&mut self) -> Slot<'_> {
        // SAFETY: A locked folio in the swap cache has its entry there.
        let entry = unsafe { bindings::zswap_folio_entry(self.as_ptr()) };
        // INVARIANT: By the invariants of this type, and `self` is borrowed as long.
        Slot {
            entry: SwapEntry::from_raw(entry),
            _right: PhantomData,
        }
    }

    /// The slot and the page with number `n`, if the folio is that large.
    #[inline]
    pub(crate) fn nth(&mut self, n: usize) -> Option<(Slot<'_>, SwapPage<'_>)> {
        if n >= self.nr_pages() {
            return None;
        }
        // SAFETY: There are more than `n` pages in it, see above.
        let page = NonNull::new(unsafe { bindings::zswap_folio_page(self.as_ptr(), n) })?;
        let folio = self.folio;
        // INVARIANT: A folio of n pages has n consecutive slots.
        let slot = Slot {
            entry: self.first_slot().entry.add(n),
            _right: PhantomData,
        };
        let page = SwapPage {
            page,
            folio,
            _folio: PhantomData,
        };
        Some((slot, page))
    }

    /// The slot and the page of a folio that is not large.
    #[inline]
    pub(crate) fn only(&mut self) -> Option<(Slot<'_>, SwapPage<'_>)> {
        if self.nr_pages() != 1 {
            return None;
        }
        // SAFETY: The folio is locked as long as `self` is there, which is borrowed.
        let page = unsafe { SwapPage::first_of(self.folio) };
        Some((self.first_slot(), page))
    }
}

/// The cgroup that is charged for tables: that of a locked folio.
///
/// # Invariants
///
/// The folio, if there is one, is locked during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    folio: Option<NonNull<bindings::folio>>,
    _lock: PhantomData<&'a ()>,
}

impl Owner<'_> {
    /// No cgroup is charged: for tests, which have no folio.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) const NONE: Self = Self {
        folio: None,
        _lock: PhantomData,
    };

    /// # Safety
    ///
    /// The caller holds the lock of the folio while the value lives.
    #[inline]
    pub(super) unsafe fn of(folio: NonNull<bindings::folio>) -> Self {
        // INVARIANT: As required of the caller.
        Self {
            folio: Some(folio),
            _lock: PhantomData,
        }
    }

    /// Runs `f`, and charges what this task allocates in it with `__GFP_ACCOUNT` to the cgroup.
    pub(crate) fn charged<R>(self, f: impl FnOnce() -> R) -> R {
        // SAFETY: The folio is locked, by the invariants, so it stays. C returns a reference, or
        // NULL, which is kept until the old value is set again.
        let (memcg, old) = unsafe {
            let memcg = match self.folio {
                Some(folio) => bindings::zswap_folio_memcg_get(folio.as_ptr()),
                None => core::ptr::null_mut(),
            };
            (memcg, bindings::zswap_set_active_memcg(memcg))
        };
        let ret = f();
        // SAFETY: What was active when we were called is kept by our caller. The other is NULL, or
        // the reference from above.
        unsafe {
            bindings::zswap_set_active_memcg(old);
            bindings::zswap_memcg_put(memcg);
        }
        ret
    }
}

/// A reference to a folio.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) struct FolioRef(NonNull<bindings::folio>);

#[cfg(CONFIG_RUST_VSWAP)]
impl FolioRef {
    /// # Safety
    ///
    /// The reference is the caller's, who hands it over.
    pub(super) unsafe fn from_raw(folio: NonNull<bindings::folio>) -> Self {
        Self(folio)
    }

    /// Returns true if `folio` is the same.
    #[inline]
    pub(super) fn is(&self, folio: *mut bindings::folio) -> bool {
        self.0.as_ptr() == folio
    }

    /// Hands the reference over.
    pub(super) fn into_raw(self) -> *mut bindings::folio {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// Locks the folio, when it is not being written: if it is in the swap cache then, with virtual
    /// slots. Sleeps.
    pub(crate) fn lock_cached(&self) -> Option<ReadFolio<'_>> {
        // SAFETY: The folio stays, by the reference. No lock is held.
        if !unsafe { bindings::vswap_folio_lock_cached(self.0.as_ptr()) } {
            return None;
        }
        // SAFETY: Just locked, and in the swap cache.
        Some(unsafe { ReadFolio::from_raw(self.0) })
    }
}

#[cfg(CONFIG_RUST_VSWAP)]
impl PartialEq for FolioRef {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

#[cfg(CONFIG_RUST_VSWAP)]
impl Drop for FolioRef {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::zswap_folio_put(self.0.as_ptr()) };
    }
}

/// A [`SwapFolio`] whose lock is to be released: dropping does.
pub(crate) struct ReadFolio<'a>(SwapFolio<'a>);

impl<'a> ReadFolio<'a> {
    /// # Safety
    ///
    /// As of [`SwapFolio::from_raw`], and the lock is handed over.
    #[inline]
    pub(super) unsafe fn from_raw(folio: NonNull<bindings::folio>) -> Self {
        // SAFETY: As required of the caller.
        Self(unsafe { SwapFolio::from_raw(folio) })
    }

    /// Leaves the folio locked.
    #[inline]
    pub(crate) fn keep_locked(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// Takes the folio out of the swap cache if nobody counts on its slots, which are freed.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn free_swap(self) -> Result<(), Self> {
        // SAFETY: The folio is locked, by us, and in the swap cache.
        if !unsafe { bindings::folio_free_swap(self.0.as_ptr()) } {
            return Err(self);
        }
        // It is unlocked by the drop, which asks for no more than that.
        Ok(())
    }

    /// Takes a folio that could not be read out of the swap cache.
    pub(crate) fn forget(self) {
        // SAFETY: The folio is locked, by us, in the swap cache, and was never dirty.
        unsafe { bindings::swap_cache_del_folio(self.0.as_ptr()) };
    }
}

impl<'a> core::ops::Deref for ReadFolio<'a> {
    type Target = SwapFolio<'a>;

    #[inline]
    fn deref(&self) -> &SwapFolio<'a> {
        &self.0
    }
}

impl core::ops::DerefMut for ReadFolio<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for ReadFolio<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: We have the lock, and nothing uses the folio through this value any more.
        unsafe { bindings::folio_unlock(self.0.as_ptr()) };
    }
}

/// Whether memory may be waited for.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    Yes,
    No,
}

/// Folios that are being written, as few requests for many of them: dropping submits the last.
pub(crate) struct Writes {
    ctx: bindings::swap_io_ctx,
    requests: u32,
}

impl Writes {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            ctx: bindings::swap_io_ctx::default(),
            requests: 0,
        }
    }

    /// How many requests they are: folios that are next to each other on a device are one.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn requests(&self) -> u32 {
        self.requests
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        // SAFETY: The context holds folios under writeback, or none.
        unsafe { bindings::swap_write_submit(&mut self.ctx) };
    }
}

/// A new folio in the swap cache, locked, with nothing in it: made to write a slot back.
///
/// Dropping it takes it out of the cache again, as if it had never been there.
pub(crate) struct NewFolio(SwapFolio<'static>);

impl NewFolio {
    /// Adds a folio for the slot that `entry` names, if there is such a slot and it is in use.
    ///
    /// `EEXIST` when the swap cache has one, which somebody uses, then; or the device is gone.
    pub(crate) fn add(entry: SwapEntry, wait: Wait) -> Result<Self> {
        let gfp = match wait {
            Wait::Yes => bindings::GFP_KERNEL,
            Wait::No => bindings::ZSWAP_GFP_RUN,
        };
        // SAFETY: C copes with any value, and warns of such as name no device. Sleeps only if that
        // was asked for.
        let folio = unsafe { bindings::zswap_swap_cache_alloc_folio(entry.as_raw(), gfp) };
        let folio = NonNull::new(from_err_ptr(folio)?).ok_or(ENOMEM)?;
        // SAFETY: A new folio is returned locked and in the swap cache, with a reference for us.
        // Being there it pins the slot and thereby the device. Nobody unlocks it but this type.
        Ok(Self(unsafe { SwapFolio::from_raw(folio) }))
    }

    /// Writes it to the device. Completion unlocks nothing: the lock goes when I/O was started.
    pub(crate) fn write(self, writes: &mut Writes) {
        self.0.mark_uptodate();
        let folio = ManuallyDrop::new(self).0.as_ptr();
        let open = writes.ctx.sio;
        // SAFETY: The folio is locked, uptodate and in the swap cache; nothing refers to it through
        // `self` any more. `__swap_writepage()` consumes the lock, the reference of ours is put
        // last: being under writeback, the folio stays. The context is submitted before it goes.
        unsafe {
            // It goes to the tail of the inactive list when writing has ended.
            bindings::zswap_folio_set_reclaim(folio);
            bindings::__swap_writepage(&mut writes.ctx, folio);
            bindings::zswap_folio_put(folio);
        }
        let sio = writes.ctx.sio;
        let begun = if sio.is_null() {
            // It went out at once: with what was there, or as one of its own.
            open.is_null()
        } else {
            // SAFETY: The request belongs to the context until it is submitted. (One that is new
            // may lie where the one before did.)
            unsafe { (*sio).nr_bvecs == 1 }
        };
        if begun {
            writes.requests = writes.requests.wrapping_add(1);
            params::WRITTEN_BACK_REQUESTS.inc();
        }
    }
}

impl core::ops::Deref for NewFolio {
    type Target = SwapFolio<'static>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl core::ops::DerefMut for NewFolio {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for NewFolio {
    fn drop(&mut self) {
        let folio = self.0.as_ptr();
        // SAFETY: We have the lock of the folio, which is in the swap cache and clean, and a
        // reference, which is put last.
        unsafe {
            bindings::swap_cache_del_folio(folio);
            bindings::folio_unlock(folio);
            bindings::zswap_folio_put(folio);
        }
    }
}
