// SPDX-License-Identifier: GPL-2.0

//! Entries in slab memory, and the LRU lists that they stand on.
//!
//! An entry is owned by one [`LruBox`], or by an index that took it out of one. Until it is freed
//! it may be met by the walk of the LRU, which does not own it: the walk sees it under the lock of
//! the list, and only while that is held. What it needs later it takes along by value; with a
//! [`Key`] it can recognize the entry, not reach it.
//!
//! Freeing an entry begins with taking it off its list, under the lock. So a position on a list
//! cannot outlive its entry. The list is `'static`.
//!
//! # Locks
//!
//! The lock of a list is the innermost here: entries are freed under the lock of a swap cluster.
//! Which list an entry is on follows from the node of its memory and from its cgroup. When a cgroup
//! goes, its lists are spliced to its parent's, and add and delete look the parent's up by
//! themselves; RCU keeps the cgroup meanwhile.
//!
//! C header: [`include/linux/list_lru.h`](srctree/include/linux/list_lru.h).

use super::memcg::{
    Memcg,
    ObjCgroup, //
};
use core::{
    marker::PhantomData,
    mem::{
        align_of,
        size_of,
        ManuallyDrop,
        MaybeUninit, //
    },
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::{
        to_result,
        Result, //
    },
    prelude::*,
    sync::rcu,
    types::Opaque, //
};

/// The place of an entry on a list.
#[repr(transparent)]
pub(crate) struct Links(Opaque<bindings::list_head>);

// SAFETY: The links are under the lock of the list.
unsafe impl Send for Links {}
// SAFETY: The links are under the lock of the list.
unsafe impl Sync for Links {}

impl Links {
    /// On no list. Becomes valid when the entry is boxed.
    pub(crate) const fn new() -> Self {
        Self(Opaque::uninit())
    }
}

/// An entry that can stand on the LRU.
///
/// # Safety
///
/// `LINKS` is the offset of a field of type [`Links`] of the type. [`Self::objcg`] returns the same
/// for the whole life of the value. There is one implementation: the slab cache is for that type.
pub(crate) unsafe trait LruItem: Sized + Sync + 'static {
    /// The offset of the links.
    const LINKS: usize;

    /// What the entry is charged to.
    fn objcg(&self) -> Option<&ObjCgroup>;

    /// What freed entries have in common, and can be given back for many at once: when it is
    /// dropped, or when the next is of another kind.
    type Sum: Default;

    /// Adds what the entry stands for to the sum: called for each that was in a box, once, when it
    /// is on no list, before it is dropped.
    fn settle(&mut self, sum: &mut Self::Sum);
}

/// Makes a type an [`LruItem`], given the names of its links and of its charge.
macro_rules! lru_item {
    ($ty:ty, $links:ident, $charge:ident, $sum:ty, $settle:path) => {
        const _: fn(&$ty) -> &$crate::ffi::list_lru::Links = |item| &item.$links;

        // SAFETY: The offset is that of the field `$links`, whose type was compared above. Only
        // settling changes the charge of an item, when it is on no list.
        unsafe impl $crate::ffi::list_lru::LruItem for $ty {
            const LINKS: usize = ::core::mem::offset_of!($ty, $links);

            #[inline]
            fn objcg(&self) -> Option<&$crate::ffi::memcg::ObjCgroup> {
                self.$charge.as_ref().map($crate::ffi::memcg::Charge::objcg)
            }

            type Sum = $sum;

            #[inline]
            fn settle(&mut self, sum: &mut $sum) {
                $settle(self, sum)
            }
        }
    };
}
pub(crate) use lru_item;

/// Makes what the entries need: the slab cache, and the LRU with its shrinker and worker.
///
/// # Safety
///
/// Is called once. Boxes of another type than `T` are never made.
pub(super) unsafe fn setup<T: LruItem>() -> Result {
    // SAFETY: Called once.
    to_result(unsafe { bindings::zswap_shim_setup(size_of::<T>(), align_of::<T>()) })
}

/// Memory for an entry.
///
/// # Invariants
///
/// The memory is of the slab cache, thus fits a `T`, and is ours.
pub(crate) struct Memory<T: LruItem>(NonNull<T>);

impl<T: LruItem> Memory<T> {
    /// Allocates memory on a node. May sleep.
    #[inline]
    pub(crate) fn alloc(nid: c_int) -> Option<Self> {
        // SAFETY: The cache was made by `setup()`: nothing is stored before.
        let memory = unsafe { bindings::zswap_entry_alloc(bindings::ZSWAP_GFP_ENTRY, nid) };
        // INVARIANT: `setup()` was given the layout of `T`.
        NonNull::new(memory.cast()).map(Self)
    }

    /// Puts a value into it.
    #[inline]
    pub(crate) fn fill(self, value: T) -> LruBox<T> {
        let memory = ManuallyDrop::new(self).0;
        // SAFETY: The memory fits, and is ours.
        unsafe { memory.write(value) };
        // SAFETY: The links are at that offset of the value. Nobody knows of it yet.
        unsafe { bindings::zswap_list_init(links_of(memory)) };
        // INVARIANT: It is initialized, and on no list.
        LruBox(memory)
    }
}

impl<T: LruItem> Drop for Memory<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { bindings::kmem_cache_free(bindings::zswap_entry_cache, self.0.as_ptr().cast()) };
    }
}

/// The address of the links of the item at an address.
#[inline]
fn links_of<T: LruItem>(item: NonNull<T>) -> *mut bindings::list_head {
    item.as_ptr().wrapping_byte_add(T::LINKS).cast()
}

/// The node of the memory that an entry is in.
#[inline]
fn nid_of<T: LruItem>(item: NonNull<T>) -> c_int {
    // SAFETY: Entries are in slab memory, which is directly mapped.
    unsafe { bindings::zswap_virt_to_nid(item.as_ptr().cast()) }
}

/// Runs `f` with the node and the cgroup of an entry.
///
/// # Safety
///
/// `item` is valid.
#[inline]
unsafe fn with_list<T: LruItem>(
    item: NonNull<T>,
    f: impl FnOnce(c_int, *mut bindings::mem_cgroup),
) {
    let nid = nid_of(item);
    let rcu = rcu::read_lock();
    // SAFETY: As required of the caller.
    let objcg = unsafe { item.as_ref() }.objcg();
    f(
        nid,
        objcg.map_or(core::ptr::null_mut(), |objcg| {
            objcg.memcg_rcu(&rcu).as_ptr()
        }),
    );
}

/// An entry. Dropping takes it off the LRU and frees it.
///
/// # Invariants
///
/// The value is initialized, in slab memory of ours, and does not move. Its links are initialized:
/// empty, or on the LRU list that its node and cgroup lead to.
pub(crate) struct LruBox<T: LruItem>(NonNull<T>);

impl<T: LruItem> LruBox<T> {
    /// Transfers the entry out of reach of `drop`.
    #[inline]
    pub(super) fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).0
    }

    /// Takes the entry off the list that it is on, if it is on one. A walk cannot meet it
    /// afterwards, and has no reference left: it had one only under the lock that was taken for
    /// this.
    #[inline]
    fn leave_lru(&self) {
        // SAFETY: The value is valid, by the invariants, and so is its place on the list.
        unsafe {
            with_list(self.0, |nid, memcg| {
                bindings::list_lru_del(
                    &raw mut bindings::zswap_list_lru,
                    links_of(self.0),
                    nid,
                    memcg,
                );
            });
        }
    }

    /// Frees the entry, as dropping it does, in line: for who frees many, each for itself.
    #[inline(always)]
    pub(crate) fn free(self) {
        self.leave_lru();
        let mut entry = self.into_raw();
        // SAFETY: The value is valid, by the invariants, and now on no list. Nobody else has it.
        unsafe {
            entry.as_mut().settle(&mut T::Sum::default());
            release(entry);
        }
    }

    /// # Safety
    ///
    /// `item` is from [`LruBox::into_raw`], and this is its only way back.
    #[inline]
    pub(super) unsafe fn from_raw(item: NonNull<T>) -> Self {
        // INVARIANT: As required of the caller.
        Self(item)
    }
}

impl<T: LruItem> Deref for LruBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: It is initialized, by the invariants. Others have shared references at most.
        unsafe { self.0.as_ref() }
    }
}

impl<T: LruItem> Drop for LruBox<T> {
    #[inline]
    fn drop(&mut self) {
        // INVARIANT: It is the same box, of which nothing is left here.
        Self(self.0).free();
    }
}

/// Ends an entry that was settled.
///
/// # Safety
///
/// It is valid, the caller's, on no list, and in memory of the slab cache.
#[inline]
unsafe fn release<T: LruItem>(entry: NonNull<T>) {
    // SAFETY: As required of the caller.
    unsafe {
        core::ptr::drop_in_place(entry.as_ptr());
        bindings::kmem_cache_free(bindings::zswap_entry_cache, entry.as_ptr().cast());
    }
}

/// Entries that are to be freed together: dropping frees them.
///
/// They are off the LRU, so that their links are free to chain them: no memory is needed.
pub(crate) struct Chain<T: LruItem>(Option<NonNull<T>>);

impl<T: LruItem> Chain<T> {
    /// No entry.
    #[inline]
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Takes an entry off the LRU, and adds it.
    #[inline]
    pub(crate) fn push(&mut self, entry: LruBox<T>) {
        // SAFETY: The entry is valid and stays, and the chain is its owner from now on. Nobody else
        // looks at its links, when they are on no list.
        unsafe {
            entry.leave_lru();
            let entry = entry.into_raw();
            (*links_of(entry)).next = self
                .0
                .map_or(core::ptr::null_mut(), |next| next.as_ptr().cast());
            self.0 = Some(entry);
        }
    }

    /// Takes the entry off that was added last.
    #[inline]
    fn pop(&mut self) -> Option<NonNull<T>> {
        let entry = self.0?;
        // SAFETY: It was put there by `push()`.
        self.0 = NonNull::new(unsafe { (*links_of(entry)).next }.cast());
        Some(entry)
    }
}

impl<T: LruItem> Drop for Chain<T> {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_none() {
            return;
        }
        let mut sum = T::Sum::default();
        while let Some(mut entry) = self.pop() {
            // SAFETY: It was a box, and is off the LRU since `push()`.
            unsafe {
                entry.as_mut().settle(&mut sum);
                release(entry);
            }
        }
    }
}

/// An entry that its index holds, and that stays there during `'a`.
///
/// # Invariants
///
/// It is the content of what was a [`LruBox`].
pub(crate) struct Held<'a, T: LruItem>(NonNull<T>, PhantomData<&'a T>);

impl<T: LruItem> Held<'_, T> {
    /// # Safety
    ///
    /// `item` is from [`LruBox::into_raw`], and does not become a box again during the lifetime.
    #[inline]
    pub(super) unsafe fn from_raw(item: NonNull<T>) -> Self {
        // INVARIANT: As required of the caller.
        Self(item, PhantomData)
    }

    /// Whether this is the entry that `key` is of.
    pub(crate) fn is(&self, key: Key<T>) -> bool {
        core::ptr::eq(self.0.as_ptr(), key.0)
    }

    /// Puts the entry at the end of its list, if it is on none.
    ///
    /// [`alloc_lists`] has succeeded for its cgroup.
    #[inline]
    pub(crate) fn join_lru(&self) {
        // SAFETY: The entry stays, by the invariants, and its links are initialized. RCU keeps the
        // cgroup.
        unsafe {
            with_list(self.0, |nid, memcg| {
                bindings::list_lru_add(
                    &raw mut bindings::zswap_list_lru,
                    links_of(self.0),
                    nid,
                    memcg,
                );
            })
        };
    }
}

impl<T: LruItem> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: It is initialized and stays, by the invariants.
        unsafe { self.0.as_ref() }
    }
}

/// What an entry can be recognized by, also after it is gone.
pub(crate) struct Key<T>(*const T);

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

#[cfg(CONFIG_RUST_VSWAP)]
impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

/// Makes sure that a cgroup has lists. May sleep.
#[inline]
pub(crate) fn alloc_lists(memcg: Memcg<'_>) -> Result {
    // SAFETY: The cgroup is valid or NULL, and the LRU was made by `setup()`.
    to_result(unsafe { bindings::zswap_lru_alloc(memcg.as_ptr()) })
}

/// The number of entries on the list of a cgroup and node.
pub(crate) fn count(memcg: Memcg<'_>, nid: c_int) -> usize {
    // SAFETY: The cgroup is valid or NULL, and the LRU was made by `setup()`.
    unsafe { bindings::list_lru_count_one(&raw mut bindings::zswap_list_lru, nid, memcg.as_ptr()) }
}

/// What became of an entry that was taken up.
pub(crate) enum Outcome {
    /// It is gone.
    Removed,
    /// It stays where it is, at the end of the list.
    Kept,
    /// As [`Outcome::Kept`], and the walk ends.
    KeptAndStop,
}

/// What a walk along the LRU does.
pub(crate) trait Walker<T: LruItem> {
    /// What it takes along from an entry, by value.
    type Found;

    /// Looks at an entry, under the lock of the list.
    ///
    /// `None`: it goes to the end of the list. `Some`: also, but before the walk goes on, the lock
    /// is dropped for [`Walker::act`]. The entry may be gone then.
    fn look(&mut self, item: &T, key: Key<T>) -> Option<Self::Found>;

    /// Acts on what was found. May sleep.
    fn act(&mut self, found: Self::Found) -> Outcome;
}

/// The callback of C.
///
/// # Safety
///
/// `item` is the links of a `T`, on the list `list`, whose lock is held. `walker` is an exclusive
/// reference to a `W`.
unsafe extern "C" fn isolate<T: LruItem, W: Walker<T>>(
    item: *mut bindings::list_head,
    list: *mut bindings::list_lru_one,
    walker: *mut c_void,
) -> bindings::lru_status {
    // SAFETY: As required of the caller.
    let walker = unsafe { &mut *walker.cast::<W>() };
    let entry = item.wrapping_byte_sub(T::LINKS).cast::<T>().cast_const();
    // SAFETY: What is on the list is initialized and stays while the lock is held: to free it one
    // takes it off first.
    let Some(found) = walker.look(unsafe { &*entry }, Key(entry)) else {
        return bindings::lru_status::LRU_ROTATE;
    };
    // It goes to the end now: afterwards nobody knows whether it is still there. Who frees it takes
    // it off.
    // SAFETY: The lock is held, and `item` is on the list. C lets the callback drop the lock, if it
    // returns one of the values below: the walk then begins anew.
    unsafe {
        bindings::zswap_list_move_tail(item, &raw mut (*list).list);
        bindings::zswap_lru_unlock(list);
    }
    match walker.act(found) {
        Outcome::Removed => bindings::lru_status::LRU_REMOVED_RETRY,
        Outcome::Kept => bindings::lru_status::LRU_RETRY,
        Outcome::KeptAndStop => bindings::lru_status::LRU_STOP,
    }
}

/// Walks along the list of a cgroup and node, over at most `budget` entries, of which it takes
/// those that it has seen off. Returns the number of entries that were removed.
pub(crate) fn walk<T: LruItem, W: Walker<T>>(
    memcg: Memcg<'_>,
    nid: c_int,
    budget: &mut usize,
    walker: &mut W,
) -> usize {
    // SAFETY: The cgroup is valid or NULL, and the LRU was made by `setup()` for `T`. The callback
    // gets what it requires.
    unsafe {
        bindings::list_lru_walk_one(
            &raw mut bindings::zswap_list_lru,
            nid,
            memcg.as_ptr(),
            Some(isolate::<T, W>),
            core::ptr::from_mut(walker).cast(),
            budget,
        )
    }
}

/// The nodes that have memory.
pub(crate) fn memory_nodes() -> impl Iterator<Item = c_int> {
    let mut from = 0;
    core::iter::from_fn(move || {
        // SAFETY: No requirements.
        let nid = unsafe { bindings::zswap_memory_node(from) };
        from = nid.saturating_add(1);
        (nid < bindings::ZSWAP_MAX_NUMNODES).then_some(nid)
    })
}

const _: () = assert!(size_of::<MaybeUninit<Links>>() == size_of::<bindings::list_head>());
