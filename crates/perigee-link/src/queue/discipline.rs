//! Queue management that decides on departure: what a link asks of it.

use perigee_units::{Stream, Time};

use super::codel::{CodelQueue, Rules};
use super::dualpi2::DualPi2;
use super::fq_codel::FqCodel;
use super::spec::AqmSpec;
use super::waiting::Waiting;

/// Queue management that decides on departure: it keeps the packets that were admitted, in as many queues as it wants, and
/// says which of them goes into service next. How long each has waited, it knows by [`Waiting::arrived`].
pub(crate) enum Discipline<T> {
    Codel(CodelQueue<T>),
    FqCodel(FqCodel<T>),
    DualPi2(DualPi2<T>),
}

impl<T> Discipline<T> {
    /// The discipline of a description, with random numbers of its own; `None` where all is decided on arrival.
    pub(crate) fn new(spec: &AqmSpec, seed: u64, name: &str) -> Option<Self> {
        let mut draws = Stream::new(seed, &format!("{name}/queue/departures"));
        match spec {
            AqmSpec::None | AqmSpec::Viasat2 { .. } | AqmSpec::Red(_) | AqmSpec::Pie(_) => None,
            AqmSpec::DualPi2(dual) => Some(Self::DualPi2(DualPi2::new(dual))),
            AqmSpec::Codel(codel) => Some(Self::Codel(CodelQueue::new(codel))),
            AqmSpec::FqCodel { queues, quantum, codel } => {
                Some(Self::FqCodel(FqCodel::new(*queues, *quantum, Rules::new(codel), draws.next_u64())))
            }
        }
    }

    /// Takes every packet out on the slow path, as a reference for [`Discipline::dequeue_early`].
    pub(crate) fn without_fast_path(&mut self) {
        if let Self::Codel(queue) = self {
            queue.without_fast_path();
        }
    }

    /// Keeps a packet that was admitted; may mark it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a link that decides on departure")]
    pub(crate) fn enqueue(&mut self, packet: Waiting<T>) {
        match self {
            Self::Codel(queue) => queue.enqueue(packet),
            Self::FqCodel(queues) => queues.enqueue(packet),
            Self::DualPi2(queues) => queues.enqueue(packet),
        }
    }

    /// Takes out the packet that goes into service at `now`, in the case that most are in where waits are short: it is neither marked
    /// nor dropped. `None`: nothing has happened, and [`Discipline::dequeue`] tells.
    #[inline]
    pub(crate) fn dequeue_early(&mut self, now: Time) -> Option<Waiting<T>> {
        match self {
            Self::Codel(queue) => queue.dequeue_early(now),
            Self::FqCodel(_) | Self::DualPi2(_) => None,
        }
    }

    /// Takes out the packet that goes into service at `now`, perhaps marked; gives to `drop` those that it drops instead.
    /// `None` only where no packet is left.
    #[inline]
    pub(crate) fn dequeue(&mut self, now: Time, drop: &mut impl FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        match self {
            Self::Codel(queue) => queue.dequeue(now, drop),
            Self::FqCodel(queues) => queues.dequeue(now, drop),
            Self::DualPi2(queues) => queues.dequeue(now, drop),
        }
    }

    /// Makes room for an arrival in a full queue: gives to `drop` some of the packets that it keeps. False: there are none, or
    /// it refuses the arrival instead.
    pub(crate) fn make_room(&mut self, drop: &mut impl FnMut(Waiting<T>)) -> bool {
        match self {
            Self::FqCodel(queues) => queues.make_room(drop),
            Self::Codel(_) | Self::DualPi2(_) => false,
        }
    }
}
