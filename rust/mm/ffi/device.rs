// SPDX-License-Identifier: GPL-2.0

//! Device slots that back virtual slots, and reads from them.
//!
//! When C's allocator takes a device slot to back a virtual slot, it writes a *reverse map word*
//! ([`Rmap`]) into the swap table of the device. This word names the virtual slot. The lock of a
//! device cluster nests inside the lock of a virtual cluster. So a task that follows a reverse map
//! word to the virtual slot first drops the lock of the device cluster, if it holds that lock. The
//! virtual slot may not name the device slot any more by then.
//!
//! # Lifetime of the device
//!
//! swapoff frees a device only when none of its slots is in use. So a task that has removed a
//! device slot from a backing word may use the device until the task frees the slot. The device of
//! a bound cluster is not freed before `vswap_unbind()`, because swapoff fails without an
//! [`UnusedDevice`].
//!
//! C headers: [`mm/vswap.h`](srctree/mm/vswap.h), [`mm/swap.h`](srctree/mm/swap.h).

use crate::{
    ffi::{
        call::{
            AtomicLong,
            FromC,
            Refines, //
        },
        folio::{
            FolioRef,
            SwapEntry,
            SwapFolio, //
        },
        layout::MAX_SWAPFILES, //
    },
    vswap::{
        cluster::{
            decode_backing,
            swap_cache,
            ClearedBits,
            Cluster,
            EndedBinding,
            LockedCluster,
            SetBits,
            Tables, //
        },
        directory::{
            find,
            Directory, //
        },
        swap_table::{
            Backing,
            PhysSlot,
            Rmap,
            VOffset, //
        }, //
    },
    warn::warn_on_once,
    zswap::pool::OldWord, //
};
#[cfg(CONFIG_DEBUG_VM)]
use core::ptr::NonNull;
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::null_mut, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::NotThreadSafe, //
};

// C has its own constants for reverse map words. Check that Rust decodes C's word for offset 1.
static_assert!(matches!(
    Rmap::decode((1 << bindings::VSWAP_RMAP_SHIFT) | bindings::VSWAP_RMAP_MARK as u64),
    Ok(Rmap::Virtual(offset)) if offset.get() == 1
));

/// A run of consecutive device slots. Dropping the value frees the slots.
///
/// # Invariants
///
/// Each slot was allocated to back a virtual slot, and is in use. No backing word names it, no
/// other value owns it, and no I/O uses it.
#[must_use]
pub(crate) struct DeviceSlots {
    first: PhysSlot,
    nr: u32,
}

impl DeviceSlots {
    /// Allocates a run of device slots for a folio with virtual slots. Returns `ENOSPC` if C finds
    /// no free run on a device. Warns and returns `EINVAL` if the slots of the folio are not
    /// virtual. May sleep.
    pub(crate) fn alloc(folio: &mut SwapFolio<'_>) -> Result<Self> {
        let nr = folio.nr_pages() as u32;
        if warn_on_once!(!folio.first_slot().entry().is_virtual()) {
            return Err(EINVAL);
        }
        // SAFETY: The folio is locked and in the swap cache, by the invariants of `SwapFolio`. Its
        // slots are virtual, as just checked.
        let entry = unsafe { bindings::vswap_alloc_slots(folio.as_ptr()) };
        if entry.val == 0 {
            return Err(ENOSPC);
        }
        let entry = SwapEntry::from_raw(entry);
        // This does not fail, because C only returns types and offsets that devices have.
        let first = PhysSlot::new(entry.ty() as u8, entry.offset() as u32).ok_or(EINVAL)?;
        // INVARIANT: C has allocated the slots for this value, so no I/O uses them, and no backing
        // word names them yet.
        Ok(Self { first, nr })
    }

    /// Returns the device slot that `old` named, the replaced backing word of the virtual slot at
    /// `offset`. Returns `None` if `old` named no device slot. If the reverse map word of the
    /// device slot does not name the virtual slot, `old` was corrupt. Then warns and returns an
    /// empty run, which leaks the device slot that does back the virtual slot. Caller holds the
    /// lock of the virtual slot's cluster.
    #[inline]
    pub(crate) fn of_word(old: OldWord, offset: usize) -> Option<Self> {
        match decode_backing(old.get()) {
            Backing::Phys(first) => Some(Self::take_over(old, first, offset)),
            _ => None,
        }
    }

    /// Takes over the device slot `first`, which `old` names, for [`Self::of_word`].
    // Out of line, because most replaced words name no device slot.
    #[inline(never)]
    fn take_over(_old: OldWord, first: PhysSlot, offset: usize) -> Self {
        // A backing word names a device slot only while the reverse map word of that slot names
        // the virtual slot. `vswap_alloc_slots()` writes the reverse map word before it returns
        // the slots to be named. `unbind_in_use()` has both words written before it unlocks the
        // virtual cluster. Only `drop()` clears the reverse map word. Neither swapoff nor reclaim
        // nor hibernation does, and swapoff does not free the device while the slot is in use.
        let backs = is_for(first, offset, false);
        warn_on_once!(!backs);
        // INVARIANT: The run is empty, or the reverse map word names the virtual slot. In the
        // second case, the device slot is in use for the virtual slot. By the invariants of
        // `OldWord`, `old` owned the device slot. `old` is consumed. So no backing word names the
        // device slot, no other value owns it, and no I/O uses it.
        Self {
            first,
            nr: backs.into(),
        }
    }

    /// Returns the `n`th slot of the run.
    #[inline]
    pub(crate) fn nth(&self, n: u32) -> Option<PhysSlot> {
        if n >= self.nr {
            return None;
        }
        self.first.nth(n)
    }

    /// Returns the number of slots.
    #[inline]
    pub(crate) fn nr(&self) -> u32 {
        self.nr
    }

    /// Removes the first slot from the run, and returns the backing word that names it. The caller
    /// stores the word, which then owns the slot. Returns 0 if the run is empty.
    #[inline]
    pub(crate) fn name_first(&mut self) -> u64 {
        let Some(left) = self.nr.checked_sub(1) else {
            return 0;
        };
        let word = Backing::Phys(self.first).encode();
        // INVARIANT: The first slot is not in the run any more. If `nth(1)` returns `None`, the
        // run is empty now, because all slots of a run exist.
        self.first = self.first.nth(1).unwrap_or(self.first);
        self.nr = left;
        word
    }

    /// Appends the slots of `other`, if they are on the same device and directly follow the run.
    /// Otherwise returns `other` as `Err`.
    #[inline]
    pub(crate) fn append(&mut self, other: Self) -> Result<(), Self> {
        if self.first.nth(self.nr) != Some(other.first) {
            return Err(other);
        }
        self.nr = self.nr.wrapping_add(other.nr);
        // INVARIANT: The slots of `other` are in this run, so `other` is not dropped.
        let _ = ManuallyDrop::new(other);
        Ok(())
    }
}

impl Drop for DeviceSlots {
    #[inline]
    fn drop(&mut self) {
        // The run is empty if backing words have taken over all of its slots, or if `take_over()`
        // has found a corrupt word.
        if self.nr == 0 {
            return;
        }
        // SAFETY: By the invariants, the value owns the slots, which are in use, so their device
        // is not freed. No backing word names them, and no I/O uses them. C takes the lock of the
        // device cluster, which nests inside the lock of a virtual cluster.
        unsafe { bindings::vswap_free_slots(self.first.ty().into(), self.first.offset(), self.nr) };
    }
}

/// Takes idle device slots of a bound cluster into use, after their bits were set. A slot of a
/// bound device cluster is *idle* while it has no data. Returns false, and does nothing, if
/// swapoff of the device has begun. The caller then clears the bits again.
#[inline]
pub(crate) fn take_bound(set: SetBits<'_>) -> bool {
    let (first, nr) = set.into_parts();
    // SAFETY: By the invariants of `SetBits`, the virtual cluster is locked and bound, so its
    // device is not freed, and `nr` device slots are idle. The value is consumed, so C counts
    // these slots only once.
    unsafe { bindings::vswap_take_bound(first.ty().into(), nr) }
}

/// Makes device slots of a bound cluster idle, after their bits were cleared. C then counts them
/// as free.
#[inline]
pub(crate) fn idle_bound(cleared: ClearedBits<'_>) {
    let (first, at, nr) = cleared.into_parts();
    let offset = first.offset().wrapping_add(at);
    // SAFETY: By the invariants of `ClearedBits`, the value owns the device slots, and no I/O uses
    // them. The virtual cluster is locked and bound, so its device is not freed. The value is
    // consumed, so C counts these slots as idle only once.
    unsafe { bindings::vswap_idle_bound(first.ty().into(), offset, nr) };
}

/// Ends the binding of a device cluster in C, after the virtual cluster has ended it. If a device
/// slot has data, the device cluster takes over the tables of `ended`, and its slots with data get
/// reverse map words.
pub(crate) fn end_binding(ended: EndedBinding<'_>) {
    let (first, offset) = ended.binding();
    let bits = ended.bits().as_ptr().cast::<c_ulong>();
    let tables = ended.tables().map_or(null_mut(), Tables::as_ptr);
    // SAFETY: By the invariants of `EndedBinding`, the device cluster was bound to the virtual
    // cluster, which is locked. The device is not freed before C has ended the binding. `bits` has
    // a bit for each slot. If a bit is set, there are tables, which C takes over. `ended` is
    // consumed.
    // INVARIANT: C moves the tables out of `ended`, whose `Tables` then owns none.
    unsafe { bindings::vswap_unbind(first.ty().into(), first.offset(), offset, bits, tables) };
}

/// A device cluster that C has bound to a virtual cluster, which does not record the binding yet.
///
/// Dropping the value warns and leaks the device cluster: no allocator uses it, and swapoff of the
/// device fails with `EBUSY`.
///
/// # Invariants
///
/// C has bound the device cluster that begins with `first` to the virtual cluster `owner`, and no
/// other value has this slot.
#[must_use]
pub(crate) struct NewBinding<'l> {
    first: PhysSlot,
    owner: &'l LockedCluster<'l>,
}

impl<'l> NewBinding<'l> {
    /// Returns the first slot of the device cluster.
    pub(crate) fn first(&self) -> PhysSlot {
        self.first
    }

    /// Returns the virtual cluster.
    pub(crate) fn owner(&self) -> &'l LockedCluster<'l> {
        self.owner
    }
}

impl Drop for NewBinding<'_> {
    fn drop(&mut self) {
        warn_on_once!(true);
    }
}

c_functions! {
    // C accepts any type. If the caller does not record the device cluster in the cluster with the
    // number `owner`, the device cluster is leaked: no allocator uses it.
    safe fn bind_to(ty: c_uint, owner: usize) -> c_uint = vswap_bind;
}

/// Calls C to bind a free cluster of the device of type `ty` to a locked virtual cluster. Returns
/// `None` if there is no such device, or if swapoff has begun. Also returns `None` if the device
/// has no free cluster that C can trylock.
pub(crate) fn bind<'l>(ty: u8, owner: &'l LockedCluster<'_>) -> Option<NewBinding<'l>> {
    match bind_to(ty.into(), owner.cluster().index()) {
        0 => None,
        // INVARIANT: C has just bound the device cluster to `owner`.
        offset => PhysSlot::new(ty, offset).map(|first| NewBinding { first, owner }),
    }
}

c_functions! {
    /// Returns true if a device that may back virtual slots has a free slot. Idle slots of bound
    /// clusters count as free. Until C's allocator first meets a device that may not back virtual
    /// slots, the free slots of all devices count. Another task may take the slot meanwhile.
    pub(crate) safe fn have_free() -> bool = vswap_have_free;
    /// Returns true while suspend or hibernation does not allow I/O. A hibernation image may name
    /// device slots, so callers do not replace the backing of a virtual slot then.
    pub(crate) safe fn suspended() -> bool = vswap_storage_suspended;
    /// Returns true if the device of type `ty` has a free cluster. Returns false if there is no
    /// such device. Takes no lock, so the answer may be stale.
    pub(crate) safe fn has_free_cluster(ty: c_uint) -> bool = vswap_has_free_cluster;
    /// Returns true if more than half of the device slots are in use (`vm_swap_full()`). Idle
    /// slots of bound clusters count as free.
    pub(crate) safe fn is_full() -> bool = vswap_devices_full;
}

/// An order of folios that swap slots can be allocated for.
///
/// # Invariants
///
/// The order is less than C's `SWAP_NR_ORDERS`.
struct Order(c_uint);

to_c!(Order => c_uint = |this| this.0);

c_functions! {
    safe fn type_to_bind(order: Order) -> c_int = vswap_bindable_type;
}

/// Returns the type of the device that folios of `order` should get a bound cluster of. The device
/// has a free cluster to bind, or may have bound clusters with free slots. Takes devices in turn.
/// Returns `None` if C's allocator must find device slots instead (see `vswap_bindable_type()`), or
/// if the order is too large. Takes swap_avail_lock.
pub(crate) fn bindable_type(order: u32) -> Option<u8> {
    if order >= bindings::VSWAP_SWAP_NR_ORDERS as u32 {
        return None;
    }
    // INVARIANT: The order is less than `SWAP_NR_ORDERS`, as just checked.
    u8::try_from(type_to_bind(Order(order))).ok()
}

// C accepts any numbers, also those of a device or a slot that does not exist.
c_functions! {
    safe fn flags(ty: c_uint) -> usize = vswap_device_flags;
    safe fn slot_backs(ty: c_uint, slot: c_uint, offset: usize, bound: bool) -> bool
        = vswap_slot_backs;
    safe fn has_slot(ty: c_uint, slot: c_uint) -> bool = vswap_device_has;
}

/// Returns the swap entry of a device slot, for I/O. Returns `None` if no device that is on has
/// the slot: then the word that names the slot is corrupt, and C must not get its entry.
#[inline]
pub(crate) fn entry_of(slot: PhysSlot) -> Option<SwapEntry> {
    has_slot(slot.ty().into(), slot.offset())
        .then(|| SwapEntry::new(slot.ty(), slot.offset().into()))
}

/// Returns true if the device of type `ty` is a block device. Consecutive slots are contiguous on
/// a block device, so that one request can read or write them. Returns false for a swap file, and
/// if there is no such device.
#[inline]
pub(crate) fn in_order(ty: u32) -> bool {
    flags(ty) & bindings::SWP_BLKDEV as usize != 0
}

/// Returns true if the device of type `ty` has synchronous I/O, such as zram. Returns false if
/// there is no such device.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn is_fast(ty: u32) -> bool {
    flags(ty) & bindings::SWP_SYNCHRONOUS_IO as usize != 0
}

/// Returns true if a device without synchronous I/O backs virtual slots. Takes no lock, so the
/// answer may be stale.
#[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
#[inline]
pub(crate) fn any_slow() -> bool {
    (0..=highest_type().load(Relaxed)).any(|ty| in_use(ty as u8) != 0 && !is_fast(ty))
}

/// Returns true if `slot` names the virtual slot at `offset`. Without `bound`, the reverse map
/// word of `slot` must name the virtual slot. With `bound`, the binding of the device cluster must
/// name it. Returns false if the device is off. Caller holds the lock of the virtual cluster.
#[inline]
pub(crate) fn is_for(slot: PhysSlot, offset: usize, bound: bool) -> bool {
    slot_backs(slot.ty().into(), slot.offset(), offset, bound)
}

c_statics! {
    safe fn nr_slots() -> &[AtomicLong; MAX_SWAPFILES as usize] = vswap_nr_slots;
    safe fn nr_bound() -> &[AtomicLong; MAX_SWAPFILES as usize] = vswap_nr_bound;
    #[cfg(CONFIG_RUST_VSWAP_SWAPIN)]
    safe fn highest_type() -> &Atomic<u32> = vswap_highest_type;
    safe fn nr_free() -> &Atomic<i64> = nr_swap_pages.counter;
    safe fn nr_total() -> &Atomic<isize> = total_swap_pages;
}

/// Returns how many device slots are free. Idle slots of bound clusters count as free.
pub(crate) fn free_slots() -> i64 {
    nr_free().load(Relaxed)
}

/// Returns how many device slots are in use: all slots without the free ones. When swapoff begins,
/// it subtracts the size of the device from both numbers. So the difference still includes the
/// slots of that device that are in use.
pub(crate) fn used_slots() -> i64 {
    (nr_total().load(Relaxed) as i64).wrapping_sub(free_slots())
}

/// Returns how many device slots back virtual slots. Sums the counters of all types. The counter
/// of a type without a device is 0.
///
/// There is no counter of the total, because each allocation and free of a device slot would
/// update it. Neither a fault nor a store to a zswap pool with room calls this function.
pub(crate) fn slots_on_devices() -> usize {
    let slots = nr_slots().iter().map(|counter| counter.0.load(Relaxed));
    slots.fold(0i64, i64::wrapping_add) as usize
}

/// Returns true if more device slots are in use than back virtual slots. The other slots are those
/// of physical entries in page tables and shmem, or of a hibernation image. If zswap has the pages
/// of physical entries, it can write the pages back to these slots. The result may be wrong while
/// another task allocates or frees device slots.
pub(crate) fn old_entries() -> bool {
    used_slots() > slots_on_devices() as i64
}

/// Returns true if a cluster is bound to the device of type `ty`, or to any device if `ty` is
/// `None`.
pub(crate) fn any_bound(ty: Option<u8>) -> bool {
    let is_bound = |counter: &AtomicLong| counter.0.load(Relaxed) != 0;
    match ty {
        Some(ty) => nr_bound().get(usize::from(ty)).is_some_and(is_bound),
        None => nr_bound().iter().any(is_bound),
    }
}

/// Returns how many slots of the device of type `ty` back virtual slots.
#[inline]
fn in_use(ty: u8) -> i64 {
    let counter = nr_slots().get(usize::from(ty));
    counter.map_or(0, |counter| counter.0.load(Relaxed))
}

/// An iterator over the slots of a device that back virtual slots, in the order of their offsets.
/// It returns the offsets of the virtual slots. Such an offset may be stale, because the iterator
/// holds no lock.
///
/// # Invariants
///
/// There is a device of type `ty`, which is not freed during `'a`.
pub(crate) struct BackingSlots<'a> {
    ty: u8,
    // The last device slot that was found, and the virtual slot that it backs.
    offset: u32,
    voffset: usize,
    _device: PhantomData<&'a ()>,
}

to_c! {
    /// The type of a device that is not freed during the call, by the invariants of
    /// [`BackingSlots`].
    &BackingSlots<'_> => c_uint = |this| this.ty.into();
}

c_functions! {
    safe fn next_bound(device: &BackingSlots<'_>, index: &mut usize) -> usize = vswap_next_bound;
    safe fn next_slot(device: &BackingSlots<'_>, from: u32, voffset: &mut usize) -> u32
        = vswap_next_slot;
}

impl FromC<c_uint> for BackingSlots<'_> {
    /// # Safety
    ///
    /// There is a device of this type, which is not freed while the value is used.
    unsafe fn from_c(ty: c_uint) -> Self {
        // INVARIANT: As required of the caller, there is such a device, and it is not freed.
        Self {
            ty: ty as u8,
            offset: 0,
            voffset: 0,
            _device: PhantomData,
        }
    }
}

impl BackingSlots<'_> {
    /// Returns the type of the device.
    pub(crate) fn ty(&self) -> u8 {
        self.ty
    }

    /// Returns how many slots of the device back virtual slots.
    pub(crate) fn in_use(&self) -> i64 {
        in_use(self.ty)
    }

    /// Returns the device slot that backs the virtual slot which `next()` has just returned.
    #[cfg(CONFIG_DEBUG_VM)]
    pub(crate) fn slot(&self) -> Option<PhysSlot> {
        PhysSlot::new(self.ty, self.offset)
    }

    /// Returns the virtual clusters that are bound to the device.
    pub(crate) fn bound(&self) -> impl Iterator<Item = &'static Cluster> + '_ {
        let mut index = 0;
        core::iter::from_fn(move || {
            // Skip a device cluster that is bound to a virtual cluster which does not exist,
            // because its record is corrupt.
            loop {
                let owner = next_bound(self, &mut index);
                if owner == 0 {
                    return None;
                }
                let cluster = Directory::find(owner);
                if !warn_on_once!(cluster.is_none()) {
                    return cluster;
                }
            }
        })
    }

    /// Returns true if a virtual cluster is bound to the device.
    pub(crate) fn is_bound(&self) -> bool {
        any_bound(Some(self.ty))
    }

    /// Restarts at the first slot of the device.
    pub(crate) fn rewind(&mut self) {
        (self.offset, self.voffset) = (0, 0);
    }

    /// Returns the device slot and the virtual slot that follow the last ones found, if they are
    /// in bound clusters and this device slot has the data of this virtual slot. Takes no lock and
    /// does not call C, so it is faster than `next_slot()`.
    #[inline]
    fn adjacent(&self) -> Option<(u32, usize)> {
        let (offset, voffset) = (self.offset.wrapping_add(1), self.voffset.wrapping_add(1));
        let (cluster, off) = find(voffset)?;
        // Leave the first slot of a cluster to C, which finds it by the owner that the device
        // cluster records. Otherwise a corrupt owner would go unnoticed.
        let slot = cluster.find_device(off).filter(|_| off != 0)?;
        (slot.ty() == self.ty && slot.offset() == offset).then_some((offset, voffset))
    }
}

/// A reference to a device. swapoff waits until it is dropped.
///
/// # Invariants
///
/// The value owns the reference.
#[cfg(CONFIG_DEBUG_VM)]
struct DeviceRef(NonNull<bindings::swap_info_struct>);

#[cfg(CONFIG_DEBUG_VM)]
c_owned! {
    fn drop(DeviceRef: bindings::swap_info_struct) = vswap_put_device;
}

#[cfg(CONFIG_DEBUG_VM)]
c_functions! {
    // C returns NULL for an entry of a device that is not on, and vswap_si for a virtual entry.
    // `put_swap_device()` ignores vswap_si.
    safe fn hold(entry: SwapEntry) -> Option<DeviceRef> = get_swap_device;
    /// Corrupts the owner of the first bound cluster of a device, for tests of the checks. If no
    /// cluster is bound, corrupts the first reverse map word. A second call repairs it. Returns
    /// false, and changes nothing, if there is neither, or if it is gone once its cluster is
    /// locked.
    // Safe, because all readers of an owner or a reverse map word accept any value. They leak the
    // slots whose owner or word is wrong.
    pub(crate) safe fn corrupt(device: &BackingSlots<'_>) -> bool = vswap_corrupt;
    // C reads the text, and writes one number.
    safe fn parse(text: &CStr, base: u32, number: &mut u32) -> Result = kstrtouint;
}

/// Parses a number as C does for files in sysfs: decimal, hexadecimal after 0x, or octal after 0.
/// Accepts a newline behind it. Returns `EINVAL` for other text, and `ERANGE` for a number that is
/// too large.
#[cfg(CONFIG_DEBUG_VM)]
pub(crate) fn parse_number(text: &CStr) -> Result<u32> {
    let mut number = 0;
    parse(text, 0, &mut number)?;
    Ok(number)
}

#[cfg(CONFIG_DEBUG_VM)]
c_statics! {
    /// Returns the bit mask of the types of devices that tests keep from backing virtual slots.
    pub(crate) safe fn nofs_types() -> &Atomic<u32> = vswap_nofs_types;
}

/// Calls `f` with each device that backs virtual slots, until `f` returns true. Returns true if it
/// did. Sleeps if `f` does.
#[cfg(CONFIG_DEBUG_VM)]
pub(crate) fn any_owned(mut f: impl FnMut(BackingSlots<'_>) -> bool) -> bool {
    (0..MAX_SWAPFILES).filter(|&ty| in_use(ty) != 0).any(|ty| {
        // INVARIANT: The reference keeps the device from being freed until `f` returns.
        hold(SwapEntry::new(ty, 1)).is_some_and(|_held| {
            f(BackingSlots {
                ty,
                offset: 0,
                voffset: 0,
                _device: PhantomData,
            })
        })
    })
}

/// A device that swapoff turns off, and its slots that back virtual slots.
///
/// # Invariants
///
/// swapoff has begun to turn off the device of type `ty`. So no more slots of the device are taken
/// into use, and no more clusters are bound to the device.
pub(crate) struct LeavingDevice<'a> {
    owned: BackingSlots<'a>,
    // The type of the device. `owned.ty` is not used, because `owned()` returns `owned` mutably,
    // so that a caller could replace it by the value of another device.
    ty: u8,
}

impl<'a> Refines<c_uint> for LeavingDevice<'a> {
    type Base = BackingSlots<'a>;

    /// # Safety
    ///
    /// swapoff has begun to turn the device off.
    unsafe fn refine(device: BackingSlots<'a>) -> Self {
        // INVARIANT: As required of the caller, swapoff has begun.
        Self {
            ty: device.ty,
            owned: device,
        }
    }
}

impl<'a> LeavingDevice<'a> {
    /// Returns the iterator over the slots of the device that back virtual slots.
    pub(crate) fn owned(&mut self) -> &mut BackingSlots<'a> {
        &mut self.owned
    }

    /// Returns the proof that virtual slots do not use the device any more. Returns `EBUSY` if a
    /// slot of the device backs a virtual slot, or if a virtual cluster is bound to the device.
    pub(crate) fn left(self) -> Result<UnusedDevice<'a>> {
        if in_use(self.ty) > 0 || any_bound(Some(self.ty)) {
            return Err(EBUSY);
        }
        // INVARIANT: No slot of the device backs a virtual slot, and no cluster is bound to it, as
        // just checked. By the invariants of `LeavingDevice`, neither can change any more.
        Ok(UnusedDevice(PhantomData))
    }
}

/// Proof that virtual slots do not use a device any more, so that swapoff may free it.
///
/// # Invariants
///
/// No slot of the device backs a virtual slot, and no virtual cluster is bound to the device. The
/// device is that of a [`LeavingDevice`] with the lifetime `'a`, which is consumed.
#[must_use]
pub(crate) struct UnusedDevice<'a>(PhantomData<&'a ()>);

impl Iterator for BackingSlots<'_> {
    type Item = VOffset;

    fn next(&mut self) -> Option<VOffset> {
        loop {
            (self.offset, self.voffset) = self.adjacent().unwrap_or_else(|| {
                let mut voffset = 0;
                (next_slot(self, self.offset, &mut voffset), voffset)
            });
            if self.offset == 0 {
                return None;
            }
            let voffset = VOffset::new(self.voffset as u64);
            // Skip an offset that is too large, because the reverse map word or the binding that
            // it comes from is corrupt.
            if !warn_on_once!(voffset.is_none()) {
                return voffset;
            }
        }
    }
}

/// A batch of folios that are being read. Reads of adjacent device slots are merged into one
/// request. Dropping the value submits the last request.
///
/// Use a value for a limited number of folios. After the read of a workingset folio, the task
/// counts as stalled on memory (PSI) until the value is dropped.
///
/// # Invariants
///
/// The structure was zeroed at first, and since then only C has changed it. So it owns the reads
/// that this task has begun and not submitted yet, the PSI stall, and the reference to a cgroup,
/// as far as there are any.
pub(crate) struct Reads(bindings::vswap_reads, NotThreadSafe);

to_c!(&mut Reads => *mut bindings::vswap_reads = |this| &mut this.0);

c_functions! {
    // C accepts any offset and id. The caller gets a reference to the folio. C returns `-EEXIST`
    // if the swap cache has a folio for the slot. May sleep.
    safe fn read_slot(reads: &mut Reads, offset: usize, id: u16) -> Result<Option<FolioRef>>
        = vswap_read_slot;
}

c_dropped! {
    fn drop(reads: Reads) = vswap_reads_end(&mut reads.0);
}

impl Reads {
    /// Creates a batch without folios.
    pub(crate) fn new() -> Self {
        // INVARIANT: The default value is zeroed.
        Self(bindings::vswap_reads::default(), NotThreadSafe)
    }

    /// Returns the folio that the swap cache has for a virtual slot. If there is none, allocates a
    /// folio and begins to read it.
    ///
    /// Returns `ENOENT` if the swap count of the slot is 0, or if virtual slots were never
    /// enabled. Returns `ENOMEM` if there is no memory for the folio, or if it cannot be charged
    /// to its cgroup. May sleep.
    pub(crate) fn folio(&mut self, offset: VOffset) -> Result<FolioRef> {
        let entry = SwapEntry::new(bindings::VSWAP_SWP_VSWAP as u8, offset.get());
        loop {
            let id = find(entry.offset()).map_or(0, |(cluster, off)| cluster.lock().id(off));
            let folio = match read_slot(self, entry.offset(), id) {
                Err(error) if error == EEXIST => swap_cache::get(entry.offset()),
                folio => folio?,
            };
            // If the folio has left the swap cache since `read_slot()` found it there, `folio` is
            // `None`. Then retry.
            if let Some(folio) = folio {
                return Ok(folio);
            }
        }
    }
}

/// Returns true if this task has a pending signal.
pub(crate) fn signal_pending() -> bool {
    kernel::current!().signal_pending()
}
