//! The arithmetic that algorithms share (`algorithms/fixed_point.h`), compared with floats.

use std::path::Path;
use std::sync::LazyLock;

use libloading::Library;
use proptest::prelude::*;

/// The functions of the header, compiled with the flags of an algorithm.
struct Functions {
    log2: unsafe extern "C" fn(u64) -> u32,
    exp2: unsafe extern "C" fn(u32) -> u64,
    power: unsafe extern "C" fn(u64, u32, u32) -> u64,
    divide: unsafe extern "C" fn(i64, i64) -> i64,
    _library: Library,
}

#[allow(clippy::disallowed_methods, reason = "a test removes the library that it has loaded")]
static C: LazyLock<Functions> = LazyLock::new(|| {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fixed_point-{}.so", std::process::id()));
    let (source, headers) = (here.join("tests/laws/fixed_point.c"), here.join("../../algorithms"));
    let warnings = perigee_cc_build::shared_library(&source, &headers, &library, &mut || true);
    assert_eq!(warnings.unwrap_or_else(|error| panic!("{error}")), "");
    // SAFETY: the library has no constructors, and its functions are pure functions of these types.
    unsafe {
        let loaded = Library::new(&library).expect("the library just made");
        std::fs::remove_file(&library).expect("it is there");
        Functions {
            log2: *loaded.get(b"perigee_log2_fixed").expect("exported"),
            exp2: *loaded.get(b"perigee_exp2_fixed").expect("exported"),
            power: *loaded.get(b"perigee_power_fixed").expect("exported"),
            divide: *loaded.get(b"perigee_divide").expect("exported"),
            _library: loaded,
        }
    }
});

fn log2(x: u64) -> u32 {
    // SAFETY: a pure function of any number.
    unsafe { (C.log2)(x) }
}

fn exp2(y: u32) -> u64 {
    // SAFETY: a pure function of any number.
    unsafe { (C.exp2)(y) }
}

fn power(x: u64, exponent: u32, shift: u32) -> u64 {
    // SAFETY: a pure function; its shifts are bounded by its own clamps.
    unsafe { (C.power)(x, exponent, shift) }
}

fn divide(a: i64, b: i64) -> i64 {
    // SAFETY: a pure function of any numbers.
    unsafe { (C.divide)(a, b) }
}

#[test]
fn the_logarithm_of_a_power_of_two_is_exact() {
    assert_eq!(log2(8), 3 << 16);
}

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
fn the_utility_of_a_higher_rate_is_higher() {
    // 5 % above and below the rate, as in probes, from 0.1 Mbit/s to 100 Gbit/s.
    let mut x = 102u64;
    while x < 100_000 << 10 {
        let (down, up) = (power(x * 95 / 100, 900, 10), power(x * 105 / 100, 900, 10));
        assert!(up > down, "flat at {x}");
        x = x * 11 / 10;
    }
}
