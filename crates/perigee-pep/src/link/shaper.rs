//! Divides the link: looks at the active connections, asks for their shares, and limits their sockets.

use std::sync::Arc;

use perigee_share::{Allocator, Connection};
use perigee_units::{Bytes, Rate, Time};

use super::flow::{Flow, Moved};
use super::joint::{between, Claim, Joint, Parts, Role};
use super::report::{Report, Seen, Used};
use super::subscribers::Subscribers;
use crate::config::{Config, Rates, SatelliteLink};
use crate::host::counters::{Counters, Passed};
use crate::shared::tap::Tap;

/// The division of a link.
#[derive(Debug)]
pub(super) struct Shaper {
    link: Arc<SatelliteLink>,
    flows: Vec<Flow>,
    subscribers: Subscribers,
    /// The two directions: sent, and received.
    ways: [Way; 2],
    counters: Option<Counters>,
    /// The last reading of the interface, or why there is none.
    passed: Option<Passed>,
    missing: Option<String>,
    looked: Time,
    read: Time,
    swept: Time,
}

/// A direction of the link.
#[derive(Debug)]
struct Way {
    allocator: Allocator,
    connections: Vec<Connection>,
    /// Payload and segments of data of the service's own since the last reading, and their headers.
    own: u64,
    segments: u64,
    headers: u64,
    /// Rates of late: of all, of the data of this process, and of what is not data of the service.
    used: u64,
    data: u64,
    others: u64,
    /// The rate of data that older processes say is theirs.
    older: u64,
}

impl Shaper {
    pub(super) fn new(config: Arc<Config>, link: Arc<SatelliteLink>, now: Time) -> Self {
        let way = || Way {
            allocator: Allocator::new(link.policy),
            connections: Vec::new(),
            own: 0,
            segments: 0,
            headers: 0,
            used: 0,
            data: 0,
            others: 0,
            older: 0,
        };
        Self {
            ways: [way(), way()],
            counters: Counters::open().ok(),
            passed: None,
            missing: None,
            flows: Vec::new(),
            subscribers: Subscribers::new(config, link.clone()),
            link,
            looked: now,
            read: now,
            swept: now,
        }
    }

    /// Whether no connection is active.
    pub(super) fn is_idle(&self) -> bool {
        self.flows.is_empty()
    }

    /// Why the last reading of the interface has failed.
    pub(super) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Adds a connection whose bytes pass.
    pub(super) fn add(&mut self, tap: Arc<Tap>, now: Time) {
        let subscriber = self.subscribers.of(tap.crossing.client);
        self.flows.push(Flow::new(tap, subscriber, now));
    }

    /// Takes the connections of the division before, with their limits.
    pub(super) fn adopt(&mut self, old: Self) {
        for mut flow in old.flows {
            flow.subscriber = self.subscribers.of(flow.tap.crossing.client);
            self.flows.push(flow);
        }
    }

    /// Ends with all limits.
    pub(super) fn let_go(self) {
        self.flows.into_iter().for_each(Flow::let_go);
    }

    /// Divides the link until the next time; a direction without a rate has no limits. Older processes have parts of it.
    pub(super) fn divide(&mut self, rates: Rates, joint: &Joint, now: Time) {
        self.look(now);
        let interval = (now - self.looked).max(Time::from_millis(1));
        self.looked = now;
        let role = joint.role();
        let (told, older) = (role.told(now), role.older());
        let (mut own, mut parts) = (Claim::default(), vec![Parts::default(); older.len()]);
        for (at, rate) in [rates.send, rates.receive].into_iter().enumerate() {
            let way = &mut self.ways[at];
            way.older = older.iter().map(|claim| claim.used[at]).sum();
            way.connections.clear();
            way.connections.extend(self.flows.iter().map(|flow| flow.connection(at)));
            if role != Role::Alone {
                way.claim(at, &self.subscribers, &mut own);
            }
            let usable = told.map_or_else(|| rate.map(|rate| self.link.usable(rate, way.others)), |parts| parts[at]);
            let Some(mut usable) = usable else {
                // It may have had one before.
                self.flows.iter_mut().for_each(|flow| flow.release(at));
                continue;
            };
            if !older.is_empty() {
                let all = between(usable, &own, older, at);
                usable = all[0];
                parts.iter_mut().zip(&all[1..]).for_each(|(part, rate)| part[at] = Some(*rate));
            }
            let shares = way.allocator.allocate(usable, interval, &mut self.subscribers.parts[at], &way.connections);
            for (flow, share) in self.flows.iter_mut().zip(shares) {
                // It fails for a socket that has ended.
                let _ = if at == 0 { flow.send_at(*share, usable) } else { flow.receive_at(*share) };
            }
        }
        if role != Role::Alone {
            joint.put(own, parts);
        }
    }

    /// Looks at all active connections; those that have become quiet, or have ended, leave.
    fn look(&mut self, now: Time) {
        let (policy, overhead) = (&self.link.policy, self.link.overhead);
        let (ways, subscribers) = (&mut self.ways, &mut self.subscribers);
        self.flows.retain_mut(|flow| {
            let Ok(Moved { bytes, segments }) = flow.look(policy, overhead, now) else { return false };
            subscribers.count(flow.subscriber, bytes);
            for (at, way) in ways.iter_mut().enumerate() {
                way.own += bytes[at];
                way.segments += segments[at];
                way.headers = flow.headers();
            }
            let stays = !flow.is_quiet(now);
            if !stays {
                flow.rest();
            }
            stays
        });
    }

    /// Reads what has passed the interface, if it is time, and reports.
    pub(super) fn read(&mut self, report: &Report, seen: Seen, now: Time) {
        let elapsed = now - self.read;
        if elapsed < READ {
            return;
        }
        self.read = now;
        let read = self.counters.as_ref().map(|counters| counters.of(&self.link.interface));
        let passed;
        (passed, self.missing) = match read {
            Some(Ok(passed)) => (Some(passed), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, Some("netlink is refused".to_owned())),
        };
        for (at, way) in self.ways.iter_mut().enumerate() {
            let between = passed.zip(self.passed).map(|(now, before)| {
                let since = |now: [u64; 2], before: [u64; 2]| now[at].saturating_sub(before[at]);
                (since(now.bytes, before.bytes), since(now.packets, before.packets))
            });
            way.account(between, self.link.overhead, elapsed);
        }
        self.passed = passed;
        let used = self.ways.each_ref().map(|way| Used { all: way.used, others: way.others });
        report.put(seen, used, self.missing.clone(), &mut self.subscribers, self.flows.len(), elapsed);
        if now >= self.swept + SWEEP {
            self.swept = now;
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        let mut is_used = vec![false; self.subscribers.members.len()];
        self.flows.iter().for_each(|flow| is_used[flow.subscriber as usize] = true);
        let places = self.subscribers.forget(&is_used);
        self.flows.iter_mut().for_each(|flow| flow.subscriber = places[flow.subscriber as usize]);
        // Savings grow with each division, also of those without a connection; with none it is not asked.
        let full = self.link.policy.savings;
        if self.flows.is_empty() {
            self.subscribers.parts.iter_mut().flatten().for_each(|part| part.saved = full);
        }
    }
}

impl Way {
    /// Adds what this process could use of a direction to its claim.
    fn claim(&self, at: usize, subscribers: &Subscribers, claim: &mut Claim) {
        let mut is_counted = vec![false; subscribers.members.len()];
        for connection in self.connections.iter().filter(|connection| connection.demand > Rate::ZERO) {
            let demands = claim.demands[at].as_bps().saturating_add(connection.demand.as_bps());
            claim.demands[at] = Rate::from_bps(demands);
            if !std::mem::replace(&mut is_counted[connection.subscriber as usize], true) {
                let weight = subscribers.parts[at][connection.subscriber as usize].weight;
                claim.weights[at] = claim.weights[at].saturating_add(weight);
            }
        }
        claim.used[at] = self.data;
    }

    /// Takes the service's own data from what has passed: acknowledgements and all that bypasses it are left, with what the link adds
    /// to each packet. A device that is given several segments at once counts their headers once.
    fn account(&mut self, passed: Option<(u64, u64)>, overhead: u64, elapsed: Time) {
        let (own, segments) = (std::mem::take(&mut self.own), std::mem::take(&mut self.segments));
        let data = own + segments * self.headers;
        let others = passed.map_or(0, |(bytes, packets)| {
            let counted = segments.min(packets);
            let own = own + counted * self.headers.saturating_sub(overhead);
            bytes.saturating_sub(own) + (packets - counted) * overhead
        });
        let rate = |bytes| Rate::of(Bytes::new(bytes), elapsed).as_bps();
        // Half of the last, against what the two readings do not see at one instant.
        self.data = u64::midpoint(self.data, rate(data));
        self.others = u64::midpoint(self.others, rate(others).saturating_sub(self.older));
        self.used = u64::midpoint(self.used, rate(data + others));
    }
}

/// Time between readings of the interface, and between sweeps of subscribers.
const READ: Time = Time::from_millis(200);
const SWEEP: Time = Time::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::clock::monotonic;
    use crate::host::sys::tcp_info;
    use crate::relay::Side;
    use crate::shared::tap::{Crossing, WHOLE};
    use std::io::Write as _;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    #[test]
    fn limits_end_with_the_rate_and_who_reads_nothing_has_no_share() {
        let text = "[allow]\nsources = [\"10.0.0.0/8\"]\ndestinations = [\"0.0.0.0/0\"]\n\
                    [[forward]]\nlisten = \"10.0.0.1:80\"\ntarget = \"192.0.2.1:80\"\n\
                    [legs.sky]\n[legs.lan]\n[[rules]]\nname = \"all\"\nclient = \"sky\"\nserver = \"lan\"\n\
                    [link]\nleg = \"sky\"\ninterface = \"lo\"\nsend = \"1 Mbit/s\"\n";
        let config = Arc::new(Config::parse(text, "pep.toml", 1).unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        let sockets: Arc<[OwnedFd; 2]> = Arc::new([near.try_clone().unwrap().into(), far.into()]);
        let crossing = Crossing { leg: Side::Client, client: Ipv4Addr::LOCALHOST.into(), headers: 40, unsent: None };
        let (to_link, messages) = std::sync::mpsc::channel();
        let tap = Arc::new(Tap::new(Arc::downgrade(&sockets), crossing, to_link));
        // `tcpi_max_pacing_rate`.
        let most = || u64::from_ne_bytes(tcp_info(&sockets[0]).unwrap().0[112..120].try_into().unwrap());
        let mut shaper = Shaper::new(config.clone(), config.link.clone().unwrap(), monotonic());
        let known = Rates { send: Some(Rate::from_bps(1_000_000)), receive: None };
        let alone = Joint::default();
        near.write_all(&[7; 16_000]).unwrap();
        shaper.add(tap.clone(), monotonic());
        shaper.divide(known, &alone, monotonic());
        // Less than the kernel sends at once on so short a path.
        assert!(most() < 125_000 && (1..10_000).contains(&tap.piece()), "{} {}", most(), tap.piece());
        shaper.divide(Rates::default(), &alone, monotonic());
        assert_eq!((most(), tap.piece()), (u64::MAX, WHOLE));
        // It fills both buffers.
        let began = monotonic();
        while shaper.flows[0].connection(0).demand > Rate::ZERO {
            assert!(monotonic() - began < Time::from_secs(20));
            while near.write(&[7; 16_000]).is_ok() {}
            shaper.divide(Rates::default(), &alone, monotonic());
        }
        shaper.divide(known, &alone, monotonic());
        assert_eq!(most(), u64::MAX);
        shaper.let_go();
        // It is another link's with its next byte.
        tap.touch();
        assert!(messages.try_recv().is_ok());
    }

    fn way() -> Way {
        Way {
            allocator: Allocator::new(perigee_share::Policy::default()),
            connections: Vec::new(),
            own: 0,
            segments: 0,
            headers: 60,
            used: 0,
            data: 0,
            others: 0,
            older: 0,
        }
    }

    #[test]
    fn what_is_not_the_service_s_own_is_left_with_what_the_link_adds() {
        let second = Time::from_secs(1);
        let mut way = way();
        // 100 segments of 1448 bytes, and 50 packets of 1000 of others; 8 bytes are the link's.
        (way.own, way.segments) = (144_800, 100);
        way.account(Some((144_800 + 100 * 52 + 50_000, 150)), 8, second);
        assert_eq!(way.others, (50_000 + 50 * 8) * 8 / 2);
        assert_eq!(way.used, (144_800 + 100 * 60 + 50_000 + 50 * 8) * 8 / 2);
        // As two of 64 kB, counted with one header each.
        (way.own, way.segments, way.others) = (144_800, 100, 0);
        way.account(Some((144_800 + 3 * 52, 3)), 8, second);
        assert_eq!(way.others, 0);
        // An interface that is gone says nothing.
        way.account(None, 8, second);
        assert_eq!(way.others, 0);
    }

    #[test]
    fn bytes_of_a_new_counter_are_not_negative() {
        let mut way = way();
        way.own = 10_000;
        way.account(Some((0, 0)), 0, Time::from_millis(200));
        assert_eq!((way.others, way.used), (0, 10_000 * 8 * 5 / 2));
    }
}
