//! Bulk transfers: `from` sends as fast as possible, for a size or for a time.

use std::fmt::{self, Display, Formatter};

use perigee_results::Amount;
use perigee_units::{encode_struct, Stream, Time};

use super::application::Application;
use crate::conversation::{Action, Closing, Conversation, End, Facts, Goal};
use crate::exchanges::Exchanges;

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// The size or the duration of the transfer.
    pub amount: Amount,
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
            Amount::Size(_) => 1.5 * round_trip_s,
            Amount::Duration(length) => length.as_secs_f64(),
        }
    }

    fn conversation(&self, start: Time, _random: Stream) -> Box<dyn Conversation> {
        let (bytes, until) = match self.amount {
            Amount::Size(size) => (size.as_u64(), None),
            Amount::Duration(length) => (0, Some(start + length)),
        };
        Box::new(Transfer { bytes, until, sender: SendStage::Silent, receiver: Closing::default() })
    }
}

impl Display for Bulk {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.amount {
            Amount::Size(size) => write!(f, "{size}"),
            Amount::Duration(length) => write!(f, "for {length}"),
        }
    }
}

/// The two ends of a transfer.
#[derive(Debug)]
struct Transfer {
    bytes: u64,
    /// When the sender stops; `None`: after a number of bytes.
    until: Option<Time>,
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
    fn send(&mut self, facts: Facts) -> Action {
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

encode_struct!(Bulk { amount });
