//! The interface of every kind of datagram source.

use std::fmt::Display;

use perigee_results::{Frames, Talk};
use perigee_units::{Bytes, Stream, Time};

/// A kind of datagram source; its text describes its packets in a few words.
pub(crate) trait Source: Display {
    /// The name of the kind in studies and results.
    fn name(&self) -> &'static str;

    /// Size of its largest IP packet.
    fn largest_packet(&self) -> Bytes;

    /// Size of its smallest IP packet.
    fn smallest_packet(&self) -> Bytes {
        self.largest_packet()
    }

    /// The rate at which it sends, bit/s, while it sends.
    fn rate_bps(&self) -> f64;

    /// Time from the start of the flow until nothing more is due.
    fn length(&self) -> Time;

    /// The minimum time until the last packet or its answer has arrived over a path with this round trip, s.
    fn least_s(&self, round_trip_s: f64) -> f64;

    /// The number of exchanges if packets are answered: a packet starts an exchange, its answer ends it.
    fn exchanges(&self) -> Option<u32> {
        None
    }

    /// The playout of its packets, if they are speech.
    fn talk(&self) -> Option<Talk> {
        None
    }

    /// The frames of its packets, if it is a video call.
    fn frames(&self) -> Option<Frames> {
        None
    }

    /// The departures of one flow, a concrete type to avoid a virtual call per packet.
    type Departures: Iterator<Item = Departure>
    where
        Self: Sized;

    /// The departures of a flow that starts at `start`, with random numbers from `random`.
    fn departures(&self, start: Time, random: Stream) -> Self::Departures
    where
        Self: Sized;
}

/// When a packet leaves, and its size.
pub(crate) type Departure = (Time, Bytes);
