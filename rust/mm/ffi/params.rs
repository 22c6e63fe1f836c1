// SPDX-License-Identifier: GPL-2.0

//! Parameters, counters and events: numbers that C owns or shows.
//!
//! C header: [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

use super::{
    folio::SwapEntry,
    memcg::Memcg, //
};
use core::ffi::CStr;
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// Makes a function that reads a parameter. The parameter code of C writes it, in one piece.
macro_rules! parameter {
    ($(#[$doc:meta])* $name:ident, $ty:ty, $field:ident) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name() -> $ty {
            // SAFETY: A static, which C also writes in one piece, and Rust accesses atomically.
            let value = unsafe {
                Atomic::<$ty>::from_ptr(&raw mut bindings::zswap_params.$field)
            };
            value.load(Relaxed)
        }
    };
}

parameter!(
    /// Whether zswap stores.
    enabled, bool, enabled
);
parameter!(
    /// Whether memory pressure lets zswap write back.
    shrinker_enabled, bool, shrinker_enabled
);
parameter!(
    /// How much of the memory the pools may take.
    max_pool_percent, u32, max_pool_percent
);
parameter!(
    /// How much of that they may take for a pool that was full to accept again.
    accept_threshold_percent, u32, accept_threshold_percent
);

c_functions! {
    /// Whether there never was a pool: nothing was ever stored, then.
    pub(crate) fn never_enabled() -> bool = zswap_never_enabled;
    /// Notes that there is one.
    pub(super) fn note_ever_enabled() = zswap_shim_ever_enabled;
    /// Whether there is a device to write to.
    pub(crate) fn have_devices() -> bool = zswap_have_devices;
    /// Counts pages that were stored.
    pub(crate) fn count_zswpout(nr: usize) = zswap_count_vm_zswpout;
    /// The time, in ticks.
    pub(crate) fn jiffies() -> usize = zswap_jiffies;
    /// The pages of memory that the machine has.
    pub(crate) fn totalram_pages() -> usize = zswap_totalram_pages;
}

/// Turns zswap off, as it has no pool.
pub(crate) fn disable() {
    // SAFETY: A static, which C also writes in one piece, and Rust accesses atomically.
    let value = unsafe { Atomic::<bool>::from_ptr(&raw mut bindings::zswap_params.enabled) };
    value.store(false, Relaxed);
}

/// Runs `f` with the compressor that the parameter names.
///
/// # Safety
///
/// The caller excludes writers of the parameter.
pub(super) unsafe fn with_compressor<R>(f: impl FnOnce(&CStr) -> R) -> R {
    // SAFETY: The parameter always names a string. It stays, as required of the caller.
    f(unsafe { CStr::from_char_ptr(bindings::zswap_params.compressor) })
}

/// Sees to it that the compressor parameter names one that exists; fails if there is none.
///
/// # Safety
///
/// The caller excludes writers of the parameter.
pub(super) unsafe fn compressor_usable() -> bool {
    // SAFETY: As required of the caller.
    unsafe { bindings::zswap_shim_compressor_usable() }
}

/// A counter in debugfs.
pub(crate) struct Counter(fn() -> *mut u64);

impl Counter {
    /// Adds one.
    pub(crate) fn inc(&self) {
        // SAFETY: A static, which C only reads, and Rust accesses atomically.
        unsafe { Atomic::<u64>::from_ptr((self.0)()) }.add(1, Relaxed);
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $field:ident;)*) => {
        $($(#[$doc])* pub(crate) const $name: Counter =
            // SAFETY: The address of a static.
            Counter(|| unsafe { &raw mut bindings::zswap_stats.$field });)*
    };
}

counters! {
    /// Stores that met a full pool.
    POOL_LIMIT_HIT = pool_limit_hit;
    /// Entries that could not be written back.
    REJECT_RECLAIM_FAIL = reject_reclaim_fail;
    /// Pages for which there was no memory.
    REJECT_ALLOC_FAIL = reject_alloc_fail;
    /// Pages for which there was no memory for a table or a member of a ring.
    REJECT_KMEMCACHE_FAIL = reject_kmemcache_fail;
    /// Pages that the compressor refused.
    REJECT_COMPRESS_FAIL = reject_compress_fail;
    /// Pages that compress too badly.
    REJECT_COMPRESS_POOR = reject_compress_poor;
    /// Entries that could not be decompressed.
    DECOMPRESS_FAIL = decompress_fail;
    /// Entries that were written back.
    WRITTEN_BACK_PAGES = written_back_pages;
    /// The requests to devices that were made for that.
    WRITTEN_BACK_REQUESTS = written_back_requests;
}

/// The number of stored pages.
#[inline]
pub(crate) fn stored_pages() -> &'static Atomic<i64> {
    // SAFETY: A static, which is accessed atomically only.
    unsafe { Atomic::from_ptr(&raw mut bindings::zswap_stored_pages.counter) }
}

/// The number of stored pages that are not compressed.
#[inline]
pub(crate) fn stored_incompressible_pages() -> &'static Atomic<i64> {
    // SAFETY: A static, which is accessed atomically only.
    unsafe { Atomic::from_ptr(&raw mut bindings::zswap_stored_incompressible_pages.counter) }
}

/// Reports a page that could not be decompressed, if there were not too many.
pub(crate) fn report_decompress_error(entry: SwapEntry, compressor: &CStr, len: u32, result: u32) {
    // SAFETY: `compressor` is a string.
    unsafe {
        bindings::zswap_shim_decompress_error(
            entry.as_raw(),
            compressor.as_char_ptr(),
            len,
            result as c_int,
        )
    };
}

/// Wakes the shrink worker.
pub(crate) fn queue_shrink() {
    // SAFETY: The queue was made before anything could be stored.
    unsafe { bindings::zswap_shim_queue_shrink() };
}

/// Lets others run, if it is their turn.
pub(crate) fn cond_resched() {
    // SAFETY: The callers hold no lock: they are in process context.
    unsafe { bindings::zswap_cond_resched() };
}

/// The length to store of a compressed page: less, when a test wants it damaged.
#[inline]
pub(crate) fn len_to_store(len: usize) -> usize {
    #[cfg(CONFIG_RUST_ZSWAP_TEST_HOOKS)]
    {
        let hooks = &raw mut bindings::zswap_hooks;
        // SAFETY: A static, which C also writes in one piece, and Rust accesses atomically.
        let left = unsafe { Atomic::<u32>::from_ptr(&raw mut (*hooks).corrupt_stores) };
        let nr = left.load(Relaxed);
        if nr > 0 && len > 1 && left.cmpxchg(nr, nr - 1, Relaxed).is_ok() {
            return len / 2;
        }
    }
    len
}

/// Whether a test wants the worker to stop early.
#[inline]
pub(crate) fn worker_once() -> bool {
    #[cfg(CONFIG_RUST_ZSWAP_TEST_HOOKS)]
    {
        // SAFETY: A static, which C also writes in one piece, and Rust accesses atomically.
        let once = unsafe { Atomic::<bool>::from_ptr(&raw mut bindings::zswap_hooks.worker_once) };
        once.load(Relaxed)
    }
    #[cfg(not(CONFIG_RUST_ZSWAP_TEST_HOOKS))]
    false
}

/// What memory reclaim asks of the shrinker.
pub(crate) struct ShrinkControl<'a>(&'a mut bindings::shrink_control);

impl ShrinkControl<'_> {
    /// # Safety
    ///
    /// `sc` is valid, and nobody else uses it, during the lifetime of the value.
    pub(super) unsafe fn from_raw(sc: *mut bindings::shrink_control) -> Self {
        // SAFETY: As required of the caller.
        Self(unsafe { &mut *sc })
    }

    /// The cgroup.
    pub(crate) fn memcg(&self) -> Memcg<'_> {
        // SAFETY: The cgroup is NULL or valid while the shrinker runs.
        unsafe { Memcg::from_raw(self.0.memcg) }
    }

    /// The node.
    pub(crate) fn nid(&self) -> c_int {
        self.0.nid
    }

    /// Whether reclaim may do I/O, and enter file systems.
    pub(crate) fn may_do_io(&self) -> bool {
        // SAFETY: Looks at a number.
        unsafe { bindings::zswap_gfp_has_io_fs(self.0.gfp_mask) }
    }

    /// How many entries to look at.
    pub(crate) fn nr_to_scan(&self) -> usize {
        self.0.nr_to_scan
    }

    /// Notes how many are left to look at.
    pub(crate) fn set_nr_to_scan(&mut self, nr: usize) {
        self.0.nr_to_scan = nr;
    }

    /// Notes that none was looked at.
    pub(crate) fn none_scanned(&mut self) {
        self.0.nr_scanned = 0;
    }
}
