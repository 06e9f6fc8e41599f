//! The event queue: at most one pending event per source, in total order.
//!
//! The smallest keys (time, source) are in a sorted array, all others in an indexed four-ary heap. A source is a link, an endpoint, an
//! application or the recorder; each has one next event, so no two events share a key, and the order is total without sequence numbers. The
//! links of a path take turns at the front: their events move by one or two in the array, and the heap, with distant timers and
//! instants, remains untouched.

use perigee_units::Time;

/// The pending events of numbered sources.
#[derive(Debug)]
pub struct EventQueue {
    /// The smallest keys in order, padded with [`NEVER`].
    front: [u128; FRONT],
    /// All other keys in heap order, padded with [`NEVER`] so that a node always has all its children.
    heap: Vec<u128>,
    behind: usize,
    /// Heap index of each source's key, [`IN_FRONT`], or [`ABSENT`].
    index: Vec<u32>,
}

impl EventQueue {
    /// An empty queue for sources `0..sources`.
    pub fn new(sources: usize) -> Self {
        Self { front: [NEVER; FRONT], heap: vec![NEVER; sources + 1 + ARITY], behind: 0, index: vec![ABSENT; sources] }
    }

    /// Adds sources; returns the number of the first.
    pub fn add_sources(&mut self, count: usize) -> u32 {
        let first = self.sources();
        self.heap.resize(self.heap.len() + count, NEVER);
        self.index.resize(self.index.len() + count, ABSENT);
        first
    }

    /// Number of sources.
    pub fn sources(&self) -> u32 {
        self.index.len() as u32
    }

    /// The earliest event; at one instant, that of the lowest source.
    #[inline]
    pub fn first(&self) -> Option<(Time, u32)> {
        let key = self.front[0];
        (key != NEVER).then(|| (time_of(key), source_of(key)))
    }

    /// Whether an event of `source` at `at` would be the first, ignoring that of `but_for`.
    #[inline(always)]
    pub fn would_be_first(&self, source: u32, at: Time, but_for: u32) -> bool {
        let other = usize::from(source_of(self.front[0]) == but_for);
        key_of(source, at) < self.front[other]
    }

    /// Number of sources with an event.
    pub fn len(&self) -> usize {
        self.behind + self.front.iter().filter(|key| **key != NEVER).count()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.front[0] == NEVER
    }

    /// Time of the event of `source`, if it has one.
    #[inline]
    pub fn due(&self, source: u32) -> Option<Time> {
        match self.index[source as usize] {
            ABSENT => None,
            IN_FRONT => Some(time_of(self.front[self.index_in_front(source)])),
            index => Some(time_of(self.heap[index as usize])),
        }
    }

    /// Sets the event of `source` to `at`, replacing any other.
    #[inline]
    pub fn set(&mut self, source: u32, at: Time) {
        let key = key_of(source, at);
        match self.index[source as usize] {
            ABSENT if key < self.front[FRONT - 1] => self.insert_in_front(source, key),
            ABSENT => {
                self.behind += 1;
                self.sift_up(self.behind - 1, key);
            }
            IN_FRONT => self.move_in_front(self.index_in_front(source), key),
            index => self.move_in_heap(index as usize, source, key),
        }
    }

    /// Postpones the first event to `at`.
    #[inline]
    pub fn move_first(&mut self, at: Time) {
        let key = key_of(source_of(self.front[0]), at);
        self.move_back(0, key);
    }

    /// Removes the event of `source`, if it has one.
    #[inline]
    pub fn remove(&mut self, source: u32) {
        match std::mem::replace(&mut self.index[source as usize], ABSENT) {
            ABSENT => {}
            IN_FRONT => {
                let at = self.index_in_front(source);
                self.front.copy_within(at + 1.., at);
                self.front[FRONT - 1] = NEVER;
                if self.behind > 0 {
                    self.front[FRONT - 1] = self.heap[0];
                    self.index[source_of(self.heap[0]) as usize] = IN_FRONT;
                    self.remove_from_heap(0);
                }
            }
            index => self.remove_from_heap(index as usize),
        }
    }

    fn index_in_front(&self, source: u32) -> usize {
        self.front.iter().position(|key| source_of(*key) == source).unwrap_or(0)
    }

    /// Inserts a new key in front; the last key there moves to the heap.
    fn insert_in_front(&mut self, source: u32, key: u128) {
        let last = self.front[FRONT - 1];
        self.index[source as usize] = IN_FRONT;
        self.move_forward(FRONT - 1, key);
        if last != NEVER {
            self.behind += 1;
            self.sift_up(self.behind - 1, last);
        }
    }

    #[inline]
    fn move_in_front(&mut self, at: usize, key: u128) {
        if key > self.front[at] {
            self.move_back(at, key);
        } else {
            self.move_forward(at, key);
        }
    }

    /// Inserts a key in front at the free index `at` or before it.
    #[inline]
    fn move_forward(&mut self, mut at: usize, key: u128) {
        while at > 0 && key < self.front[at - 1] {
            self.front[at] = self.front[at - 1];
            at -= 1;
        }
        self.front[at] = key;
    }

    /// Inserts a key, which is marked as in front, at the free index `at` or behind it.
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
        self.index[source_of(first_behind) as usize] = IN_FRONT;
        self.sift_down(0, key);
    }

    fn move_in_heap(&mut self, at: usize, source: u32, key: u128) {
        let last = self.front[FRONT - 1];
        if key < last {
            self.index[source as usize] = IN_FRONT;
            self.move_forward(FRONT - 1, key);
            self.sift_up(at, last);
        } else if key > self.heap[at] {
            self.sift_down(at, key);
        } else {
            self.sift_up(at, key);
        }
    }

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

    /// Inserts a key at the free index `at` of the heap or above it.
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

    /// Inserts a key at the free index `at` of the heap or below it.
    fn sift_down(&mut self, mut at: usize, key: u128) {
        loop {
            let first = ARITY * at + 1;
            if first >= self.behind {
                break;
            }
            let Some(children) = self.heap.get(first..).and_then(|rest| rest.first_chunk::<ARITY>()) else { break };
            // Three branchless comparisons, since the smallest child is unpredictable.
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
        self.index[source_of(key) as usize] = at as u32;
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

/// Number of keys in front: for instance, the last links of two flows.
const FRONT: usize = 4;
/// Children per node: four keys fill a cache line.
const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;
/// Marks a key in front, instead of a heap index.
const IN_FRONT: u32 = u32::MAX - 1;
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
