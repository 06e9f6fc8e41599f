//! Pings: small packets at intervals, each answered by the far node.

use std::fmt::{self, Display, Formatter};

use perigee_units::{encode_struct, Bytes, Stream, Time};

use super::source::{Departure, Source};

/// Packets that are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Time between two packets.
    pub interval: Time,
    /// Size of an IP packet, in either direction.
    pub packet: Bytes,
    /// Number of packets.
    pub count: u32,
}

impl Ping {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "ping";
}

impl Source for Ping {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn largest_packet(&self) -> Bytes {
        self.packet
    }

    fn rate_bps(&self) -> f64 {
        self.packet.as_u64() as f64 * 8.0 / self.interval.as_secs_f64().max(1e-9)
    }

    fn least_s(&self, round_trip_s: f64) -> f64 {
        self.interval.as_secs_f64() * f64::from(self.count.saturating_sub(1)) + round_trip_s
    }

    fn length(&self) -> Time {
        self.interval * u64::from(self.count)
    }

    fn exchanges(&self) -> Option<u32> {
        Some(self.count)
    }

    type Departures = Departures;

    fn departures(&self, start: Time, _random: Stream) -> Departures {
        Departures { ping: *self, next: start, left: self.count }
    }
}

impl Display for Ping {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}, one each {}", self.count, self.packet, self.interval)
    }
}

/// The departures of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    ping: Ping,
    next: Time,
    left: u32,
}

impl Iterator for Departures {
    type Item = Departure;

    #[inline]
    fn next(&mut self) -> Option<Departure> {
        self.left = self.left.checked_sub(1)?;
        let at = self.next;
        self.next = at + self.ping.interval;
        Some((at, self.ping.packet))
    }
}

encode_struct!(Ping { interval, packet, count });
