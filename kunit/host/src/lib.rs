// SPDX-License-Identifier: GPL-2.0

//! The pure modules of the kernel crate in `rust/mm`, unchanged, for tests on the host.
//!
//! They take constants of the kernel configuration from a module `layout` next to them. In the
//! kernel this is `ffi/layout.rs`, which reads C headers. Here there is one for each configuration
//! worth testing, and each module is built once for each of them.

// Intended: the same file is built with different constants.
#![allow(clippy::duplicate_mod)]
// As in `rust/mm/vswap.rs`.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident: $pfn_bits:literal, $cluster:literal, $swapfiles:literal) => {
        $(#[$doc])*
        // Without this, the paths below would begin in a directory with the name of this module.
        #[path = "."]
        pub mod $name {
            /// Constants of this configuration.
            pub mod layout {
                /// `SWAP_CACHE_PFN_BITS`.
                pub const PFN_BITS: u32 = $pfn_bits;
                /// `SWAPFILE_CLUSTER`.
                pub const SWAPFILE_CLUSTER: u32 = $cluster;
                /// `MAX_SWAPFILES`.
                pub const MAX_SWAPFILES: u8 = $swapfiles;
            }

            #[path = "../../../rust/mm/vswap/slot_map.rs"]
            pub mod slot_map;
            #[path = "../../../rust/mm/vswap/device_map.rs"]
            pub mod device_map;
            #[path = "../../../rust/mm/vswap/lookup.rs"]
            pub mod lookup;
            #[path = "../../../rust/mm/zswap/order.rs"]
            pub mod order;
            #[path = "../../../rust/mm/zswap/record.rs"]
            pub mod record;
            #[path = "../../../rust/mm/vswap/swap_table.rs"]
            pub mod swap_table;
        }
    };
}

kernel! {
    /// x86-64 and arm64 with 4K pages, transparent huge pages and every special swap entry.
    thp_4k: 40, 512, 24
}

kernel! {
    /// arm64 with 64K pages, where a huge page is 512 MiB.
    thp_64k: 36, 8192, 24
}

kernel! {
    /// User Mode Linux, which sets no limit to physical addresses and has no huge pages.
    um: 52, 256, 28
}

// The swap-in policy, which depends on no configuration.
#[path = "../../../rust/mm/swapin/policy.rs"]
pub mod policy;

// The decisions of zswap, which depend on no configuration.
#[cfg(test)]
#[path = "../../../rust/mm/zswap/rules.rs"]
mod zswap_rules;
#[cfg(test)]
mod zswap_rules_test;
