//! The state of the link in `status` and in metrics.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use perigee_units::{Rate, Time};

use super::flow::LEAST_SEGMENTS;
use super::subscribers::{Line, Subscribers};
use crate::config::Rates;
use crate::shared::counts::family;
use crate::shared::log::quoted;

/// The last report of the link's thread.
#[derive(Debug, Default)]
pub(crate) struct Report(Mutex<Option<State>>);

/// The rates and their age; or why nothing is held back.
pub(super) type Seen = Result<(Rates, Time), String>;

#[derive(Debug)]
struct State {
    seen: Seen,
    used: [Used; 2],
    /// Why the interface says no counters.
    missing: Option<String>,
    /// Connections that move bytes, and subscribers with something to remember.
    active: usize,
    subscribers: usize,
    /// Those who have moved most since the last report.
    first: Vec<Line>,
    /// Name and payload so far of each table of subscribers, and of all others.
    classes: Vec<(String, [u64; 2])>,
}

/// Rates of a direction, bit/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) all: u64,
    /// The part of it that is not the data of the service's own.
    pub(super) others: u64,
}

impl Report {
    pub(super) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn put(
        &self,
        seen: Seen,
        used: [Used; 2],
        missing: Option<String>,
        all: &mut Subscribers,
        active: usize,
        elapsed: Time,
    ) {
        let subscribers = all.members.len();
        let first = all.first(MOST, elapsed);
        let classes = all.classes();
        let state = State { seen, used, missing, active, subscribers, first, classes };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    /// Its lines in `status`; none without a link.
    pub(crate) fn status(&self) -> String {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().map_or_else(String::new, State::status)
    }

    /// In the text format of Prometheus.
    pub(crate) fn prometheus(&self) -> String {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().map_or_else(String::new, State::prometheus)
    }
}

impl State {
    fn rates(&self) -> [Option<Rate>; 2] {
        self.seen.as_ref().map_or([None; 2], |(rates, _)| [rates.send, rates.receive])
    }

    /// Round trip from which the rate of what is received can hold: in a shorter one the least windows of the connections are more.
    fn holds_from(&self) -> Option<Time> {
        let bits = LEAST_SEGMENTS * PACKET_BITS * self.active.max(1) as u64;
        Some(Time::from_secs_f64(bits as f64 / self.rates()[1]?.as_bps() as f64))
    }

    fn status(&self) -> String {
        let mut out = match &self.seen {
            Ok((_, age)) => format!("link shared yes age_s {:.1}", age.as_secs_f64()),
            Err(why) => format!("link shared no reason {}", quoted(why)),
        };
        let _ = writeln!(out, " active {} subscribers {}", self.active, self.subscribers);
        if let Some(why) = &self.missing {
            let _ = writeln!(out, "link counters no reason {}", quoted(why));
        }
        for ((way, rate), used) in WAYS.into_iter().zip(self.rates()).zip(self.used) {
            let rate = rate.map_or_else(|| "-".to_owned(), |rate| rate.as_bps().to_string());
            let _ = write!(out, "link {way} rate_bps {rate} used_bps {} others_bps {}", used.all, used.others);
            let holds_from = self.holds_from().filter(|_| way == WAYS[1]);
            let _ = holds_from.map(|time| write!(out, " holds_from_rtt_ms {:.1}", time.as_secs_f64() * 1e3));
            out.push('\n');
        }
        for Line { name, rates: [send, receive], moved: [sent, received] } in &self.first {
            let _ = writeln!(
                out,
                "subscriber {name} send_bps {send} receive_bps {receive} sent_bytes {sent} received_bytes {received}"
            );
        }
        out
    }

    fn prometheus(&self) -> String {
        let mut out = String::new();
        let none = String::new;
        let of = |way: &str| format!("{{direction=\"{way}\"}}");
        let is_shared = u8::from(self.seen.is_ok());
        family(
            &mut out,
            "link_shared",
            "gauge",
            "Whether the rate of the link is known and shared out.",
            &[(none(), is_shared)],
        );
        if let Ok((_, age)) = &self.seen {
            family(
                &mut out,
                "link_age_seconds",
                "gauge",
                "Age of the rate of the link.",
                &[(none(), age.as_secs_f64())],
            );
        }
        let rates = WAYS.into_iter().zip(self.rates()).filter_map(|(way, rate)| Some((of(way), rate?.as_bps())));
        family(&mut out, "link_rate_bits_per_second", "gauge", "Rate of the link.", &rates.collect::<Vec<_>>());
        let used = WAYS.into_iter().zip(self.used).map(|(way, used)| (of(way), used.all));
        family(&mut out, "link_used_bits_per_second", "gauge", "Used of it, with headers.", &used.collect::<Vec<_>>());
        let others = WAYS.into_iter().zip(self.used).map(|(way, used)| (of(way), used.others));
        let help = "Used by acknowledgements and by what bypasses the service.";
        family(&mut out, "link_others_bits_per_second", "gauge", help, &others.collect::<Vec<_>>());
        family(
            &mut out,
            "link_subscribers",
            "gauge",
            "Subscribers with something to remember.",
            &[(none(), self.subscribers)],
        );
        let row = |name: &str, way: &str| format!("{{subscribers=\"{name}\",direction=\"{way}\"}}");
        let bytes = self
            .classes
            .iter()
            .flat_map(|(name, moved)| WAYS.into_iter().zip(*moved).map(move |(way, bytes)| (row(name, way), bytes)));
        let help = "Payload on the link, by the tables of subscribers.";
        family(&mut out, "link_bytes_total", "counter", help, &bytes.collect::<Vec<_>>());
        out
    }
}

const WAYS: [&str; 2] = ["send", "receive"];
/// Bits of a full packet on most paths.
const PACKET_BITS: u64 = 1500 * 8;
/// Subscribers in `status`.
const MOST: usize = 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Who;
    use crate::shared::stats::Stats;

    /// A link whose rate of both directions is known.
    fn state() -> State {
        let (rate, none) = (Some(Rate::from_bps(8_000_000)), Used { all: 0, others: 0 });
        State {
            seen: Ok((Rates { send: rate, receive: rate }, Time::ZERO)),
            used: [none; 2],
            missing: None,
            active: 0,
            subscribers: 0,
            first: Vec::new(),
            classes: Vec::new(),
        }
    }

    #[test]
    fn a_received_rate_says_from_which_round_trip_it_holds() {
        let mut state = state();
        for (active, says) in [(0, "3.0"), (1, "3.0"), (4, "12.0")] {
            state.active = active;
            let status = state.status();
            assert!(status.ends_with(&format!("others_bps 0 holds_from_rtt_ms {says}\n")), "{status}");
            assert!(status.contains("link send rate_bps 8000000 used_bps 0 others_bps 0\n"), "{status}");
        }
    }

    #[test]
    fn the_reference_has_the_metrics_that_are_exported_and_no_others() {
        let stats = Stats::default();
        stats.usage.of("web", Who::Table("ship".to_owned()));
        let exported = stats.prometheus(Time::from_secs(5)) + &state().prometheus();
        let names = exported.lines().filter_map(|line| line.strip_prefix("# TYPE perigee_pep_")?.split(' ').next());
        let names: BTreeSet<String> = names.map(|name| name.replace("subscriber_", "rule_")).collect();
        let page = include_str!("../../../../docs/reference/pep.md");
        let (_, section) = page.split_once("\n## Metrics\n").unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
        let told = rows.flat_map(|row| row.trim().trim_end_matches('`').split("`, `")).map(str::to_owned);
        assert_eq!(told.collect::<BTreeSet<_>>(), names);
    }
}
