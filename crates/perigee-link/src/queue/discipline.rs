//! Queue disciplines that decide on departure.

use std::collections::VecDeque;

use perigee_units::{Stream, Time};

use super::classes::Classes;
use super::codel::{CodelQueue, Rules};
use super::drop_front::DropFront;
use super::dualpi2::DualPi2;
use super::fq_codel::FqCodel;
use super::spec::{AqmSpec, Full, QueueSpec};
use super::waiting::{withdraw, Waiting};
use crate::packet::DropReason;

/// A queue discipline that decides on departure: it stores admitted packets in any number of queues and selects the next one to serve.
/// Sojourn times follow from [`Waiting::arrived`].
pub(crate) enum Discipline<T> {
    /// Drop-tail whose packets can be withdrawn.
    Fifo(VecDeque<Waiting<T>>),
    DropFront(DropFront<T>),
    Classes(Classes<T>),
    Codel(CodelQueue<T>),
    FqCodel(FqCodel<T>),
    DualPi2(DualPi2<T>),
}

impl<T> Discipline<T> {
    /// Creates the discipline with its own random stream; `None` if all is decided on arrival.
    pub(crate) fn new(spec: &QueueSpec, seed: u64, name: &str) -> Option<Self> {
        let mut draws = Stream::new(seed, &format!("{name}/queue/departures"));
        let drops_front = spec.full == Full::DropFront;
        match &spec.aqm {
            AqmSpec::None if drops_front => Some(Self::DropFront(DropFront::new(spec.time))),
            AqmSpec::None if spec.full == Full::DropLow => Some(Self::Classes(Classes::default())),
            AqmSpec::None | AqmSpec::Viasat2 { .. } | AqmSpec::Red(_) | AqmSpec::Pie(_) | AqmSpec::Netem { .. } => None,
            AqmSpec::DualPi2(dual) => Some(Self::DualPi2(DualPi2::new(dual))),
            AqmSpec::Codel(codel) => Some(Self::Codel(CodelQueue::new(codel, drops_front))),
            AqmSpec::FqCodel { queues, quantum, codel } => {
                Some(Self::FqCodel(FqCodel::new(*queues, *quantum, Rules::new(codel), draws.next_u64())))
            }
        }
    }

    /// A plain FIFO.
    pub(crate) fn fifo() -> Self {
        Self::Fifo(VecDeque::new())
    }

    /// Disables [`Discipline::dequeue_early`], as the reference.
    pub(crate) fn without_fast_path(&mut self) {
        if let Self::Codel(queue) = self {
            queue.without_fast_path();
        }
    }

    /// Adds an admitted packet, and may mark it.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, packet: Waiting<T>) {
        match self {
            Self::Fifo(queue) => queue.push_back(packet),
            Self::DropFront(queue) => queue.enqueue(packet),
            Self::Classes(queues) => queues.enqueue(packet),
            Self::Codel(queue) => queue.enqueue(packet),
            Self::FqCodel(queues) => queues.enqueue(packet),
            Self::DualPi2(queues) => queues.enqueue(packet),
        }
    }

    /// Fast path of [`Discipline::dequeue`] for short sojourn times: the packet that enters service at `now`, if it is neither marked nor
    /// dropped. `None`, with no effect, leaves the decision to `dequeue`.
    #[inline]
    pub(crate) fn dequeue_early(&mut self, now: Time) -> Option<Waiting<T>> {
        match self {
            Self::Fifo(queue) => queue.pop_front(),
            Self::DropFront(queue) => queue.dequeue_early(now),
            Self::Classes(queues) => queues.dequeue(),
            Self::Codel(queue) => queue.dequeue_early(now),
            Self::FqCodel(_) | Self::DualPi2(_) => None,
        }
    }

    /// The packet that enters service at `now`, possibly marked; passes packets dropped before it to `drop`. `None` only if no packet is
    /// left.
    #[inline]
    pub(crate) fn dequeue(&mut self, now: Time, drop: &mut impl FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        match self {
            Self::Fifo(queue) => queue.pop_front(),
            Self::DropFront(queue) => queue.dequeue(now, drop),
            Self::Classes(queues) => queues.dequeue(),
            Self::Codel(queue) => queue.dequeue(now, drop),
            Self::FqCodel(queues) => queues.dequeue(now, drop),
            Self::DualPi2(queues) => queues.dequeue(now, drop),
        }
    }

    /// Why [`Discipline::dequeue`] drops packets.
    pub(crate) fn drops_for(&self) -> DropReason {
        match self {
            Self::Fifo(_) | Self::DropFront(_) | Self::Classes(_) => DropReason::QueueFull,
            Self::Codel(_) | Self::FqCodel(_) | Self::DualPi2(_) => DropReason::Aqm,
        }
    }

    /// Drops stored packets to make room for an arrival, of low priority or not, passing them to `drop`. Returns false if it has none to
    /// drop, or refuses the arrival instead.
    pub(crate) fn make_room(&mut self, is_low: bool, drop: &mut impl FnMut(Waiting<T>)) -> bool {
        match self {
            Self::DropFront(queue) => queue.make_room(drop),
            Self::Classes(queues) => queues.make_room(is_low, drop),
            Self::Codel(queue) => queue.make_room(drop),
            Self::FqCodel(queues) => queues.make_room(drop),
            Self::Fifo(_) | Self::DualPi2(_) => false,
        }
    }

    /// The bytes and packets that [`Discipline::make_room`] can drop, if they have to suffice before it drops any.
    pub(crate) fn droppable(&self) -> Option<(u64, usize)> {
        match self {
            Self::Classes(queues) => Some(queues.low()),
            Self::Fifo(_) | Self::DropFront(_) | Self::Codel(_) | Self::FqCodel(_) | Self::DualPi2(_) => None,
        }
    }

    /// Removes the packets that `is_meant` names, in the order of their arrival. Several queues have no such order, and keep theirs.
    pub(crate) fn withdraw(
        &mut self,
        is_meant: &mut impl FnMut(&Waiting<T>) -> bool,
        out: &mut impl FnMut(Waiting<T>),
    ) {
        match self {
            Self::Fifo(queue) => withdraw(queue, is_meant, out),
            Self::DropFront(queue) => queue.withdraw(is_meant, out),
            Self::Codel(queue) => queue.withdraw(is_meant, out),
            Self::Classes(_) | Self::FqCodel(_) | Self::DualPi2(_) => {}
        }
    }
}
