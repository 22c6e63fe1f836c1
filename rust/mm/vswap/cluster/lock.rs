// SPDX-License-Identifier: GPL-2.0

//! The lock of a cluster, and access to what the lock protects.
//!
//! Only this file creates a [`Guard`] or a [`LockedCluster`], so that none exists without the
//! lock. The other files have the functions of a locked cluster, by subject.

use crate::{
    ffi::call::FromC,
    vswap::cluster::Cluster,
    zswap::table::LockedTable, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    sync::SpinLockGuard,
    types::NotThreadSafe, //
};

/// Access to a locked cluster.
///
/// The value does not own the lock, so dropping it does not unlock. The owner of the lock, a
/// [`Guard`] or C, lends the value. A [`Guard`] never gives out a `&mut` to its own
/// `LockedCluster`. Otherwise a caller could swap those of two guards, and each guard would unlock
/// the cluster of the other.
///
/// # Invariants
///
/// The lock is held during `'g`, and only one value for the cluster can be used at a time.
pub(crate) struct LockedCluster<'g> {
    cluster: &'static Cluster,
    _lock: PhantomData<&'g mut ()>,
    _thread: NotThreadSafe,
}

impl<'g> LockedCluster<'g> {
    /// Returns the virtual cluster of a table. Returns `None` if the table is that of a device
    /// cluster.
    #[inline]
    pub(super) fn of(table: &'g mut LockedTable<'_>) -> Option<Self> {
        let cluster = Cluster::of(table)?;
        // INVARIANT: By the invariants of `LockedTable`, which is borrowed mutably, the lock is
        // held, and no `LockedCluster` is used meanwhile.
        Some(Self {
            cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        })
    }

    /// Returns the cluster itself, for functions that do not need its lock.
    #[inline]
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// Lends the value for a shorter time.
    #[inline]
    pub(super) fn reborrow(&mut self) -> LockedCluster<'_> {
        // INVARIANT: The lock is held while `self` is borrowed, and `self` cannot be used
        // meanwhile.
        LockedCluster {
            cluster: self.cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        }
    }

    #[inline]
    pub(super) fn ci(&self) -> *mut bindings::swap_cluster_info {
        self.cluster().as_ci()
    }
}

impl FromC<NonNull<bindings::swap_cluster_info>> for LockedCluster<'_> {
    /// # Safety
    ///
    /// `ci` is the C part of a virtual cluster, whose lock the caller holds while the value
    /// exists. No other value for the cluster is used meanwhile.
    #[inline]
    unsafe fn from_c(ci: NonNull<bindings::swap_cluster_info>) -> Self {
        // INVARIANT: As required of the caller, the lock is held, and no other value is used
        // meanwhile.
        Self {
            // SAFETY: As required of the caller, `ci` is the C part of a virtual cluster.
            cluster: unsafe { FromC::from_c(ci) },
            _lock: PhantomData,
            _thread: NotThreadSafe,
        }
    }
}

/// The lock of a cluster. Dropping the value unlocks.
///
/// # Invariants
///
/// The value owns the lock of the cluster.
#[must_use]
pub(crate) struct Guard(LockedCluster<'static>);

impl Cluster {
    /// Returns the virtual cluster of a table. Returns `None` if the table is that of a device
    /// cluster.
    #[inline]
    pub(super) fn of(table: &LockedTable<'_>) -> Option<&'static Self> {
        let ci = table.as_ci();
        // SAFETY: By the invariants of `LockedTable`, the cluster is valid and locked. Only a
        // virtual cluster has this value in `flags`.
        unsafe {
            let is_virtual = (*ci.as_ptr()).flags == bindings::VSWAP_CLUSTER_FLAG as u8;
            is_virtual.then(|| FromC::from_c(ci))
        }
    }

    /// Locks the cluster.
    #[inline]
    pub(crate) fn lock(&'static self) -> Guard {
        Guard::new(self, self.ci_lock().lock())
    }

    /// Tries to lock the cluster. Returns `None` if it is already locked.
    pub(in crate::vswap) fn try_lock(&'static self) -> Option<Guard> {
        Some(Guard::new(self, self.ci_lock().try_lock()?))
    }
}

impl Guard {
    /// Takes over the lock of `cluster` from `locked`.
    // The value does not keep `locked`, so that its size is that of one pointer.
    #[inline]
    fn new(cluster: &'static Cluster, locked: SpinLockGuard<'static, ()>) -> Self {
        // INVARIANT: The value takes over the lock.
        let _ = ManuallyDrop::new(locked);
        Self(LockedCluster {
            cluster,
            _lock: PhantomData,
            _thread: NotThreadSafe,
        })
    }

    /// Lends access to the locked cluster.
    #[inline]
    pub(crate) fn lend(&mut self) -> LockedCluster<'_> {
        self.0.reborrow()
    }
}

impl Deref for Guard {
    type Target = LockedCluster<'static>;

    #[inline]
    fn deref(&self) -> &LockedCluster<'static> {
        &self.0
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The value owns the lock, by the invariants. The lock passes to the
        // `SpinLockGuard`, which unlocks.
        drop(unsafe { SpinLockGuard::new(self.0.cluster.ci_lock(), ()) });
    }
}
