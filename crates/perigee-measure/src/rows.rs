//! The row of a flow before anything of it was measured.

use perigee_study::results::{FlowRow, Name, Outcome};
use perigee_study::{FlowSpec, Run, Traffic};

/// The row of a flow of which nothing is known but its description; `engine` is what carries the run out. A flow that keeps this
/// row did not begin within the run's time.
pub fn blank_row(engine: &str, run: &Run, spec: &FlowSpec) -> FlowRow {
    let scenario = &run.scenario;
    let (cc, cc_params) = match &spec.traffic {
        Traffic::Tcp { tcp, .. } => (tcp.cc.algorithm().name().into(), tcp.cc_params.clone()),
        Traffic::Udp { .. } | Traffic::Ping { .. } => ("".into(), "{}".into()),
    };
    FlowRow {
        study: scenario.study.clone(),
        engine: engine.into(),
        round: run.round,
        seed: run.seed,
        point: scenario.point.clone(),
        kind: spec.traffic.kind().into(),
        from_node: scenario.nodes[spec.from as usize].clone(),
        to_node: scenario.nodes[spec.to as usize].clone(),
        cc,
        cc_params,
        outcome: Outcome::TimeLimit.name(),
        ..empty_row(run.index, spec.name.clone())
    }
}

/// The row of a flow of which nothing is known but its name.
pub fn empty_row(run: u32, flow: Name) -> FlowRow {
    let none: Name = "".into();
    FlowRow {
        study: none.clone(),
        engine: none.clone(),
        run,
        round: 0,
        seed: 0,
        point: "{}".into(),
        flow,
        kind: none.clone(),
        from_node: none.clone(),
        to_node: none.clone(),
        cc: none,
        cc_params: "{}".into(),
        bytes: 0,
        received_bytes: 0,
        start_s: 0.0,
        duration_s: 0.0,
        completed: false,
        outcome: Outcome::Stopped.name(),
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
        sent_packets: None,
        retransmitted_packets: None,
        rto_count: None,
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
