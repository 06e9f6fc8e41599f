//! What recovery remembers: where it ends, how to undo it, and how much it may send.

/// Loss recovery of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovery {
    /// Recovery ends when this position is acknowledged (the kernel's `high_seq`); see `Sender::mark_recovery_point`.
    pub(crate) point: u64,
    pub(crate) undo: Undo,
    pub(crate) prr: Prr,
    /// F-RTO looks whether the timeout was spurious.
    pub(crate) frto: bool,
}

/// Undoing a reduction that proves needless (RFC 3522, RFC 3708, RFC 4015).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undo {
    /// SND.UNA when the reduction began; `None`: nothing can be undone.
    pub(crate) marker: Option<u64>,
    /// Retransmissions not yet reported as duplicates; `None` before the first one.
    retransmissions: Option<u32>,
    /// Timestamp (ms) of the first retransmission of this episode.
    first_retransmit_ms: Option<u32>,
}

impl Undo {
    /// A reduction begins at this SND.UNA, with so many retransmissions in flight.
    pub(crate) fn begin(&mut self, una: u64, retrans_out: u32) {
        self.marker = Some(una);
        self.retransmissions = (retrans_out > 0).then_some(retrans_out);
    }

    /// Nothing can be undone any more.
    pub(crate) fn cancel(&mut self) {
        self.marker = None;
    }

    /// A segment was retransmitted at this time.
    pub(crate) fn on_retransmit(&mut self, now_ms: u32) {
        self.first_retransmit_ms.get_or_insert(now_ms);
        self.retransmissions = Some(self.retransmissions.unwrap_or(0) + 1);
    }

    /// So many retransmissions were reported as duplicates.
    pub(crate) fn on_duplicates(&mut self, segments: u32) {
        if let Some(left) = &mut self.retransmissions {
            *left = left.saturating_sub(segments);
        }
    }

    /// No retransmission is in the network any more: the next one is the first.
    #[inline]
    pub(crate) fn end_episode(&mut self) {
        self.first_retransmit_ms = None;
    }

    /// Whether every retransmission was reported as a duplicate: the originals arrived.
    pub(crate) fn all_duplicated(&self) -> bool {
        self.marker.is_some() && self.retransmissions == Some(0)
    }

    /// Whether this echo, of before the first retransmission, shows that the original was only delayed.
    pub(crate) fn original_was_delayed(&self, echo_ms: Option<u32>) -> bool {
        match (self.first_retransmit_ms, echo_ms) {
            (Some(first), Some(echo)) => (echo.wrapping_sub(first) as i32) < 0,
            _ => false,
        }
    }

    /// Whether an ACK with this echo shows the reduction to be needless.
    pub(crate) fn is_due(&self, echo_ms: Option<u32>) -> bool {
        self.all_duplicated() || (self.marker.is_some() && self.original_was_delayed(echo_ms))
    }
}

/// Proportional rate reduction (RFC 6937): packets delivered and sent since the reduction began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prr {
    delivered: u32,
    out: u32,
}

impl Prr {
    /// So many packets left.
    pub(crate) fn on_sent(&mut self, packets: u32) {
        self.out += packets;
    }

    /// Packets that may leave beyond what is in flight, after so many were delivered: what is in flight shrinks to
    /// ssthresh over one round trip, in proportion to what is delivered; below it, it grows back by what is delivered,
    /// and by one more where the ACK `grows` it (RFC 6937, section 3). As in Linux, the window before the reduction stands for the
    /// data in flight then (`RecoverFS`), and only an ACK that `grows` adds the segment of the slow start bound.
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
        // The fast retransmission itself always leaves.
        allowed.max(i64::from(self.out == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What leaves after each of so many ACKs of one segment, with so much in flight before them; 20 segments were in flight
    /// when the reduction to 10 began.
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
        // Section 3.1: in flight are 4 after ACK 17; the slow start bound sends two segments per ACK, the conservative one one.
        assert_eq!(sent_after(3, 5, true), [2, 2, 2]);
        assert_eq!(sent_after(3, 5, false), [1, 1, 1]);
    }
}
