//! A packet in a queue that decides on departure.

use perigee_units::Time;

use crate::packet::Packet;

/// A packet waiting for the decision on its departure.
pub(crate) struct Waiting<T> {
    pub(crate) packet: Packet<T>,
    /// Bytes, with the link's overhead.
    pub(crate) size: u32,
    /// Admission time.
    pub(crate) arrived: Time,
}
