//! One flow of a capture: the data of one direction of a connection, and their acknowledgements.

use std::collections::VecDeque;

use perigee_results::{
    CaptureTables, ConnectionRow, FlowId, LossRow, Losses, Meter, Name, SenderCounts, SenderState, SeriesRow,
};
use perigee_units::Time;
use perigee_wire::{ReceiverView, SenderView, Tcp};

use crate::rounds::{RoundMeter, SentData};
use crate::sequence_history::{Piece, SequenceHistory};
use crate::side::Side;
use crate::trace::{Event, SequenceTrace};
use crate::vantage::RoundTrips;

/// A flow of TCP.
pub(crate) struct CapturedFlow {
    pub(crate) about: About,
    pub(crate) meter: Meter,
    sender: SenderView,
    receiver: ReceiverView,
    history: SequenceHistory,
    sent_packets: u64,
    retransmitted_packets: u64,
    /// When new data last arrived.
    last_arrival: Time,
    last_packet: Time,
    /// Bytes that the last acknowledgement covers behind the last byte that passed.
    beyond: u64,
    smoothed: Option<Smoothed>,
    echo: Echo,
    /// Counts of the row of `connections`.
    pub(crate) counts: Counts,
    losses: LossRuns,
    rounds: RoundMeter,
    /// Position behind the last byte that the receiver's window has room for.
    edge: Option<u64>,
    is_written: bool,
    /// Its time sequence, where that is asked for.
    pub(crate) trace: Option<SequenceTrace>,
}

/// Counts of a flow that only captures have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) merged: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) reordering_max: Option<Time>,
    pub(crate) lost_before: u64,
    pub(crate) spurious: u64,
    pub(crate) unseen: u64,
    pub(crate) timeouts: u64,
    pub(crate) zero_windows: u64,
    pub(crate) window_max: Option<u64>,
    pub(crate) inflight_max: u64,
    pub(crate) has_sack: bool,
}

/// RFC 6298, 2.
#[derive(Clone, Copy, Debug)]
struct Smoothed {
    mean_ns: f64,
}

/// Timestamps of the other end, and when each value first passed.
#[derive(Clone, Debug, Default)]
struct Echo {
    waiting: VecDeque<(u32, Time)>,
    /// The last round trip from here to the sender and back.
    last: Option<Time>,
}

/// Losses of one or several packets in a row.
#[derive(Clone, Debug, Default)]
struct LossRuns {
    open: Option<Run>,
    events: u64,
    longest: u32,
    /// Packets sent when the last one ended.
    then: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    at: Time,
    start: u64,
    end: u64,
    packets: u32,
    sent: u64,
    how: &'static str,
}

/// The properties of a flow that do not change.
pub(crate) struct About {
    pub(crate) name: Name,
    /// Number of the capture.
    pub(crate) run: u32,
    /// The way of its data.
    pub(crate) way: usize,
    pub(crate) side: Side,
    pub(crate) round_trips: RoundTrips,
    /// Payload of one packet.
    pub(crate) segment: u32,
    /// The shortest round trip that is known, here and back to both ends.
    pub(crate) shortest: Option<Time>,
    /// Window scale of the receiver, as a shift; `None`: its SYN is not in the capture, and its windows are unknown.
    pub(crate) window_scale: Option<u8>,
    /// Acknowledgements show what the receiver has; otherwise the data here do.
    pub(crate) by_acknowledgements: bool,
    /// They are in the capture at all.
    pub(crate) has_acknowledgements: bool,
    /// Measuring ends at this instant.
    pub(crate) until: Time,
    /// Its payload, if its data are not in the capture: acknowledgements tell what the receiver has, and nobody counted packets.
    pub(crate) unseen: Option<u64>,
    /// The number before the first byte.
    pub(crate) beginning: u32,
}

impl CapturedFlow {
    pub(crate) fn new(about: About, meter: Meter) -> Self {
        let syn = Tcp { syn: true, sequence: about.beginning, ..Tcp::default() };
        let (mut sender, mut receiver) = (SenderView::default(), ReceiverView::default());
        sender.sent(meter.start(), &syn);
        receiver.segment(&syn);
        let sees_sender = about.by_acknowledgements && about.unseen.is_none();
        let rounds = RoundMeter::new(meter.start(), about.until, about.shortest, sees_sender);
        Self {
            about,
            last_arrival: meter.start(),
            last_packet: meter.start(),
            beyond: 0,
            meter,
            sender,
            receiver,
            history: SequenceHistory::default(),
            sent_packets: 0,
            retransmitted_packets: 0,
            smoothed: None,
            echo: Echo::default(),
            counts: Counts::default(),
            losses: LossRuns::default(),
            rounds,
            edge: None,
            is_written: false,
            trace: None,
        }
    }

    /// A packet of the connection passes.
    #[inline]
    pub(crate) fn packet(&mut self, now: Time, way: usize, tcp: &Tcp, identification: u16, losses: &mut Losses) {
        if now > self.about.until {
            self.finish();
        }
        if self.meter.next_instant() <= now {
            self.meter.record_progress(self.meter.next_instant(), self.sent());
        }
        if way == self.about.way {
            self.data(now, tcp, identification, losses);
        } else {
            self.answer(now, tcp);
        }
        self.last_packet = now;
    }

    fn data(&mut self, now: Time, tcp: &Tcp, identification: u16, losses: &mut Losses) {
        if let Some((_, echo)) = tcp.timestamps.filter(|_| tcp.acknowledgement.is_some())
            && let Some(back) = self.echo.came(now, echo)
            && self.about.round_trips == RoundTrips::Timestamps
        {
            self.round_trip(now, back);
        }
        if tcp.payload == 0 || tcp.syn {
            return;
        }
        if self.history.is_duplicate(now, tcp, identification) {
            self.counts.duplicated += 1;
            return;
        }
        self.counts.merged += u64::from(tcp.payload > self.about.segment);
        if let Some(trace) = &mut self.trace {
            trace.packet();
        }
        let (before, again) = (self.inflight(), self.retransmitted_packets);
        let mut rest = *tcp;
        while rest.payload > 0 {
            let payload = rest.payload.min(self.about.segment);
            let piece = Tcp { payload, ..rest };
            self.piece(now, &piece, identification, losses);
            rest.sequence = rest.sequence.wrapping_add(payload);
            rest.payload -= payload;
        }
        self.receiver.segment(tcp);
        let in_flight = self.inflight();
        self.counts.inflight_max = self.counts.inflight_max.max(in_flight);
        let data = SentData {
            bytes: tcp.payload,
            is_short: !tcp.payload.is_multiple_of(self.about.segment),
            is_pushed: tcp.psh,
            in_flight: (before, in_flight),
            is_again: self.retransmitted_packets > again,
            room: self.edge.map(|edge| edge.saturating_sub(self.sender.next())),
        };
        self.rounds.sent(now, &data, self.about.segment);
        if !self.about.by_acknowledgements {
            self.arrived(now, self.receiver.received(), self.receiver.arrived());
        }
    }

    #[inline]
    fn piece(&mut self, now: Time, tcp: &Tcp, identification: u16, losses: &mut Losses) {
        let (start, end) = self.sender.span(tcp);
        // An empty byte from before asks whether the other end is still there.
        if tcp.payload == 1 && end <= self.sender.acknowledged() {
            return;
        }
        let before = if end <= self.sender.next() { self.sender.sent_at(end) } else { None };
        let acknowledged = self.sender.acknowledged();
        self.sender.sent(now, tcp);
        if !self.about.has_acknowledgements || self.inflight() > LARGEST_WINDOW {
            let number = tcp.sequence.wrapping_add(tcp.payload);
            self.sender.received(now, &Tcp { acknowledgement: Some(number), ..Tcp::default() });
        }
        self.sent_packets += 1;
        let piece = self.history.piece(start, end, (now, tcp, identification), self.about.shortest);
        if let Some(trace) = &mut self.trace {
            let is_new = matches!(piece, Piece::New | Piece::Late(_));
            trace.segment(now, if is_new { Event::Sent } else { Event::Retransmitted }, start, end);
        }
        match piece {
            Piece::New => {}
            Piece::Retransmitted { first } => {
                self.retransmitted_packets += 1;
                let silence = now.checked_sub(self.last_packet).unwrap_or_default();
                self.counts.timeouts += u64::from(start <= acknowledged && silence >= TIMEOUT);
                if first {
                    self.lost((before.unwrap_or(now), start, end), "sent_again", losses);
                }
            }
            Piece::Late(since) => {
                self.counts.reordered += 1;
                self.counts.reordering_max = self.counts.reordering_max.max(Some(now - since));
            }
            Piece::Lost(since) => {
                // The first sending did not come by here.
                self.sent_packets += 1;
                self.retransmitted_packets += 1;
                self.counts.lost_before += 1;
                self.lost((since, start, end), "gap", losses);
            }
        }
    }

    fn answer(&mut self, now: Time, tcp: &Tcp) {
        let Some(number) = tcp.acknowledgement.filter(|_| !tcp.syn) else { return };
        if let Some((clock, _)) = tcp.timestamps {
            self.echo.passes(now, clock);
        }
        let known = self.about.window_scale.map(|scale| u64::from(tcp.window) << scale);
        self.counts.window_max = self.counts.window_max.max(known);
        self.counts.zero_windows += u64::from(tcp.window == 0 && !tcp.rst);
        let window = known.unwrap_or(tcp.window.into());
        self.counts.spurious += self.reported_twice(tcp, number);
        let before = self.sender.acknowledged();
        let position = self.position(number);
        let sample = self.sender.received(now, tcp);
        self.trace_answer(now, tcp, number, window);
        self.edge = self.edge.max(known.map(|window| position + window));
        let room = known.map_or(u64::MAX, |window| (position + window).saturating_sub(self.sender.next()));
        self.rounds.answered(now, tcp.payload > 0, room, self.about.segment);
        if let Some(payload) = self.about.unseen {
            return self.reported(now, tcp, number, payload);
        }
        self.beyond = self.position(number).saturating_sub(self.sender.next() + 1);
        if let Some(there) = sample {
            match self.about.round_trips {
                RoundTrips::Acknowledgements => self.round_trip(now, there),
                RoundTrips::Both => {
                    if let Some(back) = self.echo.last {
                        self.round_trip(now, there + back);
                    }
                }
                _ => {}
            }
        }
        let acknowledged = self.sender.acknowledged();
        if acknowledged > before {
            self.unseen_acknowledged(acknowledged);
        }
        if self.about.by_acknowledgements {
            self.arrived(now, acknowledged, self.sender.arrived());
        }
    }

    /// An acknowledgement of data that passed elsewhere: what it reports has arrived, of `payload` bytes (the FIN is none).
    fn reported(&mut self, now: Time, tcp: &Tcp, number: u32, payload: u64) {
        let (acknowledged, received) = (self.position(number).min(payload), self.receiver.received());
        let blocks = tcp.sack.blocks().iter().map(|(first, after)| (*first, after.wrapping_sub(*first)));
        let in_order = (self.number(received), acknowledged.saturating_sub(received) as u32);
        for (sequence, payload) in blocks.chain([in_order]).filter(|(_, bytes)| u64::from(*bytes) <= LARGEST_WINDOW) {
            self.receiver.segment(&Tcp { sequence, payload, ..Tcp::default() });
        }
        self.arrived(now, self.receiver.received(), self.receiver.arrived());
    }

    /// The position of a sequence number in the stream.
    fn position(&mut self, number: u32) -> u64 {
        self.sender.span(&Tcp { sequence: number, ..Tcp::default() }).0
    }

    /// The sequence number of a position in the stream.
    fn number(&self, position: u64) -> u32 {
        self.about.beginning.wrapping_add(1).wrapping_add(position as u32)
    }

    /// Adds an acknowledgement to the time sequence.
    fn trace_answer(&mut self, now: Time, tcp: &Tcp, number: u32, window: u64) {
        let Some(trace) = &mut self.trace else { return };
        let mut position = |first: u32, bytes: u32| {
            let (start, end) = self.sender.span(&Tcp { sequence: first, payload: bytes, ..Tcp::default() });
            (start, end)
        };
        let acknowledged = position(number, 0).0;
        trace.acknowledgement(now, acknowledged, window);
        for (first, after) in tcp.sack.blocks() {
            let (start, end) = position(*first, after.wrapping_sub(*first));
            // A block below the acknowledgement reports data that arrived twice (RFC 2883).
            if start > acknowledged && end - start <= LARGEST_WINDOW {
                trace.block(now, start, end);
            }
        }
    }

    fn unseen_acknowledged(&mut self, acknowledged: u64) {
        let bytes = self.history.acknowledged(acknowledged) + self.history.give_up();
        if bytes > 0 {
            let packets = bytes.div_ceil(u64::from(self.about.segment));
            self.counts.unseen += packets;
            self.sent_packets += packets;
        }
    }

    /// Duplicates that an acknowledgement reports (RFC 2883): its first SACK block is acknowledged already.
    fn reported_twice(&mut self, tcp: &Tcp, number: u32) -> u64 {
        let blocks = tcp.sack.blocks();
        self.counts.has_sack |= !blocks.is_empty();
        let Some((start, end)) = blocks.first().copied() else { return 0 };
        let is_before = (end.wrapping_sub(number) as i32) <= 0;
        let is_within = blocks.get(1).is_some_and(|(first, after)| {
            start.wrapping_sub(*first) as i32 >= 0 && after.wrapping_sub(end) as i32 >= 0
        });
        let bytes = end.wrapping_sub(start);
        let is_sane = bytes as i32 > 0 && u64::from(bytes) <= self.history.next();
        if (is_before || is_within) && is_sane {
            u64::from(bytes.div_ceil(self.about.segment))
        } else {
            0
        }
    }

    fn lost(&mut self, (at, start, end): (Time, u64, u64), how: &'static str, losses: &mut Losses) {
        if let Some(run) = self.losses.open.as_mut().filter(|run| run.end == start && run.how == how) {
            run.end = end;
            run.packets += 1;
            return;
        }
        self.end_losses(losses);
        // How many were sent before it: what is behind it does not count.
        let behind = self.history.next().saturating_sub(start) / u64::from(self.about.segment);
        let sent = self.sent_packets.saturating_sub(behind);
        self.losses.open = Some(Run { at, start, end, packets: 1, sent, how });
    }

    /// Writes the losses under way.
    fn end_losses(&mut self, losses: &mut Losses) {
        let Some(run) = self.losses.open.take() else { return };
        self.losses.events += 1;
        self.losses.longest = self.losses.longest.max(run.packets);
        if losses.run.len() < MOST_LOSSES {
            losses.push(LossRow {
                run: self.about.run,
                flow: self.about.name.clone(),
                t_s: run.at.as_secs_f64(),
                how: run.how.into(),
                packets: run.packets,
                since_packets: run.sent.saturating_sub(self.losses.then),
                offset_bytes: run.start,
            });
        }
        self.losses.then = run.sent + u64::from(run.packets);
    }

    fn round_trip(&mut self, now: Time, sample: Time) {
        self.meter.round_trip(sample);
        self.rounds.round_trip(now, sample);
        let ns = sample.as_nanos() as f64;
        let mean_ns = self.smoothed.map_or(ns, |smoothed| smoothed.mean_ns + (ns - smoothed.mean_ns) / 8.0);
        self.smoothed = Some(Smoothed { mean_ns });
    }

    fn arrived(&mut self, now: Time, received: u64, arrived: u64) {
        self.rounds.arrived(now, arrived);
        if arrived > self.meter.arrived() || received > self.meter.received() {
            self.last_arrival = now;
        }
        if self.meter.deliver(now, received, arrived) {
            self.meter.record_progress(now, self.sent());
        }
    }

    /// Data in flight: passed here, and not acknowledged.
    fn inflight(&self) -> u64 {
        self.sender.next().saturating_sub(self.sender.arrived())
    }

    /// The row of its series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time) -> Option<SeriesRow> {
        if self.is_written || now <= self.meter.start() {
            return None;
        }
        if now > self.about.until {
            self.finish();
        }
        self.is_written = self.meter.end().is_some();
        let packets = u32::try_from(self.inflight() / u64::from(self.about.segment)).unwrap_or(u32::MAX);
        let state = SenderState {
            acked_bytes: if self.about.by_acknowledgements && self.about.unseen.is_none() {
                self.sender.acknowledged()
            } else {
                self.receiver.received()
            },
            srtt_ms: self.smoothed.map(|smoothed| smoothed.mean_ns / 1e6),
            inflight_packets: self.sees_sender().then_some(packets),
            ..SenderState::default()
        };
        self.meter.series_row(
            now,
            FlowId { run: self.about.run, flow: &self.about.name, leg: None },
            self.sent(),
            state,
        )
    }

    /// The flow is over: it ended with its last byte's arrival.
    pub(crate) fn finish(&mut self) {
        if self.meter.end().is_none() {
            let unseen = std::mem::take(&mut self.beyond).div_ceil(u64::from(self.about.segment));
            self.counts.unseen += unseen;
            self.sent_packets += unseen;
            self.meter.finish(self.last_arrival);
        }
    }

    /// Whether the capture has the data with their acknowledgements, as their sender has them.
    fn sees_sender(&self) -> bool {
        self.about.by_acknowledgements && self.about.unseen.is_none()
    }

    /// Data packets sent so far; nothing where they passed elsewhere.
    pub(crate) fn sent(&self) -> SenderCounts {
        if self.about.unseen.is_some() {
            return SenderCounts { packets: None, retransmitted: None };
        }
        SenderCounts::counted(self.sent_packets, self.retransmitted_packets)
    }

    /// Whether its last row was written.
    pub(crate) fn is_told(&self) -> bool {
        self.is_written
    }

    /// Bytes that the receiver has in order.
    pub(crate) fn received(&self) -> u64 {
        self.meter.received()
    }

    /// Fills in what was counted here, and writes its rounds.
    pub(crate) fn fill(&mut self, row: &mut ConnectionRow, captured: &mut CaptureTables) {
        self.end_losses(&mut captured.losses);
        if self.about.unseen.is_none() {
            let end = self.meter.end().unwrap_or(self.about.until);
            self.rounds.write((self.about.run, &self.about.name), end, &mut captured.rounds);
        }
        let counts = &self.counts;
        row.segment_bytes = self.about.segment;
        if self.about.unseen.is_none() {
            row.merged_packets = Some(counts.merged);
            row.duplicated_packets = Some(counts.duplicated);
            row.reordered_packets = Some(counts.reordered);
            row.lost_before_packets = Some(counts.lost_before);
            row.loss_events = Some(self.losses.events);
            row.loss_event_max_packets = Some(self.losses.longest);
        }
        if self.about.has_acknowledgements {
            row.spurious_packets = Some(counts.spurious);
            row.zero_windows = Some(counts.zero_windows);
            row.unseen_packets = self.about.unseen.is_none().then_some(counts.unseen);
        }
        row.reordering_max_ms = counts.reordering_max.map(Time::as_millis_f64);
        row.timeouts = self.sees_sender().then_some(counts.timeouts);
        row.receive_window_max_bytes = counts.window_max;
        row.inflight_max_bytes = self.sees_sender().then_some(counts.inflight_max);
        row.has_sack |= counts.has_sack;
    }
}

impl Echo {
    /// A packet with this value of its sender's clock passes.
    fn passes(&mut self, now: Time, clock: u32) {
        if self.waiting.back().is_none_or(|(last, _)| (clock.wrapping_sub(*last) as i32) > 0) {
            if self.waiting.len() >= MOST_ECHOES {
                self.waiting.pop_front();
            }
            self.waiting.push_back((clock, now));
        }
    }

    /// The first echo of a value; how long it took.
    fn came(&mut self, now: Time, echo: u32) -> Option<Time> {
        let mut first = None;
        while let Some((clock, at)) = self.waiting.front().copied() {
            let ahead = clock.wrapping_sub(echo) as i32;
            if ahead > 0 {
                break;
            }
            self.waiting.pop_front();
            first = (ahead == 0).then(|| now - at);
        }
        self.last = first.or(self.last);
        first
    }
}

/// The least timeout of Linux.
const TIMEOUT: Time = Time::from_millis(200);
/// Largest window (RFC 7323, section 2.3): no more can be in flight.
const LARGEST_WINDOW: u64 = 1 << 30;
/// Rows of losses in one capture.
const MOST_LOSSES: usize = 1 << 20;
const MOST_ECHOES: usize = 1 << 16;
