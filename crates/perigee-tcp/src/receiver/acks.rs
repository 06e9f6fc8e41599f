//! When to acknowledge: delayed, quick and compressed acknowledgements, as Linux sends them.

use perigee_units::Time;

use perigee_settings::Config;

/// Linux's policy: each second full segment is acknowledged, each segment in quick mode; otherwise later. While a gap is
/// open, acknowledgements after the first three are compressed where that is on.
#[derive(Clone, Debug)]
pub(super) struct AckPolicy {
    now: bool,
    delayed: bool,
    delayed_until: Time,
    compression: bool,
    compressed_until: Time,
    compressed: u32,
    /// Position at which the current gap was first acknowledged, and how often.
    gap: (u64, u32),
    /// Acknowledgements left to send without delay.
    quick: u32,
    quick_allowed: bool,
    /// Largest segment seen: what "full" means.
    full_segment: u16,
    /// When data arrived last; [`Time::MAX`] before the first.
    last_data: Time,
    /// The delay in use, adapted to the gaps between segments.
    delay: Time,
    delay_max: Time,
}

impl AckPolicy {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            now: false,
            delayed: config.delayed_acks,
            delayed_until: Time::MAX,
            compression: config.ack_compression && config.sack,
            compressed_until: Time::MAX,
            compressed: 0,
            gap: (0, 0),
            quick: 0,
            quick_allowed: config.quick_acks,
            full_segment: 536,
            last_data: Time::MAX,
            delay: config.delayed_ack_max,
            delay_max: config.delayed_ack_max,
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub(super) fn on_data(&mut self, now: Time, len: u16, window: u64) {
        self.full_segment = self.full_segment.max(len);
        if self.last_data == Time::MAX {
            self.enter_quick(window);
        } else {
            let gap = now - self.last_data;
            let half = self.delay_max.as_nanos() / 2;
            let smoothed = self.delay.as_nanos() / 2;
            if gap.as_nanos() <= half {
                self.delay = Time::from_nanos(smoothed + half);
            } else if gap < self.delay {
                self.delay = Time::from_nanos(smoothed + gap.as_nanos());
            }
        }
        self.last_data = now;
    }

    /// What the handshake agreed on: compression is of SACKs.
    pub(super) fn set_sack(&mut self, on: bool) {
        self.compression &= on;
    }

    /// Whether an acknowledgement must leave now.
    #[inline]
    pub(super) fn due(&self) -> bool {
        self.now
    }

    /// Whether no acknowledgement is due or put off, and none sent would change when the next ones leave.
    pub(super) fn is_idle(&self) -> bool {
        !self.now && self.deadline() == Time::MAX && self.compressed == 0 && self.quick == 0
    }

    /// An acknowledgement must leave now.
    #[inline]
    pub(super) fn force(&mut self) {
        self.now = true;
    }

    /// A segment was received before.
    pub(super) fn on_duplicate(&mut self, window: u64) {
        self.now = true;
        self.enter_quick(window);
    }

    /// The network has marked a segment: the next two are acknowledged at once.
    pub(super) fn on_congestion_mark(&mut self) {
        if self.quick_allowed {
            self.quick = self.quick.max(2);
        }
    }

    /// When a delayed or compressed acknowledgement leaves at the latest.
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.delayed_until.min(self.compressed_until)
    }

    pub(super) fn on_timer(&mut self, now: Time) {
        if now >= self.delayed_until {
            self.delayed_until = Time::MAX;
            self.delay = (self.delay * 2).min(self.delay_max);
            self.now = true;
        }
        if now >= self.compressed_until {
            self.compressed_until = Time::MAX;
            self.now = true;
        }
    }

    /// Data were taken in up to `next`, and so many bytes of them are not acknowledged.
    #[inline]
    pub(super) fn decide(&mut self, now: Time, next: u64, unacknowledged: u64, has_gap: bool, rtt_us: u64) {
        if self.now {
            return;
        }
        if !self.delayed || unacknowledged > u64::from(self.full_segment) || self.quick > 0 {
            self.now = true;
        } else if !has_gap {
            self.delay(now);
        } else if !self.compression || self.compressed >= COMPRESS_AT_MOST {
            self.now = true;
        } else {
            self.compress(now, next, rtt_us);
        }
    }

    /// Linux: as many as half the window holds, at most 16.
    #[inline(never)]
    fn enter_quick(&mut self, window: u64) {
        if self.quick_allowed {
            let fits = (window / (2 * u64::from(self.full_segment))).clamp(2, MAX_QUICK_ACKS);
            self.quick = self.quick.max(fits as u32);
        }
    }

    /// While the window grows, each segment is acknowledged, as in Linux.
    #[inline]
    pub(super) fn stay_quick(&mut self) {
        self.quick |= u32::from(self.quick_allowed);
    }

    #[inline]
    fn delay(&mut self, now: Time) {
        if self.delayed_until == Time::MAX {
            self.delayed_until = now + self.delay.min(self.delay_max);
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

    /// An acknowledgement has left.
    #[inline]
    pub(super) fn on_sent(&mut self) {
        self.now = false;
        self.delayed_until = Time::MAX;
        self.compressed_until = Time::MAX;
        self.compressed = 0;
        self.quick = self.quick.saturating_sub(1);
    }
}

/// Linux's `TCP_MAX_QUICKACKS`.
const MAX_QUICK_ACKS: u64 = 16;
/// Linux's `tcp_comp_sack_nr` and `tcp_comp_sack_delay_ns`.
const COMPRESS_AT_MOST: u32 = 44;
const COMPRESS_FOR: Time = Time::from_millis(1);
