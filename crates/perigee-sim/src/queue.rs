//! The event queue: at most one pending event for each source, in a total order.
//!
//! The least keys (time, source) stand in order, and all others behind them in an indexed four-ary heap. A source is a link, an
//! endpoint, an application or the recorder; each has one next instant, so two events never share a key and the order is total
//! without a sequence number. The links of a path take turns at the front: their events move by a place or two of the ordered
//! part, and the heap, with the timers and instants that lie far ahead, is not touched.

use perigee_units::Time;

/// The pending events of sources that are numbered from 0.
#[derive(Debug)]
pub struct EventQueue {
    /// The least [`SORTED`] keys in order, the others in heap order, then [`NEVER`]: a node always has all its children.
    keys: Vec<u128>,
    len: usize,
    /// Where each source's key is, or [`ABSENT`].
    place: Vec<u32>,
}

impl EventQueue {
    /// An empty queue for sources `0..sources`.
    pub fn new(sources: usize) -> Self {
        Self { keys: vec![NEVER; sources + SORTED + ARITY], len: 0, place: vec![ABSENT; sources] }
    }

    /// Adds a source; returns its number.
    pub fn add_source(&mut self) -> u32 {
        self.keys.push(NEVER);
        self.place.push(ABSENT);
        self.place.len() as u32 - 1
    }

    /// The earliest event; of several at one instant, that of the source with the lowest number.
    #[inline]
    pub fn first(&self) -> Option<(Time, u32)> {
        self.keys.first().filter(|key| **key != NEVER).map(|key| (time_of(*key), source_of(*key)))
    }

    /// How many sources have an event.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no source has an event.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When the event of `source` is due; `None` where it has none.
    #[inline]
    pub fn due(&self, source: u32) -> Option<Time> {
        self.keys.get(self.place[source as usize] as usize).map(|key| time_of(*key))
    }

    /// Gives `source` an event at `at`, in the place of the one it has.
    #[inline]
    pub fn set(&mut self, source: u32, at: Time) {
        let key = key_of(source, at);
        let place = self.place[source as usize];
        if place == ABSENT {
            self.len += 1;
            self.move_forward(self.len - 1, key);
        } else if key > self.keys[place as usize] {
            self.move_back(place as usize, key);
        } else {
            self.move_forward(place as usize, key);
        }
    }

    /// Gives the source of the first event one at `at`, no earlier, in its place.
    #[inline]
    pub fn move_first(&mut self, at: Time) {
        let source = source_of(self.keys[0]);
        self.move_back(0, key_of(source, at));
    }

    /// Takes the event of `source` away, if it has one.
    #[inline]
    pub fn remove(&mut self, source: u32) {
        let place = std::mem::replace(&mut self.place[source as usize], ABSENT);
        if place == ABSENT {
            return;
        }
        self.len -= 1;
        let last = std::mem::replace(&mut self.keys[self.len], NEVER);
        let place = place as usize;
        if place < self.len {
            if last > self.keys[place] {
                self.move_back(place, last);
            } else {
                self.move_forward(place, last);
            }
        }
    }

    /// Puts a key at or before the place `at`, which is free.
    #[inline]
    fn move_forward(&mut self, mut at: usize, key: u128) {
        while at > 0 {
            let before = if at > SORTED { SORTED + (at - SORTED - 1) / ARITY } else { at - 1 };
            let other = self.keys[before];
            if other <= key {
                break;
            }
            self.put(at, other);
            at = before;
        }
        self.put(at, key);
    }

    /// Puts a key at or behind the place `at`, which is free.
    #[inline]
    fn move_back(&mut self, mut at: usize, key: u128) {
        while at < SORTED {
            // Behind the last one in order stands the root of the heap.
            let next = self.keys[at + 1];
            if key <= next {
                return self.put(at, key);
            }
            self.put(at, next);
            at += 1;
        }
        self.sift_down(at, key);
    }

    fn sift_down(&mut self, mut at: usize, key: u128) {
        loop {
            let first = SORTED + ARITY * (at - SORTED) + 1;
            if first >= self.len {
                break;
            }
            let Some(children) = self.keys.get(first..).and_then(|rest| rest.first_chunk::<ARITY>()) else { break };
            // Three comparisons without branches: which child is least cannot be foretold.
            let left = usize::from(children[1] < children[0]);
            let right = 2 + usize::from(children[3] < children[2]);
            let child = if children[right] < children[left] { right } else { left };
            let least = children[child];
            if key <= least {
                break;
            }
            self.put(at, least);
            at = first + child;
        }
        self.put(at, key);
    }

    #[inline]
    fn put(&mut self, at: usize, key: u128) {
        self.keys[at] = key;
        self.place[source_of(key) as usize] = at as u32;
    }
}

#[inline]
fn key_of(source: u32, at: Time) -> u128 {
    u128::from(at.as_nanos()) << 64 | u128::from(source)
}

#[inline]
fn time_of(key: u128) -> Time {
    Time::from_nanos((key >> 64) as u64)
}

#[inline]
fn source_of(key: u128) -> u32 {
    key as u32
}

/// Keys in order: the two links at the ends of two flows, say.
const SORTED: usize = 4;
/// Children of a node: four keys are one cache line.
const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;
/// After every event.
const NEVER: u128 = u128::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_event_is_always_the_least_of_time_and_source(
            changes in prop::collection::vec((0u32..40, prop::option::weighted(0.8, 0u64..50)), 1..400)
        ) {
            let mut queue = EventQueue::new(40);
            let mut model = [None; 40];
            for (source, at) in changes {
                match at {
                    Some(at) => queue.set(source, Time::from_nanos(at)),
                    None => queue.remove(source),
                }
                model[source as usize] = at;
                let least = (0u32..).zip(model).filter_map(|(s, at)| at.map(|at| (Time::from_nanos(at), s))).min();
                prop_assert_eq!(queue.first(), least);
                prop_assert_eq!(queue.due(source), at.map(Time::from_nanos));
            }
        }
    }
}
