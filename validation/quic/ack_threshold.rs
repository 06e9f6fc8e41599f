//! Acknowledgements of noq-proto that a peer asks to be rare, at the start: `cargo run -p perigee-quic --example ack_threshold`.
//!
//! RFC 9000, section 13.2.1, has an ack-eliciting packet acknowledged within `max_ack_delay`, 25 ms here. The client has a packet of data
//! with the server's handshake, which arms the timer of its acknowledgement. It then acknowledges packets of the handshake, and the stack
//! stops the timer with any acknowledgement, of whatever packet number space (`connection/mod.rs`, where packets are built). The first
//! packet of data counts as one whose timer runs, so no later one arms it again: data are acknowledged when their count passes the
//! threshold, or when a probe asks for it.

use perigee_quic::{AckFrequency, Config, Control, Endpoint, Event, StackControl};
use perigee_units::Time;

fn main() {
    for packets in [5, 8, 9, 20] {
        let silence = longest_silence(packets).as_millis();
        println!("threshold {packets:2}: the server is silent for {silence} ms at most, over 200 ms");
    }
}

/// The longest time between two datagrams of a server that has 100 kB to send, over 100 ms each way.
fn longest_silence(packets: u32) -> Time {
    let client = Config::new(Control::Stack(StackControl::Reno));
    let server = Config { ack_frequency: Some(AckFrequency { packets, delay: None }), ..client.clone() };
    let mut ends = [Endpoint::client(&client, 1), Endpoint::server(&server, 2)];
    let (mut now, mut wire, mut datagram) = (Time::ZERO, Vec::new(), Vec::new());
    let (mut last, mut longest) = (Time::MAX, Time::ZERO);
    ends[0].open(now);
    while now < Time::from_millis(1500) {
        for end in [0, 1] {
            ends[end].on_timer(now);
            while let Some(event) = ends[end].poll_event() {
                if event == Event::Connected && end == 1 {
                    let stream = ends[end].open_stream().expect("a stream is allowed");
                    ends[end].write(stream, 100_000);
                }
            }
            while let Some(ecn) = ends[end].poll_transmit(now, &mut datagram) {
                if end == 1 {
                    longest = longest.max(now.checked_sub(last).unwrap_or(Time::ZERO));
                    last = now;
                }
                wire.push((now + Time::from_millis(100), 1 - end, std::mem::take(&mut datagram), ecn));
            }
        }
        now += Time::from_millis(1);
        for (_, end, datagram, ecn) in wire.extract_if(.., |(at, ..)| *at <= now) {
            ends[end].on_datagram(now, &datagram, ecn);
        }
    }
    longest
}
