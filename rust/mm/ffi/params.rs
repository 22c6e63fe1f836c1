// SPDX-License-Identifier: GPL-2.0

//! Parameters, counters and events: numbers that C owns, or debugfs shows.
//!
//! C header: [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

use crate::ffi::{
    call::FromC,
    folio::SwapEntry,
    memcg::Memcg,
    node::Node, //
};
use core::ffi::CStr;
use kernel::{
    bindings,
    debugfs,
    fmt,
    page::PAGE_SHIFT,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SetOnce, //
    }, //
};

/// The parameters: C's `struct zswap_params`.
///
/// # Invariants
///
/// `compressor` is a string.
#[repr(C)]
struct Params {
    enabled: Atomic<bool>,
    shrinker_enabled: Atomic<bool>,
    max_pool_percent: Atomic<u32>,
    accept_threshold_percent: Atomic<u32>,
    compressor: Atomic<*mut c_char>,
}

same_layout!(Params = bindings::zswap_params {
    enabled = enabled,
    shrinker_enabled = shrinker_enabled,
    max_pool_percent = max_pool_percent,
    accept_threshold_percent = accept_threshold_percent,
    compressor = compressor,
});

#[inline]
fn params() -> &'static Params {
    // SAFETY: A static. C writes each field in one piece, and Rust accesses them atomically.
    unsafe { &*(&raw mut bindings::zswap_params).cast() }
}

/// Returns true if zswap stores.
#[inline]
pub(crate) fn enabled() -> bool {
    params().enabled.load(Relaxed)
}

/// Turns zswap off, as it has no pool.
pub(crate) fn disable() {
    params().enabled.store(false, Relaxed);
}

/// Returns true if memory pressure lets zswap write back.
#[inline]
pub(crate) fn shrinker_enabled() -> bool {
    params().shrinker_enabled.load(Relaxed)
}

/// Returns how much of the memory the pools may take.
#[inline]
pub(crate) fn max_pool_percent() -> u32 {
    params().max_pool_percent.load(Relaxed)
}

/// Returns how much of that they may take for a pool that was full to accept again.
#[inline]
pub(crate) fn accept_threshold_percent() -> u32 {
    params().accept_threshold_percent.load(Relaxed)
}

/// The parameter that names the compressor.
///
/// # Invariants
///
/// Nobody else writes it while the value is there.
pub(crate) struct Compressor(());

impl Compressor {
    /// # Safety
    ///
    /// The caller excludes writers of the parameter while the value is there.
    pub(crate) unsafe fn exclusive() -> Self {
        // INVARIANT: As required of the caller.
        Self(())
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: It is a string, which stays until it is changed.
        unsafe { CStr::from_char_ptr(params().compressor.load(Relaxed)) }
    }

    /// Returns the name that Kconfig chose.
    pub(crate) fn default_name() -> &'static CStr {
        CStr::from_bytes_until_nul(bindings::CONFIG_ZSWAP_COMPRESSOR_DEFAULT).unwrap_or_default()
    }

    /// Changes the name.
    pub(crate) fn set(&mut self, name: &'static CStr) {
        let place = &params().compressor;
        // SAFETY: Frees what the parameter code allocated, if it did. Nobody else uses it, by the
        // invariants.
        unsafe { bindings::param_free_charp(place.as_ptr().cast()) };
        place.store(name.as_char_ptr().cast_mut(), Relaxed);
    }
}

c_functions! {
    /// Returns true if there never was a pool: nothing was ever stored, then.
    pub(crate) fn never_enabled() -> bool = zswap_never_enabled;
    /// Notes that there is a pool.
    pub(crate) fn note_ever_enabled() = zswap_shim_ever_enabled;
    /// Returns true if there is a device to write to.
    pub(crate) fn have_devices() -> bool = zswap_have_devices;
    /// Counts pages that were stored.
    pub(crate) fn count_zswpout(nr: usize) = zswap_count_vm_zswpout;
    /// Returns the time, in ticks.
    pub(crate) fn jiffies() -> usize = zswap_jiffies;
    /// Returns the pages of memory that the machine has.
    pub(crate) fn totalram_pages() -> usize = zswap_totalram_pages;
    /// Reports a page that could not be decompressed, if there were not too many.
    pub(crate) fn report_decompress_error(
        entry: SwapEntry, compressor: &CStr, len: u32, result: u32
    ) = zswap_shim_decompress_error;
    /// Reports to dynamic debug what happens to a pool.
    pub(crate) fn report_pool(what: &CStr, compressor: &CStr) = zswap_shim_pool_event;
    /// Wakes the shrink worker. Called after a store only, when its queue exists.
    pub(crate) fn queue_shrink() = zswap_shim_queue_shrink;
    /// Lets other tasks run. Caller holds no lock.
    pub(crate) fn cond_resched() = zswap_cond_resched;
    fn gfp_has_io_fs(gfp: bindings::gfp_t) -> bool = zswap_gfp_has_io_fs;
}

/// A counter, which debugfs shows.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    /// Adds one.
    pub(crate) fn inc(&self) {
        self.0.add(1, Relaxed);
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])* pub(crate) static $name: Counter = Counter(Atomic::new(0));)*

        /// All of them, by the names of their files.
        static COUNTERS: &[(&CStr, &Counter)] = &[$(($file, &$name)),*];
    };
}

counters! {
    /// Stores that met a full pool.
    POOL_LIMIT_HIT = c"pool_limit_hit";
    /// Pages that could not be written back.
    REJECT_RECLAIM_FAIL = c"reject_reclaim_fail";
    /// Pages for which there was no memory.
    REJECT_ALLOC_FAIL = c"reject_alloc_fail";
    /// Pages for which there was no memory for a table or a member of a ring.
    REJECT_KMEMCACHE_FAIL = c"reject_kmemcache_fail";
    /// Pages that the compressor refused.
    REJECT_COMPRESS_FAIL = c"reject_compress_fail";
    /// Pages that compress too badly.
    REJECT_COMPRESS_POOR = c"reject_compress_poor";
    /// Pages that could not be decompressed.
    DECOMPRESS_FAIL = c"decompress_fail";
    /// Pages that were written back.
    WRITTEN_BACK_PAGES = c"written_back_pages";
    /// The requests to devices that were made for that.
    WRITTEN_BACK_REQUESTS = c"written_back_requests";
}

/// What tests ask for, through debugfs.
#[cfg(CONFIG_RUST_ZSWAP_TEST_HOOKS)]
mod hooks {
    use super::*;

    /// The number of pages to damage when they are stored.
    pub(crate) static CORRUPT_STORES: Atomic<u32> = Atomic::new(0);
    /// Not 0: the worker writes back one page and stops.
    pub(crate) static WORKER_ONCE: Atomic<u32> = Atomic::new(0);
}

/// The files in debugfs, which stay.
static FILES: SetOnce<Pin<KBox<debugfs::Scope<()>>>> = SetOnce::new();

/// Makes the files in debugfs.
pub(crate) fn show() -> Result {
    type Out<'a, 'b> = &'a mut fmt::Formatter<'b>;

    let files = KBox::pin_init(
        debugfs::Scope::dir((), c"zswap", |(), dir| {
            for (name, counter) in COUNTERS {
                dir.read_only_file(name, &counter.0);
            }
            dir.read_only_file(c"stored_pages", stored_pages());
            dir.read_only_file(
                c"stored_incompressible_pages",
                stored_incompressible_pages(),
            );
            dir.read_callback_file(c"pool_total_size", &(), &|(), out: Out<'_, '_>| {
                writeln!(out, "{}", crate::zswap::pool::total_pages() << PAGE_SHIFT)
            });
            #[cfg(CONFIG_RUST_ZSWAP_TEST_HOOKS)]
            {
                dir.read_write_file(c"corrupt_stores", &hooks::CORRUPT_STORES);
                dir.read_write_file(c"worker_once", &hooks::WORKER_ONCE);
            }
        }),
        GFP_KERNEL,
    )?;
    FILES.populate(files);
    Ok(())
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

/// Returns the length to store of a compressed page: less, when a test wants it damaged.
#[inline]
pub(crate) fn len_to_store(len: usize) -> usize {
    #[cfg(CONFIG_RUST_ZSWAP_TEST_HOOKS)]
    {
        let left = &hooks::CORRUPT_STORES;
        let nr = left.load(Relaxed);
        if nr > 0 && len > 1 && left.cmpxchg(nr, nr.wrapping_sub(1), Relaxed).is_ok() {
            return len / 2;
        }
    }
    len
}

/// Returns true if a test wants the worker to stop early.
#[inline]
pub(crate) fn worker_once() -> bool {
    #[cfg(CONFIG_RUST_ZSWAP_TEST_HOOKS)]
    return hooks::WORKER_ONCE.load(Relaxed) != 0;
    #[cfg(not(CONFIG_RUST_ZSWAP_TEST_HOOKS))]
    false
}

/// What memory reclaim asks of the shrinker.
pub(crate) struct ShrinkControl<'a>(&'a mut bindings::shrink_control);

impl FromC<*mut bindings::shrink_control> for ShrinkControl<'_> {
    /// # Safety
    ///
    /// `sc` is that of a shrinker that runs: only the function uses it, and its cgroup is `NULL` or
    /// stays, and its node is possible.
    unsafe fn from_c(sc: *mut bindings::shrink_control) -> Self {
        // SAFETY: As required of the caller.
        Self(unsafe { &mut *sc })
    }
}

impl ShrinkControl<'_> {
    /// Returns the cgroup.
    pub(crate) fn memcg(&self) -> Memcg<'_> {
        // SAFETY: As was required for the value.
        unsafe { Memcg::from_raw(self.0.memcg) }
    }

    /// Returns the node.
    pub(crate) fn node(&self) -> Node {
        // SAFETY: As was required for the value.
        unsafe { Node::from_raw(self.0.nid) }
    }

    /// Returns true if reclaim may do I/O, and enter file systems.
    pub(crate) fn may_do_io(&self) -> bool {
        gfp_has_io_fs(self.0.gfp_mask)
    }

    /// Returns how many pages to look at.
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
