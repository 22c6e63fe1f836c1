// SPDX-License-Identifier: GPL-2.0

//! The functions that C calls: [`include/linux/zswap.h`](srctree/include/linux/zswap.h) for the
//! kernel, and [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h) for the C part of zswap.
//!
//! Each function gets its arguments as types, and calls safe code.

#[cfg(CONFIG_RUST_VSWAP)]
use crate::ffi::trace;
use crate::{
    ffi::{
        folio::{
            Folio,
            ReadFolio,
            SwapEntry,
            SwapFolio, //
        },
        memcg::{
            Cursor,
            Memcg, //
        },
        params::{
            self,
            ShrinkControl, //
        }, //
    },
    zswap::{
        limits,
        load,
        pool::{
            self,
            Pool, //
        },
        ring::Ring,
        rules::NameChange,
        setup,
        shrink,
        store,
        table::LockedTable, //
    }, //
};
use core::ffi::CStr;
use kernel::{
    bindings,
    cpu::CpuId,
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::Relaxed,
        rcu, //
    }, //
};

c_exports! {
    /// Stores the pages of a folio. Returns true if all of them were.
    fn zswap_store(folio: Option<SwapFolio<'_>> = *mut bindings::folio) -> bool {
        folio.is_some_and(|mut folio| store::store(&mut folio))
    }

    /// Loads a folio, and unlocks it, unless zswap does not have it (`-ENOENT`).
    fn zswap_rs_load(folio: Option<ReadFolio<'_>> = *mut bindings::folio) -> c_int {
        from_result(|| {
            let mut folio = folio.ok_or(ENOENT)?;
            let (first, nr) = (folio.lend().first_slot().entry(), folio.nr_pages());
            let result = load::load(folio).unwrap_or(Err(ENOENT));
            #[cfg(CONFIG_RUST_VSWAP)]
            trace::load(first, nr, result);
            let _ = (first, nr);
            result.map(|()| 0)
        })
    }

    /// Frees what is stored of slots. They are being freed, and their ids are still recorded; or
    /// the caller has locked the folio that the swap cache has for them.
    fn __zswap_free_slots(
        table: Option<LockedTable<'_>> = *mut bindings::swap_cluster_info,
        entry: SwapEntry = bindings::swp_entry_t,
        nr: u32 = c_uint
    ) {
        if let Some(mut table) = table {
            // SAFETY: The caller alone has the right to the slots, because it frees them, or has
            // locked their folio.
            unsafe { table.free_slots(entry, nr) };
        }
    }

    /// Lets go of a cgroup, which is going offline.
    fn zswap_memcg_offline_cleanup(memcg: Memcg<'_> = *mut bindings::mem_cgroup) {
        Cursor::leave(memcg);
        Ring::leave(memcg);
    }

    /// Notes that a folio was read from a device.
    fn zswap_folio_swapin(folio: Option<&Folio> = *mut bindings::folio) {
        let rcu = rcu::read_lock();
        if let Some(ring) = folio.and_then(|folio| Ring::of_folio(folio, &rcu)) {
            ring.disk_swapins().add(1, Relaxed);
        }
    }

    /// Returns what a write to the compressor parameter means: 0 nothing, positive a switch,
    /// `-EAGAIN` only that the name changes. Caller is the writer of the parameter, and holds
    /// `zswap_init_lock`.
    fn zswap_rs_compressor_check(name: &CStr = *const c_char) -> c_int {
        // SAFETY: The caller is the writer of the parameter.
        let compressor = unsafe { params::Compressor::exclusive() };
        match setup::check_compressor(compressor.name() == name) {
            NameChange::Note => EAGAIN.to_errno(),
            NameChange::Keep => 0,
            NameChange::Switch => 1,
            NameChange::Refuse => ENODEV.to_errno(),
        }
    }

    /// Switches to another compressor. Caller is the writer of the parameter, which is `kp`.
    fn zswap_rs_compressor_switch(
        name: &CStr = *const c_char,
        kp: *const bindings::kernel_param = *const bindings::kernel_param
    ) -> c_int {
        // SAFETY: `kp` is the parameter, and `name` a string.
        let commit = || to_result(unsafe { bindings::param_set_charp(name.as_char_ptr(), kp) });
        from_result(|| limits::switch_compressor(name, commit).map(|()| 0))
    }

    /// Prepares a pool for a CPU: the callback of the CPU hotplug state that pools are added to.
    fn zswap_rs_cpu_prepare(
        cpu: u32 = c_uint,
        pool: &Pool = *mut bindings::hlist_node
    ) -> c_int {
        from_result(|| {
            pool.prepare(CpuId::from_u32(cpu).ok_or(EINVAL)?)?;
            Ok(0)
        })
    }

    /// Returns how many pages memory pressure may write back.
    fn zswap_rs_shrinker_count(
        control: ShrinkControl<'_> = *mut bindings::shrink_control
    ) -> c_ulong {
        shrink::count(&control)
    }

    /// Writes pages back under memory pressure.
    fn zswap_rs_shrinker_scan(
        control: ShrinkControl<'_> = *mut bindings::shrink_control
    ) -> c_ulong {
        let mut control = control;
        // `SHRINK_STOP`
        shrink::scan(&mut control).unwrap_or(c_ulong::MAX)
    }
}

/// Returns the pages that all pools take.
#[export]
extern "C" fn zswap_total_pages() -> c_ulong {
    pool::total_pages()
}

/// Shrinks until the pool can accept again.
#[export]
extern "C" fn zswap_rs_shrink_worker() {
    shrink::worker();
}

/// Initializes zswap.
///
/// # Safety
///
/// The caller holds `zswap_init_lock`, and calls once.
#[export]
unsafe extern "C" fn zswap_rs_setup() -> c_int {
    // SAFETY: Until zswap is initialized, writers of the parameter only change it with
    // `zswap_init_lock`, which the caller holds.
    let mut compressor = unsafe { params::Compressor::exclusive() };
    // SAFETY: Once, as required of the caller.
    let prepare = || to_result(unsafe { bindings::zswap_shim_setup() });
    from_result(|| {
        setup::initialize(prepare, &mut compressor)?;
        Ok(0)
    })
}

/// Returns 0 if zswap can be turned on. Initializes it if that was not tried.
///
/// # Safety
///
/// The caller holds `zswap_init_lock`.
#[export]
unsafe extern "C" fn zswap_rs_may_enable() -> c_int {
    from_result(|| {
        // SAFETY: As required of the caller; `may_enable()` calls at most once.
        setup::may_enable(|| to_result(unsafe { zswap_rs_setup() }))?;
        Ok(0)
    })
}
