//! What every kind of application states about itself.

use std::fmt::Display;

use perigee_results::Amount;
use perigee_units::{Stream, Time};

use crate::conversation::{Conversation, Goal};

/// What every kind of application states about itself; its text says in a few words what it carries.
pub(crate) trait Application: Display {
    /// The name of the kind in studies and results.
    fn name(&self) -> &'static str;

    /// Payload bytes from `from` to `to`, or the time it takes.
    fn amount(&self) -> Amount;

    /// When a flow that begins at `start` is complete.
    fn goal(&self, start: Time) -> Goal;

    /// How many exchanges it has: each is a row of the results.
    fn exchanges(&self) -> u64 {
        0
    }

    /// Payload bytes in both directions together, at the most; `None` where nothing bounds them but the network.
    fn bytes_both_ways(&self) -> Option<u64>;

    /// The least time it takes over a path with this round trip and any rate, s.
    fn least_s(&self, round_trip_s: f64) -> f64;

    /// The conversation of its two ends, of a flow that begins at `start`; what is random in it is drawn from `random`.
    fn conversation(&self, start: Time, random: Stream) -> Box<dyn Conversation>;
}
