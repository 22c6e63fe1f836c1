// SPDX-License-Identifier: GPL-2.0

//! Functions of C that ask little of their caller: a list instead of a wrapper for each.

/// Makes functions of those of C that require nothing.
macro_rules! c_functions {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = $c:ident;
    )*) => {
        $($(#[$meta])*
        #[inline]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: No requirements.
            unsafe { ::kernel::bindings::$c($($arg),*) }
        })*
    };
}

/// Makes methods of functions of C that get the pointer of `self`, and require no more than the
/// invariants of the type say of it.
macro_rules! c_methods {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident(&$this:ident $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)? = $c:ident;
    )*) => {
        $($(#[$meta])*
        #[inline]
        $vis fn $name(&$this $(, $arg: $ty)*) $(-> $ret)? {
            // SAFETY: By the invariants of the type.
            unsafe { ::kernel::bindings::$c($this.as_ptr() $(, $arg)*) }
        })*
    };
}
