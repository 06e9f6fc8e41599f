//! `CoDel`: K. Nichols, V. Jacobson et al., "Controlled delay active queue management", RFC 8289, 2018.
//!
//! One FIFO. A packet's wait is judged when the server takes it: once waits have stayed above `target` for `interval`,
//! packets are dropped, at first one and then at intervals that shrink with the square root of their number, until the wait
//! is below the target.
//!
//! Differences from section 5 of the RFC
//! - Where `ecn` is set, a packet that can be marked is marked in place of being dropped, and leaves (the pseudo code has
//!   drops only): the control law goes on as after a drop, with one mark per departure at the most, as in Linux.
//! - The largest packet seen stands for the MTU of the interface.
//!
//! Units: nanoseconds; bytes with the link's overhead.

use std::collections::VecDeque;

use perigee_units::Time;

use super::spec::CodelSpec;
use super::waiting::Waiting;
use crate::packet::Ecn;

/// A single queue under controlled delay.
pub(crate) struct CodelQueue<T> {
    rules: Rules,
    queue: ControlledQueue<T>,
}

impl<T> CodelQueue<T> {
    /// An empty queue.
    pub(super) fn new(spec: &CodelSpec) -> Self {
        Self { rules: Rules::new(spec), queue: ControlledQueue::default() }
    }

    /// Takes no packet out by [`CodelQueue::dequeue_early`].
    pub(super) fn without_fast_path(&mut self) {
        self.rules.short_wait = Time::ZERO;
    }

    /// Keeps a packet.
    pub(super) fn enqueue(&mut self, packet: Waiting<T>) {
        self.rules.see(packet.size);
        self.queue.push(packet);
    }

    /// The packet that goes into service at `now`, if it is clear that it is neither marked nor dropped.
    #[inline]
    pub(super) fn dequeue_early(&mut self, now: Time) -> Option<Waiting<T>> {
        self.queue.dequeue_early(&self.rules, now)
    }

    /// The packet that goes into service at `now`; `drop` gets those that are dropped instead.
    pub(super) fn dequeue(&mut self, now: Time, drop: &mut impl FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        self.queue.dequeue(&self.rules, now, drop)
    }
}

/// What the queues of a link have in common.
pub(super) struct Rules {
    target: Time,
    /// Waits below it are on the fast path.
    short_wait: Time,
    interval: Time,
    ecn: bool,
    largest_packet: u32,
}

impl Rules {
    pub(super) fn new(spec: &CodelSpec) -> Self {
        let CodelSpec { target, interval, ecn } = *spec;
        Self { target, short_wait: target, interval, ecn, largest_packet: 0 }
    }

    /// Notes the size of a packet.
    pub(super) fn see(&mut self, size: u32) {
        self.largest_packet = self.largest_packet.max(size);
    }

    /// Marks a packet in place of dropping it, where that may be; whether it is marked.
    fn marks<T>(&self, packet: &mut Waiting<T>) -> bool {
        let marks = self.ecn && packet.packet.ecn != Ecn::NotCapable;
        if marks {
            packet.packet.ecn = Ecn::Marked;
        }
        marks
    }

    /// When the next drop is due after the `count`-th at `t`: t + interval / sqrt(count), to the nearest nanosecond.
    fn control_law(&self, t: Time, count: u32) -> Time {
        let gap_ns = self.interval.as_nanos() as f64 / f64::from(count).sqrt();
        t + Time::from_nanos(gap_ns.round() as u64)
    }
}

/// The packets of a FIFO, and the state of its control law.
pub(super) struct ControlledQueue<T> {
    fifo: VecDeque<Waiting<T>>,
    bytes: u64,
    /// Waits that are still above the target at this instant call for a drop; `None` while they are below.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Drops since the dropping state began, those that it resumed from counted.
    count: u32,
    /// `count` when the dropping state began.
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
    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a packet at the end.
    pub(super) fn push(&mut self, packet: Waiting<T>) {
        self.bytes += u64::from(packet.size);
        self.fifo.push_back(packet);
    }

    /// Takes the head out, whatever it has waited.
    pub(super) fn pop(&mut self) -> Option<Waiting<T>> {
        let head = self.fifo.pop_front()?;
        self.bytes -= u64::from(head.size);
        Some(head)
    }

    /// The packet that goes into service at `now`, if the control law is at rest and it has not waited for the target.
    #[inline]
    pub(super) fn dequeue_early(&mut self, rules: &Rules, now: Time) -> Option<Waiting<T>> {
        let head = self.fifo.front()?;
        if self.dropping || now - head.arrived >= rules.short_wait {
            return None;
        }
        self.first_above = None;
        self.pop()
    }

    /// The packet that goes into service at `now`; `drop` gets those that are dropped instead.
    pub(super) fn dequeue(
        &mut self,
        rules: &Rules,
        now: Time,
        drop: &mut impl FnMut(Waiting<T>),
    ) -> Option<Waiting<T>> {
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

    /// Takes the head out, and says whether waits have been above the target for an interval (`dodequeue` of section 5).
    fn take(&mut self, rules: &Rules, now: Time) -> Option<(Waiting<T>, bool)> {
        let Some(head) = self.pop() else {
            (self.first_above, self.dropping) = (None, false);
            return None;
        };
        // At most one packet behind it: at rates where a packet takes longer than the target, the link would run dry.
        if now - head.arrived < rules.target || self.bytes <= u64::from(rules.largest_packet) {
            self.first_above = None;
            return Some((head, false));
        }
        let first_above = *self.first_above.get_or_insert(now + rules.interval);
        Some((head, now >= first_above))
    }

    /// Enters the dropping state after a first drop. Where the last dropping state ended a short while ago, its drop rate is
    /// a good one to begin with.
    fn start_dropping(&mut self, rules: &Rules, now: Time) {
        let drops = self.count - self.last_count;
        let resumes = drops > 1 && now < self.drop_next + rules.interval * RESUME_INTERVALS;
        self.count = if resumes { drops } else { 1 };
        self.last_count = self.count;
        self.dropping = true;
        self.drop_next = rules.control_law(now, self.count);
    }
}

/// Intervals after the last scheduled drop within which a new dropping state resumes the old rate (section 5).
const RESUME_INTERVALS: u64 = 16;
