//! Adaptive video over one persistent connection: the player requests segment after segment, each at a bit rate of its choice.

use std::fmt::{self, Display, Formatter};

use perigee_results::{Amount, ExchangeLog, FlowId, Tables, VideoRow};
use perigee_units::{encode_struct, Bytes, Rate, Stream, Time};

use super::adaptation::{rung, Adaptation, Observed};
use super::application::Application;
use super::playback::Playback;
use crate::conversation::{Action, Closing, Conversation, End, Facts, Goal};
use crate::exchanges::Exchanges;

/// One video that is watched from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Video {
    /// Its length.
    pub duration: Time,
    /// Length of a segment; the last one may be shorter.
    pub segment: Time,
    /// The bit rates at which it is encoded, rising.
    pub ladder: Vec<Rate>,
    /// The algorithm that chooses among them.
    pub algorithm: Adaptation,
    /// Playing time that fits the playout buffer.
    pub buffer: Time,
    /// Playing time in the buffer at which playback starts, and resumes after a stall.
    pub startup: Time,
    /// Size of the request for a segment.
    pub request: Bytes,
}

impl Video {
    /// The name of this kind in studies and results.
    pub const NAME: &'static str = "video";

    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.duration.as_nanos().div_ceil(self.segment.as_nanos().max(1))
    }

    /// Length of a segment by its number.
    fn length(&self, number: u64) -> Time {
        self.segment.min(self.duration - self.segment * number)
    }

    /// Bytes of a segment by its number and its rung of the ladder.
    fn size(&self, number: u64, rung: usize) -> u64 {
        self.ladder[rung].bytes_in(self.length(number)).as_u64().max(1)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.segments()).unwrap_or(u32::MAX)
    }
}

impl Application for Video {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn amount(&self) -> Amount {
        Amount::Duration(self.duration)
    }

    fn goal(&self, _start: Time) -> Goal {
        Goal::Exchanges(self.count())
    }

    fn exchanges(&self) -> u64 {
        self.segments()
    }

    fn bytes_both_ways(&self) -> Option<u64> {
        let top = self.ladder.last().map_or(0, |rate| rate.bytes_in(self.duration).as_u64());
        Some(self.request.as_u64().saturating_mul(self.segments()).saturating_add(top))
    }

    fn least_s(&self, round_trip_s: f64) -> f64 {
        // The handshake, the first segment, and the time until the buffer has room for the last one.
        2.0 * round_trip_s + (self.duration - self.buffer).as_secs_f64()
    }

    fn conversation(&self, start: Time, _random: Stream) -> Box<dyn Conversation> {
        Box::new(Watching {
            video: self.clone(),
            start,
            playback: Playback::new(start, self.startup),
            client: Client::Choosing,
            chosen: Vec::new(),
            asked_bytes: 0,
            rates_bps: Vec::new(),
            answered: 0,
            server: Closing::default(),
        })
    }
}

impl Display for Video {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { duration, segment, ladder, algorithm, buffer, .. } = self;
        write!(f, "{duration} in segments of {segment}")?;
        if let [low, .., high] = ladder[..] {
            write!(f, ", {} rates from {low} to {high} chosen by {algorithm}", ladder.len())?;
        } else if let [only] = ladder[..] {
            write!(f, " at {only}")?;
        }
        write!(f, ", a buffer of {buffer}")
    }
}

/// The player at `to`, and its server at `from`.
#[derive(Debug)]
struct Watching {
    video: Video,
    start: Time,
    playback: Playback,
    client: Client,
    /// Rungs of the requested segments.
    chosen: Vec<u8>,
    /// Bytes of the requested segments.
    asked_bytes: u64,
    /// Rate of each download: its bytes over the time from the request to the last byte.
    rates_bps: Vec<f64>,
    /// Segments that the server has written.
    answered: usize,
    server: Closing,
}

/// State of the player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Choosing,
    Reading { asked: Time, bytes: u64 },
    Closed,
}

impl Conversation for Watching {
    fn next(&mut self, end: End, facts: Facts, exchanges: &mut Exchanges) -> Action {
        match end {
            End::To => self.ask(facts, exchanges),
            End::From => self.answer(facts),
        }
    }

    /// Replays the segments at their observed arrivals.
    fn write(&self, id: FlowId<'_>, log: &ExchangeLog, end: Time, tables: &mut Tables) {
        let mut playback = Playback::new(self.start, self.video.startup);
        let (mut arrived, mut played, mut megabits, mut switches) = (0, Time::ZERO, 0.0, 0);
        for (number, at) in (0..).zip(log.completions()) {
            let rung = usize::from(self.chosen[number]);
            let length = self.video.length(number as u64);
            playback.arrive(at, length, number as u64 + 1 == self.video.segments());
            arrived += 1;
            played += length;
            megabits += self.video.ladder[rung].as_mbps() * length.as_secs_f64();
            switches += u32::from(number > 0 && self.chosen[number - 1] != self.chosen[number]);
        }
        let (stalls, stalled) = playback.stalls_by(end, arrived == self.video.segments());
        tables.videos.push(VideoRow {
            run: id.run,
            flow: id.flow.clone(),
            segments: arrived,
            startup_delay_s: playback.startup_delay.map(Time::as_secs_f64),
            stalls,
            stalled_s: stalled.as_secs_f64(),
            stalled_percent: (arrived > 0).then(|| 100.0 * stalled.as_secs_f64() / (stalled + played).as_secs_f64()),
            bitrate_mbps: (arrived > 0).then(|| megabits / played.as_secs_f64()),
            switches,
        });
    }
}

impl Watching {
    fn ask(&mut self, facts: Facts, exchanges: &mut Exchanges) -> Action {
        let (now, number) = (facts.now, self.chosen.len() as u64);
        if let Client::Reading { asked, bytes } = self.client {
            if facts.received < self.asked_bytes {
                return Action::Await(self.asked_bytes);
            }
            self.playback.arrive(now, self.video.length(number - 1), number == self.video.segments());
            self.rates_bps.push(bytes as f64 * 8.0 / (now - asked).as_secs_f64().max(1e-9));
            self.client = Client::Choosing;
        }
        if self.client == Client::Closed {
            return Action::Done;
        }
        if number == self.video.segments() {
            self.client = Client::Closed;
            return Action::HalfClose;
        }
        let room = self.playback.has_room_at(now, self.video.buffer, self.video.length(number));
        if now < room {
            return Action::Wait(room);
        }
        let Video { ladder, segment, buffer, algorithm, .. } = &self.video;
        let observed = Observed { buffered: self.playback.buffered(now), rates_bps: &self.rates_bps };
        let rung = rung(*algorithm, ladder, (*segment, *buffer), observed);
        let bytes = self.video.size(number, rung);
        self.chosen.push(rung as u8);
        self.asked_bytes += bytes;
        self.client = Client::Reading { asked: now, bytes };
        exchanges.announce(self.video.request.as_u64(), bytes);
        Action::Write(self.video.request.as_u64())
    }

    fn answer(&mut self, facts: Facts) -> Action {
        if self.answered as u64 == self.video.segments() {
            return self.server.next(facts);
        }
        let awaited = self.video.request.as_u64() * (self.answered as u64 + 1);
        if facts.received < awaited {
            return Action::Await(awaited);
        }
        let bytes = self.video.size(self.answered as u64, usize::from(self.chosen[self.answered]));
        self.answered += 1;
        Action::Write(bytes)
    }
}

encode_struct!(Video { duration, segment, ladder, algorithm, buffer, startup, request });
