//! Estimates that a host keeps in the socket, as Linux does: round trips, delivery rates, and the pacing rate of a window.

use crate::sock::{RateSample, TcpSock};

/// The moment a packet left, as it remembers it for the rate sample of its delivery.
#[derive(Clone, Copy, Debug, Default)]
pub struct Departure {
    /// When it left, us.
    pub sent_us: u64,
    /// Start of the send window that it belongs to, us.
    pub first_tx_us: u64,
    /// Time of the newest delivery before it left, us; 0: it gives no sample.
    pub delivered_us: u64,
    /// Packets delivered before it left.
    pub delivered: u32,
    /// It left within an application-limited bubble.
    pub is_app_limited: bool,
    /// Its data had been sent before.
    pub is_retransmission: bool,
}

impl RateSample {
    /// Counts the delivery of a packet, whose sequence numbers end at `end` (draft-cheng-iccrg-delivery-rate-estimation, section 3.3).
    #[inline]
    pub fn count_delivery(&mut self, sk: &mut TcpSock, packet: &Departure, end: u32) {
        if packet.delivered_us == 0 {
            return;
        }
        let newer = packet.sent_us > sk.first_tx_mstamp
            || (packet.sent_us == sk.first_tx_mstamp && (end.wrapping_sub(self.last_end_seq) as i32) > 0);
        if self.prior_delivered == 0 || newer {
            self.prior_delivered = packet.delivered;
            self.prior_mstamp = packet.delivered_us;
            self.is_app_limited = packet.is_app_limited;
            self.is_retrans = packet.is_retransmission;
            self.last_end_seq = end;
            sk.first_tx_mstamp = packet.sent_us;
            self.interval_us = (packet.sent_us - packet.first_tx_us) as i64;
        }
    }

    /// Completes the sample of an ACK that delivered `delivered` packets and marked `lost` ones.
    #[inline]
    pub fn complete(&mut self, sk: &TcpSock, delivered: u32, lost: u32, maybe_delayed: bool) {
        self.acked_sacked = delivered;
        self.losses = lost as i32;
        self.is_ack_delayed = maybe_delayed;
        if self.prior_mstamp == 0 {
            self.delivered = -1;
            self.interval_us = -1;
            return;
        }
        self.delivered = sk.delivered.wrapping_sub(self.prior_delivered) as i32;
        let (sending, acking) = (self.interval_us, sk.tcp_mstamp.saturating_sub(self.prior_mstamp) as i64);
        self.interval_us = sending.max(acking);
        self.snd_interval_us = sending as u32;
        self.rcv_interval_us = acking as u32;
        // An interval below the minimum RTT is invalid: the ACK was that of the original, not of the retransmission.
        if self.interval_us < i64::from(sk.rtt_min_us) {
            self.interval_us = -1;
        }
    }
}

impl TcpSock {
    /// Ends the application-limited bubble if it has been delivered, and stamps a delivery of `delivered` packets.
    #[inline]
    pub fn note_delivery(&mut self, delivered: u32) {
        if self.app_limited != 0 && (self.delivered.wrapping_sub(self.app_limited) as i32) > 0 {
            self.app_limited = 0;
        }
        if delivered > 0 {
            self.delivered_mstamp = self.tcp_mstamp;
        }
    }

    /// Takes a round trip (RFC 6298, section 2) with gains 1/8 and 1/4. As in Linux, a falling RTT enters the deviation at 1/32, so that a
    /// draining queue does not raise a timeout.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "on the path of every acknowledgement, whose instructions are counted")]
    pub fn smooth_rtt(&mut self, rtt_us: u32) {
        let sample = i64::from(rtt_us.max(1));
        if self.srtt_us == 0 {
            self.srtt_us = (sample << 3) as u32;
            self.mdev_us = (sample << 1) as u32;
            return;
        }
        let error = sample - i64::from(self.srtt_us >> 3);
        self.srtt_us = (i64::from(self.srtt_us) + error).max(1) as u32;
        let mut deviation = error.abs() - i64::from(self.mdev_us >> 2);
        if error < 0 && deviation > 0 {
            deviation >>= 3;
        }
        self.mdev_us = (i64::from(self.mdev_us) + deviation).max(0) as u32;
    }

    /// Sets Linux's pacing rate of a window (`tcp_update_pacing_rate`): two windows per round trip in early slow start, 1.2 later.
    #[inline]
    pub fn follow_window(&mut self) {
        if self.srtt_us == 0 {
            return;
        }
        let percent = if self.snd_cwnd < self.snd_ssthresh / 2 { 200 } else { 120 };
        let window = u64::from(self.snd_cwnd.max(self.packets_out)) * u64::from(self.mss_cache);
        // `srtt_us` is in eighths of a microsecond.
        let rate = window.saturating_mul(percent * (8_000_000 / 100)) / u64::from(self.srtt_us);
        self.inet_conn.sk.sk_pacing_rate = rate.min(self.inet_conn.sk.sk_max_pacing_rate);
    }
}

/// Minimum over a sliding window of 300 s (Linux's `tcp_min_rtt_wlen`) with three candidates (Nichols's filter): the best of the whole
/// window, the best after it, and the best after that.
#[derive(Clone, Copy, Debug)]
pub struct WindowedMin {
    /// Time (ms) and value of each candidate.
    best: [(u32, u32); 3],
    /// Until then (ms), no candidate expires.
    settled_until: u32,
}

impl Default for WindowedMin {
    fn default() -> Self {
        Self { best: [(0, u32::MAX); 3], settled_until: 0 }
    }
}

impl WindowedMin {
    /// The minimum with this value, which was measured at `now` (ms).
    #[inline]
    pub fn update(&mut self, now: u32, value: u32) -> u32 {
        // The third candidate is the largest.
        if value > self.best[2].1 && (self.settled_until.wrapping_sub(now) as i32) > 0 {
            return self.best[0].1;
        }
        let best = self.update_candidates(now, value);
        let [(first, _), (second, _), (third, _)] = self.best;
        let least_age = match () {
            () if second == first => WINDOW_MS / 4,
            () if third == second => WINDOW_MS / 2,
            () => WINDOW_MS,
        };
        self.settled_until = first.wrapping_add(least_age);
        best
    }

    /// Slow path: the value becomes a candidate, or a candidate may expire.
    #[inline(never)]
    fn update_candidates(&mut self, now: u32, value: u32) -> u32 {
        let sample = (now, value);
        let [first, second, third] = &mut self.best;
        if value <= first.1 || now.wrapping_sub(third.0) > WINDOW_MS {
            self.best = [sample; 3];
            return value;
        }
        if value <= second.1 {
            *second = sample;
            *third = sample;
        } else if value <= third.1 {
            *third = sample;
        }
        let age = now.wrapping_sub(first.0);
        if age > WINDOW_MS {
            *first = *second;
            *second = *third;
            *third = sample;
            if now.wrapping_sub(first.0) > WINDOW_MS {
                *first = *second;
                *second = *third;
            }
        } else if second.0 == first.0 && age > WINDOW_MS / 4 {
            *second = sample;
            *third = sample;
        } else if third.0 == second.0 && age > WINDOW_MS / 2 {
            *third = sample;
        }
        self.best[0].1
    }
}

/// Length of the sliding window.
const WINDOW_MS: u32 = 300_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_at_the_instant_of_the_delivery_before_it_has_an_interval_of_0() {
        // Time 0 counts as 1 us where 0 means none.
        let mut sample = RateSample { prior_mstamp: 1, ..RateSample::default() };
        sample.complete(&TcpSock::new(1448, 10), 1, 0, false);
        assert_eq!(sample.rcv_interval_us, 0);
    }

    #[test]
    fn the_minimum_expires_after_its_window() {
        let mut min = WindowedMin::default();
        assert_eq!(min.update(0, 50), 50);
        assert_eq!(min.update(150_000, 80), 50);
        assert_eq!(min.update(270_000, 70), 50);
        assert_eq!(min.update(480_000, 90), 70);
    }
}
