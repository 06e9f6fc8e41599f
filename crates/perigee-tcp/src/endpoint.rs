//! One end of a connection: its two halves put together, and what leaves next.

mod batch;
mod handshake;
mod offload;
mod prediction;
#[cfg(test)]
mod prediction_tests;
mod state;

pub use batch::Batch;
pub use state::Failure;

use perigee_cc::{Selected, Socket};
use perigee_units::{nearest_position, Stream, Time};

use crate::gathered::Gathered;
use crate::info::Info;
use crate::receiver::{window_scale, Receiver};
use crate::segment::{Flags, Header, Segment};
use crate::sender::Sender;
use perigee_settings::Config;
use state::{Prediction, State};

/// One end of a TCP connection.
///
/// Report events with [`Endpoint::open`], [`Endpoint::on_segment`], [`Endpoint::on_timer`] and [`Endpoint::write`],
/// then call [`Endpoint::poll_transmit`] until it returns `None`, and come back at [`Endpoint::next_timer`].
///
/// ```
/// use perigee_cc::Selected;
/// use perigee_settings::Config;
/// use perigee_tcp::Endpoint;
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
#[cfg_attr(test, derive(Clone))]
pub struct Endpoint {
    sender: Sender,
    receiver: Receiver,
    state: State,
    /// The peer's initial sequence number.
    irs: u32,
    config: Config,
    /// Shift of the window in the headers sent; a [`Segment`] has it in bytes already.
    window_scale: Option<u8>,
    /// Newest timestamp to echo (TS.Recent).
    ts_recent: u32,
    /// Window of the latest segment received; a change of it takes the slow path.
    last_peer_window: u32,
    ecn_echo: bool,
    /// The reset that answers a segment of no known connection.
    reset: Option<Segment>,
    /// With receive offload: what has arrived and waits to be taken as one segment.
    gathered: Option<Box<Gathered>>,
    /// Algorithm and seed of a listening endpoint, to listen again after a failed handshake.
    listener: Option<Box<(Selected, u64)>>,
    /// Whatever changes the endpoint in a way that is not predicted forgets it.
    prediction: Prediction,
    /// It predicts segments at all.
    has_fast_path: bool,
}

impl Endpoint {
    /// An endpoint that opens the connection when [`Endpoint::open`] is called.
    pub fn client(config: &Config, cc: &Selected, seed: u64) -> Self {
        let mut client = Self::new(config, cc, seed, State::Closed);
        let patience = &mut client.sender.patience;
        patience.handshake_retries = config.syn_retries + config.syn_linear_timeouts;
        patience.linear_timeouts = config.syn_linear_timeouts;
        patience.longest_handshake = config.longest_handshake() - config.initial_rto;
        client
    }

    /// An endpoint that listens for a SYN.
    pub fn server(config: &Config, cc: &Selected, seed: u64) -> Self {
        let mut server = Self::new(config, cc, seed, State::Listen);
        server.listener = Some(Box::new((cc.clone(), seed)));
        server
    }

    /// Whether its data, where they can be marked at all, carry ECT(1) in place of ECT(0).
    pub fn sends_ect1(&self) -> bool {
        self.config.l4s
    }

    fn new(config: &Config, cc: &Selected, seed: u64, state: State) -> Self {
        let mss = u32::from(config.mss).saturating_sub(config.option_bytes()).max(1);
        let iss = Stream::new(seed, "tcp/iss").next_u64() as u32;
        let socket = Socket::new(cc, mss, config.initial_window, seed);
        Self {
            sender: Sender::new(config, socket, iss),
            receiver: Receiver::new(config),
            state,
            irs: 0,
            config: config.clone(),
            window_scale: config.window_scaling.then(|| window_scale(config)),
            ts_recent: 0,
            last_peer_window: 0,
            ecn_echo: false,
            reset: None,
            gathered: (config.receive_offload > Time::ZERO).then(|| Box::new(Gathered::new(config.receive_offload))),
            listener: None,
            prediction: Prediction::Forgotten,
            has_fast_path: true,
        }
    }

    /// The same endpoint without header prediction, before it opens or listens: the reference for the fast path. Every segment is taken, and
    /// every one sent, by the slow path.
    #[must_use]
    pub fn without_fast_path(mut self) -> Self {
        self.has_fast_path = false;
        self
    }

    /// Opens the connection: a SYN is ready to leave.
    pub fn open(&mut self, now: Time) {
        self.prediction = Prediction::Forgotten;
        self.sender.set_now(now);
        if self.state == State::Closed {
            self.state = State::SynSent;
            self.sender.output.due = true;
        }
    }

    /// The application appends `bytes` to its stream.
    pub fn write(&mut self, bytes: u64) {
        if !self.sender.stream.fin_queued {
            self.sender.on_write(bytes.min(ENDLESS));
        }
        self.after_write();
    }

    /// The application ends its stream: a FIN follows the data written.
    pub fn close(&mut self) {
        self.prediction = Prediction::Forgotten;
        if !self.sender.stream.fin_queued {
            self.sender.stream.fin_queued = true;
            self.sender.output.due = true;
        }
    }

    /// The application ends its stream now: data not sent yet are dropped, and a FIN follows the data sent.
    pub fn stop(&mut self) {
        if !self.sender.stream.fin_queued {
            self.sender.stream.drop_unsent();
            self.close();
        }
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Whether the handshake was completed, even if the connection has failed since.
    pub fn was_established(&self) -> bool {
        self.sender.established
    }

    /// Why the connection failed; `None`: it has not.
    pub fn failure(&self) -> Option<Failure> {
        match self.state {
            State::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether the peer has acknowledged the FIN and all data before it, or the connection has failed.
    pub fn is_closed(&self) -> bool {
        self.failure().is_some() || self.sender.stream.is_complete()
    }

    /// The application says itself what it reads, with [`Endpoint::read`]. What it has not read stays in the receive buffer,
    /// and closes the window. Without this call all is read as it arrives.
    pub fn read_on_demand(&mut self) {
        self.prediction = Prediction::Forgotten;
        self.receiver.read_on_demand();
    }

    /// The application reads `bytes` of what it has not read, or all of it where that is less. An acknowledgement with the new
    /// window may be due after it.
    pub fn read(&mut self, now: Time, bytes: u64) {
        self.after_read();
        self.sender.set_now(now);
        self.receiver.read(now, bytes);
    }

    /// Payload bytes received in order that wait to be read; 0 unless [`Endpoint::read_on_demand`] was called.
    #[inline]
    pub fn unread(&self) -> u64 {
        self.receiver.unread_bytes()
    }

    /// The application gives the connection up: what was not sent is dropped, and a reset tells the peer where there is one.
    pub fn abort(&mut self) {
        self.prediction = Prediction::Forgotten;
        let told = matches!(self.state, State::SynReceived | State::Established);
        let seq = self.sender.stream.to_wire(self.sender.stream.nxt);
        let ack = self.peer_wire(self.receiver.next());
        self.fail(Failure::Aborted);
        if told {
            let flags = Flags(Flags::RST | Flags::ACK);
            self.reset = Some(Header { seq, ack, flags, ..Header::default() }.into());
            self.sender.output.due = true;
        }
    }

    /// Answers a request for a connection with a reset, as a port does at which nobody listens.
    pub fn refuse_request(&mut self, request: &Segment) {
        self.refuse(request);
    }

    /// Payload bytes received in order, read or not.
    #[inline]
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Payload bytes that have arrived, each counted once: those received in order, and those that wait behind a gap.
    #[inline]
    pub fn arrived(&self) -> u64 {
        self.receiver.received() + self.receiver.out_of_order_bytes()
    }

    /// Whether the peer has closed its half: all that it sent and its FIN are received.
    pub fn peer_closed(&self) -> bool {
        self.receiver.fin_received()
    }

    /// Payload bytes that the application has written.
    pub fn written(&self) -> u64 {
        self.sender.stream.written.saturating_sub(1)
    }

    /// Payload bytes written here that the peer has acknowledged cumulatively.
    #[inline]
    pub fn acked(&self) -> u64 {
        self.sender.stream.acked_payload()
    }

    /// The newest round-trip sample, returned once.
    #[inline]
    pub fn take_rtt(&mut self) -> Option<Time> {
        self.sender.rtt.latest.take()
    }

    /// A segment arrived; `ce`: the network marked it.
    #[inline]
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool) {
        let is_plain = segment.sack_count == 0 && !ce;
        if is_plain && self.on_expected(now, segment) {
            return;
        }
        self.sender.set_now(now);
        if segment.sack_count > 0 && !ce && self.on_growth(segment) {
            return;
        }
        self.prediction = Prediction::Forgotten;
        if self.gathered.is_some() {
            return self.gather(segment, ce);
        }
        self.take(segment, ce, segment.len);
    }

    /// Takes a segment; `unit` is the payload of the largest packet that it came in.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    fn take(&mut self, segment: &Segment, ce: bool, unit: u16) {
        if segment.flags.has(Flags::RST) {
            self.on_reset(segment);
            return;
        }
        if self.state == State::Established {
            return self.on_established_segment(segment, ce, unit);
        }
        self.on_early_segment(segment, ce);
    }

    /// A segment arrived at an endpoint that is not established.
    #[inline(never)]
    fn on_early_segment(&mut self, segment: &Segment, ce: bool) {
        match self.state {
            State::Closed => {}
            State::Listen if segment.flags.has(Flags::SYN) => self.on_syn(segment),
            State::Listen | State::Failed(_) => self.refuse(segment),
            State::SynSent => self.on_syn_ack(segment),
            State::SynReceived | State::Established => self.on_established_segment(segment, ce, segment.len),
        }
    }

    /// Call at [`Endpoint::next_timer`]; earlier is harmless.
    pub fn on_timer(&mut self, now: Time) {
        self.sender.set_now(now);
        if now >= self.gathered_until() {
            self.prediction = Prediction::Forgotten;
            self.take_gathered();
        }
        if now >= self.receiver.ack_deadline() {
            self.receiver.on_timer(now);
        }
        if now >= self.sender.timer.armed.deadline() {
            self.prediction = Prediction::Forgotten;
            self.sender.on_timer();
            if self.sender.timer.has_given_up() {
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
        let at = self.deadline();
        (at != Time::MAX).then_some(at)
    }

    /// [`Endpoint::next_timer`]; [`Time::MAX`] where nothing is due.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub fn deadline(&self) -> Time {
        match self.prediction {
            Prediction::Acknowledgements => self.sender.deadline(),
            Prediction::Data | Prediction::FurtherData => self.receiver.ack_deadline(),
            Prediction::Repairs | Prediction::Nothing | Prediction::Forgotten => self.any_deadline(),
        }
    }

    fn any_other_deadline(&self) -> Time {
        self.sender.timer.armed.deadline().min(self.receiver.ack_deadline()).min(self.gathered_until())
    }

    fn any_deadline(&self) -> Time {
        if self.failure().is_some() {
            return Time::MAX;
        }
        self.sender.pacing_deadline().min(self.any_other_deadline())
    }

    /// When segments that wait for others are taken at the latest.
    #[inline]
    fn gathered_until(&self) -> Time {
        self.gathered.as_deref().map_or(Time::MAX, |gathered| gathered.until)
    }

    /// Whether anything may have to leave: [`Endpoint::poll_transmit`] says what.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.sender.output.due || self.receiver.ack_due()
    }

    /// The next segment to leave, until `None`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        let mut segment = Segment::default();
        self.transmit_into(now, &mut segment).then_some(segment)
    }

    /// [`Endpoint::poll_transmit`] for a driver that has a place for the segment: puts the next one there; whether there is one.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that is sent")]
    pub fn transmit_into(&mut self, now: Time, segment: &mut Segment) -> bool {
        if !self.has_output() {
            return false;
        }
        if now != self.sender.now {
            self.set_now(now);
        }
        self.prediction = Prediction::Forgotten;
        if self.state == State::Established {
            self.poll_established(segment)
        } else {
            self.poll_unestablished(segment)
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that is sent")]
    fn poll_established(&mut self, segment: &mut Segment) -> bool {
        if !self.sender.poll(segment) {
            if !self.receiver.ack_due() {
                return false;
            }
            let seq = self.sender.stream.to_wire(self.sender.stream.nxt);
            *segment = Header { seq, flags: Flags(Flags::ACK), ..Header::default() }.into();
        }
        self.finish(segment);
        true
    }

    /// Mostly output follows what happened at the same instant.
    #[cold]
    fn set_now(&mut self, now: Time) {
        self.sender.set_now(now);
    }

    #[inline(never)]
    fn poll_unestablished(&mut self, segment: &mut Segment) -> bool {
        match self.state {
            State::SynSent | State::SynReceived => {
                // Only the SYN may leave before the handshake is complete.
                if self.sender.stream.nxt > 0 && self.sender.output.forced.is_none() {
                    if self.receiver.ack_due() && self.state == State::SynReceived {
                        self.receiver.on_ack_sent();
                        self.sender.output.forced = Some(0);
                    } else {
                        return false;
                    }
                }
                self.sender.output.due = true;
                if !self.sender.poll(segment) {
                    return false;
                }
                self.sender.output.due = false;
                self.finish(segment);
                true
            }
            _ => {
                self.sender.output.due = false;
                self.reset.take().map(|reset| *segment = reset).is_some()
            }
        }
    }

    /// Adds the fields of the receiving half: acknowledgement, window, timestamps, SACK.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that is sent")]
    fn finish(&mut self, segment: &mut Segment) {
        segment.timestamps = self.sender.settings.timestamps;
        if segment.timestamps {
            segment.tsval = self.sender.timestamp_ms();
            segment.tsecr = self.ts_recent;
        }
        if segment.flags.has(Flags::SYN) {
            return self.finish_request(segment);
        }
        segment.ack = self.peer_wire(self.receiver.next());
        segment.window = self.receiver.advertise(self.window_scale.unwrap_or(0));
        let irs = self.irs;
        self.receiver.fill_sack(segment, |position| irs.wrapping_add(position as u32));
        if self.sender.ecn.on {
            if self.ecn_echo {
                segment.flags.0 |= Flags::ECE;
            }
            if segment.ect && std::mem::take(&mut self.sender.ecn.reduced) {
                segment.flags.0 |= Flags::CWR;
            }
        }
        if segment.len > 0 {
            self.receiver.on_data_sent(self.sender.now);
        }
        self.receiver.on_ack_sent();
    }

    /// The fields of a SYN.
    #[cold]
    fn finish_request(&mut self, segment: &mut Segment) {
        segment.mss = self.config.mss;
        segment.window_scale = self.window_scale;
        segment.sack_permitted = self.sender.settings.sack;
        segment.window = self.receiver.initial_window();
        if self.config.ecn {
            let echo = if self.state == State::SynReceived { 0 } else { Flags::CWR };
            segment.flags.0 |= Flags::ECE | echo;
        }
        if self.state == State::SynReceived {
            segment.flags.0 |= Flags::ACK;
            segment.ack = self.irs.wrapping_add(1);
        }
    }

    fn peer_wire(&self, position: u64) -> u32 {
        self.irs.wrapping_add(position as u32)
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment, by drivers of connections and of legs")]
    fn on_established_segment(&mut self, segment: &Segment, ce: bool, unit: u16) {
        if segment.flags.has(Flags::SYN) {
            // The peer has not received our part of the handshake.
            self.receiver.force_ack();
            return;
        }
        if self.state == State::SynReceived {
            if segment.ack != self.sender.stream.to_wire(1) {
                return;
            }
            self.become_established(segment);
        }
        let next = self.receiver.next();
        let Some(start) = nearest_position(segment.seq.wrapping_sub(self.irs), next) else { return };
        // Echo the timestamp of the segment that the next ACK will answer first (RFC 7323, section 4.3).
        if segment.timestamps && start <= next {
            self.ts_recent = segment.tsval;
        }
        self.take_congestion_marks(segment, ce);
        let slow_path = segment.sack_count > 0 || segment.window != self.last_peer_window || start != next;
        self.last_peer_window = segment.window;
        if self.sender.sk.packets_out > 0 || segment.ack != self.sender.sk.snd_una {
            self.sender.on_ack(segment, slow_path);
        } else {
            self.sender.on_window(segment);
        }
        let window_probe = segment.len == 0 && start < next;
        if window_probe {
            self.receiver.force_ack();
        }
        if segment.len > 0 || segment.flags.has(Flags::FIN) {
            let echo_age_us = self.echo_age_us(segment);
            let sender = &self.sender;
            self.receiver.on_data(sender.now, start, (segment, unit), echo_age_us, || sender.rto());
        }
    }

    /// The age of the timestamp that a segment echoes, if it echoes one that is of this connection.
    #[inline]
    fn echo_age_us(&self, header: &Header) -> Option<u32> {
        let age_ms = self.sender.timestamp_ms().wrapping_sub(header.tsecr);
        (header.timestamps && age_ms < i32::MAX as u32 / 1000).then_some(age_ms * 1000)
    }

    /// Echoes a congestion mark until the sender's CWR (RFC 3168, section 6.1.3). As in Linux, the next two segments after the
    /// first mark are acknowledged at once, and so is the sender's CWR, since its window may be one segment.
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

    /// What the connection shows of itself now.
    pub fn info(&self) -> Info {
        Info::of(&self.sender)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.sender.established {
            self.sender.sk.release();
        }
    }
}

/// More bytes than any run sends, with room to add positions.
const ENDLESS: u64 = u64::MAX / 4;
