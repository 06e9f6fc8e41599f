//! Rules and routes of this host that do not do with intercepted connections what they do with forwarded ones, and the fix.

use std::fs;

use super::bridge::{self, Port};
use super::congestion;
use super::deployment::{lacking, of_link};
use super::finding::Finding;
use super::one_way;
use super::tools::{answer, DEVICE, TABLE, ZONE};
use crate::config::{Config, Rule, Transparent};

/// Returns what this host lacks of a configuration, and what of it is an obstacle to interception and to the shared link.
pub(crate) fn survey(config: &Config) -> Vec<Finding> {
    let unknown = congestion::unknown(config).into_iter();
    let of_interception = config.transparent.iter().flat_map(|transparent| obstacles(config, transparent));
    unknown.chain(of_interception).chain(of_link(config)).collect()
}

fn obstacles(config: &Config, transparent: &Transparent) -> Vec<Finding> {
    let ports = Port::all(transparent);
    let lacking = lacking(config, transparent, &ports);
    let transparent = &bridge::at_ip(transparent, &ports);
    let mut findings = match answer(RULESET, None) {
        Ok(text) => {
            let chains = chains(&text);
            let dropped = of_drops(&chains, config, transparent);
            of_firewall(&chains, config).into_iter().chain(dropped).chain(without_zone(&text, &chains)).collect()
        }
        Err(error) => vec![Finding {
            name: "firewall",
            found: error.to_string(),
            fix: "run this as root, and install nftables".to_owned(),
        }],
    };
    for version in ["-4", "-6"] {
        // Without IPv6 there are no rules of it.
        let rules = answer(&format!("ip {version} rule list"), None).unwrap_or_default();
        findings.extend(of_routes(&rules, version, config, transparent));
    }
    let links = answer("ip -o link show type bridge", None).unwrap_or_default();
    let is_on =
        |key: &str| fs::read_to_string(format!("/proc/sys/net/bridge/{key}")).is_ok_and(|value| value.trim() == "1");
    findings.extend(of_bridges(&links, transparent, is_on));
    findings.extend(lacking);
    findings
}

/// Paths that are passed by because answers do not pass this host.
pub(crate) fn one_ways() -> Vec<Finding> {
    let fix =
        "answers do not pass this host, and connections pass by: have them pass, or leave the path out of `[allow]`";
    let paths = one_way::one_ways().unwrap_or_default();
    paths.iter().map(|path| Finding::new("one way", path.to_string(), fix.to_owned())).collect()
}

/// Whether this host tracks connections, as far as that can be told; reading the firewall needs a right.
pub(crate) fn tracks_connections() -> bool {
    let Ok(text) = answer(RULESET, None) else { return true };
    let is_tracking =
        |rule: &String| rule.split(' ').any(|word| word == "ct") || TRACKING.iter().any(|word| rule.contains(word));
    chains(&text).iter().any(|chain| chain.kind == "nat" || chain.rules.iter().any(is_tracking)) || tracks_any()
}

/// Whether this host tracks a connection now. Tables of the older iptables, which nftables does not list, show by that.
pub(crate) fn tracks_any() -> bool {
    fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count").is_ok_and(|count| count.trim() != "0")
}

/// A chain of the firewall.
#[derive(Clone, Debug, Default)]
struct Chain {
    /// "table inet filter, chain forward".
    place: String,
    /// Type and hook of a base chain; a chain that others jump to has none.
    kind: String,
    hook: String,
    /// Whether its policy drops.
    drops: bool,
    rules: Vec<String>,
}

/// The chains that `nft` lists, without those of this service.
fn chains(text: &str) -> Vec<Chain> {
    let (mut table, mut chains) = ("", Vec::new());
    let mut open: Option<Chain> = None;
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split(' ').collect();
        match (&mut open, &*words) {
            (None, ["table", ..]) => table = line.trim_end_matches([' ', '{']),
            // A flow table is as a chain whose rules are its lines.
            (None, [kind @ ("chain" | "flowtable"), name, ..]) => {
                let kind_of_base = if *kind == "flowtable" { *kind } else { "" };
                open = Some(Chain {
                    place: format!("{table}, {kind} {name}"),
                    kind: kind_of_base.to_owned(),
                    ..Chain::default()
                });
            }
            (Some(chain), ["type", kind, "hook", hook, ..]) => {
                (chain.kind, chain.hook) = ((*kind).to_owned(), (*hook).to_owned());
                chain.drops = line.contains("policy drop");
            }
            (Some(_), ["}"]) => chains.extend(open.take()),
            (Some(chain), _) => chain.rules.push(without_comment(line).to_owned()),
            _ => {}
        }
    }
    let own = format!("table inet {TABLE},");
    chains.retain(|chain: &Chain| !chain.place.starts_with(&own));
    chains
}

/// A rule without the words of its author.
fn without_comment(rule: &str) -> &str {
    rule.split_once(" comment \"").map_or(rule, |(before, _)| before)
}

fn of_firewall(chains: &[Chain], config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |name, chain: &Chain, rule: &str, fix: String| {
        let found = if rule.is_empty() { chain.place.clone() } else { format!("{}: {rule}", chain.place) };
        findings.push(Finding { name, found, fix });
    };
    for chain in chains {
        let is_of_forward = chain.hook == "forward" || chain.hook.is_empty();
        if chain.kind == "flowtable" {
            let fix = "connections that it forwards already stay past the service until they end; leave intercepted ports out of it";
            add("flow table", chain, "", fix.to_owned());
        }
        for rule in &chain.rules {
            let has = |words: &[&str]| words.iter().any(|word| rule.contains(word));
            if is_of_forward && has(&["maxseg size set", "TCPMSS"]) && lacks_mss(config) {
                let fix = "it does not reach the legs, which are not forwarded: `mss = SIZE` in the leg over that path";
                add("segment size", chain, rule, fix.to_owned());
            }
            if config.uses_device() && has(&TRANSLATIONS) && !has(&["oif"]) {
                let fix =
                    format!("it translates first packets that wait for their server: add `oifname != \"{DEVICE}\"`");
                add("translation", chain, rule, fix);
            }
            if has(&["tproxy ", "TPROXY"]) {
                let fix = "two programs intercept: leave the ports of the other one out of `ports` in `[transparent]`";
                add("other interception", chain, rule, fix.to_owned());
            }
        }
    }
    findings
}

/// Chains that drop what they do not name, and name nothing that is intercepted: it arrives at this host, and the legs to servers are
/// sent by it. The firewall of a router often has rules for forwarded packets only.
fn of_drops(chains: &[Chain], config: &Config, transparent: &Transparent) -> Vec<Finding> {
    let device = [DEVICE.to_owned()];
    // The first packet comes through the device if it waits.
    let arrives = if config.uses_device() { &device[..] } else { &transparent.interfaces };
    let mut findings = Vec::new();
    for (hook, mark, names) in [("input", transparent.mark, arrives), ("output", transparent.own_mark(), &[])] {
        for chain in chains.iter().filter(|chain| chain.kind == "filter" && chain.hook == hook && drops_rest(chain)) {
            let (table, name) = chain.place.split_once(", chain ").unwrap_or_default();
            let version = match table.split(' ').nth(1) {
                Some("ip") => Some(false),
                Some("ip6") => Some(true),
                Some("inet") => None,
                _ => continue,
            };
            let is_of_table = |one: &&Chain| one.place.starts_with(&format!("{table}, ")) && one.kind != "flowtable";
            let reached = chains.iter().filter(is_of_table).filter(|one| one.hook == hook || one.hook.is_empty());
            let is_admitted = reached.flat_map(|one| &one.rules).any(|rule| admits(rule, mark, names));
            let is_served = |version| config.allow.sources.iter().any(|network| network.is_ipv6() == version);
            if is_admitted || !version.is_none_or(is_served) {
                continue;
            }
            let table = table.trim_start_matches("table ");
            let fix =
                format!("it drops packets of the service: nft insert rule {table} {name} meta mark {mark:#x} accept");
            findings.push(Finding { name: hook, found: chain.place.clone(), fix });
        }
    }
    findings
}

/// Whether a chain drops what its rules do not name.
fn drops_rest(chain: &Chain) -> bool {
    let is_end = |rule: &String| {
        let narrow = NARROW.iter().chain(&["iif", "oif", "ct ", "mark"]).any(|word| rule.contains(word));
        !narrow && rule.split(' ').any(|word| word == "drop" || word == "reject")
    };
    chain.drops || chain.rules.last().is_some_and(is_end)
}

/// Whether a rule accepts new connections with a mark, or all of an interface: one of `names`, or any if there are none.
fn admits(rule: &str, mark: u32, names: &[String]) -> bool {
    let words: Vec<&str> = rule.split(' ').collect();
    if words.last() != Some(&"accept") {
        return false;
    }
    if rule.contains("socket transparent 1") || words.iter().any(|word| number(word) == Some(mark)) {
        return true;
    }
    let narrow = NARROW.iter().any(|word| rule.contains(word));
    let is_named = names.is_empty() || names.iter().any(|name| rule.contains(&format!("\"{name}\"")));
    let is_of_old = rule.contains("ct state") && !rule.contains("new");
    !narrow && !is_of_old && is_named && (rule.contains("iif") || rule.contains("oif"))
}

/// A translation of sources that does not reach the legs: the service runs, and the kernel has refused it a zone.
fn without_zone(text: &str, chains: &[Chain]) -> Option<Finding> {
    let runs = text.contains(&format!("table inet {TABLE} {{"));
    if !runs || text.contains(&format!("zone set {ZONE}")) {
        return None;
    }
    let translates = |chain: &Chain| chain.rules.iter().any(|rule| TRANSLATIONS.iter().any(|word| rule.contains(word)));
    let chain = chains.iter().find(|chain| translates(chain))?;
    let fix = "the kernel has no conntrack zones for the legs to servers: `hide_clients = true` in `[transparent]`";
    Some(Finding { name: "zone", found: chain.place.clone(), fix: fix.to_owned() })
}

/// Whether a rule that may apply has legs without a segment size.
fn lacks_mss(config: &Config) -> bool {
    let last = config.rules.iter().position(|rule| rule.matches_all()).unwrap_or(config.rules.len());
    let lacks = |rule: &Rule| rule.client.mss.is_none() && rule.server.mss.is_none();
    config.rules.iter().take(last + 1).any(|rule| lacks(rule))
}

/// Policy routes by mark or arrival: the legs to servers are sent by this host, with a mark of the service.
fn of_routes(rules: &str, version: &str, config: &Config, transparent: &Transparent) -> Vec<Finding> {
    let own = [transparent.mark, transparent.own_mark(), transparent.hold_mark()];
    let is_own = |mark: &str| {
        let digits = mark.split('/').next().unwrap_or_default();
        number(digits).is_some_and(|number| own.contains(&number))
    };
    let leads_elsewhere = |words: &[&str]| {
        words.windows(2).any(|pair| match pair {
            ["fwmark", mark] => !is_own(mark),
            ["iif", name] => *name != "lo",
            _ => false,
        })
    };
    let mut findings = Vec::new();
    for rule in rules.lines() {
        let words: Vec<&str> = rule.split_whitespace().collect();
        // A rule without the mark, or with another one, holds for the service's packets too.
        if words.contains(&"not") || !leads_elsewhere(&words) {
            continue;
        }
        let Some(table) = words.windows(2).find_map(|pair| (pair[0] == "lookup").then_some(pair[1])) else { continue };
        let is_ipv6 = version == "-6";
        let source = config.allow.sources.iter().find(|network| network.is_ipv6() == is_ipv6);
        let Some(source) = source else { continue };
        let fix = if transparent.hide_clients {
            format!("legs to servers have neither: `hide_clients = false`, and ip {version} rule add from {source} lookup {table}")
        } else {
            format!(
                "legs to servers have neither mark nor interface, but the client's address: ip {version} rule \
                add from {source} lookup {table}"
            )
        };
        findings.push(Finding { name: "policy route", found: words.join(" "), fix });
    }
    findings
}

/// A decimal or hexadecimal number, as `nft` and `ip` write marks.
fn number(digits: &str) -> Option<u32> {
    digits.strip_prefix("0x").map_or_else(|| digits.parse(), |hex| u32::from_str_radix(hex, 16)).ok()
}

/// Bridges whose frames pass the rules of IP before they are routed; `links` has those of the host, as `ip` shows them.
fn of_bridges(links: &str, transparent: &Transparent, is_on: impl Fn(&str) -> bool) -> Option<Finding> {
    let mut keys = vec!["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"];
    keys.retain(|key| is_on(key));
    let key = *keys.first()?;
    let mut names = links.lines().filter_map(|line| line.split(": ").nth(1));
    let name =
        names.find(|name| transparent.interfaces.is_empty() || transparent.interfaces.iter().any(|one| one == name))?;
    let off: Vec<String> = keys.iter().map(|key| format!("net.bridge.{key}=0")).collect();
    let off = off.join(" ");
    let fix = format!("frames of a bridge lose the service's socket before they are routed: sysctl -w {off}");
    Some(Finding { name: "bridge", found: format!("{name} with net.bridge.{key} = 1"), fix })
}

/// Words of rules that translate sources; those of iptables are capitals.
const TRANSLATIONS: [&str; 4] = ["masquerade", "snat ", "MASQUERADE", "SNAT"];
/// Words of rules that hold for some packets of an interface only.
const NARROW: [&str; 8] = ["port", "addr", "icmp", "udp", "\"lo\"", "limit", "protocol", "type"];
/// Lists the rules of the firewall, without the elements of its sets.
const RULESET: &str = "nft -t list ruleset";
/// Words of rules that track connections, beside `ct` and chains for translation; those of iptables are in quotes.
const TRACKING: [&str; 4] = ["flow add", "\"conntrack\"", "\"state\"", "synproxy"];

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> Config {
        let text = format!(
            "[allow]\nsources = [\"10.0.0.0/8\"]\ndestinations = [\"0.0.0.0/0\"]\n[transparent]\nmark = 16\n{more}"
        );
        Config::parse(&text, "pep.toml", 1).unwrap()
    }

    fn found(ruleset: &str, more: &str) -> Vec<&'static str> {
        of_firewall(&chains(ruleset), &config(more)).iter().map(|finding| finding.name).collect()
    }

    #[test]
    fn rules_that_do_not_reach_the_legs_are_named() {
        let clamp = "table inet m {\n\tchain f {\n\t\ttype filter hook forward priority filter; policy accept;\n\
                     \t\ttcp flags syn tcp option maxseg size set rt mtu\n\t}\n}\n";
        assert_eq!(found(clamp, ""), ["segment size"]);
        assert_eq!(
            of_firewall(&chains(clamp), &config(""))[0].found,
            "table inet m, chain f: tcp flags syn tcp option maxseg size set rt mtu"
        );
        let legs = "[legs.a]\n[legs.b]\nmss = 1200\n[[rules]]\nname = \"all\"\nclient = \"a\"\nserver = \"b\"\n";
        assert!(found(clamp, legs).is_empty(), "both sizes are the owner's");
        assert!(found(&clamp.replace("hook forward", "hook output"), "").is_empty(), "it reaches the legs");
        assert_eq!(
            found(&clamp.replace("type filter hook forward priority filter; policy accept;", ""), ""),
            ["segment size"]
        );
        // Words of its author are no rule.
        assert!(
            found(&clamp.replace("tcp option maxseg size set rt mtu", "accept comment \"no TCPMSS\""), "").is_empty()
        );
    }

    #[test]
    fn a_chain_that_drops_what_arrives_or_is_sent_is_named_unless_it_admits_the_service() {
        let chain = |hook: &str, rules: &str| {
            format!("table inet f {{\n\tchain c {{\n\t\ttype filter hook {hook} priority filter; policy accept;\n{rules}\t}}\n}}\n")
        };
        let named = |text: &str, more: &str| -> Vec<String> {
            let config = config(&format!("interfaces = [\"lan0\"]\n{more}"));
            let findings = of_drops(&chains(text), &config, config.transparent.as_ref().unwrap());
            findings.into_iter().map(|finding| finding.fix).collect()
        };
        let old = "\t\tct state established,related accept\n\t\tiifname \"lan0\" tcp dport 22 accept\n";
        let first = "[legs.a]\n[[rules]]\nname = \"a\"\nclient = \"a\"\nserver = \"a\"\nconnect_first = true\n";
        let lan = "\t\tiifname \"lan0\" counter packets 0 bytes 0 accept\n";
        for drop in ["policy drop", "log prefix \"x\" counter packets 7 bytes 9 drop"] {
            let of = |hook: &str, rules: &str| match drop {
                "policy drop" => chain(hook, &format!("{old}{rules}")).replace("policy accept", drop),
                last => chain(hook, &format!("{old}{rules}\t\t{last}\n")),
            };
            for (hook, mark) in [("input", "0x10"), ("output", "0x11")] {
                let fixes = named(&of(hook, ""), "");
                assert_eq!(fixes.len(), 1, "{hook}, {drop}");
                assert!(fixes[0].ends_with(&format!("nft insert rule inet f c meta mark {mark} accept")), "{fixes:?}");
                let marked = format!("\t\tmeta mark 0x000000{} accept\n", &mark[2..]);
                assert!(named(&of(hook, &marked), first).is_empty(), "{hook}, {drop}");
            }
            assert!(named(&of("input", lan), "").is_empty());
            assert_eq!(named(&of("input", lan), first).len(), 1, "packets that wait come through the device");
            assert!(named(&of("output", "\t\toifname \"sat0\" ct state new accept\n"), "").is_empty());
            assert!(named(&of("input", "").replace("inet f", "ip6 f"), "").is_empty(), "no client has IPv6");
            assert!(named(&of("input", "").replace("inet f", "bridge f"), "").is_empty());
            assert!(named(&of("forward", ""), "").is_empty());
        }
        assert!(named(&chain("input", &format!("{old}\t\tct state invalid drop\n")), "").is_empty());
    }

    #[test]
    fn a_flow_table_is_named() {
        let listed = "table inet fw {\n\tflowtable fast {\n\t\thook ingress priority filter\n\t\tdevices = { lan0, sat0 }\n\t}\n\n\
                      \tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\
                      \t\tip protocol tcp flow add @fast\n\t}\n}\n";
        let findings = of_firewall(&chains(listed), &config(""));
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].name, &*findings[0].found), ("flow table", "table inet fw, flowtable fast"));
        assert!(found(&listed.replace("inet fw", "inet perigee_pep"), "").is_empty());
    }

    #[test]
    fn other_interception_and_translation_of_waiting_packets_are_named() {
        let nat = "table ip n {\n\tchain p {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\
                   \t\tip saddr 10.0.0.0/8 masquerade\n\t}\n}\n";
        let first = "[legs.a]\n[[rules]]\nname = \"a\"\nclient = \"a\"\nserver = \"a\"\nconnect_first = true\n";
        assert!(found(nat, "").is_empty());
        assert_eq!(found(nat, first), ["translation"]);
        assert!(found(&nat.replace("ip saddr", "oifname \"sat0\" ip saddr"), first).is_empty());
        let with_own = |rule: &str| {
            let text = format!("{nat}table inet perigee_pep {{\n\tchain leaving {{\n\t\t{rule}\n\t}}\n}}\n");
            without_zone(&text, &chains(&text)).map(|finding| finding.fix)
        };
        assert!(with_own("accept").unwrap().ends_with("`hide_clients = true` in `[transparent]`"));
        assert_eq!((with_own("ct zone set 7065"), without_zone(nat, &chains(nat))), (None, None));
        assert_eq!(found(&nat.replace("masquerade", "tproxy to :3128"), ""), ["other interception"]);
    }

    #[test]
    fn policy_routes_by_mark_or_interface_are_named_with_one_by_source() {
        let named = |rules: &str, more: &str| {
            let config = config(more);
            of_routes(rules, "-4", &config, config.transparent.as_ref().unwrap())
        };
        let rules = "0:\tfrom all lookup local\n7065:\tfrom all fwmark 0x10 iif lo goto 32766\n\
                     7065:\tfrom all fwmark 0x10 lookup 7065\n32764:\tnot from all fwmark 0xca6c lookup 51820\n\
                     32766:\tfrom all lookup main\n";
        assert!(named(rules, "").is_empty());
        for way in ["fwmark 0x1", "iif lan0", "fwmark 0x10000/0xff0000"] {
            let findings = named(&format!("{rules}100:\tfrom all {way} lookup vpn\n"), "");
            assert_eq!(findings.len(), 1, "{way}");
            assert!(findings[0].fix.ends_with("ip -4 rule add from 10.0.0.0/8 lookup vpn"), "{}", findings[0]);
        }
    }

    #[test]
    fn a_bridge_whose_frames_pass_the_rules_of_ip_is_named() {
        let links =
            "5: br0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default\n";
        let named = |links: &str, more: &str, value: bool| {
            of_bridges(links, config(more).transparent.as_ref().unwrap(), |key| {
                value && key == "bridge-nf-call-iptables"
            })
        };
        assert_eq!((named(links, "", false), named("", "", true)), (None, None));
        assert_eq!(named(links, "interfaces = [\"lan0\"]\n", true), None);
        for interfaces in ["", "interfaces = [\"br0\"]\n"] {
            assert!(named(links, interfaces, true).unwrap().fix.ends_with("net.bridge.bridge-nf-call-iptables=0"));
        }
    }
}
