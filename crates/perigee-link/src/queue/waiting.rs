//! A packet in a queue that decides on departure.

use std::collections::VecDeque;

use perigee_units::Time;

use crate::packet::{Ecn, Packet};

/// A packet waiting for the decision on its departure.
pub(crate) struct Waiting<T> {
    pub(crate) packet: Packet<T>,
    /// Its ECN field as it arrived; the packet's is what the queue sees.
    pub(crate) inner: Ecn,
    /// Bytes, with the link's overhead.
    pub(crate) size: u32,
    /// Admission time.
    pub(crate) arrived: Time,
}

/// Removes the packets of a FIFO that `is_meant` names; the others keep their order.
pub(super) fn withdraw<T>(
    fifo: &mut VecDeque<Waiting<T>>,
    is_meant: &mut impl FnMut(&Waiting<T>) -> bool,
    out: &mut impl FnMut(Waiting<T>),
) {
    for _ in 0..fifo.len() {
        let Some(head) = fifo.pop_front() else { return };
        if is_meant(&head) {
            out(head);
        } else {
            fifo.push_back(head);
        }
    }
}
