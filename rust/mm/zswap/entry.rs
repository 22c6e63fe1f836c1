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

crate::ffi::list_lru::lru_item!(Entry, links, charge, Sum, Entry::free_with);

/// What entries that are freed together have in common: their number, and a cgroup. Dropping gives
/// it back.
#[derive(Default)]
pub(crate) struct Sum {
    charges: ChargeSum,
    pages: i64,
    plain: i64,
}

impl Drop for Sum {
    #[inline]
    fn drop(&mut self) {
        if self.plain != 0 {
            params::stored_incompressible_pages().add(-self.plain, Relaxed);
        }
        if self.pages != 0 {
            params::stored_pages().add(-self.pages, Relaxed);
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

    /// Frees what the entry owns, as its drop does, but what can wait is added to a sum.
    #[inline]
    fn free_with(mut self, sum: &mut Sum) {
        let len = self.len();
        sum.pages = sum.pages.wrapping_add(1);
        sum.plain = sum.plain.wrapping_add(i64::from(is_plain(len)));
        if let Some(charge) = self.charge.take() {
            sum.charges.add(charge, len as usize, is_plain(len));
        }
        // What its drop must leave to the sum. No entry has a length of 0.
        self.object.set_note(0);
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
    pub(super) fn is_plain(&self) -> bool {
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

impl Drop for Entry {
    #[inline]
    fn drop(&mut self) {
        let len = self.len();
        if len == 0 {
            return;
        }
        if let Some(charge) = self.charge.take() {
            charge.release(len as usize);
        }
        if is_plain(len) {
            params::stored_incompressible_pages().add(-1, Relaxed);
        }
        params::stored_pages().add(-1, Relaxed);
    }
}
