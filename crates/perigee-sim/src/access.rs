//! The access lines between the users of a population and their node: one up and one down for each access level.
//!
//! A line only delays packets, so it keeps their order. The lines have a queue of their own, of which the network's queue has the
//! first event: an event comes with each packet, and the network's queue would order it among the timers of thousands of
//! connections.

use perigee_traffic::{End, Population};
use perigee_units::Time;

use crate::calendar::Calendar;
use crate::network::Fate;
use crate::packet::{NetPacket, Parcel};
use crate::queue::EventQueue;
use crate::world::{PopulationEvent, World};

/// The access of a population's users; without lines if it delays nothing.
pub(crate) struct Access {
    /// Two for each access level, up and then down.
    lines: Vec<Line>,
    /// The lines by their next packet, as event sources.
    queue: EventQueue,
    /// Event source of the next packet of any line.
    source: u32,
    /// Packets to users are put on their line when they are sent: cut-through carries all of them to it.
    is_reached: bool,
}

/// The packets on their way from or to users of one access level.
struct Line {
    delay: Time,
    packets: Calendar,
}

impl Access {
    /// The access of the users of flow `number`, whose own connections are `own`.
    pub(crate) fn new(population: &Population, number: u32, own: &[u32], world: &mut World) -> Self {
        let access = population.access;
        let count = if population.has_access_delays() { 2 * access.levels() } else { 0 };
        let line = |index| Line { delay: access.delay(index / 2), packets: Calendar::new(index) };
        Self {
            lines: (0..count).map(line).collect(),
            queue: EventQueue::new(count as usize),
            source: world.add_source(number, PopulationEvent::Line),
            is_reached: count > 0 && own.len() == 1 && world.network.is_through(2 * own[0]),
        }
    }

    /// Whether there are lines.
    #[inline]
    pub(crate) fn has_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Sends a packet of an end of a connection, whose user has this access level; returns whether it is on its way.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Time, end: End, level: u32, mut packet: impl Parcel, world: &mut World) -> bool {
        if end == End::To && self.has_lines() {
            self.push(now, 2 * level + UP, &packet, world);
            return true;
        }
        if !self.is_reached {
            return !matches!(world.network.send(now, packet), Fate::Dropped(_));
        }
        let Fate::Delivered { at, .. } = world.network.carry(now, &mut packet) else { return false };
        world.network.count_arrivals(1);
        self.push(at, 2 * level + DOWN, &packet, world);
        true
    }

    /// A packet to a user of this access level has come to their node.
    #[inline]
    pub(crate) fn enter(&mut self, now: Time, level: u32, packet: &NetPacket, world: &mut World) {
        self.push(now, 2 * level + DOWN, packet, world);
    }

    /// Moves the packet that is at the other end of its line into `buffer`. Returns the end it has come to, if there was one:
    /// the user, or the node from which it goes on.
    #[inline]
    pub(crate) fn take(&mut self, buffer: &mut NetPacket, world: &mut World) -> Option<End> {
        let (_, line) = self.queue.first()?;
        if !self.lines[line as usize].packets.take_first(buffer, &mut self.queue) {
            return None;
        }
        match self.queue.first() {
            Some((at, _)) => world.network.queue.move_first(at),
            None => world.network.queue.remove(self.source),
        }
        Some(if line % 2 == DOWN { End::To } else { End::From })
    }

    /// Packets on the lines.
    pub(crate) fn packets(&self) -> usize {
        self.lines.iter().map(|line| line.packets.len()).sum()
    }

    /// Puts a packet on a line that it enters at `begin`, no earlier than the last one.
    #[inline(never)]
    fn push(&mut self, begin: Time, number: u32, packet: &impl Parcel, world: &mut World) {
        let line = &mut self.lines[number as usize];
        let is_first = line.packets.is_empty();
        line.packets.keep(begin + line.delay, packet, &mut self.queue);
        if let Some((at, _)) = self.queue.first().filter(|(_, first)| is_first && *first == number) {
            world.network.queue.set(self.source, at);
        }
    }
}

/// The two lines of an access level: from the users, and to them.
const UP: u32 = 0;
const DOWN: u32 = 1;
