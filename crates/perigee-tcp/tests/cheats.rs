//! Receivers that cheat (Savage et al. 1999), against a sender that behaves as Linux.

use crate::common::{Path, Transfer};
use perigee_settings::{Config, Receiving};
use perigee_tcp::Flags;
use perigee_units::Time;

/// Ten seconds of an endless transfer over this path to a receiver that acknowledges in this way.
fn transfer(how: Receiving, path: &Path, cc: &str, ecn: bool) -> Transfer {
    let honest = Config { ecn, ..Config::default() };
    let mut transfer = Transfer::with(path, &honest, &Config { receiver_kind: how, ..honest.clone() }, cc);
    transfer.open();
    transfer.run(Time::from_secs(9), |t| t.sender.is_established());
    transfer.sender.write(1 << 40);
    transfer.flush();
    transfer.run(Time::from_secs(10), |_| false);
    transfer
}

fn lossy() -> Path {
    Path { loss: 0.01, ..Path::default() }
}

#[test]
fn a_receiver_that_splits_acks_sends_ten_times_as_many_and_gains_nothing() {
    for cc in ["reno", "cubic", "bbr"] {
        let [honest, split] =
            [Receiving::Honest, Receiving::AckSplitting].map(|how| transfer(how, &lossy(), cc, false));
        let gain = split.receiver.received() as f64 / honest.receiver.received() as f64;
        assert!((0.6..1.3).contains(&gain), "{cc}: {gain}");
        // An ACK that ends before SACKed data is no proof that these were dropped again.
        let (again, dropped) = (split.sender.info().retransmitted_packets, split.dropped);
        assert!(again < 2 * dropped, "{cc}: {again} retransmissions of {dropped} losses");
    }
    // Without losses, the windows of slow start are the same: they grow by what is acknowledged, not by the number of ACKs.
    let path = Path { queue_bytes: 100_000_000, ..Path::default() };
    let window = |how| {
        let config = Config { delayed_acks: false, ..Config::default() };
        let mut transfer = Transfer::with(&path, &config, &Config { receiver_kind: how, ..config.clone() }, "reno");
        transfer.open();
        transfer.run(Time::from_secs(9), |t| t.sender.is_established());
        transfer.sender.write(1 << 40);
        transfer.flush();
        transfer.run(Time::from_millis(650), |_| false);
        (transfer.sender.info().cwnd, transfer.answers.len() as u64 * 1448 / transfer.receiver.received())
    };
    let (honest, split) = (window(Receiving::Honest), window(Receiving::AckSplitting));
    assert_eq!(honest.0, split.0);
    assert!(honest.1 == 1 && split.1 >= 9, "{} and {} ACKs per segment", honest.1, split.1);
}

#[test]
fn a_hidden_loss_is_acknowledged_and_not_sent_again_and_does_not_count_as_received() {
    let mut done = Transfer::with(
        &Path { queue_bytes: 10_000_000, ..Path::default() },
        &Config::default(),
        &Config { receiver_kind: Receiving::HiddenLoss, ..Config::default() },
        "reno",
    );
    done.drop_data = vec![20, 21, 40];
    done.open();
    done.run(Time::from_secs(9), |t| t.sender.is_established());
    done.sender.write(144_800);
    done.sender.close();
    done.flush();
    done.run(Time::from_secs(30), |t| t.sender.is_closed());
    assert_eq!((done.sender.acked(), done.sender.info().retransmitted_packets), (144_800, 0));
    assert!(done.receiver.peer_closed());
    assert_eq!((done.receiver.received(), done.receiver.arrived()), (144_800 - 3 * 1448, 144_800 - 3 * 1448));
    assert!(done.answers.iter().all(|segment| segment.sack_count == 0), "nothing is said of it");
}

#[test]
fn an_optimistic_receiver_acknowledges_what_has_not_arrived_and_the_sender_believes_what_it_has_sent() {
    let honest = transfer(Receiving::Honest, &lossy(), "reno", false);
    let done = transfer(Receiving::OptimisticAck, &lossy(), "reno", false);
    let first = done.data[0].seq.wrapping_add(1);
    let highest = done.answers.iter().map(|ack| ack.ack.wrapping_sub(first)).filter(|ack| *ack < 1 << 31).max();
    assert!(u64::from(highest.expect("ACKs")) > done.receiver.received());
    assert_eq!(done.sender.info().retransmitted_packets, 0, "no loss is told");
    assert!(done.receiver.received() > 2 * honest.receiver.received(), "it pays where losses are what limits");
}

#[test]
fn a_receiver_that_ignores_ce_echoes_no_mark() {
    for cc in ["reno", "dctcp"] {
        for (how, echoes) in [(Receiving::Honest, true), (Receiving::IgnoreCe, false)] {
            let honest = Config { ecn: true, ..Config::default() };
            let config = Config { receiver_kind: how, ..honest.clone() };
            let mut done = Transfer::with(&Path { queue_bytes: 10_000_000, ..Path::default() }, &honest, &config, cc);
            done.mark_data = vec![50, 90];
            done.open();
            done.run(Time::from_secs(9), |t| t.sender.is_established());
            done.sender.write(600_000);
            done.flush();
            done.run(Time::from_secs(30), |t| t.receiver.received() == 600_000);
            assert!(done.mark_data.is_empty(), "{cc}");
            let echoed = done.answers.iter().skip(1).any(|segment| segment.flags.has(Flags::ECE));
            assert_eq!(echoed, echoes, "{cc}");
        }
    }
}
