//! Every algorithm gives the same transfer for any start of the clock and any wrap of sequence numbers.

#[allow(dead_code, reason = "used by other tests that include this file")]
use std::cell::Cell;

use crate::common::{Path, Transfer};
use perigee_cc::{algorithms, Algorithm, Ops, Selected, TcpSock};
use perigee_settings::Config;
use perigee_units::{Rate, Stream, Time};

const RUN: Time = Time::from_secs(40);

#[test]
fn results_depend_neither_on_the_clocks_start_nor_on_sequence_number_wraps() {
    let wrapping = (1..100_000).find(|seed| wraps_early(*seed)).expect("a few in a thousand seeds wrap early");
    for algorithm in algorithms() {
        let reference = progress(algorithm, 1, Time::from_secs(1));
        // Microseconds and milliseconds wrap in 32 bits ten seconds into the run. All runs start at whole milliseconds, so that clocks in
        // ms are truncated at the same instants.
        for epoch in [Time::from_micros(4_294_967_000 - 10_000_000), Time::from_millis((1 << 32) - 10_000)] {
            for seed in [1, wrapping] {
                let here = progress(algorithm, seed, epoch);
                let differs = here.iter().zip(&reference).position(|(here, there)| here != there);
                assert_eq!(differs, None, "{} from {epoch}, seed {seed}: tenth of a second", algorithm.name());
            }
        }
    }
}

/// Whether the sender's sequence numbers wrap within the first second of data.
fn wraps_early(seed: u64) -> bool {
    let initial = Stream::new(seed, "tcp/iss").next_u64() as u32;
    initial > u32::MAX - 1_000_000
}

/// Bytes acknowledged and congestion window every 100 ms.
fn progress(algorithm: &'static Algorithm, seed: u64, epoch: Time) -> Vec<(u64, u32)> {
    let path = Path { rate: Rate::from_mbps(20.0), seed, ..Path::default() };
    let mut transfer = Transfer::of(&path, &Config::default(), &Selected::with_defaults(with_fixed_draws(algorithm)));
    transfer.now = epoch;
    transfer.open();
    transfer.sender.write(1_000_000_000);
    let mut seen = Vec::new();
    for tenth in 1..=RUN.as_millis() / 100 {
        transfer.run(epoch + Time::from_millis(100 * tenth), |_| false);
        seen.push((transfer.sender.acked(), transfer.sender.info().cwnd));
    }
    let first = transfer.data[0].seq;
    let wrapped = transfer.data.iter().any(|segment| segment.seq < first);
    assert_eq!(wrapped, wraps_early(seed), "{}: {first}", algorithm.name());
    seen
}

thread_local! {
    static INIT: Cell<Option<unsafe extern "C" fn(*mut TcpSock)>> = const { Cell::new(None) };
}

/// The algorithm with fixed random draws: the seed, which also determines the initial sequence number, does not affect them.
fn with_fixed_draws(algorithm: &'static Algorithm) -> &'static Algorithm {
    let ops = *algorithm.ops().expect("the algorithm is built in");
    INIT.set(ops.init);
    // SAFETY: the callback only writes one field of the socket, which it owns during the call, and then calls the original.
    unsafe { algorithm.with_ops(Ops { init: Some(init), ..ops }) }
}

unsafe extern "C" fn init(sk: *mut TcpSock) {
    // SAFETY: the host passes the address of a socket that nothing else uses during the call.
    unsafe {
        (*sk).cc_random = 1;
        if let Some(original) = INIT.get() {
            original(sk);
        }
    }
}
