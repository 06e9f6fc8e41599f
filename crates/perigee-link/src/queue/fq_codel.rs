//! FQ-CoDel: T. Hoeiland-Joergensen et al., "The flow queue CoDel packet scheduler and active queue management algorithm", RFC 8290, 2018.
//!
//! Flows are hashed into queues, each with its own CoDel. Queues are served by deficit round robin, new ones first; over the limit, packets
//! are dropped from the head of the longest queue.
//!
//! Differences from the RFC
//! - Flows are hashed by number with the link's random salt, instead of by addresses and ports; the collision probability is the same.
//! - The longest queue drops up to half of its bytes, as in Linux, instead of half of its packets (section 4.1); in both cases at most 64
//!   packets.
//! - A queue with zero credits gives way, as in Linux; in section 4.2, one with negative credits.
//! - Room is made before the arriving packet is added, so it does not count towards the longest queue.
//! - The largest packet seen stands in for the MTU in CoDel.
//!
//! Units: bytes with the link's overhead.

use std::collections::VecDeque;

use perigee_units::Time;

use super::codel::{ControlledQueue, Rules};
use super::waiting::Waiting;

/// The flow queues and their schedule.
pub(crate) struct FqCodel<T> {
    rules: Rules,
    quantum: i64,
    salt: u64,
    queues: Vec<FlowQueue<T>>,
    /// Queues that were empty when their first packet came and have not had their turn yet.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

struct FlowQueue<T> {
    packets: ControlledQueue<T>,
    /// Bytes that the queue may still send in this turn.
    deficit: i64,
    is_listed: bool,
}

impl<T> FqCodel<T> {
    /// This many empty queues; the hash uses `salt`.
    pub(super) fn new(queues: u32, quantum: u32, rules: Rules, salt: u64) -> Self {
        let queue = || FlowQueue { packets: ControlledQueue::default(), deficit: 0, is_listed: false };
        Self {
            rules,
            quantum: i64::from(quantum.max(1)),
            salt,
            queues: (0..queues.max(1)).map(|_| queue()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    /// The queue of a flow.
    fn queue_of(&self, flow: u32) -> usize {
        // The finalizer of SplitMix64: each bit of flow and salt affects each bit of the hash.
        let mut hash = (u64::from(flow) ^ self.salt).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash ^ (hash >> 31)) % self.queues.len() as u64) as usize
    }

    /// The queue whose turn it is, with credits left, and whether it is a new one.
    fn turn(&mut self) -> Option<(usize, bool)> {
        loop {
            let (first, is_new) = match (self.new.front(), self.old.front()) {
                (Some(first), _) => (*first, true),
                (None, Some(first)) => (*first, false),
                (None, None) => return None,
            };
            let queue = &mut self.queues[first];
            if queue.deficit > 0 {
                return Some((first, is_new));
            }
            queue.deficit += self.quantum;
            self.unlist(is_new);
            self.old.push_back(first);
        }
    }

    fn unlist(&mut self, is_new: bool) {
        let list = if is_new { &mut self.new } else { &mut self.old };
        list.pop_front();
    }

    /// Adds a packet.
    pub(super) fn enqueue(&mut self, packet: Waiting<T>) {
        self.rules.see(packet.size);
        let number = self.queue_of(packet.packet.flow);
        let queue = &mut self.queues[number];
        queue.packets.push(packet);
        if !queue.is_listed {
            (queue.is_listed, queue.deficit) = (true, self.quantum);
            self.new.push_back(number);
        }
    }

    /// The packet that enters service at `now`; passes packets dropped before it to `drop`.
    pub(super) fn dequeue(&mut self, now: Time, drop: &mut impl FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        loop {
            let (number, is_new) = self.turn()?;
            let queue = &mut self.queues[number];
            if let Some(packet) = queue.packets.dequeue(&self.rules, now, drop) {
                queue.deficit -= i64::from(packet.size);
                return Some(packet);
            }
            // An empty new queue moves to the old ones, so that a flow of single packets cannot always be first.
            queue.is_listed = is_new;
            self.unlist(is_new);
            if is_new {
                self.old.push_back(number);
            }
        }
    }

    /// Drops packets of the longest queue; returns whether it had any.
    pub(super) fn make_room(&mut self, drop: &mut impl FnMut(Waiting<T>)) -> bool {
        let longest = self.queues.iter_mut().map(|queue| &mut queue.packets).max_by_key(|queue| queue.bytes());
        let Some(longest) = longest.filter(|queue| queue.bytes() > 0) else { return false };
        let half = longest.bytes() / 2;
        for _ in 0..DROP_BATCH {
            let Some(packet) = longest.pop() else { break };
            drop(packet);
            if longest.bytes() <= half {
                break;
            }
        }
        true
    }
}

/// Maximum packets dropped at once from the longest queue (section 4.1).
const DROP_BATCH: usize = 64;
