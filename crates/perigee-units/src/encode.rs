//! A written form of settings, from which their fingerprints are computed.
//!
//! Different values have different forms. The form of a struct or an enum names its fields or its variant, see
//! [`encode_struct`](crate::encode_struct) and [`encode_enum`](crate::encode_enum); a field that is missing there is an error of
//! the compiler.

use std::fmt::{self, Write};
use std::sync::Arc;

use crate::hash::Fnv;
use crate::{Bytes, Rate, Ratio, Time};

/// A value that has a written form.
pub trait Encode {
    /// Writes it to `out`.
    ///
    /// # Errors
    /// Returns the error of `out`.
    fn encode(&self, out: &mut dyn Write) -> fmt::Result;
}

/// The hash of a value's written form (64-bit FNV-1a).
///
/// ```
/// use perigee_units::{fingerprint, Time};
///
/// assert_eq!(fingerprint("a"), perigee_units::fnv1a(*b"1:a"));
/// assert_eq!(fingerprint(&Some(Time::from_micros(2))), perigee_units::fnv1a(*b"+2000"));
/// ```
pub fn fingerprint(value: &(impl Encode + ?Sized)) -> u64 {
    let mut hash = Fnv::default();
    // Writing into a number cannot fail.
    let _ = value.encode(&mut hash);
    hash.value()
}

/// Gives a struct its written form: its fields by their names, all of which have to be listed.
///
/// ```
/// struct Pulse { at: perigee_units::Time, is_last: bool }
/// perigee_units::encode_struct!(Pulse { at, is_last });
///
/// let mut text = String::new();
/// perigee_units::Encode::encode(&Pulse { at: perigee_units::Time::from_micros(1), is_last: true }, &mut text)?;
/// assert_eq!(text, "{at=1000,is_last=true,}");
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[macro_export]
macro_rules! encode_struct {
    ($type:ty { $($field:ident),+ $(,)? }) => {
        impl $crate::Encode for $type {
            fn encode(&self, out: &mut dyn ::std::fmt::Write) -> ::std::fmt::Result {
                let Self { $($field),+ } = self;
                out.write_str("{")?;
                $(
                    out.write_str(concat!(stringify!($field), "="))?;
                    $crate::Encode::encode($field, out)?;
                    out.write_str(",")?;
                )+
                out.write_str("}")
            }
        }
    };
}

/// Gives an enum its written form: the variant's name and what is in it, all of which has to be listed.
///
/// ```
/// enum Amount { All, Size(u64), Share { of: u64 } }
/// perigee_units::encode_enum!(Amount { All, Size(size), Share { of } });
///
/// let mut text = String::new();
/// for amount in [Amount::All, Amount::Size(3), Amount::Share { of: 4 }] {
///     perigee_units::Encode::encode(&amount, &mut text)?;
/// }
/// assert_eq!(text, "All{}Size{3,}Share{of=4,}");
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[macro_export]
macro_rules! encode_enum {
    ($type:ty {
        $($variant:ident $(( $($place:ident),+ ))? $({ $($field:ident),+ $(,)? })?),+ $(,)?
    }) => {
        impl $crate::Encode for $type {
            fn encode(&self, out: &mut dyn ::std::fmt::Write) -> ::std::fmt::Result {
                match self {
                    $(Self::$variant $(( $($place),+ ))? $({ $($field),+ })? => {
                        out.write_str(concat!(stringify!($variant), "{"))?;
                        $($(
                            $crate::Encode::encode($place, out)?;
                            out.write_str(",")?;
                        )+)?
                        $($(
                            out.write_str(concat!(stringify!($field), "="))?;
                            $crate::Encode::encode($field, out)?;
                            out.write_str(",")?;
                        )+)?
                    })+
                }
                out.write_str("}")
            }
        }
    };
}

/// Numbers in decimal, times in ns, rates in bit/s, sizes in bytes; `true` and `false`.
macro_rules! encode_as {
    ($($type:ty: $value:ident => $written:expr;)+) => {$(
        impl Encode for $type {
            fn encode(&self, out: &mut dyn Write) -> fmt::Result {
                let $value = *self;
                write!(out, "{}", $written)
            }
        }
    )+};
}
encode_as! {
    bool: on => on;
    u16: number => number;
    u32: number => number;
    u64: number => number;
    // Its bits: the text of a float depends on who writes it.
    f64: number => number.to_bits();
    Time: time => time.as_nanos();
    Rate: rate => rate.as_bps();
    Bytes: size => size.as_u64();
    Ratio: ratio => ratio.as_f64().to_bits();
}

/// Its length in bytes before it, so that no text is taken for what follows it.
impl Encode for str {
    fn encode(&self, out: &mut dyn Write) -> fmt::Result {
        write!(out, "{}:{self}", self.len())
    }
}

impl Encode for String {
    fn encode(&self, out: &mut dyn Write) -> fmt::Result {
        self.as_str().encode(out)
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut dyn Write) -> fmt::Result {
        match self {
            Some(value) => {
                out.write_str("+")?;
                value.encode(out)
            }
            None => out.write_str("-"),
        }
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_str("[")?;
        for value in self {
            value.encode(out)?;
            out.write_str(",")?;
        }
        out.write_str("]")
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut dyn Write) -> fmt::Result {
        self.as_slice().encode(out)
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, out: &mut dyn Write) -> fmt::Result {
        self.0.encode(out)?;
        out.write_str(";")?;
        self.1.encode(out)
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, out: &mut dyn Write) -> fmt::Result {
        (**self).encode(out)
    }
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    fn encode(&self, out: &mut dyn Write) -> fmt::Result {
        (**self).encode(out)
    }
}

impl<T: Encode + ?Sized> Encode for Arc<T> {
    fn encode(&self, out: &mut dyn Write) -> fmt::Result {
        (**self).encode(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Nested = Vec<(Option<String>, Vec<(u64, bool)>)>;

    fn written(value: &impl Encode) -> String {
        let mut text = String::new();
        value.encode(&mut text).expect("a String takes all");
        text
    }

    fn nested() -> impl Strategy<Value = Nested> {
        // Letters that the form itself has.
        let text = prop::option::of("[-+:,;0-2\\[\\]{}=a]{0,4}");
        prop::collection::vec((text, prop::collection::vec((0u64..20, any::<bool>()), 0..3)), 0..3)
    }

    proptest! {
        #[test]
        fn two_values_have_the_same_form_only_where_they_are_equal(a in nested(), b in nested()) {
            prop_assert_eq!(written(&a) == written(&b), a == b);
        }
    }

    #[test]
    fn texts_do_not_run_into_each_other() {
        assert_ne!(written(&vec!["ab".to_owned(), "c".into()]), written(&vec!["a".to_owned(), "bc".into()]));
        assert_ne!(written(&vec!["a,1:b".to_owned()]), written(&vec!["a".to_owned(), "b".into()]));
    }

    #[test]
    fn a_float_counts_to_its_last_bit() {
        assert_ne!(written(&0.1), written(&f64::from_bits(0.1f64.to_bits() + 1)));
    }
}
