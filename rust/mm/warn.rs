// SPDX-License-Identifier: GPL-2.0

//! Warnings about broken invariants that are printed once, because they could recur often.

#![forbid(unsafe_code)]

/// As `warn_on!`, but warns the first time only. Evaluates to the condition.
macro_rules! warn_on_once {
    ($cond:expr) => {{
        static WARNED: ::kernel::sync::atomic::Atomic<bool> =
            ::kernel::sync::atomic::Atomic::new(false);
        let cond: bool = $cond;
        if cond && !WARNED.xchg(true, ::kernel::sync::atomic::Relaxed) {
            ::kernel::warn_on!(true);
        }
        cond
    }};
}
pub(crate) use warn_on_once;
