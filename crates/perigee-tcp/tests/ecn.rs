//! Explicit congestion notification (RFC 3168).

use crate::common::{Path, Transfer};
use perigee_settings::Config;
use perigee_tcp::{Flags, Segment};
use perigee_units::{Bytes, Time};

const BYTES: u64 = 600_000;

/// A transfer between two ECN-capable ends; `prepared` changes it before it starts.
fn transfer(prepared: impl FnOnce(&mut Transfer)) -> Transfer {
    transfer_of("reno", &Config { ecn: true, ..Config::default() }, prepared)
}

/// Carries out a transfer with this congestion control, between two hosts with these settings.
fn transfer_of(cc: &str, config: &Config, prepared: impl FnOnce(&mut Transfer)) -> Transfer {
    let mut transfer = Transfer::new(&Path { queue_bytes: 10_000_000, ..Path::default() }, config, cc);
    prepared(&mut transfer);
    transfer.open();
    transfer.run(Time::from_secs(60), |t| t.sender.is_established());
    transfer.sender.write(BYTES);
    transfer.flush();
    transfer.run(Time::from_secs(60), |t| t.receiver.received() == BYTES);
    assert_eq!(transfer.receiver.received(), BYTES);
    transfer
}

/// Data segments, each with whether it is a retransmission.
fn data(transfer: &Transfer) -> Vec<(Segment, bool)> {
    let mut highest: Option<u32> = None;
    let with_data = transfer.data.iter().filter(|segment| segment.len > 0);
    let again = with_data.map(|segment| {
        let again = highest.is_some_and(|highest| segment.seq.wrapping_sub(highest) as i32 <= 0);
        if !again {
            highest = Some(segment.seq);
        }
        (*segment, again)
    });
    again.collect()
}

fn reductions(transfer: &Transfer) -> usize {
    transfer.data.iter().filter(|segment| segment.flags.has(Flags::CWR)).count()
}

#[test]
fn only_new_data_are_ect() {
    let done = transfer(|t| t.drop_data = vec![40, 80]);
    let (syn, syn_ack) = (done.answers[0], done.data[0]);
    assert!(syn.flags.has(Flags::SYN | Flags::ECE | Flags::CWR), "the SYN asks for ECN");
    assert!(syn_ack.flags.has(Flags::SYN | Flags::ECE) && !syn_ack.flags.has(Flags::CWR), "the SYN-ACK agrees");
    assert!(!syn_ack.ect && done.answers.iter().all(|segment| !segment.ect), "handshake and ACKs are not ECT");
    let data = data(&done);
    assert!(data.iter().filter(|(_, again)| *again).count() >= 2, "two segments were lost");
    for (number, (segment, again)) in data.iter().enumerate() {
        assert_eq!(segment.ect, !again, "segment {number}");
    }
}

#[test]
fn a_mark_is_echoed_until_cwr_and_causes_no_retransmission() {
    let done = transfer(|t| t.mark_data = vec![50]);
    assert!(done.mark_data.is_empty(), "the segment was marked");
    assert_eq!((done.sender.info().retransmitted_packets, reductions(&done)), (0, 1));
    let cwr = done.data.iter().find(|segment| segment.flags.has(Flags::CWR)).expect("a segment carries CWR");
    let marked = done.data.iter().filter(|segment| segment.len > 0).nth(49).expect("fifty data segments");
    let answers: Vec<_> = done.answers.iter().filter(|segment| !segment.flags.has(Flags::SYN)).collect();
    let beyond = |ack: u32, segment: &Segment| ack.wrapping_sub(segment.seq) as i32 > 0;
    for answer in answers {
        let echoes = beyond(answer.ack, marked) && !beyond(answer.ack, cwr);
        assert_eq!(answer.flags.has(Flags::ECE), echoes, "ACK {}", answer.ack.wrapping_sub(marked.seq));
    }
}

#[test]
fn the_window_is_halved_once_for_all_marks_in_one_window() {
    let marked = |marks: Vec<u64>| {
        let done = transfer(|t| t.mark_data = marks);
        assert!(done.mark_data.is_empty());
        (reductions(&done), done.sender.info().ssthresh.expect("the window was reduced"), done.sender.info().cwnd)
    };
    let (once, threshold, _) = marked(vec![60]);
    assert_eq!(once, 1);
    // After sixty segments, slow start from ten has reached a window of about seventy; the reduction halves it.
    assert!((25..=45).contains(&threshold), "{threshold}");
    let (several, same, _) = marked((60..70).collect());
    assert_eq!((several, same), (1, threshold));
    let (twice, lower, window) = marked(vec![60, 250]);
    assert_eq!(twice, 2);
    assert!(lower < threshold && window < 2 * threshold, "{lower}, {window}");
}

#[test]
fn the_first_new_segment_after_a_loss_carries_cwr() {
    let done = transfer(|t| t.drop_data = vec![50]);
    assert_eq!(reductions(&done), 1);
    let (segment, again) =
        data(&done).into_iter().find(|(segment, _)| segment.flags.has(Flags::CWR)).expect("a segment carries CWR");
    assert!(segment.ect && !again);
}

#[test]
fn ecn_is_off_unless_both_ends_support_it() {
    let (with, without) = (Config { ecn: true, ..Config::default() }, Config::default());
    for (sending, receiving) in [(&with, &without), (&without, &with)] {
        let mut done = Transfer::with(&Path::default(), sending, receiving, "reno");
        done.open();
        done.run(Time::from_secs(9), |t| t.sender.is_established());
        done.sender.write(100_000);
        done.flush();
        done.run(Time::from_secs(9), |t| t.receiver.received() == 100_000);
        assert!(done.data.iter().all(|segment| !segment.ect && !segment.flags.has(Flags::CWR)));
        assert_eq!(done.receiver.received(), 100_000);
    }
}

#[test]
fn an_algorithm_that_needs_ecn_negotiates_it_and_all_its_packets_are_ect() {
    for ecn in [false, true] {
        let done = transfer_of("dctcp", &Config { ecn, ..Config::default() }, |t| t.drop_data = vec![40, 80]);
        let (syn, syn_ack) = (done.answers[0], done.data[0]);
        assert!(syn.flags.has(Flags::SYN | Flags::ECE | Flags::CWR) && !syn.flags.has(Flags::ACK));
        assert!(syn_ack.flags.has(Flags::SYN | Flags::ECE) && !syn_ack.flags.has(Flags::CWR));
        assert!(done.data.iter().chain(&done.answers).all(|segment| segment.ect));
        let data = data(&done);
        assert!(data.iter().filter(|(_, again)| *again).count() >= 2, "two segments were lost");
        assert!(data.iter().all(|(segment, again)| !(*again && segment.flags.has(Flags::CWR))));
    }
}

#[test]
fn an_algorithm_that_needs_ecn_does_without_where_the_peer_has_none() {
    let (reno, dctcp) = (Config::default(), Config::default());
    for (sends, answers) in [("dctcp", "reno"), ("reno", "dctcp")] {
        let mut done = Transfer::of_two(&Path::default(), (&dctcp, sends), (&reno, answers));
        done.open();
        done.run(Time::from_secs(9), |t| t.sender.is_established());
        done.sender.write(100_000);
        done.flush();
        done.run(Time::from_secs(9), |t| t.receiver.received() == 100_000);
        assert_eq!(done.receiver.received(), 100_000);
        assert!(done.data.iter().all(|segment| !segment.ect && !segment.flags.has(Flags::ECE)), "{sends}");
        let [syn, rest @ ..] = &done.answers[..] else { panic!("a SYN") };
        assert_eq!(syn.ect, answers == "dctcp");
        assert!(rest.iter().all(|segment| !segment.ect && !segment.flags.has(Flags::ECE)), "{sends}");
    }
}

/// Hosts whose receive window does not grow: while it grows, every segment is acknowledged at once.
fn fixed_window() -> Config {
    Config { rmem: [Bytes::new(131_072); 3], receive_autotuning: false, ..Config::default() }
}

/// Data segments with whether each was marked, as the ACKs tell it: each ACK answers what it newly acknowledges.
fn told(done: &Transfer) -> Vec<bool> {
    let first = done.data[0].seq.wrapping_add(1);
    let (mut told, mut next) = (Vec::new(), first);
    for ack in done.answers.iter().filter(|segment| !segment.flags.has(Flags::SYN)) {
        let bytes = ack.ack.wrapping_sub(next) as i32;
        if bytes > 0 {
            let segments = (bytes as usize).div_ceil(1448);
            told.extend(std::iter::repeat_n(ack.flags.has(Flags::ECE), segments));
            next = ack.ack;
        }
    }
    told
}

#[test]
fn acks_tell_of_each_segment_whether_it_was_marked_although_they_are_delayed() {
    let segments = BYTES.div_ceil(1448);
    let patterns: [fn(u64) -> bool; 6] =
        [|_| false, |_| true, |n| n % 2 == 0, |n| n % 3 == 1, |n| n / 5 % 2 == 0, |n| n * n % 11 < 4];
    for (number, is_marked) in patterns.into_iter().enumerate() {
        let marks = || (1..=segments).filter(|n| is_marked(*n));
        let done = transfer_of("dctcp", &fixed_window(), |t| t.mark_data = marks().collect());
        assert!(done.mark_data.is_empty(), "all were marked");
        let told = told(&done);
        // The last segment may still wait for its ACK.
        assert!(told.len() as u64 >= segments - 1, "pattern {number}: {} of {segments} are acknowledged", told.len());
        let wrong = (1..).zip(&told).find(|(segment, told)| is_marked(*segment) != **told);
        assert_eq!(wrong, None, "pattern {number}: a segment, and what was told of it");
        let acks = done.answers.len() as u64;
        assert!(number != 0 || acks < segments * 3 / 4, "{acks} ACKs of {segments} segments: they are delayed");
        assert_eq!(done.sender.info().retransmitted_packets, 0);
    }
}

#[test]
fn an_early_ack_answers_what_came_before_the_change() {
    // Past the quick ACKs of the beginning, every second segment is acknowledged: one of the two marks falls between two ACKs.
    let done = transfer_of("dctcp", &fixed_window(), |t| t.mark_data = vec![201, 302]);
    let early = done.answers.windows(2).filter(|pair| {
        let [before, after] = pair else { return false };
        before.flags.has(Flags::ECE) != after.flags.has(Flags::ECE)
            && before.tsval == after.tsval
            && before.ack != after.ack
    });
    assert!(early.count() >= 1, "two ACKs leave at once where the state changes");
}

#[test]
fn marks_on_acks_mean_nothing() {
    let with = |mark_answers| transfer_of("dctcp", &fixed_window(), |t| t.mark_answers = mark_answers);
    let [plain, marked] = [false, true].map(with);
    assert_eq!((marked.now, marked.data.len()), (plain.now, plain.data.len()));
    let segments = marked.data.iter().filter(|segment| !segment.flags.has(Flags::SYN));
    assert_eq!(segments.filter(|segment| segment.flags.has(Flags::ECE)).count(), 0);
}

#[test]
fn a_syn_that_is_lost_is_sent_again_without_asking_for_ecn() {
    for (cc, ecn) in [("reno", true), ("dctcp", false)] {
        let mut done = Transfer::new(&Path::default(), &Config { ecn, ..Config::default() }, cc);
        done.drop_requests = 1;
        done.open();
        done.run(Time::from_secs(9), |t| t.sender.is_established());
        done.sender.write(100_000);
        done.flush();
        done.run(Time::from_secs(9), |t| t.receiver.received() == 100_000);
        assert_eq!(done.receiver.received(), 100_000);
        let [first, second, ..] = &done.answers[..] else { panic!("two SYNs") };
        assert!(first.flags.has(Flags::SYN | Flags::ECE | Flags::CWR), "{cc}");
        assert!(second.flags.has(Flags::SYN) && second.flags.0 & (Flags::ECE | Flags::CWR) == 0, "{cc}");
        // As in Linux, what needs ECN leaves the field of its SYN as it was.
        assert_eq!((first.ect, second.ect), (cc == "dctcp", cc == "dctcp"));
        assert!(done.data.iter().all(|segment| !segment.ect && !segment.flags.has(Flags::ECE)), "{cc}: without ECN");
    }
}
