//! The handshake, option negotiation, and connection failure.

use perigee_cc::{ecn, CaState};
use perigee_settings::InitialWindowCut;

use super::{Endpoint, Failure, State};
use crate::segment::{Flags, Header, Segment};

impl Endpoint {
    /// ECN is a setting of the host, or a need of the congestion control.
    pub(super) fn asks_for_ecn(&self) -> bool {
        self.choice.config.ecn || self.sender.sk.needs_ecn()
    }

    pub(super) fn on_syn(&mut self, segment: &Segment) {
        self.negotiate(segment);
        self.receiver.on_request(u64::from(self.sender.settings.option_bytes()));
        self.state = State::SynReceived;
        self.sender.output.due = true;
    }

    pub(super) fn on_syn_ack(&mut self, segment: &Segment) {
        let acks_syn = segment.ack == self.sender.stream.to_wire(1);
        if !segment.flags.has(Flags::SYN | Flags::ACK) || !acks_syn {
            return;
        }
        self.negotiate(segment);
        self.become_established(segment);
        self.receiver.force_ack();
    }

    pub(super) fn negotiate(&mut self, segment: &Segment) {
        self.irs = segment.seq;
        self.receiver.on_syn();
        self.ts_recent = segment.tsval;
        let agreed = &mut self.sender.settings;
        agreed.timestamps &= segment.timestamps;
        agreed.sack &= segment.sack_permitted;
        self.receiver.set_sack(agreed.sack);
        // RFC 7323, section 2.2: windows are scaled in both directions or in neither.
        self.window_scale = self.window_scale.filter(|_| segment.window_scale.is_some());
        let both_ecn = self.asks_for_ecn() && segment.flags.has(Flags::ECE);
        self.sender.ecn.on = both_ecn;
        self.sender.ecn.on_all = both_ecn && self.sender.sk.needs_ecn();
        self.heeds_arrivals |= self.sender.ecn.on_all;
        self.sender.sk.ecn_flags = if both_ecn { ecn::OK } else { 0 };
        let mss = u32::from(segment.mss.min(self.choice.config.mss))
            .saturating_sub(self.sender.settings.option_bytes())
            .max(1);
        self.sender.sk.mss_cache = mss;
        self.sender.sk.advmss = mss;
    }

    /// Completes the handshake: its round trip is the first sample, and the congestion control starts.
    pub(super) fn become_established(&mut self, segment: &Segment) {
        self.sender.peer_window.end = 1 + u64::from(segment.window);
        let opened = self.state == State::SynSent;
        let first_window = self.initial_window(segment);
        self.sender.on_ack(segment, true);
        if self.sender.sk.srtt_us == 0 {
            self.sender.rtt.on_handshake_without_sample();
            self.sender.timer.backoff = 0;
        }
        self.state = State::Established;
        self.sender.established = true;
        self.receiver.on_established(self.sender.now, u64::from(self.sender.settings.option_bytes()), opened);
        self.sender.pacing.segments = 0;
        self.sender.set_state(CaState::Open);
        self.sender.sk.snd_cwnd = self.begin_on_route(first_window);
        self.sender.sk.snd_cwnd_stamp = self.sender.now_ms;
        self.sender.sk.rcv_nxt = self.peer_wire(self.receiver.next());
        self.sender.sk.init();
        self.sender.update_pacing_rate_unless_owned();
        self.sender.output.due = true;
    }

    /// The window to begin with: one segment after a handshake that lost something (RFC 5681, section 3.1), as the setting tells that.
    fn initial_window(&self, completing: &Segment) -> u32 {
        let retransmitted = self.sender.sk.total_retrans;
        let is_cut = match self.choice.config.initial_window_cut {
            InitialWindowCut::Any => retransmitted > 0,
            InitialWindowCut::Several => retransmitted > 1,
            InitialWindowCut::Timeouts => {
                let echo_ms = completing.timestamps.then_some(completing.tsecr);
                retransmitted > 1 && self.sender.counters.rto_count > 0 && !self.sender.original_was_delayed(echo_ms)
            }
        };
        if is_cut {
            1
        } else {
            self.choice.config.initial_window
        }
    }

    /// The peer has missed our part of the handshake: it is answered again. The timeout of a SYN-ACK starts anew then,
    /// without having expired (Linux's `tcp_check_req`).
    #[cold]
    pub(super) fn on_repeated_syn(&mut self) {
        self.receiver.force_ack();
        if self.state == State::SynReceived {
            self.sender.rearm_timeout();
        }
    }

    /// Processes a reset (RFC 9293, section 3.10.7): it ends the connection, or refuses it during the handshake.
    #[cold]
    pub(super) fn on_reset(&mut self, segment: &Segment) {
        match self.state {
            State::Closed | State::Listen | State::Failed(_) => {}
            State::SynSent if segment.ack != self.sender.stream.to_wire(1) => {}
            State::SynSent => self.fail(Failure::Refused),
            State::SynReceived => self.listen_again(),
            State::Established => self.fail(Failure::Reset),
        }
    }

    /// Retransmissions are exhausted: the connection fails, or a listening endpoint drops the request and listens again.
    #[cold]
    pub(super) fn give_up(&mut self) {
        if self.state == State::SynReceived {
            self.listen_again();
        } else {
            self.fail(Failure::TimedOut);
        }
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.state = State::Failed(failure);
        self.sender.output.due = false;
    }

    /// Returns to LISTEN without losing the data that the application has written.
    pub(super) fn listen_again(&mut self) {
        let mut fresh = Self::new(self.choice.clone(), self.seed, State::Listen);
        fresh.sender.stream.written = self.sender.stream.written;
        fresh.sender.stream.fin_queued = self.sender.stream.fin_queued;
        fresh.has_fast_path = self.has_fast_path;
        *self = fresh;
    }

    /// Answers a connection request, or a segment of an unknown connection, with a reset (RFC 9293, section 3.10.7.1).
    #[cold]
    pub fn refuse_request(&mut self, segment: &Segment) {
        let reset = if segment.flags.has(Flags::ACK) {
            Header { seq: segment.ack, flags: Flags(Flags::RST), ..Header::default() }
        } else {
            let length = u32::from(segment.len) + u32::from(segment.flags.has(Flags::SYN));
            let ack = segment.seq.wrapping_add(length);
            Header { ack, flags: Flags(Flags::RST | Flags::ACK), ..Header::default() }
        };
        self.reset = Some(reset.into());
        self.sender.output.due = true;
    }
}
