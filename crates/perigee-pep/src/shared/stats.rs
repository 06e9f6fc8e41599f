//! Counters of the service, with their form in `status` and Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use perigee_units::Time;

use super::counts::{families, family, Cause, Count, End, SIDES};
use super::usage::Usage;
use crate::relay::Side;

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
    /// Lines of accounting that were not written.
    pub(crate) unwritten: Counter,
    /// Tables, pairs of policy rules, and routes that other programs had removed.
    pub(crate) put_back: [Counter; 3],
    /// How many of each are missing now.
    pub(crate) missing: [Gauge; 3],
    pub(crate) usage: Usage,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

/// A number that grows and shrinks.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
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
    /// The output of `perigee pep status`.
    pub(crate) fn status(&self, running: Time, state: &str) -> String {
        let mut out = format!(
            "state {state}\nprocess {}\nrunning_s {}\nopen {}\nwaiting {}\nheld_bytes {}\ntunnel_waiting {}\n\
             tunnel_unacknowledged_bytes {}\ntunnel_handshakes {}\nrefused {}\nno_room {}\npaused {}\none_way_paths {}\n\
             unlogged {}\nunwritten {}\nput_back{}\ninterception_missing{}\n",
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
            self.unwritten.get(),
            of_interception(self.put_back.each_ref().map(Counter::get), |what, count| format!(" {what} {count}")).concat(),
            of_interception(self.missing.each_ref().map(Gauge::get), |what, count| format!(" {what} {count}")).concat(),
        );
        for (name, rule) in self.usage.rules() {
            let _ = write!(
                out,
                "rule {name} open {} accepted {} bytes_up {} bytes_down {}",
                rule.get(Count::Open),
                rule.get(Count::Accepted),
                rule.get(Count::Bytes(Side::Client)),
                rule.get(Count::Bytes(Side::Server)),
            );
            for end in End::ALL {
                let _ = write!(out, " {} {}", end.name(), rule.get(Count::Ended(end)));
            }
            for count in [Count::Queued, Count::Pages, Count::SavedUs] {
                let _ = write!(out, " {} {}", count.name(), rule.get(count));
            }
            out.push('\n');
            for leg in SIDES {
                let _ = write!(
                    out,
                    "leg {name} {} sent_bytes {} retransmitted {} round_trips {} round_trips_us {}",
                    leg.name(),
                    rule.get(Count::Bytes(leg.opposite())),
                    rule.get(Count::Retransmitted(leg)),
                    rule.get(Count::RoundTrips(leg)),
                    rule.get(Count::RoundTripsUs(leg)),
                );
                for cause in Cause::ALL {
                    let _ = write!(out, " {}_us {}", cause.name(), rule.get(Count::LimitedUs(leg, cause)));
                }
                out.push('\n');
            }
        }
        out
    }

    /// In the text format of Prometheus.
    pub(crate) fn prometheus(&self, running: Time) -> String {
        let mut out = String::new();
        let help = "Time since the start of the process, when counters were zero.";
        family(&mut out, "running_seconds", "gauge", help, &[(String::new(), running.as_secs_f64())]);
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
            ("unwritten_total", "counter", "Lines of accounting that were not written.", self.unwritten.get()),
        ] {
            family(&mut out, name, kind, help, &[(String::new(), value)]);
        }
        let help = "What other programs had removed of the interception, and was put back.";
        let rows = |counts| of_interception(counts, |what, count| (format!("{{what=\"{what}\"}}"), count));
        family(&mut out, "put_back_total", "counter", help, &rows(self.put_back.each_ref().map(Counter::get)));
        let help = "What is missing of the interception, removed by another program and not put back yet.";
        family(&mut out, "interception_missing", "gauge", help, &rows(self.missing.each_ref().map(Gauge::get)));
        let rules = self.usage.rules().into_iter().map(|(rule, totals)| (format!("rule=\"{rule}\""), totals));
        families(&mut out, "rule", &rules.collect::<Vec<_>>());
        let subscribers = self.usage.subscribers().into_iter();
        let rows = subscribers.map(|(who, rule, totals)| (format!("subscriber=\"{who}\",rule=\"{rule}\""), totals));
        families(&mut out, "subscriber", &rows.collect::<Vec<_>>());
        out
    }
}

/// The kinds of rules and routes that other programs remove, each with its number.
fn of_interception<T>(counts: [u64; 3], each: impl Fn(&str, u64) -> T) -> [T; 3] {
    let [tables, rules, routes] = counts;
    [each("tables", tables), each("policy_rules", rules), each("routes", routes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Who;

    #[test]
    fn status_and_metrics_have_each_rule_and_subscriber() {
        let stats = Stats::default();
        stats.open.add(3);
        stats.open.subtract(1);
        let web = || stats.usage.of("web", Who::Table("ship".to_owned()));
        web().add(Count::Accepted, 2);
        web().add(Count::Bytes(Side::Server), 1000);
        web().add(Count::Ended(End::Failed), 1);
        web().add(Count::RoundTrips(Side::Server), 2);
        web().add(Count::RoundTripsUs(Side::Server), 1_200_000);
        web().add(Count::LimitedUs(Side::Client, Cause::Path), 2_500_000);
        web().add(Count::Queued, 77);
        stats.put_back[1].add(2);
        stats.missing[0].add(1);
        assert_eq!(
            stats.status(Time::from_secs(5), "running").replace(&std::process::id().to_string(), "77"),
            "state running\nprocess 77\nrunning_s 5\nopen 2\nwaiting 0\nheld_bytes 0\ntunnel_waiting 0\n\
             tunnel_unacknowledged_bytes 0\ntunnel_handshakes 0\nrefused 0\nno_room 0\npaused 0\none_way_paths 0\n\
             unlogged 0\nunwritten 0\nput_back tables 0 policy_rules 2 routes 0\n\
             interception_missing tables 1 policy_rules 0 routes 0\n\
             rule web open 0 accepted 2 bytes_up 0 bytes_down 1000 complete 0 failed 1 unreached 0 aborted 0 \
             queue_bytes 77 pages 0 saved_us 0\n\
             leg web client sent_bytes 1000 retransmitted 0 round_trips 0 round_trips_us 0 \
             path_us 2500000 reader_us 0 arrival_us 0\n\
             leg web server sent_bytes 0 retransmitted 0 round_trips 2 round_trips_us 1200000 \
             path_us 0 reader_us 0 arrival_us 0\n"
        );
        let text = stats.prometheus(Time::from_secs(5));
        for line in [
            "# TYPE perigee_pep_connections gauge",
            "perigee_pep_connections 2",
            "perigee_pep_put_back_total{what=\"policy_rules\"} 2",
            "perigee_pep_interception_missing{what=\"tables\"} 1",
            "perigee_pep_rule_bytes_total{rule=\"web\",direction=\"down\",leg=\"client\"} 1000",
            "# TYPE perigee_pep_rule_round_trip_seconds summary",
            "perigee_pep_rule_round_trip_seconds_sum{rule=\"web\",leg=\"server\"} 1.2",
            "perigee_pep_rule_round_trip_seconds_count{rule=\"web\",leg=\"server\"} 2",
            "perigee_pep_rule_ended_total{rule=\"web\",end=\"failed\"} 1",
            "perigee_pep_rule_queue_bytes{rule=\"web\"} 77",
            "perigee_pep_subscriber_limited_seconds_total{subscriber=\"ship\",rule=\"web\",leg=\"client\",by=\"path\"} 2.5",
            "perigee_pep_subscriber_bytes_total{subscriber=\"others\",rule=\"web\",direction=\"up\",leg=\"server\"} 0",
        ] {
            assert!(text.lines().any(|each| each == line), "{line}\n{text}");
        }
    }

    #[test]
    fn each_metric_of_the_dashboard_and_the_alerts_is_exported() {
        let stats = Stats::default();
        stats.usage.of("web", Who::Table("ship".to_owned()));
        let exported = stats.prometheus(Time::from_secs(5));
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
