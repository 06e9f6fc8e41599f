//! Queue management that decides on departure: what it keeps, and what a link asks of it.

use perigee_units::Time;

use crate::packet::Packet;

/// Queue management that decides on departure: it keeps the packets that were admitted, in as many queues as it wants, and
/// says which of them goes into service next. How long each has waited, it knows by [`Waiting::arrived`].
pub(crate) trait Discipline<T> {
    /// Keeps a packet that was admitted; may mark it.
    fn enqueue(&mut self, packet: Waiting<T>);

    /// Takes out the packet that goes into service at `now`, perhaps marked; gives to `drop` those that it drops instead.
    /// `None` only where no packet is left.
    fn dequeue(&mut self, now: Time, drop: &mut dyn FnMut(Waiting<T>)) -> Option<Waiting<T>>;

    /// Makes room for an arrival in a full queue: gives to `drop` some of the packets that it keeps. False: there are none, or
    /// it refuses the arrival instead.
    fn make_room(&mut self, _drop: &mut dyn FnMut(Waiting<T>)) -> bool {
        false
    }
}

/// A packet that waits for a decision on its departure.
pub(crate) struct Waiting<T> {
    pub(crate) packet: Packet<T>,
    /// Bytes, with the link's overhead.
    pub(crate) size: u32,
    /// When it was admitted.
    pub(crate) arrived: Time,
}
