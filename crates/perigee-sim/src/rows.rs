//! The rows of the tables, from what was measured.

use perigee_measure::blank_row;
use perigee_study::results::{ExchangeRow, Tables};
use perigee_study::Run;
use perigee_units::Time;

use crate::engine::Flow;

/// Writes all that is known of a flow.
pub(crate) fn write_flow(run: &Run, number: usize, flow: &mut Flow, stop: Time, tables: &mut Tables) {
    let spec = &run.scenario.flows[number];
    let mut row = blank_row("sim", run, spec);
    let end_of = |end: Option<Time>| end.unwrap_or(stop).min(stop);
    let blank = ExchangeRow {
        run: run.index,
        flow: spec.name.clone(),
        number: 0,
        start_s: 0.0,
        request_bytes: 0,
        response_bytes: 0,
        duration_ms: None,
    };
    let meter = match flow {
        Flow::Ahead(start) => {
            row.start_s = start.as_secs_f64();
            tables.flows.push(row);
            return;
        }
        Flow::Tcp(flow) => {
            flow.fill(&mut row, end_of(flow.meter.end()));
            flow.write_exchanges(&blank, &mut tables.exchanges);
            for mut event in flow.take_events() {
                (event.run, event.flow) = (run.index, spec.name.clone());
                tables.events.push(event);
            }
            &flow.meter
        }
        Flow::Datagram(flow) => {
            flow.fill(&mut row, end_of(flow.meter.end()));
            flow.write_exchanges(&blank, &mut tables.exchanges);
            &flow.meter
        }
    };
    meter.write_round_trips(run.index, &spec.name, &mut tables.rtt);
    for milestone in meter.milestones(run.index, &spec.name) {
        tables.milestones.push(milestone);
    }
    tables.flows.push(row);
}
