//! Sources of datagrams: the list of kinds, their common properties, and the schedule of their packets.

mod call;
mod constant;
mod ping;
mod source;
mod voice;

use std::fmt::{self, Display, Formatter};

use perigee_results::Measured;
use perigee_units::{encode_enum, Bytes, Stream, Time};

use crate::script::share_of_time;

pub use call::Call;
pub use constant::Constant;
pub use ping::Ping;
use source::{Departure, Source};
pub use voice::Voice;

/// Packets from `from` to `to` without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagrams {
    /// At a constant rate.
    Constant(Constant),
    /// Speech: talk spurts and silences.
    Voice(Voice),
    /// A video call: frames of several packets.
    Call(Call),
    /// At intervals, each answered by `to` with a packet of the same size.
    Ping(Ping),
}

/// The departures of one flow, with a variant for each kind to avoid a virtual call per packet.
#[derive(Clone, Debug)]
pub(crate) enum Departures {
    Constant(constant::Departures),
    Voice(voice::Departures),
    Call(call::Departures),
    Ping(ping::Departures),
}

impl Iterator for Departures {
    type Item = Departure;

    #[inline]
    fn next(&mut self) -> Option<Departure> {
        match self {
            Self::Constant(departures) => departures.next(),
            Self::Voice(departures) => departures.next(),
            Self::Call(departures) => departures.next(),
            Self::Ping(departures) => departures.next(),
        }
    }
}

impl Datagrams {
    fn source(&self) -> &dyn Source {
        match self {
            Self::Constant(constant) => constant,
            Self::Voice(voice) => voice,
            Self::Call(call) => call,
            Self::Ping(ping) => ping,
        }
    }

    /// The name of its kind in studies and results.
    pub fn name(&self) -> &'static str {
        self.source().name()
    }

    /// Size of its largest IP packet.
    pub fn largest_packet(&self) -> Bytes {
        self.source().largest_packet()
    }

    /// Size of its smallest IP packet.
    pub fn smallest_packet(&self) -> Bytes {
        self.source().smallest_packet()
    }

    /// The rate at which it sends, bit/s, while it sends.
    pub fn rate_bps(&self) -> f64 {
        self.source().rate_bps()
    }

    /// The minimum time until the last packet or its answer has arrived over a path with this round trip, s.
    pub fn least_s(&self, round_trip_s: f64) -> f64 {
        self.source().least_s(round_trip_s)
    }

    /// Time from the start of the flow until nothing more is due.
    pub fn length(&self) -> Time {
        self.source().length()
    }

    /// Whether `to` answers each packet.
    pub fn is_answered(&self) -> bool {
        self.source().exchanges().is_some()
    }

    /// The kind of measurements.
    pub fn measured(&self) -> Measured {
        match (self.source().talk(), self.source().frames()) {
            _ if self.is_answered() => Measured::Answered,
            (Some(talk), _) => Measured::Voice(talk),
            (None, Some(frames)) => Measured::Call(frames),
            (None, None) => Measured::Stream,
        }
    }

    /// The number of exchanges; zero if packets are not answered.
    pub fn exchanges(&self) -> u64 {
        self.source().exchanges().map_or(0, u64::from)
    }

    /// The departures of a flow that starts at `start`, with random numbers from `random`.
    fn departures(&self, start: Time, random: Stream) -> Departures {
        match self {
            Self::Constant(constant) => Departures::Constant(constant.departures(start, random)),
            Self::Voice(voice) => Departures::Voice(voice.departures(start, random)),
            Self::Call(call) => Departures::Call(call.departures(start, random)),
            Self::Ping(ping) => Departures::Ping(ping.departures(start, random)),
        }
    }

    /// The packets of a flow that starts at `start`; equal streams make equal schedules.
    pub fn schedule(&self, start: Time, random: Stream) -> Schedule {
        let mut departures = self.departures(start, random);
        let (length, count) = (self.length(), self.source().exchanges());
        Schedule { start, length, count, next: departures.next(), departures, number: 0 }
    }
}

impl Display for Datagrams {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.source().fmt(f)
    }
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its number, from 0.
    pub number: u32,
    /// When it is due.
    pub at: Time,
    /// Size of its IP packet.
    pub packet: Bytes,
}

/// The datagrams of a flow, in the order in which they are due.
#[derive(Clone, Debug)]
pub struct Schedule {
    start: Time,
    length: Time,
    /// Number of datagrams, if each is an exchange.
    count: Option<u32>,
    departures: Departures,
    next: Option<Departure>,
    number: u32,
}

impl Schedule {
    /// When the next datagram is due; [`Time::MAX`] after the last one.
    #[inline]
    pub fn next_instant(&self) -> Time {
        self.next.map_or(Time::MAX, |(at, _)| at)
    }

    /// Progress of the flow, from 0 to 1.
    pub fn progress(&self, now: Time) -> f64 {
        match self.count {
            Some(count) => f64::from(self.number) / f64::from(count.max(1)),
            None => share_of_time(now, self.start, self.start + self.length),
        }
    }

    /// Ends the schedule.
    pub fn stop(&mut self) {
        self.next = None;
    }

    /// Whether nothing more is due.
    pub fn is_over(&self) -> bool {
        self.next.is_none()
    }
}

impl Iterator for Schedule {
    type Item = Datagram;

    #[inline]
    fn next(&mut self) -> Option<Datagram> {
        let (at, packet) = self.next?;
        let datagram = Datagram { number: self.number, at, packet };
        self.next = self.departures.next();
        self.number = self.number.wrapping_add(1);
        Some(datagram)
    }
}

encode_enum!(Datagrams { Constant(constant), Voice(voice), Call(call), Ping(ping) });
