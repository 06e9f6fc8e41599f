//! The macros that make settings of a list, and the types that a setting can have.

use perigee_units::{Bytes, Time};

use crate::value::Value;

/// The type of a field of [`Config`].
pub(crate) trait Field: Copy {
    fn value(self) -> Value;
    fn of(value: Value) -> Option<Self>;
}

/// Puts a value into a field, if it is of the field's type.
pub(crate) fn put<T: Field>(field: &mut T, value: Value) -> Option<()> {
    *field = T::of(value)?;
    Some(())
}

macro_rules! field {
    ($($type:ty: $variant:ident;)+) => {$(
        impl Field for $type {
            fn value(self) -> Value {
                Value::$variant(self)
            }
            fn of(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
    )+};
}
field! {
    bool: Switch;
    u32: Count;
    Time: Duration;
    Bytes: Size;
    [Bytes; 3]: Sizes;
}

/// A size of 16 bits, as that of a segment.
impl Field for u16 {
    fn value(self) -> Value {
        Value::Size(Bytes::new(u64::from(self)))
    }
    fn of(value: Value) -> Option<Self> {
        Bytes::of(value)?.as_u64().try_into().ok()
    }
}

/// Defines a setting's enum: a word for each variant.
macro_rules! choice {
    ($(#[$about:meta])* $choice:ident { $($(#[$meaning:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $choice {
            $($(#[$meaning])* $variant,)+
        }

        impl $choice {
            const WORDS: &'static [&'static str] = &[$($word),+];

            const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl Field for $choice {
            fn value(self) -> Value {
                Value::Choice(self.word())
            }
            fn of(value: Value) -> Option<Self> {
                match value {
                    $(Value::Choice($word) => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use choice;

/// Defines [`Config`], its default, and [`SETTINGS`], from one entry for each setting: its documentation; its name, type,
/// default and, of numbers, least and greatest value; its name in reports; how the kernel takes it.
macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        $name:ident: $type:tt = $default:tt $(in $min:tt to $max:tt)?, report $report:literal, kernel $kernel:expr;
    )+) => {
        /// Settings of one endpoint. Each feature can be switched off, for studies of older stacks.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $($(#[doc = $about])+ pub $name: $type,)+
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($name: settings!(@value $type $default),)+ }
            }
        }

        /// Every setting, in the order in which they are best written.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            domain: settings!(@domain $type $($min $max)?),
            default: settings!(@text $type $default),
            about: concat!($($about),+).trim_ascii(),
            report: $report,
            kernel: $kernel,
            read: |config| config.$name.value(),
            write: |config, value| put(&mut config.$name, value),
        },)+];
    };

    (@value u16 ($size:literal B)) => { $size };
    (@value Bytes ($size:literal B)) => { Bytes::new($size) };
    (@value [Bytes; 3] [$($size:tt),+]) => { [$(settings!(@value Bytes $size)),+] };
    (@value Time ($time:literal us)) => { Time::from_micros($time) };
    (@value Time ($time:literal ms)) => { Time::from_millis($time) };
    (@value Time ($time:literal s)) => { Time::from_secs($time) };
    (@value $number:ident $plain:literal) => { $plain };
    (@value $choice:ident $variant:ident) => { $choice::$variant };

    (@text [Bytes; 3] [$($size:tt),+]) => { concat!("[", settings!(@quoted $($size),+), "]") };
    (@text $type:ident ($number:literal $unit:ident)) => { concat!(stringify!($number), " ", stringify!($unit)) };
    (@text $number:ident $plain:literal) => { stringify!($plain) };
    (@text $choice:ident $variant:ident) => { $choice::$variant.word() };
    (@quoted ($number:literal B)) => { concat!("\"", stringify!($number), " B\"") };
    (@quoted $size:tt, $($rest:tt),+) => { concat!(settings!(@quoted $size), ", ", settings!(@quoted $($rest),+)) };

    (@domain bool) => { Domain::Switch };
    (@domain [Bytes; 3]) => { Domain::Sizes };
    (@domain u32 $min:literal $max:literal) => { Domain::Count { min: $min, max: $max } };
    (@domain Time $min:tt $max:tt) => {
        Domain::Duration { min: settings!(@value Time $min), max: settings!(@value Time $max) }
    };
    // Sizes are `Bytes`, or the 16 bits of a segment's.
    (@domain $size:ident $min:tt $max:tt) => {
        Domain::Size { min: settings!(@value Bytes $min), max: settings!(@value Bytes $max) }
    };
    (@domain $choice:ident) => { Domain::Choice($choice::WORDS) };
}
pub(crate) use settings;
