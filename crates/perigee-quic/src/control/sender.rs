//! The socket that algorithms see, filled from the events of a QUIC sender.
//!
//! Where RFC 9002 says what a sender does, it is done: recovery reduces the window at once and ends with the first acknowledgement of a
//! packet sent within it. Elsewhere the socket is as Linux would fill it. `docs/models/quic.md` has each decision.

use perigee_cc::{AckSample, CaEvent, CaState, Departure, RateSample, Socket, WindowedMin};
use perigee_units::Time;

use super::ledger::Ledger;
use crate::qlog::Kind;

/// Counts of the adapter beside the algorithm's socket.
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
    /// Packets that left with the keys of a handshake or as early data that were refused, neither acknowledged nor lost.
    pub forgotten: u64,
}

/// A sender's socket, with what the host of an algorithm keeps beside it.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) sk: Socket,
    pub(crate) counters: Counters,
    /// Numbers of lost packets, where a log takes them.
    pub(crate) lost_numbers: Option<Vec<u64>>,
    /// The latest round trip, until it is asked for.
    pub(crate) latest_rtt: Option<Time>,
    ledger: Ledger,
    rtt_min: WindowedMin,
    rate: RateSample,
    ack: Ack,
    /// Packets sent, which count as sequence numbers of whole packets.
    sent: u32,
    /// Place in the order of departure, and sequence number, from which on packets have the size that they have now.
    sized: (u32, u32),
    sent_before_turn: u32,
    /// Place in the order of departure of the newest packet acknowledged.
    newest_acked: u32,
    /// Place of the first packet after the beginning of the latest reduction, to which those before it belong.
    reduced_at: Option<u32>,
    /// Place of the first packet after the latest loss that belongs to that reduction: no later one replaces what was lost.
    repaired_at: u32,
    /// Place of the newest packet deemed lost.
    newest_lost: u32,
    /// The algorithm has been initialised, with a round trip.
    is_ready: bool,
    window_full: bool,
    /// The last turn ended with nothing more to send.
    is_dry: bool,
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
    /// The oldest packet in flight is another one than before.
    advances: bool,
    /// Congestion control is due once its losses are known.
    is_due: bool,
}

impl Sender {
    /// A sender before its handshake. `sk` is as new.
    pub(crate) fn new(mut sk: Socket, paces_always: bool) -> Self {
        sk.snd_wnd = NO_LIMIT;
        if paces_always {
            sk.inet_conn.sk.sk_pacing_status = perigee_cc::pacing::NEEDED;
        }
        Self {
            sk,
            counters: Counters::default(),
            lost_numbers: None,
            latest_rtt: None,
            ledger: Ledger::default(),
            rtt_min: WindowedMin::default(),
            rate: RateSample::default(),
            ack: Ack::default(),
            sent: 0,
            sized: (0, 0),
            sent_before_turn: 0,
            newest_acked: 0,
            reduced_at: None,
            repaired_at: 0,
            newest_lost: 0,
            is_ready: false,
            window_full: false,
            is_dry: true,
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
        if u32::from(bytes) > mss {
            // A probe of the path's MTU, whose loss says nothing of congestion and is not reported (RFC 9000, section 14.4).
            return;
        }
        if self.sk.packets_out == 0 {
            if self.is_ready {
                self.sk.cwnd_event(CaEvent::TxStart);
            }
            (self.sk.first_tx_mstamp, self.sk.delivered_mstamp) = (now_us, now_us);
        }
        self.sk.lsndtime = now.as_millis() as u32;
        self.charge_pacing();
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
        self.sk.snd_nxt = self.sequence(self.sent);
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
        self.ack.ends_recovery |= self.ends_reduction(packet.order);
        self.ack.packets += 1;
        if (packet.order.wrapping_sub(self.newest_acked) as i32) > 0 {
            self.newest_acked = packet.order;
        }
        self.sk.packets_out -= 1;
        self.sk.delivered = self.sk.delivered.wrapping_add(1);
        self.sk.bytes_acked += u64::from(self.sk.mss_cache);
        let end = self.sequence(packet.order.wrapping_add(1));
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
        self.ack.advances = self.sk.snd_una != prior_una;
        self.sk.inet_conn.icsk_retransmits = 0;
        self.take_round_trip();
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
        self.note_disorder();
        self.ack.is_due = true;
        if !self.is_ready {
            self.complete_handshake();
        }
    }

    /// A packet is deemed lost.
    pub(crate) fn on_lost(&mut self, now: Time, pn: u64) {
        self.set_clock(now);
        let Some(packet) = self.ledger.take_lost(pn) else { return };
        if (packet.order.wrapping_sub(self.newest_lost) as i32) > 0 {
            self.newest_lost = packet.order;
        }
        if let Some(numbers) = &mut self.lost_numbers {
            numbers.push(pn);
        }
        self.sk.lost = self.sk.lost.wrapping_add(1);
        self.sk.packets_out -= 1;
        self.ack.losses += u32::from(self.ack.is_due);
        self.advance_una();
    }

    /// All losses that were found have been reported (RFC 9002, section 7.3.2).
    pub(crate) fn on_loss_event(&mut self, now: Time) {
        self.set_clock(now);
        if self.is_ready && self.is_sent_since_reduction(self.newest_lost) {
            self.counters.recoveries += 1;
            self.sk.prior_ssthresh = self.current_ssthresh();
            self.reduce(CaState::Recovery);
        }
        self.repaired_at = self.sent;
    }

    /// Marks were reported with the latest acknowledgement (RFC 9002, section 7.1).
    pub(crate) fn on_mark(&mut self, now: Time) {
        self.set_clock(now);
        self.sk.delivered_ce = self.sk.delivered_ce.wrapping_add(1);
        if self.is_ready && self.is_sent_since_reduction(self.newest_acked) {
            self.counters.marks += 1;
            self.sk.prior_ssthresh = 0;
            self.reduce(CaState::Cwr);
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
        self.mark_reduction();
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

    /// Datagrams have another size from now on. The window keeps its bytes, as after a probe of Linux (`tcp_mtup_probe_success`), and so
    /// does the sequence number of the oldest packet in flight.
    pub(crate) fn set_datagram_size(&mut self, bytes: u16) {
        let (before, bytes) = (u64::from(self.sk.mss_cache), u64::from(bytes));
        if bytes == before {
            return;
        }
        self.control_congestion();
        self.sized = (self.oldest(), self.sk.snd_una);
        self.sk.mss_cache = bytes as u32;
        let packets = |packets: u32| u32::try_from(u64::from(packets) * before / bytes).unwrap_or(u32::MAX);
        if self.sk.snd_ssthresh < perigee_cc::INFINITE_SSTHRESH {
            self.sk.snd_ssthresh = packets(self.sk.snd_ssthresh);
        }
        self.sk.snd_cwnd = packets(self.sk.snd_cwnd).max(MINIMUM_WINDOW);
        self.sk.snd_cwnd_cnt = 0;
        self.sk.snd_cwnd_stamp = self.now_ms();
        self.sk.snd_nxt = self.sequence(self.sent);
        self.sk.write_seq = self.sk.snd_nxt;
    }

    /// All that may leave now has left, and the window was the limit or not. `is_dry`: there is nothing more to send.
    pub(crate) fn end_turn(&mut self, now: Time, is_dry: bool) -> bool {
        self.control_congestion();
        self.set_clock(now);
        let window_full = std::mem::take(&mut self.window_full) || self.sk.packets_out >= self.sk.snd_cwnd;
        let has_sent = std::mem::replace(&mut self.sent_before_turn, self.sent) != self.sent;
        if has_sent || window_full {
            self.validate_window(window_full);
        }
        self.is_dry = is_dry;
        window_full
    }

    /// The application writes: what leaves until all that is in flight has been delivered is limited by it, if it had nothing more to send
    /// (Linux's `tcp_rate_check_app_limited`).
    pub(crate) fn on_write(&mut self) {
        if self.is_dry && self.sk.packets_out < self.sk.snd_cwnd {
            self.sk.app_limited = self.sk.delivered.wrapping_add(self.sk.packets_out).max(1);
        }
    }

    /// Begins to count the stack's questions of a turn, see [`Sender::is_held_by_pacer`]; returns the place of the next packet in the
    /// order of departure.
    pub(crate) fn begin_poll(&mut self) -> u32 {
        self.asked = 0;
        self.sent
    }

    /// Packets of these kinds and lengths have left in a datagram, the first one that asks for an acknowledgement at this place.
    pub(crate) fn set_kinds(&mut self, since: u32, kinds: impl Iterator<Item = (Kind, usize)>) {
        self.ledger.set_kinds(since, kinds);
    }

    /// Whether the pacer has kept a packet back since [`Sender::begin_poll`]: the stack asks for metrics once in a turn that sends
    /// nothing, and again where it has a packet that the window allows.
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

    /// The first acknowledgement is the handshake's. As in Linux, an algorithm sees it, and begins with its round trip.
    fn complete_handshake(&mut self) {
        let initial_window = self.sk.snd_cwnd;
        self.control_congestion();
        self.is_ready = true;
        self.usage_end = self.sk.snd_nxt;
        self.sk.snd_cwnd = initial_window;
        self.sk.snd_cwnd_stamp = self.now_ms();
        self.sk.init();
        if !self.sk.has_cong_control() {
            self.sk.follow_window();
        }
    }

    /// Lets an acknowledgement act on window and rate, once its losses are known: at the stack's next call.
    fn control_congestion(&mut self) {
        if !std::mem::take(&mut self.ack.is_due) {
            return;
        }
        let Ack { packets, losses, advances, .. } = std::mem::take(&mut self.ack);
        self.sk.note_delivery(packets);
        self.rate.complete(&self.sk, packets, losses, false);
        let una = self.sk.snd_una;
        if self.sk.has_cong_control() {
            self.sk.cong_control(una, FLAG_DATA_ACKED | FLAG_SND_UNA_ADVANCED, &self.rate);
            return;
        }
        if advances && !matches!(self.state(), CaState::Recovery | CaState::Cwr) {
            self.sk.cong_avoid(una, packets);
            self.sk.snd_cwnd_stamp = self.now_ms();
        }
        if self.sk.in_slow_start() || self.pacing_rate().is_some() {
            self.sk.follow_window();
        }
    }

    /// Reduces the window at once, as both RFC 9002 (section 7.3.2) and the stack's own controls do.
    fn reduce(&mut self, state: CaState) {
        self.sk.snd_cwnd_cnt = 0;
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.snd_ssthresh = self.sk.ssthresh();
        if !self.sk.has_cong_control() {
            self.sk.snd_cwnd = self.sk.snd_ssthresh.max(MINIMUM_WINDOW);
        }
        self.sk.set_state(state);
        self.mark_reduction();
    }

    fn mark_reduction(&mut self) {
        self.sk.high_seq = self.sk.snd_nxt;
        self.reduced_at = Some(self.sent);
        self.repaired_at = self.sent;
    }

    /// A packet that left within the recovery period was acknowledged, which ends it.
    fn end_reduction(&mut self) {
        let state = self.state();
        if matches!(state, CaState::Open | CaState::Disorder) {
            return;
        }
        if state != CaState::Loss && !self.sk.has_cong_control() {
            self.sk.snd_cwnd = self.sk.snd_ssthresh.max(MINIMUM_WINDOW);
            self.sk.snd_cwnd_stamp = self.now_ms();
            self.sk.cwnd_event(CaEvent::CompleteCwr);
        }
        self.sk.set_state(CaState::Open);
    }

    /// Packets behind one that is missing are Linux's disorder, in which no acknowledgement opens the window.
    fn note_disorder(&mut self) {
        let is_behind = self.ledger.oldest().is_some_and(|oldest| (oldest.wrapping_sub(self.newest_acked) as i32) < 0);
        let (from, to) =
            if is_behind { (CaState::Open, CaState::Disorder) } else { (CaState::Disorder, CaState::Open) };
        if self.state() == from {
            self.sk.set_state(to);
            self.sk.high_seq = self.sk.snd_nxt;
        }
    }

    fn is_sent_since_reduction(&self, order: u32) -> bool {
        self.reduced_at.is_none_or(|at| (order.wrapping_sub(at) as i32) >= 0)
    }

    /// Whether the arrival of this packet ends a recovery: one that left in it (RFC 9002, section 7.3.2). Algorithms that set the window
    /// themselves see Linux's recovery, which ends once all that was lost has been repaired.
    fn ends_reduction(&self, order: u32) -> bool {
        let begin = self.reduced_at.map(|at| if self.sk.has_cong_control() { self.repaired_at } else { at });
        begin.is_none_or(|at| (order.wrapping_sub(at) as i32) >= 0)
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

    /// Sets the earliest departure of the next packet as Linux's own pacing does, though the stack paces in bursts: BBR asks how many
    /// packets will have left the network then. A late start earns a credit of at most half the gap; the first ten packets are not charged.
    fn charge_pacing(&mut self) {
        let (prior, now) = (self.sk.tcp_wstamp_ns, self.sk.tcp_clock_cache);
        self.sk.tcp_wstamp_ns = prior.max(now);
        let Some(rate) = self.pacing_rate().filter(|rate| *rate > 0 && *rate < perigee_cc::UNLIMITED_PACING) else {
            return;
        };
        if self.sent < UNPACED_PACKETS {
            return;
        }
        let gap_ns = u128::from(self.sk.mss_cache) * 1_000_000_000 / u128::from(rate);
        let gap_ns = u64::try_from(gap_ns).unwrap_or(u64::MAX);
        let credit = (self.sk.tcp_wstamp_ns - prior).min(gap_ns / 2);
        self.sk.tcp_wstamp_ns = self.sk.tcp_wstamp_ns.saturating_add(gap_ns - credit);
    }

    fn advance_una(&mut self) {
        self.sk.snd_una = self.sequence(self.oldest());
    }

    /// Place in the order of departure of the oldest packet in flight, or of the next one.
    fn oldest(&self) -> u32 {
        self.ledger.oldest().unwrap_or(self.sent)
    }

    /// Sequence number of the packet at this place in the order of departure.
    fn sequence(&self, order: u32) -> u32 {
        let (place, number) = self.sized;
        number.wrapping_add(order.wrapping_sub(place).wrapping_mul(self.sk.mss_cache))
    }

    fn set_clock(&mut self, now: Time) {
        self.sk.tcp_clock_cache = now.as_nanos();
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
/// Credit of the peer as a window: its flow control is of streams, and limits before packets are made. Below half of the sequence space.
const NO_LIMIT: u32 = 1 << 30;
/// Packets at the beginning that Linux does not pace.
const UNPACED_PACKETS: u32 = 10;
/// Linux's `enum tcp_ca_ack_event_flags`.
const CA_ACK_SLOWPATH: u32 = 1;
const CA_ACK_WIN_UPDATE: u32 = 2;
/// Flags of Linux's `tcp_ack`.
const FLAG_DATA_ACKED: u32 = 0x04;
const FLAG_SND_UNA_ADVANCED: u32 = 0x400;
