//! Early data over long paths, and the loss of a server's first datagram, with early data and without; the server answers 500 bytes.

use perigee_quic::{Config, EarlyData, Endpoint, Event, Ticket};
use perigee_units::Time;

use crate::common::{with, CLIENT, SERVER};

/// A path, and the answer that crosses it.
struct Case {
    delay: Time,
    loses_first: bool,
    answer: u64,
    server: EarlyData,
}

/// A connection at its end.
struct Outcome {
    ends: [Endpoint; 2],
    /// When the client's handshake was complete.
    connected: Option<Time>,
    /// Round trips that the server's algorithm has seen.
    round_trips: Vec<Time>,
}

/// Carries datagrams until nothing is in flight, but at most for 20 s.
fn run(early_data: EarlyData, case: &Case) -> Outcome {
    let server = Config { early_data: case.server.clone(), ..config() };
    let mut ends = [Endpoint::client(&Config { early_data, ..config() }, 1), Endpoint::server(&server, 2)];
    let (mut now, mut wire, mut datagram) = (Time::ZERO, Vec::new(), Vec::new());
    let (mut written, mut left_by_server, mut connected, mut round_trips) = (false, 0, None, Vec::new());
    ends[CLIENT].open(now);
    while now < Time::from_secs(20) && (connected.is_none() || !wire.is_empty() || are_in_flight(&mut ends)) {
        if !written && let Some(stream) = ends[CLIENT].open_stream() {
            ends[CLIENT].write(stream, 500);
            written = true;
        }
        // Arrivals are answered before the timers of the same instant fire.
        for (end, is_timer) in [(CLIENT, false), (SERVER, false), (CLIENT, true), (SERVER, true)] {
            let this = &mut ends[end];
            if is_timer {
                this.on_timer(now);
            }
            while let Some(event) = this.poll_event() {
                if let Event::Opened(stream) = event {
                    this.write(stream, case.answer);
                }
            }
            while let Some(ecn) = this.poll_transmit(now, &mut datagram) {
                left_by_server += u32::from(end == SERVER);
                if end == CLIENT || left_by_server > 1 || !case.loses_first {
                    wire.push((now + case.delay, 1 - end, std::mem::take(&mut datagram), ecn));
                }
            }
        }
        now += Time::from_millis(1);
        for (_, end, datagram, ecn) in wire.extract_if(.., |(at, ..)| *at <= now) {
            ends[end].on_datagram(now, &datagram, ecn);
        }
        round_trips.extend(ends[SERVER].take_rtt());
        if ends[CLIENT].is_connected() {
            connected.get_or_insert(now);
        }
    }
    Outcome { ends, connected, round_trips }
}

fn are_in_flight(ends: &mut [Endpoint; 2]) -> bool {
    ends.iter_mut().any(|end| end.info().inflight != Some(0))
}

fn near(loses_first: bool) -> Case {
    Case { delay: Time::from_millis(50), loses_first, answer: 100_000, server: EarlyData::Accepted }
}

fn config() -> Config {
    Config { qlog: true, ..with("reno") }
}

fn early() -> EarlyData {
    EarlyData::Resumed(Box::new(ticket()))
}

fn ticket() -> Ticket {
    run(EarlyData::Off, &near(false)).ends[CLIENT].ticket().expect("the earlier connection leaves a ticket")
}

#[test]
fn a_lost_first_datagram_of_the_server_is_repaired_by_a_probe() {
    let mut lost = run(EarlyData::Off, &near(true));
    assert!(lost.connected.is_some_and(|at| at < Time::from_secs(3)), "{:?}", lost.connected);
    let probes = lost.ends.each_mut().map(|end| end.info().probe_timeouts);
    assert!(probes.contains(&Some(1)), "{probes:?}");
}

/// With early data it is not: the server acknowledges the client's probe and spends what it may send before it has validated the client on
/// data, and the client, whose early data are in flight, sets no timer against the deadlock (RFC 9002, section 6.2.2.1).
#[test]
fn a_client_with_early_data_waits_for_ever_after_it() {
    assert!(run(early(), &near(false)).connected.is_some_and(|at| at < Time::from_millis(200)));
    assert_eq!(run(early(), &near(true)).connected, None, "the stack has been mended");
}

/// The first probe timeout, of 1 s, sends the server's handshake again before the client can answer, with numbers that early packets have.
#[test]
fn no_round_trip_is_shorter_than_the_path() {
    let far = |server| Case { delay: Time::from_millis(600), loses_first: false, answer: 5000, server };
    let cases = [(EarlyData::Off, EarlyData::Off), (early(), EarlyData::Accepted), (early(), EarlyData::Off)];
    for (early_data, case) in cases.map(|(client, server)| (client, far(server))) {
        let mut far = run(early_data, &case);
        assert!(
            far.round_trips.len() > 1 && far.round_trips.iter().all(|rtt| *rtt >= case.delay * 2),
            "{:?}",
            far.round_trips
        );
        assert!(!are_in_flight(&mut far.ends));
    }
}

/// Length of the server's first Handshake packet, which its log has.
fn handshake_packet(early_data: EarlyData) -> usize {
    let log = run(early_data, &near(false)).ends[SERVER].take_qlog().expect("a log was asked for");
    let log = String::from_utf8(log).expect("it is text");
    let is_sent = |record: &&str| record.contains("packet_sent") && record.contains(r#""packet_type":"handshake""#);
    let record = log.split('\n').find(is_sent).expect("a handshake");
    let (_, length) = record.split_once(r#""raw":{"length":"#).expect("it has a length");
    length.split_once('}').and_then(|(length, _)| length.parse().ok()).expect("a number")
}

#[test]
fn a_session_that_resumes_another_has_no_certificates() {
    let [full, resumed] = [EarlyData::Off, early()].map(handshake_packet);
    assert!(full > 1000 && (100..300).contains(&resumed), "{full}, {resumed}");
}
