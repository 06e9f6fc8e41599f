//! An application that reads late: the window closes, the sender probes, and reading reopens the window.

use crate::common::{Path, Transfer};
use perigee_settings::Config;
use perigee_tcp::Failure;
use perigee_units::{Bytes, Rate, Time};
use proptest::prelude::*;

const BUFFER: u64 = 64 * 1024;

fn config() -> Config {
    let size = |bytes| Bytes::new(bytes);
    Config { rmem: [size(4096), size(BUFFER), size(BUFFER)], receive_autotuning: false, ..Config::default() }
}

fn opened(bytes: u64) -> Transfer {
    let mut transfer = Transfer::new(&Path::default(), &config(), "reno");
    transfer.receiver.read_on_demand();
    transfer.sender.write(bytes);
    transfer.sender.close();
    transfer.open();
    transfer
}

#[test]
fn unread_data_close_the_window_and_the_sender_probes_until_they_are_read() {
    let mut transfer = opened(1_000_000);
    transfer.run(Time::from_secs(20), |_| false);
    let stuck = transfer.receiver.unread();
    assert!((1..=BUFFER).contains(&stuck), "{stuck} B in a buffer of {BUFFER} B");
    assert_eq!(transfer.receiver.received(), stuck);
    // The first probe carried the rest of the window, less than a segment.
    assert_eq!(transfer.answers.last().map(|answer| answer.window), Some(0));
    let last = transfer.data.iter().rev().find(|segment| segment.len > 0).expect("data were sent");
    assert!(last.len < 1448, "{} B", last.len);
    let probes = transfer.data.iter().rev().take_while(|segment| segment.len == 0).count();
    assert!(probes >= 3, "{probes} window probes");
    let now = transfer.now;
    transfer.receiver.read(now, u64::MAX / 2);
    assert_eq!(transfer.receiver.unread(), 0);
    transfer.flush();
    assert!(transfer.answers.last().is_some_and(|answer| answer.window > 0), "reading sends a window update");
    transfer.run(now + Time::from_secs(1), |_| false);
    assert!(transfer.receiver.received() > stuck);
}

#[test]
fn a_window_in_large_units_closes_too() {
    // Windows of a buffer that may grow to 1 GiB are in units of 16 KiB, more than what arrives between two ACKs.
    let (megabyte, gigabyte) = (Bytes::new(1 << 20), Bytes::new(1 << 30));
    let receiving = Config { rmem: [megabyte, megabyte, gigabyte], receive_autotuning: false, ..Config::default() };
    let mut transfer = Transfer::with(&Path::default(), &Config::default(), &receiving, "reno");
    transfer.receiver.read_on_demand();
    transfer.sender.write(100_000_000);
    transfer.open();
    transfer.run(Time::from_secs(60), |_| false);
    let unread = transfer.receiver.unread();
    assert!(unread <= 1 << 20, "{unread} B in a buffer of 1 MiB");
    assert_eq!(transfer.answers.last().map(|answer| answer.window), Some(0));
    let now = transfer.now;
    transfer.receiver.read(now, u64::MAX);
    transfer.flush();
    transfer.run(now + Time::from_secs(20), |_| false);
    assert!(transfer.receiver.received() > unread, "reading opens it again");
}

#[test]
fn a_window_probe_with_data_gives_an_rtt_sample() {
    // Pacing sets the departure time of this sender's segments.
    let paced = Config { pacing: true, ..config() };
    let mut transfer = Transfer::new(&Path::default(), &paced, "reno");
    transfer.receiver.read_on_demand();
    transfer.sender.write(1_000_000);
    transfer.open();
    transfer.run(Time::from_secs(20), |t| t.answers.last().is_some_and(|answer| answer.window == 0));
    let now = transfer.now;
    transfer.run(now + Time::from_millis(150), |_| false);
    let rtt = transfer.sender.take_rtt().expect("the probe gives a sample");
    // The path, plus an ACK delay of up to 40 ms; the probe left at least 200 ms after the segment before it.
    assert!(rtt < Time::from_millis(150), "{rtt:?} for a path of 100 ms");
}

#[test]
fn pacing_charges_only_for_what_the_window_allows() {
    // Each ACK opens a small window by two segments; a burst at this path's rate would have ten or more.
    let small = Bytes::new(64 * 1024);
    let receiving = Config { rmem: [small; 3], receive_autotuning: false, ..Config::default() };
    let rate = Rate::from_mbps(1000.0);
    let path = Path { rate, round_trip: Time::from_micros(300), ..Path::default() };
    let received = |cc| {
        let mut transfer = Transfer::with(&path, &Config::default(), &receiving, cc);
        transfer.sender.write(1_000_000_000);
        transfer.open();
        transfer.run(Time::from_millis(500), |_| false);
        transfer.receiver.received()
    };
    let (paced, unpaced) = (received("bbr"), received("reno"));
    assert!(paced * 100 >= unpaced * 90, "{paced} B paced, {unpaced} B unpaced");
}

#[test]
fn data_are_read_as_they_arrive_by_default() {
    let mut transfer = Transfer::new(&Path::default(), &config(), "reno");
    transfer.sender.write(1_000_000);
    transfer.sender.close();
    transfer.open();
    transfer.run(Time::from_secs(60), |t| t.sender.is_closed());
    assert_eq!((transfer.receiver.received(), transfer.receiver.unread()), (1_000_000, 0));
}

#[test]
fn an_application_that_aborts_resets_its_peer() {
    let mut transfer = opened(1_000_000);
    transfer.run(Time::from_secs(1), |t| t.receiver.received() > 20_000);
    transfer.receiver.abort();
    transfer.flush();
    transfer.run(Time::from_secs(5), |t| t.sender.failure().is_some());
    assert_eq!(transfer.sender.failure(), Some(Failure::Reset));
    assert_eq!(transfer.receiver.failure(), Some(Failure::Aborted));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_read_pattern_delivers_every_byte_and_keeps_unread_data_in_the_buffer(
        (bytes, loss, seed) in (1_u64..400_000, 0_u32..5, 0_u64..1000),
        reads in prop::collection::vec((1_u64..100_000, 1_u64..400), 1..12),
    ) {
        let path = Path { loss: f64::from(loss) / 100.0, seed, ..Path::default() };
        let mut transfer = Transfer::new(&path, &config(), "reno");
        transfer.receiver.read_on_demand();
        transfer.sender.write(bytes);
        transfer.sender.close();
        transfer.open();
        let mut read = 0;
        for (size, pause_ms) in reads.iter().cycle() {
            let until = transfer.now + Time::from_millis(*pause_ms);
            transfer.run(until, |_| false);
            prop_assert!(transfer.receiver.unread() <= BUFFER);
            prop_assert_eq!(transfer.receiver.received() - transfer.receiver.unread(), read);
            read += (*size).min(transfer.receiver.unread());
            let now = transfer.now;
            transfer.receiver.read(now, *size);
            transfer.flush();
            if read == bytes {
                break;
            }
            prop_assert!(transfer.now < Time::from_secs(3600), "{read} of {bytes} B");
        }
        transfer.run(Time::from_secs(7200), |t| t.sender.is_closed());
        prop_assert!(transfer.sender.is_closed() && transfer.receiver.peer_closed());
    }
}
