//! Bounds what is buffered for a reader that has not yet shown that it reads.
//!
//! Linux lets a receive buffer grow with what is read from it, by far more than was read, and never shrink; a send buffer grows
//! with what was sent. A proxy that takes at once all that arrives leaves megabytes in them for a reader that then takes nothing. So
//! until a reader has taken [`PROOF`], it gets small pieces; while more than a piece waits, the buffer where it waits does not grow;
//! and once its own socket has taken no more, few bytes wait there unsent. A source that is behind, and what is in flight, has no
//! bound.

use std::os::fd::AsFd;

use crate::host::sys::{buffer_locks, limit_unsent, lock_buffers, unsent_limit, RECEIVE_BUFFER};

/// A reader of a direction that has not shown yet that it reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Untried {
    /// Bytes that its socket has taken, since it first took no more if it has.
    taken: u32,
    /// The locks of the source's buffers before ours.
    locks: Option<i32>,
    unsent: Unsent,
}

/// Who limits the unsent bytes of a reader's socket.
#[derive(Clone, Copy, Debug, Default)]
enum Unsent {
    /// Nobody yet, beside the settings of its leg.
    #[default]
    Leg,
    /// We do; the limit of its leg.
    Here(u32),
    /// The thread that divides the link.
    Link,
}

impl Untried {
    /// A reader whose socket is on the link that is divided.
    pub(crate) fn on_link() -> Self {
        Self { unsent: Unsent::Link, ..Self::default() }
    }

    /// The source was read: a whole piece, so that more may wait, or less. A bound that the kernel refuses is missing, no more.
    pub(crate) fn arrive(&mut self, has_more: bool, source: impl AsFd) {
        match self.locks {
            None if has_more => {
                let own = buffer_locks(&source).ok().filter(|locks| locks & RECEIVE_BUFFER == 0);
                self.locks = own.filter(|locks| lock_buffers(source, locks | RECEIVE_BUFFER).is_ok());
            }
            Some(locks) if !has_more => {
                let _ = lock_buffers(source, locks);
                self.locks = None;
            }
            _ => {}
        }
    }

    /// Its socket takes no more.
    pub(crate) fn refuse(&mut self, sink: impl AsFd) {
        if !matches!(self.unsent, Unsent::Leg) {
            return;
        }
        self.taken = 0;
        let own = unsent_limit(&sink).unwrap_or(0);
        if own == 0 || own > UNSENT {
            let _ = limit_unsent(sink, UNSENT);
        }
        self.unsent = Unsent::Here(own);
    }

    /// Its socket has taken bytes; true: it reads, and the bounds are lifted.
    pub(crate) fn take(&mut self, bytes: usize, source: impl AsFd, sink: impl AsFd) -> bool {
        self.taken = self.taken.saturating_add(bytes as u32);
        let reads = self.taken >= if matches!(self.unsent, Unsent::Here(_)) { PROOF } else { UNREFUSED };
        if reads {
            self.arrive(false, source);
            if let Unsent::Here(own) = self.unsent {
                let _ = limit_unsent(sink, own);
            }
        }
        reads
    }
}

/// Bytes that it gets at a time.
pub(crate) const PIECE: usize = 16 << 10;
/// Bytes that prove a reader, after its socket took no more: more than its kernel holds for one that does not, unless that has a
/// large buffer of its own.
pub(crate) const PROOF: u32 = 256 << 10;
/// Bytes that prove one whose socket has always found room: more, since the send buffer of the socket takes its part, that of 10 segments
/// of 9000 bytes and what those acknowledge.
const UNREFUSED: u32 = 4 * PROOF;
/// Bytes that wait unsent for one that took no more: enough for the next acknowledgements.
const UNSENT: u32 = 64 << 10;
