//! Segment sizes with small windows.

use crate::common::{Path, Transfer};
use perigee_settings::{Config, WindowShare};
use perigee_units::{Bytes, Rate, Time};

const MSS: u64 = 1448;

fn endless(path: &Path, config: &Config, start: Time, until: Time) -> Transfer {
    let mut transfer = Transfer::new(path, config, "reno");
    transfer.now = start;
    transfer.sender.write(u64::MAX / 2);
    transfer.open();
    transfer.run(start + until, |_| false);
    transfer
}

#[test]
fn a_segment_takes_at_most_half_of_the_largest_window() {
    let path = Path { rate: Rate::from_mbps(100.0), queue_bytes: 5_000_000, ..Path::default() };
    let config = Config { mss: 65_000, ..Config::default() };
    let transfer = endless(&path, &config, Time::ZERO, Time::from_secs(2));
    let (mut largest, mut sent) = (0, 0);
    for segment in &transfer.data {
        largest = largest.max(u32::from(segment.len));
        sent += u64::from(segment.len);
    }
    let window = transfer.sender.info().peer_window;
    assert!((20_000..=window / 2).contains(&largest), "{largest} B with a window of {window} B");
    assert!(sent > 5_000_000, "{sent} B in 2 s: no segment waits for a delayed ACK");
}

#[test]
fn a_tiny_window_is_filled_by_one_small_segment_at_a_time() {
    let rmem = [4096, 9216, 9216].map(Bytes::new);
    for window_share in [WindowShare::Half, WindowShare::Measured] {
        let config = Config { rmem, window_share, ..Config::default() };
        let path = Path { queue_bytes: 1_000_000, ..Path::default() };
        let transfer = endless(&path, &config, Time::ZERO, Time::from_secs(4));
        let small: Vec<_> = transfer.data.iter().filter(|segment| (1..MSS).contains(&u64::from(segment.len))).collect();
        assert!(!small.is_empty());
        // One small segment per window.
        let windows = transfer.receiver.received() / u64::from(transfer.sender.info().peer_window);
        assert!(small.len() as u64 <= windows + 2, "{} in {windows} windows", small.len());
        let per_round_trip = transfer.receiver.received() as f64 / 40.0;
        assert!(per_round_trip > 0.75 * f64::from(transfer.sender.info().peer_window), "{per_round_trip} B");
    }
}

#[test]
fn a_segment_bounded_by_a_small_window_uses_proportionally_less_memory() {
    let path = Path { rate: Rate::from_mbps(100.0), queue_bytes: 2_000_000, ..Path::default() };
    let config = Config {
        mss: 8960,
        segment_memory: Bytes::new(16_640),
        rmem: [4096, 32_768, 32_768].map(Bytes::new),
        ..Config::default()
    };
    let transfer = endless(&path, &config, Time::ZERO, Time::from_secs(4));
    let largest = transfer.data.iter().map(|segment| segment.len).max();
    assert!(largest > Some(8000), "{largest:?} B: the first segments shrank the window for good");
}

#[test]
fn a_large_segment_split_by_the_window_ends_with_the_rest_of_its_segment_unless_it_is_refilled() {
    let path = Path { rate: Rate::from_mbps(100.0), queue_bytes: 2_000_000, ..Path::default() };
    let small = |train_refill| {
        let rmem = [4096, 131_072, 131_072].map(Bytes::new);
        // Quick ACKs, of small segments too, would leave few splits.
        let config = Config { rmem, train_refill, quick_acks: false, ..Config::default() };
        let sent = endless(&path, &config, Time::ZERO, Time::from_secs(4)).data;
        sent.iter().map(|segment| u64::from(segment.len)).filter(|len| (1..MSS).contains(len)).collect::<Vec<_>>()
    };
    let (refilled, split) = (small(true), small(false));
    assert!(refilled.len() > 20 && split.len() > 20, "{} and {}", refilled.len(), split.len());
    assert!(split.chunks_exact(2).all(|pair| pair[0] + pair[1] == MSS), "{split:?}");
    assert!(refilled.chunks_exact(2).any(|pair| pair[0] + pair[1] != MSS), "{refilled:?}");
}

#[test]
fn an_echo_of_more_than_an_hour_ago_measures_no_round_trip() {
    let mut transfer = endless(&Path::default(), &Config::default(), Time::ZERO, Time::from_secs(1));
    let received = transfer.receiver.received();
    let mut late = *transfer.data.iter().find(|segment| segment.len > 0).expect("data were sent");
    // Its age in microseconds has more than 32 bits.
    late.tsecr = late.tsecr.wrapping_sub(5_000_000);
    transfer.receiver.on_segment(transfer.now, &late, false);
    assert_eq!(transfer.receiver.received(), received);
}
