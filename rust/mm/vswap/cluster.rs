// SPDX-License-Identifier: GPL-2.0

//! Virtual clusters: the state of their slots, and the lock that protects it.
//!
//! A [`Cluster`] begins with C's `struct swap_cluster_info`, so that C can lock it like a device
//! cluster, and keep a pointer to it. Rust owns the rest: the swap table words, in C's format, and
//! the state that C has no field for. A *backing word* names what backs a slot.
//!
//! # Files
//!
//! [`crate::ffi::cluster`] has the memory of a cluster, its lock, and access to what the lock
//! protects ([`LockedCluster`], [`ClusterGuard`]). This file has functions that read slots without
//! the lock; those of the binding are in `binding`. The files in `cluster/` have one subject each:
//!
//! - `create`: creates clusters, and allocates and frees their tables ([`SpareCluster`],
//!   [`Populated`]).
//! - `alloc`: takes free slots into use for a folio ([`Taken`]).
//! - `state`: the swap table word, swap count and cgroup id of a slot. Only `state`, its child
//!   `free`, and the child `swap_cache` of `free` write the words.
//! - `extend`: swap counts that do not fit in a word.
//! - `free`: drops swap counts, and frees slots ([`Unpinned`]).
//! - `swap_cache`: adds, removes and replaces the folio of a slot.
//! - `backing_words`: the zswap entry or device slot that backs a slot, and the right to change it
//!   ([`OwnedSlots`](backing_words::OwnedSlots)).
//! - `binding`: the device cluster that a cluster is bound to.
//! - `folio_slots`: the backing of the slots of a locked folio ([`FolioSlots`]).
//!
//! A function that could break an invariant is private to its file, or to these files
//! (`pub(super)`).
//!
//! # Lifetime
//!
//! - The *header* ([`Cluster`]) is never freed, because C keeps pointers to it across sleeps
//!   without a reference.
//! - The *tables* have the words. A cluster with a slot in use has tables. A cluster gets tables
//!   before its first slot is taken into use, and loses them when the last slot in use is freed.
//!   Tables are installed and removed under `ci->lock`. Readers without the lock use RCU, and may
//!   see the words of a slot that was freed meanwhile. A swap table of one page is freed after an
//!   RCU grace period. A smaller one may become the table of another cluster, also of a device
//!   cluster, before the grace period ends, because C's slab cache for swap tables is
//!   `SLAB_TYPESAFE_BY_RCU`.
//!
//! # Locking
//!
//! - `ci->lock` ([`LockedCluster`]) protects swap table words, backing words, cgroup ids, counts
//!   and the slot map. It also protects the binding to a device cluster, and which slots have data
//!   there ([`Binding`]).
//! - Readers without `ci->lock` load words under RCU. Of two words, one may change before the
//!   other is loaded. A reader may use what a backing word names only with the *right* to the
//!   slot: it has locked the folio of the slot in the swap cache, or frees the slot. See "The
//!   right to a slot" in [`crate::ffi::folio`].
//! - Two writers change a backing word without `ci->lock`, by compare-and-exchange. zswap's
//!   writeback clears the referenced bit. zsmalloc updates the place of a moved object, under
//!   `class->lock`.
//! - The lock of a device cluster nests inside `ci->lock`, and is never held together with the
//!   lock of the lists.
//! - The lock of the lists ([`ListsGuard`]) nests inside `ci->lock`. It protects the lists and the
//!   number of clusters with tables.
//! - The [`ListState`] of a cluster changes under `ci->lock`. A cluster joins or leaves a list
//!   under both `ci->lock` and the lock of the lists. The free list needs only the lock of the
//!   lists.
//!
//! A task that holds the lock of the lists only trylocks a virtual cluster, because the order of
//! the locks is inverted.
//!
//! [`ListState`]: crate::vswap::slot_map::ListState
//! [`ListsGuard`]: crate::ffi::cluster_list::ListsGuard
//!
//! C headers: [`mm/vswap.h`](srctree/mm/vswap.h), [`mm/swap_table.h`](srctree/mm/swap_table.h).

#![forbid(unsafe_code)]

mod alloc;
mod backing_words;
mod binding;
mod create;
mod extend;
mod folio_slots;
mod state;

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) use backing_words::ClaimSource;
pub(crate) use state::free::swap_cache;
pub(crate) use {
    crate::ffi::cluster::{
        Cluster,
        ClusterGuard,
        ExtendTable,
        LockedCluster,
        Populated,
        SpareCluster,
        Tables, //
    },
    alloc::{
        AllocKey,
        LockedFields,
        Taken, //
    },
    backing_words::{
        keeps_table,
        take_replaced,
        Backed,
        ClearedWords,
        OwnedWord,
        ReplacedDevice,
        SlotChargeKey, //
    },
    binding::{
        Binding,
        BitWord,
        ClearedBits,
        EndedBinding,
        SetBits,
        UnbindMemory, //
    },
    create::{
        backing_size,
        setup,
        sizes, //
    },
    extend::ExtendTableKey,
    folio_slots::{
        FolioSlots,
        LockedSlots,
        NewZeros, //
    },
    state::{
        free::{
            PutCountKey,
            Unpinned,
            UnpinnedGuard,
            UnpinnedNoWords,
            UnpinnedSlot, //
        },
        SwapWords, //
    }, //
};

use crate::{
    ffi::{
        folio::SlotRight,
        layout::SWAPFILE_CLUSTER, //
    },
    vswap::{
        cluster::{
            alloc::NrUsed,
            extend::NrExtended, //
        },
        directory::{
            find,
            ClusterNumber, //
        },
        swap_table::{
            Backing,
            PhysSlot,
            State, //
        }, //
    },
    warn::warn_on_once,
    zswap::table::{
        Ci,
        SLOTS, //
    }, //
};
use core::ops::Range;
use kernel::{
    prelude::*,
    sync::rcu, //
};

static_assert!(SLOTS == SWAPFILE_CLUSTER as usize);

/// The part of a cluster's header with atomic and constant fields, most of which tasks also read
/// without `ci->lock`. [`LockedFields`] is the part that only the holder of `ci->lock` reads. Each
/// atomic field is changed only by the file in `cluster/` that defines its type.
pub(crate) struct SharedFields {
    /// The device cluster that the cluster is bound to, if any, and which slots have data there.
    /// Changed under `ci->lock`.
    device: Binding,
    /// The number of slots in use. Changed under `ci->lock`.
    used: NrUsed,
    /// The number of slots whose swap count is in the extend table. Read and changed only under
    /// `ci->lock`.
    extended: NrExtended,
    /// The number of the cluster in the directory. It never changes.
    number: ClusterNumber,
}

impl SharedFields {
    /// Returns the value for a new cluster, which is not bound and has no slot in use.
    pub(crate) const fn new(number: ClusterNumber) -> Self {
        Self {
            device: Binding::none(),
            used: NrUsed::none(),
            extended: NrExtended::none(),
            number,
        }
    }
}

impl Cluster {
    /// Returns the number of the cluster in [`Directory`](super::directory::Directory).
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.shared().number.get()
    }

    /// Returns the offset of the cluster's first slot.
    #[inline]
    pub(crate) fn first(&self) -> usize {
        self.index().wrapping_mul(SLOTS)
    }

    /// Returns the state of a slot without the lock; [`State::Null`] if the cluster has no tables.
    /// The state may be stale: see the lifetime of tables in the module documentation.
    #[inline]
    pub(crate) fn peek(&self, off: u32) -> State {
        peeked(self.peek_word(off))
    }

    /// Returns the swap table word of a slot without the lock; null if the cluster has no tables.
    #[inline]
    pub(crate) fn peek_word(&self, off: u32) -> u64 {
        let rcu = rcu::read_lock();
        let word = self
            .words_rcu(&rcu)
            .and_then(|words| words.get(off as usize));
        word.map_or(0, |word| word.load())
    }

    /// Counts the slots from the start of a range whose swap table words satisfy `is`. Stops at the
    /// first other word. Does not take the lock. Words of slots outside of the cluster are null, as
    /// are all words of a cluster without tables.
    #[inline]
    pub(crate) fn peek_while(&self, slots: Range<u32>, is: impl Fn(u64) -> bool) -> u32 {
        let rcu = rcu::read_lock();
        // Find the table once, because that takes longer than to read a word.
        let words = self
            .words_rcu(&rcu)
            .and_then(|words| words.get(slots.start as usize..))
            .unwrap_or(&[]);
        let words = words.get(..slots.len()).unwrap_or(words);
        let found = words.iter().take_while(|word| is(word.load())).count();
        let all = found == words.len() && is(0);
        (if all { slots.len() } else { found }) as u32
    }

    /// Returns the backing of a slot without the lock. The backing may be stale, unless the caller
    /// has the right to the slot.
    #[inline]
    pub(crate) fn peek_backing(&self, off: u32) -> Backing {
        match self.find_device(off) {
            Some(slot) => Backing::Phys(slot),
            None => self.peek_word_backing(off),
        }
    }

    /// Returns true if a device slot backs a slot. Does not take the lock: see
    /// [`Self::peek_backing`].
    #[inline]
    pub(crate) fn peek_is_on_device(&self, off: u32) -> bool {
        self.has_bit(off) || matches!(self.peek_word_backing(off), Backing::Phys(_))
    }

    /// Returns the backing that the backing word of a slot names, for [`Self::peek_backing`]. Out
    /// of line, to keep its callers small.
    #[inline(never)]
    fn peek_word_backing(&self, off: u32) -> Backing {
        decode_backing(Ci::of_virtual(self).peek(off))
    }

    /// Returns the device slot that backs a slot, or `None`. Does not take the lock: see
    /// [`Self::peek_backing`].
    #[inline]
    pub(crate) fn peek_device(&self, off: u32) -> Option<PhysSlot> {
        self.find_device(off).or_else(|| self.peek_word_device(off))
    }

    /// Returns the device slot that the backing word of a slot names, for [`Self::peek_device`].
    #[inline(never)]
    fn peek_word_device(&self, off: u32) -> Option<PhysSlot> {
        let word = Ci::of_virtual(self).peek(off);
        let slot = Backing::decode_phys(word);
        if slot.is_none() {
            // Warns if the word is corrupt.
            let _ = decode_backing(word);
        }
        slot
    }

    /// Returns the number of slots in use, without the lock.
    #[inline]
    pub(crate) fn peek_used(&self) -> u32 {
        self.shared().used.get()
    }

    /// Returns true if the cluster has a table of backing words, without the lock.
    pub(crate) fn peek_has_backing(&self) -> bool {
        Ci::of_virtual(self).peek_has_table()
    }

    /// Calls `f` with the state and the backing of each slot, if the cluster has tables. Does not
    /// take the lock, so both may be stale. `f` runs under the RCU read lock, so it must not
    /// sleep.
    pub(crate) fn peek_all(&self, mut f: impl FnMut(State, Backing)) {
        let rcu = rcu::read_lock();
        let Some(words) = self.words_rcu(&rcu) else {
            return;
        };
        Ci::of_virtual(self).peek_words(|backings| {
            let mut backings = backings.map(|words| words.0.iter());
            for (off, word) in (0..).zip(words) {
                let backing = backings.as_mut().and_then(|words| words.next());
                let backing = match self.find_device(off) {
                    Some(slot) => Backing::Phys(slot),
                    None => backing.map_or(Backing::None, |word| decode_backing(word.load())),
                };
                f(peeked(word.load()), backing);
            }
        });
    }
}

/// Returns the cluster of a virtual slot, and the index of the slot in it. Warns and returns
/// `None` for a device slot. Returns `None` if there is no such cluster.
#[inline]
fn place(slot: &SlotRight<'_>) -> Option<(&'static Cluster, u32)> {
    let entry = slot.entry();
    if warn_on_once!(!entry.is_virtual()) {
        return None;
    }
    find(entry.offset())
}

/// Decodes a swap table word. For a corrupt word, warns and returns [`State::Bad`], so that
/// callers neither use nor change the word. Fast paths do not decode words, and test only marks
/// and flags.
#[inline]
fn decode(word: u64) -> State {
    State::decode(word).unwrap_or_else(|_| {
        warn_on_once!(true);
        State::Bad
    })
}

/// Decodes a swap table word that was read without the lock. Does not warn of a word that is not
/// valid, because the table may have become that of a device cluster, whose words can have other
/// formats.
#[inline]
fn peeked(word: u64) -> State {
    State::decode(word).unwrap_or(State::Bad)
}

/// Decodes a backing word. For a corrupt word, warns and returns [`Backing::None`].
#[inline]
pub(crate) fn decode_backing(word: u64) -> Backing {
    Backing::decode(word).unwrap_or_else(|_| {
        warn_on_once!(true);
        Backing::None
    })
}
