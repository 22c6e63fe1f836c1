// SPDX-License-Identifier: GPL-2.0

//! The functions of zswap that C calls. [`include/linux/zswap.h`](srctree/include/linux/zswap.h)
//! declares the functions for other code of mm, and [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h)
//! the functions for zswap's own C code.
//!
//! A function converts its arguments to types whose contracts say what the C caller guarantees,
//! such as a locked folio. Then it calls code of other files.

#[cfg(CONFIG_RUST_VSWAP)]
use crate::ffi::trace;
use crate::{
    ffi::{
        folio::{
            Folio,
            ReadRequest,
            SwapEntry,
            SwapFolio, //
        },
        memcg::Cursor,
        params::{
            CompressorParam,
            CompressorWrite,
            ShrinkControl, //
        }, //
    },
    zswap::{
        limits,
        load,
        pool::{
            self,
            FreeBatch,
            Pool, //
        },
        ring::{
            OfflineMemcg,
            Ring, //
        },
        rules::NameChange,
        setup,
        shrink,
        store,
        table::LockedCi, //
    }, //
};
use core::ffi::CStr;
use kernel::{
    bindings,
    cpu::CpuId,
    error::from_result,
    prelude::*,
    sync::{
        atomic::Relaxed,
        rcu, //
    }, //
};

c_exports! {
    /// Stores the pages of a folio. Returns true if all pages were stored. Otherwise zswap has
    /// none of them afterwards, not even older copies. May sleep.
    fn zswap_store(folio: Option<SwapFolio<'_>> = *mut bindings::folio) -> bool {
        folio.is_some_and(|mut folio| store::store(&mut folio))
    }

    /// Loads a folio from zswap, unlocks the folio and returns 0. Returns `-ENOENT`, and leaves
    /// the folio locked, if zswap does not have its pages. If they cannot be read, unlocks the
    /// folio and returns `-EIO`.
    fn zswap_rs_load(folio: Option<ReadRequest<'_>> = *mut bindings::folio) -> c_int {
        let Some(mut request) = folio else {
            return ENOENT.to_errno();
        };
        let mut folio = request.lend();
        let (first, nr) = (folio.lend().first_slot().entry(), folio.nr_pages());
        let result = load::load(&mut folio);
        let errno = request.end(result);
        #[cfg(CONFIG_RUST_VSWAP)]
        trace::load(first, nr, result);
        let _ = (first, nr);
        errno
    }

    /// Frees the zswap entries of `nr` slots, from `entry` on, which are all in the cluster. The
    /// caller either frees the slots next, while their memory cgroup ids are still recorded, or
    /// has locked the folio that the swap cache has for them. No I/O uses their device slots.
    fn __zswap_free_slots(
        table: Option<LockedCi<'_>> = *mut bindings::swap_cluster_info,
        entry: SwapEntry = bindings::swp_entry_t,
        nr: u32 = c_uint
    ) {
        if let Some(table) = table {
            // SAFETY: As required of the caller, `entry` and the entries after it name slots of
            // the cluster, which is locked, and no I/O uses their device slots. The caller alone
            // has the right to the slots (see `ffi::folio`), because it frees them, or has locked
            // their folio.
            unsafe { table.free_slots(entry, nr, &mut FreeBatch::new()) };
        }
    }

    /// Moves the cursor of the shrink worker to another cgroup if it is at a cgroup that goes
    /// offline. Moves the members of the rings of that cgroup to rings of its ancestors. The rings
    /// have the order of writeback of its pages (see `zswap/order.rs`).
    fn zswap_memcg_offline_cleanup(memcg: OfflineMemcg<'_> = *mut bindings::mem_cgroup) {
        Cursor::leave(memcg.memcg());
        // Dropping `memcg` moves the members.
    }

    /// Counts a folio that is read from a device, so that the shrinker leaves one more page of the
    /// same cgroup and node in zswap.
    fn zswap_folio_swapin(folio: Option<&Folio> = *mut bindings::folio) {
        let rcu = rcu::read_lock();
        if let Some(ring) = folio.and_then(|folio| Ring::of_folio(folio, &rcu)) {
            ring.disk_swapins().add(1, Relaxed);
        }
    }

    /// Returns what a write to the compressor parameter requires: 0 for nothing, 1 for a switch of
    /// the compressor, or `-EAGAIN` for a change of the name alone, before zswap is initialized.
    /// Returns `-ENODEV` if the write must fail, because the initialization has failed.
    ///
    /// The caller is a writer of the parameter and holds `kernel_param_lock()`, so there is no
    /// other writer and no reader. It holds `zswap_init_lock`, so there is no other
    /// `CompressorParam`.
    fn zswap_rs_compressor_check(
        name: &CStr = *const c_char
    ) given(compressor: CompressorParam<'_>) -> c_int {
        match setup::check_compressor(compressor.name() == name) {
            NameChange::Note => EAGAIN.to_errno(),
            NameChange::Keep => 0,
            NameChange::Switch => 1,
            NameChange::Refuse => ENODEV.to_errno(),
        }
    }

    /// Switches to another compressor, and sets the parameter. Returns 0, `-ENOENT` if the
    /// compressor does not exist, or another error. May sleep. The caller is a writer of the
    /// parameter, so there is no other writer and no reader. zswap is initialized, so there is no
    /// `CompressorParam`.
    fn zswap_rs_compressor_switch(
        name: &CStr = *const c_char,
        kp: CompressorWrite<'_> = *const bindings::kernel_param
    ) -> c_int {
        from_result(|| limits::switch_compressor(name, || kp.set(name)).map(|()| 0))
    }

    /// Initializes zswap at boot. The caller calls this once, and not after
    /// [`zswap_rs_may_enable`] has initialized zswap.
    ///
    /// The caller holds `zswap_init_lock`, so there is no other `CompressorParam`, and no writer
    /// changes the compressor parameter before zswap is initialized. There are no readers of an
    /// allocated name: either the caller is a writer of a parameter, or no write has changed the
    /// compressor parameter since the command line was parsed, so that its name was not allocated.
    fn zswap_rs_setup() given(compressor: CompressorParam<'_>) -> c_int {
        let mut compressor = compressor;
        from_result(|| {
            setup::initialize(&mut compressor)?;
            Ok(0)
        })
    }

    /// Returns 0 if zswap can be enabled, or `-ENODEV` if its initialization failed or it has no
    /// pool. Initializes zswap first if that was not tried before. The caller is a writer of a
    /// parameter, and holds `zswap_init_lock`.
    fn zswap_rs_may_enable() given(compressor: CompressorParam<'_>) -> c_int {
        let mut compressor = compressor;
        from_result(|| {
            setup::may_enable(&mut compressor)?;
            Ok(0)
        })
    }

    /// Creates the compression context of a CPU in a pool, unless it exists already. Returns 0 or
    /// a negative error number. May sleep. This is the callback of the CPU hotplug state that
    /// pools are added to.
    fn zswap_rs_cpu_prepare(
        cpu: u32 = c_uint,
        pool: &Pool = *mut bindings::hlist_node
    ) -> c_int {
        from_result(|| {
            pool.prepare(CpuId::from_u32(cpu).ok_or(EINVAL)?)?;
            Ok(0)
        })
    }

    /// Returns how many pages the shrinker may write back, at most; 0 if it may write back none.
    fn zswap_rs_shrinker_count(
        _shrinker: *mut bindings::shrinker = *mut bindings::shrinker,
        control: ShrinkControl<'_> = *mut bindings::shrink_control
    ) -> c_ulong {
        shrink::count(&control)
    }

    /// Writes pages back under memory pressure. Returns how many, or `SHRINK_STOP`. May sleep.
    fn zswap_rs_shrinker_scan(
        _shrinker: *mut bindings::shrinker = *mut bindings::shrinker,
        control: ShrinkControl<'_> = *mut bindings::shrink_control
    ) -> c_ulong {
        let mut control = control;
        // `c_ulong::MAX` is the value of `SHRINK_STOP`.
        shrink::scan(&mut control).unwrap_or(c_ulong::MAX)
    }
}

/// Returns the number of pages of memory that all pools use.
#[export]
extern "C" fn zswap_total_pages() -> c_ulong {
    pool::total_pages()
}

/// Writes pages back until the pools have shrunk to the accept threshold, or until no page can be
/// written back. This is the function of a work item.
#[export]
extern "C" fn zswap_rs_shrink_worker(_work: *mut bindings::work_struct) {
    shrink::worker();
}
