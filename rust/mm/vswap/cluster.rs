// SPDX-License-Identifier: GPL-2.0

//! Virtual clusters: their memory, their lock, and the state that the lock protects.
//!
//! A [`Cluster`] begins with C's `struct swap_cluster_info`, so that C can lock it like a device
//! cluster, and keep a pointer to it. Rust owns the contents: the swap table words, in C's format,
//! and the state that C has no field for. A *backing word* names what backs a slot.
//!
//! # Files
//!
//! This file has the header of a cluster, and the functions that read it without the lock. The
//! files in `cluster/` have one subject each:
//!
//! - `lock`: the lock, and access to what the lock protects ([`LockedCluster`], [`Guard`]).
//! - `fields`: the fields of C's structure that the lock protects, and the extend table.
//! - `create`: allocates headers and tables ([`Spare`], [`Populated`]).
//! - `alloc`: takes slots for a folio ([`Taken`]).
//! - `state`: the swap table word, swap count and cgroup id of a slot. Only this file and the
//!   modules below it, `free` and its child `swap_cache`, write the words.
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
//! - The *header* ([`Cluster`]) is never freed, because C keeps pointers to it across sleeps, and
//!   meanwhile holds nothing that keeps the cluster.
//! - The *tables* have the words. A cluster with a slot in use has tables, and one without may
//!   keep tables for its next slot. Tables are installed and removed under `ci->lock`, and are
//!   freed after an RCU grace period. Readers without the lock use RCU, and may see the words of a
//!   slot that was freed meanwhile. A swap table that is smaller than a page may even be the table
//!   of another cluster by then, also of a device cluster, because C's slab cache for swap tables
//!   is `SLAB_TYPESAFE_BY_RCU`.
//!
//! # Locking
//!
//! - `ci->lock` ([`LockedCluster`]) protects swap table words, backing words, cgroup ids, counts
//!   and the slot map. It also protects the binding to a device cluster, and which slots have data
//!   there ([`Binding`]).
//! - Readers without `ci->lock` load one word under RCU. They may follow a backing word only with
//!   the *right* to the slot: they have locked its folio in the swap cache, or they free the slot.
//!   See "The right to a slot" in [`crate::ffi::folio`].
//! - Two writers change a backing word without `ci->lock`, by compare-and-exchange. zswap's
//!   writeback clears the referenced bit. zsmalloc updates the place of a moved object, under
//!   `class->lock`.
//! - The lock of a device cluster nests inside `ci->lock`, and is never held together with the
//!   lock of the lists.
//! - The lock of the lists ([`Lists`]) nests inside `ci->lock`. It protects the lists and the
//!   number of clusters with tables.
//! - The [`ListState`] of a cluster changes under `ci->lock`. A cluster joins or leaves a list
//!   under both `ci->lock` and the lock of the lists. The free list needs only the lock of the
//!   lists.
//!
//! A task that holds the lock of the lists only trylocks a virtual cluster, because the order of
//! the locks is inverted.
//!
//! [`ListState`]: crate::vswap::slot_map::ListState
//! [`Lists`]: crate::vswap::cluster_list::Lists
//!
//! C headers: [`mm/vswap.h`](srctree/mm/vswap.h), [`mm/swap_table.h`](srctree/mm/swap_table.h).

mod alloc;
mod backing_words;
mod binding;
mod create;
mod fields;
mod folio_slots;
mod lock;
mod state;

#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
pub(crate) use backing_words::AtHand;
pub(super) use create::HeaderCache;
pub(crate) use state::free::swap_cache;
pub(crate) use {
    alloc::{
        SlotUsage,
        Taken, //
    },
    backing_words::{
        keeps_table,
        take_replaced,
        Backed,
        OwnedWord,
        TakenWords, //
    },
    binding::{
        BitWord,
        ClearedBits,
        EndedBinding,
        Scatter,
        SetBits, //
    },
    create::{
        backing_size,
        setup,
        sizes,
        Populated,
        Spare,
        Tables, //
    },
    fields::ExtendTable,
    folio_slots::{
        FolioSlots,
        LockedSlots, //
    },
    lock::{
        Guard,
        LockedCluster, //
    },
    state::free::{
        Unbacked,
        Unpinned,
        UnpinnedAlone, //
    }, //
};

use crate::{
    ffi::{
        call::FromC,
        folio::Slot,
        layout::SWAPFILE_CLUSTER, //
    },
    vswap::{
        cluster::{
            alloc::{
                Own,
                Used, //
            },
            binding::Binding,
            fields::Extended,
            state::SwapWords, //
        },
        directory::{
            find,
            Number, //
        },
        swap_table::{
            Backing,
            State, //
        }, //
    },
    warn::warn_on_once,
    zswap::table::{
        Ci,
        SLOTS, //
    }, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::rcu,
    types::Opaque, //
};

static_assert!(SLOTS == SWAPFILE_CLUSTER as usize);

/// A virtual cluster.
///
/// # Invariants
///
/// - If a swap table word holds a page frame number, its folio is in the swap cache for the slot.
///   Only the holder of `ci->lock` may break this, between the changes of the word and of the
///   folio.
/// - A set bit in `device` owns the device slot with the same index. The bits and the binding
///   change only under `ci->lock`. A bound cluster keeps its device, because swapoff needs
///   [`Left`](crate::ffi::device::Left) before it frees the device.
/// - `used` is at least the number of slots in use in the slot map. So if it is 0, all slots are
///   free. Only the holder of `ci->lock` may break this, while it takes slots into use.
/// - A free slot has a null swap table word, and no backing: its backing word and its bit in
///   `device` are 0. Only the holder of `ci->lock` may break this, while it takes the slot
///   into use.
#[repr(C)]
pub(crate) struct Cluster {
    // First, so that C's pointer to it is a pointer to the cluster.
    ci: Opaque<bindings::swap_cluster_info>,
    // Protected by `ci->lock`.
    own: UnsafeCell<Own>,
    extended: Extended,
    // Changed under `ci->lock`, also read without it.
    device: Binding,
    // Number of slots in use. Changed under `ci->lock`, also read without it.
    used: Used,
    // The number of the cluster in the directory.
    number: Number,
}

static_assert!(core::mem::offset_of!(Cluster, ci) == 0);

// SAFETY: `ci->lock` protects `own` and `extended`, and the other fields are atomic or constant. C
// accesses `ci` by its own rules.
unsafe impl Sync for Cluster {}

impl FromC<NonNull<bindings::swap_cluster_info>> for &'static Cluster {
    /// # Safety
    ///
    /// `ci` is the C part of a virtual cluster.
    #[inline]
    unsafe fn from_c(ci: NonNull<bindings::swap_cluster_info>) -> Self {
        // SAFETY: As required of the caller, `ci` is the C part, which is the first field of a
        // `Cluster`. Headers are never freed.
        unsafe { ci.cast().as_ref() }
    }
}

to_c! {
    &Cluster => *mut bindings::swap_cluster_info = |this| this.as_ci();
    Option<&Cluster> => *mut bindings::swap_cluster_info = |this| {
        this.map_or(core::ptr::null_mut(), Cluster::as_ci)
    };
}

impl Cluster {
    #[inline]
    pub(crate) fn as_ci(&self) -> *mut bindings::swap_cluster_info {
        self.ci.get()
    }

    #[inline]
    pub(crate) fn as_non_null(&self) -> NonNull<bindings::swap_cluster_info> {
        NonNull::from(&self.ci).cast()
    }

    /// Returns the number of the cluster in [`Directory`](super::directory::Directory).
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.number.get()
    }

    /// Returns the offset of the cluster's first slot.
    #[inline]
    pub(crate) fn first(&self) -> usize {
        self.index().wrapping_mul(SLOTS)
    }

    /// Returns the swap table words for a reader without the lock. Returns `None` if the cluster
    /// has no tables.
    #[inline]
    fn words_rcu<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a SwapWords> {
        // SAFETY: The memory is a table of words until an RCU grace period has passed after it was
        // freed. Meanwhile it can become the table of another cluster, also of a device cluster.
        // Readers use only atomic loads, and accept any word.
        unsafe {
            bindings::vswap_ci_table_rcu(self.as_ci())
                .cast::<SwapWords>()
                .as_ref()
        }
    }

    /// Returns the state of a slot without the lock. The state may be stale.
    #[inline]
    pub(crate) fn peek(&self, off: u32) -> State {
        peeked(self.peek_word(off))
    }

    /// Returns the swap table word of a slot without the lock; null if the cluster has no tables.
    #[inline]
    pub(crate) fn peek_word(&self, off: u32) -> u64 {
        let rcu = rcu::read_lock();
        match self
            .words_rcu(&rcu)
            .and_then(|words| words.get(off as usize))
        {
            Some(word) => word.load(),
            None => 0,
        }
    }

    /// Returns the backing of a slot without the lock. The backing may be stale: only a caller with
    /// the right to the slot may follow it.
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

    /// Returns the number of slots in use, without the lock.
    #[inline]
    pub(crate) fn peek_used(&self) -> u32 {
        self.used.get()
    }

    /// Returns true if the cluster has a table of backing words, without the lock.
    pub(crate) fn peek_has_backing(&self) -> bool {
        Ci::of_virtual(self).peek_has_table()
    }

    /// Calls `f` with the state and the backing of each slot. Does not take the lock, so both may
    /// be stale.
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

/// Returns the cluster of a virtual slot, and the index of the slot in it. Warns and returns `None`
/// for a device slot.
#[inline]
fn place(slot: &Slot<'_>) -> Option<(&'static Cluster, u32)> {
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
    match State::decode(word) {
        Ok(state) => state,
        Err(_) => {
            warn_on_once!(true);
            State::Bad
        }
    }
}

/// Decodes a swap table word that was read without the lock. Does not warn of a word that is not
/// valid, because the table may have become that of a device cluster, whose words can have other
/// formats.
#[inline]
fn peeked(word: u64) -> State {
    State::decode(word).unwrap_or(State::Bad)
}

/// Decodes a backing word. Warns of a corrupt word, and takes it for none.
#[inline]
pub(crate) fn decode_backing(word: u64) -> Backing {
    match Backing::decode(word) {
        Ok(backing) => backing,
        Err(_) => {
            warn_on_once!(true);
            Backing::None
        }
    }
}
