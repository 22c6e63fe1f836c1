// SPDX-License-Identifier: GPL-2.0

//! Tests of the owned types in the kernel: the numbers that C keeps must come back to zero.
//!
//! The decisions are tested on the host: `zswap/rules.rs`.

use super::{
    folio::Bytes,
    memcg::Charge,
    zsmalloc::ZsPool, //
};
use crate::zswap::entry::Entry;
use kernel::prelude::*;

#[kunit_tests(rust_zswap)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_smaller_than_in_c() {
        assert_eq!(size_of::<Entry>(), 40);
        assert_eq!(align_of::<Entry>(), align_of::<usize>());
        // An entry may be charged to nobody; that costs nothing.
        assert_eq!(size_of::<Option<Charge>>(), 8);
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
