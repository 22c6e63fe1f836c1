// SPDX-License-Identifier: GPL-2.0

//! Wrappers of C for the tests of virtual slots.
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::NotThreadSafe, //
};

/// Sets the layer up, unless it is, and leaves it switched as it is. May sleep.
pub(crate) fn setup() -> Result {
    // SAFETY: No requirements: it takes the lock of those who switch the layer.
    to_result(unsafe { bindings::vswap_kunit_setup() })
}

/// This task stays on its CPU until the value is dropped.
#[must_use]
pub(crate) struct Pinned(NotThreadSafe);

impl Pinned {
    pub(crate) fn new() -> Self {
        // SAFETY: Undone below, by the same task.
        unsafe { bindings::vswap_migrate_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: Done in `new()`.
        unsafe { bindings::vswap_migrate_enable() };
    }
}
