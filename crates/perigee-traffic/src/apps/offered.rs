//! The rate at which an application offers data, and its changes.

use std::fmt::{self, Display, Formatter};

use perigee_units::{encode_struct, Rate, Time};

use crate::conversation::Action;

/// A rate of an application from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Its beginning, counted from the start of the flow.
    pub at: Time,
    /// Payload per second; zero: the application is silent; unlimited: it offers as much as the send buffer takes.
    pub rate: Rate,
}

encode_struct!(Offered { at, rate });

impl Display for Offered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { at, rate } = self;
        if *at > Time::ZERO {
            write!(f, "from {at} on ")?;
        }
        match *rate {
            Rate::ZERO => f.write_str("nothing"),
            Rate::UNLIMITED => f.write_str("without limit"),
            _ => write!(f, "{rate}"),
        }
    }
}

/// An application that offers data at these rates, one after the other.
///
/// It writes every millisecond, or less often where the rate gives less than [`LEAST_WRITE`] in that time. A rate that ends withdraws what
/// the send buffer has not taken.
#[derive(Debug)]
pub(super) struct Schedule {
    /// In order of time; the first begins with the flow.
    rates: Vec<Offered>,
    /// Start of the flow.
    start: Time,
    /// Number of the rate that holds; `None`: none has begun.
    now_at: Option<usize>,
    /// When the application began to offer at this rate.
    since: Time,
    /// Bytes offered at this rate.
    bytes: u64,
}

impl Schedule {
    pub(super) fn new(rates: Vec<Offered>, start: Time) -> Self {
        Self { rates, start, now_at: None, since: start, bytes: 0 }
    }

    /// The next action before `until`, with at most `left` bytes to offer.
    pub(super) fn next(&mut self, now: Time, until: Time, left: u64) -> Action {
        let begun = self.rates.iter().rposition(|offered| self.start + offered.at <= now);
        if begun.is_some() && begun != self.now_at {
            let is_first = self.now_at.is_none();
            (self.now_at, self.since, self.bytes) = (begun, now, 0);
            if !is_first {
                return Action::Withdraw;
            }
        }
        let Some(place) = self.now_at else { return Action::Wait(self.start) };
        let next = self.rates.get(place + 1).map_or(Time::MAX, |offered| self.start + offered.at).min(until);
        let bps = match self.rates[place].rate {
            Rate::ZERO => return Action::Wait(next),
            Rate::UNLIMITED if self.bytes > 0 => return Action::Wait(next),
            Rate::UNLIMITED => {
                self.bytes = u64::MAX;
                return Action::Fill { until: next };
            }
            rate => rate.as_bps(),
        };
        let block = (bps / BITS_PER_BYTE / WRITES_PER_S).max(LEAST_WRITE);
        // The first write is due at once.
        let passed = u128::from((now - self.since).as_nanos()) * u128::from(bps);
        let due = (passed / u128::from(block * BITS_PER_BYTE * NANOS_PER_S)) as u64 + 1;
        // A write at a time, so that one that blocks is short.
        let write = due.saturating_mul(block).saturating_sub(self.bytes).min(block).min(left);
        if write > 0 {
            self.bytes += write;
            return Action::Write(write);
        }
        let bits = u128::from(self.bytes) * u128::from(BITS_PER_BYTE * NANOS_PER_S);
        let at = self.since + Time::from_nanos(bits.div_ceil(u128::from(bps)) as u64);
        Action::Wait(at.min(next))
    }
}

/// Smallest write: the payload of a usual segment, bytes.
const LEAST_WRITE: u64 = 1448;
const WRITES_PER_S: u64 = 1000;
const BITS_PER_BYTE: u64 = 8;
const NANOS_PER_S: u64 = 1_000_000_000;
