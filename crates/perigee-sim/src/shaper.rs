//! A proxy that owns the queue of a link: it divides the link's rate between its connections, each of which then paces what it sends there.
//!
//! [`perigee_share`] decides, as in the service. Every [`INTERVAL`] each connection tells what it could send, and gets the bound of its
//! pacing rate. So what is too much waits in the proxy's buffers, where the window of the leg before closes, and not in the queue of the
//! link. A subscriber is the host that opens connections. All else that the link is offered, such as datagrams and ACKs, leaves its share.

use perigee_share::{mean_of_late, Allocator, Connection, Subscriber};
use perigee_study::{FlowSpec, LinkQueue, Opener, Scenario};
use perigee_tcp::{Endpoint, Info};
use perigee_units::{Bytes, Rate, Ratio, Time};

use crate::network::{Network, Offer};
use crate::packet::Outlet;

/// The proxies that own the queue of a link.
#[derive(Debug)]
pub(crate) struct Shapers {
    shapers: Vec<Shaper>,
}

/// A link whose queue a proxy owns.
#[derive(Debug)]
struct Shaper {
    proxy: u32,
    spec: LinkQueue,
    /// Bytes that the link adds to each packet.
    overhead: u64,
    allocator: Allocator,
    /// One per node.
    subscribers: Vec<Subscriber>,
    connections: Vec<Connection>,
    /// Rates of the connections.
    rates: Vec<Rate>,
    /// When what bypasses the proxy was last reckoned, and the bytes that the link had been offered by then.
    read: Time,
    offered: Offer,
    /// Packets that the proxy's connections have sent since.
    own: Offer,
    /// Rate of late of what bypasses them, bit/s.
    others: u64,
    /// The rate last divided.
    rate: Rate,
    /// Connections that have been granted theirs of it.
    granted: usize,
}

/// An end of a leg at a proxy.
pub(crate) struct ProxyEnd<'a> {
    pub(crate) proxy: u32,
    pub(crate) outlet: Outlet,
    pub(crate) host: &'a mut Endpoint,
    /// Bytes that the other leg has brought for it, and the proxy has not read.
    pub(crate) unread: u64,
    pub(crate) account: &'a mut Account,
}

/// Counters of an end at a proxy when the rate of its link was last divided.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    spent: Bytes,
    payload: u64,
    packets: u64,
    /// Mean rate of payload of late.
    recent: Rate,
    /// Whether it got less than it could use.
    is_held: bool,
    is_bound: bool,
}

impl Shapers {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let proxies = (0..).zip(&scenario.proxies);
        let queues = proxies.flat_map(|(proxy, spec)| spec.queues.iter().map(move |queue| (proxy, queue)));
        Self { shapers: queues.map(|(proxy, queue)| Shaper::new(proxy, queue, scenario)).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shapers.is_empty()
    }

    /// An end of a flow's connection tells what it has sent and could send.
    pub(crate) fn ask(&mut self, flow: &FlowSpec, end: &mut ProxyEnd<'_>, network: &Network) {
        if let Some(shaper) = self.of(end, network) {
            shaper.ask(subscriber(flow), end);
        }
    }

    /// Divides the rates of the links between all who have asked.
    pub(crate) fn divide(&mut self, now: Time, network: &Network) {
        self.shapers.iter_mut().for_each(|shaper| shaper.divide(now, network));
    }

    /// An end, in the order of [`Shapers::ask`], gets its rate.
    pub(crate) fn grant(&mut self, end: &mut ProxyEnd<'_>, network: &Network) {
        if let Some(shaper) = self.of(end, network) {
            shaper.grant(end);
        }
    }

    fn of(&mut self, end: &ProxyEnd<'_>, network: &Network) -> Option<&mut Shaper> {
        let link = network.leaves_over(end.outlet.way);
        self.shapers.iter_mut().find(|shaper| shaper.proxy == end.proxy && shaper.spec.link == link)
    }
}

impl Shaper {
    fn new(proxy: u32, spec: &LinkQueue, scenario: &Scenario) -> Self {
        let policy = spec.policy;
        let subscriber = Subscriber { weight: 1, floor: spec.floor, ceiling: spec.ceiling, saved: policy.savings };
        Self {
            proxy,
            spec: spec.clone(),
            overhead: u64::from(scenario.links[spec.link as usize].spec.overhead),
            allocator: Allocator::new(policy),
            subscribers: vec![subscriber; scenario.nodes.len()],
            connections: Vec::new(),
            rates: Vec::new(),
            read: Time::ZERO,
            offered: Offer::default(),
            own: Offer::default(),
            others: 0,
            rate: Rate::ZERO,
            granted: 0,
        }
    }

    fn ask(&mut self, subscriber: u32, end: &mut ProxyEnd<'_>) {
        let (info, size, has_more) = (end.host.info(), end.segment(), end.host.unsent() + end.unread > 0);
        let payload = info.snd_nxt + info.retransmitted_packets * size.payload;
        let account = &mut *end.account;
        let (moved, packets) = (payload.saturating_sub(account.payload), info.sent_packets - account.packets);
        (account.payload, account.packets) = (payload, info.sent_packets);
        account.spent = self.spec.policy.spent(account.spent, Bytes::new(moved), INTERVAL, account.is_held);
        account.recent = mean_of_late(account.recent, rate_of(moved, INTERVAL));
        let demand = demand(&info, size, has_more, account.recent);
        let demand = size.packets_of(demand, self.overhead);
        self.own.bytes += moved + packets * size.headers;
        self.own.packets += packets;
        self.connections.push(Connection { subscriber, spent: account.spent, demand });
    }

    fn divide(&mut self, now: Time, network: &Network) {
        if now - self.read >= READ {
            self.reckon_others(now, network);
        }
        let rate = network.rate_of(self.spec.link, now - self.spec.told).as_bps() as f64;
        let part = |share: Ratio| (rate * share.as_f64()) as u64;
        self.rate = Rate::from_bps(part(self.spec.share).saturating_sub(self.others.min(part(self.spec.bypass))));
        let rates = self.allocator.allocate(self.rate, INTERVAL, &mut self.subscribers, &self.connections);
        self.rates.clear();
        self.rates.extend_from_slice(rates);
        self.granted = 0;
    }

    /// Reckons what bypasses the proxy, halfway between the last rate and the rate of late.
    fn reckon_others(&mut self, now: Time, network: &Network) {
        let (offered, before) = (network.offered(self.spec.link), self.offered);
        let bytes = (offered.bytes - before.bytes).saturating_sub(self.own.bytes);
        let packets = (offered.packets - before.packets).saturating_sub(self.own.packets);
        let others = rate_of(bytes + packets * self.overhead, now - self.read);
        self.others = u64::midpoint(self.others, others.as_bps());
        (self.read, self.offered, self.own) = (now, offered, Offer::default());
    }

    /// A connection that has had all that it could use stays without a bound, so that its window goes out at once. One that has a bound and
    /// needs none gets the link's: a rate rises only with an ACK.
    fn grant(&mut self, end: &mut ProxyEnd<'_>) {
        let (share, demand) = (self.rates[self.granted], self.connections[self.granted].demand);
        self.granted += 1;
        if self.granted == self.connections.len() {
            self.connections.clear();
        }
        let is_enough = share >= demand;
        end.account.is_held = !is_enough;
        if is_enough && !end.account.is_bound {
            return;
        }
        end.account.is_bound = true;
        let bound = end.segment().payload_of(if is_enough { self.rate } else { share }, self.overhead);
        end.host.bound_pacing((bound.as_bps() / 8).max(SLOWEST));
    }
}

/// Payload of a full segment, and the headers of its packet, bytes.
#[derive(Clone, Copy)]
struct Size {
    payload: u64,
    headers: u64,
}

impl Size {
    /// The rate on a link of segments with this rate of payload.
    fn packets_of(self, payload: Rate, overhead: u64) -> Rate {
        scaled(payload, self.payload + self.headers + overhead, self.payload)
    }

    fn payload_of(self, packets: Rate, overhead: u64) -> Rate {
        scaled(packets, self.payload, self.payload + self.headers + overhead)
    }
}

impl ProxyEnd<'_> {
    fn segment(&self) -> Size {
        let (payload, header) = self.host.segment_bytes();
        Size { payload: u64::from(payload), headers: u64::from(header + self.outlet.ip_header) }
    }
}

/// The rate of payload that an end could use: with more to send a window in each round trip, in slow start two; otherwise what it has sent
/// of late, and a little more. One that gets as much has no bound, so that nothing need be kept for a window that grows slowly.
fn demand(info: &Info, size: Size, has_more: bool, recent: Rate) -> Rate {
    let window = (u64::from(info.cwnd) * size.payload).min(u64::from(info.peer_window));
    let round_trip_us = info.rtt_min.map_or(1, |least| least.as_micros().max(1));
    let per_round_trip = window * 8_000_000 / round_trip_us;
    let is_slow_start = info.ssthresh.is_none_or(|ssthresh| info.cwnd < ssthresh);
    let possible = if is_slow_start { per_round_trip * 2 } else { per_round_trip };
    Rate::from_bps(if has_more { possible } else { possible.min(recent.as_bps() * 5 / 4) })
}

/// The host that opens the connections of a flow.
fn subscriber(flow: &FlowSpec) -> u32 {
    match flow.traffic.tcp().map(|tcp| tcp.opened_by) {
        Some(Opener::Sender) => flow.from,
        _ => flow.to,
    }
}

fn scaled(rate: Rate, factor: u64, divisor: u64) -> Rate {
    Rate::from_bps((u128::from(rate.as_bps()) * u128::from(factor) / u128::from(divisor)) as u64)
}

/// The rate that sends so much in some time.
fn rate_of(bytes: u64, time: Time) -> Rate {
    Rate::from_bps(bytes.saturating_mul(8_000_000_000) / time.as_nanos().max(1))
}

/// Time between two divisions.
pub(crate) const INTERVAL: Time = Time::from_millis(20);
/// Time over which what bypasses the proxy is counted.
const READ: Time = Time::from_millis(200);
/// Least rate of a connection, bytes per second, as in the service: TCP cannot shorten a pause that has begun, and with 8,000 the 180
/// connections of 48 homes get more than the 20 Mbit/s that they share.
const SLOWEST: u64 = 2_000;
