//! Bulk transfers: `from` sends as fast as possible or at the rate of its application, for a size or for a time.

use std::fmt::{self, Display, Formatter};

use perigee_results::Amount;
use perigee_units::{encode_struct, Stream, Time};

use super::application::Application;
use super::offered::{Offered, Schedule};
use crate::conversation::{Action, Closing, Conversation, End, Facts, Goal};
use crate::exchanges::Exchanges;

/// One transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// The size or the duration of the transfer.
    pub amount: Amount,
    /// The rates at which the application offers data, in order of time, the first from the start of the flow on; none: as fast as the
    /// send buffer takes it. Several need a duration.
    pub offered: Vec<Offered>,
}

impl Bulk {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "bulk";
}

impl Application for Bulk {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn amount(&self) -> Amount {
        self.amount
    }

    fn goal(&self, start: Time) -> Goal {
        match self.amount {
            Amount::Size(size) => Goal::Bytes(size.as_u64()),
            Amount::Duration(length) => Goal::Instant(start + length),
        }
    }

    fn bytes_both_ways(&self) -> Option<u64> {
        match self.amount {
            Amount::Size(size) => Some(size.as_u64()),
            Amount::Duration(_) => None,
        }
    }

    fn least_s(&self, round_trip_s: f64) -> f64 {
        match self.amount {
            // The handshake, and the way of the data.
            Amount::Size(size) => {
                let rates = self.offered.iter().map(|offered| offered.rate.as_bps() as f64);
                1.5 * round_trip_s + rates.map(|bps| size.as_u64() as f64 * 8.0 / bps).fold(0.0, f64::max)
            }
            Amount::Duration(length) => length.as_secs_f64(),
        }
    }

    fn conversation(&self, start: Time, _random: Stream) -> Box<dyn Conversation> {
        let (bytes, until) = match self.amount {
            Amount::Size(size) => (size.as_u64(), None),
            Amount::Duration(length) => (0, Some(start + length)),
        };
        let offered = (!self.offered.is_empty()).then(|| Schedule::new(self.offered.clone(), start));
        Box::new(Transfer { bytes, until, offered, sender: SendStage::Silent, receiver: Closing::default() })
    }
}

impl Display for Bulk {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.amount {
            Amount::Size(size) => write!(f, "{size}")?,
            Amount::Duration(length) => write!(f, "for {length}")?,
        }
        let offered: Vec<_> = self.offered.iter().map(Offered::to_string).collect();
        if offered.is_empty() {
            Ok(())
        } else {
            write!(f, ", offered {}", offered.join(", "))
        }
    }
}

/// The two ends of a transfer.
#[derive(Debug)]
struct Transfer {
    /// Bytes to send; of an application with a rate, those left to offer.
    bytes: u64,
    /// When the sender stops; `None`: after a number of bytes.
    until: Option<Time>,
    /// The application; `None`: one without limit.
    offered: Option<Schedule>,
    sender: SendStage,
    receiver: Closing,
}

/// State of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendStage {
    Silent,
    Writing,
    Closed,
}

impl Conversation for Transfer {
    fn next(&mut self, end: End, facts: Facts, _exchanges: &mut Exchanges) -> Action {
        match end {
            End::From => self.send(facts),
            End::To => self.receiver.next(facts),
        }
    }

    fn is_interactive(&self) -> bool {
        false
    }
}

impl Transfer {
    /// The next action of an application with a rate; `None`: it has offered everything, or there is no such application.
    fn offer(&mut self, now: Time) -> Option<Action> {
        let is_over = match self.until {
            Some(until) => now >= until,
            None => self.bytes == 0,
        };
        let offered = self.offered.as_mut().filter(|_| self.sender != SendStage::Closed)?;
        self.sender = SendStage::Writing;
        if is_over {
            return None;
        }
        let left = if self.until.is_some() { u64::MAX } else { self.bytes };
        let action = offered.next(now, self.until.unwrap_or(Time::MAX), left);
        if let (Action::Write(bytes), None) = (action, self.until) {
            self.bytes -= bytes;
        }
        Some(action)
    }

    fn send(&mut self, facts: Facts) -> Action {
        if let Some(action) = self.offer(facts.now) {
            return action;
        }
        let (sender, action) = match (self.sender, self.until) {
            (SendStage::Silent, None) => (SendStage::Writing, Action::Write(self.bytes)),
            (SendStage::Silent, Some(until)) => (SendStage::Writing, Action::Fill { until }),
            (SendStage::Writing, None) => (SendStage::Closed, Action::HalfClose),
            (SendStage::Writing, Some(until)) if facts.now < until => (SendStage::Writing, Action::Wait(until)),
            (SendStage::Writing, Some(_)) => (SendStage::Closed, Action::Stop),
            // The connection stays open until the receiver has read all.
            (SendStage::Closed, None) if !facts.closed => (SendStage::Closed, Action::AwaitClose),
            (SendStage::Closed, _) => (SendStage::Closed, Action::Done),
        };
        self.sender = sender;
        action
    }
}

encode_struct!(Bulk { amount, offered });
