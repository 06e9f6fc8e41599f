//! Rates as the modem tells them: as text, and for how long.

use std::sync::{Mutex, PoisonError};

use perigee_units::{Rate, Time};

use crate::config::Rates;

/// The last answer of the modem, and why there is none since.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<(Option<(Rates, Time)>, String)>);

/// The rates, and how old they are; or why they are not known.
pub(super) type Known = Result<(Rates, Time), String>;

impl Told {
    pub(super) fn put(&self, answer: Result<Rates, String>, now: Time) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(rates) => *last = (Some((rates, now)), "the modem says nothing new".to_owned()),
            Err(why) => last.1 = why,
        }
    }

    pub(super) fn last(&self, now: Time) -> Known {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match last.0 {
            Some((rates, at)) => Ok((rates, now - at)),
            None if last.1.is_empty() => Err("the modem has not answered yet".to_owned()),
            None => Err(last.1.clone()),
        }
    }

    pub(super) fn why(&self) -> String {
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
    fn an_answer_grows_old_and_the_reason_is_the_last_failure() {
        let told = Told::default();
        assert!(told.last(Time::ZERO).is_err());
        told.put(Ok(rates(20, 2)), Time::from_secs(1));
        told.put(Err("refused".to_owned()), Time::from_secs(2));
        assert_eq!(told.last(Time::from_secs(3)), Ok((rates(20, 2), Time::from_secs(2))));
        assert_eq!(told.why(), "refused");
    }
}
