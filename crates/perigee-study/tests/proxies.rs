//! `[[proxies]]`: the legs that they make, and each mistake in them with its line and what to do about it.

use crate::common::{error, load, plan, small_with};
use perigee_study::{setup_json, Overrides, Study, Traffic};

/// The small study with a proxy in the middle of its download, from line 50 on.
fn with(proxy: &str) -> String {
    small_with("[vary]", &format!("{proxy}\n[vary]"))
}

const PROXY: &str = r#"[[proxies]]
name = "pep"
node = "middle"
[proxies.sides.wire]
cc = "cubic"
[proxies.sides.air]
cc = { name = "hybla", rtt0 = "30 ms" }
tcp = { initial_window = 64 }
link = {}
"#;

#[test]
fn a_proxy_makes_two_legs_of_a_connection_and_leaves_pings_alone() {
    let runs = plan(&with(PROXY), &[], false).unwrap_or_else(|error| panic!("{error}"));
    let [download, ping] = &runs[0].scenario.flows[..] else { panic!("two flows") };
    assert!(matches!(ping.traffic, Traffic::Datagrams(_)));
    let tcp = download.traffic.tcp().expect("a download has a connection");
    let [wire, air] = &tcp.legs[..] else { panic!("{} legs", tcp.legs.len()) };
    assert_eq!(((wire.from, wire.to), (air.from, air.to)), ((0, 1), (1, 2)));
    assert_eq!((&wire.forward, &wire.back, &air.forward, &air.back), (&vec![0], &vec![1], &vec![2], &vec![3]));
    assert_eq!((wire.proxy, air.proxy), (Some(0), None));
    let names = [&wire.sender, &wire.receiver, &air.sender, &air.receiver].map(|end| end.cc.algorithm().name());
    assert_eq!(names, ["reno", "cubic", "hybla", "reno"]);
    assert_eq!((air.sender.config.initial_window, wire.receiver.config.initial_window), (64, 10));
    assert_eq!(&*air.sender.cc_params, "{\"rtt0\":\"30 ms\"}");
}

#[test]
fn a_proxy_splits_the_connections_of_a_population() {
    let web = "[[flows]]\nname = \"web\"\nkind = \"pages\"\nfrom = \"server\"\nto = \"client\"\nduration = \"10 s\"\n";
    let legs = |proxy: &str| {
        let runs = plan(&with(&format!("{web}{proxy}")), &[], false).unwrap_or_else(|error| panic!("{error}"));
        let flow = runs[0].scenario.flows.iter().find(|flow| &*flow.name == "web").expect("it is there");
        flow.traffic.tcp().expect("pages come over TCP").legs.iter().map(|leg| leg.proxy).collect::<Vec<_>>()
    };
    assert_eq!(legs(PROXY), [Some(0), None]);
    assert_eq!(legs(&PROXY.replacen("node", "flows = [\"web\"]\nnode", 1)), [Some(0), None]);
    assert_eq!(legs(&PROXY.replacen("node", "flows = [\"download\"]\nnode", 1)), []);
}

#[test]
fn a_proxy_that_is_not_enabled_changes_nothing_but_what_varies() {
    let runs = plan(&with(PROXY), &["proxy.enabled=false"], false).unwrap_or_else(|error| panic!("{error}"));
    assert!(runs[0].scenario.flows[0].traffic.tcp().is_some_and(|tcp| tcp.legs.is_empty()));
    let text = with(PROXY).replace("[vary]", "[vary]\n\"proxy.enabled\" = [true, false]");
    let runs = plan(&text, &[], false).unwrap_or_else(|error| panic!("{error}"));
    let legs: Vec<_> =
        runs.iter().map(|run| run.scenario.flows[0].traffic.tcp().map_or(0, |tcp| tcp.legs.len())).collect();
    assert_eq!(legs[..12], [2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn every_key_of_a_proxy_and_of_its_sides_can_be_set_and_changes_the_plan() {
    let fingerprint = |settings: &[&str]| {
        plan(&with(PROXY), settings, false).unwrap_or_else(|error| panic!("{settings:?}: {error}"))[0]
            .scenario
            .fingerprint
    };
    let plain = fingerprint(&[]);
    for setting in [
        "proxies.pep.enabled=false",
        "proxy.handshake=connect-first",
        "proxies.pep.buffer=1 MB",
        "proxies.pep.memory=10 MB",
        "proxies.pep.sides.wire.cc=bbr",
        "proxies.pep.sides.air.cc.rtt0=40 ms",
        "proxies.pep.sides.air.tcp.initial_window=12",
        "proxies.pep.sides.air.link.enabled=false",
        "proxies.pep.sides.air.link.share=0.9",
        "proxies.pep.sides.air.link.bypass=0.1",
        "proxies.pep.sides.air.link.told=1 s",
        "proxies.pep.sides.air.link.short=1 MB",
        "proxies.pep.sides.air.link.memory=1 s",
        "proxies.pep.sides.air.link.savings=1 MB",
        "proxies.pep.sides.air.link.floor=1 Mbit/s",
        "proxies.pep.sides.air.link.ceiling=1 Mbit/s",
    ] {
        assert_ne!(fingerprint(&[setting]), plain, "{setting}");
    }
}

#[test]
fn the_queue_that_a_proxy_owns_is_in_the_setup_where_there_are_links() {
    let owned = "air.down, up to 98 % of its rate";
    let text = with(PROXY);
    assert!(setup_json(&plan(&text, &[], false).unwrap()).contains(owned));
    let study = Study::parse(&text, "s.toml").unwrap();
    let real = setup_json(&study.plan_without_links(&Overrides::default(), &mut load).unwrap());
    assert!(real.contains("flows that it splits") && !real.contains("air.down"), "{real}");
}

#[test]
fn mistakes_in_the_link_whose_queue_a_proxy_owns_have_their_line() {
    let refused = |link: &str| error(&with(&PROXY.replacen("link = {}", &format!("link = {link}"), 1)), &[]);
    let at = "s.toml:58: `proxies.sides.air.link";
    assert_eq!(refused("\"air\""), format!("{at}` is a string; write a table"));
    assert_eq!(refused("{ share = 0 }"), format!("{at}.share` = 0 is out of range; use a value from 0.5 to 1"));
    assert_eq!(
        refused("{ floor = \"2 Mbit/s\", ceiling = \"1 Mbit/s\" }"),
        "s.toml:58: a floor of 2 Mbit/s is above the ceiling of 1 Mbit/s; lower the one or raise the other"
    );
    let unknown = "s.toml:58: unknown key `proxies.sides.air.link.shares`; did you mean `share`?";
    assert_eq!(refused("{ shares = 0.9 }"), unknown);
}

#[test]
fn mistakes_have_their_line_and_what_to_do_about_them() {
    let refused = |old: &str, new: &str| {
        assert!(PROXY.contains(old), "{old}");
        error(&with(&PROXY.replacen(old, new, 1)), &[])
    };
    let nodes = "s.toml:52: the proxy `pep`: flow `download` does not pass `client`; place it on both ways of the flow, between its ends";
    assert_eq!(
        refused("node = \"middle\"", "node = \"midle\""),
        "s.toml:52: `proxies.node`: there is no node `midle`; did you mean `middle`?"
    );
    let elsewhere = "node = \"client\"\nflows = [\"download\"]";
    assert_eq!(refused("node = \"middle\"\n[proxies.sides.wire]\ncc = \"cubic\"", elsewhere), nodes);
    assert_eq!(
        refused("node = \"middle\"\n[proxies.sides.wire]\ncc = \"cubic\"", "node = \"client\""),
        "s.toml:52: the proxy `pep` splits nothing: no TCP flow passes `client`; place it between the ends of a flow, or remove it"
    );
    assert_eq!(
        refused("[proxies.sides.wire]\ncc = \"cubic\"\n", ""),
        "s.toml:53: the proxy `pep` has a leg over `wire`, and no congestion control for it; add [proxies.sides.wire] with cc = \"cubic\""
    );
    assert_eq!(refused("cc = \"cubic\"", ""), "s.toml:53: `proxies.sides.wire.cc` is missing; add `cc = ...` here");
    assert_eq!(
        refused("cc = \"cubic\"", "cc = \"cubik\""),
        "s.toml:54: `proxies.sides.wire.cc`: there is no congestion control `cubik`; did you mean `cubic`?"
    );
    assert_eq!(
        refused("sides.wire]", "sides.wirre]"),
        "s.toml:53: `proxies.sides`: `wirre` is no link of `middle`; did you mean `wire`?"
    );
    assert_eq!(
        refused("node = ", "flows = [\"echo\"]\nnode = "),
        "s.toml:52: flow `echo` has no connection to split: it is a `ping`; remove it from `flows`"
    );
    assert_eq!(
        refused("node = ", "flows = [\"downlod\"]\nnode = "),
        "s.toml:52: `proxies.flows`: there is no flow `downlod`; did you mean `download`?"
    );
    assert_eq!(
        refused("node = ", "buffer = \"0 B\"\nnode = "),
        "s.toml:52: `proxies.buffer` = 0 B is out of range; use a value from 1 B to 1000000 GB"
    );
    let twice = format!("{PROXY}{}", PROXY.replacen("pep", "other", 1));
    assert_eq!(
        error(&with(&twice), &[]),
        "s.toml:61: flow `download` is split at this node by the proxy `pep` already; remove one of them, or name the `flows` of each"
    );
}
