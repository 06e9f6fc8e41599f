//! Flows of datagrams. A schedule determines when packets leave; the receiver may answer each.

use perigee_link::Ecn;
use perigee_results::{DatagramMeter, FlowId, FlowRow, Meter, Outcome, SeriesRow, Tables};
use perigee_traffic::{Datagrams, Schedule};
use perigee_units::Time;

use crate::network::Fate;
use crate::packet::{Datagram, NetPacket, Parcel, UDP_HEADER};
use crate::world::{FlowStart, World};

/// One flow of datagrams.
pub(crate) struct DatagramFlow {
    /// The way of its packets; the next number is that of the answers.
    way: u32,
    meter: DatagramMeter,
    schedule: Schedule,
    is_answered: bool,
    /// Length of the headers of a packet, bytes.
    headers: u16,
    ecn: Ecn,
    is_low: bool,
    /// Packets and answers in the network.
    outstanding: u32,
    /// With a series: drop times since its last row, some of which may be in the future because of cut-through.
    dropped: Option<Vec<Time>>,
    /// Time of the latest arrival or drop.
    last_fate: Time,
    /// Packets in flight at the time limit, if the flow was cut off.
    cut_off: Option<u32>,
}

impl DatagramFlow {
    pub(crate) fn start(start: FlowStart<'_>, datagrams: &Datagrams) -> Self {
        let FlowStart { now, number, spec, seed, measure, .. } = start;
        let is_answered = datagrams.is_answered();
        Self {
            way: 2 * number,
            meter: DatagramMeter::new(now, datagrams.length(), datagrams.measured(), measure),
            schedule: spec.schedule(datagrams, now, seed),
            is_answered,
            headers: spec.ip.header_bytes() + UDP_HEADER,
            ecn: spec.ecn,
            is_low: spec.is_low,
            outstanding: 0,
            dropped: measure.series.map(|_| Vec::new()),
            last_fate: now,
            cut_off: None,
        }
    }

    pub(crate) fn meter(&self) -> &Meter {
        self.meter.meter()
    }

    /// The next instant for [`DatagramFlow::on_instant`]; [`Time::MAX`] if none.
    pub(crate) fn next_instant(&self) -> Time {
        self.schedule.next_instant().min(self.meter().next_instant())
    }

    /// Sends the packets due now.
    pub(crate) fn on_instant(&mut self, now: Time, world: &mut World) {
        if self.meter().next_instant() <= now {
            self.meter.record_progress(now);
        }
        if self.schedule.next_instant() > now {
            return;
        }
        let Some(due) = self.schedule.next() else { return };
        let bytes = (due.packet.as_u64().min(u64::from(u16::MAX)) as u16).max(self.headers);
        let datagram = Datagram::new(due.number, now, bytes, self.headers);
        let fate = world.network.send(now, &mut datagram.packet(self.way, self.headers, self.ecn, self.is_low));
        self.meter.send(due.at, due.packet);
        self.outstanding += 1;
        if let Fate::Dropped(at) = fate {
            self.dropped(at, world);
        }
    }

    /// A packet, or an answer, arrives at its destination.
    #[inline(never)]
    pub(crate) fn on_packet(&mut self, now: Time, packet: &NetPacket, world: &mut World) {
        // A flow has packets of its own kind only.
        let (way, Some(datagram)) = (packet.way(), packet.datagram()) else { return };
        if self.cut_off.is_some() {
            self.outstanding -= 1;
            return;
        }
        if self.is_answered && way == self.way {
            // Pings are answered, and have no priority.
            let answer = &mut datagram.packet(way + 1, self.headers, self.ecn, false);
            if let Fate::Dropped(at) = world.network.send(now, answer) {
                self.dropped(at, world);
            }
            return;
        }
        self.meter.deliver(now, datagram.number, now - datagram.sent_at(), u64::from(datagram.len));
        self.gone(now, world);
    }

    /// A packet, or an answer, is dropped at `at`, which may be in the future.
    pub(crate) fn dropped(&mut self, at: Time, world: &mut World) {
        if let Some(dropped) = &mut self.dropped {
            dropped.push(at);
        }
        self.gone(at, world);
    }

    /// A packet, or an answer, leaves the network at `at`.
    fn gone(&mut self, at: Time, world: &mut World) {
        self.outstanding -= 1;
        self.last_fate = self.last_fate.max(at);
        if self.outstanding == 0 && self.schedule.is_over() && self.cut_off.is_none() {
            self.meter.finish(self.last_fate);
            world.flow_ended(self.last_fate);
        }
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        let in_flight = self.cut_off.unwrap_or_else(|| self.in_flight(now));
        self.meter.series_row(now, id, in_flight)
    }

    /// Packets in the network that had neither arrived nor been dropped by `now`.
    fn in_flight(&mut self, now: Time) -> u32 {
        let dropped_later = self.dropped.as_mut().map_or(0, |dropped| {
            dropped.retain(|at| *at > now);
            dropped.len() as u32
        });
        self.outstanding + dropped_later
    }

    /// Packets and answers whose fate the network has not reported yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding.into()
    }

    /// The time limit: packets that have not arrived count as lost.
    pub(crate) fn cut_off(&mut self, now: Time) {
        self.schedule.stop();
        if self.meter().end().is_none_or(|end| end > now) {
            self.cut_off = Some(self.in_flight(now));
            self.meter.finish(now);
        }
    }

    /// Progress, from 0 to 1.
    pub(crate) fn progress(&self, now: Time) -> f64 {
        if self.meter().end().is_some() {
            1.0
        } else {
            self.schedule.progress(now)
        }
    }

    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends then.
    pub(crate) fn write(&self, row: FlowRow, stop: Time, tables: &mut Tables) {
        let completed = self.cut_off.is_none() && self.meter().end().is_some();
        let outcome = if completed { Outcome::Completed } else { Outcome::TimeLimit };
        self.meter.write_flow(row, stop, outcome, tables);
    }
}
