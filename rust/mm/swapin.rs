// SPDX-License-Identifier: GPL-2.0

//! Swap-in.
//!
//! - [`policy`]: decides whether a page comes in alone, in a large folio, or by readahead. Pure.
//! - `plan`: gathers the evidence for the policy, and returns a plan that C follows.
//! - `locate`: finds out where the data of an entry is.

#![forbid(unsafe_code)]

pub(crate) mod locate;
pub(crate) mod plan;
pub mod policy;
