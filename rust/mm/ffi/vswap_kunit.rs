// SPDX-License-Identifier: GPL-2.0

//! What the tests of virtual slots need from C.
//!
//! C header: [`mm/vswap.h`](srctree/mm/vswap.h).

use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// Sets the layer up, unless it is, and leaves it switched as it is. May sleep.
pub(crate) fn setup() -> Result {
    // SAFETY: No requirements: it takes the lock of those who switch the layer.
    to_result(unsafe { bindings::vswap_kunit_setup() })
}
