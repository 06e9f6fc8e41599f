//! A flow's connection in legs: at each proxy on its path, one connection ends and the next begins.
//!
//! A proxy reads from its receive buffer as much as it may hold for the next leg: up to its `buffer` per connection and direction, and up
//! to its `memory` in total. Unread data close the window of the previous leg. A proxy passes on the end of a stream after its last byte,
//! and a failed leg as a reset of the other.

use perigee_results::{Amount, EventRow, FlowId, Measure, Meter, Outcome, SeriesRow, Tables};
use perigee_study::{FlowSpec, Handshake, Leg, Run};
use perigee_tcp::{Endpoint, Failure, Flags, Header, Segment};
use perigee_traffic::End;
use perigee_units::Time;

use crate::connection::{sent, state, Account, Connection};
use crate::proxy::Pipe;
use crate::world::World;

/// The further legs of a flow, and the proxies between them.
pub(crate) struct Split {
    rest: Vec<Connection>,
    /// Measurements of each leg, including the first.
    records: Vec<LegRecord>,
    /// The proxy between each leg and the next.
    relays: Vec<Relay>,
    /// The end that opens each leg.
    opener: End,
    /// Event source of the flow's instants.
    instant: u32,
    amount: Amount,
    measure: Measure,
    /// The flow has ended.
    is_over: bool,
}

/// Measurements of a leg.
#[derive(Default)]
struct LegRecord {
    /// Starts when the leg is opened.
    meter: Option<Box<Meter>>,
    established: Option<Time>,
    outcome: Option<Outcome>,
    /// State of the leg when it ended.
    ended: Option<Account>,
}

/// A proxy between two legs of a flow.
struct Relay {
    /// Number of the proxy.
    proxy: u32,
    /// Whether the next leg has been opened.
    is_open: bool,
    /// With `connect-first`: the SYN that waits for the next leg.
    request: Option<Segment>,
    /// A leg failed, and the other one was informed.
    has_failed: bool,
    /// The data, and the reverse direction.
    pipes: [Pipe; 2],
}

impl Split {
    /// The legs `rest` after the first.
    pub(crate) fn new(
        rest: Vec<Connection>,
        legs: &[Leg],
        opener: End,
        instant: u32,
        (amount, measure): (Amount, &Measure),
    ) -> Self {
        let relay = |proxy| Relay {
            proxy,
            is_open: false,
            request: None,
            has_failed: false,
            pipes: [Pipe::default(), Pipe::default()],
        };
        let relays = legs.iter().filter_map(|leg| leg.proxy).map(relay).collect();
        let records = legs.iter().map(|_| LegRecord::default()).collect();
        Self { rest, records, relays, opener, instant, amount, measure: measure.clone(), is_over: false }
    }

    /// Opens the leg of the flow's opener.
    pub(crate) fn begin(&mut self, now: Time, first: &mut Connection) {
        let last = self.relays.len();
        for leg in 0..=last {
            let connection = leg_mut(first, &mut self.rest, leg);
            for (end, is_proxy) in connection.ends.iter_mut().zip([leg > 0, leg < last]) {
                if let Some(host) = end.as_deref_mut().filter(|_| is_proxy) {
                    host.read_on_demand();
                }
            }
        }
        let leg = if self.opener == End::To { last } else { 0 };
        self.begin_leg(now, leg);
    }

    fn begin_leg(&mut self, now: Time, leg: usize) {
        if self.is_over {
            return;
        }
        self.records[leg].meter = Some(Box::new(Meter::new(now, &self.measure, Some(self.amount))));
    }

    /// The legs after the first.
    pub(crate) fn rest(&self) -> &[Connection] {
        &self.rest
    }

    pub(crate) fn last(&self) -> &Connection {
        &self.rest[self.rest.len() - 1]
    }

    pub(crate) fn last_mut(&mut self) -> &mut Connection {
        let last = self.rest.len() - 1;
        &mut self.rest[last]
    }

    /// The proxy at an end of a leg; `None` if the end is one of the flow's.
    fn relay_at(&self, leg: usize, end: End) -> Option<usize> {
        match end {
            End::From => leg.checked_sub(1),
            End::To => (leg < self.relays.len()).then_some(leg),
        }
    }

    /// Processes a segment at an end of a leg. Returns true if the end is one of the flow's, whose application may act.
    pub(crate) fn on_segment(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        segment: &Segment,
        marked: bool,
        first: &mut Connection,
        world: &mut World,
    ) -> bool {
        let leg = leg as usize;
        let relay = self.relay_at(leg, end);
        if let Some(relay) = relay.filter(|relay| self.waits(*relay, end, segment, world)) {
            self.relays[relay].request = Some(*segment);
            self.relay(now, relay, first, world);
            return false;
        }
        let (opens, record) = (end == self.opener, &mut self.records[leg]);
        let connection = leg_mut(first, &mut self.rest, leg);
        let Some(host) = connection.ends[end as usize].as_deref_mut() else { return false };
        host.on_segment(now, segment, marked);
        if opens && record.established.is_none() && record.ended.is_none() && host.is_established() {
            record.established = Some(now);
        }
        self.after_segment(now, (leg, end), segment, first, world)
    }

    /// Fast path of [`Split::on_segment`] for a header without rare options and congestion mark. Returns `None`, with no effect, if the end
    /// does not expect it.
    #[inline]
    pub(crate) fn on_header(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        header: &Header,
        first: &mut Connection,
        world: &mut World,
    ) -> Option<bool> {
        let leg = leg as usize;
        let host = leg_mut(first, &mut self.rest, leg).ends[end as usize].as_deref_mut()?;
        host.on_expected(now, header).then(|| self.after_segment(now, (leg, end), header, first, world))
    }

    /// After a segment: measures, sends, and relays. Returns true if the end is one of the flow's.
    fn after_segment(
        &mut self,
        now: Time,
        (leg, end): (usize, End),
        header: &Header,
        first: &mut Connection,
        world: &mut World,
    ) -> bool {
        let (record, connection) = (&mut self.records[leg], leg_mut(first, &mut self.rest, leg));
        let Some(host) = connection.ends[end as usize].as_deref_mut() else { return false };
        if end == End::From {
            let rtt = host.take_rtt();
            if let Some((rtt, meter)) = rtt.zip(record.meter.as_mut()) {
                meter.round_trip(rtt);
            }
            connection.log_acknowledged(now, header, rtt);
        } else {
            record.took(now, self.opener, connection);
        }
        connection.transmit(now, end, world);
        let Some(relay) = self.relay_at(leg, end) else { return true };
        if !self.relay(now, relay, first, world) {
            leg_mut(first, &mut self.rest, leg).schedule(end, world);
        }
        false
    }

    /// Runs the timer of an end of a leg, which may be early. Returns true if the end is one of the flow's and something was due.
    pub(crate) fn on_timer(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        first: &mut Connection,
        world: &mut World,
    ) -> bool {
        let leg = leg as usize;
        let connection = leg_mut(first, &mut self.rest, leg);
        connection.unschedule(end, world);
        if !connection.on_timer(now, end) {
            connection.schedule(end, world);
            return false;
        }
        if end == End::To {
            self.records[leg].took(now, self.opener, connection);
        }
        let Some(relay) = self.relay_at(leg, end) else { return true };
        let connection = leg_mut(first, &mut self.rest, leg);
        connection.transmit(now, end, world);
        if !self.relay(now, relay, first, world) {
            leg_mut(first, &mut self.rest, leg).schedule(end, world);
        }
        false
    }

    /// An instant that a leg's meter waits for has come, or a proxy has memory again.
    pub(crate) fn on_instant(&mut self, now: Time, first: &mut Connection, world: &mut World) {
        for (leg, record) in self.records.iter_mut().enumerate() {
            if let Some(meter) = record.meter.as_mut().filter(|meter| meter.next_instant() <= now) {
                meter.record_progress(now, sent(leg_mut(first, &mut self.rest, leg).sender_info().as_ref()));
            }
        }
        for relay in 0..self.relays.len() {
            self.relay(now, relay, first, world);
        }
    }

    /// The next instant that a leg's meter waits for.
    pub(crate) fn next_instant(&self) -> Time {
        let meters = self.records.iter().filter_map(|record| record.meter.as_ref());
        meters.map(|meter| meter.next_instant()).min().unwrap_or(Time::MAX)
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
    fn relay(&mut self, now: Time, number: usize, first: &mut Connection, world: &mut World) -> bool {
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
            let proxy = &mut world.proxies[relay.proxy as usize];
            has_acted |= relay.pipes[0].pump(now, receiving, sending, proxy, self.instant);
            has_acted |= relay.pipes[1].pump(now, sending, receiving, proxy, self.instant);
            if proxy.has_room_again() {
                proxy.take_waiting().for_each(|source| world.queue.set(source, now));
            }
        } else if relay.has_failed {
            relay.pipes.iter_mut().for_each(|pipe| pipe.drop_held(&mut world.proxies[relay.proxy as usize]));
        }
        if !has_acted {
            return false;
        }
        for (connection, end) in [(up, End::To), (down, End::From)] {
            connection.transmit(now, end, world);
            connection.schedule(end, world);
        }
        if opens {
            self.begin_leg(now, if self.opener == End::To { number } else { number + 1 });
        }
        true
    }

    /// The series rows of the legs for the interval that ends at `now`.
    pub(crate) fn write_series(
        &mut self,
        now: Time,
        id: FlowId<'_>,
        first: &Connection,
        rows: &mut impl FnMut(SeriesRow),
    ) {
        let connections = std::iter::once(first).chain(&self.rest);
        for ((number, record), connection) in (1..).zip(&mut self.records).zip(connections) {
            let info = record.ended.as_ref().map_or_else(|| connection.sender_info(), |ended| ended.sender.clone());
            let (counts, state) = (sent(info.as_ref()), info.as_ref().map(state).unwrap_or_default());
            if let Some(meter) = &mut record.meter {
                let id = FlowId { leg: Some(number), ..id };
                meter.series_row(now, id, counts, state).map(&mut *rows);
            }
        }
    }

    /// Adds the flow's connections and unread bytes to the proxies' states.
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

    /// The flow ended: measurements of its legs stop.
    pub(crate) fn finish(&mut self, now: Time, first: &Connection) {
        self.is_over = true;
        for (record, connection) in self.records.iter_mut().zip(std::iter::once(first).chain(&self.rest)) {
            record.end(now, None, self.opener, connection);
        }
    }

    /// Adds the legs to the tables. A leg without an outcome of its own has that of the flow, `outcome`.
    pub(crate) fn write(&mut self, run: &Run, spec: &FlowSpec, outcome: Outcome, stop: Time, tables: &mut Tables) {
        let legs = spec.traffic.tcp().map_or(&[][..], |tcp| &tcp.legs);
        for (number, (leg, record)) in legs.iter().zip(&mut self.records).enumerate() {
            let mut row = run.leg_row("sim", spec, number as u32, leg);
            row.set_outcome(record.outcome.unwrap_or(outcome));
            row.rto_count = Some(record.ended.as_ref().map_or(0, |ended| ended.timeouts as u32));
            let Some(meter) = record.meter.take() else {
                tables.flows.push(row);
                continue;
            };
            meter.fill(&mut row, stop, sent(record.ended.as_ref().and_then(|ended| ended.sender.as_ref())));
            row.handshake_ms = record.established.map(|at| (at - meter.start()).as_millis_f64());
            meter.write_flow(row, tables);
        }
        for (number, connection) in (2..).zip(&mut self.rest) {
            for event in connection.log.take().map_or_else(Vec::new, |log| log.into_rows()) {
                let (run, flow) = (run.index, spec.name.clone());
                tables.events.push(EventRow { run, flow, leg: Some(number), ..event });
            }
        }
    }
}

impl LegRecord {
    /// The end of the leg that receives the data may have accepted payload.
    fn took(&mut self, now: Time, opener: End, connection: &Connection) {
        let Some(host) = connection.ends[End::To as usize].as_deref() else { return };
        let (received, arrived, is_whole) = (host.received(), host.arrived(), host.peer_closed());
        if let Some(meter) = self.meter.as_mut() {
            if meter.deliver(now, received, arrived) {
                meter.record_progress(now, sent(connection.sender_info().as_ref()));
            }
        }
        if is_whole {
            self.end(now, Some(Outcome::Completed), opener, connection);
        }
    }

    /// The leg ended, or the flow did.
    fn end(&mut self, now: Time, outcome: Option<Outcome>, opener: End, connection: &Connection) {
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.end().is_none()) else { return };
        meter.finish(now);
        self.outcome = outcome;
        self.ended = Some(connection.account(opener));
    }
}

impl Relay {
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
