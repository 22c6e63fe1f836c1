// SPDX-License-Identifier: GPL-2.0

//! Where the entry of a slot is found.
//!
//! Store, load and writeback know no more of it than the trait.

use super::entry::Entry;
use crate::ffi::{
    folio::Slot,
    list_lru::{
        Held,
        LruBox, //
    },
    xarray::Devices, //
};
use kernel::prelude::*;

/// What a store leaves behind: the entry in its place, and the one that was there before.
pub(crate) type Put<'s> = (Held<'s, Entry>, Option<LruBox<Entry>>);

/// An owner of entries, one for each slot.
///
/// Who calls has the right to the slot: it is that which keeps an entry in place while it is looked
/// at.
pub(crate) trait Index {
    /// Whether what is stored can be written back.
    const WRITES_BACK: bool;

    /// What is stored for the slot.
    fn get<'s>(&self, slot: &'s Slot<'_>) -> Option<Held<'s, Entry>>;

    /// Takes out what is stored for the slot.
    fn take(&self, slot: &mut Slot<'_>) -> Option<LruBox<Entry>>;

    /// As [`Index::take`], where [`Index::get`] found something.
    #[inline]
    fn remove(&self, slot: &mut Slot<'_>) -> Option<LruBox<Entry>> {
        self.take(slot)
    }

    /// Makes sure that `nr` slots from the first on can be stored for; what is not used is given
    /// back with [`Index::unreserve`]. May sleep.
    fn reserve(&self, first: &Slot<'_>, nr: usize) -> Result;

    /// Gives back what was reserved for `nr` slots, and not used.
    fn unreserve(&self, first: &Slot<'_>, nr: usize);

    /// Stores an entry for the slot. Gives it back when there is no memory. May sleep.
    fn put<'s>(
        &self,
        slot: &'s mut Slot<'_>,
        entry: LruBox<Entry>,
    ) -> Result<Put<'s>, LruBox<Entry>>;
}

/// The entries of physical slots.
pub(crate) static PHYSICAL: Devices<Entry> = Devices::new();

impl Index for Devices<Entry> {
    const WRITES_BACK: bool = true;

    // A tree takes memory when an entry is put into it.
    #[inline]
    fn reserve(&self, _first: &Slot<'_>, _nr: usize) -> Result {
        Ok(())
    }

    #[inline]
    fn unreserve(&self, _first: &Slot<'_>, _nr: usize) {}

    #[inline]
    fn get<'s>(&self, slot: &'s Slot<'_>) -> Option<Held<'s, Entry>> {
        self.get(slot)
    }

    #[inline]
    fn take(&self, slot: &mut Slot<'_>) -> Option<LruBox<Entry>> {
        self.take(slot)
    }

    #[inline]
    fn put<'s>(
        &self,
        slot: &'s mut Slot<'_>,
        entry: LruBox<Entry>,
    ) -> Result<Put<'s>, LruBox<Entry>> {
        self.put(slot, entry)
    }
}
