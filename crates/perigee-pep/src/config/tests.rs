use super::*;

const ALLOW: &str = "[allow]\nsources = [\"10.0.0.0/8\"]\ndestinations = [\"0.0.0.0/0\", \"::/0\"]\n";
const FORWARD: &str = "[[forward]]\nlisten = \"10.0.0.1:80\"\ntarget = \"192.0.2.1:80\"\n";

fn read(text: &str) -> Config {
    Config::parse(&format!("{ALLOW}{FORWARD}{text}"), "pep.toml", 2).unwrap()
}

/// The error of a text that stands after eight lines.
fn mistake(text: &str) -> String {
    Config::parse(&format!("{ALLOW}{FORWARD}\n\n{text}"), "pep.toml", 2).unwrap_err().to_string()
}

#[test]
fn mistakes_have_their_line_and_their_fix() {
    for (text, error) in [
        ("[limit]", "pep.toml:9: unknown key `limit`; did you mean `limits`?"),
        ("[limits]\nconections = 5", "pep.toml:10: unknown key `limits.conections`; did you mean `connections`?"),
        ("[limits]\nheld = 5", "pep.toml:10: `limits.held`: `5` has no unit; write \"5 MiB\""),
        (
            "[limits]\nat_limit = \"reject\"",
            "pep.toml:10: `limits.at_limit` cannot be `reject`; use one of wait, refuse, pass",
        ),
        (
            "[transparent]\nmark = 0",
            "pep.toml:10: `transparent.mark` = 0 is out of range; use a value from 1 to 4294967293",
        ),
        (
            "[transparent]\ninterfaces = [\"lan0; flush ruleset\"]",
            "pep.toml:10: `lan0; flush ruleset` cannot be the name of an interface; use names that `ip link` shows",
        ),
        (
            "[transparent]\nports = [80,\n0]",
            "pep.toml:11: `ports` has what is not a port; write `ports = [80, 443, \"8000-8100\"]`",
        ),
        (
            "[legs.sky]\nbandwidth = \"20 Mbit/s\"",
            "pep.toml:9: `legs.sky.round_trip` is missing; add `round_trip = ...` here",
        ),
        (
            "[legs.a]\n[[rules]]\nname = \"a\"\nclient = \"a\"\nserver = \"a\"\nconnect_first = true",
            "pep.toml:14: only intercepted clients can wait for their server; add `[transparent]`, or remove \
             `connect_first`",
        ),
        (
            "[transparent]\n[legs.a]\n[[rules]]\nname = \"a\"\nclient = \"a\"\nserver = \"a\"\nconnect_first = true\n\
             interfaces = [\"lan0\"]",
            "pep.toml:15: the interface of a client that waits for its server is not known; name its networks in \
             `sources` instead of `interfaces`",
        ),
        (
            "[[forward]]\nlisten = \"10.0.0.1:81\"\ntarget = \"127.0.0.1:80\"",
            "pep.toml:11: `127.0.0.1:80` is a loopback or link-local address; add `local = true` to `[allow]`, or use \
             another target",
        ),
        (
            "[legs.sky]\n[[rules]]\nname = \"a\"\nclient = \"skye\"\nserver = \"sky\"",
            "pep.toml:12: there is no leg `skye`; did you mean `sky`?",
        ),
        (
            "[service]\nmetrics = \"0.0.0.0:9100\"",
            "pep.toml:10: `service.metrics` is not a loopback address, so that others can read the metrics; use \
             127.0.0.1, or add `metrics_remote = true`",
        ),
    ] {
        assert_eq!(mistake(text), error);
    }
}

#[test]
fn a_configuration_that_allows_nobody_or_proxies_nothing_is_refused() {
    let error = |text: &str| Config::parse(text, "pep.toml", 1).unwrap_err().to_string();
    assert_eq!(
        error(FORWARD),
        "pep.toml:1: `[allow]` is missing: nobody may use the service; add `[allow]` with `sources` and `destinations`"
    );
    assert_eq!(
        error("[allow]\nsources = [\"::/0\"]\n"),
        "pep.toml:1: `allow.destinations` is missing; add `destinations = ...` here"
    );
    assert!(error(ALLOW).contains("nothing is proxied"));
}

#[test]
fn buffers_follow_from_the_bandwidth_delay_product() {
    let text = "[legs.sky]\nbandwidth = \"20 Mbit/s\"\nround_trip = \"600 ms\"\nsend_buffer = \"1 MB\"\n\
                [[rules]]\nname = \"all\"\nclient = \"sky\"\nserver = \"sky\"\n";
    let leg = &read(text).rules[0].client;
    assert_eq!((leg.send_buffer, leg.receive_buffer), (Some(1_000_000), Some(3_000_000)));
}

#[test]
fn the_first_rule_that_matches_applies_and_the_last_matches_all() {
    let config = read(
        "[legs.a]\n[legs.b]\n\
         [[rules]]\nname = \"web\"\nports = [80, \"8000-8100\"]\nsources = [\"10.1.0.0/16\"]\nclient = \"a\"\nserver = \"b\"\n\
         [[rules]]\nname = \"voice\"\ndscp = [46]\ninterfaces = [\"lan0\"]\nclient = \"a\"\nserver = \"b\"\n",
    );
    for (source, port, interface, dscp, rule) in [
        ("10.1.2.3:4", 80, None, 0, "web"),
        ("10.1.2.3:4", 8100, Some("lan0"), 46, "web"),
        ("10.1.2.3:4", 8101, Some("lan0"), 46, "voice"),
        ("10.2.2.3:4", 80, Some("lan0"), 46, "voice"),
        ("10.2.2.3:4", 80, Some("lan1"), 46, "other"),
        ("10.2.2.3:4", 80, None, 46, "other"),
        ("10.2.2.3:4", 80, Some("lan0"), 0, "other"),
    ] {
        let destination = SocketAddr::new("192.0.2.1".parse().unwrap(), port);
        let request = Request { source: source.parse().unwrap(), destination, interface, dscp };
        assert_eq!(config.rule(&request).unwrap().name, rule, "{request:?}");
    }
}

#[test]
fn only_what_is_allowed_is_dialled() {
    let allow = read("").allow;
    let refusal = |source: &str, destination: &str| {
        allow.refusal(source.parse().unwrap(), destination.parse().unwrap(), |address| {
            address == IpAddr::from([192, 0, 2, 9])
        })
    };
    assert_eq!(refusal("10.0.0.5", "192.0.2.1"), None);
    assert_eq!(refusal("11.0.0.5", "192.0.2.1"), Some("source is not allowed"));
    assert_eq!(refusal("10.0.0.5", "127.0.0.1"), Some("destination is local"));
    assert_eq!(refusal("10.0.0.5", "::ffff:127.0.0.1"), Some("destination is local"));
    assert_eq!(refusal("10.0.0.5", "169.254.1.1"), Some("destination is local"));
    assert_eq!(refusal("10.0.0.5", "192.0.2.9"), Some("destination is local"));
    assert_eq!(refusal("10.0.0.5", "0.0.0.0"), Some("unspecified address"));
    let told = Allow { local: true, ..allow.clone() };
    assert_eq!(told.refusal([10, 0, 0, 5].into(), [127, 0, 0, 1].into(), |_| true), None);
}

#[test]
fn a_host_with_a_network_of_ipv6_counts_once_where_more_than_that_network_is_allowed() {
    let counted = |sources: &[&str], client: &str| {
        let sources = sources.iter().map(|text| text.parse().unwrap()).collect();
        let allow = Allow { sources, destinations: Vec::new(), local: false };
        allow.counted_as(client.parse().unwrap()).to_string()
    };
    for client in ["2001:db8:5:1::7", "2001:db8:5:1:ffff::"] {
        assert_eq!(counted(&["2001:db8::/32"], client), "2001:db8:5:1::");
        assert_eq!(counted(&["::/0", "2001:db8:5:1::/64"], client), client, "one local network: each of its hosts");
    }
    assert_eq!(counted(&["10.0.0.0/8", "::/0"], "10.0.0.5"), "10.0.0.5");
    assert_eq!(counted(&["10.0.0.0/8"], "::ffff:10.0.0.5"), "10.0.0.5");
}

#[test]
fn the_reference_has_every_key_of_every_table_once() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/pep.md");
    let page = std::fs::read_to_string(path).unwrap();
    let stale = "pep.md is stale; run `cargo run -p perigee-pep --example reference -- docs/reference/pep.md`";
    assert!(reference(&page).as_deref() == Some(&*page), "{stale}");
    for section in keys::SECTIONS {
        let mark = format!("<!-- keys: {} -->", section.name);
        assert_eq!(page.matches(&mark).count(), 1, "tables of {} in the reference", section.name);
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        keys in proptest::collection::vec(
            "\\[?(allow|limits|legs\\.a|\\[rules|transparent|sources|destinations|ports|dscp|mark)\\]{0,2}( = \
             (\\[[0-9\", a-z./-]*\\]|-?[0-9]{1,20}|\"[0-9 a-zA-Z/:.]{0,12}\"))?",
            0..12,
        ),
    ) {
        let text = keys.join("\n");
        for text in [text.clone(), format!("{ALLOW}{FORWARD}{text}")] {
            if let Err(error) = Config::parse(&text, "pep.toml", 1) {
                proptest::prop_assert!(error.to_string().starts_with("pep.toml:"));
            }
        }
    }
}

#[test]
fn the_rate_of_a_shared_link_has_one_source_and_one_leg_of_a_rule() {
    let rules = "[legs.sky]\n[legs.lan]\n[[rules]]\nname = \"all\"\nclient = \"lan\"\nserver = \"sky\"\n";
    let link = |more: &str| format!("{rules}[link]\ninterface = \"sat0\"\n{more}");
    let read = read(&link("leg = \"sky\"\nmodem = \"http://192.0.2.1/rate?of=tx\"\nsend_key = \"tx.bps\""));
    let source = &read.link.unwrap().source;
    let RateSource::Http(address, path, asking) = source else { panic!("{source:?}") };
    assert_eq!((address.to_string().as_str(), path.as_str()), ("192.0.2.1:80", "/rate?of=tx"));
    assert_eq!((asking.send_key.as_deref(), asking.receive_key.as_deref()), (Some("tx.bps"), None));
    let one_source = "the rate of the link has to be known from one source";
    for (more, said) in [
        ("leg = \"sky\"", one_source),
        ("leg = \"sky\"\nsend = \"2 Mbit/s\"\nslots = \"/etc/slots\"", one_source),
        ("leg = \"sea\"\nsend = \"2 Mbit/s\"", "no rule has the leg `sea`"),
        ("leg = \"sky\"\nmodem = \"https://modem/\"", "is not a plain HTTP address"),
        ("leg = \"sky\"\nmodem = \"http://192.0.2.1:0/rate\"", "is not a plain HTTP address"),
        ("leg = \"sky\"\ncommand = [\"modem-rate\"]", "does not begin with the whole path"),
        ("leg = \"sky\"\nsend = \"2 Mbit/s\"\nfloor = \"2 Mbit/s\"\nceiling = \"1 Mbit/s\"", "above the ceiling"),
        ("leg = \"sky\"\n[[link.schedule]]\nat = \"24:00\"\nsend = \"2 Mbit/s\"", "is not a time of the day"),
    ] {
        let mistake = mistake(&link(more));
        assert!(mistake.contains(said), "{mistake}");
    }
}

/// The tables of a link, whose own keys are followed by `more`.
fn with_link(more: &str) -> String {
    let rules = "[legs.sky]\n[legs.lan]\n[[rules]]\nname = \"all\"\nclient = \"lan\"\nserver = \"sky\"\n";
    format!("{rules}[link]\nleg = \"sky\"\ninterface = \"sat0\"\n{more}")
}

#[test]
fn mistakes_of_a_link_have_their_line_and_their_fix() {
    let class = |name: &str, more: &str| {
        format!("\n[[link.subscribers]]\nname = \"{name}\"\nsources = [\"10.1.0.0/24\"]\n{more}")
    };
    let fixed = "send = \"20 Mbit/s\"\nreceive = \"2 Mbit/s\"";
    for (more, error) in [
        (
            format!("{fixed}{}", class("others", "")),
            "21: the name `others` is taken; give each of `[[link.subscribers]]` a name of its own; `others` are those \
             without a table",
        ),
        (
            format!("{fixed}{}", class("ship", "").replace("10.1", "11.1")),
            "22: `11.1.0.0/24` is not within `allow.sources`; allow it there, or remove it here",
        ),
        (
            "modem = \"http://192.0.2.1/\"\nevery = \"1 min\"".to_owned(),
            "19: with `link.every` = 60 s and `link.oldest` = 10 s an answer is too old before the next; lower \
             `every`, or raise `oldest` above it",
        ),
        (
            "send = \"2 Mbit/s\"\nsend_key = \"up\"".to_owned(),
            "19: `link.send_key` is for the answer of a modem, and none is asked; remove it, or give `command` or `modem`",
        ),
        (
            "modem = \"http://192.0.2.1/\"\nreceive_key = \"\"".to_owned(),
            "19: `link.receive_key` = `` has an empty name; write names joined by dots: `\"link.uplink_bps\"`",
        ),
        (
            "[[link.schedule]]\nat = \"06:30\"\nsend = \"2 Mbit/s\"\n[[link.schedule]]\nat = \"06:30\"\nsend = \"3 Mbit/s\""
                .to_owned(),
            "22: an entry before begins at that time; give each a time of its own",
        ),
        (
            "[[link.schedule]]\nat = \"06:30\"".to_owned(),
            "19: an entry of the schedule has neither `send` nor `receive`; add one of them",
        ),
        (
            format!("{fixed}\nfloor = \"30 Mbit/s\""),
            "20: a floor of 30 Mbit/s is above the link's rate of 20 Mbit/s; lower it",
        ),
        (
            format!("{fixed}{}{}", class("a", "floor = \"15 Mbit/s\""), class("b", "floor = \"15 Mbit/s\"")),
            "27: floors up to this one, 30 Mbit/s, are above the link's rate of 20 Mbit/s; lower them",
        ),
        (
            "send = \"1 bit/s\"".to_owned(),
            "18: `link.send` = 1 bit/s is out of range; use a value from 64 kbit/s to 400 Gbit/s",
        ),
        (
            "receive = \"500 Gbit/s\"".to_owned(),
            "18: `link.receive` = 500 Gbit/s is out of range; use a value from 64 kbit/s to 400 Gbit/s",
        ),
    ] {
        assert_eq!(mistake(&with_link(&more)), format!("pep.toml:{error}"));
    }
    // A floor above the slower direction's rate holds in the faster one.
    assert!(read(&with_link(&format!("{fixed}\nfloor = \"5 Mbit/s\""))).link.is_some());
}

#[test]
fn the_files_of_a_link_are_missed_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let check = |source: String| {
        let config = read(&with_link(&source));
        crate::link::check(&config).map_err(|error| error.to_string().replace(&*file.to_string_lossy(), "FILE"))
    };
    let sources = [format!("slots = {file:?}"), format!("command = [{file:?}]")];
    let [slots, command] = sources.each_ref().map(|source| check(source.clone()).unwrap_err());
    assert!(slots.starts_with("pep.toml:16: `link.slots` FILE: No such file"), "{slots}");
    assert!(command.starts_with("pep.toml:16: `link.command` FILE: No such file"), "{command}");
    std::fs::write(&file, "20, 5 Mbit/s\n10, 5 Mbit/s").unwrap();
    let [slots, command] = sources.each_ref().map(|source| check(source.clone()).unwrap_err());
    assert!(slots.contains("line 2: 10 is not after") && slots.contains("in the order of time"), "{slots}");
    assert!(command.contains("it is no file that can be executed; name a program"), "{command}");
}
