//! Cost of one ACK in each algorithm: round-trip sample, window or rate update, in avoidance on a long path.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time")]

use std::time::Instant;

use perigee_cc::{algorithms, AckSample, RateSample, Selected, Socket};

const MSS: u32 = 1448;
const WINDOW: u32 = 7_000;
const RTT_US: u32 = 600_000;

fn main() {
    for algorithm in algorithms() {
        let mut socket = established(&Selected::with_defaults(algorithm));
        println!("{:20} {:6.1} ns", algorithm.name(), nanoseconds(|| acknowledge(&mut socket)));
    }
}

/// Nanoseconds of a call: the least of fifty batches, which little else has disturbed.
fn nanoseconds(mut call: impl FnMut()) -> f64 {
    let batch = |_| {
        let started = Instant::now();
        (0..100_000).for_each(|_| call());
        started.elapsed().as_nanos() as f64 / 100_000.0
    };
    (0..50).map(batch).fold(f64::INFINITY, f64::min)
}

/// A connection in the middle of a 1 GB download over a geostationary link.
fn established(selected: &Selected) -> Socket {
    let mut socket = Socket::new(selected, MSS, 10, 1);
    (socket.tcp_mstamp, socket.srtt_us, socket.rtt_min_us) = (5_000_000, RTT_US << 3, RTT_US);
    (socket.is_cwnd_limited, socket.delivered) = (1, 1);
    socket.init();
    (socket.snd_cwnd, socket.snd_ssthresh) = (WINDOW, WINDOW / 2);
    (socket.packets_out, socket.snd_nxt) = (WINDOW, WINDOW * MSS);
    socket
}

fn acknowledge(socket: &mut Socket) {
    socket.tcp_mstamp += u64::from(RTT_US / WINDOW);
    socket.tcp_clock_cache = socket.tcp_mstamp * 1000;
    socket.delivered_mstamp = socket.tcp_mstamp;
    socket.delivered = socket.delivered.wrapping_add(1);
    socket.bytes_sent += u64::from(MSS);
    socket.snd_una = socket.snd_una.wrapping_add(MSS);
    socket.snd_nxt = socket.snd_nxt.wrapping_add(MSS);
    let una = socket.snd_una;
    if socket.has_pkts_acked() {
        socket.pkts_acked(&AckSample { pkts_acked: 1, rtt_us: RTT_US as i32, in_flight: WINDOW });
    }
    if socket.has_cong_control() {
        let sample = RateSample {
            prior_mstamp: socket.tcp_mstamp - u64::from(RTT_US),
            prior_delivered: socket.delivered.wrapping_sub(WINDOW),
            delivered: WINDOW as i32,
            interval_us: i64::from(RTT_US),
            rtt_us: i64::from(RTT_US),
            acked_sacked: 1,
            prior_in_flight: WINDOW,
            last_end_seq: una,
            ..RateSample::default()
        };
        socket.cong_control(una, 0, &sample);
    } else {
        socket.cong_avoid(una, 1);
        socket.snd_cwnd = WINDOW;
    }
}
