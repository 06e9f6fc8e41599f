//! Tail loss probes (RFC 8985, section 7): a segment whose ACK reveals losses at the tail.

use perigee_cc::CaState;
use perigee_units::Time;

use super::losses::TIMER_SLACK_US;
use super::report::AckReport;
use super::state::timer::{OutstandingProbe, Timer};
use super::Sender;

impl Sender {
    #[inline]
    pub(super) fn may_probe(&self) -> bool {
        let open = matches!(self.state(), CaState::Open | CaState::Cwr);
        self.settings.tlp && self.settings.sack && self.sk.packets_out > 0 && open
    }

    /// Sets the probe timer: two smoothed round trips, plus the maximum ACK delay for a single segment in flight.
    pub(super) fn schedule_probe(&mut self, advancing: bool) -> bool {
        if !self.may_probe() {
            return false;
        }
        self.timer.armed = Timer::TailProbe(self.probe_at(advancing));
        true
    }

    /// Deadline of a probe, after an ACK (`advancing`) or after new data.
    fn probe_at(&self, advancing: bool) -> Time {
        let timeout = if advancing { self.now + self.rto() } else { self.timeout_of_head() };
        self.probe_before(timeout, self.now)
    }

    /// Deadline of a probe after a turn at `now`; `timeout` is the deadline of the retransmission timeout.
    #[inline]
    pub(super) fn probe_before(&self, timeout: Time, now: Time) -> Time {
        let mut wait_us = WAIT_WITHOUT_SAMPLE_US;
        if self.sk.srtt_us > 0 {
            let margin = if self.sk.packets_out == 1 { u64::from(self.rtt.rto_min_us()) } else { 2 * TIMER_SLACK_US };
            wait_us = u64::from(self.sk.srtt_us >> 2) + margin;
        }
        let mut at = Time::from_nanos(now.as_nanos() + wait_us * 1000);
        if timeout > now {
            at = at.min(timeout);
        }
        self.tick.expiry(now, at)
    }

    /// The probe timer expired: sends new data, or else the last entry again.
    pub(super) fn on_probe_timer(&mut self) {
        if self.tail_probe.outstanding.is_some() || self.queue.is_empty() {
            return self.rearm_timeout();
        }
        self.timer.armed = Timer::Off;
        self.counters.probes += 1;
        let mut probe = OutstandingProbe { end: self.stream.nxt, is_retransmission: true };
        if self.stream.has_new_data() && self.window_allows_new_data() {
            self.tail_probe.new_data_due = true;
            probe = OutstandingProbe {
                end: self.stream.nxt + self.stream.next_payload(self.sk.mss_cache),
                is_retransmission: false,
            };
        } else {
            self.output.forced = Some(self.queue.next() - 1);
        }
        self.tail_probe.outstanding = Some(probe);
    }

    /// Processes the ACK of a probe (RFC 8985, section 7.4.2).
    pub(super) fn on_probe_ack(&mut self, ack: u64, report: &AckReport) {
        let Some(probe) = self.tail_probe.outstanding else { return };
        if ack < probe.end {
            return;
        }
        if !probe.is_retransmission || report.dsack_of_probe {
            self.tail_probe.outstanding = None;
        } else if ack > probe.end {
            // The probe repaired a loss: reduce the window once.
            self.init_cwnd_reduction();
            self.set_state(CaState::Cwr);
            self.end_cwnd_reduction();
            self.try_keep_open();
        } else if !(report.advanced || report.not_a_duplicate() || report.data_sacked) {
            self.tail_probe.outstanding = None;
        }
    }
}

/// Linux's `TCP_TIMEOUT_INIT`: the probe timeout without an RTT sample.
const WAIT_WITHOUT_SAMPLE_US: u64 = 1_000_000;
