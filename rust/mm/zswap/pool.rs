// SPDX-License-Identifier: GPL-2.0

//! Pools. A pool is a compressor and the objects that it compressed.
//!
//! # What keeps a pool
//!
//! A pool has a per-CPU reference count:
//! - each stored object has a reference, whether it is in a word or not yet ([`Entry`]),
//! - a store has one while it runs ([`PoolRef`]),
//! - the current pool has the *initial* reference ([`Initial`]). While it is there, the count stays
//!   per CPU, so that getting and putting references is cheap. Dropping it retires the pool.
//!
//! # Finding a pool
//!
//! A pool has a number, which is its index in [`POOLS`], from its creation until its last reference
//! is put. One pool is [`CURRENT`]. Both are read under RCU. The task that puts the last reference,
//! in any context, clears the place of the pool. It queues a work item, which waits for the RCU
//! readers and frees the pool. In between, [`PoolRef::get`] fails for the pool.
//!
//! If its compressor is chosen again before its last object is gone, [`take_retired`] revives a
//! retired pool: it makes a new initial reference.
//!
//! # CPU hotplug
//!
//! The pool is an instance of a CPU hotplug state from its creation to its end, so that a CPU gets
//! its compression context before it is online; see [`crate::ffi::acomp`].

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
            self,
            Emptied,
            Name,
            Parts,
            Pinned,
            ReadPin,
            ZsPool, //
        }, //
    },
    warn::warn_on_once,
    zswap::{
        record::{
            Kept,
            Object,
            Pattern,
            Place,
            Record,
            Sum,
            POOL_BITS, //
        },
        table, //
    }, //
};
use core::{
    ffi::CStr,
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

/// A pool.
///
/// # Invariants
///
/// It is in a box that was leaked, and found by references only. Putting the last one schedules the
/// work item, which frees it.
#[pin_data(PinnedDrop)]
pub(crate) struct Pool {
    zs: ZsPool,
    contexts: Contexts,
    #[pin]
    refs: Opaque<bindings::percpu_ref>,
    #[pin]
    release: Work<Self>,
    #[pin]
    hotplug: Opaque<bindings::hlist_node>,
    hotplug_added: Atomic<bool>,
    /// The initial reference was dropped. Clearing this is the right to make it anew.
    retired: Atomic<bool>,
    number: SetOnce<u8>,
    name: CString,
}

// SAFETY: What has no lock of its own is not changed while the pool is shared.
unsafe impl Send for Pool {}
// SAFETY: As above.
unsafe impl Sync for Pool {}

#[pinned_drop]
impl PinnedDrop for Pool {
    fn drop(self: Pin<&mut Self>) {
        if self.hotplug_added.load(Relaxed) {
            // SAFETY: It was added. Afterwards no CPU is prepared for this pool any more.
            unsafe { bindings::zswap_cpuhp_remove(self.hotplug.get()) };
        }
        // SAFETY: The count is initialized or zeroed, and nobody uses it.
        unsafe { bindings::percpu_ref_exit(self.refs.get()) };
        // The contexts and the objects' memory go with the fields.
    }
}

impl_has_work! {
    impl HasWork<Self> for Pool { self.release }
}

impl WorkItem for Pool {
    type Pointer = Pin<KBox<Self>>;

    /// Frees a pool, which has left its place.
    fn run(pool: Self::Pointer) {
        // A reader may still have found it there.
        rcu::synchronize_rcu();
        // SAFETY: The count is initialized.
        warn_on!(!unsafe { bindings::percpu_ref_is_zero(pool.refs.get()) });
        pool.report(c"destroying");
    }
}

/// How many pools were made: zsmalloc wants a name for each.
static POOLS_MADE: Atomic<u32> = Atomic::new(0);

/// The most pools that there can be. There are few: one for each compressor that was chosen while
/// the objects of the one before were still there.
const MAX_POOLS: usize = 1 << POOL_BITS;

/// All pools by their number, which takes less room in a word than a pointer.
///
/// A pool in its place is complete, and is not freed before a grace period has passed since it left
/// its place.
static POOLS: [Atomic<*const Pool>; MAX_POOLS] =
    [const { Atomic::new(core::ptr::null()) }; MAX_POOLS];

/// The pool to store to. Being here is the initial reference.
static CURRENT: Atomic<*const Pool> = Atomic::new(core::ptr::null());

impl Pool {
    /// Makes a pool with a compressor. May sleep. `ENOSPC`: all numbers are taken.
    pub(crate) fn create(compressor: &CStr) -> Result<Initial> {
        let nth = POOLS_MADE.fetch_add(1, Full).wrapping_add(1);
        let zs_name = CString::try_from_fmt(fmt!("zswap{nth:x}"))?;
        let pool = KBox::try_pin_init(
            try_pin_init!(Self {
                // SAFETY: An object of a pool is published in the word of its slot.
                zs: unsafe { ZsPool::create(&zs_name, table::find_word) }?,
                contexts: Contexts::new()?,
                refs: Opaque::zeroed(),
                release <- new_work!("zswap::Pool::release"),
                hotplug: Opaque::zeroed(),
                hotplug_added: Atomic::new(false),
                retired: Atomic::new(false),
                number: SetOnce::new(),
                name: CString::try_from(compressor)?,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The node is zeroed, and stays where it is until the pool's drop takes it off.
        // Calls `zswap_rs_cpu_prepare()` for all CPUs that are online.
        to_result(unsafe { bindings::zswap_cpuhp_add(pool.hotplug.get()) })?;
        pool.hotplug_added.store(true, Relaxed);
        // SAFETY: The count is zeroed, and stays where it is.
        to_result(unsafe {
            bindings::percpu_ref_init(
                pool.refs.get(),
                Some(last_put),
                bindings::ZSWAP_REF_REINIT,
                bindings::GFP_KERNEL,
            )
        })?;
        // From here on it is found, and nothing fails.
        pool.take_place()?;
        let initial = Initial(NonNull::from(&*pool));
        // INVARIANT: The box is leaked here.
        pool.into_foreign();
        initial.report(c"created");
        params::note_ever_enabled();
        Ok(initial)
    }

    /// Returns the name of the compressor.
    pub(crate) fn compressor(&self) -> &CStr {
        &self.name
    }

    /// Returns the compression contexts.
    #[inline]
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Makes the compression context of a CPU. May sleep.
    pub(crate) fn prepare(&self, cpu: CpuId) -> Result {
        self.contexts.prepare(cpu, self.compressor())
    }

    fn report(&self, what: &CStr) {
        params::report_pool(what, self.compressor());
    }

    /// Takes a number that no pool has.
    fn take_place(&self) -> Result {
        let free =
            |place: &Atomic<*const Self>| place.cmpxchg(core::ptr::null(), self, Full).is_ok();
        let nr = POOLS.iter().position(free).ok_or(ENOSPC)?;
        // There are less than 256.
        self.number.populate(nr as u8);
        Ok(())
    }

    /// Lets another pool have the number.
    fn leave_place(&self) {
        for place in &POOLS {
            let _ = place.cmpxchg(self, core::ptr::null(), Full);
        }
    }
}

impl FromC<*mut bindings::hlist_node> for &Pool {
    /// # Safety
    ///
    /// `node` is the `hotplug` of a pool, which stays while the function runs.
    unsafe fn from_c(node: *mut bindings::hlist_node) -> Self {
        // SAFETY: As required of the caller.
        unsafe { &*kernel::container_of!(Opaque::cast_from(node), Pool, hotplug) }
    }
}

/// Called by the task that puts the last reference, in any context.
///
/// # Safety
///
/// `refs` is the count of a pool.
unsafe extern "C" fn last_put(refs: *mut bindings::percpu_ref) {
    // SAFETY: As required of the caller.
    let pool = unsafe { kernel::container_of!(Opaque::cast_from(refs), Pool, refs) };
    // SAFETY: The box was leaked, and belongs to the last reference.
    let pool = unsafe { Pin::<KBox<Pool>>::from_foreign(pool.cast_mut().cast()) };
    // No word has an object of it any more, so nobody looks for its number.
    pool.leave_place();
    workqueue::system().enqueue(pool);
}

/// The initial reference of a pool. Dropping it retires the pool, which goes when its last object
/// is gone.
///
/// # Invariants
///
/// The initial reference is ours.
#[must_use]
pub(crate) struct Initial(NonNull<Pool>);

impl Initial {
    /// Makes the pool the current one; retires the one before.
    pub(crate) fn make_current(self) {
        let pool = ManuallyDrop::new(self).0.as_ptr();
        // INVARIANT: The initial reference of the pool before is not in its place any more.
        drop(NonNull::new(CURRENT.xchg(pool, Full).cast_mut()).map(Self));
    }
}

impl Deref for Initial {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        // SAFETY: There is a reference, by the invariants.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Initial {
    fn drop(&mut self) {
        // The initial reference may be the last one: the pool is used after it is dropped.
        let Some(pool) = PoolRef::get(self) else {
            warn_on!(true);
            return;
        };
        // SAFETY: The initial reference is ours, by the invariants.
        unsafe { bindings::zswap_ref_kill(pool.refs.get()) };
        pool.retired.store(true, kernel::sync::atomic::Release);
    }
}

/// A counted reference to a pool.
///
/// # Invariants
///
/// The reference is ours.
pub(crate) struct PoolRef(NonNull<Pool>);

// SAFETY: References may be used and dropped anywhere.
unsafe impl Send for PoolRef {}
// SAFETY: All methods that take a shared reference may be called from any thread.
unsafe impl Sync for PoolRef {}

impl PoolRef {
    /// Takes a reference, unless the last one is gone.
    #[inline]
    fn get(pool: &Pool) -> Option<Self> {
        // SAFETY: The pool exists, so its count does.
        unsafe { bindings::zswap_ref_tryget(pool.refs.get()) }.then(|| Self(NonNull::from(pool)))
    }

    /// Stores a copy of the bytes in the pool, for a slot. `EOVERFLOW`: it would be in memory that
    /// a word cannot name.
    #[inline]
    pub(crate) fn store(&self, bytes: Bytes<'_>, node: Node, entry: SwapEntry) -> Result<Entry> {
        let number = self.number.copy().ok_or(EINVAL)?;
        let len = bytes.len();
        let name = Name::of(entry);
        let object = self.zs.store(bytes, node, name)?;
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
            name,
        })
    }
}

impl Clone for PoolRef {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: There is a reference, by the invariants.
        unsafe { bindings::zswap_ref_get(self.refs.get()) };
        Self(self.0)
    }
}

impl Deref for PoolRef {
    type Target = Pool;

    #[inline]
    fn deref(&self) -> &Pool {
        // SAFETY: There is a reference, by the invariants.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for PoolRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The reference is ours, by the invariants.
        unsafe { bindings::zswap_ref_put(self.refs.get()) };
    }
}

/// The pool with a number.
///
/// # Safety
///
/// If a pool has the number, there is a reference to it during `'a`.
#[inline]
unsafe fn pool_of<'a>(object: Object) -> Option<&'a Pool> {
    // SAFETY: A pool is in its place as long as it is referred to.
    unsafe { at(POOLS.get(usize::from(object.pool()))?) }
}

/// The pool in a place.
///
/// # Safety
///
/// If there is one, it is not freed during `'a`.
#[inline]
unsafe fn at<'a>(place: &Atomic<*const Pool>) -> Option<&'a Pool> {
    // SAFETY: As required of the caller.
    unsafe { place.load(Acquire).as_ref() }
}

/// Returns all pools.
#[inline]
fn each(_rcu: &rcu::Guard) -> impl Iterator<Item = &Pool> {
    // SAFETY: RCU keeps those that are found.
    POOLS.iter().filter_map(|place| unsafe { at(place) })
}

/// Returns a reference to the current pool, if there is one.
#[inline]
pub(crate) fn current() -> Option<PoolRef> {
    let _rcu = rcu::read_lock();
    // SAFETY: RCU keeps it, as it was in its place when it was current.
    unsafe { at(&CURRENT) }.and_then(PoolRef::get)
}

/// Revives a retired pool with that compressor, if there is one.
pub(crate) fn take_retired(compressor: &CStr) -> Option<Initial> {
    let rcu = rcu::read_lock();
    let found = each(&rcu)
        .filter(|pool| pool.compressor() == compressor)
        .filter_map(PoolRef::get)
        .find(|pool| pool.retired.cmpxchg(true, false, Full).is_ok())?;
    drop(rcu);
    found.report(c"using existing");
    // SAFETY: The initial reference is gone, as the pool was retired, and by clearing that we have
    // the right to make it anew. There is a reference, so that the count is not zero.
    unsafe { bindings::percpu_ref_resurrect(found.refs.get()) };
    // INVARIANT: Just made.
    Some(Initial(found.0))
}

/// Returns the pages that all pools take.
#[inline]
pub(crate) fn total_pages() -> usize {
    let rcu = rcu::read_lock();
    each(&rcu).fold(0usize, |total, pool| {
        total.wrapping_add(pool.zs.total_pages())
    })
}

/// What is to be stored of a page, in no word: dropping frees it.
///
/// # Invariants
///
/// `word` is that of a record. If it is an object, it is one of the pool with its number, pinned,
/// and there is a reference to the pool for it. It has the name. No table names it, nor another
/// value.
#[must_use]
pub(crate) struct Entry {
    word: u64,
    len: u32,
    name: Name,
}

impl Entry {
    /// Returns that of a page that repeats one value, for a slot.
    #[inline]
    pub(crate) fn same(pattern: Pattern, entry: SwapEntry) -> Self {
        // INVARIANT: It is no object.
        Self {
            word: Record::new(Kept::Same(pattern)).encode(),
            len: 0,
            name: Name::of(entry),
        }
    }

    /// Returns true if the entry was made for the slot that `name` stands for.
    #[inline]
    pub(crate) fn is_for(&self, name: Name) -> bool {
        self.name == name
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
    /// The word is that of the slot that it [is for](Self::is_for). The cluster is locked, and the
    /// caller has the right to the slot.
    #[inline]
    pub(crate) unsafe fn publish(
        self,
        word: &Atomic<u64>,
        freed: &mut FreeBatch,
        sum: &mut Sum,
    ) -> u64 {
        let this = ManuallyDrop::new(self);
        let old = word.load(Relaxed);
        if Record::is_tag(old) {
            // SAFETY: As required of the caller.
            unsafe { freed.take(word, this.name, this.word, sum) };
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
    /// The word is that of the slot with the name. The cluster is locked, and the caller has the
    /// right to the slot.
    #[inline]
    pub(crate) unsafe fn take(&mut self, word: &Atomic<u64>, name: Name, new: u64, sum: &mut Sum) {
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
    /// As for [`Self::take`].
    #[inline]
    pub(crate) unsafe fn take_loaded(&mut self, loaded: Loaded<'_>) -> Sum {
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
    pub(crate) unsafe fn of(word: &'a Atomic<u64>, name: Name) -> Option<Self> {
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

    /// Gives the object's memory to `f`. Fails if the word is damaged, or names no object.
    #[inline]
    pub(crate) fn read<R>(&self, f: impl FnOnce(Parts<'_>) -> R) -> Result<(R, Loaded<'_>)> {
        let pool = self.pool().ok_or(EIO)?;
        let mut len = 0;
        let read = |parts: Parts<'_>| {
            len = parts.len();
            f(parts)
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
    object: Option<(&'h Pool, ReadPin)>,
    len: u32,
}
