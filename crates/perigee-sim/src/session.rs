//! A session: the connection between two applications, its legs, and what the applications do.
//!
//! A connection has one leg, or several with proxies between them: at each proxy, one leg ends and the next begins. A script says what the
//! application at each end does, and each waits for something. A flow has one session, a population many.

use perigee_link::Ecn;
use perigee_study::{Handshake, Leg};
use perigee_tcp::{Endpoint, Flags, Header};
use perigee_traffic::{Delivered, End, Script};
use perigee_units::Time;

use crate::application::{act, Wait};
use crate::connection::Connection;
use crate::leg_meters::LegMeter;
use crate::packet::NetPacket;
use crate::proxy::ProxyState;
use crate::relay::{Junction, Relay};
use crate::world::{LegEnd, World};

pub(crate) struct Session {
    /// The connection; behind proxies, its first leg.
    pub(crate) first: Connection,
    further: Option<Box<FurtherLegs>>,
    pub(crate) script: Script,
    /// The wait of each end's application.
    pub(crate) waits: [Wait; 2],
}

/// The legs after the first, and the proxies between all of them.
struct FurtherLegs {
    rest: Vec<Connection>,
    /// The proxy between each leg and the next.
    relays: Vec<Relay>,
    /// Payload that each leg's receiver had accepted when last measured.
    delivered: Vec<Delivered>,
    /// The end that opens each leg.
    opener: End,
}

impl Session {
    /// A session over `first` and the further legs `rest` of `legs`; `memory` is the event source to wake when a proxy has memory again.
    pub(crate) fn new(
        first: Connection,
        rest: Vec<Connection>,
        legs: &[Leg],
        opener: End,
        memory: u32,
        script: Script,
    ) -> Self {
        let relay = |proxy| Relay::new(proxy, opener, memory);
        let further = (!rest.is_empty()).then(|| {
            let relays = legs.iter().filter_map(|leg| leg.proxy).map(relay).collect();
            Box::new(FurtherLegs { rest, relays, delivered: vec![Delivered::default(); legs.len()], opener })
        });
        Self { first, further, script, waits: [Wait::NOTHING; 2] }
    }

    /// Opens the leg of the opener; the ends at proxies are read on demand.
    pub(crate) fn open(&mut self, now: Time, opener: End, meter: &mut impl LegMeter) {
        let proxies = self.proxies();
        for (leg, connection) in self.legs_mut().enumerate() {
            for (end, is_proxy) in connection.ends.iter_mut().zip([leg > 0, leg < proxies]) {
                if let Some(host) = end.as_deref_mut().filter(|_| is_proxy) {
                    host.read_on_demand();
                }
            }
        }
        meter.opened(now, if opener == End::To { proxies } else { 0 });
        if let Some(host) = self.host_mut(opener) {
            host.open(now);
        }
    }

    /// Whether proxies split the connection.
    #[inline]
    pub(crate) fn is_split(&self) -> bool {
        self.further.is_some()
    }

    /// The connections of all legs.
    pub(crate) fn legs(&self) -> impl Iterator<Item = &Connection> {
        let rest = self.further.as_ref().map_or(&[][..], |further| &further.rest);
        std::iter::once(&self.first).chain(rest)
    }

    pub(crate) fn legs_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        let rest = self.further.as_mut().map_or(&mut [][..], |further| &mut further.rest);
        std::iter::once(&mut self.first).chain(rest)
    }

    #[inline]
    pub(crate) fn host(&self, end: End) -> Option<&Endpoint> {
        let connection = match (&self.further, end) {
            (Some(further), End::To) => &further.rest[further.rest.len() - 1],
            _ => &self.first,
        };
        connection.ends[end as usize].as_deref()
    }

    #[inline]
    pub(crate) fn host_mut(&mut self, end: End) -> Option<&mut Endpoint> {
        self.leg_of(end).ends[end as usize].as_deref_mut()
    }

    /// The leg at an end of the session.
    #[inline]
    pub(crate) fn leg_of(&mut self, end: End) -> &mut Connection {
        leg_of(&mut self.first, &mut self.further, end)
    }

    /// The application at an end does what is next, if it is connected.
    pub(crate) fn act(&mut self, now: Time, end: End) {
        let host = leg_of(&mut self.first, &mut self.further, end).ends[end as usize].as_deref_mut();
        if let Some(host) = host.filter(|host| host.is_established()) {
            self.waits[end as usize] = act(now, end, host, &mut self.script);
        }
    }

    /// The next instant at which an application has something to do.
    pub(crate) fn next_instant(&self) -> Time {
        self.waits[0].until.min(self.waits[1].until)
    }

    /// Processes a packet at an end of a leg, and serves a proxy there. Returns true if the end is one of the
    /// session's, which the caller must serve.
    #[inline]
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        at: LegEnd,
        packet: &NetPacket,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) -> bool {
        if self.is_split() {
            return self.on_packet_of_leg(now, at, packet, meter, world);
        }
        let Some(host) = self.first.ends[at.end as usize].as_deref_mut() else { return false };
        take(host, now, packet);
        measure(now, at, &packet.stored.header, &mut self.first, meter);
        true
    }

    #[inline(never)]
    fn on_packet_of_leg(
        &mut self,
        now: Time,
        at: LegEnd,
        packet: &NetPacket,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) -> bool {
        let proxy = self.proxy_at(at);
        if let Some(number) = proxy.filter(|number| self.keeps_request(*number, at, packet, world)) {
            self.serve_proxy(now, number, None, meter, world);
            return false;
        }
        let opens = self.is_opener(at.end);
        let Some((connection, delivered)) = self.leg(at.leg) else { return false };
        let Some(host) = connection.ends[at.end as usize].as_deref_mut() else { return false };
        take(host, now, packet);
        if opens {
            meter.opener_acted(now, at.leg as usize, host);
        }
        if at.end == End::To {
            meter.took(now, at.leg as usize, delivered, connection);
        } else {
            measure(now, at, &packet.stored.header, connection, meter);
        }
        let Some(number) = proxy else { return true };
        self.serve_proxy(now, number, Some(at.end), meter, world);
        false
    }

    /// Runs the timer of an end of a leg, which may be early. Returns true if the end is one of the session's
    /// and something was due, in which case the caller must serve it.
    pub(crate) fn on_timer(&mut self, now: Time, at: LegEnd, meter: &mut impl LegMeter, world: &mut World) -> bool {
        if !self.is_split() {
            return self.first.on_timer(now, at.end, world);
        }
        let Some((connection, delivered)) = self.leg(at.leg) else { return false };
        if !connection.on_timer(now, at.end, world) {
            return false;
        }
        if at.end == End::To {
            meter.took(now, at.leg as usize, delivered, connection);
        }
        let Some(number) = self.proxy_at(at) else { return true };
        self.serve_proxy(now, number, Some(at.end), meter, world);
        false
    }

    /// Proxies may have memory again.
    pub(crate) fn on_memory(&mut self, now: Time, meter: &mut impl LegMeter, world: &mut World) {
        for number in 0..self.proxies() {
            self.serve_proxy(now, number, None, meter, world);
        }
    }

    /// Adds the connections and unread bytes to the proxies' states.
    pub(crate) fn add_to(&self, proxies: &mut [ProxyState]) {
        let Some(further) = &self.further else { return };
        for (relay, (up, down)) in further.relays.iter().zip(self.legs().zip(&further.rest)) {
            let ends = [up.ends[End::To as usize].as_deref(), down.ends[End::From as usize].as_deref()];
            let state = &mut proxies[relay.proxy as usize];
            let open = ends.iter().flatten().any(|host| host.was_established() && !host.is_closed());
            state.connections += u32::from(open);
            state.unread_bytes += ends.iter().flatten().map(|host| host.unread()).sum::<u64>();
        }
    }

    /// The session is over: releases what its proxies hold of it.
    pub(crate) fn abandon(&mut self, now: Time, world: &mut World) {
        let Some(further) = &mut self.further else { return };
        further.relays.iter_mut().for_each(|relay| relay.abandon(now, world));
    }

    /// Number of proxies between the legs.
    fn proxies(&self) -> usize {
        self.further.as_ref().map_or(0, |further| further.relays.len())
    }

    /// Whether this is the end that opens each leg between proxies.
    fn is_opener(&self, end: End) -> bool {
        self.further.as_ref().is_some_and(|further| further.opener == end)
    }

    /// The proxy at an end of a leg; `None` if the end is one of the session's.
    fn proxy_at(&self, at: LegEnd) -> Option<usize> {
        let leg = at.leg as usize;
        match at.end {
            End::From => leg.checked_sub(1),
            End::To => self.further.as_ref().filter(|further| leg < further.relays.len()).map(|_| leg),
        }
    }

    /// A leg behind proxies, and what its receiver had accepted.
    fn leg(&mut self, leg: u32) -> Option<(&mut Connection, &mut Delivered)> {
        let FurtherLegs { rest, delivered, .. } = self.further.as_deref_mut()?;
        let connection = if leg == 0 { &mut self.first } else { &mut rest[leg as usize - 1] };
        Some((connection, &mut delivered[leg as usize]))
    }

    /// Whether a packet is a SYN that waits at a proxy until the next leg is established, and keeps it there if so.
    fn keeps_request(&mut self, number: usize, at: LegEnd, packet: &NetPacket, world: &World) -> bool {
        let flags = packet.stored.header.flags;
        if self.is_opener(at.end) || !flags.has(Flags::SYN) || flags.has(Flags::ACK) {
            return false;
        }
        let Some(relay) = self.further.as_deref_mut().map(|further| &mut further.relays[number]) else { return false };
        let connects_first = world.proxies[relay.proxy as usize].handshake() == Handshake::Connect;
        connects_first && relay.keeps_request(packet.segment())
    }

    /// A proxy relays between its legs, whose ends have processed everything else. `active` is the end at the proxy that something has
    /// happened to, and which sends first.
    #[inline]
    fn serve_proxy(
        &mut self,
        now: Time,
        number: usize,
        active: Option<End>,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) {
        let Some(further) = self.further.as_deref_mut() else { return };
        let opener = further.opener;
        let mut junction = further.junction(&mut self.first, number);
        if let Some(end) = active {
            junction.leg_of(end).transmit(now, end, world);
        }
        let relayed = junction.relay(now, world);
        if let Some(end) = active.filter(|_| !relayed.has_acted) {
            junction.leg_of(end).schedule(end, world);
        }
        if relayed.opens {
            meter.opened(now, if opener == End::To { number } else { number + 1 });
        }
    }
}

impl FurtherLegs {
    /// A proxy with the legs on both sides of it.
    #[inline]
    fn junction<'a>(&'a mut self, first: &'a mut Connection, number: usize) -> Junction<'a> {
        let relay = &mut self.relays[number];
        if number == 0 {
            return Junction { relay, up: first, down: &mut self.rest[0] };
        }
        let (before, after) = self.rest.split_at_mut(number);
        Junction { relay, up: &mut before[number - 1], down: &mut after[0] }
    }

    /// The last leg.
    #[inline]
    fn last(&mut self) -> &mut Connection {
        let last = self.rest.len() - 1;
        &mut self.rest[last]
    }
}

/// The leg at an end of a session.
#[inline]
fn leg_of<'a>(first: &'a mut Connection, further: &'a mut Option<Box<FurtherLegs>>, end: End) -> &'a mut Connection {
    match (further, end) {
        (Some(further), End::To) => further.last(),
        _ => first,
    }
}

/// Processes a packet of the session, which is a segment.
#[inline]
fn take(host: &mut Endpoint, now: Time, packet: &NetPacket) {
    match packet.header() {
        Some(header) => host.on_plain_segment(now, header),
        None => take_any(host, now, packet),
    }
}

/// Processes a packet with rare options or a congestion mark.
#[inline(never)]
fn take_any(host: &mut Endpoint, now: Time, packet: &NetPacket) {
    if let Some(segment) = packet.segment() {
        host.on_segment(now, &segment, packet.stored.ecn == Ecn::Marked);
    }
}

/// Reports what a leg's sender measured with a segment.
#[inline]
fn measure(now: Time, at: LegEnd, header: &Header, connection: &mut Connection, meter: &mut impl LegMeter) {
    if at.end == End::To {
        return;
    }
    let rtt = connection.ends[End::From as usize].as_deref_mut().and_then(Endpoint::take_rtt);
    if let Some(rtt) = rtt {
        meter.round_trip(at.leg as usize, rtt);
    }
    connection.log_acknowledged(now, header, rtt);
}
