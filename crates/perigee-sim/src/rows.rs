//! The rows of a flow in the tables.

use perigee_results::Tables;
use perigee_study::Run;
use perigee_units::Time;

use crate::engine::Flow;

/// Writes all that is known of a flow; the run ended at `stop`.
pub(crate) fn write_flow(run: &Run, number: usize, flow: &mut Flow, stop: Time, tables: &mut Tables) {
    let mut row = run.flow_row("sim", &run.scenario.flows[number]);
    match flow {
        Flow::Ahead(start) => {
            row.start_s = start.as_secs_f64();
            tables.flows.push(row);
        }
        Flow::Tcp(flow) => flow.write(row, stop, tables),
        Flow::Datagram(flow) => flow.write(row, stop, tables),
    }
}
