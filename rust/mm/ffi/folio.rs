// SPDX-License-Identifier: GPL-2.0

//! Folios in the swap cache, and the right to change what backs a slot.
//!
//! # The right to a slot
//!
//! One task at a time may change what backs a slot, in zswap or on a device:
//! - the task that holds the lock of the folio that the swap cache has for the slot. While the
//!   folio is there, the slot is not freed, and no second folio can be added. There is a
//!   [`SwapFolio`] only while that lock is held.
//! - the task that frees the slot, under the cluster lock. The swap cache has no folio for the
//!   slot then, and no swap count is left, except for one that this task drops.
//!
//! `LockedCluster::unbind_in_use()` needs neither, because the slot keeps its device slot. Only the
//! place that records the device slot changes: a bit of the cluster's binding before, the backing
//! word after (see `vswap::device_map`).
//!
//! A [`SlotRight`] is the right of the task that holds the folio lock. A lookup borrows it, and a
//! change borrows it mutably. So the result of a lookup cannot be used after the right is gone, or
//! during a change.
//!
//! Some values have *exclusive use* of the lock of a folio, such as a [`SwapFolio`]. Only one of
//! these values for a folio can be used at a time. Otherwise two values could give the right to
//! one slot.
//!
//! C headers: [`include/linux/pagemap.h`](srctree/include/linux/pagemap.h),
//! [`include/linux/swapops.h`](srctree/include/linux/swapops.h), [`mm/swap.h`](srctree/mm/swap.h).

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
use crate::ffi::layout::SWAPFILE_CLUSTER;
use crate::{
    ffi::{
        call::{
            FromC,
            Refines, //
        },
        memcg::MemcgRef,
        node::Node,
        params, //
    },
    warn::warn_on_once, //
};
#[cfg(CONFIG_RUST_VSWAP)]
use crate::{
    vswap::swap_table::Pfn,
    zswap::rules::Variety, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*,
    types::Opaque, //
};

/// A swap entry: a swap type above an offset, as in C's `swp_entry()`.
///
/// An entry may be stale, because the slot that it names may have been freed or reused. The slot
/// of a [`SlotRight`] is in use.
// This has the number of a `swp_entry_t`, not the structure. Otherwise rustc would pass a type that
// contains an entry, such as `Option<SwapEntry>`, by reference.
#[derive(Clone, Copy)]
pub(crate) struct SwapEntry(c_ulong);

to_c!(SwapEntry => bindings::swp_entry_t = |this| this.as_raw());

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
    /// The number of bits of an entry below the swap type.
    const TYPE_SHIFT: usize = bindings::VSWAP_SWP_TYPE_SHIFT;
    /// The mask of the bits of the offset.
    const OFFSET_MASK: usize = (1 << Self::TYPE_SHIFT) - 1;

    #[inline]
    pub(crate) fn from_raw(entry: bindings::swp_entry_t) -> Self {
        Self(entry.val)
    }

    pub(crate) fn as_raw(self) -> bindings::swp_entry_t {
        bindings::swp_entry_t { val: self.0 }
    }

    /// Returns the entry with the given type and offset.
    #[inline]
    pub(crate) fn new(ty: u8, offset: u64) -> Self {
        Self(usize::from(ty) << Self::TYPE_SHIFT | offset as usize & Self::OFFSET_MASK)
    }

    /// Returns the swap type.
    pub(crate) fn ty(self) -> usize {
        self.0 >> Self::TYPE_SHIFT
    }

    /// Returns the offset in pages.
    pub(crate) fn offset(self) -> usize {
        self.0 & Self::OFFSET_MASK
    }

    /// Returns true for a virtual entry, whose swap type no device has.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn is_virtual(self) -> bool {
        self.ty() == bindings::VSWAP_SWP_VSWAP
    }

    #[cfg(not(CONFIG_RUST_VSWAP))]
    pub(crate) fn is_virtual(self) -> bool {
        false
    }

    /// Returns the entry `n` slots after this one.
    ///
    /// Adds `n` to the entry, because the offset is in its low bits. The result must name a slot
    /// of the same device, or of the same virtual swap space. Otherwise the sum could overflow
    /// into the swap type.
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

/// The sole right to change what backs a slot.
///
/// # Invariants
///
/// During `'a`, only the owner of the value stores a zswap entry for the slot, removes the zswap
/// entry, or looks it up to read it. The device of the slot is not freed, and no I/O uses the
/// device slot.
pub(crate) struct SlotRight<'a> {
    entry: SwapEntry,
    _right: PhantomData<&'a mut ()>,
}

impl SlotRight<'_> {
    /// Returns the entry that names the slot.
    pub(crate) fn entry(&self) -> SwapEntry {
        self.entry
    }

    /// Returns the entry, with the guarantee that its device is not freed.
    #[inline]
    pub(crate) fn held_entry(&self) -> HeldEntry<'_> {
        // INVARIANT: By the invariants of `SlotRight`, the device is not freed. The entry names a
        // slot of it.
        HeldEntry {
            entry: self.entry,
            _device: PhantomData,
        }
    }
}

/// A swap entry whose device is not freed while the value is used.
///
/// # Invariants
///
/// The device of the entry is not freed during `'a`, and the entry's offset is in a cluster of it.
/// The last cluster may reach beyond the end of the device, so the entry may name no slot.
#[derive(Clone, Copy)]
pub(crate) struct HeldEntry<'a> {
    entry: SwapEntry,
    _device: PhantomData<&'a ()>,
}

impl FromC<bindings::swp_entry_t> for HeldEntry<'_> {
    /// # Safety
    ///
    /// The device of the entry is not freed while the value is used. For that, the caller has a
    /// reference to the device, has locked the cluster, or keeps a slot of the device in use. Or
    /// it is in the RCU section in which it read the entry from a page table, or found the device
    /// on. The entry names a slot of the device.
    #[inline]
    unsafe fn from_c(entry: bindings::swp_entry_t) -> Self {
        // INVARIANT: As required of the caller, the device of the entry is not freed. The entry
        // names a slot of the device, so its offset is in a cluster of the device.
        Self {
            entry: SwapEntry::from_raw(entry),
            _device: PhantomData,
        }
    }
}

impl HeldEntry<'_> {
    /// Returns the entry alone, without the guarantee that its device is not freed.
    pub(crate) fn entry(self) -> SwapEntry {
        self.entry
    }

    /// Returns the entry with another offset, which may be beyond the end of the device. Returns
    /// `None` if the offset is in another cluster.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(crate) fn at(self, offset: usize) -> Option<Self> {
        let here = self.entry.offset();
        // INVARIANT: The device is not freed, as for `self`. The offset is in the same cluster of
        // the device as that of `self`, even if it is beyond the end of the device.
        (offset ^ here < SWAPFILE_CLUSTER as usize).then(|| Self {
            entry: self.entry.add(offset.wrapping_sub(here)),
            ..self
        })
    }
}

to_c!(HeldEntry<'_> => bindings::swp_entry_t = |this| this.entry.as_raw());

/// A folio that is not freed while it is borrowed.
#[repr(transparent)]
pub(crate) struct Folio(Opaque<bindings::folio>);

impl Folio {
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::folio {
        self.0.get()
    }

    c_methods! {
        /// Returns the number of pages of the folio.
        pub(crate) safe fn nr_pages(&self) -> usize = zswap_folio_nr_pages;
        #[cfg(CONFIG_RUST_VSWAP)]
        safe fn pfn_nr(&self) -> usize = vswap_folio_pfn;
        // If the folio is in the swap cache, the entry names the folio's first slot.
        safe fn entry(&self) -> SwapEntry = zswap_folio_entry;
        safe fn mark_uptodate(&self) = zswap_folio_mark_uptodate;
        pub(super) safe fn node(&self) -> Node = zswap_folio_nid;
        safe fn is_dirty(&self) -> bool = zswap_folio_test_dirty;
        safe fn flush_dcache(&self) = zswap_flush_dcache_folio;
        // C sets PG_reclaim. Then the end of writeback moves the folio to the tail of the inactive
        // list.
        safe fn set_reclaim(&self) = zswap_folio_set_reclaim;
        // Returns NULL if the folio has no `n`th page.
        safe fn page(&self, n: usize) -> *mut bindings::page = zswap_folio_page;
        // C takes the RCU read lock, so the cgroup of the folio is not freed meanwhile.
        pub(super) safe fn writeback_enabled(&self) -> bool = zswap_folio_writeback_enabled;
        safe fn memcg_get(&self) -> Option<MemcgRef> = zswap_folio_memcg_get;
        // With `CONFIG_DEBUG_VM`, C warns if the folio is not locked or not in the swap cache.
        safe fn check(&self) = zswap_folio_check;
    }

    /// Returns the offset of the folio's first slot. If the folio is not in the swap cache, the
    /// result has no meaning.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.entry().offset()
    }

    /// Returns the number of the folio's first page frame. Returns `None` if the number does not
    /// fit in a swap table word.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn pfn(&self) -> Option<Pfn> {
        Pfn::new(self.pfn_nr() as u64)
    }
}

impl FromC<NonNull<bindings::folio>> for &Folio {
    /// # Safety
    ///
    /// The folio is not freed, and does not change its cgroup, while the reference is used.
    #[inline]
    unsafe fn from_c(folio: NonNull<bindings::folio>) -> Self {
        // SAFETY: As required of the caller, the folio is not freed. `Folio` is a transparent
        // wrapper of the structure.
        unsafe { folio.cast::<Folio>().as_ref() }
    }
}

to_c!(&Folio => *mut bindings::folio = |this| this.as_ptr());

/// A locked folio.
///
/// # Invariants
///
/// The folio is locked during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct LockedFolio<'a>(&'a Folio);

impl<'a> Refines<NonNull<bindings::folio>> for LockedFolio<'a> {
    type Base = &'a Folio;

    /// # Safety
    ///
    /// The folio is locked while the value is used. So it is not freed, and does not change its
    /// cgroup.
    #[inline]
    unsafe fn refine(folio: &'a Folio) -> Self {
        // INVARIANT: As required of the caller, the folio is locked.
        Self(folio)
    }
}

impl Deref for LockedFolio<'_> {
    type Target = Folio;

    fn deref(&self) -> &Folio {
        self.0
    }
}

impl<'a> LockedFolio<'a> {
    /// Returns the first page of the folio.
    #[inline]
    pub(super) fn first_page(self) -> SwapPage<'a> {
        // INVARIANT: A folio begins with its first page, so the page belongs to the folio.
        SwapPage {
            page: NonNull::from(self.0).cast(),
            folio: self,
        }
    }

    /// Returns the `n`th page of the folio. Returns `None` if the folio has no `n`th page.
    #[inline]
    pub(super) fn nth_page(self, n: usize) -> Option<SwapPage<'a>> {
        let page = NonNull::new(self.0.page(n))?;
        // INVARIANT: The page belongs to the folio.
        Some(SwapPage { page, folio: self })
    }

    /// Returns the folio as a [`ChargeTarget`], to charge its cgroup.
    #[inline]
    pub(super) fn owner(self) -> ChargeTarget<'a> {
        ChargeTarget { folio: Some(self) }
    }
}

/// A page of a locked folio.
///
/// # Invariants
///
/// The page belongs to the folio.
#[derive(Clone, Copy)]
pub(crate) struct SwapPage<'a> {
    page: NonNull<bindings::page>,
    folio: LockedFolio<'a>,
}

impl<'a> SwapPage<'a> {
    pub(crate) fn as_ptr(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }

    pub(crate) fn folio(&self) -> &'a Folio {
        self.folio.0
    }

    /// Returns the NUMA node of the page.
    #[inline]
    pub(crate) fn node(&self) -> Node {
        self.folio.node()
    }

    /// Returns the folio as a [`ChargeTarget`], to charge its cgroup.
    #[inline]
    pub(crate) fn owner(&self) -> ChargeTarget<'a> {
        self.folio.owner()
    }

    /// Returns the value of the 64-bit words of the page if all of them are equal, otherwise
    /// `None`.
    #[inline]
    pub(crate) fn repeats(&self) -> Option<u64> {
        /// How many words are compared in a pass of the loop.
        const STEP: usize = 32;
        const _: () = assert!(WORDS % STEP == 0);

        self.with_words(|words| {
            let first = words.nth(0);
            let step = |n: usize| {
                let n = n.wrapping_mul(STEP);
                (n..n.wrapping_add(STEP)).all(|n| words.nth(n) == first)
            };
            // Compare the last word first, because in most pages it differs from the first.
            (words.nth(WORDS - 1) == first && (0..WORDS / STEP).all(step)).then_some(first)
        })
    }

    /// Returns true if the words in a sample of the page are 0.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn looks_zero(&self) -> bool {
        /// The number of words in the sample. Fewer words would often miss the data of a page that
        /// is mostly zeros.
        const SAMPLE: usize = 64;
        /// The distance of the words. It is odd. Otherwise all words of the sample could be the
        /// same field in an array of structures.
        const APART: usize = WORDS / SAMPLE + 1;
        /// How many words are compared in a pass of the loop.
        const STEP: usize = 16;
        const _: () = assert!(APART % 2 == 1 && SAMPLE % STEP == 0);

        self.with_words(|words| {
            let nth = |n: usize| words.nth(n.wrapping_mul(APART));
            let step = |n: usize| {
                let n = n.wrapping_mul(STEP);
                (n..n.wrapping_add(STEP)).fold(0, |or, n| or | nth(n)) == 0
            };
            // Look at the first word alone, because it is not 0 in most other pages.
            nth(0) == 0 && (0..SAMPLE / STEP).all(step)
        })
    }

    /// Calls `f` with the words of the page.
    #[inline]
    fn with_words<R>(&self, f: impl FnOnce(PageWords<'_>) -> R) -> R {
        // INVARIANT: The page is mapped while `f` runs. A page is aligned.
        self.mapped(|start| {
            f(PageWords {
                start: start.cast(),
                _memory: PhantomData,
            })
        })
    }

    /// Returns true if memory.zswap.writeback of the folio's cgroup and of all its ancestors is 1,
    /// or if zswap is disabled.
    #[inline]
    pub(crate) fn writeback_enabled(&self) -> bool {
        self.folio.writeback_enabled()
    }

    /// Returns the byte values in a sample of the page, for [`Variety::is_random`].
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn variety(&self) -> Variety {
        self.with_bytes(|bytes| Variety::of(bytes.sample(Variety::SAMPLE)))
    }

    /// Maps the page, calls `f` with its address, and unmaps the page.
    #[inline]
    fn mapped<R>(&self, f: impl FnOnce(*mut u8) -> R) -> R {
        // SAFETY: By the invariants, the page belongs to the folio, which is locked and so not
        // freed.
        let addr = unsafe { bindings::kmap_local_page(self.page.as_ptr()) };
        let ret = f(addr.cast());
        // SAFETY: This task has mapped the page above, and has unmapped all pages that it has
        // mapped since.
        unsafe { bindings::kunmap_local(addr) };
        ret
    }

    /// Calls `f` with the bytes of the page. User space may change the bytes meanwhile.
    #[inline]
    pub(crate) fn with_bytes<R>(&self, f: impl FnOnce(Bytes<'_>) -> R) -> R {
        // INVARIANT: The page is mapped while `f` runs, so its bytes are readable.
        self.mapped(|start| {
            f(Bytes {
                start,
                len: PAGE_SIZE,
                _memory: PhantomData,
            })
        })
    }
}

/// The number of words in a page.
const WORDS: usize = PAGE_SIZE / size_of::<u64>();

/// The 64-bit words of a page. User space may change them while they are read.
///
/// # Invariants
///
/// `WORDS` aligned words from `start` on are readable during `'a`.
struct PageWords<'a> {
    start: *const u64,
    _memory: PhantomData<&'a ()>,
}

impl PageWords<'_> {
    /// Returns the `n`th word, counted again from the first word after the last one.
    #[inline(always)]
    fn nth(&self, n: usize) -> u64 {
        // SAFETY: The index is less than `WORDS`, so the word is readable, by the invariants. Any
        // word is a valid `u64`.
        unsafe { self.start.add(n % WORDS).read_volatile() }
    }
}

/// A page whose contents are to be read from zswap.
///
/// # Invariants
///
/// The folio of the page was not uptodate when it was locked, and no task has used the bytes of
/// the page since. So writing the page overwrites no data.
#[repr(transparent)]
pub(crate) struct EmptyPage<'a>(SwapPage<'a>);

impl<'a> EmptyPage<'a> {
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::page {
        self.0.as_ptr()
    }

    /// Fills the page with a 64-bit pattern.
    pub(crate) fn fill(&self, value: u64) -> FilledPage<'a> {
        // SAFETY: C writes `PAGE_SIZE` bytes, which is all of the page.
        unsafe { self.overwrite(|to| bindings::zswap_fill(to.cast(), value, PAGE_SIZE)) }
    }

    /// Maps the page, calls `f` with its address to write it, and then flushes the folio from the
    /// data cache.
    ///
    /// # Safety
    ///
    /// `f` writes all of the page.
    #[inline]
    pub(super) unsafe fn overwrite(&self, f: impl FnOnce(*mut u8)) -> FilledPage<'a> {
        self.0.mapped(f);
        self.0.folio.flush_dcache();
        // INVARIANT: As required of the caller, `f` has written all of the page. Its folio is
        // locked during `'a`, by the invariants of `LockedFolio`.
        FilledPage {
            page: self.0.page,
            _folio: PhantomData,
        }
    }

    /// Returns the proof that the page is filled.
    ///
    /// # Safety
    ///
    /// All of the page was written.
    #[inline]
    pub(super) unsafe fn filled(&self) -> FilledPage<'a> {
        // INVARIANT: As required of the caller, all of the page was written. Its folio is locked
        // during `'a`, by the invariants of `LockedFolio`.
        FilledPage {
            page: self.0.page,
            _folio: PhantomData,
        }
    }
}

/// Proof that all of a page of a locked folio was written. It does not prove that the bytes are
/// those that were swapped out.
///
/// # Invariants
///
/// The page belongs to a folio that is locked during `'a`. All of the page was written.
#[must_use]
pub(crate) struct FilledPage<'a> {
    page: NonNull<bindings::page>,
    _folio: PhantomData<&'a Folio>,
}

impl FilledPage<'_> {
    /// Checks that this is the proof for `page`. Warns and returns `EIO` if it is the proof for
    /// another page.
    #[inline]
    fn check(self, page: &SwapPage<'_>) -> Result {
        if warn_on_once!(self.page != page.page) {
            return Err(EIO);
        }
        Ok(())
    }
}

/// Bytes in memory that can be read during `'a`, and that user space may change meanwhile.
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
    /// Returns the bytes of a slice.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        // INVARIANT: The slice is readable while it is borrowed.
        Self {
            start: bytes.as_ptr(),
            len: bytes.len(),
            _memory: PhantomData,
        }
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// Returns up to `nr` bytes, at equal distances.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn sample(&self, nr: usize) -> impl Iterator<Item = u8> + '_ {
        // The distance is one less than `len / nr`. Otherwise all samples of an array of
        // structures could be from the same field.
        let apart = self.len.checked_div(nr).unwrap_or(0);
        let step = apart.saturating_sub(1).max(1);
        (0..self.len).step_by(step).take(nr).map(move |at| {
            // SAFETY: `at` is less than `len`, so the byte is readable, by the invariants. Any
            // byte is a valid `u8`.
            unsafe { self.start.add(at).read_volatile() }
        })
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// A folio that is locked and in the swap cache.
///
/// The value does not own the folio lock, so dropping it does not unlock the folio. An owner of
/// the lock, such as [`SwapFolioGuard`], returns a `SwapFolio` that borrows the owner mutably. It
/// never returns a `&mut` to its own value, because a caller could replace the value by that of
/// another folio.
///
/// # Origin
///
/// C locks the folio, and passes it to a function of `exports`:
///
/// - `swap_writeout()`: `vswap_zero_set()`, `zswap_store()` and `vswap_alloc_backing()`.
/// - `pageout()` and `shmem_writeout()`, for a large folio that got no device slots:
///   `vswap_rs_may_split()`.
/// - `folio_free_swap()`: `vswap_folio_swapped()`, by way of `folio_maybe_swapped()`.
/// - A fault that has mapped a large folio, or could not map a claimed page:
///   `vswap_rs_swapin_forget()`.
///
/// Other types contain a `SwapFolio`, and lend it: [`ReadRequest`] of `swap_read_folio()`,
/// [`EmptyFolio`] of a claimed page, `AddedFolio` of `folio_alloc_swap()` (see `ffi::vswap`),
/// [`WritebackFolio`] of zswap's writeback, and [`SwapFolioGuard`] of swapoff.
///
/// # Invariants
///
/// `folio` is in the swap cache during `'a`. It is not under writeback, which only the owner of
/// the folio lock starts. So no I/O uses its device slots. The value has exclusive use of the
/// folio lock: see [the module](self).
pub(crate) struct SwapFolio<'a> {
    folio: LockedFolio<'a>,
    _lock: PhantomData<&'a mut ()>,
}

impl<'a> Refines<NonNull<bindings::folio>> for SwapFolio<'a> {
    type Base = LockedFolio<'a>;

    /// # Safety
    ///
    /// While the value is used, the folio is in the swap cache and not under writeback, and no
    /// other value has exclusive use of its lock.
    #[inline]
    unsafe fn refine(folio: LockedFolio<'a>) -> Self {
        folio.check();
        // INVARIANT: As required of the caller, the folio is in the swap cache and not under
        // writeback, and no other value has exclusive use of its lock.
        Self {
            folio,
            _lock: PhantomData,
        }
    }
}

to_c!(&SwapFolio<'_> => *mut bindings::folio = |this| this.as_ptr());

impl<'a> SwapFolio<'a> {
    /// Creates a value for a folio that was just added to the swap cache, without checks. Only
    /// `AddedFolio::of()` calls this, for each folio that is added for virtual slots. For a folio
    /// that C passes, `refine()` creates the value.
    ///
    /// # Safety
    ///
    /// The folio was just added to the swap cache, and is not removed from it during `'a`. No
    /// other value has exclusive use of its lock during `'a`.
    #[inline]
    pub(super) unsafe fn new(folio: LockedFolio<'a>) -> Self {
        // INVARIANT: As required of the caller, the folio is in the swap cache during `'a`, and no
        // other value has exclusive use of its lock. The folio is not under writeback, because it
        // was just added to the swap cache.
        Self {
            folio,
            _lock: PhantomData,
        }
    }

    /// Returns the number of pages of the folio.
    #[inline]
    pub(crate) fn nr_pages(&self) -> usize {
        self.folio.nr_pages()
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::folio {
        self.folio.as_ptr()
    }

    /// Returns a value for the same folio, which borrows `self` mutably.
    #[inline]
    pub(super) fn lend(&mut self) -> SwapFolio<'_> {
        // INVARIANT: `self` is borrowed, and cannot be used meanwhile.
        SwapFolio {
            folio: self.folio,
            _lock: PhantomData,
        }
    }

    c_methods! {
        /// Returns true if the folio is large, clean and not anonymous. Such a folio was read by a
        /// fault and not mapped yet, or is a shmem folio whose data is still in swap.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) safe fn is_large_unused(&self) -> bool = vswap_folio_large_unused;
        /// Returns true if the folio is uptodate.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) safe fn is_uptodate(&self) -> bool = vswap_folio_uptodate;
        /// With `cached`, adds the folio to the statistics of the swap cache (`NR_FILE_PAGES` and
        /// `NR_SWAPCACHE`). Otherwise subtracts it.
        #[cfg(CONFIG_RUST_VSWAP)]
        pub(crate) safe fn count_cached(&self, cached: bool) = vswap_folio_count_cached;
        /// Counts the pages of the folio as loaded from zswap, for the system and the cgroup.
        pub(crate) safe fn count_zswpin(&self) = zswap_folio_count_zswpin;
        /// Counts one page as written back from zswap, for the system and the folio's cgroup.
        pub(crate) safe fn count_zswpwb(&self) = zswap_folio_count_zswpwb;
        /// Counts the folio as a large folio that was swapped in.
        pub(crate) safe fn count_large_swpin(&self) = zswap_folio_count_large_swpin;
        /// Marks the folio dirty, so that it is written before reclaim frees it. Returns true if
        /// it was clean.
        pub(crate) safe fn mark_dirty(&self) -> bool = folio_mark_dirty;
    }

    /// Returns the folio as a [`ChargeTarget`], to charge its cgroup.
    // Takes `&mut`, so that it cannot be called through the `Deref` of `SwapFolioGuard`. Otherwise
    // the result could outlive the folio lock, which a `SwapFolioGuard` may drop before `'a` ends.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(crate) fn owner(&mut self) -> ChargeTarget<'a> {
        self.folio.owner()
    }

    /// Returns the right to the folio's first slot.
    #[inline]
    pub(crate) fn first_slot(&mut self) -> SlotRight<'_> {
        // INVARIANT: The holder of the folio lock has the right to the folio's slots. `self` has
        // exclusive use of the lock, and cannot be used meanwhile.
        SlotRight {
            entry: self.folio.entry(),
            _right: PhantomData,
        }
    }

    /// Returns the right to the folio's `n`th slot, and its `n`th page. Returns `None` if the
    /// folio has no `n`th page.
    #[inline]
    pub(crate) fn nth(&mut self, n: usize) -> Option<(SlotRight<'_>, SwapPage<'_>)> {
        let page = self.folio.nth_page(n)?;
        // INVARIANT: The holder of the folio lock has the right to the slot, as in `first_slot()`.
        // A folio has consecutive slots, one for each page.
        let slot = SlotRight {
            entry: self.first_slot().entry.add(n),
            _right: PhantomData,
        };
        Some((slot, page))
    }
}

/// A folio in the swap cache whose contents are to be read, because it was not uptodate when it
/// was locked.
///
/// # Invariants
///
/// The folio was not uptodate when it was locked, and no task has used its bytes since. It stays
/// locked during `'a`.
pub(crate) struct EmptyFolio<'a>(SwapFolio<'a>);

impl<'a> Refines<NonNull<bindings::folio>> for EmptyFolio<'a> {
    type Base = SwapFolio<'a>;

    /// # Safety
    ///
    /// The folio is not uptodate.
    #[inline]
    unsafe fn refine(folio: SwapFolio<'a>) -> Self {
        // INVARIANT: As required of the caller, the folio is not uptodate, so no task uses its
        // bytes before it is unlocked.
        Self(folio)
    }
}

impl<'a> Deref for EmptyFolio<'a> {
    type Target = SwapFolio<'a>;

    fn deref(&self) -> &SwapFolio<'a> {
        &self.0
    }
}

impl EmptyFolio<'_> {
    /// Returns a value for the folio, which borrows `self` mutably.
    #[inline]
    pub(crate) fn lend(&mut self) -> SwapFolio<'_> {
        self.0.lend()
    }

    /// Calls `f` to fill the page of a folio of order 0. Returns the error of `f`, if any. Warns
    /// and returns `EIO` if the proof is for another page. Returns `None` if the folio is large.
    #[inline]
    fn fill_only(
        &mut self,
        f: impl for<'p> FnOnce(SlotRight<'p>, &EmptyPage<'p>) -> Result<FilledPage<'p>>,
    ) -> Option<Result> {
        if self.nr_pages() != 1 {
            return None;
        }
        // INVARIANT: No task has used the bytes of the folio, by the invariants of `EmptyFolio`.
        let page = EmptyPage(self.0.folio.first_page());
        Some(f(self.0.first_slot(), &page).and_then(|filled| filled.check(&page.0)))
    }

    /// Calls `f` to fill the page of a folio of order 0. If that succeeds, marks the folio
    /// uptodate; otherwise returns the error. Returns `None` if the folio is large.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        f: impl for<'p> FnOnce(SlotRight<'p>, &EmptyPage<'p>) -> Result<FilledPage<'p>>,
    ) -> Option<Result> {
        let filled = self.fill_only(f)?;
        Some(filled.map(|()| self.0.folio.mark_uptodate()))
    }

    /// Calls `f` to fill each page of a folio, with the index of the page. If that succeeds for
    /// all pages, marks the folio uptodate; otherwise returns the first error.
    pub(crate) fn fill_all(
        &mut self,
        mut f: impl for<'p> FnMut(usize, SlotRight<'p>, &EmptyPage<'p>) -> Result<FilledPage<'p>>,
    ) -> Result {
        for n in 0..self.nr_pages() {
            let (slot, page) = self.0.nth(n).ok_or(EIO)?;
            // INVARIANT: No task has used the bytes of the folio, by the invariants of
            // `EmptyFolio`.
            let page = EmptyPage(page);
            f(n, slot, &page)?.check(&page.0)?;
        }
        self.0.folio.mark_uptodate();
        Ok(())
    }
}

/// A locked folio, or no folio. [`Self::charged`] charges allocations to the cgroup of the folio.
/// C functions that charge or uncharge slots by a cgroup id first compare the id with that of the
/// folio's cgroup, which mostly saves the lookup of the id.
#[derive(Clone, Copy)]
pub(crate) struct ChargeTarget<'a> {
    folio: Option<LockedFolio<'a>>,
}

impl ChargeTarget<'_> {
    /// No folio.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) const NONE: Self = Self { folio: None };

    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    pub(super) fn as_ptr(self) -> *mut bindings::folio {
        self.folio
            .map_or(core::ptr::null_mut(), |folio| folio.as_ptr())
    }

    /// Calls `f`, whose `__GFP_ACCOUNT` allocations are charged to the cgroup of the folio.
    /// Without a folio, they are charged to the cgroup of this task.
    pub(crate) fn charged<R>(self, f: impl FnOnce() -> R) -> R {
        let memcg = self.folio.and_then(|folio| folio.memcg_get());
        MemcgRef::charging(memcg.as_ref(), f)
    }
}

#[cfg(CONFIG_RUST_VSWAP)]
to_c!(ChargeTarget<'_> => *mut bindings::folio = |this| this.as_ptr());

/// A reference to a folio.
///
/// # Invariants
///
/// The value owns one reference.
pub(crate) struct FolioRef(NonNull<bindings::folio>);

c_owned! {
    fn drop(FolioRef: bindings::folio) = zswap_folio_put;
}

#[cfg(CONFIG_RUST_VSWAP)]
impl FolioRef {
    fn as_ptr(&self) -> *mut bindings::folio {
        self.0.as_ptr()
    }

    c_methods! {
        /// Locks the folio, and waits for the end of its writeback. If the folio is not in the
        /// swap cache with virtual slots any more, unlocks it and returns `None`. May sleep.
        // C hands over the folio lock, so no other value has exclusive use of it.
        pub(crate) safe fn lock_cached(&self) -> Option<SwapFolioGuard<'_>>
            = vswap_folio_lock_cached;
    }

    /// Returns true if `folio` points to this folio.
    #[inline]
    pub(crate) fn is(&self, folio: *mut bindings::folio) -> bool {
        self.0.as_ptr() == folio
    }

    /// Returns a pointer to the folio, and hands the reference over to the caller.
    pub(crate) fn into_raw(self) -> *mut bindings::folio {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

#[cfg(CONFIG_RUST_VSWAP)]
impl PartialEq for FolioRef {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// The lock of a folio that is in the swap cache. Dropping the value unlocks the folio.
///
/// # Invariants
///
/// The value owns the lock of the folio.
#[must_use]
pub(crate) struct SwapFolioGuard<'a>(SwapFolio<'a>);

impl<'a> Refines<NonNull<bindings::folio>> for SwapFolioGuard<'a> {
    type Base = SwapFolio<'a>;

    /// # Safety
    ///
    /// The value takes over the folio lock from the caller.
    #[inline]
    unsafe fn refine(folio: SwapFolio<'a>) -> Self {
        // INVARIANT: As required of the caller, the value takes over the lock.
        Self(folio)
    }
}

c_dropped! {
    fn drop(folio: SwapFolioGuard<'_>) = folio_unlock(folio.as_ptr());
}

impl SwapFolioGuard<'_> {
    /// Returns a value for the folio, which borrows `self` mutably.
    #[inline]
    pub(crate) fn lend(&mut self) -> SwapFolio<'_> {
        self.0.lend()
    }

    /// Removes the folio from the swap cache, frees its slots and unlocks it. Returns the folio as
    /// `Err`, still locked, if the swap count of a slot is not 0, or while suspend or hibernation
    /// does not allow I/O.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn free_swap(self) -> Result<(), Self> {
        // SAFETY: The folio is locked, and in the swap cache, by the invariants.
        if !unsafe { bindings::folio_free_swap(self.0.as_ptr()) } {
            return Err(self);
        }
        // Dropping `self` unlocks the folio, which is allowed although the folio has left the swap
        // cache.
        Ok(())
    }

    /// Removes a clean folio from the swap cache, and unlocks it. If the folio is dirty, warns and
    /// only unlocks it, because it may have the only copy of the data.
    pub(crate) fn forget(self) {
        if warn_on_once!(self.0.folio.is_dirty()) {
            return;
        }
        // SAFETY: By the invariants of `SwapFolio`, the folio is locked, in the swap cache and not
        // under writeback. No other value has exclusive use of its lock, because `self` owns the
        // lock. Dropping `self` unlocks the folio, which is allowed although it has left the swap
        // cache.
        unsafe { bindings::swap_cache_del_folio(self.as_ptr()) };
    }
}

impl<'a> Deref for SwapFolioGuard<'a> {
    type Target = SwapFolio<'a>;

    fn deref(&self) -> &SwapFolio<'a> {
        &self.0
    }
}

/// The lock of a folio in the swap cache whose contents C wants zswap to read.
///
/// # Invariants
///
/// The folio meets the invariants of [`EmptyFolio`].
#[must_use]
pub(crate) struct ReadRequest<'a>(SwapFolioGuard<'a>);

impl<'a> Refines<NonNull<bindings::folio>> for ReadRequest<'a> {
    type Base = SwapFolioGuard<'a>;

    /// # Safety
    ///
    /// The folio is not uptodate.
    #[inline]
    unsafe fn refine(folio: SwapFolioGuard<'a>) -> Self {
        // INVARIANT: As required of the caller, the folio is not uptodate, so no task uses its
        // bytes before it is unlocked.
        Self(folio)
    }
}

impl ReadRequest<'_> {
    /// Returns a value for the folio, which borrows `self` mutably.
    #[inline]
    pub(crate) fn lend(&mut self) -> EmptyFolio<'_> {
        // INVARIANT: By the invariants of `ReadRequest`, the folio was not uptodate, and no task
        // has used its bytes. It is locked while `self` is borrowed.
        EmptyFolio(self.0.lend())
    }

    /// Returns the result of the read for C. After `ENOENT`, the folio stays locked, so that C
    /// reads it from its device and unlocks it. After success or any other error, unlocks the
    /// folio.
    ///
    /// After an error other than `ENOENT`, first removes a large folio from the swap cache.
    /// Otherwise another fault would find the folio, and fail for each of its pages, although only
    /// one may be unreadable.
    #[inline]
    pub(crate) fn end(self, read: Result) -> c_int {
        let Self(folio) = self;
        match read {
            Ok(()) => {
                drop(folio);
                0
            }
            Err(error) => {
                if error == ENOENT {
                    let _ = ManuallyDrop::new(folio);
                } else if folio.nr_pages() != 1 {
                    folio.forget();
                }
                error.to_errno()
            }
        }
    }
}

/// A batch of folios that are being written. Writes of adjacent device slots are merged into one
/// request. Dropping the value submits the last request.
///
/// # Invariants
///
/// `ctx` was zeroed at first, and since then only C has changed it. So it owns the request that C
/// has begun and not submitted yet, if there is one.
pub(crate) struct Writes {
    ctx: bindings::swap_io_ctx,
    requests: u32,
}

impl Writes {
    /// Creates a batch without folios.
    pub(crate) fn new() -> Self {
        // INVARIANT: The default value is zeroed.
        Self {
            ctx: bindings::swap_io_ctx::default(),
            requests: 0,
        }
    }

    /// Returns the first device slot of the last request that was begun, or 0 if there was none. C
    /// keeps the record when it submits the request.
    #[cfg(CONFIG_RUST_VSWAP)]
    fn last_first(&self) -> c_ulong {
        self.ctx.first.val
    }

    #[cfg(not(CONFIG_RUST_VSWAP))]
    fn last_first(&self) -> c_ulong {
        0
    }

    /// Returns how many requests were begun so far.
    #[cfg(CONFIG_RUST_VSWAP)]
    pub(crate) fn requests(&self) -> u32 {
        self.requests
    }
}

c_dropped! {
    fn drop(writes: Writes) = swap_write_submit(&mut writes.ctx);
}

/// A new, locked folio in the swap cache without contents, to write a zswap entry back.
///
/// Dropping the value removes the folio from the swap cache, unlocks it, and puts the reference.
///
/// # Invariants
///
/// The value owns the folio lock and a reference to the folio.
#[must_use]
pub(crate) struct WritebackFolio(EmptyFolio<'static>);

impl Refines<NonNull<bindings::folio>> for WritebackFolio {
    type Base = EmptyFolio<'static>;

    /// # Safety
    ///
    /// The value takes over the folio lock and a reference from the caller.
    unsafe fn refine(folio: EmptyFolio<'static>) -> Self {
        // INVARIANT: As required of the caller, the value takes over the lock and a reference.
        Self(folio)
    }
}

c_functions! {
    // C accepts any entry, and prints an error if it names no device. C waits for reclaim only
    // with `wait`. The folio is new, locked, in the swap cache, not uptodate and not under
    // writeback. The caller gets the lock and a reference. The slot is in use while the folio is
    // in the swap cache, so the device is not freed.
    safe fn alloc_folio(entry: SwapEntry, wait: bool) -> Result<Option<WritebackFolio>>
        = zswap_swap_cache_alloc_folio;
}

c_dropped! {
    // C removes the folio from the swap cache, unlocks it and puts the reference.
    fn drop(folio: WritebackFolio) = zswap_swap_cache_free_folio(folio.0.as_ptr());
}

impl WritebackFolio {
    /// Allocates a locked folio, and adds it to the swap cache for the slot that `entry` names.
    /// Waits for reclaim only with `wait`.
    ///
    /// Returns `ENOENT` if the swap count of the slot is 0, and `ENOMEM` if there is no memory.
    /// Returns `EEXIST` if the swap cache has a folio for the slot already, or if the device is
    /// off.
    pub(crate) fn add(entry: SwapEntry, wait: bool) -> Result<Self> {
        alloc_folio(entry, wait)?.ok_or(ENOMEM)
    }

    /// Returns a value for the folio, which borrows `self` mutably.
    #[inline]
    pub(crate) fn lend(&mut self) -> SwapFolio<'_> {
        self.0.lend()
    }

    /// Calls `f` to fill the page. If `f` fails, returns its error and the folio, so that the
    /// caller can free the device slot of the folio before it drops the folio.
    pub(crate) fn fill(
        mut self,
        f: impl for<'p> FnOnce(SlotRight<'p>, &EmptyPage<'p>) -> Result<FilledPage<'p>>,
    ) -> Result<FilledFolio, (Error, Self)> {
        match self.0.fill_only(f).unwrap_or(Err(EINVAL)) {
            // INVARIANT: `fill_only()` has filled the page.
            Ok(()) => Ok(FilledFolio(self)),
            Err(error) => Err((error, self)),
        }
    }
}

/// A new folio in the swap cache whose page was filled, ready to be written to its device slot.
///
/// Dropping the value removes the folio from the swap cache, unlocks it, and puts the reference.
///
/// # Invariants
///
/// The page of the folio is filled.
#[must_use]
pub(crate) struct FilledFolio(WritebackFolio);

impl FilledFolio {
    /// Returns a value for the folio, which borrows `self` mutably.
    #[inline]
    pub(crate) fn lend(&mut self) -> SwapFolio<'_> {
        self.0.lend()
    }

    /// Begins to write the folio to its device slot. C sets PG_writeback and unlocks the folio.
    /// The last request is submitted when `writes` is dropped. May sleep.
    pub(crate) fn write(self, writes: &mut Writes) {
        let folio = &ManuallyDrop::new(self.0).0;
        folio.folio.mark_uptodate();
        folio.folio.set_reclaim();
        let before = writes.last_first();
        // SAFETY: The folio is locked, in the swap cache and not under writeback, by the
        // invariants of `SwapFolio`. It is uptodate, because its page is filled. C takes over the
        // lock, which is not dropped here. By the invariants of `Writes`, C may add the folio to
        // the request in `ctx`. Dropping `writes` submits the request.
        unsafe { bindings::__swap_writepage(&mut writes.ctx, folio.as_ptr()) };
        // Put the reference only now, because the folio could be freed without it as soon as C
        // has unlocked the folio.
        // INVARIANT: The value takes over the reference of the `WritebackFolio`, which is not
        // dropped.
        drop(FolioRef(NonNull::from(folio.folio.0).cast()));
        // If the folio began a new request, C has recorded the folio's device slot as the first.
        // The caller has reserved the device slots of all folios in advance, so no two are equal.
        // Without virtual slots, a batch has one folio.
        if cfg!(not(CONFIG_RUST_VSWAP)) || writes.last_first() != before {
            writes.requests = writes.requests.wrapping_add(1);
            params::WRITTEN_BACK_REQUESTS.inc();
        }
    }
}
