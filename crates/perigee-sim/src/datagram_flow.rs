//! Flows of datagrams: a constant rate from one node to another, and pings that the far node answers.

use perigee_measure::{steady_of_time, Answers, Delays, Meter, Of, Sent, State};
use perigee_study::results::{ExchangeRow, Exchanges, FlowRow, Outcome, SeriesRow};
use perigee_study::{IpVersion, Measure};
use perigee_units::{Bytes, Rate, Time};

use crate::network::Fate;
use crate::packet::{Datagram, UDP_HEADER};
use crate::world::World;

/// One flow of datagrams.
pub(crate) struct DatagramFlow {
    /// The way of its packets; the next number is the way of the answers.
    way: u32,
    pub(crate) meter: Meter,
    kind: Kind,
    packet_bytes: u16,
    /// Bytes of them that are the headers'.
    headers: u16,
    sent: u32,
    /// Packets (of a ping: or their answers) on their way.
    outstanding: u32,
    /// The latest instant at which one of them arrived or was dropped.
    last_fate: Time,
    /// When the next one is due.
    next: Time,
    arrived: u64,
    /// Whether the run's time was up before its end.
    cut_off: bool,
}

enum Kind {
    Constant {
        rate: Rate,
        /// Fraction of a nanosecond of the departures, carried.
        remainder: u64,
        until: Time,
        delays: Delays,
    },
    Ping {
        interval: Time,
        count: u32,
        answers: Answers,
    },
}

impl DatagramFlow {
    /// Packets of `packet` bytes with their headers at `rate`, from `start` on over `duration`.
    pub(crate) fn constant(
        start: Time,
        way: u32,
        rate: Rate,
        (ip, packet): (IpVersion, Bytes),
        duration: Time,
        measure: &Measure,
    ) -> Self {
        let kind = Kind::Constant { rate, remainder: 0, until: start + duration, delays: Delays::default() };
        Self::new(start, way, kind, (ip, packet), duration, measure)
    }

    /// `count` packets, one each `interval`, from `start` on; each is answered by one of the same size.
    pub(crate) fn ping(
        start: Time,
        way: u32,
        interval: Time,
        (ip, packet): (IpVersion, Bytes),
        count: u32,
        measure: &Measure,
    ) -> Self {
        let kind = Kind::Ping { interval, count, answers: Answers::default() };
        Self::new(start, way, kind, (ip, packet), interval * u64::from(count), measure)
    }

    fn new(
        start: Time,
        way: u32,
        kind: Kind,
        (ip, packet): (IpVersion, Bytes),
        length: Time,
        measure: &Measure,
    ) -> Self {
        let headers = ip.header_bytes() + UDP_HEADER;
        let steady = measure.steady.map(|share| steady_of_time(start, length, share.as_f64()));
        Self {
            way,
            meter: Meter::new(start, measure, steady),
            kind,
            packet_bytes: (packet.as_u64().min(u64::from(u16::MAX)) as u16).max(headers),
            headers,
            sent: 0,
            outstanding: 0,
            last_fate: start,
            next: start,
            arrived: 0,
            cut_off: false,
        }
    }

    /// The next instant for [`DatagramFlow::on_instant`]; [`Time::MAX`] where there is none.
    pub(crate) fn next_instant(&self) -> Time {
        self.next.min(self.meter.next_instant())
    }

    /// An instant it asked for: sends what is due.
    pub(crate) fn on_instant(&mut self, now: Time, world: &mut World) {
        if self.meter.next_instant() <= now {
            self.meter.pass(now, self.sent());
        }
        if self.next > now {
            return;
        }
        let datagram = Datagram::new(self.sent, now, self.packet_bytes, self.headers);
        let fate = world.send(now, datagram.packet(self.way, self.headers));
        self.sent += 1;
        self.outstanding += 1;
        let packet = Bytes::new(u64::from(self.packet_bytes));
        self.next = match &mut self.kind {
            Kind::Constant { rate, remainder, until, .. } => {
                Some(now + rate.send_with_remainder(packet, remainder)).filter(|next| next < until)
            }
            Kind::Ping { interval, count, answers } => {
                answers.sent(self.sent);
                Some(now + *interval).filter(|_| self.sent < *count)
            }
        }
        .unwrap_or(Time::MAX);
        if let Fate::Gone(at) = fate {
            self.gone(at, world);
        }
    }

    /// A packet, or the answer to one, arrives where its way ends.
    pub(crate) fn on_datagram(&mut self, now: Time, way: u32, datagram: Datagram, world: &mut World) {
        if self.cut_off {
            return;
        }
        match &mut self.kind {
            Kind::Constant { delays, .. } => delays.arrived(now - datagram.sent_at()),
            Kind::Ping { .. } if way == self.way => {
                if let Fate::Gone(at) = world.send(now, datagram.packet(way + 1, self.headers)) {
                    self.gone(at, world);
                }
                return;
            }
            Kind::Ping { answers, .. } => {
                let rtt = now - datagram.sent_at();
                self.meter.round_trip(rtt);
                answers.arrived(datagram.number, rtt);
            }
        }
        self.arrived += 1;
        let total = self.meter.received() + u64::from(datagram.len);
        if self.meter.deliver(now, total, total) {
            self.meter.pass(now, self.sent());
        }
        self.gone(now, world);
    }

    /// One of its packets (or answers) has arrived, or was dropped, at `at`.
    pub(crate) fn gone(&mut self, at: Time, world: &mut World) {
        self.outstanding -= 1;
        self.last_fate = self.last_fate.max(at);
        if self.outstanding == 0 && self.next == Time::MAX && !self.cut_off {
            self.meter.finish(self.last_fate);
            world.flow_ended(self.last_fate);
        }
    }

    pub(crate) fn sent(&self) -> Sent {
        Sent { packets: u64::from(self.sent), retransmitted: 0 }
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, of: Of<'_>) -> Option<SeriesRow> {
        let state = State { inflight_packets: self.outstanding, ..State::default() };
        self.meter.series_row(now, of, self.sent(), state)
    }

    /// The run's time is up: whatever has not arrived by now never does.
    pub(crate) fn cut_off(&mut self, now: Time) {
        self.next = Time::MAX;
        if self.meter.end().is_none_or(|end| end > now) {
            self.cut_off = true;
            self.meter.finish(now);
        }
    }

    /// How far it is, from 0 to 1.
    pub(crate) fn progress(&self, now: Time) -> f64 {
        match &self.kind {
            _ if self.meter.end().is_some() => 1.0,
            Kind::Constant { until, .. } => {
                let start = self.meter.start();
                (now - start).as_secs_f64() / (*until - start).as_secs_f64()
            }
            Kind::Ping { count, .. } => f64::from(self.sent) / f64::from(*count),
        }
    }

    /// Fills in its row of the results; `end` is its end or the run's.
    pub(crate) fn fill(&self, row: &mut FlowRow, end: Time) {
        self.meter.fill(row, end, self.sent());
        row.rto_count = Some(0);
        let completed = !self.cut_off && self.meter.end().is_some();
        row.set_outcome(if completed { Outcome::Completed } else { Outcome::TimeLimit });
        row.lost_packets = Some(u64::from(self.sent) - self.arrived);
        if let Kind::Constant { delays, .. } = &self.kind {
            delays.fill(row);
        }
    }

    /// Its exchanges, where it is a ping; `blank` names the run and the flow.
    pub(crate) fn write_exchanges(&self, blank: &ExchangeRow, table: &mut Exchanges) {
        if let Kind::Ping { interval, answers, .. } = &self.kind {
            answers.write((self.meter.start(), *interval), u64::from(self.packet_bytes), blank, table);
        }
    }
}
