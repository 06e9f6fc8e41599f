//! The rates of the link: fixed, by a schedule, or as the modem says.

use std::fs;
use std::io;
use std::sync::Arc;

use perigee_units::Time;

use super::modem::Modem;
use super::told::{plain, Known, Told};
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

fn failed_in(path: &std::path::Path) -> impl Fn(String) -> io::Error {
    move |why| io::Error::other(format!("link.slots {}: {why}", path.display()))
}

const DAY_S: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_units::Rate;

    fn rates(send: u64, receive: u64) -> Rates {
        Rates { send: Some(Rate::from_bps(send)), receive: Some(Rate::from_bps(receive)) }
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
}
