//! Slow starts: RFC 5681, Ha and Rhee 2011, RFC 9406.

use crate::rounds::Rounds;
use perigee_cc::INFINITE_SSTHRESH;

/// Algorithms with the parameter `slow_start` whose classic growth is one packet per packet acknowledged.
const DOUBLING: [&str; 7] = ["reno", "cubic", "bic", "highspeed", "htcp", "westwood_plus", "illinois"];

fn starting(name: &str, slow_start: &str) -> Rounds {
    Rounds::new(name, &[("slow_start", slow_start)], 100_000)
}

/// Reaches conservative slow start: a round at 100 ms, then one at this round trip, in whose course it begins.
fn after_growth(name: &str, rtt_us: u64) -> Rounds {
    let mut path = starting(name, "hystart++");
    path.rounds(3);
    path.rtt_us = rtt_us;
    path.round();
    path
}

#[test]
fn classic_doubles_whatever_the_round_trip_does() {
    for name in DOUBLING {
        let mut path = starting(name, "classic");
        for round in 0..5_u32 {
            path.rtt_us = 100_000 + 20_000 * u64::from(round);
            path.round();
        }
        assert_eq!((path.socket.snd_cwnd, path.socket.snd_ssthresh), (320, INFINITE_SSTHRESH), "{name}");
    }
}

#[test]
fn hystart_ends_slow_start_of_every_algorithm() {
    for name in DOUBLING.into_iter().chain(["hybla"]) {
        let mut path = starting(name, "hystart");
        path.rounds(3);
        path.rtt_us = 130_000;
        path.rounds(2);
        assert!(path.socket.snd_ssthresh < INFINITE_SSTHRESH, "{name}");
    }
}

#[test]
fn hystart_plus_plus_doubles_until_the_round_trip_grew_by_an_eighth() {
    for name in DOUBLING {
        // 100 ms / 8 = 12.5 ms.
        assert_eq!(after_growth(name, 112_400).socket.snd_cwnd, 160, "{name}");
        let cwnd = after_growth(name, 112_600).socket.snd_cwnd;
        // Eight samples, of which seven double, and a quarter of the rest.
        assert_eq!(cwnd, 80 + 7 + 73 / 4, "{name}");
    }
}

#[test]
fn hystart_plus_plus_ends_slow_start_after_five_conservative_rounds() {
    for name in DOUBLING {
        let mut path = after_growth(name, 120_000);
        path.rounds(4);
        assert_eq!(path.socket.snd_ssthresh, INFINITE_SSTHRESH, "{name}");
        // The round ends with the first ACK after its last packet.
        path.rounds(2);
        assert!(path.socket.snd_ssthresh < INFINITE_SSTHRESH, "{name}");
    }
}

#[test]
fn hystart_plus_plus_doubles_again_where_the_round_trip_falls() {
    for name in DOUBLING {
        let mut path = after_growth(name, 120_000);
        path.rtt_us = 110_000;
        path.round();
        let before = path.socket.snd_cwnd;
        assert_eq!(path.round(), 2 * before, "{name}");
        assert_eq!(path.socket.snd_ssthresh, INFINITE_SSTHRESH, "{name}");
    }
}

#[test]
fn hystart_plus_plus_serves_the_first_slow_start_alone() {
    for name in DOUBLING {
        let mut path = after_growth(name, 120_000);
        path.time_out();
        (path.socket.snd_cwnd, path.socket.snd_ssthresh) = (10, 1000);
        path.rtt_us = 100_000;
        path.rounds(2);
        path.rtt_us = 150_000;
        assert_eq!(path.rounds(2), 160, "{name}");
    }
}

#[test]
fn hybla_grows_by_a_quarter_of_its_own_increment_in_conservative_slow_start() {
    let grown = |slow_start| {
        let mut path = Rounds::new("hybla", &[("slow_start", slow_start), ("rtt0", "50 ms")], 100_000);
        (path.socket.snd_cwnd, path.socket.snd_cwnd_clamp) = (20, u32::MAX);
        path.round();
        path.rtt_us = 120_000;
        path.round();
        let before = path.socket.snd_cwnd;
        path.ack(120_000);
        path.ack(120_000);
        path.ack(120_000);
        path.ack(120_000);
        path.socket.snd_cwnd - before
    };
    // rho = 2: three packets per ACK.
    assert_eq!((grown("classic"), grown("hystart++")), (12, 3));
}
