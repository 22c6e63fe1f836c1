// SPDX-License-Identifier: GPL-2.0

//! Tracepoints.
//!
//! C header: [`include/trace/events/vswap.h`](srctree/include/trace/events/vswap.h).

use crate::{
    ffi::folio::SwapEntry,
    vswap::swap_table::PhysSlot, //
};
use kernel::{
    bindings,
    error::Result,
    ffi::c_uint, //
};

mod c {
    use kernel::ffi::{
        c_int,
        c_uint,
        c_ulong,
        c_ushort, //
    };

    kernel::declare_trace! {
        /// # Safety
        ///
        /// Always safe to call.
        pub(crate) unsafe fn vswap_alloc(offset: c_ulong, nr: c_uint, memcg_id: c_ushort);
        /// # Safety
        ///
        /// Always safe to call.
        pub(crate) unsafe fn vswap_store(ty: c_uint, offset: c_ulong, len: c_uint);
        /// # Safety
        ///
        /// Always safe to call.
        pub(crate) unsafe fn vswap_load(ty: c_uint, offset: c_ulong, nr: c_uint, error: c_int);
        /// # Safety
        ///
        /// Always safe to call.
        pub(crate) unsafe fn vswap_move(
            offset: c_ulong, nr: c_uint, to: c_uint, ty: c_uint, slot: c_uint
        );
        /// # Safety
        ///
        /// Always safe to call.
        pub(crate) unsafe fn vswap_writeback(nr: c_uint, pages: c_uint, requests: c_uint);
    }
}

/// Traces that a folio was given virtual slots.
#[inline]
pub(crate) fn alloc(offset: usize, nr: u32, id: u16) {
    // SAFETY: Always safe to call: the arguments are numbers.
    unsafe { c::vswap_alloc(offset, nr, id) };
}

/// Traces that zswap has stored a page.
#[inline]
pub(crate) fn store(slot: SwapEntry, len: u32) {
    // SAFETY: Always safe to call: the arguments are numbers.
    unsafe { c::vswap_store(slot.ty() as c_uint, slot.offset(), len) };
}

/// Traces that zswap has loaded `nr` pages, or has failed to.
#[inline]
pub(crate) fn load(first: SwapEntry, nr: usize, result: Result) {
    let error = result.map_or_else(|error| error.to_errno(), |()| 0);
    // SAFETY: Always safe to call: the arguments are numbers.
    unsafe { c::vswap_load(first.ty() as c_uint, first.offset(), nr as c_uint, error) };
}

/// The new backing of virtual slots.
pub(crate) enum To {
    /// None: the pages are only in memory.
    Memory,
    /// None: the pages are all zeros.
    Zeros,
    /// Device slots, from this one on.
    Device(PhysSlot),
}

/// Traces that the backing of virtual slots has changed.
#[inline]
pub(crate) fn moved(offset: usize, nr: u32, to: To) {
    let (to, ty, slot) = match to {
        To::Memory => (bindings::VSWAP_TO_MEMORY, 0, 0),
        To::Zeros => (bindings::VSWAP_TO_ZEROS, 0, 0),
        To::Device(slot) => (bindings::VSWAP_TO_DEVICE, slot.ty().into(), slot.offset()),
    };
    // SAFETY: Always safe to call: the arguments are numbers.
    unsafe { c::vswap_move(offset, nr, to, ty, slot) };
}

/// Traces that zswap has written back `pages` entries of a run of `nr`.
#[inline]
pub(crate) fn writeback(nr: usize, pages: usize, requests: u32) {
    // SAFETY: Always safe to call: the arguments are numbers.
    unsafe { c::vswap_writeback(nr as c_uint, pages as c_uint, requests) };
}
