//! A flow of any kind.

use perigee_results::Tables;
use perigee_study::Run;
use perigee_units::Time;

use crate::connection::Connection;
use crate::datagram_flow::DatagramFlow;
use crate::population_flow::PopulationFlow;
use crate::queue::EventQueue;
use crate::session_flow::SessionFlow;

pub(crate) enum Flow<'a> {
    /// Not started yet: its start time.
    Pending(Time),
    Session(Box<SessionFlow>),
    Datagram(Box<DatagramFlow>),
    Population(Box<PopulationFlow<'a>>),
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
        };
        connections.or_else(|| {
            (outstanding != held)
                .then(|| format!("waits for {outstanding} packets, of which {held} are in the network"))
        })
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
        }
    }
}
