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
    ffi::{
        c_int,
        c_uint,
        c_ulong,
        c_ushort, //
    }, //
};

/// Declares functions that call tracepoints. A tracepoint only gets numbers, so any values may be
/// passed to it.
macro_rules! tracepoints {
    ($(
        $(#[$meta:meta])*
        $vis:vis safe fn $name:ident($($arg:ident: $ty:ident),*) = $c:ident;
    )*) => {
        mod c {
            use kernel::ffi::*;

            kernel::declare_trace! {$(
                /// # Safety
                ///
                /// Nothing is required: the arguments are numbers.
                pub(super) unsafe fn $c($($arg: $ty),*);
            )*}
        }

        $($(#[$meta])*
        #[inline]
        $vis fn $name($($arg: $ty),*) {
            // SAFETY: Nothing is required: the arguments are numbers.
            unsafe { c::$c($($arg),*) };
        })*
    };
}

tracepoints! {
    /// Traces that a folio was given virtual slots.
    pub(crate) safe fn alloc(offset: c_ulong, nr: c_uint, id: c_ushort) = vswap_alloc;
    safe fn written(nr: c_uint, pages: c_uint, requests: c_uint) = vswap_writeback;
    safe fn stored(ty: c_uint, offset: c_ulong, len: c_uint) = vswap_store;
    safe fn loaded(ty: c_uint, offset: c_ulong, nr: c_uint, error: c_int) = vswap_load;
    safe fn backed(offset: c_ulong, nr: c_uint, to: c_uint, ty: c_uint, slot: c_uint) = vswap_move;
}

/// Traces that zswap has stored a page.
#[inline]
pub(crate) fn store(slot: SwapEntry, len: u32) {
    stored(slot.ty() as c_uint, slot.offset(), len);
}

/// Traces the result of loading `nr` pages from zswap.
#[inline]
pub(crate) fn load(first: SwapEntry, nr: usize, result: Result) {
    let error = result.map_or_else(|error| error.to_errno(), |()| 0);
    loaded(first.ty() as c_uint, first.offset(), nr as c_uint, error);
}

/// The new backing of virtual slots.
pub(crate) enum MovedTo {
    /// No backing: only the folio in the swap cache has the data.
    Memory,
    /// No backing: the pages are all zeros, or look so when they get slots.
    Zeros,
    /// Device slots, of which this is the first.
    Device(PhysSlot),
}

/// Traces that the backing of virtual slots has changed.
#[inline]
pub(crate) fn moved(offset: usize, nr: u32, to: MovedTo) {
    let (to, ty, slot) = match to {
        MovedTo::Memory => (bindings::VSWAP_TO_MEMORY, 0, 0),
        MovedTo::Zeros => (bindings::VSWAP_TO_ZEROS, 0, 0),
        MovedTo::Device(slot) => (bindings::VSWAP_TO_DEVICE, slot.ty().into(), slot.offset()),
    };
    backed(offset, nr, to, ty, slot);
}

/// Traces that zswap has tried to write back a run of `nr` pages. It has written `pages` of them,
/// with `requests` requests to devices.
#[inline]
pub(crate) fn writeback(nr: usize, pages: usize, requests: u32) {
    written(nr as c_uint, pages as c_uint, requests);
}
