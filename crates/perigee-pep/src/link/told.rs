//! Rates as the modem tells them: as text, and for how long.

use std::sync::{Mutex, PoisonError};

use perigee_units::{Rate, Time};

use crate::config::{Rates, SatelliteLink};

/// The last answer of the modem with rates, and why the last question has brought none.
#[derive(Debug)]
pub(super) struct Told(Mutex<Last>);

type Last = (Option<(Rates, Time)>, Option<String>);

/// The rates, and how old they are; or why they are not known.
pub(super) type Known = Result<(Rates, Time), String>;

impl Told {
    /// No answer yet; `known` are rates of another source, and when it had them.
    pub(super) fn new(known: Option<(Rates, Time)>) -> Self {
        Self(Mutex::new((known, None)))
    }

    pub(super) fn put(&self, answer: Result<Rates, String>, now: Time) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(rates) => *last = (Some((rates, now)), None),
            Err(why) => last.1 = Some(why),
        }
    }

    pub(super) fn last(&self, now: Time) -> Known {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match last.0 {
            Some((rates, at)) => Ok((rates, now - at)),
            None => Err(last.1.clone().unwrap_or_else(|| "the modem has not answered yet".to_owned())),
        }
    }

    /// Why the last question has brought no rates.
    pub(super) fn failure(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
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

/// A rate that a link may have, with its unit or as a number of bit/s; an empty one is not said.
pub(super) fn rate(text: &str) -> Result<Option<Rate>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<f64>().ok().filter(|bps| (0.0..1e15).contains(bps));
    let rate = number.map(|bps| Rate::from_bps(bps as u64)).or_else(|| text.parse().ok());
    let rate = rate.ok_or_else(|| format!("`{text}` is no rate; say `20 Mbit/s`, or bit/s as a number"))?;
    if SatelliteLink::RATES.contains(&rate) {
        return Ok(Some(rate));
    }
    let (least, most) = (SatelliteLink::RATES.start(), SatelliteLink::RATES.end());
    Err(format!("`{text}` is out of range: a link has {least} to {most}"))
}

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
        assert_eq!(plain(", 64000"), Ok(Rates { send: None, ..rates(1, 64_000) }));
        for wrong in ["", "0", "-1", "nan", "1e6, 1e6, 1e6", "twenty", "inf", "1e30"] {
            assert!(plain(wrong).is_err(), "{wrong}");
        }
        // As an answer that was cut, or in another unit.
        for wrong in ["63999", "8000000, 20", "401 Gbit/s"] {
            assert!(
                plain(wrong).unwrap_err().ends_with("is out of range: a link has 64 kbit/s to 400 Gbit/s"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_answer_grows_old_and_the_reason_is_the_last_failure() {
        let told = Told::new(None);
        assert_eq!(told.last(Time::ZERO), Err("the modem has not answered yet".to_owned()));
        assert_eq!(
            Told::new(Some((rates(9, 1), Time::ZERO))).last(Time::from_secs(2)),
            Ok((rates(9, 1), Time::from_secs(2)))
        );
        told.put(Ok(rates(20, 2)), Time::from_secs(1));
        told.put(Err("refused".to_owned()), Time::from_secs(2));
        assert_eq!(told.last(Time::from_secs(3)), Ok((rates(20, 2), Time::from_secs(2))));
        assert_eq!(told.failure().as_deref(), Some("refused"));
        told.put(Ok(rates(20, 2)), Time::from_secs(4));
        assert_eq!(told.failure(), None);
    }
}
