// SPDX-License-Identifier: GPL-2.0

//! What is kept for a stored page.
//!
//! | bytes | field | for |
//! |---|---|---|
//! | 8 | slot | the way back from the LRU to the index; messages |
//! | 8 | pool | the compressor, and where the object is |
//! | 8 | handle | the object |
//! | 8 | charge | the cgroup, and whom to give the memory back to |
//! | 16 | links | the place on the LRU |
//! | 4 | length | the end of the data in the object; the charge |
//! | 1 | referenced | the second chance |
//! | 3 | | alignment |
//!
//! 56 bytes, as in C.

use super::rules;
use crate::ffi::{
    folio::SwapEntry,
    list_lru::Links,
    memcg::{
        Charge,
        ObjCgroup, //
    },
    params,
    pool::StoredObject, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// A stored page.
pub(crate) struct Entry {
    slot: SwapEntry,
    object: StoredObject,
    charge: Option<Charge>,
    links: Links,
    len: u32,
    // Set when the entry is made, cleared by the walk of the LRU.
    referenced: Atomic<bool>,
}

static_assert!(size_of::<Entry>() <= 56);

crate::ffi::list_lru::lru_item!(Entry, links, charge);

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
        Self {
            slot,
            object,
            charge: objcg.map(|objcg| Charge::new(objcg, len as usize)),
            links: Links::new(),
            len,
            referenced: Atomic::new(true),
        }
    }

    /// The slot that it was stored for.
    #[inline]
    pub(super) fn slot(&self) -> SwapEntry {
        self.slot
    }

    /// The object.
    #[inline]
    pub(super) fn object(&self) -> &StoredObject {
        &self.object
    }

    /// The length of the object's data.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Whether the object is the page as it was.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        is_plain(self.len)
    }

    /// What it is charged to.
    #[inline]
    pub(super) fn charge(&self) -> Option<&Charge> {
        self.charge.as_ref()
    }

    /// What the walk of the LRU does with it. Under the lock of the list.
    pub(super) fn next_turn(&self) -> rules::Turn {
        let referenced = self.referenced.load(Relaxed);
        if referenced {
            self.referenced.store(false, Relaxed);
        }
        rules::turn(referenced)
    }
}

#[inline]
fn is_plain(len: u32) -> bool {
    len as usize == PAGE_SIZE
}

impl Drop for Entry {
    #[inline]
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            charge.release(self.len as usize);
        }
        if self.is_plain() {
            params::stored_incompressible_pages().add(-1, Relaxed);
        }
        params::stored_pages().add(-1, Relaxed);
    }
}
