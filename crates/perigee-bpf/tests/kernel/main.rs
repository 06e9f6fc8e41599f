//! Loading and unloading on the running kernel, without effect on other connections.
//!
//! Needs root and a kernel with `struct_ops`; says `skipped:` elsewhere. Traffic stays on loopback.

#![allow(clippy::disallowed_methods, reason = "tests of a loader wait for the kernel")]

mod machine;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use machine::{own_name, LoopbackConnection, Machine, Namespace};
use perigee_bpf::{
    kernel, load, status, unload, InUse, LoadError, Logged, LoggedEnd, ObjectError, Options, Program, TcpLog,
    UnloadError,
};

/// Programs, maps and links in the kernel. Their numbers are not given out twice.
pub(crate) fn objects() -> BTreeSet<(&'static str, u32)> {
    let programs = ProgInfoIter::default().map(|info| ("program", info.id));
    let maps = MapInfoIter::default().map(|info| ("map", info.id));
    let links = LinkInfoIter::default().map(|info| ("link", info.id));
    programs.chain(maps).chain(links).collect()
}

/// Asserts that the kernel has no objects that it did not have before.
pub(crate) fn assert_nothing_stays(before: &BTreeSet<(&'static str, u32)>) {
    let gone = comes(|| objects().is_subset(before));
    assert!(gone, "left in the kernel: {:?}", objects().difference(before).collect::<Vec<_>>());
}

/// Waits for a condition; whether it holds within a minute. The kernel frees objects a grace period after their last use.
fn comes(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn is_registered(name: &str) -> bool {
    kernel::registered().expect("the list can be read").iter().any(|known| known == name)
}

#[test]
fn a_log_of_tcp_says_nothing_of_other_connections_and_leaves_nothing() {
    let Some(_machine) = Machine::take() else { return };
    let before = objects();
    let end = LoggedEnd { namespace: 1, port: 10_000, is_local: true, flow: 0 };
    let log = match TcpLog::start(&[end]) {
        Ok(log) => log,
        Err(error) => return println!("skipped: {error}"),
    };
    assert!(!objects().is_subset(&before), "nothing was loaded");
    LoopbackConnection::new("reno").transfer(4 << 20);
    assert_eq!(log.finish(), Logged::default());
    assert_nothing_stays(&before);
}

#[test]
fn every_algorithm_is_accepted_carries_a_transfer_and_goes_again() {
    let Some(mut machine) = Machine::take() else { return };
    let before = objects();
    for algorithm in perigee_cc::algorithms().iter().map(perigee_cc::Algorithm::name) {
        let loaded = machine.load(algorithm, &[], "a");
        assert!(is_registered(&loaded.name), "{algorithm}");
        let mut connection = LoopbackConnection::new(&loaded.name);
        connection.transfer(4 << 20);
        if algorithm == "dctcp" {
            assert_eq!(connection.cc(), "reno", "without ECN it leaves a connection to Reno");
            unload(&loaded.name, InUse::Refuse).unwrap();
            continue;
        }
        assert_eq!(connection.cc(), loaded.name, "{algorithm}");
        let status = status().unwrap();
        let entry = status.loaded.iter().find(|entry| entry.name == loaded.name).unwrap();
        assert_eq!(entry.record.algorithm, algorithm);
        let [socket] = entry.sockets.as_slice() else { panic!("{algorithm}: {:?}", entry.sockets) };
        assert!(socket.cwnd_packets >= 2 && socket.acked_bytes >= 4 << 20, "{algorithm}: {socket:?}");
        assert_eq!((socket.pid, socket.state), (Some(std::process::id()), "ESTABLISHED"));
        drop(connection);
        let gone = unload(&loaded.name, InUse::Wait(Duration::from_secs(10))).unwrap();
        assert_eq!(gone.sockets_left, 0, "{algorithm}");
        assert!(!is_registered(&loaded.name), "{algorithm}");
    }
    assert_nothing_stays(&before);
}

#[test]
fn parameters_arrive_in_the_object() {
    let Some(mut machine) = Machine::take() else { return };
    let before = objects();
    let settings = [("rtt0", "33 ms"), ("pacing", "on")];
    let loaded = machine.load("hybla", &settings, "p");
    assert_eq!(loaded.parameters, "rtt0=33 ms, pacing=on");
    let constants = MapInfoIter::default()
        .filter(|info| !before.contains(&("map", info.id)) && info.name.to_string_lossy().ends_with(".rodata"))
        .map(|info| MapHandle::from_map_id(info.id).unwrap().lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap())
        .collect::<Vec<_>>();
    let [constants] = constants.as_slice() else { panic!("{} maps of constants", constants.len()) };
    let mut values: Vec<_> = constants.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap())).collect();
    let selected = perigee_cc::Selected::parse("hybla", &settings).unwrap();
    let wanted = &selected.values()[..selected.algorithm().params().len()];
    assert!(wanted.contains(&33_000));
    for value in wanted {
        let at = values.iter().position(|found| found == value);
        values.swap_remove(at.unwrap_or_else(|| panic!("{value} is not there")));
    }
    // Paths are not remembered: both lengths of prefixes are zero.
    assert_eq!(values.iter().filter(|value| **value == 0).count(), 2, "{values:?}");
}

#[test]
fn parameters_decide_what_a_socket_does() {
    let Some(mut machine) = Machine::take() else { return };
    // BBR holds the window at four packets to measure the round trip: every second here, every ten seconds by default.
    let often = machine.load("bbr", &[("probe_rtt_interval", "1 s"), ("probe_rtt_time", "500 ms")], "o").name;
    let seldom = machine.load("bbr", &[], "s").name;
    let (stop, mut at_four) = (AtomicBool::new(false), [0; 2]);
    std::thread::scope(|scope| {
        for name in [&often, &seldom] {
            let connection = LoopbackConnection::new(name);
            scope.spawn(|| connection.flood(&stop));
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while at_four[0] < 20 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(25));
            for entry in status().unwrap().loaded {
                let held = entry.sockets.iter().filter(|socket| socket.cwnd_packets == 4).count();
                at_four[usize::from(entry.name == seldom)] += held;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(at_four[0] >= 20 && at_four[1] <= 5, "times seen at four packets: {at_four:?}");
}

#[test]
fn loads_with_live_sockets_leak_nothing_and_harm_no_connection() {
    const LOADS: usize = 200;
    let Some(mut machine) = Machine::take() else { return };
    let before = objects();
    let mut connections: Vec<LoopbackConnection> = Vec::new();
    for round in 0..LOADS {
        // Every other load replaces a loaded version; the loads between find none.
        let replaces = round % 2 == 1;
        let loaded = machine.load("hybla", &[("rtt0", if replaces { "25 ms" } else { "50 ms" })], "t");
        assert_eq!(loaded.replaced, replaces, "load {round}");
        if round % 8 < 2 {
            connections.push(LoopbackConnection::new(&loaded.name));
        }
        for connection in &mut connections {
            connection.transfer(8 << 10);
        }
        if replaces {
            let left = unload(&loaded.name, InUse::Leave).unwrap().sockets_left;
            assert!(left >= connections.len(), "load {round}: {left} of {}", connections.len());
            for connection in &mut connections {
                connection.transfer(8 << 10);
            }
        }
        if connections.len() > 8 {
            // Some connections have outlived eight versions by now.
            connections.drain(..4);
        }
    }
    for connection in &mut connections {
        assert_eq!(connection.cc(), own_name("t"));
        connection.transfer(1 << 20);
    }
    connections.clear();
    assert!(!is_registered(&own_name("t")));
    assert_nothing_stays(&before);
}

#[test]
fn two_versions_live_side_by_side() {
    let Some(mut machine) = Machine::take() else { return };
    let near = machine.load("hybla", &[("rtt0", "10 ms")], "n");
    let far = machine.load("hybla", &[("rtt0", "100 ms")], "f");
    let mut connections = [LoopbackConnection::new(&near.name), LoopbackConnection::new(&far.name)];
    for connection in &mut connections {
        connection.transfer(1 << 20);
    }
    let status = status().unwrap();
    for (loaded, parameters) in [(&near, "rtt0=10 ms"), (&far, "rtt0=100 ms")] {
        let entry = status.loaded.iter().find(|entry| entry.name == loaded.name).unwrap();
        assert_eq!((&*entry.record.parameters, entry.sockets.len()), (parameters, 1));
    }
    let [near_connection, mut far_connection] = connections;
    drop(near_connection);
    unload(&near.name, InUse::Wait(Duration::from_secs(10))).unwrap();
    far_connection.transfer(1 << 20);
    assert!(is_registered(&far.name));
}

#[test]
fn unloading_what_is_in_use_names_the_sockets_and_leaves_them_working() {
    let Some(mut machine) = Machine::take() else { return };
    let name = machine.load("cubic", &[], "u").name;
    let namespace = Namespace::new("u");
    let mut connections = [LoopbackConnection::new(&name), namespace.enter(|| LoopbackConnection::new(&name))];
    let error = unload(&name, InUse::Refuse).unwrap_err();
    let UnloadError::InUse { sockets, .. } = &error else { panic!("{error}") };
    assert_eq!(sockets.len(), 2);
    let said = error.to_string();
    let local = connections[0].sender.local_addr().unwrap();
    for part in [&local.to_string(), &format!("namespace {}", namespace.0), &format!("process {}", std::process::id())]
    {
        assert!(said.contains(part.as_str()), "{part}: {said}");
    }
    assert!(is_registered(&name), "refusing changes nothing");
    let waited = unload(&name, InUse::Wait(Duration::from_millis(300)));
    assert!(matches!(waited, Err(UnloadError::InUse { .. })) && is_registered(&name));

    assert_eq!(unload(&name, InUse::Leave).unwrap().sockets_left, 2);
    assert!(!is_registered(&name));
    for connection in &mut connections {
        connection.transfer(1 << 20);
    }
    assert_eq!(connections[0].cc(), name);
    let detached = status().unwrap().detached;
    assert_eq!(detached.iter().filter(|socket| socket.cc == name).count(), 2);
}

#[test]
fn the_default_is_set_and_put_back_everywhere() {
    let Some(mut machine) = Machine::take() else { return };
    let before = status().unwrap().default;
    let first = machine.load_default("hybla", "1");
    assert_eq!((first.default_before.as_ref(), &status().unwrap().default), (Some(&before), &first.name));
    let second = machine.load_default("reno", "2");
    assert_eq!(second.default_before.as_ref(), Some(&first.name));
    // A new namespace inherits the default of the initial one.
    let namespace = Namespace::new("d");
    let inside = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    assert_eq!(namespace.enter(inside).trim(), second.name);

    // Not in reverse order: the second then restores the default from before the first.
    let gone = unload(&first.name, InUse::Leave).unwrap();
    assert_eq!((gone.default, status().unwrap().default), (None, second.name.clone()));
    let gone = unload(&second.name, InUse::Leave).unwrap();
    assert_eq!((gone.default.as_ref(), &status().unwrap().default), (Some(&before), &before));
    assert_eq!(gone.namespaces, [(namespace.0.clone(), before.clone())]);
    assert_eq!(namespace.enter(inside).trim(), before);
}

#[test]
fn a_new_version_of_the_default_is_the_default_everywhere_and_the_earlier_one_goes() {
    let Some(mut machine) = Machine::take() else { return };
    let before = objects();
    machine.load_default("hybla", "r");
    let namespace = Namespace::new("r");
    let is_program = |object: &&(&str, u32)| object.0 == "program";
    let earlier: BTreeSet<_> = objects().difference(&before).filter(is_program).copied().collect();
    assert!(!earlier.is_empty());
    machine.load("hybla", &[("rtt0", "50 ms")], "r");
    // The earlier version stays as long as it is the default of a namespace.
    assert!(comes(|| objects().is_disjoint(&earlier)), "the earlier version is still somebody's default");
    assert_eq!(namespace.enter(|| LoopbackConnection::plain().cc()), own_name("r"));
    assert_eq!(LoopbackConnection::plain().cc(), own_name("r"));
}

#[test]
fn a_default_that_somebody_changed_meanwhile_is_left_alone() {
    let Some(mut machine) = Machine::take() else { return };
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    let before = status().unwrap().default;
    let loaded = machine.load_default("hybla", "c");
    std::fs::write(path, "reno").unwrap();
    let gone = unload(&loaded.name, InUse::Leave).unwrap();
    let now = status().unwrap().default;
    std::fs::write(path, before).unwrap();
    assert_eq!((gone.default, &*now), (None, "reno"));
}

#[test]
fn a_name_that_is_taken_is_refused_and_our_own_steps_aside() {
    let Some(mut machine) = Machine::take() else { return };
    let reno = Program::built_in("reno", &[]).unwrap();
    let error = load(&reno, Options { name: Some("cubic"), ..Options::default() }).unwrap_err();
    assert!(matches!(error, LoadError::NameOfTheKernel { .. }) && error.to_string().contains("--as"), "{error}");
    // Every kernel has a built-in reno.
    if status().unwrap().loaded.iter().all(|entry| entry.name != "p_reno") {
        assert_eq!(load(&reno, Options::default()).unwrap().name, "p_reno");
        // The name given to `load` is accepted.
        assert_eq!(unload("reno", InUse::Leave).unwrap().name, "p_reno");
        assert!(!is_registered("p_reno") && is_registered("reno"));
    }
    let name = machine.load("hybla", &[], "x").name;
    let error = load(&reno, Options { name: Some(&name), ..Options::default() }).unwrap_err();
    assert!(matches!(&error, LoadError::NameOfAnother { algorithm, .. } if algorithm == "hybla"), "{error}");
}

#[test]
fn only_what_was_loaded_by_us_is_unloaded() {
    let Some(_machine) = Machine::take() else { return };
    let error = unload("cubic", InUse::Leave).unwrap_err();
    assert!(matches!(error, UnloadError::NotLoaded { .. }), "{error}");
    assert!(is_registered("cubic"));
}

#[test]
fn what_an_interrupted_command_left_is_no_entry_and_the_next_one_removes_it() {
    let Some(mut machine) = Machine::take() else { return };
    let root = std::path::Path::new("/sys/fs/bpf/perigee");
    machine.load("reno", &[], "y");
    // A load killed before it pinned its link, and an unload killed after it detached the link.
    std::fs::create_dir(root.join(own_name("z"))).unwrap();
    let detached = machine.load("reno", &[], "w").name;
    libbpf_rs::Link::open(root.join(&detached).join("link")).unwrap().detach().unwrap();
    // Rules of a version that had them: a link, and no record.
    let rules = "rules-of-an-earlier-version";
    std::fs::create_dir(root.join(rules)).unwrap();
    for pin in ["link", "rules"] {
        MapHandle::from_pinned_path(root.join(own_name("y")).join("record"))
            .unwrap()
            .pin(root.join(rules).join(pin))
            .unwrap();
    }
    let left = [own_name("z"), detached, rules.to_owned()];
    assert!(status().unwrap().loaded.iter().all(|entry| !left.contains(&entry.name)));
    machine.load("reno", &[], "y");
    assert!(left.iter().all(|name| !root.join(name).exists()));
    assert!(is_registered(&own_name("y")));
}

#[test]
fn commands_at_the_same_time_wait_for_each_other() {
    let Some(_machine) = Machine::take() else { return };
    let before = objects();
    std::thread::scope(|scope| {
        for suffix in ["1", "2", "3", "4"] {
            scope.spawn(move || {
                let (program, name) = (Program::built_in("reno", &[]).unwrap(), own_name(suffix));
                for _ in 0..5 {
                    load(&program, Options { name: Some(&name), ..Options::default() }).unwrap();
                    status().unwrap();
                    unload(&name, InUse::Refuse).unwrap();
                }
            });
        }
    });
    assert_nothing_stays(&before);
}

#[test]
fn a_file_of_an_author_is_loaded_with_its_parameters() {
    let Some(mut machine) = Machine::take() else { return };
    let algorithms = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../algorithms");
    let readme = std::fs::read_to_string(algorithms.join("README.md")).unwrap();
    // The example from which authors start.
    let example = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let source = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("half.c");
    std::fs::write(&source, example).unwrap();
    let program = Program::file(&source, &[("keep", "70 %")], &algorithms).unwrap();
    let name = own_name("h");
    let loaded = machine.load_program(&program, &name, false);
    assert_eq!((&*loaded.algorithm, &*loaded.parameters), ("half", "keep=70 %"));
    let entry = status().unwrap().loaded.into_iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(entry.record.origin, source.canonicalize().unwrap().to_str().unwrap());
    let mut connection = LoopbackConnection::new(&name);
    connection.transfer(1 << 20);
    assert_eq!(connection.cc(), name);
}

#[test]
fn what_the_verifier_refuses_is_shown_with_its_last_words() {
    let Some(_machine) = Machine::take() else { return };
    let before = objects();
    let algorithms = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../algorithms");
    let source = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused.c");
    let text = std::fs::read_to_string(algorithms.join("reno.c")).unwrap();
    // A field that a congestion control may not write, which the header says to the compiler, too.
    std::fs::write(&source, text.replacen("{\n", "{\n\t*(u32 *)&tcp_sk(sk)->srtt_us = 1;\n", 1)).unwrap();
    let program = Program::file(&source, &[], &algorithms).unwrap();
    let name = own_name("v");
    let error = load(&program, Options { name: Some(&name), ..Options::default() }).unwrap_err();
    let LoadError::Object(ObjectError::Refused { log, .. }) = &error else { panic!("{error}") };
    assert!(log.contains("BEGIN PROG LOAD LOG") && log.lines().count() > 10, "{log}");
    assert!(error.to_string().contains("srtt_us") || error.to_string().contains("no write support"), "{error}");
    assert!(!is_registered(&name));
    assert_nothing_stays(&before);
}
