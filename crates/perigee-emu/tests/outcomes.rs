//! The outcome of flows whose connections fail, on the real kernel and in the simulator.

use crate::common::{alone, can_emulate, emulate, plan, simulate};
use perigee_results::Flows;

/// Two flows over separate links; the link of the first has this loss.
fn study(loss: &str, flow: &str) -> String {
    format!(
        r#"
        name = "outcomes"
        nodes = ["a", "b", "c"]
        time_limit = "20 s"
        hosts = {{ syn_retries = 1, retries2 = 1 }}
        [[links]]
        name = "doubtful"
        between = ["a", "b"]
        rate = "4 Mbit/s"
        delay = "20 ms"
        loss = {loss}
        [[links]]
        name = "good"
        between = ["a", "c"]
        rate = "4 Mbit/s"
        delay = "20 ms"
        [[flows]]
        name = "fails"
        from = "a"
        to = "b"
        {flow}
        [[flows]]
        name = "goes-on"
        from = "a"
        to = "c"
        size = "2 MB"
        "#
    )
}

/// Both engines give the first flow this outcome, within half a second of each other, and complete the second.
fn both(text: &str, outcome: &str) -> Option<[Flows; 2]> {
    let run = plan(text);
    if !can_emulate(&run) {
        return None;
    }
    let _alone = alone();
    let emulated = emulate(&run).unwrap_or_else(|error| panic!("{error}")).flows;
    let simulated = simulate(&run).flows;
    for flows in [&emulated, &simulated] {
        let outcomes: Vec<&str> = flows.outcome.iter().map(|outcome| &**outcome).collect();
        assert_eq!((outcomes, &*flows.completed), (vec![outcome, "completed"], &[false, true][..]));
    }
    let (there, here) = (emulated.duration_s[0], simulated.duration_s[0]);
    assert!((there - here).abs() < 0.5, "emulated {there} s, simulated {here} s");
    Some([emulated, simulated])
}

#[test]
fn a_connection_over_a_dead_link_times_out_and_the_other_flow_is_carried() {
    let Some(found) = both(&study("\"100 %\"", "size = \"100 kB\""), "timed_out") else { return };
    for flows in found {
        assert_eq!((flows.rto_count[0], flows.received_bytes[0]), (Some(2), 0));
    }
}

#[test]
fn a_transfer_that_is_cut_in_the_middle_times_out_and_its_bytes_so_far_are_counted() {
    let cut = "{ kind = \"periodic\", period = \"1 h\", phase = \"2 s\", length = \"50 min\" }";
    let Some([emulated, simulated]) = both(&study(cut, "size = \"10 MB\""), "timed_out") else { return };
    let (there, here) = (emulated.received_bytes[0] as f64, simulated.received_bytes[0] as f64);
    assert!(here > 500_000.0 && (there / here - 1.0).abs() < 0.05, "{there} and {here} bytes");
    assert_eq!(emulated.rto_count[0], simulated.rto_count[0]);
}

#[test]
fn a_response_that_never_comes_ends_a_flow_of_requests() {
    let cut = "{ kind = \"periodic\", period = \"1 h\", phase = \"2 s\", length = \"50 min\" }";
    let flow = "kind = \"request\"\nrequest = \"1 kB\"\nresponse = \"20 kB\"\nthink = \"300 ms\"\nrepeat = 50";
    let Some([emulated, simulated]) = both(&study(cut, flow), "timed_out") else { return };
    assert!(emulated.received_bytes[0] > 40_000 && simulated.received_bytes[0] > 40_000);
}

#[test]
fn a_flow_that_is_over_before_its_handshake_is_unconnected_and_has_none() {
    let text = study("\"0 %\"", "duration = \"500 ms\"").replacen("20 ms", "300 ms", 1);
    let Some(found) = both(&text, "unconnected") else { return };
    for flows in found {
        assert_eq!((flows.handshake_ms[0], flows.sent_packets[0]), (None, Some(0)));
    }
}
