// SPDX-License-Identifier: GPL-2.0

//! Finds out where the data of an entry is, as far as that decides how it comes back.
//!
//! No lock is held, so that each answer can be old when it is there. The readers that a plan names
//! look again under the lock of the cluster.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device,
        fault::{
            self,
            HeldEntry, //
        }, //
    },
    swapin::policy::{
        Devices,
        Source, //
    },
    vswap::{
        backing,
        directory::find,
        swap_table::Backing, //
    }, //
};

/// The place of a page. Two pages with equal places can come back in one folio, if they are as far
/// apart as their offsets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere: it is zeros.
    Zeros,
    /// Compressed in memory.
    Zswap,
    /// A slot of a device of this type. The number is the slot less the offset of the entry: the
    /// same for consecutive slots of consecutive entries.
    Slot(u8, u64),
    /// The swap cache, or the entry is broken.
    Nowhere,
}

impl Place {
    /// Returns the place of the page of an entry.
    #[inline]
    pub(crate) fn of(entry: HeldEntry<'_>) -> Self {
        let offset = entry.entry().offset();
        if entry.entry().is_virtual() {
            let Some((cluster, off)) = find(offset) else {
                return Self::Nowhere;
            };
            return match cluster.peek_backing(off) {
                Backing::Zswap(_) => Self::Zswap,
                Backing::Phys(slot) => Self::Slot(
                    slot.ty(),
                    u64::from(slot.offset()).wrapping_sub(offset as u64),
                ),
                Backing::None if backing::is_zero_at(cluster, off) => Self::Zeros,
                Backing::None => Self::Nowhere,
            };
        }
        if entry.is_stored() {
            return Self::Zswap;
        }
        if entry.is_zero() {
            return Self::Zeros;
        }
        Self::Slot(entry.entry().ty() as u8, 0)
    }

    /// Returns true if no device is needed to read it.
    #[inline]
    pub(crate) fn is_memory(self) -> bool {
        !matches!(self, Self::Slot(..))
    }

    /// Returns where that is. `fast`: the device of `entry` is, if it is a device's.
    #[inline]
    pub(crate) fn source(self, entry: HeldEntry<'_>, fast: bool) -> Source {
        let fast = match self {
            Self::Zeros | Self::Zswap | Self::Nowhere => return Source::Memory,
            Self::Slot(ty, _) if entry.entry().is_virtual() => device::is_fast(ty),
            Self::Slot(..) => fast,
        };
        if fast {
            Source::Fast
        } else {
            Source::Slow
        }
    }

    /// Returns true if pages side by side in this place can be read as one folio.
    #[inline]
    pub(crate) fn is_in_order(self) -> bool {
        !matches!(self, Self::Slot(ty, _) if !device::in_order(ty))
    }
}

/// Returns what the devices alone say of a page and its neighbours. `fast`: the device of the entry
/// is, if it is a device's.
#[inline]
pub(crate) fn devices(entry: HeldEntry<'_>, fast: bool) -> Devices {
    if entry.entry().is_virtual() {
        // Most often no slow device has virtual slots.
        if fault::any_slow_device() {
            Devices::Mixed
        } else {
            Devices::Fast
        }
    } else if fast {
        Devices::Fast
    } else if fault::zswap_was_enabled() {
        Devices::Mixed
    } else {
        Devices::Slow
    }
}

/// Returns true if neighbours of an entry can be on a slow device.
#[inline]
pub(crate) fn any_slow(entry: HeldEntry<'_>, fast: bool) -> bool {
    if entry.entry().is_virtual() {
        return fault::any_slow_device();
    }
    !fast && fault::any_written()
}

/// Returns true if `nr` device slots, the aligned ones around an entry, are all in zswap, or none
/// of them.
pub(crate) fn is_uniform(entry: HeldEntry<'_>, nr: usize) -> bool {
    let first = entry.entry().offset() & !nr.wrapping_sub(1);
    let stored = entry.is_stored();
    if !stored && !device::in_order(entry.entry().ty() as u8) {
        return false;
    }
    (first..first.wrapping_add(nr))
        .all(|offset| entry.at(offset).is_some_and(|at| at.is_stored() == stored))
}
