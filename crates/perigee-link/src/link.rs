//! One direction of a link.

use std::collections::VecDeque;

use perigee_units::{Rate, Time};

use crate::delay::{Delay, LoadedDelay};
use crate::loss::Loss;
use crate::queue::{Admission, Backlog};
use crate::server::Server;
use crate::spec::LinkSpec;

/// One direction of a link: a queue, a server and the air behind it.
///
/// A driver offers packets as they come and polls for those that have arrived; between two calls nothing happens.
/// All that happens to a packet is decided on its arrival, since nothing that comes later can change it, so that a
/// driver that asks late gets the same instants as one that asks in time.
///
/// ```
/// use perigee_link::{Ecn, Link, LinkSpec, Offered, Packet};
/// use perigee_units::{Rate, Time};
/// let mut link = Link::new(&LinkSpec::constant(Rate::from_mbps(12.0), Time::from_millis(300)), 1, "down");
/// let packet = Packet { bytes: 1500, flow: 0, ecn: Ecn::NotCapable, token: "first" };
/// assert_eq!(link.offer(Time::ZERO, packet), Offered::Queued);
/// assert_eq!(link.next_event(), Some(Time::from_millis(301)));
/// let delivery = link.poll(Time::from_secs(1)).unwrap();
/// assert_eq!((delivery.at, delivery.packet.token), (Time::from_millis(301), "first"));
/// ```
pub struct Link<T> {
    overhead: u32,
    now: Time,
    backlog: Backlog,
    admission: Admission,
    server: Server,
    loss: Vec<Loss>,
    delay: Delay,
    loaded: Option<LoadedDelay>,
    last_delivery: Time,
    in_flight: VecDeque<Delivery<T>>,
    counters: Counters,
}

/// A packet as a link sees it; its content stays with the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Size of the IP packet.
    pub bytes: u32,
    /// The flow it belongs to.
    pub flow: u32,
    /// What its sender and the links before this one say about congestion.
    pub ecn: Ecn,
    /// By which the driver knows it.
    pub token: T,
}

/// Explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The sender does not take part.
    #[default]
    NotCapable,
    /// The sender takes part, and no queue has marked the packet.
    Capable,
    /// A queue has marked the packet.
    Marked,
}

/// What became of an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It will be delivered.
    Queued,
    /// It will not.
    Dropped(DropReason),
}

/// Why a packet is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue had no room.
    QueueFull,
    /// The active queue management chose it.
    Aqm,
    /// It was lost in the air.
    Loss,
}

impl DropReason {
    /// Every reason, in the order of [`Counters::dropped`].
    pub const ALL: [Self; 3] = [Self::QueueFull, Self::Aqm, Self::Loss];

    /// Its name in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Aqm => "aqm",
            Self::Loss => "loss",
        }
    }
}

/// A packet at the end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<T> {
    /// The instant at which it got there.
    pub at: Time,
    /// The packet.
    pub packet: Packet<T>,
}

/// What becomes of a packet whose driver keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// It gets to the end of the link at this instant.
    Delivered(Time),
    /// It does not.
    Dropped(DropReason),
}

/// What a link has done so far; sizes are those of the IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered.
    pub offered_packets: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Packets that were accepted and not lost, those still under way among them.
    pub delivered_packets: u64,
    /// Bytes that were accepted and not lost.
    pub delivered_bytes: u64,
    /// Packets dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped: [u64; 3],
    /// Bytes dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped_bytes: [u64; 3],
}

impl Counters {
    /// Packets dropped for a reason.
    pub fn dropped_by(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }
}

impl<T: Copy> Link<T> {
    /// A link of this description. Each of its processes draws from a random stream of its own, named after the link
    /// and the process, so that links of different names are independent and no process moves another's draws.
    pub fn new(spec: &LinkSpec, seed: u64, name: &str) -> Self {
        let name = format!("link/{name}");
        let losses = spec.loss.iter().enumerate();
        Self {
            overhead: spec.overhead,
            now: Time::ZERO,
            backlog: Backlog::default(),
            admission: Admission::new(&spec.queue, seed, &name),
            server: Server::new(&spec.rate, spec.burst, seed, &name),
            loss: losses.map(|(i, l)| Loss::new(l, seed, &format!("{name}/loss/{i}"))).collect(),
            delay: Delay::new(&spec.delay, seed, &name),
            loaded: spec.loaded.as_ref().map(|l| LoadedDelay::new(l, seed, &name)),
            last_delivery: Time::ZERO,
            in_flight: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Offers a packet that arrives at `now`; an instant before the last one counts as that one.
    #[inline]
    pub fn offer(&mut self, now: Time, packet: Packet<T>) -> Offered {
        let mut packet = packet;
        match self.transit(now, packet.bytes, packet.flow, &mut packet.ecn) {
            Transit::Delivered(at) => {
                self.in_flight.push_back(Delivery { at, packet });
                Offered::Queued
            }
            Transit::Dropped(reason) => Offered::Dropped(reason),
        }
    }

    /// The next packet that got to the end of the link at or before `now`, with the instant at which it did.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<Delivery<T>> {
        match self.in_flight.front() {
            Some(first) if first.at <= now => self.in_flight.pop_front(),
            _ => None,
        }
    }

    /// The instant at which [`Link::poll`] has something to give.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        self.in_flight.front().map(|first| first.at)
    }

    /// Whether what becomes of a packet is known when it arrives, so that [`Link::transit`] may be used. It is for all
    /// queues there are: FIFO, with drops on arrival only, and a rate that does not depend on the traffic.
    #[inline]
    pub fn is_feed_forward(&self) -> bool {
        true
    }

    /// The same decision and change of state as [`Link::offer`] for a packet that the driver keeps.
    #[inline]
    pub fn transit(&mut self, now: Time, bytes: u32, _flow: u32, ecn: &mut Ecn) -> Transit {
        self.now = self.now.max(now);
        let now = self.now;
        self.counters.offered_packets += 1;
        self.counters.offered_bytes += u64::from(bytes);
        let size = bytes.saturating_add(self.overhead);
        if let Some(loaded) = &mut self.loaded {
            loaded.arrival(now, size);
        }
        self.backlog.release(now);
        if let Some(reason) = self.admission.refuses(now, size, &self.backlog, &self.server, ecn) {
            return self.dropped(reason, bytes);
        }
        let departure = self.server.serve(now, size);
        self.backlog.push(now, departure, size);
        // No short-cut between loss processes: each makes its draws for each packet.
        if self.loss.iter_mut().fold(false, |lost, process| process.takes(departure) | lost) {
            return self.dropped(DropReason::Loss, bytes);
        }
        let mut delay = self.delay.at(departure);
        if let Some(loaded) = &mut self.loaded {
            delay += loaded.at(departure);
        }
        self.last_delivery = self.last_delivery.max(departure + delay);
        self.counters.delivered_packets += 1;
        self.counters.delivered_bytes += u64::from(bytes);
        Transit::Delivered(self.last_delivery)
    }

    /// Bytes that wait or are being sent at `now` (overhead counted), which must not go back behind the last call.
    pub fn queue_bytes(&mut self, now: Time) -> u64 {
        self.backlog.release(now);
        self.backlog.bytes()
    }

    /// The rate at an instant.
    pub fn rate_at(&self, t: Time) -> Rate {
        self.server.rate_at(t)
    }

    /// The mean rate between two instants, rounded down; past or ahead of the packets, it disturbs nothing.
    ///
    /// ```
    /// use perigee_link::{Link, LinkSpec};
    /// use perigee_units::{Rate, Time};
    /// let mut link = Link::<()>::new(&LinkSpec::constant(Rate::from_mbps(12.0), Time::ZERO), 1, "down");
    /// assert_eq!(link.mean_rate(Time::ZERO, Time::from_secs(1)), Rate::from_mbps(12.0));
    /// ```
    pub fn mean_rate(&mut self, from: Time, to: Time) -> Rate {
        self.server.mean_rate(from, to)
    }

    /// Packets that were accepted and not lost, and that nobody has polled yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// What the link has done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    #[cold]
    fn dropped(&mut self, reason: DropReason, bytes: u32) -> Transit {
        self.counters.dropped[reason as usize] += 1;
        self.counters.dropped_bytes[reason as usize] += u64::from(bytes);
        Transit::Dropped(reason)
    }
}
