//! A session: the connection between two applications, its legs, and what the applications do.
//!
//! A connection has one leg, or several with proxies between them: at each proxy, one leg ends and the next begins. A script says what the
//! application at each end does, and each waits for something. A flow has one session, a population many.

use perigee_link::Ecn;
use perigee_study::{Handshake, Leg};
use perigee_tcp::{Endpoint, Flags, Header};
use perigee_traffic::{Delivered, End, Script};
use perigee_units::Time;

use crate::application::{act, Socket as _, Stream, Wait};
use crate::connection::Connection;
use crate::leg_meters::LegMeter;
use crate::packet::{NetPacket, Parcel as _};
use crate::proxy::ProxyState;
use crate::relay::{Junction, Relay};
use crate::shaper::ProxyEnd;
use crate::world::{LegEnd, World};

pub(crate) struct Session {
    /// The connection; behind proxies, its first leg.
    pub(crate) first: Connection,
    further: Option<Box<FurtherLegs>>,
    pub(crate) script: Script,
    /// The wait of each end's application.
    pub(crate) waits: [Wait; 2],
    /// The view of each end's application.
    seen: [Seen; 2],
    /// Whether the applications look at each segment: while the connection opens or closes.
    pub(crate) attentive: bool,
    is_closing: bool,
    /// Whether each end may have something to send, or another deadline.
    needs_service: [bool; 2],
    /// Whether each end is closed.
    is_closed: [bool; 2],
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Both ends are closed.
    Closed,
    Failed,
}

/// An application's view of its end of the connection, in one word: a population has thousands of sessions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Seen(u64);

impl Seen {
    #[inline]
    fn of(host: &impl Stream) -> Self {
        let flags = u64::from(host.is_established()) | u64::from(host.peer_closed()) << 1;
        Self(host.received() << 2 | flags)
    }

    fn is_established(self) -> bool {
        self.0 & 1 != 0
    }

    #[inline]
    fn received(self) -> u64 {
        self.0 >> 2
    }
}

/// The legs after the first, and the proxies between all of them.
struct FurtherLegs {
    legs: Vec<Connection>,
    /// The proxy between each leg and the next.
    relays: Vec<Relay>,
    /// Payload that each leg's receiver had accepted when last measured.
    delivered: Vec<Delivered>,
    /// The end that opens each leg.
    opener: End,
}

impl Session {
    /// A session over `first` and the `further` ones of `legs`; `memory` is the event source to wake when a proxy has memory again.
    pub(crate) fn new(
        first: Connection,
        further: Vec<Connection>,
        legs: &[Leg],
        opener: End,
        memory: u32,
        script: Script,
    ) -> Self {
        let relay = |proxy| Relay::new(proxy, opener, memory);
        let further = (!further.is_empty()).then(|| {
            let relays = legs.iter().filter_map(|leg| leg.proxy).map(relay).collect();
            Box::new(FurtherLegs { legs: further, relays, delivered: vec![Delivered::default(); legs.len()], opener })
        });
        Self {
            first,
            further,
            script,
            waits: [Wait::NOTHING; 2],
            seen: [Seen::default(); 2],
            attentive: true,
            is_closing: false,
            needs_service: [true; 2],
            is_closed: [false; 2],
        }
    }

    /// Opens the leg of the opener; the ends at proxies are read on demand.
    pub(crate) fn open(&mut self, now: Time, opener: End, meter: &mut impl LegMeter) {
        let proxies = self.further.as_ref().map_or(0, |further| further.relays.len());
        for (leg, connection) in self.legs_mut().enumerate() {
            for (end, is_proxy) in [(End::From, leg > 0), (End::To, leg < proxies)] {
                if let Some(host) = connection.host_mut(end).filter(|_| is_proxy) {
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
        let further = self.further.as_ref().map_or(&[][..], |further| &further.legs);
        std::iter::once(&self.first).chain(further)
    }

    pub(crate) fn legs_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        let further = self.further.as_mut().map_or(&mut [][..], |further| &mut further.legs);
        std::iter::once(&mut self.first).chain(further)
    }

    #[inline]
    pub(crate) fn host(&self, end: End) -> Option<&impl Stream> {
        let connection = match (&self.further, end) {
            (Some(further), End::To) => &further.legs[further.legs.len() - 1],
            _ => &self.first,
        };
        connection.host(end)
    }

    #[inline]
    pub(crate) fn host_mut(&mut self, end: End) -> Option<&mut impl Stream> {
        self.leg_at(end).host_mut(end)
    }

    /// The leg at an end of the session.
    #[inline]
    pub(crate) fn leg_at(&mut self, end: End) -> &mut Connection {
        leg_at(&mut self.first, &mut self.further, end)
    }

    /// Whether the applications have something to do, now that an end has processed a packet or a timer.
    #[inline]
    pub(crate) fn is_due(&mut self, now: Time, end: End) -> bool {
        let sees = self.host(end).map_or(Seen::default(), Seen::of);
        if sees.received() >= self.waits[end as usize].bytes {
            return true;
        }
        if !self.attentive {
            return false;
        }
        let is_due = sees != self.seen[end as usize] || now >= self.next_instant();
        if !is_due {
            self.attentive = self.opens_or_closes();
        }
        is_due
    }

    /// The applications at connected ends do what is next.
    pub(crate) fn attend(&mut self, now: Time) {
        self.needs_service = [true; 2];
        for end in [End::To, End::From] {
            let host = leg_at(&mut self.first, &mut self.further, end).host_mut(end);
            if let Some(host) = host.filter(|host| host.is_established()) {
                self.waits[end as usize] = act(now, end, host, &mut self.script);
            }
        }
        self.seen = [End::From, End::To].map(|end| self.host(end).map_or(Seen::default(), Seen::of));
        self.attentive = self.opens_or_closes();
    }

    /// An end has closed its half or reset the connection, as a packet tells.
    pub(crate) fn begin_closing(&mut self) {
        self.is_closing = true;
        self.attentive = true;
    }

    /// Whether the connection opens or closes, as far as its applications have seen.
    fn opens_or_closes(&self) -> bool {
        self.is_closing || self.seen.iter().any(|seen| !seen.is_established())
    }

    /// Whether an end may have something to send, or another deadline, since [`Session::note_served`].
    #[inline]
    pub(crate) fn needs_service(&self, end: End) -> bool {
        self.needs_service[end as usize]
    }

    /// All is sent, and the events of all deadlines are set. Returns whether applications have acted, and may wait for another instant.
    #[inline]
    pub(crate) fn note_served(&mut self) -> bool {
        std::mem::take(&mut self.needs_service) == [true; 2]
    }

    /// How the connection has ended, if it is gone.
    #[inline]
    pub(crate) fn ending(&mut self) -> Option<Ending> {
        for end in [End::From, End::To] {
            if self.needs_service(end) {
                self.is_closed[end as usize] = self.host(end).is_none_or(Stream::is_closed);
            }
        }
        if self.is_closed == [false; 2] {
            return None;
        }
        let ends = [End::From, End::To].map(|end| self.host(end));
        if ends.into_iter().flatten().any(|end| end.failure().is_some()) {
            return Some(Ending::Failed);
        }
        (self.is_closed == [true; 2]).then_some(Ending::Closed)
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
        self.needs_service[at.end as usize] = true;
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
        let Some(further) = self.further.as_deref_mut() else { return false };
        let Some(number) = further.proxy_at(at) else {
            let opener = further.opener;
            let is_there = take_of_leg(now, at, further.leg(&mut self.first, at.leg), opener, packet, meter);
            self.needs_service[at.end as usize] |= is_there;
            return is_there;
        };
        // Compiled for each end.
        let (from, to) = (LegEnd { end: End::From, ..at }, LegEnd { end: End::To, ..at });
        match at.end {
            End::From => further.on_packet(&mut self.first, now, (number, from), packet, meter, world),
            End::To => further.on_packet(&mut self.first, now, (number, to), packet, meter, world),
        }
        false
    }

    /// Runs the timer of an end of a leg, which may be early. Returns true if the end is one of the session's
    /// and something was due, in which case the caller must serve it.
    pub(crate) fn on_timer(&mut self, now: Time, at: LegEnd, meter: &mut impl LegMeter, world: &mut World) -> bool {
        if !self.is_split() {
            let was_due = self.first.on_timer(now, at.end, world);
            self.needs_service[at.end as usize] |= was_due;
            return was_due;
        }
        let Some(further) = self.further.as_deref_mut() else { return false };
        let (connection, delivered) = further.leg(&mut self.first, at.leg);
        if !connection.on_timer(now, at.end, world) {
            return false;
        }
        if at.end == End::To {
            meter.took(now, at.leg as usize, delivered, connection);
        }
        let Some(number) = further.proxy_at(at) else {
            self.needs_service[at.end as usize] = true;
            return true;
        };
        further.serve(&mut self.first, now, (number, Some(at.end)), meter, world);
        false
    }

    /// Proxies may have memory again.
    pub(crate) fn on_memory(&mut self, now: Time, meter: &mut impl LegMeter, world: &mut World) {
        let Some(further) = self.further.as_deref_mut() else { return };
        for number in 0..further.relays.len() {
            further.serve(&mut self.first, now, (number, None), meter, world);
        }
    }

    /// Adds the connections and unread bytes to the proxies' states.
    pub(crate) fn add_to(&self, proxies: &mut [ProxyState]) {
        let Some(further) = &self.further else { return };
        for (relay, (up, down)) in further.relays.iter().zip(self.legs().zip(&further.legs)) {
            let ends = || [up.host(End::To), down.host(End::From)].into_iter().flatten();
            let state = &mut proxies[relay.proxy as usize];
            state.connections += u32::from(ends().any(|host| host.was_established() && !host.is_closed()));
            state.unread_bytes += ends().map(Stream::unread).sum::<u64>();
        }
    }

    /// Visits the ends at proxies.
    pub(crate) fn each_proxy_end(&mut self, visit: &mut impl FnMut(&mut ProxyEnd<'_>)) {
        let Some(further) = self.further.as_deref_mut() else { return };
        for number in 0..further.relays.len() {
            let mut junction = junction(&mut self.first, &mut further.legs, &mut further.relays, number);
            junction.ends().into_iter().flatten().for_each(|mut end| visit(&mut end));
        }
    }

    /// The session is over: releases what its proxies hold of it.
    pub(crate) fn abandon(&mut self, now: Time, world: &mut World) {
        let Some(further) = &mut self.further else { return };
        further.relays.iter_mut().for_each(|relay| relay.abandon(now, world));
    }
}

impl FurtherLegs {
    /// The proxy at an end of a leg; `None` if the end is one of the session's. Proxy 0 is between legs 0 and 1.
    #[inline(always)]
    fn proxy_at(&self, at: LegEnd) -> Option<usize> {
        let number = (at.leg as usize).wrapping_sub(usize::from(at.end == End::From));
        (number < self.relays.len()).then_some(number)
    }

    /// A leg, and what its receiver had accepted.
    #[inline(always)]
    fn leg<'a>(&'a mut self, first: &'a mut Connection, leg: u32) -> (&'a mut Connection, &'a mut Delivered) {
        let leg = leg as usize;
        let connection = if leg == 0 { first } else { &mut self.legs[leg - 1] };
        (connection, &mut self.delivered[leg])
    }

    /// Processes a packet at an end of a leg at a proxy, and serves the proxy.
    #[inline(always)]
    fn on_packet(
        &mut self,
        first: &mut Connection,
        now: Time,
        (number, at): (usize, LegEnd),
        packet: &NetPacket,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) {
        if packet.stored.header.flags.has(Flags::SYN) && self.keeps_request(number, at, packet, world) {
            return self.serve(first, now, (number, None), meter, world);
        }
        let mut junction = junction(first, &mut self.legs, &mut self.relays, number);
        let leg = (junction.leg(at.end), &mut self.delivered[at.leg as usize]);
        if take_of_leg(now, at, leg, self.opener, packet, meter) && junction.serve(now, Some(at.end), world) {
            self.opened(now, number, meter);
        }
    }

    /// A proxy relays between its legs. `active` is the end at the proxy that something has happened to.
    fn serve(
        &mut self,
        first: &mut Connection,
        now: Time,
        (number, active): (usize, Option<End>),
        meter: &mut impl LegMeter,
        world: &mut World,
    ) {
        if junction(first, &mut self.legs, &mut self.relays, number).serve(now, active, world) {
            self.opened(now, number, meter);
        }
    }

    /// A proxy has opened the next leg.
    #[cold]
    fn opened(&self, now: Time, number: usize, meter: &mut impl LegMeter) {
        meter.opened(now, if self.opener == End::To { number } else { number + 1 });
    }

    /// Whether a packet is a SYN that waits at a proxy until the next leg is established, and keeps it there if so.
    #[cold]
    fn keeps_request(&mut self, number: usize, at: LegEnd, packet: &NetPacket, world: &World) -> bool {
        let relay = &mut self.relays[number];
        let connects_first = world.proxies[relay.proxy as usize].handshake() == Handshake::Connect;
        let is_request = at.end != self.opener && !packet.stored.header.flags.has(Flags::ACK);
        is_request && connects_first && relay.keeps_request(packet.segment())
    }
}

/// A proxy with the legs on both sides of it.
#[inline(always)]
fn junction<'a>(
    first: &'a mut Connection,
    further: &'a mut [Connection],
    relays: &'a mut [Relay],
    number: usize,
) -> Junction<'a> {
    let relay = &mut relays[number];
    if number == 0 {
        return Junction { relay, up: first, down: &mut further[0] };
    }
    let (before, after) = further.split_at_mut(number);
    Junction { relay, up: &mut before[number - 1], down: &mut after[0] }
}

/// The leg at an end of a session.
#[inline]
fn leg_at<'a>(first: &'a mut Connection, further: &'a mut Option<Box<FurtherLegs>>, end: End) -> &'a mut Connection {
    match (further, end) {
        (Some(further), End::To) => further.legs.last_mut().unwrap_or(first),
        _ => first,
    }
}

/// Processes and measures a packet at an end of a leg, which is its connection and what its receiver had accepted. Returns whether the end
/// is there.
#[inline(always)]
fn take_of_leg(
    now: Time,
    at: LegEnd,
    (connection, delivered): (&mut Connection, &mut Delivered),
    opener: End,
    packet: &NetPacket,
    meter: &mut impl LegMeter,
) -> bool {
    let (header, leg) = (&packet.stored.header, at.leg as usize);
    let Some(host) = connection.ends[at.end as usize].as_deref_mut() else { return false };
    take(host, now, packet);
    // An end that opens its leg is established with the answer to its SYN.
    if header.flags.has(Flags::SYN) && opener == at.end {
        meter.opener_acted(now, leg, host);
    }
    if at.end == End::To {
        meter.took(now, leg, delivered, connection);
    } else {
        measure(now, at, header, connection, meter);
    }
    true
}

/// Processes a packet of the session, which is a segment.
#[inline]
fn take(host: &mut Endpoint, now: Time, packet: &NetPacket) {
    match packet.header() {
        Some(header) => host.on_plain_segment(now, header),
        None => process_any(host, now, packet),
    }
}

/// Processes a packet with rare options or a congestion mark.
#[inline(never)]
pub(crate) fn process_any(host: &mut Endpoint, now: Time, packet: &NetPacket) {
    if let Some(segment) = packet.segment() {
        host.on_segment(now, &segment, packet.stored.ecn == Ecn::Marked);
    }
}

/// Reports what a leg's sender measured with a segment.
#[inline(always)]
fn measure(now: Time, at: LegEnd, header: &Header, connection: &mut Connection, meter: &mut impl LegMeter) {
    if at.end == End::To {
        return;
    }
    let rtt = connection.host_mut(End::From).and_then(Stream::take_rtt);
    if let Some(rtt) = rtt {
        meter.round_trip(at.leg as usize, rtt);
    }
    connection.log_acknowledged(now, header, rtt);
}
