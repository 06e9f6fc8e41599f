//! Transactions of a population: durations by the size of the response, and single transactions as rows.
//!
//! A run may have millions of them. So each class of sizes has counts and a histogram, and the table `exchanges` has all of them
//! only if they are few, otherwise a sample of fixed size (Vitter, "Random sampling with a reservoir", ACM TOMS 11, 1985, algorithm
//! R) of those that completed.

use perigee_units::{Stream, Time};

use crate::histogram::Histogram;
use crate::{ExchangeRow, FlowId, ResponseRow, Tables};

/// The classes of sizes of a population's responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Classes {
    /// One class for each of these sizes, in ascending order.
    Sizes(Vec<u64>),
    /// One class from each power of two to the next.
    Octaves,
}

/// One transaction, on a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its number in its flow.
    pub number: u32,
    /// Payload of the request.
    pub request: u64,
    /// Payload of the response.
    pub response: u64,
    /// When its connection was opened.
    pub opened: Time,
    /// When the handshake ended at the end that opened.
    pub established: Option<Time>,
    /// When the request was sent.
    pub asked: Option<Time>,
}

/// The transactions of a population.
#[derive(Clone, Debug)]
pub struct ResponseLog {
    classes: Classes,
    /// Transactions count if they are opened from this instant on.
    from: Time,
    /// Counts by class, from the first one that has occurred.
    counts: Vec<Counts>,
    rows: Rows,
}

#[derive(Clone, Debug)]
struct Counts {
    begun: u64,
    failed: u64,
    handshake_ns: u128,
    took: Histogram,
}

/// Single transactions, with the instant of their completion.
#[derive(Clone, Debug)]
enum Rows {
    None,
    /// All transactions.
    All(Vec<(Transaction, Option<Time>)>),
    /// A sample of the completed ones, and their number.
    Sample {
        taken: Vec<(Transaction, Time)>,
        seen: u64,
        random: Stream,
    },
}

impl ResponseLog {
    /// A log of all transactions.
    pub fn of_all(classes: Classes, from: Time) -> Self {
        Self { classes, from, counts: Vec::new(), rows: Rows::All(Vec::new()) }
    }

    /// A log with a sample of transactions, drawn from `random`.
    pub fn of_a_sample(classes: Classes, from: Time, random: Stream) -> Self {
        Self { classes, from, counts: Vec::new(), rows: Rows::Sample { taken: Vec::new(), seen: 0, random } }
    }

    /// A log that writes nothing, for other connections.
    pub fn of_none() -> Self {
        Self { classes: Classes::Sizes(Vec::new()), from: Time::MAX, counts: Vec::new(), rows: Rows::None }
    }

    /// Counts a connection that is opened for a response of this size.
    pub fn begin(&mut self, now: Time, response: u64) {
        if let Some(counts) = self.counts(now, response) {
            counts.begun += 1;
        }
    }

    /// Counts a completed response.
    pub fn complete(&mut self, now: Time, transaction: &Transaction) {
        if let Some(counts) = self.counts(transaction.opened, transaction.response) {
            counts.took.add(now - transaction.opened);
            let established = transaction.established.unwrap_or(transaction.opened);
            counts.handshake_ns += u128::from((established - transaction.opened).as_nanos());
        }
        match &mut self.rows {
            Rows::None => {}
            Rows::All(rows) => rows.push((*transaction, Some(now))),
            Rows::Sample { taken, seen, random } => {
                *seen += 1;
                if taken.len() < SAMPLE {
                    taken.push((*transaction, now));
                } else if let Some(place) = taken.get_mut(random.below(*seen) as usize) {
                    *place = (*transaction, now);
                }
            }
        }
    }

    /// Counts a connection that failed before its response was complete.
    pub fn fail(&mut self, transaction: &Transaction) {
        if let Some(counts) = self.counts(transaction.opened, transaction.response) {
            counts.failed += 1;
        }
        self.leave(transaction);
    }

    /// Counts a transaction that the end of the flow leaves incomplete.
    pub fn leave(&mut self, transaction: &Transaction) {
        if let Rows::All(rows) = &mut self.rows {
            rows.push((*transaction, None));
        }
    }

    /// The counts of a transaction's class; `None` if it was opened before transactions count.
    fn counts(&mut self, opened: Time, response: u64) -> Option<&mut Counts> {
        if opened < self.from {
            return None;
        }
        let class = match &self.classes {
            Classes::Sizes(sizes) => sizes.partition_point(|size| *size < response),
            Classes::Octaves => response.max(1).ilog2() as usize,
        };
        if class >= self.counts.len() {
            let fresh = || Counts { begun: 0, failed: 0, handshake_ns: 0, took: Histogram::new(WIDTH) };
            self.counts.resize_with(class + 1, fresh);
        }
        self.counts.get_mut(class)
    }

    /// Sizes of a class: the smallest and the largest.
    fn sizes(&self, class: usize) -> (u64, u64) {
        match &self.classes {
            Classes::Sizes(sizes) => sizes.get(class).map_or((0, 0), |size| (*size, *size)),
            Classes::Octaves => (1 << class, (1 << class) * 2 - 1),
        }
    }

    /// Adds a row for each class that occurred, and the rows of single transactions.
    pub fn write(&self, id: FlowId<'_>, tables: &mut Tables) {
        for (class, counts) in self.counts.iter().enumerate().filter(|(_, counts)| counts.begun > 0) {
            let (least, most) = self.sizes(class);
            let took = &counts.took;
            tables.responses.push(ResponseRow {
                run: id.run,
                flow: id.flow.clone(),
                least_bytes: least,
                most_bytes: most,
                transactions: counts.begun,
                completed: took.count(),
                failed: counts.failed,
                mean_ms: took.mean_ms(),
                p50_ms: took.quantile_ms(0.5),
                p95_ms: took.quantile_ms(0.95),
                p99_ms: took.quantile_ms(0.99),
                max_ms: took.max().map(Time::as_millis_f64),
                slowest_tenth_ms: took.mean_of_largest_ms(0.1),
                handshake_mean_ms: (took.count() > 0).then(|| counts.handshake_ns as f64 / took.count() as f64 / 1e6),
            });
        }
        let mut rows: Vec<(Transaction, Option<Time>)> = match &self.rows {
            Rows::None => Vec::new(),
            Rows::All(rows) => rows.clone(),
            Rows::Sample { taken, .. } => taken.iter().map(|(taken, ended)| (*taken, Some(*ended))).collect(),
        };
        rows.sort_unstable_by_key(|(transaction, _)| transaction.number);
        for (transaction, ended) in rows {
            let Some(asked) = transaction.asked else { continue };
            tables.exchanges.push(ExchangeRow {
                run: id.run,
                flow: id.flow.clone(),
                number: transaction.number,
                start_s: asked.as_secs_f64(),
                request_bytes: transaction.request,
                response_bytes: transaction.response,
                duration_ms: ended.map(|ended| (ended - asked).as_millis_f64()),
            });
        }
    }
}

/// Width of the bins of durations; percentiles are linear within one.
const WIDTH: Time = Time::from_millis(1);
/// Transactions in a sample.
pub const SAMPLE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    /// A transaction opened at an instant, ms; handshake and request take 10 ms each.
    fn transaction(number: u32, opened: u64, response: u64) -> Transaction {
        let (established, asked) = (Some(MS(opened + 10)), Some(MS(opened + 10)));
        Transaction { number, request: 100, response, opened: MS(opened), established, asked }
    }

    fn written(log: &ResponseLog) -> Tables {
        let (mut tables, name) = (Tables::default(), "users".into());
        log.write(FlowId { run: 0, flow: &name, leg: None }, &mut tables);
        tables
    }

    #[test]
    fn classes_hold_counts_and_durations_from_the_opening_on() {
        let mut log = ResponseLog::of_all(Classes::Sizes(vec![1_000, 2_000]), MS(5));
        for (number, opened, response) in [(0, 0, 1_000), (1, 5, 2_000), (2, 6, 2_000), (3, 7, 1_000), (4, 8, 1_000)] {
            log.begin(MS(opened), response);
            match number {
                3 => log.fail(&transaction(number, opened, response)),
                4 => log.leave(&transaction(number, opened, response)),
                _ => log.complete(MS(opened + 100 * u64::from(number)), &transaction(number, opened, response)),
            }
        }
        let Tables { responses, exchanges, .. } = written(&log);
        assert_eq!((responses.least_bytes, responses.most_bytes), (vec![1_000, 2_000], vec![1_000, 2_000]));
        assert_eq!(
            (responses.transactions, responses.completed, responses.failed),
            (vec![2, 2], vec![0, 2], vec![1, 0])
        );
        assert_eq!((responses.mean_ms, responses.handshake_mean_ms), (vec![None, Some(150.0)], vec![None, Some(10.0)]));
        let slowest = responses.slowest_tenth_ms[1].expect("two completed");
        assert!((slowest - 200.0).abs() <= 1.0, "{slowest} ms");
        // The one before the warm-up's end is a row all the same, and so are those that did not complete.
        assert_eq!(exchanges.number, [0, 1, 2, 3, 4]);
        assert_eq!(exchanges.duration_ms[1..], [Some(90.0), Some(190.0), None, None]);
    }

    #[test]
    fn an_octave_reaches_up_to_the_next_power_of_two() {
        let mut log = ResponseLog::of_all(Classes::Octaves, MS(0));
        for size in [1, 1_023, 1_024, 2_047, 2_048] {
            log.begin(MS(0), size);
        }
        let responses = written(&log).responses;
        assert_eq!(responses.least_bytes, [1, 512, 1_024, 2_048]);
        assert_eq!(responses.most_bytes, [1, 1_023, 2_047, 4_095]);
        assert_eq!(responses.transactions, [1, 1, 2, 1]);
    }

    #[test]
    fn a_sample_has_a_fixed_size_and_every_transaction_the_same_chance() {
        let (mut first_half, rounds, count) = (0, 20, 4 * SAMPLE as u32);
        for seed in 0..rounds {
            let mut log = ResponseLog::of_a_sample(Classes::Octaves, MS(0), Stream::new(seed, "sample"));
            for number in 0..count {
                log.begin(MS(0), 1_000);
                log.complete(MS(50), &transaction(number, 0, 1_000));
            }
            let numbers = written(&log).exchanges.number;
            assert_eq!(numbers.len(), SAMPLE);
            first_half += numbers.iter().filter(|number| **number < count / 2).count();
        }
        // Half of 20,000 draws: the standard deviation is below 71.
        assert!(first_half.abs_diff(10 * SAMPLE) < 300, "{first_half}");
    }
}
