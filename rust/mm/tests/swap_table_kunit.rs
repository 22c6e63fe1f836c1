// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of [`swap_table`](crate::vswap::swap_table): C decodes words that Rust encodes, and
//! Rust decodes words that C encodes.
//!
//! Host tests in `kunit/host` test what needs no comparison with C, for many more words.

use crate::{
    ffi::{
        layout::{
            MAX_SWAPFILES,
            PFN_BITS, //
        },
        swap_table as c, //
    },
    vswap::swap_table::{
        cache_add_word,
        cache_del_word,
        Backing,
        Corrupt,
        Count,
        Flags,
        Pfn,
        PhysSlot,
        Rmap,
        Shadow,
        State,
        StateError,
        VOffset,
        SHADOW_BITS,
        SWP_TB_COUNT_MASK,
        SWP_TB_COUNT_MAX,
        SWP_TB_FLAGS_BITS,
        SWP_TB_FLAGS_MASK,
        SWP_TB_FLAGS_SHIFT,
        VOFFSET_BITS, //
    },
    zswap::record::{
        Kept,
        Pattern,
        Record, //
    }, //
};
use kernel::{
    page::Page,
    prelude::*, //
};

// The helpers do not nest iterator adapters, because the symbol names of nested adapters would be
// too long for kallsyms.

/// Returns numbers of up to `bits` bits: some patterns, and each single bit.
fn numbers(bits: u32) -> impl Iterator<Item = u64> {
    let max = u64::MAX >> (u64::BITS - bits);

    (0..bits + 5).map(move |n| match n {
        0 => 0,
        1 => max,
        2 => max >> 1,
        3 => max / 3,
        4 => max / 5,
        _ => 1 << (n - 5),
    })
}

fn counts() -> impl Iterator<Item = Count> {
    (0..=SWP_TB_COUNT_MAX).filter_map(Count::new)
}

/// Returns all values of the flags, as C's byte and as [`Flags`].
fn flags() -> impl Iterator<Item = (u8, Flags)> {
    (0..1u8 << SWP_TB_FLAGS_BITS).filter_map(|bits| {
        let zero = bits & 1 != 0;

        Some((
            bits,
            Flags {
                count: Count::new(bits >> 1)?,
                zero,
            },
        ))
    })
}

/// Calls `f` for states of all formats, with all flags.
fn for_states(mut f: impl FnMut(State)) {
    f(State::Null);
    f(State::Bad);
    for (_, flags) in flags() {
        for pfn in numbers(PFN_BITS).filter_map(Pfn::new) {
            f(State::Pfn { flags, pfn });
        }
        for value in numbers(SHADOW_BITS).filter_map(Shadow::new) {
            f(State::Shadow { flags, value });
        }
    }
}

/// Calls `f` for words that differ from a state in one bit, and for random words.
fn for_words(mut f: impl FnMut(u64)) {
    for_states(|state| (0..u64::BITS).for_each(|bit| f(state.encode() ^ 1 << bit)));

    // xorshift64: a fixed sequence of random values other than 0.
    let mut word = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..100_000 {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        f(word);
    }
}

/// Returns the results that C's predicates should give for a state.
fn expected(state: State) -> c::Seen {
    c::Seen {
        null: matches!(state, State::Null),
        shadow: matches!(state, State::Shadow { .. }),
        folio: matches!(state, State::Pfn { .. }),
        bad: matches!(state, State::Bad),
        countable: !matches!(state, State::Bad),
    }
}

const NOTHING: c::Seen = c::Seen {
    null: false,
    shadow: false,
    folio: false,
    bad: false,
    countable: false,
};

#[kunit_tests(rust_vswap_word)]
mod tests {
    use super::*;

    #[test]
    fn pfn_is_as_c_makes_it() -> Result {
        for pfn in numbers(PFN_BITS) {
            for (c_flags, flags) in flags() {
                let word = c::pfn_to_swp_tb(pfn, c_flags);
                let state = State::Pfn {
                    flags,
                    pfn: Pfn::new(pfn).ok_or(EINVAL)?,
                };

                assert_eq!(state.encode(), word);
                assert_eq!(State::decode(word), Ok(state));
            }
        }
        Ok(())
    }

    #[test]
    fn shadow_is_as_c_makes_it() -> Result {
        for value in numbers(SHADOW_BITS) {
            for (c_flags, flags) in flags() {
                let word = c::shadow_to_swp_tb(Some(value), c_flags);
                let state = State::Shadow {
                    flags,
                    value: Shadow::new(value).ok_or(EINVAL)?,
                };

                assert_eq!(state.encode(), word);
                assert_eq!(State::decode(word), Ok(state));
                assert_eq!(c::swp_tb_to_shadow(word), value << 1 | 1);
            }
        }
        for (c_flags, flags) in flags() {
            let value = Shadow::NONE;
            let state = State::Shadow { flags, value };

            assert_eq!(state.encode(), c::shadow_to_swp_tb(None, c_flags));
        }
        Ok(())
    }

    #[test]
    fn c_sees_the_format_of_a_state() {
        for_states(|state| assert!(c::seen_by_c(state.encode()) == expected(state)));
    }

    #[test]
    fn c_sees_the_flags_of_a_state() {
        for_states(|state| {
            let word = state.encode();

            match state.flags() {
                Ok(flags) => {
                    assert_eq!(c::swp_tb_get_count(word), i32::from(flags.count.get()));
                    assert_eq!(c::swp_tb_get_flags(word) >> 1, flags.count.get());
                    assert_eq!(c::swp_tb_get_flags(word) & 1, u8::from(flags.zero));
                }
                Err(StateError::Unused) => assert_eq!(c::swp_tb_get_count(word), 0),
                Err(_) => assert!(c::swp_tb_get_count(word) < 0),
            }
        });
    }

    #[test]
    fn any_word_is_seen_alike() {
        for_words(|word| {
            let seen = c::seen_by_c(word);

            match State::decode(word) {
                Ok(state) => {
                    assert!(seen == expected(state));
                    assert_eq!(state.encode(), word);
                }
                // C takes the word for that of a folio. It ignores the reserved bits, which it
                // never sets.
                Err(Corrupt::Reserved) => {
                    assert!(seen.folio);
                    assert!((word & !SWP_TB_FLAGS_MASK) >> 2 >> PFN_BITS != 0);
                }
                Err(_) => assert!(seen == NOTHING),
            }
        });
    }

    #[test]
    fn count_is_replaced_as_c_does_it() {
        for_states(|state| {
            for count in counts() {
                let word = c::swp_tb_mk_count(state.encode(), count.get());

                match state.with_count(count) {
                    Ok(new) => assert_eq!(new.encode(), word),
                    Err(_) => assert!(matches!(state, State::Null | State::Bad)),
                }
            }
        });
    }

    #[test]
    fn c_counts_what_dup_and_put_count() {
        for_states(|state| {
            let before = state.encode();
            let count = c::swp_tb_get_count(before);
            let max = i32::from(SWP_TB_COUNT_MAX);

            // Only the count may change. The exception is the last put of a slot that is not in
            // the swap cache, which frees the slot.
            match state.dup() {
                Ok(dup) => {
                    assert_eq!(c::swp_tb_get_count(dup.encode()), count + 1);
                    assert_eq!((dup.encode() ^ before) & !SWP_TB_COUNT_MASK, 0);
                }
                Err(StateError::CountFull) => assert_eq!(count, max - 1),
                Err(StateError::CountExtended) => assert_eq!(count, max),
                Err(_) => assert!(count <= 0 && !c::seen_by_c(before).folio),
            }
            match state.put() {
                Ok(State::Null) => {
                    assert!(c::seen_by_c(before).shadow);
                    assert_eq!(count, 1);
                }
                Ok(put) => {
                    assert_eq!(c::swp_tb_get_count(put.encode()), count - 1);
                    assert_eq!((put.encode() ^ before) & !SWP_TB_COUNT_MASK, 0);
                }
                Err(StateError::CountExtended) => assert_eq!(count, max),
                Err(_) => assert!(count <= 0),
            }
        });
    }

    #[test]
    fn swap_cache_moves_as_c_does() -> Result {
        let old = Pfn::new(0x1234).ok_or(EINVAL)?;
        let new = Pfn::new(0x5678).ok_or(EINVAL)?;
        let value = Shadow::new(0xabcdef).ok_or(EINVAL)?;

        for (_, flags) in flags() {
            let cached = State::Pfn { flags, pfn: old };
            let c_flags = c::swp_tb_get_flags(cached.encode());

            let replaced = cached.cache_replace(old, new);
            let word = c::pfn_to_swp_tb(new.get(), c_flags);
            assert_eq!(replaced.map(State::encode), Ok(word));

            // A slot whose swap count is 0 keeps a shadow until it is freed.
            let gone = c::shadow_to_swp_tb(Some(value.get()), c_flags);
            assert_eq!(cache_del_word(cached.encode(), old, value), Some(gone));

            let back = (flags.count != Count::ZERO).then_some(cached.encode());
            assert_eq!(cache_add_word(gone, old), back);
        }
        Ok(())
    }

    #[test]
    fn folio_is_found_again() -> Result {
        let page = Page::alloc_page(GFP_KERNEL)?;

        for (c_flags, _) in flags() {
            let word = c::page_to_swp_tb(&page, c_flags);
            let state = State::decode(word);

            assert!(matches!(state, Ok(State::Pfn { .. })));
            assert!(c::swp_tb_is_page(state.map_or(0, State::encode), &page));
        }
        Ok(())
    }

    #[test]
    fn rmap_is_nothing_to_c() {
        for voffset in numbers(VOFFSET_BITS).filter_map(VOffset::new) {
            let word = Rmap::Virtual(voffset).encode();

            assert_eq!(Rmap::decode(word), Ok(Rmap::Virtual(voffset)));
            assert_eq!(State::decode(word), Err(Corrupt::Pointer));
            assert!(c::seen_by_c(word) == NOTHING);
            // C's function returns an error, and does not take the top bits for a count.
            assert!(c::swp_tb_get_count(word) < 0);
            // Readers that do not check the format see neither a count nor a zero flag.
            assert_eq!(word >> SWP_TB_FLAGS_SHIFT, 0);
        }
    }

    #[test]
    fn voffset_survives_a_pte() {
        for offset in numbers(VOFFSET_BITS) {
            // Three types of devices, and `MAX_SWAPFILES`, the type of virtual entries.
            for ty in [0, 1, MAX_SWAPFILES - 1, MAX_SWAPFILES] {
                let same = (usize::from(ty), offset as usize);
                assert_eq!(c::through_pte(ty, offset), same);
            }
        }
    }

    #[test]
    fn backing_of_this_kernel() -> Result {
        for value in [0, 1, u64::MAX, 0x3ff8_0000_0000_0000] {
            let record = Record::new(Kept::Same(Pattern::new(value).ok_or(EINVAL)?));
            let backing = Backing::Zswap(record);

            assert_eq!(Backing::decode(backing.encode()), Ok(backing));
        }
        for offset in numbers(32) {
            for ty in 0..MAX_SWAPFILES {
                let slot = PhysSlot::new(ty, offset as u32).ok_or(EINVAL)?;
                let backing = Backing::Phys(slot);

                assert_eq!(Backing::decode(backing.encode()), Ok(backing));
            }
        }
        // `MAX_SWAPFILES` is the first type that no device has.
        assert_eq!(PhysSlot::new(MAX_SWAPFILES, 0), None);
        assert_eq!(
            Backing::decode(u64::from(MAX_SWAPFILES) << 3 | 0b010),
            Err(Corrupt::SlotType)
        );
        Ok(())
    }
}
