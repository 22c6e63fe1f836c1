// SPDX-License-Identifier: GPL-2.0

//! Module parameters, counters, events and debugfs files of zswap, and the argument of its
//! shrinker.
//!
//! C header: [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h).

use crate::ffi::{
    call::FromC,
    folio::SwapEntry,
    memcg::Memcg,
    node::Node, //
};
use core::{
    ffi::CStr,
    marker::PhantomData, //
};
use kernel::{
    bindings,
    debugfs,
    error::to_result,
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

c_statics! {
    safe fn enabled_param() -> &Atomic<bool> = zswap_params.enabled;
    /// Returns the parameter that lets zswap's shrinker write pages back under memory pressure.
    pub(crate) safe fn shrinker_enabled() -> &Atomic<bool> = zswap_params.shrinker_enabled;
    /// Returns the percentage of RAM that all pools together may use.
    pub(crate) safe fn max_pool_percent() -> &Atomic<u32> = zswap_params.max_pool_percent;
    /// Returns the accept threshold, as a percentage of the limit that [`max_pool_percent`] sets.
    /// After the pools have reached the limit, zswap accepts no pages until the pools have shrunk
    /// to the threshold. If no page can be written back, zswap accepts pages as soon as the pools
    /// are below the limit.
    pub(crate) safe fn accept_threshold_percent() -> &Atomic<u32> =
        zswap_params.accept_threshold_percent;
    safe fn compressor_param() -> &Atomic<*mut c_char> = zswap_params.compressor;
    /// Returns the counter of stored pages.
    pub(crate) safe fn stored_pages() -> &Atomic<i64> = zswap_stored_pages.counter;
    /// Returns the counter of stored pages that are not compressed.
    pub(crate) safe fn stored_incompressible_pages() -> &Atomic<i64> =
        zswap_stored_incompressible_pages.counter;
    safe fn clock() -> &Atomic<usize> = jiffies;
    safe fn ram() -> &Atomic<i64> = _totalram_pages.counter;
}

/// Returns the time in jiffies.
#[cfg(CONFIG_RUST_VSWAP)]
#[inline]
pub(crate) fn jiffies() -> usize {
    clock().load(Relaxed)
}

/// Returns the number of pages that the page allocator manages (`totalram_pages()`).
#[inline]
pub(crate) fn totalram_pages() -> usize {
    ram().load(Relaxed) as usize
}

/// Returns the module parameter `enabled`: true if zswap may store pages.
#[inline]
pub(crate) fn enabled() -> bool {
    enabled_param().load(Relaxed)
}

/// Sets the module parameter `enabled` to false.
pub(crate) fn disable() {
    enabled_param().store(false, Relaxed);
}

/// The parameter that names the compressor.
///
/// # Invariants
///
/// No other task writes the parameter during `'a`. If a write of the parameter has allocated the
/// name, no other task reads the name during `'a`. Only one value exists at a time.
pub(crate) struct CompressorParam<'a>(PhantomData<&'a mut ()>);

/// For an exported function that lists a `CompressorParam` as `given` (see `c_exports!`). C passes
/// no argument for it, but guarantees what `from_c()` requires.
impl FromC<()> for CompressorParam<'_> {
    /// # Safety
    ///
    /// While the value is used, the caller excludes other writers of the parameter, and other
    /// values of this type. If a write of the parameter has allocated the name, the caller also
    /// excludes readers.
    unsafe fn from_c((): ()) -> Self {
        // INVARIANT: As required of the caller, there are no other writers and no other values. If
        // a write has allocated the name, there are no readers either.
        Self(PhantomData)
    }
}

impl CompressorParam<'_> {
    /// Returns the name of the compressor.
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: The parameter is a NUL-terminated string. By the invariants, only `set()`
        // changes or frees it meanwhile, which borrows `self` mutably.
        unsafe { CStr::from_char_ptr(compressor_param().load(Relaxed)) }
    }

    /// Returns the default name from Kconfig.
    pub(crate) fn default_name() -> &'static CStr {
        CStr::from_bytes_until_nul(bindings::CONFIG_ZSWAP_COMPRESSOR_DEFAULT).unwrap_or_default()
    }

    /// Sets the name to a string that is never freed.
    pub(crate) fn set(&mut self, name: &'static CStr) {
        let place = compressor_param();
        // SAFETY: C frees the old name if a write of the parameter has allocated it. By the
        // invariants, no other task reads or writes such a name. `self` is borrowed mutably, so no
        // result of `name()` is used any more.
        unsafe { bindings::param_free_charp(place.as_ptr().cast()) };
        place.store(name.as_char_ptr().cast_mut(), Relaxed);
    }
}

/// A write of the parameter that names the compressor.
///
/// # Invariants
///
/// The pointer is to the parameter that names the compressor. This task writes the parameter
/// during `'a`, and no other task reads or writes it. No [`CompressorParam`] is used meanwhile.
/// zswap is initialized.
pub(crate) struct CompressorWrite<'a>(*const bindings::kernel_param, PhantomData<&'a mut ()>);

impl FromC<*const bindings::kernel_param> for CompressorWrite<'_> {
    /// # Safety
    ///
    /// `kp` is the parameter that names the compressor. The caller is its writer, and excludes
    /// other writers, readers and [`CompressorParam`]s, while the value is used. zswap is
    /// initialized.
    unsafe fn from_c(kp: *const bindings::kernel_param) -> Self {
        // INVARIANT: As required of the caller, `kp` is the parameter, and only the caller writes
        // and reads it. No `CompressorParam` is used, and zswap is initialized.
        Self(kp, PhantomData)
    }
}

to_c!(&CompressorWrite<'_> => *const bindings::kernel_param = |this| this.0);

c_functions! {
    // C copies the name, because the slab allocator works when zswap is initialized. C frees the
    // old name. There are no references to the old name, because no `CompressorParam` is used. May
    // sleep.
    safe fn set_string(name: &CStr, write: &CompressorWrite<'_>) -> Result = param_set_charp;
}

impl CompressorWrite<'_> {
    /// Changes the name to a copy of `name`. May sleep.
    pub(crate) fn set(self, name: &CStr) -> Result {
        set_string(name, &self)
    }
}

/// Sets up the C part of zswap. Returns `EBUSY` if that was tried before, or `ENOMEM`. May sleep.
pub(crate) fn set_up() -> Result {
    static TRIED: Atomic<bool> = Atomic::new(false);

    if TRIED.xchg(true, Relaxed) {
        return Err(EBUSY);
    }
    // SAFETY: The exchange above returns false only once, so this call runs once.
    to_result(unsafe { bindings::zswap_shim_setup() })
}

c_functions! {
    /// Returns true only if zswap never had a pool. Then no page was ever stored. With
    /// `CONFIG_ZSWAP_DEFAULT_ON`, always returns false.
    pub(crate) safe fn never_enabled() -> bool = zswap_never_enabled;
    /// Records that there is a pool, so that [`never_enabled`] returns false from then on. May
    /// sleep.
    pub(crate) safe fn note_ever_enabled() = zswap_shim_ever_enabled;
    /// Counts pages that were stored, as `zswpout` in /proc/vmstat.
    pub(crate) safe fn count_zswpout(nr: usize) = zswap_count_vm_zswpout;
    /// Prints a decompression error of the page of `entry`, with a rate limit.
    pub(crate) safe fn report_decompress_error(
        entry: SwapEntry, compressor: &CStr, len: u32, result: u32
    ) = zswap_shim_decompress_error;
    /// Prints an event of a pool with `pr_debug()`.
    pub(crate) safe fn report_pool(what: &CStr, compressor: &CStr) = zswap_shim_pool_event;
    /// Queues the work item of the shrink worker. Does nothing before zswap is set up.
    pub(crate) safe fn queue_shrink() = zswap_shim_queue_shrink;
    /// Reschedules if needed. The caller may sleep.
    pub(crate) safe fn cond_resched() = zswap_cond_resched;
    safe fn gfp_has_io_fs(gfp: bindings::gfp_t) -> bool = zswap_gfp_has_io_fs;
}

/// A counter that debugfs shows.
pub(crate) struct DebugfsCounter(Atomic<u64>);

impl DebugfsCounter {
    /// Increments the counter.
    pub(crate) fn inc(&self) {
        self.0.add(1, Relaxed);
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])* pub(crate) static $name: DebugfsCounter = DebugfsCounter(Atomic::new(0));)*

        /// All counters, with the names of their files in debugfs.
        static COUNTERS: &[(&CStr, &DebugfsCounter)] = &[$(($file, &$name)),*];
    };
}

counters! {
    /// Folios that were refused because the pools had reached the size limit
    /// ([`max_pool_percent`]).
    POOL_LIMIT_HIT = c"pool_limit_hit";
    /// Pages that zswap tried to write back, but could not.
    REJECT_RECLAIM_FAIL = c"reject_reclaim_fail";
    /// Pages that could not be stored for lack of memory in zsmalloc.
    REJECT_ALLOC_FAIL = c"reject_alloc_fail";
    /// Pages that could not be stored for lack of memory for a table or a member of a ring.
    REJECT_KMEMCACHE_FAIL = c"reject_kmemcache_fail";
    /// Pages that the compressor failed on or did not make smaller, and that may not be stored
    /// uncompressed, or for which the CPU has no compression context.
    REJECT_COMPRESS_FAIL = c"reject_compress_fail";
    /// Pages for which the compressor returned `ENOSPC`, and that may not be stored uncompressed,
    /// or for which zsmalloc returned `ENOSPC`.
    REJECT_COMPRESS_POOR = c"reject_compress_poor";
    /// Pages that could not be decompressed.
    DECOMPRESS_FAIL = c"decompress_fail";
    /// Pages whose writeback was begun.
    WRITTEN_BACK_PAGES = c"written_back_pages";
    /// Requests to devices for the writeback of pages.
    WRITTEN_BACK_REQUESTS = c"written_back_requests";
}

/// Switches for tests, in debugfs.
#[cfg(CONFIG_RUST_ZSWAP_TEST_HOOKS)]
mod hooks {
    use super::*;

    /// How many more compressed pages are stored with only half of their data, to corrupt them.
    pub(crate) static CORRUPT_STORES: Atomic<u32> = Atomic::new(0);
    /// If not 0, the shrink worker writes back one page and stops.
    pub(crate) static WORKER_ONCE: Atomic<u32> = Atomic::new(0);
}

/// The files in debugfs, which are never removed.
static FILES: SetOnce<Pin<KBox<debugfs::Scope<()>>>> = SetOnce::new();

/// Creates the files in debugfs. Returns `ENOMEM` if there is no memory. May sleep.
pub(crate) fn show() -> Result {
    type FmtOut<'a, 'b> = &'a mut fmt::Formatter<'b>;

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
            dir.read_callback_file(c"pool_total_size", &(), &|(), out: FmtOut<'_, '_>| {
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

/// Returns how many of the `len` bytes of a compressed page to store. The result is less than
/// `len` if a test corrupts the page.
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

/// Returns true if a test wants the shrink worker to stop after one page.
#[inline]
pub(crate) fn worker_once() -> bool {
    #[cfg(CONFIG_RUST_ZSWAP_TEST_HOOKS)]
    return hooks::WORKER_ONCE.load(Relaxed) != 0;
    #[cfg(not(CONFIG_RUST_ZSWAP_TEST_HOOKS))]
    false
}

/// The `struct shrink_control` that reclaim passes to zswap's shrinker.
pub(crate) struct ShrinkControl<'a> {
    raw: &'a mut bindings::shrink_control,
    /// The memory cgroup to reclaim from.
    pub(crate) memcg: Memcg<'a>,
    /// The NUMA node to reclaim from.
    pub(crate) node: Node,
}

impl FromC<*mut bindings::shrink_control> for ShrinkControl<'_> {
    /// # Safety
    ///
    /// `sc` is the argument of a shrinker callback. Until the callback returns, only the exported
    /// Rust function that it calls uses `sc`. The cgroup in `sc` is `NULL` or is not freed
    /// meanwhile, and the node in `sc` is a possible node.
    unsafe fn from_c(sc: *mut bindings::shrink_control) -> Self {
        // SAFETY: As required of the caller, `sc` is valid, and only the exported function uses
        // it. Its cgroup is `NULL` or is not freed meanwhile, and its node is possible.
        unsafe {
            let raw = &mut *sc;
            Self {
                memcg: Memcg::from_c(raw.memcg),
                node: Node::from_c(raw.nid),
                raw,
            }
        }
    }
}

impl ShrinkControl<'_> {
    /// Returns true if reclaim may do I/O and enter file systems.
    pub(crate) fn may_do_io(&self) -> bool {
        gfp_has_io_fs(self.raw.gfp_mask)
    }

    /// Returns the number of pages to scan.
    pub(crate) fn nr_to_scan(&self) -> usize {
        self.raw.nr_to_scan
    }

    /// Sets the number of pages to scan. After a scan, this is how many pages it has left over.
    pub(crate) fn set_nr_to_scan(&mut self, nr: usize) {
        self.raw.nr_to_scan = nr;
    }

    /// Sets the number of scanned pages to 0.
    pub(crate) fn none_scanned(&mut self) {
        self.raw.nr_scanned = 0;
    }
}
