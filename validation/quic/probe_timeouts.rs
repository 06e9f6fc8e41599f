//! Probe timeouts of noq-proto into a path that has gone silent: `cargo run -p perigee-quic --example probe_timeouts`.
//!
//! RFC 9002, section 6.2.1, doubles the timeout with each probe. The stack's comment says that the interval is capped at 2 s
//! (`connection/mod.rs`, `MAX_PTO_INTERVAL`), but it adds the cap to the sum of all intervals so far and waits for that since the last
//! probe: beyond 2 s the intervals grow by 2 s each, neither doubled nor capped.

use perigee_quic::{Config, Control, Endpoint, Event, StackControl};
use perigee_units::Time;

fn main() {
    let config = Config { idle_timeout: None, ..Config::new(Control::Stack(StackControl::Reno)) };
    let mut ends = [Endpoint::client(&config, 1), Endpoint::server(&config, 2)];
    let (mut now, mut datagram) = (Time::ZERO, Vec::new());
    ends[0].open(now);
    // A handshake, and a response of 20 kB, over 100 ms.
    for turn in 0..20 {
        let (from, to) = (turn % 2, 1 - turn % 2);
        ends[from].on_timer(now);
        let mut flight = Vec::new();
        while let Some(ecn) = ends[from].poll_transmit(now, &mut datagram) {
            flight.push((std::mem::take(&mut datagram), ecn));
        }
        now += Time::from_millis(50);
        for (datagram, ecn) in flight {
            ends[to].on_datagram(now, &datagram, ecn);
        }
        while let Some(event) = ends[1].poll_event() {
            if event == Event::Connected {
                let stream = ends[1].open_stream().expect("a stream is allowed");
                ends[1].write(stream, 20_000);
            }
        }
    }
    // Data into silence.
    let stream = ends[1].open_stream().expect("a stream is allowed");
    ends[1].write(stream, 1000);
    let mut last = now;
    let end = now + Time::from_secs(60);
    while now < end {
        let before = now;
        while ends[1].poll_transmit(now, &mut datagram).is_some() {
            if now > last {
                println!("{:6.2} s after the one before", (now - last).as_secs_f64());
                last = now;
            }
        }
        now = ends[1].next_timer().unwrap_or(end).max(before);
        ends[1].on_timer(now);
    }
}
