//! Interception: firewall rules and policy routes that give forwarded connections to the service.
//!
//! The network namespace has one nftables table for it, `perigee_pep`. The first packet of a connection is given to the listening
//! socket (TPROXY); later packets are matched by their sockets. Connections that were open before are left alone, and
//! without a listening socket the rule does not match: connections then bypass the service. The host's own translation of
//! destinations comes before.
//!
//! The server's leg has the addresses and ports of the client's leg. Where the host tracks connections, a zone of its own keeps the two
//! apart, so that the host's rules for connections and translation apply to each. Its replies are found by their socket, unless
//! the host translates its source: then only its own direction is in the zone, and a reply is found by its translated address.
//! Interfaces whose packets are translated are learned from the first packet, which is dropped before it is tracked; it is
//! sent again a second later.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use perigee_units::Time;

use super::at_end::AtEnd;
use super::bridge::{self, Port};
use super::clock::monotonic;
use super::finding::Finding;
use super::matches::{names, port_set, set};
use super::one_way::{self, Paths};
use super::routes::{has_ipv6, Routes};
use super::survey::{tracks_any, tracks_connections};
use super::tools::{answer, change, execute, DEVICE, TABLE, ZONE};
use super::watch::Watch;
use crate::config::{Config, Network, Rule, Transparent};
use crate::shared::log::Log;

/// Installed rules, which are removed when this is dropped or a thread panics, unless they are another process's.
#[derive(Debug)]
pub(crate) struct Interception {
    routes: Routes,
    content: Content,
    /// Interfaces of clients that are ports of bridges.
    ports: Vec<Port>,
    /// Whether the kernel has zones.
    has_zones: bool,
    /// Their removal, if they are this process's.
    removal: Option<AtEnd>,
    /// Those whose answers do not pass.
    pub(crate) paths: Paths,
    lost: Lost,
}

/// Removals by other programs.
#[derive(Debug, Default)]
struct Lost {
    /// Tells of it.
    watch: Option<Watch>,
    /// Whether it has, since the last look at what is there, and when the next one may be.
    is_told: bool,
    look_next: Time,
    /// Missing until it is put back.
    missing: Missing,
}

/// How much is missing of each kind: tables, pairs of policy rules, routes.
pub(crate) type Missing = [u64; 3];

/// The rules of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// Whether new connections are given to the service, beside the open ones.
    with_new: bool,
    /// Whether the legs to servers have a zone of their own.
    with_zone: bool,
    /// Whether paths are found whose answers do not pass, unless servers see this host's address.
    with_paths: bool,
}

impl Interception {
    /// Installs rules; replaces those that an earlier service left.
    pub(crate) fn new(config: &Config, transparent: &Transparent, log: &Log) -> io::Result<Self> {
        let routes = Routes::of(transparent);
        // Before there is anything to remove.
        let lost = Lost { watch: routes.watch(log), ..Lost::default() };
        routes.remove();
        let ports = Port::all(transparent);
        let removal = Some(AtEnd::new(move || remove(routes)));
        let content = put(config, transparent, &ports)?;
        if !content.with_paths {
            log.line("nftables does not know the rules that find one-way paths: these are not passed by".to_owned());
        }
        let paths = Paths::default();
        let mut interception = Self { routes, content, ports, has_zones: true, removal, paths, lost };
        if tracks_connections() {
            interception.separate(config, transparent, log);
        }
        Ok(interception)
    }

    /// Replaces the rules of an older process, whose port, mark and table are the same and which goes on with its connections, at
    /// once; `there` are its routes. They are that process's until [`Interception::own`].
    pub(crate) fn take_over(
        config: &Config,
        transparent: &Transparent,
        with_zone: bool,
        there: &[String],
        log: &Log,
    ) -> io::Result<Self> {
        let content = Content { with_new: true, with_zone, with_paths: true };
        let (routes, ports) = (Routes::of(transparent), Port::all(transparent));
        let lost = Lost { watch: routes.watch(log), ..Lost::default() };
        let paths = Paths::default();
        let mut interception = Self { routes, content, ports, has_zones: true, removal: None, paths, lost };
        // Nobody accepts clients meanwhile: no program is started in vain.
        add_missing(interception.routes.all_additions(config).into_iter().filter(|line| !there.contains(line)))?;
        // Chains of another version may differ in what cannot be changed; then the set is learned again.
        if interception.change(config, transparent, content).is_err() {
            interception.content = replace(config, transparent, content, &interception.ports)?;
        }
        Ok(interception)
    }

    /// Makes the rules those of this process, which removes them at its end.
    pub(crate) fn own(&mut self) {
        let routes = self.routes;
        self.removal.get_or_insert_with(|| AtEnd::new(move || remove(routes)));
        if self.ports.is_empty() {
            // An earlier service may have left it.
            let _ = bridge::remove();
        }
    }

    /// Leaves the rules to another process.
    pub(crate) fn leave(self) {
        self.removal.into_iter().for_each(AtEnd::leave);
    }

    /// Whether paths are found whose answers do not pass.
    pub(crate) fn finds_paths(&self, transparent: &Transparent) -> bool {
        self.content.with_paths && !transparent.hide_clients
    }

    /// Whether the legs to servers have a zone of their own.
    pub(crate) fn has_zone(&self) -> bool {
        self.content.with_zone
    }

    /// Replaces the rules after a change of the configuration, whose port, mark and table are the same, and adds routes that are missing.
    pub(crate) fn update(&mut self, config: &Config, transparent: &Transparent) -> io::Result<()> {
        self.routes.remove_incomplete(config);
        add_missing(routes(config, transparent))?;
        let before = std::mem::replace(&mut self.ports, Port::all(transparent));
        self.change(config, transparent, Content { with_new: true, ..self.content })?;
        if self.ports.is_empty() && !before.is_empty() {
            bridge::remove()?;
        }
        self.lost.missing = Missing::default();
        Ok(())
    }

    /// Finds what another program has removed, and [`Interception::update`] puts back.
    pub(crate) fn missing(&mut self, config: &Config, now: Time) -> Missing {
        let lost = &mut self.lost;
        // The service's own removals are seen too, and removals are guessed if there were too many messages.
        lost.is_told |= lost.watch.as_ref().is_some_and(Watch::sees_removal);
        if lost.is_told && now >= lost.look_next {
            (lost.is_told, lost.look_next) = (false, now + LOOK);
            lost.missing = missing(config, self.routes, &self.ports);
        }
        lost.missing
    }

    /// Lets new connections bypass the service, and keeps open ones.
    pub(crate) fn drain(&mut self, config: &Config, transparent: &Transparent) -> io::Result<()> {
        self.change(config, transparent, Content { with_new: false, ..self.content })
    }

    /// Gives the legs to servers a zone of their own once the host tracks connections: its firewall may start later than the service.
    pub(crate) fn follow(&mut self, config: &Config, transparent: &Transparent, log: &Log) {
        if !self.content.with_zone && self.has_zones && tracks_any() {
            self.separate(config, transparent, log);
        }
    }

    fn separate(&mut self, config: &Config, transparent: &Transparent, log: &Log) {
        let separated = self.change(config, transparent, Content { with_zone: true, ..self.content });
        if let Err(error) = separated {
            self.has_zones = false;
            log.line(format!(
                "interception without zones: {error}; if this host translates addresses, set `hide_clients = true` in `[transparent]`"
            ));
        }
    }

    fn change(&mut self, config: &Config, transparent: &Transparent, content: Content) -> io::Result<()> {
        let table = table(config, transparent, content, &self.ports);
        let known = if self.finds_paths(transparent) { self.paths.again(monotonic()) } else { String::new() };
        change("nft -f -", Some(&format!("{CLEARED}{table}{known}")))?;
        self.content = content;
        Ok(())
    }
}

/// Rules and routes of a running service that other programs have removed.
pub(crate) fn removed(config: &Config) -> Option<Finding> {
    let transparent = config.transparent.as_ref()?;
    // A service without the device accepts clients first.
    let is_accepting_first = config.uses_device() && answer(&format!("ip link show dev {DEVICE}"), None).is_err();
    let config = if is_accepting_first { &config.clone().accepting_first() } else { config };
    let [tables, rules, routes] = missing(config, Routes::of(transparent), &Port::all(transparent));
    let fix = "new connections pass by, or fail if the table is there: have the other program that removes them leave them alone; \
               the service puts them back, at last every 10 s, and its log says since when";
    let found = format!("{tables} tables, {rules} pairs of policy rules and {routes} routes are missing");
    (tables + rules + routes > 0).then(|| Finding::new("interception", found, fix.to_owned()))
}

fn missing(config: &Config, routes: Routes, ports: &[Port]) -> Missing {
    // If they cannot be read, nothing is known.
    let there = answer("nft list tables", None).ok();
    let lacks = |family: &str| {
        let own = format!("table {family} {TABLE}");
        there.as_ref().is_some_and(|text| text.lines().all(|line| line.trim() != own))
    };
    let tables = [lacks("inet"), !ports.is_empty() && lacks("bridge")];
    let (rules, routes) = (routes.incomplete(config).len(), routes.empty(config));
    [tables.map(u64::from).iter().sum(), rules as u64, routes as u64]
}

/// Commands that add the routes of a configuration.
pub(crate) fn routes(config: &Config, transparent: &Transparent) -> Vec<String> {
    Routes::of(transparent).all_additions(config)
}

/// Adds routes, of which some may be there.
fn add_missing(lines: impl IntoIterator<Item = String>) -> io::Result<()> {
    for line in lines {
        match change(&line, None) {
            Err(error) if error.to_string().contains("File exists") => {}
            done => done?,
        }
    }
    Ok(())
}

/// Installs rules and routes in a network namespace that has none of them.
pub(crate) fn put(config: &Config, transparent: &Transparent, ports: &[Port]) -> io::Result<Content> {
    for line in Routes::of(transparent).all_additions(config) {
        change(&line, None)?;
    }
    let content = Content { with_new: true, with_zone: false, with_paths: true };
    replace(config, transparent, content, ports)
}

/// Replaces whatever table there is; without what older versions of nftables do not know, if that is refused. Returns what it has.
fn replace(config: &Config, transparent: &Transparent, content: Content, ports: &[Port]) -> io::Result<Content> {
    let put = |content| {
        let table = table(config, transparent, content, ports);
        change("nft -f -", Some(&format!("{REPLACED}{table}"))).map(|()| content)
    };
    put(content).or_else(|_| put(Content { with_paths: false, ..content }))
}

/// Removes rules and routes.
fn remove(routes: Routes) {
    // Rules without a service do not match; leftovers are replaced at the next start.
    let _ = execute(&format!("nft delete table inet {TABLE}"), None);
    let _ = bridge::remove();
    routes.remove();
}

/// Rules and routes as a script for an administrator; `None` if the service intercepts nothing.
pub(crate) fn script(config: &Config) -> Option<String> {
    let transparent = config.transparent.as_ref()?;
    let routes = Routes::of(transparent).all_additions(config).join("\n");
    let content = Content { with_new: true, with_zone: tracks_connections(), with_paths: true };
    let table = table(config, transparent, content, &Port::all(transparent));
    Some(format!("{routes}\nnft -f - <<'END'\n{REPLACED}{table}END\n"))
}

/// The addresses of the sockets that intercepted connections are given to.
pub(crate) fn listening_addresses() -> Vec<IpAddr> {
    let all = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
    all.into_iter().filter(|address| address.is_ipv4() || has_ipv6()).collect()
}

/// The table, and that of bridges.
fn table(config: &Config, transparent: &Transparent, content: Content, ports: &[Port]) -> String {
    let of_bridges = bridge::table(config, transparent, ports);
    let content = Content { with_paths: content.with_paths && !transparent.hide_clients, ..content };
    let transparent = &bridge::at_ip(transparent, ports);
    let zone = if content.with_zone { zone(transparent.own_mark(), config.uses_device()) } else { String::new() };
    let sets = if content.with_paths { one_way::sets() } else { String::new() };
    let prerouting = prerouting(config, transparent, content);
    format!("table inet {TABLE} {{\n{sets}{zone}{prerouting}}}\n{of_bridges}")
}

/// The chains that give the legs to servers their zone.
fn zone(own: u32, uses_device: bool) -> String {
    // The client's first packet passes twice, the second time with the destination that the host may have translated it to.
    let once = format!("\t\tiifname \"{DEVICE}\" tcp flags & (fin | syn | rst | ack) == syn notrack\n");
    let once = if uses_device { once } else { String::new() };
    format!(
        "\tset translated {{\n\t\ttype nf_proto . iface_index\n\t\tflags dynamic,timeout\n\t\ttimeout 1d\n\t\tsize 1024\n\t}}\n\
         \tchain arriving {{\n\t\ttype filter hook prerouting priority raw; policy accept;\n{once}\
         \t\tmeta l4proto {{ tcp, icmp, icmpv6 }} socket transparent 1 socket mark {own} ct zone set {ZONE}\n\t}}\n\
         \tchain leaving {{\n\t\ttype filter hook output priority raw; policy accept;\n\
         \t\tmeta mark != {own} return\n\t\tfib saddr type local return\n\
         \t\tmeta nfproto . meta oif @translated ct original zone set {ZONE} return\n\t\tct zone set {ZONE}\n\t}}\n\
         \tchain learning {{\n\t\ttype filter hook postrouting priority srcnat + 10; policy accept;\n\
         \t\tmeta mark != {own} return\n\t\ttcp flags & (fin | syn | rst | ack) != syn return\n\
         \t\tct zone != {ZONE} return\n\t\tct status & snat == 0 return\n\
         \t\tmeta nfproto . meta oif @translated return\n\
         \t\tadd @translated {{ meta nfproto . meta oif }} drop\n\t}}\n"
    )
}

/// The chain that gives packets to the service; without `with_new` only those of open connections.
fn prerouting(config: &Config, transparent: &Transparent, content: Content) -> String {
    let (mark, own) = (transparent.mark, transparent.own_mark());
    // A listening socket for all addresses, which the next rule would find, is another program's: its port is not meant for it alone.
    let mut out = format!(
        "\tchain prerouting {{\n\
         \t\ttype filter hook prerouting priority dstnat + 10; policy accept;\n\
         \t\tmeta mark {own} return comment \"sent by the service\"\n\
         "
    );
    for later in ["tcp flags & (fin | syn | rst | ack) != syn", "meta l4proto { icmp, icmpv6 }"] {
        let _ = write!(
            out,
            "\t\t{later} socket transparent 1 socket wildcard 1 return comment \"of another program\"\n\
             \t\t{later} socket transparent 1 meta mark set {mark} accept comment \"open\"\n"
        );
    }
    let families: Vec<(IpAddr, String)> = listening_addresses()
        .into_iter()
        .map(|address| {
            let at = SocketAddr::new(address, transparent.port);
            let version = if address.is_ipv6() { "ip6" } else { "ip" };
            (address, format!("meta l4proto tcp tproxy {version} to {at} meta mark set {mark} accept"))
        })
        .collect();
    if content.with_paths {
        out.push_str(&one_way::observed());
    }
    out.push_str("\t\ttcp flags & (fin | syn | rst | ack) != syn return\n");
    if config.uses_device() {
        for (address, tproxy) in &families {
            let _ = writeln!(
                out,
                "\t\tmeta nfproto {} iifname \"{DEVICE}\" {tproxy} comment \"answered\"",
                family(*address)
            );
        }
    }
    if content.with_new {
        out.push_str("\t\tfib daddr type { local, broadcast, multicast, anycast } return\n");
        if content.with_paths {
            out.push_str(&one_way::passed());
        }
        for (address, tproxy) in &families {
            let is_ipv6 = address.is_ipv6();
            let version = if is_ipv6 { "ip6" } else { "ip" };
            let sources = set(&format!("{version} saddr"), &config.allow.sources, is_ipv6);
            let destinations = set(&format!("{version} daddr"), &config.allow.destinations, is_ipv6);
            // No network of this version is allowed.
            let (Some(sources), Some(destinations)) = (sources, destinations) else { continue };
            let (interfaces, ports) = (names(&transparent.interfaces), port_set(&transparent.ports));
            let all = format!("meta nfproto {} {interfaces}{sources}{destinations}{ports}", family(*address));
            let hold = format!("meta l4proto tcp meta mark set {} accept", transparent.hold_mark());
            if transparent.through_forward {
                let _ = writeln!(out, "\t\t{all}{hold} comment \"through forward\"");
                continue;
            }
            // Rules in order, up to the last one whose clients wait.
            let last = config.rules.iter().rposition(|rule| rule.connects_first);
            for rule in config.rules.iter().take(last.map_or(0, |last| last + 1)) {
                if let Some(own) = matches(rule, is_ipv6) {
                    let verdict = if rule.connects_first { &hold } else { tproxy };
                    let _ = writeln!(out, "\t\t{all}{own}{verdict} comment \"rule {}\"", rule.name);
                }
            }
            let _ = writeln!(out, "\t\t{all}{tproxy}");
        }
    }
    out.push_str("\t}\n");
    out
}

/// Name of an address family for nftables.
fn family(address: IpAddr) -> &'static str {
    if address.is_ipv6() {
        "ipv6"
    } else {
        "ipv4"
    }
}

/// The match of a rule for one IP version; `None` if it matches nothing.
fn matches(rule: &Rule, is_ipv6: bool) -> Option<String> {
    let version = if is_ipv6 { "ip6" } else { "ip" };
    let networks = |what: &str, networks: &[Network]| {
        if networks.is_empty() {
            Some(String::new())
        } else {
            set(&format!("{version} {what}"), networks, is_ipv6)
        }
    };
    let (sources, destinations) = (networks("saddr", &rule.sources)?, networks("daddr", &rule.destinations)?);
    let points: Vec<String> = rule.dscp.iter().map(u8::to_string).collect();
    let dscp = if points.is_empty() { String::new() } else { format!("{version} dscp {{ {} }} ", points.join(", ")) };
    Some(format!("{}{sources}{destinations}{}{dscp}", names(&rule.interfaces), port_set(&rule.ports)))
}

/// Pause between two looks at what is there.
const LOOK: Time = Time::from_secs(1);
/// Replaces an old table, of whichever version.
const REPLACED: &str = "table inet perigee_pep\ndelete table inet perigee_pep\n";
/// Empties the chains of this service's own table, whose set keeps what it has learned.
const CLEARED: &str = "table inet perigee_pep\nflush table inet perigee_pep\n";
#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::host::at_end::end_by_panic;

    const ALL: Content = Content { with_new: true, with_zone: false, with_paths: true };
    const OLD: Content = Content { with_new: false, ..ALL };

    #[test]
    fn rules_intercept_what_is_allowed_and_nothing_else() {
        let text = "[allow]\nsources = [\"10.0.0.0/8\", \"10.1.0.0/16\"]\ndestinations = [\"0.0.0.0/0\"]\n\
                    [transparent]\ninterfaces = [\"lan0\"]\nports = [443, 80, \"81-90\"]\nmark = 5\nport = 3000\n";
        let config = Config::parse(text, "pep.toml", 1).unwrap();
        let rules = prerouting(&config, config.transparent.as_ref().unwrap(), ALL);
        let tproxy: Vec<&str> = rules.lines().filter(|line| line.contains("tproxy")).collect();
        assert_eq!(
            tproxy,
            ["\t\tmeta nfproto ipv4 iifname { \"lan0\" } ip saddr { 10.0.0.0/8 } tcp dport { 80-90, 443 } meta l4proto \
              tcp tproxy ip to 127.0.0.1:3000 meta mark set 5 accept"]
        );
        assert!(rules.contains("meta mark 6 return"));
        let drained = prerouting(&config, config.transparent.as_ref().unwrap(), OLD);
        assert!(!drained.contains("tproxy") && drained.contains("socket transparent 1"));
    }

    /// Intercepts, puts back what is removed as the service does, and panics in another thread.
    fn put_back_and_panic() {
        end_by_panic();
        execute("ip link set lo up", None).unwrap();
        let text = "[allow]\nsources = [\"10.0.0.0/8\"]\ndestinations = [\"0.0.0.0/0\"]\n[transparent]\n";
        let config = Config::parse(text, "pep.toml", 1).unwrap();
        let transparent = config.transparent.as_ref().unwrap();
        let mut interception = Interception::new(&config, transparent, &Log::new(Arc::default()).0).unwrap();
        execute("ip -4 rule delete lookup 7065", None).unwrap();
        assert_eq!(interception.missing(&config, Time::from_secs(1)), [0, 1, 0]);
        interception.update(&config, transparent).unwrap();
        let now = interception.missing(&config, Time::from_secs(2));
        assert_eq!(now, Missing::default(), "it answers neither itself nor what is in order");
        let _ended = thread::Builder::new().spawn(|| panic!("it is broken")).unwrap();
        loop {
            if interception.missing(&config, Time::MAX) != Missing::default() {
                interception.update(&config, transparent).unwrap();
            }
        }
    }

    #[test]
    fn after_a_panic_nothing_is_put_back() {
        if env::var_os(ALONE).is_some() {
            return put_back_and_panic();
        }
        let own = env::current_exe().unwrap().display().to_string();
        let line =
            format!("{ALONE}=1 {own} nothing_is_put_back --nocapture; echo code $?; nft list tables; ip rule list");
        let output = Command::new("unshare").args(["--net", "sh", "-c", &line]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        if !said.contains("code") {
            return; // Without the right to make a network.
        }
        let all = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("code 1") && all.contains("it is broken"), "{all}");
        let (_, after) = said.split_once("code 1").unwrap();
        assert!(!after.contains("perigee_pep") && !after.contains("0x706570"), "{all}");
    }

    /// Tells a child of the test that its network is its own.
    const ALONE: &str = "PERIGEE_PEP_TEST_ALONE";

    #[test]
    fn clients_of_some_rules_wait_and_the_order_of_the_rules_decides() {
        let text = "[allow]\nsources = [\"10.0.0.0/8\"]\ndestinations = [\"0.0.0.0/0\"]\n[transparent]\nmark = 5\nport = 3000\n\
                    [legs.a]\n[[rules]]\nname = \"ssh\"\nports = [22]\ninterfaces = [\"lan0\"]\nclient = \"a\"\nserver = \"a\"\n\
                    [[rules]]\nname = \"voice\"\ndscp = [46]\nconnect_first = true\nclient = \"a\"\nserver = \"a\"\n";
        let config = Config::parse(text, "pep.toml", 1).unwrap();
        let transparent = config.transparent.as_ref().unwrap();
        let rules = prerouting(&config, transparent, ALL);
        let of_rules: Vec<&str> = rules.lines().filter(|line| line.contains("comment \"rule")).collect();
        let all = "\t\tmeta nfproto ipv4 ip saddr { 10.0.0.0/8 } ";
        assert_eq!(
            of_rules,
            [
                format!(
                    "{all}iifname {{ \"lan0\" }} tcp dport {{ 22 }} meta l4proto tcp tproxy ip to 127.0.0.1:3000 \
                     meta mark set 5 accept comment \"rule ssh\""
                ),
                format!("{all}ip dscp {{ 46 }} meta l4proto tcp meta mark set 7 accept comment \"rule voice\""),
            ]
        );
        // The host's firewall decides on the first packet of each connection.
        let forwarded = Config::parse(
            &text
                .replace("mark = 5", "through_forward = true\nmark = 5")
                .replace("interfaces = [\"lan0\"]\nclient", "client"),
            "pep.toml",
            1,
        )
        .unwrap();
        let through = prerouting(&forwarded, forwarded.transparent.as_ref().unwrap(), ALL);
        let new: Vec<&str> = through.lines().filter(|line| line.contains("10.0.0.0/8")).collect();
        assert_eq!(new, [format!("{all}meta l4proto tcp meta mark set 7 accept comment \"through forward\"")]);
        assert!(through.contains("iifname \"perigee_pep\" meta l4proto tcp tproxy"));
        // Clients whose server answered are accepted, while new connections bypass the service.
        assert!(prerouting(&config, transparent, OLD).contains("iifname \"perigee_pep\" meta l4proto tcp tproxy"));
        let without = config.clone().accepting_first();
        assert!(!prerouting(&without, transparent, ALL).contains("perigee_pep\" meta"));
        assert!(script(&config).unwrap().contains("default dev perigee_pep table 7066"));
    }
}
