//! The slots of a population: room for its connections, one at a time in each.

use perigee_study::FlowSpec;
use perigee_traffic::End;
use perigee_units::Time;

use crate::connection::Sources;
use crate::visit::Visit;
use crate::world::{LegEnd, PopulationEvent, World, WAIT};

/// Room for a connection.
pub(crate) struct Slot {
    pub(crate) visit: Option<Box<Visit>>,
    /// Level of the access delay of its user, or of the last one.
    pub(crate) access: u32,
    /// Packets that have been sent, and have neither arrived nor been dropped.
    pub(crate) in_flight: u32,
    /// Sources of the connection, or of its first leg.
    sources: Sources,
    /// Number of event sources from the first timer on: timers, applications, timers of further legs, and memory of proxies.
    events: u32,
}

impl Slot {
    /// A slot of a flow, with connections like the flow's own ones.
    pub(crate) fn new(flow: u32, number: u32, own: &[u32], spec: &FlowSpec, world: &mut World) -> Self {
        let legs = own.len() as u32;
        let first = number * legs;
        let way = world.add_connections(flow, first, own, spec);
        let timers = world.add_source(flow, PopulationEvent::Timer(LegEnd { leg: first, end: End::From }));
        world.add_source(flow, PopulationEvent::Timer(LegEnd { leg: first, end: End::To }));
        let mut last = world.add_source(flow, PopulationEvent::Wait(number));
        for leg in first + 1..first + legs {
            world.add_source(flow, PopulationEvent::Timer(LegEnd { leg, end: End::From }));
            world.add_source(flow, PopulationEvent::Timer(LegEnd { leg, end: End::To }));
        }
        if legs > 1 {
            last = world.add_source(flow, PopulationEvent::Memory(number));
        }
        Self { visit: None, access: 0, in_flight: 0, sources: Sources { way, timers }, events: last + 1 - timers }
    }

    /// The sources of a leg's connection.
    pub(crate) fn sources_of(&self, leg: usize) -> Sources {
        let Sources { way, timers } = self.sources;
        let leg = leg as u32;
        Sources { way: way + 2 * leg, timers: if leg == 0 { timers } else { timers + WAIT + 2 * leg - 1 } }
    }

    /// Event source of its applications.
    pub(crate) fn wait_source(&self) -> u32 {
        self.sources.timers + WAIT
    }

    /// Event source of its proxies that wait for memory. Without proxies, that of the applications, which nothing wakes.
    pub(crate) fn memory_source(&self) -> u32 {
        self.sources.timers + self.events - 1
    }

    /// Takes its connection away, with the events of its timers, applications and proxies.
    pub(crate) fn take(&mut self, now: Time, world: &mut World) -> Option<Box<Visit>> {
        let mut visit = self.visit.take()?;
        visit.session.abandon(now, world);
        (0..self.events).for_each(|source| world.network.queue.remove(self.sources.timers + source));
        Some(visit)
    }
}
