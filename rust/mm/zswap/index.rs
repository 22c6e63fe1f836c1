// SPDX-License-Identifier: GPL-2.0

//! Where the entry of a slot is found.
//!
//! Store, load and writeback know no more of it than the trait.

use super::entry::Entry;
use crate::ffi::{
    folio::{
        Slot,
        SwapFolio, //
    },
    list_lru::{
        Held,
        Key,
        LruBox, //
    },
    memcg::ObjCgroup,
    xarray::Devices, //
};
use kernel::prelude::*;

/// What a store leaves behind: the entry in its place, and what was there before.
pub(crate) type Put<'s, Stale> = (Held<'s, Entry>, Option<Stale>);

/// An owner of entries, one for each slot.
///
/// Who calls has the right to the slot: it is that which keeps an entry in place while it is looked
/// at.
pub(crate) trait Index {
    /// What an entry can take the place of. Dropping gives it back.
    type Stale;

    /// Where an entry is written back to. Dropping gives it back.
    type Place;

    /// Returns true if a page that does not compress may be kept as it is, charged to `objcg`,
    /// because it can be written back. May sleep.
    fn keeps_plain(&self, objcg: Option<&ObjCgroup>) -> bool;

    /// What is stored for the slot.
    fn get<'s>(&self, slot: &'s Slot<'_>) -> Option<Held<'s, Entry>>;

    /// Takes out what is stored for the slot.
    fn take(&self, slot: &mut Slot<'_>) -> Option<LruBox<Entry>>;

    /// Takes out what is stored for the slots of a folio, and frees it.
    fn take_all(&self, folio: &mut SwapFolio<'_>) {
        for n in 0..folio.nr_pages() {
            if let Some((mut slot, _)) = folio.nth(n) {
                drop(self.take(&mut slot));
            }
        }
    }

    /// As [`Index::take`], where [`Index::get`] found something.
    #[inline]
    fn remove(&self, slot: &mut Slot<'_>) -> Option<LruBox<Entry>> {
        self.take(slot)
    }

    /// Makes sure that the slots of a folio can be stored for; what is not used is given back with
    /// [`Index::unreserve`]. May sleep.
    fn reserve(&self, folio: &mut SwapFolio<'_>) -> Result;

    /// Gives back what was reserved for `nr` slots, and not used.
    fn unreserve(&self, first: &Slot<'_>, nr: usize);

    /// Finds a place to which the entry for a folio that is not large can be written back. Where
    /// one has to be taken, `key` must still be of that entry; elsewhere who calls looks.
    fn place(&self, folio: &mut SwapFolio<'_>, key: Key<Entry>) -> Result<Self::Place>;

    /// The folio will be written there. What was stored for it goes.
    fn move_to(&self, folio: &mut SwapFolio<'_>, place: Self::Place) -> Result;

    /// Stores an entry for the slot. Gives it back when there is no memory. May sleep.
    fn put<'s>(
        &self,
        slot: &'s mut Slot<'_>,
        entry: LruBox<Entry>,
    ) -> Result<Put<'s, Self::Stale>, LruBox<Entry>>;
}

/// The entries of physical slots.
pub(crate) static PHYSICAL: Devices<Entry> = Devices::new();

impl Index for Devices<Entry> {
    type Stale = LruBox<Entry>;

    // The slot itself.
    type Place = ();

    #[inline]
    fn keeps_plain(&self, _objcg: Option<&ObjCgroup>) -> bool {
        true
    }

    #[inline]
    fn place(&self, _folio: &mut SwapFolio<'_>, _key: Key<Entry>) -> Result {
        Ok(())
    }

    #[inline]
    fn move_to(&self, folio: &mut SwapFolio<'_>, _place: ()) -> Result {
        drop(self.take(&mut folio.first_slot()));
        Ok(())
    }

    // A tree takes memory when an entry is put into it.
    #[inline]
    fn reserve(&self, _folio: &mut SwapFolio<'_>) -> Result {
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
    ) -> Result<Put<'s, LruBox<Entry>>, LruBox<Entry>> {
        self.put(slot, entry)
    }
}
