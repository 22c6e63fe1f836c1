// SPDX-License-Identifier: GPL-2.0

//! Wrappers of C functions for the tests of virtual slots.
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::NotThreadSafe, //
};

/// Sets vswap up, unless that was done, without changing its mode. May sleep.
pub(crate) fn setup() -> Result {
    // SAFETY: No requirements. C takes the lock that changes of the mode take.
    to_result(unsafe { bindings::vswap_kunit_setup() })
}

/// Keeps this task on its CPU until the value is dropped.
#[must_use]
pub(crate) struct Pinned(NotThreadSafe);

impl Pinned {
    pub(crate) fn new() -> Self {
        // SAFETY: `drop()` undoes this, in the same task, because the type is not `Send`.
        unsafe { bindings::vswap_migrate_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: `new()` has disabled migration, in the same task.
        unsafe { bindings::vswap_migrate_enable() };
    }
}
