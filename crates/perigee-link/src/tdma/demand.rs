//! The demand of the terminals that carry nothing of the link, as a process.

use perigee_units::{Stream, Time};

use super::spec::TdmaSpec;

/// Which terminals request capacity. Each requests and pauses in turn, for geometrically distributed numbers of super-frames.
pub(super) struct Demand {
    stream: Stream,
    is_busy: Vec<bool>,
    /// Chances that a terminal ends its pause, and its demand, with a super-frame.
    begins: f64,
    ends: f64,
}

impl Demand {
    /// The demand on this channel, in its steady state; `None` if it does not vary.
    pub(super) fn new(spec: &TdmaSpec, seed: u64, clock: &str) -> Option<Self> {
        if spec.busy == Time::ZERO || spec.idle == Time::ZERO {
            return None;
        }
        let mut stream = Stream::new(seed, &format!("{clock}/demand"));
        let busy = share(spec.busy, spec.busy + spec.idle);
        let is_busy = (0..spec.terminals).map(|_| stream.chance(busy)).collect();
        let each = |time| share(spec.superframe, spec.superframe.max(time));
        Some(Self { stream, is_busy, begins: each(spec.idle), ends: each(spec.busy) })
    }

    /// The next super-frame begins.
    pub(super) fn step(&mut self) {
        for is_busy in &mut self.is_busy {
            let chance = if *is_busy { self.ends } else { self.begins };
            *is_busy ^= self.stream.chance(chance);
        }
    }

    pub(super) fn is_busy(&self, terminal: usize) -> bool {
        self.is_busy[terminal]
    }
}

fn share(part: Time, whole: Time) -> f64 {
    part.as_nanos() as f64 / whole.as_nanos() as f64
}
