//! Memory for unread bytes of a tunnel, and the choice of streams that end when it runs short.
//!
//! The memory for unread bytes is the window of the whole QUIC connection. Each stream has a window within it, as large as the path
//! needs, whether its reader reads or not: a dozen silent readers use up all of it, and then no stream gets another byte. So the
//! less memory is left, the shorter a reader may stay silent.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use perigee_quic::stack::ConnectionHandle;
use perigee_units::Time;

use crate::event_loop::Key;

/// Memory for unread bytes of each connection between boxes.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes for each connection.
    held: u64,
    /// Bytes that a stream may leave unread.
    window: u64,
    /// When readers are checked next; `None` while memory suffices, until another one falls behind.
    next: Option<Time>,
}

impl Room {
    pub(crate) fn new(held: u64, window: u64) -> Self {
        Self { held, window, next: None }
    }

    /// When [`Room::victims`] is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    /// The memory that a connection with this many held bytes may use. If its reader is behind, that is the whole window, which the
    /// other box may fill.
    pub(crate) fn count(&mut self, held: usize, is_behind: bool, now: Time) -> usize {
        if !is_behind {
            return held;
        }
        self.next.get_or_insert(now + LOOK);
        held + self.window as usize
    }

    /// The streams to end among those whose readers are behind, given the time of each without progress. The longest silence ends
    /// first, and only as many as necessary.
    pub(crate) fn victims(&mut self, behind: Vec<(ConnectionHandle, Time, Key)>, now: Time) -> Vec<Key> {
        self.next = None;
        let mut peers: BTreeMap<ConnectionHandle, Vec<(Time, Key)>> = BTreeMap::new();
        for (peer, silence, key) in behind {
            peers.entry(peer).or_default().push((silence, key));
        }
        let mut victims = Vec::new();
        for mut readers in peers.into_values() {
            readers.sort_unstable_by_key(|(silence, _)| Reverse(*silence));
            let mut left = readers.len() as u64;
            if self.patience(left * self.window).is_some() {
                self.next = Some(now + LOOK);
            }
            for (silence, key) in readers {
                if self.patience(left * self.window).is_none_or(|patience| silence < patience) {
                    break;
                }
                victims.push(key);
                left -= 1;
            }
        }
        victims
    }

    /// How long a reader may be silent if this many bytes may be unread; `None`: without limit.
    ///
    /// It falls from [`PATIENCE`] at half of the memory to [`LEAST_PATIENCE`] at three quarters. The last quarter is for
    /// active readers: QUIC announces room to the other box in eighths.
    fn patience(&self, unread: u64) -> Option<Time> {
        let over = unread.checked_sub(self.held / 2).filter(|over| *over > 0)?;
        let span = (self.held / 4).max(1);
        let left = span.saturating_sub(over);
        let more = u128::from((PATIENCE - LEAST_PATIENCE).as_nanos()) * u128::from(left) / u128::from(span);
        Some(LEAST_PATIENCE + Time::from_nanos(more as u64))
    }
}

/// Time between two checks of the readers.
const LOOK: Time = Time::from_millis(250);
/// Silence after which a stream may end, with half and with three quarters of the memory used.
const PATIENCE: Time = Time::from_secs(10);
const LEAST_PATIENCE: Time = Time::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::slab::Slab;

    /// A room of 16 windows, and readers of one peer that have been silent for the given seconds.
    fn victims(silences: &[u64]) -> Vec<usize> {
        let (mut slab, now) = (Slab::default(), Time::from_secs(100));
        let keys: Vec<Key> = silences.iter().map(|_| slab.insert(())).collect();
        let behind = |(key, silence): (&Key, &u64)| (ConnectionHandle(0), Time::from_secs(*silence), *key);
        let behind = keys.iter().zip(silences).map(behind).collect();
        let victims = Room::new(16_000, 1_000).victims(behind, now);
        victims.iter().map(|key| keys.iter().position(|one| one == key).unwrap()).collect()
    }

    #[test]
    fn half_of_the_memory_is_for_silent_readers_as_long_as_they_like() {
        assert!(victims(&[10_000; 8]).is_empty());
        assert_eq!(victims(&[10_000; 11]).len(), 3);
    }

    #[test]
    fn the_longest_silence_ends_first_and_readers_that_read_keep_their_streams() {
        // At twelve windows a silence of one second is too long; at nine, more than seven seconds.
        assert_eq!(victims(&[0, 2, 30, 0, 2, 0, 0, 9, 0, 0, 0, 0]), vec![2, 7]);
        assert!(victims(&[0; 100]).is_empty());
    }
}
