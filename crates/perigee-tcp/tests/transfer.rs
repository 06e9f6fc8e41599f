//! Complete transfers between two endpoints over a bottleneck.

use crate::common::{Path, Transfer};
use perigee_settings::{Config, WindowShare};
use perigee_tcp::Flags;
use perigee_units::{Bytes, Rate, Stream, Time};
use proptest::prelude::*;

const MSS: u64 = 1448;

fn finished(path: &Path, config: &Config, cc: &str, bytes: u64, drop: &[u64]) -> Transfer {
    let mut transfer = Transfer::new(path, config, cc);
    transfer.drop_data = drop.to_vec();
    transfer.sender.write(bytes);
    transfer.sender.close();
    transfer.open();
    transfer.run(Time::from_secs(3600), |t| t.sender.is_closed());
    assert!(transfer.sender.is_closed(), "still open: {:?}", transfer.sender.info());
    assert_eq!(transfer.receiver.received(), bytes);
    transfer
}

#[test]
fn a_transfer_without_loss_arrives_complete_without_retransmissions() {
    let transfer = finished(&Path::default(), &Config::default(), "reno", 100 * MSS, &[]);
    let info = transfer.sender.info();
    assert_eq!((info.retransmitted_packets, info.rto_count, info.packets_out), (0, 0, 0));
}

#[test]
fn slow_start_doubles_the_window_each_round_trip() {
    let path = Path { rate: Rate::from_mbps(1000.0), queue_bytes: 100_000_000, ..Path::default() };
    // An acknowledgement that is delayed would arrive behind the instants that are looked at.
    let config = Config { delayed_acks: false, ..Config::default() };
    let mut transfer = Transfer::new(&path, &config, "reno");
    transfer.sender.write(u64::MAX);
    transfer.open();
    let mut windows = Vec::new();
    for round in 0..5 {
        // The handshake takes two delays, all on the return path; each later sample lies in the middle of a round trip.
        transfer.run(Time::from_millis(350 + 100 * round), |_| false);
        windows.push(transfer.sender.info().cwnd);
    }
    assert_eq!(windows, [20, 40, 80, 160, 320]);
}

#[test]
fn without_byte_counting_delayed_acks_slow_down_slow_start() {
    let path = Path { rate: Rate::from_mbps(1000.0), queue_bytes: 100_000_000, ..Path::default() };
    let windows = |abc| {
        let config = Config { abc, quick_acks: false, ..Config::default() };
        let mut transfer = Transfer::new(&path, &config, "reno");
        transfer.sender.write(u64::MAX);
        transfer.open();
        let after = |round: u64| {
            transfer.run(Time::from_millis(350 + 100 * round), |_| false);
            transfer.sender.info().cwnd
        };
        (0..5).map(after).collect::<Vec<_>>()
    };
    assert_eq!(windows(true), [20, 40, 80, 160, 320]);
    // One ACK per two segments: growth by half per round trip, where one segment may wait for the next round.
    let slow = windows(false);
    assert_eq!(slow[0], 15);
    assert!(slow.windows(2).all(|pair| pair[1].abs_diff(pair[0] + pair[0] / 2) <= 1), "{slow:?}");
}

#[test]
fn one_lost_segment_is_repaired_by_one_retransmission_without_a_timeout() {
    let transfer = finished(&Path::default(), &Config::default(), "reno", 300 * MSS, &[60]);
    let info = transfer.sender.info();
    assert_eq!((info.retransmitted_packets, info.rto_count), (1, 0));
}

#[test]
fn a_lost_retransmission_is_found_by_rack_and_costs_a_timeout_without() {
    let drop = [60, 60];
    let with = finished(&Path::default(), &Config::default(), "reno", 400 * MSS, &drop);
    assert_eq!(with.sender.info().rto_count, 0);
    let config = Config { rack: false, tlp: false, ..Config::default() };
    let without = finished(&Path::default(), &config, "reno", 400 * MSS, &drop);
    assert!(without.sender.info().rto_count > 0);
}

#[test]
fn gaps_reported_by_one_ack_are_detected_as_early_as_gaps_reported_singly() {
    let path = Path { rate: Rate::from_mbps(20.0), queue_bytes: 10_000_000, ..Path::default() };
    let seen = |ack_compression: bool| {
        let config = Config { ack_compression, ..Config::default() };
        let mut transfer = Transfer::new(&path, &config, "reno");
        transfer.drop_data = (300..400).step_by(2).collect();
        transfer.sender.write(u64::MAX);
        transfer.open();
        transfer.run(Time::from_secs(20), |t| t.sender.info().lost_out == 50);
        (transfer.now, transfer.acks)
    };
    let ((together, few), (alone, many)) = (seen(true), seen(false));
    assert!(few < many, "{few} {many}");
    assert!(together < alone + Time::from_millis(10), "{together:?} {alone:?}");
}

#[test]
fn a_lost_tail_is_repaired_by_a_probe_and_costs_a_timeout_without() {
    let probed = finished(&Path::default(), &Config::default(), "reno", 30 * MSS, &[29, 30]);
    let info = probed.sender.info();
    assert_eq!((info.rto_count, info.probe_count), (0, 1), "{info:?}");
    let config = Config { tlp: false, ..Config::default() };
    let waited = finished(&Path::default(), &config, "reno", 30 * MSS, &[29, 30]);
    assert_eq!(waited.sender.info().rto_count, 1);
    assert!(waited.now > probed.now);
}

#[test]
fn newreno_without_sack_repairs_several_losses_of_one_window() {
    let config = Config { sack: false, rack: false, tlp: false, ..Config::default() };
    let transfer = finished(&Path::default(), &config, "reno", 400 * MSS, &[60, 64, 70]);
    assert_eq!(transfer.sender.info().rto_count, 0);
    assert!(transfer.sender.info().retransmitted_packets >= 3);
}

#[test]
fn the_receive_window_grows_to_the_share_of_the_buffer() {
    let path = Path { rate: Rate::from_mbps(1000.0), queue_bytes: 100_000_000, ..Path::default() };
    let rmem = [4096, 131_072, 3_000_000].map(Bytes::new);
    for (window_share, memory, share) in [
        (WindowShare::Half, 2304, 0.5),
        (WindowShare::Half, 4352, 0.25),
        // Three quarters of 1800 bytes are no more than the payload of a segment, of 2304 bytes they are.
        (WindowShare::ThreeQuarters, 1800, 0.75),
        (WindowShare::ThreeQuarters, 2304, 0.375),
        // 1448 of 2304 bytes, and of 4352, in 1/256.
        (WindowShare::Measured, 2304, 160.0 / 256.0),
        (WindowShare::Measured, 4352, 85.0 / 256.0),
    ] {
        let config = Config { rmem, window_share, segment_memory: Bytes::new(memory), ..Config::default() };
        let largest = config.largest_window().as_u64();
        assert!((largest as f64 - share * 3e6).abs() < 1.0, "{largest}");
        let mut transfer = Transfer::new(&path, &config, "reno");
        transfer.sender.write(u64::MAX);
        transfer.open();
        transfer.run(Time::from_secs(20), |_| false);
        let window = u64::from(transfer.sender.info().peer_window);
        // The last step may start below the bound, and windows are advertised in units.
        assert!(
            (largest - 2 * MSS..=largest + 2 * MSS).contains(&window),
            "{window_share:?} {memory}: {window} {largest}"
        );
    }
}

#[test]
fn the_window_never_exceeds_the_buffer_whatever_the_memory_per_segment() {
    let config = Config { mss: 8960, ..Config::default() };
    assert!(u64::from(config.mss) > config.segment_memory.as_u64());
    assert!(config.largest_window() < config.rmem[2], "{}", config.largest_window());
}

#[test]
fn the_first_full_segment_determines_the_window_share_of_the_buffer() {
    let window_after_one = |window_share| {
        let rmem = [4096, 131_072, 6_291_456].map(Bytes::new);
        let config = Config { rmem, window_share, ..Config::default() };
        let mut transfer = Transfer::new(&Path::default(), &config, "reno");
        transfer.sender.write(10 * MSS);
        transfer.open();
        transfer.run(Time::from_secs(1), |_| false);
        transfer.sender.info().peer_window
    };
    assert_eq!(window_after_one(WindowShare::Half), 64_128);
    // 160/256 of 131072 bytes, less the unread segment (as Linux 6.18 over a TUN device).
    assert_eq!(window_after_one(WindowShare::Measured), 80_512);
}

#[test]
fn after_one_loss_the_window_is_the_ssthresh_of_the_algorithm() {
    let path = Path { queue_bytes: 10_000_000, ..Path::default() };
    let mut transfer = Transfer::new(&path, &Config::default(), "reno");
    transfer.drop_data = vec![200];
    transfer.sender.write(u64::MAX);
    transfer.open();
    let mut before = 0;
    transfer.run(Time::from_secs(20), |t| {
        let info = t.sender.info();
        let lost = info.ssthresh.is_some();
        before = if lost { before } else { info.cwnd };
        lost
    });
    assert_eq!(transfer.sender.info().ssthresh, Some(before / 2));
    let ssthresh = before / 2;
    transfer.run(Time::from_secs(20), |t| t.sender.info().ca_state == perigee_cc::CaState::Open);
    assert_eq!(transfer.sender.info().cwnd, ssthresh);
}

#[test]
fn a_spurious_timeout_is_undone() {
    let mut transfer = Transfer::new(&Path::default(), &Config::default(), "reno");
    transfer.sender.write(u64::MAX);
    transfer.open();
    transfer.run(Time::from_secs(2), |_| false);
    let before = transfer.sender.info();
    // All ACKs from now on are a second late: the timeout fires, although nothing is lost.
    transfer.extra_delay = Time::from_secs(1);
    transfer.run(Time::from_secs(20), |t| t.sender.info().rto_count > 0);
    assert_eq!(transfer.sender.info().rto_count, 1);
    transfer.run(transfer.now + Time::from_millis(1500), |_| false);
    let after = transfer.sender.info();
    assert!(after.cwnd >= before.cwnd, "{before:?} {after:?}");
    assert!(after.retransmitted_packets <= before.retransmitted_packets + 2);
}

#[test]
fn every_second_segment_is_acknowledged_once_quick_acks_are_over() {
    let path = Path { queue_bytes: 1_000_000, ..Path::default() };
    // Every segment is acknowledged while the window grows; this window cannot.
    let fixed = Config { rmem: [Bytes::new(131_072); 3], receive_autotuning: false, ..Config::default() };
    let delayed = finished(&path, &fixed, "reno", 400 * MSS, &[]);
    let each = Config { delayed_acks: false, ..Config::default() };
    let each = finished(&path, &each, "reno", 400 * MSS, &[]);
    assert!((190..240).contains(&delayed.acks), "{}", delayed.acks);
    assert!(each.acks >= 400, "{}", each.acks);
}

#[test]
fn trains_end_with_a_push_that_is_acknowledged_at_once() {
    // A train is three segments at this rate: two are acknowledged together, and the last alone.
    let path = Path { rate: Rate::from_mbps(42.0), queue_bytes: 1_000_000, ..Path::default() };
    let of = |train_push| {
        let fixed =
            Config { rmem: [Bytes::new(2_000_000); 3], receive_autotuning: false, train_push, ..Config::default() };
        let transfer = finished(&path, &fixed, "bbr", 20_000 * MSS, &[]);
        (transfer.acks, transfer.data.iter().filter(|segment| segment.flags.has(Flags::PSH)).count())
    };
    let ((acks, pushed), (acks_without, pushed_without)) = (of(true), of(false));
    assert!(pushed > 5000 && pushed_without <= 1, "{pushed} and {pushed_without} segments with PSH");
    assert!(acks * 6 > acks_without * 7, "{acks} and {acks_without} acknowledgements");
}

#[test]
fn replies_carry_the_acks_until_a_reply_is_missing() {
    let mut transfer = Transfer::new(&Path::default(), &Config::default(), "reno");
    transfer.open();
    transfer.run(Time::from_secs(1), |_| false);
    let mut requests = 0;
    let mut request = |transfer: &mut Transfer, replies: bool| {
        requests += 1;
        transfer.receiver.write(400);
        transfer.flush();
        transfer.run(Time::MAX, |t| t.sender.received() == 400 * requests);
        let arrival = transfer.now;
        if replies {
            transfer.sender.write(6_000);
            transfer.flush();
        }
        let before = transfer.data.len();
        transfer.run(arrival + Time::from_millis(400), |_| false);
        let acknowledged = transfer.data[before..].iter().filter(|segment| segment.len == 0).count();
        (transfer.data.iter().filter(|segment| segment.len == 0).count(), acknowledged)
    };
    // The handshake and the first request are acknowledged at once: no reply has been seen yet.
    assert_eq!(request(&mut transfer, true), (2, 0));
    assert_eq!(request(&mut transfer, true), (2, 0));
    assert_eq!(request(&mut transfer, true), (2, 0));
    // The delay expires without a reply; then each segment is acknowledged at once again.
    assert_eq!(request(&mut transfer, false), (3, 1));
    assert_eq!(request(&mut transfer, false), (4, 0));
}

#[test]
fn a_small_receive_buffer_limits_the_sender_to_one_window_per_round_trip() {
    let path = Path { rate: Rate::from_mbps(100.0), queue_bytes: 10_000_000, ..Path::default() };
    let rmem = [4096, 131_072, 131_072].map(Bytes::new);
    let config = Config { rmem, window_share: WindowShare::Half, ..Config::default() };
    let transfer = finished(&path, &config, "reno", 20_000_000, &[]);
    let rate = 20_000_000.0 / transfer.now.as_secs_f64();
    // Half the buffer is window: 65,536 bytes per slightly more than 100 ms.
    assert!((500_000.0..656_000.0).contains(&rate), "{rate} B/s");
}

#[test]
fn the_receive_buffer_stays_ahead_of_slow_start() {
    let path = Path { rate: Rate::from_mbps(100.0), queue_bytes: 5_000_000, ..Path::default() };
    let transfer = finished(&path, &Config::default(), "reno", 50_000_000, &[]);
    let goodput = 50_000_000.0 * 8.0 / transfer.now.as_secs_f64();
    assert!(goodput > 70e6, "{goodput} bit/s");
}

#[test]
fn the_window_restarts_after_a_long_idle_period() {
    let path = Path { queue_bytes: 1_000_000, ..Path::default() };
    for (restart, expected) in [(true, 10), (false, 160)] {
        let config = Config { slow_start_after_idle: restart, ..Config::default() };
        let mut transfer = Transfer::new(&path, &config, "reno");
        transfer.sender.write(150 * MSS);
        transfer.open();
        transfer.run(Time::from_secs(30), |_| false);
        let busy = transfer.sender.info().cwnd;
        assert!(busy > 100, "{busy}");
        transfer.sender.on_timer(transfer.now);
        transfer.sender.write(10 * MSS);
        let cwnd = transfer.sender.info().cwnd;
        assert_eq!(cwnd, if restart { expected } else { busy });
    }
}

#[test]
fn of_a_paced_window_the_first_ten_segments_leave_at_once() {
    for segmentation_offload in [true, false] {
        let config = Config { pacing: true, initial_window: 58, segmentation_offload, ..Config::default() };
        let mut transfer = Transfer::new(&Path::default(), &config, "reno");
        transfer.sender.write(1_000_000);
        transfer.open();
        let sent = |transfer: &Transfer| transfer.data.iter().filter(|segment| segment.len > 0).count();
        transfer.run(Time::from_secs(1), |transfer| sent(transfer) > 0);
        assert_eq!(sent(&transfer), 10, "with offload: {segmentation_offload}");
    }
}

#[test]
fn data_wait_for_a_train_only_if_the_next_ack_is_near() {
    // ACKs of two segments are 2.4 ms apart. Once a round trip the window has space for three.
    for short_train_waits in [true, false] {
        let config = Config { short_train_waits, ..Config::default() };
        let mut transfer = Transfer::new(&Path::default(), &config, "reno");
        transfer.sender.write(20_000_000);
        transfer.open();
        transfer.run(Time::from_secs(4), |_| false);
        let (mut sent, mut odd) = (transfer.data.len(), 0);
        transfer.run(Time::from_secs(8), |transfer| {
            odd += (transfer.data.len() - sent) % 2;
            sent = transfer.data.len();
            false
        });
        assert_eq!(odd > 10, short_train_waits, "{odd} times an odd number of segments");
    }
}

#[test]
fn sequence_numbers_may_wrap() {
    // A seed whose initial sequence number is within a megabyte of the wrap.
    let near_wrap = |seed: &u64| Stream::new(*seed, "tcp/iss").next_u64() as u32 > u32::MAX - 1_000_000;
    let seed = (0..1_000_000).find(near_wrap).expect("one in four thousand seeds");
    let path = Path { seed, loss: 0.01, ..Path::default() };
    finished(&path, &Config::default(), "cubic", 3_000_000, &[]);
}

#[test]
fn both_ends_may_send_simultaneously() {
    let mut transfer = Transfer::new(&Path::default(), &Config::default(), "reno");
    transfer.sender.write(500_000);
    transfer.receiver.write(300_000);
    transfer.sender.close();
    transfer.receiver.close();
    transfer.open();
    transfer.run(Time::from_secs(60), |t| t.sender.is_closed() && t.receiver.is_closed());
    assert_eq!((transfer.receiver.received(), transfer.sender.received()), (500_000, 300_000));
}

fn any_config() -> impl Strategy<Value = Config> {
    (any::<[bool; 17]>(), 1u32..20, 0u64..1000, 0u64..10).prop_map(|(on, initial_window, gathered_us, tick)| Config {
        sack: on[0],
        dsack: on[1],
        rack: on[2],
        tlp: on[3],
        frto: on[4],
        prr: on[5],
        timestamps: on[6],
        delayed_acks: on[7],
        quick_acks: on[8],
        ack_compression: on[9],
        pacing: on[10],
        slow_start_after_idle: on[11],
        segmentation_offload: on[12],
        train_refill: on[13],
        train_push: on[14],
        rate_halving: on[15],
        late_ack_events: on[16],
        // Half of the cases have no tick.
        tick: Time::from_millis((2 * tick).saturating_sub(10)),
        // Half of the cases have no offload.
        receive_offload: Time::from_micros(gathered_us.saturating_sub(500)),
        initial_window,
        ..Config::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn all_data_arrive_once_under_any_loss_and_any_settings(
        config in any_config(),
        other in any_config(),
        cc in prop::sample::select(vec!["reno", "cubic", "bbr", "hybla"]),
        seed in any::<u32>(),
        loss in 0.0f64..0.2,
        ack_loss in 0.0f64..0.2,
        segments in 1u64..400,
        queue in 3_000u64..200_000,
    ) {
        let path = Path { loss, ack_loss, queue_bytes: queue, seed: u64::from(seed), ..Path::default() };
        let mut transfer = Transfer::with(&path, &config, &other, cc);
        transfer.sender.write(segments * 1000);
        transfer.sender.close();
        transfer.open();
        transfer.run(Time::from_secs(100_000), |t| {
            let info = t.sender.info();
            assert!(info.sacked_out + info.lost_out <= info.packets_out, "{info:?}");
            assert!(info.retrans_out <= info.packets_out, "{info:?}");
            assert!(info.cwnd > 0, "{info:?}");
            t.sender.is_closed()
        });
        prop_assert!(transfer.sender.is_closed(), "{:?}", transfer.sender.info());
        prop_assert_eq!(transfer.receiver.received(), segments * 1000);
    }
}

#[test]
fn a_transfer_is_the_same_whether_it_starts_at_zero_or_later() {
    // The round trip is below a millisecond, so the first timestamps are 0.
    let path = Path {
        rate: Rate::from_mbps(10.0),
        round_trip: Time::from_micros(400),
        queue_bytes: 19_000,
        ..Path::default()
    };
    let config = Config { initial_window: 100, ..Config::default() };
    let sent = |start: Time| {
        let mut transfer = Transfer::new(&path, &config, "bic");
        transfer.now = start;
        transfer.sender.write(4_000_000);
        transfer.sender.close();
        transfer.open();
        transfer.run(Time::from_secs(60), |t| t.sender.is_closed());
        let info = transfer.sender.info();
        (transfer.now - start, info.retransmitted_packets, transfer.answers.len())
    };
    assert_eq!(sent(Time::ZERO), sent(Time::from_secs(1)));
}

#[test]
fn without_timestamps_the_window_grows_as_with_them() {
    // The first window is an eighth of the bandwidth-delay product.
    let path = Path { rate: Rate::from_mbps(40.0), queue_bytes: 10_000_000, ..Path::default() };
    let largest = |timestamps, window_share| {
        let config = Config { timestamps, window_share, ..Config::default() };
        let transfer = finished(&path, &config, "cubic", 10_000_000, &[]);
        (transfer.now, transfer.answers.iter().map(|answer| answer.window).max().expect("the receiver sent ACKs"))
    };
    for share in [WindowShare::Half, WindowShare::Measured] {
        let (with, without) = (largest(true, share), largest(false, share));
        assert!(without.1 > 500_000, "{without:?}, with timestamps {with:?}");
        assert!(without.0.as_nanos() * 10 < with.0.as_nanos() * 11, "{without:?}, with timestamps {with:?}");
    }
}
