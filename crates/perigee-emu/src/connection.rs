//! What is seen of a TCP connection at the ends of its links, and of what runs over it.

use perigee_capture::{Receiver, Sender, Tcp as Segment};
use perigee_measure::{steady_of_size, steady_of_time, Meter, Of, Sent, State};
use perigee_study::results::{FlowRow, Outcome, SeriesRow};
use perigee_study::{Amount, App, Measure, Tcp};
use perigee_units::{Bytes, Ratio, Time};

use crate::apps::Told;
use crate::requests::{Seen, Talk};
use crate::tcp_info::TcpInfo;

/// A connection.
pub(crate) struct Connection<'a> {
    pub(crate) meter: Meter,
    goal: Goal,
    /// TCP paces it.
    paced: bool,
    start: Time,
    sender: Sender,
    receiver: Receiver,
    /// The sender's socket, once it is connected, and how the connection failed.
    told: &'a Told,
    /// Of the socket, when the flow ended.
    last: Option<TcpInfo>,
    sent_by_end: Option<Sent>,
    opened: Option<Time>,
    handshake: Option<Time>,
    outcome: Outcome,
}

/// When it is done.
enum Goal {
    Size(Bytes),
    Duration(Time),
    Requests(Seen),
}

impl<'a> Connection<'a> {
    /// Of a flow that begins at `start`, and what its applications will tell of it.
    pub(crate) fn new(start: Time, (tcp, app): (&Tcp, App), measure: &Measure, told: &'a Told) -> Self {
        let share = measure.steady.map(Ratio::as_f64);
        let (goal, steady) = match app {
            App::Bulk(Amount::Size(size)) => (Goal::Size(size), share.map(|share| steady_of_size(size, share))),
            App::Bulk(Amount::Duration(length)) => {
                (Goal::Duration(length), share.map(|share| steady_of_time(start, length, share)))
            }
            App::Request { request, response, think, count } => {
                let size = Bytes::new(response.as_u64().saturating_mul(u64::from(count)));
                let talk = Talk { request: request.as_u64(), response: response.as_u64(), think, count };
                (Goal::Requests(Seen::new(talk)), share.map(|share| steady_of_size(size, share)))
            }
        };
        Self {
            meter: Meter::new(start, measure, steady),
            goal,
            paced: tcp.from.pacing || tcp.cc.algorithm().has_cong_control(),
            start,
            sender: Sender::default(),
            receiver: Receiver::default(),
            told,
            last: None,
            sent_by_end: None,
            opened: None,
            handshake: None,
            outcome: Outcome::TimeLimit,
        }
    }

    /// A segment enters its first link, on the way of the data or back.
    pub(crate) fn offered(&mut self, now: Time, forward: bool, segment: &Segment) {
        if segment.syn && segment.acknowledgement.is_none() {
            self.opened.get_or_insert(now);
        }
        if forward {
            self.sender.sent(now, segment);
        } else if let Goal::Requests(seen) = &mut self.goal {
            seen.request(now, segment);
        }
    }

    /// A segment leaves its last link.
    pub(crate) fn released(&mut self, now: Time, forward: bool, segment: &Segment) {
        if let (true, Some(_), Some(opened), None) = (segment.syn, segment.acknowledgement, self.opened, self.handshake)
        {
            self.handshake = now.checked_sub(opened);
        }
        if !forward {
            if let Some(round_trip) = self.sender.received(now, segment) {
                self.meter.round_trip(round_trip);
            }
            return;
        }
        self.receiver.segment(segment);
        if segment.payload > 0 {
            self.arrival(now);
        }
    }

    /// Data have arrived.
    fn arrival(&mut self, now: Time) {
        let received = self.receiver.received();
        if self.meter.deliver(now, received, self.receiver.arrived()) {
            let sent = self.sent();
            self.meter.pass(now, sent);
        }
        let done = match &mut self.goal {
            Goal::Size(size) => received >= size.as_u64(),
            Goal::Duration(_) => false,
            Goal::Requests(seen) => self.meter.end().is_none() && seen.response(now, received),
        };
        if done && self.meter.end().is_none() {
            self.outcome = Outcome::Completed;
            self.finish(now);
        }
    }

    /// What is due, of a flow that has not ended; when it has to be looked at again.
    pub(crate) fn step(&mut self, now: Time) -> Time {
        let end = if let Goal::Duration(length) = self.goal { self.start + length } else { Time::MAX };
        if now >= end {
            // A connection that was not established by then has carried nothing of what was asked for.
            let established = self.told.socket.get().is_some();
            self.outcome = if established { Outcome::Completed } else { Outcome::TimeLimit };
            self.finish(end);
            return Time::MAX;
        }
        if let Some(failure) = self.told.failure.get() {
            self.outcome = failure.outcome;
            self.finish(now);
            return Time::MAX;
        }
        if self.meter.next_instant() <= now {
            let (at, sent) = (self.meter.next_instant(), self.sent());
            self.meter.pass(at, sent);
        }
        end.min(self.meter.next_instant())
    }

    /// It ends.
    pub(crate) fn finish(&mut self, now: Time) {
        self.last = self.ask();
        self.sent_by_end = Some(self.sent());
        self.meter.finish(now);
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, of: Of<'_>) -> Option<SeriesRow> {
        let info = self.last.or_else(|| self.ask()).unwrap_or_default();
        let state = State { acked_bytes: self.sender.acknowledged(), ..info.state(self.paced) };
        self.meter.series_row(now, of, self.sent(), state)
    }

    /// How far it is, from 0 to 1.
    pub(crate) fn share_done(&self, now: Time) -> f64 {
        match &self.goal {
            Goal::Size(size) => self.meter.received() as f64 / size.as_u64().max(1) as f64,
            Goal::Duration(length) => {
                now.checked_sub(self.start).unwrap_or_default().as_secs_f64() / length.as_secs_f64().max(1e-9)
            }
            Goal::Requests(seen) => seen.share_done(),
        }
    }

    /// Fills in its row of the results; `end` is its end or the run's.
    pub(crate) fn fill(&self, row: &mut FlowRow, end: Time) {
        self.meter.fill(row, end, self.sent());
        row.set_outcome(self.outcome);
        row.handshake_ms = self.handshake.map(Time::as_millis_f64);
        let of_syn = self.told.failure.get().and_then(|failure| failure.syn_timeouts);
        row.rto_count = self.last.map(|info| info.rto_count).or(of_syn);
    }

    /// Its requests, where it has some.
    pub(crate) fn requests(&self) -> Option<&Seen> {
        match &self.goal {
            Goal::Requests(seen) => Some(seen),
            Goal::Size(_) | Goal::Duration(_) => None,
        }
    }

    fn sent(&self) -> Sent {
        let now = Sent { packets: self.sender.packets(), retransmitted: self.sender.retransmitted() };
        self.sent_by_end.unwrap_or(now)
    }

    fn ask(&self) -> Option<TcpInfo> {
        self.told.socket.get().and_then(|socket| TcpInfo::of(socket).ok())
    }
}
