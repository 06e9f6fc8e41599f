//! Recovery state: recovery point, undo information and proportional rate reduction.

/// Loss recovery state of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovery {
    /// Recovery ends when this position is acknowledged (Linux's `high_seq`); see `Sender::mark_recovery_point`.
    pub(crate) point: u64,
    pub(crate) undo: Undo,
    pub(crate) prr: Prr,
    /// Partial ACKs of the latest recovery of [impatient](perigee_settings::Config::impatient_newreno) NewReno.
    pub(crate) partial_acks: u32,
    /// F-RTO is checking whether the timeout was spurious.
    pub(crate) frto: bool,
}

impl Recovery {
    /// Whether partial ACKs no longer restart the retransmission timer.
    #[inline]
    pub(crate) fn keeps_timer(&self) -> bool {
        self.partial_acks > 1
    }
}

/// Information to undo an unnecessary reduction (RFC 3522, RFC 3708, RFC 4015).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undo {
    /// SND.UNA at the start of the reduction; `None` if it cannot be undone.
    pub(crate) marker: Option<u64>,
    /// Retransmissions not yet reported by D-SACK; `None` before the first one.
    retransmissions: Option<u32>,
    /// Timestamp (ms) of the first retransmission of the episode.
    first_retransmit_ms: Option<u32>,
}

impl Undo {
    /// A reduction starts at `una` with `retrans_out` retransmissions in flight.
    pub(crate) fn begin(&mut self, una: u64, retrans_out: u32) {
        self.marker = Some(una);
        self.retransmissions = (retrans_out > 0).then_some(retrans_out);
    }

    /// Makes the reduction permanent.
    pub(crate) fn cancel(&mut self) {
        self.marker = None;
    }

    /// A segment was retransmitted at `now_ms`.
    pub(crate) fn on_retransmit(&mut self, now_ms: u32) {
        self.first_retransmit_ms.get_or_insert(now_ms);
        self.retransmissions = Some(self.retransmissions.unwrap_or(0) + 1);
    }

    /// D-SACK reported `segments` retransmissions as duplicates.
    pub(crate) fn on_duplicates(&mut self, segments: u32) {
        if let Some(left) = &mut self.retransmissions {
            *left = left.saturating_sub(segments);
        }
    }

    /// No retransmission is in flight: the next one is the first of a new episode.
    #[inline]
    pub(crate) fn end_episode(&mut self) {
        self.first_retransmit_ms = None;
    }

    /// Whether D-SACK reported every retransmission, so that all originals arrived.
    pub(crate) fn all_duplicated(&self) -> bool {
        self.marker.is_some() && self.retransmissions == Some(0)
    }

    /// Whether a timestamp echo older than the first retransmission shows that the original was only delayed.
    pub(crate) fn original_was_delayed(&self, echo_ms: Option<u32>) -> bool {
        match (self.first_retransmit_ms, echo_ms) {
            (Some(first), Some(echo)) => (echo.wrapping_sub(first) as i32) < 0,
            _ => false,
        }
    }

    /// Whether an ACK with this timestamp echo shows the reduction to be unnecessary.
    pub(crate) fn is_due(&self, echo_ms: Option<u32>) -> bool {
        self.all_duplicated() || (self.marker.is_some() && self.original_was_delayed(echo_ms))
    }
}

/// Proportional rate reduction (RFC 6937): packets delivered and sent since the reduction started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prr {
    delivered: u32,
    out: u32,
}

impl Prr {
    /// `packets` were sent.
    pub(crate) fn on_sent(&mut self, packets: u32) {
        self.out += packets;
    }

    /// Whether nothing has been sent since the reduction started.
    pub(crate) fn has_sent_nothing(self) -> bool {
        self.out == 0
    }

    /// Number of packets allowed beyond those in flight after `delivered` packets were delivered (RFC 6937, section 3). Packets in flight
    /// shrink to ssthresh over one round trip, in proportion to the deliveries. Below ssthresh they grow by the deliveries, plus one if the
    /// ACK `grows` them. As in Linux, the window before the reduction stands in for `RecoverFS`, and only an ACK that `grows` adds the
    /// segment of the slow start bound.
    pub(crate) fn allowance(
        &mut self,
        delivered: u32,
        grows: bool,
        in_flight: u32,
        ssthresh: u32,
        prior_cwnd: u32,
    ) -> i64 {
        self.delivered += delivered;
        let allowed = if in_flight > ssthresh {
            let share = u64::from(ssthresh) * u64::from(self.delivered) + u64::from(prior_cwnd) - 1;
            (share / u64::from(prior_cwnd)) as i64 - i64::from(self.out)
        } else {
            let behind = i64::from(self.delivered) - i64::from(self.out);
            let growth = behind.max(i64::from(delivered)) + i64::from(grows);
            growth.min(i64::from(ssthresh - in_flight))
        };
        // The fast retransmission itself is always allowed.
        allowed.max(i64::from(self.out == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments sent after each of `acks` ACKs of one segment, with `in_flight` before them; the reduction to 10 started with 20 in flight.
    fn sent_after(acks: usize, in_flight: u32, grows: bool) -> Vec<i64> {
        let (mut prr, mut in_flight) = (Prr::default(), in_flight);
        let mut sent = |_| {
            in_flight -= 1;
            let leave = prr.allowance(1, grows, in_flight, 10, 20);
            prr.on_sent(leave as u32);
            in_flight += leave as u32;
            leave
        };
        (0..acks).map(&mut sent).collect()
    }

    #[test]
    fn one_loss_of_twenty_sends_with_every_second_ack_as_in_the_example_of_rfc_6937() {
        // Section 3.1: a retransmission at the third ACK, then a new segment at each odd one up to the fifteenth.
        assert_eq!(sent_after(13, 19, true), [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn fifteen_losses_of_twenty_are_repaired_at_the_rates_of_the_example_of_rfc_6937() {
        // Section 3.1: 4 segments are in flight after ACK 17; the slow start bound sends two segments per ACK, the conservative bound one.
        assert_eq!(sent_after(3, 5, true), [2, 2, 2]);
        assert_eq!(sent_after(3, 5, false), [1, 1, 1]);
    }
}
