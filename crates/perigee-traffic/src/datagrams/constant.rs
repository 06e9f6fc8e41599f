//! Datagrams at a constant rate.

use std::fmt::{self, Display, Formatter};

use perigee_units::{encode_struct, Bytes, Rate, Stream, Time};

use super::source::{Departure, Source};

/// Packets of one size at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Rate of the IP packets.
    pub rate: Rate,
    /// Size of an IP packet.
    pub packet: Bytes,
    /// From the first packet to the end.
    pub duration: Time,
}

impl Constant {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "udp";
}

impl Source for Constant {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn largest_packet(&self) -> Bytes {
        self.packet
    }

    fn rate_bps(&self) -> f64 {
        self.rate.as_bps() as f64
    }

    fn least_s(&self, round_trip_s: f64) -> f64 {
        self.duration.as_secs_f64() + round_trip_s / 2.0
    }

    fn length(&self) -> Time {
        self.duration
    }

    type Departures = Departures;

    fn departures(&self, start: Time, _random: Stream) -> Departures {
        let Self { rate, packet, duration } = *self;
        // The first packet leaves for any duration.
        Departures { rate, packet, end: start + duration, next: Some(start), remainder: 0 }
    }
}

impl Display for Constant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} in packets of {} for {}", self.rate, self.packet, self.duration)
    }
}

/// The departures of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    rate: Rate,
    packet: Bytes,
    end: Time,
    next: Option<Time>,
    /// Fraction of a nanosecond, carried from packet to packet: the rate does not drift.
    remainder: u64,
}

impl Iterator for Departures {
    type Item = Departure;

    #[inline]
    fn next(&mut self) -> Option<Departure> {
        let at = self.next?;
        let next = at + self.rate.send_with_remainder(self.packet, &mut self.remainder);
        self.next = (next < self.end).then_some(next);
        Some((at, self.packet))
    }
}

encode_struct!(Constant { rate, packet, duration });
