//! `doctor`: transfers with and without the proxy, and what is refused.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::thread;

use serde_json::Value;

use crate::transfers::TRANSPARENT;
use crate::world::{accept, bytes, World};

/// Leg and rule for all connections.
const RULE: &str = "[legs.near]\n[legs.far]\ncongestion = \"reno\"\n\
                    [[rules]]\nname = \"web\"\nclient = \"near\"\nserver = \"far\"\n";

/// Answers to the next connections; their requests.
fn serve(listener: TcpListener, answers: Vec<Vec<u8>>) -> thread::JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let answered = answers.into_iter().map(|answer| {
            let (mut socket, _) = accept(&listener);
            let request = read_request(&mut socket);
            // A transfer that has reached its bound is reset.
            let _ = socket.write_all(&answer);
            request
        });
        answered.collect()
    })
}

/// Reads a request: a server that closes a socket with unread bytes resets the connection.
fn read_request(socket: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
    String::from_utf8(request).unwrap()
}

fn file(content: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", content.len()).into_bytes();
    answer.extend(content);
    answer
}

/// Runs `doctor` at the router, and returns its output.
fn doctor(world: &World, config: &str, words: &str) -> Output {
    let path = world.config(config);
    let mut command = Command::new(env!("CARGO_BIN_EXE_perigee-pep"));
    command.arg("doctor").arg(&path).args(words.split(' '));
    world.router.enter(|| command.output().unwrap())
}

fn read(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A value of each transfer of one way.
fn of<'v>(report: &'v Value, way: &str, key: &str) -> Vec<&'v Value> {
    let transfers = report["transfers"].as_array().unwrap();
    transfers.iter().filter(|one| one["way"] == way).map(|one| &one[key]).collect()
}

#[test]
fn a_transfer_is_made_both_ways_with_the_settings_and_the_mark_of_the_service() {
    let Some(world) = World::new() else { return };
    // Packets to the server without the service's mark. Resets for what comes after the end are of no socket, and have none.
    let rules = "table inet seen {\n\tchain output {\n\t\ttype filter hook output priority 0;\n\
                 \t\ttcp dport 8000 tcp flags & rst == 0 meta mark != 0x706571 counter\n\t}\n}\n";
    let seen = world.folder.path().join("seen.nft");
    std::fs::write(&seen, rules).unwrap();
    world.router.execute(&format!("nft -f {}", seen.display()));
    let content = bytes(2_000_000, 3);
    let config = format!("{TRANSPARENT}{RULE}");
    for (listen, target, client) in [
        ("0.0.0.0:8000", "http://10.2.0.2:8000/a?b", "10.1.0.0/16 at lan0"),
        ("[::]:8000", "[2001:db8:2::2]:8000/a?b", "2001:db8:1::/48 at lan0"),
    ] {
        // The answer does not depend on whether a service runs.
        for runs in [false, true] {
            let service = runs.then(|| world.start(&config));
            let serving = serve(world.server.listen(listen), vec![file(&content); 4]);
            let report = read(&doctor(&world, &config, &format!("--to {target} --json")));
            for request in serving.join().unwrap() {
                let authority = target.trim_start_matches("http://").split('/').next().unwrap();
                assert!(request.starts_with(&format!("GET /a?b HTTP/1.0\r\nHost: {authority}\r\n")), "{request}");
            }
            let transfers = report["transfers"].as_array().unwrap();
            let order: Vec<_> =
                transfers.iter().map(|one| (one["round"].as_u64().unwrap(), one["way"].as_str().unwrap())).collect();
            assert_eq!(order, [(1, "direct"), (1, "proxied"), (2, "proxied"), (2, "direct")]);
            assert!(transfers.iter().all(|one| one["bytes"] == 2_000_000 && one["complete"] == true), "{report:#}");
            assert!(transfers.iter().all(|one| one["rtt_ms"].as_f64().unwrap() > 0.0), "{report:#}");
            assert_eq!((&report["same"], &report["compared_bytes"]), (&Value::from(true), &Value::from(2_000_000)));
            assert_eq!((&report["rule"], &report["client"]), (&Value::from("web"), &Value::from(client)));
            assert_eq!(of(&report, "proxied", "congestion"), ["reno", "reno"]);
            let own = world.router.execute("cat /proc/sys/net/ipv4/tcp_congestion_control");
            assert_eq!(of(&report, "direct", "congestion"), [own.trim(), own.trim()]);
            if let Some(service) = service {
                let log = service.stop();
                assert!(!log.iter().any(|line| line.starts_with("connection ")), "{log:#?}");
            }
        }
    }
    let counted = world.router.execute("nft list chain inet seen output");
    assert!(counted.contains("packets 0 "), "{counted}");
}

#[test]
fn a_transfer_that_a_bound_ends_is_compared_as_far_as_it_goes() {
    let Some(world) = World::new() else { return };
    // Under the second rule the server has answered before the client's handshake.
    for (rule, first) in [(RULE.to_owned(), false), (format!("{RULE}connect_first = true\n"), true)] {
        let serving = serve(world.server.listen("0.0.0.0:8000"), vec![file(&bytes(9_000_000, 3)); 2]);
        let words = "--to 10.2.0.2:8000 --rounds 1 --bytes 800kB --json";
        let report = read(&doctor(&world, &format!("{TRANSPARENT}{rule}"), words));
        serving.join().unwrap();
        for way in ["direct", "proxied"] {
            assert_eq!(
                [of(&report, way, "complete"), of(&report, way, "bytes")],
                [[&Value::from(false)], [&Value::from(800_000)]],
                "{first}"
            );
        }
        assert_eq!((&report["same"], &report["compared_bytes"]), (&Value::from(true), &Value::from(800_000)));
        assert_eq!(of(&report, "proxied", "congestion"), ["reno"], "{first}");
    }
}

#[test]
fn what_cannot_be_compared_is_one_line_with_the_fix() {
    let Some(world) = World::new() else { return };
    let without = World::new().unwrap();
    for command in ["ip -4 address flush scope global", "ip route add 10.2.0.0/16 dev wan0"] {
        without.router.execute(command);
    }
    let output = doctor(&without, TRANSPARENT, "--to 10.2.0.2:80");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("10.2.0.2:80: this host has no address of IPv4 to fetch it with; run this at"), "{error}");
    let forward = "[allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.2.0.0/16\"]\n\
                   [[forward]]\nlisten = \"10.1.0.1:7000\"\ntarget = \"10.2.0.2:80\"\n";
    let ports = TRANSPARENT.replace("[transparent]\n", "[transparent]\nports = [80]\n");
    for (config, words, code, said) in [
        (TRANSPARENT, "--to https://10.2.0.2/f", 2, "`https` is not supported; name a plain target"),
        (TRANSPARENT, "--to 10.9.0.2:80", 2, "destination is not allowed; change `[allow]`, or name another target"),
        (
            TRANSPARENT,
            "--to 10.2.0.2:80 --from 10.9.0.2",
            2,
            "for a client of 10.9.0.2/32 at lan0: source is not allowed",
        ),
        (TRANSPARENT, "--to 10.2.0.1:80", 2, "10.2.0.1:80, for a client of 10.1.0.0/16 at lan0: destination is local"),
        (
            TRANSPARENT,
            "--to 10.2.0.2:80 --interface lan9",
            2,
            "`--interface lan9` is not within `transparent.interfaces`",
        ),
        (&ports, "--to 10.2.0.2:81", 2, "10.2.0.2:81: its port is not within `transparent.ports`"),
        (forward, "--to 10.2.0.2:81", 2, "10.2.0.2:81: no `[[forward]]` leads there"),
        (forward, "--to 10.2.0.2:80", 1, "10.2.0.2:80, directly: the server refused the connection"),
        (
            TRANSPARENT.split("[transparent]").next().unwrap(),
            "--to 10.2.0.2:80",
            2,
            "`[transparent]` and `[[forward]]` are both missing",
        ),
    ] {
        let output = doctor(&world, config, words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.lines().count()), (Some(code), 1), "{words}: {error}");
        assert!(error.contains(said), "{words}: {error}");
        assert!(error.contains("; "), "no fix: {error}");
    }
}

#[test]
fn an_answer_that_cannot_be_compared_is_an_error_that_says_why() {
    let Some(world) = World::new() else { return };
    let cut = file(&bytes(1000, 1))[..600].to_vec();
    let (good, other) = (file(&bytes(1000, 1)), file(&bytes(1000, 2)));
    let moved = b"HTTP/1.0 301 Moved\r\nLocation: https://b/\r\n\r\n".to_vec();
    for (answers, said) in [
        (
            vec![b"SSH-2.0-x\r\n".to_vec()],
            "directly: no answer in HTTP but \"SSH-2.0-x\"; name the address of a web server",
        ),
        (vec![Vec::new()], "directly: no answer in HTTP but nothing"),
        (vec![moved], "the server answers \"HTTP/1.0 301 Moved\", to https://b/; name a file that it has"),
        (vec![cut], "the answer ended after 559 of 1000 bytes"),
        (
            vec![good.clone(), other.clone(), other.clone(), good.clone()],
            "the bytes through the proxy differ from the direct ones",
        ),
    ] {
        let serving = serve(world.server.listen("0.0.0.0:80"), answers);
        let output = doctor(&world, TRANSPARENT, "--to 10.2.0.2:80");
        serving.join().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(said), "{error}");
    }
    let serving = serve(world.server.listen("0.0.0.0:80"), vec![good.clone(), other.clone(), good, other]);
    assert_eq!(read(&doctor(&world, TRANSPARENT, "--to 10.2.0.2:80 --json"))["same"], Value::Null);
    serving.join().unwrap();
    // A server that accepts and says nothing.
    let listener = world.server.listen("0.0.0.0:80");
    let output = doctor(&world, TRANSPARENT, "--to 10.2.0.2:80 --seconds 0.2");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && error.contains("directly: no answer within 200 ms; check that"),
        "{error}"
    );
    drop(listener);
}

#[test]
fn a_failure_behind_the_proxy_has_the_service_s_reason() {
    let Some(world) = World::new() else { return };
    let refusing = world.folder.path().join("refusing.nft");
    let rule = "tcp dport 80 tcp flags & (syn | ack) == syn reject with tcp reset";
    let chain = format!("chain input {{\n\ttype filter hook input priority 0;\n\t{rule}\n}}\n");
    std::fs::write(&refusing, format!("table inet refusing {{\n{chain}}}\n")).unwrap();
    let listener = world.server.listen("0.0.0.0:80");
    let first = format!("{RULE}connect_first = true\n");
    for (rule, said) in [(RULE, "server refused the connection; "), (&first, "the server refused the connection: ")] {
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut socket, _) = accept(&listener);
                read_request(&mut socket);
                // From the direct transfer on the server refuses.
                world.server.execute(&format!("nft -f {}", refusing.display()));
                socket.write_all(&file(&bytes(100_000, 1))).unwrap();
            });
            let output = doctor(&world, &format!("{TRANSPARENT}{rule}"), "--to 10.2.0.2:80");
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{error}");
            assert!(error.contains(&format!("10.2.0.2:80, through the proxy: {said}")), "{error}");
        });
        world.server.execute("nft delete table inet refusing");
    }
}
