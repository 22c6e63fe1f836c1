// SPDX-License-Identifier: GPL-2.0

//! A zsmalloc pool for tests, which keeps its objects in words of its own.
//!
//! A test that fails may end at any point. If a failed assertion ends it, no value is dropped, so
//! the pool and its objects stay allocated. If it returns an error, the drop of the pool frees the
//! objects. In both cases no object is left in a pool that C has freed.
//!
//! C header: [`mm/zsmalloc_owned.h`](srctree/mm/zsmalloc_owned.h).

// A panic fails the test.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use crate::{
    ffi::{
        folio::Bytes,
        node::Node,
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
    zswap::record::{
        Kept,
        Object,
        Place,
        Record, //
    }, //
};
use core::mem::ManuallyDrop;
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Relaxed,
        Release, //
    }, //
};

/// Number of words of a pool.
pub(crate) const NR: usize = 600;

/// Number of pools. Tests run one after the other, but a pool whose test has failed may stay.
const POOLS: usize = 8;

/// The words of a pool.
struct PoolWords {
    /// True while a pool has the words.
    taken: Atomic<bool>,
    words: [Atomic<u64>; NR],
}

static WORDS: [PoolWords; POOLS] = [const {
    PoolWords {
        taken: Atomic::new(false),
        words: [const { Atomic::new(0) }; NR],
    }
}; POOLS];

/// Returns the name of object `n` of the pool that uses `WORDS[nth]`.
fn name_of(nth: usize, n: usize) -> ObjectName {
    ObjectName::from_raw((nth * NR + n) as u64 + 1)
}

/// Returns the word of the object with a name.
///
/// # Safety
///
/// Nothing is required, because the words are static.
unsafe extern "C" fn find_word(name: u64) -> *mut u64 {
    let at = (name as usize).wrapping_sub(1);
    let words = WORDS.get(at / NR).and_then(|own| own.words.get(at % NR));
    words.map_or(core::ptr::null_mut(), Atomic::as_ptr)
}

/// A zsmalloc pool of owned objects, and the words of its objects.
///
/// Dropping the value frees the objects in the words, and then the pool. If a [`NewObject`] was
/// leaked, so that the pool still has an object, leaks the pool instead.
///
/// # Invariants
///
/// Only this value changes the words with the index `nth`, besides zsmalloc. A word is 0, or names
/// an object of the pool. The object was stored with the name of the word, put into the word, and
/// then unpinned.
pub(crate) struct TestPool {
    zs: ManuallyDrop<ZsPool>,
    nth: usize,
}

impl TestPool {
    /// Creates an empty pool. Returns `ENOSPC` if all sets of words are taken, for example by pools
    /// that failed tests have leaked, and otherwise the error of [`ZsPool::create`]. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let take = |own: &PoolWords| own.taken.cmpxchg(false, true, Full).is_ok();
        let nth = WORDS.iter().position(take).ok_or(ENOSPC)?;
        // SAFETY: `store()` unpins an object only after it is in the word that `find_word()`
        // returns for its name. `drop()` frees the pool only if it has no object.
        let zs = unsafe { ZsPool::create(c"zswap-kunit", find_word) };
        let zs = match zs {
            Ok(zs) => ManuallyDrop::new(zs),
            Err(error) => {
                WORDS[nth].taken.store(false, Relaxed);
                return Err(error);
            }
        };
        // INVARIANT: `taken` was false, so no other value has the words. A previous pool has left
        // zeros in them.
        Ok(Self { zs, nth })
    }

    /// Returns the pool.
    pub(crate) fn zs(&self) -> &ZsPool {
        &self.zs
    }

    /// Returns how many pages of memory the pool uses.
    pub(crate) fn total_pages(&self) -> usize {
        self.zs.total_pages()
    }

    fn at(&self, n: usize) -> &'static Atomic<u64> {
        &WORDS[self.nth].words[n]
    }

    /// Returns the word of object `n`, or 0 if it is not stored.
    pub(crate) fn word(&self, n: usize) -> u64 {
        self.at(n).load(Relaxed)
    }

    /// Allocates object `n`, but does not put it into its word.
    pub(crate) fn pinned(&self, n: usize, bytes: &[u8], node: Node) -> Result<NewObject<&ZsPool>> {
        NewObject::store(&*self.zs, Bytes::of(bytes), node, name_of(self.nth, n))
    }

    /// Stores `bytes` as object `n`, and writes a zswap record with the object, `pool` and `plain`
    /// to its word. Returns `EEXIST` if the object is stored already, `EINVAL` if `pool` or the
    /// place of the object does not fit in a word, and otherwise the errors of
    /// [`NewObject::store`].
    pub(crate) fn store(
        &mut self,
        n: usize,
        bytes: &[u8],
        node: Node,
        pool: u8,
        plain: bool,
    ) -> Result {
        if self.word(n) != 0 {
            return Err(EEXIST);
        }
        let object = self.pinned(n, bytes, node)?;
        let place = Place::new(object.place()).ok_or(EINVAL)?;
        let kept = Object::new(place, pool, plain).ok_or(EINVAL)?;
        let word = Record::new(Kept::Object(kept)).encode();
        self.at(n).store(word, Relaxed);
        // SAFETY: The object is pinned, and in the word that `find_word()` returns for its name.
        unsafe { object.unpin() };
        Ok(())
    }

    /// Reads object `n` with `read`. The object is pinned until the second part of the result is
    /// dropped.
    fn read<R>(&self, n: usize, read: impl FnOnce(Parts<'_>) -> R) -> Result<(R, ReadPin<'_>)> {
        if self.word(n) == 0 {
            return Err(ENOENT);
        }
        // SAFETY: By the invariants, the word of object `n` names an object of this pool. It has
        // the name `name_of(self.nth, n)`, and was unpinned. Freeing the object takes `&mut self`,
        // so no task frees it during the borrow. The exception is `free_pinned()`, which consumes
        // the pin when it frees the object.
        let object = unsafe { InWord::<Readable>::new(&self.zs, self.at(n), name_of(self.nth, n)) };
        object.read(read)
    }

    /// Copies the data of object `n` to the start of `to`, and returns its length. Returns
    /// `ENOSPC` if `to` is too short.
    pub(crate) fn copy(&self, n: usize, to: &mut [u8]) -> Result<usize> {
        let (copied, _pin) = self.read(n, |mut parts| {
            let len = parts.len() as usize;
            if len > to.len() {
                return Err(ENOSPC);
            }
            // SAFETY: By the invariants of `Parts`, the list describes `len` bytes, in at most two
            // entries. `to` is not shorter, as just checked.
            unsafe { bindings::sg_copy_to_buffer(parts.as_sg(), 2, to.as_mut_ptr().cast(), len) };
            Ok(len)
        })?;
        copied
    }

    /// Frees object `n`, and returns the length of its data. The word is 0 afterwards.
    pub(crate) fn free(&mut self, n: usize) -> Result<u32> {
        if self.word(n) == 0 {
            return Err(ENOENT);
        }
        let mut emptied = Emptied::NONE;
        // SAFETY: By the invariants, the word of object `n` names an object of this pool. It has
        // the name `name_of(self.nth, n)`, and was unpinned. `self` is borrowed mutably, so no
        // other task uses the object.
        let object = unsafe { InWord::<Freeable>::new(&self.zs, self.at(n), name_of(self.nth, n)) };
        let freed = object.free(0, &mut emptied);
        // SAFETY: The freed memory belongs to this pool.
        unsafe { self.zs.give_back(&mut emptied) };
        freed
    }

    /// Reads objects, calls `f` while they are pinned, and then frees them with their pins.
    /// Returns `EEXIST` if an object comes twice.
    pub(crate) fn free_pinned(
        &mut self,
        objects: impl Iterator<Item = usize>,
        f: impl FnOnce(&Self) -> Result,
    ) -> Result {
        let this: &Self = self;
        let mut read = KVec::<(usize, ReadPin<'_>)>::with_capacity(NR, GFP_KERNEL)?;
        for n in objects {
            if read.iter().any(|(other, _)| *other == n) {
                return Err(EEXIST);
            }
            let ((), pin) = this.read(n, |_| ())?;
            read.push((n, pin), GFP_KERNEL)?;
        }
        f(this)?;
        for (n, pin) in read {
            let mut emptied = Emptied::NONE;
            // SAFETY: The object was read by way of its word, once, and `pin` is the pin of that
            // read. `self` is borrowed mutably, and `f` has returned, so no other task uses the
            // object.
            unsafe { this.zs.free_read(pin, this.at(n), 0, &mut emptied) };
            // SAFETY: The freed memory belongs to this pool.
            unsafe { this.zs.give_back(&mut emptied) };
        }
        Ok(())
    }

    /// Compacts the pool, and returns the number of pages that this freed.
    pub(crate) fn compact(&self) -> usize {
        // SAFETY: By the invariants of `ZsPool`, the pool is valid.
        unsafe { bindings::zs_compact(self.zs.as_ptr()) }
    }
}

impl Drop for TestPool {
    fn drop(&mut self) {
        for n in 0..NR {
            if self.word(n) != 0 {
                let _ = self.free(n);
            }
        }
        if self.total_pages() != 0 {
            pr_warn!("a test has left an object: its pool is leaked\n");
            return;
        }
        // SAFETY: This is the drop of the value, which does not use the pool any more.
        unsafe { ManuallyDrop::drop(&mut self.zs) };
        // Pairs with the cmpxchg() of `new()`, which then sees the zeros in the words.
        WORDS[self.nth].taken.store(false, Release);
    }
}
