//! QUIC flows in a study: what they read as, and what is refused by name.

use perigee_study::{setup_json, Overrides, QuicHandshake, Run, StreamWindow, Study, Traffic};
use perigee_units::Bytes;

use crate::common::plan;

/// A download over 10 Mbit/s with a round trip of 600 ms, through a node with a proxy.
const STUDY: &str = r#"
name = "s"
time_limit = "1 min"
nodes = ["server", "gateway", "client"]

[[links]]
name = "core"
between = ["server", "gateway"]
rate = "1 Gbit/s"
delay = "50 ms"

[[links]]
name = "satellite"
between = ["gateway", "client"]
rate = "10 Mbit/s"
delay = "250 ms"

[[flows]]
name = "download"
from = "server"
to = "client"
size = "1 MB"

[[proxies]]
name = "pep"
node = "gateway"
[proxies.sides.core]
cc = "cubic"
[proxies.sides.satellite]
cc = "cubic"
"#;

fn run(settings: &[&str]) -> Run {
    plan(STUDY, settings, false).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

fn refusal(settings: &[&str]) -> String {
    plan(STUDY, settings, false).expect_err("it is refused").to_string()
}

const QUIC: &str = "flow.transport=quic";

#[test]
fn a_quic_flow_has_its_settings_and_passes_its_proxies() {
    let run_of = run;
    let run = run(&[QUIC, "flow.quic.handshake=0-rtt", "flow.quic.initial_max_data=4 MB", "flow.ip=v6"]);
    let scenario = &run.scenario;
    let Traffic::Quic { quic, .. } = &scenario.flows[0].traffic else { panic!("it is over QUIC") };
    assert_eq!((quic.handshake, quic.window), (QuicHandshake::ZeroRtt, Some(Bytes::new(4_000_000))));
    assert_eq!((quic.passed, quic.datagram), (1, 1452));
    assert_eq!(scenario.further_legs().count(), 0, "no proxy splits it");
    let window = |window| scenario.stream_window(&scenario.flows[0], window);
    // Twice 10 Mbit/s times 600 ms.
    let tuned = window(StreamWindow::Tuned);
    assert_eq!([window(StreamWindow::Default), tuned], [1_250_000, 1_500_000]);
    let control = |data: &str| setup_json(&[run_of(&[QUIC, "flow.quic.initial_max_stream_data=tuned", data])]);
    assert!(control("flow.quic.initial_max_data=1.4 MB").contains(r#"["flow control","by the connection"]"#));
    assert!(control("flow.quic.initial_max_data=1.6 MB").contains(r#"["flow control","by streams"]"#));
}

#[test]
fn what_quic_does_not_have_is_refused_in_one_line() {
    for (setting, expected) in [
        ("flow.tcp.sack=false", "flow `download`: `tcp` has settings of TCP, which QUIC has not; remove it"),
        (
            "flow.cc=dctcp",
            "flow `download`: `dctcp` counts CE marks, which QUIC's stack does not report; choose another",
        ),
        ("flow.quic.initial_max_stream_data=much", "write a size such as \"6 MB\", \"default\" or \"tuned\""),
        ("flow.quic.stream=one", "did you mean `streams`?"),
    ] {
        let message = refusal(&[QUIC, setting]);
        assert!(message.contains(expected) && !message.contains('\n'), "{setting}: {message}");
    }
    let marked =
        STUDY.replace("size = \"1 MB\"", "size = \"1 MB\"\ntransport = \"quic\"\ncc = \"bbr3\"\nquic.ecn = true");
    let message = plan(&marked, &[], false).expect_err("it is refused").to_string();
    assert_eq!(
        message,
        "s.toml:25: flow `download`: `bbr3` counts CE marks, which QUIC's stack does not report; \
         set quic.ecn = false, or choose another `cc`"
    );
    let message = refusal(&["flow.quic.retry=true"]);
    assert!(message.contains("`quic` is without effect while transport = \"tcp\"; add transport"), "{message}");
    let pages = STUDY.replace("size = \"1 MB\"", "kind = \"pages\"\nduration = \"9 s\"\ntransport = \"quic\"\ntls = 1");
    let refused = Study::parse(&pages, "s.toml")
        .and_then(|study| study.plan(&Overrides::new(&[] as &[&str], false)?, &mut |_: &str| Err("no files".into())));
    assert!(refused
        .expect_err("it is refused")
        .to_string()
        .contains("`tls` is part of QUIC's own handshake; remove it"));
}
