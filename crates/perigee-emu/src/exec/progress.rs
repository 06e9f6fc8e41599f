//! Counts of a link that its driver keeps up to date while another thread reads them.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use perigee_link::Link;
use perigee_units::Time;

use crate::link::driver::{BufferedPacket, Observer};

/// Packets of a link by direction (0 down, 1 up), counted by its driver, and the request to stop.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) stop: AtomicBool,
    directions: [Counts; 2],
}

#[derive(Debug, Default)]
struct Counts {
    offered: AtomicU64,
    /// Packets released or dropped.
    gone: AtomicU64,
    dropped: AtomicU64,
    released_bytes: AtomicU64,
    /// Backlog at the latest packet, and the largest since it was last asked for, bytes.
    queue: AtomicU64,
    largest_queue: AtomicU64,
}

/// Counts of one direction of a link so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionSample {
    /// Bytes that have left the link's exit since the program began.
    pub released_bytes: u64,
    /// Packets dropped since the program began.
    pub dropped: u64,
    /// Largest backlog since the last sample, bytes.
    pub largest_queue: u64,
}

/// Counts of both directions of a link so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSample {
    /// Time since the program began.
    pub elapsed: Time,
    /// Towards the program.
    pub down: DirectionSample,
    /// Away from it.
    pub up: DirectionSample,
}

impl Progress {
    /// Packets in the link.
    pub(crate) fn under_way(&self) -> u64 {
        // Gone packets are read first, so that none counts as gone before it counts as offered.
        let gone: u64 = self.packets_gone().iter().sum();
        self.packets_offered().iter().sum::<u64>().saturating_sub(gone)
    }

    /// Packets offered, by direction.
    pub(crate) fn packets_offered(&self) -> [u64; 2] {
        self.directions.each_ref().map(|counts| counts.offered.load(Relaxed))
    }

    /// Packets released or dropped, by direction.
    pub(crate) fn packets_gone(&self) -> [u64; 2] {
        self.directions.each_ref().map(|counts| counts.gone.load(Relaxed))
    }

    /// Returns the counts of both directions, and resets the largest backlog.
    pub(crate) fn sample(&self, elapsed: Time) -> LiveSample {
        let [down, up] = self.directions.each_ref().map(Counts::sample);
        LiveSample { elapsed, down, up }
    }
}

impl Counts {
    fn sample(&self) -> DirectionSample {
        DirectionSample {
            released_bytes: self.released_bytes.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            largest_queue: self.largest_queue.swap(self.queue.load(Relaxed), Relaxed),
        }
    }
}

impl Observer for &Progress {
    fn offered(&mut self, way: usize, _now: Time, _packet: &[u8]) {
        self.directions[way].offered.fetch_add(1, Relaxed);
    }

    fn dropped(&mut self, way: usize, _now: Time, _packet: &[u8]) {
        self.directions[way].dropped.fetch_add(1, Relaxed);
        self.directions[way].gone.fetch_add(1, Relaxed);
    }

    fn released(&mut self, way: usize, _now: Time, packet: &[u8]) {
        self.directions[way].released_bytes.fetch_add(packet.len() as u64, Relaxed);
        self.directions[way].gone.fetch_add(1, Relaxed);
    }

    fn before(&mut self, way: usize, now: Time, link: &mut Link<BufferedPacket>) {
        let bytes = link.queue_bytes(now);
        self.directions[way].queue.store(bytes, Relaxed);
        self.directions[way].largest_queue.fetch_max(bytes, Relaxed);
    }

    fn turn(&mut self, _now: Time) -> ControlFlow<(), Option<Time>> {
        if self.stop.load(Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use perigee_link::{Ecn, LinkSpec, Packet};
    use perigee_units::Rate;

    use super::*;

    #[test]
    fn a_sample_has_what_left_and_the_largest_backlog_since_the_one_before() {
        let progress = Progress::default();
        let mut observer = &progress;
        observer.offered(1, Time::ZERO, &[0; 700]);
        observer.released(1, Time::ZERO, &[0; 700]);
        observer.dropped(0, Time::ZERO, &[0; 10]);
        let spec = LinkSpec::constant(Rate::from_mbps(8.0), Time::ZERO);
        let mut link = Link::new(&spec, 1, "down");
        link.offer(
            Time::ZERO,
            Packet { bytes: 1000, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: BufferedPacket::default() },
        );
        observer.before(0, Time::ZERO, &mut link);
        observer.before(0, Time::from_secs(1), &mut link);
        let first = progress.sample(Time::from_secs(1));
        assert_eq!(first.down, DirectionSample { released_bytes: 0, dropped: 1, largest_queue: 1000 });
        assert_eq!(first.up, DirectionSample { released_bytes: 700, dropped: 0, largest_queue: 0 });
        assert_eq!(progress.sample(Time::from_secs(2)).down.largest_queue, 0);
    }
}
