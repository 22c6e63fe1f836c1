// SPDX-License-Identifier: GPL-2.0

//! What C calls: [`include/linux/zswap.h`](srctree/include/linux/zswap.h) for the kernel, and
//! [`mm/zswap_shim.h`](srctree/mm/zswap_shim.h) for our own C.
//!
//! Each function turns the promises of its C caller into types, and calls safe code.

#[cfg(CONFIG_RUST_VSWAP)]
use super::trace;
use super::{
    folio::{
        ReadFolio,
        SwapEntry,
        SwapFolio, //
    },
    memcg::Memcg,
    params::{
        self,
        ShrinkControl, //
    },
    pool,
    ring::Ring,
    table, //
};
use crate::zswap::{
    load,
    pool as pools,
    setup,
    shrink,
    store, //
};
use core::{
    ffi::CStr,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu, //
    }, //
};

/// Stores the pages of a folio: `true` if all of them were.
///
/// # Safety
///
/// The folio is locked by the caller, and in the swap cache.
#[export]
unsafe extern "C" fn zswap_store(folio: *mut bindings::folio) -> bool {
    let Some(folio) = NonNull::new(folio) else {
        return false;
    };
    // SAFETY: As required of the caller.
    store::store(&mut unsafe { SwapFolio::from_raw(folio) })
}

/// Loads a folio, and unlocks it, unless it is not here (`-ENOENT`).
///
/// # Safety
///
/// The folio is locked by the caller, and in the swap cache.
#[export]
unsafe extern "C" fn zswap_rs_load(folio: *mut bindings::folio) -> c_int {
    let Some(folio) = NonNull::new(folio) else {
        return ENOENT.to_errno();
    };
    // SAFETY: As required of the caller.
    let mut folio = unsafe { ReadFolio::from_raw(folio) };
    #[cfg(CONFIG_RUST_VSWAP)]
    let result = {
        let first = folio.first_slot().entry();
        let nr = folio.nr_pages();
        let result = load::load(folio);
        trace::load(first, nr, result);
        result
    };
    #[cfg(not(CONFIG_RUST_VSWAP))]
    let result = load::load(folio);
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Frees what is stored of slots.
///
/// # Safety
///
/// The lock of their cluster, which has a table, is held. The slots are being freed, and their ids
/// are still there; or the folio that the swap cache has for them is locked by the caller.
#[export]
unsafe extern "C" fn __zswap_free_slots(
    ci: *mut bindings::swap_cluster_info,
    entry: bindings::swp_entry_t,
    nr: c_uint,
) {
    if let Some(ci) = NonNull::new(ci) {
        // SAFETY: As required of the caller.
        unsafe { table::free_slots(ci, SwapEntry::from_raw(entry), nr) };
    }
}

/// The pages that all pools take.
#[export]
extern "C" fn zswap_total_pages() -> c_ulong {
    pool::total_pages()
}

/// Lets go of a cgroup.
///
/// # Safety
///
/// The cgroup is going offline.
#[export]
unsafe extern "C" fn zswap_memcg_offline_cleanup(memcg: *mut bindings::mem_cgroup) {
    // SAFETY: As required of the caller.
    let memcg = unsafe { Memcg::from_raw(memcg) };
    super::memcg::Cursor::leave(memcg);
    Ring::leave(memcg);
}

/// Notes that a folio was read from a device.
///
/// # Safety
///
/// The folio is NULL, or stays, and does not change its cgroup.
#[export]
unsafe extern "C" fn zswap_folio_swapin(folio: *mut bindings::folio) {
    if folio.is_null() {
        return;
    }
    let _rcu = rcu::read_lock();
    // SAFETY: As required of the caller; RCU keeps the cgroup, which the lruvec is in. The counter
    // is accessed atomically only.
    unsafe {
        let counter = bindings::zswap_folio_disk_swapins(folio);
        Atomic::<i64>::from_ptr(&raw mut (*counter).counter).add(1, Relaxed);
    }
}

/// Initializes zswap.
///
/// # Safety
///
/// The caller holds `zswap_init_lock`, and calls once.
#[export]
unsafe extern "C" fn zswap_rs_setup() -> c_int {
    from_result(|| {
        setup::initialize(
            // SAFETY: Once, as required of the caller.
            || to_result(unsafe { bindings::zswap_shim_setup() }),
            || {
                // SAFETY: Until zswap is initialized, which is what we do, writers of the parameter
                // only change it with `zswap_init_lock`, which the caller holds.
                unsafe {
                    params::compressor_usable().then(|| params::with_compressor(pool::Pool::create))
                }
            },
        )?;
        // SAFETY: No requirements.
        unsafe { bindings::zswap_shim_debugfs_init() };
        Ok(0)
    })
}

/// Whether zswap can be turned on, initializing it if need be.
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

/// What a write to the compressor parameter means: 0 nothing, positive a switch, `-EAGAIN` only
/// that the name changes.
///
/// # Safety
///
/// `name` is a string; the caller is the writer of the parameter and holds `zswap_init_lock`.
#[export]
unsafe extern "C" fn zswap_rs_compressor_check(name: *const c_char) -> c_int {
    // SAFETY: As required of the caller.
    let same = unsafe {
        let name = CStr::from_char_ptr(name);
        params::with_compressor(|current| current == name)
    };
    setup::check_compressor(same)
}

/// Switches to another compressor.
///
/// # Safety
///
/// `name` is a string; `kp` the compressor parameter, whose writer the caller is.
#[export]
unsafe extern "C" fn zswap_rs_compressor_switch(
    name: *const c_char,
    kp: *const bindings::kernel_param,
) -> c_int {
    // SAFETY: As required of the caller.
    let new = unsafe { CStr::from_char_ptr(name) };
    // SAFETY: As required of the caller.
    let commit = || to_result(unsafe { bindings::param_set_charp(name, kp) });
    from_result(|| pools::switch_compressor(new, commit).map(|()| 0))
}

/// Prepares a pool for a CPU.
///
/// # Safety
///
/// Is the callback of the CPU hotplug state that pools are added to.
#[export]
unsafe extern "C" fn zswap_rs_cpu_prepare(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    // SAFETY: As required of the caller.
    unsafe { pool::cpu_prepare(cpu, node) }
}

/// Shrinks until the pool can accept again.
#[export]
extern "C" fn zswap_rs_shrink_worker() {
    shrink::worker();
}

/// How many entries memory pressure may write back.
///
/// # Safety
///
/// `sc` is valid.
#[export]
unsafe extern "C" fn zswap_rs_shrinker_count(sc: *mut bindings::shrink_control) -> c_ulong {
    // SAFETY: As required of the caller.
    shrink::count(&unsafe { ShrinkControl::from_raw(sc) })
}

/// Writes entries back under memory pressure.
///
/// # Safety
///
/// `sc` is valid.
#[export]
unsafe extern "C" fn zswap_rs_shrinker_scan(sc: *mut bindings::shrink_control) -> c_ulong {
    // SAFETY: As required of the caller.
    match shrink::scan(&mut unsafe { ShrinkControl::from_raw(sc) }) {
        Some(nr) => nr,
        // `SHRINK_STOP`
        None => c_ulong::MAX,
    }
}
