//! One end of a connection: the handshake, the two halves, and what leaves next.

use perigee_cc::{CaState, Selected, Socket};
use perigee_units::{Stream, Time};

use crate::config::Config;
use crate::receiver::{window_scale, Receiver};
use crate::segment::{Flags, Segment, MAX_SACK_BLOCKS};
use crate::sender::Sender;

/// One end of a TCP connection.
///
/// Tell it what happened ([`Endpoint::open`], [`Endpoint::on_segment`], [`Endpoint::on_timer`], [`Endpoint::write`]),
/// then call [`Endpoint::poll_transmit`] until it returns `None`, and come back at [`Endpoint::next_timer`].
///
/// ```
/// use perigee_cc::Selected;
/// use perigee_tcp::{Config, Endpoint};
/// use perigee_units::Time;
///
/// let (config, cc) = (Config::default(), Selected::parse("reno", &[]).unwrap());
/// let (mut client, mut server) = (Endpoint::client(&config, &cc, 1), Endpoint::server(&config, &cc, 2));
/// client.open(Time::ZERO);
/// server.write(100_000);
/// let mut now = Time::ZERO;
/// while client.received() < 100_000 {
///     now += Time::from_millis(10);
///     for (from, to) in [(0, 1), (1, 0)] {
///         let mut ends = [&mut client, &mut server];
///         ends[from].on_timer(now);
///         while let Some(segment) = ends[from].poll_transmit(now) {
///             ends[to].on_segment(now, &segment, false);
///         }
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Endpoint {
    sender: Sender,
    receiver: Receiver,
    state: State,
    /// The peer's initial sequence number.
    irs: u32,
    config: Config,
    /// Shift applied to the window we send; the segment carries bytes, so the peer's needs no undoing.
    window_scale: u8,
    /// Newest timestamp to echo (TS.Recent).
    ts_recent: u32,
    /// The window of the last segment taken, to tell the fast path from the slow one.
    last_peer_window: u32,
    ecn_echo: bool,
    /// Answers a segment that belongs to no connection here.
    reset: Option<Segment>,
    /// What an end that waits for a SYN is made of, to wait again.
    listener: Option<Box<(Selected, u64)>>,
}

/// Where the connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    Failed(Failure),
}

/// Why a connection failed at one of its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The other end answered the SYN with a reset.
    Refused,
    /// The other end reset the connection.
    Reset,
    /// The other end acknowledged nothing for as long as data or the SYN are retransmitted.
    TimedOut,
}

/// What an endpoint shows of itself, as `TCP_INFO` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Slow start threshold, packets; `None`: not set yet.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Time,
    /// Windowed minimum of the round-trip time; `None` before the first sample.
    pub rtt_min: Option<Time>,
    /// Mean deviation of the round-trip time.
    pub rtt_deviation: Time,
    /// Retransmission timeout, back-off included.
    pub rto: Time,
    /// Packets in the network: sent, neither acknowledged nor deemed lost.
    pub inflight: u32,
    /// Packets sent and not cumulatively acknowledged.
    pub packets_out: u32,
    /// Of these, reported by SACK.
    pub sacked_out: u32,
    /// Of these, deemed lost.
    pub lost_out: u32,
    /// Of these, retransmitted and not acknowledged.
    pub retrans_out: u32,
    /// Packets with data sent, retransmissions included.
    pub sent_packets: u64,
    /// Packets retransmitted.
    pub retransmitted_packets: u64,
    /// Timeouts, those of the handshake included.
    pub rto_count: u64,
    /// Tail loss probes.
    pub probe_count: u64,
    /// Packets delivered, as the sender knows.
    pub delivered: u64,
    /// Pacing rate in bit/s; `None`: not paced.
    pub pacing_rate_bps: Option<u64>,
    /// State of the congestion control.
    pub ca_state: CaState,
    /// First byte not acknowledged, counted from the start of the stream.
    pub snd_una: u64,
    /// Next byte to send, counted so too.
    pub snd_nxt: u64,
    /// Window the peer advertises, bytes.
    pub peer_window: u32,
    /// Reordering degree, packets.
    pub reordering: u32,
}

impl Endpoint {
    /// The end that opens the connection: call [`Endpoint::open`].
    pub fn client(config: &Config, cc: &Selected, seed: u64) -> Self {
        let mut client = Self::new(config, cc, seed, State::Closed);
        let features = &mut client.sender.config;
        features.handshake_retries = config.syn_retries + config.syn_linear_timeouts;
        features.linear_timeouts = config.syn_linear_timeouts;
        client
    }

    /// The end that waits for a SYN.
    pub fn server(config: &Config, cc: &Selected, seed: u64) -> Self {
        let mut server = Self::new(config, cc, seed, State::Listen);
        server.listener = Some(Box::new((cc.clone(), seed)));
        server
    }

    fn new(config: &Config, cc: &Selected, seed: u64, state: State) -> Self {
        let options = if config.timestamps { TIMESTAMP_BYTES } else { 0 };
        let mss = u32::from(config.mss).saturating_sub(options).max(1);
        let iss = Stream::new(seed, "tcp/iss").next_u64() as u32;
        let socket = Socket::new(cc, mss, config.initial_window, seed);
        let mut sender = Sender::new(config, socket, iss);
        if matches!(state, State::Closed | State::Listen) {
            sender.push = false;
        }
        Self {
            sender,
            receiver: Receiver::new(config),
            state,
            irs: 0,
            config: config.clone(),
            window_scale: if config.window_scaling { window_scale(config) } else { 0 },
            ts_recent: 0,
            last_peer_window: 0,
            ecn_echo: false,
            reset: None,
            listener: None,
        }
    }

    /// Opens the connection: a SYN is ready to leave.
    pub fn open(&mut self, now: Time) {
        self.sender.set_now(now);
        if self.state == State::Closed {
            self.state = State::SynSent;
            self.sender.push = true;
        }
    }

    /// The application appends `bytes` to its stream.
    pub fn write(&mut self, bytes: u64) {
        if !self.sender.fin_queued {
            self.sender.on_write(bytes.min(ENDLESS));
        }
    }

    /// The application has written all: FIN follows the data.
    pub fn close(&mut self) {
        if !self.sender.fin_queued {
            self.sender.fin_queued = true;
            self.sender.push = true;
        }
    }

    /// The application stops here: what was not sent yet is dropped, and FIN follows what was.
    pub fn stop(&mut self) {
        if !self.sender.fin_queued {
            self.sender.written = self.sender.nxt.max(1);
            self.close();
        }
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Whether the handshake was completed, also where the connection has failed since.
    pub fn was_established(&self) -> bool {
        self.sender.established
    }

    /// Why the connection failed, where it did.
    pub fn failure(&self) -> Option<Failure> {
        match self.state {
            State::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether all that was written, and FIN, is acknowledged, or the connection failed.
    pub fn is_closed(&self) -> bool {
        self.failure().is_some() || (self.sender.fin_queued && self.sender.una > self.sender.written)
    }

    /// Whether the peer has closed its side.
    pub fn peer_closed(&self) -> bool {
        self.receiver.fin_received()
    }

    /// Payload bytes received in order; the application reads them at once.
    #[inline]
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Payload bytes that have arrived, each counted once: those received in order, and those that wait behind a gap.
    #[inline]
    pub fn arrived(&self) -> u64 {
        self.receiver.received() + self.receiver.out_of_order_bytes()
    }

    /// Payload bytes of ours that are cumulatively acknowledged.
    #[inline]
    pub fn acked(&self) -> u64 {
        self.sender.una.min(self.sender.written).saturating_sub(1)
    }

    /// The round-trip time that the last ACK measured, once.
    #[inline]
    pub fn take_rtt(&mut self) -> Option<Time> {
        self.sender.last_rtt.take()
    }

    /// A segment arrived; `ce`: the network marked it.
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool) {
        self.sender.set_now(now);
        if segment.flags.has(Flags::RST) {
            self.on_reset(segment);
            return;
        }
        match self.state {
            State::Closed => {}
            State::Listen if segment.flags.has(Flags::SYN) => self.on_syn(segment),
            State::Listen | State::Failed(_) => self.refuse(segment),
            State::SynSent => self.on_syn_ack(segment),
            State::SynReceived | State::Established => self.on_established_segment(segment, ce),
        }
    }

    /// Call at [`Endpoint::next_timer`]; earlier is harmless.
    pub fn on_timer(&mut self, now: Time) {
        self.sender.set_now(now);
        if now >= self.receiver.ack_deadline() {
            self.receiver.on_timer(now);
        }
        if now >= self.sender.timer.deadline() {
            self.sender.on_timer();
            if self.sender.given_up {
                self.give_up();
            }
        }
        if now >= self.sender.pacing_deadline() {
            self.sender.on_pacing_timer();
        }
    }

    /// The earliest instant at which something is due without a segment's arrival.
    #[inline]
    pub fn next_timer(&self) -> Option<Time> {
        let sender = self.sender.timer.deadline().min(self.sender.pacing_deadline());
        let at = sender.min(self.receiver.ack_deadline());
        (at != Time::MAX && self.failure().is_none()).then_some(at)
    }

    /// The next segment to leave, until `None`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if !self.sender.push && !self.receiver.ack_due() {
            return None;
        }
        self.sender.set_now(now);
        self.poll_states()
    }

    fn poll_states(&mut self) -> Option<Segment> {
        match self.state {
            State::Closed | State::Listen | State::Failed(_) => {
                self.sender.push = false;
                self.reset.take()
            }
            State::SynSent | State::SynReceived => {
                // Only the SYN may leave before the handshake is complete.
                if self.sender.nxt > 0 && self.sender.forced.is_none() {
                    if self.receiver.ack_due() && self.sender.nxt > 0 && self.state == State::SynReceived {
                        self.receiver.on_ack_sent();
                        self.sender.forced = Some(0);
                    } else {
                        return None;
                    }
                }
                self.sender.push = true;
                let segment = self.sender.poll()?;
                self.sender.push = false;
                Some(self.finish(segment))
            }
            State::Established => {
                if let Some(segment) = self.sender.poll() {
                    return Some(self.finish(segment));
                }
                self.receiver.ack_due().then(|| {
                    let seq = self.sender.to_wire(self.sender.nxt);
                    let segment = Segment { seq, flags: Flags(Flags::ACK), ..Segment::default() };
                    self.finish(segment)
                })
            }
        }
    }

    /// Adds what the receiving half says: acknowledgement, window, timestamps, SACK.
    #[inline]
    fn finish(&mut self, mut segment: Segment) -> Segment {
        let syn = segment.flags.has(Flags::SYN);
        segment.timestamps = self.sender.config.timestamps;
        if segment.timestamps {
            segment.tsval = self.sender.timestamp_ms();
            segment.tsecr = self.ts_recent;
        }
        if syn {
            segment.mss = self.config.mss;
            segment.window_scale = self.window_scale;
            segment.sack_permitted = self.sender.config.sack;
            segment.window = self.receiver.initial_window();
            if self.config.ecn {
                let echo = if self.state == State::SynReceived { 0 } else { Flags::CWR };
                segment.flags.0 |= Flags::ECE | echo;
            }
            if self.state == State::SynReceived {
                segment.flags.0 |= Flags::ACK;
                segment.ack = self.irs.wrapping_add(1);
            }
            return segment;
        }
        segment.ack = self.peer_wire(self.receiver.next());
        segment.window = self.receiver.advertise(self.window_scale);
        let blocks = if segment.timestamps { MAX_SACK_BLOCKS } else { MAX_SACK_BLOCKS + 1 };
        let irs = self.irs;
        self.receiver.fill_sack(&mut segment, |position| irs.wrapping_add(position as u32), blocks);
        if self.sender.ecn.on {
            if self.ecn_echo {
                segment.flags.0 |= Flags::ECE;
            }
            if segment.ect && std::mem::take(&mut self.sender.ecn.reduced) {
                segment.flags.0 |= Flags::CWR;
            }
        }
        self.receiver.on_ack_sent();
        segment
    }

    fn peer_wire(&self, position: u64) -> u32 {
        self.irs.wrapping_add(position as u32)
    }

    /// A reset ends what it belongs to (RFC 9293, section 3.10.7); before the handshake is complete, it refuses it.
    #[cold]
    fn on_reset(&mut self, segment: &Segment) {
        match self.state {
            State::Closed | State::Listen | State::Failed(_) => {}
            State::SynSent if segment.ack != self.sender.to_wire(1) => {}
            State::SynSent => self.fail(Failure::Refused),
            State::SynReceived => self.listen_again(),
            State::Established => self.fail(Failure::Reset),
        }
    }

    /// Retransmissions are used up. A connection fails; a connection request is dropped, and the next one is welcome.
    #[cold]
    fn give_up(&mut self) {
        if self.state == State::SynReceived {
            self.listen_again();
        } else {
            self.fail(Failure::TimedOut);
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.state = State::Failed(failure);
        self.sender.push = false;
    }

    /// Forgets the peer; what the application has written stays.
    fn listen_again(&mut self) {
        let Some(listener) = self.listener.take() else { return self.fail(Failure::Reset) };
        let (cc, seed) = &*listener;
        let mut fresh = Self::server(&self.config, cc, *seed);
        fresh.sender.written = self.sender.written;
        fresh.sender.fin_queued = self.sender.fin_queued;
        *self = fresh;
    }

    /// Answers a segment of a connection that is not known here with a reset (RFC 9293, section 3.10.7.1).
    #[cold]
    fn refuse(&mut self, segment: &Segment) {
        self.reset = Some(if segment.flags.has(Flags::ACK) {
            Segment { seq: segment.ack, flags: Flags(Flags::RST), ..Segment::default() }
        } else {
            let length = u32::from(segment.len) + u32::from(segment.flags.has(Flags::SYN));
            let ack = segment.seq.wrapping_add(length);
            Segment { ack, flags: Flags(Flags::RST | Flags::ACK), ..Segment::default() }
        });
        self.sender.push = true;
    }

    fn on_syn(&mut self, segment: &Segment) {
        self.negotiate(segment);
        self.state = State::SynReceived;
        self.sender.push = true;
    }

    fn on_syn_ack(&mut self, segment: &Segment) {
        let acks_syn = segment.ack == self.sender.to_wire(1);
        if !segment.flags.has(Flags::SYN | Flags::ACK) || !acks_syn {
            return;
        }
        self.negotiate(segment);
        self.become_established(segment);
        self.receiver.force_ack();
    }

    fn negotiate(&mut self, segment: &Segment) {
        self.irs = segment.seq;
        self.receiver.on_syn();
        self.ts_recent = segment.tsval;
        let features = &mut self.sender.config;
        features.timestamps &= segment.timestamps;
        features.sack &= segment.sack_permitted;
        self.receiver.set_sack(features.sack);
        let both_ecn = self.config.ecn && segment.flags.has(Flags::ECE);
        self.sender.ecn.on = both_ecn;
        let options = if features.timestamps { TIMESTAMP_BYTES } else { 0 };
        let mss = u32::from(segment.mss.min(self.config.mss)).saturating_sub(options).max(1);
        self.sender.sk.mss_cache = mss;
        self.sender.sk.advmss = mss;
    }

    /// The handshake is complete: its round trip is the first sample, and the algorithm begins.
    fn become_established(&mut self, segment: &Segment) {
        self.sender.window_end = 1 + u64::from(segment.window);
        let opened = self.state == State::SynSent;
        self.sender.on_ack(segment, true);
        self.state = State::Established;
        self.sender.established = true;
        let options = if self.sender.config.timestamps { TIMESTAMP_BYTES } else { 0 };
        self.receiver.on_established(self.sender.now, u64::from(options), opened);
        let retransmitted = self.sender.counters.retransmitted_packets > 0;
        // The timeouts of the handshake count, as in Linux (`tcpi_total_rto`); its segments are not data.
        let rto_count = self.sender.counters.rto_count;
        self.sender.counters = crate::sender::Counters { rto_count, ..Default::default() };
        self.sender.pacing.segments = 0;
        self.sender.set_state(CaState::Open);
        // RFC 6298, section 5.7: a lost SYN costs the initial window.
        self.sender.sk.snd_cwnd = if retransmitted { 1 } else { self.config.initial_window };
        self.sender.sk.snd_cwnd_stamp = self.sender.jiffies();
        self.sender.sk.init();
        self.sender.update_pacing_rate_unless_owned();
        self.sender.push = true;
    }

    fn on_established_segment(&mut self, segment: &Segment, ce: bool) {
        if segment.flags.has(Flags::SYN) {
            // The peer did not hear our part of the handshake.
            self.receiver.force_ack();
            return;
        }
        if self.state == State::SynReceived {
            if segment.ack != self.sender.to_wire(1) {
                return;
            }
            self.become_established(segment);
        }
        let offset = i64::from(segment.seq.wrapping_sub(self.peer_wire(self.receiver.next())) as i32);
        let Some(start) = self.receiver.next().checked_add_signed(offset) else { return };
        // Echo the timestamp of the segment that the next ACK will answer first (RFC 7323, section 4.3).
        if segment.timestamps && start <= self.receiver.next() {
            self.ts_recent = segment.tsval;
        }
        self.take_congestion_marks(segment, ce);
        let slow_path = segment.sack_count > 0 || segment.window != self.last_peer_window || offset != 0;
        self.last_peer_window = segment.window;
        if self.sender.sk.packets_out > 0 || segment.ack != self.sender.sk.snd_una {
            self.sender.on_ack(segment, slow_path);
        } else {
            self.sender.on_window(segment);
        }
        let window_probe = segment.len == 0 && offset < 0;
        if window_probe {
            self.receiver.force_ack();
        }
        if segment.len > 0 || segment.flags.has(Flags::FIN) {
            let now = self.sender.now;
            let age = segment.timestamps.then(|| self.sender.timestamp_ms().wrapping_sub(segment.tsecr));
            let age_us = age.filter(|ms| *ms < i32::MAX as u32 / 1000).map(|ms| ms * 1000);
            self.receiver.on_data(now, start, segment, age_us);
        }
    }

    /// Echoes a mark until the sender says that it has reduced (RFC 3168, section 6.1.3). As in Linux, the next two segments after the
    /// first mark are acknowledged at once, and so is that word of the sender, whose window may be one segment.
    fn take_congestion_marks(&mut self, segment: &Segment, ce: bool) {
        if segment.flags.has(Flags::CWR) && segment.len > 0 {
            self.ecn_echo = false;
            self.receiver.force_ack();
        }
        if ce && !self.ecn_echo {
            self.ecn_echo = true;
            self.receiver.on_congestion_mark();
        }
    }

    /// What can be seen of the connection now.
    pub fn info(&self) -> Info {
        let sk = &self.sender.sk;
        let ssthresh = (sk.snd_ssthresh < perigee_cc::INFINITE_SSTHRESH).then_some(sk.snd_ssthresh);
        let paced = self.sender.is_paced();
        Info {
            cwnd: sk.snd_cwnd,
            ssthresh,
            srtt: Time::from_micros(u64::from(sk.srtt_us >> 3)),
            rtt_min: (sk.rtt_min_us != u32::MAX).then(|| Time::from_micros(u64::from(sk.rtt_min_us))),
            rtt_deviation: Time::from_micros(u64::from(sk.mdev_us >> 2)),
            rto: self.sender.rto(),
            inflight: sk.packets_in_flight(),
            packets_out: sk.packets_out,
            sacked_out: sk.sacked_out,
            lost_out: sk.lost_out,
            retrans_out: sk.retrans_out,
            sent_packets: self.sender.counters.sent_packets,
            retransmitted_packets: self.sender.counters.retransmitted_packets,
            rto_count: self.sender.counters.rto_count,
            probe_count: self.sender.counters.probes,
            delivered: u64::from(sk.delivered),
            pacing_rate_bps: paced.then(|| sk.inet_conn.sk.sk_pacing_rate.saturating_mul(8)),
            ca_state: self.sender.state(),
            snd_una: self.sender.una.saturating_sub(1),
            snd_nxt: self.sender.nxt.saturating_sub(1),
            peer_window: self.sender.peer_window,
            reordering: sk.reordering,
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.sender.established {
            self.sender.sk.release();
        }
    }
}

/// Timestamps option with padding.
const TIMESTAMP_BYTES: u32 = 12;
/// More than any run can send, with room for positions to be added.
const ENDLESS: u64 = u64::MAX / 4;
