// SPDX-License-Identifier: GPL-2.0

//! Slots of swap devices that back virtual ones, and reading them back.
//!
//! C's allocator writes a word into the swap table of the device for each slot that it allocates
//! for a virtual one. The word names the virtual slot: [`Rmap`]. A task that follows such a word
//! first drops the lock of the device cluster. Otherwise it would take the lock of the virtual
//! cluster in the wrong order. Then it checks at the virtual slot whether the word is still true.
//!
//! # What keeps the device
//!
//! A slot in use keeps its device, because swapoff waits until no slot is in use. So a task that
//! took a slot out of a backing word keeps the device until it frees the slot.
//!
//! C headers: [`mm/vswap.h`](srctree/mm/vswap.h), [`mm/swap.h`](srctree/mm/swap.h).

use crate::{
    ffi::{
        folio::{
            FolioRef,
            SwapEntry,
            SwapFolio, //
        },
        layout::MAX_SWAPFILES, //
    },
    vswap::{
        cluster::Cluster,
        directory::{
            find,
            Directory, //
        },
        swap_table::{
            PhysSlot,
            Rmap,
            VOffset, //
        }, //
    },
    warn::warn_on_once, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::NotThreadSafe, //
};

// C makes and reads the words with these, `Rmap` with its own. Offset 1 tells them all.
static_assert!(matches!(
    Rmap::decode((1 << bindings::VSWAP_RMAP_SHIFT) | bindings::VSWAP_RMAP_MARK as u64),
    Ok(Rmap::Virtual(offset)) if offset.get() == 1
));

/// Slots of a device, in one run, that are ours: dropping frees them.
///
/// # Invariants
///
/// Each was allocated as the backing of a virtual slot, is in use, and is named by no backing word.
#[must_use]
pub(crate) struct DeviceSlots {
    first: PhysSlot,
    nr: u32,
}

impl DeviceSlots {
    /// Allocates slots for a folio with virtual slots. May sleep.
    pub(crate) fn alloc(folio: &mut SwapFolio<'_>) -> Result<Self> {
        let nr = folio.nr_pages() as u32;
        if warn_on_once!(!folio.first_slot().entry().is_virtual()) {
            return Err(EINVAL);
        }
        // SAFETY: By the invariants of `SwapFolio`, locked and in the swap cache. Its slots are
        // virtual, as just checked.
        let entry = unsafe { bindings::vswap_alloc_slots(folio.as_ptr()) };
        if entry.val == 0 {
            return Err(ENOSPC);
        }
        let entry = SwapEntry::from_raw(entry);
        // The type of a device is in range, and so are its offsets, in C.
        let first = PhysSlot::new(entry.ty() as u8, entry.offset() as u32).ok_or(EINVAL)?;
        // INVARIANT: Just allocated.
        Ok(Self { first, nr })
    }

    /// The slot that a backing word named.
    ///
    /// # Safety
    ///
    /// It was allocated by [`DeviceSlots::alloc`], and no backing word names it any more.
    #[inline]
    pub(crate) unsafe fn from_word(first: PhysSlot) -> Self {
        // INVARIANT: As required of the caller.
        Self { first, nr: 1 }
    }

    /// The slot with a number.
    #[inline]
    pub(crate) fn nth(&self, n: u32) -> Option<PhysSlot> {
        if n >= self.nr {
            return None;
        }
        self.first.nth(n)
    }

    /// How many they are.
    #[inline]
    pub(crate) fn nr(&self) -> u32 {
        self.nr
    }

    /// Backing words name all of them from now on.
    #[inline]
    pub(crate) fn named(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// Adds slots to the run, if they are the next of it.
    #[inline]
    pub(crate) fn append(&mut self, other: Self) -> Result<(), Self> {
        if self.first.nth(self.nr) != Some(other.first) {
            return Err(other);
        }
        self.nr = self.nr.wrapping_add(other.nr);
        other.named();
        Ok(())
    }
}

impl Drop for DeviceSlots {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: They are in use, and ours, by the invariants; thus their device is there. The
        // lock of a physical cluster may be taken inside that of a virtual one.
        unsafe { bindings::vswap_free_slots(self.first.ty().into(), self.first.offset(), self.nr) };
    }
}

c_functions! {
    /// Returns true if a device has a free slot that a virtual one may have. Another task may take
    /// it.
    pub(crate) fn have_free() -> bool = vswap_have_free;
    /// Returns true if page tables name slots of devices, whose pages zswap may have.
    pub(crate) fn old_entries() -> bool = vswap_old_entries;
    /// Returns true if storage is suspended: an image of memory was taken, which names slots of
    /// devices. None of them may be freed before the machine is off.
    pub(crate) fn suspended() -> bool = vswap_storage_suspended;
}

c_functions! {
    /// Returns true if the device of a type has a cluster that is free. Somebody else may take it.
    pub(crate) fn has_free_cluster(ty: c_uint) -> bool = vswap_has_free_cluster;
    /// Returns true if swap is so full that slots whose pages are in memory are taken back.
    pub(crate) fn is_full() -> bool = vswap_devices_full;
}

/// Returns the type of the device that a cluster for folios of an order is to be bound to. `None`:
/// C's allocator is to find slots.
pub(crate) fn bindable_type(order: u32) -> Option<u8> {
    if order >= bindings::VSWAP_SWAP_NR_ORDERS as u32 {
        return None;
    }
    // SAFETY: No lock of a cluster is held, nor that of the lists.
    u8::try_from(unsafe { bindings::vswap_bindable_type(order) }).ok()
}

/// Returns true if slots side by side on the device with the type of a slot that is in use, or was,
/// are one place to read from and to write to. Those of a file can be anywhere.
#[inline]
pub(crate) fn in_order(ty: u8) -> bool {
    // SAFETY: C copes with any value.
    unsafe { bindings::vswap_in_order(ty.into()) }
}

/// Returns true if the device with the type of a slot that is in use, or was, is as fast as memory.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn is_fast(ty: u8) -> bool {
    // SAFETY: C copes with any value.
    unsafe { bindings::vswap_type_is_fast(ty.into()) }
}

/// The virtual slot that a slot of a device says it backs.
#[cfg(CONFIG_DEBUG_VM)]
pub(crate) fn owner_of(slot: PhysSlot) -> Option<VOffset> {
    // SAFETY: C copes with any value.
    let word = unsafe { bindings::vswap_slot_word(slot.ty().into(), slot.offset()) };
    match Rmap::decode(word as u64) {
        Ok(Rmap::Virtual(offset)) => Some(offset),
        _ => None,
    }
}

/// The slots of a device that back virtual ones, in the order of their offsets, each with the
/// virtual one. What is returned may not be so any more.
pub(crate) struct Owned {
    ty: u8,
    offset: u32,
}

impl Owned {
    /// # Safety
    ///
    /// The device of that type stays while the value lives.
    pub(crate) unsafe fn by(ty: u8) -> Self {
        Self { ty, offset: 0 }
    }

    /// The type of the device.
    pub(crate) fn ty(&self) -> u8 {
        self.ty
    }

    /// How many there are.
    pub(crate) fn in_use(&self) -> i64 {
        if self.ty >= MAX_SWAPFILES {
            return 0;
        }
        let counters = (&raw mut bindings::vswap_nr_slots).cast::<bindings::atomic_long_t>();
        // SAFETY: There is an element for each type of device, which is read in one piece.
        unsafe {
            let counter = counters.add(usize::from(self.ty));
            Atomic::<i64>::from_ptr(&raw mut (*counter).counter).load(Relaxed)
        }
    }

    /// The slot that was met last.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn slot(&self) -> Option<PhysSlot> {
        PhysSlot::new(self.ty, self.offset)
    }

    /// The clusters that are bound to it.
    pub(crate) fn bound(&self) -> impl Iterator<Item = &'static Cluster> + '_ {
        let mut index = 0;
        core::iter::from_fn(move || {
            // SAFETY: The device stays, by the requirements.
            let owner = unsafe { bindings::vswap_next_bound(self.ty.into(), &mut index) };
            if owner == 0 {
                return None;
            }
            Directory::find(owner)
        })
    }

    /// Begins anew.
    pub(crate) fn rewind(&mut self) {
        self.offset = 0;
    }
}

impl Iterator for Owned {
    type Item = VOffset;

    fn next(&mut self) -> Option<VOffset> {
        let mut voffset = 0;
        let ty = self.ty.into();
        // SAFETY: The device stays, by the requirements.
        self.offset = unsafe { bindings::vswap_next_slot(ty, self.offset, &mut voffset) };
        if self.offset == 0 {
            return None;
        }
        VOffset::new(voffset as u64)
    }
}

/// Folios that are being read, as few requests for many of them: dropping submits the last.
///
/// Only for one window of them: who reads counts as stalled until then.
pub(crate) struct Reads(bindings::vswap_reads, NotThreadSafe);

impl Reads {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self(bindings::vswap_reads::default(), NotThreadSafe)
    }

    /// The folio for a virtual slot: that of the swap cache, or a new one, which is being read.
    ///
    /// `ENOENT`: nobody counts on the slot. May sleep.
    pub(crate) fn folio(&mut self, offset: VOffset) -> Result<FolioRef> {
        let entry = SwapEntry::new(bindings::VSWAP_SWP_VSWAP as u8, offset.get());
        // There are none before the layer was switched on.
        if !entry.is_virtual() {
            return Err(ENOENT);
        }
        loop {
            let id = find(entry.offset()).map_or(0, |(cluster, off)| cluster.lock().id(off));
            // SAFETY: The device of virtual slots is always there. No lock is held. What is read is
            // submitted before the value goes, by this task.
            let folio = unsafe { bindings::vswap_read_slot(&mut self.0, entry.offset(), id) };
            let folio = match from_err_ptr(folio) {
                // SAFETY: As above.
                Err(error) if error == EEXIST => unsafe {
                    bindings::swap_cache_get_folio(entry.as_raw())
                },
                folio => folio?,
            };
            // If it was there, and is no more, it has to be read.
            if let Some(folio) = NonNull::new(folio) {
                // SAFETY: It was returned with a reference for us.
                return Ok(unsafe { FolioRef::from_raw(folio) });
            }
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        // SAFETY: What is being read was given to it by this task, as the type is not `Send`. It is
        // not used any more.
        unsafe { bindings::vswap_reads_end(&mut self.0) };
    }
}

/// Returns true if a signal waits for this task.
pub(crate) fn signal_pending() -> bool {
    kernel::current!().signal_pending()
}
