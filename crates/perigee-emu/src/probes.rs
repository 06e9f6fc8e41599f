//! What is seen of datagrams and pings at the ends of their links.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::OnceLock;

use perigee_measure::{steady_of_time, Answers, Delays, Meter, Of, Sent, State};
use perigee_study::results::{ExchangeRow, Exchanges, FlowRow, Outcome, SeriesRow};
use perigee_study::Measure;
use perigee_units::{Bytes, Time};

use crate::datagrams::{headers, Pace};

/// A flow of datagrams or pings.
pub(crate) struct Probes<'a> {
    pub(crate) meter: Meter,
    kind: Kind,
    packet: u64,
    payload: u64,
    /// How many are sent, once the last one is.
    total: &'a OnceLock<u32>,
    /// Packets that have entered the first link.
    sent: u32,
    /// When each of those entered it that have not arrived (of a ping: been answered) and not been dropped.
    under_way: HashMap<u32, Time>,
    /// Packets inside of links.
    in_links: u32,
    /// The latest instant at which something happened to one.
    last: Time,
    /// The latest instant at which one of them arrived or was dropped.
    last_fate: Time,
    arrived: u64,
    completed: bool,
}

enum Kind {
    Constant { until: Time, delays: Delays },
    Ping { interval: Time, count: u32, answers: Answers },
}

impl<'a> Probes<'a> {
    /// Of a flow that begins at `start`; `total` is where its sender says how many it has sent.
    pub(crate) fn new(
        start: Time,
        (pace, packet): (Pace, Bytes),
        address: IpAddr,
        measure: &Measure,
        total: &'a OnceLock<u32>,
    ) -> Self {
        let (length, kind) = match pace {
            Pace::Constant(_, length) => {
                let until = start + length;
                (length, Kind::Constant { until, delays: Delays::default() })
            }
            Pace::Each(interval, count) => {
                (interval * u64::from(count), Kind::Ping { interval, count, answers: Answers::default() })
            }
        };
        let steady = measure.steady.map(|share| steady_of_time(start, length, share.as_f64()));
        Self {
            meter: Meter::new(start, measure, steady),
            kind,
            packet: packet.as_u64(),
            payload: packet.as_u64().saturating_sub(headers(address) as u64),
            total,
            sent: 0,
            under_way: HashMap::new(),
            in_links: 0,
            last: start,
            last_fate: start,
            arrived: 0,
            completed: false,
        }
    }

    /// A packet enters a link; `first`: the first of all.
    pub(crate) fn offered(&mut self, now: Time, first: bool, mark: Mark) {
        self.last = now;
        self.in_links += 1;
        if !first || self.meter.end().is_some() {
            return;
        }
        let number = self.number(mark);
        self.sent = self.sent.max(number.saturating_add(1));
        self.under_way.insert(number, now);
        if let Kind::Ping { answers, count, .. } = &mut self.kind {
            answers.sent(self.sent.min(*count));
        }
    }

    /// A packet is dropped by a link.
    pub(crate) fn dropped(&mut self, now: Time, mark: Mark) {
        self.last = now;
        self.in_links = self.in_links.saturating_sub(1);
        if self.under_way.remove(&self.number(mark)).is_some() {
            self.last_fate = now;
        }
    }

    /// A packet leaves a link; `last`: the last of all, where it or its answer has arrived.
    pub(crate) fn released(&mut self, now: Time, last: bool, mark: Mark) {
        self.last = now;
        self.in_links = self.in_links.saturating_sub(1);
        if !last {
            return;
        }
        let number = self.number(mark);
        let Some(sent) = self.under_way.remove(&number) else { return };
        let length = now.checked_sub(sent).unwrap_or_default();
        self.last_fate = now;
        match &mut self.kind {
            Kind::Constant { delays, .. } => delays.arrived(length),
            Kind::Ping { answers, .. } => {
                self.meter.round_trip(length);
                answers.arrived(number, length);
            }
        }
        self.arrived += 1;
        let total = self.meter.received() + self.payload;
        if self.meter.deliver(now, total, total) {
            let sent = self.sent();
            self.meter.pass(now, sent);
        }
    }

    /// Where a packet has arrived: pings are back where they came from.
    pub(crate) fn ends_forward(&self) -> bool {
        matches!(self.kind, Kind::Constant { .. })
    }

    /// What is due, of a flow that has not ended; when it has to be looked at again.
    pub(crate) fn step(&mut self, now: Time) -> Time {
        if self.meter.next_instant() <= now {
            let (at, sent) = (self.meter.next_instant(), self.sent());
            self.meter.pass(at, sent);
        }
        let Some(total) = self.total.get().copied() else { return self.meter.next_instant() };
        let known = self.sent >= total && self.under_way.is_empty();
        // Those that are in no link are in a host, which has had time enough: they are lost there.
        let patience = if self.in_links == 0 { self.last + PATIENCE } else { Time::MAX };
        if known || now >= patience {
            self.completed = true;
            self.meter.finish(self.last_fate);
            return Time::MAX;
        }
        patience.min(self.meter.next_instant())
    }

    /// The run's time is up: whatever has not arrived by now never does.
    pub(crate) fn cut_off(&mut self, now: Time) {
        self.meter.finish(now);
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, of: Of<'_>) -> Option<SeriesRow> {
        let state = State { inflight_packets: self.under_way.len() as u32, ..State::default() };
        self.meter.series_row(now, of, self.sent(), state)
    }

    /// How far it is, from 0 to 1.
    pub(crate) fn share_done(&self, now: Time) -> f64 {
        match &self.kind {
            Kind::Constant { until, .. } => {
                let start = self.meter.start();
                now.checked_sub(start).unwrap_or_default().as_secs_f64() / (*until - start).as_secs_f64()
            }
            Kind::Ping { count, .. } => f64::from(self.sent) / f64::from(*count),
        }
    }

    /// Fills in its row of the results; `end` is its end or the run's.
    pub(crate) fn fill(&self, row: &mut FlowRow, end: Time) {
        let sent = self.sent();
        self.meter.fill(row, end, sent);
        row.rto_count = Some(0);
        row.set_outcome(if self.completed { Outcome::Completed } else { Outcome::TimeLimit });
        row.lost_packets = Some(sent.packets - self.arrived);
        if let Kind::Constant { delays, .. } = &self.kind {
            delays.fill(row);
        }
    }

    /// Writes its exchanges, where it is a ping; `blank` names the run and the flow.
    pub(crate) fn write_exchanges(&self, blank: &ExchangeRow, table: &mut Exchanges) {
        if let Kind::Ping { interval, answers, .. } = &self.kind {
            answers.write((self.meter.start(), *interval), self.packet, blank, table);
        }
    }

    fn sent(&self) -> Sent {
        Sent { packets: u64::from(self.sent), retransmitted: 0 }
    }

    /// The number of a packet: of those that its mark may mean, the nearest to the next one.
    fn number(&self, mark: Mark) -> u32 {
        match mark {
            Mark::Whole(number) => number,
            Mark::Low(low) => self.sent.saturating_add_signed(i32::from(low.wrapping_sub(self.sent as u16) as i16)),
        }
    }
}

/// What a packet says of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// All of it.
    Whole(u32),
    /// Its last 16 bits.
    Low(u16),
}

/// After so long without a sign of it, a packet that is in no link is in no host either.
const PATIENCE: Time = Time::from_secs(1);
