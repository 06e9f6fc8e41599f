//! The legs of a connection behind proxies: at each proxy on its path, one connection ends and the next begins.
//!
//! A proxy reads from its receive buffer as much as it may hold for the next leg: up to its `buffer` per connection and direction, and up
//! to its `memory` in total. Unread data close the window of the previous leg. A proxy passes on the end of a stream after its last byte,
//! and a failed leg as a reset of the other.

use perigee_study::{Handshake, Leg};
use perigee_tcp::{Endpoint, Failure, Flags, Header, Segment};
use perigee_traffic::End;
use perigee_units::Time;

use crate::connection::Connection;
use crate::proxy::Pipe;
use crate::world::World;

/// The legs after the first, which the owner keeps, and the proxies between them.
pub(crate) struct Chain {
    rest: Vec<Connection>,
    /// The proxy between each leg and the next.
    relays: Vec<Relay>,
    /// The end that opens each leg.
    opener: End,
    /// Event source to wake when a proxy has memory again.
    instant: u32,
}

/// Measures the legs of a connection; a leg's number counts from 0.
pub(crate) trait LegMeter {
    /// A leg is opened.
    fn opened(&mut self, now: Time, leg: usize);
    /// The end that opens a leg has processed a segment.
    fn opener_acted(&mut self, now: Time, leg: usize, host: &Endpoint);
    /// The sender of a leg has measured a round trip.
    fn round_trip(&mut self, leg: usize, rtt: Time);
    /// The end of a leg that receives the data may have accepted payload.
    fn took(&mut self, now: Time, leg: usize, connection: &Connection);
}

/// A proxy between two legs.
struct Relay {
    proxy: u32,
    is_open: bool,
    /// With `connect-first`: the SYN that waits for the next leg.
    request: Option<Segment>,
    /// A leg failed, and the other one was informed.
    has_failed: bool,
    /// The data, and the reverse direction.
    pipes: [Pipe; 2],
}

impl Chain {
    /// The legs `rest` after the first; `instant` is the event source to wake when a proxy has memory again.
    pub(crate) fn new(rest: Vec<Connection>, legs: &[Leg], opener: End, instant: u32) -> Self {
        let relay = |proxy| Relay {
            proxy,
            is_open: false,
            request: None,
            has_failed: false,
            pipes: [Pipe::default(), Pipe::default()],
        };
        let relays = legs.iter().filter_map(|leg| leg.proxy).map(relay).collect();
        Self { rest, relays, opener, instant }
    }

    /// Opens the leg of the connection's opener, whose endpoint the owner opens.
    pub(crate) fn begin(&mut self, now: Time, first: &mut Connection, meter: &mut impl LegMeter) {
        let last = self.relays.len();
        for leg in 0..=last {
            let connection = leg_mut(first, &mut self.rest, leg);
            for (end, is_proxy) in connection.ends.iter_mut().zip([leg > 0, leg < last]) {
                if let Some(host) = end.as_deref_mut().filter(|_| is_proxy) {
                    host.read_on_demand();
                }
            }
        }
        meter.opened(now, if self.opener == End::To { last } else { 0 });
    }

    /// The connections of all legs.
    pub(crate) fn legs<'a>(&'a self, first: &'a Connection) -> impl Iterator<Item = &'a Connection> {
        std::iter::once(first).chain(&self.rest)
    }

    pub(crate) fn rest(&self) -> &[Connection] {
        &self.rest
    }

    pub(crate) fn rest_mut(&mut self) -> &mut [Connection] {
        &mut self.rest
    }

    pub(crate) fn last(&self) -> &Connection {
        &self.rest[self.rest.len() - 1]
    }

    pub(crate) fn last_mut(&mut self) -> &mut Connection {
        let last = self.rest.len() - 1;
        &mut self.rest[last]
    }

    /// The proxy at an end of a leg; `None` if the end is one of the owner's.
    fn relay_at(&self, leg: usize, end: End) -> Option<usize> {
        match end {
            End::From => leg.checked_sub(1),
            End::To => (leg < self.relays.len()).then_some(leg),
        }
    }

    /// Processes a segment at an end of a leg. Returns true if the end is one of the owner's, which then sends.
    pub(crate) fn on_segment(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        (segment, marked): (&Segment, bool),
        first: &mut Connection,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) -> bool {
        let leg = leg as usize;
        let relay = self.relay_at(leg, end);
        if let Some(relay) = relay.filter(|relay| self.waits(*relay, end, segment, world)) {
            self.relays[relay].request = Some(*segment);
            self.relay(now, relay, first, meter, world);
            return false;
        }
        let connection = leg_mut(first, &mut self.rest, leg);
        let Some(host) = connection.ends[end as usize].as_deref_mut() else { return false };
        host.on_segment(now, segment, marked);
        if end == self.opener {
            meter.opener_acted(now, leg, host);
        }
        self.after_segment(now, (leg, end), segment, first, meter, world)
    }

    /// Fast path of [`Chain::on_segment`] for a header without rare options and congestion mark. Returns `None`, with no effect, if the end
    /// does not expect it.
    #[inline]
    pub(crate) fn on_header(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        header: &Header,
        first: &mut Connection,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) -> Option<bool> {
        let leg = leg as usize;
        let Some(number) = self.relay_at(leg, end) else {
            let connection = leg_mut(first, &mut self.rest, leg);
            let is_expected = connection.ends[end as usize].as_deref_mut()?.on_expected(now, header);
            return is_expected.then(|| {
                measure(now, (leg, end), header, connection, meter);
                true
            });
        };
        let (up, down) = pair(first, &mut self.rest, number);
        let connection = if end == End::To { &mut *up } else { &mut *down };
        if !connection.ends[end as usize].as_deref_mut()?.on_expected(now, header) {
            return None;
        }
        measure(now, (leg, end), header, connection, meter);
        connection.transmit(now, end, world);
        let relay = &mut self.relays[number];
        if !relay.is_plain(up, down) {
            self.act(now, (leg, end), number, first, meter, world);
        } else if relay.pump(now, up, down, self.instant, world) {
            send_both(now, up, down, world);
        } else {
            let connection = if end == End::To { up } else { down };
            connection.schedule(end, world);
        }
        Some(false)
    }

    /// After a segment: measures, and relays. Returns true if the end is one of the owner's.
    fn after_segment(
        &mut self,
        now: Time,
        (leg, end): (usize, End),
        header: &Header,
        first: &mut Connection,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) -> bool {
        measure(now, (leg, end), header, leg_mut(first, &mut self.rest, leg), meter);
        let Some(relay) = self.relay_at(leg, end) else { return true };
        self.act(now, (leg, end), relay, first, meter, world);
        false
    }

    /// A proxy's end of a leg sends, and the proxy relays.
    fn act(
        &mut self,
        now: Time,
        (leg, end): (usize, End),
        relay: usize,
        first: &mut Connection,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) {
        leg_mut(first, &mut self.rest, leg).transmit(now, end, world);
        if !self.relay(now, relay, first, meter, world) {
            leg_mut(first, &mut self.rest, leg).schedule(end, world);
        }
    }

    /// Runs the timer of an end of a leg, which may be early. Returns true if the end is one of the owner's and something was due.
    pub(crate) fn on_timer(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        first: &mut Connection,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) -> bool {
        let leg = leg as usize;
        let connection = leg_mut(first, &mut self.rest, leg);
        if !connection.on_timer(now, end, world) {
            connection.schedule(end, world);
            return false;
        }
        if end == End::To {
            meter.took(now, leg, connection);
        }
        let Some(relay) = self.relay_at(leg, end) else { return true };
        self.act(now, (leg, end), relay, first, meter, world);
        false
    }

    /// A proxy may have memory again.
    pub(crate) fn on_instant(
        &mut self,
        now: Time,
        first: &mut Connection,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) {
        for relay in 0..self.relays.len() {
            self.relay(now, relay, first, meter, world);
        }
    }

    /// Whether a SYN waits at a proxy until the next leg is established.
    fn waits(&self, relay: usize, end: End, segment: &Segment, world: &World) -> bool {
        let is_request = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if !is_request || end == self.opener {
            return false;
        }
        let Relay { proxy, is_open, ref request, .. } = self.relays[relay];
        let connects_first = world.proxies[proxy as usize].handshake() == Handshake::Connect;
        connects_first && (!is_open || request.is_some())
    }

    /// Relays between two legs, whose ends have processed everything else. Returns whether there was anything to do; if so, also schedules
    /// the timers of the two ends.
    fn relay(
        &mut self,
        now: Time,
        number: usize,
        first: &mut Connection,
        meter: &mut impl LegMeter,
        world: &mut World,
    ) -> bool {
        let relay = &mut self.relays[number];
        let (up, down) = pair(first, &mut self.rest, number);
        let (Some(receiving), Some(sending)) =
            (up.ends[End::To as usize].as_deref_mut(), down.ends[End::From as usize].as_deref_mut())
        else {
            return false;
        };
        let are_established = receiving.is_established() && sending.is_established();
        let (mut opens, mut has_acted) = (false, false);
        if !are_established || relay.request.is_some() {
            let (accepting, connecting) = if self.opener == End::To {
                (&mut *sending, &mut *receiving)
            } else {
                (&mut *receiving, &mut *sending)
            };
            opens = !relay.is_open && !relay.has_failed && (accepting.is_established() || relay.request.is_some());
            if opens {
                relay.is_open = true;
                connecting.open(now);
            }
            has_acted = opens | relay.answer(now, accepting, connecting);
        }
        if receiving.is_established() && sending.is_established() {
            has_acted |= relay.pump(now, up, down, self.instant, world);
        } else if relay.has_failed {
            relay.pipes.iter_mut().for_each(|pipe| pipe.drop_held(&mut world.proxies[relay.proxy as usize]));
        }
        if !has_acted {
            return false;
        }
        send_both(now, up, down, world);
        if opens {
            meter.opened(now, if self.opener == End::To { number } else { number + 1 });
        }
        true
    }

    /// Adds the connections and unread bytes to the proxies' states.
    pub(crate) fn add_to(&self, first: &Connection, proxies: &mut [(u32, u64)]) {
        let connection = |leg: usize| if leg == 0 { first } else { &self.rest[leg - 1] };
        for (number, relay) in self.relays.iter().enumerate() {
            let ends = [
                connection(number).ends[End::To as usize].as_deref(),
                connection(number + 1).ends[End::From as usize].as_deref(),
            ];
            let (connections, unread) = &mut proxies[relay.proxy as usize];
            let open = ends.iter().flatten().any(|host| host.was_established() && !host.is_closed());
            *connections += u32::from(open);
            *unread += ends.iter().flatten().map(|host| host.unread()).sum::<u64>();
        }
    }

    /// The connection is gone: releases what its proxies hold of it.
    pub(crate) fn abandon(&mut self, now: Time, world: &mut World) {
        for relay in &mut self.relays {
            let proxy = &mut world.proxies[relay.proxy as usize];
            relay.pipes.iter_mut().for_each(|pipe| pipe.drop_held(proxy));
            if proxy.has_room_again() {
                proxy.take_waiting().for_each(|source| world.network.queue.set(source, now));
            }
        }
    }
}

impl Relay {
    /// Whether both legs are established and no SYN waits: the proxy only passes on data.
    #[inline]
    fn is_plain(&self, up: &Connection, down: &Connection) -> bool {
        let ends = [up.ends[End::To as usize].as_deref(), down.ends[End::From as usize].as_deref()];
        self.request.is_none() && ends.into_iter().all(|host| host.is_some_and(Endpoint::is_established))
    }

    /// Passes on data in both directions between two established legs; returns whether there were any.
    #[inline]
    fn pump(&mut self, now: Time, up: &mut Connection, down: &mut Connection, instant: u32, world: &mut World) -> bool {
        let (Some(receiving), Some(sending)) =
            (up.ends[End::To as usize].as_deref_mut(), down.ends[End::From as usize].as_deref_mut())
        else {
            return false;
        };
        let (proxy, [data, back]) = (&mut world.proxies[self.proxy as usize], &mut self.pipes);
        let has_passed = data.pump(now, receiving, sending, proxy, instant);
        let has_passed = back.pump(now, sending, receiving, proxy, instant) | has_passed;
        if proxy.has_room_again() {
            proxy.take_waiting().for_each(|source| world.network.queue.set(source, now));
        }
        has_passed
    }

    /// Completes the handshake of the accepting end if it waited for the next leg, and passes on a failure. Returns whether it did either.
    fn answer(&mut self, now: Time, accepting: &mut Endpoint, connecting: &mut Endpoint) -> bool {
        let mut has_answered = false;
        if connecting.is_established() {
            if let Some(request) = self.request.take() {
                accepting.on_segment(now, &request, false);
                has_answered = true;
            }
        }
        if self.has_failed {
            return has_answered;
        }
        match (accepting.failure(), connecting.failure()) {
            (_, Some(failure)) => {
                self.has_failed = true;
                match self.request.take() {
                    Some(request) if failure == Failure::Refused => accepting.refuse_request(&request),
                    // An end that does not answer gets no answer on its behalf.
                    Some(_) => {}
                    None => accepting.abort(),
                }
            }
            (Some(_), None) => {
                self.has_failed = true;
                connecting.abort();
            }
            (None, None) => return has_answered,
        }
        true
    }
}

/// What an end of a leg has measured with a segment.
#[inline]
fn measure(
    now: Time,
    (leg, end): (usize, End),
    header: &Header,
    connection: &mut Connection,
    meter: &mut impl LegMeter,
) {
    if end == End::To {
        return meter.took(now, leg, connection);
    }
    let rtt = connection.ends[end as usize].as_deref_mut().and_then(Endpoint::take_rtt);
    if let Some(rtt) = rtt {
        meter.round_trip(leg, rtt);
    }
    connection.log_acknowledged(now, header, rtt);
}

/// Both ends at a proxy send.
#[inline]
fn send_both(now: Time, up: &mut Connection, down: &mut Connection, world: &mut World) {
    for (connection, end) in [(up, End::To), (down, End::From)] {
        connection.transmit(now, end, world);
        connection.schedule(end, world);
    }
}

fn leg_mut<'a>(first: &'a mut Connection, rest: &'a mut [Connection], leg: usize) -> &'a mut Connection {
    match leg {
        0 => first,
        _ => &mut rest[leg - 1],
    }
}

/// The legs on both sides of a proxy.
fn pair<'a>(
    first: &'a mut Connection,
    rest: &'a mut [Connection],
    relay: usize,
) -> (&'a mut Connection, &'a mut Connection) {
    if relay == 0 {
        return (first, &mut rest[0]);
    }
    let (before, after) = rest.split_at_mut(relay);
    (&mut before[relay - 1], &mut after[0])
}
