//! Laws of the complete Hybla: Hoe's estimate of the first threshold, and pacing.

use crate::near;
use crate::path::{run, Path};
use crate::rounds::Rounds;
use perigee_cc::{pacing, Selected, INFINITE_SSTHRESH};

const COMPLETE: [(&str, &str); 2] = [("estimate", "on"), ("pacing", "on")];

/// The threshold after the first window's ACKs, one per two packets, spaced by a bottleneck, the last one delayed.
fn first_threshold(mbps: f64, rtt_us: u64, delayed_us: u64) -> u32 {
    threshold_of(&COMPLETE, mbps, rtt_us, delayed_us)
}

fn threshold_of(settings: &[(&str, &str)], mbps: f64, rtt_us: u64, delayed_us: u64) -> u32 {
    let mut path = Rounds::new("hybla", settings, rtt_us);
    let (packets, begin) = (path.socket.snd_cwnd, path.socket.tcp_mstamp + rtt_us);
    let spacing_us = 12_000.0 / mbps;
    path.socket.snd_nxt = path.socket.snd_una.wrapping_add(packets * 1448);
    let mut acked = 0;
    while acked < packets {
        let now = 2.min(packets - acked);
        acked += now;
        let last = if acked == packets { delayed_us } else { 0 };
        let sk = &mut path.socket;
        sk.tcp_mstamp = begin + (f64::from(acked) * spacing_us) as u64 + last;
        // Round trips grow while the window queues behind itself.
        sk.srtt_us = sk.srtt_us - (sk.srtt_us >> 3) + (rtt_us as f64 + f64::from(acked) * spacing_us) as u32;
        sk.snd_una = sk.snd_una.wrapping_add(now * 1448);
        let una = sk.snd_una;
        sk.cong_avoid(una, now);
    }
    path.socket.snd_ssthresh
}

#[test]
fn the_first_threshold_is_the_bandwidth_delay_product_also_where_the_last_ack_is_delayed() {
    for delayed_us in [0, 40_000, 200_000] {
        for (mbps, rtt_us) in [(1.0, 600_000u64), (2.0, 700_000), (10.0, 600_000), (100.0, 600_000), (10.0, 300_000)] {
            let bdp = mbps * rtt_us as f64 / 12_000.0;
            near(f64::from(first_threshold(mbps, rtt_us, delayed_us)), bdp, 4.0);
        }
    }
}

#[test]
fn too_few_packets_give_no_estimate() {
    // With a rho of 2 the first window is two packets.
    assert_eq!(first_threshold(10.0, 50_000, 0), INFINITE_SSTHRESH);
}

#[test]
fn how_few_packets_give_an_estimate_is_a_parameter() {
    // With a rho of 4 the first window is four packets, of which two come with the second ACK: 2.4 ms by 10 Mbit/s.
    assert_eq!(first_threshold(10.0, 100_000, 0), INFINITE_SSTHRESH);
    let hoe = threshold_of(&[("estimate", "on"), ("train", "2")], 10.0, 100_000, 0);
    near(f64::from(hoe), 100_000.0 / 1_200.0, 3.0);
}

#[test]
fn the_complete_version_starts_without_a_loss_where_the_plain_one_overruns_the_queue() {
    // 1 Mbit/s with a queue of 667 packets, as in the Skyplex campaign, and faster paths with a queue of one bandwidth-delay product.
    for (mbps, queue_bytes) in [(1.0, 1_000_500), (10.0, 750_000), (100.0, 7_500_000)] {
        let path = Path::new(mbps, 600, queue_bytes);
        let bdp = mbps * 0.6e6 / 12_000.0;
        let [plain, complete] = [&[][..], &COMPLETE].map(|settings| {
            let cc = Selected::parse("hybla", settings).unwrap();
            run(&path, &[(&cc, 0.0)], 3.6).remove(0)
        });
        assert_eq!(complete.lost_packets, 0, "{mbps} Mbit/s");
        // Slow start has ended; avoidance adds rho^2 = 576 packets per round trip.
        let window = f64::from(complete.cwnd[30]);
        assert!(window >= 0.95 * bdp && window < 1.1 * bdp + 2.0 * 576.0, "{window} packets at {mbps} Mbit/s");
        assert_eq!(plain.cwnd.iter().max(), Some(&65_535));
        assert!(plain.sent_packets > complete.sent_packets);
    }
}

#[test]
fn pacing_spreads_a_window_over_its_round_trip() {
    // The host's rate, 1.2 windows per round trip in avoidance, applies only where the algorithm requests pacing.
    // ACKs of every packet would spread the window as pacing does.
    let path = Path { delayed_acks: true, ..Path::new(1_000.0, 600, 50_000_000) };
    let queued = [&[][..], &[("pacing", "on")]].map(|settings| {
        let cc = Selected::parse("hybla", settings).unwrap();
        let outcome = run(&Path { loss: 0.0001, ..path.clone() }, &[(&cc, 0.0)], 30.0).remove(0);
        outcome.rtt_ms(10.0, 30.0) - 600.0
    });
    assert!(queued[1] < queued[0] / 4.0, "a queue of {} ms paced, of {} not", queued[1], queued[0]);
    for (settings, expected) in [(&[][..], pacing::NONE), (&[("pacing", "on")], pacing::NEEDED)] {
        assert_eq!(Rounds::new("hybla", settings, 600_000).socket.inet_conn.sk.sk_pacing_status, expected);
    }
}
