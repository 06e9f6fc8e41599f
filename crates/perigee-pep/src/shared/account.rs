//! Counters and log line of one connection, shared by workers and the tunnel.

use std::fmt::{Display, Write as _};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use perigee_units::Time;

use super::log::quoted;
use super::permit::Permit;
use super::stats::{End, RuleStats};
use crate::config::Rule;
use crate::relay::{Relay, Side};

/// Ends and rule of a connection, and its share of the rule's counters.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) rule: Arc<Rule>,
    /// Client and server.
    pub(crate) ends: [SocketAddr; 2],
    pub(crate) began: Time,
    /// When the server answered.
    pub(crate) connected: Option<Time>,
    stats: Opened,
    /// Its place among the connections, if a client has connected.
    _permit: Option<Permit>,
    /// Bytes counted so far, by the side that sent them.
    passed: [u64; 2],
    /// Retransmitted segments counted so far, by leg.
    retransmitted: [u32; 2],
    /// When the legs are sampled next.
    due: Time,
}

/// Outcome of a connection, in the log's words.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) reason: String,
}

/// Counters of a rule; the connection counts as open until this is dropped.
#[derive(Debug)]
struct Opened(Arc<RuleStats>);

impl Account {
    /// Counts a new connection, as open until this is dropped.
    pub(crate) fn open(
        ends: [SocketAddr; 2],
        rule: Arc<Rule>,
        stats: Arc<RuleStats>,
        began: Time,
        permit: Option<Permit>,
    ) -> Self {
        stats.accepted.add(1);
        Self {
            rule,
            ends,
            began,
            connected: None,
            stats: Opened::new(stats),
            _permit: permit,
            passed: [0; 2],
            retransmitted: [0; 2],
            due: began,
        }
    }

    /// Counts the bytes passed on; after a reset that may be fewer than before.
    pub(crate) fn count(&mut self, relay: &Relay) {
        for side in [Side::Client, Side::Server] {
            let (passed, counted) = (relay.passed(side), &mut self.passed[side as usize]);
            if passed > *counted {
                self.stats.0.bytes[side as usize].add(passed - *counted);
                *counted = passed;
            }
        }
    }

    /// Whether the legs are due to be sampled: a second after the last time.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now + INTERVAL;
        }
        is_due
    }

    /// Counts a sample of a leg: its smoothed round trip, 0 if it has none yet, and all its retransmissions.
    pub(crate) fn sample(&mut self, side: Side, round_trip_us: u32, retransmitted: u32) {
        let leg = &self.stats.0.legs[side as usize];
        if round_trip_us > 0 {
            leg.round_trips.add(1);
            leg.round_trips_us.add(u64::from(round_trip_us));
        }
        let counted = &mut self.retransmitted[side as usize];
        leg.retransmitted.add(u64::from(retransmitted.saturating_sub(*counted)));
        *counted = retransmitted.max(*counted);
    }

    /// Counts its end and returns its log line. `through` and `legs` are further fields, each after a space.
    pub(crate) fn close(&self, outcome: &Outcome, through: &str, legs: impl Display, now: Time) -> String {
        self.stats.0.ends[outcome.end as usize].add(1);
        let connect = self.connected.map(|at| thousandths((at - self.began).as_micros()));
        let mut line = String::with_capacity(LINE);
        // It fails for no string.
        let _ = write!(
            line,
            "connection rule={} client={} server={}{through} end={} reason={} bytes_up={} bytes_down={} seconds={} \
             connect_ms={}{legs}",
            self.rule.name,
            self.ends[0],
            self.ends[1],
            outcome.end.name(),
            quoted(&outcome.reason),
            self.passed[Side::Client as usize],
            self.passed[Side::Server as usize],
            thousandths((now - self.began).as_millis()),
            connect.as_deref().unwrap_or("-"),
        );
        line
    }
}

impl Opened {
    fn new(stats: Arc<RuleStats>) -> Self {
        stats.open.add(1);
        Self(stats)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open.subtract(1);
    }
}

impl From<io::Error> for Outcome {
    /// The system refuses to go on.
    fn from(error: io::Error) -> Self {
        Self::aborted(&error.to_string())
    }
}

impl Outcome {
    /// The service ends it.
    pub(crate) fn aborted(reason: &str) -> Self {
        Self { end: End::Aborted, reason: reason.to_owned() }
    }

    /// A side has failed.
    pub(crate) fn failed(side: Side, kind: io::ErrorKind) -> Self {
        Self { end: End::Failed, reason: format!("{} {}", side.name(), in_words(kind)) }
    }
}

/// A failure of a connection, in words.
pub(crate) fn in_words(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "reset the connection",
        io::ErrorKind::ConnectionRefused => "refused the connection",
        io::ErrorKind::TimedOut => "timed out",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "is unreachable",
        _ => "failed",
    }
}

/// A number of thousandths, with three decimals: floating-point numbers take several times as long.
fn thousandths(count: u64) -> String {
    format!("{}.{:03}", count / 1000, count % 1000)
}

/// Bytes of most log lines of connections.
const LINE: usize = 384;
/// Sampling interval of the legs of an active connection.
const INTERVAL: Time = Time::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::permit::Clients;
    use crate::shared::stats::Stats;

    #[test]
    fn a_leg_is_counted_as_it_was_last_seen() {
        let all = Arc::new(Stats::default());
        let (clients, stats) = (Clients::new(all.clone()), all.rule("web"));
        let ends = ["10.0.0.1:5".parse().unwrap(), "10.0.0.2:80".parse().unwrap()];
        let permit = clients.permit("10.0.0.1".parse().unwrap(), 1).unwrap();
        let mut account = Account::open(ends, Arc::default(), stats.clone(), Time::from_secs(1), Some(permit));
        assert_eq!((stats.open.get(), all.open.get()), (1, 1));
        assert!(account.is_due(Time::from_secs(1)) && !account.is_due(Time::from_millis(1999)));
        account.sample(Side::Server, 0, 0);
        account.sample(Side::Server, 600_000, 3);
        account.sample(Side::Server, 700_000, 5);
        let [client, server] = &stats.legs;
        assert_eq!((client.round_trips.get(), client.retransmitted.get()), (0, 0));
        let counted = (server.round_trips.get(), server.round_trips_us.get(), server.retransmitted.get());
        assert_eq!(counted, (2, 1_300_000, 5));
        drop(account);
        assert_eq!((stats.open.get(), all.open.get()), (0, 0));
    }
}
