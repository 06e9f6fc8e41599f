//! Loss recovery step by step: NewReno (RFC 6582) without SACK, and RFC 6675 without RACK.

use std::collections::BTreeSet;

use crate::common::{Path, Transfer};
use perigee_cc::CaState;
use perigee_settings::{Config, WindowShare};
use perigee_tcp::{Info, Segment};
use perigee_units::{Bytes, Time};

const MSS: u64 = 1448;

/// Loss detection by the number of SACKed segments.
fn counting() -> Config {
    Config { rack: false, tlp: false, ack_compression: false, ..Config::default() }
}

fn newreno() -> Config {
    Config { sack: false, ..counting() }
}

/// A transfer of `segments` segments that loses those in `drop` and then has more to send.
fn begun(config: &Config, segments: u64, drop: &[u64]) -> Transfer {
    let path = Path { queue_bytes: 10_000_000, ..Path::default() };
    let mut transfer = Transfer::new(&path, config, "reno");
    transfer.drop_data = drop.to_vec();
    transfer.sender.write(segments * MSS);
    transfer.open();
    transfer
}

/// Runs until the sender's state is `wanted`, for at most a minute.
fn until(transfer: &mut Transfer, wanted: impl Fn(&Info) -> bool) -> Info {
    transfer.run(Time::from_secs(60), |t| wanted(&t.sender.info()));
    let info = transfer.sender.info();
    assert!(wanted(&info), "state not reached: {info:?}");
    info
}

/// The sender's congestion states, each with the segments acknowledged when it started.
fn states(transfer: &mut Transfer, until_s: u64) -> Vec<(CaState, u64)> {
    let mut seen = vec![(CaState::Open, 0)];
    transfer.run(Time::from_secs(until_s), |t| {
        let info = t.sender.info();
        if seen.last().is_some_and(|last| last.0 != info.ca_state) {
            seen.push((info.ca_state, t.sender.acked() / MSS));
        }
        false
    });
    seen
}

#[test]
fn a_segment_is_lost_once_three_above_it_are_sacked() {
    // RFC 6675, section 4, IsLost: DupThresh discontiguous ranges, or more than (DupThresh - 1) x SMSS bytes.
    let mut transfer = begun(&counting(), 400, &[60, 62]);
    let first = until(&mut transfer, |info| info.lost_out > 0);
    assert_eq!((first.sacked_out, first.lost_out), (3, 1), "61, 63 and 64 lie above 60");
    let second = until(&mut transfer, |info| info.lost_out > 1);
    assert_eq!((second.sacked_out, second.lost_out), (4, 2), "63, 64 and 65 lie above 62");
}

#[test]
fn each_of_the_first_two_duplicate_acks_releases_a_new_segment() {
    // RFC 6675, section 5, step 3, and RFC 3042: SACKed segments and duplicate ACKs leave the pipe.
    for config in [counting(), newreno()] {
        let mut transfer = begun(&config, 400, &[60]);
        let mut sent = Vec::new();
        transfer.run(Time::from_secs(60), |t| {
            let info = t.sender.info();
            let reported = info.sacked_out as usize;
            if reported == sent.len() && reported < 3 && info.acked == 59 * MSS {
                sent.push(info.snd_nxt / MSS);
            }
            reported == 3
        });
        assert_eq!(sent.len(), 3, "ACKs with zero, one and two duplicates");
        assert_eq!([sent[1] - sent[0], sent[2] - sent[1]], [1, 1], "{sent:?}");
        assert_eq!(transfer.sender.info().ca_state, CaState::Recovery);
    }
}

#[test]
fn recovery_halves_the_window_once_and_ends_with_an_ack_of_all_data_sent_before_it() {
    // RFC 6675, section 5, steps 4.1, 4.2 and A; RFC 6582, section 3.2, steps 2 and 3.
    for config in [counting(), newreno()] {
        let mut transfer = begun(&config, 400, &[60, 64, 70]);
        let entered = until(&mut transfer, |info| info.ca_state == CaState::Recovery);
        // The recovery point precedes the segment that the third duplicate ACK releases.
        let window = entered.ssthresh.expect("the window was reduced") * 2;
        assert!((60..=130).contains(&window), "{window}");
        let mut last_in_recovery = 0;
        transfer.run(Time::from_secs(60), |t| {
            let info = t.sender.info();
            assert_eq!(info.ssthresh, entered.ssthresh, "the window is reduced once");
            let within = info.ca_state == CaState::Recovery;
            last_in_recovery = if within { t.sender.acked() } else { last_in_recovery };
            !within
        });
        let ended = transfer.sender.info();
        assert!(last_in_recovery <= entered.snd_nxt && ended.acked >= entered.snd_nxt - MSS, "{entered:?} {ended:?}");
        assert_eq!((ended.ca_state, ended.cwnd), (CaState::Open, window / 2));
        assert_eq!((ended.retransmitted_packets, ended.rto_count), (3, 0));
    }
}

#[test]
fn without_prr_the_third_duplicate_ack_sends_the_retransmission_however_much_is_in_flight() {
    // RFC 5681, section 3.2, step 3; RFC 6675, section 5, step 4.3. The other losses wait for the window.
    let halving = |config: Config, rate_halving| Config { prr: false, rate_halving, ..config };
    for config in [halving(counting(), false), halving(newreno(), false), halving(counting(), true)] {
        let mut transfer = begun(&config, 400, &[60, 64, 70]);
        let entered = until(&mut transfer, |info| info.ca_state == CaState::Recovery);
        assert_eq!(entered.retransmitted_packets, 1, "{config:?}");
        assert!(entered.inflight > entered.ssthresh.expect("the window was reduced") + 10, "{entered:?}");
        let repaired = until(&mut transfer, |info| info.ca_state == CaState::Open);
        assert_eq!((repaired.retransmitted_packets, repaired.rto_count), (3, 0), "{config:?}");
    }
}

/// Rate halving, with a window of the receiver that keeps nothing back behind a gap.
fn rate_halving() -> Config {
    let rmem = [Bytes::new(10_000_000); 3];
    Config { prr: false, rate_halving: true, segmentation_offload: false, rmem, ..counting() }
}

#[test]
fn rate_halving_sends_a_segment_with_every_second_ack() {
    let mut transfer = begun(&rate_halving(), 400, &[60]);
    let entered = until(&mut transfer, |info| info.ca_state == CaState::Recovery);
    let ssthresh = entered.ssthresh.expect("the window was reduced");
    let (mut acks, mut sent) = (0, Vec::new());
    transfer.run(Time::from_secs(60), |t| {
        let info = t.sender.info();
        if info.sacked_out > entered.sacked_out + acks {
            acks = info.sacked_out - entered.sacked_out;
            sent.push(info.snd_nxt / MSS);
        }
        info.ca_state != CaState::Recovery
    });
    let released = sent.windows(3).take(20).map(|sent| sent[2] - sent[0]).collect::<Vec<_>>();
    assert!(released.iter().all(|segments| *segments == 1), "{released:?}");
    let after = transfer.sender.info();
    assert!((ssthresh - 3..=ssthresh).contains(&after.cwnd), "{after:?}, half is {ssthresh}");
}

/// Threshold and window when the recovery from the loss of `drop` ends. The ACKs of 50 ms come within 5 ms, every 50 ms.
fn halved(config: &Config, cc: &str, drop: &[u64]) -> (u32, u32) {
    let path = Path { queue_bytes: 10_000_000, ..Path::default() };
    let mut transfer = Transfer::new(&path, config, cc);
    transfer.drop_data = drop.to_vec();
    transfer.sender.write(4000 * MSS);
    transfer.open();
    let mut recovering = false;
    while !recovering || transfer.sender.info().ca_state == CaState::Recovery {
        let now = transfer.now;
        assert!(now < Time::from_secs(10), "no recovery has ended: {:?}", transfer.sender.info());
        transfer.extra_delay = Time::from_micros((50_000 - now.as_micros() % 50_000) * 9 / 10);
        transfer.run(now + Time::from_micros(100), |_| false);
        recovering |= transfer.sender.info().ca_state == CaState::Recovery;
    }
    let info = transfer.sender.info();
    (info.ssthresh.expect("the window was reduced"), info.cwnd)
}

#[test]
fn rate_halving_of_a_recovery_of_two_round_trips_ends_at_half_of_the_threshold_where_the_threshold_is_half() {
    // Linux before 3.2: `tcp_reno_min_cwnd`, which BIC has not. The second loss is found a round trip after the first.
    let (ssthresh, cwnd) = halved(&rate_halving(), "reno", &[200, 395]);
    assert!((ssthresh / 2..=ssthresh * 5 / 8).contains(&cwnd), "{cwnd}, threshold {ssthresh}");
    let (ssthresh, cwnd) = halved(&rate_halving(), "bic", &[200, 395]);
    assert!((ssthresh - 1..=ssthresh).contains(&cwnd), "{cwnd}, threshold {ssthresh}");
}

#[test]
fn rate_halving_counts_what_pacing_holds_back_as_sent() {
    let paced = Config { pacing: true, ..rate_halving() };
    let [unpaced, paced] = [rate_halving(), paced].map(|config| halved(&config, "reno", &[200]));
    assert!(unpaced.1 > unpaced.0 * 3 / 4, "{unpaced:?}");
    assert!(paced.1 > paced.0 * 3 / 4, "{paced:?}");
}

#[test]
fn without_sack_each_partial_ack_triggers_one_retransmission_per_round_trip() {
    // RFC 6582, section 3.2, step 3.
    let mut transfer = begun(&newreno(), 400, &[60, 64, 70]);
    let mut repeated = Vec::new();
    transfer.run(Time::from_secs(60), |t| {
        let info = t.sender.info();
        if info.retransmitted_packets as usize > repeated.len() {
            repeated.push((t.now, t.sender.acked() / MSS));
        }
        repeated.len() == 3
    });
    assert_eq!(repeated.iter().map(|at| at.1).collect::<Vec<_>>(), [59, 63, 69]);
    for pair in repeated.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= Time::from_millis(100), "{repeated:?}");
    }
}

#[test]
fn of_many_losses_in_a_window_impatient_newreno_repairs_few_before_its_timeout() {
    // RFC 6582, section 4: only the first partial ACK restarts the timer. The other variant repairs one loss in each round trip.
    let drop: Vec<u64> = (60..80).step_by(2).collect();
    let repaired = |impatient_newreno| {
        let mut transfer = begun(&Config { impatient_newreno, ..newreno() }, 400, &drop);
        let entered = until(&mut transfer, |info| info.ca_state == CaState::Recovery);
        let left = until(&mut transfer, |info| info.ca_state != CaState::Recovery);
        let whole = until(&mut transfer, |info| info.acked == 400 * MSS);
        let thresholds = [entered, whole].map(|info| info.ssthresh.expect("the window was reduced"));
        (left.ca_state, left.acked / MSS, thresholds)
    };
    // The first partial ACK restarts the timer, of some three round trips; each later one acknowledges two segments more.
    let (state, acked, [first, last]) = repaired(true);
    assert_eq!(state, CaState::Loss);
    assert!((61..=69).contains(&acked), "{acked}");
    assert_eq!(last, first / 2, "RFC 5681, equation 4");
    let (state, acked, [first, last]) = repaired(false);
    assert_eq!((state, last), (CaState::Open, first));
    assert!(acked >= 79, "{acked}");
}

#[test]
fn impatience_ends_with_its_recovery() {
    // A timeout in the reduction after an ECN echo halves nothing again (RFC 3168, section 6.1.2), whatever the recovery before it met.
    let thresholds = |impatient_newreno| {
        let config = Config { impatient_newreno, ecn: true, ..newreno() };
        // The end of the window with the mark is lost, and all behind it; what is sent again is not.
        let mut transfer = begun(&config, 400, &[60, 62].into_iter().chain(230..=400).collect::<Vec<_>>());
        transfer.mark_data = vec![200];
        until(&mut transfer, |info| info.ca_state == CaState::Recovery);
        until(&mut transfer, |info| info.ca_state != CaState::Recovery);
        let reduced = until(&mut transfer, |info| info.ca_state == CaState::Cwr);
        let expired = until(&mut transfer, |info| info.ca_state != CaState::Cwr);
        (expired.ca_state, expired.rto_count, reduced.ssthresh, expired.ssthresh)
    };
    let (state, timeouts, reduced, expired) = thresholds(true);
    assert_eq!((state, timeouts, expired), (CaState::Loss, 1, reduced));
    assert_eq!(thresholds(false), (state, timeouts, reduced, expired));
}

#[test]
fn without_sack_recovery_lasts_until_data_above_its_point_are_acknowledged() {
    // RFC 6582, section 3.2: an ACK covers more than `recover` if `ack_number - 1 > recover`.
    let after_all = |config: &Config| {
        let mut transfer = begun(config, 100, &[60]);
        transfer.run(Time::from_secs(5), |_| false);
        assert_eq!(transfer.sender.acked(), 100 * MSS);
        let state = transfer.sender.info().ca_state;
        transfer.sender.write(MSS);
        transfer.flush();
        transfer.run(Time::from_secs(10), |_| false);
        (state, transfer.sender.info().ca_state)
    };
    assert_eq!(after_all(&newreno()), (CaState::Recovery, CaState::Open));
    assert_eq!(after_all(&counting()), (CaState::Open, CaState::Open));
}

#[test]
fn after_a_timeout_duplicate_acks_of_older_data_start_no_recovery() {
    // RFC 6582, section 4, and RFC 6675, section 5.1: the first retransmission is lost, too, so a timeout repairs it.
    for config in [counting(), newreno()] {
        let mut transfer = begun(&config, 400, &[60, 60]);
        let timeout = until(&mut transfer, |info| info.rto_count > 0);
        let states = states(&mut transfer, 60);
        let after = states.iter().skip_while(|state| state.0 != CaState::Loss).nth(1).expect("the loss is repaired");
        assert_eq!(after.0, CaState::Open, "{states:?}");
        assert!(after.1 >= timeout.snd_nxt / MSS, "{states:?}, {timeout:?}");
        assert_eq!(transfer.sender.info().rto_count, 1);
    }
}

#[test]
fn without_sack_duplicate_acks_count_as_delivered_with_or_without_an_ecn_echo() {
    let delivered = |mark: &[u64]| {
        let mut transfer = begun(&Config { ecn: true, ..newreno() }, 400, &[60]);
        transfer.mark_data = mark.to_vec();
        until(&mut transfer, |info| info.acked >= 400 * MSS).delivered
    };
    assert_eq!(delivered(&[58]), delivered(&[]));
}

#[test]
fn without_sack_more_duplicate_acks_than_segments_above_the_hole_mean_reordering() {
    // Linux's `tcp_check_reno_reordering`: nine segments can cause nine duplicate ACKs.
    let mut transfer = begun(&newreno(), 10, &(1..=10).collect::<Vec<_>>());
    let sent = until(&mut transfer, |info| info.packets_out == 10);
    assert_eq!(sent.reordering, 3);
    let ack = *transfer.answers.last().expect("the handshake's last ACK");
    let mut repeat = |count: usize| {
        (0..count).for_each(|_| transfer.sender.on_segment(transfer.now, &ack, false));
        transfer.sender.info()
    };
    assert_eq!((repeat(9).sacked_out, repeat(0).reordering), (9, 3));
    let many = repeat(1);
    assert_eq!((many.sacked_out, many.reordering), (9, 10));
}

#[test]
fn without_sack_the_window_is_constant_behind_a_gap_and_three_duplicates_repair_the_loss() {
    // RFC 5681, section 2: an ACK that changes the window is not a duplicate.
    for window_share in [WindowShare::Half, WindowShare::Measured] {
        let config = Config { sack: false, window_share, ..Config::default() };
        let mut transfer = begun(&config, 400, &[60]);
        transfer.run(Time::from_secs(60), |t| t.sender.acked() == 400 * MSS);
        let info = transfer.sender.info();
        assert_eq!((info.retransmitted_packets, info.rto_count), (1, 0), "{window_share:?}");
        let windows = |wanted: &dyn Fn(u64) -> bool| {
            let acked = |answer: &&Segment| wanted(u64::from(answer.ack.wrapping_sub(transfer.answers[1].ack)));
            transfer.answers[1..].iter().filter(acked).map(|answer| answer.window).collect::<BTreeSet<_>>()
        };
        assert_eq!(windows(&|acked| acked == 59 * MSS).len(), 1, "all duplicates advertise one window");
        assert!(windows(&|acked| acked <= 59 * MSS).len() > 1, "the window grows before the loss");
    }
}
