// SPDX-License-Identifier: GPL-2.0

//! Pools: a compressor, and the objects that it made.
//!
//! # Who keeps a pool
//!
//! A pool has a per-CPU reference count:
//! - each stored object has a reference, whether it is in a word or not yet ([`Entry`]),
//! - who stores has one while it does ([`PoolRef`]),
//! - being the current pool is one, the *initial* reference ([`Initial`]): while it is there the
//!   count is not looked at, and getting and putting is cheap.
//!
//! # The list
//!
//! All pools with objects are on the list, the current one first. It is changed under its lock, and
//! walked under RCU. When the current pool is replaced, its initial reference is killed. A pool
//! whose last reference goes, in whatever context, takes itself off the list and leaves the rest to
//! a work item, which waits for the RCU readers. Between, [`PoolRef::get`] fails for it.
//!
//! A pool that is asked for again before its last object is gone is revived:
//! [`Pools::take_retired`] finds it by a reference obtained under the lock, so it cannot go
//! meanwhile, and [`PoolRef::revive`] makes the initial reference again. Only the writer of the
//! parameter does this, and there is one at a time.
//!
//! # CPU hotplug
//!
//! The pool is an instance of a CPU hotplug state from its creation to its end, so that a CPU gets
//! its compression context before it is online; see [`super::acomp`].

use super::{
    acomp::Contexts,
    folio::{
        Bytes,
        SwapEntry, //
    },
    params,
    table,
    zsmalloc::{
        self,
        Emptied,
        Name,
        Parts,
        Pin,
        Pinned,
        ZsPool, //
    }, //
};
use crate::{
    record::{
        Kept,
        Object,
        Pattern,
        Place,
        Record,
        Sum,
        POOL_BITS, //
    },
    warn::warn_on_once, //
};
use core::{
    ffi::CStr,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    alloc::KBox,
    bindings,
    error::{
        code::*,
        from_result,
        to_result,
        Result, //
    },
    page::PAGE_SIZE,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    },
    warn_on, //
};

/// A pool.
///
/// # Invariants
///
/// It is in a `KBox` that was leaked, and found by references only; the work item that the last of
/// these schedules frees it.
pub(crate) struct Pool {
    zs: ZsPool,
    contexts: Contexts,
    refs: Opaque<bindings::percpu_ref>,
    list: Opaque<bindings::list_head>,
    release: Opaque<bindings::work_struct>,
    hotplug: Opaque<bindings::hlist_node>,
    hotplug_added: bool,
    number: Option<Number>,
    name: CString,
}

// SAFETY: What is under no lock of its own is not changed while the pool is shared.
unsafe impl Send for Pool {}
// SAFETY: What is under no lock of its own is not changed while the pool is shared.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.hotplug_added {
            // SAFETY: It was added. Afterwards no CPU is prepared for this pool any more.
            unsafe { bindings::zswap_cpuhp_remove(self.hotplug.get()) };
        }
        // SAFETY: The count is initialized or zeroed, and nobody uses it.
        unsafe { bindings::percpu_ref_exit(self.refs.get()) };
        // The contexts and the objects' memory go with the fields.
    }
}

/// How many pools were made: zsmalloc wants a name for each.
static POOLS_MADE: Atomic<u32> = Atomic::new(0);

impl Pool {
    /// Makes a pool with a compressor, on no list. May sleep.
    pub(crate) fn create(compressor: &CStr) -> Result<Initial> {
        let nth = POOLS_MADE
            .fetch_add(1, kernel::sync::atomic::Full)
            .wrapping_add(1);
        let zs_name = CString::try_from_fmt(fmt!("zswap{nth:x}"))?;
        let mut pool = KBox::new(
            Self {
                // SAFETY: An object of a pool is published in the word of its slot.
                zs: unsafe { ZsPool::create(&zs_name, table::find_word) }?,
                contexts: Contexts::new()?,
                refs: Opaque::zeroed(),
                list: Opaque::zeroed(),
                release: Opaque::zeroed(),
                hotplug: Opaque::zeroed(),
                hotplug_added: false,
                number: None,
                name: CString::try_from(compressor)?,
            },
            GFP_KERNEL,
        )?;
        let place: *const Pool = &*pool;
        pool.number = Some(Number::take(place).ok_or(ENOSPC)?);
        // SAFETY: The node is zeroed and does not move, being in a box of which only the pointer
        // does; the box's drop takes it off. Calls `cpu_prepare()` for all CPUs that are online.
        to_result(unsafe { bindings::zswap_cpuhp_add(pool.hotplug.get()) })?;
        pool.hotplug_added = true;
        // SAFETY: The count is zeroed and does not move.
        to_result(unsafe {
            bindings::percpu_ref_init(
                pool.refs.get(),
                Some(last_put),
                bindings::ZSWAP_REF_REINIT,
                bindings::GFP_KERNEL,
            )
        })?;
        // INVARIANT: The box is leaked here.
        let pool = Initial(NonNull::from(KBox::leak(pool)));
        pool.event(c"created");
        params::note_ever_enabled();
        Ok(pool)
    }

    /// The name of the compressor.
    pub(crate) fn compressor(&self) -> &CStr {
        &self.name
    }

    /// The compression contexts.
    #[inline]
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Whether the initial reference was killed.
    fn is_retired(&self) -> bool {
        // SAFETY: The count exists, as the pool does.
        unsafe { bindings::zswap_ref_is_dying(self.refs.get()) }
    }

    fn event(&self, what: &CStr) {
        // SAFETY: Two strings.
        unsafe {
            bindings::zswap_shim_pool_event(what.as_char_ptr(), self.compressor().as_char_ptr())
        };
    }

    /// # Safety
    ///
    /// `link` is the `list` of a pool.
    #[inline]
    unsafe fn from_link(link: *mut bindings::list_head) -> *const Self {
        // SAFETY: As required of the caller.
        unsafe { kernel::container_of!(Opaque::cast_from(link), Self, list) }
    }
}

/// Called by whoever puts the last reference, in any context.
///
/// # Safety
///
/// `refs` is the count of a pool.
unsafe extern "C" fn last_put(refs: *mut bindings::percpu_ref) {
    let part = Opaque::cast_from(refs);
    // SAFETY: As required of the caller. Nobody frees the pool but the work item, which is
    // scheduled here.
    let pool: &Pool = unsafe { &*kernel::container_of!(part, Pool, refs) };
    // Nobody has an object of it any more, who would look for it by its number.
    if let Some(number) = &pool.number {
        number.release();
    }
    let pools = Pools::lock();
    if let Some(current) = pools.current() {
        warn_on!(core::ptr::eq(pool, current));
    }
    // SAFETY: The pool is on the list: it is put there with its initial reference, and taken off by
    // `take_retired()` only with a reference in hand. The work item is zeroed memory, unused, and
    // runs before the pool is freed, as it is what frees it.
    unsafe {
        bindings::zswap_list_del_rcu(pool.list.get());
        bindings::zswap_schedule_work(pool.release.get(), Some(release));
    }
}

/// Frees a pool.
///
/// # Safety
///
/// `work` is the work item of a pool that [`last_put`] took off the list.
unsafe extern "C" fn release(work: *mut bindings::work_struct) {
    let part = Opaque::cast_from(work);
    // SAFETY: As required of the caller.
    let pool: *const Pool = unsafe { kernel::container_of!(part, Pool, release) };
    // Readers of the list may still look at it.
    rcu::synchronize_rcu();
    // SAFETY: Nobody else knows of it now. Pools are boxes that were leaked.
    let pool = unsafe { KBox::from_raw(pool.cast_mut()) };
    // SAFETY: The count is initialized.
    warn_on!(!unsafe { bindings::percpu_ref_is_zero(pool.refs.get()) });
    pool.event(c"destroying");
}

/// Prepares a pool for a CPU: the callback of the CPU hotplug state.
///
/// # Safety
///
/// `node` is that of a pool, `cpu` is not online or CPU hotplug is excluded.
pub(super) unsafe fn cpu_prepare(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    let part = Opaque::cast_from(node);
    // SAFETY: As required of the caller. The pool takes itself off before it goes. It may not be
    // shared yet, but is only read.
    from_result(|| unsafe {
        let pool: &Pool = &*kernel::container_of!(part, Pool, hotplug);
        pool.contexts.prepare(cpu, pool.compressor()).map(|()| 0)
    })
}

/// The initial reference of a pool: that of being current.
///
/// It is to be put on the list, or killed; there is no drop, as neither is always right.
#[must_use]
pub(crate) struct Initial(NonNull<Pool>);

impl Initial {
    /// Gives up the initial reference. The pool goes when its last object is gone.
    ///
    /// The pool is on the list. Not under its lock: the last reference may be this one.
    pub(crate) fn kill(self) {
        // SAFETY: The initial reference is given up once, as there is one value for it.
        unsafe { bindings::zswap_ref_kill(self.refs.get()) };
    }
}

impl Deref for Initial {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        // SAFETY: We have a reference.
        unsafe { self.0.as_ref() }
    }
}

/// A counted reference to a pool.
pub(crate) struct PoolRef(NonNull<Pool>);

// SAFETY: References may be used and dropped anywhere.
unsafe impl Send for PoolRef {}
// SAFETY: All methods that take a shared reference may be called from any thread.
unsafe impl Sync for PoolRef {}

impl PoolRef {
    /// A reference, unless the pool is about to go.
    #[inline]
    fn get(pool: &Pool) -> Option<Self> {
        // SAFETY: The pool exists, so its count does.
        unsafe { bindings::zswap_ref_tryget(pool.refs.get()) }.then(|| Self(NonNull::from(pool)))
    }

    /// Makes the initial reference anew, of a pool whose one was killed.
    fn revive(self) -> Initial {
        // SAFETY: The pool was retired, so its initial reference is dead. We have a reference, so
        // that the count is not zero.
        unsafe { bindings::percpu_ref_resurrect(self.refs.get()) };
        Initial(self.0)
    }

    /// Stores a copy of the bytes in the pool, for a slot. `EOVERFLOW`: it would be in memory that
    /// a word cannot name.
    #[inline]
    pub(crate) fn store(&self, bytes: Bytes<'_>, nid: c_int, entry: SwapEntry) -> Result<Entry> {
        let number = self.number.as_ref().ok_or(EINVAL)?.nr;
        let len = bytes.len();
        let object = self.zs.store(bytes, nid, Name::of(entry))?;
        let kept = Place::new(object.place())
            .and_then(|place| Object::new(place, number, len == PAGE_SIZE))
            .ok_or(EOVERFLOW)?;
        // Both go with the entry.
        let _ = object.into_place();
        let _ = ManuallyDrop::new(self.clone());
        // INVARIANT: As given.
        Ok(Entry {
            word: Record::new(Kept::Object(kept)).encode(),
            len: len as u32,
        })
    }
}

impl Clone for PoolRef {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: We have a reference.
        unsafe { bindings::zswap_ref_get(self.refs.get()) };
        Self(self.0)
    }
}

impl Deref for PoolRef {
    type Target = Pool;

    #[inline]
    fn deref(&self) -> &Pool {
        // SAFETY: We have a reference.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for PoolRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::zswap_ref_put(self.refs.get()) };
    }
}

/// The most pools that there can be. There are few: one for each compressor that was chosen while
/// the objects of the one before were still there.
const MAX_POOLS: usize = 1 << POOL_BITS;

/// All pools by their number, which takes less room in a word than a pointer.
static POOLS: [Atomic<*const Pool>; MAX_POOLS] =
    [const { Atomic::new(core::ptr::null()) }; MAX_POOLS];

/// The number of a pool, from its creation until its last reference goes.
struct Number {
    nr: u8,
    pool: *const Pool,
}

impl Number {
    /// A number that no pool has.
    fn take(pool: *const Pool) -> Option<Self> {
        POOLS
            .iter()
            .position(|place| {
                place
                    .cmpxchg(core::ptr::null(), pool, kernel::sync::atomic::Full)
                    .is_ok()
            })
            // There are less than 256.
            .map(|nr| Self { nr: nr as u8, pool })
    }

    /// Lets another pool have the number.
    fn release(&self) {
        if let Some(place) = POOLS.get(usize::from(self.nr)) {
            let _ = place.cmpxchg(self.pool, core::ptr::null(), kernel::sync::atomic::Full);
        }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.release();
    }
}

/// The pool with a number.
///
/// # Safety
///
/// If a pool has the number, there is a reference to it during `'a`.
#[inline]
unsafe fn pool_of<'a>(object: Object) -> Option<&'a Pool> {
    // SAFETY: The pool is in its place as long as it is referred to.
    unsafe {
        POOLS
            .get(usize::from(object.pool()))?
            .load(Relaxed)
            .as_ref()
    }
}

/// What is to be stored of a page, in no word: dropping frees it.
///
/// # Invariants
///
/// `word` is that of a record. If it is an object, it is one of the pool with its number, pinned,
/// and there is a reference to the pool for it. No table names it, nor another value.
#[must_use]
pub(crate) struct Entry {
    word: u64,
    len: u32,
}

impl Entry {
    /// That of a page that repeats one value.
    #[inline]
    pub(crate) fn same(pattern: Pattern) -> Self {
        // INVARIANT: It is no object.
        Self {
            word: Record::new(Kept::Same(pattern)).encode(),
            len: 0,
        }
    }

    /// What is kept.
    #[inline]
    pub(crate) fn kept(&self) -> Kept {
        match Record::decode(self.word) {
            Ok(record) => record.kept,
            // By the invariants it is one.
            Err(_) => Kept::Same(Pattern::ZERO),
        }
    }

    /// The length of the object.
    #[inline]
    pub(crate) fn data_len(&self) -> u32 {
        self.len
    }

    /// Puts it into the word of a slot. What was stored there is freed, and added to the sum;
    /// returns what else was there.
    ///
    /// # Safety
    ///
    /// The word is found for the name, which is that of the slot that it was made for. The cluster
    /// is locked, and who calls has the right to the slot.
    #[inline]
    pub(super) unsafe fn publish(
        self,
        word: &Atomic<u64>,
        name: Name,
        freed: &mut FreeBatch,
        sum: &mut Sum,
    ) -> u64 {
        let this = ManuallyDrop::new(self);
        let old = word.load(Relaxed);
        if Record::is_tag(old) {
            // SAFETY: As required of the caller.
            unsafe { freed.take(word, name, this.word, sum) };
        } else {
            word.store(this.word, Relaxed);
        }
        if let Kept::Object(object) = this.kept() {
            // SAFETY: It is in its word.
            unsafe { zsmalloc::unpin(object.place().get()) };
        }
        old
    }
}

impl Drop for Entry {
    #[inline]
    fn drop(&mut self) {
        let Kept::Object(object) = self.kept() else {
            return;
        };
        // SAFETY: There is a reference, by the invariants, which is given back here.
        if let Some(pool) = unsafe { pool_of(object) } {
            // SAFETY: By the invariants it is an object of the pool, and nobody else names it.
            drop(unsafe { Pinned::from_place(&pool.zs, object.place().get()) });
            drop(PoolRef(NonNull::from(pool)));
        }
    }
}

/// What is left of entries that were freed: references to their pool, and memory. Dropping gives it
/// back. That is to be done without locks, where it can.
pub(crate) struct FreeBatch {
    // INVARIANT: `nr` references to it are ours. What is emptied is its.
    pool: Option<NonNull<Pool>>,
    nr: usize,
    emptied: Emptied,
}

impl FreeBatch {
    /// Nothing.
    #[inline]
    pub(crate) const fn new() -> Self {
        Self {
            pool: None,
            nr: 0,
            emptied: Emptied::NONE,
        }
    }

    /// Frees what the word of a slot says is stored, and makes it `new`. What is not charged any
    /// more is added to `sum`.
    ///
    /// # Safety
    ///
    /// As for [`Entry::publish`].
    #[inline]
    pub(super) unsafe fn take(&mut self, word: &Atomic<u64>, name: Name, new: u64, sum: &mut Sum) {
        let kept = match Record::decode(word.load(Relaxed)) {
            Ok(record) => record.kept,
            Err(_) => {
                warn_on_once!(true);
                word.store(new, Relaxed);
                return;
            }
        };
        let Kept::Object(object) = kept else {
            word.store(new, Relaxed);
            sum.add(kept, 0);
            return;
        };
        // SAFETY: If the word is not damaged, it has a reference.
        let Some(pool) = (unsafe { pool_of(object) }) else {
            warn_on_once!(true);
            word.store(new, Relaxed);
            return;
        };
        self.turn_to(pool);
        // SAFETY: As required of the caller.
        match unsafe { pool.zs.free(word, name, new, &mut self.emptied) } {
            Ok(len) => {
                sum.add(kept, len);
                // INVARIANT: The object had a reference.
                self.nr = self.nr.wrapping_add(1);
            }
            // The word was damaged. What it named stays, is charged, and keeps the pool.
            Err(_) => sum.add(kept, 0),
        }
    }

    /// Frees what was read by way of the word of a slot, which is 0 then; returns what is not
    /// charged any more.
    ///
    /// # Safety
    ///
    /// As for [`Entry::publish`].
    #[inline]
    pub(super) unsafe fn take_loaded(&mut self, loaded: Loaded<'_>) -> Sum {
        let Loaded { held, object, len } = loaded;
        let mut sum = Sum::NONE;
        sum.add(held.record.kept, len);
        match object {
            Some((pool, pin)) => {
                self.turn_to(pool);
                // SAFETY: As required of the caller. By the invariants it is the object of the
                // word, and the pool's.
                unsafe { pool.zs.free_read(pin, held.word, 0, &mut self.emptied) };
                // INVARIANT: The object had a reference.
                self.nr = self.nr.wrapping_add(1);
            }
            None => held.word.store(0, Relaxed),
        }
        sum
    }

    /// Goes on with objects of a pool.
    #[inline]
    fn turn_to(&mut self, pool: &Pool) {
        let pool = Some(NonNull::from(pool));
        if self.pool != pool {
            self.flush();
            // INVARIANT: There is nothing of it yet.
            self.pool = pool;
        }
    }

    /// Gives all back.
    #[inline(never)]
    fn flush(&mut self) {
        let Some(pool) = self.pool.take() else {
            return;
        };
        let nr = core::mem::take(&mut self.nr);
        // Of a pool that a damaged word named there is none.
        if nr != 0 {
            // SAFETY: By the invariants. The references are the last that is used of the pool.
            unsafe {
                pool.as_ref().zs.give_back(&mut self.emptied);
                bindings::zswap_ref_put_many(pool.as_ref().refs.get(), nr);
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

/// What a table has stored of a page, where it stays during `'a`.
///
/// # Invariants
///
/// The word is that of the slot with the name, and was the record's, which was published. What it
/// names is not freed during `'a`; but it may be moved.
pub(crate) struct Held<'a> {
    word: &'a Atomic<u64>,
    name: Name,
    record: Record,
}

impl<'a> Held<'a> {
    /// `None`: nothing is stored.
    ///
    /// # Safety
    ///
    /// The word is that of the slot with the name, in a table, and what it says is not taken out
    /// during the lifetime.
    #[inline]
    pub(super) unsafe fn of(word: &'a Atomic<u64>, name: Name) -> Option<Self> {
        let value = word.load(Relaxed);
        if !Record::is_tag(value) {
            return None;
        }
        match Record::decode(value) {
            // INVARIANT: As required of the caller.
            Ok(record) => Some(Self { word, name, record }),
            Err(_) => {
                warn_on_once!(true);
                None
            }
        }
    }

    /// The record, as it was when it was looked up.
    #[inline]
    pub(crate) fn record(&self) -> Record {
        self.record
    }

    /// The pool of an object.
    #[inline]
    pub(crate) fn pool(&self) -> Option<&Pool> {
        match self.record.kept {
            // SAFETY: The object has a reference to its pool as long as it is there.
            Kept::Object(object) => unsafe { pool_of(object) },
            Kept::Same(_) => None,
        }
    }

    /// Gives the object's memory, and its length, to `f`. Fails if the word is damaged, or names no
    /// object.
    #[inline]
    pub(crate) fn read<R>(&self, f: impl FnOnce(&mut Parts, u32) -> R) -> Result<(R, Loaded<'_>)> {
        let pool = self.pool().ok_or(EIO)?;
        let mut len = 0;
        let read = |parts: &mut Parts, its| {
            len = its;
            f(parts, its)
        };
        // SAFETY: By the invariants; the result keeps `self` borrowed.
        let (ret, pin) = unsafe { pool.zs.read(self.word, self.name, read) }?;
        // INVARIANT: It was just read.
        let loaded = Loaded {
            held: self,
            object: Some((pool, pin)),
            len,
        };
        Ok((ret, loaded))
    }

    /// A page that repeats one value has nothing else to be read.
    #[inline]
    pub(crate) fn same(&self) -> Option<(Pattern, Loaded<'_>)> {
        let Kept::Same(pattern) = self.record.kept else {
            return None;
        };
        // INVARIANT: There is no object.
        let loaded = Loaded {
            held: self,
            object: None,
            len: 0,
        };
        Some((pattern, loaded))
    }
}

/// What was read: an object stays where it is, as long as this is there.
///
/// # Invariants
///
/// It is what the word names. An object is one of the pool.
pub(crate) struct Loaded<'h> {
    held: &'h Held<'h>,
    object: Option<(&'h Pool, Pin)>,
    len: u32,
}

/// The list of pools, locked.
///
/// # Invariants
///
/// The lock of the list is held.
pub(crate) struct Pools(NotThreadSafe);

impl Pools {
    /// Locks the list.
    pub(crate) fn lock() -> Self {
        // SAFETY: The lock is initialized statically. It is taken in any context, thus with
        // softirqs off; nothing sleeps under it.
        unsafe { bindings::zswap_list_lock() };
        // INVARIANT: Locked.
        Self(NotThreadSafe)
    }

    /// The current pool, if there is one: the first, if it has its initial reference.
    fn current(&self) -> Option<&Pool> {
        each(self).next().filter(|pool| !pool.is_retired())
    }

    /// Takes a retired pool with that compressor off the list, if there is one, and revives it.
    pub(crate) fn take_retired(self, compressor: &CStr) -> Option<Initial> {
        let found = each(&self)
            .filter(|pool| pool.compressor() == compressor)
            .find_map(PoolRef::get)?;
        found.event(c"using existing");
        if let Some(current) = self.current() {
            warn_on!(core::ptr::eq(&*found, current));
        }
        // SAFETY: The list is locked, and the pool is on it.
        unsafe { bindings::zswap_list_del_rcu(found.list.get()) };
        drop(self);
        Some(found.revive())
    }

    /// Makes a pool the current one; returns the initial reference of the one before.
    #[must_use]
    pub(crate) fn set_current(self, pool: Initial) -> Option<Initial> {
        let old = self.current().map(|old| Initial(NonNull::from(old)));
        // SAFETY: The list is locked, and the pool is not on it: it is new or was taken off. What
        // is its initial reference goes with it.
        unsafe { bindings::zswap_list_add_rcu(pool.list.get(), &raw mut bindings::zswap_pools) };
        old
    }

    /// Puts a pool that did not become the current one on the list, where it belongs to go.
    pub(crate) fn add_retired(self, pool: Initial) {
        // SAFETY: The list is locked, and the pool is not on it: it is new or was taken off.
        unsafe {
            bindings::zswap_list_add_tail_rcu(pool.list.get(), &raw mut bindings::zswap_pools)
        };
        drop(self);
        pool.kill();
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        // SAFETY: Locked, by the invariants.
        unsafe { bindings::zswap_list_unlock() };
    }
}

/// What keeps the pools on the list from going: the lock of the list, or an RCU reader.
trait KeepsPools {}
impl KeepsPools for Pools {}
impl KeepsPools for rcu::Guard {}

/// The pools, the current one first.
#[inline]
fn each<G: KeepsPools>(_guard: &G) -> impl Iterator<Item = &Pool> {
    let head = &raw mut bindings::zswap_pools;
    let mut at = head;
    core::iter::from_fn(move || {
        // SAFETY: `at` is the head, or the link of a pool that the guard keeps.
        at = unsafe { bindings::zswap_list_next_rcu(at) };
        // SAFETY: All but the head is links of pools, which the guard keeps.
        (at != head).then(|| unsafe { &*Pool::from_link(at) })
    })
}

/// A reference to the current pool, if there is one.
#[inline]
pub(crate) fn current() -> Option<PoolRef> {
    let rcu = rcu::read_lock();
    let pool = each(&rcu).next().and_then(PoolRef::get);
    drop(rcu);
    pool
}

/// The pages that all pools take.
#[inline]
pub(crate) fn total_pages() -> usize {
    let rcu = rcu::read_lock();
    each(&rcu).fold(0usize, |total, pool| {
        total.wrapping_add(pool.zs.total_pages())
    })
}
