// SPDX-License-Identifier: GPL-2.0

//! Tests of the owned types in the kernel: the numbers that C keeps must come back to zero.
//!
//! The decisions are tested on the host: `zswap/rules.rs`.

use super::{
    folio::Bytes,
    zsmalloc::{
        Handle,
        ZsPool, //
    }, //
};
use crate::record::{
    Kept,
    Object,
    Place,
    Record, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

#[kunit_tests(rust_zswap)]
mod tests {
    use super::*;

    #[test]
    fn handles_fit_in_a_word() -> Result {
        let pool = ZsPool::create(c"zswap-kunit")?;
        let object = pool.store(Bytes::of(b"what was swapped out"), 0)?;
        let place = Place::new(object.place()).ok_or(EINVAL)?;
        let kept = Object::new(place, 7, PAGE_SIZE as u32).ok_or(EINVAL)?;
        let word = Record::new(Kept::Object(kept)).encode();
        let back = Record::decode(word).map_err(|_| EINVAL)?;
        assert_eq!(back, Record::new(Kept::Object(kept)));
        let handle = object.into_handle();
        // SAFETY: It is compared, and not used.
        assert!(handle == unsafe { Handle::at(place.get()) });
        // SAFETY: The handle is of this pool.
        drop(unsafe { pool.adopt(handle) });
        Ok(())
    }

    #[test]
    fn dropped_objects_are_freed() -> Result {
        let pool = ZsPool::create(c"zswap-kunit")?;
        assert_eq!(pool.total_pages(), 0);
        let text = *b"what was swapped out";
        {
            let _one = pool.store(Bytes::of(&text), 0)?;
            let _two = pool.store(Bytes::of(&text), 0)?;
            assert!(pool.total_pages() > 0);
        }
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }

    #[test]
    fn a_transferred_object_is_freed_by_who_takes_it_back() -> Result {
        let pool = ZsPool::create(c"zswap-kunit")?;
        let text = *b"what was swapped out";
        let handle = pool.store(Bytes::of(&text), 0)?.into_handle();
        assert!(pool.total_pages() > 0);
        // SAFETY: The handle is of this pool.
        let len = unsafe { pool.read(&handle, text.len(), |parts| parts.first_len()) };
        assert_eq!(len, text.len());
        // SAFETY: The handle is of this pool.
        drop(unsafe { pool.adopt(handle) });
        assert_eq!(pool.total_pages(), 0);
        Ok(())
    }
}
