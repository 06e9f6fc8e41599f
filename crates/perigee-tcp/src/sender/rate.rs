//! Delivery rate samples (Cheng, Cardwell: draft-cheng-iccrg-delivery-rate-estimation).

use perigee_cc::{RateSample, TcpSock};

use super::state::queue::{mark, QueueEntry};

/// Counts the delivery of an entry, whose sequence numbers end at `end` (section 3.3).
#[inline]
pub(super) fn count_delivery(sample: &mut RateSample, sk: &mut TcpSock, entry: &QueueEntry, end: u32) {
    if entry.delivered_us == 0 {
        return;
    }
    let newer = entry.sent_us > sk.first_tx_mstamp
        || (entry.sent_us == sk.first_tx_mstamp && (end.wrapping_sub(sample.last_end_seq) as i32) > 0);
    if sample.prior_delivered == 0 || newer {
        sample.prior_delivered = entry.delivered;
        sample.prior_mstamp = entry.delivered_us;
        sample.is_app_limited = entry.has(mark::APP_LIMITED);
        sample.is_retrans = entry.has(mark::EVER_RETRANS);
        sample.last_end_seq = end;
        sk.first_tx_mstamp = entry.sent_us;
        sample.interval_us = (entry.sent_us - entry.first_tx_us) as i64;
    }
}

#[inline]
pub(super) fn note_delivery(sk: &mut TcpSock, delivered: u32) {
    if sk.app_limited != 0 && (sk.delivered.wrapping_sub(sk.app_limited) as i32) > 0 {
        sk.app_limited = 0;
    }
    if delivered > 0 {
        sk.delivered_mstamp = sk.tcp_mstamp;
    }
}

/// Completes the rate sample of an ACK that delivered `delivered` packets and marked `lost` ones.
#[inline]
pub(super) fn complete(sample: &mut RateSample, sk: &TcpSock, delivered: u32, lost: u32, maybe_delayed: bool) {
    sample.acked_sacked = delivered;
    sample.losses = lost as i32;
    sample.is_ack_delayed = maybe_delayed;
    if sample.prior_mstamp == 0 {
        sample.delivered = -1;
        sample.interval_us = -1;
        return;
    }
    sample.delivered = sk.delivered.wrapping_sub(sample.prior_delivered) as i32;
    let (sending, acking) = (sample.interval_us, sk.tcp_mstamp.saturating_sub(sample.prior_mstamp) as i64);
    sample.interval_us = sending.max(acking);
    sample.snd_interval_us = sending as u32;
    sample.rcv_interval_us = acking as u32;
    // An interval below the minimum RTT is invalid: the ACK was that of the original, not of the retransmission.
    if sample.interval_us < i64::from(sk.rtt_min_us) {
        sample.interval_us = -1;
    }
}

#[cfg(test)]
mod tests {
    use perigee_cc::Selected;

    use super::*;

    #[test]
    fn an_ack_at_the_instant_of_the_delivery_before_it_has_an_interval_of_0() {
        // Time 0 counts as 1 us where 0 means none.
        let cc = Selected::parse("reno", &[]).unwrap();
        let socket = perigee_cc::Socket::new(&cc, 1448, 10, 1);
        let mut sample = RateSample { prior_mstamp: 1, ..RateSample::default() };
        complete(&mut sample, &socket, 1, 0, false);
        assert_eq!(sample.rcv_interval_us, 0);
    }
}
