//! `DualPI2`: K. De Schepper, B. Briscoe, G. White, "Dual-queue coupled active queue management (AQM) for low latency, low loss, and
//! scalable throughput (L4S)", RFC 9332, 2023, appendix A.
//!
//! Two FIFOs: packets with ECT(1) or CE enter the low-latency queue, all others the classic one. A controller of the queuing delay sets a
//! base probability p'. Classic packets are dropped or marked with p'^2; low-latency packets are marked with k p', or with a ramp over
//! their own sojourn time if that is more.
//!
//! Differences from the appendix
//! - The scheduler, which the appendix leaves open, is the weighted round robin that A.2 recommends, with Linux's credit (`sch_dualpi2`):
//!   bytes count while both queues are busy, and an idle link restarts with the low-latency queue. The classic queue's share of 1/16 is the
//!   example in A.2 and section 4.2.2: at most 15 full packets precede it.
//! - The largest packet seen stands in for the MTU at that restart.
//! - The link's limit refuses arrivals, without an MTU of reserve.
//!
//! Units: seconds within the controller; bytes with the link's overhead.

use std::collections::VecDeque;

use perigee_units::Time;

use super::spec::DualPi2Spec;
use super::waiting::Waiting;
use crate::packet::Ecn;

pub(crate) struct DualPi2<T> {
    spec: DualPi2Spec,
    low_latency: Fifo<T>,
    classic: Fifo<T>,
    base: Controller,
    /// Bytes x 2^16 of the classic queue's share that it has not used; above zero, the classic queue is next. `None` until both queues are
    /// busy after the link was idle.
    credit: Option<i64>,
    /// The classic queue's share x 2^16.
    share: i64,
    /// The largest packet seen, bytes.
    largest: u32,
}

/// A scheduled packet.
struct Turn<T> {
    packet: Waiting<T>,
    is_low_latency: bool,
    /// The credit after the packet is sent, if both queues were busy.
    credit: Option<i64>,
}

struct Fifo<T> {
    packets: VecDeque<Waiting<T>>,
    /// Sum of the probabilities since the last drop or mark.
    accumulated: f64,
}

/// The proportional-integral controller of the base probability p'.
struct Controller {
    probability: f64,
    /// Queuing delay at the last update.
    previous: Time,
    next_update: Time,
}

impl<T> DualPi2<T> {
    /// Empty queues.
    pub(super) fn new(spec: &DualPi2Spec) -> Self {
        Self {
            spec: spec.clone(),
            low_latency: Fifo::default(),
            classic: Fifo::default(),
            base: Controller { probability: 0.0, previous: Time::ZERO, next_update: spec.update },
            credit: None,
            share: (spec.classic_share.as_f64() * ONE as f64).round() as i64,
            largest: 0,
        }
    }

    /// Makes the controller updates due by `now`; the queue does not change between them.
    fn catch_up(&mut self, now: Time) {
        while self.base.next_update <= now {
            let at = self.base.next_update;
            let wait = self.classic.wait(at).max(self.low_latency.wait(at));
            let is_at_rest = self.base.probability == 0.0 && self.base.previous == Time::ZERO;
            if is_at_rest && self.classic.packets.is_empty() && self.low_latency.packets.is_empty() {
                let missed = (now - at).as_nanos() / self.spec.update.as_nanos().max(1);
                self.base.next_update += self.spec.update * (missed + 1);
                return;
            }
            self.base.update(wait, &self.spec);
        }
    }

    /// Removes a packet from the queue whose turn it is.
    fn schedule(&mut self, now: Time) -> Option<Turn<T>> {
        let both = !self.low_latency.packets.is_empty() && !self.classic.packets.is_empty();
        // Like after a classic packet: the low-latency queue first gets its whole share.
        let beginning = (2 * self.share - ONE) * i64::from(self.largest);
        let credit = self.credit.unwrap_or(beginning);
        let is_low_latency = if both { credit <= 0 } else { self.classic.packets.is_empty() };
        let queue = if is_low_latency { &mut self.low_latency } else { &mut self.classic };
        let packet = queue.packets.pop_front()?;
        let share = if is_low_latency { self.share } else { self.share - ONE };
        let credit = both.then(|| credit + share * i64::from(packet.size));
        if packet.arrived == now && self.low_latency.packets.is_empty() && self.classic.packets.is_empty() {
            // The packet found the link idle.
            self.credit = None;
        }
        Some(Turn { packet, is_low_latency, credit })
    }

    /// Whether a low-latency packet is dropped; it may be marked instead (appendix A.2). Once the coupled probability is one, marks no
    /// longer suffice, and drops follow the classic probability.
    fn drops_low_latency(&mut self, packet: &mut Waiting<T>, now: Time) -> bool {
        let coupled = coupled(self.spec.coupling, self.base.probability);
        let is_overloaded = coupled >= 1.0;
        if is_overloaded && self.low_latency.recurs(squared(self.base.probability)) {
            return true;
        }
        // A packet without another behind it has not waited for its own kind.
        let is_alone = self.low_latency.packets.is_empty();
        let native = if is_alone { 0.0 } else { ramp(now - packet.arrived, &self.spec) };
        if is_overloaded || self.low_latency.recurs(native.max(coupled)) {
            packet.packet.ecn = Ecn::Marked;
        }
        false
    }

    /// Whether a classic packet is dropped; without overload, it is marked instead if possible.
    fn drops_classic(&mut self, packet: &mut Waiting<T>) -> bool {
        if !self.classic.recurs(squared(self.base.probability)) {
            return false;
        }
        // From min(1 / k^2, 1) on, `p_Cmax` in the appendix, marks no longer suffice.
        let is_overloaded = self.base.probability >= 1.0 || coupled(self.spec.coupling, self.base.probability) >= 1.0;
        if !packet.packet.ecn.is_capable() || is_overloaded {
            return true;
        }
        packet.packet.ecn = Ecn::Marked;
        false
    }

    pub(super) fn enqueue(&mut self, packet: Waiting<T>) {
        self.catch_up(packet.arrived);
        self.largest = self.largest.max(packet.size);
        let is_low_latency = matches!(packet.packet.ecn, Ecn::L4s | Ecn::Marked);
        let queue = if is_low_latency { &mut self.low_latency } else { &mut self.classic };
        queue.packets.push_back(packet);
    }

    /// The packet that enters service at `now`; passes packets dropped before it to `drop`.
    pub(super) fn dequeue(&mut self, now: Time, drop: &mut impl FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        self.catch_up(now);
        loop {
            let Turn { mut packet, is_low_latency, credit } = self.schedule(now)?;
            let drops =
                if is_low_latency { self.drops_low_latency(&mut packet, now) } else { self.drops_classic(&mut packet) };
            if !drops {
                self.credit = credit.or(self.credit);
                return Some(packet);
            }
            drop(packet);
        }
    }
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), accumulated: 0.0 }
    }
}

impl<T> Fifo<T> {
    /// Sojourn time of the head.
    fn wait(&self, at: Time) -> Time {
        self.packets.front().map_or(Time::ZERO, |head| at - head.arrived)
    }

    /// Whether a packet is selected: with this probability, evenly spaced (`recur`).
    fn recurs(&mut self, probability: f64) -> bool {
        self.accumulated += probability;
        let hit = self.accumulated > 1.0;
        if hit {
            self.accumulated -= 1.0;
        }
        hit
    }
}

impl Controller {
    /// p' += alpha (delay - target) + beta (delay - previous delay), from 0 to 1 (`dualpi2_update`).
    fn update(&mut self, wait: Time, spec: &DualPi2Spec) {
        let [wait_s, target_s, previous_s] = [wait, spec.target, self.previous].map(Time::as_secs_f64);
        let step = spec.alpha * (wait_s - target_s) + spec.beta * (wait_s - previous_s);
        self.probability = (self.probability + step).clamp(0.0, 1.0);
        self.previous = wait;
        self.next_update += spec.update;
    }
}

/// Probability in the classic queue: p'^2.
fn squared(base: f64) -> f64 {
    base * base
}

/// Coupled probability in the low-latency queue: k p', at most one.
fn coupled(coupling: f64, base: f64) -> f64 {
    (coupling * base).min(1.0)
}

/// Probability in the low-latency queue from its own delay: from zero at `ramp_from` to one `ramp_width` later (`laqm`).
fn ramp(wait: Time, spec: &DualPi2Spec) -> f64 {
    let over = wait - spec.ramp_from;
    if over >= spec.ramp_width {
        return if wait >= spec.ramp_from { 1.0 } else { 0.0 };
    }
    over.as_secs_f64() / spec.ramp_width.as_secs_f64()
}

/// A share of one, x 2^16.
const ONE: i64 = 65_536;

#[cfg(test)]
#[path = "dualpi2_tests.rs"]
mod tests;
