//! Access delays of a population's users, between their sockets and the links of their node.
//!
//! As in the simulator, a packet of a user enters its first link after this delay, and a packet to a user arrives after this
//! delay once it has left the last link.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::Arc;

use perigee_traffic::Access;
use perigee_units::Time;
use perigee_wire::{Packet, Ports, Tcp as Segment, Transport};

use crate::link::driver::{End, Wire};
use crate::run::population_report::{PopulationReport, UserSegment};

/// The level of the access delay of each of a population's connections, by its place.
pub(crate) struct AccessLevels {
    access: Access,
    levels: Vec<AtomicU32>,
}

impl AccessLevels {
    pub(crate) fn new(access: Access) -> Self {
        Self { access, levels: (0..Ports::DISTINCT).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Sets the level of a connection that is about to be opened.
    pub(crate) fn set(&self, place: u32, level: u32) {
        self.levels[place as usize].store(level, Ordering::Relaxed);
    }

    fn delay(&self, place: u32) -> Time {
        self.access.delay(self.levels[place as usize].load(Ordering::Relaxed))
    }
}

/// The users of a population with access delays.
pub(crate) struct UserAccess {
    /// The node of the users.
    pub(crate) node: u32,
    pub(crate) address: IpAddr,
    pub(crate) levels: Arc<AccessLevels>,
    /// Receives the packets at the users' side of the access.
    pub(crate) reports: Sender<PopulationReport>,
}

/// A wire with the access delays of populations.
pub(crate) struct AccessWire<W> {
    wire: W,
    /// The users of each flow; `None`: without access delays.
    users: Vec<Option<UserAccess>>,
    /// The node of each end.
    nodes: Vec<u32>,
    /// The packets of each end's users on their way to their first link, ordered by the instant at which they reach it.
    up: Vec<Line>,
    /// Packets on their way to users.
    down: Line,
    /// Number of packets so far, which keeps the order of packets of one instant.
    count: u64,
    has_users: bool,
}

type Line = BTreeMap<(Time, u64), Held>;

/// A delayed packet.
struct Held {
    end: End,
    flow: usize,
    place: u32,
    segment: Segment,
    bytes: Vec<u8>,
}

impl<W: Wire> AccessWire<W> {
    /// A wire whose ends are at these nodes; `users` are those of each flow.
    pub(crate) fn new(wire: W, users: Vec<Option<UserAccess>>, nodes: Vec<u32>) -> Self {
        let has_users = users.iter().any(Option::is_some);
        let up = nodes.iter().map(|_| Line::new()).collect();
        Self { wire, users, nodes, up, down: Line::new(), count: 0, has_users }
    }

    /// A packet that a user at this end sends or receives with an access delay, and the delay.
    fn held(&self, end: End, is_up: bool, bytes: &[u8]) -> Option<(Time, Held)> {
        if !self.has_users {
            return None;
        }
        let packet = Packet::read(bytes)?;
        let Transport::Tcp(segment) = packet.transport else { return None };
        let connection = Ports::flow([segment.source_port, segment.destination_port])?;
        let (flow, place) = ((connection % Ports::DISTINCT) as usize, connection / Ports::DISTINCT);
        let users = self.users.get(flow)?.as_ref()?;
        let address = if is_up { packet.source } else { packet.destination };
        let is_users = users.node == self.nodes[end] && users.address == address;
        is_users.then(|| (users.levels.delay(place), Held { end, flow, place, segment, bytes: bytes.to_vec() }))
    }

    /// Reports a packet at the users' side.
    fn report(&self, at: Time, held: &Held, is_arriving: bool) {
        let Some(users) = &self.users[held.flow] else { return };
        let segment = UserSegment { place: held.place, is_arriving, segment: held.segment };
        // The observer listens as long as the wire is used.
        let _ = users.reports.send(PopulationReport::Segment { at, segment });
    }

    /// Hands over the packets that have reached their users.
    fn arrive(&mut self) -> io::Result<()> {
        while let Some(first) = self.down.first_entry() {
            let now = self.wire.now();
            if first.key().0 > now {
                break;
            }
            let held = first.remove();
            self.report(now, &held, true);
            self.wire.send(held.end, &held.bytes, Time::ZERO)?;
        }
        Ok(())
    }
}

impl<W: Wire> Wire for AccessWire<W> {
    fn now(&mut self) -> Time {
        self.wire.now()
    }

    fn receive(&mut self, end: End, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // Each delayed packet leaves room for another in the device.
        while let Some(size) = self.wire.receive(end, buffer)? {
            let Some((delay, held)) = self.held(end, true, &buffer[..size]) else { return Ok(Some(size)) };
            let now = self.wire.now();
            self.report(now, &held, false);
            self.count += 1;
            self.up[end].insert((now + delay, self.count), held);
        }
        let now = self.wire.now();
        let first = self.up[end].first_entry().filter(|first| first.key().0 <= now);
        Ok(first.map(|first| {
            let Held { bytes, .. } = first.remove();
            buffer[..bytes.len()].copy_from_slice(&bytes);
            bytes.len()
        }))
    }

    fn send(&mut self, end: End, packet: &[u8], late: Time) -> io::Result<()> {
        let Some((delay, held)) = self.held(end, false, packet) else { return self.wire.send(end, packet, late) };
        let at = self.wire.now() + delay;
        self.count += 1;
        self.down.insert((at, self.count), held);
        Ok(())
    }

    fn flush(&mut self, end: End) -> io::Result<()> {
        self.wire.flush(end)
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        let lines = self.up.iter().chain([&self.down]);
        let next = lines.filter_map(|line| line.first_key_value()).map(|((at, _), _)| *at);
        let until = next.chain(until).min();
        self.wire.wait(until)?;
        self.arrive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::mpsc::channel;

    use perigee_wire::{address, IpVersion};

    use super::*;

    /// A wire with a clock that advances by waiting.
    #[derive(Default)]
    struct Scripted {
        now: Time,
        waiting: VecDeque<Vec<u8>>,
        sent: Vec<(Time, End)>,
    }

    impl Wire for Scripted {
        fn now(&mut self) -> Time {
            self.now
        }

        fn receive(&mut self, _end: End, buffer: &mut [u8]) -> io::Result<Option<usize>> {
            let packet = self.waiting.pop_front();
            Ok(packet.map(|packet| {
                buffer[..packet.len()].copy_from_slice(&packet);
                packet.len()
            }))
        }

        fn send(&mut self, end: End, _packet: &[u8], _late: Time) -> io::Result<()> {
            self.sent.push((self.now, end));
            Ok(())
        }

        fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
            self.now = self.now.max(until.unwrap_or(self.now));
            Ok(())
        }
    }

    const MS: fn(u64) -> Time = Time::from_millis;

    /// A segment of flow 1 between a user at node 1 and the server at node 0.
    fn segment(place: u32, is_up: bool) -> Vec<u8> {
        let Ports { server, client } = Ports::of(1 + place * Ports::DISTINCT);
        let [server_at, user_at] = [0, 1].map(|node| address(node, IpVersion::V4));
        let (ports, ends) =
            if is_up { ([client, server], [user_at, server_at]) } else { ([server, client], [server_at, user_at]) };
        let segment = Segment { source_port: ports[0], destination_port: ports[1], ..Segment::default() };
        let mut bytes = Vec::new();
        let [source, destination] = ends;
        let transport = Transport::Tcp(segment);
        Packet { source, destination, bytes: 40, ecn: 0, identification: 0, transport }.write(&mut bytes);
        bytes
    }

    #[test]
    fn packets_of_users_are_late_by_their_own_delay_either_way_and_others_by_none() {
        let access = Access { least: MS(10), most: MS(42) };
        let levels = Arc::new(AccessLevels::new(access));
        // Levels are at the middle of 16 parts of 2 ms.
        levels.set(0, 0);
        levels.set(1, 15);
        let (reports, told) = channel();
        let users = UserAccess { node: 1, address: address(1, IpVersion::V4), levels, reports };
        let mut wire = AccessWire::new(Scripted::default(), vec![None, Some(users)], vec![0, 1]);
        wire.wire.waiting = [segment(1, true), segment(0, true)].into();
        let mut buffer = [0; 64];
        assert_eq!(wire.receive(1, &mut buffer).unwrap(), None);
        for expected in [11, 41] {
            wire.wait(None).unwrap();
            assert_eq!(wire.now(), MS(expected));
            assert_eq!(wire.receive(1, &mut buffer).unwrap(), Some(40));
        }
        // To its user at the far end, and where it passes another node.
        wire.send(1, &segment(0, false), Time::ZERO).unwrap();
        wire.send(0, &segment(0, false), Time::ZERO).unwrap();
        assert_eq!(wire.wire.sent, [(MS(41), 0)]);
        wire.wait(Some(MS(50))).unwrap();
        wire.wait(Some(MS(60))).unwrap();
        assert_eq!(wire.wire.sent[1..], [(MS(52), 1)]);
        drop(wire);
        let told: Vec<_> = told
            .iter()
            .map(|report| match report {
                PopulationReport::Segment { at, segment } => (at, segment.place, segment.is_arriving),
                _ => panic!("another report"),
            })
            .collect();
        assert_eq!(told, [(MS(0), 1, false), (MS(0), 0, false), (MS(52), 0, true)]);
    }
}
