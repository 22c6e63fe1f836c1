// SPDX-License-Identifier: GPL-2.0

//! How pages come back.
//!
//! - [`policy`]: alone, with the pages around it, or read ahead: evidence in, a plan out, pure.

#![forbid(unsafe_code)]

pub mod policy;
