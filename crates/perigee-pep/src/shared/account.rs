//! Counters and log line of one connection, shared by workers and the tunnel.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use perigee_units::Time;
use serde_json::{Map, Value};

use super::counts::{Cause, Count, Counts, End, SIDES};
use super::line::Line;
use super::permit::Permit;
use super::waits::{Look, Waits};
use crate::config::Rule;
use crate::host::sys::TcpInfo;
use crate::relay::{Relay, Side};

/// Ends and rule of a connection, and its share of the counts of its subscriber.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) rule: Arc<Rule>,
    /// Client and server.
    pub(crate) ends: [SocketAddr; 2],
    pub(crate) began: Time,
    /// How long the server took to answer, which may be minutes.
    connect_us: Option<u32>,
    counted: Counted,
    /// Its place among the connections, if a client has connected.
    _permit: Option<Permit>,
    /// Bytes counted so far, by the side that sent them.
    passed: [u64; 2],
    /// Retransmitted segments counted so far, by leg.
    retransmitted: [u32; 2],
    waits: Waits,
    /// The interval to the next look at the legs, and the bytes of both directions at the last one.
    interval: Time,
    looked: u64,
}

/// Outcome of a connection, in the log's words.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) reason: String,
}

/// The legs of a connection at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Legs<'a> {
    /// Those with a socket here.
    pub(crate) sockets: &'a [(Side, TcpInfo)],
    /// Round trip of the tunnel, if that is the other leg; 0 if it is not known.
    pub(crate) tunnel_us: Option<u32>,
}

/// Counts of a subscriber by a rule; the connection counts as open, and its bytes as waiting, until this is dropped.
#[derive(Debug)]
struct Counted {
    counts: Arc<Counts>,
    queued: u64,
}

impl Account {
    /// Counts a new connection, as open until this is dropped.
    pub(crate) fn open(
        ends: [SocketAddr; 2],
        rule: Arc<Rule>,
        counts: Arc<Counts>,
        began: Time,
        permit: Option<Permit>,
    ) -> Self {
        counts.add(Count::Accepted, 1);
        counts.add(Count::Open, 1);
        Self {
            rule,
            ends,
            began,
            connect_us: None,
            counted: Counted { counts, queued: 0 },
            _permit: permit,
            passed: [0; 2],
            retransmitted: [0; 2],
            waits: Waits::since(began),
            interval: Time::ZERO,
            looked: 0,
        }
    }

    /// The server has answered.
    pub(crate) fn connect(&mut self, now: Time) {
        self.connect_us = Some(u32::try_from((now - self.began).as_micros()).unwrap_or(u32::MAX));
    }

    /// Whether it has.
    pub(crate) fn is_connected(&self) -> bool {
        self.connect_us.is_some()
    }

    /// Counts the bytes passed on, of which after a reset there may be fewer than before, and what each direction waits for, of
    /// which `held` bytes are left.
    pub(crate) fn count(&mut self, relay: &Relay, held: [usize; 2], now: Time) {
        let mut have_passed = [false; 2];
        for side in SIDES {
            let (passed, counted) = (relay.passed(side), &mut self.passed[side as usize]);
            if passed > *counted {
                self.counted.counts.add(Count::Bytes(side), passed - *counted);
                *counted = passed;
                have_passed[side as usize] = true;
            }
        }
        self.waits.on_advance(have_passed, SIDES.map(|from| relay.wait(from, held[from as usize])), now);
    }

    /// Whether the legs are due to be looked at. Before the first byte there is nothing to see, and many connections end without one.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.bytes() > 0 && now >= self.due()
    }

    /// When they have to be looked at though nothing passes: while bytes wait, or more have passed than a path takes at once.
    pub(crate) fn next_look(&self) -> Option<Time> {
        let is_active = self.waits.stands() || self.bytes() - self.looked > FIRST_WINDOW;
        (self.bytes() > 0 && is_active).then(|| self.due())
    }

    /// Counts what a look at both legs shows, while `held` bytes are between them.
    pub(crate) fn look(&mut self, legs: [Look; 2], held: usize, now: Time) {
        let is_quiet = now > self.due() + QUIET;
        let limited = self.waits.look(legs, now);
        for side in SIDES {
            for cause in Cause::ALL {
                match limited[side as usize][cause as usize] {
                    0 => {}
                    us => self.counted.counts.add(Count::LimitedUs(side, cause), us),
                }
            }
        }
        self.counted.queue(held as u64 + legs.iter().map(|leg| leg.unsent).sum::<u64>());
        self.interval = if self.bytes() == self.looked {
            (self.interval * 2).clamp(FIRST_LOOK, LAST_LOOK)
        } else if is_quiet {
            FIRST_LOOK
        } else {
            (self.interval + Time::from_nanos(self.interval.as_nanos() / 8)).clamp(FIRST_LOOK, LOOK)
        };
        self.looked = self.bytes();
    }

    /// Counts a leg's smoothed round trip, 0 if it has none yet, and all its retransmissions.
    pub(crate) fn sample(&mut self, side: Side, round_trip_us: u32, retransmitted: u32) {
        let counts = &self.counted.counts;
        if round_trip_us > 0 {
            counts.add(Count::RoundTrips(side), 1);
            counts.add(Count::RoundTripsUs(side), u64::from(round_trip_us));
        }
        let counted = &mut self.retransmitted[side as usize];
        counts.add(Count::Retransmitted(side), u64::from(retransmitted.saturating_sub(*counted)));
        *counted = retransmitted.max(*counted);
    }

    /// Counts its end, and what it has saved if it came to it whole.
    pub(crate) fn end(&self, outcome: &Outcome, legs: Legs<'_>) {
        self.counted.counts.add(Count::Ended(outcome.end), 1);
        if outcome.end != End::Complete {
            return;
        }
        if let Some(us) = legs.round_trips().and_then(|trips| saved_us(self.passed, trips, legs.handshake_us())) {
            self.counted.counts.add(Count::Pages, 1);
            self.counted.counts.add(Count::SavedUs, us);
        }
    }

    /// Its line of the log.
    pub(crate) fn line(&self, outcome: &Outcome, legs: Legs<'_>, now: Time) -> String {
        let mut line = Line::new();
        line.text("connection rule=").text(&self.rule.name);
        line.text(" client=").address(self.ends[0]).text(" server=").address(self.ends[1]);
        line.text(if legs.tunnel_us.is_some() { " through=tunnel" } else { "" });
        line.text(" end=").text(outcome.end.name()).text(" reason=").quoted(&outcome.reason);
        line.text(" bytes_up=").number(self.passed[Side::Client as usize]);
        line.text(" bytes_down=").number(self.passed[Side::Server as usize]);
        line.text(" seconds=").thousandths((now - self.began).as_millis()).text(" connect_ms=");
        match self.connect_us {
            Some(us) => line.thousandths(us.into()),
            None => line.text("-"),
        };
        legs.each(|whose, what, value| {
            line.text(" ").text(whose).text("_").text(what).text("=").number(value.into());
        });
        line.into_string()
    }

    /// Its line of accounting.
    pub(crate) fn record(&self, outcome: &Outcome, legs: Legs<'_>, now: Time) -> Map<String, Value> {
        let mut record = Map::from_iter([
            ("subscriber".to_owned(), (*self.counted.counts.who).into()),
            ("rule".to_owned(), self.rule.name.clone().into()),
            ("client".to_owned(), self.ends[0].to_string().into()),
            ("server".to_owned(), self.ends[1].to_string().into()),
            ("end".to_owned(), outcome.end.name().into()),
            ("reason".to_owned(), outcome.reason.clone().into()),
            ("bytes_up".to_owned(), self.passed[Side::Client as usize].into()),
            ("bytes_down".to_owned(), self.passed[Side::Server as usize].into()),
            ("seconds".to_owned(), (now - self.began).as_secs_f64().into()),
            ("connect_ms".to_owned(), self.connect_us.map(|us| f64::from(us) / 1e3).into()),
        ]);
        legs.each(|whose, what, value| {
            // A round trip of 0 is not known.
            if value > 0 || what != RTT {
                record.insert(format!("{whose}_{what}"), value.into());
            }
        });
        record
    }

    /// When the legs are looked at next.
    fn due(&self) -> Time {
        self.waits.looked() + self.interval
    }

    fn bytes(&self) -> u64 {
        self.passed[0] + self.passed[1]
    }
}

impl Legs<'_> {
    /// The part of the handshakes that the other box has saved, µs: the server's is not over the satellite. It counts at the client's box.
    fn handshake_us(&self) -> u64 {
        let is_client_s = self.sockets.iter().all(|(side, _)| *side == Side::Client);
        self.tunnel_us.filter(|_| is_client_s).map_or(0, u64::from)
    }

    /// The shortest round trip of each leg, if both are known.
    fn round_trips(&self) -> Option<[u32; 2]> {
        let mut known = self.sockets.iter().map(|(_, info)| info.least_rtt_us).chain(self.tunnel_us);
        let both = [known.next()?, known.next()?];
        both.iter().all(|us| *us > 0).then_some(both)
    }

    /// Hands over whose value it is, which, and the value.
    fn each(&self, mut word: impl FnMut(&str, &str, u32)) {
        for (side, info) in self.sockets {
            word(side.name(), RTT, info.rtt_us);
            word(side.name(), "retransmitted", info.retransmitted);
        }
        if let Some(us) = self.tunnel_us {
            word("tunnel", RTT, us);
        }
    }
}

/// Time that a connection has saved at least against one without a proxy, µs; `None` if it was shorter than a page.
///
/// A sender begins with ten segments (RFC 6928) and doubles what it sends in each round trip (RFC 5681): after k of them it has sent
/// `FIRST_WINDOW` (2^k - 1) bytes. Without a proxy each of these round trips crosses both legs. With one, each leg has its own, at the same
/// time: those of the longer one remain, so that each round after the first saves the shorter one. More than the rounds of the first
/// `PAGE` bytes are not counted: a window may be large enough then.
fn saved_us(passed: [u64; 2], [one, other]: [u32; 2], handshake_us: u64) -> Option<u64> {
    let bytes = passed[0].max(passed[1]).min(PAGE);
    if bytes <= FIRST_WINDOW {
        return None;
    }
    let rounds = (bytes.div_ceil(FIRST_WINDOW) + 1).next_power_of_two().ilog2();
    Some(u64::from(rounds - 1) * u64::from(one.min(other)) + handshake_us)
}

impl Counted {
    fn queue(&mut self, queued: u64) {
        if queued != self.queued {
            self.counts.subtract(Count::Queued, self.queued);
            self.counts.add(Count::Queued, queued);
            self.queued = queued;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.queue(0);
        self.counts.subtract(Count::Open, 1);
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

/// The name of a smoothed round trip.
const RTT: &str = "rtt_us";
/// Time to the second look at an active connection; it grows to [`LOOK`], and where nothing passes to [`LAST_LOOK`].
const FIRST_LOOK: Time = Time::from_millis(100);
const LOOK: Time = Time::from_secs(1);
const LAST_LOOK: Time = Time::from_secs(16);
/// Silence after which bytes begin another transfer.
const QUIET: Time = Time::from_secs(2);
/// A sender's first window: ten segments (RFC 6928) of 1448 bytes, with timestamps.
const FIRST_WINDOW: u64 = 14_480;
/// Bytes of a page, at most.
const PAGE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::wait::Wait;
    use crate::shared::permit::Clients;
    use crate::shared::stats::Stats;

    #[test]
    fn a_leg_is_counted_as_it_was_last_seen_and_nothing_is_left_of_a_connection() {
        let all = Arc::new(Stats::default());
        let (clients, counts) = (Clients::new(all.clone()), Arc::new(Counts::default()));
        let ends = ["10.0.0.1:5".parse().unwrap(), "10.0.0.2:80".parse().unwrap()];
        let permit = clients.permit("10.0.0.1".parse().unwrap(), 1).unwrap();
        let mut account = Account::open(ends, Arc::default(), counts.clone(), Time::from_secs(1), Some(permit));
        account.sample(Side::Server, 0, 0);
        account.sample(Side::Server, 600_000, 3);
        account.sample(Side::Server, 700_000, 5);
        account.look([Look { unsent: 400, closed_us: 0 }, Look::default()], 30, Time::from_secs(2));
        let seen = [
            (Count::Open, 1),
            (Count::RoundTrips(Side::Client), 0),
            (Count::RoundTrips(Side::Server), 2),
            (Count::RoundTripsUs(Side::Server), 1_300_000),
            (Count::Retransmitted(Side::Server), 5),
            (Count::Queued, 430),
        ];
        for (count, value) in seen {
            assert_eq!(counts.read().get(count), value, "{}", count.name());
        }
        assert_eq!(all.open.get(), 1);
        drop(account);
        assert_eq!((counts.read().get(Count::Open), counts.read().get(Count::Queued), all.open.get()), (0, 0, 0));
    }

    #[test]
    fn its_line_has_addresses_numbers_and_words_as_the_standard_library_writes_them() {
        let line = |ends: [&str; 2], (end, reason): (End, &str), (connect_us, passed, ms), legs: Legs<'_>| {
            let ends = ends.map(|end| end.parse().unwrap());
            let rule = Arc::new(Rule { name: "web".to_owned(), ..Rule::default() });
            let mut account = Account::open(ends, rule, Arc::default(), Time::from_secs(1), None);
            (account.connect_us, account.passed) = (connect_us, passed);
            let outcome = Outcome { end, reason: reason.to_owned() };
            account.line(&outcome, legs, Time::from_secs(1) + Time::from_millis(ms))
        };
        let [near, far] = [(20_417, 0), (601_000, 12)].map(|(rtt_us, retransmitted)| TcpInfo {
            rtt_us,
            retransmitted,
            ..TcpInfo::default()
        });
        let both = Legs { sockets: &[(Side::Client, near), (Side::Server, far)], tunnel_us: None };
        assert_eq!(
            line(
                ["10.1.0.2:65535", "255.100.99.0:80"],
                (End::Complete, "complete"),
                (Some(1009), [0, 1_234_567], 61_007),
                both
            ),
            "connection rule=web client=10.1.0.2:65535 server=255.100.99.0:80 end=complete reason=\"complete\" bytes_up=0 \
             bytes_down=1234567 seconds=61.007 connect_ms=1.009 client_rtt_us=20417 client_retransmitted=0 \
             server_rtt_us=601000 server_retransmitted=12"
        );
        let one = Legs { sockets: &[(Side::Server, far)], tunnel_us: Some(0) };
        assert_eq!(
            line(
                ["[2001:db8:0:1:0:0:0:2]:5", "[::1]:443"],
                (End::Failed, "a \"b\"\t\\é"),
                (None, [u64::MAX, 9], 0),
                one
            ),
            "connection rule=web client=[2001:db8:0:1::2]:5 server=[::1]:443 through=tunnel end=failed \
             reason=\"a \\\"b\\\"\\t\\\\é\" bytes_up=18446744073709551615 bytes_down=9 seconds=0.000 connect_ms=- \
             server_rtt_us=601000 server_retransmitted=12 tunnel_rtt_us=0"
        );
        let most = (Some(u32::MAX), [10, 100], 999);
        assert_eq!(
            line(
                ["[::ffff:10.1.0.2]:1", "[fe80::a:0:0:1%3]:80"],
                (End::Unreached, &"x".repeat(201)),
                most,
                Legs::default()
            ),
            format!(
                "connection rule=web client=[::ffff:10.1.0.2]:1 server=[fe80::a:0:0:1%3]:80 end=unreached \
                 reason=\"{}...\" bytes_up=10 bytes_down=100 seconds=0.999 connect_ms=4294967.295",
                "x".repeat(200)
            )
        );
    }

    #[test]
    fn looks_are_close_at_first_and_rare_where_nothing_passes() {
        let ends = ["10.0.0.1:5".parse().unwrap(), "10.0.0.2:80".parse().unwrap()];
        let mut account = Account::open(ends, Arc::default(), Arc::default(), Time::ZERO, None);
        // A wait before the first byte wakes nobody.
        account.waits.on_advance([false; 2], [Wait::Room, Wait::Bytes], Time::ZERO);
        assert!(!account.is_due(Time::ZERO) && account.next_look().is_none());
        let waiting = [Look { unsent: 1, closed_us: 0 }, Look::default()];
        let mut now = Time::from_secs(10);
        let mut look = |account: &mut Account, bytes: u64| {
            account.passed[0] += bytes;
            account.look(waiting, 0, now);
            let wait = account.next_look().unwrap() - now;
            now = account.due();
            wait.as_nanos() / 1_000_000
        };
        let growing: Vec<u64> = (0..25).map(|_| look(&mut account, 1)).collect();
        assert_eq!((growing[0], growing[1], growing[24]), (100, 112, 1000));
        assert!((10..14).contains(
            &growing
                .iter()
                .scan(0, |sum, ms| {
                    *sum += ms;
                    Some(*sum)
                })
                .filter(|at| *at < 2200)
                .count()
        ));
        let still: Vec<u64> = (0..5).map(|_| look(&mut account, 0)).collect();
        assert_eq!(still, [2000, 4000, 8000, 16_000, 16_000]);
        assert_eq!(look(&mut account, 1), 1000);
    }

    #[test]
    fn a_page_saves_the_shorter_round_trip_for_each_round_after_the_first() {
        let saved = |bytes: u64| saved_us([300, bytes], [20_000, 600_000], 0);
        assert_eq!(saved(FIRST_WINDOW), None);
        for (windows, rounds) in [(2, 1), (3, 1), (4, 2), (7, 2), (8, 3)] {
            assert_eq!(saved(windows * FIRST_WINDOW), Some(rounds * 20_000), "{windows}");
        }
        assert_eq!(
            (saved(FIRST_WINDOW + 1), saved(PAGE), saved(1 << 40)),
            (Some(20_000), Some(120_000), Some(120_000))
        );
        assert_eq!(saved_us([100_000, 0], [600_000, 20_000], 600_000), Some(2 * 20_000 + 600_000));
    }
}
