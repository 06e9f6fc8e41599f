//! The waits of a relay between two advances.

use super::{Relay, Side};

/// The wait of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It has ended, or waits for its turn.
    #[default]
    Nothing,
    /// Bytes to read.
    Bytes,
    /// Room for those that it has read.
    Room,
}

impl Relay {
    /// The wait of the direction from a side after an advance that left `held` bytes of it.
    pub(crate) fn wait(&self, from: Side, held: usize) -> Wait {
        let (source, sink) = (&self.sides[from as usize], &self.sides[from.opposite() as usize]);
        let is_over = source.is_finished || sink.failure.is_some();
        match (held > 0, source.is_readable || source.has_ended) {
            _ if is_over => Wait::Nothing,
            (true, _) if !sink.is_writable => Wait::Room,
            (false, false) => Wait::Bytes,
            _ => Wait::Nothing,
        }
    }
}
