// SPDX-License-Identifier: GPL-2.0

//! Swap-in: plans how a swapped-out page is read.
//!
//! - [`policy`]: pure functions, which decide whether a page is swapped in alone, in a large
//!   folio, or by readahead.
//! - `plan`: gathers the evidence for the policy, and returns a plan that C follows.
//! - `locate`: finds where the data of a swap entry is.

#![forbid(unsafe_code)]

pub(crate) mod locate;
pub(crate) mod plan;
pub mod policy;
