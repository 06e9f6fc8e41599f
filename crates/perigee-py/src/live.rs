//! Runs and schedules of a study as JSON, for an engine that asks other programs to carry them out.

use perigee_study::{Amount, App, FlowSpec, IpVersion, Live, Measure, Opener, Run, Startup, Traffic};
use perigee_tcp::Config;
use perigee_units::{Bytes, Ratio, Time};
use serde_json::{json, Value};

/// `[live]`; times in ns.
pub(crate) fn schedule(live: &Live) -> Value {
    let servers: Vec<Value> =
        live.servers.iter().map(|(node, host, port)| json!({"node": node, "host": host, "port": port})).collect();
    json!({
        "here": live.here,
        "servers": servers,
        "cc_names": live.cc_names,
        "own_tcp": live.own_tcp,
        "bind": live.bind,
        "pause_ns": live.pause.as_nanos(),
        "every_ns": live.every.map(Time::as_nanos),
        "by_round": live.by_round,
        "span_ns": live.span.map(Time::as_nanos),
        "retries": live.retries,
        "backoff_ns": live.backoff.as_nanos(),
        "again": live.again,
        "timeout_ns": live.timeout.as_nanos(),
        "connect_timeout_ns": live.connect_timeout.as_nanos(),
    })
}

/// A run; times in ns, sizes in bytes.
pub(crate) fn run(run: &Run) -> Value {
    let scenario = &run.scenario;
    let node = |number: u32| &*scenario.nodes[number as usize];
    let flows = scenario.flows.iter().map(|flow| {
        let mut about = traffic(flow);
        about["name"] = json!(&*flow.name);
        about["kind"] = json!(flow.traffic.kind());
        about["from"] = json!(node(flow.from));
        about["to"] = json!(node(flow.to));
        about["v6"] = json!(flow.ip == IpVersion::V6);
        about["start_ns"] = json!(flow.start_in(run.seed).as_nanos());
        about
    });
    let measured = &scenario.measure;
    json!({
        "point": &*scenario.point,
        "time_limit_ns": scenario.time_limit.as_nanos(),
        "measure": measure(measured),
        "events": measured.events,
        "pcap": !measured.pcap.is_empty(),
        "flows": flows.collect::<Vec<_>>(),
    })
}

fn traffic(flow: &FlowSpec) -> Value {
    match &flow.traffic {
        Traffic::Tcp { tcp, app } => {
            let (size, length) = match app {
                App::Bulk(Amount::Size(size)) => (Some(size.as_u64()), None),
                App::Bulk(Amount::Duration(length)) => (None, Some(length.as_nanos())),
                App::Request { .. } => (None, None),
            };
            json!({
                "cc": tcp.cc.algorithm().name(),
                "cc_params": &*tcp.cc_params,
                "opened_by_sender": tcp.opened_by == Opener::Sender,
                "size": size,
                "length_ns": length,
                "sender_tcp": differences(&tcp.from),
                "receiver_tcp": differences(&tcp.to),
            })
        }
        Traffic::Udp { rate, packet, duration } => {
            json!({"rate_bps": rate.as_bps(), "packet": packet.as_u64(), "length_ns": duration.as_nanos()})
        }
        Traffic::Ping { .. } => json!({}),
    }
}

/// What a study measures, as `observe` takes it.
fn measure(measure: &Measure) -> Value {
    let (startup_bytes, startup_ns) = match measure.startup {
        Some(Startup::Bytes(size)) => (Some(size.as_u64()), None),
        Some(Startup::Time(time)) => (None, Some(time.as_nanos())),
        None => (None, None),
    };
    json!({
        "series_ns": measure.series.map(Time::as_nanos),
        "startup_bytes": startup_bytes,
        "startup_ns": startup_ns,
        "steady": measure.steady.map(Ratio::as_f64),
        "goodput_bin_ns": measure.goodput_bin.as_nanos(),
        "rtt_bin_ns": measure.rtt_bin.map(Time::as_nanos),
        "milestones": measure.milestones.iter().map(|size| size.as_u64()).collect::<Vec<_>>(),
    })
}

/// The settings that are not Linux's defaults, by the names that studies have for them.
fn differences(config: &Config) -> Value {
    let sizes = |sizes: &[Bytes; 3]| sizes.map(Bytes::as_u64).map(|size| size.to_string()).join(" ");
    let all = |config: &Config| {
        [
            ("mss", json!(config.mss)),
            ("initial_window", json!(config.initial_window)),
            ("rmem", json!(sizes(&config.rmem))),
            ("wmem", json!(sizes(&config.wmem))),
            ("receive_autotuning", json!(config.receive_autotuning)),
            ("segment_memory", json!(config.segment_memory.to_string())),
            ("timestamps", json!(config.timestamps)),
            ("window_scaling", json!(config.window_scaling)),
            ("sack", json!(config.sack)),
            ("dsack", json!(config.dsack)),
            ("rack", json!(config.rack)),
            ("tlp", json!(config.tlp)),
            ("frto", json!(config.frto)),
            ("prr", json!(config.prr)),
            ("delayed_acks", json!(config.delayed_acks)),
            ("delayed_ack_max", json!(config.delayed_ack_max.to_string())),
            ("ack_compression", json!(config.ack_compression)),
            ("quick_acks", json!(config.quick_acks)),
            ("slow_start_after_idle", json!(config.slow_start_after_idle)),
            ("pacing", json!(config.pacing)),
            ("rto_min", json!(config.rto_min.to_string())),
            ("rto_max", json!(config.rto_max.to_string())),
            ("syn_retries", json!(config.syn_retries)),
            ("syn_linear_timeouts", json!(config.syn_linear_timeouts)),
            ("synack_retries", json!(config.synack_retries)),
            ("retries2", json!(config.retries2)),
            ("reordering", json!(config.reordering)),
            ("cwnd_clamp", json!(config.cwnd_clamp)),
            ("ecn", json!(config.ecn)),
        ]
    };
    let usual = all(&Config::default());
    let set = all(config).into_iter().zip(usual).filter(|(own, usual)| own != usual);
    Value::Object(set.map(|((name, value), _)| (name.to_owned(), value)).collect())
}
