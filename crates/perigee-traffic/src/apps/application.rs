//! The interface of every kind of application.

use std::fmt::Display;

use perigee_results::Amount;
use perigee_units::{Stream, Time};

use crate::conversation::{Conversation, Goal};

/// A kind of application; its text describes its payload in a few words.
pub(crate) trait Application: Display {
    /// The name of the kind in studies and results.
    fn name(&self) -> &'static str;

    /// Payload bytes from `from` to `to`, or the duration.
    fn amount(&self) -> Amount;

    /// When a flow that begins at `start` is complete.
    fn goal(&self, start: Time) -> Goal;

    /// The number of exchanges, each a row of the results.
    fn exchanges(&self) -> u64 {
        0
    }

    /// Maximum payload bytes of both directions together; `None` if only the network limits them.
    fn bytes_both_ways(&self) -> Option<u64>;

    /// The minimum duration over a path with this round trip and any rate, s.
    fn least_s(&self, round_trip_s: f64) -> f64;

    /// The conversation of its two ends, in a flow that starts at `start`, with random numbers from `random`.
    fn conversation(&self, start: Time, random: Stream) -> Box<dyn Conversation>;
}
