// SPDX-License-Identifier: GPL-2.0

//! The 64-bit word that zswap keeps for a stored page.
//!
//! `decode()` accepts any word, and the codec is canonical: `encode(decode(word)?) == word` and
//! `decode(encode(record)) == Some(record)`. So two records are equal if and only if their words
//! are.
//!
//! # Context
//!
//! This file works on values only. It takes no lock, allocates no memory, has no `unsafe` code,
//! and cannot panic. The host tests in `kunit/host` include it by its path.

#![forbid(unsafe_code)]

/// Tag in the lowest bit: the word names a zsmalloc object.
const OBJECT_TAG: u64 = 0b1;
const OBJECT_REFERENCED: u64 = 1 << 1;
const POOL_SHIFT: u32 = 2;
/// Number of bits of a pool number.
pub const POOL_BITS: u32 = 3;
const OBJECT_PLAIN: u64 = 1 << (POOL_SHIFT + POOL_BITS);
/// Lowest bit of an object's place, which takes the remaining bits.
pub const PLACE_SHIFT: u32 = 6;
/// Number of bits of a place.
pub const PLACE_BITS: u32 = u64::BITS - PLACE_SHIFT;

const _: () = assert!(OBJECT_PLAIN < 1 << PLACE_SHIFT);

/// Tag in the lowest three bits: the page repeats one value.
const SAME_TAG: u64 = 0b100;
const TAG_MASK: u64 = 0b111;
const SAME_REFERENCED: u64 = 1 << 3;
const FORM_SHIFT: u32 = 4;
const FORM_MASK: u64 = 0b11;
const FORM_HALF: u64 = 0;
const FORM_LOW: u64 = 1;
const FORM_HIGH: u64 = 2;
const VALUE_SHIFT: u32 = 6;

/// The place of a zsmalloc object. It changes when zsmalloc moves the object.
///
/// # Invariants
///
/// The place is not 0, and less than 2 to the power of `PLACE_BITS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u64);

impl Place {
    /// Returns the place, or `None` if it is 0 or does not fit in a word.
    #[inline]
    pub fn new(place: u64) -> Option<Self> {
        // INVARIANT: The place is not 0 and fits in `PLACE_BITS`, as checked here.
        (place != 0 && place >> PLACE_BITS == 0).then_some(Self(place))
    }

    /// Returns the place as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A page in a zsmalloc object, compressed or uncompressed. zsmalloc knows the length.
///
/// # Invariants
///
/// `pool` is less than 2 to the power of `POOL_BITS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    place: Place,
    pool: u8,
    plain: bool,
}

impl Object {
    /// Returns the object of a pool, or `None` if the pool number does not fit in a word.
    #[inline]
    pub fn new(place: Place, pool: u8, plain: bool) -> Option<Self> {
        // INVARIANT: The number fits in `POOL_BITS`, as checked here.
        (pool >> POOL_BITS == 0).then_some(Self { place, pool, plain })
    }

    /// Returns the place of the object.
    pub const fn place(self) -> Place {
        self.place
    }

    /// Returns the number of the pool.
    pub const fn pool(self) -> u8 {
        self.pool
    }

    /// Returns true if the page is stored uncompressed.
    pub const fn is_plain(self) -> bool {
        self.plain
    }
}

/// The 64-bit value that a page repeats.
///
/// # Invariants
///
/// `form_of()` finds a form for the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern(u64);

impl Pattern {
    /// The pattern of a page of zeros.
    // INVARIANT: The value repeats 32 bits, which is a form.
    pub const ZERO: Self = Self(0);

    /// Returns the pattern of a value, or `None` if a word has no room for the value beside the
    /// tag. A word has room if the value repeats 32 bits, is a signed number of 58 bits, or has 6
    /// low bits of 0, as many floating point numbers have.
    #[inline]
    pub fn new(value: u64) -> Option<Self> {
        // INVARIANT: `form_of()` found a form.
        form_of(value).map(|_| Self(value))
    }

    /// Returns the value that the page repeats.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Returns the form of a value, and the bits of the value that a word keeps in this form.
const fn form_of(value: u64) -> Option<(u64, u64)> {
    let half = value & u32::MAX as u64;
    // Sign-extends the bits that `FORM_LOW` keeps: all but the highest `VALUE_SHIFT`.
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

const fn value_of((form, bits): (u64, u64)) -> Option<u64> {
    match form {
        FORM_HALF => Some(bits << u32::BITS | bits & u32::MAX as u64),
        FORM_LOW => Some(((bits << VALUE_SHIFT) as i64 >> VALUE_SHIFT) as u64),
        FORM_HIGH => Some(bits << VALUE_SHIFT),
        _ => None,
    }
}

/// What zswap keeps for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// An object in a pool.
    Object(Object),
    /// The value that the page repeats, without an object.
    Same(Pattern),
}

/// What zswap keeps for a page, and whether the page still has its second chance.
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
/// `P` is set if the page is stored uncompressed. `R` is the referenced bit, which is set until the
/// clock hand meets the page. zsmalloc updates the place when it moves the object. The form says
/// which values the field `value` can encode. Form 0 is a 32-bit value that fills both halves, form
/// 1 a sign-extended number, and form 2 a number whose lowest 6 bits are 0. A value has the first
/// form that fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The object or value of the page.
    pub kept: Kept,
    /// True if the clock hand has not met the page since it was stored.
    pub referenced: bool,
}

impl Record {
    /// Returns the record of a page that is being stored. It has its second chance.
    #[inline]
    pub const fn new(kept: Kept) -> Self {
        Self {
            kept,
            referenced: true,
        }
    }

    /// Returns true if a word has the tag of a record. Does not check the other bits.
    #[inline]
    pub const fn is_tag(word: u64) -> bool {
        word & OBJECT_TAG != 0 || word & TAG_MASK == SAME_TAG
    }

    /// Returns true if the word of a slot names a stored page. Returns `None` if the word is
    /// corrupt: it has the tag of a record but is no valid record, or it belongs to a physical
    /// slot and has no tag, but is not 0. Only the word of a virtual slot can name a device slot.
    #[inline]
    pub fn is_in(word: u64, is_virtual: bool) -> Option<bool> {
        if Self::is_tag(word) {
            Self::decode(word).map(|_| true)
        } else {
            (word == 0 || is_virtual).then_some(false)
        }
    }

    /// Decodes a word. Returns `None` if it is not exactly what [`Record::encode`] returns for a
    /// record.
    #[inline]
    pub fn decode(word: u64) -> Option<Self> {
        if word & OBJECT_TAG != 0 {
            return Some(Self {
                kept: Kept::Object(Object {
                    place: Place::new(word >> PLACE_SHIFT)?,
                    // INVARIANT: The mask has `POOL_BITS` bits.
                    pool: (word >> POOL_SHIFT & ((1 << POOL_BITS) - 1)) as u8,
                    plain: word & OBJECT_PLAIN != 0,
                }),
                referenced: word & OBJECT_REFERENCED != 0,
            });
        }
        if word & TAG_MASK != SAME_TAG {
            return None;
        }
        let form = (word >> FORM_SHIFT & FORM_MASK, word >> VALUE_SHIFT);
        let value = value_of(form)?;
        (form_of(value)? == form).then_some(Self {
            // INVARIANT: `form_of()` found a form.
            kept: Kept::Same(Pattern(value)),
            referenced: word & SAME_REFERENCED != 0,
        })
    }

    /// Encodes the record as a word.
    #[inline]
    pub const fn encode(self) -> u64 {
        match self.kept {
            Kept::Object(object) => {
                let mut word =
                    object.place.0 << PLACE_SHIFT | (object.pool as u64) << POOL_SHIFT | OBJECT_TAG;
                if object.plain {
                    word |= OBJECT_PLAIN;
                }
                if self.referenced {
                    word |= OBJECT_REFERENCED;
                }
                word
            }
            Kept::Same(Pattern(value)) => {
                let (form, bits) = match form_of(value) {
                    Some(form) => form,
                    // Not reached: by the invariants of `Pattern`, the value has a form.
                    None => (FORM_HALF, 0),
                };
                let referenced = if self.referenced { SAME_REFERENCED } else { 0 };
                bits << VALUE_SHIFT | form << FORM_SHIFT | referenced | SAME_TAG
            }
        }
    }

    /// Returns true if the page is stored uncompressed.
    #[inline]
    pub const fn is_plain(self) -> bool {
        matches!(self.kept, Kept::Object(object) if object.is_plain())
    }

    /// Returns true if `word` encodes this record. Ignores the place of an object, because
    /// zsmalloc may have moved the object since.
    #[inline]
    pub const fn was(self, word: u64) -> bool {
        let changed = self.encode() ^ word;
        match self.kept {
            Kept::Object(_) => changed & ((1 << PLACE_SHIFT) - 1) == 0,
            Kept::Same(_) => changed == 0,
        }
    }

    /// Returns the record with the referenced bit clear, as the clock hand leaves it.
    #[inline]
    pub const fn passed(self) -> Self {
        Self {
            referenced: false,
            ..self
        }
    }
}

// `FORM_HALF` keeps 32 bits, which must fit in the word above `VALUE_SHIFT`.
const _: () = assert!(VALUE_SHIFT < u32::BITS);

/// The totals of stored pages that are charged or uncharged together.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct PageSum {
    bytes: usize,
    nr: usize,
    nr_plain: usize,
}

impl PageSum {
    /// The sum of no records.
    pub const NONE: Self = Self {
        bytes: 0,
        nr: 0,
        nr_plain: 0,
    };

    /// Returns how many bytes of data the objects have.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of pages.
    pub const fn nr(&self) -> usize {
        self.nr
    }

    /// Returns how many of the pages are stored uncompressed.
    pub const fn nr_plain(&self) -> usize {
        self.nr_plain
    }

    /// Adds another sum.
    #[inline]
    pub const fn merge(&mut self, other: Self) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.nr = self.nr.wrapping_add(other.nr);
        self.nr_plain = self.nr_plain.wrapping_add(other.nr_plain);
    }

    /// Adds a page, whose object, if it has one, has `len` bytes of data.
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
