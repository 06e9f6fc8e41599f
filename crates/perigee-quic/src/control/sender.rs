//! The socket that algorithms see, filled from the events of a QUIC sender.
//!
//! Where RFC 9002 says what a sender does, it is done: recovery reduces the window at once and ends with the first acknowledgement of a
//! packet sent within it. Elsewhere the socket is as Linux would fill it. `docs/models/quic.md` has each decision.

use perigee_cc::{AckSample, CaEvent, CaState, Departure, RateSample, Socket, WindowedMin};
use perigee_units::Time;

use super::ledger::Ledger;

/// What the adapter has counted beside the algorithm's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Entries of recovery.
    pub recoveries: u64,
    /// Reports of marks that reduced the window.
    pub marks: u64,
    /// Times of persistent congestion (RFC 9002, section 7.6).
    pub persistent: u64,
    /// Reductions that were undone.
    pub undone: u64,
    /// Packets that left with the keys of a handshake, neither acknowledged nor lost.
    pub forgotten: u64,
}

/// A sender's socket, with what the host of an algorithm keeps beside it.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) sk: Socket,
    pub(crate) counters: Counters,
    /// The latest round trip, until it is asked for.
    pub(crate) latest_rtt: Option<Time>,
    ledger: Ledger,
    rtt_min: WindowedMin,
    rate: RateSample,
    ack: Ack,
    /// Packets sent, which count as sequence numbers of whole packets.
    sent: u32,
    /// When the latest reduction began; packets sent until then belong to it.
    reduced_at: Option<Time>,
    /// The algorithm has been initialised, with a round trip.
    is_ready: bool,
    window_full: bool,
    /// Questions for metrics since a packet left or a turn began, by which the pacer's answer shows.
    asked: u32,
    /// A round of the window's use ends when this sequence number is acknowledged.
    usage_end: u32,
}

/// The acknowledgement being processed. The stack reports its losses after its end.
#[derive(Clone, Copy, Debug, Default)]
struct Ack {
    packets: u32,
    losses: u32,
    prior_in_flight: u32,
    oldest_sent_us: u64,
    newest_sent_us: u64,
    ends_recovery: bool,
    /// Congestion control is due once its losses are known.
    is_due: bool,
}

impl Sender {
    /// A sender before its handshake. `sk` is as new.
    pub(crate) fn new(mut sk: Socket, paces_always: bool) -> Self {
        sk.snd_wnd = u32::MAX;
        if paces_always {
            sk.inet_conn.sk.sk_pacing_status = perigee_cc::pacing::NEEDED;
        }
        Self {
            sk,
            counters: Counters::default(),
            latest_rtt: None,
            ledger: Ledger::default(),
            rtt_min: WindowedMin::default(),
            rate: RateSample::default(),
            ack: Ack::default(),
            sent: 0,
            reduced_at: None,
            is_ready: false,
            window_full: false,
            asked: 0,
            usage_end: 0,
        }
    }

    /// A packet that asks for an acknowledgement has left.
    pub(crate) fn on_sent(&mut self, now: Time, pn: u64, bytes: u16) {
        self.control_congestion();
        self.set_clock(now);
        self.asked = 0;
        let (mss, now_us) = (self.sk.mss_cache, self.sk.tcp_mstamp);
        if self.sk.packets_out == 0 {
            if self.is_ready {
                self.sk.cwnd_event(CaEvent::TxStart);
            }
            (self.sk.first_tx_mstamp, self.sk.delivered_mstamp) = (now_us, now_us);
        }
        self.sk.lsndtime = now.as_millis() as u32;
        let departure = Departure {
            sent_us: now_us,
            first_tx_us: self.sk.first_tx_mstamp,
            delivered_us: self.sk.delivered_mstamp.max(1),
            delivered: self.sk.delivered,
            is_app_limited: self.sk.app_limited != 0,
            is_retransmission: false,
        };
        self.ledger.push(pn, bytes, self.sent, departure);
        self.sent = self.sent.wrapping_add(1);
        self.sk.snd_nxt = self.sent.wrapping_mul(mss);
        self.sk.write_seq = self.sk.snd_nxt;
        self.sk.bytes_sent += u64::from(mss);
        self.sk.packets_out += 1;
    }

    /// The congestion window keeps a packet back.
    pub(crate) fn on_window_full(&mut self) {
        self.window_full = true;
    }

    /// A packet was acknowledged; [`Sender::on_end_of_ack`] follows after the last one.
    pub(crate) fn on_acked(&mut self, now: Time, sent: Time, pn: u64) {
        if self.ack.packets == 0 || self.ack.is_due {
            self.control_congestion();
            self.ack = Ack { prior_in_flight: self.sk.packets_out, ..Ack::default() };
            self.rate = RateSample { prior_in_flight: self.sk.packets_out, rtt_us: -1, ..RateSample::default() };
        }
        self.set_clock(now);
        let Some(packet) = self.ledger.take_acked(pn, sent.as_micros()) else { return };
        let sent_us = packet.departure.sent_us;
        if self.ack.packets == 0 {
            self.ack.oldest_sent_us = sent_us;
        }
        self.ack.oldest_sent_us = self.ack.oldest_sent_us.min(sent_us);
        self.ack.newest_sent_us = self.ack.newest_sent_us.max(sent_us);
        self.ack.ends_recovery |= self.is_sent_since_reduction(sent);
        self.ack.packets += 1;
        self.sk.packets_out -= 1;
        self.sk.delivered = self.sk.delivered.wrapping_add(1);
        self.sk.bytes_acked += u64::from(self.sk.mss_cache);
        let end = packet.order.wrapping_add(1).wrapping_mul(self.sk.mss_cache);
        self.rate.count_delivery(&mut self.sk, &packet.departure, end);
    }

    /// All that an acknowledgement newly acknowledges has been reported; `in_flight` bytes are left, if known.
    pub(crate) fn on_end_of_ack(&mut self, now: Time, in_flight: Option<u64>) {
        self.set_clock(now);
        while let Some(_packet) = in_flight.and_then(|bytes| self.ledger.take_forgotten(bytes)) {
            self.sk.packets_out -= 1;
            self.counters.forgotten += 1;
        }
        let prior_una = self.sk.snd_una;
        self.advance_una();
        if self.ack.packets == 0 {
            return;
        }
        self.sk.inet_conn.icsk_retransmits = 0;
        self.take_round_trip();
        if !self.is_ready {
            self.is_ready = true;
            self.sk.note_delivery(self.ack.packets);
            self.ack = Ack::default();
            self.usage_end = self.sk.snd_nxt;
            self.sk.init();
            self.follow_window(true);
            return;
        }
        let ack = self.ack;
        if self.sk.has_pkts_acked() {
            let rtt_us = i32::try_from(self.rate.rtt_us).unwrap_or(i32::MAX);
            self.sk.pkts_acked(&AckSample { pkts_acked: ack.packets, rtt_us, in_flight: ack.prior_in_flight });
        }
        if self.sk.has_in_ack_event() {
            let in_order = self.sk.snd_una.wrapping_sub(prior_una) == ack.packets.wrapping_mul(self.sk.mss_cache);
            self.sk.in_ack_event(CA_ACK_WIN_UPDATE | if in_order { 0 } else { CA_ACK_SLOWPATH });
        }
        if ack.ends_recovery {
            self.end_reduction();
        }
        self.ack.is_due = true;
    }

    /// A packet is deemed lost.
    pub(crate) fn on_lost(&mut self, now: Time, pn: u64) {
        self.set_clock(now);
        if self.ledger.take_lost(pn).is_none() {
            return;
        }
        self.sk.lost = self.sk.lost.wrapping_add(1);
        self.sk.packets_out -= 1;
        self.ack.losses += u32::from(self.ack.is_due);
        self.advance_una();
    }

    /// Losses were found, the newest of which left at `sent` (RFC 9002, section 7.3.2).
    pub(crate) fn on_loss_event(&mut self, now: Time, sent: Time) {
        self.set_clock(now);
        if self.is_ready && self.is_sent_since_reduction(sent) {
            self.counters.recoveries += 1;
            self.sk.prior_ssthresh = self.current_ssthresh();
            self.reduce(now, CaState::Recovery);
        }
    }

    /// A mark was reported with the acknowledgement of a packet that left at `sent` (RFC 9002, section 7.1).
    pub(crate) fn on_mark(&mut self, now: Time, sent: Time) {
        self.set_clock(now);
        self.sk.delivered_ce = self.sk.delivered_ce.wrapping_add(1);
        if self.is_ready && self.is_sent_since_reduction(sent) {
            self.counters.marks += 1;
            self.sk.prior_ssthresh = 0;
            self.reduce(now, CaState::Cwr);
        }
    }

    /// All packets of a long time were lost (RFC 9002, section 7.6.2): the window becomes its minimum.
    pub(crate) fn on_persistent_congestion(&mut self, now: Time) {
        self.set_clock(now);
        if !self.is_ready {
            return;
        }
        self.counters.persistent += 1;
        self.sk.prior_ssthresh = self.current_ssthresh();
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.snd_ssthresh = self.sk.ssthresh();
        self.sk.cwnd_event(CaEvent::Loss);
        self.sk.snd_cwnd = MINIMUM_WINDOW;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.snd_cwnd_stamp = self.now_ms();
        self.sk.inet_conn.icsk_retransmits = 1;
        self.sk.set_state(CaState::Loss);
        self.mark_reduction(now);
    }

    /// Everything that was deemed lost has arrived: the reduction was needless, and is undone once.
    pub(crate) fn on_spurious_loss(&mut self) {
        self.control_congestion();
        if self.sk.prior_ssthresh == 0 || self.reduced_at.is_none() {
            return;
        }
        self.counters.undone += 1;
        self.sk.snd_cwnd = self.sk.undo_cwnd();
        self.sk.snd_ssthresh = self.sk.snd_ssthresh.max(self.sk.prior_ssthresh);
        self.sk.prior_ssthresh = 0;
        self.sk.snd_cwnd_stamp = self.now_ms();
        if self.state() != CaState::Open {
            self.sk.set_state(CaState::Open);
        }
    }

    /// All that may leave now has left, and the window was the limit or not. `is_dry`: there is nothing more to send.
    pub(crate) fn end_turn(&mut self, now: Time, is_dry: bool) -> bool {
        self.control_congestion();
        self.set_clock(now);
        let window_full = std::mem::take(&mut self.window_full) || self.sk.packets_out >= self.sk.snd_cwnd;
        self.validate_window(window_full);
        if is_dry && !window_full {
            self.sk.app_limited = (self.sk.delivered.wrapping_add(self.sk.packets_out)).max(1);
        }
        window_full
    }

    /// Begins to count the stack's questions of a turn, see [`Sender::is_held_by_pacer`]; returns the next sequence number.
    pub(crate) fn begin_poll(&mut self) -> u32 {
        self.asked = 0;
        self.sk.snd_nxt
    }

    /// Whether the pacer has kept a packet back since [`Sender::begin_poll`]: the stack asks for metrics once for a turn that sends nothing,
    /// and again where it has a packet that the window allows.
    pub(crate) fn is_held_by_pacer(&self) -> bool {
        self.asked > 1
    }

    /// Congestion window in bytes. The stack sends while a whole packet more stays below it, so one byte is added.
    pub(crate) fn window(&mut self) -> u64 {
        self.control_congestion();
        u64::from(self.sk.snd_cwnd.max(MINIMUM_WINDOW)) * u64::from(self.sk.mss_cache) + 1
    }

    /// Slow start threshold in bytes; `None` before a reduction.
    pub(crate) fn ssthresh(&self) -> Option<u64> {
        let ssthresh = self.sk.snd_ssthresh;
        (ssthresh < perigee_cc::INFINITE_SSTHRESH).then(|| u64::from(ssthresh) * u64::from(self.sk.mss_cache))
    }

    /// Pacing rate in bytes/s that the stack shall keep, for one of its questions.
    pub(crate) fn asked_rate(&mut self) -> u64 {
        self.asked += 1;
        self.pacing_rate().map_or(UNPACED, |rate| rate.min(UNPACED))
    }

    /// Pacing rate in bytes/s; `None` without pacing.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        let sk = &self.sk.inet_conn.sk;
        (sk.sk_pacing_status != perigee_cc::pacing::NONE).then_some(sk.sk_pacing_rate)
    }

    pub(crate) fn state(&self) -> CaState {
        CaState::try_from(self.sk.inet_conn.icsk_ca_state).unwrap_or(CaState::Loss)
    }

    /// Bytes of memory beside the value itself.
    pub(crate) fn memory(&self) -> usize {
        self.ledger.memory()
    }

    /// What an acknowledgement means for window and rate, once its losses are known: at the stack's next call.
    fn control_congestion(&mut self) {
        if !std::mem::take(&mut self.ack.is_due) {
            return;
        }
        let Ack { packets, losses, .. } = std::mem::take(&mut self.ack);
        self.sk.note_delivery(packets);
        self.rate.complete(&self.sk, packets, losses, false);
        let una = self.sk.snd_una;
        if self.sk.has_cong_control() {
            self.sk.cong_control(una, FLAG_DATA_ACKED | FLAG_SND_UNA_ADVANCED, &self.rate);
            return;
        }
        if !matches!(self.state(), CaState::Recovery | CaState::Cwr) {
            self.sk.cong_avoid(una, packets);
            self.sk.snd_cwnd_stamp = self.now_ms();
        }
        self.follow_window(false);
    }

    /// Sets the pacing rate of algorithms that leave it to the host.
    fn follow_window(&mut self, is_first: bool) {
        if !self.sk.has_cong_control() && (is_first || self.sk.in_slow_start() || self.pacing_rate().is_some()) {
            self.sk.follow_window();
        }
    }

    /// Reduces the window at once, as both RFC 9002 (section 7.3.2) and the stack's own controls do.
    fn reduce(&mut self, now: Time, state: CaState) {
        self.sk.snd_cwnd_cnt = 0;
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.snd_ssthresh = self.sk.ssthresh();
        if !self.sk.has_cong_control() {
            self.sk.snd_cwnd = self.sk.snd_ssthresh.max(MINIMUM_WINDOW);
        }
        self.sk.set_state(state);
        self.mark_reduction(now);
    }

    fn mark_reduction(&mut self, now: Time) {
        self.sk.high_seq = self.sk.snd_nxt;
        self.reduced_at = Some(now);
    }

    /// A packet that left within the recovery period was acknowledged, which ends it.
    fn end_reduction(&mut self) {
        let state = self.state();
        if state == CaState::Open {
            return;
        }
        if state != CaState::Loss && !self.sk.has_cong_control() {
            self.sk.snd_cwnd = self.sk.snd_ssthresh.max(MINIMUM_WINDOW);
            self.sk.snd_cwnd_stamp = self.now_ms();
            self.sk.cwnd_event(CaEvent::CompleteCwr);
        }
        self.sk.set_state(CaState::Open);
    }

    fn is_sent_since_reduction(&self, sent: Time) -> bool {
        self.reduced_at.is_none_or(|at| sent > at)
    }

    /// Slow start threshold to restore if the coming reduction is undone (Linux's `tcp_current_ssthresh`).
    fn current_ssthresh(&self) -> u32 {
        if matches!(self.state(), CaState::Cwr | CaState::Recovery) {
            return self.sk.snd_ssthresh;
        }
        self.sk.snd_ssthresh.max((self.sk.snd_cwnd >> 1) + (self.sk.snd_cwnd >> 2))
    }

    /// Takes the round trips of the oldest and the newest packet acknowledged, delays of the receiver included.
    fn take_round_trip(&mut self) {
        let now_us = self.sk.tcp_mstamp;
        let newest_us = now_us - self.ack.newest_sent_us;
        self.rate.rtt_us = newest_us as i64;
        self.latest_rtt = Some(Time::from_micros(newest_us));
        let sample = |us: u64| u32::try_from(us).unwrap_or(u32::MAX).max(1);
        self.sk.rtt_min_us = self.rtt_min.update(self.now_ms(), sample(newest_us));
        self.sk.smooth_rtt(sample(now_us - self.ack.oldest_sent_us));
    }

    /// Records whether the window limited sending (Linux's `tcp_cwnd_validate`).
    fn validate_window(&mut self, limited: bool) {
        let passed = (self.sk.snd_una.wrapping_sub(self.usage_end) as i32) >= 0;
        if limited || passed || (self.sk.is_cwnd_limited == 0 && self.sk.packets_out > self.sk.max_packets_out) {
            self.sk.is_cwnd_limited = u8::from(limited);
            self.sk.max_packets_out = self.sk.packets_out;
            self.usage_end = self.sk.snd_nxt;
        }
    }

    fn advance_una(&mut self) {
        let oldest = self.ledger.oldest().unwrap_or(self.sent);
        self.sk.snd_una = oldest.wrapping_mul(self.sk.mss_cache);
    }

    fn set_clock(&mut self, now: Time) {
        self.sk.tcp_clock_cache = now.as_nanos();
        self.sk.tcp_wstamp_ns = now.as_nanos();
        self.sk.tcp_mstamp = now.as_micros();
    }

    fn now_ms(&self) -> u32 {
        (self.sk.tcp_mstamp / 1000) as u32
    }
}

/// Smallest window (RFC 9002, section 7.2), packets.
const MINIMUM_WINDOW: u32 = 2;
/// The rate of a sender that does not pace, bytes/s: the stack's pacer cannot be switched off.
const UNPACED: u64 = 2_000_000_000;
/// Linux's `enum tcp_ca_ack_event_flags`.
const CA_ACK_SLOWPATH: u32 = 1;
const CA_ACK_WIN_UPDATE: u32 = 2;
/// Flags of Linux's `tcp_ack`.
const FLAG_DATA_ACKED: u32 = 0x04;
const FLAG_SND_UNA_ADVANCED: u32 = 0x400;
