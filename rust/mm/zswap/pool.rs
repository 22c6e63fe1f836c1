// SPDX-License-Identifier: GPL-2.0

//! Pools. A pool has a compressor and zsmalloc objects. Each object has the data of one stored
//! page, compressed or not.
//!
//! # Lifetime
//!
//! A pool has a per-CPU reference count:
//! - Each object holds a reference. It belongs first to the [`NewStoredPage`], then to the
//!   [`BackingWord`] that names the object.
//! - A store holds a reference while it runs ([`PoolRef`]).
//! - [`CURRENT`] holds the *initial* reference of the current pool ([`Initial`]). As long as the
//!   initial reference exists, the count stays per CPU, so that getting and putting references is
//!   cheap. Dropping the initial reference retires the pool.
//!
//! # Finding a pool
//!
//! A pool has a number, its index in [`POOLS`], from its creation until its last reference is put.
//! [`CURRENT`] points to the pool that stores use. A reader of either holds the RCU read lock, or
//! a reference to the pool. The task that puts the last reference, in any context, removes the
//! pool from [`POOLS`]. It queues a work item, which waits for an RCU grace period and frees the
//! pool. A reader that has found the pool before cannot get a reference: [`PoolRef::get`] fails.
//!
//! The compressor of a retired pool may be chosen again before the last object of the pool is
//! freed. Then [`take_retired`] revives the pool: it takes a new initial reference.
//!
//! # CPU hotplug
//!
//! A pool is an instance of a multi-instance CPU hotplug state from its creation until it is
//! freed. So a CPU gets its compression context before it is online: see [`crate::ffi::acomp`].

#[cfg(CONFIG_RUST_VSWAP)]
use crate::{
    ffi::device::DeviceSlots,
    vswap::{
        cluster::{
            Backed,
            BitWord,
            OwnedWord, //
        },
        swap_table::Backing, //
    }, //
};
use crate::{
    ffi::{
        acomp::Contexts,
        call::FromC,
        folio::{
            Bytes,
            SwapEntry, //
        },
        node::Node,
        params,
        zsmalloc::{
            Emptied,
            Freeable,
            InWord,
            NewObject,
            ObjectName,
            Parts,
            ReadPin,
            Readable,
            ZsPool, //
        }, //
    },
    warn::warn_on_once,
    zswap::{
        record::{
            Kept,
            Object,
            PageSum,
            Pattern,
            Place,
            Record,
            POOL_BITS, //
        },
        table::{
            self,
            LockedSpan, //
        }, //
    }, //
};
use core::{
    ffi::CStr,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    cpu::CpuId,
    error::to_result,
    impl_has_work,
    new_work,
    page::PAGE_SIZE,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        rcu,
        SetOnce, //
    },
    types::{
        ForeignOwnable,
        Opaque, //
    },
    warn_on,
    workqueue::{
        self,
        Work,
        WorkItem, //
    }, //
};

/// The reference count of a pool: C's `struct percpu_ref`.
///
/// # Invariants
///
/// The count is initialized, and is the `refs` field of a pool.
#[pin_data(PinnedDrop)]
#[repr(transparent)]
struct Refs {
    #[pin]
    count: Opaque<bindings::percpu_ref>,
}

impl Refs {
    /// Initializes a count with one reference, the initial reference. May sleep.
    ///
    /// Relies on the invariant that [`Pool::create`] establishes: the count is the `refs` field of
    /// a pool.
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // SAFETY: The count is pinned until `percpu_ref_exit()`. By the invariants, it is the
            // count of a pool, as `last_put()` requires.
            count <- Opaque::try_ffi_init(|count| to_result(unsafe {
                bindings::percpu_ref_init(
                    count,
                    Some(last_put),
                    bindings::ZSWAP_REF_REINIT,
                    bindings::GFP_KERNEL,
                )
            })),
        }? Error)
    }

    fn as_ptr(&self) -> *mut bindings::percpu_ref {
        self.count.get()
    }

    c_methods! {
        // C allows these calls from `percpu_ref_init()` until `percpu_ref_exit()`, and the count
        // is initialized while there is a `Refs`.
        safe fn is_zero(&self) -> bool = percpu_ref_is_zero;
        /// Takes a reference. Returns false if the last one was put already.
        safe fn try_get(&self) -> bool = zswap_ref_tryget;
    }
}

to_c! {
    /// The reference count of the pool. It is not 0, because the value owns a reference.
    &PoolRef => *mut bindings::percpu_ref = |this| this.refs.as_ptr();
}

c_functions! {
    // Takes another reference to the pool. If the count were 0, the pool would be freed in spite of
    // the new reference.
    safe fn get_another(pool: &PoolRef) = zswap_ref_get;
}

#[pinned_drop]
impl PinnedDrop for Refs {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The count is initialized, by the invariants of `Refs`. The pool is being freed,
        // so there are no references.
        unsafe { bindings::percpu_ref_exit(self.as_ptr()) };
    }
}

/// A pool.
///
/// # Invariants
///
/// After [`Pool::create`], a pool is a box that was leaked by `into_foreign()`. Only the work item
/// frees it. Putting the last reference queues the work item.
#[pin_data(PinnedDrop)]
pub(crate) struct Pool {
    zs: ZsPool,
    contexts: Contexts,
    #[pin]
    refs: Refs,
    #[pin]
    release: Work<Self>,
    #[pin]
    hotplug: Opaque<bindings::hlist_node>,
    /// True if the initial reference was dropped. The task that clears the flag may take a new
    /// initial reference.
    retired: Atomic<bool>,
    number: SetOnce<u8>,
}

// SAFETY: zsmalloc, the reference count and the work item do their own locking. The mutex of a
// context protects the context. `number` is a `SetOnce`, and `retired` is atomic.
// `hotplug` is used by C alone, under its own lock.
unsafe impl Send for Pool {}
// SAFETY: As for `Send`.
unsafe impl Sync for Pool {}

#[pinned_drop]
impl PinnedDrop for Pool {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `Pool::create()` has added the instance, or it would have failed without a
        // `Pool`. The pool is pinned, so its node has not moved. After the removal, the hotplug
        // callback is not called for this pool.
        unsafe { bindings::__cpuhp_state_remove_instance(PREPARE, self.hotplug.get(), true) };
        // Dropping the fields frees the zsmalloc pool, the compression contexts and the count.
    }
}

impl_has_work! {
    impl HasWork<Self> for Pool { self.release }
}

impl WorkItem for Pool {
    type Pointer = Pin<KBox<Self>>;

    /// Frees a pool that has left [`POOLS`].
    fn run(pool: Self::Pointer) {
        // An RCU reader may have found the pool before it left `POOLS`.
        rcu::synchronize_rcu();
        warn_on!(!pool.refs.is_zero());
        pool.report(c"destroying");
    }
}

/// The CPU hotplug state that pools are instances of.
const PREPARE: bindings::cpuhp_state = bindings::cpuhp_state_CPUHP_MM_ZSWP_POOL_PREPARE;

/// Number of calls of [`Pool::create`], for the names of pools in zsmalloc, which must be unique.
static POOLS_MADE: Atomic<u32> = Atomic::new(0);

/// The maximum number of pools. Few exist at a time: a pool other than the current one exists only
/// as long as it has objects or users.
const MAX_POOLS: usize = 1 << POOL_BITS;

/// All pools, indexed by their number. A word stores the number because it takes fewer bits than a
/// pointer.
///
/// A pool in this array is initialized, except for its `number`, which is set right after the pool
/// has joined the array. It is freed only after a grace period has passed since it left the array.
static POOLS: [PoolCell; MAX_POOLS] = [const { PoolCell::nothing() }; MAX_POOLS];

/// How many places of [`POOLS`], from the first on, were ever used: usually one. [`each`] reads
/// only these, because each store calls it, for [`total_pages`].
static PLACES_USED: Atomic<usize> = Atomic::new(0);

/// The pool that stores use. This pointer owns the initial reference of the pool.
static CURRENT: PoolCell = PoolCell::nothing();

impl Pool {
    /// Creates a pool with a compressor. May sleep. Returns `ENOSPC` if all numbers are taken, or
    /// the error of the step that failed, such as `ENOMEM`.
    pub(crate) fn create(compressor: &CStr) -> Result<Initial> {
        let nth = POOLS_MADE.fetch_add(1, Full).wrapping_add(1);
        let zs_name = CString::try_from_fmt(fmt!("zswap{nth:x}"))?;
        let pool = KBox::try_pin_init(
            try_pin_init!(Self {
                // SAFETY: `NewStoredPage::publish()` writes the place of an object to the word of
                // its slot before it unpins the object. `find_word()` returns this word for the
                // object's name, until the object is freed: by the invariants of `BackingWord`, the
                // slot is in use until then. An object is stored as a `NewObject`, which owns a
                // reference to the pool. The reference passes to the word, and is put after the
                // object is freed, so the pool is dropped later.
                zs: unsafe { ZsPool::create(&zs_name, table::find_word) }?,
                contexts: Contexts::new(compressor)?,
                // INVARIANT: This is the `refs` field of a pool.
                refs <- Refs::new(),
                release <- new_work!("zswap::Pool::release"),
                retired: Atomic::new(false),
                number: SetOnce::new(),
                // This is last, because it calls `zswap_rs_cpu_prepare()` for each online CPU,
                // which uses other fields. If it fails, the other fields are dropped one by one,
                // without the `Drop` of `Pool`, which would remove the instance.
                // SAFETY: The node is pinned until the drop of the pool removes the instance.
                hotplug <- Opaque::try_ffi_init(|node| to_result(unsafe {
                    bindings::__cpuhp_state_add_instance(PREPARE, node, true)
                })),
            }),
            GFP_KERNEL,
        )?;
        // After this, RCU readers can find the pool, so no later step may fail.
        pool.take_place()?;
        // INVARIANT: `initial` owns the initial reference, and the box is leaked below.
        let initial = Initial(ManuallyDrop::new(PoolRef(NonNull::from(&*pool))));
        pool.into_foreign();
        initial.report(c"created");
        params::note_ever_enabled();
        Ok(initial)
    }

    /// Returns the name of the pool's compressor.
    pub(crate) fn compressor(&self) -> &CStr {
        self.contexts.compressor()
    }

    /// Returns the zsmalloc pool.
    pub(crate) fn zs(&self) -> &ZsPool {
        &self.zs
    }

    /// Returns the per-CPU compression contexts of the pool.
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Prepares the compression context of a CPU. May sleep.
    pub(crate) fn prepare(&self, cpu: CpuId) -> Result {
        self.contexts.prepare(cpu)
    }

    fn report(&self, what: &CStr) {
        params::report_pool(what, self.compressor());
    }

    /// Takes a free number and puts the pool into [`POOLS`]. Returns `ENOSPC` if no number is
    /// free.
    fn take_place(&self) -> Result {
        let free = |place: &PoolCell| place.0.cmpxchg(core::ptr::null(), self, Full).is_ok();
        let nr = POOLS.iter().position(free).ok_or(ENOSPC)?;
        // The cast is lossless: `MAX_POOLS` is less than 256.
        self.number.populate(nr as u8);
        let (mut used, nr) = (PLACES_USED.load(Relaxed), nr.wrapping_add(1));
        while used < nr {
            used = match PLACES_USED.cmpxchg(used, nr, Relaxed) {
                Ok(_) => nr,
                Err(now) => now,
            };
        }
        Ok(())
    }

    /// Removes the pool from [`POOLS`], so that another pool can take its number.
    fn leave_place(&self) {
        for place in &POOLS {
            let _ = place.0.cmpxchg(self, core::ptr::null(), Full);
        }
    }
}

impl FromC<*mut bindings::hlist_node> for &Pool {
    /// # Safety
    ///
    /// `node` is the `hotplug` field of a pool that is not freed while the called function runs.
    unsafe fn from_c(node: *mut bindings::hlist_node) -> Self {
        // SAFETY: As required of the caller, `node` is the `hotplug` field of a pool that is not
        // freed.
        unsafe { &*kernel::container_of!(Opaque::cast_from(node), Pool, hotplug) }
    }
}

/// Removes a pool from [`POOLS`] and queues the work item that frees it. The task that puts the
/// last reference calls this, in any context.
///
/// # Safety
///
/// `refs` is the reference count of a pool, and its last reference was just put.
unsafe extern "C" fn last_put(refs: *mut bindings::percpu_ref) {
    // SAFETY: As required of the caller, `refs` is the count of a pool. By the invariants of
    // `Refs`, it is the `refs` field of the pool.
    let pool = unsafe { kernel::container_of!(refs.cast::<Refs>(), Pool, refs) };
    // SAFETY: By the invariants of `Pool`, the pool is a box that was leaked by `into_foreign()`.
    // As required of the caller, the last reference was just put. That happens once, so this is
    // the only task that makes a box of the pool.
    let pool = unsafe { Pin::<KBox<Pool>>::from_foreign(pool.cast()) };
    // No word names an object of the pool, because each object has a reference. So no task looks
    // up the number of the pool.
    pool.leave_place();
    // Freeing a pool waits for an RCU grace period.
    workqueue::system_long().enqueue(pool);
}

/// The initial reference of a pool. Dropping it retires the pool: the pool is freed when its last
/// object and its last user are gone.
///
/// # Invariants
///
/// This value owns the initial reference of the pool.
#[must_use]
pub(crate) struct Initial(ManuallyDrop<PoolRef>);

impl Initial {
    /// Makes the pool the current one, and retires the previous one.
    pub(crate) fn make_current(self) {
        let pool = ManuallyDrop::new(self).0 .0.as_ptr();
        let previous = NonNull::new(CURRENT.0.xchg(pool, Full).cast_mut());
        // INVARIANT: `CURRENT` owned the initial reference of the previous pool, and pointed to
        // it. The new value takes this reference over.
        drop(previous.map(|pool| Self(ManuallyDrop::new(PoolRef(pool)))));
    }
}

impl Deref for Initial {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.0
    }
}

impl Drop for Initial {
    fn drop(&mut self) {
        // The initial reference may be the last one. Because of the reference in `pool`, the pool
        // is not freed before `retired` is set.
        let Some(pool) = PoolRef::get(self) else {
            warn_on!(true);
            return;
        };
        // SAFETY: By the invariants of `Initial`, this value owns the initial reference.
        unsafe { bindings::percpu_ref_kill_and_confirm(pool.refs.as_ptr(), None) };
        pool.retired.store(true, kernel::sync::atomic::Release);
    }
}

/// A counted reference to a pool.
///
/// # Invariants
///
/// This value owns one reference to the pool.
pub(crate) struct PoolRef(NonNull<Pool>);

impl PoolRef {
    /// Takes a reference to the pool. Returns `None` if the last reference was put already.
    #[inline]
    fn get(pool: &Pool) -> Option<Self> {
        // INVARIANT: The reference was just taken for this value.
        pool.refs.try_get().then(|| Self(NonNull::from(pool)))
    }

    /// Stores a copy of `bytes` in a new object of the pool, for a slot. Returns `EOVERFLOW` if
    /// the object's place does not fit in a word, or the error of zsmalloc.
    #[inline]
    pub(crate) fn store(
        &self,
        bytes: Bytes<'_>,
        node: Node,
        entry: SwapEntry,
    ) -> Result<NewStoredPage> {
        let number = self.number.copy().ok_or(EINVAL)?;
        let len = bytes.len();
        let name = ObjectName::of(entry);
        let object = NewObject::store(self.clone(), bytes, node, name)?;
        let kept = Place::new(object.place())
            .and_then(|place| Object::new(place, number, len == PAGE_SIZE))
            .ok_or(EOVERFLOW)?;
        // INVARIANT: The object is in the pool with this number, at this place, and has this name.
        Ok(NewStoredPage {
            word: Record::new(Kept::Object(kept)).encode(),
            len: len as u32,
            name,
            object: Some(object),
        })
    }
}

impl Clone for PoolRef {
    #[inline]
    fn clone(&self) -> Self {
        get_another(self);
        // INVARIANT: The reference was just taken for this value.
        Self(self.0)
    }
}

impl Deref for PoolRef {
    type Target = Pool;

    #[inline]
    fn deref(&self) -> &Pool {
        // SAFETY: By the invariants of `PoolRef`, this value owns a reference to the pool, so the
        // pool is not freed while `self` is borrowed.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for PoolRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the invariants of `PoolRef`, this value owns the reference.
        unsafe { bindings::zswap_ref_put_many(self.refs.as_ptr(), 1) };
    }
}

/// A place for a pointer to a pool.
///
/// # Invariants
///
/// The pointer is NULL, or points to a pool that is not freed before an RCU grace period has
/// passed since it left all places.
struct PoolCell(Atomic<*const Pool>);

impl PoolCell {
    const fn nothing() -> Self {
        // INVARIANT: The pointer is NULL.
        Self(Atomic::new(core::ptr::null()))
    }

    /// Returns the pool that the place points to.
    #[inline]
    fn get<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a Pool> {
        // SAFETY: By the invariants, the pool is not freed while the RCU read lock is held.
        unsafe { self.0.load(Acquire).as_ref() }
    }
}

/// Returns the pools in [`POOLS`]: the current one and the retired ones. May miss a pool that
/// joins or leaves meanwhile.
#[inline]
fn each(rcu: &rcu::Guard) -> impl Iterator<Item = &Pool> {
    let used = PLACES_USED.load(Relaxed);
    POOLS.iter().take(used).filter_map(|place| place.get(rcu))
}

/// Returns a reference to the current pool, or `None` if there is none.
#[inline]
pub(crate) fn current() -> Option<PoolRef> {
    CURRENT.get(&rcu::read_lock()).and_then(PoolRef::get)
}

/// Revives a retired pool with the compressor. Returns `None` if no retired pool has it.
pub(crate) fn take_retired(compressor: &CStr) -> Option<Initial> {
    let rcu = rcu::read_lock();
    let found = each(&rcu)
        .filter(|pool| pool.compressor() == compressor)
        .filter_map(PoolRef::get)
        .find(|pool| pool.retired.cmpxchg(true, false, Full).is_ok())?;
    drop(rcu);
    found.report(c"using existing");
    // SAFETY: The pool was retired, so its initial reference is gone. This task cleared `retired`,
    // so no other task makes a new one. `found` is a reference, so the count is not zero.
    unsafe { bindings::percpu_ref_resurrect(found.refs.as_ptr()) };
    // INVARIANT: The call above made a new initial reference.
    Some(Initial(ManuallyDrop::new(PoolRef(found.0))))
}

/// Returns the number of pages that all pools use.
#[inline]
pub(crate) fn total_pages() -> usize {
    let rcu = rcu::read_lock();
    each(&rcu).fold(0usize, |total, pool| {
        total.wrapping_add(pool.zs.total_pages())
    })
}

/// The word of a slot in a zswap table: 0, a [`Record`], or in a virtual cluster, the device slot
/// that backs the slot.
///
/// Only this file replaces words. (The clock hand in `ring` clears the referenced bit. zsmalloc
/// changes the place of an object, and writes the new word when this file frees an object.) The
/// callers of its functions pass the right to a word:
///
/// - A [`SlotWord`] lets [`NewStoredPage::publish`] store a record, and [`FreeBatch::free`] free a
///   record.
/// - An `OwnedWord` lets `FreeBatch::take()` clear the word or name a device slot.
/// - A `BitWord` lets `name_bit()` name the device slot of a bound cluster.
/// - [`FreeBatch::take_loaded`] is unsafe. Its caller guarantees what a [`SlotWord`] would.
///
/// # Invariants
///
/// A word that names an object owns the object, and a reference to its pool. It belongs to a slot
/// in use, and the swap device of a slot in use is not freed. A word that names a device slot owns
/// the device slot. The word changes under the lock of its cluster, except for the referenced bit
/// of a record and the place of an object.
///
/// Corrupted memory can break these invariants. Code that finds a corrupt word fails, or leaks
/// what the word should name. If the word has the number of a wrong pool, zsmalloc finds that the
/// object is not in that pool. But that pool may be freed meanwhile, which is not detected.
#[repr(transparent)]
pub(crate) struct BackingWord(Atomic<u64>);

impl BackingWord {
    /// Reads the word. Without the lock of the cluster, the value may be stale.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut u64 {
        self.0.as_ptr()
    }
}

/// Writes the device slot that backs a slot of a bound cluster (see `vswap::device_map`) into the
/// backing word of the slot. Warns and returns false if the word already names something.
#[cfg(CONFIG_RUST_VSWAP)]
pub(crate) fn name_bit(bit: BitWord<'_>) -> bool {
    let (word, device) = bit.into_parts();
    if warn_on_once!(word.load() != 0) {
        return false;
    }
    // INVARIANT: The word was 0, so it owned nothing. By the invariants of `BitWord`, the cluster
    // is locked, and the bit owns the device slot and is cleared next. `bit` is consumed, and the
    // word takes the device slot over.
    word.0.store(Backing::Phys(device).encode(), Relaxed);
    true
}

/// Decodes a word that is a valid record.
#[inline]
fn decode_valid(word: u64) -> Record {
    // The default is not used, because the word is valid.
    Record::decode(word).unwrap_or(Record::new(Kept::Same(Pattern::ZERO)))
}

/// A new value for a word.
///
/// # Invariants
///
/// The value owns the object, with a reference to its pool, or the device slot that it names, if
/// any: see [`BackingWord`].
struct NewWord(u64);

/// The value that a word had before it was replaced. If it names a stored page, that page is freed
/// already. If it names a device slot, dropping the value leaks the device slot.
///
/// # Invariants
///
/// The value owns the device slot that it names, if any. No I/O uses this device slot.
#[must_use]
pub(crate) struct OldWord(u64);

impl OldWord {
    /// Returns the value.
    pub(crate) fn get(&self) -> u64 {
        self.0
    }

    /// Returns true if the word named a stored page.
    #[inline]
    pub(crate) fn was_stored(&self) -> bool {
        Record::is_tag(self.0)
    }
}

/// The word of a slot, for a task that may replace the stored page of the slot.
///
/// There can be several of these values for one slot, and one of them may have been used to free
/// the page. So each function that takes a value reads the word again, under the lock.
///
/// # Invariants
///
/// `word` is the word of the slot that `name` names. During `'w`, the task holds the lock of the
/// slot's cluster, and it alone has the right to the slot: see "The right to a slot" in
/// [`crate::ffi::folio`]. No I/O uses the device slot of the slot.
pub(crate) struct SlotWord<'w> {
    word: &'w BackingWord,
    name: ObjectName,
}

impl<'w> SlotWord<'w> {
    /// Returns the word of the `n`th slot of a span. Returns `None` if the span has no such slot,
    /// or if the cluster has no table of words.
    #[inline]
    pub(crate) fn of(slots: &'w LockedSpan<'_>, n: u32) -> Option<Self> {
        let (word, name) = slots.nth(n)?;
        // INVARIANT: By the invariants of `LockedSpan`, the cluster is locked, the task has the
        // right to the slots, and no I/O uses their device slots.
        Some(Self { word, name })
    }

    /// Returns the word of a slot of a virtual cluster.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline]
    fn of_owned(owned: &OwnedWord<'w>) -> Self {
        let (word, name) = owned.parts();
        // INVARIANT: By the invariants of `OwnedWord`, the cluster is locked, the task has the
        // right to the slot with this name and word, and no I/O uses its device slot.
        Self { word, name }
    }

    /// Reads the word.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        self.word.load()
    }

    /// Replaces the word, without freeing the object or device slot that it named.
    #[inline]
    fn set(self, new: NewWord) {
        // INVARIANT: The word takes over what `new` names.
        self.word.0.store(new.0, Relaxed);
    }
}

/// An object that a word names.
///
/// # Invariants
///
/// `word` is the word of the slot with the name `name`. `object` is the object that the word named
/// when it was read. If zsmalloc has moved the object since, the word has its new place, and
/// `object` the old one.
///
/// If `A` is [`Freeable`], the cluster of the slot is locked, and no other task has the right to
/// the slot (see [`crate::ffi::folio`]). So only the owner of this value may free the object during
/// `'a`. If `A` is [`Readable`], no task frees the object during `'a`.
struct NamedObject<'a, A> {
    word: &'a BackingWord,
    name: ObjectName,
    object: Object,
    _access: PhantomData<A>,
}

impl<'a, A> NamedObject<'a, A> {
    /// Returns the object and its pool. Returns `None` if no pool has the number in the word,
    /// because the word is corrupt.
    #[inline]
    fn find(self) -> Option<(&'a Pool, InWord<'a, A>)> {
        let place = POOLS.get(usize::from(self.object.pool()))?;
        // This takes no RCU read lock, unlike `PoolCell::get()`, because the result is used longer
        // than an RCU section may last. A load sleeps meanwhile.
        // SAFETY: By the invariants of `BackingWord`, the word owns a reference to the object's
        // pool, which is in this place, until the object is freed. By the invariants of
        // `NamedObject`, only the owner of the result may free the object during `'a`. It then owns
        // the reference.
        let pool: &'a Pool = unsafe { place.0.load(Acquire).as_ref() }?;
        // SAFETY: The object is in this pool. By the invariants of `NamedObject`, the word names
        // the object. `NewStoredPage::publish()` put it there under its name, and then unpinned it.
        // By the same invariants, only the owner of the result may free it during `'a`, and only if
        // `A` is `Freeable`. If `A` is `Freeable`, no other task reads the object or replaces the
        // word, because both take the right to the slot. The clock hand only clears the referenced
        // bit, by compare-and-exchange.
        let object = unsafe { InWord::new(&pool.zs, &self.word.0, self.name) };
        Some((pool, object))
    }
}

/// A page to be stored. No word names its object yet. Dropping the entry frees the object.
///
/// # Invariants
///
/// `word` is a valid record. If the record names an object, that is `object`, which has the name
/// `name` and belongs to the pool with the record's number.
#[must_use]
pub(crate) struct NewStoredPage {
    word: u64,
    len: u32,
    name: ObjectName,
    object: Option<NewObject<PoolRef>>,
}

impl NewStoredPage {
    /// Returns the entry of a page that repeats one value, for a slot.
    #[inline]
    pub(crate) fn same(pattern: Pattern, entry: SwapEntry) -> Self {
        // INVARIANT: The word is a valid record that names no object.
        Self {
            word: Record::new(Kept::Same(pattern)).encode(),
            len: 0,
            name: ObjectName::of(entry),
            object: None,
        }
    }

    /// Returns the length of the object's data in bytes, or 0 without an object.
    pub(crate) fn data_len(&self) -> u32 {
        self.len
    }

    /// Puts the entry into the word of a slot, and unpins the object. Adds the page to `new_sum`.
    /// Frees the stored page that the word named before, if any, and adds it to `sum`. Returns the
    /// old word. If the old word is 0, the caller counts one more word in use. If the entry was
    /// made for another slot, drops the entry and returns `None`.
    #[inline]
    #[must_use]
    pub(crate) fn publish(
        self,
        word: SlotWord<'_>,
        freed: &mut FreeBatch,
        sum: &mut ZswapCharge,
        new_sum: &mut ZswapCharge,
    ) -> Option<OldWord> {
        let Self {
            word: new,
            len,
            name,
            object,
        } = self;
        if name != word.name {
            return None;
        }
        // By the invariants of `NewStoredPage`, `new` is a valid record.
        new_sum.add(decode_valid(new).kept, len);
        let old = word.load();
        // INVARIANT: The word takes over the object, and the reference to its pool.
        let new = NewWord(new);
        if Record::is_tag(old) {
            freed.replace(word, new, sum);
        } else {
            word.set(new);
        }
        if let Some(object) = object {
            // SAFETY: By the invariants of `NewStoredPage`, the new value of the word names this
            // object. By the invariants of `SlotWord` and the check above, `find_word()` returns
            // this word for the object's name, and no other task frees the object yet, because this
            // task has locked the cluster. The word has taken over the object and the reference.
            unsafe { object.unpin() };
        }
        // INVARIANT: By the invariants of `BackingWord`, the word owned any device slot that `old`
        // names, until the word was replaced. By those of `SlotWord`, no I/O uses the device slot.
        Some(OldWord(old))
    }
}

/// The zswap charge of pages that were stored, and are to be charged, or that were freed, and are
/// to be uncharged. It is not `Copy`, so that each page is charged and uncharged only once.
/// Dropping the value leaves the pages as they are.
///
/// # Invariants
///
/// The sum is that of pages that this file has stored in a word, or freed. No other value has them.
#[derive(Default)]
#[must_use]
pub(crate) struct ZswapCharge(PageSum);

impl ZswapCharge {
    /// The charge of no page.
    // INVARIANT: The sum has no pages.
    pub(crate) const NONE: Self = Self(PageSum::NONE);

    /// Adds the charge of other pages.
    #[inline]
    pub(crate) fn merge(&mut self, other: Self) {
        // INVARIANT: `other` is consumed, and its pages are added.
        self.0.merge(other.0);
    }

    /// Adds a page that was just stored or freed. Its object, if it has one, has `len` bytes of
    /// data.
    #[inline]
    fn add(&mut self, kept: Kept, len: u32) {
        // INVARIANT: As required of the caller, this file has just stored or freed the page.
        self.0.add(kept, len);
    }
}

impl Deref for ZswapCharge {
    type Target = PageSum;

    #[inline]
    fn deref(&self) -> &PageSum {
        &self.0
    }
}

/// A batch of freed objects: references to their pool, and zspages that became empty. Dropping it
/// puts the references and frees the zspages. Where possible, the caller drops it without holding
/// a spinlock, because this takes time.
///
/// # Invariants
///
/// This value owns `nr` references to `pool`. The zspages in `emptied` belong to `pool`.
pub(crate) struct FreeBatch {
    pool: Option<NonNull<Pool>>,
    nr: usize,
    emptied: Emptied,
}

impl FreeBatch {
    /// Returns an empty batch.
    #[inline]
    pub(crate) const fn new() -> Self {
        Self {
            pool: None,
            nr: 0,
            emptied: Emptied::NONE,
        }
    }

    /// Removes the backing that the word of a virtual slot names, and returns the backing, or
    /// `None` if the word named none. If the backing is a stored page, frees it; the caller
    /// uncharges it. With `new`, moves the first device slot of `new` into the word. Otherwise
    /// sets the word to 0.
    #[cfg(CONFIG_RUST_VSWAP)]
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        owned: &OwnedWord<'_>,
        new: Option<&mut DeviceSlots>,
    ) -> Option<Backed> {
        let old = owned.load();
        let new = match new {
            // INVARIANT: `name_first()` has removed the device slot that it returns from
            // `devices`, so the new word owns it.
            Some(devices) => NewWord(devices.name_first()),
            None if old == 0 => return None,
            // INVARIANT: 0 names nothing.
            None => NewWord(0),
        };
        let word = SlotWord::of_owned(owned);
        if Record::is_tag(old) {
            let mut sum = ZswapCharge::NONE;
            self.replace(word, new, &mut sum);
            return Some(Backed::Zswap(sum));
        }
        word.set(new);
        // INVARIANT: By the invariants of `BackingWord`, the word owned any device slot that `old`
        // names, until the word was replaced. By those of `SlotWord`, no I/O uses the device slot.
        DeviceSlots::of_word(OldWord(old), owned.offset()).map(Backed::Device)
    }

    /// Frees the stored page that a word names, and clears the word. Adds the page to `sum`, for
    /// the caller to uncharge.
    #[inline(never)]
    pub(crate) fn free(&mut self, word: SlotWord<'_>, sum: &mut ZswapCharge) {
        // INVARIANT: The new value 0 names no object and no device slot.
        self.replace(word, NewWord(0), sum);
    }

    /// Frees the stored page that a word names, and replaces the word by `new`. Adds the page to
    /// `sum`. If the word is corrupt, warns and leaks the object that the word should name. Then
    /// the bytes of the object stay charged. If the word is no valid record, or if no pool has the
    /// record's number, the page stays charged, too.
    // Inlined, so that `sum` stays in registers.
    #[inline(always)]
    fn replace(&mut self, word: SlotWord<'_>, new: NewWord, sum: &mut ZswapCharge) {
        let value = word.load();
        let Some(Record { kept, .. }) = Record::decode(value) else {
            warn_on_once!(true);
            word.set(new);
            return;
        };
        let Kept::Object(object) = kept else {
            word.set(new);
            sum.add(kept, 0);
            return;
        };
        // INVARIANT: The word names the object. By the invariants of `SlotWord`, the cluster is
        // locked, and no other task has the right to the slot.
        let named = NamedObject::<Freeable> {
            word: word.word,
            name: word.name,
            object,
            _access: PhantomData,
        };
        let Some((pool, object)) = named.find() else {
            warn_on_once!(true);
            word.set(new);
            return;
        };
        self.turn_to(pool);
        // INVARIANT: The word takes over the device slot that `new` names, if any.
        match object.free(new.0, &mut self.emptied) {
            Ok(len) => {
                sum.add(kept, len);
                // INVARIANT: The freed object's reference passes to this value.
                self.nr = self.nr.wrapping_add(1);
            }
            // The word was corrupt, so the object is leaked, with its reference to the pool. Count
            // the page in `sum`, but its bytes stay charged, because their number is not known.
            Err(_) => sum.add(kept, 0),
        }
    }

    /// Frees the stored page that was read, and clears its word. Returns the [`ZswapCharge`] of
    /// this page, for the caller to uncharge.
    ///
    /// # Safety
    ///
    /// The cluster of the page's slot is locked, and the caller owns the right to the slot.
    #[inline]
    pub(crate) unsafe fn take_loaded(&mut self, loaded: Loaded<'_>) -> ZswapCharge {
        let Loaded { held, object, len } = loaded;
        let mut sum = ZswapCharge::NONE;
        sum.add(held.record().kept, len);
        match object {
            Some((pool, pin)) => {
                self.turn_to(pool);
                // SAFETY: By the invariants of `Loaded`, the object is in this pool, and `pin` is
                // the pin of the read through this word. As required of the caller, the cluster is
                // locked, and the caller owns the right to the slot. So no other task reads or
                // frees the object, or changes the word, except that the clock hand clears the
                // referenced bit by compare-and-exchange.
                unsafe { pool.zs.free_read(pin, &held.word.0, 0, &mut self.emptied) };
                // INVARIANT: The freed object's reference passes to this value.
                self.nr = self.nr.wrapping_add(1);
            }
            None => held.word.0.store(0, Relaxed),
        }
        sum
    }

    /// Prepares the batch for objects of `pool`. Flushes it first if it has objects of another
    /// pool.
    #[inline]
    fn turn_to(&mut self, pool: &Pool) {
        let pool = Some(NonNull::from(pool));
        if self.pool != pool {
            // Skip the call of `flush()` if the batch has no pool yet. That is the usual case,
            // because a fault frees only one object.
            if self.pool.is_some() {
                self.flush();
            }
            // INVARIANT: The batch is empty, so it owns no references and no zspages of the pool.
            self.pool = pool;
        }
    }

    /// Calls [`Self::put`] out of line.
    #[inline(never)]
    fn flush(&mut self) {
        self.put();
    }

    /// Puts the references and frees the zspages, so that the batch is empty. Dropping the value
    /// does so, too, but out of line. A caller whose batch is rarely empty calls this inlined
    /// function instead.
    #[inline(always)]
    pub(crate) fn put(&mut self) {
        let Some(pool) = self.pool.take() else {
            return;
        };
        let nr = core::mem::take(&mut self.nr);
        // `nr` is 0 if each word of the batch was corrupt. Then no object was freed.
        if nr != 0 {
            // SAFETY: By the invariants of `FreeBatch`, this value owns `nr` references, and the
            // zspages belong to the pool. The pool is not used after the references are put.
            unsafe {
                pool.as_ref().zs.give_back(&mut self.emptied);
                bindings::zswap_ref_put_many(pool.as_ref().refs.as_ptr(), nr);
            }
        }
    }
}

impl Drop for FreeBatch {
    #[inline]
    fn drop(&mut self) {
        if self.pool.is_some() {
            self.flush();
        }
    }
}

/// A stored page in a table, which is not freed during `'a`.
///
/// # Invariants
///
/// `word` is the word of the slot with the name `name`. It was equal to `value`, a valid record,
/// when it was read. An object that it names is not freed during `'a`, but zsmalloc may move it.
pub(crate) struct Held<'a> {
    word: &'a BackingWord,
    name: ObjectName,
    // The word as it was read. It is not decoded here, because one word is cheaper to copy than a
    // `Record`.
    value: u64,
}

impl<'a> Held<'a> {
    /// Returns the stored page that a word names. Returns `ENOENT` if the word names none, and
    /// `EIO` if the word is corrupt.
    ///
    /// # Safety
    ///
    /// `word` is in a table, and belongs to the slot that `entry` names. The stored page is not
    /// freed during `'a`.
    #[inline]
    pub(crate) unsafe fn of(word: &'a BackingWord, entry: SwapEntry) -> Result<Self> {
        let value = word.load();
        let is_in = Record::is_in(value, entry.is_virtual());
        if warn_on_once!(is_in.is_none()) {
            return Err(EIO);
        }
        if is_in == Some(false) {
            return Err(ENOENT);
        }
        let name = ObjectName::of(entry);
        // INVARIANT: As required of the caller, the word has this name, and the page is not freed.
        // The value is a valid record, as just checked.
        Ok(Self { word, name, value })
    }

    /// Returns true if `loaded` was read from the same word.
    #[inline]
    pub(crate) fn has_read(&self, loaded: &Loaded<'_>) -> bool {
        core::ptr::eq(loaded.held.word, self.word)
    }

    /// Returns the record as it was when the page was looked up.
    #[inline]
    pub(crate) fn record(&self) -> Record {
        decode_valid(self.value)
    }

    /// Returns the object and its pool. Returns `None` if the page has no object, or if no pool
    /// has the number in the word.
    #[inline]
    fn object(&self) -> Option<(&Pool, InWord<'_, Readable>)> {
        let Kept::Object(object) = self.record().kept else {
            return None;
        };
        // INVARIANT: By the invariants of `Held`, the word has this name, and names the object,
        // which is not freed.
        let named = NamedObject {
            word: self.word,
            name: self.name,
            object,
            _access: PhantomData,
        };
        named.find()
    }

    /// Returns the pool of the object. Returns `None` if the page has no object, or if no pool has
    /// the number in the word.
    #[inline]
    pub(crate) fn pool(&self) -> Option<&Pool> {
        Some(self.object()?.0)
    }

    /// Calls `f` with the object's memory. Returns an error, and does not call `f`, if the word is
    /// corrupt or names no object.
    #[inline]
    pub(crate) fn read<R>(&self, f: impl FnOnce(Parts<'_>) -> R) -> Result<(R, Loaded<'_>)> {
        let (pool, object) = self.object().ok_or(EIO)?;
        let mut len = 0;
        let read = |parts: Parts<'_>| {
            len = parts.len();
            f(parts)
        };
        let (ret, pin) = object.read(read)?;
        // INVARIANT: The object was just read by way of the word, from its pool.
        let loaded = Loaded {
            held: self,
            object: Some((pool, pin)),
            len,
        };
        Ok((ret, loaded))
    }

    /// Returns the value of a page that repeats one value, or `None` for an object.
    #[inline]
    pub(crate) fn same(&self) -> Option<(Pattern, Loaded<'_>)> {
        let Kept::Same(pattern) = self.record().kept else {
            return None;
        };
        // INVARIANT: The word names no object.
        let loaded = Loaded {
            held: self,
            object: None,
            len: 0,
        };
        Some((pattern, loaded))
    }
}

/// A stored page that was read. Its object, if it has one, is pinned while the value exists, so
/// zsmalloc does not move it.
///
/// # Invariants
///
/// If the word of `held` names an object, `object` has the object's pool, and the pin of a read of
/// the object through that word. Otherwise `object` is `None`.
pub(crate) struct Loaded<'h> {
    held: &'h Held<'h>,
    object: Option<(&'h Pool, ReadPin<'h>)>,
    len: u32,
}
