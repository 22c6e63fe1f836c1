// SPDX-License-Identifier: GPL-2.0

//! What zswap keeps for a page: one word.
//!
//! `decode()` is total, and the codec is canonical: `encode(decode(word)?) == word` and
//! `decode(encode(record)) == Ok(record)`. So comparing words is comparing records.
//!
//! # Context
//!
//! Values only: no lock, no memory, no `unsafe`, no panic. The file is built into the kernel and,
//! by its path, into the crate of host tests in `kunit/host`.

#![forbid(unsafe_code)]
// With locks held, a panic is a `BUG()`: there must be nothing here that can.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use super::page::PAGE_SHIFT;

/// The lowest bit: an object of zsmalloc.
const OBJECT_TAG: u64 = 0b1;
const OBJECT_REFERENCED: u64 = 1 << 1;
const POOL_SHIFT: u32 = 2;
/// Bits of the number of a pool.
pub const POOL_BITS: u32 = 3;
const LEN_SHIFT: u32 = POOL_SHIFT + POOL_BITS;
/// A length is from 1 to that of a page. The word has it less 1.
const LEN_BITS: u32 = PAGE_SHIFT as u32;
const HANDLE_SHIFT: u32 = LEN_SHIFT + LEN_BITS;
/// Bits of a handle: 47 with 4K pages, 43 with 64K pages.
pub const HANDLE_BITS: u32 = u64::BITS - HANDLE_SHIFT;
/// The lowest bits of the place of a handle, which are 0.
const HANDLE_ALIGN_SHIFT: u32 = 3;

/// The lowest three bits: a page that repeats one value.
const SAME_TAG: u64 = 0b100;
const TAG_MASK: u64 = 0b111;
const SAME_REFERENCED: u64 = 1 << 3;
const FORM_SHIFT: u32 = 4;
const FORM_MASK: u64 = 0b11;
const FORM_HALF: u64 = 0;
const FORM_LOW: u64 = 1;
const FORM_HIGH: u64 = 2;
const VALUE_SHIFT: u32 = 6;
const VALUE_BITS: u32 = u64::BITS - VALUE_SHIFT;

/// The size of a page.
const PAGE: u32 = 1 << PAGE_SHIFT;

/// How a word is no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// The tag is that of no record.
    Tag,
    /// It names the handle at the beginning of memory.
    NullHandle,
    /// The value of a page is not in the form that is its own.
    Form,
}

/// The physical address of a zsmalloc handle.
///
/// # Invariants
///
/// Not 0, a multiple of 8, and less than 2 to the power of `HANDLE_BITS + 3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u64);

impl Place {
    /// Returns `place`, if a word has room for it: 1 PiB with 4K pages, 64 TiB with 64K pages.
    #[inline]
    pub const fn new(place: u64) -> Option<Self> {
        if place == 0 || place & ((1 << HANDLE_ALIGN_SHIFT) - 1) != 0 {
            return None;
        }
        if place >> HANDLE_ALIGN_SHIFT >> HANDLE_BITS != 0 {
            return None;
        }
        // INVARIANT: Just checked.
        Some(Self(place))
    }

    /// Returns the number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A compressed page, or a page as it was: an object of zsmalloc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    place: Place,
    // INVARIANT: Less than 2 to the power of `POOL_BITS`.
    pool: u8,
    // INVARIANT: At least 1, at most a page.
    len: u32,
}

impl Object {
    /// Returns the object of a pool with a length, if a word has room for it.
    #[inline]
    pub const fn new(place: Place, pool: u8, len: u32) -> Option<Self> {
        if pool >> POOL_BITS != 0 || len == 0 || len > PAGE {
            return None;
        }
        // INVARIANT: Just checked.
        Some(Self { place, pool, len })
    }

    /// Returns the place of the handle.
    #[inline]
    pub const fn place(self) -> Place {
        self.place
    }

    /// Returns the number of the pool.
    #[inline]
    pub const fn pool(self) -> u8 {
        self.pool
    }

    /// Returns the length of the data.
    #[inline]
    pub const fn data_len(self) -> u32 {
        self.len
    }

    /// Returns true if it is the page as it was.
    #[inline]
    pub const fn is_plain(self) -> bool {
        self.len == PAGE
    }
}

/// The 64 bits that a page repeats.
///
/// # Invariants
///
/// The value has one of the forms below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern(u64);

impl Pattern {
    /// Zeros.
    // INVARIANT: It repeats 32 bits.
    pub const ZERO: Self = Self(0);

    /// Returns `value`, if a word has room for it: it repeats 32 bits, or is a number of 58 bits
    /// with its sign, or its lowest 6 bits are 0, as those of most floating point numbers are.
    #[inline]
    pub const fn new(value: u64) -> Option<Self> {
        match form_of(value) {
            // INVARIANT: It has a form.
            Some(_) => Some(Self(value)),
            None => None,
        }
    }

    /// Returns the value.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The form of a value, and what a word has of it.
const fn form_of(value: u64) -> Option<(u64, u64)> {
    let half = value & u32::MAX as u64;
    // The sign is in the highest bit that a word has room for.
    let low = (value << VALUE_SHIFT) as i64 >> VALUE_SHIFT;

    if value >> u32::BITS == half {
        Some((FORM_HALF, half))
    } else if low as u64 == value {
        Some((FORM_LOW, value & (u64::MAX >> VALUE_SHIFT)))
    } else if value & ((1 << VALUE_SHIFT) - 1) == 0 {
        Some((FORM_HIGH, value >> VALUE_SHIFT))
    } else {
        None
    }
}

const fn value_of(form: u64, bits: u64) -> Option<u64> {
    match form {
        FORM_HALF => Some(bits << u32::BITS | bits & u32::MAX as u64),
        FORM_LOW => Some(((bits << VALUE_SHIFT) as i64 >> VALUE_SHIFT) as u64),
        FORM_HIGH => Some(bits << VALUE_SHIFT),
        _ => None,
    }
}

/// What is kept for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// An object.
    Object(Object),
    /// The value that the page repeats. There is no object.
    Same(Pattern),
}

/// What is kept for a page, and whether the hand of the clock has passed it.
///
/// With 4K pages:
///
/// ```text
///          63                        17 16         5 4   2 1 0
///         +----------------------------+------------+-----+-+-+
/// Object  |        place / 8           | length - 1 | pool|R|1|
///         +----------------------------+------------+-----+-+-+
///
///          63                                    6 5  4 3 2 1 0
///         +---------------------------------------+----+-+-+-+-+
/// Same    |                value                  |form|R|1|0|0|
///         +---------------------------------------+----+-+-+-+-+
/// ```
///
/// With 64K pages, the length has 16 bits, and the place 43. `R` is set until the hand has passed.
/// The forms of a value are 0: 32 bits, twice; 1: a number with its sign; 2: its lowest 6 bits are
/// 0. A value has the first of these that fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The page.
    pub kept: Kept,
    /// The hand has not passed it since it was stored.
    pub referenced: bool,
}

impl Record {
    /// Returns the record of a page that is being stored.
    #[inline]
    pub const fn new(kept: Kept) -> Self {
        Self {
            kept,
            referenced: true,
        }
    }

    /// Returns true if a word can be that of a record.
    #[inline]
    pub const fn is_tag(word: u64) -> bool {
        word & OBJECT_TAG != 0 || word & TAG_MASK == SAME_TAG
    }

    /// Reads a word.
    #[inline]
    pub const fn decode(word: u64) -> Result<Self, Invalid> {
        if word & OBJECT_TAG != 0 {
            let Some(place) = Place::new(word >> HANDLE_SHIFT << HANDLE_ALIGN_SHIFT) else {
                return Err(Invalid::NullHandle);
            };
            let less = word >> LEN_SHIFT & ((1 << LEN_BITS) - 1);
            return Ok(Self {
                kept: Kept::Object(Object {
                    place,
                    // INVARIANT: There are so many bits.
                    pool: (word >> POOL_SHIFT & ((1 << POOL_BITS) - 1)) as u8,
                    // INVARIANT: Less than a page, and 1 more.
                    len: (less as u32).wrapping_add(1),
                }),
                referenced: word & OBJECT_REFERENCED != 0,
            });
        }
        if word & TAG_MASK != SAME_TAG {
            return Err(Invalid::Tag);
        }
        let (form, bits) = (word >> FORM_SHIFT & FORM_MASK, word >> VALUE_SHIFT);
        let Some(value) = value_of(form, bits) else {
            return Err(Invalid::Form);
        };
        match form_of(value) {
            Some((its, same)) if its == form && same == bits => Ok(Self {
                // INVARIANT: It has a form.
                kept: Kept::Same(Pattern(value)),
                referenced: word & SAME_REFERENCED != 0,
            }),
            _ => Err(Invalid::Form),
        }
    }

    /// Returns the word.
    #[inline]
    pub const fn encode(self) -> u64 {
        match self.kept {
            Kept::Object(object) => {
                let less = object.len.wrapping_sub(1) as u64;
                let referenced = if self.referenced {
                    OBJECT_REFERENCED
                } else {
                    0
                };
                object.place.0 >> HANDLE_ALIGN_SHIFT << HANDLE_SHIFT
                    | less << LEN_SHIFT
                    | (object.pool as u64) << POOL_SHIFT
                    | referenced
                    | OBJECT_TAG
            }
            Kept::Same(Pattern(value)) => {
                let (form, bits) = match form_of(value) {
                    Some(form) => form,
                    // By the invariant of a pattern there is one.
                    None => (FORM_HALF, 0),
                };
                let referenced = if self.referenced { SAME_REFERENCED } else { 0 };
                bits << VALUE_SHIFT | form << FORM_SHIFT | referenced | SAME_TAG
            }
        }
    }

    /// Returns the record after the hand has passed.
    #[inline]
    pub const fn passed(self) -> Self {
        Self {
            referenced: false,
            ..self
        }
    }
}

const _: () = assert!(VALUE_BITS > u32::BITS);

/// What records that are freed, or stored, together have in common.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sum {
    /// Bytes of objects.
    pub bytes: usize,
    /// Pages.
    pub nr: usize,
    /// Of them, those that are objects as they were.
    pub nr_plain: usize,
}

impl Sum {
    /// No record.
    pub const NONE: Self = Self {
        bytes: 0,
        nr: 0,
        nr_plain: 0,
    };

    /// That of one record.
    #[inline]
    pub const fn of(kept: Kept) -> Self {
        let mut sum = Self::NONE;
        sum.add(kept);
        sum
    }

    /// Adds a record.
    #[inline]
    pub const fn add(&mut self, kept: Kept) {
        self.nr = self.nr.wrapping_add(1);
        if let Kept::Object(object) = kept {
            self.bytes = self.bytes.wrapping_add(object.len as usize);
            if object.is_plain() {
                self.nr_plain = self.nr_plain.wrapping_add(1);
            }
        }
    }
}
