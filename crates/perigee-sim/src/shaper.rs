//! A proxy that owns the queue of a link: it divides the link's rate between its connections, each of which then paces what it sends there.
//!
//! [`perigee_share`] decides, as in the service. Every [`INTERVAL`] each connection tells what it could send, and gets the bound of its
//! pacing rate. So what is too much waits in the proxy's buffers, where the window of the leg before closes, and not in the queue of the
//! link. A subscriber is the host that opens connections. All else that the link is offered, such as datagrams and ACKs, leaves its share.

use perigee_share::{Allocator, Connection, Segment, Sender, Subscriber, Transfer};
use perigee_study::{FlowSpec, LinkQueue, Opener, Scenario};
use perigee_tcp::Endpoint;
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
    transfer: Transfer,
    payload: u64,
    packets: u64,
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
        let (info, segment) = (end.host.info(), end.segment(self.overhead));
        let payload = info.snd_nxt + info.retransmitted_packets * segment.payload;
        let window = (u64::from(info.cwnd) * segment.payload).min(u64::from(info.peer_window));
        let sender = Sender {
            window: Bytes::new(window),
            is_slow_start: info.ssthresh.is_none_or(|ssthresh| info.cwnd < ssthresh),
            has_more: end.host.unsent() + end.unread > 0,
        };
        let account = &mut *end.account;
        let (moved, packets) = (payload.saturating_sub(account.payload), info.sent_packets - account.packets);
        (account.payload, account.packets) = (payload, info.sent_packets);
        let round_trip = info.rtt_min.unwrap_or(Time::ZERO);
        let could = account.transfer.look(&self.spec.policy, Bytes::new(moved), INTERVAL, round_trip, Some(sender));
        self.own.bytes += moved + packets * (segment.headers - self.overhead);
        self.own.packets += packets;
        self.connections.push(Connection { subscriber, spent: account.transfer.spent, demand: segment.on_link(could) });
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
        let others = Rate::of(Bytes::new(bytes + packets * self.overhead), now - self.read);
        self.others = u64::midpoint(self.others, others.as_bps());
        (self.read, self.offered, self.own) = (now, offered, Offer::default());
    }

    fn grant(&mut self, end: &mut ProxyEnd<'_>) {
        let (share, demand) = (self.rates[self.granted], self.connections[self.granted].demand);
        self.granted += 1;
        if self.granted == self.connections.len() {
            self.connections.clear();
        }
        let (segment, account) = (end.segment(self.overhead), &mut *end.account);
        if let Some(pace) = account.transfer.pace(share, demand, self.rate, segment, account.is_bound) {
            account.is_bound = true;
            end.host.bound_pacing(pace);
        }
    }
}

impl ProxyEnd<'_> {
    /// A full segment, with the bytes that the link adds.
    fn segment(&self, overhead: u64) -> Segment {
        let (payload, header) = self.host.segment_bytes();
        Segment { payload: u64::from(payload), headers: u64::from(header + self.outlet.ip_header) + overhead }
    }
}

/// The host that opens the connections of a flow.
fn subscriber(flow: &FlowSpec) -> u32 {
    match flow.traffic.tcp().map(|tcp| tcp.opened_by) {
        Some(Opener::Sender) => flow.from,
        _ => flow.to,
    }
}

/// Time between two divisions.
pub(crate) const INTERVAL: Time = Time::from_millis(20);
/// Time over which what bypasses the proxy is counted.
const READ: Time = Time::from_millis(200);
