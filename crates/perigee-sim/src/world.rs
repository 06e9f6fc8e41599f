//! What all flows of a run share: the network, the pending events, and the run's end.

use perigee_units::Time;

use crate::network::{Fate, Network};
use crate::packet::NetPacket;
use crate::proxy::Proxy;
use crate::queue::EventQueue;

/// The shared part of a run.
pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) queue: EventQueue,
    pub(crate) proxies: Vec<Proxy>,
    /// Flows that have not ended.
    open_flows: usize,
    /// The latest end of a flow.
    last_end: Time,
    interval: Option<Time>,
    /// The last instant of the run.
    pub(crate) stop: Time,
}

impl World {
    /// A run of so many flows and event sources, that ends at `limit` at the latest.
    pub(crate) fn new(
        network: Network,
        proxies: Vec<Proxy>,
        sources: usize,
        flows: usize,
        interval: Option<Time>,
        limit: Time,
    ) -> Self {
        let stop = whole_intervals(limit, interval);
        Self {
            network,
            queue: EventQueue::new(sources),
            proxies,
            open_flows: flows,
            last_end: Time::ZERO,
            interval,
            stop,
        }
    }

    /// Gives a packet to the first link of its way.
    #[inline]
    pub(crate) fn send(&mut self, now: Time, mut packet: NetPacket) -> Fate {
        self.network.send(now, &mut packet, &mut self.queue)
    }

    /// A flow has ended, or will have at `end`. With the last flow the run is over, once its interval is complete.
    pub(crate) fn flow_ended(&mut self, end: Time) {
        self.last_end = self.last_end.max(end);
        self.open_flows -= 1;
        if self.open_flows == 0 {
            self.end_by(self.last_end);
        }
    }

    /// Whether a flow has not ended.
    pub(crate) fn has_open_flows(&self) -> bool {
        self.open_flows > 0
    }

    /// The run ends with the interval in which this instant lies.
    pub(crate) fn end_by(&mut self, end: Time) {
        self.stop = self.stop.min(whole_intervals(end, self.interval));
    }
}

/// The first end of an interval at or after `at`; `at` itself without intervals.
fn whole_intervals(at: Time, interval: Option<Time>) -> Time {
    let Some(length) = interval.map(Time::as_nanos).filter(|length| *length > 0) else { return at };
    Time::from_nanos(at.as_nanos().div_ceil(length).saturating_mul(length))
}
