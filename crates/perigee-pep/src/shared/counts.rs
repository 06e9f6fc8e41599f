//! The counts of the connections that a subscriber has by a rule, with its names in metrics and lines of accounting.

use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::SatelliteLink;
use crate::relay::Side;

/// A count of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Accepted,
    /// Open connections: this count also shrinks.
    Open,
    /// Bytes that a side has sent, and that were passed on.
    Bytes(Side),
    Ended(End),
    /// Segments that were sent again to a side.
    Retransmitted(Side),
    /// Smoothed round trips that were read of a side's leg, and their sum.
    RoundTrips(Side),
    RoundTripsUs(Side),
    /// Time that a side's leg has held transfers up.
    LimitedUs(Side, Cause),
    /// Bytes that wait in the service: this count also shrinks.
    Queued,
    /// Connections that were as long as a page, and what they have saved.
    Pages,
    SavedUs,
}

/// Why a transfer waits at a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// There are bytes for the leg, and it takes no more for now: its path.
    Path,
    /// The window of the other end is closed: who reads there.
    Reader,
    /// Nothing arrives: who sends there, or the path.
    Arrival,
}

/// Outcome of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both streams reached their ends.
    Complete,
    /// One side reset it, or vanished.
    Failed,
    /// The server could not be reached.
    Unreached,
    /// The service ended it: drain, or an error of its own.
    Aborted,
}

/// All counts of a subscriber by a rule, which any thread may change.
#[derive(Debug)]
pub(crate) struct Counts {
    /// The subscriber, or several.
    pub(crate) who: Box<str>,
    counts: [AtomicU64; COUNTS],
}

/// Their values at an instant, or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals([u64; COUNTS]);

impl Count {
    /// All of them, in the order of lines of accounting.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let sides = || SIDES.into_iter();
        let limited = sides().flat_map(|side| Cause::ALL.map(|cause| Self::LimitedUs(side, cause)));
        let of_sides =
            sides().flat_map(|side| [Self::Retransmitted(side), Self::RoundTrips(side), Self::RoundTripsUs(side)]);
        [Self::Accepted, Self::Open]
            .into_iter()
            .chain(sides().map(Self::Bytes))
            .chain(End::ALL.map(Self::Ended))
            .chain(limited)
            .chain([Self::Queued, Self::Pages, Self::SavedUs])
            .chain(of_sides)
    }

    fn at(self) -> usize {
        match self {
            Self::Accepted => 0,
            Self::Open => 1,
            Self::Bytes(side) => 2 + side as usize,
            Self::Ended(end) => 4 + end as usize,
            Self::Retransmitted(side) => 8 + side as usize,
            Self::RoundTrips(side) => 10 + side as usize,
            Self::RoundTripsUs(side) => 12 + side as usize,
            Self::LimitedUs(side, cause) => 14 + 3 * side as usize + cause as usize,
            Self::Queued => 20,
            Self::Pages => 21,
            Self::SavedUs => 22,
        }
    }

    /// Its name in lines of accounting.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Accepted => "accepted".to_owned(),
            Self::Open => "open".to_owned(),
            Self::Bytes(Side::Client) => "bytes_up".to_owned(),
            Self::Bytes(Side::Server) => "bytes_down".to_owned(),
            Self::Ended(end) => end.name().to_owned(),
            Self::Retransmitted(side) => format!("{}_retransmitted", side.name()),
            Self::RoundTrips(side) => format!("{}_round_trips", side.name()),
            Self::RoundTripsUs(side) => format!("{}_round_trips_us", side.name()),
            Self::LimitedUs(side, cause) => format!("{}_{}_us", side.name(), cause.name()),
            Self::Queued => "queue_bytes".to_owned(),
            Self::Pages => "pages".to_owned(),
            Self::SavedUs => "saved_us".to_owned(),
        }
    }
}

impl Cause {
    pub(crate) const ALL: [Self; 3] = [Self::Path, Self::Reader, Self::Arrival];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Reader => "reader",
            Self::Arrival => "arrival",
        }
    }
}

impl End {
    pub(crate) const ALL: [Self; 4] = [Self::Complete, Self::Failed, Self::Unreached, Self::Aborted];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Unreached => "unreached",
            Self::Aborted => "aborted",
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self::of(SatelliteLink::OTHERS)
    }
}

impl Counts {
    /// All at zero, for a subscriber.
    pub(crate) fn of(who: &str) -> Self {
        Self { who: who.into(), counts: [const { AtomicU64::new(0) }; COUNTS] }
    }

    pub(crate) fn add(&self, count: Count, more: u64) {
        self.counts[count.at()].fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: Count, less: u64) {
        self.counts[count.at()].fetch_sub(less, Ordering::Relaxed);
    }

    pub(crate) fn add_all(&self, totals: &Totals) {
        for (count, more) in self.counts.iter().zip(totals.0) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Totals {
        Totals(self.counts.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }
}

impl Default for Totals {
    fn default() -> Self {
        Self([0; COUNTS])
    }
}

impl Totals {
    pub(crate) fn get(&self, count: Count) -> u64 {
        self.0[count.at()]
    }

    /// Bytes of both directions.
    pub(crate) fn bytes(&self) -> u64 {
        SIDES.into_iter().map(|side| self.get(Count::Bytes(side))).sum()
    }

    pub(crate) fn plus(self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] + other.0[at]))
    }

    /// The growth since; a count that also shrinks is as it is now.
    pub(crate) fn since(self, before: &Self) -> Self {
        let mut since = Self(std::array::from_fn(|at| self.0[at].saturating_sub(before.0[at])));
        for gauge in GAUGES {
            since.0[gauge.at()] = self.get(gauge);
        }
        since
    }

    /// Without what also shrinks.
    pub(crate) fn of_the_past(mut self) -> Self {
        for gauge in GAUGES {
            self.0[gauge.at()] = 0;
        }
        self
    }

    /// Only what also shrinks.
    pub(crate) fn now(self) -> Self {
        self.since(&self)
    }
}

/// Writes the metrics of all counts: for each of `rows` its labels and their values.
pub(crate) fn families(out: &mut String, of: &str, rows: &[(String, Totals)]) {
    let mut write = |name: &str, kind: &str, help: &str, counts: &[(Count, String)]| {
        let lines = rows.iter().flat_map(|(labels, totals)| {
            counts.iter().map(move |(count, more)| (format!("{{{labels}{more}}}"), in_seconds(*count, totals)))
        });
        family(out, &format!("{of}_{name}"), kind, help, &lines.collect::<Vec<_>>());
    };
    let plain = |count| [(count, String::new())];
    let by_leg = |count: fn(Side) -> Count| SIDES.map(|side| (count(side), format!(",leg=\"{}\"", side.name())));
    write("accepted_total", "counter", "Accepted connections.", &plain(Count::Accepted));
    write("connections", "gauge", "Open connections.", &plain(Count::Open));
    // Bytes sent to a client came from the server.
    let bytes = [("down", "client", Side::Server), ("up", "server", Side::Client)]
        .map(|(direction, leg, from)| (Count::Bytes(from), format!(",direction=\"{direction}\",leg=\"{leg}\"")));
    let help = "Bytes passed on, up from clients, down to them, and the leg that they are sent to.";
    write("bytes_total", "counter", help, &bytes);
    write("retransmitted_total", "counter", "Retransmitted segments.", &by_leg(Count::Retransmitted));
    let ends = End::ALL.map(|end| (Count::Ended(end), format!(",end=\"{}\"", end.name())));
    write("ended_total", "counter", "Ended connections.", &ends);
    let limited = SIDES.into_iter().flat_map(|side| {
        Cause::ALL.map(|cause| {
            let labels = format!(",leg=\"{}\",by=\"{}\"", side.name(), cause.name());
            (Count::LimitedUs(side, cause), labels)
        })
    });
    let help = "Time that transfers waited at a leg: for its path, for its closed window, for bytes to arrive.";
    write("limited_seconds_total", "counter", help, &limited.collect::<Vec<_>>());
    write("queue_bytes", "gauge", "Bytes that wait in the service and its sockets, unsent.", &plain(Count::Queued));
    let help = "Smoothed round trips, read while bytes pass and at the end.";
    let trips =
        SIDES.map(|side| (Count::RoundTripsUs(side), Count::RoundTrips(side), format!(",leg=\"{}\"", side.name())));
    summary(out, &format!("{of}_round_trip_seconds"), help, rows, &trips);
    let help = "Time that connections as long as a page have saved at least, computed of their round trips.";
    let saved = [(Count::SavedUs, Count::Pages, String::new())];
    summary(out, &format!("{of}_saved_seconds"), help, rows, &saved);
}

/// Writes a metric of sums and how many were added.
fn summary(out: &mut String, name: &str, help: &str, rows: &[(String, Totals)], of: &[(Count, Count, String)]) {
    let lines = rows.iter().flat_map(|(labels, totals)| {
        of.iter().flat_map(move |(sum, count, more)| {
            let labels = format!("{{{labels}{more}}}");
            [
                (format!("_sum{labels}"), in_seconds(*sum, totals)),
                (format!("_count{labels}"), in_seconds(*count, totals)),
            ]
        })
    });
    family(out, name, "summary", help, &lines.collect::<Vec<_>>());
}

/// A value as metrics have it: times in seconds.
fn in_seconds(count: Count, totals: &Totals) -> f64 {
    let value = totals.get(count) as f64;
    match count {
        Count::RoundTripsUs(_) | Count::LimitedUs(..) | Count::SavedUs => value / 1e6,
        _ => value,
    }
}

/// Writes a metric: labels and value of each row.
pub(crate) fn family<V: Display>(out: &mut String, name: &str, kind: &str, help: &str, rows: &[(String, V)]) {
    let _ = writeln!(out, "# HELP perigee_pep_{name} {help}\n# TYPE perigee_pep_{name} {kind}");
    for (labels, value) in rows {
        let _ = writeln!(out, "perigee_pep_{name}{labels} {value}");
    }
}

/// Metrics as `OpenMetrics` 1.0 has them: a counter's family is without the `_total` of its samples, and the text has an end.
pub(crate) fn open_metrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 6);
    for line in text.lines() {
        match line.strip_prefix("# ").and_then(|rest| rest.split_once("_total ")) {
            Some((name, rest)) => out.extend(["# ", name, " ", rest]),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out + "# EOF\n"
}

pub(crate) const SIDES: [Side; 2] = [Side::Client, Side::Server];
/// Counts that also shrink.
const GAUGES: [Count; 2] = [Count::Open, Count::Queued];
const COUNTS: usize = 23;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_count_has_a_place_and_a_name_of_its_own() {
        let places: BTreeSet<usize> = Count::all().map(Count::at).collect();
        assert!(places.into_iter().eq(0..COUNTS));
        assert_eq!(Count::all().map(Count::name).collect::<BTreeSet<_>>().len(), COUNTS);
    }

    #[test]
    fn what_also_shrinks_is_as_it_is_now() {
        let counts = Counts::default();
        for count in Count::all() {
            counts.add(count, 5);
        }
        let before = counts.read();
        for count in Count::all() {
            counts.add(count, 2);
        }
        let since = counts.read().since(&before);
        for count in Count::all() {
            assert_eq!(since.get(count), if GAUGES.contains(&count) { 7 } else { 2 }, "{}", count.name());
        }
        assert_eq!(since.of_the_past().get(Count::Queued), 0);
    }

    #[test]
    fn open_metrics_name_a_counter_without_its_suffix_and_end() {
        let mut text = String::new();
        family(&mut text, "refused_total", "counter", "Refused in total here.", &[(String::new(), 3)]);
        assert_eq!(
            open_metrics(&text),
            "# HELP perigee_pep_refused Refused in total here.\n# TYPE perigee_pep_refused counter\n\
             perigee_pep_refused_total 3\n# EOF\n"
        );
    }
}
