//! Pacing by TCP itself, as in Linux without the fq qdisc.

use perigee_cc::pacing;
use perigee_units::Time;

use super::state::output::Retransmit;
use super::Sender;

impl Sender {
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.sk.inet_conn.sk.sk_pacing_status != pacing::NONE
    }

    /// Bounds the pacing rate, bytes/s, and paces the connection from now on (`SO_MAX_PACING_RATE`). A bound that rises shows with the next
    /// ACK, at which the rate is set anew.
    pub(crate) fn bound_pacing(&mut self, bytes_per_s: u64) {
        let sk = &mut self.sk.inet_conn.sk;
        if sk.sk_pacing_status == pacing::NONE {
            sk.sk_pacing_status = pacing::NEEDED;
            self.pacing.blocked = false;
        }
        sk.sk_max_pacing_rate = bytes_per_s;
        sk.sk_pacing_rate = sk.sk_pacing_rate.min(bytes_per_s);
    }

    /// Whether pacing allows a segment now; starts a burst of at most `room` segments if one is due.
    #[inline(always)]
    pub(super) fn pacing_allows(&mut self, room: u32) -> bool {
        if self.pacing.burst > 0 || !(self.is_paced() || self.settings.segmentation_offload) {
            return true;
        }
        if self.is_paced() && self.sk.tcp_wstamp_ns > self.sk.tcp_clock_cache {
            self.pacing.blocked = true;
            return false;
        }
        if self.settings.segmentation_offload && self.waits_for_train(room) {
            return false;
        }
        self.begin_burst(room);
        true
    }

    /// Starts a burst, Linux's single large segment: about a millisecond at the pacing rate, at most half the
    /// congestion window, and within the peer's window and the send buffer. A smaller segment behind full ones fills
    /// the peer's window, if none is in flight (`tcp_mss_split_point`; Minshall's variant of the Nagle algorithm). The
    /// whole burst is charged at once, counting payload only (since Linux 4.20).
    fn begin_burst(&mut self, room: u32) {
        self.write_ahead();
        let mss = u64::from(self.sk.mss_cache);
        let rate = self.sk.inet_conn.sk.sk_pacing_rate;
        let half_window = u64::from((self.sk.snd_cwnd / 2).max(1));
        let mut segments = self.train_size().min(half_window).min(u64::from(room.max(1)));
        let waiting = self.stream.unsplit();
        if waiting < segments * mss {
            segments = segments.min(waiting.div_ceil(mss).max(1));
        }
        let limit = self.send_limit();
        let accepted = limit.saturating_sub(self.stream.nxt);
        self.pacing.tail = 0;
        if accepted < waiting.min(segments * mss) {
            segments = (accepted / mss).max(1);
            let is_filled = limit == self.peer_window.end && self.stream.small_end <= self.stream.una;
            if is_filled && accepted > mss {
                self.pacing.tail = (accepted % mss) as u16;
            }
        }
        self.pacing.burst = segments as u32;
        let is_train = segments > 1 && self.pacing.tail == 0;
        self.pacing.is_pushed = is_train && self.settings.train_push && self.settings.segmentation_offload;
        let (prior, now) = (self.sk.tcp_wstamp_ns, self.sk.tcp_clock_cache);
        self.sk.tcp_wstamp_ns = prior.max(now);
        self.pacing.departure_ns = self.sk.tcp_wstamp_ns;
        // The first ten segments are not paced: the train that completes them is charged, and what follows it waits.
        if !self.is_paced()
            || rate == 0
            || rate == perigee_cc::UNLIMITED_PACING
            || self.pacing.segments + segments < UNPACED_SEGMENTS
        {
            return;
        }
        let gap_ns = scaled(segments * mss, 1_000_000_000, rate);
        // A late start earns a credit of at most half the gap.
        let credit = (self.sk.tcp_wstamp_ns - prior).min(gap_ns / 2);
        self.sk.tcp_wstamp_ns = self.sk.tcp_wstamp_ns.saturating_add(gap_ns - credit);
    }

    /// Sends the next segment outside a burst, now or after the last one.
    pub(super) fn depart_unpaced(&mut self) {
        self.pacing.departure_ns = self.sk.tcp_wstamp_ns.max(self.sk.tcp_clock_cache);
    }

    /// Whether pacing holds back the next segment now.
    #[inline]
    pub(crate) fn is_held_back(&self) -> bool {
        self.holds_back() && self.sk.tcp_wstamp_ns > self.sk.tcp_clock_cache
    }

    /// Whether a segment waits for pacing: not once the congestion control has ended it.
    #[inline]
    pub(super) fn holds_back(&self) -> bool {
        self.pacing.blocked && self.is_paced()
    }

    /// When pacing releases the next segment; [`Time::MAX`] if it holds back none.
    #[inline]
    pub(crate) fn pacing_deadline(&self) -> Time {
        if self.holds_back() {
            Time::from_nanos(self.sk.tcp_wstamp_ns)
        } else {
            Time::MAX
        }
    }

    pub(crate) fn on_pacing_timer(&mut self) {
        self.pacing.blocked = false;
        self.output.due = true;
        if self.sk.lost_out > self.sk.retrans_out {
            self.output.retransmit = Retransmit::Lost;
        }
    }

    /// Sets the initial pacing rate, unless the congestion control sets its own.
    pub(crate) fn update_pacing_rate_unless_owned(&mut self) {
        if !self.sk.has_cong_control() {
            self.sk.follow_window();
        }
    }
}

/// `value * factor / divisor`, rounded down and saturating. Divides 128-bit numbers only if the product needs them.
#[inline]
fn scaled(value: u64, factor: u64, divisor: u64) -> u64 {
    if let Some(product) = value.checked_mul(factor) {
        return product / divisor;
    }
    let wide = u128::from(value) * u128::from(factor) / u128::from(divisor);
    u64::try_from(wide).unwrap_or(u64::MAX)
}

const UNPACED_SEGMENTS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::scaled;

    #[test]
    fn a_product_beyond_64_bits_is_divided_exactly() {
        assert_eq!(scaled(1 << 40, 1_000_000_000, 1 << 38), 4_000_000_000);
        assert_eq!(scaled(1448, 1_000_000_000, 18_000_000), 80_444);
        assert_eq!(scaled(u64::MAX, 8_000_000, 1), u64::MAX);
    }
}
