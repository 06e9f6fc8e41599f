//! What every kind of source of datagrams states about itself.

use std::fmt::Display;

use perigee_results::{Frames, Talk};
use perigee_units::{Bytes, Stream, Time};

/// What every kind of source states about itself; its text says in a few words what it sends.
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

    /// From the start of the flow until nothing more is due.
    fn length(&self) -> Time;

    /// The least time until the last packet, or its answer, has arrived over a path with this round trip, s.
    fn least_s(&self, round_trip_s: f64) -> f64;

    /// How many exchanges it has, where each packet is answered: the packet begins it, the answer ends it.
    fn exchanges(&self) -> Option<u32> {
        None
    }

    /// How its packets are played, where they are speech.
    fn talk(&self) -> Option<Talk> {
        None
    }

    /// How its packets make frames, where they are of a video call.
    fn frames(&self) -> Option<Frames> {
        None
    }

    /// The departures of one flow, as a type of its own: a packet is not worth a virtual call.
    type Departures: Iterator<Item = Departure>
    where
        Self: Sized;

    /// The departures of a flow that begins at `start`; what is random in them is drawn from `random`.
    fn departures(&self, start: Time, random: Stream) -> Self::Departures
    where
        Self: Sized;
}

/// When a packet leaves, and its size.
pub(crate) type Departure = (Time, Bytes);
