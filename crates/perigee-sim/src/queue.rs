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
    /// The least keys in order, then [`NEVER`] where there are no more.
    front: [u128; FRONT],
    /// All others in heap order, none before those in front, then [`NEVER`]: a node always has all its children.
    heap: Vec<u128>,
    /// How many are in the heap.
    behind: usize,
    /// Where each source's key is in the heap, [`IN_FRONT`], or [`ABSENT`].
    place: Vec<u32>,
}

impl EventQueue {
    /// An empty queue for sources `0..sources`.
    pub fn new(sources: usize) -> Self {
        Self { front: [NEVER; FRONT], heap: vec![NEVER; sources + 1 + ARITY], behind: 0, place: vec![ABSENT; sources] }
    }

    /// Adds a source; returns its number.
    pub fn add_source(&mut self) -> u32 {
        self.heap.push(NEVER);
        self.place.push(ABSENT);
        self.place.len() as u32 - 1
    }

    /// The earliest event; of several at one instant, that of the source with the lowest number.
    #[inline]
    pub fn first(&self) -> Option<(Time, u32)> {
        let key = self.front[0];
        (key != NEVER).then(|| (time_of(key), source_of(key)))
    }

    /// Whether an event of `source` at `at` would be the first one, but for that of another source, which does not count.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub fn would_be_first(&self, source: u32, at: Time, but_for: u32) -> bool {
        let place = usize::from(source_of(self.front[0]) == but_for);
        key_of(source, at) < self.front[place]
    }

    /// How many sources have an event.
    pub fn len(&self) -> usize {
        self.behind + self.front.iter().filter(|key| **key != NEVER).count()
    }

    /// Whether no source has an event.
    pub fn is_empty(&self) -> bool {
        self.front[0] == NEVER
    }

    /// When the event of `source` is due; `None` where it has none.
    #[inline]
    pub fn due(&self, source: u32) -> Option<Time> {
        match self.place[source as usize] {
            ABSENT => None,
            IN_FRONT => Some(time_of(self.front[self.place_in_front(source)])),
            place => Some(time_of(self.heap[place as usize])),
        }
    }

    /// Gives `source` an event at `at`, in the place of the one it has.
    #[inline]
    pub fn set(&mut self, source: u32, at: Time) {
        let key = key_of(source, at);
        match self.place[source as usize] {
            ABSENT if key < self.front[FRONT - 1] => self.insert_in_front(source, key),
            ABSENT => {
                self.behind += 1;
                self.sift_up(self.behind - 1, key);
            }
            IN_FRONT => self.move_in_front(self.place_in_front(source), key),
            place => self.move_in_heap(place as usize, source, key),
        }
    }

    /// Gives the source of the first event one at `at`, no earlier, in its place.
    #[inline]
    pub fn move_first(&mut self, at: Time) {
        let key = key_of(source_of(self.front[0]), at);
        self.move_back(0, key);
    }

    /// Takes the event of `source` away, if it has one.
    #[inline]
    pub fn remove(&mut self, source: u32) {
        match std::mem::replace(&mut self.place[source as usize], ABSENT) {
            ABSENT => {}
            IN_FRONT => {
                let at = self.place_in_front(source);
                self.front.copy_within(at + 1.., at);
                self.front[FRONT - 1] = NEVER;
                if self.behind > 0 {
                    self.front[FRONT - 1] = self.heap[0];
                    self.place[source_of(self.heap[0]) as usize] = IN_FRONT;
                    self.remove_from_heap(0);
                }
            }
            place => self.remove_from_heap(place as usize),
        }
    }

    fn place_in_front(&self, source: u32) -> usize {
        self.front.iter().position(|key| source_of(*key) == source).unwrap_or(0)
    }

    /// Puts the key of a source that has none in front; the last one there goes behind.
    fn insert_in_front(&mut self, source: u32, key: u128) {
        let last = self.front[FRONT - 1];
        self.place[source as usize] = IN_FRONT;
        self.move_forward(FRONT - 1, key);
        if last != NEVER {
            self.behind += 1;
            self.sift_up(self.behind - 1, last);
        }
    }

    /// Gives the key at a place in front another value.
    #[inline]
    fn move_in_front(&mut self, at: usize, key: u128) {
        if key > self.front[at] {
            self.move_back(at, key);
        } else {
            self.move_forward(at, key);
        }
    }

    /// Puts a key in front at or before the place `at`, which is free.
    #[inline]
    fn move_forward(&mut self, mut at: usize, key: u128) {
        while at > 0 && key < self.front[at - 1] {
            self.front[at] = self.front[at - 1];
            at -= 1;
        }
        self.front[at] = key;
    }

    /// Puts a key, whose source counts as one in front, at or behind the place `at` there, which is free.
    #[inline]
    fn move_back(&mut self, mut at: usize, key: u128) {
        while at + 1 < FRONT {
            let next = self.front[at + 1];
            if key <= next {
                self.front[at] = key;
                return;
            }
            self.front[at] = next;
            at += 1;
        }
        let first_behind = self.heap[0];
        if key <= first_behind {
            self.front[FRONT - 1] = key;
            return;
        }
        self.front[FRONT - 1] = first_behind;
        self.place[source_of(first_behind) as usize] = IN_FRONT;
        self.sift_down(0, key);
    }

    /// Gives the key at a place in the heap another value.
    fn move_in_heap(&mut self, at: usize, source: u32, key: u128) {
        let last = self.front[FRONT - 1];
        if key < last {
            self.place[source as usize] = IN_FRONT;
            self.move_forward(FRONT - 1, key);
            self.sift_up(at, last);
        } else if key > self.heap[at] {
            self.sift_down(at, key);
        } else {
            self.sift_up(at, key);
        }
    }

    /// Closes the gap that a key leaves in the heap.
    fn remove_from_heap(&mut self, at: usize) {
        self.behind -= 1;
        let last = std::mem::replace(&mut self.heap[self.behind], NEVER);
        if at < self.behind {
            if last > self.heap[at] {
                self.sift_down(at, last);
            } else {
                self.sift_up(at, last);
            }
        }
    }

    /// Puts a key at or above the place `at` of the heap, which is free.
    fn sift_up(&mut self, mut at: usize, key: u128) {
        while at > 0 {
            let above = (at - 1) / ARITY;
            let other = self.heap[above];
            if other <= key {
                break;
            }
            self.put(at, other);
            at = above;
        }
        self.put(at, key);
    }

    /// Puts a key at or below the place `at` of the heap, which is free.
    fn sift_down(&mut self, mut at: usize, key: u128) {
        loop {
            let first = ARITY * at + 1;
            if first >= self.behind {
                break;
            }
            let Some(children) = self.heap.get(first..).and_then(|rest| rest.first_chunk::<ARITY>()) else { break };
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
        self.heap[at] = key;
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

/// Keys in front: the two links at the ends of two flows, say.
const FRONT: usize = 4;
/// Children of a node: four keys are one cache line.
const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;
/// In the place of a place in the heap: the key is in front.
const IN_FRONT: u32 = u32::MAX - 1;
/// After every event.
const NEVER: u128 = u128::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_event_is_always_the_least_of_time_and_source(
            changes in prop::collection::vec((0u32..40, prop::option::weighted(0.8, 0u64..50), any::<bool>()), 1..400)
        ) {
            let mut queue = EventQueue::new(40);
            let mut model = [None; 40];
            for (mut source, mut at, is_first) in changes {
                match at {
                    Some(later) if is_first && !queue.is_empty() => {
                        let (due, first) = queue.first().unwrap();
                        (source, at) = (first, Some(due.as_nanos() + later));
                        queue.move_first(due + Time::from_nanos(later));
                    }
                    Some(at) => queue.set(source, Time::from_nanos(at)),
                    None => queue.remove(source),
                }
                model[source as usize] = at;
                let least = (0u32..).zip(model).filter_map(|(s, at)| at.map(|at| (Time::from_nanos(at), s))).min();
                prop_assert_eq!(queue.first(), least);
                prop_assert_eq!(queue.len(), model.iter().flatten().count());
                prop_assert_eq!(queue.due(source), at.map(Time::from_nanos));
            }
        }
    }
}
