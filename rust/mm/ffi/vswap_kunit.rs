// SPDX-License-Identifier: GPL-2.0

//! Wrappers of C functions for the tests of virtual slots.
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

use crate::vswap::capacity::set_default_max_slots;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::NotThreadSafe, //
};

/// Sets virtual swap up, unless that was done before, without enabling it. Restores the default of
/// `max_slots`. May sleep.
pub(crate) fn setup() -> Result {
    // SAFETY: C takes `vswap_mutex`, which `vswap_rs_set_max()` requires, because it serializes
    // the setup and changes of the mode.
    to_result(unsafe { bindings::vswap_change(Some(bindings::vswap_rs_set_max), usize::MAX) })?;
    set_default_max_slots();
    Ok(())
}

/// Keeps this task from moving to another CPU until the value is dropped.
#[must_use]
pub(crate) struct MigrateDisabled(NotThreadSafe);

impl MigrateDisabled {
    pub(crate) fn new() -> Self {
        // SAFETY: `drop()` undoes this, in the same task, because the type is not `Send`.
        unsafe { bindings::vswap_migrate_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for MigrateDisabled {
    fn drop(&mut self) {
        // SAFETY: `new()` has disabled migration, in the same task.
        unsafe { bindings::vswap_migrate_enable() };
    }
}

/// The right of a test to put page frame numbers into swap table words without having a folio.
///
/// # Invariants
///
/// As long as a word has a page frame number that the test made up, no other task looks up the
/// slot of the word.
#[derive(Clone, Copy)]
pub(crate) struct MadeUp(());

impl MadeUp {
    /// Creates the value for a test.
    ///
    /// # Safety
    ///
    /// The slots whose words the caller changes with the value are in use. Only the caller uses
    /// these slots, until no word has a made-up page frame number any more.
    pub(crate) unsafe fn new() -> Self {
        // INVARIANT: As required of the caller, no other task looks up the slots.
        Self(())
    }
}
