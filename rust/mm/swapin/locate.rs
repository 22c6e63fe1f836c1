// SPDX-License-Identifier: GPL-2.0

//! Finds where the data of a swap entry is, because that decides how the page is swapped in.
//!
//! No lock is held, so an answer may be outdated as soon as it is returned. The code that executes
//! a plan checks again under the cluster lock.

#![forbid(unsafe_code)]

use crate::{
    ffi::{
        device,
        fault,
        folio::HeldEntry, //
    },
    swapin::policy::{
        any_written,
        Devices,
        Source, //
    },
    vswap::{
        directory::find,
        swap_table::{
            is_zero_word,
            Backing, //
        }, //
    }, //
};

/// Where a page's data is. Pages can be read as one folio if their places are equal, their swap
/// offsets are consecutive, and [`DataLocation::is_in_order`] returns true.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataLocation {
    /// No data is stored, because the page is zeros.
    Zeros,
    /// In zswap.
    Zswap,
    /// A slot of the swap device with this type. The number is the slot's offset minus the entry's
    /// offset, which is equal for consecutive entries with consecutive slots.
    Slot(u8, u64),
    /// None of these: only the swap cache has the page, the slot was freed meanwhile, or the page
    /// is lost.
    Nowhere,
}

impl DataLocation {
    /// Returns the place of the data of a swap entry.
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
                Backing::None if is_zero_word(cluster.peek_word(off)) => Self::Zeros,
                Backing::None => Self::Nowhere,
            };
        }
        if entry.is_stored() {
            return Self::Zswap;
        }
        if fault::has_zero_flag(entry) {
            return Self::Zeros;
        }
        Self::Slot(entry.entry().ty() as u8, 0)
    }

    /// Returns true if the page is on no device, so that no device is read for it.
    #[inline]
    pub(crate) fn is_memory(self) -> bool {
        !matches!(self, Self::Slot(..))
    }

    /// Returns the source that the place belongs to. `fast` is true if the device of a physical
    /// `entry` is fast. It is ignored for a virtual entry.
    #[inline]
    pub(crate) fn source(self, entry: HeldEntry<'_>, fast: bool) -> Source {
        let fast = match self {
            Self::Zeros | Self::Zswap | Self::Nowhere => return Source::Memory,
            Self::Slot(ty, _) if entry.entry().is_virtual() => device::is_fast(ty.into()),
            Self::Slot(..) => fast,
        };
        if fast {
            Source::Fast
        } else {
            Source::Slow
        }
    }

    /// Returns false for a slot of a device whose consecutive slots need not be contiguous, such
    /// as a swap file. Pages there cannot be read as one folio.
    #[inline]
    pub(crate) fn is_in_order(self) -> bool {
        !matches!(self, Self::Slot(ty, _) if !device::in_order(ty.into()))
    }
}

/// Returns where a page and its neighbours can be, judged by the devices alone. `fast` is true if
/// the device of a physical `entry` is fast. It is ignored for a virtual entry.
#[inline]
pub(crate) fn devices(entry: HeldEntry<'_>, fast: bool) -> Devices {
    if entry.entry().is_virtual() {
        if device::any_slow() {
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

/// Returns true if the page of a virtual entry is on a slow device, and the cluster of its slot is
/// bound to a cluster of that device. Most pages of slow devices are in bound clusters.
#[inline]
pub(crate) fn is_on_slow(entry: HeldEntry<'_>) -> bool {
    entry.entry().is_virtual()
        && find(entry.entry().offset())
            .and_then(|(cluster, off)| cluster.find_device(off))
            .is_some_and(|slot| !device::is_fast(slot.ty().into()))
}

/// Returns true if neighbours of a swap entry are likely on a slow device.
///
/// For a virtual entry, this is true if a slow device backs virtual slots. For a physical entry,
/// this is true if its device is slow, and if more than a quarter of the device slots in use have
/// no page in zswap or the swap cache. `fast` is true if the device of a physical `entry` is fast.
#[inline]
pub(crate) fn any_slow(entry: HeldEntry<'_>, fast: bool) -> bool {
    if entry.entry().is_virtual() {
        return device::any_slow();
    }
    if fast {
        return false;
    }
    let (used, stored, cached) = fault::places();
    any_written(used, stored, cached)
}

/// Returns true if the `nr` aligned physical slots around an entry can be read as one folio: if
/// zswap has the pages of all of them, or if it has none and the slots are contiguous on the
/// device.
pub(crate) fn is_uniform(entry: HeldEntry<'_>, nr: usize) -> bool {
    let first = entry.entry().offset() & !nr.wrapping_sub(1);
    let stored = entry.is_stored();
    if !stored && !device::in_order(entry.entry().ty() as u32) {
        return false;
    }
    (first..first.wrapping_add(nr))
        .all(|offset| entry.at(offset).is_some_and(|at| at.is_stored() == stored))
}
