//! Outcomes of incomplete flows.

use super::{result, through_router};

const DEAD: &str = "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\nloss = \"100 %\"";

/// A study with these lines at its start.
fn with(head: &str, link: &str, flows: &str) -> String {
    through_router(link, flows).replace("name = \"test\"", &format!("name = \"test\"\n{head}"))
}

fn bulk(lines: &str) -> String {
    format!("[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{lines}\n")
}

fn outcomes(tables: &perigee_results::Tables) -> Vec<&str> {
    tables.flows.outcome.iter().map(|outcome| &**outcome).collect()
}

#[test]
fn over_a_dead_link_the_connection_times_out_after_131_s_and_the_run_ends() {
    let tables = result(&with("time_limit = \"720 h\"", DEAD, &bulk("size = \"100 kB\""))).tables;
    let flows = &tables.flows;
    assert_eq!((outcomes(&tables), flows.completed[0], flows.duration_s[0]), (vec!["timed_out"], false, 131.0));
    assert_eq!((flows.rto_count[0], flows.sent_packets[0], flows.received_bytes[0]), (Some(10), Some(0), 0));
    assert_eq!(tables.links.t_s.last(), Some(&131.0), "nothing is recorded after the end of the last flow");
}

#[test]
fn retries_are_settings_of_the_host() {
    let settings = |lines: &str| result(&with("", DEAD, &(bulk("size = \"1 kB\"") + lines))).tables.flows;
    assert_eq!(settings("[hosts]\nsyn_retries = 2").duration_s, [7.0]);
    assert_eq!(settings("[hosts]\nsyn_linear_timeouts = 0").duration_s, [127.0]);
    assert_eq!(settings("[hosts.b]\nsyn_retries = 1").duration_s, [3.0], "`b` opens the connection");
    assert_eq!(settings("[hosts.a]\nsyn_retries = 1").duration_s, [131.0]);
}

#[test]
fn an_outage_of_an_hour_ends_a_transfer_after_15_min_and_one_of_ten_minutes_does_not() {
    let outage = |length: &str| {
        let loss =
            format!("loss = {{ kind = \"periodic\", period = \"2 h\", phase = \"20 s\", length = \"{length}\" }}");
        let link = format!("rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\n{loss}");
        result(&with("time_limit = \"3 h\"", &link, &bulk("size = \"10 MB\""))).tables.flows
    };
    let hour = outage("1 h");
    assert_eq!((&*hour.outcome[0], hour.completed[0]), ("timed_out", false));
    // The first timeout 924.6 s after the first one; they are at most 120 s apart.
    assert!((944.6..1066.0).contains(&hour.duration_s[0]), "{}", hour.duration_s[0]);
    assert!(hour.rto_count[0] > Some(10), "{:?}", hour.rto_count[0]);
    assert_eq!(&*outage("10 min").outcome[0], "completed");
}

#[test]
fn a_failed_flow_does_not_affect_the_others() {
    let flows = bulk("size = \"100 kB\"\nstart = \"30 s\"").replace("\"f\"", "\"late\"")
        + &bulk("size = \"100 kB\"").replace("\"f\"", "\"early\"");
    let link = "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\n\
                loss = { kind = \"periodic\", period = \"10 h\", phase = \"20 s\", length = \"5 h\" }";
    let tables = result(&with("time_limit = \"1 h\"", link, &flows)).tables;
    assert_eq!(outcomes(&tables), ["timed_out", "completed"]);
    assert!((tables.flows.duration_s[0] - 131.0).abs() < 1e-9);
}

#[test]
fn requests_fail_where_an_end_gives_up() {
    let flow = bulk("kind = \"request\"\nrequest = \"1 kB\"\nresponse = \"10 kB\"\nthink = \"10 s\"\nrepeat = 5");
    let link = "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\n\
                loss = { kind = \"periodic\", period = \"10 h\", phase = \"15 s\", length = \"5 h\" }";
    let tables = result(&with("time_limit = \"5 h\"", link, &flow)).tables;
    assert_eq!(outcomes(&tables), ["timed_out"]);
    assert_eq!(tables.exchanges.duration_ms.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn a_flow_with_a_duration_but_no_established_connection_is_incomplete() {
    let tables = result(&with("time_limit = \"1 h\"", DEAD, &bulk("duration = \"60 s\""))).tables;
    assert_eq!((outcomes(&tables), tables.flows.duration_s[0]), (vec!["unconnected"], 60.0));
    let tables = result(&with("time_limit = \"1 h\"", DEAD, &bulk("duration = \"30 min\""))).tables;
    assert_eq!((outcomes(&tables), tables.flows.duration_s[0]), (vec!["timed_out"], 131.0));
}

#[test]
fn a_row_counts_what_happens_before_the_end_of_its_flow_whatever_the_interval_of_the_series() {
    let rows = |link: &str, lines: &str, limit: &str| {
        let of = |series: &str| {
            let head = format!("time_limit = \"{limit}\"\nmeasure.series = \"{series}\"");
            result(&with(&head, link, &bulk(lines))).tables.flows
        };
        let flows = of("off");
        for series in ["1 s", "100 ms", "3 ms"] {
            assert_eq!(of(series), flows, "{series}, {lines}");
        }
        flows
    };
    let far = "rate = \"10 Mbit/s\"\ndelay = \"300 ms\"";
    let early = rows(far, "duration = \"500 ms\"", "30 s");
    assert_eq!((&*early.outcome[0], early.duration_s[0]), ("unconnected", 0.5));
    assert_eq!((early.handshake_ms[0], early.sent_packets[0], early.rto_count[0]), (None, Some(0), Some(0)));
    // The first SYN is retransmitted after a second, just before or after the end of the flow.
    assert_eq!(rows(DEAD, "duration = \"999 ms\"", "30 s").rto_count, [Some(0)]);
    assert_eq!(rows(DEAD, "duration = \"1001 ms\"", "30 s").rto_count, [Some(1)]);
    // Cut off during the handshake, and while sending.
    assert_eq!(rows(far, "size = \"1 MB\"", "500 ms").handshake_ms, [None]);
    assert!(rows(far, "size = \"10 MB\"", "5 s").sent_packets[0] > Some(100));
}

#[test]
fn flows_that_did_not_end_in_time_say_so() {
    let link = "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"";
    let flows = bulk("size = \"1 GB\"") + &bulk("size = \"1 kB\"\nstart = \"1 h\"").replace("\"f\"", "\"late\"");
    let tables = result(&with("time_limit = \"2500 ms\"", link, &flows)).tables;
    assert_eq!(outcomes(&tables), ["time_limit", "time_limit"]);
}

#[test]
fn a_run_ends_when_nothing_can_be_delivered_any_more() {
    // The receiver opens the connection, and its part of the handshake is lost for good: the sender drops the request, and the receiver
    // waits for data that nobody sends.
    let link = "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\n\
                up.loss = { kind = \"periodic\", period = \"720 h\", phase = \"30 ms\", length = \"700 h\" }";
    let study = with("time_limit = \"600 h\"", link, &bulk("size = \"100 kB\""));
    let tables = result(&study).tables;
    assert_eq!(outcomes(&tables), ["stalled"]);
    assert!(tables.flows.duration_s[0] < 70.0, "{}", tables.flows.duration_s[0]);
    assert!(tables.links.t_s.len() < 500, "{}", tables.links.t_s.len());
    let without_series = result(&study.replace("name = \"test\"", "name = \"test\"\nmeasure.series = \"off\"")).tables;
    assert_eq!(without_series.flows.duration_s, tables.flows.duration_s);
}
