//! Acknowledgement policy: delayed, quick and compressed ACKs, as in Linux.

use std::mem;

use perigee_units::Time;

use perigee_settings::Config;

use crate::segment::Flags;
use crate::tick::Tick;

/// Linux's policy: an ACK for every second full segment (or for more, stretched as in macOS), for every segment in quick-ACK mode, and
/// otherwise after a delay. An end that replies to what it receives leaves quick-ACK mode, since its replies carry the ACKs. Data with PSH,
/// and segments below full size, are acknowledged as soon as the application has read all. Behind a gap, ACKs after the first three are
/// compressed, if enabled.
#[derive(Clone, Debug)]
pub(crate) struct AckPolicy {
    now: bool,
    delayed: bool,
    /// Full segments that wait for their ACK without its leaving at once.
    withheld: u64,
    /// The most of them, and the window above which there are more than one.
    stretch: (u64, u64),
    delayed_until: Time,
    compression: bool,
    compressed_until: Time,
    compressed: u32,
    /// Sequence position of the current gap, and the number of ACKs sent for it.
    gap: (u64, u32),
    quick: u32,
    quick_allowed: bool,
    /// Data that wait for their ACK were pushed (Linux's `ICSK_ACK_PUSHED`).
    pushed: bool,
    /// The application decides when to read.
    read_on_demand: bool,
    /// This end replies within the ACK delay (Linux's ping-pong mode).
    replies: bool,
    /// Size of a full segment: the largest seen.
    pub(crate) full_segment: u16,
    /// Latest arrival of data; [`Time::MAX`] before the first.
    last_data: Time,
    /// Current ACK delay, adapted to the gaps between segments.
    delay: Time,
    delay_max: Time,
    /// Tick of the clock of arrivals and of the timer of delayed ACKs; the timer of compressed ones is exact, as it is a
    /// high-resolution one.
    tick: Tick,
}

impl AckPolicy {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            now: false,
            delayed: config.delayed_acks,
            withheld: 1,
            stretch: (u64::from(config.ack_every) - 1, config.rmem[1].as_u64() * 3 / 2),
            delayed_until: Time::MAX,
            compression: config.ack_compression && config.sack,
            compressed_until: Time::MAX,
            compressed: 0,
            gap: (0, 0),
            quick: 0,
            quick_allowed: config.quick_acks,
            pushed: false,
            read_on_demand: false,
            replies: false,
            full_segment: 536,
            last_data: Time::MAX,
            delay: config.delayed_ack_max,
            delay_max: config.delayed_ack_max,
            tick: Tick::new(config.tick),
        }
    }

    pub(super) fn read_on_demand(&mut self) {
        self.read_on_demand = true;
    }

    /// Whether data that arrive until `last`, the first of them now, follow the latest ones without a pause that would change the delay.
    pub(crate) fn continues_until(&self, last: Time) -> bool {
        self.tick.is_exact()
            && self.last_data < Time::MAX
            && last - self.last_data <= Time::from_nanos(self.delay_max.as_nanos() / 2)
    }

    /// Processes a segment with payload; `STEADY`: it [is](super::Receiver::is_steady).
    #[inline(always)]
    pub(super) fn on_data<const STEADY: bool>(
        &mut self,
        now: Time,
        (len, flags): (u16, Flags),
        window: u64,
        rto: impl FnOnce() -> Time,
    ) {
        self.full_segment = self.full_segment.max(len);
        let is_pushed = flags.has(Flags::PSH) || len < self.full_segment;
        self.pushed |= self.quick_allowed && is_pushed;
        if !STEADY && self.last_data == Time::MAX {
            self.allow_quick(window);
        } else {
            let (gap, half, smoothed) = if STEADY || self.tick.is_exact() {
                (now - self.last_data, half_of(self.delay_max), half_of(self.delay))
            } else {
                self.in_ticks(now)
            };
            if STEADY || gap <= half {
                self.delay = smoothed + half;
            } else if gap < self.delay {
                self.delay = smoothed + gap;
            } else if gap > rto() {
                // After such a pause the sender may be in slow start again.
                self.allow_quick(window);
            }
        }
        self.last_data = now;
    }

    /// Applies the negotiated SACK option: only SACKs are compressed.
    pub(super) fn set_sack(&mut self, on: bool) {
        self.compression &= on;
    }

    #[inline]
    pub(super) fn due(&self) -> bool {
        self.now
    }

    /// Whether no ACK is pending, and data sent from `now` on do not affect the timing of later ACKs.
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        !self.is_scheduled() && self.compressed == 0 && (self.replies || !self.would_reply(now))
    }

    fn is_scheduled(&self) -> bool {
        self.now || self.deadline() < Time::MAX
    }

    /// Whether data sent now count as a reply.
    fn would_reply(&self, now: Time) -> bool {
        self.last_data < Time::MAX && self.tick.between(self.last_data, now) < self.delay
    }

    /// A data segment was sent (`tcp_event_data_sent`).
    #[inline]
    pub(super) fn on_data_sent(&mut self, now: Time) {
        self.replies |= self.would_reply(now);
    }

    /// The peer's stream is complete: the application closes at once, and its own FIN carries the ACK (`tcp_fin`).
    pub(super) fn on_end(&mut self) {
        self.replies = true;
    }

    #[inline]
    pub(super) fn force(&mut self) {
        self.now = true;
    }

    pub(super) fn on_duplicate(&mut self, window: u64) {
        self.now = true;
        if self.quick_allowed {
            self.enter_quick(self.most_quick(window));
        }
    }

    /// A segment arrived with a congestion mark: the next two ACKs are immediate.
    pub(super) fn on_congestion_mark(&mut self) {
        if self.quick_allowed {
            self.enter_quick(2);
        }
    }

    /// Whether a delayed ACK waits for its timer (Linux's `ICSK_ACK_TIMER`), or one is due that has not left yet.
    #[inline]
    pub(super) fn are_owed(&self) -> bool {
        self.now || self.delayed_until < Time::MAX
    }

    /// Deadline of a delayed or compressed ACK.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        self.delayed_until.min(self.compressed_until)
    }

    pub(super) fn on_timer(&mut self, now: Time) {
        if now >= self.delayed_until {
            self.delayed_until = Time::MAX;
            // The expected reply did not come.
            self.delay =
                if mem::take(&mut self.replies) { self.delay_max } else { (self.delay * 2).min(self.delay_max) };
            self.now = true;
        }
        if now >= self.compressed_until {
            self.compressed_until = Time::MAX;
            self.now = true;
        }
    }

    /// Decides when to acknowledge data accepted up to `next`, of which `unacknowledged` bytes are not acknowledged yet.
    #[inline]
    pub(super) fn decide(&mut self, now: Time, next: u64, unacknowledged: u64, has_gap: bool, rtt_us: u64) {
        if self.now {
            return;
        }
        let is_quick = self.quick > 0 && !self.replies;
        if !self.delayed || unacknowledged > u64::from(self.full_segment) * self.withheld || is_quick {
            self.now = true;
        } else if !has_gap {
            if self.read_on_demand || !self.is_due_once_read() {
                return self.delay(now);
            }
            self.now = true;
        } else if !self.compression || self.compressed >= COMPRESS_AT_MOST {
            self.now = true;
        } else {
            self.compress(now, next, rtt_us);
        }
    }

    /// Whether an ACK is due once the application has read all (`tcp_cleanup_rbuf`).
    #[inline]
    pub(super) fn is_due_once_read(&self) -> bool {
        self.pushed && !self.replies
    }

    /// Enters quick-ACK mode for up to `most` ACKs, even at an end that replies (`tcp_enter_quickack_mode`).
    fn enter_quick(&mut self, most: u32) {
        self.quick = self.quick.max(most);
        self.replies = false;
        self.delay = self.delay_max;
    }

    /// Adds quick ACKs unless this end replies (`tcp_incr_quickack`).
    #[inline(never)]
    fn allow_quick(&mut self, window: u64) {
        if self.quick_allowed {
            self.quick = self.quick.max(self.most_quick(window));
        }
    }

    /// Linux's limit: the segments in half the window, at most 16.
    fn most_quick(&self, window: u64) -> u32 {
        (window / (2 * u64::from(self.full_segment))).clamp(2, MAX_QUICK_ACKS) as u32
    }

    /// Acknowledges every segment while the window grows, as Linux does; a large `window` stretches later ACKs, where they may be.
    #[inline]
    pub(super) fn on_growth(&mut self, window: u64) {
        self.quick |= u32::from(self.quick_allowed);
        let (most, above) = self.stretch;
        if most > 1 && window > above {
            self.withheld = (window / (4 * u64::from(self.full_segment))).clamp(2, most + 1) - 1;
        }
    }

    /// In whole ticks: the gap since the latest data, and half of the longest and of the current delay.
    #[cold]
    fn in_ticks(&self, now: Time) -> (Time, Time, Time) {
        let halves = [self.delay_max, self.delay].map(|delay| self.tick.floor(half_of(delay)));
        (self.tick.between(self.last_data, now), halves[0], halves[1])
    }

    #[inline]
    fn delay(&mut self, now: Time) {
        if self.delayed_until == Time::MAX {
            self.delayed_until = self.tick.expiry(now, now + self.delay.min(self.delay_max));
        }
    }

    fn compress(&mut self, now: Time, next: u64, rtt_us: u64) {
        if self.gap.0 != next {
            self.gap = (next, 0);
        }
        if self.gap.1 < 3 {
            self.gap.1 += 1;
            self.now = true;
            return;
        }
        self.compressed += 1;
        if self.compressed_until == Time::MAX {
            self.compressed_until = now + Time::from_micros(rtt_us / 20).min(COMPRESS_FOR);
        }
    }

    #[inline]
    pub(super) fn on_sent(&mut self) {
        self.quick = self.quick.saturating_sub(u32::from(self.is_scheduled()));
        self.now = false;
        self.pushed = false;
        self.delayed_until = Time::MAX;
        self.compressed_until = Time::MAX;
        self.compressed = 0;
    }
}

#[inline(always)]
fn half_of(delay: Time) -> Time {
    Time::from_nanos(delay.as_nanos() / 2)
}

/// Linux's `TCP_MAX_QUICKACKS`.
const MAX_QUICK_ACKS: u64 = 16;
/// Linux's `tcp_comp_sack_nr` and `tcp_comp_sack_delay_ns`.
const COMPRESS_AT_MOST: u32 = 44;
const COMPRESS_FOR: Time = Time::from_millis(1);
