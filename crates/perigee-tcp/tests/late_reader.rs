//! An application that reads when it wants to: the window closes, the sender probes, reading opens it again.

mod common;

use common::{Path, Transfer};
use perigee_tcp::{Config, Failure};
use perigee_units::{Bytes, Time};
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
fn what_is_not_read_closes_the_window_and_the_sender_probes_until_it_is() {
    let mut transfer = opened(1_000_000);
    transfer.run(Time::from_secs(20), |_| false);
    let stuck = transfer.receiver.unread();
    assert!((1..=BUFFER).contains(&stuck), "{stuck} B in a buffer of {BUFFER} B");
    assert_eq!(transfer.receiver.received(), stuck);
    // What is left of the window is less than a segment: its right edge never moves back.
    assert!(transfer.answers.last().is_some_and(|answer| answer.window < 1448));
    let probes = transfer.data.iter().rev().take_while(|segment| segment.len == 0).count();
    assert!(probes >= 3, "{probes} window probes");
    let now = transfer.now;
    transfer.receiver.read(now, u64::MAX / 2);
    assert_eq!(transfer.receiver.unread(), 0);
    transfer.flush();
    assert!(transfer.answers.last().is_some_and(|answer| answer.window > 0), "reading says that there is room");
    transfer.run(now + Time::from_secs(1), |_| false);
    assert!(transfer.receiver.received() > stuck);
}

#[test]
fn without_the_call_all_is_read_as_it_arrives() {
    let mut transfer = Transfer::new(&Path::default(), &config(), "reno");
    transfer.sender.write(1_000_000);
    transfer.sender.close();
    transfer.open();
    transfer.run(Time::from_secs(60), |t| t.sender.is_closed());
    assert_eq!((transfer.receiver.received(), transfer.receiver.unread()), (1_000_000, 0));
}

#[test]
fn an_application_that_gives_up_resets_its_peer() {
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
    fn however_it_reads_every_byte_comes_and_the_buffer_holds_what_is_unread(
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
