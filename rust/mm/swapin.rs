// SPDX-License-Identifier: GPL-2.0

//! Swap-in.
//!
//! - [`policy`]: decides whether a page comes in alone, in a large folio, or by readahead. Pure.

#![forbid(unsafe_code)]

pub mod policy;
