//! A queue of two classes: packets of low priority are served last, and dropped first.
//!
//! The router that TCP-Peach and TCP-Peach+ assume (I. F. Akyildiz, X. Zhang, J. Fang, IEEE Communications Letters 2002), and the
//! treatment that the lower-effort behaviour of RFC 8622 allows: what has low priority takes only what others leave.
//!
//! A packet in service is not interrupted. An arrival of normal priority that finds the queue full takes the place of the newest packets of
//! low priority, if it fits without these; any other arrival is dropped itself, and nothing else.

use std::collections::VecDeque;

use super::waiting::Waiting;

pub(crate) struct Classes<T> {
    normal: VecDeque<Waiting<T>>,
    low: VecDeque<Waiting<T>>,
    low_bytes: u64,
}

impl<T> Default for Classes<T> {
    fn default() -> Self {
        Self { normal: VecDeque::new(), low: VecDeque::new(), low_bytes: 0 }
    }
}

impl<T> Classes<T> {
    #[inline]
    pub(super) fn enqueue(&mut self, packet: Waiting<T>) {
        if packet.packet.is_low {
            self.low_bytes += u64::from(packet.size);
            self.low.push_back(packet);
        } else {
            self.normal.push_back(packet);
        }
    }

    /// The packet that enters service.
    #[inline]
    pub(super) fn dequeue(&mut self) -> Option<Waiting<T>> {
        self.normal.pop_front().or_else(|| {
            let packet = self.low.pop_front()?;
            self.low_bytes -= u64::from(packet.size);
            Some(packet)
        })
    }

    /// Drops the newest packet of low priority for an arrival of normal priority; returns whether there was one.
    pub(super) fn make_room(&mut self, is_low: bool, drop: &mut impl FnMut(Waiting<T>)) -> bool {
        if is_low {
            return false;
        }
        let Some(packet) = self.low.pop_back() else { return false };
        self.low_bytes -= u64::from(packet.size);
        drop(packet);
        true
    }

    /// Bytes and packets of low priority: all that [`Classes::make_room`] can drop.
    pub(super) fn low(&self) -> (u64, usize) {
        (self.low_bytes, self.low.len())
    }
}
