//! A flow of any kind.

use perigee_results::{FlowId, FlowRow, Meter, Outcome, SeriesRow, Tables};
use perigee_study::Run;
use perigee_units::Time;

use crate::connection::Connection;
use crate::datagram_flow::DatagramFlow;
use crate::packet::{NetPacket, Stored};
use crate::population_flow::PopulationFlow;
use crate::queue::EventQueue;
use crate::result::Logged;
use crate::session_flow::SessionFlow;
use crate::shaper::ProxyEnd;
use crate::world::{LegEnd, World};

/// A flow over QUIC, of which a build without its stack has none.
pub(crate) trait OverQuic {
    /// A datagram arrives at an end of a connection, by its number in the flow.
    fn on_packet(&mut self, now: Time, at: LegEnd, packet: &NetPacket, world: &mut World);
    /// A datagram of a connection, by its number in the flow, has been dropped.
    fn dropped(&mut self, now: Time, leg: u32, packet: &Stored, world: &mut World);
    /// The timer of an end fires.
    fn on_timer(&mut self, now: Time, at: LegEnd, world: &mut World);
    /// The applications of a connection have something to do.
    fn on_wait(&mut self, _now: Time, _leg: u32, _world: &mut World) {}
    /// The flow starts, or an instant has come that an application or the meter waits for.
    fn on_instant(&mut self, now: Time, world: &mut World);
    /// The row of the series that ends at `now`.
    fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow>;
    fn meter(&self) -> &Meter;
    /// The run ends, and the flow with it, incomplete.
    fn cut_off(&mut self, now: Time, outcome: Outcome);
    /// Progress, from 0 to 1.
    fn progress(&self, now: Time) -> f64;
    /// Datagrams in the network.
    fn outstanding(&self) -> u64;
    /// How an end waits for a timer event that was never set, if one does.
    fn missed_timer(&self, queue: &EventQueue) -> Option<String>;
    /// The logs of its ends at the nodes that keep them; before [`OverQuic::write`].
    fn logs(&mut self, run: &Run) -> Vec<Logged>;
    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends then.
    fn write(&mut self, row: FlowRow, stop: Time, tables: &mut Tables);
}

pub(crate) enum Flow<'a> {
    /// Not started yet: its start time.
    Pending(Time),
    Session(Box<SessionFlow>),
    Datagram(Box<DatagramFlow>),
    Population(Box<PopulationFlow<'a>>),
    #[cfg_attr(not(feature = "quic"), allow(dead_code, reason = "a build without QUIC refuses its flows"))]
    Quic(Box<dyn OverQuic + 'a>),
}

impl Flow<'_> {
    /// How the flow waits for something that never comes, if it does; `held` of its packets are in the network.
    pub(crate) fn broken(&self, held: u64, queue: &EventQueue) -> Option<String> {
        let of_connection = |connection: &Connection| connection.missed_timer(queue);
        let (connections, outstanding) = match self {
            Self::Pending(_) => return None,
            Self::Session(flow) => return flow.session.legs().find_map(of_connection),
            Self::Population(flow) => (flow.connections().find_map(of_connection), flow.outstanding()),
            Self::Datagram(flow) => (None, flow.outstanding()),
            Self::Quic(flow) => (flow.missed_timer(queue), flow.outstanding()),
        };
        connections.or_else(|| {
            (outstanding != held)
                .then(|| format!("waits for {outstanding} packets, of which {held} are in the network"))
        })
    }

    /// Visits the ends of its connections at proxies, always in the same order.
    pub(crate) fn each_proxy_end(&mut self, visit: &mut impl FnMut(&mut ProxyEnd<'_>)) {
        match self {
            Self::Session(flow) => flow.session.each_proxy_end(visit),
            Self::Population(flow) => flow.sessions().for_each(|session| session.each_proxy_end(visit)),
            Self::Pending(_) | Self::Datagram(_) | Self::Quic(_) => {}
        }
    }

    /// Payloads that the network keeps for it.
    pub(crate) fn payloads(&self) -> u64 {
        if let Self::Quic(flow) = self {
            flow.outstanding()
        } else {
            0
        }
    }

    /// Adds the flow to the tables; the run ended at `stop`.
    pub(crate) fn write(&mut self, run: &Run, number: usize, stop: Time, tables: &mut Tables) {
        let mut row = run.flow_row("sim", &run.scenario.flows[number]);
        match self {
            Self::Pending(start) => {
                row.start_s = start.as_secs_f64();
                tables.flows.push(row);
            }
            Self::Session(flow) => flow.write(run, &run.scenario.flows[number], row, stop, tables),
            Self::Datagram(flow) => flow.write(row, stop, tables),
            Self::Population(flow) => flow.write(run, row, stop, tables),
            Self::Quic(flow) => flow.write(row, stop, tables),
        }
    }
}
