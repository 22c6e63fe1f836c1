// SPDX-License-Identifier: GPL-2.0

//! A warning about a state that only a bug or corrupt memory causes. Each place in the code warns
//! only once, because such a state may recur often.

#![forbid(unsafe_code)]

/// Warns like `warn_on!` if the condition is true, but only the first time at this place in the
/// code. Evaluates to the condition.
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
