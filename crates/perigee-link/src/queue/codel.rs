//! `CoDel`: K. Nichols, V. Jacobson et al., "Controlled delay active queue management", RFC 8289, 2018.
//!
//! A FIFO that judges a packet's sojourn time when the server takes it: once sojourn times have exceeded `target` for an `interval`,
//! packets are dropped, at intervals that shrink with the square root of the number of drops, until the sojourn time is below the target.
//!
//! Differences from section 5 of the RFC
//! - With `ecn`, a packet that can be marked is marked instead of dropped, and served (the pseudo-code only drops); the control law
//!   continues as after a drop, with at most one mark per departure, as in Linux.
//! - With `ce_threshold`, a packet that enters service after a longer sojourn time is marked, if it can be: a step, as in Linux.
//! - The largest packet seen stands in for the MTU of the interface.
//!
//! Units: nanoseconds; bytes with the link's overhead.

use std::collections::VecDeque;

use perigee_units::Time;

use super::spec::CodelSpec;
use super::waiting::{withdraw, Waiting};
use crate::packet::Ecn;

pub(crate) struct CodelQueue<T> {
    rules: Rules,
    queue: ControlledQueue<T>,
    drops_front: bool,
}

impl<T> CodelQueue<T> {
    /// An empty queue; one that is full drops its head instead of an arrival if `drops_front`.
    pub(super) fn new(spec: &CodelSpec, drops_front: bool) -> Self {
        Self { rules: Rules::new(spec), queue: ControlledQueue::default(), drops_front }
    }

    /// Disables [`CodelQueue::dequeue_early`].
    pub(super) fn without_fast_path(&mut self) {
        self.rules.short_wait = Time::ZERO;
    }

    pub(super) fn enqueue(&mut self, packet: Waiting<T>) {
        self.rules.see(packet.size);
        self.queue.push(packet);
    }

    /// Fast path of [`CodelQueue::dequeue`]: the packet that enters service at `now`, if it is certainly neither marked nor dropped.
    #[inline]
    pub(super) fn dequeue_early(&mut self, now: Time) -> Option<Waiting<T>> {
        self.queue.dequeue_early(&self.rules, now)
    }

    /// The packet that enters service at `now`; passes packets dropped before it to `drop`.
    pub(super) fn dequeue(&mut self, now: Time, drop: &mut impl FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        self.queue.dequeue(&self.rules, now, drop)
    }

    /// Drops the packet at the head, if that is what a full queue does; returns whether there was one.
    pub(super) fn make_room(&mut self, drop: &mut impl FnMut(Waiting<T>)) -> bool {
        self.drops_front && self.queue.pop().map(drop).is_some()
    }

    /// Removes the packets that `is_meant` names, in their order. The state of the control law stays.
    pub(super) fn withdraw(
        &mut self,
        is_meant: &mut impl FnMut(&Waiting<T>) -> bool,
        out: &mut impl FnMut(Waiting<T>),
    ) {
        let ControlledQueue { fifo, bytes, .. } = &mut self.queue;
        withdraw(fifo, is_meant, &mut |packet| {
            *bytes -= u64::from(packet.size);
            out(packet);
        });
    }
}

/// Parameters shared by the queues of a link.
pub(super) struct Rules {
    target: Time,
    /// Sojourn times below this allow the fast path.
    short_wait: Time,
    interval: Time,
    ecn: bool,
    /// Sojourn times above this are marked.
    ce_threshold: Time,
    largest_packet: u32,
}

impl Rules {
    pub(super) fn new(spec: &CodelSpec) -> Self {
        let CodelSpec { target, interval, ecn, ce_threshold } = *spec;
        let ce_threshold = ce_threshold.unwrap_or(Time::MAX);
        Self { target, short_wait: target.min(ce_threshold), interval, ecn, ce_threshold, largest_packet: 0 }
    }

    pub(super) fn see(&mut self, size: u32) {
        self.largest_packet = self.largest_packet.max(size);
    }

    /// Marks a packet instead of dropping it, if possible; returns whether it did.
    fn marks<T>(&self, packet: &mut Waiting<T>) -> bool {
        self.ecn && mark(packet)
    }

    /// Time of the next drop after the `count`-th one at `t`: t + interval / sqrt(count), to the nearest nanosecond.
    fn control_law(&self, t: Time, count: u32) -> Time {
        let gap_ns = self.interval.as_nanos() as f64 / f64::from(count).sqrt();
        t + Time::from_nanos(gap_ns.round() as u64)
    }
}

/// Marks a packet if it is ECN-capable; returns whether it is.
fn mark<T>(packet: &mut Waiting<T>) -> bool {
    let is_capable = packet.packet.ecn.is_capable();
    if is_capable {
        packet.packet.ecn = Ecn::Marked;
    }
    is_capable
}

/// A FIFO and the state of its control law.
pub(super) struct ControlledQueue<T> {
    fifo: VecDeque<Waiting<T>>,
    bytes: u64,
    /// Sojourn times still above the target at this instant trigger a drop; `None` while they are below it.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Drops since the dropping state was entered, plus those it resumed from.
    count: u32,
    /// `count` on entering the dropping state.
    last_count: u32,
}

impl<T> Default for ControlledQueue<T> {
    fn default() -> Self {
        Self {
            fifo: VecDeque::new(),
            bytes: 0,
            first_above: None,
            dropping: false,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
        }
    }
}

impl<T> ControlledQueue<T> {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push(&mut self, packet: Waiting<T>) {
        self.bytes += u64::from(packet.size);
        self.fifo.push_back(packet);
    }

    pub(super) fn pop(&mut self) -> Option<Waiting<T>> {
        let head = self.fifo.pop_front()?;
        self.bytes -= u64::from(head.size);
        Some(head)
    }

    /// Fast path of [`ControlledQueue::dequeue`]: the packet that enters service at `now`, outside the dropping state and with a short
    /// sojourn time.
    #[inline]
    pub(super) fn dequeue_early(&mut self, rules: &Rules, now: Time) -> Option<Waiting<T>> {
        let head = self.fifo.front()?;
        if self.dropping || now - head.arrived >= rules.short_wait {
            return None;
        }
        self.first_above = None;
        self.pop()
    }

    /// The packet that enters service at `now`; passes packets dropped before it to `drop`.
    pub(super) fn dequeue(
        &mut self,
        rules: &Rules,
        now: Time,
        drop: &mut impl FnMut(Waiting<T>),
    ) -> Option<Waiting<T>> {
        let mut packet = self.control(rules, now, drop)?;
        if now - packet.arrived > rules.ce_threshold {
            mark(&mut packet);
        }
        Some(packet)
    }

    /// The packet that enters service at `now` by the control law.
    fn control(&mut self, rules: &Rules, now: Time, drop: &mut impl FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        let (mut head, mut above) = self.take(rules, now)?;
        if !self.dropping {
            if !above {
                return Some(head);
            }
            let marked = rules.marks(&mut head);
            self.start_dropping(rules, now);
            if marked {
                return Some(head);
            }
            drop(head);
            return self.take(rules, now).map(|(head, _)| head);
        }
        self.dropping = above;
        while self.dropping && now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            if rules.marks(&mut head) {
                self.drop_next = rules.control_law(self.drop_next, self.count);
                break;
            }
            drop(head);
            (head, above) = self.take(rules, now)?;
            self.dropping = above;
            if above {
                self.drop_next = rules.control_law(self.drop_next, self.count);
            }
        }
        Some(head)
    }

    /// Removes the head; returns whether sojourn times have exceeded the target for an interval (`dodequeue` in section 5).
    fn take(&mut self, rules: &Rules, now: Time) -> Option<(Waiting<T>, bool)> {
        let Some(head) = self.pop() else {
            (self.first_above, self.dropping) = (None, false);
            return None;
        };
        // With at most one packet behind it, dropping would leave the link idle at rates where a packet takes longer than the target.
        if now - head.arrived < rules.target || self.bytes <= u64::from(rules.largest_packet) {
            self.first_above = None;
            return Some((head, false));
        }
        let first_above = *self.first_above.get_or_insert(now + rules.interval);
        Some((head, now >= first_above))
    }

    /// Enters the dropping state after a first drop. If the last dropping state ended recently, its drop rate is a good start.
    fn start_dropping(&mut self, rules: &Rules, now: Time) {
        let drops = self.count - self.last_count;
        let resumes = drops > 1 && now < self.drop_next + rules.interval * RESUME_INTERVALS;
        self.count = if resumes { drops } else { 1 };
        self.last_count = self.count;
        self.dropping = true;
        self.drop_next = rules.control_law(now, self.count);
    }
}

/// A new dropping state within this number of intervals after the last one resumes its drop rate (section 5).
const RESUME_INTERVALS: u64 = 16;
