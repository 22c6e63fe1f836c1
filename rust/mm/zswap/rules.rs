// SPDX-License-Identifier: GPL-2.0

//! The decisions of zswap as pure functions of numbers.
//!
//! # Context
//!
//! This file works on values only. It takes no lock, allocates no memory, has no `unsafe` code,
//! and cannot panic. The host tests in `kunit/host` include it by its path.

#![forbid(unsafe_code)]

/// Returns `percent` of `whole`, computed as in C: the product wraps, and a percentage above 100 is
/// not clamped.
const fn percent_of(whole: usize, percent: u32) -> usize {
    whole.wrapping_mul(percent as usize) / 100
}

/// The size limits of all pools together, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PoolLimits {
    /// The limit: no page is accepted at this size or above.
    pub(crate) max: usize,
    /// The accept threshold. After the pools have reached `max`, pages are accepted again at this
    /// size or below. The shrink worker shrinks the pools to this size.
    pub(crate) accept: usize,
}

impl PoolLimits {
    /// Returns the limits of a machine with `ram` pages.
    #[inline]
    pub(crate) const fn new(ram: usize, max_percent: u32, accept_percent: u32) -> Self {
        let max = percent_of(ram, max_percent);
        Self {
            max,
            accept: percent_of(max, accept_percent),
        }
    }

    /// Returns whether pools of `pages` pages accept a store. `was_full` is true if they have
    /// reached `max`, have not accepted a page since, and can shrink by writeback.
    #[inline]
    pub(crate) const fn judge(self, pages: usize, was_full: bool) -> Fill {
        if pages >= self.max {
            Fill::HitLimit
        } else if was_full && pages > self.accept {
            Fill::Draining
        } else {
            Fill::Accepts
        }
    }
}

/// Whether the pools accept a store at their current size: see [`PoolLimits`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// The pools are below their limit, and accept pages.
    Accepts,
    /// The pools are below their limit, but had reached it and have not shrunk to the accept
    /// threshold yet.
    Draining,
    /// The pools are at or above their limit.
    HitLimit,
}

/// Reason why a page was not stored, as far as `compress::compress()` decides that.
///
/// `store_page()` in `store.rs` increments a counter in debugfs for each reason. Other reasons are
/// counted elsewhere, or not at all:
///
/// - The pools are at their limit: `limits::accepts()` counts `pool_limit_hit`.
/// - There is no memory for a table or a member: `put()` in `store.rs` counts
///   `reject_kmemcache_fail`.
/// - Not counted: zswap is disabled or has no pool, `memory.zswap.max` is reached, the pools have
///   not shrunk to the accept threshold yet, or the backing of the slot must not change.
///
/// A new variant needs a counter in `counters!` of `ffi/params.rs`, which also creates the file in
/// debugfs, and an arm in `store_page()`. That function also calls `capacity::note_refused()` for
/// the new variant, unless the condition there excludes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reject {
    /// The compressor failed other than with `-ENOSPC`, or saved nothing, and the page may not be
    /// stored uncompressed. Or the CPU has no compression context.
    CompressFail,
    /// The compressor returned `-ENOSPC`, and the page may not be stored uncompressed. Or the
    /// allocator returned `-ENOSPC`.
    CompressPoor,
    /// The pool could not store the object for another reason, such as `-ENOMEM`.
    AllocFail,
}

impl Reject {
    /// Returns `CompressPoor` if `no_space` is true: the compressor or the allocator returned
    /// `-ENOSPC`. Otherwise returns `self`.
    pub(crate) const fn or_poor(self, no_space: bool) -> Self {
        if no_space {
            Self::CompressPoor
        } else {
            self
        }
    }
}

/// Returns how many bytes of the compressor's output to store for a page of `page` bytes. `len` is
/// the length of the output, or `None` if the compressor failed. Returns `None` if there is no
/// output to store: the compressor failed, or the output is empty or not smaller than the page.
#[inline]
pub(crate) fn saved(len: Option<usize>, page: usize) -> Option<usize> {
    len.filter(|len| *len != 0 && *len < page)
}

/// Once the tried count of a memory cgroup reaches this, zswap samples the content of most pages
/// of the cgroup before it compresses them: see [`is_tried`].
#[cfg(any(CONFIG_RUST_VSWAP, test))]
pub(crate) const FEW_TRIED: u64 = 16;

/// Returns true if a page is compressed without looking at its content first. `tried` and
/// `refused` are the tried count and the refused count of its memory cgroup: see
/// `vswap::capacity`.
///
/// Once `tried` reaches [`FEW_TRIED`], this is true for about one refused page in 256, because
/// some pages look random and still compress.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
pub(crate) const fn is_tried(tried: u64, refused: u64) -> bool {
    tried < FEW_TRIED || refused & 255 == 0
}

/// Returns true if another refused page is to be counted for a memory cgroup with `size` pages.
/// The refused count grows to `size`, but does not stop at a value for which [`is_tried`] is true.
/// Otherwise zswap would compress each later page without looking at its content first.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[inline]
pub(crate) const fn is_counted(refused: u64, size: u64) -> bool {
    refused < size || is_tried(FEW_TRIED, refused)
}

/// Returns the count of refused pages after a page was stored: 32 less. So the count does not grow
/// as long as at least one page is stored for each 32 refused ones. Otherwise the count grows
/// until reclaim has tried all pages. By then, the pages that compress are stored.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[inline]
pub(crate) const fn after_success(refused: u64) -> u64 {
    refused.saturating_sub(32)
}

/// Returns true if an event should be counted now, because it was last counted at least a second
/// (`hz` ticks) ago, or never. `last` is the time when it was last counted, or 0 for never.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
pub(crate) const fn is_due(last: u64, now: u64, hz: u64) -> bool {
    // The difference is -1 if `last` is one tick ahead of `now`. That happens because the caller
    // sets bit 0 of `last`, so that it is not 0.
    last == 0 || now.wrapping_sub(last) as i64 >= hz as i64
}

/// Returns true if `nr` more pages would exceed `memory.swap.max` of a memory cgroup, which is
/// `max` pages. `charged` pages are charged to it as swap already. `kept` pages in zswap count,
/// too, because zswap may write them back, which charges the pages of virtual slots.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[inline]
pub(crate) const fn exceeds(max: usize, charged: usize, kept: usize, nr: usize) -> bool {
    charged.saturating_add(kept).saturating_add(nr) > max
}

/// Returns how many more pages of a memory cgroup zswap may store under `memory.zswap.max`, which
/// is `max` pages. zswap uses `used` pages of memory for the cgroup. Below `max`, returns at least
/// 64, which is MGLRU's `MIN_LRU_BATCH`. With a smaller number MGLRU would swap out nothing,
/// although zswap still accepts a page.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[inline]
pub(crate) const fn zswap_left(max: usize, used: usize) -> usize {
    match max.saturating_sub(used) {
        0 => 0,
        1..64 => 64,
        left => left,
    }
}

/// What the refused pages of a memory cgroup say about its other pages.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefusalVerdict {
    /// About as many pages were refused as the cgroup has anonymous pages. So the caller assumes
    /// that zswap refuses all of them.
    All,
    /// Other pages of the cgroup may compress.
    Some,
    /// More than a second has passed since the last refusal or halving of the count. Or the cgroup
    /// has lost more than a quarter of its pages since then. The caller halves the count, so that
    /// reclaim tries pages again.
    Outdated,
}

/// When zswap last counted a refused page of a memory cgroup, or the count was last halved, and how
/// large the cgroup was then.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
#[derive(Clone, Copy)]
pub(crate) struct LastRefusal {
    /// Ticks since then.
    pub(crate) age: u64,
    /// Number of pages that the cgroup had then, of any kind.
    pub(crate) size: u64,
}

#[cfg(any(CONFIG_RUST_VSWAP, test))]
impl RefusalVerdict {
    /// Returns what `refused` refused pages say about a cgroup. The cgroup has `size` pages, of
    /// which `anon` are on its anonymous LRU lists. `hz` is the number of ticks in a second.
    ///
    /// Tolerates that one page in 32 is missing, because page counters are updated in batches.
    /// Otherwise reclaim would scan all memory again and again for a counter that is one page
    /// short.
    #[inline]
    pub(crate) const fn judge(
        refused: u64,
        last: LastRefusal,
        hz: u64,
        anon: u64,
        size: u64,
    ) -> Self {
        // More than a quarter of the pages is gone, for example because a process has exited.
        let shrunk = size < last.size.saturating_sub(last.size / 4);
        if last.age > hz || shrunk {
            Self::Outdated
        } else if refused >= anon.saturating_sub(anon / 32) {
            Self::All
        } else {
            Self::Some
        }
    }
}

/// The set of distinct byte values in a sample of a page.
#[cfg(any(CONFIG_RUST_VSWAP, test))]
pub(crate) struct Variety([u64; 4]);

#[cfg(any(CONFIG_RUST_VSWAP, test))]
impl Variety {
    /// Number of bytes in a sample.
    pub(crate) const SAMPLE: usize = 64;

    /// Returns the set of the values in `bytes`.
    #[inline]
    pub(crate) fn of(bytes: impl Iterator<Item = u8>) -> Self {
        let mut seen = [0u64; 4];
        for byte in bytes {
            if let Some(word) = seen.get_mut(usize::from(byte >> 6)) {
                *word |= 1 << (byte & 63);
            }
        }
        Self(seen)
    }

    /// Returns true if the sample looks like random bytes. 64 random bytes have 57 distinct values
    /// on average, and almost never fewer than 48. Text and numbers have about half as many.
    #[inline]
    pub(crate) fn is_random(&self) -> bool {
        let [a, b, c, d] = self.0;
        // The sum is at most 256, so it does not saturate.
        [a, b, c, d]
            .iter()
            .fold(0u32, |sum, word| sum.saturating_add(word.count_ones()))
            >= 48
    }
}

/// Subtracts the number of recent swap-ins from a device from the number of pages that may be
/// written back. If that many more pages had stayed in zswap, zswap would have served these
/// swap-ins.
///
/// Returns the number of pages that are left, and the number of swap-ins to subtract the next
/// time.
#[inline]
pub(crate) const fn protect(freeable: usize, disk_swapins: usize) -> (usize, usize) {
    (
        freeable.saturating_sub(disk_swapins),
        disk_swapins.saturating_sub(freeable),
    )
}

/// Scales a number of stored pages by the average pool memory that a stored page takes. Otherwise
/// the shrinker would do as much I/O for well compressed pages, which free less memory.
///
/// Computes `freeable * backing / stored` without the product of the first two, like C's
/// `mult_frac()`. Returns 0 if `stored` is 0.
#[inline]
pub(crate) fn scale(freeable: usize, backing: usize, stored: usize) -> usize {
    let scaled = || {
        let (whole, rest) = (freeable.checked_div(stored)?, freeable.checked_rem(stored)?);
        let part = rest.wrapping_mul(backing).checked_div(stored)?;
        Some(whole.wrapping_mul(backing).wrapping_add(part))
    };
    scaled().unwrap_or(0)
}

/// The result of shrinking one memory cgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shrunk {
    /// At least one page was written back.
    Some,
    /// The clock hand passed pages of the cgroup, but none was written back, although the cgroup
    /// can use a device slot.
    None,
    /// No page was written back, because the cgroup has no pages on its rings, disables writeback,
    /// or cannot use another device slot.
    NoCandidates,
}

/// Decides when the shrink worker gives up although the pools are above its target: after
/// `max_failures` failures. A failure is a cgroup with candidates of which none was written back,
/// or a round over all cgroups that found no candidate. Successes do not lower the count of
/// failures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    failures: u32,
    attempts: u32,
    max_failures: u32,
}

impl Patience {
    /// Returns the state before the first attempt.
    pub(crate) const fn new(max_failures: u32) -> Self {
        Self {
            failures: 0,
            attempts: 0,
            max_failures,
        }
    }

    /// Records a failure. Returns true if the worker should continue.
    fn fail(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures < self.max_failures
    }

    /// Records the result of shrinking a cgroup. Returns true if the worker should continue.
    pub(crate) fn after_cgroup(&mut self, shrunk: Shrunk) -> bool {
        match shrunk {
            // This is not a failure as long as another cgroup has candidates.
            Shrunk::NoCandidates => true,
            Shrunk::Some => {
                self.attempts = self.attempts.saturating_add(1);
                true
            }
            Shrunk::None => {
                self.attempts = self.attempts.saturating_add(1);
                self.fail()
            }
        }
    }

    /// Records the result of a pass over the pages of all cgroups, for a kernel with memory
    /// cgroups disabled. Each pass is a round. Returns true if the worker should continue.
    pub(crate) fn after_root(&mut self, shrunk: Shrunk) -> bool {
        self.after_cgroup(shrunk) && self.after_round()
    }

    /// Records the end of a round over all cgroups. Returns true if the worker should continue.
    pub(crate) fn after_round(&mut self) -> bool {
        let idle = self.attempts == 0;
        self.attempts = 0;
        !idle || self.fail()
    }
}

/// The progress of zswap's initialization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Not attempted yet.
    Uninit,
    /// Finished, with or without a pool to store to.
    Ready {
        /// True if there is a current pool.
        has_pool: bool,
    },
    /// Failed, which is final.
    Failed,
}

/// What a write to the module parameter `compressor` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameChange {
    /// Remembers the name for the initialization.
    Note,
    /// Changes nothing, because the compressor is the current one.
    Keep,
    /// Switches to a pool with this compressor.
    Switch,
    /// Refuses the name.
    Refuse,
}

impl Stage {
    /// Returns what a write to the module parameter `compressor` does. `same_name` is true if the
    /// parameter has this name already.
    pub(crate) const fn name_change(self, same_name: bool) -> NameChange {
        match self {
            Self::Uninit => NameChange::Note,
            Self::Ready { has_pool: true } if same_name => NameChange::Keep,
            Self::Ready { .. } => NameChange::Switch,
            Self::Failed => NameChange::Refuse,
        }
    }
}
