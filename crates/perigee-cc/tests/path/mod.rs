//! A small path for tests of algorithms: senders, one FIFO bottleneck, a delay with jitter, an ACK per packet.
//!
//! The host is as much of Linux's sender as an algorithm sees: delivery-rate samples, recovery until the window of the
//! loss is acknowledged, timeouts, pacing. Losses are noticed by the next delivered packet. The real endpoint is another
//! crate's; this one keeps the algorithms testable by themselves.

use std::collections::{BTreeSet, VecDeque};

use perigee_cc::{AckSample, CaEvent, CaState, RateSample, Selected, Socket};
use perigee_units::Stream;

pub(crate) const MSS: u32 = 1448;
const WIRE: u64 = 1500;

/// The path that all flows share.
#[derive(Clone)]
pub(crate) struct Path {
    pub(crate) rate_bps: u64,
    pub(crate) rtt_us: u64,
    pub(crate) queue_bytes: u64,
    /// Standard deviation and time between redraws, us.
    pub(crate) jitter: Option<(f64, u64)>,
    pub(crate) loss: f64,
    /// At each multiple of the first, us, for the second, us, packets are lost with this probability.
    pub(crate) bursts: Option<(u64, u64, f64)>,
    /// From this instant, s, the round trip is longer by this, us.
    pub(crate) step: Option<(f64, u64)>,
    /// From this instant, s, the rate is another, bit/s.
    pub(crate) rate_step: Option<(f64, u64)>,
    /// Packets that the receiver lets be in flight.
    pub(crate) receive_window: u32,
    pub(crate) seed: u64,
    /// The clock when the run begins, us; results do not depend on it.
    pub(crate) epoch_us: u64,
    /// Number of the first packet; its sequence number is this times the segment size.
    pub(crate) first_packet: u32,
}

impl Path {
    pub(crate) fn new(mbps: f64, rtt_ms: u64, queue_bytes: u64) -> Self {
        let rate_bps = (mbps * 1e6) as u64;
        Self {
            rate_bps,
            rtt_us: rtt_ms * 1000,
            queue_bytes,
            jitter: None,
            loss: 0.0,
            bursts: None,
            step: None,
            rate_step: None,
            receive_window: u32::MAX,
            seed: 1,
            epoch_us: 1_000_000,
            first_packet: 0,
        }
    }
}

/// What became of one flow.
pub(crate) struct Outcome {
    /// Delivered bytes at the end of each 100 ms.
    pub(crate) delivered: Vec<u64>,
    /// Mean round trip of each 100 ms, us; 0: no ACK.
    pub(crate) rtt_us: Vec<u64>,
    pub(crate) cwnd: Vec<u32>,
    pub(crate) sent_packets: u64,
    pub(crate) lost_packets: u64,
}

impl Outcome {
    /// Mbit/s between two instants, s.
    pub(crate) fn mbps(&self, from: f64, to: f64) -> f64 {
        let at = |t: f64| self.delivered[((t * 10.0) as usize).min(self.delivered.len() - 1)];
        (at(to) - at(from)) as f64 * 8.0 / (to - from) / 1e6
    }
    /// Mean round trip between two instants, ms.
    pub(crate) fn rtt_ms(&self, from: f64, to: f64) -> f64 {
        let part = &self.rtt_us[(from * 10.0) as usize..(to * 10.0) as usize];
        let known: Vec<_> = part.iter().filter(|r| **r > 0).collect();
        known.iter().map(|r| **r as f64).sum::<f64>() / known.len().max(1) as f64 / 1e3
    }
    /// Seconds until this many bytes were delivered.
    pub(crate) fn time_of(&self, bytes: u64) -> f64 {
        self.delivered.iter().position(|d| *d >= bytes).map_or(f64::INFINITY, |i| i as f64 / 10.0)
    }
    pub(crate) fn lost_share(&self) -> f64 {
        self.lost_packets as f64 / self.sent_packets as f64
    }
}

struct Sent {
    seq: u32,
    at: u64,
    arrives: u64,
    dropped: bool,
    again: bool,
    delivered: u32,
    delivered_at: u64,
    first_tx: u64,
}

struct Flow {
    socket: Socket,
    receive_window: u32,
    in_flight: VecDeque<Sent>,
    to_repeat: VecDeque<u32>,
    /// Delivered beyond a hole: sequence numbers are packets here.
    beyond: BTreeSet<u32>,
    una: u32,
    next: u32,
    next_send: u64,
    timeout: u64,
    backoff: u32,
    rtt_sum: u64,
    rtt_count: u64,
    delivered_bytes: u64,
    out: Outcome,
}

/// Runs endless flows (algorithm, start in s) over a path.
pub(crate) fn run(path: &Path, flows: &[(&Selected, f64)], seconds: f64) -> Vec<Outcome> {
    let mut net = Net::new(path);
    let mut flows: Vec<_> =
        flows.iter().enumerate().map(|(i, (cc, start))| Flow::new(cc, *start, path, i as u64)).collect();
    let end = path.epoch_us + (seconds * 1e6) as u64;
    let mut sample_at = path.epoch_us + 100_000;
    loop {
        let due = flows.iter().enumerate().map(|(i, f)| (f.next_event(), i)).min();
        let Some((now, i)) = due else { break };
        while sample_at <= now.min(end) {
            flows.iter_mut().for_each(Flow::record);
            sample_at += 100_000;
        }
        if now >= end {
            break;
        }
        flows[i].on_event(now, &mut net);
    }
    flows.into_iter().map(|f| f.out).collect()
}

struct Net {
    path: Path,
    free_at_ns: u64,
    last_arrival: u64,
    random: Stream,
    jitter_us: i64,
    jitter_until: u64,
}

impl Net {
    fn new(path: &Path) -> Self {
        let random = Stream::new(path.seed, "path");
        Self { path: path.clone(), free_at_ns: 0, last_arrival: 0, random, jitter_us: 0, jitter_until: 0 }
    }

    /// When the ACK of a packet sent now arrives, or `None` where the packet is lost.
    fn send(&mut self, now: u64) -> Option<u64> {
        let (path, now_ns) = (&self.path, now * 1000);
        let begun = |(at, value): (f64, u64)| (now >= path.epoch_us + (at * 1e6) as u64).then_some(value);
        let rate_bps = path.rate_step.and_then(begun).unwrap_or(path.rate_bps);
        let rtt_us = path.rtt_us + path.step.and_then(begun).unwrap_or(0);
        let waiting = self.free_at_ns.saturating_sub(now_ns);
        if u128::from(waiting) * u128::from(rate_bps) / 8_000_000_000 > u128::from(path.queue_bytes) {
            return None;
        }
        self.free_at_ns = self.free_at_ns.max(now_ns) + WIRE * 8_000_000_000 / rate_bps;
        let burst = path.bursts.filter(|(period, length, _)| (now - path.epoch_us) % period < *length);
        if self.random.chance(burst.map_or(path.loss, |(_, _, loss)| loss.max(path.loss))) {
            return None;
        }
        if let Some((sd, every)) = path.jitter {
            if now >= self.jitter_until {
                self.jitter_us = (self.random.normal() * sd) as i64;
                self.jitter_until = now + every;
            }
        }
        let arrives = (self.free_at_ns / 1000 + rtt_us).saturating_add_signed(self.jitter_us);
        self.last_arrival = self.last_arrival.max(arrives);
        Some(self.last_arrival)
    }
}

impl Flow {
    fn new(cc: &Selected, start: f64, path: &Path, index: u64) -> Self {
        let start = path.epoch_us + (start * 1e6) as u64;
        let first_byte = path.first_packet.wrapping_mul(MSS);
        let mut socket = Socket::new(cc, MSS, 10, path.seed + index);
        socket.srtt_us = (path.rtt_us as u32) << 3;
        socket.rtt_min_us = path.rtt_us as u32;
        (socket.tcp_mstamp, socket.delivered_mstamp, socket.first_tx_mstamp) = (start, start, start);
        (socket.tcp_clock_cache, socket.delivered, socket.is_cwnd_limited) = (start * 1000, 1, 1);
        (socket.snd_una, socket.snd_nxt) = (first_byte, first_byte);
        socket.init();
        let out = Outcome { delivered: vec![0], rtt_us: vec![0], cwnd: vec![0], sent_packets: 0, lost_packets: 0 };
        Self {
            socket,
            receive_window: path.receive_window,
            in_flight: VecDeque::new(),
            to_repeat: VecDeque::new(),
            beyond: BTreeSet::new(),
            una: path.first_packet,
            next: path.first_packet,
            next_send: start,
            timeout: u64::MAX,
            backoff: 0,
            rtt_sum: 0,
            rtt_count: 0,
            delivered_bytes: 0,
            out,
        }
    }

    fn record(&mut self) {
        self.out.delivered.push(self.delivered_bytes);
        self.out.rtt_us.push(self.rtt_sum.checked_div(self.rtt_count).unwrap_or(0));
        self.out.cwnd.push(self.socket.snd_cwnd);
        (self.rtt_sum, self.rtt_count) = (0, 0);
    }

    fn may_send(&self) -> bool {
        self.socket.packets_in_flight() < self.socket.snd_cwnd.min(self.receive_window)
    }

    fn next_ack(&self) -> u64 {
        self.in_flight.iter().find(|s| !s.dropped).map_or(u64::MAX, |s| s.arrives)
    }

    fn next_event(&self) -> u64 {
        let send = if self.may_send() { self.next_send.max(self.socket.tcp_mstamp) } else { u64::MAX };
        send.min(self.next_ack()).min(self.timeout)
    }

    fn on_event(&mut self, now: u64, net: &mut Net) {
        let sk = &mut self.socket;
        (sk.tcp_mstamp, sk.tcp_clock_cache) = (now, now * 1000);
        if self.next_ack() <= now {
            self.on_ack(now);
        } else if self.timeout <= now {
            self.on_timeout(now);
        } else {
            self.transmit(now, net);
        }
    }

    fn transmit(&mut self, now: u64, net: &mut Net) {
        if self.in_flight.is_empty() {
            self.socket.cwnd_event(CaEvent::TxStart);
            (self.socket.first_tx_mstamp, self.socket.delivered_mstamp) = (now, now);
        }
        let again = self.to_repeat.pop_front();
        let seq = again.unwrap_or(self.next);
        let sk = &mut self.socket;
        if again.is_some() {
            sk.retrans_out += 1;
            sk.total_retrans += 1;
        } else {
            self.next += 1;
            sk.snd_nxt = sk.snd_nxt.wrapping_add(MSS);
            sk.packets_out += 1;
        }
        sk.bytes_sent += u64::from(MSS);
        sk.lsndtime = (now / 1000) as u32;
        sk.max_packets_out = sk.max_packets_out.max(sk.packets_out);
        self.out.sent_packets += 1;
        let arrives = net.send(now);
        self.in_flight.push_back(Sent {
            seq,
            at: now,
            arrives: arrives.unwrap_or(0),
            dropped: arrives.is_none(),
            again: again.is_some(),
            delivered: sk.delivered,
            delivered_at: sk.delivered_mstamp,
            first_tx: sk.first_tx_mstamp,
        });
        if self.timeout == u64::MAX {
            self.timeout = now + self.rto();
        }
        let sk = &mut self.socket;
        let paced = sk.inet_conn.sk.sk_pacing_status == perigee_cc::pacing::NEEDED;
        if paced {
            self.next_send = now + (WIRE * 1_000_000 / sk.inet_conn.sk.sk_pacing_rate.max(1)).max(1);
            sk.tcp_wstamp_ns = self.next_send * 1000;
        } else {
            self.next_send = now;
        }
    }

    fn rto(&self) -> u64 {
        (u64::from(self.socket.srtt_us >> 3) * 2).max(1_000_000) << self.backoff.min(6)
    }

    fn mark_lost(&mut self, sent: &Sent) {
        let sk = &mut self.socket;
        if sent.again {
            sk.retrans_out -= 1;
        } else {
            sk.lost_out += 1;
        }
        sk.lost += 1;
        self.out.lost_packets += 1;
        self.to_repeat.push_back(sent.seq);
    }

    fn on_ack(&mut self, now: u64) {
        let (prior_in_flight, prior_una) = (self.socket.packets_in_flight(), self.socket.snd_una);
        let mut losses = 0;
        let packet = loop {
            let Some(sent) = self.in_flight.pop_front() else { return };
            if !sent.dropped {
                break sent;
            }
            losses += 1;
            self.mark_lost(&sent);
        };
        self.delivered(&packet);
        self.timeout = if self.in_flight.is_empty() { u64::MAX } else { now + self.rto() };
        self.backoff = 0;
        let rtt = now - packet.at;
        self.rtt_sum += rtt;
        self.rtt_count += 1;
        let sk = &mut self.socket;
        sk.srtt_us = if sk.srtt_us == 0 { (rtt as u32) << 3 } else { sk.srtt_us - (sk.srtt_us >> 3) + rtt as u32 };
        sk.rtt_min_us = sk.rtt_min_us.min(rtt as u32);
        let ack = sk.snd_una;
        sk.in_ack_event(u32::from(ack == prior_una));
        let rtt_us = if packet.again { -1 } else { rtt as i64 };
        let mut sample = RateSample {
            prior_mstamp: packet.delivered_at,
            prior_delivered: packet.delivered,
            delivered: sk.delivered.wrapping_sub(packet.delivered) as i32,
            rtt_us,
            losses,
            acked_sacked: 1,
            prior_in_flight,
            last_end_seq: (packet.seq + 1).wrapping_mul(MSS),
            is_retrans: packet.again,
            ..RateSample::default()
        };
        (sample.snd_interval_us, sample.rcv_interval_us) =
            ((packet.at - packet.first_tx) as u32, (now - packet.delivered_at) as u32);
        sample.interval_us = i64::from(sample.snd_interval_us.max(sample.rcv_interval_us));
        if sample.interval_us < i64::from(sk.rtt_min_us) {
            (sample.interval_us, sample.delivered) = (-1, -1);
        }
        (sk.first_tx_mstamp, sk.delivered_mstamp) = (packet.at, now);
        sk.pkts_acked(&AckSample { pkts_acked: 1, rtt_us: rtt_us as i32, in_flight: prior_in_flight });
        self.recover(losses > 0);
        self.govern(ack, &sample);
    }

    fn delivered(&mut self, packet: &Sent) {
        let sk = &mut self.socket;
        sk.delivered += 1;
        sk.bytes_acked += u64::from(MSS);
        self.delivered_bytes += u64::from(MSS);
        if packet.again {
            sk.retrans_out -= 1;
            sk.lost_out -= 1;
        }
        sk.sacked_out += 1;
        self.beyond.insert(packet.seq);
        while self.beyond.remove(&self.una) {
            self.una += 1;
            sk.snd_una = sk.snd_una.wrapping_add(MSS);
            sk.sacked_out -= 1;
            sk.packets_out -= 1;
        }
    }

    /// Enters recovery on a loss, leaves it when what was sent by then is acknowledged.
    fn recover(&mut self, lost: bool) {
        let sk = &mut self.socket;
        let state = sk.inet_conn.icsk_ca_state;
        let over = sk.snd_una.wrapping_sub(sk.high_seq) as i32 >= 0;
        if state == CaState::Open as u8 {
            if lost {
                sk.prior_cwnd = sk.snd_cwnd;
                sk.snd_ssthresh = sk.ssthresh();
                sk.high_seq = sk.snd_nxt;
                sk.set_state(CaState::Recovery);
                if !sk.has_cong_control() {
                    sk.snd_cwnd = sk.snd_ssthresh;
                }
            }
        } else if over && !lost {
            if state == CaState::Recovery as u8 && !sk.has_cong_control() {
                sk.cwnd_event(CaEvent::CompleteCwr);
            }
            sk.set_state(CaState::Open);
        }
    }

    fn govern(&mut self, ack: u32, sample: &RateSample) {
        let sk = &mut self.socket;
        if sk.has_cong_control() {
            sk.cong_control(ack, 0, sample);
            return;
        }
        if sk.inet_conn.icsk_ca_state != CaState::Recovery as u8 {
            sk.cong_avoid(ack, 1);
        }
        // As Linux: twice the window per round trip in slow start, 1.2 times after.
        let percent = if sk.snd_cwnd < sk.snd_ssthresh / 2 { 200 } else { 120 };
        let window = u64::from(sk.snd_cwnd) * u64::from(MSS);
        let rate = window * percent * 80_000 / u64::from(sk.srtt_us.max(1));
        sk.inet_conn.sk.sk_pacing_rate = rate;
    }

    fn on_timeout(&mut self, now: u64) {
        while let Some(sent) = self.in_flight.pop_front() {
            self.mark_lost(&sent);
        }
        self.backoff += 1;
        let sk = &mut self.socket;
        sk.prior_cwnd = sk.snd_cwnd;
        sk.snd_ssthresh = sk.ssthresh();
        sk.cwnd_event(CaEvent::Loss);
        sk.high_seq = sk.snd_nxt;
        sk.set_state(CaState::Loss);
        sk.snd_cwnd = 1;
        self.timeout = u64::MAX;
        self.next_send = now;
    }
}
