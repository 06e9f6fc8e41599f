//! What readers may leave unread of a tunnel, and whose stream ends when that is nearly all.
//!
//! The memory for unread bytes is one window of the whole connection of QUIC. Each stream has a window within it, which is as
//! large as the path needs, whether its reader reads or not: some dozen readers that are silent use up all of it, and then no
//! stream gets another byte. So the less there is left, the shorter is the silence that a reader may keep.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use perigee_units::Time;
use quinn_proto::ConnectionHandle;

use crate::slab::Key;

/// The memory for what is unread of each connection between boxes.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes, of each connection.
    held: u64,
    /// Bytes that a stream may leave unread.
    window: u64,
    /// When readers are looked at next; `None` where there is memory enough, until one more falls behind.
    next: Option<Time>,
}

impl Room {
    pub(crate) fn new(held: u64, window: u64) -> Self {
        Self { held, window, next: None }
    }

    /// When [`Room::victims`] is to be asked.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    /// The memory of a connection that holds so many bytes. Of a stream whose reader is behind it is the whole window, which the
    /// other box may fill.
    pub(crate) fn count(&mut self, held: usize, is_behind: bool, now: Time) -> usize {
        if !is_behind {
            return held;
        }
        self.next.get_or_insert(now + LOOK);
        held + self.window as usize
    }

    /// Whose streams end, of those whose readers are behind: with the time that each has taken nothing. The longest silence ends
    /// first, and only as many as it takes.
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

    /// How long a reader may be silent where so many bytes may be unread; `None`: as long as it likes.
    ///
    /// It falls from [`PATIENCE`] at half of the memory to [`LEAST_PATIENCE`] at three quarters. The last quarter is for
    /// readers that read: QUIC tells the other box of room by eighths.
    fn patience(&self, unread: u64) -> Option<Time> {
        let over = unread.checked_sub(self.held / 2).filter(|over| *over > 0)?;
        let span = (self.held / 4).max(1);
        let left = span.saturating_sub(over);
        let more = u128::from((PATIENCE - LEAST_PATIENCE).as_nanos()) * u128::from(left) / u128::from(span);
        Some(LEAST_PATIENCE + Time::from_nanos(more as u64))
    }
}

/// Time between two looks at the readers.
const LOOK: Time = Time::from_millis(250);
/// Silence of a reader at which its stream may end, where half of the memory is used and where three quarters are.
const PATIENCE: Time = Time::from_secs(10);
const LEAST_PATIENCE: Time = Time::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    /// A room of 16 windows, and readers of one peer that have been silent for so many seconds.
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
        // At twelve windows a second is too long; at nine more than seven seconds.
        assert_eq!(victims(&[0, 2, 30, 0, 2, 0, 0, 9, 0, 0, 0, 0]), vec![2, 7]);
        assert!(victims(&[0; 100]).is_empty());
    }
}
