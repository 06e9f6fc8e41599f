//! Counters of the service, with their form in `status` and Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use perigee_units::Time;

/// Counters of the service.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Places taken: connections in any state, and handshakes that wait for their server.
    pub(crate) open: Gauge,
    /// Handshakes that wait for their server, of the places taken.
    pub(crate) waiting: Gauge,
    /// Bytes that were read but not taken by a socket yet.
    pub(crate) held: Gauge,
    /// Refused before a rule applied: source, destination, limit.
    pub(crate) refused: Counter,
    /// First packets of clients that found no place, and that the clients have to send again.
    pub(crate) no_room: Counter,
    /// Times at which listening stopped at a limit.
    pub(crate) paused: Counter,
    /// Paths whose answers do not pass this host.
    pub(crate) one_ways: Gauge,
    /// Clients that wait for a stream of the tunnel, and streams that do not say yet what they are for.
    pub(crate) tunnel_waiting: Gauge,
    /// Bytes for the other box that wait for their stream, or that it has not acknowledged.
    pub(crate) tunnel_unacknowledged: Gauge,
    /// Connections of the tunnel with boxes that are not known: handshakes, and what is left of them.
    pub(crate) tunnel_handshakes: Gauge,
    /// Log lines that were dropped.
    pub(crate) unlogged: Counter,
    rules: Mutex<BTreeMap<String, Arc<RuleStats>>>,
}

/// Counters of the connections of a rule.
#[derive(Debug, Default)]
pub(crate) struct RuleStats {
    pub(crate) accepted: Counter,
    pub(crate) open: Gauge,
    /// Bytes from clients to servers, and from servers to clients.
    pub(crate) bytes: [Spread; 2],
    /// The legs to clients and to servers.
    pub(crate) legs: [LegStats; 2],
    /// Ends, by [`End`].
    pub(crate) ends: [Counter; End::ALL.len()],
}

/// Counters of one side's sockets.
#[derive(Debug, Default)]
pub(crate) struct LegStats {
    /// Retransmitted segments.
    pub(crate) retransmitted: Counter,
    /// Smoothed round trips that were read, and their sum.
    pub(crate) round_trips: Counter,
    pub(crate) round_trips_us: Counter,
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

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

/// A number that grows at each turn of a connection: each thread counts in a place of its own, so that no cache line passes between
/// processors.
#[derive(Debug, Default)]
pub(crate) struct Spread([Place; PLACES]);

/// Two cache lines, which processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place(Counter);

/// A number that grows and shrinks.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl End {
    const ALL: [Self; 4] = [Self::Complete, Self::Failed, Self::Unreached, Self::Aborted];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Unreached => "unreached",
            Self::Aborted => "aborted",
        }
    }
}

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Spread {
    pub(crate) fn add(&self, count: u64) {
        self.0[PLACE.with(|place| *place)].0.add(count);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.iter().map(|place| place.0.get()).sum()
    }
}

impl Gauge {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Replaces a contribution of `before` by one of `after`.
    pub(crate) fn change(&self, before: &mut usize, after: usize) {
        match after.checked_sub(*before) {
            // Most rounds of a thread change nothing, and the other threads keep their copy.
            Some(0) => return,
            Some(more) => self.add(more as u64),
            None => self.subtract((*before - after) as u64),
        }
        *before = after;
    }

    pub(crate) fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Stats {
    /// The counters of a rule; they survive a new configuration that has a rule of the same name.
    pub(crate) fn rule(&self, name: &str) -> Arc<RuleStats> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().clone()
    }

    /// The output of `perigee pep status`.
    pub(crate) fn status(&self, running: Time, state: &str) -> String {
        let mut out = format!(
            "state {state}\nprocess {}\nrunning_s {}\nopen {}\nwaiting {}\nheld_bytes {}\ntunnel_waiting {}\n\
             tunnel_unacknowledged_bytes {}\ntunnel_handshakes {}\nrefused {}\nno_room {}\npaused {}\none_way_paths {}\nunlogged {}\n",
            std::process::id(),
            running.as_nanos() / 1_000_000_000,
            self.open.get(),
            self.waiting.get(),
            self.held.get(),
            self.tunnel_waiting.get(),
            self.tunnel_unacknowledged.get(),
            self.tunnel_handshakes.get(),
            self.refused.get(),
            self.no_room.get(),
            self.paused.get(),
            self.one_ways.get(),
            self.unlogged.get(),
        );
        self.each(|name, rule| {
            let [up, down] = &rule.bytes;
            let _ = write!(
                out,
                "rule {name} open {} accepted {} bytes_up {} bytes_down {}",
                rule.open.get(),
                rule.accepted.get(),
                up.get(),
                down.get(),
            );
            for end in End::ALL {
                let _ = write!(out, " {} {}", end.name(), rule.ends[end as usize].get());
            }
            out.push('\n');
            for (at, leg) in LEGS.into_iter().enumerate() {
                let of = &rule.legs[at];
                let _ = writeln!(
                    out,
                    "leg {name} {leg} sent_bytes {} retransmitted {} round_trips {} round_trips_us {}",
                    rule.bytes[1 - at].get(),
                    of.retransmitted.get(),
                    of.round_trips.get(),
                    of.round_trips_us.get(),
                );
            }
        });
        out
    }

    /// In the text format of Prometheus.
    pub(crate) fn prometheus(&self) -> String {
        let mut out = String::new();
        for (name, kind, help, value) in [
            ("connections", "gauge", "Open connections, and handshakes that wait for their server.", self.open.get()),
            ("waiting", "gauge", "Handshakes that wait for their server.", self.waiting.get()),
            ("held_bytes", "gauge", "Memory for bytes between sockets.", self.held.get()),
            ("tunnel_waiting", "gauge", "Clients and streams that wait in the tunnel.", self.tunnel_waiting.get()),
            (
                "tunnel_unacknowledged_bytes",
                "gauge",
                "Bytes for the other box that it has not acknowledged.",
                self.tunnel_unacknowledged.get(),
            ),
            ("tunnel_handshakes", "gauge", "Handshakes with boxes not known yet.", self.tunnel_handshakes.get()),
            ("refused_total", "counter", "Connections refused before a rule applied.", self.refused.get()),
            ("no_room_total", "counter", "First packets of clients that found no place.", self.no_room.get()),
            ("paused_total", "counter", "Times at which a limit stopped listening.", self.paused.get()),
            ("one_way_paths", "gauge", "Paths passed by: answers do not pass this host.", self.one_ways.get()),
            ("unlogged_total", "counter", "Lines that the log had no room for.", self.unlogged.get()),
        ] {
            family(&mut out, name, kind, help, &[(String::new(), value)]);
        }
        let (mut accepted, mut open, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut retransmitted, mut round_trips, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        self.each(|name, rule| {
            accepted.push((format!("{{rule=\"{name}\"}}"), rule.accepted.get()));
            open.push((format!("{{rule=\"{name}\"}}"), rule.open.get()));
            for (at, leg) in LEGS.into_iter().enumerate() {
                // Bytes sent to a client came from the server.
                let (direction, sent) = (["down", "up"][at], rule.bytes[1 - at].get());
                bytes.push((format!("{{rule=\"{name}\",direction=\"{direction}\",leg=\"{leg}\"}}"), sent));
                let (labels, of) = (format!("{{rule=\"{name}\",leg=\"{leg}\"}}"), &rule.legs[at]);
                retransmitted.push((labels.clone(), of.retransmitted.get()));
                round_trips.push((format!("_sum{labels}"), of.round_trips_us.get() as f64 / 1e6));
                round_trips.push((format!("_count{labels}"), of.round_trips.get() as f64));
            }
            for end in End::ALL {
                let labels = format!("{{rule=\"{name}\",end=\"{}\"}}", end.name());
                ends.push((labels, rule.ends[end as usize].get()));
            }
        });
        family(&mut out, "rule_accepted_total", "counter", "Accepted connections.", &accepted);
        family(&mut out, "rule_connections", "gauge", "Open connections of a rule.", &open);
        let help = "Bytes passed on, up from clients, down to them, and the leg that they are sent to.";
        family(&mut out, "rule_bytes_total", "counter", help, &bytes);
        family(&mut out, "rule_retransmitted_total", "counter", "Retransmitted segments.", &retransmitted);
        let help = "Smoothed round trips, read each second while bytes pass and at the end.";
        family(&mut out, "rule_round_trip_seconds", "summary", help, &round_trips);
        family(&mut out, "rule_ended_total", "counter", "Ended connections.", &ends);
        out
    }

    fn each(&self, mut row: impl FnMut(&str, &RuleStats)) {
        for (name, rule) in &*self.rules.lock().unwrap_or_else(PoisonError::into_inner) {
            row(name, rule);
        }
    }
}

/// Writes a metric: labels and value of each row.
pub(crate) fn family<V: Display>(out: &mut String, name: &str, kind: &str, help: &str, rows: &[(String, V)]) {
    let _ = writeln!(out, "# HELP perigee_pep_{name} {help}\n# TYPE perigee_pep_{name} {kind}");
    for (labels, value) in rows {
        let _ = writeln!(out, "perigee_pep_{name}{labels} {value}");
    }
}

/// Names of [`RuleStats::legs`].
const LEGS: [&str; 2] = ["client", "server"];

/// Places of a [`Spread`]; with more threads some share one.
const PLACES: usize = 16;
static THREADS: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static PLACE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % PLACES;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_metrics_have_each_rule() {
        let stats = Stats::default();
        stats.open.add(3);
        stats.open.subtract(1);
        let rule = stats.rule("web");
        rule.accepted.add(2);
        rule.bytes[1].add(1000);
        rule.ends[End::Failed as usize].add(1);
        rule.legs[1].round_trips.add(2);
        rule.legs[1].round_trips_us.add(1_200_000);
        assert!(Arc::ptr_eq(&rule, &stats.rule("web")));
        assert_eq!(
            stats.status(Time::from_secs(5), "running").replace(&std::process::id().to_string(), "77"),
            "state running\nprocess 77\nrunning_s 5\nopen 2\nwaiting 0\nheld_bytes 0\ntunnel_waiting 0\n\
             tunnel_unacknowledged_bytes 0\ntunnel_handshakes 0\nrefused 0\nno_room 0\npaused 0\none_way_paths 0\nunlogged 0\n\
             rule web open 0 accepted 2 bytes_up 0 bytes_down 1000 complete 0 failed 1 unreached 0 aborted 0\n\
             leg web client sent_bytes 1000 retransmitted 0 round_trips 0 round_trips_us 0\n\
             leg web server sent_bytes 0 retransmitted 0 round_trips 2 round_trips_us 1200000\n"
        );
        let text = stats.prometheus();
        for line in [
            "# TYPE perigee_pep_connections gauge",
            "perigee_pep_connections 2",
            "perigee_pep_rule_bytes_total{rule=\"web\",direction=\"down\",leg=\"client\"} 1000",
            "# TYPE perigee_pep_rule_round_trip_seconds summary",
            "perigee_pep_rule_round_trip_seconds_sum{rule=\"web\",leg=\"server\"} 1.2",
            "perigee_pep_rule_round_trip_seconds_count{rule=\"web\",leg=\"server\"} 2",
            "perigee_pep_rule_ended_total{rule=\"web\",end=\"failed\"} 1",
        ] {
            assert!(text.lines().any(|each| each == line), "{line}\n{text}");
        }
    }

    #[test]
    fn bytes_of_all_threads_are_counted_and_no_two_threads_share_a_cache_line() {
        let stats = RuleStats::default();
        std::thread::scope(|scope| (0..2 * PLACES).for_each(|_| drop(scope.spawn(|| stats.bytes[0].add(3)))));
        assert_eq!((stats.bytes[0].get(), stats.bytes[1].get()), (6 * PLACES as u64, 0));
        assert_eq!((size_of::<Place>(), align_of::<Spread>()), (128, 128));
    }

    #[test]
    fn each_metric_of_the_dashboard_and_the_alerts_is_exported() {
        let stats = Stats::default();
        stats.rule("web");
        let exported = stats.prometheus();
        let is_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let dashboard = include_str!("../../../../packaging/grafana-perigee-pep.json");
        let alerts = include_str!("../../../../packaging/prometheus-perigee-pep.yml");
        for (file, least) in [(dashboard, 10), (alerts, 7)] {
            let words = file.split(|letter| !is_of_a_name(letter));
            let names: Vec<&str> = words.filter(|word| word.starts_with("perigee_pep_")).collect();
            assert!(names.len() >= least, "{names:?}");
            for name in names {
                // A summary has a sum and a count.
                let family = name.trim_end_matches("_sum").trim_end_matches("_count");
                assert!(exported.contains(&format!("# TYPE {family} ")), "{name} is not exported");
            }
        }
    }
}
