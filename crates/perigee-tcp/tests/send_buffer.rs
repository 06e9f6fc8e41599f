//! Flights that a send buffer allows: figures of Linux 6.18 (`ss -m`) where it has them.

use crate::common::{Path, Transfer};
use perigee_settings::Config;
use perigee_units::{Bytes, Rate, Time};

/// The largest number of bytes in flight in 4 s over 100 ms, in slow start at a rate that never limits it.
fn most_in_flight(config: &Config) -> u64 {
    let path = Path {
        rate: Rate::from_mbps(1000.0),
        round_trip: Time::from_millis(100),
        queue_bytes: 100_000_000,
        ..Path::default()
    };
    let mut transfer = Transfer::new(&path, config, "reno");
    transfer.sender.write(u64::MAX / 2);
    transfer.open();
    let mut most = 0;
    transfer.run(Time::from_secs(4), |transfer| {
        let info = transfer.sender.info();
        most = most.max(info.snd_nxt - info.acked);
        false
    });
    most
}

fn limited(largest: u64, segmentation_offload: bool) -> Config {
    Config { wmem: [4096, 16_384, largest].map(Bytes::new), segmentation_offload, ..Config::default() }
}

#[test]
fn a_whole_write_ends_up_in_flight_above_a_buffer_that_is_asked_once_for_each() {
    let most = most_in_flight(&limited(32_768, true));
    // At most two thirds of the buffer were in flight as the write began, and one that the window interrupts leaves a large segment.
    assert!((WRITE..WRITE + 21_845 + 65_536).contains(&most), "{most} B");
}

#[test]
fn a_buffer_that_is_asked_for_each_segment_holds() {
    let most = most_in_flight(&limited(32_768, false));
    assert!((30_000..=32_768).contains(&most), "{most} B");
}

#[test]
fn a_large_buffer_is_exceeded_by_less_than_a_write() {
    let most = most_in_flight(&limited(4_194_304, true));
    assert!((4_000_000..4_194_304 + WRITE).contains(&most), "{most} B");
}

#[test]
fn the_buffer_grows_with_the_window() {
    let grown = most_in_flight(&limited(60_000_000, true));
    let started_there =
        most_in_flight(&Config { wmem: [4096, 60_000_000, 60_000_000].map(Bytes::new), ..Config::default() });
    assert!(grown > 8_000_000, "{grown} B");
    assert_eq!(grown, started_there, "slow start doubles the window, and the buffer holds two of it");
}

/// The most whole segments in 256 KiB, bytes.
const WRITE: u64 = 262_144 / 1448 * 1448;
