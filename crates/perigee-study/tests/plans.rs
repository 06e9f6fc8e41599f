//! The plan of a study: points, rounds, links laid over profiles, settings.

use std::collections::BTreeSet;

use crate::common::{load, plan, small_with, SMALL};
use perigee_link::{AqmSpec, LossSpec, RateSpec};
use perigee_results::{Amount, Measure, Startup};
use perigee_study::{plan_json, setup_json, Overrides, RouteChange, Run, Study, Traffic, Waiting};
use perigee_traffic::{App, Bulk};
use perigee_units::{Bytes, Rate, Ratio, Time};
use proptest::prelude::*;

fn points(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| &*run.scenario.point).collect()
}

fn rate(run: &Run, link: usize) -> RateSpec {
    run.scenario.links[link].spec.rate.clone()
}

#[test]
fn every_point_runs_once_per_round_and_the_last_axis_changes_fastest() {
    let runs = plan(SMALL, &[], false).unwrap();
    assert_eq!(runs.len(), 12);
    let point =
        |cc: &str, rate: u32| format!("{{\"flows.download.cc\":\"{cc}\",\"links.air.down.rate\":\"{rate} Mbit/s\"}}");
    let round: Vec<String> = ["reno", "cubic"].iter().flat_map(|cc| [10, 20, 30].map(|rate| point(cc, rate))).collect();
    assert_eq!(points(&runs), [&round[..], &round[..]].concat());
    assert!(runs.iter().enumerate().all(|(n, run)| run.index as usize == n && run.round as usize == n / 6));
}

#[test]
fn a_round_has_one_seed_and_no_two_rounds_share_it() {
    let runs = plan(SMALL, &["rounds=50"], false).unwrap();
    let seeds: BTreeSet<(u32, u64)> = runs.iter().map(|run| (run.round, run.seed)).collect();
    assert_eq!(seeds.len(), 50);
    assert_eq!(seeds.iter().map(|(_, seed)| seed).collect::<BTreeSet<_>>().len(), 50);
    let other = plan(SMALL, &["flows.download.cc=hybla"], false).unwrap();
    assert_eq!(other[0].seed, runs[0].seed, "what varies does not change the seed");
    assert_ne!(plan(SMALL, &["seed=8"], false).unwrap()[0].seed, runs[0].seed);
}

#[test]
fn channels_of_one_clock_have_super_frames_of_one_length() {
    let mesh = |superframe: &str| {
        let rate = |superframe: &str| {
            format!("{{ kind = \"tdma\", clock = \"mesh\", superframe = \"{superframe}\", slots = 4, payload = \"1 kB\", fixed = 1 }}")
        };
        let both = format!("down = {{ rate = {} }}\nup = {{ rate = {} }}", rate("1 s"), rate(superframe));
        plan(&small_with("rate = \"1 Gbit/s\"", &both), &[], false)
    };
    let runs = mesh("1 s").unwrap();
    let clocks = [0, 1].map(|link| match rate(&runs[0], link) {
        RateSpec::Tdma(tdma) => tdma.clock.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(clocks, [Some("mesh".to_owned()), Some("mesh".to_owned())]);
    let error = mesh("2 s").unwrap_err().to_string();
    assert!(
        error.starts_with(
            "s.toml:20: the clock `mesh` of `links.wire` has super-frames of 2 s and of 1 s; give the channels"
        ),
        "{error}"
    );
}

#[test]
fn values_of_an_independent_key_have_seeds_of_their_own_and_share_them_over_the_other_keys() {
    let shared = plan(SMALL, &[], false).unwrap();
    let runs = plan(SMALL, &["independent=[\"flows.download.cc\"]"], false).unwrap();
    assert_eq!(points(&runs), points(&shared), "nothing else changes");
    for round in runs.chunks(6) {
        let seeds: BTreeSet<u64> = round.iter().map(|run| run.seed).collect();
        assert_eq!(seeds.len(), 2, "one for each algorithm");
        assert!(round[..3].iter().all(|run| run.seed == round[0].seed), "the rates share it");
    }
    let seeds: BTreeSet<u64> = runs.iter().chain(&shared).map(|run| run.seed).collect();
    assert_eq!(seeds.len(), 6, "two rounds of two algorithms, and two of all");
    let alone = plan(SMALL, &["independent=[\"flows.download.cc\"]", "vary.flows.download.cc=cubic"], false).unwrap();
    assert_eq!(alone[0].seed, runs[3].seed, "the seed is of the value, not of its place");
    assert_eq!(
        plan(SMALL, &["independent=[\"flow.cc\"]"], false).unwrap_err().to_string(),
        "--set independent=[\"flow.cc\"]: `independent` names `flow.cc`, which is no key of `vary`; use one of \
         flows.download.cc, links.air.down.rate"
    );
}

#[test]
fn links_take_each_process_from_the_last_that_has_it() {
    let runs = plan(SMALL, &[], false).unwrap();
    let links = &runs[1].scenario.links;
    let names: Vec<(&str, u32, u32)> = links.iter().map(|link| (&*link.name, link.from, link.to)).collect();
    assert_eq!(names, [("wire.down", 0, 1), ("wire.up", 1, 0), ("air.down", 1, 2), ("air.up", 2, 1)]);
    assert_eq!(rate(&runs[1], 2), RateSpec::Constant(Rate::from_mbps(20.0)), "the point's over the profile's");
    assert_eq!(rate(&runs[1], 3), RateSpec::Constant(Rate::from_mbps(5.0)), "the study's over the profile's");
    assert_eq!(links[2].spec.queue.bytes, Some(Bytes::new(7_500_000)), "the profile's where nobody else has one");
    assert_eq!(rate(&runs[1], 0), rate(&runs[1], 1), "common keys are for both directions");
}

#[test]
fn a_setting_may_reach_into_a_process() {
    let aqm = "links.air.down.queue.aqm={ kind = \"viasat2\", threshold = \"50 %\", drop = \"25 %\" }";
    let runs = plan(SMALL, &[aqm, "links.air.down.queue.aqm.drop=10 %", "links.wire.loss=1 %"], false).unwrap();
    let (half, tenth) = (Ratio::new(0.5).unwrap(), Ratio::new(0.1).unwrap());
    let queue = &runs[0].scenario.links[2].spec.queue;
    assert_eq!(queue.aqm, AqmSpec::Viasat2 { threshold: half, drop: tenth });
    assert_eq!(queue.bytes, Some(Bytes::new(7_500_000)), "the rest of the process stays");
    let one = LossSpec::Bernoulli(Ratio::new(0.01).unwrap());
    assert!(runs[0].scenario.links[..2].iter().all(|link| link.spec.loss == [one.clone()]));
}

#[test]
fn a_setting_of_what_varies_pins_it() {
    let runs = plan(SMALL, &["flow.cc=cubic"], false);
    assert!(runs.unwrap_err().to_string().contains("a `ping` flow has no `cc`"));
    let runs = plan(SMALL, &["flows.download.cc=hybla", "link.air.down.rate=1 Mbit/s"], false).unwrap();
    assert_eq!(points(&runs), ["{}", "{}"]);
    let Traffic::Tcp { tcp, .. } = &runs[0].scenario.flows[0].traffic else { panic!("a download is over TCP") };
    assert_eq!(tcp.cc.algorithm().name(), "hybla");
}

#[test]
fn a_duration_that_is_set_takes_the_place_of_the_size() {
    let runs = plan(SMALL, &["flows.download.duration=9 s"], false).unwrap();
    let Traffic::Tcp { app, .. } = &runs[0].scenario.flows[0].traffic else { panic!("a download is over TCP") };
    assert_eq!(*app, bulk(Amount::Duration(Time::from_secs(9))));
}

#[test]
fn parameters_of_a_congestion_control_are_paths_too() {
    let text = small_with("[\"reno\", \"cubic\"]", "[\"hybla\", { name = \"hybla\", rtt0 = \"50 ms\" }]");
    let runs = plan(&text, &["link.air.down.rate=1 Mbit/s"], false).unwrap();
    let params = runs[..2].iter().map(|run| match &run.scenario.flows[0].traffic {
        Traffic::Tcp { tcp, .. } => (&*tcp.cc_params, tcp.cc.values()[0]),
        Traffic::Population { .. } | Traffic::Quic { .. } | Traffic::Datagrams(_) => panic!("a download is over TCP"),
    });
    let params: Vec<(&str, u64)> = params.collect();
    assert_eq!(params, [("{}", 25_000), ("{\"rtt0\":\"50 ms\"}", 50_000)]);
    let text = small_with("\"flows.download.cc\" = [\"reno\", \"cubic\"]", "\"flows.download.cc.rtt0\" = [\"30 ms\"]");
    let text = text.replace("cc = \"reno\"", "cc = \"hybla\"");
    let runs = plan(&text, &[], false).unwrap();
    let Traffic::Tcp { tcp, .. } = &runs[0].scenario.flows[0].traffic else { panic!("a download is over TCP") };
    assert_eq!(tcp.cc.values()[0], 30_000);
}

#[test]
fn linked_values_vary_together() {
    let linked =
        "linked = [{ \"flows.download.cc\" = \"reno\", \"flows.echo.count\" = 0 }, { \"flows.echo.count\" = 3 }]";
    let text = small_with("\"flows.download.cc\" = [\"reno\", \"cubic\"]", linked);
    let runs = plan(&text, &["rounds=1", "link.air.down.rate=1 Mbit/s"], false).unwrap();
    let flows = |run: &Run| run.scenario.flows.iter().map(|flow| flow.name.to_string()).collect::<Vec<_>>();
    assert_eq!(flows(&runs[0]), ["download"]);
    assert_eq!(flows(&runs[1]), ["download", "echo.1", "echo.2", "echo.3"]);
    assert_eq!(points(&runs)[0], "{\"flows.download.cc\":\"reno\",\"flows.echo.count\":0}");
}

fn refusal(settings: &[&str]) -> String {
    match plan(SMALL, settings, false) {
        Ok(runs) => panic!("{settings:?} is not refused: {} runs", runs.len()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_list_that_is_given_varies_a_key_in_the_place_of_what_varied_it() {
    let runs = plan(SMALL, &["rounds=1", "vary.flows.download.cc=bbr, { name = \"hybla\", rtt0 = \"50 ms\" }"], false);
    let cc = ["\"bbr\"", "{\"name\":\"hybla\",\"rtt0\":\"50 ms\"}"];
    let point = |cc, rate| format!("{{\"flows.download.cc\":{cc},\"links.air.down.rate\":\"{rate} Mbit/s\"}}");
    let expected: Vec<String> = cc.iter().flat_map(|cc| [10, 20, 30].map(|rate| point(cc, rate))).collect();
    assert_eq!(points(&runs.unwrap()), expected);
    let runs = plan(SMALL, &["rounds=1", "flows.download.cc=bbr", "vary.links.wire.loss=0 %,1 %"], false).unwrap();
    assert_eq!(runs.len(), 6);
    assert_eq!(points(&runs)[1], "{\"links.air.down.rate\":\"10 Mbit/s\",\"links.wire.loss\":\"1 %\"}");
    let runs = plan(SMALL, &["vary.links.air.down.rate=10 Mbit/s", "links.air.down.rate=1 Mbit/s"], false).unwrap();
    assert_eq!(points(&runs)[0], "{\"flows.download.cc\":\"reno\"}", "a later setting pins it");
}

#[test]
fn linked_values_may_be_given_in_the_place_of_what_varies_them() {
    let given = "vary.linked=[{ \"flows.download.cc\" = \"bbr\", \"links.wire.loss\" = \"1 %\" }, { \
        \"flows.download.cc\" = \"hybla\", \"links.wire.loss\" = \"2 %\" }]";
    let runs = plan(SMALL, &["rounds=1", "links.air.down.rate=1 Mbit/s", given], false).unwrap();
    let point = |cc, loss| format!("{{\"flows.download.cc\":\"{cc}\",\"links.wire.loss\":\"{loss} %\"}}");
    assert_eq!(points(&runs), [point("bbr", 1), point("hybla", 2)]);
    let error = refusal(&["vary.linked=bbr"]);
    assert!(error.ends_with("`vary.linked` is a string; write a list of values in brackets"), "{error}");
    let error = refusal(&["vary.linked=[{ \"links.wire.los\" = \"1 %\" }]"]);
    assert!(error.contains("links.wire.los"), "{error}");
    let error = refusal(&["vary.linked=[{ seed = 1 }]"]);
    assert!(
        error.ends_with("`seed` cannot vary; each round has its own seed already: raise `rounds` instead"),
        "{error}"
    );
}

#[test]
fn values_may_be_added_to_what_varies() {
    let runs = plan(SMALL, &["rounds=1", "links.air.down.rate=1 Mbit/s", "vary.flow.cc=+bbr,hybla"], false).unwrap();
    let cc = |name| format!("{{\"flows.download.cc\":\"{name}\"}}");
    assert_eq!(points(&runs), ["reno", "cubic", "bbr", "hybla"].map(cc));
}

#[test]
fn a_list_that_cannot_vary_is_refused_with_the_fix() {
    assert_eq!(
        refusal(&["vary.flow.cc=+cubic"]),
        "--also flow.cc=cubic: `flows.download.cc` has \"cubic\" twice; give it once"
    );
    assert_eq!(
        refusal(&["vary.links.wire.loss=1 %,"]).split(": ").nth(1),
        Some("a value is empty; write --vary flow.cc=cubic,bbr")
    );
    assert!(
        refusal(&["vary.flows.download.cc=bbr,bbr"]).contains("`flows.download.cc` has \"bbr\" twice; give it once")
    );
    let error = refusal(&["vary.links.wire.loss=+1 %"]);
    let fix = "give all values with --vary, or add to flows.download.cc, links.air.down.rate";
    assert!(error.ends_with(&format!("`links.wire.loss` does not vary in the study; {fix}")), "{error}");
    let error = refusal(&["vary.links.air.down={ rate = \"1 Mbit/s\" },{ rate = \"2 Mbit/s\" }"]);
    assert!(error.ends_with("varies under `links.air.down.rate` and `links.air.down`; keep one of them"), "{error}");
    assert!(refusal(&["vary.seed=1,2"]).starts_with("--vary seed=1,2: `seed` cannot vary"));
    assert!(refusal(&["vary.flows.download.cc=nonesuch"]).starts_with("--vary flows.download.cc=nonesuch: "));
}

#[test]
fn nothing_is_added_to_values_that_are_linked_with_others() {
    let linked = "linked = [{ \"flows.download.cc\" = \"reno\" }, { \"flows.echo.count\" = 3 }]";
    let text = small_with("\"flows.download.cc\" = [\"reno\", \"cubic\"]", linked);
    let error = plan(&text, &["vary.flows.download.cc=+bbr"], false).unwrap_err().to_string();
    assert!(error.contains("`flows.download.cc` varies together with others (s.toml:"), "{error}");
}

#[test]
fn the_reduced_size_may_keep_some_of_the_values_of_what_varies() {
    let kept = "set = { \"vary.links.air.down.rate\" = [\"10 Mbit/s\", \"30 Mbit/s\"], ";
    let text = small_with("set = { ", kept);
    let points = |reduced| plan(&text, &["flows.download.cc=reno", "rounds=1"], reduced).unwrap().len();
    assert_eq!((points(false), points(true)), (3, 2));
    let one = small_with("set = { ", "set = { \"vary.links.air.down.rate\" = \"10 Mbit/s\", ");
    let error = plan(&one, &[], true).unwrap_err().to_string();
    assert!(error.ends_with("`vary.links.air.down.rate` is a string; write a list of values in brackets"), "{error}");
}

#[test]
fn the_reduced_size_is_the_declared_one_and_settings_come_after_it() {
    let size = |settings: &[&str]| {
        let runs = plan(SMALL, settings, true).unwrap();
        let Traffic::Tcp { app, .. } = runs[0].scenario.flows[0].traffic.clone() else { panic!("over TCP") };
        (runs.len(), app)
    };
    assert_eq!(size(&[]), (6, bulk(Amount::Size(Bytes::new(1_000_000)))));
    assert_eq!(size(&["flows.download.size=2 MB", "rounds=3"]), (18, bulk(Amount::Size(Bytes::new(2_000_000)))));
    let error = plan(&small_with("[reduced]\nset = {", "[vary2]\nx = {"), &[], true).unwrap_err().to_string();
    assert!(error.contains("unknown key `vary2`"), "{error}");
    let without = SMALL.split("[reduced]").next().unwrap();
    let error = plan(without, &[], true).unwrap_err().to_string();
    assert!(error.starts_with("s.toml:1: the study declares no reduced size"), "{error}");
}

#[test]
fn host_settings_go_from_all_to_one_node_to_one_flow() {
    let text = small_with("cc = \"reno\"", "cc = \"reno\"\ntcp = { rack = false }");
    let runs = plan(&text, &["hosts.initial_window=3", "hosts.server.initial_window=4"], false).unwrap();
    let Traffic::Tcp { tcp, .. } = &runs[0].scenario.flows[0].traffic else { panic!("a download is over TCP") };
    assert_eq!((tcp.from.initial_window, tcp.to.initial_window), (4, 3));
    assert_eq!((tcp.from.delayed_acks, tcp.to.delayed_acks), (true, false));
    assert_eq!((tcp.from.rack, tcp.to.rack), (false, false));
    assert_eq!(tcp.to.rmem[2], Bytes::new(6 << 20));
}

#[test]
fn a_processing_time_is_that_of_the_connection_and_of_datagrams_that_of_the_node() {
    let text = small_with("cc = \"reno\"", "cc = \"reno\"\ntcp = { processing_time = \"3 us\" }");
    let settings = ["hosts.processing_time=8 us", "hosts.server.processing_time=5 us"];
    let us = |times: [u64; 2]| times.map(Time::from_micros);
    let of = |text: &str, settings: &[&str]| -> Vec<_> {
        plan(text, settings, false).unwrap()[0].scenario.processing_times().collect()
    };
    // A download from the server, and pings that go to it.
    assert_eq!(of(SMALL, &[]), [us([0, 0]), us([0, 0])]);
    assert_eq!(of(SMALL, &settings), [us([5, 8]), us([8, 5])]);
    assert_eq!(of(&text, &settings), [us([3, 3]), us([8, 5])]);
    let pings_only = [&settings[..], &["flows.download.count=0"]].concat();
    let setup = setup_json(&plan(SMALL.split("[vary]").next().unwrap(), &pings_only, false).unwrap());
    let hosts: serde_json::Value = serde_json::from_str(&setup).unwrap();
    let words = |time: &str| serde_json::json!([["processing time of a packet (mean)", time]]);
    let expected = [("client", "8 us"), ("server", "5 us")]
        .map(|(name, time)| serde_json::json!({"name": name, "properties": words(time)}));
    assert_eq!(hosts["hosts"], serde_json::json!(expected));
}

#[test]
fn measures_and_starts_are_as_written() {
    let runs = plan(SMALL, &["measure.series=off", "measure.steady=off", "measure.rtt=false"], false).unwrap();
    let mb = |n: u64| Bytes::new(n * 1_000_000);
    let expected = Measure {
        series: None,
        startup: Some(Startup::Bytes(mb(1))),
        steady: None,
        goodput_bin: Time::from_secs(1),
        rtt_bin: None,
        milestones: vec![mb(1), mb(2), mb(3)],
        capture: None,
        events: false,
        states: None,
        pcap: vec![2],
        qlog: Vec::new(),
    };
    assert_eq!(runs[0].scenario.measure, expected);
    let echo = &runs[0].scenario.flows[1];
    let (early, late) = (Time::from_secs(1), Time::from_secs(1) + Time::from_micros(8));
    let starts: BTreeSet<Time> = (0..100).map(|seed| echo.start_in(seed)).collect();
    assert!(starts.len() > 90 && starts.iter().all(|start| (early..late).contains(start)));
    assert_eq!(runs[0].scenario.flows[0].start_in(1), Time::ZERO, "no jitter, no delay");
}

#[test]
fn routes_take_another_way_than_the_shortest() {
    let links =
        "[[links]]\nname = \"direct\"\nbetween = [\"server\", \"client\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n";
    let route = "[[routes]]\nnode = \"server\"\nto = \"client\"\nvia = \"wire\"\n";
    let way = |text: &str| {
        let runs = plan(&small_with("[vary]", text), &[], false).unwrap();
        (
            runs[0].scenario.flows[0].forward.clone(),
            runs[0].scenario.flows[0].back.clone(),
            runs[0].scenario.next_hop(0, 2),
        )
    };
    assert_eq!(way(&format!("{links}[vary]")), (vec![4], vec![5], Some(4)));
    assert_eq!(way(&format!("{links}{route}[vary]")), (vec![0, 2], vec![5], Some(0)));
}

#[test]
fn routes_change_at_instants_and_back() {
    let text =
        "[[links]]\nname = \"direct\"\nbetween = [\"server\", \"client\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
                [[routes]]\nnode = \"server\"\nto = \"client\"\nvia = \"wire\"\nend = \"2 s\"\n\
                [[routes]]\nnode = \"server\"\nto = \"client\"\nvia = \"wire\"\nstart = \"5 s\"\nend = \"6 s\"\n[vary]";
    let runs = plan(&small_with("[vary]", text), &[], false).unwrap();
    let change = |at, from, link| RouteChange {
        at: Time::from_secs(at),
        node: 0,
        to: 2,
        link,
        from: Some(from),
        waiting: Waiting::Kept,
    };
    let expected = [change(0, 4, 0), change(2, 0, 4), change(5, 4, 0), change(6, 0, 4)];
    assert_eq!(runs[0].scenario.route_changes(1), expected);
    assert_eq!(runs[0].scenario.flows[0].forward, [4], "the way without them");
}

#[test]
fn a_recording_is_looked_for_beside_the_profile_that_names_it() {
    let by_name_only = |name: &str| match name {
        "bw.txt" => Err("not here".to_owned()),
        _ => load(name),
    };
    let study = Study::parse(&small_with("\"geo\"", "\"traced\""), "s.toml").unwrap();
    let pinned = Overrides::new(&["links.air.up.rate=1 Mbit/s"], false).unwrap();
    assert!(study.plan(&pinned, &mut by_name_only.clone()).is_ok());
    let given =
        Overrides::new(&["links.wire.down.rate={ trace = \"${inputs.bw}\" }", "inputs.bw=bw.txt"], false).unwrap();
    assert!(matches!(rate(&study.plan(&given, &mut load).unwrap()[0], 0), RateSpec::Trace(_)));
}

#[test]
fn the_fingerprint_changes_with_every_setting_and_with_recordings() {
    let print = |settings: &[&str]| plan(SMALL, settings, false).unwrap()[0].scenario.fingerprint;
    let all = [
        print(&[]),
        print(&["hosts.rack=false"]),
        print(&["links.wire.loss=1 %"]),
        print(&["measure.series=1 s"]),
        print(&["time_limit=1 min"]),
    ];
    assert_eq!(BTreeSet::from(all).len(), all.len());
    let recorded = |bytes: &[u8]| {
        let given = Overrides::new(&["links.wire.rate={ trace = \"a\" }"], false).unwrap();
        let mut load = |name: &str| if name == "a" { Ok(bytes.to_vec()) } else { load(name) };
        Study::parse(SMALL, "s.toml").unwrap().plan(&given, &mut load).unwrap()[0].scenario.fingerprint
    };
    assert_ne!(recorded(b"1\n2\n"), recorded(b"1\n3\n"));
}

#[test]
fn the_plan_prints_as_json() {
    let json: serde_json::Value = serde_json::from_str(&plan_json(&plan(SMALL, &[], false).unwrap())).unwrap();
    assert_eq!(json["points"][1]["point"]["links.air.down.rate"], "20 Mbit/s");
    assert_eq!((json["points"].as_array().map(Vec::len), &json["rounds"]), (Some(6), &2.into()));
}

#[test]
fn a_plan_of_a_million_runs_prints_no_longer_than_one_of_a_few() {
    let text = small_with("rounds = 2", "rounds = 166666");
    let (many, few) = (plan(&text, &[], false).unwrap(), plan(SMALL, &[], false).unwrap());
    assert_eq!((many.len(), few.len()), (999_996, 12));
    assert_eq!(plan_json(&many).len(), plan_json(&few).len() + "166666".len() - "2".len());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = plan(&text, &[], false);
    }

    #[test]
    fn no_damage_to_a_study_makes_the_reader_panic(
        at in 0..SMALL.len(), length in 0..60usize, new in "[a-z\"\\[\\]{}=.,0-9 \n]{0,12}", reduced: bool,
    ) {
        let end = (at + length).min(SMALL.len());
        let text = format!("{}{new}{}", &SMALL[..at], &SMALL[end..]);
        if let Err(error) = plan(&text, &[], reduced) {
            let error = error.to_string();
            prop_assert!(error.starts_with("s.toml:") || error.starts_with("profiles/"), "{}", error);
            prop_assert!(error.contains("; ") && !error.contains('\n'), "{}", error);
        }
    }

    #[test]
    fn no_setting_makes_the_reader_panic(
        path in "(flow|flows|links|hosts|measure|inputs|seed|rounds)(\\.(download|air|client|cc|rate|down|size|x)){0,4}",
        value in ".{0,30}",
    ) {
        if let Err(error) = plan(SMALL, &[&format!("{path}={value}")], false) {
            prop_assert!(!error.to_string().contains('\n'), "{}", error);
        }
    }

    #[test]
    fn the_same_text_and_settings_give_the_same_plan(seed in 0u64..1 << 40, rounds in 1u32..5) {
        let settings = [format!("seed={seed}"), format!("rounds={rounds}")];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let (a, b) = (plan(SMALL, &settings, false).unwrap(), plan(SMALL, &settings, false).unwrap());
        prop_assert_eq!(plan_json(&a), plan_json(&b));
        prop_assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }
}

#[test]
fn a_flow_of_ipv6_needs_room_for_its_headers() {
    let text = |packet: &str| {
        format!(
            "name = \"x\"\nnodes = [\"a\", \"b\"]\n[[links]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n\
             delay = \"1 ms\"\n[[flows]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\nip = \"v6\"\n\
             packet = \"{packet}\"\ninterval = \"1 s\"\nrepeat = 1\n"
        )
    };
    let study = Study::parse(&text("48 B"), "x.toml").expect("a study");
    let runs = study.plan(&Overrides::default(), &mut |_: &str| Err(String::new())).expect("a plan");
    assert_eq!(runs[0].scenario.flows[0].ip, perigee_study::IpVersion::V6);
    let said = Study::parse(&text("47 B"), "x.toml").expect_err("too small").to_string();
    assert!(said.contains("no room for the headers of `v6`") && said.contains("give them 48 B or more"), "{said}");
}

#[test]
fn packets_must_fit_on_the_links_on_their_way() {
    let read = |mtu: &str, flow: &str| {
        let text = format!(
            "name = \"x\"\nnodes = [\"a\", \"b\", \"c\"]\n[[links]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n\
             delay = \"1 ms\"\n[[links]]\nname = \"m\"\nbetween = [\"b\", \"c\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
             mtu = \"{mtu}\"\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"c\"\n{flow}\n"
        );
        let study = Study::parse(&text, "x.toml").map_err(|error| error.to_string())?;
        let runs = study.plan(&Overrides::default(), &mut |_: &str| Err(String::new()));
        runs.map(|runs| runs[0].scenario.flows[0].clone()).map_err(|error| error.to_string())
    };
    let bulk = "size = \"1 MB\"";
    let flow = read("1000 B", bulk).expect("a flow");
    assert_eq!((flow.path_mtu, flow.segment(1460), flow.segment(500)), (Some(1000), 960, 500));
    assert_eq!(read("1300 B", &format!("{bulk}\nip = \"v6\"")).expect("a flow").segment(1460), 1240);
    let said = read("1000 B", &format!("{bulk}\nip = \"v6\"")).expect_err("too small for IPv6");
    assert!(said.contains("raise it to 1280 B"), "{said}");
    let ping = "kind = \"ping\"\ninterval = \"1 s\"\nrepeat = 1\npacket = ";
    assert!(read("1000 B", &format!("{ping}\"1000 B\"")).is_ok());
    let said = read("1000 B", &format!("{ping}\"1001 B\"")).expect_err("too large");
    assert!(said.contains("do not fit on a link") && said.contains("give them 1000 B or less"), "{said}");
}

fn bulk(amount: Amount) -> App {
    App::Bulk(Bulk { amount, offered: Vec::new() })
}

#[test]
fn the_setup_has_all_values_of_what_varies_with_their_unit_once() {
    let setup: serde_json::Value = serde_json::from_str(&setup_json(&plan(SMALL, &[], false).unwrap())).unwrap();
    let text = |kind: &str, name: &str, key: &str| {
        let things = setup[kind].as_array().unwrap();
        let thing = things.iter().find(|thing| thing["name"] == name).unwrap();
        let property = thing["properties"].as_array().unwrap().iter().find(|property| property[0] == key).unwrap();
        property[1].as_str().unwrap().to_owned()
    };
    assert_eq!(text("links", "air.down", "rate"), "10, 20, 30 Mbit/s (varied)");
    assert_eq!(text("flows", "download", "congestion control"), "reno, cubic (varied)");
    assert!(!text("links", "air.down", "delay").contains("varied"));
    let rates: Vec<_> = (1..=20).map(|rate| format!("\"{rate} Mbit/s\"")).collect();
    let text = SMALL.replace("\"10 Mbit/s\", \"20 Mbit/s\", \"30 Mbit/s\"", &rates.join(", "));
    let setup = setup_json(&plan(&text, &[], false).unwrap());
    assert!(setup.contains("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 Mbit/s and others (varied, 20 values)"), "{setup}");
}

#[test]
fn the_reaches_are_those_of_bulk_transfers_longer_than_their_paths_hold_with_equal_shares() {
    let flow =
        |name: &str, what: &str| format!("[[flows]]\nname = \"{name}\"\nfrom = \"server\"\nto = \"client\"\n{what}\n");
    let network = "name = \"reach\"\nnodes = [\"server\", \"client\"]\n[hosts.client]\nrmem = [\"4096 B\", \"131072 B\", \"9 MB\"]\n\
                   [[links]]\nname = \"air\"\nbetween = [\"server\", \"client\"]\nrate = \"100 Mbit/s\"\ndelay = \"300 ms\"\n";
    let flows = [
        flow("one", "size = \"10 MB\""),
        flow("two", "duration = \"10 s\""),
        flow("short", "size = \"100 kB\""),
        flow("slow", "duration = \"10 s\"\noffered = \"1 Mbit/s\""),
        flow("call", "kind = \"voice\"\nduration = \"10 s\""),
    ];
    let runs = plan(&format!("{network}{}", flows.concat()), &[], false).unwrap_or_else(|error| panic!("{error}"));
    let reaches = runs[0].scenario.reaches();
    assert_eq!(reaches.iter().map(|reach| &*reach.flow).collect::<Vec<_>>(), ["one", "two"]);
    for reach in reaches {
        assert_eq!((&*reach.sender, &*reach.receiver), ("server", "client"));
        // The short one counts as well: it has its share for a while.
        assert!((reach.rate_bps - 100e6 / 3.0).abs() < 1.0, "{reach:?}");
        assert_eq!(
            (reach.round_trip.as_millis(), reach.wmem[2].as_u64(), reach.rmem[2].as_u64()),
            (600, 4_194_304, 9_000_000)
        );
    }
}
