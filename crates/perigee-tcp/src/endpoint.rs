//! One end of a connection: combines the sending and the receiving half and decides which segment leaves next.

mod batch;
mod conditions;
mod handshake;
mod marks;
mod offload;
mod output;
mod prediction;
#[cfg(test)]
mod prediction_tests;
mod route;
mod state;

pub use batch::Batch;
pub use state::Failure;

use std::sync::Arc;

use perigee_cc::{Selected, Socket};
use perigee_units::{nearest_position, Stream, Time};

use crate::aggregate::Aggregate;
use crate::info::Info;
use crate::receiver::{window_scale, Receiver};
use crate::route_metrics::RouteMetrics;
use crate::segment::{Flags, Header, Segment};
use crate::sender::{Limits, Sender};
use perigee_settings::{Config, Receiving};
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
pub struct Endpoint {
    sender: Sender,
    receiver: Receiver,
    state: State,
    /// Initial receive sequence number (IRS).
    irs: u32,
    choice: Arc<Choice>,
    seed: u64,
    /// Shift applied to the window in sent headers; a [`Segment`] carries the window already scaled to bytes.
    window_scale: Option<u8>,
    /// Most recent timestamp to echo (TS.Recent).
    ts_recent: u32,
    /// Window of the latest segment received; the slow path handles a change.
    last_peer_window: u32,
    ecn_echo: bool,
    /// ACKs that leave before all else, in order: what each acknowledges, and whether with ECE.
    early_acks: [Option<(u32, bool)>; 2],
    /// Reset to send in reply to a segment that belongs to no connection here.
    reset: Option<Segment>,
    /// Segments being aggregated, if receive offload is on.
    aggregate: Option<Box<Aggregate>>,
    /// Changes that predicted segments do not allow for reset this to `Forgotten`.
    prediction: Prediction,
    /// Whether header prediction is enabled.
    has_fast_path: bool,
    /// Data have side effects beyond their ACKs ([`Endpoint::after_arrival`]): no prediction.
    heeds_arrivals: bool,
}

clone_by_field!(Endpoint {
    sender,
    receiver,
    state,
    irs,
    choice,
    seed,
    window_scale,
    ts_recent,
    last_peer_window,
    ecn_echo,
    early_acks,
    reset,
    aggregate,
    prediction,
    has_fast_path,
    heeds_arrivals,
});

/// The configuration that all endpoints of one kind share.
#[derive(Debug)]
struct Choice {
    config: Config,
    cc: Selected,
    /// Memory of the route when the connection begins.
    route: RouteMetrics,
}

impl Choice {
    fn of(config: &Config, cc: &Selected) -> Arc<Self> {
        Arc::new(Self { config: config.clone(), cc: cc.clone(), route: RouteMetrics::default() })
    }
}

impl Endpoint {
    /// An endpoint that opens the connection when [`Endpoint::open`] is called.
    pub fn client(config: &Config, cc: &Selected, seed: u64) -> Self {
        let mut client = Self::new(Choice::of(config, cc), seed, State::Closed);
        let patience = &mut client.sender.patience;
        patience.handshake_retries = config.syn_retries + config.syn_linear_timeouts;
        patience.linear_timeouts = config.syn_linear_timeouts;
        patience.longest_handshake = config.longest_handshake() - config.initial_rto;
        client
    }

    /// An endpoint that listens for a SYN.
    pub fn server(config: &Config, cc: &Selected, seed: u64) -> Self {
        Self::new(Choice::of(config, cc), seed, State::Listen)
    }

    /// An endpoint like this one, which must be unused, with another seed. That takes a fraction of the time of making
    /// one from its settings.
    pub fn another(&self, seed: u64) -> Box<Self> {
        debug_assert!(matches!(self.state, State::Closed | State::Listen), "an endpoint in use is not copied");
        let mut another = Box::new(self.clone());
        another.set_seed(seed);
        another
    }

    /// Makes [`Endpoint::another`] of this one in the place of an endpoint that is no longer used, whose memory it keeps.
    pub fn replace(&self, used: &mut Self, seed: u64) {
        used.release();
        let memory = used.sender.take_memory();
        used.clone_from(self);
        used.sender.reuse(memory);
        used.set_seed(seed);
    }

    fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
        self.sender.seed(Stream::new(seed, "tcp/iss").next_u64() as u32, seed);
    }

    /// Whether ECN-capable data segments carry ECT(1) instead of ECT(0).
    pub fn sends_ect1(&self) -> bool {
        self.choice.config.l4s
    }

    /// Whether segments that leave together are one frame of its network card.
    pub fn has_offload(&self) -> bool {
        self.choice.config.segmentation_offload
    }

    fn new(choice: Arc<Choice>, seed: u64, state: State) -> Self {
        let Choice { config, cc, .. } = &*choice;
        let mss = u32::from(config.mss).saturating_sub(config.option_bytes()).max(1);
        let socket = Socket::new(cc, mss, config.initial_window, seed);
        let mut endpoint = Self {
            sender: Sender::new(config, socket),
            receiver: Receiver::new(config),
            state,
            irs: 0,
            seed,
            window_scale: config.window_scaling.then(|| window_scale(config)),
            ts_recent: 0,
            last_peer_window: 0,
            ecn_echo: false,
            early_acks: [None; 2],
            reset: None,
            aggregate: (config.receive_offload > Time::ZERO).then(|| Box::new(Aggregate::new(config.receive_offload))),
            prediction: Prediction::Forgotten,
            has_fast_path: config.receiver_kind == Receiving::Honest,
            heeds_arrivals: config.receiver_kind != Receiving::Honest,
            choice,
        };
        endpoint.set_seed(seed);
        endpoint
    }

    /// Disables header prediction; call before opening or listening. All segments, received and sent, take the slow path, which tests use
    /// as the reference for the fast path.
    #[must_use]
    pub fn without_fast_path(mut self) -> Self {
        self.has_fast_path = false;
        self
    }

    /// Opens the connection: queues a SYN.
    pub fn open(&mut self, now: Time) {
        self.prediction = Prediction::Forgotten;
        self.sender.set_now(now);
        if self.state == State::Closed {
            self.state = State::SynSent;
            self.sender.output.due = true;
        }
    }

    /// Appends `bytes` of application data to the stream.
    pub fn write(&mut self, bytes: u64) {
        if !self.sender.stream.fin_queued {
            self.sender.on_write(bytes.min(ENDLESS));
        }
        self.after_write();
    }

    /// Whether the application has more to write, and may not until data is acknowledged: its writes have filled a buffer of its own.
    /// This counts as a full send buffer in [`Endpoint::limits`], and has no other effect.
    #[inline]
    pub fn set_writer_blocked(&mut self, is_blocked: bool) {
        self.sender.set_writer_blocked(is_blocked);
    }

    /// Takes back the data written that the send buffer has not taken.
    pub fn withdraw(&mut self) {
        self.prediction = Prediction::Forgotten;
        self.sender.withdraw();
    }

    /// Ends the stream: a FIN follows the data written. As in Linux, where a write sends before the next call closes,
    /// it has a segment of its own unless data are left behind.
    pub fn close(&mut self) {
        self.prediction = Prediction::Forgotten;
        let is_established = self.is_established();
        let stream = &mut self.sender.stream;
        if !stream.fin_queued {
            stream.fin_queued = true;
            stream.fin_apart = is_established && stream.unsent() > 0;
            self.sender.output.due = true;
        }
    }

    /// Ends the stream immediately: discards unsent data, and a FIN follows the data sent.
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

    /// Whether the handshake ever completed, even if the connection has failed since.
    pub fn was_established(&self) -> bool {
        self.sender.established
    }

    /// Why the connection failed, if it did.
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

    /// Makes reading explicit, through [`Endpoint::read`]: unread data stay in the receive buffer and close the window. Without this call,
    /// data are read as they arrive.
    pub fn read_on_demand(&mut self) {
        self.prediction = Prediction::Forgotten;
        self.receiver.read_on_demand();
    }

    /// The application reads up to `bytes` of unread data. This may trigger a window update.
    pub fn read(&mut self, now: Time, bytes: u64) {
        self.after_read();
        self.sender.set_now(now);
        self.receiver.read(now, bytes);
    }

    /// Unread payload bytes received in order; 0 unless [`Endpoint::read_on_demand`] was called.
    #[inline]
    pub fn unread(&self) -> u64 {
        self.receiver.unread_bytes()
    }

    /// Aborts the connection: discards unsent data and, if a peer is known, sends it a reset.
    pub fn abort(&mut self) {
        self.prediction = Prediction::Forgotten;
        let has_peer = matches!(self.state, State::SynReceived | State::Established);
        let seq = self.sender.stream.to_wire(self.sender.stream.nxt);
        let ack = self.peer_wire(self.receiver.next());
        self.fail(Failure::Aborted);
        if has_peer {
            let flags = Flags(Flags::RST | Flags::ACK);
            self.reset = Some(Header { seq, ack, flags, ..Header::default() }.into());
            self.sender.output.due = true;
        }
    }

    /// Payload bytes received in order, whether read or not.
    #[inline]
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Unique payload bytes received, in order or behind a gap.
    #[inline]
    pub fn arrived(&self) -> u64 {
        self.receiver.received() + self.receiver.out_of_order_bytes()
    }

    /// Whether the peer's stream is complete: its FIN and everything before it have been received.
    pub fn peer_closed(&self) -> bool {
        self.receiver.fin_received()
    }

    /// Payload bytes written by the application.
    pub fn written(&self) -> u64 {
        self.sender.stream.written.saturating_sub(1)
    }

    /// Payload bytes acknowledged cumulatively by the peer.
    #[inline]
    pub fn acked(&self) -> u64 {
        self.sender.stream.acked_payload()
    }

    /// Payload bytes written that the peer has not acknowledged cumulatively.
    #[inline]
    pub fn unacked(&self) -> u64 {
        self.sender.stream.unacked_payload()
    }

    /// Bounds the rate of payload, bytes/s, as the socket option `SO_MAX_PACING_RATE` does: the connection is paced from
    /// now on, whatever its congestion control is. A bound that rises shows with the next ACK.
    pub fn bound_pacing(&mut self, bytes_per_s: u64) {
        self.sender.bound_pacing(bytes_per_s);
    }

    /// Payload bytes written that have not left yet.
    #[inline]
    pub fn unsent(&self) -> u64 {
        self.sender.stream.unsent()
    }

    /// Payload of a full segment, and the TCP header before it, bytes.
    pub fn segment_bytes(&self) -> (u32, u16) {
        let header = Header { timestamps: self.sender.settings.timestamps, ..Header::default() };
        (self.sender.sk.mss_cache, header.plain_bytes())
    }

    /// Takes the latest round-trip sample; `None` if there was none since the last call.
    #[inline]
    pub fn take_rtt(&mut self) -> Option<Time> {
        self.sender.rtt.latest.take()
    }

    /// The congestion control, with the values that its state lets be watched.
    pub fn algorithm(&self) -> &'static perigee_cc::Algorithm {
        self.sender.sk.algorithm()
    }

    /// Reads the [watched values](perigee_cc::Algorithm::watched) of the congestion control; they are [`perigee_cc::EMPTY`] where they have
    /// no number.
    pub fn watch(&mut self, values: &mut Vec<u64>) {
        self.sender.sk.watch(values);
    }

    /// Processes an arriving segment; `ce`: it carries a congestion mark.
    #[inline]
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool) {
        let is_plain = segment.sack_count == 0 && !ce;
        if !(is_plain && self.on_expected(now, segment)) {
            self.on_unexpected(now, segment, ce);
        }
    }

    /// [`Endpoint::on_segment`] for a segment without rare options and congestion mark.
    #[inline(never)]
    pub fn on_plain_segment(&mut self, now: Time, header: &Header) {
        if !self.on_expected(now, header) {
            self.on_unexpected(now, &(*header).into(), false);
        }
    }

    /// Slow path of [`Endpoint::on_segment`].
    #[inline(never)]
    fn on_unexpected(&mut self, now: Time, segment: &Segment, ce: bool) {
        self.sender.set_now(now);
        if segment.sack_count > 0 && !ce && self.on_sack_advance(segment) {
            return;
        }
        self.prediction = Prediction::Forgotten;
        if self.aggregate.is_some() {
            return self.aggregate_segment(segment, ce);
        }
        self.take(segment, ce, segment.len);
    }

    /// Processes a segment; `unit` is the payload of the largest packet aggregated into it.
    #[inline(always)]
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

    /// Processes a segment that arrives before the connection is established.
    #[inline(never)]
    fn on_early_segment(&mut self, segment: &Segment, ce: bool) {
        match self.state {
            State::Closed => {}
            State::Listen if segment.flags.has(Flags::SYN) => self.on_syn(segment),
            State::Listen | State::Failed(_) => self.refuse_request(segment),
            State::SynSent => self.on_syn_ack(segment),
            State::SynReceived | State::Established => self.on_established_segment(segment, ce, segment.len),
        }
    }

    /// Runs expired timers. Call at [`Endpoint::next_timer`]; calling earlier is harmless.
    pub fn on_timer(&mut self, now: Time) {
        self.sender.set_now(now);
        if now >= self.aggregate_deadline() {
            self.prediction = Prediction::Forgotten;
            self.take_aggregate();
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

    /// The earliest deadline of any timer.
    #[inline]
    pub fn next_timer(&self) -> Option<Time> {
        let at = self.deadline();
        (at != Time::MAX).then_some(at)
    }

    /// [`Endpoint::next_timer`], with [`Time::MAX`] for no deadline.
    #[inline(always)]
    pub fn deadline(&self) -> Time {
        match self.prediction {
            Prediction::Acknowledgements => self.sender.deadline(),
            Prediction::Data | Prediction::DataBehindGap => self.receiver.ack_deadline(),
            Prediction::Recovery | Prediction::Nothing | Prediction::Forgotten => self.any_deadline(),
        }
    }

    fn any_other_deadline(&self) -> Time {
        self.sender.timer.armed.deadline().min(self.receiver.ack_deadline()).min(self.aggregate_deadline())
    }

    fn any_deadline(&self) -> Time {
        if self.failure().is_some() {
            return Time::MAX;
        }
        self.sender.pacing_deadline().min(self.any_other_deadline())
    }

    /// Latest instant at which aggregated segments are delivered.
    #[inline]
    fn aggregate_deadline(&self) -> Time {
        self.aggregate.as_deref().map_or(Time::MAX, |aggregate| aggregate.until)
    }

    fn peer_wire(&self, position: u64) -> u32 {
        self.irs.wrapping_add(position as u32)
    }

    #[inline(always)]
    fn on_established_segment(&mut self, segment: &Segment, ce: bool, unit: u16) {
        if segment.flags.has(Flags::SYN) {
            return self.on_repeated_syn();
        }
        if self.state == State::SynReceived {
            if segment.ack != self.sender.stream.to_wire(1) {
                return;
            }
            self.become_established(segment);
        }
        let next = self.receiver.next();
        let Some(start) = nearest_position(segment.seq.wrapping_sub(self.irs), next) else { return };
        // Echo the timestamp of the first segment that the next ACK answers (RFC 7323, section 4.3).
        if segment.timestamps && start <= next {
            self.ts_recent = segment.tsval;
        }
        let ack_waits = self.sender.ecn.on_all && self.receiver.owes_ack();
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
            let is_taken = self.receiver.on_data(sender.now, start, (segment, unit), echo_age_us, || sender.rto());
            if is_taken && self.heeds_arrivals {
                self.after_arrival((ce, ack_waits), next);
            }
            // This end has closed already: its FIN does not answer this one.
            if segment.flags.has(Flags::FIN) && self.sender.stream.fin_queued {
                self.receiver.force_ack();
            }
        }
    }

    /// Age of the echoed timestamp, if the segment echoes one of this connection.
    #[inline]
    fn echo_age_us(&self, header: &Header) -> Option<u32> {
        let age_ms = self.sender.now_ms.wrapping_sub(header.tsecr);
        (header.timestamps && age_ms < i32::MAX as u32 / 1000).then(|| age_ms * 1000)
    }

    /// Data packets sent, those among them that were retransmissions, and retransmission timeouts, as in [`Endpoint::info`].
    #[inline]
    pub fn sent(&self) -> [u64; 3] {
        let counters = &self.sender.counters;
        [counters.sent_packets, counters.retransmitted_packets, counters.rto_count]
    }

    /// A snapshot of the connection, like `TCP_INFO`.
    pub fn info(&self) -> Info {
        Info::of(&self.sender)
    }

    /// How long what has limited the sender until `now`.
    pub fn limits(&self, now: Time) -> Limits {
        self.sender.limits(now)
    }

    /// The congestion control, which an established connection has initialised, is no longer used.
    fn release(&mut self) {
        if self.sender.established {
            self.sender.sk.release();
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.release();
    }
}

/// Upper bound of stream lengths, with headroom for position arithmetic.
const ENDLESS: u64 = u64::MAX / 4;
