//! Observes datagrams and pings at the ends of their links.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use perigee_results::{DatagramMeter, FlowId, FlowRow, Measure, Meter, Outcome, SeriesRow, Tables};
use perigee_traffic::{Datagrams, Schedule};
use perigee_units::Time;

use crate::run::datagrams::{headers, DatagramReport};

/// The observer of a flow of datagrams or pings.
pub(crate) struct Probes {
    meter: DatagramMeter,
    /// Packets that have not entered the first link.
    schedule: Schedule,
    is_answered: bool,
    /// Bytes of the headers of a packet.
    headers: u64,
    report: Arc<DatagramReport>,
    /// Entry times of packets in flight, which have not arrived (pings: been answered) or been dropped.
    under_way: HashMap<u32, Time>,
    /// Packets on links.
    in_links: u32,
    /// Time of the last event of a packet.
    last: Time,
    /// Time of the last arrival or drop.
    last_fate: Time,
    completed: bool,
}

impl Probes {
    /// The observer of a flow that begins at `start`.
    pub(crate) fn new(
        (start, schedule): (Time, Schedule),
        datagrams: &Datagrams,
        address: IpAddr,
        measure: &Measure,
        report: Arc<DatagramReport>,
    ) -> Self {
        let is_answered = datagrams.is_answered();
        Self {
            meter: DatagramMeter::new(start, datagrams.length(), datagrams.measured(), measure),
            schedule,
            is_answered,
            headers: headers(address) as u64,
            report,
            under_way: HashMap::new(),
            in_links: 0,
            last: start,
            last_fate: start,
            completed: false,
        }
    }

    /// The flow's meter.
    pub(crate) fn meter(&self) -> &Meter {
        self.meter.meter()
    }

    /// A packet enters a link; `first`: the first of its path.
    pub(crate) fn offered(&mut self, now: Time, first: bool, mark: PacketNumber) {
        self.last = now;
        self.in_links += 1;
        if !first || self.meter().end().is_some() {
            return;
        }
        let number = self.number(mark);
        while self.meter.sent() <= number {
            let Some(due) = self.schedule.next() else { return };
            self.meter.send(due.at, due.packet);
        }
        self.under_way.insert(number, now);
    }

    /// A link drops a packet.
    pub(crate) fn dropped(&mut self, now: Time, mark: PacketNumber) {
        self.last = now;
        self.in_links = self.in_links.saturating_sub(1);
        if self.under_way.remove(&self.number(mark)).is_some() {
            self.last_fate = now;
        }
    }

    /// A packet leaves a link; `last`: the last of its path, where it or its answer arrives.
    pub(crate) fn released(&mut self, now: Time, last: bool, mark: PacketNumber, bytes: usize) {
        self.last = now;
        self.in_links = self.in_links.saturating_sub(1);
        if !last {
            return;
        }
        let number = self.number(mark);
        let Some(sent) = self.under_way.remove(&number) else { return };
        let length = now.checked_sub(sent).unwrap_or_default();
        self.last_fate = now;
        self.meter.deliver(now, number, length, (bytes as u64).saturating_sub(self.headers));
    }

    /// The node where packets arrive; answers to pings return to the sender.
    pub(crate) fn ends_forward(&self) -> bool {
        !self.is_answered
    }

    /// Handles what is due of a flow that has not ended; returns the time of the next call.
    pub(crate) fn step(&mut self, now: Time) -> Time {
        if self.meter().next_instant() <= now {
            self.meter.record_progress(self.meter().next_instant());
        }
        let Some(total) = self.report.sent.get().copied() else { return self.meter().next_instant() };
        let known = self.meter.sent() >= total && self.under_way.is_empty();
        // Packets that are on no link have been in a host for too long, and are lost there.
        let patience = if self.in_links == 0 { self.last + PATIENCE } else { Time::MAX };
        if known || now >= patience {
            self.completed = true;
            self.meter.finish(self.last_fate);
            return Time::MAX;
        }
        patience.min(self.meter().next_instant())
    }

    /// Ends the flow at the run's time limit; packets in flight count as lost.
    pub(crate) fn cut_off(&mut self, now: Time) {
        self.meter.finish(now);
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        self.meter.series_row(now, id, self.under_way.len() as u32)
    }

    /// Progress from 0 to 1.
    pub(crate) fn share_done(&self, now: Time) -> f64 {
        self.schedule.progress(now)
    }

    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends there.
    pub(crate) fn write(&self, row: FlowRow, stop: Time, tables: &mut Tables) {
        let outcome = if self.completed { Outcome::Completed } else { Outcome::TimeLimit };
        self.meter.write_flow(row, stop, outcome, tables);
    }

    /// The number of a packet: the nearest to the next number that its bits allow.
    fn number(&self, mark: PacketNumber) -> u32 {
        match mark {
            PacketNumber::Whole(number) => number,
            PacketNumber::Low(low) => {
                let sent = self.meter.sent();
                sent.saturating_add_signed(i32::from(low.wrapping_sub(sent as u16) as i16))
            }
        }
    }
}

/// The number in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketNumber {
    /// The whole number.
    Whole(u32),
    /// Its last 16 bits.
    Low(u16),
}

/// A packet that is on no link for this long is lost in a host.
const PATIENCE: Time = Time::from_secs(1);
