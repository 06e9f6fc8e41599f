//! Cost of one ACK in each algorithm: round-trip sample, window or rate update, in avoidance on a long path.
#![allow(missing_docs, reason = "criterion's macros write functions without docs")]

use criterion::{criterion_group, criterion_main, Criterion};
use perigee_cc::{algorithms, AckSample, RateSample, Selected, Socket};

const MSS: u32 = 1448;
const WINDOW: u32 = 7_000;
const RTT_US: u32 = 600_000;

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

fn cost_per_ack(c: &mut Criterion) {
    let mut group = c.benchmark_group("ack");
    for algorithm in algorithms() {
        let mut socket = established(&Selected::with_defaults(algorithm));
        group.bench_function(algorithm.name(), |b| b.iter(|| acknowledge(&mut socket)));
    }
    group.finish();
}

criterion_group!(benches, cost_per_ack);
criterion_main!(benches);
