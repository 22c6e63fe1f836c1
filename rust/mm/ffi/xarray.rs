// SPDX-License-Identifier: GPL-2.0

//! The entries of physical swap slots: an xarray for each 64 MiB of a device.
//!
//! # Locks
//!
//! The xarray's own, inside all others of zswap. Who looks up or changes has the right to the slot
//! ([`Slot`]), so that what was found stays; the lock and RCU only keep the tree together.
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h).

use super::{
    folio::{
        Slot,
        SwapEntry, //
    },
    list_lru::{
        Held,
        LruBox,
        LruItem, //
    },
};
use crate::warn::warn_on_once;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    alloc::flags::GFP_KERNEL,
    bindings,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    types::Opaque, //
};

/// What a store leaves behind: the entry in its place, and the one that was there before. Or the
/// entry, as there was no memory.
type Put<'s, T> = Result<(Held<'s, T>, Option<LruBox<T>>), LruBox<T>>;

/// Slots of one xarray: 64 MiB with 4K pages.
const SHIFT: u32 = 14;

/// An xarray of entries.
#[repr(transparent)]
struct Tree<T: LruItem>(Opaque<bindings::xarray>, PhantomData<T>);

impl<T: LruItem> Tree<T> {
    #[inline]
    fn get<'s>(&self, slot: &'s Slot<'_>) -> Option<Held<'s, T>> {
        // SAFETY: The xarray is initialized.
        let entry = unsafe { bindings::xa_load(self.0.get(), slot.entry().offset()) };
        // SAFETY: Only what was a box is stored, and what is in there stays during `'s`, by the
        // invariants of `Slot`.
        NonNull::new(entry.cast()).map(|entry| unsafe { Held::from_raw(entry) })
    }

    #[inline]
    fn take(&self, slot: &mut Slot<'_>) -> Option<LruBox<T>> {
        // SAFETY: The xarray is initialized.
        let entry = unsafe { bindings::xa_erase(self.0.get(), slot.entry().offset()) };
        // SAFETY: Only what was a box is stored, and it was just taken out. A `Held` would borrow
        // the slot.
        NonNull::new(entry.cast()).map(|entry| unsafe { LruBox::from_raw(entry) })
    }

    #[inline]
    fn put<'s>(&self, slot: &'s mut Slot<'_>, entry: LruBox<T>) -> Put<'s, T> {
        let entry = entry.into_raw();
        // SAFETY: The xarray is initialized, and slab memory is aligned, so that its address is not
        // taken for a value. May sleep.
        let old = unsafe {
            bindings::xa_store(
                self.0.get(),
                slot.entry().offset(),
                entry.as_ptr().cast(),
                bindings::GFP_KERNEL,
            )
        };
        // SAFETY: Looks at the value only.
        if unsafe { bindings::zswap_xa_is_err(old) } {
            // SAFETY: Looks at the value only.
            warn_on_once!(unsafe { bindings::xa_err(old) } != -(bindings::ENOMEM as c_int));
            // SAFETY: Nothing was stored.
            return Err(unsafe { LruBox::from_raw(entry) });
        }
        // SAFETY: Only what was a box is stored, and it was replaced.
        let old = NonNull::new(old.cast()).map(|old| unsafe { LruBox::from_raw(old) });
        // SAFETY: It was stored above, and stays during `'s`, by the invariants of `Slot`.
        Ok((unsafe { Held::from_raw(entry) }, old))
    }

    #[inline]
    fn is_empty(&self) -> bool {
        // SAFETY: The xarray is initialized.
        unsafe { bindings::zswap_xa_empty(self.0.get()) }
    }
}

/// As many as the type of an entry can have values, so that no type needs a check.
const TYPES: usize = 1 << (usize::BITS as usize - bindings::VSWAP_SWP_TYPE_SHIFT);

/// The xarrays of one device.
struct Device<T: LruItem> {
    trees: Atomic<*const Tree<T>>,
    nr: Atomic<usize>,
}

/// A slot, and the xarray that its entry is in, if it has one.
pub(crate) struct Occupied<'s, T: LruItem> {
    tree: &'s Tree<T>,
    slot: Slot<'s>,
}

impl<T: LruItem> Occupied<'_, T> {
    /// Takes out what is stored for the slot.
    #[inline]
    pub(crate) fn take(mut self) -> Option<LruBox<T>> {
        self.tree.take(&mut self.slot)
    }
}

/// The entries of all devices.
pub(crate) struct Devices<T: LruItem> {
    devices: [Device<T>; TYPES],
}

// SAFETY: Entries may be used from any thread, and xarrays lock for themselves.
unsafe impl<T: LruItem> Sync for Devices<T> {}

impl<T: LruItem> Devices<T> {
    /// No device.
    pub(crate) const fn new() -> Self {
        Self {
            devices: [const {
                Device {
                    trees: Atomic::new(core::ptr::null()),
                    nr: Atomic::new(0),
                }
            }; TYPES],
        }
    }

    /// The xarray that a slot belongs to. There is none for what is no slot of a device.
    #[inline]
    fn tree<'s>(&self, slot: &'s Slot<'_>) -> Option<&'s Tree<T>> {
        // SAFETY: The device of a slot stays (see `turn_off`).
        unsafe { self.tree_of(slot.entry()) }
    }

    /// The same of an entry.
    ///
    /// # Safety
    ///
    /// The device of the entry stays during `'s`.
    #[inline]
    unsafe fn tree_of<'s>(&self, entry: SwapEntry) -> Option<&'s Tree<T>> {
        let device = self.devices.get(entry.ty())?;
        let nth = entry.offset() >> SHIFT;
        // The device was turned on before it had slots.
        let trees = device.trees.load(Relaxed);
        if nth >= device.nr.load(Relaxed) {
            return None;
        }
        // SAFETY: The array has more than `nth` elements, and stays, as required of the caller.
        Some(unsafe { &*trees.add(nth) })
    }

    /// The slot and its xarray, unless one can see at once that nothing is there.
    #[inline]
    pub(crate) fn occupied<'s>(&self, slot: Slot<'s>) -> Option<Occupied<'s, T>> {
        // SAFETY: The device of a slot stays (see `turn_off`), and the slot goes with its tree.
        let tree = unsafe { self.tree_of(slot.entry()) }?;
        (!tree.is_empty()).then_some(Occupied { tree, slot })
    }

    /// Whether something is stored for an entry. The answer can be old when it is there.
    ///
    /// # Safety
    ///
    /// The device of the entry stays.
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    #[inline]
    pub(super) unsafe fn has(&self, entry: SwapEntry) -> bool {
        // SAFETY: As required of the caller.
        let Some(tree) = (unsafe { self.tree_of(entry) }) else {
            return false;
        };
        // SAFETY: The xarray is initialized. What is found is not looked at.
        !unsafe { bindings::xa_load(tree.0.get(), entry.offset()) }.is_null()
    }

    /// What is stored for the slot.
    #[inline]
    pub(crate) fn get<'s>(&self, slot: &'s Slot<'_>) -> Option<Held<'s, T>> {
        self.tree(slot)?.get(slot)
    }

    /// Takes out what is stored for the slot.
    #[inline]
    pub(crate) fn take(&self, slot: &mut Slot<'_>) -> Option<LruBox<T>> {
        let tree: *const Tree<T> = self.tree(slot)?;
        // SAFETY: The tree stays while `slot` does, which is the argument of both calls.
        let tree = unsafe { &*tree };
        if tree.is_empty() {
            return None;
        }
        tree.take(slot)
    }

    /// Stores an entry for the slot, and returns it where it is now, and what was there before.
    /// Gives the entry back when there is no memory. May sleep.
    #[inline]
    pub(crate) fn put<'s>(&self, slot: &'s mut Slot<'_>, entry: LruBox<T>) -> Put<'s, T> {
        let tree: *const Tree<T> = match self.tree(slot) {
            Some(tree) => tree,
            None => {
                warn_on_once!(true);
                return Err(entry);
            }
        };
        // SAFETY: The tree stays while `slot` does, which is the argument of both calls.
        unsafe { &*tree }.put(slot, entry)
    }

    /// Makes room for the entries of a device with `nr_pages` slots. May sleep.
    ///
    /// # Safety
    ///
    /// The device is being turned on: it has no slots in use.
    pub(super) unsafe fn turn_on(&self, ty: usize, nr_pages: usize) -> Result {
        let device = self.devices.get(ty).ok_or(EINVAL)?;
        // At least one: there is memory to free, then.
        let nr = nr_pages.div_ceil(1 << SHIFT).max(1);
        let mut trees = KVVec::<Tree<T>>::with_capacity(nr, GFP_KERNEL)?;
        for tree in trees.spare_capacity_mut().iter_mut().take(nr) {
            // SAFETY: It is memory for an xarray, which stays where it is until it is freed.
            unsafe { bindings::zswap_xa_init(tree.as_mut_ptr().cast()) };
        }
        let trees = core::mem::ManuallyDrop::new(trees);
        device.trees.store(trees.as_ptr(), Relaxed);
        device.nr.store(nr, Release);
        Ok(())
    }

    /// Frees what [`Devices::turn_on`] made.
    ///
    /// # Safety
    ///
    /// The device is being turned off: it has no slots in use, and gets none.
    pub(super) unsafe fn turn_off(&self, ty: usize) {
        let Some(device) = self.devices.get(ty) else {
            return;
        };
        let nr = device.nr.load(Acquire);
        let trees = device.trees.load(Relaxed);
        device.nr.store(0, Relaxed);
        device.trees.store(core::ptr::null(), Relaxed);
        if trees.is_null() {
            return;
        }
        for nth in 0..nr {
            // SAFETY: There are `nr` of them.
            let tree = unsafe { &*trees.add(nth) };
            // Each entry was invalidated with its slot.
            warn_on_once!(!tree.is_empty());
        }
        // SAFETY: The memory was allocated by `turn_on()`, as that of a `KVVec`, and nobody uses it
        // any more, as no slot of the device exists.
        unsafe { bindings::kvfree(trees.cast()) };
    }
}
