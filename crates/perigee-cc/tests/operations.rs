//! Whatever a host does to an algorithm: windows stay sane and nothing overflows.

use perigee_cc::{algorithms, AckSample, CaEvent, CaState, RateSample, Selected, Socket};
use proptest::prelude::*;

const MSS: u32 = 1448;

/// One thing that happens to a connection.
#[derive(Clone, Debug)]
enum Op {
    /// Packets are acknowledged after a round trip, this long after the last event; some were lost.
    Ack {
        packets: u32,
        rtt_us: u32,
        after_us: u32,
        losses: u32,
        limited: bool,
        app_limited: bool,
    },
    /// The window's packets are sent.
    Send,
    Loss,
    Timeout,
    Recovered,
    Undo,
    Event(CaEvent),
    Idle {
        us: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let rtt_us = prop_oneof![0u32..10, 1_000u32..1_000_000, 1_000_000u32..60_000_000];
    let after_us = prop_oneof![0u32..5, 5u32..5_000, 5_000u32..2_000_000];
    let packets = prop_oneof![8 => 1u32..4, 2 => 4u32..1000, 1 => 1000u32..10_000_000];
    let ack = (packets, rtt_us, after_us, prop_oneof![9 => Just(0u32), 1 => 1u32..100], any::<bool>(), any::<bool>())
        .prop_map(|(packets, rtt_us, after_us, losses, limited, app_limited)| Op::Ack {
            packets,
            rtt_us,
            after_us,
            losses,
            limited,
            app_limited,
        });
    let event = prop_oneof![
        Just(CaEvent::TxStart),
        Just(CaEvent::CwndRestart),
        Just(CaEvent::CompleteCwr),
        Just(CaEvent::Loss),
        Just(CaEvent::EcnNoCe),
        Just(CaEvent::EcnIsCe),
    ];
    prop_oneof![
        20 => ack,
        8 => Just(Op::Send),
        2 => Just(Op::Loss),
        1 => Just(Op::Timeout),
        3 => Just(Op::Recovered),
        1 => Just(Op::Undo),
        2 => event.prop_map(Op::Event),
        1 => (0u64..5_000_000_000).prop_map(|us| Op::Idle { us }),
    ]
}

/// A host that keeps its own books straight and does what it is told.
struct Host {
    socket: Socket,
}

impl Host {
    fn new(selected: &Selected, rtt_us: u32, epoch_us: u64) -> Self {
        let mut socket = Socket::new(selected, MSS, 10, 3);
        (socket.tcp_mstamp, socket.delivered_mstamp, socket.first_tx_mstamp) = (epoch_us, epoch_us, epoch_us);
        socket.tcp_clock_cache = epoch_us.wrapping_mul(1000);
        socket.srtt_us = rtt_us << 3;
        socket.rtt_min_us = rtt_us;
        socket.delivered = 1;
        socket.init();
        Self { socket }
    }

    fn advance(&mut self, us: u64) {
        let sk = &mut self.socket;
        sk.tcp_mstamp += us;
        sk.tcp_clock_cache = sk.tcp_mstamp.wrapping_mul(1000);
    }

    fn apply(&mut self, op: &Op) {
        let sk = &mut self.socket;
        match *op {
            Op::Ack { packets, rtt_us, after_us, losses, limited, app_limited } => {
                self.advance(u64::from(after_us));
                self.ack(packets, rtt_us, losses, limited, app_limited);
            }
            Op::Send => {
                let room = sk.snd_cwnd.saturating_sub(sk.packets_in_flight()).min(100_000_000);
                sk.packets_out += room;
                sk.max_packets_out = sk.packets_out;
                sk.snd_nxt = sk.snd_nxt.wrapping_add(room.wrapping_mul(MSS));
                sk.bytes_sent += u64::from(room) * u64::from(MSS);
                sk.lsndtime = (sk.tcp_mstamp / 1000) as u32;
            }
            Op::Loss if sk.inet_conn.icsk_ca_state < CaState::Recovery as u8 => {
                sk.prior_cwnd = sk.snd_cwnd;
                sk.snd_ssthresh = sk.ssthresh();
                sk.set_state(CaState::Recovery);
                if !sk.has_cong_control() {
                    sk.snd_cwnd = sk.snd_ssthresh.min(sk.snd_cwnd);
                }
            }
            Op::Timeout => {
                sk.prior_cwnd = sk.snd_cwnd;
                sk.snd_ssthresh = sk.ssthresh();
                sk.set_state(CaState::Loss);
                sk.snd_cwnd = 1;
            }
            Op::Recovered => sk.set_state(CaState::Open),
            Op::Undo => sk.snd_cwnd = sk.undo_cwnd(),
            Op::Event(event) => sk.cwnd_event(event),
            Op::Idle { us } => {
                self.advance(us);
                self.socket.cwnd_event(CaEvent::TxStart);
            }
            Op::Loss => {}
        }
    }

    fn ack(&mut self, packets: u32, rtt_us: u32, losses: u32, limited: bool, app_limited: bool) {
        let sk = &mut self.socket;
        let packets = packets.min(sk.packets_out).max(1);
        let prior_in_flight = sk.packets_in_flight();
        sk.packets_out = sk.packets_out.saturating_sub(packets);
        (sk.snd_una, sk.delivered) =
            (sk.snd_una.wrapping_add(packets.wrapping_mul(MSS)), sk.delivered.wrapping_add(packets));
        sk.lost = sk.lost.wrapping_add(losses);
        sk.srtt_us = sk.srtt_us - (sk.srtt_us >> 3) + rtt_us;
        sk.rtt_min_us = sk.rtt_min_us.min(rtt_us);
        sk.is_cwnd_limited = u8::from(limited);
        sk.app_limited = if app_limited { sk.delivered.max(1) } else { 0 };
        sk.delivered_mstamp = sk.tcp_mstamp;
        let (una, delivered) = (sk.snd_una, sk.delivered);
        sk.in_ack_event(u32::from(losses > 0));
        sk.pkts_acked(&AckSample { pkts_acked: packets, rtt_us: rtt_us as i32, in_flight: prior_in_flight });
        let sample = RateSample {
            prior_mstamp: sk.tcp_mstamp.saturating_sub(u64::from(rtt_us)),
            prior_delivered: delivered.wrapping_sub(packets),
            delivered: packets as i32,
            interval_us: i64::from(rtt_us),
            rtt_us: i64::from(rtt_us),
            losses: losses as i32,
            acked_sacked: packets,
            prior_in_flight,
            last_end_seq: una,
            is_app_limited: app_limited,
            ..RateSample::default()
        };
        if sk.has_cong_control() {
            sk.cong_control(una, 0, &sample);
        } else if sk.inet_conn.icsk_ca_state < CaState::Recovery as u8 {
            sk.cong_avoid(una, packets);
        }
    }

    fn check(&self, name: &str, before: u32, op: &Op) {
        let sk = &self.socket;
        assert!(sk.snd_cwnd >= 1, "{name}: no window after {op:?}");
        // One packet: after a timeout, on Hybla's rho of 1, and on BBR's way down by losses.
        let may_be_one = before == 1 || matches!(op, Op::Timeout) || (name == "bbr" && sk.snd_cwnd == 1);
        assert!(sk.snd_cwnd >= 2 || may_be_one, "{name}: window of one after {op:?}, from {before}");
        assert!(sk.snd_ssthresh >= 2, "{name}: threshold {} after {op:?}", sk.snd_ssthresh);
        assert!(sk.snd_cwnd <= 0x7fff_ffff, "{name}: window {} after {op:?}", sk.snd_cwnd);
        let paced = sk.inet_conn.sk.sk_pacing_status == perigee_cc::pacing::NEEDED;
        assert!(!paced || sk.inet_conn.sk.sk_pacing_rate > 0 || name == "bbr", "{name}: stopped after {op:?}");
    }
}

proptest! {
    // A failure prints its shortest sequence of events, which is all that is needed to replay it.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_sequence_of_events_breaks_a_window(
        ops in prop::collection::vec(op(), 1..400),
        rtt_us in prop_oneof![Just(0u32), 1_000u32..1_000_000, Just(60_000_000)],
        epoch_us in prop_oneof![Just(0u64), Just((1u64 << 32) - 1_000_000), Just(((1u64 << 32) - 1_000) * 1000)],
    ) {
        for algorithm in algorithms() {
            let mut host = Host::new(&Selected::with_defaults(algorithm), rtt_us, epoch_us);
            for op in &ops {
                let before = host.socket.snd_cwnd;
                host.apply(op);
                host.check(algorithm.name(), before, op);
            }
        }
    }
}

/// 100 Gbit/s for 1 s, in packets.
const HUGE: u32 = 8_633_000;

#[test]
fn bbr_models_100_gbit_per_s_times_one_second_without_overflow() {
    // Long enough without PROBE_RTT, whose window says nothing of the model.
    let bbr = Selected::parse("bbr", &[("probe_rtt_interval", "600 s")]).unwrap();
    let mut host = Host::new(&bbr, 1_000_000, 5_000_000);
    for _ in 0..30 {
        host.apply(&Op::Send);
        host.socket.packets_out = HUGE;
        host.advance(1_000_000);
        let sk = &mut host.socket;
        let prior_delivered = sk.delivered;
        sk.delivered += HUGE;
        sk.delivered_mstamp = sk.tcp_mstamp;
        let sample = RateSample {
            prior_delivered,
            delivered: HUGE as i32,
            interval_us: 1_000_000,
            rtt_us: 1_000_000,
            acked_sacked: HUGE,
            prior_in_flight: HUGE,
            ..RateSample::default()
        };
        sk.cong_control(0, 0, &sample);
    }
    let sk = &host.socket;
    let bytes_per_s = f64::from(HUGE) * f64::from(MSS);
    let paced = sk.inet_conn.sk.sk_pacing_rate as f64 / (bytes_per_s * 0.99);
    // Whatever phase the cycle is in: 3/4 to 5/4.
    assert!((0.749..=1.251).contains(&paced), "paced at {paced} of the bandwidth");
    let window = f64::from(sk.snd_cwnd) / f64::from(HUGE);
    assert!((1.99..=2.2).contains(&window), "window of {window} bandwidth-delay products");
}

#[test]
fn window_algorithms_pass_100_gbit_per_s_times_one_second_without_overflow() {
    for name in ["reno", "cubic", "bic", "westwood_plus"] {
        let mut host = Host::new(&Selected::parse(name, &[]).unwrap(), 1_000_000, 5_000_000);
        (host.socket.snd_cwnd, host.socket.is_cwnd_limited) = (HUGE, 1);
        host.apply(&Op::Loss);
        host.apply(&Op::Recovered);
        let kept = host.socket.snd_cwnd;
        let mut last = kept;
        for _ in 0..2_000 {
            host.socket.packets_out = HUGE;
            host.advance(1_000_000);
            let una = host.socket.snd_una;
            host.socket.cong_avoid(una, last);
            let cwnd = host.socket.snd_cwnd;
            assert!(cwnd >= last && cwnd - last <= last / 2 + 1, "{name}: {last} to {cwnd}");
            last = cwnd;
        }
        assert!(last > kept, "{name}");
    }
}

#[test]
fn vivace_paces_at_100_gbit_per_s_without_overflow() {
    let mut host = Host::new(&Selected::parse("vivace", &[("initial", "10000")]).unwrap(), 1_000_000, 5_000_000);
    for _ in 0..200 {
        host.apply(&Op::Send);
        let (sent, out) = (host.socket.inet_conn.sk.sk_pacing_rate / u64::from(MSS) / 10, host.socket.packets_out);
        host.advance(100_000);
        host.ack((sent as u32).clamp(1, out.max(1)), 1_000_000, 0, true, false);
    }
    let rate = host.socket.inet_conn.sk.sk_pacing_rate;
    assert!(rate > 1_000_000_000 && rate <= 125_000_000_000, "{rate} bytes/s");
    assert!(u64::from(host.socket.snd_cwnd) >= rate / u64::from(MSS), "the window covers the rate");
}
