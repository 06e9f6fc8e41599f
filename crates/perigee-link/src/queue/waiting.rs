//! What a queue keeps that decides on departure.

use perigee_units::Time;

use crate::packet::Packet;

/// A packet that waits for a decision on its departure.
pub(crate) struct Waiting<T> {
    pub(crate) packet: Packet<T>,
    /// Bytes, with the link's overhead.
    pub(crate) size: u32,
    /// When it was admitted.
    pub(crate) arrived: Time,
}
