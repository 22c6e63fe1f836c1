// SPDX-License-Identifier: GPL-2.0

//! Macros for calls to C, and calls from C, whose contracts are in the types of the arguments.
//!
//! An `unsafe` block in a macro is part of each function that the macro defines. It relies on two
//! traits: [`ToC`] for values that Rust passes to C, and [`FromC`] for values that C passes to
//! Rust, as arguments and as results. A type that adds requirements to those of another type
//! implements [`Refines`], which provides [`FromC`].

/// Calls a function of C, for `c_functions!`, `c_methods!` and `c_guarded!`.
macro_rules! c_call {
    ($c:ident($($arg:expr),*)) => {{
        // SAFETY: `safe` in the declaration claims that the types guarantee all that the function
        // requires. For its arguments, `ToC` does. For the `self` of a method, the invariants of
        // its type do.
        let ret = unsafe { ::kernel::bindings::$c($($arg),*) };
        // SAFETY: The declaration of the function claims that its result meets the requirements of
        // `FromC` for the type of the result.
        unsafe { $crate::ffi::call::FromC::from_c(ret) }
    }};
}

/// Defines a safe Rust function for each listed function of C. As in an `unsafe extern` block,
/// `safe` claims that the function can be called with any arguments that the types allow. The
/// compiler cannot check this claim.
///
/// [`ToC`] converts the arguments, and [`FromC`] the result. The compiler checks the converted
/// types against bindgen's signature.
macro_rules! c_functions {
    ($(
        $(#[$meta:meta])*
        $vis:vis safe fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = $c:ident;
    )*) => {
        $($(#[$meta])*
        #[inline]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            $(let $arg = $crate::ffi::call::ToC::to_c($arg);)*
            c_call!($c($($arg),*))
        })*
    };
}

/// Defines methods that call functions of C, and pass `self.as_ptr()` as the first argument. The
/// invariants of the type guarantee what C requires of that pointer. The other arguments are as in
/// `c_functions!`.
macro_rules! c_methods {
    ($(
        $(#[$meta:meta])*
        $vis:vis safe fn $name:ident(&$this:ident $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)?
            = $c:ident;
    )*) => {
        $($(#[$meta])*
        #[inline]
        $vis fn $name(&$this $(, $arg: $ty)*) $(-> $ret)? {
            $(let $arg = $crate::ffi::call::ToC::to_c($arg);)*
            c_call!($c($this.as_ptr() $(, $arg)*))
        })*
    };
}

/// Defines methods that call functions of C, and do not pass `self` to them. The invariants of the
/// type guarantee what C requires, such as a lock that is held. The arguments are as in
/// `c_functions!`.
macro_rules! c_guarded {
    ($(
        $(#[$meta:meta])*
        $vis:vis safe fn $name:ident(&self $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)? = $c:ident;
    )*) => {
        $($(#[$meta])*
        #[inline]
        $vis fn $name(&self $(, $arg: $ty)*) $(-> $ret)? {
            $(let $arg = $crate::ffi::call::ToC::to_c($arg);)*
            c_call!($c($($arg),*))
        })*
    };
}

/// Implements `Drop` for a type by a function of C. The invariants of the type guarantee what C
/// requires of the pointer, and say that the value owns what the function frees, puts, unlocks or
/// ends.
macro_rules! c_dropped {
    ($(
        $(#[$meta:meta])*
        fn drop($this:ident: $ty:ty) = $c:ident($ptr:expr);
    )*) => {$(
        $(#[$meta])*
        impl Drop for $ty {
            #[inline]
            fn drop(&mut self) {
                let $this = self;
                let ptr = $ptr;
                // SAFETY: By the invariants of the type, the pointer is as C requires, and the
                // value owns what the function frees, puts, unlocks or ends. The value is not used
                // after `drop()`.
                unsafe { ::kernel::bindings::$c(ptr) };
            }
        }
    )*};
}

/// Implements `Drop` for a type by a function of C that frees an object, or puts a reference to
/// it. The invariants of the type say that a value owns the object that its first field, a
/// `NonNull`, points to, or a reference to the object. The macro implements `FromC`, so that a
/// function of C can return such a value.
macro_rules! c_owned {
    ($(
        $(#[$meta:meta])*
        fn drop($ty:ty: $raw:ty) = $c:ident;
    )*) => {$(
        $(#[$meta])*
        impl $crate::ffi::call::FromC<::core::ptr::NonNull<$raw>> for $ty {
            /// # Safety
            ///
            /// C hands over what `raw` points to, or a reference to it. The new value meets the
            /// invariants of its type.
            #[inline]
            unsafe fn from_c(raw: ::core::ptr::NonNull<$raw>) -> Self {
                // INVARIANT: As required of the caller, the value owns what `raw` points to, or a
                // reference to it, and meets the other invariants of its type.
                Self(raw)
            }
        }

        c_dropped!($(#[$meta])* fn drop(this: $ty) = $c(this.0.as_ptr()););
    )*};
}

/// Defines functions that return references to static variables of C. C may access such a variable
/// at the same time, so its Rust type implements [`View`].
macro_rules! c_statics {
    ($(
        $(#[$meta:meta])*
        $vis:vis safe fn $name:ident() -> &$ty:ty = $c:ident $(. $field:ident)*;
    )*) => {
        $($(#[$meta])*
        #[inline]
        $vis fn $name() -> &'static $ty {
            // SAFETY: A static variable is initialized, aligned and never freed. `View` says that
            // Rust may access it as this type while C accesses it.
            unsafe {
                let raw: *mut <$ty as $crate::ffi::call::View>::C =
                    &raw mut ::kernel::bindings::$c $(. $field)*;
                &*raw.cast()
            }
        })*
    };
}

/// Converts one argument, or the `given` value, of a function that `c_exports!` defines.
macro_rules! c_argument {
    ($ty:ty, $raw:ty, $value:expr) => {
        // SAFETY: As required of the caller of the function, each argument and the `given` value
        // meet the requirements of `FromC` for their types. `body()` is generic over the lifetimes
        // that the types leave open, so it cannot keep such a value after it returns.
        unsafe { <$ty as $crate::ffi::call::FromC<$raw>>::from_c($value) }
    };
}

/// Defines functions that C calls. For an argument `name: Type = RawType`, C passes a `RawType`,
/// which [`FromC`] converts to a `Type`. The C caller must meet the requirements of this
/// conversion, and do what the documentation of the function says of the caller. The body is safe
/// code. It cannot keep an argument after it returns, unless the type of the argument has the
/// lifetime `'static`.
///
/// `given(name: Type)` after the arguments adds an argument of the body that C does not pass, for
/// a guarantee such as a lock that the C caller holds. `FromC<()>` for `Type` creates the value,
/// and states what the caller must guarantee. Do not use such a type for the result of a C
/// function, because the macros above would then create a value for any function that returns
/// `void`.
macro_rules! c_exports {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $ty:ty = $raw:ty),*)
            $(given($given:ident: $given_ty:ty))? $(-> $ret:ty)? $body:block
    )*) => {
        $($(#[$meta])*
        ///
        /// # Safety
        ///
        /// The caller does what the documentation above says of it. It meets the requirements of
        /// [`FromC`](crate::ffi::call::FromC) for the type of each argument, and of the `given`
        /// value.
        #[export]
        #[allow(unused_unsafe)]
        unsafe extern "C" fn $name($($arg: $raw),*) $(-> $ret)? {
            #[inline(always)]
            fn body($($arg: $ty,)* $($given: $given_ty)?) $(-> $ret)? $body

            $(let $arg = c_argument!($ty, $raw, $arg);)*
            $(let $given = c_argument!($given_ty, (), ());)?
            body($($arg,)* $($given)?)
        })*
    };
}

/// Asserts that a Rust type has the size of a C type, and that the listed fields have the same
/// offsets. If the types of the fields fit as well, a pointer to one type can be used as a pointer
/// to the other.
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
    mem::MaybeUninit,
    num::NonZero,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    cpu::CpuId,
    error::from_err_ptr,
    prelude::*,
    sync::atomic::{
        Atomic,
        AtomicType, //
    }, //
};

/// A type for a value that Rust and C access at the same time, on any CPU.
///
/// # Safety
///
/// The type has the layout of `C`. C accesses each field of the value as the type does: in one
/// piece if it is atomic, otherwise under the lock that protects it.
pub(crate) unsafe trait View: Sync {
    /// The type of the value in C.
    type C;
}

// SAFETY: An `Atomic<T>` has the layout of a `T`. C accesses in one piece each variable that Rust
// accesses as an `Atomic`.
unsafe impl<T: AtomicType> View for Atomic<T> {
    type C = T;
}

impl<T: View> Refines<NonNull<T::C>> for &T {
    type Base = NonNull<T::C>;

    /// # Safety
    ///
    /// `raw` points to a valid value, which is not freed while the reference is used.
    #[inline]
    unsafe fn refine(raw: NonNull<T::C>) -> Self {
        // SAFETY: As required of the caller, the value is valid and not freed. `View` says that
        // Rust may access it as this type.
        unsafe { raw.cast().as_ref() }
    }
}

/// A counter that C also accesses: C's `atomic_long_t`.
#[repr(transparent)]
pub(crate) struct AtomicLong(pub(crate) Atomic<i64>);

static_assert!(size_of::<AtomicLong>() == size_of::<bindings::atomic_long_t>());

// SAFETY: The layout is that of C's structure, which C accesses atomically.
unsafe impl View for AtomicLong {
    type C = bindings::atomic_long_t;
}

// SAFETY: The layout is that of C's array, and each element is a `View`.
unsafe impl<T: View, const N: usize> View for [T; N] {
    type C = [T::C; N];
}

/// A value that can be passed to a function of C, as `C`.
///
/// # Safety
///
/// The invariants of the type guarantee what C requires of the value while the function runs. If
/// `C` is a pointer that C follows, it points to a valid object.
pub(crate) unsafe trait ToC {
    /// The type of the value in C.
    type C;

    /// Converts the value to its C type.
    fn to_c(self) -> Self::C;
}

/// A value that C passes to Rust as `Raw`: an argument of a Rust function, or the result of a C
/// function.
pub(crate) trait FromC<Raw> {
    /// Converts the value from its C type.
    ///
    /// # Safety
    ///
    /// Each implementation states its requirements.
    unsafe fn from_c(raw: Raw) -> Self;
}

/// A type that requires all that [`Self::Base`] requires of the value from C, and more.
pub(crate) trait Refines<Raw> {
    /// The type whose requirements are among those of this type.
    type Base: FromC<Raw>;

    /// Converts a value of the base type about which C promises all that this type requires.
    ///
    /// # Safety
    ///
    /// Each implementation states its requirements.
    unsafe fn refine(base: Self::Base) -> Self;
}

impl<T: Refines<Raw>, Raw> FromC<Raw> for T {
    /// # Safety
    ///
    /// `raw` meets the requirements of `T::Base`, and those of [`Refines::refine`] for `T`.
    #[inline]
    unsafe fn from_c(raw: Raw) -> Self {
        // SAFETY: As required of the caller, `raw` meets the requirements of both functions.
        unsafe { T::refine(T::Base::from_c(raw)) }
    }
}

/// The result of a C function that returns `void`.
impl FromC<()> for () {
    /// # Safety
    ///
    /// Nothing is required.
    #[inline]
    unsafe fn from_c((): ()) {}
}

/// Implements [`ToC`] for types. The expression after `|this|` is what C gets for a value.
macro_rules! to_c {
    ($($(#[$meta:meta])* $ty:ty => $c:ty = |$this:ident| $value:expr $(;)?)*) => {$(
        $(#[$meta])*
        // SAFETY: C does not follow the value, or the value is a pointer to an object that is not
        // freed while the function runs, by the invariants of the type, or because the value is a
        // reference.
        unsafe impl $crate::ffi::call::ToC for $ty {
            type C = $c;

            #[inline]
            fn to_c(self) -> $c {
                let $this = self;
                $value
            }
        }
    )*};
}

/// Implements [`ToC`] and [`FromC`] for numbers and other types that are the same in C.
macro_rules! plain {
    ($($ty:ty),*) => {
        to_c!($($ty => $ty = |this| this;)*);

        $(impl FromC<$ty> for $ty {
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
    u8,
    u16,
    i32,
    u32,
    i64,
    u64,
    isize,
    usize,
    bindings::swp_entry_t
);

/// An error number of C, or 0.
impl FromC<c_int> for Result {
    /// # Safety
    ///
    /// Nothing is required.
    // Inline, unlike `to_result()`, because hot paths test results.
    #[inline]
    unsafe fn from_c(raw: c_int) -> Self {
        if raw == 0 {
            Ok(())
        } else {
            Err(Error::from_errno(raw))
        }
    }
}

/// A pointer about which C promises nothing.
impl<T> FromC<*const T> for *const T {
    /// # Safety
    ///
    /// Nothing is required.
    #[inline]
    unsafe fn from_c(raw: *const T) -> Self {
        raw
    }
}

impl<T> FromC<*mut T> for *mut T {
    /// # Safety
    ///
    /// Nothing is required.
    #[inline]
    unsafe fn from_c(raw: *mut T) -> Self {
        raw
    }
}

impl<T> FromC<NonNull<T>> for NonNull<T> {
    /// # Safety
    ///
    /// Nothing is required.
    #[inline]
    unsafe fn from_c(raw: NonNull<T>) -> Self {
        raw
    }
}

to_c!(CpuId => c_uint = |this| this.as_u32());
to_c!(NonZero<u32> => c_uint = |this| this.get());

// C may read and write the numbers that these pointers point to. It may write any value.
to_c!(&mut u16 => *mut u16 = |this| this);
to_c!(&mut u32 => *mut u32 = |this| this);
to_c!(&mut usize => *mut usize = |this| this);

/// A pointer that may be NULL, which is `None`.
impl<T: FromC<NonNull<Raw>>, Raw> FromC<*mut Raw> for Option<T> {
    /// # Safety
    ///
    /// `raw` is NULL, or meets the requirements of `T`.
    #[inline]
    unsafe fn from_c(raw: *mut Raw) -> Self {
        // SAFETY: As required of the caller, `raw` meets the requirements of `T`, unless it is
        // NULL.
        NonNull::new(raw).map(|raw| unsafe { T::from_c(raw) })
    }
}

/// A pointer that may be an error number of C, such as `ERR_PTR(-ENOMEM)`.
impl<T: FromC<*mut Raw>, Raw> FromC<*mut Raw> for Result<T> {
    /// # Safety
    ///
    /// `raw` is an error number, or meets the requirements of `T`.
    #[inline]
    unsafe fn from_c(raw: *mut Raw) -> Self {
        // SAFETY: As required of the caller, `raw` meets the requirements of `T` if it is no error
        // number.
        from_err_ptr(raw).map(|raw| unsafe { T::from_c(raw) })
    }
}

/// An argument or a result that is never NULL.
pub(crate) struct Present<T>(pub(crate) T);

impl<T: FromC<NonNull<Raw>>, Raw> FromC<*mut Raw> for Present<T> {
    /// # Safety
    ///
    /// `raw` is not NULL, and meets the requirements of `T`.
    #[inline]
    unsafe fn from_c(raw: *mut Raw) -> Self {
        // SAFETY: As required of the caller, `raw` is not NULL, and meets the requirements of `T`.
        Self(unsafe { T::from_c(NonNull::new_unchecked(raw)) })
    }
}

/// A place where a Rust function writes a result for C, or `None` if C passed NULL because it does
/// not want the result.
pub(crate) type OutPtr<'a, T> = Option<&'a mut MaybeUninit<T>>;

impl<T> FromC<NonNull<T>> for &mut MaybeUninit<T> {
    /// # Safety
    ///
    /// `raw` is aligned and valid for writes. Only the exported function accesses it while it
    /// runs.
    #[inline]
    unsafe fn from_c(raw: NonNull<T>) -> Self {
        // SAFETY: As required of the caller, `raw` is aligned and valid for writes, and only the
        // exported function accesses it. The memory of a `MaybeUninit` need not be initialized.
        unsafe { raw.cast().as_mut() }
    }
}

to_c! {
    /// A string that C reads.
    &CStr => *const c_char = |this| this.as_char_ptr();
}

impl FromC<*const c_char> for &CStr {
    /// # Safety
    ///
    /// `raw` is a NUL-terminated string that is neither freed nor changed while the exported
    /// function runs.
    #[inline]
    unsafe fn from_c(raw: *const c_char) -> Self {
        // SAFETY: As required of the caller, the string is neither freed nor changed while the
        // exported function runs, and the body of that function cannot keep it longer.
        unsafe { CStr::from_char_ptr(raw) }
    }
}
