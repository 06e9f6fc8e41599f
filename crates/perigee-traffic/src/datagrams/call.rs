//! A video call, one direction of it: frames at a constant interval, each in packets that leave at once.

use std::fmt::{self, Display, Formatter};

use perigee_results::Frames;
use perigee_units::{encode_struct, Bytes, Rate, Stream, Time};

use super::source::{Departure, Source};

/// Frames of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Rate of the IP packets.
    pub rate: Rate,
    /// From the first frame to the end.
    pub duration: Time,
    /// Rate of frames, packets per frame, and their deadline.
    pub frames: Frames,
}

impl Call {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "call";

    /// Bytes of a frame at this rate.
    pub fn frame_bytes(rate: Rate, per_second: u32) -> u64 {
        rate.as_bps() / 8 / u64::from(per_second.max(1))
    }

    /// The size of a packet by its number in its frame: as even as whole bytes allow.
    fn packet(&self, number: u16) -> Bytes {
        let (frame, packets) = (Self::frame_bytes(self.rate, self.frames.per_second), u64::from(self.frames.packets));
        Bytes::new(frame / packets + u64::from(u64::from(number) < frame % packets))
    }
}

impl Source for Call {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn largest_packet(&self) -> Bytes {
        self.packet(0)
    }

    fn smallest_packet(&self) -> Bytes {
        self.packet(self.frames.packets - 1)
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

    fn frames(&self) -> Option<Frames> {
        Some(self.frames)
    }

    type Departures = Departures;

    fn departures(&self, start: Time, _random: Stream) -> Departures {
        Departures { call: *self, start, frame: 0, packet: 0 }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { rate, duration, frames: Frames { per_second, packets, deadline, .. } } = self;
        write!(f, "{rate} for {duration}, {per_second} frames/s of {packets} packets, each due after {deadline}")
    }
}

/// The departures of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    call: Call,
    start: Time,
    frame: u64,
    packet: u16,
}

impl Iterator for Departures {
    type Item = Departure;

    #[inline]
    fn next(&mut self) -> Option<Departure> {
        let at = self.call.frames.instant(self.frame);
        if at >= self.call.duration {
            return None;
        }
        let packet = self.call.packet(self.packet);
        self.packet += 1;
        if self.packet == self.call.frames.packets {
            (self.frame, self.packet) = (self.frame + 1, 0);
        }
        Some((self.start + at, packet))
    }
}

encode_struct!(Call { rate, duration, frames });
