//! A test path: sender, loss, a bottleneck with a drop-tail queue, receiver, and a fixed return delay.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use perigee_cc::Selected;
use perigee_settings::Config;
use perigee_tcp::{Endpoint, Flags, Segment};
use perigee_units::{Bytes, Rate, Stream, Time};

/// Parameters of the path.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) rate: Rate,
    pub(crate) round_trip: Time,
    pub(crate) queue_bytes: u64,
    pub(crate) loss: f64,
    pub(crate) ack_loss: f64,
    pub(crate) seed: u64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            rate: Rate::from_mbps(10.0),
            round_trip: Time::from_millis(100),
            queue_bytes: 125_000,
            loss: 0.0,
            ack_loss: 0.0,
            seed: 1,
        }
    }
}

/// A transfer in progress: `sender` writes, `receiver` opens.
pub(crate) struct Transfer {
    pub(crate) sender: Endpoint,
    pub(crate) receiver: Endpoint,
    pub(crate) now: Time,
    pub(crate) dropped: u64,
    /// Full segments to drop, counted from 1; a segment listed twice is dropped twice.
    pub(crate) drop_data: Vec<u64>,
    /// Full segments to mark, if ECN-capable.
    pub(crate) mark_data: Vec<u64>,
    /// Number of SYNs to drop.
    pub(crate) drop_requests: u32,
    /// Marks all segments of the receiver that are ECN-capable.
    pub(crate) mark_answers: bool,
    /// All segments sent by the sender, dropped or not.
    pub(crate) data: Vec<Segment>,
    /// All segments sent by the receiver.
    pub(crate) answers: Vec<Segment>,
    /// Extra delay of ACKs sent from now on.
    pub(crate) extra_delay: Time,
    pub(crate) acks: u64,
    sender_iss: u32,
    path: Path,
    queue: VecDeque<(Time, u64)>,
    queued: u64,
    last_departure: Time,
    remainder: u64,
    events: BinaryHeap<Reverse<(Time, u64, usize, usize)>>,
    packets: Vec<Segment>,
    /// Indices of the marked segments.
    marked: BTreeSet<usize>,
    sequence: u64,
    losses: Stream,
}

const TO_RECEIVER: usize = 0;
const TO_SENDER: usize = 1;

impl Transfer {
    #[allow(dead_code, reason = "used by most of the tests that include this file")]
    pub(crate) fn new(path: &Path, config: &Config, cc: &str) -> Self {
        Self::with(path, config, config, cc)
    }

    pub(crate) fn with(path: &Path, sending: &Config, receiving: &Config, cc: &str) -> Self {
        Self::between(path, sending, receiving, &Selected::parse(cc, &[]).expect("a known algorithm"))
    }

    #[allow(dead_code, reason = "used by one of the tests that include this file")]
    pub(crate) fn of(path: &Path, config: &Config, selected: &Selected) -> Self {
        Self::between(path, config, config, selected)
    }

    /// Each end with a congestion control of its own.
    #[allow(dead_code, reason = "used by one of the tests that include this file")]
    pub(crate) fn of_two(path: &Path, sending: (&Config, &str), receiving: (&Config, &str)) -> Self {
        let selected = |cc| Selected::parse(cc, &[]).expect("a known algorithm");
        let receiver = Endpoint::client(receiving.0, &selected(receiving.1), path.seed + 1);
        Self { receiver, ..Self::with(path, sending.0, sending.0, sending.1) }
    }

    fn between(path: &Path, sending: &Config, receiving: &Config, selected: &Selected) -> Self {
        Self {
            sender: Endpoint::server(sending, selected, path.seed),
            receiver: Endpoint::client(receiving, selected, path.seed + 1),
            now: Time::ZERO,
            dropped: 0,
            drop_data: Vec::new(),
            mark_data: Vec::new(),
            drop_requests: 0,
            mark_answers: false,
            data: Vec::new(),
            answers: Vec::new(),
            marked: BTreeSet::new(),
            extra_delay: Time::ZERO,
            acks: 0,
            sender_iss: 0,
            path: path.clone(),
            queue: VecDeque::new(),
            queued: 0,
            last_departure: Time::ZERO,
            remainder: 0,
            events: BinaryHeap::new(),
            packets: Vec::new(),
            sequence: 0,
            losses: Stream::new(path.seed, "test/loss"),
        }
    }

    pub(crate) fn open(&mut self) {
        self.receiver.open(self.now);
        self.flush();
    }

    /// Runs until `until`, or until `done` returns true.
    pub(crate) fn run(&mut self, until: Time, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            let timer = self.sender.next_timer().into_iter().chain(self.receiver.next_timer()).min();
            let event = self.events.peek().map(|Reverse(e)| e.0);
            let Some(next) = timer.into_iter().chain(event).min().filter(|at| *at <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            if event.is_some_and(|at| at <= self.now) {
                let Reverse((_, _, to, packet)) = self.events.pop().expect("peeked");
                let segment = self.packets[packet];
                let end = if to == TO_RECEIVER { &mut self.receiver } else { &mut self.sender };
                end.on_segment(self.now, &segment, self.marked.contains(&packet));
            } else {
                self.sender.on_timer(self.now);
                self.receiver.on_timer(self.now);
            }
            self.flush();
        }
    }

    pub(crate) fn flush(&mut self) {
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            self.offer(segment);
        }
        while let Some(segment) = self.receiver.poll_transmit(self.now) {
            self.answers.push(segment);
            if segment.flags.has(Flags::SYN) && self.drop_requests > 0 {
                self.drop_requests -= 1;
                continue;
            }
            if !self.losses.chance(self.path.ack_loss) || segment.flags.has(Flags::SYN) {
                self.acks += 1;
                if self.mark_answers && segment.ect {
                    self.marked.insert(self.packets.len());
                }
                self.deliver(self.now + self.path.round_trip + self.extra_delay, TO_SENDER, segment);
            }
        }
    }

    fn offer(&mut self, segment: Segment) {
        self.data.push(segment);
        let mut mark = false;
        if segment.flags.has(Flags::SYN) {
            self.sender_iss = segment.seq;
        } else if segment.len > 0 {
            let number = u64::from(segment.seq.wrapping_sub(self.sender_iss)) / 1448 + 1;
            let place = self.mark_data.iter().position(|n| *n == number).filter(|_| segment.ect);
            mark = place.map(|at| self.mark_data.remove(at)).is_some();
            if let Some(at) = self.drop_data.iter().position(|n| *n == number) {
                self.drop_data.remove(at);
                self.dropped += 1;
                return;
            }
        }
        let frame = u64::from(segment.ip_bytes()) + 14;
        while self.queue.front().is_some_and(|(at, _)| *at <= self.now) {
            self.queued -= self.queue.pop_front().expect("not empty").1;
        }
        let lost = segment.len > 0 && self.losses.chance(self.path.loss);
        if lost || self.queued + frame > self.path.queue_bytes {
            self.dropped += 1;
            return;
        }
        let start = self.last_departure.max(self.now);
        self.last_departure = start + self.path.rate.send_with_remainder(Bytes::new(frame), &mut self.remainder);
        self.queue.push_back((self.last_departure, frame));
        self.queued += frame;
        if mark {
            self.marked.insert(self.packets.len());
        }
        self.deliver(self.last_departure, TO_RECEIVER, segment);
    }

    fn deliver(&mut self, at: Time, to: usize, segment: Segment) {
        self.sequence += 1;
        self.packets.push(segment);
        self.events.push(Reverse((at, self.sequence, to, self.packets.len() - 1)));
    }
}
