//! Handshakes: their round trips, and how each failure ends.

use perigee_cc::Selected;
use perigee_quic::{AddressValidation, Closed, Config, EarlyData, Event, Ticket};
use perigee_units::{Bytes, Rate, Time};

use crate::common::{download, with, Download, Path, CLIENT, SERVER};

const ROUND_TRIP: Time = Time::from_millis(600);

fn path() -> Path {
    Path {
        rate: Rate::from_mbps(1000.0),
        delay: Time::from_millis(300),
        queue: Bytes::new(10_000_000),
        silence: Time::MAX..Time::MAX,
        loses: |_| false,
    }
}

fn config() -> Config {
    with("reno")
}

fn run(client: &Config, server: &Config) -> Download {
    download(&path(), [client, server], 1000, Time::from_secs(100))
}

/// Round trips until the client has the first bytes.
fn round_trips(download: &Download) -> u64 {
    let at = download.done.expect("it completes");
    at.as_millis() / ROUND_TRIP.as_millis()
}

#[test]
fn a_handshake_takes_a_round_trip_and_one_more_with_a_retry() {
    // The server of the test writes when the handshake is complete there: 1.5 round trips, and half of one back.
    assert_eq!(round_trips(&run(&config(), &config())), 2);
    let retry = Config { address_validation: AddressValidation::Retry, ..config() };
    assert_eq!(round_trips(&run(&config(), &retry)), 3);
}

#[test]
fn a_large_certificate_waits_for_the_clients_address() {
    // Before it has validated the address, a server sends three times what it has received (RFC 9000, section 8.1).
    let large = Config { certificate_bytes: 6000, ..config() };
    assert_eq!(round_trips(&run(&config(), &large)), 3);
}

fn ticket() -> Ticket {
    run(&config(), &config()).ends[CLIENT].ticket().expect("the earlier connection leaves a ticket")
}

/// A client that sends early data, and the time at which the server has them.
fn early(server: &Config) -> (Vec<Event>, Option<Time>) {
    let client = Config { early_data: EarlyData::Resumed(Box::new(ticket())), ..config() };
    let mut ends = [perigee_quic::Endpoint::client(&client, 3), perigee_quic::Endpoint::server(server, 4)];
    ends[CLIENT].open(Time::ZERO);
    let stream = ends[CLIENT].open_stream().expect("a ticket allows streams");
    ends[CLIENT].write(stream, 500);
    let (mut at, mut now, mut datagram) = (None, Time::ZERO, Vec::new());
    for turn in 0..4 {
        let from = turn % 2;
        let mut datagrams = Vec::new();
        while let Some(ecn) = ends[from].poll_transmit(now, &mut datagram) {
            datagrams.push((std::mem::take(&mut datagram), ecn));
        }
        now += Time::from_millis(300);
        for (datagram, ecn) in datagrams {
            ends[1 - from].on_datagram(now, &datagram, ecn);
        }
        if from == CLIENT && ends[SERVER].received(stream) == 500 {
            at.get_or_insert(now);
        }
    }
    (std::iter::from_fn(|| ends[CLIENT].poll_event()).collect(), at)
}

#[test]
fn early_data_arrive_with_the_first_flight_or_are_refused() {
    let (events, at) = early(&Config { early_data: EarlyData::Accepted, ..config() });
    assert_eq!(at, Some(Time::from_millis(300)));
    assert!(!events.contains(&Event::EarlyDataRefused), "{events:?}");
    let (events, at) = early(&config());
    assert_eq!(at, None);
    assert!(events.contains(&Event::EarlyDataRefused), "{events:?}");
}

#[test]
fn each_failure_has_its_cause() {
    let closed = |download: &Download| download.ends[CLIENT].closed().cloned();
    let silent = Path { silence: Time::ZERO..Time::MAX, ..path() };
    let unanswered = download(&silent, [&config(), &config()], 1000, Time::from_secs(100));
    assert_eq!(closed(&unanswered), Some(Closed::TimedOut));
    let newer = Config { version: 0x6b33_43cf, ..config() };
    assert_eq!(closed(&run(&newer, &config())), Some(Closed::VersionMismatch));
}

#[test]
fn algorithms_that_count_marks_are_refused_in_one_line() {
    let refused = |name, ecn| perigee_quic::refusal(&Selected::parse(name, &[]).expect("a known algorithm"), ecn);
    let line = refused("dctcp", false).expect("dctcp needs the counts");
    assert!(line.contains("`dctcp`") && line.contains("over TCP") && !line.contains('\n'), "{line}");
    assert_eq!(refused("bbr3", false), None);
    assert!(refused("bbr3", true).is_some_and(|line| line.contains("switch ECN off")));
}

#[test]
fn an_authors_file_that_reads_the_counts_is_refused_with_ecn() {
    let authors = |source: &str| {
        let file = perigee_cc::File {
            path: "own.c".into(),
            headers: "algorithms".into(),
            source: source.into(),
            library: Vec::new(),
            kernel: std::sync::OnceLock::new(),
        };
        let reno = perigee_cc::find("reno").expect("a known algorithm").clone();
        let own: &'static _ = Box::leak(Box::new(reno.from_file("own".to_owned(), 1, file)));
        Selected::with_defaults(own)
    };
    let reader = authors("marks = tp->delivered_ce;");
    assert!(perigee_quic::refusal(&reader, true).is_some_and(|line| line.starts_with("`own`")));
    assert_eq!(perigee_quic::refusal(&reader, false), None, "without ECN there are none to count");
    assert_eq!(perigee_quic::refusal(&authors("delivered = tp->delivered;"), true), None);
}

/// Every file of `algorithms/` that reads the counts is among those that are refused.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test compares the list with the sources")]
fn the_built_in_readers_of_counts_are_known() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../algorithms");
    for algorithm in perigee_cc::algorithms() {
        let source = std::fs::read_to_string(format!("{folder}/{}.c", algorithm.name())).expect("a source");
        let selected = Selected::with_defaults(algorithm);
        let is_refused = perigee_quic::refusal(&selected, true).is_some();
        assert_eq!(is_refused, source.contains("delivered_ce"), "{}", algorithm.name());
    }
}
