//! The receiving half: reassembly, acknowledgement policy, and a window that grows with the measured rate.

mod acks;
mod reassembly;
mod reports;
mod window;

use perigee_units::Time;

use crate::segment::{Flags, Header, Segment};
use acks::AckPolicy;
use perigee_settings::Config;
use reassembly::Reassembly;
pub(crate) use window::window_scale;
use window::ReceiveWindow;

/// State of the receiving half. Positions are bytes since the peer's initial sequence number.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    stream: Reassembly,
    /// Position of the FIN; [`NOT_SEEN`] before.
    fin_at: u64,
    window: ReceiveWindow,
    acks: AckPolicy,
    /// The application says itself what it reads; otherwise it reads all that arrives.
    on_demand: bool,
    /// Payload bytes received in order that it has not read.
    unread: u64,
    /// Nothing has changed since the window was advertised last: it is the same.
    is_advertised: bool,
}

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
        }
    }

    /// The application says itself what it reads.
    pub(crate) fn read_on_demand(&mut self) {
        self.on_demand = true;
        self.is_advertised = false;
        self.window.read_on_demand();
    }

    /// The application has read `bytes` more.
    pub(crate) fn read(&mut self, now: Time, bytes: u64) {
        let bytes = bytes.min(self.unread);
        if bytes == 0 {
            return;
        }
        self.unread -= bytes;
        self.is_advertised = false;
        let next = self.stream.next();
        self.window.on_read_until(now, next - self.unread);
        if self.window.has_opened_much(next, self.held_bytes()) {
            self.acks.force();
        }
    }

    /// Payload bytes received in order that the application has not read.
    #[inline]
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.unread
    }

    /// Payload bytes in the receive buffer: unread, or behind a gap.
    #[inline]
    fn held_bytes(&self) -> u64 {
        self.stream.held_bytes() + self.unread
    }

    /// What the handshake agreed on.
    pub(crate) fn set_sack(&mut self, on: bool) {
        self.stream.reports.set_sack(on);
        self.acks.set_sack(on);
        self.window.set_sack(on);
    }

    /// Position expected next.
    pub(crate) fn next(&self) -> u64 {
        self.stream.next()
    }

    pub(crate) fn fin_received(&self) -> bool {
        self.stream.next() > self.fin_at
    }

    /// Payload bytes delivered in order.
    pub(crate) fn received(&self) -> u64 {
        self.stream.next().saturating_sub(1 + u64::from(self.fin_received()))
    }

    /// Payload bytes that wait behind a gap.
    #[inline]
    pub(crate) fn out_of_order_bytes(&self) -> u64 {
        self.stream.held_bytes()
    }

    /// The peer's SYN: it takes position 0.
    pub(crate) fn on_syn(&mut self) {
        self.stream.on_syn();
        self.window.on_ack_sent(self.stream.next());
    }

    /// The end that listens has received a SYN; timestamps take `options` bytes of every segment.
    pub(crate) fn on_request(&mut self, options: u64) {
        self.window.on_request(options);
    }

    /// The handshake is complete: the window begins to grow. Timestamps take `options` bytes of every segment; the end
    /// that `opened` the connection subtracts them from the segment sooner, as in Linux.
    pub(crate) fn on_established(&mut self, now: Time, options: u64, opened: bool) {
        self.is_advertised = false;
        self.window.begin(now, options, opened);
    }

    /// Window of a SYN, in bytes: it is not scaled.
    pub(crate) fn initial_window(&self) -> u32 {
        self.window.size() as u32
    }

    /// Window to put into a segment sent now, in bytes; the header counts it in units of `1 << scale` bytes.
    #[inline]
    pub(crate) fn advertise(&mut self, scale: u8) -> u32 {
        if self.is_advertised {
            return self.window.size() as u32;
        }
        self.is_advertised = true;
        self.window.advertise(self.stream.next(), self.held_bytes(), scale)
    }

    /// Takes a segment's payload, which begins at `start` and came in packets of at most `unit` bytes, and its FIN; `echo_age_us` is the
    /// age of the timestamp that it echoes, if it echoes one. `rto` is the retransmission timeout of this end.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        start: u64,
        (segment, unit): (&Segment, u16),
        echo_age_us: Option<u32>,
        rto: impl FnOnce() -> Time,
    ) {
        let has_fin = segment.flags.has(Flags::FIN);
        let mut end = start + u64::from(segment.len);
        if has_fin {
            self.fin_at = end;
        } else if segment.len == 0 {
            return;
        }
        self.on_payload(now, segment, unit, echo_age_us, rto);
        end += u64::from(has_fin);
        if end <= self.stream.next() {
            self.stream.reports.note_duplicate(start, end);
            self.acks.on_duplicate(self.window.size());
            return;
        }
        if start > self.window.right_edge() {
            self.acks.force();
            return;
        }
        let before = self.stream.next();
        self.place(start, end);
        if self.on_demand {
            self.unread += self.stream.next() - before - u64::from(self.fin_received());
        }
        let (next, held) = (self.stream.next(), self.held_bytes());
        self.on_taken(now, next, (held, segment.len), self.stream.newest());
    }

    /// Whether all that was received is in order, and further data that are so meet nothing unusual.
    pub(crate) fn is_in_order(&self) -> bool {
        !self.stream.has_gap() && self.stream.reports.is_empty() && self.fin_at == NOT_SEEN
    }

    /// Whether the peer knows of all that was received, and sending from `now` on tells it nothing new.
    pub(crate) fn has_acknowledged_all(&self, now: Time) -> bool {
        self.is_advertised && self.acks.is_idle(now) && self.window.acknowledged() == self.stream.next()
    }

    /// [`Receiver::on_data`] of payload that begins at the position expected, of one that [`Receiver::is_in_order`].
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub(crate) fn on_next_data(
        &mut self,
        now: Time,
        header: &Header,
        echo_age_us: Option<u32>,
        rto: impl FnOnce() -> Time,
    ) {
        self.on_payload(now, header, header.len, echo_age_us, rto);
        if self.stream.next() > self.window.right_edge() {
            return self.acks.force();
        }
        let next = self.stream.extend(header.len);
        if self.on_demand {
            self.unread += u64::from(header.len);
        }
        self.on_taken(now, next, (self.unread, header.len), None);
    }

    /// Whether further data behind a gap, which begin where the last ones end, let the newest range grow and do nothing else.
    pub(crate) fn is_growing(&self) -> bool {
        self.fin_at == NOT_SEEN && self.stream.is_growing()
    }

    /// Where the data that were received end.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.stream.newest().unwrap_or(self.stream.next())
    }

    /// [`Receiver::on_data`] of payload that begins at the [newest](Receiver::newest) position, of one that [`Receiver::is_growing`].
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment behind a gap")]
    pub(crate) fn on_further_data(
        &mut self,
        now: Time,
        header: &Header,
        echo_age_us: Option<u32>,
        rto: impl FnOnce() -> Time,
    ) {
        self.on_payload(now, header, header.len, echo_age_us, rto);
        if self.newest() > self.window.right_edge() {
            return self.acks.force();
        }
        let end = self.stream.grow(header.len);
        self.on_taken(now, self.stream.next(), (self.held_bytes(), header.len), Some(end));
    }

    /// A segment with payload has arrived, of packets of at most `unit` bytes, whatever becomes of it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    fn on_payload(
        &mut self,
        now: Time,
        header: &Header,
        unit: u16,
        echo_age_us: Option<u32>,
        rto: impl FnOnce() -> Time,
    ) {
        self.is_advertised = false;
        self.acks.on_data(now, unit, self.window.size(), rto);
        self.window.on_segment(unit, header.tsecr, echo_age_us);
    }

    /// Payload was taken in, and the data in order end at `next`; `held_bytes` are in the buffer, and data behind gaps end at `newest`.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    fn on_taken(&mut self, now: Time, next: u64, (held_bytes, payload): (u64, u16), newest: Option<u64>) {
        if self.window.grow(now, next, (held_bytes, u64::from(payload)), newest) {
            self.acks.stay_quick();
        }
        let unacknowledged = next - self.window.acknowledged();
        self.acks.decide(now, next, unacknowledged, newest.is_some(), self.window.rtt_us());
    }

    fn place(&mut self, start: u64, end: u64) {
        if start > self.stream.next() {
            return self.stream.insert(start, end);
        }
        let had_gap = self.stream.has_gap();
        self.stream.append(start, end);
        // RFC 5681, section 4.2: acknowledge at once when a gap is filled.
        if had_gap && !self.stream.has_gap() {
            self.acks.force();
        }
    }

    /// Whether an acknowledgement must leave now.
    pub(crate) fn ack_due(&self) -> bool {
        self.acks.due()
    }

    /// Asks for an acknowledgement at once (a SYN retransmission, an old segment).
    pub(crate) fn force_ack(&mut self) {
        self.acks.force();
    }

    /// The network has marked a segment for the first time since the sender last reduced.
    pub(crate) fn on_congestion_mark(&mut self) {
        self.acks.on_congestion_mark();
    }

    /// When a delayed or compressed acknowledgement leaves at the latest.
    #[inline]
    pub(crate) fn ack_deadline(&self) -> Time {
        self.acks.deadline()
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        self.acks.on_timer(now);
    }

    /// Data leave.
    #[inline]
    pub(crate) fn on_data_sent(&mut self, now: Time) {
        self.acks.on_data_sent(now);
    }

    /// An acknowledgement has left, alone or with data.
    #[inline]
    pub(crate) fn on_ack_sent(&mut self) {
        self.acks.on_sent();
        self.window.on_ack_sent(self.stream.next());
    }

    /// Fills SACK blocks, duplicates first (RFC 2883), then the newest ranges.
    #[inline]
    pub(crate) fn fill_sack(&mut self, segment: &mut Segment, to_wire: impl Fn(u64) -> u32) {
        self.stream.reports.fill(segment, to_wire);
    }
}

/// No position of the stream.
const NOT_SEEN: u64 = u64::MAX;
