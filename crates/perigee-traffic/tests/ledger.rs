//! The ledger of a population, filled by hand.

use perigee_results::{FlowRow, Measure, Outcome, Tables};
use perigee_traffic::{Access, Ledger, Population, SenderTotals, Transactions, Visit, Visitors, Visits};
use perigee_units::{Bytes, Stream, Time};

const MS: fn(u64) -> Time = Time::from_millis;

/// A population of 1 s from `start` on, with a transaction of 1,000 bytes every 100 ms.
fn begin(start: Time) -> (Visits, Ledger) {
    let (interval, request) = (MS(100), Bytes::new(100));
    let transactions = Transactions { interval, request, responses: vec![Bytes::new(1_000)] };
    let population = Population {
        source: Visitors::Transactions(transactions),
        duration: MS(1_000),
        warmup: Time::ZERO,
        access: Access { least: Time::ZERO, most: Time::ZERO },
    };
    population.begin(start, ["traffic", "sample"].map(|purpose| Stream::new(1, purpose)), &Measure::default(), false)
}

fn next_visit(visits: &mut Visits) -> Visit {
    let at = visits.next_at();
    visits.open(at).expect("the population goes on")
}

fn sender(packets: u64, timeouts: u64) -> SenderTotals {
    SenderTotals { packets, retransmitted: timeouts, timeouts }
}

#[test]
fn a_ledger_adds_up_the_connections_that_have_closed_failed_and_remained_open() {
    let (mut visits, mut ledger) = begin(MS(50));
    let mut open: Vec<_> =
        (0..3).map(|_| next_visit(&mut visits)).map(|visit| ledger.begin(visit.at, &visit)).collect();
    for (number, ms) in [(0, 250), (0, 260), (1, 250), (2, 250)] {
        open[number].establish(MS(ms));
        open[number].ask(MS(ms));
    }
    ledger.deliver(MS(300), &mut open[0], 400, 700);
    assert!(!ledger.complete(MS(300), &mut open[0]), "300 bytes wait behind a gap of 300");
    ledger.deliver(MS(310), &mut open[0], 1_000, 1_000);
    assert!(ledger.complete(MS(310), &mut open[0]) && !ledger.complete(MS(311), &mut open[0]), "it completes once");
    ledger.deliver(MS(320), &mut open[1], 10, 10);
    ledger.close(&open[0], sender(2, 0), false);
    ledger.close(&open[1], sender(3, 2), true);
    ledger.finish(ledger.end(), Outcome::Completed, [(open[2], sender(1, 1))].into_iter());
    let mut tables = Tables::default();
    ledger.write(FlowRow::default(), MS(5_000), &mut tables);
    let Tables { flows, responses, exchanges, .. } = tables;
    assert_eq!((flows.received_bytes, flows.duration_s), (vec![1_010], vec![1.0]));
    assert_eq!((flows.sent_packets, flows.retransmitted_packets), (vec![Some(6)], vec![Some(3)]));
    assert_eq!(flows.rto_count, [Some(3)]);
    let counts = (responses.transactions, responses.completed, responses.failed);
    assert_eq!(counts, (vec![3], vec![1], vec![1]));
    assert_eq!((exchanges.number, exchanges.duration_ms), (vec![0, 1, 2], vec![Some(60.0), None, None]));
}

#[test]
fn a_ledger_counts_from_the_start_of_its_flow_to_its_end() {
    let (_, mut ledger) = begin(MS(50));
    assert_eq!((ledger.next_instant(), ledger.end()), (MS(1_050), MS(1_050)));
    let percent = |ms| (100.0 * ledger.progress(MS(ms))) as u32;
    assert_eq!([0, 50, 550, 1_050, 2_000].map(percent), [0, 0, 50, 100, 100]);
    assert!(ledger.counts(MS(1_049)) && !ledger.counts(MS(1_050)));
    ledger.finish(MS(700), Outcome::TimeLimit, std::iter::empty());
    assert!(ledger.has_ended() && !ledger.counts(MS(600)));
    assert_eq!(ledger.next_instant(), Time::MAX);
}
