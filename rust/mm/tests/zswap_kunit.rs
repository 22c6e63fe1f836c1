// SPDX-License-Identifier: GPL-2.0

//! Tests of zsmalloc objects without handles. They check that objects keep their data when
//! zsmalloc moves them, and that the pool's page count returns to zero.
//!
//! Host tests test the decisions of zswap: `zswap/rules.rs`.

use crate::{
    ffi::{
        folio::Bytes,
        node::Node,
        params,
        zsmalloc::{
            Emptied,
            InWord,
            Name,
            Own,
            Pinned,
            Shared,
            ZsPool, //
        }, //
    },
    zswap::{
        record::{
            Kept,
            Object,
            Place,
            Record, //
        },
        ring::NewMember, //
    }, //
};
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

const NR: usize = 600;

/// The words of all tests, which run one after the other. Object `n` has the name `n + 1`.
static WORDS: [Atomic<u64>; NR] = [const { Atomic::new(0) }; NR];

/// # Safety
///
/// Nothing is required, because the words are static.
unsafe extern "C" fn find_word(name: u64) -> *mut u64 {
    let word = (name as usize).checked_sub(1).and_then(|n| WORDS.get(n));
    word.map_or(core::ptr::null_mut(), Atomic::as_ptr)
}

fn name(n: usize) -> Name {
    Name::from_raw(n as u64 + 1)
}

/// Returns the length of object `n`. Some objects are small, some cross a page boundary, and some
/// fill a page.
fn len_of(n: usize) -> usize {
    match n % 8 {
        7 => PAGE_SIZE,
        nth => 100 + nth * 520,
    }
}

fn byte_of(n: usize, at: usize) -> u8 {
    (n * 31 + at * 7 + at / 256) as u8
}

fn node() -> Result<Node> {
    Node::all().next().ok_or(EINVAL)
}

fn pool() -> Result<ZsPool> {
    // SAFETY: `store()` unpins an object only after it is in the word that `find_word()` returns.
    // Each test frees its objects. A test that fails may leave objects, which breaks the second
    // requirement: C reports them, frees the pool, and may access it when it migrates them later.
    unsafe { ZsPool::create(c"zswap-kunit", find_word) }
}

/// Stores object `n`, and puts it into its word. The lowest bits of the word are as in a zswap
/// record.
fn store(pool: &ZsPool, n: usize) -> Result {
    let mut data = KVec::with_capacity(PAGE_SIZE, GFP_KERNEL)?;
    for at in 0..len_of(n) {
        data.push(byte_of(n, at), GFP_KERNEL)?;
    }
    let object = Pinned::store(pool, Bytes::of(&data), node()?, name(n))?;
    let place = Place::new(object.place()).ok_or(EINVAL)?;
    let kept = Object::new(place, (n % 8) as u8, n % 2 == 0).ok_or(EINVAL)?;
    WORDS[n].store(Record::new(Kept::Object(kept)).encode(), Relaxed);
    // SAFETY: The object is pinned, and in the word that `find_word()` returns for its name.
    unsafe { object.unpin() };
    Ok(())
}

/// Returns true if the data of object `n` and the lowest bits of its word are as stored.
fn is_there(pool: &ZsPool, n: usize) -> Result<bool> {
    let mut data = KVec::from_elem(0u8, PAGE_SIZE, GFP_KERNEL)?;
    // SAFETY: The object is in its word, and no other task frees it.
    let object = unsafe { InWord::<Shared>::new(pool, &WORDS[n], name(n)) };
    let (len, _pin) = object.read(|mut parts| {
        let len = parts.len() as usize;
        // SAFETY: By the invariants of `Parts`, the list describes `len` bytes, in at most two
        // entries. No object is longer than a page, and `data` is as long as a page.
        unsafe { bindings::sg_copy_to_buffer(parts.as_sg(), 2, data.as_mut_ptr().cast(), len) };
        len
    })?;
    let record = Record::decode(WORDS[n].load(Relaxed)).map_err(|_| EINVAL)?;
    Ok(len == len_of(n)
        && data
            .iter()
            .take(len)
            .enumerate()
            .all(|(at, byte)| *byte == byte_of(n, at))
        && record.referenced
        && record.is_plain() == (n % 2 == 0)
        && matches!(record.kept, Kept::Object(object) if object.pool() == (n % 8) as u8))
}

fn free(pool: &ZsPool, n: usize) -> Result {
    let mut emptied = Emptied::NONE;
    // SAFETY: The object is in its word, and no other task uses it.
    let object = unsafe { InWord::<Own>::new(pool, &WORDS[n], name(n)) };
    let len = object.free(0, &mut emptied)?;
    // SAFETY: The freed memory belongs to this pool.
    unsafe { pool.give_back(&mut emptied) };
    if len as usize != len_of(n) || WORDS[n].load(Relaxed) != 0 {
        return Err(EINVAL);
    }
    Ok(())
}

#[kunit_tests(rust_zswap)]
mod tests {
    use super::*;

    #[test]
    fn dropped_objects_are_freed() -> Result {
        let pool = pool()?;
        assert_eq!(pool.total_pages(), 0);
        let text = *b"what was swapped out";
        {
            let _one = Pinned::store(&pool, Bytes::of(&text), node()?, name(0))?;
            let _two = Pinned::store(&pool, Bytes::of(&text), node()?, name(1))?;
            assert!(pool.total_pages() > 0);
        }
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    #[test]
    fn objects_are_there_until_they_are_freed() -> Result {
        let pool = pool()?;
        for n in 0..NR {
            store(&pool, n)?;
        }
        for n in 0..NR {
            assert!(is_there(&pool, n)?);
        }
        for n in 0..NR {
            free(&pool, n)?;
        }
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    #[test]
    fn words_follow_objects_that_are_moved() -> Result {
        let pool = pool()?;
        for n in 0..NR {
            store(&pool, n)?;
        }
        let is_left = |n: usize| n / 8 % 3 == 0;
        for n in (0..NR).filter(|n| !is_left(*n)) {
            free(&pool, n)?;
        }
        let places = || (0..NR).map(|n| WORDS[n].load(Relaxed));
        let mut before = KVec::with_capacity(NR, GFP_KERNEL)?;
        for place in places() {
            before.push(place, GFP_KERNEL)?;
        }
        let pages = pool.total_pages();
        // SAFETY: `pool` is a valid zsmalloc pool.
        let freed = unsafe { bindings::zs_compact(pool.as_ptr()) };
        assert!(freed > 0);
        assert_eq!(pool.total_pages(), pages - freed);
        assert!(places().ne(before.iter().copied()));
        for n in (0..NR).filter(|n| is_left(*n)) {
            assert!(is_there(&pool, n)?);
        }
        for n in (0..NR).filter(|n| is_left(*n)) {
            free(&pool, n)?;
        }
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    #[test]
    fn pinned_objects_are_not_moved() -> Result {
        let pool = pool()?;
        // Drop three of four objects. The others are spread over many pages, so that compaction
        // would move them if they were not pinned.
        let text = [7u8; 1000];
        let mut pinned = KVec::with_capacity(NR, GFP_KERNEL)?;
        for n in 0..40 {
            let object = Pinned::store(&pool, Bytes::of(&text), node()?, name(n))?;
            pinned.push(object, GFP_KERNEL)?;
        }
        let mut nth = 0;
        pinned.retain(|_| {
            nth += 1;
            nth % 4 == 0
        });
        let pages = pool.total_pages();
        // SAFETY: `pool` is a valid zsmalloc pool.
        let freed = unsafe { bindings::zs_compact(pool.as_ptr()) };
        assert_eq!(freed, 0);
        assert_eq!(pool.total_pages(), pages);
        drop(pinned);
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    #[test]
    fn what_is_read_is_not_moved_until_it_is_freed() -> Result {
        let pool = pool()?;
        // These numbers are equal modulo 8, so that the objects have one size: see `len_of()`.
        let objects = || (0..40).map(|n| 8 * n + 1);
        for n in objects() {
            store(&pool, n)?;
        }
        let is_left = |n: &usize| n / 8 % 4 == 0;
        for n in objects().filter(|n| !is_left(n)) {
            free(&pool, n)?;
        }
        let mut read = KVec::with_capacity(NR, GFP_KERNEL)?;
        for n in objects().filter(is_left) {
            // SAFETY: The object is in its word, and no task frees it before `free_read()` below.
            let object = unsafe { InWord::<Shared>::new(&pool, &WORDS[n], name(n)) };
            let (len, pin) = object.read(|parts| parts.len())?;
            assert_eq!(len as usize, len_of(n));
            read.push((n, pin, WORDS[n].load(Relaxed)), GFP_KERNEL)?;
        }
        // SAFETY: `pool` is a valid zsmalloc pool.
        let freed = unsafe { bindings::zs_compact(pool.as_ptr()) };
        assert_eq!(freed, 0);
        for (n, pin, word) in read {
            assert_eq!(WORDS[n].load(Relaxed), word);
            let mut emptied = Emptied::NONE;
            // SAFETY: The object was read by way of its word, and no other task uses it. The freed
            // memory belongs to this pool.
            unsafe {
                pool.free_read(pin, &WORDS[n], 0, &mut emptied);
                pool.give_back(&mut emptied);
            }
            assert_eq!(WORDS[n].load(Relaxed), 0);
        }
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    /// Calls these functions also if zswap was never set up. Then they must do nothing.
    #[test]
    fn members_and_the_worker_need_the_setup() -> Result {
        params::queue_shrink();
        drop(NewMember::alloc(node()?));
        Ok(())
    }

    #[test]
    fn what_cannot_be_stored_is_refused() -> Result {
        let pool = pool()?;
        let data = KVec::from_elem(1u8, PAGE_SIZE + 1, GFP_KERNEL)?;
        let node = node()?;
        let error = |bytes: &[u8], name| Pinned::store(&pool, Bytes::of(bytes), node, name).err();
        assert!(error(&data, name(0)) == Some(ENOSPC));
        assert!(error(&data[..0], name(0)) == Some(EINVAL));
        assert!(error(&data[..1], Name::from_raw(0)) == Some(EINVAL));
        assert!(error(&data[..1], Name::from_raw(1 << 47)) == Some(EINVAL));
        assert!(error(&data[..1], Name::from_raw((1 << 47) - 1)).is_none());
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }
}
