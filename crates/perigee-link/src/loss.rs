//! Losses behind the server.

use std::sync::Arc;

use perigee_units::{encode_enum, Bytes, Ratio, Stream, Time};

use crate::chain::{Chain, Stay};
use crate::counted::{Counted, CountedDrop};
use crate::slots::{of_both_directions, SlottedLoss};
use crate::steps::Cursor;
use crate::{SlotLoss, Steps};

/// A loss process.
#[derive(Clone, Debug, PartialEq)]
pub enum LossSpec {
    /// Independent losses with this probability.
    Bernoulli(Ratio),
    /// Back-to-back packets of the same instant, up to a maximum number, share one fate, as behind a loss element in a sending host where
    /// generic segmentation offload still combines several segments.
    Trains {
        /// Probability that a train is lost.
        loss: Ratio,
        /// Maximum length of a train, packets.
        packets: u32,
    },
    /// Frames of bytes that are lost as a whole, such as baseband frames of DVB-S2: the packets that leave back to back
    /// fill one frame after the other, and a packet is lost if any of its frames is. A packet that leaves after an idle
    /// time begins a frame of its own, because a frame that nothing is left for is filled with padding.
    Frames {
        /// Probability that a frame is lost.
        loss: Ratio,
        /// Size of a frame; packets count with the link's overhead.
        frame: Bytes,
    },
    /// Independent errors of bytes, each of which loses its packet: a packet of n bytes is lost with the probability
    /// 1 - (1 - `loss`)^(n / `size`).
    BitErrors {
        /// Probability that a packet of `size` is lost.
        loss: Ratio,
        /// Size of a packet for which `loss` is given; packets count with the link's overhead.
        size: Bytes,
    },
    /// Gilbert-Elliott: a good and a bad state that change from packet to packet.
    GilbertElliott {
        /// Probability of a change to the bad state before a packet.
        good_to_bad: Ratio,
        /// Probability of a change to the good state before a packet.
        bad_to_good: Ratio,
        /// Loss in the good state.
        good_loss: Ratio,
        /// Loss in the bad state.
        bad_loss: Ratio,
    },
    /// A good and a bad state that change over time, independent of traffic, with exponential durations.
    Outages {
        /// Mean time between two outages.
        gap: Time,
        /// Mean length.
        length: Time,
        /// Loss during an outage.
        loss: Ratio,
        /// Whether both directions of the link are out at the same times.
        both: bool,
    },
    /// Outages at fixed times, such as handovers of a constellation that reschedules its paths.
    Periodic {
        /// Time between the starts of two outages.
        period: Time,
        /// Start of the first.
        phase: Time,
        /// Length of an outage, less than the period.
        length: Time,
        /// Loss during an outage.
        loss: Ratio,
    },
    /// Losses around slot boundaries of a constellation.
    Slots(SlotLoss),
    /// A recorded loss rate.
    Trace(Arc<Steps<Ratio>>),
    /// A script that names the packets to lose.
    Counted {
        /// Size of the smallest packet that counts; smaller ones pass.
        least: Bytes,
        /// Which packets are lost: those of any entry.
        drops: Vec<CountedDrop>,
    },
}

impl LossSpec {
    /// Whether the process never loses a packet, like a loss of 0 in a study that varies it.
    pub(crate) fn never_loses(&self) -> bool {
        let is_zero = |loss: &Ratio| loss.as_f64() == 0.0;
        match self {
            Self::Bernoulli(loss)
            | Self::Trains { loss, .. }
            | Self::Frames { loss, .. }
            | Self::BitErrors { loss, .. } => is_zero(loss),
            _ => false,
        }
    }
}

encode_enum!(LossSpec {
    Bernoulli(loss),
    Trains { loss, packets },
    Frames { loss, frame },
    BitErrors { loss, size },
    GilbertElliott { good_to_bad, bad_to_good, good_loss, bad_loss },
    Outages { gap, length, loss, both },
    Periodic { period, phase, length, loss },
    Slots(slots),
    Trace(steps),
    Counted { least, drops },
});

/// A packet that leaves the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    /// When its last byte leaves; must not decrease.
    pub(crate) at: Time,
    /// Size with the link's overhead, bytes.
    pub(crate) size: u32,
    /// The server was idle before it.
    pub(crate) after_idle: bool,
}

/// One loss process, with its own random stream.
pub(crate) struct Loss {
    draws: Stream,
    process: Process,
}

enum Process {
    /// Independent losses.
    Bernoulli {
        loss: f64,
        /// Packets to pass, whose draws have been made.
        passing: u64,
        /// The packet after these is lost.
        loses_next: bool,
    },
    /// The current train: its instant, how many more packets it may have, and whether it is lost.
    Trains {
        loss: f64,
        packets: u32,
        at: Time,
        left: u32,
        lost: bool,
    },
    /// The current frame: its bytes without a packet, and whether it is lost.
    Frames {
        loss: f64,
        frame: u32,
        left: u32,
        lost: bool,
    },
    /// Packets pass until their bytes exceed those before the next error. The rest of a lost packet draws no second
    /// error: it is lost already.
    BitErrors {
        /// Mean number of bytes before an error.
        mean: f64,
        /// Bytes left before the next one.
        intact: u64,
    },
    /// The state changes before a packet; the packet is then lost with the probability of the state.
    GilbertElliott {
        turn: [f64; 2],
        loss: [f64; 2],
        bad: bool,
    },
    Outages(Outages),
    /// Losses within `length` after each multiple of `period`, starting at `phase`, in nanoseconds.
    Periodic {
        period: u64,
        phase: u64,
        length: u64,
        loss: f64,
    },
    Slots(Box<SlottedLoss>),
    Counted(Counted),
    Steps {
        steps: Arc<Steps<Ratio>>,
        cursor: Cursor,
    },
}

impl Loss {
    /// The loss processes of a link.
    pub(crate) fn all(specs: &[LossSpec], seed: u64, link: &str) -> Vec<Self> {
        (0..)
            .zip(specs)
            .map(|(index, spec): (usize, _)| Self::new(spec, seed, link, &format!("{link}/loss/{index}")))
            .collect()
    }

    fn new(spec: &LossSpec, seed: u64, link: &str, name: &str) -> Self {
        let mut draws = Stream::new(seed, name);
        let process = match spec {
            LossSpec::Bernoulli(loss) => Process::Bernoulli { loss: loss.as_f64(), passing: 0, loses_next: false },
            LossSpec::Trains { loss, packets } => {
                Process::Trains { loss: loss.as_f64(), packets: *packets, at: Time::ZERO, left: 0, lost: false }
            }
            LossSpec::Frames { loss, frame } => {
                let frame = u32::try_from(frame.as_u64()).unwrap_or(u32::MAX).max(1);
                Process::Frames { loss: loss.as_f64(), frame, left: 0, lost: false }
            }
            LossSpec::BitErrors { loss, size } => {
                let mean = mean_between_errors(*loss, *size);
                Process::BitErrors { mean, intact: draws.exponential(mean) as u64 }
            }
            LossSpec::GilbertElliott { good_to_bad, bad_to_good, good_loss, bad_loss } => Process::GilbertElliott {
                turn: [good_to_bad.as_f64(), bad_to_good.as_f64()],
                loss: [good_loss.as_f64(), bad_loss.as_f64()],
                bad: false,
            },
            LossSpec::Outages { gap, length, loss, both } => {
                let of = if *both { of_both_directions(link) } else { name };
                Process::Outages(Outages::new(*gap, *length, loss.as_f64(), seed, format!("{of}/outage")))
            }
            LossSpec::Periodic { period, phase, length, loss } => Process::Periodic {
                period: period.as_nanos(),
                phase: phase.as_nanos(),
                length: length.as_nanos(),
                loss: loss.as_f64(),
            },
            LossSpec::Slots(slots) => Process::Slots(Box::new(SlottedLoss::new(slots, seed, link))),
            LossSpec::Counted { least, drops } => Process::Counted(Counted::new(*least, drops)),
            LossSpec::Trace(steps) => Process::Steps { steps: steps.clone(), cursor: Cursor::default() },
        };
        Self { draws, process }
    }

    /// Whether the process loses a packet.
    #[inline]
    pub(crate) fn loses(&mut self, packet: Leaving) -> bool {
        let t = packet.at;
        let p = match &mut self.process {
            Process::Bernoulli { passing, .. } if *passing > 0 => {
                *passing -= 1;
                return false;
            }
            Process::Bernoulli { loss, loses_next, .. } => {
                if std::mem::take(loses_next) {
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
            Process::Frames { loss, frame, left, lost } => {
                if packet.after_idle {
                    *left = 0;
                }
                let (mut bytes, mut is_hit) = (packet.size, false);
                while bytes > 0 {
                    if *left == 0 {
                        (*left, *lost) = (*frame, self.draws.chance(*loss));
                    }
                    is_hit |= *lost;
                    let inside = bytes.min(*left);
                    (bytes, *left) = (bytes - inside, *left - inside);
                }
                return is_hit;
            }
            Process::BitErrors { mean, intact } => {
                let left = intact.checked_sub(u64::from(packet.size));
                *intact = left.unwrap_or_else(|| self.draws.exponential(*mean) as u64);
                return left.is_none();
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
            Process::Counted(counted) => return counted.loses(t, packet.size),
            Process::Steps { steps, cursor } => steps.segment(cursor, t).0.as_f64(),
        };
        p > 0.0 && self.draws.chance(p)
    }

    /// Draws how many packets or bytes pass before the next loss. `None` if draws depend on instants.
    pub(crate) fn draw_passing(&mut self) -> Option<Drawn> {
        let (loss, passing, loses_next) = match &mut self.process {
            Process::Bernoulli { loss, passing, loses_next } => (loss, passing, loses_next),
            Process::BitErrors { intact, .. } => return Some(Drawn::Bytes(std::mem::take(intact))),
            _ => return None,
        };
        let mut drawn = std::mem::take(passing);
        while drawn < MAX_DRAWN && !*loses_next {
            if self.draws.chance(*loss) {
                *loses_next = true;
            } else {
                drawn += 1;
            }
        }
        Some(Drawn::Packets(drawn))
    }

    /// Takes back the part of [`Loss::draw_passing`] that no packet has used.
    pub(crate) fn take_back(&mut self, unused: Drawn) {
        match (&mut self.process, unused) {
            (Process::Bernoulli { passing, .. }, Drawn::Packets(packets)) => *passing += packets,
            (Process::BitErrors { intact, .. }, Drawn::Bytes(bytes)) => *intact += bytes,
            _ => {}
        }
    }

    /// Lower bound of the time without losses and draws, after a packet at `t`.
    pub(crate) fn lossless_until(&self, t: Time) -> Time {
        match &self.process {
            Process::Outages(outages) if outages.chain.at_last() != BAD => outages.chain.until(),
            Process::Periodic { period, phase, length, .. } => match t.as_nanos().checked_sub(*phase) {
                None => Time::from_nanos(*phase),
                Some(since) if since % *period < *length => Time::ZERO,
                Some(since) => Time::from_nanos((t.as_nanos() - since % *period).saturating_add(*period)),
            },
            Process::Counted(counted) => counted.idle_until(t),
            // The process may lose a packet at any time.
            _ => Time::ZERO,
        }
    }

    /// Whether the process loses every packet at `t`, which must not decrease, and a lower bound of how long that holds. Unknown for losses
    /// around slot boundaries; losses by number leave the link lit.
    pub(crate) fn loses_all(&mut self, t: Time) -> (bool, Time) {
        match &mut self.process {
            Process::Bernoulli { loss, .. } | Process::Trains { loss, .. } | Process::Frames { loss, .. } => {
                (*loss >= 1.0, Time::MAX)
            }
            Process::BitErrors { mean, .. } => (*mean <= 0.0, Time::MAX),
            Process::GilbertElliott { .. } | Process::Slots(_) | Process::Counted(_) => (false, Time::MAX),
            Process::Outages(outages) => (outages.loss_at(t) >= 1.0, outages.chain.until()),
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

/// Packets that pass whenever they come: a loss process has drawn that in advance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Drawn {
    /// This number of packets of any size.
    Packets(u64),
    /// Packets of this size together.
    Bytes(u64),
}

impl Drawn {
    pub(crate) const NONE: Self = Self::Packets(0);
    pub(crate) const ALL: Self = Self::Packets(u64::MAX);

    /// Number of packets of `size`.
    pub(crate) fn packets(self, size: u32) -> u64 {
        match self {
            Self::Packets(packets) => packets,
            Self::Bytes(left) => left / u64::from(size.max(1)),
        }
    }

    /// Takes one packet; `false`, with no effect, if it is not covered.
    #[inline]
    pub(crate) fn take(&mut self, size: u32) -> bool {
        let (left, cost) = match self {
            Self::Packets(left) => (left, 1),
            Self::Bytes(left) => (left, u64::from(size)),
        };
        let is_covered = *left >= cost;
        *left -= if is_covered { cost } else { 0 };
        is_covered
    }

    /// Takes `packets` of `size`, which it covers.
    pub(crate) fn spend(&mut self, packets: u64, size: u32) {
        match self {
            Self::Packets(left) => *left -= packets,
            Self::Bytes(left) => *left -= packets * u64::from(size),
        }
    }
}

/// Mean number of bytes before an error, if a packet of `size` is lost with the probability `loss`: -size / ln(1 - loss).
fn mean_between_errors(loss: Ratio, size: Bytes) -> f64 {
    -(size.as_u64() as f64) / libm::log1p(-loss.as_f64())
}

/// Maximum number of packets drawn in advance. They cost no memory, but time if they never come.
const MAX_DRAWN: u64 = 256;

/// A good and a bad state with exponential durations.
struct Outages {
    chain: Chain,
    loss: f64,
}

impl Outages {
    fn new(gap: Time, length: Time, loss: f64, seed: u64, name: String) -> Self {
        let states = [gap, length].map(|mean| Stay { mean, weight: 1.0 });
        Self { chain: Chain::new(states.to_vec(), seed, name), loss }
    }

    fn loss_at(&mut self, t: Time) -> f64 {
        if self.chain.at(t) == BAD {
            self.loss
        } else {
            0.0
        }
    }
}

/// The number of an outage's state; the other one is that of the gaps.
const BAD: usize = 1;
