// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/mm/vswap/swap_table.rs` for any word.
//!
//! `rust/mm/tests/swap_table_kunit.rs` tests in the kernel that C reads the same from a word.

use proptest::prelude::*;

/// Returns the configuration of proptest. No file of past failures: those that matter become tests.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Any word. Words that nearly have one of the formats are much more frequent than by chance.
fn words() -> impl Strategy<Value = u64> {
    let low = prop_oneof![Just(0u64), any::<u64>(), (0..64u32).prop_map(|n| 1 << n)];
    let masked = (low, 0..=64u32, any::<u8>()).prop_map(|(word, bits, marks)| {
        let kept = word.checked_shl(bits).unwrap_or(0) | word >> bits.min(63);
        kept & !0xff | u64::from(marks)
    });
    let flipped = (prop_oneof![Just(0u64), Just(!0u64 << 3)], 0..64u32)
        .prop_map(|(word, bit)| word ^ 1 << bit);

    prop_oneof![
        any::<u64>(),
        masked,
        flipped,
        Just(0u64),
        Just(!0u64 << 3),
        Just(!0u64),
    ]
}

macro_rules! tests {
    ($kernel:ident) => {
        mod $kernel {
            use super::{config, words};
            use proptest::{prelude::*, test_runner::TestCaseResult};
            use vswap_host::$kernel::{
                layout::{MAX_SWAPFILES, PFN_BITS},
                record::{Kept, Object, PageSum, Pattern, Place, Record},
                swap_table::{
                    cache_add_word, cache_del_word, consume_word, dup_word, has_folio, has_same_zero_flag, is_addable_word, is_counted_word, is_extended_word, is_last_word, is_unpinned_word, is_zero_word, may_be_counted_word, pfn_of_word, put_word, set_zero_word, zero_flag_of_word,
                    Backing, Corrupt, Count, Flags, Pfn, PhysSlot, Rmap, Shadow, State, StateError, VOffset, SWP_TB_BAD,
                },
            };

            /// The reason that a slot cannot take a folio.
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            enum Refused {
                Bad,
                Unused,
                Cached,
            }

            /// What the kernel does with words alone, for comparison.
            trait Model: Sized {
                fn with_zero(self, zero: bool) -> Result<Self, StateError>;
                fn cache_add(self, pfn: Pfn) -> Result<Self, Refused>;
                fn cache_del(self, old: Pfn, value: Shadow) -> Result<Self, StateError>;
            }

            impl Model for State {
                /// Sets or clears the zero flag.
                fn with_zero(self, zero: bool) -> Result<Self, StateError> {
                    let count = self.flags()?.count;
                    let flags = Flags { count, zero };
                    Ok(match self {
                        Self::Shadow { value, .. } => Self::Shadow { flags, value },
                        Self::Pfn { pfn, .. } => Self::Pfn { flags, pfn },
                        other => other,
                    })
                }

                /// Adds a folio to the swap cache for a slot in use. The flags stay.
                fn cache_add(self, pfn: Pfn) -> Result<Self, Refused> {
                    match self {
                        Self::Shadow { flags, .. } if flags.count != Count::ZERO => {
                            Ok(Self::Pfn { flags, pfn })
                        }
                        Self::Shadow { .. } | Self::Null => Err(Refused::Unused),
                        Self::Pfn { .. } => Err(Refused::Cached),
                        Self::Bad => Err(Refused::Bad),
                    }
                }

                /// Removes the folio `old` from the swap cache. The flags stay. A slot whose swap
                /// count is 0 becomes free.
                fn cache_del(self, old: Pfn, value: Shadow) -> Result<Self, StateError> {
                    match self {
                        Self::Pfn { flags, pfn } if pfn == old => Ok(match flags.count {
                            Count::ZERO => Self::Null,
                            _ => Self::Shadow { flags, value },
                        }),
                        Self::Bad => Err(StateError::Bad),
                        _ => Err(StateError::NotCached),
                    }
                }
            }

            fn count() -> impl Strategy<Value = Count> {
                (0..=15u8).prop_map(|n| Count::new(n).unwrap())
            }

            fn flags() -> impl Strategy<Value = Flags> {
                (count(), any::<bool>()).prop_map(|(count, zero)| Flags { count, zero })
            }

            fn pfn() -> impl Strategy<Value = Pfn> {
                (0..1u64 << PFN_BITS).prop_map(|pfn| Pfn::new(pfn).unwrap())
            }

            fn shadow() -> impl Strategy<Value = Shadow> {
                (0..1u64 << 58).prop_map(|value| Shadow::new(value).unwrap())
            }

            fn state() -> impl Strategy<Value = State> {
                prop_oneof![
                    Just(State::Null),
                    Just(State::Bad),
                    (flags(), shadow()).prop_map(|(flags, value)| State::Shadow { flags, value }),
                    (flags(), pfn()).prop_map(|(flags, pfn)| State::Pfn { flags, pfn }),
                ]
            }

            fn voffset() -> impl Strategy<Value = VOffset> {
                (0..1u64 << 34).prop_map(|offset| VOffset::new(offset).unwrap())
            }

            fn slot() -> impl Strategy<Value = PhysSlot> {
                (0..MAX_SWAPFILES, any::<u32>())
                    .prop_map(|(ty, offset)| PhysSlot::new(ty, offset).unwrap())
            }

            fn object() -> impl Strategy<Value = Object> {
                (1..1u64 << 58, 0..8u8, any::<bool>()).prop_map(|(place, pool, plain)| {
                    Object::new(Place::new(place).unwrap(), pool, plain).unwrap()
                })
            }

            /// Values that fit in a word, of all three forms.
            fn pattern() -> impl Strategy<Value = Pattern> {
                prop_oneof![
                    any::<u32>().prop_map(|half| u64::from(half) << 32 | u64::from(half)),
                    any::<i64>().prop_map(|number| (number >> 6) as u64),
                    any::<u64>().prop_map(|number| number << 6),
                    any::<f32>().prop_map(|number| f64::from(number).to_bits()),
                ]
                .prop_map(|value| Pattern::new(value).unwrap())
            }

            fn record() -> impl Strategy<Value = Record> {
                let kept = prop_oneof![
                    object().prop_map(Kept::Object),
                    pattern().prop_map(Kept::Same),
                ];
                (kept, any::<bool>()).prop_map(|(kept, referenced)| Record { kept, referenced })
            }

            fn phys(backing: Option<Backing>) -> Option<PhysSlot> {
                match backing {
                    Some(Backing::Phys(slot)) => Some(slot),
                    _ => None,
                }
            }

            fn backing() -> impl Strategy<Value = Backing> {
                prop_oneof![
                    Just(Backing::None),
                    record().prop_map(Backing::Zswap),
                    slot().prop_map(Backing::Phys),
                ]
            }

            /// Checks that the shortcuts for words do what the transitions do, or nothing. They do
            /// nothing where a slot is freed or a count does not fit, because that takes more than
            /// a word.
            fn shortcuts(word: u64, pfn: Pfn) -> TestCaseResult {
                let (dup, put) = (dup_word(word), put_word(word));
                let added = cache_add_word(word, pfn);
                let shadow = Shadow::new(0x5a5a5a).unwrap();
                let gone = |old| cache_del_word(word, old, shadow);

                // For any word, only the count changes, by one.
                for (new, step) in [(dup, 1 << 60), (put, 15 << 60)] {
                    prop_assert!(new.is_none_or(|new| new == word.wrapping_add(step)));
                }
                let Ok(state) = State::decode(word) else {
                    // The shortcuts check only the mark of a word, not bits that C never sets.
                    if word & 0b11 != 0b10 {
                        prop_assert_eq!((dup, put, is_zero_word(word)), (None, None, false));
                        prop_assert_eq!(set_zero_word(word, true), None);
                    }
                    prop_assert_eq!((added, gone(pfn)), (None, None));
                    prop_assert!(!is_addable_word(word, false) && !is_addable_word(word, true));
                    prop_assert_eq!(consume_word(word, pfn), None);
                    prop_assert!(!is_unpinned_word(word));
                    prop_assert_eq!(pfn_of_word(word), None);
                    return Ok(());
                };
                let stays = |state: &State| *state != State::Null;
                prop_assert_eq!(dup, state.dup().ok().map(State::encode));
                prop_assert_eq!(put, state.put().ok().filter(stays).map(State::encode));
                let extended = state.dup() == Err(StateError::CountExtended);
                prop_assert_eq!(is_extended_word(word), extended);
                prop_assert_eq!(is_last_word(word), state.put() == Ok(State::Null));
                let counted = state.flags().is_ok_and(|flags| flags.count != Count::ZERO);
                prop_assert_eq!(is_counted_word(word), counted);
                if state != State::Bad {
                    prop_assert_eq!(may_be_counted_word(word), counted);
                }
                let is_unpinned = matches!(state, State::Shadow { .. }) && !counted;
                prop_assert_eq!(is_unpinned_word(word), is_unpinned);
                prop_assert_eq!(added, state.cache_add(pfn).ok().map(State::encode));
                for zero in [false, true] {
                    let fits = added.is_some() && is_zero_word(word) == zero;
                    prop_assert_eq!(is_addable_word(word, zero), fits);
                }
                prop_assert_eq!(has_folio(word), matches!(state, State::Pfn { .. }));
                let named = match state {
                    State::Pfn { pfn, .. } => Some(pfn),
                    _ => None,
                };
                prop_assert_eq!(pfn_of_word(word), named);
                // The folio of the word, if it has one, and another folio.
                let own = named.unwrap_or(pfn);
                for old in [own, pfn] {
                    // What is to be freed keeps its flags until then.
                    let without = |value| state.flags().map(|flags| State::Shadow { flags, value });
                    let left = state.cache_del(old, shadow).and_then(|left| match left {
                        State::Null => without(shadow),
                        left => Ok(left),
                    });
                    prop_assert_eq!(gone(old), left.ok().map(State::encode));
                    let last = state.put().and_then(|left| left.cache_del(old, shadow));
                    let consumed = match last {
                        Ok(State::Null) => without(Shadow::NONE).ok().map(State::encode),
                        _ => None,
                    };
                    prop_assert_eq!(consume_word(word, old), consumed);
                }
                let zero = state.flags().is_ok_and(|flags| flags.zero);
                prop_assert_eq!(is_zero_word(word), zero);
                for other in [false, true] {
                    let set = state.with_zero(other).ok().map(State::encode);
                    prop_assert_eq!(set_zero_word(word, other), set);
                    if let Some(set) = set {
                        prop_assert_eq!(has_same_zero_flag(word, set), zero == other);
                        prop_assert_eq!(zero_flag_of_word(set), other.into());
                    }
                }
                // The reverse undoes it.
                if let Some(dup) = dup {
                    prop_assert_eq!(put_word(dup), Some(word));
                }
                Ok(())
            }

            proptest! {
                #![proptest_config(config())]

                // Canonical: no two words have the same value.

                #[test]
                fn state_words_are_canonical(word in words()) {
                    if let Ok(state) = State::decode(word) {
                        prop_assert_eq!(state.encode(), word);
                    }
                }

                #[test]
                fn rmap_words_are_canonical(word in words()) {
                    if let Ok(rmap) = Rmap::decode(word) {
                        prop_assert_eq!(rmap.encode(), word);
                    }
                }

                #[test]
                fn backing_words_are_canonical(word in words()) {
                    let backing = Backing::decode(word);
                    if let Ok(backing) = backing {
                        prop_assert_eq!(backing.encode(), word);
                    }
                    prop_assert_eq!(Backing::decode_phys(word), phys(backing.ok()));
                }

                // Faithful: no two values have the same word.

                #[test]
                fn states_round_trip(state in state()) {
                    prop_assert_eq!(State::decode(state.encode()), Ok(state));
                }

                #[test]
                fn rmaps_round_trip(state in state(), voffset in voffset()) {
                    for rmap in [Rmap::Direct(state), Rmap::Virtual(voffset)] {
                        prop_assert_eq!(Rmap::decode(rmap.encode()), Ok(rmap));
                    }
                }

                #[test]
                fn backings_round_trip(backing in backing()) {
                    prop_assert_eq!(Backing::decode(backing.encode()), Ok(backing));
                    prop_assert_eq!(Backing::decode_phys(backing.encode()), phys(Some(backing)));
                }

                // The bits are where the pictures show them.

                #[test]
                fn pfn_bits(pfn in pfn(), flags in flags()) {
                    let word = State::Pfn { flags, pfn }.encode();
                    prop_assert_eq!(word >> 60, u64::from(flags.count.get()));
                    prop_assert_eq!(word >> 59 & 1 != 0, flags.zero);
                    prop_assert_eq!(word << 5 >> 7, pfn.get());
                    prop_assert_eq!(word & 0b11, 0b10);
                }

                #[test]
                fn shadow_bits(value in shadow(), flags in flags()) {
                    let word = State::Shadow { flags, value }.encode();
                    prop_assert_eq!(word >> 60, u64::from(flags.count.get()));
                    prop_assert_eq!(word >> 59 & 1 != 0, flags.zero);
                    prop_assert_eq!(word << 5 >> 6, value.get());
                    prop_assert_eq!(word & 0b1, 0b1);
                }

                #[test]
                fn rmap_bits(voffset in voffset()) {
                    prop_assert_eq!(Rmap::Virtual(voffset).encode(), voffset.get() << 3 | 0b100);
                }

                #[test]
                fn slot_bits(slot in slot()) {
                    let word = Backing::Phys(slot).encode();
                    let [tagged, offset @ .., 0, 0, 0] = word.to_le_bytes() else {
                        return Err(TestCaseError::fail("bits above the offset"));
                    };
                    prop_assert_eq!(tagged, slot.ty() << 3 | 0b010);
                    prop_assert_eq!(u32::from_le_bytes(offset), slot.offset());
                }

                #[test]
                fn object_bits(object in object(), referenced in any::<bool>()) {
                    let record = Record { kept: Kept::Object(object), referenced };
                    let word = record.encode();
                    prop_assert_eq!(Backing::Zswap(record).encode(), word);
                    prop_assert_eq!(word & 1, 1);
                    prop_assert_eq!(word >> 1 & 1 != 0, referenced);
                    prop_assert_eq!((word >> 2 & 7) as u8, object.pool());
                    prop_assert_eq!(word >> 5 & 1 != 0, object.is_plain());
                    prop_assert_eq!(word >> 6, object.place().get());
                    prop_assert_eq!(record.is_plain(), object.is_plain());
                }

                /// zsmalloc changes only the place in a word.
                #[test]
                fn moved_objects(object in object(), place in 1..1u64 << 58, referenced in any::<bool>()) {
                    let record = Record { kept: Kept::Object(object), referenced };
                    let moved = place << 6 | record.encode() & 63;
                    let to = Place::new(place).unwrap();
                    // A record recognizes its word before the move, and no other word.
                    prop_assert!(Record::decode(moved).unwrap().was(record.encode()));
                    for bit in 0..6 {
                        prop_assert!(!record.was(moved ^ 1 << bit));
                    }
                    prop_assert!(!record.passed().was(moved) || !referenced);
                    let object = Object::new(to, object.pool(), object.is_plain()).unwrap();
                    prop_assert_eq!(
                        Record::decode(moved),
                        Some(Record { kept: Kept::Object(object), referenced })
                    );
                }

                #[test]
                fn same_bits(pattern in pattern(), referenced in any::<bool>()) {
                    let word = Record { kept: Kept::Same(pattern), referenced }.encode();
                    let (value, bits) = (pattern.get(), word >> 6);
                    prop_assert_eq!(word & 7, 4);
                    prop_assert_eq!(word >> 3 & 1 != 0, referenced);
                    let record = Record::decode(word).unwrap();
                    prop_assert!(record.was(word) && !record.was(word ^ 1 << 6));
                    match word >> 4 & 3 {
                        0 => prop_assert_eq!(value, bits << 32 | bits),
                        1 => prop_assert_eq!(value as i64, (bits << 6) as i64 >> 6),
                        2 => prop_assert_eq!(value, bits << 6),
                        form => prop_assert!(false, "form {form}"),
                    }
                }

                /// Every other word has a tag that no record has.
                #[test]
                fn tags_of_records(word in words()) {
                    let other = word & 1 == 0 && word & 7 != 4;
                    prop_assert_eq!(Record::is_tag(word), !other);
                    prop_assert!(!other || Record::decode(word).is_none());
                }

                #[test]
                fn words_of_no_form_are_corrupt(word in words(), slot in slot()) {
                    let is_record = Record::decode(word).is_some();
                    prop_assert_eq!(Record::is_in(word, false) == Some(true), is_record);
                    prop_assert_eq!(Record::is_in(word, true) == Some(true), is_record);
                    // A physical slot has a record or nothing.
                    prop_assert_eq!(Record::is_in(word, false).is_none(), !is_record && word != 0);
                    // A virtual slot may have another word, but none with the tag of a record.
                    prop_assert_eq!(
                        Record::is_in(word, true).is_none(),
                        Record::is_tag(word) && !is_record
                    );
                    // No device slot backs a physical slot.
                    let device = Backing::Phys(slot).encode();
                    prop_assert_eq!(Record::is_in(device, false), None);
                    prop_assert_eq!(Record::is_in(device, true), Some(false));
                }

                /// The hand changes one bit, which does not affect the content.
                #[test]
                fn passed_records(record in record()) {
                    let passed = record.passed();
                    prop_assert!(!passed.referenced);
                    prop_assert_eq!(passed.kept, record.kept);
                    let changed = passed.encode() ^ record.encode();
                    prop_assert_eq!(changed != 0, record.referenced);
                    prop_assert!(changed.count_ones() <= 1);
                }

                #[test]
                fn patterns_are_of_three_forms(value in any::<u64>()) {
                    let low = (value << 6) as i64 >> 6;
                    let fits = value >> 32 == value & 0xffff_ffff
                        || low as u64 == value
                        || value & 63 == 0;
                    prop_assert_eq!(Pattern::new(value).map(Pattern::get), fits.then_some(value));
                }

                #[test]
                fn sums(records in proptest::collection::vec((record(), 1..=4096u32), 0..8), at in 0..8usize) {
                    let sum_of = |records: &[(Record, u32)]| {
                        let mut sum = PageSum::NONE;
                        for (record, len) in records {
                            sum.add(record.kept, *len);
                        }
                        sum
                    };
                    let sum = sum_of(&records);
                    let objects = records.iter().filter(|(record, _)| matches!(record.kept, Kept::Object(_)));
                    prop_assert_eq!(sum.nr(), records.len());
                    prop_assert_eq!(sum.bytes(), objects.map(|(_, len)| *len as usize).sum::<usize>());
                    let plain = records.iter().filter(|(record, _)| record.is_plain());
                    prop_assert_eq!(sum.nr_plain(), plain.count());
                    // The sum of the parts is the same.
                    let (some, others) = records.split_at(at.min(records.len()));
                    let mut parts = sum_of(some);
                    parts.merge(sum_of(others));
                    prop_assert_eq!(parts, sum);
                }

                // Each error describes what is wrong with the word, and a word that has something
                // out of range is an error.

                #[test]
                fn corrupt_states(word in words()) {
                    let pfn = word << 5 >> 7;
                    match State::decode(word) {
                        Ok(State::Pfn { .. }) => prop_assert_eq!(pfn >> PFN_BITS, 0),
                        Ok(_) => (),
                        Err(Corrupt::Pointer) => prop_assert_eq!(word & 7, 4),
                        Err(Corrupt::Reserved) => {
                            prop_assert_eq!(word & 3, 2);
                            prop_assert!(pfn >> PFN_BITS != 0);
                        }
                        Err(Corrupt::Format) => {
                            prop_assert_eq!(word & 7, 0);
                            prop_assert!(word != 0 && word != !7);
                        }
                        Err(other) => prop_assert!(false, "{other:?}"),
                    }
                }

                #[test]
                fn corrupt_rmaps(word in words()) {
                    match Rmap::decode(word) {
                        Ok(Rmap::Virtual(_)) => prop_assert_eq!(word >> 3 >> 34, 0),
                        Ok(Rmap::Direct(state)) => prop_assert_eq!(State::decode(word), Ok(state)),
                        Err(Corrupt::Reserved) if word & 7 == 4 => {
                            prop_assert!(word >> 3 >> 34 != 0);
                        }
                        // Never `Pointer`, because a reverse map word has the mark of a pointer.
                        Err(other) => {
                            prop_assert!(other != Corrupt::Pointer);
                            prop_assert_eq!(State::decode(word), Err(other));
                        }
                    }
                }

                #[test]
                fn corrupt_backings(word in words()) {
                    let ty = (word >> 3 & 31) as u8;
                    match Backing::decode(word) {
                        Ok(Backing::Phys(_)) => {
                            prop_assert_eq!(word >> 40, 0);
                            prop_assert!(ty < MAX_SWAPFILES);
                        }
                        Ok(_) => (),
                        // No object has the place 0.
                        Err(Corrupt::Record) if word & 1 == 1 => prop_assert_eq!(word >> 6, 0),
                        Err(Corrupt::Record) => {
                            prop_assert_eq!(word & 7, 4);
                            // The value has another canonical form, or the form does not exist.
                            let form = word >> 4 & 3;
                            prop_assert!(form != 1 || word >> 6 == 0 || Pattern::new(
                                ((word >> 6 << 6) as i64 >> 6) as u64).is_some());
                        }
                        Err(Corrupt::Reserved) => {
                            prop_assert_eq!(word & 7, 2);
                            prop_assert!(word >> 40 != 0);
                        }
                        Err(Corrupt::SlotType) => {
                            prop_assert_eq!(word & 7, 2);
                            prop_assert_eq!(word >> 40, 0);
                            prop_assert!(ty >= MAX_SWAPFILES);
                        }
                        Err(Corrupt::Format) => {
                            prop_assert!(word != 0);
                            prop_assert!(![1, 2].contains(&(word & 7)));
                        }
                        Err(other) => prop_assert!(false, "{other:?}"),
                    }
                }

                // Transitions.

                #[test]
                fn dup_then_put(state in state()) {
                    match state.dup() {
                        Ok(dup) => prop_assert_eq!(dup.put(), Ok(state)),
                        Err(StateError::CountFull) => {
                            prop_assert_eq!(state.flags().unwrap().count, Count::INLINE_MAX);
                            // Into the extend table and back.
                            let extended = state.with_count(Count::EXTENDED).unwrap();
                            prop_assert_eq!(extended.dup(), Err(StateError::CountExtended));
                            prop_assert_eq!(extended.put(), Err(StateError::CountExtended));
                            prop_assert_eq!(extended.with_count(Count::INLINE_MAX), Ok(state));
                        }
                        Err(StateError::CountExtended) => {
                            prop_assert_eq!(state.flags().unwrap().count, Count::EXTENDED);
                        }
                        Err(StateError::Bad) => prop_assert_eq!(state, State::Bad),
                        Err(StateError::Unused) => match state {
                            State::Null => (),
                            State::Shadow { flags, .. } => {
                                prop_assert_eq!(flags.count, Count::ZERO);
                            }
                            _ => prop_assert!(false, "{state:?} is in use"),
                        },
                        Err(other) => prop_assert!(false, "{other:?}"),
                    }
                }

                #[test]
                fn put_to_the_end(start in state()) {
                    let Ok(flags) = start.flags() else { return Ok(()) };
                    let unused = matches!(start, State::Shadow { .. }) && flags.count == Count::ZERO;
                    if unused || flags.count == Count::EXTENDED {
                        // `put()` refuses these at once; `dup_then_put` covers the latter.
                        prop_assert!(start.put().is_err());
                        return Ok(());
                    }

                    let mut state = start;
                    for _ in 0..flags.count.get() {
                        state = state.put().unwrap();
                    }
                    // One user less than none is refused, cached or not.
                    prop_assert_eq!(state.put(), Err(StateError::Unused));
                    match start {
                        // A cached slot stays: the swap cache has it until the folio goes.
                        State::Pfn { pfn, .. } => {
                            let zero = flags.zero;
                            let flags = Flags { count: Count::ZERO, zero };
                            prop_assert_eq!(state, State::Pfn { flags, pfn });
                            prop_assert_eq!(state.cache_del(pfn, Shadow::NONE), Ok(State::Null));
                        }
                        _ => prop_assert_eq!(state, State::Null),
                    }
                }

                // The shortcuts for words.

                #[test]
                fn words_change_as_states_do(word in words(), pfn in pfn()) {
                    shortcuts(word, pfn)?;
                }

                #[test]
                fn words_of_states_change_as_those_do(state in state(), pfn in pfn()) {
                    shortcuts(state.encode(), pfn)?;
                }

                #[test]
                fn rmaps_take_no_shortcut(voffset in voffset(), pfn in pfn()) {
                    let word = Rmap::Virtual(voffset).encode();
                    prop_assert_eq!(dup_word(word), None);
                    prop_assert_eq!(put_word(word), None);
                    prop_assert_eq!(cache_add_word(word, pfn), None);
                    prop_assert!(!is_zero_word(word));
                }

                #[test]
                fn zero_flag(state in state()) {
                    match state {
                        State::Null => {
                            prop_assert_eq!(state.with_zero(true), Err(StateError::Unused));
                            prop_assert_eq!(state.with_count(Count::ZERO), Err(StateError::Unused));
                        }
                        State::Bad => {
                            prop_assert_eq!(state.with_zero(true), Err(StateError::Bad));
                            prop_assert_eq!(state.with_count(Count::ZERO), Err(StateError::Bad));
                        }
                        _ => {
                            let set = state.with_zero(true).unwrap();
                            let clear = state.with_zero(false).unwrap();
                            prop_assert!(set.flags().unwrap().zero);
                            prop_assert!(!clear.flags().unwrap().zero);
                            // Nothing else differs, and one of them is what it was.
                            prop_assert_eq!(set.encode() ^ clear.encode(), 1 << 59);
                            prop_assert!(state == set || state == clear);
                        }
                    }
                }

                #[test]
                fn swap_cache(state in state(), a in pfn(), b in pfn(), value in shadow()) {
                    match state.cache_add(a) {
                        Ok(cached) => {
                            let uncached = matches!(state, State::Shadow { .. });
                            prop_assert!(uncached);
                            prop_assert_eq!(cached.flags(), state.flags());
                            prop_assert_eq!(cached.cache_add(b), Err(Refused::Cached));

                            let replaced = cached.cache_replace(a, b).unwrap();
                            prop_assert_eq!(replaced.flags(), state.flags());
                            prop_assert_eq!(replaced.cache_replace(b, a), Ok(cached));

                            let gone = cached.cache_del(a, value).unwrap();
                            let flags = state.flags().unwrap();
                            prop_assert_eq!(gone, State::Shadow { flags, value });
                            if a != b {
                                let not = Err(StateError::NotCached);
                                prop_assert_eq!(cached.cache_del(b, value), not);
                                prop_assert_eq!(cached.cache_replace(b, a), not);
                            }
                        }
                        Err(Refused::Cached) => {
                            let State::Pfn { flags, pfn } = state else {
                                return Err(TestCaseError::fail("there is no folio"));
                            };
                            // If only the folio uses the slot, the slot is free when the folio
                            // leaves.
                            let left = match flags.count {
                                Count::ZERO => State::Null,
                                _ => State::Shadow { flags, value },
                            };
                            prop_assert_eq!(state.cache_del(pfn, value), Ok(left));
                        }
                        Err(Refused::Unused) => {
                            prop_assert!(
                                state.flags().map_or(true, |flags| flags.count == Count::ZERO)
                            );
                        }
                        Err(other) => {
                            prop_assert_eq!(state, State::Bad);
                            prop_assert_eq!(other, Refused::Bad);
                        }
                    }
                    // A word without a folio refuses to remove or replace one.
                    let refused = match state {
                        State::Null | State::Shadow { .. } => StateError::NotCached,
                        State::Bad => StateError::Bad,
                        State::Pfn { .. } => return Ok(()),
                    };
                    prop_assert_eq!(state.cache_del(a, value), Err(refused));
                    prop_assert_eq!(state.cache_replace(a, b), Err(refused));
                }

                // Constructors refuse values that do not fit.

                #[test]
                fn constructors_refuse(n in any::<u64>(), count in any::<u8>(), ty in any::<u8>()) {
                    prop_assert_eq!(Pfn::new(n).is_some(), n >> PFN_BITS == 0);
                    prop_assert_eq!(Shadow::new(n).is_some(), n >> 58 == 0);
                    prop_assert_eq!(VOffset::new(n).is_some(), n >> 34 == 0);
                    prop_assert_eq!(Place::new(n).is_some(), n != 0 && n >> 58 == 0);
                    prop_assert_eq!(Count::new(count).is_some(), count < 16);
                    prop_assert_eq!(PhysSlot::new(ty, n as u32).is_some(), ty < MAX_SWAPFILES);
                }
            }

            /// Tests each count of each kind of word with literal numbers.
            #[test]
            fn shortcuts_by_count() {
                let shadows = [0, 1, 0x1234, (1 << 58) - 1];
                let pfns = [0, 1, 0x1234, (1 << PFN_BITS) - 1];
                let other = Pfn::new(0x4321).unwrap();

                for (count, zero) in (0..=15).flat_map(|count| [(count, false), (count, true)]) {
                    let of = |count| Flags { count: Count::new(count).unwrap(), zero };
                    let shadow = |count, value| {
                        let value = Shadow::new(value).unwrap();
                        State::Shadow { flags: of(count), value }.encode()
                    };
                    let cached = |count, pfn| {
                        let pfn = Pfn::new(pfn).unwrap();
                        State::Pfn { flags: of(count), pfn }.encode()
                    };

                    for value in shadows {
                        let word = shadow(count, value);
                        let dup = (1..=13).contains(&count).then(|| shadow(count + 1, value));
                        // The last put frees the slot.
                        let put = (2..=14).contains(&count).then(|| shadow(count - 1, value));
                        let added = (count != 0).then(|| cached(count, other.get()));
                        assert_eq!(dup_word(word), dup, "shadow {count} {value}");
                        assert_eq!(put_word(word), put, "shadow {count} {value}");
                        assert_eq!(cache_add_word(word, other), added, "shadow {count} {value}");
                        assert_eq!(is_zero_word(word), zero);
                        shortcuts(word, other).unwrap();
                    }
                    for pfn in pfns {
                        let word = cached(count, pfn);
                        let dup = (0..=13).contains(&count).then(|| cached(count + 1, pfn));
                        // After the last put the slot belongs to the folio.
                        let put = (1..=14).contains(&count).then(|| cached(count - 1, pfn));
                        assert_eq!(dup_word(word), dup, "folio {count} {pfn}");
                        assert_eq!(put_word(word), put, "folio {count} {pfn}");
                        assert_eq!(cache_add_word(word, other), None, "folio {count} {pfn}");
                        assert_eq!(is_zero_word(word), zero);
                        shortcuts(word, other).unwrap();
                    }
                }
                for word in [0, SWP_TB_BAD] {
                    assert_eq!(dup_word(word), None);
                    assert_eq!(put_word(word), None);
                    assert!(!is_last_word(word) && !is_extended_word(word));
                    assert_eq!(cache_add_word(word, other), None);
                    assert!(!is_zero_word(word));
                }
            }

            #[test]
            fn edges() {
                assert_eq!(State::decode(0), Ok(State::Null));
                assert_eq!(State::decode(u64::MAX << 3), Ok(State::Bad));
                assert_eq!(Backing::decode(0), Ok(Backing::None));
                assert_eq!(Backing::decode(1), Err(Corrupt::Record));
                // The same 32 bits twice are the first form, so this value has one word.
                assert_eq!(Backing::decode(0b00_0_100), Ok(Backing::Zswap(Record {
                    kept: Kept::Same(Pattern::new(0).unwrap()),
                    referenced: false,
                })));
                assert_eq!(Backing::decode(0b01_0_100), Err(Corrupt::Record));
                assert_eq!(Backing::decode(0b10_0_100), Err(Corrupt::Record));
                assert_eq!(Backing::decode(0b11_0_100), Err(Corrupt::Record));
                // 64 has the second form, although the third fits, too.
                let kept = Kept::Same(Pattern::new(64).unwrap());
                assert_eq!(Record::new(kept).encode(), 64 << 6 | 0b01_1_100);
                assert_eq!(Record::decode(1 << 6 | 0b10_1_100), None);
                assert_eq!(Backing::decode(0b110), Err(Corrupt::Format));
                // A free slot has no flags, so a count without a mark is no free slot.
                assert_eq!(State::decode(1 << 60), Err(Corrupt::Format));

                assert_eq!(Pfn::new(1 << PFN_BITS), None);
                assert!(Pfn::new((1 << PFN_BITS) - 1).is_some());
                assert_eq!(Shadow::new(1 << 58), None);
                assert!(Shadow::new((1 << 58) - 1).is_some());
                assert_eq!(VOffset::new(1 << 34), None);
                assert!(VOffset::new((1 << 34) - 1).is_some());
                assert_eq!(Count::new(15), Some(Count::EXTENDED));
                assert_eq!(Count::new(16), None);
                assert_eq!(Place::new(0), None);
                assert_eq!(Place::new(1 << 58), None);
                let place = Place::new((1 << 58) - 1).unwrap();
                assert_eq!(Object::new(place, 8, false), None);
                assert_eq!(Object::new(place, 7, true).unwrap().place(), place);
                assert_eq!(PhysSlot::new(MAX_SWAPFILES, 0), None);
                let slot = PhysSlot::new(3, u32::MAX - 1).unwrap();
                assert_eq!(slot.nth(0), Some(slot));
                assert_eq!(slot.nth(1), PhysSlot::new(3, u32::MAX));
                assert_eq!(slot.nth(2), None);
            }
        }
    };
}

tests!(thp_4k);
tests!(thp_64k);
tests!(um);
