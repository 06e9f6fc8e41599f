//! Notes on settings that are accepted and have an effect at no point of a study.

use crate::common::{plan, small_with};
use perigee_study::without_effect;

/// The notes on the small study with this change.
fn notes(old: &str, new: &str, settings: &[&str]) -> Vec<String> {
    let runs = plan(&small_with(old, new), settings, false).unwrap_or_else(|error| panic!("{error}"));
    without_effect(runs.iter().map(|run| &*run.scenario))
}

#[test]
fn impatient_newreno_is_without_effect_where_all_hosts_have_sack() {
    let hosts = |line: &str| format!("[hosts]\n{line}\n");
    let said = |line: &str, settings: &[&str]| notes("[hosts]\n", &hosts(line), settings);
    let note =
        "`impatient_newreno` of hosts is without effect: those that have it have SACK; add sack = false".to_owned();
    assert_eq!(said("impatient_newreno = true", &[]), [note]);
    assert_eq!(said("impatient_newreno = true\nsack = false", &[]), [""; 0]);
    let one_of_two = ["vary.hosts.sack=true,false"];
    assert_eq!(said("impatient_newreno = true", &one_of_two), [""; 0], "it has an effect at one of the points");
    assert_eq!(said("like = \"ns-2\"", &[]), [""; 0], "it is the system's, whose SACK nobody chose");
    let peer = ["hosts.client.sack=false"];
    assert_eq!(said("impatient_newreno = true", &peer), [""; 0], "both ends have to agree on SACK");
}

#[test]
fn settings_of_what_hosts_do_not_do_are_without_effect() {
    let said = |line: &str| notes("[hosts]\n", &format!("[hosts]\n{line}\n"), &[]).join("\n");
    assert!(said("rate_halving = true").starts_with("`rate_halving` of hosts is without effect"));
    assert_eq!(said("rate_halving = true\nprr = false"), "");
    assert_eq!(said("short_train_waits = false"), "");
    let note = "`short_train_waits` of hosts is without effect: those that have it have no segmentation offload; add \
                segmentation_offload = true";
    assert_eq!(said("short_train_waits = false\nsegmentation_offload = false"), note);
    // Flows of `reno` and `cubic`.
    assert!(said("late_ack_events = false").starts_with("`late_ack_events` of hosts is without effect"));
    let (old, new) = ("[\"reno\", \"cubic\"]", "[\"reno\", \"westwood_plus\"]");
    assert_eq!(notes(old, new, &["hosts.late_ack_events=false"]), [""; 0]);
}

#[test]
fn low_priority_is_without_effect_without_a_queue_of_two_classes() {
    let low =
        "kind = \"udp\"\npacket = \"99 B\"\nrate = \"1 Mbit/s\"\nduration = \"1 s\"\npriority = \"low\"\ncount = 2";
    let flow =
        "kind = \"ping\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"100 ms\"\npacket = \"64 B\"\nrepeat = 10";
    let new = format!("{low}\nfrom = \"client\"\nto = \"server\"");
    let note = "`priority` of flow `echo` is without effect: no queue on its way has two classes; give a queue kind = \"priority\"";
    assert_eq!(notes(flow, &new, &[]), [note]);
    let queue = r#"links.wire.up.queue={ kind = "priority", packets = 9 }"#;
    assert_eq!(notes(flow, &new, &[queue]), [""; 0]);
}

#[test]
fn kinds_of_queues_have_an_effect_with_a_limit_and_with_a_class() {
    let said = |queue: &str| notes("delay = \"1 ms\"", &format!("delay = \"1 ms\"\nup = {{ queue = {queue} }}"), &[]);
    let idle = "the kind of the queue of link wire.up is without effect: ";
    let low = format!("{idle}no flow has low priority; add priority = \"low\" to one");
    let limit = "the queue of link wire.up has no limit, so that nothing is dropped; add bytes or packets";
    assert_eq!(said("{ kind = \"priority\" }"), [limit, &low]);
    assert_eq!(said("{ kind = \"priority\", bdp = 1 }"), [low]);
    assert_eq!(said("{ kind = \"drop-front\" }"), [format!("{idle}it has no limit; add bytes, packets or time")]);
    assert_eq!(said("{ kind = \"drop-front\", time = \"9 ms\" }"), [""; 0]);
}

#[test]
fn the_demand_of_other_terminals_takes_other_terminals() {
    let said = |more: &str| {
        let rate = format!(
            "rate = {{ kind = \"tdma\", superframe = \"90 ms\", slots = 10, fixed = 1, payload = \"1 kB\", \
             background = \"1 kbit/s\"{more} }}"
        );
        notes("rate = \"1 Gbit/s\"", &format!("up = {{ {rate} }}\ndown = {{ rate = \"1 Gbit/s\" }}"), &[])
    };
    let note = "`background` of link wire.up is without effect: its channel has no terminal beside it; raise terminals";
    assert_eq!(said(""), [note]);
    assert_eq!(said(", terminals = 2"), [""; 0]);
}

#[test]
fn measurements_of_tcp_have_an_effect_with_a_flow_over_tcp_and_those_of_quic_with_one_over_quic() {
    let said = |quic: &[usize], measure: &str| {
        let flow = |number: usize| {
            let transport = if quic.contains(&number) { "transport = \"quic\"" } else { "" };
            format!("[[flows]]\nname = \"f{number}\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 MB\"\n{transport}\n")
        };
        let link = "[[links]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"";
        let text = format!("name = \"m\"\nnodes = [\"a\", \"b\"]\nmeasure.{measure}\n{link}\n{}{}", flow(0), flow(1));
        let runs = plan(&text, &[], false).unwrap_or_else(|error| panic!("{error}"));
        without_effect(runs.iter().map(|run| &*run.scenario))
    };
    for (key, setting) in
        [("events", "events = true"), ("capture", "capture = { startup = \"2 s\", from = \"1 kB\", upto = \"9 kB\" }")]
    {
        let note = format!(
            "`measure.{key}` is without effect: no flow is over TCP; flows over QUIC have measure.qlog, measure.pcap and measure.states"
        );
        assert_eq!(said(&[0, 1], setting), [note]);
        assert_eq!(said(&[1], setting), [""; 0], "one of the flows is over TCP");
    }
    let note = "`measure.qlog` is without effect: no flow is over QUIC; add transport = \"quic\" to one";
    assert_eq!(said(&[], "qlog = true"), [note]);
    assert_eq!(said(&[1], "qlog = true"), [""; 0]);
}
