//! The rows of the tables, from what was measured.

use perigee_link::DropReason;
use perigee_study::results::{ExchangeRow, FlowRow, LinkRow, Name, Tables};
use perigee_study::{FlowSpec, Run, Scenario, Traffic};
use perigee_units::Time;

use crate::engine::Flow;
use crate::link_log::{LinkLog, LinkSample};

/// Writes all that is known of a flow.
pub(crate) fn write_flow(run: &Run, number: usize, flow: &mut Flow, stop: Time, tables: &mut Tables) {
    let spec = &run.scenario.flows[number];
    let mut row = blank_row(run, spec);
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

/// Writes the links' intervals in the order of time.
pub(crate) fn write_links(run: u32, scenario: &Scenario, logs: &[LinkLog], tables: &mut Tables) {
    let intervals = logs.iter().map(|log| log.samples.len()).max().unwrap_or(0);
    for interval in 0..intervals {
        for (link, log) in scenario.links.iter().zip(logs) {
            let Some(sample) = log.samples.get(interval) else { continue };
            tables.links.push(link_row(run, link.name.clone(), sample));
        }
    }
}

fn link_row(run: u32, link: Name, sample: &LinkSample) -> LinkRow {
    let counts = &sample.counts;
    // Of equals the first: `max_by_key` would take the last.
    let most = DropReason::ALL.into_iter().rev().max_by_key(|reason| counts.dropped_by(*reason));
    let most = most.filter(|reason| counts.dropped_by(*reason) > 0);
    LinkRow {
        run,
        link,
        t_s: sample.end.as_secs_f64(),
        offered_packets: counts.offered_packets,
        offered_bytes: counts.offered_bytes,
        delivered_packets: counts.delivered_packets,
        delivered_bytes: counts.delivered_bytes,
        dropped_packets: counts.dropped.iter().sum(),
        drop_reason: most.map_or("", DropReason::as_str).into(),
        dropped_queue_full_packets: counts.dropped_by(DropReason::QueueFull),
        dropped_aqm_packets: counts.dropped_by(DropReason::Aqm),
        lost_packets: counts.dropped_by(DropReason::Loss),
        queue_bytes: sample.queue_bytes,
        rate_mbps: sample.rate.as_mbps(),
    }
}

/// The row of a flow of which nothing is known but its description.
fn blank_row(run: &Run, spec: &FlowSpec) -> FlowRow {
    let scenario = &run.scenario;
    let (cc, cc_params) = match &spec.traffic {
        Traffic::Tcp { tcp, .. } => (tcp.cc.algorithm().name().into(), tcp.cc_params.clone()),
        Traffic::Udp { .. } | Traffic::Ping { .. } => ("".into(), "{}".into()),
    };
    FlowRow {
        study: scenario.study.clone(),
        engine: "sim".into(),
        run: run.index,
        round: run.round,
        seed: run.seed,
        point: scenario.point.clone(),
        flow: spec.name.clone(),
        kind: spec.traffic.kind().into(),
        from_node: scenario.nodes[spec.from as usize].clone(),
        to_node: scenario.nodes[spec.to as usize].clone(),
        cc,
        cc_params,
        bytes: 0,
        received_bytes: 0,
        start_s: 0.0,
        duration_s: 0.0,
        completed: false,
        handshake_ms: None,
        goodput_mbps: 0.0,
        goodput_p10_mbps: None,
        goodput_p50_mbps: None,
        goodput_p90_mbps: None,
        steady_goodput_mbps: None,
        startup_goodput_mbps: None,
        rtt_min_ms: None,
        rtt_mean_ms: None,
        rtt_p50_ms: None,
        rtt_p95_ms: None,
        rtt_p99_ms: None,
        steady_rtt_mean_ms: None,
        startup_rtt_mean_ms: None,
        sent_packets: 0,
        retransmitted_packets: 0,
        rto_count: 0,
        startup_s: None,
        startup_sent_packets: None,
        startup_retransmitted_packets: None,
        steady_s: None,
        steady_sent_packets: None,
        steady_retransmitted_packets: None,
        lost_packets: None,
        delay_mean_ms: None,
        jitter_ms: None,
    }
}
