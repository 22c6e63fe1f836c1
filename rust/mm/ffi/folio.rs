// SPDX-License-Identifier: GPL-2.0

//! Folios in the swap cache, and the right to what zswap stores for a swap slot.
//!
//! # The right to a slot
//!
//! One task at a time may change what zswap stores for a slot:
//! - the task that holds the lock of the folio that the swap cache has for the slot. While the
//!   folio is there, the slot is not freed, and no second folio can be added. [`SwapFolio`] stands
//!   for that lock.
//! - the task that frees the slot, under the cluster lock, when its swap count is 0 and the swap
//!   cache has no folio for it.
//!
//! [`Slot`] is the first of these rights as a value. A lookup borrows it, and a change borrows it
//! mutably. So the result of a lookup cannot be used after the right is gone, or during a change.
//!
//! C headers: [`include/linux/pagemap.h`](srctree/include/linux/pagemap.h),
//! [`include/linux/swapops.h`](srctree/include/linux/swapops.h), [`mm/swap.h`](srctree/mm/swap.h).

#[cfg(CONFIG_RUST_VSWAP)]
use crate::zswap::rules::Variety;
use crate::{
    ffi::{
        call::{
            FromC,
            ToC, //
        },
        memcg::MemcgRef,
        node::Node,
        params, //
    },
    warn::warn_on_once, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*,
    types::Opaque, //
};

c_functions! {
    fn swp_entry(ty: usize, offset: usize) -> bindings::swp_entry_t = zswap_swp_entry;
    fn swp_type(entry: SwapEntry) -> c_uint = zswap_swp_type;
    fn swp_offset(entry: SwapEntry) -> usize = zswap_swp_offset;
}

/// A swap entry: a swap type and an offset.
///
/// It names a slot, and may be stale. A [`Slot`] is not.
// The value of a `swp_entry_t`. As such a structure it would go to functions by its address.
#[derive(Clone, Copy)]
pub(crate) struct SwapEntry(c_ulong);

impl ToC for SwapEntry {
    type C = bindings::swp_entry_t;

    #[inline]
    fn to_c(self) -> bindings::swp_entry_t {
        self.as_raw()
    }
}

impl FromC<bindings::swp_entry_t> for SwapEntry {
    /// # Safety
    ///
    /// Nothing is required.
    #[inline]
    unsafe fn from_c(entry: bindings::swp_entry_t) -> Self {
        Self::from_raw(entry)
    }
}

impl SwapEntry {
    #[inline]
    pub(crate) fn from_raw(entry: bindings::swp_entry_t) -> Self {
        Self(entry.val)
    }

    #[inline]
    pub(crate) fn as_raw(self) -> bindings::swp_entry_t {
        bindings::swp_entry_t { val: self.0 }
    }

    /// Makes the entry of a type and an offset.
    #[inline]
    pub(crate) fn new(ty: u8, offset: u64) -> Self {
        Self::from_raw(swp_entry(ty.into(), offset as usize))
    }

    /// Returns the swap type.
    #[inline]
    pub(crate) fn ty(self) -> usize {
        swp_type(self) as usize
    }

    /// Returns the offset in pages.
    #[inline]
    pub(crate) fn offset(self) -> usize {
        swp_offset(self)
    }

    /// Returns true if it names a virtual slot. No device has that type.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn is_virtual(self) -> bool {
        self.0 >> bindings::VSWAP_SWP_TYPE_SHIFT == bindings::VSWAP_SWP_VSWAP
    }

    #[cfg(not(CONFIG_RUST_VSWAP))]
    #[inline]
    pub(crate) fn is_virtual(self) -> bool {
        false
    }

    /// Returns the entry `n` slots after this one.
    ///
    /// The offset is in the low bits of an entry, and the slots of a folio are of one device.
    #[inline]
    pub(crate) fn add(self, n: usize) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// Returns the entry `n` slots before this one.
    #[inline]
    pub(crate) fn sub(self, n: usize) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}

/// The sole right to what is stored for a slot.
///
/// # Invariants
///
/// During `'a` only the owner of the value stores for the slot, takes out what is stored for it, or
/// looks it up to follow it. The device stays.
pub(crate) struct Slot<'a> {
    entry: SwapEntry,
    _right: PhantomData<&'a mut ()>,
}

impl Slot<'_> {
    /// Returns the entry that names the slot.
    #[inline]
    pub(crate) fn entry(&self) -> SwapEntry {
        self.entry
    }
}

/// A folio that is not freed while it is borrowed.
#[repr(transparent)]
pub(crate) struct Folio(Opaque<bindings::folio>);

impl Folio {
    /// # Safety
    ///
    /// The folio is not freed during `'a`.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(folio: NonNull<bindings::folio>) -> &'a Self {
        // SAFETY: As required of the caller. The type is transparent.
        unsafe { folio.cast::<Self>().as_ref() }
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::folio {
        self.0.get()
    }

    c_methods! {
        pub(super) fn nr_pages(&self) -> usize = zswap_folio_nr_pages;
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(super) fn pfn(&self) -> usize = vswap_folio_pfn;
        fn mark_uptodate(&self) = zswap_folio_mark_uptodate;
        fn nid(&self) -> c_int = zswap_folio_nid;
        fn is_dirty(&self) -> bool = zswap_folio_test_dirty;
        fn flush_dcache(&self) = zswap_flush_dcache_folio;
        // C takes the RCU lock that its cgroup needs.
        pub(super) fn writeback_enabled(&self) -> bool = zswap_folio_writeback_enabled;
        fn memcg_get(&self) -> *mut bindings::mem_cgroup = zswap_folio_memcg_get;
        // Looks at it only, and that under `CONFIG_DEBUG_VM`.
        fn check(&self) = zswap_folio_check;
    }
}

impl FromC<*mut bindings::folio> for Option<&Folio> {
    /// # Safety
    ///
    /// `folio` is NULL, or is not freed while the function runs, and does not change its cgroup.
    #[inline]
    unsafe fn from_c(folio: *mut bindings::folio) -> Self {
        // SAFETY: As required of the caller.
        NonNull::new(folio).map(|folio| unsafe { Folio::from_raw(folio) })
    }
}

impl ToC for &Folio {
    type C = *mut bindings::folio;

    #[inline]
    fn to_c(self) -> *mut bindings::folio {
        self.as_ptr()
    }
}

/// One page of a locked folio.
///
/// # Invariants
///
/// The page is one of the folio, which is locked during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct SwapPage<'a> {
    page: NonNull<bindings::page>,
    folio: &'a Folio,
}

impl<'a> SwapPage<'a> {
    /// Returns the first page of a folio.
    ///
    /// # Safety
    ///
    /// The folio is locked, and stays so, during `'a`.
    #[inline]
    pub(super) unsafe fn first_of(folio: &'a Folio) -> Self {
        // INVARIANT: A folio begins with its first page.
        Self {
            page: NonNull::from(folio).cast(),
            folio,
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }

    #[inline]
    pub(crate) fn folio(&self) -> &'a Folio {
        self.folio
    }

    /// Returns the NUMA node of its memory.
    #[inline]
    pub(crate) fn node(&self) -> Node {
        // SAFETY: A node that has memory is possible.
        unsafe { Node::from_raw(self.folio.nid()) }
    }

    /// Returns the cgroup that is charged for tables.
    #[inline]
    pub(crate) fn owner(&self) -> Owner<'a> {
        // INVARIANT: Locked during `'a`.
        Owner {
            folio: Some(self.folio),
        }
    }

    /// Returns the 64 bits that the page repeats, if it does.
    #[inline]
    pub(crate) fn repeats(&self) -> Option<u64> {
        self.with_bytes(|bytes| bytes.repeats())
    }

    /// Fills the page with 64 bits.
    pub(crate) fn fill(&self, value: u64) -> FilledPage<'a> {
        // SAFETY: C writes the page, as far as the length says, which is all of it.
        unsafe { self.overwrite(|to| bindings::zswap_fill(to.cast(), value, PAGE_SIZE)) }
    }

    /// Returns true if the cgroup of the page lets zswap write it to a device.
    #[inline]
    pub(crate) fn writeback_enabled(&self) -> bool {
        self.folio.writeback_enabled()
    }

    /// Returns how varied its content is.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn variety(&self) -> Variety {
        self.with_bytes(|bytes| Variety::of(bytes.sample(Variety::SAMPLE)))
    }

    /// Maps the page while `f` runs.
    #[inline]
    fn mapped<R>(&self, f: impl FnOnce(*mut u8) -> R) -> R {
        // SAFETY: The page stays, by the invariants.
        let addr = unsafe { bindings::kmap_local_page(self.page.as_ptr()) };
        let ret = f(addr.cast());
        // SAFETY: This task has mapped it above, and nothing after that which is still mapped.
        unsafe { bindings::kunmap_local(addr) };
        ret
    }

    /// Maps the page, whose bytes others may be changing, while `f` runs.
    #[inline]
    pub(crate) fn with_bytes<R>(&self, f: impl FnOnce(Bytes<'_>) -> R) -> R {
        // SAFETY: `f` gets a page that is mapped while it runs.
        self.mapped(|from| f(unsafe { Bytes::new(from, PAGE_SIZE) }))
    }

    /// Maps the page while `f` writes it, and makes that visible to user space.
    ///
    /// # Safety
    ///
    /// `f` writes all of the page.
    #[inline]
    pub(super) unsafe fn overwrite(&self, f: impl FnOnce(*mut u8)) -> FilledPage<'a> {
        self.mapped(f);
        self.folio.flush_dcache();
        // SAFETY: As required of the caller.
        unsafe { self.filled() }
    }

    /// Says that the page is filled.
    ///
    /// # Safety
    ///
    /// All of the page was written.
    #[inline]
    pub(super) unsafe fn filled(&self) -> FilledPage<'a> {
        // INVARIANT: As required of the caller.
        FilledPage {
            page: self.page,
            _folio: PhantomData,
        }
    }
}

/// Says that a page of a locked folio is filled: its bytes are what was swapped out.
///
/// # Invariants
///
/// The page is one of a folio that is locked during `'a`. All of it was written.
#[must_use]
pub(crate) struct FilledPage<'a> {
    page: NonNull<bindings::page>,
    _folio: PhantomData<&'a Folio>,
}

impl FilledPage<'_> {
    /// `EIO`: it is another page.
    #[inline]
    fn check(self, page: &SwapPage<'_>) -> Result {
        if warn_on_once!(self.page != page.page) {
            return Err(EIO);
        }
        Ok(())
    }
}

/// Bytes in memory that can be read during `'a`, and that others may be changing.
///
/// # Invariants
///
/// `len` bytes from `start` on are readable during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    start: *const u8,
    len: usize,
    _memory: PhantomData<&'a ()>,
}

impl<'a> Bytes<'a> {
    /// # Safety
    ///
    /// `len` bytes at `start` are readable during `'a`.
    pub(crate) unsafe fn new(start: *const u8, len: usize) -> Self {
        // INVARIANT: As required of the caller.
        Self {
            start,
            len,
            _memory: PhantomData,
        }
    }

    /// Returns the bytes of a slice.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        // SAFETY: They are readable while they are borrowed.
        unsafe { Self::new(bytes.as_ptr(), bytes.len()) }
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// Returns some of the bytes, from all over them.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn sample(&self, nr: usize) -> impl Iterator<Item = u8> + '_ {
        // Not a power of two, which the fields of structures would be apart.
        let apart = self.len.checked_div(nr).unwrap_or(0);
        let step = apart.saturating_sub(1).max(1);
        (0..self.len).step_by(step).take(nr).map(move |at| {
            // SAFETY: Less than `len`, by the invariants readable. Any byte is a `u8`.
            unsafe { self.start.add(at).read_volatile() }
        })
    }

    /// Returns the 64 bits that they repeat from their beginning to their end, if they do.
    #[inline]
    fn repeats(&self) -> Option<u64> {
        const WORD: usize = size_of::<u64>();
        let nth = |n: usize| {
            // SAFETY: Less than `len`, by the invariants readable. Pages are aligned. Any word is a
            // `u64`.
            unsafe { self.start.cast::<u64>().add(n).read_volatile() }
        };
        let nr = self.len / WORD;
        let last = nr.checked_sub(1)?;
        let first = nth(0);
        // Most pages end with something else than they begin with.
        (nth(last) == first && (1..last).all(|n| nth(n) == first)).then_some(first)
    }

    /// Returns their number.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// A folio that is locked and in the swap cache.
///
/// It is a right, not the lock itself: dropping it changes nothing. An owner of the lock, like
/// [`ReadFolio`], lends the right out; it never gives a `&mut` to one that it keeps, which could be
/// swapped for that of another folio.
///
/// # Invariants
///
/// `folio` is locked and in the swap cache during `'a`, and there is one value at a time.
pub(crate) struct SwapFolio<'a> {
    folio: &'a Folio,
    _lock: PhantomData<&'a mut ()>,
}

impl<'a> SwapFolio<'a> {
    /// # Safety
    ///
    /// The caller holds the lock of the folio, which is in the swap cache, during `'a`. There is no
    /// second value for the folio meanwhile.
    #[inline]
    pub(crate) unsafe fn from_raw(folio: NonNull<bindings::folio>) -> Self {
        // SAFETY: A locked folio is not freed.
        let folio = unsafe { Folio::from_raw(folio) };
        folio.check();
        // SAFETY: As required of the caller.
        unsafe { Self::new(folio) }
    }

    /// As [`Self::from_raw`], for a folio that we have just added to the swap cache.
    ///
    /// # Safety
    ///
    /// As of [`Self::from_raw`].
    #[inline]
    pub(super) unsafe fn new(folio: &'a Folio) -> Self {
        // INVARIANT: As required of the caller.
        Self {
            folio,
            _lock: PhantomData,
        }
    }

    /// Returns the number of its pages.
    #[inline]
    pub(crate) fn nr_pages(&self) -> usize {
        self.folio.nr_pages()
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::folio {
        self.folio.as_ptr()
    }

    /// Lends the right for a shorter time.
    #[inline]
    fn lend(&mut self) -> SwapFolio<'_> {
        // INVARIANT: `self` is not used meanwhile.
        SwapFolio {
            folio: self.folio,
            _lock: PhantomData,
        }
    }

    c_methods! {
        /// Returns true if it is large, was read for a fault, and no fault has mapped it.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) fn is_unclaimed(&self) -> bool = vswap_folio_unclaimed;
        /// Returns true if its bytes are what was swapped out.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) fn is_uptodate(&self) -> bool = vswap_folio_uptodate;
        /// Counts it among the folios in the swap cache.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) fn count_cached(&self) = vswap_folio_count_cached;
        /// Counts that its pages were loaded.
        pub(crate) fn count_zswpin(&self) = zswap_folio_count_zswpin;
        /// Counts that its page is written back.
        pub(crate) fn count_zswpwb(&self) = zswap_folio_count_zswpwb;
        /// Counts it as a large folio that was swapped in.
        pub(crate) fn count_large_swpin(&self) = zswap_folio_count_large_swpin;
        /// Marks the folio dirty: it is the only copy. Returns true if it was not.
        pub(crate) fn mark_dirty(&self) -> bool = folio_mark_dirty;
    }

    /// Returns the cgroup that is charged for its tables.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn owner(&self) -> Owner<'_> {
        // INVARIANT: Locked while `self` is there.
        Owner {
            folio: Some(self.folio),
        }
    }

    #[inline]
    fn into_first_slot(self) -> Slot<'a> {
        // SAFETY: A folio in the swap cache has its entry there.
        let entry = unsafe { bindings::zswap_folio_entry(self.as_ptr()) };
        // INVARIANT: By the invariants of this type, of which this was the only value.
        Slot {
            entry: SwapEntry::from_raw(entry),
            _right: PhantomData,
        }
    }

    /// Returns the right to the slot of its first page.
    #[inline]
    pub(crate) fn first_slot(&mut self) -> Slot<'_> {
        self.lend().into_first_slot()
    }

    /// Returns the slot and the page with number `n`, if the folio is that large.
    #[inline]
    pub(crate) fn nth(&mut self, n: usize) -> Option<(Slot<'_>, SwapPage<'_>)> {
        if n >= self.nr_pages() {
            return None;
        }
        // SAFETY: The folio has more than `n` pages.
        let page = NonNull::new(unsafe { bindings::zswap_folio_page(self.as_ptr(), n) })?;
        let folio = self.folio;
        // INVARIANT: A folio of n pages has n consecutive slots.
        let slot = Slot {
            entry: self.first_slot().entry.add(n),
            _right: PhantomData,
        };
        // INVARIANT: It is one of the folio, which is locked while `self` is borrowed.
        Some((slot, SwapPage { page, folio }))
    }

    /// Has `f` fill the page of a folio that is not large. `None`: it is large.
    #[inline]
    fn fill_only(
        &mut self,
        f: impl for<'p> FnOnce(Slot<'p>, &SwapPage<'p>) -> Result<FilledPage<'p>>,
    ) -> Option<Result> {
        if self.nr_pages() != 1 {
            return None;
        }
        // INVARIANT: A folio begins with its first page, and is locked during `'a`.
        let page = SwapPage {
            page: NonNull::from(self.folio).cast(),
            folio: self.folio,
        };
        Some(f(self.first_slot(), &page).and_then(|filled| filled.check(&page)))
    }

    /// Has `f` fill the page of a folio that is not large, and marks the folio uptodate then.
    /// `None`: it is large.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        f: impl for<'p> FnOnce(Slot<'p>, &SwapPage<'p>) -> Result<FilledPage<'p>>,
    ) -> Option<Result> {
        let filled = self.fill_only(f)?;
        Some(filled.map(|()| self.folio.mark_uptodate()))
    }

    /// Has `f` fill each page of a folio, which it gets with its number, and marks the folio
    /// uptodate then.
    pub(crate) fn fill_all(
        &mut self,
        mut f: impl for<'p> FnMut(usize, Slot<'p>, &SwapPage<'p>) -> Result<FilledPage<'p>>,
    ) -> Result {
        for n in 0..self.nr_pages() {
            let (slot, page) = self.nth(n).ok_or(EIO)?;
            f(n, slot, &page)?.check(&page)?;
        }
        self.folio.mark_uptodate();
        Ok(())
    }
}

impl FromC<*mut bindings::folio> for Option<SwapFolio<'_>> {
    /// # Safety
    ///
    /// `folio` is NULL, or a folio in the swap cache whose lock the caller holds while the function
    /// runs.
    #[inline]
    unsafe fn from_c(folio: *mut bindings::folio) -> Self {
        // SAFETY: As required of the caller, who enters Rust here.
        NonNull::new(folio).map(|folio| unsafe { SwapFolio::from_raw(folio) })
    }
}

/// The cgroup that is charged for tables: that of a locked folio.
///
/// # Invariants
///
/// The folio, if there is one, is locked during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    folio: Option<&'a Folio>,
}

impl<'a> Owner<'a> {
    /// No cgroup is charged: for tests, which have no folio.
    #[cfg(CONFIG_RUST_VSWAP_KUNIT_TEST)]
    pub(crate) const NONE: Self = Self { folio: None };

    /// # Safety
    ///
    /// The folio is locked during `'a`.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(super) unsafe fn of(folio: &'a Folio) -> Self {
        // INVARIANT: As required of the caller.
        Self { folio: Some(folio) }
    }

    /// Runs `f`, and charges what this task allocates in it with `__GFP_ACCOUNT` to the cgroup.
    pub(crate) fn charged<R>(self, f: impl FnOnce() -> R) -> R {
        // SAFETY: C returns a reference for us, or NULL.
        let memcg = unsafe { MemcgRef::from_raw(self.folio.map_or(NULL, Folio::memcg_get)) };
        MemcgRef::charging(memcg.as_ref(), f)
    }
}

const NULL: *mut bindings::mem_cgroup = core::ptr::null_mut();

/// A reference to a folio.
///
/// # Invariants
///
/// The reference is ours.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) struct FolioRef(NonNull<bindings::folio>);

#[cfg(CONFIG_RUST_VSWAP)]
impl FolioRef {
    /// # Safety
    ///
    /// The reference is the caller's, who hands it over.
    pub(crate) unsafe fn from_raw(folio: NonNull<bindings::folio>) -> Self {
        // INVARIANT: As required of the caller.
        Self(folio)
    }

    /// Returns true if `folio` is the same.
    #[inline]
    pub(crate) fn is(&self, folio: *mut bindings::folio) -> bool {
        self.0.as_ptr() == folio
    }

    /// Hands the reference over.
    pub(crate) fn into_raw(self) -> *mut bindings::folio {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// Locks the folio when it is not under writeback, if it is in the swap cache with virtual
    /// slots then. Sleeps.
    pub(crate) fn lock_cached(&self) -> Option<ReadFolio<'_>> {
        // SAFETY: The folio stays, by the reference. The caller holds no lock.
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
        // SAFETY: The reference is ours, by the invariants.
        unsafe { bindings::zswap_folio_put(self.0.as_ptr()) };
    }
}

/// The lock of a folio that is in the swap cache: dropping unlocks it.
///
/// # Invariants
///
/// The value owns the lock.
#[must_use]
pub(crate) struct ReadFolio<'a>(SwapFolio<'a>);

impl<'a> ReadFolio<'a> {
    /// # Safety
    ///
    /// As of [`SwapFolio::from_raw`], and the lock is handed over.
    #[inline]
    pub(crate) unsafe fn from_raw(folio: NonNull<bindings::folio>) -> Self {
        // SAFETY: As required of the caller.
        // INVARIANT: As required of the caller.
        Self(unsafe { SwapFolio::from_raw(folio) })
    }

    /// Lends the folio out.
    #[inline]
    pub(crate) fn lend(&mut self) -> SwapFolio<'_> {
        self.0.lend()
    }

    /// Leaves the folio locked, for C.
    #[inline]
    pub(crate) fn keep_locked(self) -> KeptLocked {
        let _ = ManuallyDrop::new(self);
        KeptLocked(())
    }

    /// Removes the folio from the swap cache if the swap count of all its slots is 0; frees them.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn free_swap(self) -> Result<(), Self> {
        // SAFETY: The folio is locked, and in the swap cache, by the invariants.
        if !unsafe { bindings::folio_free_swap(self.0.as_ptr()) } {
            return Err(self);
        }
        // It is unlocked by the drop, which asks for no more than that.
        Ok(())
    }

    /// Removes a folio from the swap cache whose data is elsewhere, and unlocks it. One that is
    /// dirty is the only copy, and stays.
    pub(crate) fn forget(self) {
        if warn_on_once!(self.0.folio.is_dirty()) {
            return;
        }
        // SAFETY: The folio is locked, and in the swap cache, by the invariants. It is clean.
        unsafe { bindings::swap_cache_del_folio(self.0.as_ptr()) };
    }
}

impl FromC<*mut bindings::folio> for Option<ReadFolio<'_>> {
    /// # Safety
    ///
    /// As for [`SwapFolio`], and the lock is handed over.
    #[inline]
    unsafe fn from_c(folio: *mut bindings::folio) -> Self {
        // SAFETY: As required of the caller.
        NonNull::new(folio).map(|folio| unsafe { ReadFolio::from_raw(folio) })
    }
}

/// A folio was left locked: C is told so, because it unlocks the folio then.
#[must_use]
pub(crate) struct KeptLocked(());

impl<'a> Deref for ReadFolio<'a> {
    type Target = SwapFolio<'a>;

    #[inline]
    fn deref(&self) -> &SwapFolio<'a> {
        &self.0
    }
}

impl Drop for ReadFolio<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The lock is ours, by the invariants.
        unsafe { bindings::folio_unlock(self.0.as_ptr()) };
    }
}

/// Whether an allocation may wait for memory.
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

    /// Returns how many requests they are: folios side by side on a device are one.
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
/// Dropping removes it from the swap cache again.
///
/// # Invariants
///
/// The value owns the lock and a reference. The folio is clean.
#[must_use]
pub(crate) struct NewFolio(SwapFolio<'static>);

impl NewFolio {
    /// Adds a folio for the slot that `entry` names, if there is such a slot and it is in use.
    ///
    /// `EEXIST` when the swap cache has one already, or the device is gone.
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

    /// Lends the folio out.
    #[inline]
    pub(crate) fn lend(&mut self) -> SwapFolio<'_> {
        self.0.lend()
    }

    /// Has `f` fill the page. `Err` has the folio, for who has to give back first what is for it.
    pub(crate) fn fill(
        mut self,
        f: impl for<'p> FnOnce(Slot<'p>, &SwapPage<'p>) -> Result<FilledPage<'p>>,
    ) -> Result<FilledFolio, (Error, Self)> {
        match self.0.fill_only(f).unwrap_or(Err(EINVAL)) {
            // INVARIANT: Just filled.
            Ok(()) => Ok(FilledFolio(self)),
            Err(error) => Err((error, self)),
        }
    }
}

impl Drop for NewFolio {
    fn drop(&mut self) {
        let folio = self.0.as_ptr();
        // SAFETY: By the invariants. The reference is put last.
        unsafe {
            bindings::swap_cache_del_folio(folio);
            bindings::folio_unlock(folio);
            bindings::zswap_folio_put(folio);
        }
    }
}

/// A new folio in the swap cache that was filled, and is to be written.
///
/// Dropping removes it from the swap cache again.
///
/// # Invariants
///
/// The page of the folio is filled.
#[must_use]
pub(crate) struct FilledFolio(NewFolio);

impl FilledFolio {
    /// Lends the folio out.
    #[inline]
    pub(crate) fn lend(&mut self) -> SwapFolio<'_> {
        self.0.lend()
    }

    /// Writes the folio to its device. It is unlocked when I/O was started.
    pub(crate) fn write(self, writes: &mut Writes) {
        let folio = ManuallyDrop::new(self.0);
        folio.0.folio.mark_uptodate();
        let folio = folio.0.as_ptr();
        let open = writes.ctx.sio;
        // SAFETY: The folio is locked, uptodate and in the swap cache; nothing refers to it through
        // `self` any more. `__swap_writepage()` consumes the lock. Our reference is put last: under
        // writeback, the folio stays. The context is submitted before it goes.
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
