//! Integer quantities: time in ns, rate in bit/s, size in bytes; a ratio is the one float.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// An instant since the start of a run, or a length of time, in nanoseconds.
///
/// Sums saturate at [`Time::MAX`], differences at [`Time::ZERO`]: a deadline that lies beyond the end of time is never.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The start of the run; also no time at all.
    pub const ZERO: Self = Self(0);
    /// Later than any instant of a run.
    pub const MAX: Self = Self(u64::MAX);

    /// From nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// From microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// From milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// From whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// From seconds as a float, rounded to the nearest nanosecond; negative or not-a-number gives zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round() as u64)
    }
    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds as a float.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Milliseconds as a float.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// `self - other`, or `None` where `other` is later.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(d) => Some(Self(d)),
            None => None,
        }
    }
}

impl Add for Time {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Time {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl Sub for Time {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}
impl SubAssign for Time {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}
impl Mul<u64> for Time {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}
impl Sum for Time {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// A data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// No rate at all: nothing is ever sent.
    pub const ZERO: Self = Self(0);
    /// Without limit: nothing waits to be sent.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// From bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }
    /// From megabits per second, rounded to the nearest bit per second.
    pub fn from_mbps(mbps: f64) -> Self {
        Self((mbps * 1e6).round() as u64)
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Megabits per second.
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Time to send `bytes` at this rate, rounded up to a nanosecond; [`Time::MAX`] at rate zero.
    ///
    /// A sender of many packets carries the remainder instead: see [`Rate::send_with_remainder`].
    pub fn time_to_send(self, bytes: Bytes) -> Time {
        match (self, u128::from(bytes.as_u64()) * 8 * NANOS_PER_SECOND) {
            (Self::UNLIMITED, _) => Time::ZERO,
            (Self::ZERO, _) => Time::MAX,
            (_, bit_ns) => Time::from_nanos(u64::try_from(bit_ns.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX)),
        }
    }
    /// Time to send `bytes`, rounded down, with the fraction of a nanosecond carried in `remainder` (bit-ns/s,
    /// always below the rate), so that n packets take exactly as long as one packet of their summed size.
    #[inline]
    pub fn send_with_remainder(self, bytes: Bytes, remainder: &mut u64) -> Time {
        if self == Self::UNLIMITED {
            return Time::ZERO;
        }
        if self.0 == 0 {
            return Time::MAX;
        }
        // A packet's bits times 1e9 fit in 64 bits up to 1 GiB; only larger sizes pay for the wide division.
        if bytes.as_u64() < (1 << 30) && *remainder < (1 << 62) {
            let total = bytes.as_u64() * 8_000_000_000 + *remainder;
            *remainder = total % self.0;
            return Time::from_nanos(total / self.0);
        }
        let total = u128::from(bytes.as_u64()) * 8 * NANOS_PER_SECOND + u128::from(*remainder);
        *remainder = (total % u128::from(self.0)) as u64;
        Time::from_nanos(u64::try_from(total / u128::from(self.0)).unwrap_or(u64::MAX))
    }
    /// The rate that sends `bytes` in `time`, of which a nanosecond is the least, rounded down.
    pub fn of(bytes: Bytes, time: Time) -> Self {
        let bit_ns = u128::from(bytes.as_u64()) * 8 * NANOS_PER_SECOND;
        Self(u64::try_from(bit_ns / u128::from(time.as_nanos().max(1))).unwrap_or(u64::MAX))
    }
    /// Whole bytes sent in `time` at this rate.
    pub fn bytes_in(self, time: Time) -> Bytes {
        if self == Self::UNLIMITED {
            return Bytes::new(u64::MAX);
        }
        let bytes = u128::from(self.0) * u128::from(time.as_nanos()) / (8 * NANOS_PER_SECOND);
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// From a count.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// The count.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// A share between 0 and 1 (a loss rate, a drop probability).
#[derive(Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Ratio(f64);

impl Ratio {
    /// None of it.
    pub const ZERO: Self = Self(0.0);
    /// All of it.
    pub const ONE: Self = Self(1.0);

    /// `share` where it lies in 0..=1, otherwise `None`.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }
    /// The share.
    pub const fn as_f64(self) -> f64 {
        self.0
    }
}

macro_rules! debug_as_display {
    ($($t:ty),*) => {$(
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
debug_as_display!(Time, Rate, Bytes, Ratio);

const NANOS_PER_SECOND: u128 = 1_000_000_000;
