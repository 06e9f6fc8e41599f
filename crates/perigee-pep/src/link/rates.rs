//! The rates of the link: fixed, by a schedule, or as the modem says.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use perigee_units::{Rate, Time};

use super::modem::Modem;
use crate::config::{RateSource, Rates, SatelliteLink};
use crate::host::clock::seconds_since_1970;

/// Where the rates come from.
#[derive(Debug)]
pub(super) enum Source {
    Fixed(Rates),
    Daily(Vec<(u64, Rates)>),
    Slots(Vec<(u64, Rates)>),
    /// Its thread ends with it.
    Modem(#[expect(dead_code, reason = "its thread ends with it")] Modem, Arc<Told>),
}

/// The last answer of the modem, and why there is none since.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<(Option<(Rates, Time)>, String)>);

/// The rates, and how old they are; or why they are not known.
pub(super) type Known = Result<(Rates, Time), String>;

impl Source {
    pub(super) fn open(link: &SatelliteLink) -> io::Result<Self> {
        Ok(match &link.source {
            RateSource::Fixed(rates) => Self::Fixed(*rates),
            RateSource::Daily(slots) => Self::Daily(slots.clone()),
            RateSource::Slots(path) => {
                let failed = |error| io::Error::other(format!("link.slots {}: {error}", path.display()));
                Self::Slots(slots(&fs::read_to_string(path).map_err(failed)?).map_err(failed_in(path))?)
            }
            asked @ (RateSource::Command(..) | RateSource::Http(..)) => {
                let told = Arc::new(Told::default());
                Self::Modem(Modem::start(asked.clone(), told.clone())?, told)
            }
        })
    }

    /// The rates at an instant, unless they are older than `oldest`.
    pub(super) fn rates(&self, oldest: Time, now: Time) -> Known {
        let (rates, age) = match self {
            Self::Fixed(rates) => (*rates, Time::ZERO),
            Self::Daily(slots) => (daily(slots, seconds_since_1970()), Time::ZERO),
            Self::Slots(slots) => slot(slots, seconds_since_1970()).ok_or("no slot has begun")?,
            Self::Modem(_, told) => told.last(now)?,
        };
        if age >= oldest {
            let why = if let Self::Modem(_, told) = self { told.why() } else { "the last slot is over".to_owned() };
            return Err(why);
        }
        Ok((rates, age))
    }
}

impl Told {
    pub(super) fn put(&self, answer: Result<Rates, String>, now: Time) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(rates) => *last = (Some((rates, now)), "the modem says nothing new".to_owned()),
            Err(why) => last.1 = why,
        }
    }

    fn last(&self, now: Time) -> Known {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match last.0 {
            Some((rates, at)) => Ok((rates, now - at)),
            None if last.1.is_empty() => Err("the modem has not answered yet".to_owned()),
            None => Err(last.1.clone()),
        }
    }

    fn why(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

/// The slot of the time of day; before the first it is still the last one of yesterday.
fn daily(slots: &[(u64, Rates)], seconds: u64) -> Rates {
    let of_day = seconds % DAY_S;
    let begun = slots.iter().rev().find(|(at, _)| *at <= of_day);
    begun.or(slots.last()).map_or(Rates::default(), |(_, rates)| *rates)
}

/// The slot that has begun last. One that others follow does not age.
fn slot(slots: &[(u64, Rates)], seconds: u64) -> Option<(Rates, Time)> {
    let next = slots.partition_point(|(at, _)| *at <= seconds);
    let (at, rates) = slots.get(next.checked_sub(1)?)?;
    let is_last = next == slots.len();
    Some((*rates, if is_last { Time::from_secs(seconds - at) } else { Time::ZERO }))
}

/// Reads lines `SECONDS, SEND, RECEIVE`; blank ones, and those after `#`, say nothing.
fn slots(text: &str) -> Result<Vec<(u64, Rates)>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let read = |(at, line): (usize, &str)| {
        let wrong = || format!("line {}: `{line}` is not `SECONDS, SEND, RECEIVE`", at + 1);
        let (seconds, rest) = line.split_once(',').ok_or_else(wrong)?;
        let rates = plain(rest).map_err(|why| format!("line {}: {why}", at + 1))?;
        Ok((seconds.trim().parse().map_err(|_| wrong())?, rates))
    };
    let mut slots: Vec<(u64, Rates)> = lines.map(read).collect::<Result<_, String>>()?;
    slots.sort_by_key(|(at, _)| *at);
    Ok(slots)
}

/// Rates as text: of what is sent and, after a comma, of what is received.
pub(super) fn plain(text: &str) -> Result<Rates, String> {
    let mut parts = text.trim().split(',').map(|part| rate(part.trim()));
    let rates = Rates { send: parts.next().transpose()?.flatten(), receive: parts.next().transpose()?.flatten() };
    match parts.next() {
        Some(_) => Err(format!("`{}` has more than two rates", text.trim())),
        None if rates == Rates::default() => Err("no rate is said".to_owned()),
        None => Ok(rates),
    }
}

/// A rate with its unit, or as a number of bit/s; an empty one is not said.
pub(super) fn rate(text: &str) -> Result<Option<Rate>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<f64>().ok().filter(|bps| (0.0..1e15).contains(bps));
    let rate = number.map(|bps| Rate::from_bps(bps as u64));
    match rate.or_else(|| text.parse().ok()) {
        Some(rate) if rate > Rate::ZERO && rate < Rate::UNLIMITED => Ok(Some(rate)),
        _ => Err(format!("`{text}` is no rate; say `20 Mbit/s`, or bit/s as a number")),
    }
}

fn failed_in(path: &std::path::Path) -> impl Fn(String) -> io::Error {
    move |why| io::Error::other(format!("link.slots {}: {why}", path.display()))
}

const DAY_S: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(send: u64, receive: u64) -> Rates {
        Rates { send: Some(Rate::from_bps(send)), receive: Some(Rate::from_bps(receive)) }
    }

    #[test]
    fn rates_are_numbers_or_have_units_and_anything_else_is_said() {
        assert_eq!(plain("20 Mbit/s, 2000000\n"), Ok(rates(20_000_000, 2_000_000)));
        assert_eq!(plain("1e6"), Ok(Rates { receive: None, ..rates(1_000_000, 1) }));
        assert_eq!(plain(", 5"), Ok(Rates { send: None, ..rates(1, 5) }));
        for wrong in ["", "0", "-1", "nan", "1, 2, 3", "twenty", "inf", "1e30"] {
            assert!(plain(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_day_begins_with_its_last_slot_and_the_last_of_a_file_grows_old() {
        let (day, night) = (rates(20, 2), rates(10, 1));
        let slots = [(6 * 3600, day), (22 * 3600, night)];
        for (hour, expected) in [(0, night), (6, day), (21, day), (23, night)] {
            assert_eq!(daily(&slots, 20_000 * DAY_S + hour * 3600), expected);
        }
        let file = super::slots("# from, send, receive\n200, 10, 1\n100, 20, 2\n").unwrap();
        assert_eq!(slot(&file, 99), None);
        assert_eq!(slot(&file, 199), Some((day, Time::ZERO)));
        assert_eq!(slot(&file, 260), Some((night, Time::from_secs(60))));
        assert!(super::slots("100, 20\nten, 5").unwrap_err().starts_with("line 2: "));
        let source = Source::Slots(file);
        assert_eq!(source.rates(Time::from_secs(60), Time::ZERO), Err("the last slot is over".to_owned()));
    }

    #[test]
    fn an_answer_grows_old_and_the_reason_is_the_last_failure() {
        let told = Told::default();
        assert!(told.last(Time::ZERO).is_err());
        told.put(Ok(rates(20, 2)), Time::from_secs(1));
        told.put(Err("refused".to_owned()), Time::from_secs(2));
        assert_eq!(told.last(Time::from_secs(3)), Ok((rates(20, 2), Time::from_secs(2))));
        assert_eq!(told.why(), "refused");
    }
}
