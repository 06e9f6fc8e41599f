//! Packets lost in the air.

use std::sync::Arc;

use perigee_units::{encode_enum, Ratio, Stream, Time};

use crate::slots::SlottedLoss;
use crate::steps::Cursor;
use crate::{SlotLoss, Steps};

/// A process that loses packets in the air.
#[derive(Clone, Debug, PartialEq)]
pub enum LossSpec {
    /// Each packet with the same probability.
    Bernoulli(Ratio),
    /// Packets that follow each other at the same instant, up to so many, share one fate: a loss element that stands
    /// where the sending host still hands several segments down as one (generic segmentation offload).
    Trains {
        /// Probability that a train is lost.
        loss: Ratio,
        /// Longest train, packets.
        packets: u32,
    },
    /// Gilbert-Elliott: a good and a bad state that change from packet to packet.
    GilbertElliott {
        /// Probability that the state turns bad before a packet.
        good_to_bad: Ratio,
        /// Probability that the state turns good before a packet.
        bad_to_good: Ratio,
        /// Loss in the good state.
        good_loss: Ratio,
        /// Loss in the bad state.
        bad_loss: Ratio,
    },
    /// A good and a bad state that change over time, whatever the traffic: both last exponential times.
    Outages {
        /// Mean time between the end of one and the start of the next.
        gap: Time,
        /// Mean length.
        length: Time,
        /// Loss during an outage.
        loss: Ratio,
    },
    /// Outages at fixed times, such as handovers of a constellation that schedules its paths anew.
    Periodic {
        /// From the start of one to the start of the next.
        period: Time,
        /// Start of the first.
        phase: Time,
        /// Length of each, less than the period.
        length: Time,
        /// Loss during one.
        loss: Ratio,
    },
    /// Losses around the begin of the slots of a constellation.
    Slots(SlotLoss),
    /// A recorded loss rate.
    Trace(Arc<Steps<Ratio>>),
}

impl LossSpec {
    /// Whether it is the loss of no packet at all, as a study has it that varies a loss from 0 on.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Bernoulli(loss) | Self::Trains { loss, .. } if loss.as_f64() == 0.0)
    }
}

encode_enum!(LossSpec {
    Bernoulli(loss),
    Trains { loss, packets },
    GilbertElliott { good_to_bad, bad_to_good, good_loss, bad_loss },
    Outages { gap, length, loss },
    Periodic { period, phase, length, loss },
    Slots(slots),
    Trace(steps),
});

/// One loss process, with its own random stream.
pub(crate) struct Loss {
    draws: Stream,
    process: Process,
}

enum Process {
    /// Independent losses.
    Bernoulli {
        loss: f64,
        /// Packets that pass, for which it has drawn already.
        passing: u64,
        /// The one after those is taken.
        takes_next: bool,
    },
    /// The train that is passing: when, how many packets more it may have, and whether it is lost.
    Trains {
        loss: f64,
        packets: u32,
        at: Time,
        left: u32,
        lost: bool,
    },
    /// The state changes before a packet, then the packet is lost with the loss of the state.
    GilbertElliott {
        turn: [f64; 2],
        loss: [f64; 2],
        bad: bool,
    },
    Outages(Outages),
    /// Losses within `length` of each multiple of `period` from `phase` on; all in nanoseconds.
    Periodic {
        period: u64,
        phase: u64,
        length: u64,
        loss: f64,
    },
    Slots(Box<SlottedLoss>),
    Steps {
        steps: Arc<Steps<Ratio>>,
        cursor: Cursor,
    },
}

impl Loss {
    /// The processes of a link.
    pub(crate) fn all(specs: &[LossSpec], seed: u64, link: &str) -> Vec<Self> {
        (0..)
            .zip(specs)
            .map(|(place, spec): (usize, _)| Self::new(spec, seed, &format!("{link}/loss/{place}")))
            .collect()
    }

    fn new(spec: &LossSpec, seed: u64, name: &str) -> Self {
        let process = match spec {
            LossSpec::Bernoulli(loss) => Process::Bernoulli { loss: loss.as_f64(), passing: 0, takes_next: false },
            LossSpec::Trains { loss, packets } => {
                Process::Trains { loss: loss.as_f64(), packets: *packets, at: Time::ZERO, left: 0, lost: false }
            }
            LossSpec::GilbertElliott { good_to_bad, bad_to_good, good_loss, bad_loss } => Process::GilbertElliott {
                turn: [good_to_bad.as_f64(), bad_to_good.as_f64()],
                loss: [good_loss.as_f64(), bad_loss.as_f64()],
                bad: false,
            },
            LossSpec::Outages { gap, length, loss } => {
                Process::Outages(Outages::new(*gap, *length, loss.as_f64(), seed, format!("{name}/outage")))
            }
            LossSpec::Periodic { period, phase, length, loss } => Process::Periodic {
                period: period.as_nanos(),
                phase: phase.as_nanos(),
                length: length.as_nanos(),
                loss: loss.as_f64(),
            },
            LossSpec::Slots(slots) => Process::Slots(Box::new(SlottedLoss::new(slots, seed, name))),
            LossSpec::Trace(steps) => Process::Steps { steps: steps.clone(), cursor: Cursor::default() },
        };
        Self { draws: Stream::new(seed, name), process }
    }

    /// Whether this process takes a packet that enters the air at `t`, which never goes back.
    #[inline]
    pub(crate) fn takes(&mut self, t: Time) -> bool {
        let p = match &mut self.process {
            Process::Bernoulli { passing, .. } if *passing > 0 => {
                *passing -= 1;
                return false;
            }
            Process::Bernoulli { loss, takes_next, .. } => {
                if std::mem::take(takes_next) {
                    return true;
                }
                *loss
            }
            Process::Trains { loss, packets, at, left, lost } => {
                if *left == 0 || *at != t {
                    *lost = self.draws.chance(*loss);
                    (*at, *left) = (t, *packets);
                }
                *left -= 1;
                return *lost;
            }
            Process::GilbertElliott { turn, loss, bad } => {
                *bad ^= self.draws.chance(turn[usize::from(*bad)]);
                loss[usize::from(*bad)]
            }
            Process::Outages(outages) => outages.loss_at(t),
            Process::Periodic { period, phase, length, loss } => match t.as_nanos().checked_sub(*phase) {
                Some(since) if since % *period < *length => *loss,
                _ => 0.0,
            },
            Process::Slots(slots) => slots.loss_at(t),
            Process::Steps { steps, cursor } => steps.segment(cursor, t).0.as_f64(),
        };
        p > 0.0 && self.draws.chance(p)
    }

    /// How many packets it lets pass from now on, for which it draws now, and not again: each draw is of one packet, whenever that
    /// comes. `None`: its draws depend on instants.
    pub(crate) fn look_ahead(&mut self) -> Option<u64> {
        let Process::Bernoulli { loss, passing, takes_next } = &mut self.process else { return None };
        let mut drawn = std::mem::take(passing);
        while drawn < LOOKAHEAD && !*takes_next {
            if self.draws.chance(*loss) {
                *takes_next = true;
            } else {
                drawn += 1;
            }
        }
        Some(drawn)
    }

    /// So many of the packets that it lets pass have not come yet.
    pub(crate) fn give_back(&mut self, packets: u64) {
        if let Process::Bernoulli { passing, .. } = &mut self.process {
            *passing = packets;
        }
    }

    /// Until when it takes no packet and draws for none, as far as is known; it was last asked about a packet at `t`.
    pub(crate) fn lossless_until(&self, t: Time) -> Time {
        match &self.process {
            Process::Outages(outages) if !outages.bad => outages.until,
            Process::Periodic { period, phase, length, .. } => match t.as_nanos().checked_sub(*phase) {
                None => Time::from_nanos(*phase),
                Some(since) if since % *period < *length => Time::ZERO,
                Some(since) => Time::from_nanos((t.as_nanos() - since % *period).saturating_add(*period)),
            },
            // A packet may be taken at any time, or nobody knows when not.
            _ => Time::ZERO,
        }
    }

    /// Whether it takes every packet at `t`, which never goes back, and until when at least that holds. Of losses around the
    /// begin of slots it is not known.
    pub(crate) fn takes_all(&mut self, t: Time) -> (bool, Time) {
        match &mut self.process {
            Process::Bernoulli { loss, .. } | Process::Trains { loss, .. } => (*loss >= 1.0, Time::MAX),
            Process::GilbertElliott { .. } | Process::Slots(_) => (false, Time::MAX),
            Process::Outages(outages) => (outages.loss_at(t) >= 1.0, outages.until),
            Process::Periodic { period, phase, length, loss } => {
                let Some(since) = t.as_nanos().checked_sub(*phase) else { return (false, Time::from_nanos(*phase)) };
                let begin = t.as_nanos() - since % *period;
                let is_inside = since % *period < *length;
                let end = if is_inside { begin + *length } else { begin.saturating_add(*period) };
                (is_inside && *loss >= 1.0, Time::from_nanos(end))
            }
            Process::Steps { steps, cursor } => {
                let (loss, until) = steps.segment(cursor, t);
                (loss.as_f64() >= 1.0, until)
            }
        }
    }
}

/// Draws ahead of the packets, at most: they cost no memory, but time where no packet comes.
const LOOKAHEAD: u64 = 256;

/// A good and a bad state that both last exponential times: a Markov chain in time.
///
/// Which state holds at an instant depends on the seed and the name alone, not on the traffic. To keep a long silence
/// cheap, the chain starts afresh, from its stationary distribution and with a stream of its own, at each multiple of
/// [`CYCLES`] mean cycles.
struct Outages {
    seed: u64,
    name: String,
    mean: [Time; 2],
    loss: f64,
    block: Option<u64>,
    stream: Stream,
    bad: bool,
    until: Time,
}

impl Outages {
    fn new(gap: Time, length: Time, loss: f64, seed: u64, name: String) -> Self {
        let stream = Stream::new(seed, &name);
        Self { seed, name, mean: [gap, length], loss, block: None, stream, bad: false, until: Time::ZERO }
    }

    fn loss_at(&mut self, t: Time) -> f64 {
        if t >= self.until {
            self.advance(t);
        }
        if self.bad {
            self.loss
        } else {
            0.0
        }
    }

    /// Walks from change to change, up to the state that holds at `t`.
    fn advance(&mut self, t: Time) {
        let length = (self.mean[0] + self.mean[1]).max(Time::from_nanos(1)) * CYCLES;
        let block = t.as_nanos() / length.as_nanos();
        let end = length * (block + 1);
        if self.block != Some(block) {
            self.block = Some(block);
            self.stream = Stream::new(self.seed, &format!("{}/{block}", self.name));
            let [gap, outage] = self.mean.map(Time::as_secs_f64);
            self.bad = self.stream.chance(outage / (gap + outage));
            self.until = length * block + self.stay();
        }
        while self.until <= t {
            self.bad = !self.bad;
            let stay = self.stay();
            self.until += stay;
        }
        self.until = self.until.min(end);
    }

    fn stay(&mut self) -> Time {
        self.stream.exponential_time(self.mean[usize::from(self.bad)]).max(Time::from_nanos(1))
    }
}

/// Mean cycles of good and bad after which the chain of outages starts afresh.
const CYCLES: u64 = 1024;
