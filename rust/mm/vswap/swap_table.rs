// SPDX-License-Identifier: GPL-2.0

//! The formats of swap table words and backing words. Each word is that of one slot.
//!
//! Each kind of word is an enum with a codec. `decode()` is total: for any `u64` it returns a
//! value, or [`Corrupt`] with the reason. The codecs are canonical, so that comparing words is
//! comparing values: `encode(decode(word)?) == word` and `decode(encode(value)) == Ok(value)`.
//!
//! - [`State`]: the state of a slot, virtual or physical, in C's swap table format.
//! - [`Rmap`]: the swap table word of a *physical* slot: the virtual slot that the physical slot
//!   backs, or a [`State`].
//! - [`Backing`]: what backs a *virtual* slot.
//!
//! # Virtual and physical
//!
//! A virtual entry is a [`VOffset`], and a physical entry is a [`PhysSlot`]. Neither type converts
//! to the other, so one cannot be used as the other. Of the kinds of words above, only [`Rmap`], a
//! word of a physical slot, holds a virtual entry. Only [`Backing`], a word of a virtual slot,
//! holds a physical entry.
//!
//! # Context
//!
//! The code works on values only. It takes no lock, allocates no memory, has no `unsafe` code, and
//! cannot panic. The file is built into the kernel and, by its path, into the crate of host tests
//! in `kunit/host`. The numbers that depend on the kernel configuration come from `layout` in the
//! parent module. In the kernel, that is `ffi/layout.rs`, which also asserts that the constants
//! here equal C's.
//!
//! C header: [`mm/swap_table.h`](srctree/mm/swap_table.h)

#![forbid(unsafe_code)]

use super::{
    layout::{
        MAX_SWAPFILES,
        PFN_BITS, //
    },
    record::Record, //
};

/// The word of a free slot.
pub const SWP_TB_NULL: u64 = 0;
/// The word of a slot that must not be used: it is the header of a swap device, or a hole in the
/// device.
pub const SWP_TB_BAD: u64 = !0 << 3;

/// The mark of a shadow: the slot is in use, and the swap cache has no folio for it.
pub const SWP_TB_SHADOW_MARK: u64 = 0b1;
const SHADOW_SHIFT: u32 = 1;
/// Number of bits of a shadow, which takes all bits between the mark and the flags.
pub const SHADOW_BITS: u32 = SWP_TB_FLAGS_SHIFT - SHADOW_SHIFT;

/// The mark of a page frame number: the slot is in use, and the swap cache has a folio for it.
pub const SWP_TB_PFN_MARK: u64 = 0b10;
/// The mask of [`SWP_TB_PFN_MARK`]. It includes the lowest bit, which is the shadow mark.
pub const SWP_TB_PFN_MARK_MASK: u64 = 0b11;
/// The position of the lowest bit of the page frame number.
pub const PFN_SHIFT: u32 = 2;

/// Number of bits of the flags, which are at the top of the words of shadows and page frame
/// numbers.
pub const SWP_TB_FLAGS_BITS: u32 = 5;
/// The position of the lowest bit of the flags.
pub const SWP_TB_FLAGS_SHIFT: u32 = u64::BITS - SWP_TB_FLAGS_BITS;
/// The mask of the flags: the swap count and the zero flag.
pub const SWP_TB_FLAGS_MASK: u64 = !0 << SWP_TB_FLAGS_SHIFT;
/// Number of bits of the swap count.
pub const SWP_TB_COUNT_BITS: u32 = 4;
/// The position of the lowest bit of the count.
pub const SWP_TB_COUNT_SHIFT: u32 = u64::BITS - SWP_TB_COUNT_BITS;
/// The mask of the count.
pub const SWP_TB_COUNT_MASK: u64 = !0 << SWP_TB_COUNT_SHIFT;
/// The value of the count if the swap count is in the extend table.
pub const SWP_TB_COUNT_MAX: u8 = (1 << SWP_TB_COUNT_BITS) - 1;
/// The zero flag: the page of the slot is all zeros. If the swap cache has a dirty folio for the
/// slot, the folio may have other contents.
pub const SWP_TB_ZERO_FLAG: u64 = 1 << SWP_TB_FLAGS_SHIFT;

/// The mark of an [`Rmap`] of a physical slot that backs a virtual slot. C reserves this format
/// for pointers.
const RMAP_MARK: u64 = 0b100;
/// The mask of [`RMAP_MARK`]. It includes the bits of the shorter marks of shadows and page frame
/// numbers.
const MARK_MASK: u64 = 0b111;
const VOFFSET_SHIFT: u32 = 3;

/// Number of bits of a virtual offset: 2^34 slots, 64 TiB with 4K pages.
///
/// On the 64-bit architectures with Rust, a PTE has room for an offset of 40 bits or more. The
/// mitigation of L1TF on x86 has a tighter limit. x86 stores the offset inverted, so that a CPU
/// with this bug speculates on an address without memory. For most affected CPUs, the kernel
/// assumes caches with 44 address bits, and `arch_max_swapfile_size()` allows 2^34 offsets. The
/// limit of the running machine may be lower. `mode::set_up()` applies that limit, and a limit of
/// `UINT_MAX`.
pub const VOFFSET_BITS: u32 = 34;

const BACKING_NONE: u64 = 0;
const BACKING_TAG_MASK: u64 = 0b111;
const BACKING_TAG_PHYS: u64 = 0b010;

/// Number of bits of the type of a physical slot.
pub const SLOT_TYPE_BITS: u32 = 5;
const SLOT_TYPE_SHIFT: u32 = 3;
const SLOT_TYPE_MASK: u64 = (1 << SLOT_TYPE_BITS) - 1;
const SLOT_OFFSET_SHIFT: u32 = SLOT_TYPE_SHIFT + SLOT_TYPE_BITS;
const SLOT_OFFSET_END: u32 = SLOT_OFFSET_SHIFT + u32::BITS;

// An `Rmap` that names a virtual slot has no bits in the flags. A physical slot fits in a word.
const _: () = assert!(VOFFSET_SHIFT + VOFFSET_BITS <= SWP_TB_FLAGS_SHIFT);
const _: () = assert!(SLOT_OFFSET_END <= u64::BITS);

/// Returns true if `value` needs at most `bits` bits.
const fn fits(value: u64, bits: u32) -> bool {
    match value.checked_shr(bits) {
        Some(rest) => rest == 0,
        None => true,
    }
}

/// The reason that a word is not valid for its kind.
///
/// Code in `vswap` that decodes such a word treats a swap table word as [`State::Bad`], and a
/// backing word as [`Backing::None`]. It also warns once, except for a swap table word that it has
/// read without the lock. Fast paths do not decode words, and test only marks and flags. Reading
/// the page of a slot with a corrupt backing word is an I/O error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Corrupt {
    /// The low bits are not the mark of any format.
    Format,
    /// The word is an [`Rmap`], or a pointer, where a [`State`] is expected.
    Pointer,
    /// The word has bits set that its format does not use.
    Reserved,
    /// The word has the tag of a [`Record`], but is not what `encode()` returns for a record.
    Record,
    /// The word names a physical slot of a swap type that no device can have.
    SlotType,
}

/// The count field of a word: the swap count, or [`Count::EXTENDED`] if the swap count does not
/// fit.
///
/// C: `__swp_tb_get_count()`.
///
/// # Invariants
///
/// The count is at most [`SWP_TB_COUNT_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Count(u8);

impl Count {
    /// No PTE or shmem entry names the slot. If the swap cache has a folio for the slot, only the
    /// folio pins the slot.
    // INVARIANT: 0 is at most `SWP_TB_COUNT_MAX`.
    pub const ZERO: Self = Self(0);
    /// The largest count that fits in a word.
    // INVARIANT: The count is one less than `SWP_TB_COUNT_MAX`.
    pub const INLINE_MAX: Self = Self(SWP_TB_COUNT_MAX - 1);
    /// The swap count is in the extend table of the cluster. It is at least [`SWP_TB_COUNT_MAX`].
    // INVARIANT: The count is equal to `SWP_TB_COUNT_MAX`.
    pub const EXTENDED: Self = Self(SWP_TB_COUNT_MAX);

    /// Returns the value for `count`. Returns `None` if `count` is too large.
    pub fn new(count: u8) -> Option<Self> {
        // INVARIANT: The number is small enough, as checked here.
        (count <= SWP_TB_COUNT_MAX).then_some(Self(count))
    }

    /// Returns the value as a number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The flags in the word of a slot in use. They do not change when a folio is added to or removed
/// from the swap cache.
///
/// C: `__swp_tb_get_flags()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags {
    /// The swap count (the number of PTEs and shmem entries that name the slot), or
    /// [`Count::EXTENDED`].
    pub count: Count,
    /// The zero flag: see [`SWP_TB_ZERO_FLAG`]. If it is set, the page is stored nowhere.
    pub zero: bool,
}

impl Flags {
    /// Swap count 0, no zero flag.
    pub const EMPTY: Self = Self {
        count: Count::ZERO,
        zero: false,
    };

    const fn decode(word: u64) -> Self {
        Self {
            // INVARIANT: The shift leaves `SWP_TB_COUNT_BITS` bits, so the count is at most
            // `SWP_TB_COUNT_MAX`.
            count: Count((word >> SWP_TB_COUNT_SHIFT) as u8),
            zero: word & SWP_TB_ZERO_FLAG != 0,
        }
    }

    const fn encode(self) -> u64 {
        let zero = if self.zero { SWP_TB_ZERO_FLAG } else { 0 };
        (self.count.0 as u64) << SWP_TB_COUNT_SHIFT | zero
    }
}

/// The workingset shadow of an evicted page.
///
/// The value is `xa_to_value()` of C's shadow, and is not interpreted here. As in C's swap table,
/// 0 means a shadow of 0 or no shadow.
///
/// # Invariants
///
/// The value fits in the bits of a word between the mark and the flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shadow(u64);

impl Shadow {
    /// No shadow.
    // INVARIANT: 0 has no bits.
    pub const NONE: Self = Self(0);

    /// Returns the shadow with this value. Returns `None` if the value has too many bits.
    pub fn new(value: u64) -> Option<Self> {
        // INVARIANT: The number is small enough, as checked here.
        fits(value, SHADOW_BITS).then_some(Self(value))
    }

    /// Returns the value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the word of a slot that the swap cache has no folio for, without its flags.
    #[inline]
    const fn word(self) -> u64 {
        self.0 << SHADOW_SHIFT | SWP_TB_SHADOW_MARK
    }
}

/// The number of the first page frame of a folio.
///
/// # Invariants
///
/// The number has at most `PFN_BITS` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pfn(u64);

impl Pfn {
    /// Returns the value for `pfn`. Returns `None` if the number has too many bits.
    pub const fn new(pfn: u64) -> Option<Self> {
        if !fits(pfn, PFN_BITS) {
            return None;
        }
        // INVARIANT: The number is small enough, as just checked.
        Some(Self(pfn))
    }

    /// Returns the value as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the word of a slot that the swap cache has this folio for, without its flags.
    #[inline]
    const fn word(self) -> u64 {
        self.0 << PFN_SHIFT | SWP_TB_PFN_MARK
    }
}

/// The state of a slot: the decoded swap table word.
///
/// `mm/swap_table.h` describes the format. The fields have these widths:
///
/// ```text
///          63   60 59 58                                   3 2 1 0
///         +-------+--+--------------------------------------+-+-+-+
/// Null    |                           0                     |0|0|0|
///         +-------+--+--------------------------------------+-+-+-+
/// Shadow  | count |Z |                 value                    |1|
///         +-------+--+--------+---------------------------------+-+
/// Pfn     | count |Z |   0    |            pfn                |1|0|
///         +-------+--+--------+-----------------------------+-+-+-+
/// Bad     |                        all ones                 |0|0|0|
///         +-------------------------------------------------+-+-+-+
/// ```
///
/// `Z` is the zero flag. `pfn` has `PFN_BITS` bits, a number that depends on the architecture. C
/// never sets the bits between `pfn` and `Z`. A word with one of them set is
/// [`Corrupt::Reserved`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The slot is free.
    Null,
    /// The slot is in use, and the swap cache has no folio for it.
    ///
    /// A swap count of 0 is transient: it lasts from the removal of a folio from the swap cache
    /// until the slot is freed, in one critical section of `ci->lock`. Readers without the lock
    /// can see it. For virtual slots, only [`cache_del_word`] writes it.
    Shadow {
        /// The swap count and the zero flag.
        flags: Flags,
        /// The shadow of the evicted page.
        value: Shadow,
    },
    /// The slot is in use, and the swap cache has a folio for it. If the swap count is 0, only the
    /// folio pins the slot.
    Pfn {
        /// The swap count and the zero flag.
        flags: Flags,
        /// The number of the first page frame of the folio.
        pfn: Pfn,
    },
    /// The slot must not be used: see [`SWP_TB_BAD`]. Code that decodes a corrupt word also gets
    /// this value, and neither uses nor changes the word.
    Bad,
}

impl State {
    /// Decodes a word of a virtual cluster, or a word of a physical cluster that is not an
    /// [`Rmap::Virtual`].
    pub const fn decode(word: u64) -> Result<Self, Corrupt> {
        let value = word & !SWP_TB_FLAGS_MASK;

        if word == SWP_TB_NULL {
            Ok(Self::Null)
        } else if word & SWP_TB_SHADOW_MARK != 0 {
            Ok(Self::Shadow {
                flags: Flags::decode(word),
                value: shadow_of_word(word),
            })
        } else if word & SWP_TB_PFN_MARK_MASK == SWP_TB_PFN_MARK {
            match Pfn::new(value >> PFN_SHIFT) {
                Some(pfn) => Ok(Self::Pfn {
                    flags: Flags::decode(word),
                    pfn,
                }),
                None => Err(Corrupt::Reserved),
            }
        } else if word == SWP_TB_BAD {
            Ok(Self::Bad)
        } else if word & MARK_MASK == RMAP_MARK {
            Err(Corrupt::Pointer)
        } else {
            Err(Corrupt::Format)
        }
    }

    /// Returns the word.
    pub const fn encode(self) -> u64 {
        match self {
            Self::Null => SWP_TB_NULL,
            Self::Shadow { flags, value } => flags.encode() | value.word(),
            Self::Pfn { flags, pfn } => flags.encode() | pfn.word(),
            Self::Bad => SWP_TB_BAD,
        }
    }

    /// Returns the flags of a slot in use, or the reason that the slot has none.
    pub const fn flags(self) -> Result<Flags, StateError> {
        match self {
            Self::Shadow { flags, .. } | Self::Pfn { flags, .. } => Ok(flags),
            Self::Null => Err(StateError::Unused),
            Self::Bad => Err(StateError::Bad),
        }
    }

    /// Returns the state with the count `new` in the word. Returns an error if the slot has no
    /// count.
    ///
    /// C: `__swp_tb_mk_count()`.
    pub fn with_count(mut self, new: Count) -> Result<Self, StateError> {
        self.flags()?;
        if let Self::Shadow { flags, .. } | Self::Pfn { flags, .. } = &mut self {
            flags.count = new;
        }
        Ok(self)
    }

    /// Returns the state with one more swap count in the word.
    ///
    /// C: `__swap_cluster_dup_entry()`.
    ///
    /// # Errors
    ///
    /// - [`StateError::CountFull`]: the count must move to the extend table. The caller stores
    ///   [`SWP_TB_COUNT_MAX`] there, and `with_count(Count::EXTENDED)` in the word.
    /// - [`StateError::CountExtended`]: the caller must increase the count in the extend table.
    /// - [`StateError::Unused`], [`StateError::Bad`]: the slot is not in use, or is about to be
    ///   freed.
    pub fn dup(self) -> Result<Self, StateError> {
        let count = self.flags()?.count;

        match self {
            Self::Shadow { .. } if count == Count::ZERO => Err(StateError::Unused),
            _ if count == Count::EXTENDED => Err(StateError::CountExtended),
            _ if count == Count::INLINE_MAX => Err(StateError::CountFull),
            // INVARIANT: The count was less than `INLINE_MAX`, so the new count is at most
            // `INLINE_MAX`.
            _ => self.with_count(Count(count.0.saturating_add(1))),
        }
    }

    /// Returns the state with one swap count less in the word. If the swap cache has no folio for
    /// the slot, the slot becomes free with its last swap count.
    ///
    /// C: `__swap_cluster_put_entry()`. For the last count: `swap_put_entries_cluster()`, which
    /// frees the slot.
    ///
    /// # Errors
    ///
    /// - [`StateError::CountExtended`]: the caller must decrease the count in the extend table.
    ///   When the count reaches [`Count::INLINE_MAX`], the caller moves it back by `with_count()`.
    /// - [`StateError::Unused`], [`StateError::Bad`]: the slot has no swap count to drop.
    pub fn put(self) -> Result<Self, StateError> {
        let count = self.flags()?.count;

        match (self, count.0) {
            (_, 0) => Err(StateError::Unused),
            (_, SWP_TB_COUNT_MAX) => Err(StateError::CountExtended),
            (Self::Shadow { .. }, 1) => Ok(Self::Null),
            // INVARIANT: The new count is smaller than the old one.
            (_, n) => self.with_count(Count(n.saturating_sub(1))),
        }
    }

    /// Returns the state with the folio `old` replaced by `new`. The flags do not change. Returns
    /// [`StateError::NotCached`] or [`StateError::Bad`] if the state does not name `old`.
    ///
    /// C: `__swap_cache_replace_folio()`.
    pub fn cache_replace(self, old: Pfn, new: Pfn) -> Result<Self, StateError> {
        match self {
            Self::Pfn { flags, pfn } if pfn == old => Ok(Self::Pfn { flags, pfn: new }),
            Self::Bad => Err(StateError::Bad),
            _ => Err(StateError::NotCached),
        }
    }
}

/// Returns true if the count in a word can be raised without the extend table.
const fn may_dup(word: u64) -> bool {
    // Only page frame numbers and shadows have a count. A slot with a shadow and a count of 0 is
    // about to be freed.
    let in_use = word & SWP_TB_PFN_MARK_MASK == SWP_TB_PFN_MARK || is_swapped_out(word);

    in_use && word >> SWP_TB_COUNT_SHIFT < Count::INLINE_MAX.0 as u64
}

/// The results of [`may_dup`] for all values of the mark and the count. The result for a word is
/// bit `mark << SWP_TB_COUNT_BITS | count` of this constant. The mark has two bits and the count
/// four, so 64 bits suffice. Testing the bit takes half as many instructions as comparing the mark
/// and the count.
const MAY_DUP: u64 = {
    let (mut bits, mut n) = (0, 0);
    while n < u64::BITS {
        let word = (n as u64).rotate_right(SWP_TB_COUNT_BITS);
        bits |= (may_dup(word) as u64).wrapping_shl(n);
        n = n.wrapping_add(1);
    }
    bits
};

/// Adds one to the swap count in a word. This is a fast path of [`State::dup`], because fork needs
/// it for each PTE, and swap-out for each page. Returns `None` if the caller must use
/// [`State::dup`].
#[inline]
pub const fn dup_word(word: u64) -> Option<u64> {
    // The rotation moves the count below the mark. `wrapping_shr()` ignores the bits above both.
    if MAY_DUP.wrapping_shr(word.rotate_left(SWP_TB_COUNT_BITS) as u32) & 1 != 0 {
        Some(word.wrapping_add(1 << SWP_TB_COUNT_SHIFT))
    } else {
        None
    }
}

/// Returns true if the swap count of a slot is in the extend table, so that [`State::dup`] fails
/// with [`StateError::CountExtended`].
#[inline]
pub const fn is_extended_word(word: u64) -> bool {
    word & SWP_TB_PFN_MARK_MASK != 0 && word >> SWP_TB_COUNT_SHIFT == SWP_TB_COUNT_MAX as u64
}

/// Drops one swap count in the word of a slot that stays in use. This is a fast path of
/// [`State::put`]. Returns `None` if the caller must use [`State::put`].
#[inline]
pub fn put_word(word: u64) -> Option<u64> {
    let count = word >> SWP_TB_COUNT_SHIFT;
    // Without a folio in the swap cache, dropping the last count would free the slot.
    let stays = word & SWP_TB_PFN_MARK_MASK == SWP_TB_PFN_MARK && count > 0
        || word & SWP_TB_SHADOW_MARK != 0 && count > 1;
    let is_inline = count < u64::from(SWP_TB_COUNT_MAX);
    (stays && is_inline).then_some(word.wrapping_sub(1 << SWP_TB_COUNT_SHIFT))
}

/// Returns true if a swap count of 1 is all that pins a slot, so that [`State::put`] returns
/// [`State::Null`].
#[inline]
pub const fn is_last_word(word: u64) -> bool {
    word & SWP_TB_SHADOW_MARK != 0 && word >> SWP_TB_COUNT_SHIFT == 1
}

/// Returns true if a word has a shadow, and its [`Flags::count`] is not 0.
#[inline]
const fn is_swapped_out(word: u64) -> bool {
    word & SWP_TB_SHADOW_MARK != 0 && word & SWP_TB_COUNT_MASK != 0
}

/// Replaces the shadow in the word of a slot in use by a folio. The flags do not change. Returns
/// `None` if the swap count is 0, or if the word has no shadow: the slot is free or bad, or has a
/// folio already. (The word of a slot that is being allocated is null. It becomes [`State::Pfn`]
/// with the count 0.)
///
/// C: `__swap_cache_add_check()`, `__swap_cache_do_add_folio()`.
#[inline]
pub fn cache_add_word(word: u64, pfn: Pfn) -> Option<u64> {
    is_swapped_out(word).then_some(word & SWP_TB_FLAGS_MASK | pfn.word())
}

/// Returns true if a folio may replace the shadow in the word of a slot, as in [`cache_add_word`],
/// and the zero flag is `zero`.
#[inline]
pub const fn is_addable_word(word: u64, zero: bool) -> bool {
    let flag = if zero { SWP_TB_ZERO_FLAG } else { 0 };
    word & (SWP_TB_SHADOW_MARK | SWP_TB_ZERO_FLAG) == SWP_TB_SHADOW_MARK | flag
        && word & SWP_TB_COUNT_MASK != 0
}

/// Returns the shadow in a word with the mark of a shadow. For any other word, the result has no
/// meaning.
#[inline]
pub const fn shadow_of_word(word: u64) -> Shadow {
    // INVARIANT: The flags, which are above the shadow, are masked away.
    Shadow((word & !SWP_TB_FLAGS_MASK) >> SHADOW_SHIFT)
}

/// Replaces the folio in the word of a slot by a shadow. The flags do not change. If the swap
/// count is 0, the caller must free the slot. Returns `None` if the word does not name the folio.
///
/// C: `__swap_cache_do_del_folio()`.
#[inline]
pub fn cache_del_word(word: u64, old: Pfn, value: Shadow) -> Option<u64> {
    (word & !SWP_TB_FLAGS_MASK == old.word()).then_some(word & SWP_TB_FLAGS_MASK | value.word())
}

/// Returns true if a word has a shadow and the swap count 0, so that nothing pins the slot. Of a
/// virtual slot, only [`cache_del_word`] returns such a word, and the caller frees the slot.
#[inline]
pub const fn is_unpinned_word(word: u64) -> bool {
    word & (SWP_TB_COUNT_MASK | SWP_TB_SHADOW_MARK) == SWP_TB_SHADOW_MARK
}

/// Removes a folio from the word of a slot whose swap count is 1, and leaves no shadow. The caller
/// drops that count and frees the slot. Returns `None` if the word does not name the folio, or if
/// the count is not 1.
#[inline]
pub fn consume_word(word: u64, old: Pfn) -> Option<u64> {
    let counted_once = old.word() | 1 << SWP_TB_COUNT_SHIFT;
    (word & !SWP_TB_ZERO_FLAG == counted_once)
        .then_some(word & SWP_TB_FLAGS_MASK | Shadow::NONE.word())
}

/// Sets or clears the zero flag in the word of a slot in use. Returns `None` if the word has no
/// flags.
///
/// C: `__swap_table_set_zero()`, `__swap_table_clear_zero()`.
#[inline]
pub fn set_zero_word(word: u64, zero: bool) -> Option<u64> {
    let flag = if zero { SWP_TB_ZERO_FLAG } else { 0 };
    (word & SWP_TB_PFN_MARK_MASK != 0).then_some(word & !SWP_TB_ZERO_FLAG | flag)
}

/// Returns true if a word has flags and its [`Flags::count`] is not 0.
#[inline]
pub const fn is_counted_word(word: u64) -> bool {
    word & SWP_TB_PFN_MARK_MASK != 0 && word & SWP_TB_COUNT_MASK != 0
}

/// Returns true if [`is_counted_word`] is true. May also return true for a word without flags that
/// is not null. The test is cheaper.
#[inline]
pub const fn may_be_counted_word(word: u64) -> bool {
    word & SWP_TB_COUNT_MASK != 0
}

/// Returns true if a word has the mark of a page frame number. Does not check the other bits.
pub const fn has_folio(word: u64) -> bool {
    word & SWP_TB_PFN_MARK_MASK == SWP_TB_PFN_MARK
}

/// Returns the page frame number in the word of a slot that the swap cache has a folio for.
/// Returns `None` for any other word.
#[inline]
pub const fn pfn_of_word(word: u64) -> Option<Pfn> {
    const MASK: u64 = !(!0 << PFN_BITS) << PFN_SHIFT;
    // Test the mark and the reserved bits together.
    if word & !SWP_TB_FLAGS_MASK & !MASK != SWP_TB_PFN_MARK {
        return None;
    }
    // INVARIANT: The mask leaves `PFN_BITS` bits.
    Some(Pfn((word & MASK) >> PFN_SHIFT))
}

/// Returns true if a word has flags and its [`Flags::zero`] is set.
#[inline]
pub const fn is_zero_word(word: u64) -> bool {
    word & SWP_TB_PFN_MARK_MASK != 0 && word & SWP_TB_ZERO_FLAG != 0
}

/// Returns the zero flag of the word of a slot in use, as a number.
#[inline]
pub const fn zero_flag_of_word(word: u64) -> u32 {
    (word >> SWP_TB_FLAGS_SHIFT) as u32 & 1
}

/// Returns true if the zero flags of two words are the same. A word without flags may count as
/// either.
#[inline]
pub const fn has_same_zero_flag(word: u64, other: u64) -> bool {
    (word ^ other) & SWP_TB_ZERO_FLAG == 0
}

/// The reason that a state has no flags, or that a transition of a [`State`] fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateError {
    /// The slot must not be used.
    Bad,
    /// The slot is free, or its swap count is 0 and cannot be dropped or raised.
    Unused,
    /// The swap cache does not have this folio for the slot.
    NotCached,
    /// The count cannot be raised, because a higher count does not fit in the word.
    CountFull,
    /// The count is in the extend table.
    CountExtended,
}

/// The offset of a virtual swap entry. The swap type is not stored, because it is the same for all
/// virtual entries.
///
/// # Invariants
///
/// The offset has at most [`VOFFSET_BITS`] bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VOffset(u64);

impl VOffset {
    /// Returns the value for `offset`. Returns `None` if the offset has too many bits.
    pub const fn new(offset: u64) -> Option<Self> {
        if !fits(offset, VOFFSET_BITS) {
            return None;
        }
        // INVARIANT: The number is small enough, as just checked.
        Some(Self(offset))
    }

    /// Returns the value as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A slot of a swap device: a physical swap entry.
///
/// # Invariants
///
/// The type is less than `MAX_SWAPFILES`, so that a device can have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhysSlot {
    ty: u8,
    offset: u32,
}

impl PhysSlot {
    /// Returns the slot at `offset` on the device of type `ty`. Returns `None` if no device can
    /// have that type.
    pub fn new(ty: u8, offset: u32) -> Option<Self> {
        // INVARIANT: The type is less than `MAX_SWAPFILES`, as checked here.
        (ty < MAX_SWAPFILES).then_some(Self { ty, offset })
    }

    /// Returns the swap type, which names the device.
    pub const fn ty(self) -> u8 {
        self.ty
    }

    /// Returns the offset of the slot on the device.
    pub const fn offset(self) -> u32 {
        self.offset
    }

    /// Returns the slot that is `n` slots after this one on the device. Returns `None` if the
    /// offset would overflow.
    pub fn nth(self, n: u32) -> Option<Self> {
        let offset = self.offset.checked_add(n)?;
        // INVARIANT: The type does not change.
        Some(Self { offset, ..self })
    }

    /// Returns the backing word that names the slot. It is never 0.
    #[inline]
    pub(super) const fn word(self) -> u64 {
        (self.offset as u64) << SLOT_OFFSET_SHIFT
            | (self.ty as u64) << SLOT_TYPE_SHIFT
            | BACKING_TAG_PHYS
    }

    /// Returns the slot that a word from [`Self::word`] names. Does not check the tag and the
    /// highest bits of the word. Returns `None` if no device can have the swap type.
    #[inline]
    pub(super) fn of_word(word: u64) -> Option<Self> {
        let ty = (word >> SLOT_TYPE_SHIFT & SLOT_TYPE_MASK) as u8;
        Self::new(ty, (word >> SLOT_OFFSET_SHIFT) as u32)
    }
}

/// The swap table word of a physical slot: the virtual slot that the physical slot backs, or a
/// [`State`].
///
/// ```text
///          63            37 36                              3 2 1 0
///         +----------------+---------------------------------+-+-+-+
/// Virtual |       0        |             voffset             |1|0|0|
///         +----------------+---------------------------------+-+-+-+
/// Direct  |                      a [`State`]                       |
///         +--------------------------------------------------------+
/// ```
///
/// `Virtual` uses the format that C calls "Pointer" and does not use. It is a number, not a
/// pointer. Its flags are 0. So code that reads them without checking the format finds neither a
/// count nor a zero flag. C's predicates say that it is not null, shadow, folio, bad or countable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rmap {
    /// The word names no virtual slot. PTEs and shmem entries name the slot directly, or only a
    /// folio in the swap cache pins it, or it is free, or it must not be used.
    Direct(State),
    /// The slot backs this virtual slot.
    Virtual(VOffset),
}

impl Rmap {
    /// Decodes a word of a physical cluster.
    pub const fn decode(word: u64) -> Result<Self, Corrupt> {
        if word & MARK_MASK == RMAP_MARK {
            return match VOffset::new(word >> VOFFSET_SHIFT) {
                Some(voffset) => Ok(Self::Virtual(voffset)),
                None => Err(Corrupt::Reserved),
            };
        }
        match State::decode(word) {
            Ok(state) => Ok(Self::Direct(state)),
            Err(corrupt) => Err(corrupt),
        }
    }

    /// Returns the word.
    pub const fn encode(self) -> u64 {
        match self {
            Self::Direct(state) => state.encode(),
            Self::Virtual(voffset) => voffset.0 << VOFFSET_SHIFT | RMAP_MARK,
        }
    }
}

/// The backing of a virtual slot. A page of zeros is a flag in the [`State`] of the slot instead,
/// and a folio in the swap cache is a [`State::Pfn`].
///
/// ```text
///          63                    40 39        8 7      3 2 1 0
///         +------------------------+-----------+--------+-+-+-+
/// None    |                        0                    |0|0|0|
///         +------------------------+-----------+--------+-+-+-+
/// Zswap   |    a [`Record`] of an object                    |1|
///         +---------------------------------------------+-+-+-+
/// Zswap   |    a [`Record`] of one value                |1|0|0|
///         +------------------------+-----------+--------+-+-+-+
/// Phys    |           0            |  offset   |  type  |0|1|0|
///         +------------------------+-----------+--------+-+-+-+
/// ```
///
/// The type is below the offset. A `swp_entry_t` has the type above the offset, in bits 58 to 62.
/// If it were shifted left to make room for the tag, bits of the type would be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// There is no backing. `decode_backing()` also returns this for a corrupt word.
    None,
    /// A zswap entry.
    Zswap(Record),
    /// A slot of a swap device.
    Phys(PhysSlot),
}

impl Backing {
    /// Decodes a backing word.
    pub fn decode(word: u64) -> Result<Self, Corrupt> {
        if word == BACKING_NONE {
            return Ok(Self::None);
        }
        if Record::is_tag(word) {
            let record = Record::decode(word);
            return record.map(Self::Zswap).ok_or(Corrupt::Record);
        }
        if word & BACKING_TAG_MASK != BACKING_TAG_PHYS {
            return Err(Corrupt::Format);
        }
        if !fits(word, SLOT_OFFSET_END) {
            return Err(Corrupt::Reserved);
        }
        PhysSlot::of_word(word)
            .map(Self::Phys)
            .ok_or(Corrupt::SlotType)
    }

    /// Decodes the backing word of a device slot. Returns `None` for any other word.
    #[inline]
    pub fn decode_phys(word: u64) -> Option<PhysSlot> {
        if word & BACKING_TAG_MASK != BACKING_TAG_PHYS || !fits(word, SLOT_OFFSET_END) {
            return None;
        }
        PhysSlot::of_word(word)
    }

    /// Returns the word.
    pub const fn encode(self) -> u64 {
        match self {
            Self::None => BACKING_NONE,
            Self::Zswap(record) => record.encode(),
            Self::Phys(slot) => slot.word(),
        }
    }
}
