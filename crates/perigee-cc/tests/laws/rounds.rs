//! A simulator in round trips: one connection, a window of evenly spaced ACKs per round trip, losses only where a test asks.

use perigee_cc::{AckSample, CaEvent, CaState, Selected, Socket};

const MSS: u32 = 1448;

pub(crate) struct Rounds {
    pub(crate) socket: Socket,
    pub(crate) rtt_us: u64,
    /// ACKs of a round arrive within this share of it: 1.0 spreads them over the round trip.
    pub(crate) spread: f64,
}

impl Rounds {
    /// A connection after its handshake.
    pub(crate) fn new(name: &str, settings: &[(&str, &str)], rtt_us: u64) -> Self {
        let selected = Selected::parse(name, settings).expect("the test names what there is");
        let mut socket = Socket::new(&selected, MSS, 10, 1);
        (socket.tcp_mstamp, socket.is_cwnd_limited) = (5_000_000, 1);
        socket.srtt_us = (rtt_us as u32) << 3;
        socket.rtt_min_us = rtt_us as u32;
        socket.init();
        Self { socket, rtt_us, spread: 1.0 }
    }

    /// In avoidance at this window.
    pub(crate) fn avoiding(mut self, cwnd: u32) -> Self {
        (self.socket.snd_cwnd, self.socket.snd_ssthresh) = (cwnd, 2.min(cwnd));
        self
    }

    /// One round trip: every packet of the window is acknowledged. Returns the window after it.
    pub(crate) fn round(&mut self) -> u32 {
        let (packets, begin) = (self.socket.snd_cwnd, self.socket.tcp_mstamp);
        let sk = &mut self.socket;
        sk.snd_nxt = sk.snd_una.wrapping_add(packets.wrapping_mul(MSS));
        for i in 1..=u64::from(packets) {
            let spread = (self.rtt_us as f64 * self.spread) as u64;
            self.socket.tcp_mstamp = begin + spread * i / u64::from(packets);
            self.ack(self.rtt_us);
        }
        self.socket.tcp_mstamp = begin + self.rtt_us;
        self.socket.snd_cwnd
    }

    pub(crate) fn rounds(&mut self, count: u32) -> u32 {
        (0..count).map(|_| self.round()).last().unwrap_or(self.socket.snd_cwnd)
    }

    /// One packet is acknowledged after this round trip.
    pub(crate) fn ack(&mut self, rtt_us: u64) {
        let sk = &mut self.socket;
        sk.snd_una = sk.snd_una.wrapping_add(MSS);
        sk.delivered = sk.delivered.wrapping_add(1);
        sk.in_ack_event(0);
        sk.pkts_acked(&AckSample { pkts_acked: 1, rtt_us: rtt_us as i32, in_flight: sk.snd_cwnd });
        let una = sk.snd_una;
        sk.cong_avoid(una, 1);
    }

    /// A loss, repaired within a round trip. Returns the window after it.
    pub(crate) fn lose(&mut self) -> u32 {
        let sk = &mut self.socket;
        sk.prior_cwnd = sk.snd_cwnd;
        sk.snd_ssthresh = sk.ssthresh();
        sk.set_state(CaState::Recovery);
        sk.snd_cwnd = sk.snd_ssthresh;
        sk.tcp_mstamp += self.rtt_us;
        sk.cwnd_event(CaEvent::CompleteCwr);
        sk.set_state(CaState::Open);
        sk.snd_cwnd
    }

    /// A timeout: back to one packet.
    pub(crate) fn time_out(&mut self) {
        let sk = &mut self.socket;
        sk.prior_cwnd = sk.snd_cwnd;
        sk.snd_ssthresh = sk.ssthresh();
        sk.cwnd_event(CaEvent::Loss);
        sk.set_state(CaState::Loss);
        sk.snd_cwnd = 1;
        sk.tcp_mstamp += 1_000_000;
        sk.set_state(CaState::Open);
    }
}
