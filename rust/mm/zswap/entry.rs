// SPDX-License-Identifier: GPL-2.0

//! What is kept for a stored page.
//!
//! | bytes | field | for |
//! |---|---|---|
//! | 8 | note, pool | 39 bits: the slot, the way back from the LRU to the index; 17: the length |
//! | | | of the data; 1: referenced, the second chance; 7: the number of the pool |
//! | 8 | handle | the object |
//! | 8 | charge | the cgroup, and whom to give the memory back to |
//! | 16 | links | the place on the LRU |
//!
//! 40 bytes; in C it is 56.

use super::rules::{
    self,
    Note, //
};
use crate::ffi::{
    folio::SwapEntry,
    list_lru::Links,
    memcg::{
        Charge,
        ChargeSum,
        ObjCgroup, //
    },
    params,
    pool::{
        StoredObject,
        NOTE_BITS, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::Relaxed, //
};

/// A stored page.
pub(crate) struct Entry {
    // Its note is a `Note`. What changes in it is changed by the walk of the LRU.
    object: StoredObject,
    charge: Option<Charge>,
    links: Links,
}

static_assert!(size_of::<Entry>() <= 40);
static_assert!(Note::BITS <= NOTE_BITS);

crate::ffi::list_lru::lru_item!(Entry, links, charge, Sum, Entry::settle);

/// What entries that are freed together have in common: a cgroup, and their number. Dropping gives
/// it back.
#[derive(Default)]
pub(crate) struct Sum {
    charges: ChargeSum,
    pages: Pages,
}

/// Pages that are not stored any more.
#[derive(Default)]
struct Pages {
    nr: i64,
    nr_plain: i64,
}

impl Drop for Pages {
    #[inline]
    fn drop(&mut self) {
        if self.nr_plain != 0 {
            params::stored_incompressible_pages().add(-self.nr_plain, Relaxed);
        }
        if self.nr != 0 {
            params::stored_pages().add(-self.nr, Relaxed);
        }
    }
}

impl Entry {
    /// The entry for what was stored for a slot, with a length of `len`.
    ///
    /// From here on the page is counted, and charged to `objcg`.
    #[inline]
    pub(super) fn new(
        slot: SwapEntry,
        object: StoredObject,
        len: u32,
        objcg: Option<&ObjCgroup>,
    ) -> Self {
        params::stored_pages().add(1, Relaxed);
        if is_plain(len) {
            params::stored_incompressible_pages().add(1, Relaxed);
        }
        object.set_note(Note::new(slot.ty() as u8, slot.offset() as u64, len).encode());
        Self {
            object,
            charge: objcg.map(|objcg| Charge::new(objcg, len as usize)),
            links: Links::new(),
        }
    }

    /// Adds all that the entry stands for but its object to a sum.
    #[inline]
    fn settle(&mut self, sum: &mut Sum) {
        let len = self.len();
        if let Some(charge) = self.charge.take() {
            sum.charges.add(charge, len as usize, is_plain(len));
        }
        sum.pages.nr = sum.pages.nr.wrapping_add(1);
        sum.pages.nr_plain = sum.pages.nr_plain.wrapping_add(i64::from(is_plain(len)));
    }

    #[inline]
    fn note(&self) -> Note {
        Note::decode(self.object.note())
    }

    /// The slot that it was stored for.
    #[inline]
    pub(super) fn slot(&self) -> SwapEntry {
        let note = self.note();
        SwapEntry::new(note.ty(), note.offset())
    }

    /// The object.
    #[inline]
    pub(super) fn object(&self) -> &StoredObject {
        &self.object
    }

    /// The length of the object's data.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.note().len()
    }

    /// Whether the object is the page as it was.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        is_plain(self.len())
    }

    /// What it is charged to.
    #[inline]
    pub(super) fn charge(&self) -> Option<&Charge> {
        self.charge.as_ref()
    }

    /// What the walk of the LRU does with it. Under the lock of the list.
    pub(super) fn next_turn(&self) -> rules::Turn {
        let note = self.note();
        if note.referenced() {
            self.object.set_note(note.met().encode());
        }
        rules::turn(note.referenced())
    }
}

#[inline]
fn is_plain(len: u32) -> bool {
    len as usize == PAGE_SIZE
}
