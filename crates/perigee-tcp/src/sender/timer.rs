//! The sender's single timer: retransmission timeout (RFC 6298), tail loss probe, reordering timer, window probe.

use perigee_units::Time;

use super::state::timer::{DeadlineBound, Deferred, Timer};
use super::Sender;

impl Sender {
    /// The retransmission timeout, including back-off.
    pub(crate) fn rto(&self) -> Time {
        let backed_off = self.rtt.rto_us().saturating_mul(1 << self.timer.backoff.min(32));
        Time::from_micros(backed_off.min(self.settings.rto_max.as_micros()))
    }

    /// When a timer fires that is set now for `at`.
    pub(super) fn fires_at(&self, at: Time) -> Time {
        self.tick.expiry(self.now, at)
    }

    /// When a timer fires that is set now to wait.
    pub(super) fn after(&self, wait: Time) -> Time {
        self.fires_at(self.now + wait)
    }

    /// Earliest deadline of the timer and of pacing; [`Time::MAX`] if neither is set.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        self.timer.armed.deadline().min(self.pacing_deadline())
    }

    /// Whether the timeout that fired exceeds the retry limit.
    fn is_out_of_retries(&self) -> bool {
        let retransmits = u32::from(self.sk.inet_conn.icsk_retransmits);
        let is_silent = |longest| retransmits > 0 && self.now - self.timer.silent_since >= longest;
        if !self.established {
            return retransmits >= self.patience.handshake_retries || is_silent(self.patience.longest_handshake);
        }
        is_silent(self.patience.longest_silence)
    }

    /// Sets the deferred timer, before anything it depends on changes.
    #[inline]
    pub(crate) fn set_deferred_timer(&mut self) {
        match std::mem::take(&mut self.timer.deferred) {
            Deferred::Nothing => {}
            Deferred::Progress(at) => self.set_probe(false, at),
            Deferred::Output(at) => self.set_probe(true, at),
        }
    }

    /// Sets the probe timer at the end of a turn at `now` that sent something or follows an ACK.
    #[inline(always)]
    pub(super) fn set_probe(&mut self, has_sent: bool, now: Time) {
        let since = if has_sent { self.head_sent_at() } else { now };
        self.timer.armed = Timer::TailProbe(self.probe_before(since + Time::from_micros(self.rtt.rto_us()), now));
    }

    /// Whether nothing is due before `at` at a sender that defers its timer. Sets the timer if the lower bound does not decide.
    #[inline(always)]
    pub(crate) fn is_idle_until(&mut self, at: Time) -> bool {
        at <= self.pacing_deadline() && (at <= self.deadline_bound() || at <= self.deadline_beyond(at))
    }

    /// Whether nothing but pacing is due until after `at` at a sender that defers its timer.
    #[inline(always)]
    pub(crate) fn is_idle_through(&mut self, at: Time) -> bool {
        at < self.deadline_bound() || at < self.deadline_beyond(at)
    }

    /// Lower bound of the deferred deadline.
    #[inline(always)]
    fn deadline_bound(&self) -> Time {
        let DeadlineBound { at, srtt_us } = self.timer.bound;
        if self.timer.is_deferred() && self.sk.srtt_us >= srtt_us {
            at
        } else {
            Time::ZERO
        }
    }

    /// A lower bound of the deadline that is after `at`, or else the deadline, which sets a deferred timer.
    #[inline(never)]
    fn deadline_beyond(&mut self, at: Time) -> Time {
        if let Deferred::Progress(now) | Deferred::Output(now) = self.timer.deferred {
            // Also a lower bound for later turns: they start later, with a head sent later. While SRTT stays above 15/16 of its value, the
            // waits are no shorter than with that, and the variance never falls below its minimum.
            let srtt_us = self.sk.srtt_us - (self.sk.srtt_us >> 4);
            let (wait_us, rto_us) = (srtt_us >> 2, self.rtt.least_rto_us(srtt_us));
            let probe_at = now + Time::from_micros(wait_us.into());
            let bound = probe_at.min(self.head_sent_at() + Time::from_micros(rto_us));
            self.timer.bound = DeadlineBound { at: bound, srtt_us };
            if at < bound {
                return bound;
            }
            self.set_deferred_timer();
        }
        self.timer.armed.deadline()
    }

    pub(super) fn timeout_of_head(&self) -> Time {
        self.head_sent_at() + self.rto()
    }

    /// Send time of the first entry; now if the queue is empty.
    #[inline]
    pub(super) fn head_sent_at(&self) -> Time {
        self.queue.head().map_or(self.now, |head| Time::from_nanos(head.sent_us * 1000))
    }

    /// After progress: sets the probe timer if possible, otherwise the timeout.
    #[inline]
    pub(super) fn set_transmit_timer(&mut self) {
        if !self.schedule_probe(true) {
            self.rearm_timeout();
        }
    }

    /// Whether a tail loss probe is possible after an ACK that was not dubious.
    pub(super) fn may_probe_after_ack(&self) -> bool {
        self.may_probe() && !self.tail_probe.new_data_due
    }

    /// After an ACK of data: leaves the probe timer to the output turn.
    #[inline]
    pub(super) fn set_timer_after_ack(&mut self, may_probe: bool) {
        self.timer.probe_due = may_probe;
        if !self.timer.probe_due {
            self.set_transmit_timer();
        }
    }

    /// Sets the probe timer that an ACK requested, if no output turn has set it.
    #[cold]
    pub(super) fn set_due_probe(&mut self) {
        self.timer.probe_due = false;
        self.schedule_probe(true);
    }

    /// Restarts the timeout from now, or from the head's send time if another timer was set in its place.
    pub(crate) fn rearm_timeout(&mut self) {
        self.timer.armed = if self.queue.is_empty() {
            Timer::Off
        } else if matches!(self.timer.armed, Timer::Reordering(_) | Timer::TailProbe(_)) {
            Timer::Timeout(self.fires_at(self.timeout_of_head().max(self.now + Time::from_micros(1))))
        } else {
            Timer::Timeout(self.after(self.rto()))
        };
    }

    pub(crate) fn on_timer(&mut self) {
        match self.timer.armed {
            Timer::Off => {}
            Timer::Timeout(_) => self.on_timeout(),
            Timer::TailProbe(_) => self.on_probe_timer(),
            Timer::Reordering(_) => self.on_reordering_timer(),
            Timer::WindowProbe(_) if self.timer.unanswered_probes >= self.settings.retries2 => {
                self.timer.give_up();
            }
            Timer::WindowProbe(_) => {
                self.timer.unanswered_probes += 1;
                self.timer.backoff += 1;
                self.output.window_probe = true;
                self.timer.armed = Timer::WindowProbe(self.after(self.rto()));
            }
        }
        self.output.due = true;
    }

    /// Retransmits the head after a timeout (RFC 5681, section 3.1; RFC 6298, section 5).
    pub(super) fn on_timeout(&mut self) {
        if self.queue.is_empty() {
            self.timer.armed = Timer::Off;
            return;
        }
        if self.is_out_of_retries() {
            return self.timer.give_up();
        }
        if self.established {
            self.enter_loss();
        }
        self.retransmit_after_timeout();
    }

    fn retransmit_after_timeout(&mut self) {
        self.counters.rto_count += 1;
        let retransmits = &mut self.sk.inet_conn.icsk_retransmits;
        if *retransmits == 0 {
            self.timer.silent_since = self.now;
        }
        *retransmits = retransmits.saturating_add(1);
        let is_linear = !self.established && u32::from(*retransmits) <= self.patience.linear_timeouts;
        // A timeout replaces the tail loss probe.
        self.tail_probe.outstanding = None;
        self.timer.backoff += u32::from(!is_linear);
        self.output.forced = Some(self.queue.first());
        self.timer.armed = Timer::Timeout(self.after(self.rto()));
        self.output.due = true;
    }
}
