//! A flow over QUIC in virtual time: its datagrams share the links with all other packets, and the network keeps their bytes.

use perigee_link as link;
use perigee_quic::Ecn;
use perigee_results::{FlowId, FlowRow, Meter, Outcome, SeriesRow, Tables};
use perigee_study::{FlowSpec, Run};
use perigee_units::Time;

use super::carrier::{Carrier, Place, QuicFlow, Wake};
use super::start::{logs, start};
use crate::connection::Sources;
use crate::flow::OverQuic;
use crate::network::Fate;
use crate::packet::{Datagram, NetPacket, Stored, UDP_HEADER};
use crate::queue::EventQueue;
use crate::result::Logged;
use crate::world::{FlowStart, LegEnd, PopulationEvent, World, WAIT};

pub(crate) struct InWorld<'a> {
    flow: Box<dyn QuicFlow + 'a>,
    room: Room<'a>,
}

/// The ways and event sources of a flow's connections.
struct Room<'a> {
    number: u32,
    spec: &'a FlowSpec,
    own: Vec<u32>,
    /// Event source of [`Wake::Instant`].
    instants: u32,
    /// The ones that every flow has, for a flow of one connection.
    first: Sources,
    added: Vec<Sources>,
}

impl<'a> InWorld<'a> {
    /// The flow of a run that starts, if it is over QUIC.
    pub(crate) fn start(starting: &FlowStart<'a>, run: &'a Run, world: &World) -> Option<Self> {
        let FlowStart { now, number, instants, timers, spec, .. } = *starting;
        let room = Room {
            number,
            spec,
            own: world.connections_of(number).collect(),
            instants,
            first: Sources { way: 2 * number, timers: timers + 2 * number },
            added: Vec::new(),
        };
        debug_assert_eq!(room.own.len(), 1, "no proxy splits it");
        Some(Self { flow: start(now, run, number, None)?, room })
    }
}

impl Room<'_> {
    fn of(&self, connection: u32) -> Sources {
        self.added.get(connection as usize).copied().unwrap_or(self.first)
    }

    fn timer(&self, place: Place) -> u32 {
        self.of(place.leg).timers + place.end as u32
    }

    fn source(&self, what: Wake) -> u32 {
        match what {
            Wake::Timer(place) => self.timer(place),
            Wake::Wait(connection) => self.of(connection).timers + WAIT,
            Wake::Instant => self.instants,
        }
    }
}

/// The network as the carrier of a flow.
struct Links<'w, 'a> {
    world: &'w mut World,
    room: &'w mut Room<'a>,
}

impl Carrier for Links<'_, '_> {
    fn add_connection(&mut self, number: u32) {
        let room = &mut *self.room;
        let way = self.world.add_connections(room.number, number, &room.own, room.spec);
        let timer = |end| PopulationEvent::Timer(LegEnd { leg: number, end });
        let timers = self.world.add_source(room.number, timer(perigee_traffic::End::From));
        self.world.add_source(room.number, timer(perigee_traffic::End::To));
        self.world.add_source(room.number, PopulationEvent::Wait(number));
        room.added.push(Sources { way, timers });
    }

    fn send(&mut self, now: Time, from: Place, datagram: &[u8], ecn: Ecn) -> bool {
        let network = &mut self.world.network;
        let headers = self.room.spec.ip.header_bytes() + UDP_HEADER;
        let number = network.payloads.put(datagram);
        let sent = Datagram::new(number, now, datagram.len() as u16 + headers, headers);
        let way = self.room.of(from.leg).way + from.end as u32;
        let is_dropped =
            matches!(network.send(now, &mut sent.packet(way, headers, in_ip(ecn), false)), Fate::Dropped(_));
        if is_dropped {
            network.payloads.remove(number);
        }
        !is_dropped
    }

    fn wake(&mut self, what: Wake, at: Time) {
        let source = self.room.source(what);
        if at == Time::MAX {
            self.world.network.queue.remove(source);
        } else {
            self.world.network.queue.set(source, at);
        }
    }

    fn flow_ended(&mut self, now: Time) {
        self.world.flow_ended(now);
    }
}

impl OverQuic for InWorld<'_> {
    fn on_packet(&mut self, now: Time, at: LegEnd, packet: &NetPacket, world: &mut World) {
        let Some(number) = packet.datagram().map(|datagram| datagram.number) else { return };
        self.flow.arrived(now, at, world.network.payloads.get(number), of_ip(packet.stored.ecn));
        world.network.payloads.remove(number);
        self.flow.turn(now, at, &mut Links { world, room: &mut self.room });
    }

    fn dropped(&mut self, now: Time, leg: u32, packet: &Stored, world: &mut World) {
        world.network.payloads.remove(packet.header.seq);
        self.flow.dropped(now, leg);
    }

    fn on_timer(&mut self, now: Time, at: LegEnd, world: &mut World) {
        world.network.queue.remove(self.room.timer(at));
        self.flow.on_timer(now, at, &mut Links { world, room: &mut self.room });
    }

    fn on_wait(&mut self, now: Time, leg: u32, world: &mut World) {
        self.flow.on_wait(now, leg, &mut Links { world, room: &mut self.room });
    }

    fn on_instant(&mut self, now: Time, world: &mut World) {
        self.flow.on_instant(now, &mut Links { world, room: &mut self.room });
    }

    fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        self.flow.series_row(now, id)
    }

    fn meter(&self) -> &Meter {
        self.flow.meter()
    }

    fn cut_off(&mut self, now: Time, outcome: Outcome) {
        self.flow.cut_off(now, outcome);
    }

    fn progress(&self, now: Time) -> f64 {
        self.flow.progress(now)
    }

    fn outstanding(&self) -> u64 {
        self.flow.outstanding()
    }

    fn missed_timer(&self, queue: &EventQueue) -> Option<String> {
        let at = self.flow.missed_timer(&|place| queue.due(self.room.timer(place)))?;
        Some(format!("waits: a timer at {} s has no event", at.as_secs_f64()))
    }

    fn logs(&mut self, run: &Run) -> Vec<Logged> {
        logs(&mut *self.flow, run, self.room.number)
    }

    fn write(&mut self, row: FlowRow, stop: Time, tables: &mut Tables) {
        self.flow.write(row, stop, tables);
    }
}

fn of_ip(field: link::Ecn) -> Ecn {
    match field {
        link::Ecn::NotCapable | link::Ecn::AsksFor => Ecn::NotEct,
        link::Ecn::Capable => Ecn::Ect0,
        link::Ecn::L4s => Ecn::Ect1,
        link::Ecn::Marked => Ecn::Ce,
    }
}

fn in_ip(ecn: Ecn) -> link::Ecn {
    match ecn {
        Ecn::NotEct => link::Ecn::NotCapable,
        Ecn::Ect0 => link::Ecn::Capable,
        Ecn::Ect1 => link::Ecn::L4s,
        Ecn::Ce => link::Ecn::Marked,
    }
}
