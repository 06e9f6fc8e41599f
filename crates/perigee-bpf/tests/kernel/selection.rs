//! Choice of algorithms for sockets: for open ones, and by rules for new ones.

use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use perigee_bpf::{
    add_rule, load, remove_rules, rules, unload, Conditions, InUse, OpenSockets, Options, Program, RuleError,
    UnloadError, Which,
};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};

use crate::machine::{own_name, Machine, Namespace};
use crate::{assert_nothing_stays, objects};

/// Both ends of connections to an address; the first of each pair connected.
fn connections(address: &str, count: usize) -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((address.parse::<IpAddr>().expect("loopback has addresses and ports"), 0))
        .expect("loopback has addresses and ports");
    let to = listener.local_addr().expect("loopback has addresses and ports");
    let pair = |_| {
        (
            TcpStream::connect(to).expect("loopback has addresses and ports"),
            listener.accept().expect("loopback has addresses and ports").0,
        )
    };
    (0..count).map(pair).collect()
}

fn cc(socket: &TcpStream) -> String {
    tcp_congestion(socket).expect("it is a TCP socket")
}

/// Loads under this name, and gives it to open sockets of the namespace that the test is in.
fn load_for(machine: &mut Machine, algorithm: &str, name: &str, sockets: OpenSockets) -> perigee_bpf::Loaded {
    machine.will_unload(name);
    let program = Program::built_in(algorithm, &[]).expect("it was compiled, and root may load it");
    load(&program, Options { name: Some(name), existing: Some(sockets), ..Options::default() })
        .expect("it was compiled, and root may load it")
}

fn any() -> OpenSockets {
    OpenSockets::matching(None, None).expect("no prefix is any")
}

/// Runs a test in a network namespace of its own, where algorithms can be loaded, and asserts that it leaves nothing.
fn inside(suffix: &str, test: impl FnOnce(&mut Machine) + Send) {
    if Machine::take().is_none() {
        return;
    }
    let namespace = Namespace::new(suffix);
    namespace.enter(|| {
        let Some(mut machine) = Machine::take() else { return };
        let before = objects();
        test(&mut machine);
        drop(machine);
        assert_nothing_stays(&before);
    });
}

#[test]
fn a_thousand_open_sockets_get_the_algorithm_within_a_second_and_have_what_they_had_after_unload() {
    inside("m", |machine| {
        let pairs = connections("127.0.0.1", 500);
        let default = cc(&pairs[0].0);
        let chosen = &pairs[7].1;
        set_tcp_congestion(chosen, "reno").unwrap();
        let name = own_name("m");
        // The measured time does not include the verification of the programs.
        drop(load_for(machine, "hybla", &name, OpenSockets::matching(Some("192.0.2.0/24"), None).unwrap()));
        let started = Instant::now();
        let loaded = load_for(machine, "hybla", &name, any());
        let took = started.elapsed();
        assert_eq!((loaded.given, loaded.not_given), (1000, 0));
        assert!(pairs.iter().all(|(a, b)| cc(a) == name && cc(b) == name));
        let started = Instant::now();
        let unloaded = unload(&name, InUse::Refuse).unwrap();
        println!("1,000 sockets given in {took:?}, given back in {:?}", started.elapsed());
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!((unloaded.given_back, unloaded.sockets_left), (1000, 0));
        assert_eq!(cc(chosen), "reno");
        assert_eq!(pairs.iter().filter(|(a, b)| cc(a) == default && cc(b) == default).count(), 499);
    });
}

#[test]
fn open_sockets_are_chosen_by_peer_and_port_and_another_version_takes_the_place_of_the_earlier() {
    inside("f", |machine| {
        let (near, far) = (connections("127.0.0.1", 2), connections("127.8.8.8", 3));
        let v6 = connections("::1", 1);
        let name = own_name("f");
        let to_far = OpenSockets::matching(Some("127.8.0.0/16"), None).unwrap();
        assert_eq!(load_for(machine, "hybla", &name, to_far).given, 3);
        assert!(far.iter().all(|(a, b)| cc(a) == name && cc(b) != name) && near.iter().all(|(a, _)| cc(a) != name));
        let port = near[0].0.peer_addr().unwrap().port();
        // Those with the earlier version that are not meant keep it.
        let again = load_for(machine, "hybla", &name, OpenSockets::matching(None, Some(port)).unwrap());
        assert_eq!((again.given, again.sockets_on_earlier), (4, 3));
        assert!(near.iter().all(|(a, b)| cc(a) == name && cc(b) == name));
        assert_eq!(load_for(machine, "hybla", &name, to_far).given, 3);
        assert_eq!(load_for(machine, "hybla", &name, OpenSockets::matching(Some("::1"), None).unwrap()).given, 2);
        assert_eq!(load_for(machine, "hybla", &name, any()).given, 12);
        // An algorithm that a program chose itself has a user.
        set_tcp_congestion(&v6[0].0, "reno").unwrap();
        set_tcp_congestion(&v6[0].0, &name).unwrap();
        set_tcp_congestion(&far[0].1, "reno").unwrap();
        let unloaded = unload(&name, InUse::Leave).unwrap();
        assert_eq!(unloaded.given_back + unloaded.sockets_left, 11);
        assert_eq!(cc(&far[0].1), "reno");
    });
}

#[test]
fn a_socket_that_a_program_chose_for_stands_in_the_way_of_unloading_and_one_that_was_given_it_does_not() {
    inside("u", |machine| {
        let name = own_name("u");
        machine.load("hybla", &[], "u");
        let (own, given) = (connections("127.0.0.1", 1), connections("127.8.8.8", 1));
        set_tcp_congestion(&own[0].0, &name).unwrap();
        load_for(machine, "hybla", &name, OpenSockets::matching(Some("127.8.0.0/16"), None).unwrap());
        let Err(UnloadError::InUse { sockets, .. }) = unload(&name, InUse::Refuse) else { panic!("not refused") };
        assert_eq!((sockets.len(), &*sockets[0].local), (1, &*own[0].0.local_addr().unwrap().to_string()));
        assert_eq!(cc(&given[0].0), name, "a refusal changes nothing");
        drop(own);
        assert_eq!(unload(&name, InUse::Wait(Duration::from_secs(10))).unwrap().given_back, 1);
        assert_ne!(cc(&given[0].0), name);
    });
}

#[test]
fn given_twice_a_socket_goes_back_to_what_it_had_first() {
    inside("t", |machine| {
        let pair = connections("127.0.0.1", 1);
        set_tcp_congestion(&pair[0].0, "reno").unwrap();
        let (first, second) = (own_name("t1"), own_name("t2"));
        load_for(machine, "hybla", &first, any());
        load_for(machine, "vegas", &second, any());
        assert_eq!(unload(&first, InUse::Refuse).unwrap().given_back, 0);
        assert_eq!(unload(&second, InUse::Refuse).unwrap().given_back, 2);
        assert_eq!(cc(&pair[0].0), "reno");
    });
}

/// The algorithm of both ends of a new connection to an address.
fn chosen(address: &str) -> (String, String) {
    let pair = connections(address, 1);
    (cc(&pair[0].0), cc(&pair[0].1))
}

#[test]
fn rules_choose_by_the_longest_prefix_and_by_interface_and_end_with_their_algorithm() {
    inside("r", |machine| {
        let (hybla, vegas) = (machine.load("hybla", &[], "h").name, machine.load("vegas", &[], "v").name);
        let default = chosen("127.0.0.1").0;
        let to = |to| Conditions { to: Some(to), ..Conditions::default() };
        let over = |interface| Conditions { interface: Some(interface), ..Conditions::default() };
        assert_eq!(add_rule(&hybla, to("127.8.0.0/16")).unwrap().number, 1);
        assert_eq!(chosen("127.8.0.1"), (hybla.clone(), default.clone()), "the other end's peer is 127.0.0.1");
        assert_eq!(add_rule(&vegas, to("127.8.8.0/24")).unwrap().number, 2);
        assert_eq!((chosen("127.8.8.8").0, chosen("127.8.7.8").0), (vegas.clone(), hybla.clone()));
        assert_eq!(chosen("127.9.0.1").0, default);
        // Accepted connections too.
        add_rule("reno", to("127.0.0.1")).unwrap();
        assert_eq!(chosen("127.8.0.1"), (hybla.clone(), "reno".to_owned()));
        remove_rules(Which::Number(3)).unwrap();
        add_rule("reno", to("::1")).unwrap();
        assert_eq!(chosen("::1"), ("reno".to_owned(), "reno".to_owned()));
        let absent = add_rule(&vegas, over("wan0")).unwrap().absent;
        assert_eq!(absent, ["interface wan0"]);
        assert_eq!(chosen("127.9.0.1").0, default);
        assert_eq!(add_rule(&vegas, over("lo")).unwrap().absent, [""; 0]);
        assert_eq!((chosen("127.9.0.1").0, chosen("127.8.7.8").0), (vegas.clone(), hybla.clone()));
        let same = add_rule("reno", to("127.8.8.0/24")).unwrap();
        assert_eq!((same.number, same.replaced), (2, Some(vegas.clone())));
        let listed = rules().unwrap();
        let shown: Vec<_> = listed.iter().map(|rule| (rule.number, rule.cc.as_str(), rule.to.as_deref())).collect();
        let names =
            [(1, &*hybla, Some("127.8.0.0/16")), (2, "reno", Some("127.8.8.0/24")), (3, "reno", Some("::1/128"))];
        assert_eq!(shown[..3], names);
        assert_eq!((listed[3].interface.as_deref(), listed[3].namespace.as_deref()), (Some("wan0"), Some("")));
        assert_eq!(listed[0].connections, 4, "{listed:?}");
        // A program's own choice stands.
        let listener = TcpListener::bind("127.8.0.1:0").unwrap();
        set_tcp_congestion(&listener, "reno").unwrap();
        let pair = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!((cc(&pair), cc(&listener.accept().unwrap().0)), (hybla.clone(), "reno".to_owned()));
        let gone = unload(&hybla, InUse::Refuse).unwrap();
        assert_eq!((gone.given_back, gone.rules.len()), (1, 1));
        assert_eq!(cc(&pair), default);
        assert_eq!(chosen("127.8.7.8").0, vegas, "the rule of the interface is left");
        assert_eq!(remove_rules(Which::All).unwrap().len(), 4);
        assert_eq!((chosen("127.8.8.8").0, rules().unwrap()), (default, vec![]));
    });
}

#[test]
fn a_rule_over_an_interface_is_its_namespaces_own() {
    inside("o", |machine| {
        let vegas = machine.load("vegas", &[], "v").name;
        add_rule(&vegas, Conditions { interface: Some("lo"), ..Conditions::default() }).unwrap();
        let other = Namespace::new("o2");
        assert_eq!(chosen("127.0.0.1").0, vegas);
        assert_ne!(other.enter(|| chosen("127.0.0.1").0), vegas);
        let seen = other.enter(|| rules().unwrap());
        assert_eq!(seen[0].namespace.as_deref(), Some(&*format!("perigee-{}", own_name("o"))));
    });
}

/// A cgroup that this process can enter; it leaves it when it is dropped.
struct Cgroup {
    folder: PathBuf,
    root: PathBuf,
    home: PathBuf,
}

impl Cgroup {
    /// `None`, after a line with the reason, where there are no cgroups.
    fn new(below: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").expect("root may make cgroups");
        let found = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
        let Some(root) = found.and_then(|line| line.split(' ').nth(1)).map(PathBuf::from) else {
            println!("skipped: no cgroup2 is mounted");
            return None;
        };
        let folder = root.join(own_name("g")).join(below);
        std::fs::create_dir_all(&folder).expect("root may make cgroups");
        let own = std::fs::read_to_string("/proc/self/cgroup").expect("root may make cgroups");
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).expect("root may make cgroups");
        Some(Self { home: root.join(own), folder, root })
    }

    fn enter(&self) {
        std::fs::write(self.folder.join("cgroup.procs"), std::process::id().to_string())
            .expect("root may make cgroups");
    }

    fn leave(&self) {
        std::fs::write(self.home.join("cgroup.procs"), std::process::id().to_string()).expect("root may make cgroups");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.leave();
        let mut folder = self.folder.clone();
        while folder != self.root && std::fs::remove_dir(&folder).is_ok() {
            folder.pop();
        }
    }
}

#[test]
fn the_rules_of_the_deepest_cgroup_decide_also_after_it_was_made_again() {
    inside("g", |machine| {
        let (hybla, vegas) = (machine.load("hybla", &[], "h").name, machine.load("vegas", &[], "v").name);
        let Some(service) = Cgroup::new("all.slice/one.service") else { return };
        let (outer, inner) = (own_name("g"), format!("{}/all.slice/one.service", own_name("g")));
        let of = |cgroup| Conditions { cgroup: Some(cgroup), ..Conditions::default() };
        add_rule(&hybla, of(&outer)).unwrap();
        add_rule("reno", Conditions { to: Some("127.0.0.0/8"), ..Conditions::default() }).unwrap();
        assert_eq!(chosen("127.0.0.1").0, "reno", "not yet in the cgroup");
        service.enter();
        assert_eq!(chosen("127.0.0.1").0, hybla);
        add_rule(&vegas, of(&inner)).unwrap();
        let folder = service.folder.to_str().unwrap().to_owned();
        add_rule("reno", Conditions { to: Some("127.8.0.0/16"), ..of(&folder) }).unwrap();
        assert_eq!((chosen("127.0.0.1").0, chosen("127.8.0.1").0), (vegas.clone(), "reno".to_owned()));
        drop(service);
        assert_eq!(chosen("127.0.0.1").0, "reno");
        let again = Cgroup::new("all.slice/one.service").unwrap();
        again.enter();
        assert_eq!(chosen("127.0.0.1").0, vegas);
        again.leave();
        let absent = add_rule(&vegas, of("perigee-none.slice")).unwrap().absent;
        assert_eq!(absent, ["cgroup /perigee-none.slice"]);
        remove_rules(Which::All).unwrap();
    });
}

#[test]
fn a_rule_for_what_the_kernel_does_not_have_is_refused_and_a_number_that_no_rule_has() {
    let Some(_machine) = Machine::take() else { return };
    let error = add_rule("hyblaa", Conditions { to: Some("10.0.0.0/8"), ..Conditions::default() }).unwrap_err();
    assert!(matches!(&error, RuleError::UnknownAlgorithm { known, .. } if known.contains("reno")), "{error}");
    let error = remove_rules(Which::Number(9)).unwrap_err();
    assert!(error.is_wrong_input() && error.to_string() == "there is no rule 9; there are none", "{error}");
}
