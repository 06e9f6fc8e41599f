//! The loss of a server's first datagram, with early data and without; the server answers 500 bytes with 100 kB.

use perigee_quic::{Config, EarlyData, Endpoint, Event, Ticket};
use perigee_units::Time;

use crate::common::{with, CLIENT, SERVER};

/// Carries datagrams over 50 ms each way, but for the server's first one; returns the client, and when its handshake was complete.
fn run(early_data: EarlyData, loses_first: bool) -> (Endpoint, Option<Time>) {
    let server = Config { early_data: EarlyData::Accepted, ..config() };
    let mut ends = [Endpoint::client(&Config { early_data, ..config() }, 1), Endpoint::server(&server, 2)];
    let (mut now, mut wire, mut datagram) = (Time::ZERO, Vec::new(), Vec::new());
    let (mut written, mut left_by_server) = (false, 0);
    ends[CLIENT].open(now);
    while now < Time::from_secs(20) && !ends[CLIENT].is_connected() {
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
                    this.write(stream, 100_000);
                }
            }
            while let Some(ecn) = this.poll_transmit(now, &mut datagram) {
                left_by_server += u32::from(end == SERVER);
                if end == CLIENT || left_by_server > 1 || !loses_first {
                    wire.push((now + Time::from_millis(50), 1 - end, std::mem::take(&mut datagram), ecn));
                }
            }
        }
        now += Time::from_millis(1);
        for (_, end, datagram, ecn) in wire.extract_if(.., |(at, ..)| *at <= now) {
            ends[end].on_datagram(now, &datagram, ecn);
        }
    }
    let [client, _] = ends;
    let connected = client.is_connected().then_some(now);
    (client, connected)
}

fn config() -> Config {
    with("reno")
}

fn ticket() -> Ticket {
    run(EarlyData::Off, false).0.ticket().expect("the earlier connection leaves a ticket")
}

#[test]
fn a_lost_first_datagram_of_the_server_is_repaired_by_a_probe() {
    let (_, connected) = run(EarlyData::Off, true);
    assert!(connected.is_some_and(|at| at < Time::from_secs(3)), "{connected:?}");
}

/// With early data it is not: the server acknowledges the client's probe and spends what it may send before it has validated the client on
/// data, and the client, whose early data are in flight, sets no timer against the deadlock (RFC 9002, section 6.2.2.1).
#[test]
fn a_client_with_early_data_waits_for_ever_after_it() {
    let early = || EarlyData::Resumed(Box::new(ticket()));
    assert!(run(early(), false).1.is_some_and(|at| at < Time::from_millis(200)));
    assert_eq!(run(early(), true).1, None, "the stack has been mended");
}
