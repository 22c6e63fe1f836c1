// SPDX-License-Identifier: GPL-2.0

//! The word that zswap keeps for a page.
//!
//! `decode()` is total, and the codec is canonical: `encode(decode(word)?) == word` and
//! `decode(encode(record)) == Ok(record)`. So comparing words is comparing records.
//!
//! # Context
//!
//! Values only: no lock, no memory, no `unsafe`, no panic. The file is built into the kernel and,
//! by its path, into the crate of host tests in `kunit/host`.

#![forbid(unsafe_code)]

/// The lowest bit: an object of zsmalloc.
const OBJECT_TAG: u64 = 0b1;
const OBJECT_REFERENCED: u64 = 1 << 1;
const POOL_SHIFT: u32 = 2;
/// Bits of the number of a pool.
pub const POOL_BITS: u32 = 3;
const OBJECT_PLAIN: u64 = 1 << (POOL_SHIFT + POOL_BITS);
/// Where the place of an object begins, which takes the rest.
pub const PLACE_SHIFT: u32 = 6;
/// Bits of a place.
pub const PLACE_BITS: u32 = u64::BITS - PLACE_SHIFT;

const _: () = assert!(OBJECT_PLAIN < 1 << PLACE_SHIFT);

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

/// How a word is no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// The tag is that of no record.
    Tag,
    /// It names an object at the beginning of memory.
    NullPlace,
    /// The value of a page is not in the form that is its own.
    Form,
}

/// Where an object of zsmalloc is. It changes when the object is moved.
///
/// # Invariants
///
/// Not 0, and less than 2 to the power of `PLACE_BITS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u64);

impl Place {
    /// Returns `place`, if a word has room for it.
    #[inline]
    pub const fn new(place: u64) -> Option<Self> {
        if place == 0 || place >> PLACE_BITS != 0 {
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

/// A compressed page, or a page as it was: an object of zsmalloc, which knows its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    place: Place,
    // INVARIANT: Less than 2 to the power of `POOL_BITS`.
    pool: u8,
    plain: bool,
}

impl Object {
    /// Returns the object of a pool, if a word has room for it.
    #[inline]
    pub const fn new(place: Place, pool: u8, plain: bool) -> Option<Self> {
        if pool >> POOL_BITS != 0 {
            return None;
        }
        // INVARIANT: Just checked.
        Some(Self { place, pool, plain })
    }

    /// Returns the place.
    #[inline]
    pub const fn place(self) -> Place {
        self.place
    }

    /// Returns the number of the pool.
    #[inline]
    pub const fn pool(self) -> u8 {
        self.pool
    }

    /// Returns true if it is the page as it was.
    #[inline]
    pub const fn is_plain(self) -> bool {
        self.plain
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
    // Sign-extends the lowest `VALUE_BITS` bits, which are all that `FORM_LOW` keeps.
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
/// ```text
///          63                                    6 5 4   2 1 0
///         +---------------------------------------+-+-----+-+-+
/// Object  |                place                  |P|pool |R|1|
///         +---------------------------------------+-+-----+-+-+
///
///          63                                    6 5  4 3 2 1 0
///         +---------------------------------------+----+-+-+-+-+
/// Same    |                value                  |form|R|1|0|0|
///         +---------------------------------------+----+-+-+-+-+
/// ```
///
/// `P` is set for a page as it was, `R` until the hand has passed. zsmalloc changes the place. The
/// forms of a value are 0: 32 bits, twice; 1: a number with its sign; 2: its lowest 6 bits are 0. A
/// value has the first of these that fits.
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
            let Some(place) = Place::new(word >> PLACE_SHIFT) else {
                return Err(Invalid::NullPlace);
            };
            return Ok(Self {
                kept: Kept::Object(Object {
                    place,
                    // INVARIANT: There are so many bits.
                    pool: (word >> POOL_SHIFT & ((1 << POOL_BITS) - 1)) as u8,
                    plain: word & OBJECT_PLAIN != 0,
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
                let referenced = if self.referenced {
                    OBJECT_REFERENCED
                } else {
                    0
                };
                let plain = if object.plain { OBJECT_PLAIN } else { 0 };
                object.place.0 << PLACE_SHIFT
                    | plain
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

    /// Returns true for a page as it was.
    #[inline]
    pub const fn is_plain(self) -> bool {
        matches!(self.kept, Kept::Object(object) if object.is_plain())
    }

    /// Returns true if `word` is that of the record. Ignores the place of an object, because
    /// zsmalloc may have moved it.
    #[inline]
    pub const fn was(self, word: u64) -> bool {
        let changed = self.encode() ^ word;
        match self.kept {
            Kept::Object(_) => changed & ((1 << PLACE_SHIFT) - 1) == 0,
            Kept::Same(_) => changed == 0,
        }
    }

    /// Returns the record without its second chance, as the hand leaves it.
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

    /// Adds another.
    #[inline]
    pub const fn merge(&mut self, other: Self) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.nr = self.nr.wrapping_add(other.nr);
        self.nr_plain = self.nr_plain.wrapping_add(other.nr_plain);
    }

    /// Adds a record, whose object has `len` bytes of data.
    #[inline]
    pub const fn add(&mut self, kept: Kept, len: u32) {
        self.nr = self.nr.wrapping_add(1);
        if let Kept::Object(object) = kept {
            self.bytes = self.bytes.wrapping_add(len as usize);
            if object.is_plain() {
                self.nr_plain = self.nr_plain.wrapping_add(1);
            }
        }
    }
}
