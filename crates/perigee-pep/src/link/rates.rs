//! The rates of the link: fixed, by a schedule, or as the modem says.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use perigee_text::StrictError;
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
    /// Opens the source; `known` are the rates until a modem has said others, and when they were said.
    pub(super) fn open(link: &SatelliteLink, known: Option<(Rates, Time)>) -> io::Result<Self> {
        Ok(match &link.source {
            RateSource::Fixed(rates) => Self::Fixed(*rates),
            RateSource::Daily(slots) => Self::Daily(slots.clone()),
            RateSource::Slots(path) => {
                let text = fs::read_to_string(path).map_err(|error| error.to_string());
                let read = text.and_then(|text| slots(&text)).map_err(|why| {
                    let fix = "give a file with lines `SECONDS, SEND, RECEIVE` in the order of time";
                    wrong(link, format!("`link.slots` {}: {why}", path.display()), fix)
                });
                Self::Slots(read?)
            }
            asked @ (RateSource::Command(..) | RateSource::Http(..)) => {
                let told = Arc::new(Told::new(known));
                Self::Modem(Modem::start(asked.clone(), told.clone())?, told)
            }
        })
    }

    /// Why the modem, if one is asked, has said no rates the last time.
    pub(super) fn failure(&self) -> Option<String> {
        if let Self::Modem(_, told) = self {
            told.failure()
        } else {
            None
        }
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
            let Self::Modem(_, told) = self else { return Err("the last slot is over".to_owned()) };
            return Err(told.failure().unwrap_or_else(|| "the modem says nothing new".to_owned()));
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
    let read = |(at, line): (usize, &str)| -> Result<_, String> {
        let wrong = || format!("line {}: `{line}` is not `SECONDS, SEND, RECEIVE`", at + 1);
        let (seconds, rest) = line.split_once(',').ok_or_else(wrong)?;
        let rates = plain(rest).map_err(|why| format!("line {}: {why}", at + 1))?;
        Ok((seconds.trim().parse().map_err(|_| wrong())?, rates))
    };
    let mut slots: Vec<(u64, Rates)> = Vec::new();
    for line in lines {
        let (number, slot) = (line.0 + 1, read(line)?);
        if slots.last().is_some_and(|(before, _)| *before >= slot.0) {
            return Err(format!("line {number}: {} is not after the second of the line before", slot.0));
        }
        slots.push(slot);
    }
    if slots.is_empty() {
        return Err("it has no slot".to_owned());
    }
    Ok(slots)
}

/// Checks the files that the source of rates needs.
pub(super) fn check(link: &SatelliteLink) -> io::Result<()> {
    match &link.source {
        RateSource::Slots(_) => Source::open(link, None).map(drop),
        RateSource::Command(words, _) => {
            let fix = "name a program that may be executed";
            let refused = |why: &str| wrong(link, format!("`link.command` {}: {why}", words[0]), fix);
            let file = fs::metadata(&words[0]).map_err(|error| refused(&error.to_string()))?;
            let is_program = file.is_file() && file.permissions().mode() & 0o111 != 0;
            is_program.then_some(()).ok_or_else(|| refused("it is no file that can be executed"))
        }
        _ => Ok(()),
    }
}

/// An error of the source of rates, with its line in the configuration.
fn wrong(link: &SatelliteLink, message: String, fix: &str) -> io::Error {
    io::Error::other(StrictError::new(&link.source_at, message, fix))
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
        let file = super::slots("# from, send, receive\n100, 200000, 100000\n200, 100000, 64000\n").unwrap();
        let [day, night] = [rates(200_000, 100_000), rates(100_000, 64_000)];
        assert_eq!(slot(&file, 99), None);
        assert_eq!(slot(&file, 199), Some((day, Time::ZERO)));
        assert_eq!(slot(&file, 260), Some((night, Time::from_secs(60))));
        for (text, wrong) in [
            ("100, 2e6\nten, 2e6", "line 2: `ten, 2e6` is not `SECONDS, SEND, RECEIVE`"),
            ("100, 2e6\n\n99, 2e6", "line 3: 99 is not after the second of the line before"),
            ("100, 20", "line 1: `20` is out of range: a link has 64 kbit/s to 400 Gbit/s"),
            ("# none", "it has no slot"),
        ] {
            assert_eq!(super::slots(text).unwrap_err(), wrong);
        }
        let source = Source::Slots(file);
        assert_eq!(source.rates(Time::from_secs(60), Time::ZERO), Err("the last slot is over".to_owned()));
    }
}
