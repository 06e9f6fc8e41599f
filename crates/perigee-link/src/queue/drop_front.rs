//! A FIFO that drops from its front.
//!
//! An arrival that finds it full is stored, and the packets at its head are dropped until it has room: the sender learns of the loss a
//! queue's delay earlier than from drop-tail (T. V. Lakshman, A. Neidhardt, T. Ott: "The drop from front strategy in TCP and in TCP over
//! ATM", INFOCOM 1996). Starlink's queues do so (Brunström, García, Sundberg 2026), and Linux's `pfifo_head_drop`.
//!
//! Differences from `pfifo_head_drop`
//! - The packet in service counts towards the limits and cannot be dropped. Below Linux's `tbf` the packet that waits for its tokens is
//!   still in the queue, and can be.
//! - Limits in bytes, and in time: packets that have waited longer than `time` are dropped when the server is free for them.

use std::collections::VecDeque;

use perigee_units::Time;

use super::waiting::{withdraw, Waiting};

pub(crate) struct DropFront<T> {
    fifo: VecDeque<Waiting<T>>,
    longest_wait: Time,
}

impl<T> DropFront<T> {
    /// An empty queue in which packets wait for at most `time`.
    pub(super) fn new(time: Option<Time>) -> Self {
        Self { fifo: VecDeque::new(), longest_wait: time.unwrap_or(Time::MAX) }
    }

    #[inline]
    pub(super) fn enqueue(&mut self, packet: Waiting<T>) {
        self.fifo.push_back(packet);
    }

    /// Fast path of [`DropFront::dequeue`]: the packet at the head, if it has not waited too long.
    #[inline]
    pub(super) fn dequeue_early(&mut self, now: Time) -> Option<Waiting<T>> {
        let head = self.fifo.front()?;
        if now - head.arrived > self.longest_wait {
            return None;
        }
        self.fifo.pop_front()
    }

    /// The packet that enters service at `now`; passes packets that have waited too long to `drop`.
    pub(super) fn dequeue(&mut self, now: Time, drop: &mut impl FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        while let Some(head) = self.fifo.pop_front() {
            if now - head.arrived <= self.longest_wait {
                return Some(head);
            }
            drop(head);
        }
        None
    }

    /// Drops the packet at the head; returns whether there was one.
    pub(super) fn make_room(&mut self, drop: &mut impl FnMut(Waiting<T>)) -> bool {
        self.fifo.pop_front().map(drop).is_some()
    }

    /// Removes the packets that `is_meant` names, in their order.
    pub(super) fn withdraw(
        &mut self,
        is_meant: &mut impl FnMut(&Waiting<T>) -> bool,
        out: &mut impl FnMut(Waiting<T>),
    ) {
        withdraw(&mut self.fifo, is_meant, out);
    }
}
