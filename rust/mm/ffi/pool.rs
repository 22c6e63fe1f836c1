// SPDX-License-Identifier: GPL-2.0

//! Pools: a compressor, and the objects that it made.
//!
//! # Who keeps a pool
//!
//! A pool has a per-CPU reference count:
//! - each stored object has a reference ([`Entry`]), since what it holds is in the pool,
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
    folio::Bytes,
    params,
    zsmalloc::{
        Handle,
        Parts,
        ZsPool, //
    },
};
use crate::{
    record::{
        Kept,
        Object,
        Pattern,
        Place,
        Record,
        POOL_BITS, //
    },
    warn::warn_on_once, //
};
use core::{
    ffi::CStr,
    marker::PhantomData,
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    alloc::KBox,
    bindings,
    error::{
        from_result,
        to_result,
        Result, //
    },
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
                zs: ZsPool::create(&zs_name)?,
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

    /// Stores a copy of the bytes in the pool. `EOVERFLOW`: the word of the entry has no room for
    /// the place of its handle.
    #[inline]
    pub(crate) fn store(&self, bytes: Bytes<'_>, nid: c_int) -> Result<Entry> {
        let object = self.zs.store(bytes, nid)?;
        let number = self.number.as_ref().ok_or(EINVAL)?.nr;
        let kept = Place::new(object.place())
            .and_then(|place| Object::new(place, number, bytes.len() as u32))
            .ok_or(EOVERFLOW)?;
        // Both go with the entry.
        let _ = object.into_handle();
        let _ = ManuallyDrop::new(self.clone());
        // INVARIANT: As given.
        Ok(Entry(Record::new(Kept::Object(kept)).encode()))
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
/// The number is that of a pool, to which there is a reference during `'a`.
#[inline]
unsafe fn pool_of<'a>(object: Object) -> &'a Pool {
    // SAFETY: The number has no more bits than there are places, and the pool is in its place
    // as long as it is referred to.
    unsafe {
        &*POOLS
            .get_unchecked(usize::from(object.pool()))
            .load(Relaxed)
    }
}

/// What is stored of a page, in no table: dropping frees it.
///
/// # Invariants
///
/// The word of a record. If it is an object, it is one of the pool with its number, to which there
/// is a reference for it. No table names it, nor another value.
#[must_use]
pub(crate) struct Entry(u64);

impl Entry {
    /// That of a page that repeats one value.
    #[inline]
    pub(crate) fn same(pattern: Pattern) -> Self {
        // INVARIANT: It is no object.
        Self(Record::new(Kept::Same(pattern)).encode())
    }

    /// Transfers it to a word.
    #[inline]
    pub(super) fn into_word(self) -> u64 {
        ManuallyDrop::new(self).0
    }

    /// Takes it out of a word. One that says nothing is lost.
    ///
    /// # Safety
    ///
    /// The word is from [`Entry::into_word`], but for the bit of the second chance, and this is its
    /// only way back.
    #[inline]
    pub(super) unsafe fn from_word(word: u64) -> Option<Self> {
        if warn_on_once!(Record::decode(word).is_err()) {
            return None;
        }
        // INVARIANT: As required of the caller.
        Some(Self(word))
    }

    /// What is kept.
    #[inline]
    pub(crate) fn kept(&self) -> Kept {
        match Record::decode(self.0) {
            Ok(record) => record.kept,
            // By the invariants it is one.
            Err(_) => Kept::Same(Pattern::ZERO),
        }
    }

    /// Frees the object; returns the pool, the reference to which is the caller's then.
    #[inline]
    fn free(self) -> Option<NonNull<Pool>> {
        let Kept::Object(object) = ManuallyDrop::new(self).kept() else {
            return None;
        };
        // SAFETY: There is a reference, by the invariants.
        let pool = unsafe { pool_of(object) };
        // SAFETY: By the invariants it is an object of the pool, and nobody names it any more.
        drop(unsafe { pool.zs.adopt(Handle::at(object.place().get())) });
        Some(NonNull::from(pool))
    }
}

impl Drop for Entry {
    #[inline]
    fn drop(&mut self) {
        // INVARIANT: It is the same, of which nothing is left here.
        let this = Self(self.0);
        if let Some(pool) = this.free() {
            drop(PoolRef(pool));
        }
    }
}

/// Entries that are given back together: when it is dropped, or when it is full.
pub(crate) struct FreeBatch {
    entries: [MaybeUninit<Entry>; Self::MOST],
    len: usize,
}

impl FreeBatch {
    /// How many it takes.
    pub(crate) const MOST: usize = 32;

    /// None.
    #[inline]
    pub(crate) const fn new() -> Self {
        Self {
            entries: [const { MaybeUninit::uninit() }; Self::MOST],
            len: 0,
        }
    }

    /// Adds an entry.
    #[inline]
    pub(crate) fn add(&mut self, entry: Entry) {
        if self.len >= Self::MOST {
            self.flush();
        }
        if let Some(place) = self.entries.get_mut(self.len) {
            place.write(entry);
            self.len = self.len.wrapping_add(1);
        }
    }

    /// Frees them; gives the references to a pool back together.
    #[inline(never)]
    fn flush(&mut self) {
        let len = core::mem::take(&mut self.len);
        let mut last: Option<NonNull<Pool>> = None;
        let mut nr = 0usize;
        for entry in self.entries.iter().take(len) {
            // SAFETY: The first `len` were written, and are not looked at again.
            let Some(pool) = unsafe { entry.assume_init_read() }.free() else {
                continue;
            };
            if last != Some(pool) {
                Self::put(last, nr);
                last = Some(pool);
                nr = 0;
            }
            nr = nr.wrapping_add(1);
        }
        Self::put(last, nr);
    }

    fn put(pool: Option<NonNull<Pool>>, nr: usize) {
        if let Some(pool) = pool {
            // SAFETY: So many references are ours, of entries that were freed.
            unsafe { bindings::zswap_ref_put_many(pool.as_ref().refs.get(), nr) };
        }
    }
}

impl Drop for FreeBatch {
    #[inline]
    fn drop(&mut self) {
        if self.len != 0 {
            self.flush();
        }
    }
}

/// What a table has stored of a page, where it stays during `'a`.
///
/// # Invariants
///
/// The record is that of an [`Entry`] that was transferred, and is not taken out during `'a`.
pub(crate) struct Held<'a>(Record, PhantomData<&'a Entry>);

impl Held<'_> {
    /// `None`: nothing is stored.
    ///
    /// # Safety
    ///
    /// The word is that of a table, and what it says is not taken out during the lifetime.
    #[inline]
    pub(super) unsafe fn from_word(word: u64) -> Option<Self> {
        if !Record::is_tag(word) {
            return None;
        }
        match Record::decode(word) {
            // INVARIANT: As required of the caller.
            Ok(record) => Some(Self(record, PhantomData)),
            Err(_) => {
                warn_on_once!(true);
                None
            }
        }
    }

    /// The record.
    #[inline]
    pub(crate) fn record(&self) -> Record {
        self.0
    }

    /// The pool of an object, and the object.
    #[inline]
    pub(crate) fn object(&self) -> Option<(&Pool, Object)> {
        match self.0.kept {
            // SAFETY: The object has a reference to its pool as long as it is there.
            Kept::Object(object) => Some((unsafe { pool_of(object) }, object)),
            Kept::Same(_) => None,
        }
    }

    /// Gives the object's memory to `f`; nothing, if there is no object.
    #[inline]
    pub(crate) fn read<R>(&self, f: impl FnOnce(&mut Parts) -> R) -> Option<R> {
        let (pool, object) = self.object()?;
        // SAFETY: By the invariants. The handle is used here, and not freed.
        Some(unsafe {
            let handle = ManuallyDrop::new(Handle::at(object.place().get()));
            pool.zs.read(&handle, object.data_len() as usize, f)
        })
    }
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
