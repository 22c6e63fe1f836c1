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
            NewObject,
            ObjectName, //
        },
        zsmalloc_kunit::{
            TestPool,
            NR, //
        }, //
    },
    zswap::{
        record::{
            Kept,
            Record, //
        },
        ring::NewMember, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

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

/// Stores object `n`.
fn store(pool: &mut TestPool, n: usize) -> Result {
    let mut data = KVec::with_capacity(PAGE_SIZE, GFP_KERNEL)?;
    for at in 0..len_of(n) {
        data.push(byte_of(n, at), GFP_KERNEL)?;
    }
    pool.store(n, &data, node()?, (n % 8) as u8, n % 2 == 0)
}

/// Returns true if the data of object `n` and the lowest bits of its word are as stored.
fn is_there(pool: &TestPool, n: usize) -> Result<bool> {
    let mut data = KVec::from_elem(0u8, PAGE_SIZE, GFP_KERNEL)?;
    let len = pool.copy(n, &mut data)?;
    let record = Record::decode(pool.word(n)).ok_or(EINVAL)?;
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

fn free(pool: &mut TestPool, n: usize) -> Result {
    if pool.free(n)? as usize != len_of(n) || pool.word(n) != 0 {
        return Err(EINVAL);
    }
    Ok(())
}

#[kunit_tests(rust_zswap)]
mod tests {
    use super::*;

    #[test]
    fn dropped_objects_are_freed() -> Result {
        let pool = TestPool::new()?;
        assert_eq!(pool.total_pages(), 0);
        let text = *b"what was swapped out";
        {
            let _one = pool.pinned(0, &text, node()?)?;
            let _two = pool.pinned(1, &text, node()?)?;
            assert!(pool.total_pages() > 0);
        }
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    #[test]
    fn objects_are_there_until_they_are_freed() -> Result {
        let mut pool = TestPool::new()?;
        for n in 0..NR {
            store(&mut pool, n)?;
        }
        for n in 0..NR {
            assert!(is_there(&pool, n)?);
        }
        for n in 0..NR {
            free(&mut pool, n)?;
        }
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    #[test]
    fn words_follow_objects_that_are_moved() -> Result {
        let mut pool = TestPool::new()?;
        for n in 0..NR {
            store(&mut pool, n)?;
        }
        let is_left = |n: usize| n / 8 % 3 == 0;
        for n in (0..NR).filter(|n| !is_left(*n)) {
            free(&mut pool, n)?;
        }
        let mut before = KVec::with_capacity(NR, GFP_KERNEL)?;
        for n in 0..NR {
            before.push(pool.word(n), GFP_KERNEL)?;
        }
        let pages = pool.total_pages();
        let freed = pool.compact();
        assert!(freed > 0);
        assert_eq!(pool.total_pages(), pages - freed);
        assert!(before
            .iter()
            .zip(0..)
            .any(|(word, n)| *word != pool.word(n)));
        for n in (0..NR).filter(|n| is_left(*n)) {
            assert!(is_there(&pool, n)?);
        }
        for n in (0..NR).filter(|n| is_left(*n)) {
            free(&mut pool, n)?;
        }
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    #[test]
    fn pinned_objects_are_not_moved() -> Result {
        let pool = TestPool::new()?;
        // Drop three of four objects. The others are spread over many pages, so that compaction
        // would move them if they were not pinned.
        let text = [7u8; 1000];
        let mut pinned = KVec::with_capacity(NR, GFP_KERNEL)?;
        for n in 0..40 {
            pinned.push(pool.pinned(n, &text, node()?)?, GFP_KERNEL)?;
        }
        let mut nth = 0;
        pinned.retain(|_| {
            nth += 1;
            nth % 4 == 0
        });
        let pages = pool.total_pages();
        assert_eq!(pool.compact(), 0);
        assert_eq!(pool.total_pages(), pages);
        drop(pinned);
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    #[test]
    fn what_is_read_is_not_moved_until_it_is_freed() -> Result {
        let mut pool = TestPool::new()?;
        // These numbers are equal modulo 8, so that the objects have one size: see `len_of()`.
        let objects = || (0..40).map(|n| 8 * n + 1);
        for n in objects() {
            store(&mut pool, n)?;
        }
        let is_left = |n: &usize| n / 8 % 4 == 0;
        for n in objects().filter(|n| !is_left(n)) {
            free(&mut pool, n)?;
        }
        pool.free_pinned(objects().filter(is_left), |pool| {
            let mut before = KVec::with_capacity(NR, GFP_KERNEL)?;
            for n in objects() {
                before.push(pool.word(n), GFP_KERNEL)?;
            }
            assert_eq!(pool.compact(), 0);
            assert!(objects().zip(before).all(|(n, word)| pool.word(n) == word));
            Ok(())
        })?;
        assert!(objects().all(|n| pool.word(n) == 0));
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    /// A test that returns an error drops its pool with objects in words.
    #[test]
    fn objects_that_a_test_leaves_are_freed() -> Result {
        let mut pool = TestPool::new()?;
        for n in 0..8 {
            store(&mut pool, n)?;
        }
        drop(pool);
        // The next pool gets the words of the dropped one.
        let mut pool = TestPool::new()?;
        assert!((0..NR).all(|n| pool.word(n) == 0));
        assert!(pool.free(0).err() == Some(ENOENT));
        Ok(())
    }

    /// Also runs if zswap was never set up. Then `queue_shrink()` and `NewMember::alloc()` must do
    /// nothing.
    #[test]
    fn members_and_the_worker_need_the_setup() -> Result {
        params::queue_shrink();
        drop(NewMember::alloc(node()?));
        Ok(())
    }

    #[test]
    fn what_cannot_be_stored_is_refused() -> Result {
        let pool = TestPool::new()?;
        let data = KVec::from_elem(1u8, PAGE_SIZE + 1, GFP_KERNEL)?;
        let node = node()?;
        assert!(pool.pinned(0, &data, node).err() == Some(ENOSPC));
        assert!(pool.pinned(0, &data[..0], node).err() == Some(EINVAL));
        let named = |name| {
            let bytes = Bytes::of(&data[..1]);
            NewObject::store(pool.zs(), bytes, node, ObjectName::from_raw(name)).err()
        };
        assert!(named(0) == Some(EINVAL));
        assert!(named(1 << 47) == Some(EINVAL));
        assert!(named((1 << 47) - 1).is_none());
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }
}
