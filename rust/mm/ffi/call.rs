// SPDX-License-Identifier: GPL-2.0

//! Macros for calls to C, and calls from C, whose contracts the types of the arguments keep.
//!
//! Each macro has one `unsafe` block for all functions of its kind. The traits say what the block
//! relies on: [`ToC`] for what C is given, [`FromC`] for what C gives.

/// Declares functions of C that can be called with anything their types allow.
///
/// An argument goes to C as [`ToC`] says. bindgen's signature is checked by the compiler.
macro_rules! c_functions {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = $c:ident;
    )*) => {
        $($(#[$meta])*
        #[inline]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            $(let $arg = $crate::ffi::call::ToC::to_c($arg);)*
            // SAFETY: The function has no requirements beyond those that `ToC` keeps.
            unsafe { ::kernel::bindings::$c($($arg),*) }
        })*
    };
}

/// Declares methods that are functions of C. The first argument is the pointer of `self`, for which
/// the invariants of the type are enough; the others are as in `c_functions!`.
macro_rules! c_methods {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident(&$this:ident $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)? = $c:ident;
    )*) => {
        $($(#[$meta])*
        #[inline]
        $vis fn $name(&$this $(, $arg: $ty)*) $(-> $ret)? {
            $(let $arg = $crate::ffi::call::ToC::to_c($arg);)*
            // SAFETY: By the invariants of the type, and `ToC`.
            unsafe { ::kernel::bindings::$c($this.as_ptr() $(, $arg)*) }
        })*
    };
}

/// Defines functions that C calls. An argument `name: Type = RawType` is made by [`FromC`], whose
/// contract for the type is part of the function's.
macro_rules! c_exports {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $ty:ty = $raw:ty),*) $(-> $ret:ty)? $body:block
    )*) => {
        $($(#[$meta])*
        ///
        /// # Safety
        ///
        /// As [`FromC`](crate::ffi::call::FromC) says for the type of each argument.
        #[export]
        #[allow(unused_unsafe)]
        unsafe extern "C" fn $name($($arg: $raw),*) $(-> $ret)? {
            // SAFETY: As required of the caller.
            $(let $arg = unsafe { <$ty as $crate::ffi::call::FromC<$raw>>::from_c($arg) };)*
            $body
        })*
    };
}

/// Asserts that a type of ours has the fields of C's, where C has them: a pointer to C's is one to
/// ours.
macro_rules! same_layout {
    ($ours:ty = $c:ty { $($field:ident = $theirs:ident),* $(,)? }) => {
        ::kernel::prelude::static_assert!(size_of::<$ours>() == size_of::<$c>());
        $(::kernel::prelude::static_assert!(
            core::mem::offset_of!($ours, $field) == core::mem::offset_of!($c, $theirs)
        );)*
    };
}

use core::{
    ffi::CStr,
    mem::MaybeUninit, //
};
use kernel::{
    bindings,
    prelude::*, //
};

/// A value that a function of C may be given, as `C`: its type keeps what C requires of it, while
/// the function runs.
pub(crate) trait ToC {
    /// The type that C has for it.
    type C;

    /// Returns it as C has it.
    fn to_c(self) -> Self::C;
}

/// What C gives to a function of ours, as `Raw`.
pub(crate) trait FromC<Raw> {
    /// Takes it over.
    ///
    /// # Safety
    ///
    /// Written at the implementation.
    unsafe fn from_c(raw: Raw) -> Self;
}

/// Numbers, and values that C copies, are the same for C.
macro_rules! plain {
    ($($ty:ty),*) => {
        $(impl ToC for $ty {
            type C = $ty;

            #[inline]
            fn to_c(self) -> $ty {
                self
            }
        }

        impl FromC<$ty> for $ty {
            /// # Safety
            ///
            /// Nothing is required.
            #[inline]
            unsafe fn from_c(raw: $ty) -> $ty {
                raw
            }
        })*
    };
}

plain!(
    bool,
    i32,
    u32,
    i64,
    u64,
    isize,
    usize,
    bindings::swp_entry_t
);

/// A pointer that is only handed on.
impl<T> FromC<*const T> for *const T {
    /// # Safety
    ///
    /// Nothing is required.
    #[inline]
    unsafe fn from_c(raw: *const T) -> Self {
        raw
    }
}

/// A place that a function of ours writes a result to, if C wants it.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

impl<T> FromC<*mut T> for Out<'_, T> {
    /// # Safety
    ///
    /// `raw` is NULL, or valid for writes and nobody else's while the function runs.
    #[inline]
    unsafe fn from_c(raw: *mut T) -> Self {
        // SAFETY: As required of the caller. Nothing is said of what is there.
        unsafe { raw.cast::<MaybeUninit<T>>().as_mut() }
    }
}

/// A string, which C reads.
impl ToC for &CStr {
    type C = *const c_char;

    #[inline]
    fn to_c(self) -> *const c_char {
        self.as_char_ptr()
    }
}

impl FromC<*const c_char> for &CStr {
    /// # Safety
    ///
    /// `raw` is a string that stays while the function runs.
    #[inline]
    unsafe fn from_c(raw: *const c_char) -> Self {
        // SAFETY: As required of the caller.
        unsafe { CStr::from_char_ptr(raw) }
    }
}
