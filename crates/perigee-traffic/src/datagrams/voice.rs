//! Voice: packets of speech at a constant interval in talk spurts, and silence between them.
//!
//! Talk spurts and silences are exponential; the first spurt begins with the flow. By default it is G.711 (64 kbit/s,
//! 20 ms of speech in a packet) with 0.4 s of speech and 0.6 s of silence.

use std::fmt::{self, Display, Formatter};

use perigee_results::Talk;
use perigee_units::{encode_struct, Bytes, Stream, Time};

use super::source::{Departure, Source};

/// Packets of speech in one direction of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voice {
    /// Size of an IP packet.
    pub packet: Bytes,
    /// Mean length of a talk spurt.
    pub on: Time,
    /// Mean length of a silence; zero: no silences.
    pub off: Time,
    /// From the first packet to the end.
    pub duration: Time,
    /// The interval of its packets, and their playout.
    pub talk: Talk,
}

impl Voice {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "voice";
}

impl Source for Voice {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn largest_packet(&self) -> Bytes {
        self.packet
    }

    fn rate_bps(&self) -> f64 {
        self.packet.as_u64() as f64 * 8.0 / self.talk.interval.as_secs_f64().max(1e-9)
    }

    fn least_s(&self, round_trip_s: f64) -> f64 {
        self.duration.as_secs_f64() + round_trip_s / 2.0
    }

    fn length(&self) -> Time {
        self.duration
    }

    fn talk(&self) -> Option<Talk> {
        Some(self.talk)
    }

    type Departures = Departures;

    fn departures(&self, start: Time, random: Stream) -> Departures {
        let mut departures =
            Departures { voice: *self, next: start, end: start + self.duration, silence: Time::ZERO, random };
        departures.silence = start + departures.spurt();
        departures
    }
}

impl Display for Voice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { packet, on, off, duration, talk } = self;
        write!(f, "{packet} each {} for {duration}", talk.interval)?;
        if *off > Time::ZERO {
            write!(f, ", {on} of speech and {off} of silence in the mean")?;
        }
        write!(f, ", played after {}", talk.playout)
    }
}

/// The departures of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    voice: Voice,
    next: Time,
    end: Time,
    /// End of the current talk spurt.
    silence: Time,
    random: Stream,
}

impl Departures {
    /// The length of a talk spurt.
    fn spurt(&mut self) -> Time {
        if self.voice.off > Time::ZERO {
            self.random.exponential_time(self.voice.on)
        } else {
            self.voice.duration
        }
    }
}

impl Iterator for Departures {
    type Item = Departure;

    #[inline]
    fn next(&mut self) -> Option<Departure> {
        let at = self.next;
        if at >= self.end {
            return None;
        }
        self.next = at + self.voice.talk.interval;
        if self.next >= self.silence {
            self.next = self.next.max(self.silence + self.random.exponential_time(self.voice.off));
            self.silence = self.next + self.spurt();
        }
        Some((at, self.voice.packet))
    }
}

encode_struct!(Voice { packet, on, off, duration, talk });
