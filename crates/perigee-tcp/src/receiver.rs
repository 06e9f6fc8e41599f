//! The receiving half: reassembly, acknowledgement policy, and an autotuned window.

mod acks;
mod cheat;
mod cheating;
mod reassembly;
mod reports;
mod window;

use perigee_units::Time;

use crate::segment::{Flags, Header, Segment};
use acks::AckPolicy;
use cheat::Cheat;
use perigee_settings::Config;
use reassembly::Reassembly;
pub(crate) use window::window_scale;
use window::ReceiveWindow;

/// State of the receiving half. Positions are bytes since the initial receive sequence number.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) stream: Reassembly,
    /// Position of the FIN; [`NOT_SEEN`] until it arrives.
    fin_at: u64,
    pub(crate) window: ReceiveWindow,
    pub(crate) acks: AckPolicy,
    /// The application calls [`Receiver::read`]; otherwise data are read as they arrive.
    pub(crate) on_demand: bool,
    unread: u64,
    /// The advertised window is still valid: nothing has changed since it was computed.
    pub(crate) is_advertised: bool,
    /// Positions before the next one expected that are no payload received: SYN, FIN, and losses that a cheat hides.
    without_payload: u64,
    cheat: Option<Box<Cheat>>,
}

clone_by_field!(Receiver { stream, fin_at, window, acks, on_demand, unread, is_advertised, without_payload, cheat });

impl Receiver {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            stream: Reassembly::new(config.sack, config.dsack),
            fin_at: NOT_SEEN,
            window: ReceiveWindow::new(config),
            acks: AckPolicy::new(config),
            on_demand: false,
            unread: 0,
            is_advertised: false,
            without_payload: 0,
            cheat: Cheat::new(config.receiver_kind).map(Box::new),
        }
    }

    pub(crate) fn read_on_demand(&mut self) {
        self.on_demand = true;
        self.is_advertised = false;
        self.window.read_on_demand();
        self.acks.read_on_demand();
    }

    /// The application reads up to `bytes` more.
    pub(crate) fn read(&mut self, now: Time, bytes: u64) {
        let bytes = bytes.min(self.unread);
        if bytes == 0 {
            return;
        }
        self.unread -= bytes;
        self.is_advertised = false;
        let next = self.stream.next();
        self.window.on_read_until(now, next - self.unread);
        let is_due = self.held_bytes() == 0 && self.acks.is_due_once_read();
        if is_due || self.window.has_opened_much(next, self.held_bytes()) {
            self.acks.force();
        }
    }

    #[inline]
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.unread
    }

    /// Payload bytes in the receive buffer: unread or behind a gap.
    #[inline]
    fn held_bytes(&self) -> u64 {
        self.stream.held_bytes() + self.unread
    }

    pub(crate) fn set_sack(&mut self, on: bool) {
        self.stream.reports.set_sack(on);
        self.acks.set_sack(on);
        self.window.set_sack(on);
    }

    /// Position of the next byte expected (RCV.NXT).
    pub(crate) fn next(&self) -> u64 {
        self.stream.next()
    }

    /// Whether the peer has sent a FIN, perhaps behind a gap.
    pub(crate) fn has_fin(&self) -> bool {
        self.fin_at != NOT_SEEN
    }

    pub(crate) fn fin_received(&self) -> bool {
        self.stream.next() > self.fin_at
    }

    /// Payload bytes received in order.
    pub(crate) fn received(&self) -> u64 {
        self.stream.next() - self.without_payload
    }

    /// Payload bytes received behind a gap.
    #[inline]
    pub(crate) fn out_of_order_bytes(&self) -> u64 {
        self.stream.held_bytes()
    }

    /// Consumes the peer's SYN, which occupies position 0.
    pub(crate) fn on_syn(&mut self) {
        self.stream.on_syn();
        self.without_payload = 1;
        self.window.on_ack_sent(self.stream.next());
    }

    /// A listening endpoint received a SYN; timestamps take `options` bytes of every segment.
    pub(crate) fn on_request(&mut self, options: u64) {
        self.window.on_request(options);
    }

    /// The handshake completed: starts autotuning. Timestamps take `options` bytes of every segment; as in Linux, the end that `opened` the
    /// connection subtracts them from its segment size earlier.
    pub(crate) fn on_established(&mut self, now: Time, options: u64, opened: bool) {
        self.is_advertised = false;
        self.window.begin(now, options, opened);
    }

    /// Window of a SYN, in bytes; never scaled.
    pub(crate) fn initial_window(&self) -> u32 {
        self.window.size() as u32
    }

    /// Window for a segment sent now, in bytes. The header counts it in units of `1 << scale` bytes.
    #[inline]
    pub(crate) fn advertise(&mut self, scale: u8) -> u32 {
        if self.is_advertised {
            return self.window.advertised();
        }
        self.is_advertised = true;
        self.window.advertise(self.stream.next(), (self.held_bytes(), self.unread), scale)
    }

    /// Processes a segment's payload and FIN. The payload begins at `start` and arrived in packets of at most `unit` bytes; `echo_age_us`
    /// is the age of the echoed timestamp, if any, and `rto` this end's retransmission timeout. Returns whether it took payload that was
    /// new.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        start: u64,
        (segment, unit): (&Segment, u16),
        echo_age_us: Option<u32>,
        rto: impl FnOnce() -> Time,
    ) -> bool {
        let has_fin = segment.flags.has(Flags::FIN);
        let mut end = start + u64::from(segment.len);
        if has_fin {
            self.fin_at = end;
        } else if segment.len == 0 {
            return false;
        }
        self.on_payload::<false>(now, segment, unit, echo_age_us, rto);
        end += u64::from(has_fin);
        if end <= self.stream.next() {
            self.stream.reports.note_duplicate(start, end);
            self.acks.on_duplicate(self.window.size());
            return false;
        }
        if start > self.window.right_edge() {
            self.acks.force();
            return false;
        }
        let before = self.stream.next();
        self.reassemble(start, end);
        let has_ended = self.fin_received();
        if has_ended {
            self.without_payload += 1;
            self.acks.on_end();
        }
        if self.on_demand {
            self.unread += self.stream.next() - before - u64::from(has_ended);
        }
        let (next, held) = (self.stream.next(), self.held_bytes());
        self.on_taken::<false>(now, next, (held, segment.len), self.stream.newest());
        segment.len > 0
    }

    /// Fast path of [`Receiver::on_data`] for the next in-order data, valid while [`Receiver::is_in_order`]; `STEADY`: they
    /// [are](Receiver::is_steady).
    #[inline(always)]
    pub(crate) fn on_next_data<const STEADY: bool>(
        &mut self,
        now: Time,
        header: &Header,
        echo_age_us: Option<u32>,
        rto: impl FnOnce() -> Time,
    ) {
        self.on_payload::<STEADY>(now, header, header.len, echo_age_us, rto);
        if !STEADY && self.stream.next() > self.window.right_edge() {
            return self.acks.force();
        }
        let next = self.stream.extend(header.len);
        if !STEADY && self.on_demand {
            self.unread += u64::from(header.len);
        }
        let unread = if STEADY { 0 } else { self.unread };
        self.on_taken::<STEADY>(now, next, (unread, header.len), None);
    }

    /// End of the newest data received.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.stream.newest().unwrap_or(self.stream.next())
    }

    /// Fast path of [`Receiver::on_data`] for data that start at `newest`, which is [`Receiver::newest`]; valid while
    /// [`Receiver::extends_newest_range`].
    #[inline(always)]
    pub(crate) fn on_data_behind_gap(
        &mut self,
        now: Time,
        (newest, header): (u64, &Header),
        echo_age_us: Option<u32>,
        rto: impl FnOnce() -> Time,
    ) {
        self.on_payload::<false>(now, header, header.len, echo_age_us, rto);
        if newest > self.window.right_edge() {
            return self.acks.force();
        }
        let end = self.stream.extend_newest_range(header.len);
        self.on_taken::<false>(now, self.stream.next(), (self.held_bytes(), header.len), Some(end));
    }

    /// Counts a segment with payload, which arrived in packets of at most `unit` bytes, whether or not it is accepted.
    #[inline(always)]
    fn on_payload<const STEADY: bool>(
        &mut self,
        now: Time,
        header: &Header,
        unit: u16,
        echo_age_us: Option<u32>,
        rto: impl FnOnce() -> Time,
    ) {
        self.is_advertised = false;
        self.acks.on_data::<STEADY>(now, (unit, header.flags), self.window.size(), rto);
        if !STEADY {
            self.window.on_segment(unit, header.tsecr, echo_age_us);
        }
    }

    /// Accepted payload: in-order data now end at `next`, `held_bytes` occupy the buffer, and out-of-order data end at `newest`.
    #[inline(always)]
    fn on_taken<const STEADY: bool>(
        &mut self,
        now: Time,
        next: u64,
        (held_bytes, payload): (u64, u16),
        newest: Option<u64>,
    ) {
        if self.window.grow::<STEADY>(now, next, (held_bytes, u64::from(payload)), newest) {
            self.acks.on_growth(self.window.size());
        }
        let unacknowledged = next - self.window.acknowledged();
        self.acks.decide(now, next, unacknowledged, newest.is_some(), self.window.rtt_us());
    }

    fn reassemble(&mut self, start: u64, end: u64) {
        if start > self.stream.next() {
            return self.stream.insert(start, end);
        }
        let had_gap = self.stream.has_gap();
        self.stream.append(start, end);
        // RFC 5681, section 4.2: acknowledge immediately when a gap is filled.
        if had_gap && !self.stream.has_gap() {
            self.acks.force();
        }
    }

    pub(crate) fn ack_due(&self) -> bool {
        self.acks.due()
    }

    /// Requests an immediate ACK, for a retransmitted SYN or an old segment.
    pub(crate) fn force_ack(&mut self) {
        self.acks.force();
    }

    /// First congestion mark since the sender last set CWR.
    pub(crate) fn on_congestion_mark(&mut self) {
        self.acks.on_congestion_mark();
    }

    /// Whether data wait for their ACK.
    #[inline]
    pub(crate) fn owes_ack(&self) -> bool {
        self.acks.are_owed()
    }

    /// Deadline of a delayed or compressed ACK.
    #[inline]
    pub(crate) fn ack_deadline(&self) -> Time {
        self.acks.deadline()
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        self.acks.on_timer(now);
    }

    #[inline]
    pub(crate) fn on_data_sent(&mut self, now: Time) {
        self.acks.on_data_sent(now);
    }

    /// An ACK was sent, alone or with data.
    #[inline]
    pub(crate) fn on_ack_sent(&mut self) {
        self.acks.on_sent();
        self.window.on_ack_sent(self.stream.next());
    }

    /// Fills in the SACK blocks: duplicates first (RFC 2883), then the newest ranges.
    #[inline]
    pub(crate) fn fill_sack(&mut self, segment: &mut Segment, to_wire: impl Fn(u64) -> u32) {
        self.stream.reports.fill(segment, to_wire);
    }
}

const NOT_SEEN: u64 = u64::MAX;
