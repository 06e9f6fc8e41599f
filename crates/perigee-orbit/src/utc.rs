//! Instants of UTC.

use std::fmt;

use perigee_units::{Encode, Time};
use sgp4::chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};

/// An instant of UTC, ns since 1970 in days of 86,400 s: leap seconds are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc(i64);

impl Utc {
    /// Noon of 1 January 2000.
    pub const J2000: Self = Self(946_728_000_000_000_000);

    /// The begin of a day that is written as `2024-05-01`; `None`: it is no such day, or none from 1957 to 2200.
    ///
    /// ```
    /// use perigee_orbit::Utc;
    /// assert_eq!(Utc::day("2000-01-01").unwrap().to_string(), "2000-01-01T00:00:00.000");
    /// assert_eq!(Utc::day("2023-02-29"), None);
    /// ```
    pub fn day(text: &str) -> Option<Self> {
        let date: NaiveDate = text.parse().ok()?;
        Self::of(date.and_hms_opt(0, 0, 0)?)
    }

    /// An instant that is written as in an orbit mean-elements message: `2024-05-01T12:00:00.123456`.
    pub fn instant(text: &str) -> Option<Self> {
        Self::of(text.trim_end_matches('Z').parse().ok()?)
    }

    pub(crate) fn of(instant: NaiveDateTime) -> Option<Self> {
        let utc = Self(instant.and_utc().timestamp_nanos_opt()?);
        (FIRST..LAST).contains(&utc.0).then_some(utc)
    }

    /// Nanoseconds since 1970.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The instant so much later; before 1677 and after 2262, the last that can be written.
    #[must_use]
    pub fn plus_nanos(self, ns: i64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// The begin of its day.
    #[must_use]
    pub fn midnight(self) -> Self {
        Self(self.0 - self.0.rem_euclid(DAY_NS))
    }

    /// Seconds since another instant.
    pub fn seconds_since(self, other: Self) -> f64 {
        (self.0 - other.0) as f64 * 1e-9
    }

    /// Whole days and the nanoseconds of the next one since [`Utc::J2000`].
    pub(crate) fn days_since_j2000(self) -> (i64, i64) {
        let since = self.0 - Self::J2000.0;
        (since.div_euclid(DAY_NS), since.rem_euclid(DAY_NS))
    }
}

impl std::ops::Add<Time> for Utc {
    type Output = Self;

    fn add(self, time: Time) -> Self {
        self.plus_nanos(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = DateTime::from_timestamp_nanos(self.0).naive_utc();
        let (year, month, day) = (t.year(), t.month(), t.day());
        let (hour, minute, second, ms) = (t.hour(), t.minute(), t.second(), t.nanosecond() / 1_000_000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}")
    }
}

impl Encode for Utc {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        (self.0 as u64).encode(out)
    }
}

const DAY_NS: i64 = 86_400_000_000_000;
/// The begin of 1957, before which nothing was in orbit, ns.
const FIRST: i64 = -410_227_200_000_000_000;
/// The begin of 2200, ns.
const LAST: i64 = 7_258_118_400_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_begin_at_midnight_and_j2000_is_a_noon() {
        let noon = Utc::instant("2000-01-01T12:00:00").unwrap();
        assert_eq!(noon, Utc::J2000);
        assert_eq!(noon.midnight(), Utc::day("2000-01-01").unwrap());
        assert_eq!(Utc::day("2000-01-03").unwrap().days_since_j2000(), (1, DAY_NS / 2));
        assert_eq!(Utc::day("1999-12-31").unwrap().days_since_j2000(), (-2, DAY_NS / 2));
    }

    #[test]
    fn what_is_no_day_of_the_space_age_is_none() {
        let texts = ["", "2024", "2024-13-01", "01.05.2024", "1956-12-31", "2200-01-01", "9999999-01-01"];
        assert_eq!(texts.map(Utc::day), [None; 7]);
        assert!(Utc::day("1957-01-01").is_some() && Utc::day("2199-12-31").is_some());
    }
}
