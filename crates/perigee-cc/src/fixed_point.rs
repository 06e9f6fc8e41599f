//! The arithmetic that algorithms share (`algorithms/fixed_point.h`), callable so that it can be checked against floats.

mod c {
    unsafe extern "C" {
        pub(super) fn perigee_log2_fixed(x: u64) -> u32;
        pub(super) fn perigee_exp2_fixed(y: u32) -> u64;
        pub(super) fn perigee_power_fixed(x: u64, exponent: u32, shift: u32) -> u64;
        pub(super) fn perigee_divide(a: i64, b: i64) -> i64;
    }
}

/// `log2(x) << 16`, rounded down; `x` is at least 1.
///
/// ```
/// assert_eq!(perigee_cc::fixed_point::log2(8), 3 << 16);
/// ```
pub fn log2(x: u64) -> u32 {
    debug_assert!(x > 0, "the logarithm of zero");
    // SAFETY: a pure function of any number; zero gives a wrong value, nothing worse.
    unsafe { c::perigee_log2_fixed(x) }
}

/// `2^(y / 2^16)`, rounded down.
pub fn exp2(y: u32) -> u64 {
    // SAFETY: a pure function of any number.
    unsafe { c::perigee_exp2_fixed(y) }
}

/// `x^(exponent / 1000)` where `x` and the result are `<< shift`; `exponent` is at most 1000, `shift` below 32.
pub fn power(x: u64, exponent: u32, shift: u32) -> u64 {
    debug_assert!(exponent <= 1000 && shift < 32, "outside the function's range");
    // SAFETY: a pure function; its shifts are bounded by its own clamps.
    unsafe { c::perigee_power_fixed(x, exponent, shift) }
}

/// `a / b` rounded towards zero, and zero where `b` is.
pub fn divide(a: i64, b: i64) -> i64 {
    // SAFETY: a pure function of any numbers.
    unsafe { c::perigee_divide(a, b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn logarithms_are_within_one_part_of_65536_of_the_float(x in 1u64..) {
            let float = (x as f64).log2() * 65_536.0;
            let error = float - f64::from(log2(x));
            prop_assert!((-0.01..1.5).contains(&error), "log2({x}): {error}");
        }

        #[test]
        fn powers_of_two_are_within_a_hundred_thousandth_of_the_float(y in 0u32..(60 << 16)) {
            let float = (f64::from(y) / 65_536.0).exp2();
            let error = (exp2(y) as f64 - float).abs();
            prop_assert!(error <= 1.0 + float * 1e-5, "exp2({y}): {} and {float}", exp2(y));
        }

        #[test]
        fn the_utility_of_a_rate_is_within_a_ten_thousandth_of_the_float(
            x in 1u64..(200_000 << 10),
            exponent in 100u32..=1000,
        ) {
            let float = (x as f64 / 1024.0).powf(f64::from(exponent) / 1000.0) * 1024.0;
            let error = (power(x, exponent, 10) as f64 - float).abs();
            prop_assert!(error <= 1.5 + float * 1e-4, "{x}^{exponent}: {} and {float}", power(x, exponent, 10));
        }

        #[test]
        fn signed_quotients_are_those_of_the_host(a in any::<i64>(), b in any::<i64>()) {
            prop_assert_eq!(divide(a, b), a.checked_div(b).unwrap_or(if b == 0 { 0 } else { i64::MIN }));
        }
    }

    #[test]
    fn utility_rises_with_the_rate_so_that_a_gradient_exists() {
        // At five percent either way, as probes are, from 0.1 Mbit/s to 100 Gbit/s.
        let mut x = 102u64;
        while x < 100_000 << 10 {
            let (down, up) = (power(x * 95 / 100, 900, 10), power(x * 105 / 100, 900, 10));
            assert!(up > down, "flat at {x}");
            x = x * 11 / 10;
        }
    }
}
