//! The send stream in sequence space, and the peer's window.

use perigee_units::nearest_position;

/// Positions of the stream: bytes since the initial sequence number, as 64-bit integers that do not wrap.
///
/// `una <= nxt`, and only the FIN moves `nxt` past `written`. The SYN occupies position 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendStream {
    /// Initial sequence number.
    iss: u32,
    /// SND.UNA.
    pub(crate) una: u64,
    /// SND.NXT.
    pub(crate) nxt: u64,
    /// End of the data written by the application.
    pub(crate) written: u64,
    /// The application has closed the stream: a FIN follows.
    pub(crate) fin_queued: bool,
    /// The stream was closed in this turn, before which the data written leave as far as they may: the FIN joins none of those.
    pub(crate) fin_apart: bool,
    /// End of the last small segment sent (Linux's `snd_sml`).
    pub(crate) small_end: u64,
    /// End of the large segment that the peer's window has split, if that is ahead: the next train ends there.
    pub(crate) split_end: u64,
}

impl SendStream {
    pub(crate) fn new() -> Self {
        Self { iss: 0, una: 0, nxt: 0, written: 1, fin_queued: false, fin_apart: false, small_end: 0, split_end: 0 }
    }

    /// Sets the initial sequence number of a stream from which nothing has been sent.
    pub(crate) fn begin(&mut self, iss: u32) {
        self.iss = iss;
    }

    /// The sequence number of a position.
    #[inline]
    pub(crate) fn to_wire(self, position: u64) -> u32 {
        self.iss.wrapping_add(position as u32)
    }

    /// The position of a sequence number, the one nearest to SND.UNA.
    #[inline]
    pub(crate) fn position(&self, sequence: u32) -> Option<u64> {
        nearest_position(sequence.wrapping_sub(self.iss), self.una)
    }

    /// Payload bytes acknowledged by the peer.
    #[inline]
    pub(crate) fn acked_payload(&self) -> u64 {
        self.una.min(self.written).saturating_sub(1)
    }

    /// Payload bytes written and not acknowledged by the peer. The SYN has none.
    #[inline]
    pub(crate) fn unacked_payload(&self) -> u64 {
        self.written.saturating_sub(self.una.max(FIRST_BYTE))
    }

    /// Whether the FIN, and thus all data, is acknowledged.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.fin_queued && self.una > self.written
    }

    /// Whether a segment with `len` bytes of payload from `start` on carries the FIN.
    #[inline]
    pub(crate) fn ends_with_fin(&self, start: u64, len: u64) -> bool {
        self.fin_queued && start + len == self.written && start > 0 && !(self.fin_apart && len > 0)
    }

    pub(crate) fn drop_unsent(&mut self) {
        self.written = self.nxt.max(1);
    }

    #[inline]
    pub(crate) fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.nxt)
    }

    /// Whether data, the SYN or the FIN have yet to be sent for the first time.
    #[inline]
    pub(crate) fn has_new_data(&self) -> bool {
        self.nxt < self.written || (self.fin_queued && self.nxt == self.written) || self.nxt == 0
    }

    /// Payload of the next new segment, bytes; 0 for the SYN.
    #[inline]
    pub(crate) fn next_payload(&self, mss: u32) -> u64 {
        if self.nxt == 0 {
            0
        } else {
            self.unsplit().min(u64::from(mss))
        }
    }

    /// Unsent bytes up to the end of a large segment that the peer's window has split, or all of them.
    #[inline]
    pub(crate) fn unsplit(&self) -> u64 {
        self.split_or(self.written).saturating_sub(self.nxt)
    }

    /// Whether the next data are the rest of a large segment that the peer's window has split.
    #[inline]
    pub(crate) fn is_split(&self) -> bool {
        self.split_end > self.nxt
    }

    /// The end of the large segment that the peer's window has split, if that is ahead and below `limit`, else `limit`.
    #[inline]
    pub(crate) fn split_or(&self, limit: u64) -> u64 {
        if self.is_split() {
            limit.min(self.split_end)
        } else {
            limit
        }
    }

    /// The peer's window has ended here in a large segment. Large segments hold `size` bytes each.
    pub(crate) fn split(&mut self, size: u64) {
        self.split_end = FIRST_BYTE + (self.nxt - FIRST_BYTE).next_multiple_of(size);
    }
}

/// Data that the application has written ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendBuffer {
    /// End of the data in the buffer.
    pub(crate) end: u64,
    /// SND.UNA from which the application may write on; a lower bound. `u64::MAX`: it has written everything.
    pub(crate) wake: u64,
    /// Memory at which the application has to wait, bytes (Linux's `sk_sndbuf`).
    pub(crate) limit: u64,
    /// A buffer that the application keeps of its own, as a proxy does, is full.
    pub(crate) is_full: bool,
}

impl SendBuffer {
    pub(crate) fn new(limit: u64) -> Self {
        Self { end: FIRST_BYTE, wake: 0, limit, is_full: false }
    }
}

/// Position of the first byte, after the SYN.
pub(crate) const FIRST_BYTE: u64 = 1;

/// The window advertised by the peer. Its right edge never moves back (RFC 9293, section 3.8.6).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerWindow {
    /// Position of its right edge.
    pub(crate) end: u64,
    /// Size advertised last, bytes.
    pub(crate) bytes: u32,
    /// Largest size, bytes, tracked while it limits the segment size.
    pub(crate) largest: u32,
}

impl PeerWindow {
    pub(crate) fn new() -> Self {
        Self { end: 1, bytes: 0, largest: 0 }
    }

    /// Takes the window of a segment; returns whether that is a window update.
    #[inline]
    pub(crate) fn take(&mut self, ack: u64, bytes: u32, advanced: bool) -> bool {
        let end = ack + u64::from(bytes);
        let is_update = advanced || end > self.end;
        if is_update || bytes > self.bytes {
            self.end = self.end.max(end);
            self.bytes = bytes;
        }
        is_update
    }

    /// Segment payload, bounded to half of the largest window so that two segments fit (`tcp_bound_to_half_wnd`), except for tiny windows.
    /// `full` is the negotiated payload and `header` the length of the TCP header.
    pub(crate) fn bounded_segment(&mut self, full: u32, header: u32) -> u32 {
        self.largest = self.largest.max(self.bytes);
        let most = if self.largest > DEFAULT_MSS { self.largest / 2 } else { self.largest };
        if most == 0 {
            return full;
        }
        full.min(most.max(LEAST_MTU.saturating_sub(header)))
    }
}

/// MSS if none is announced (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u32 = 536;
/// Minimum MTU of IPv4 (RFC 791).
const LEAST_MTU: u32 = 68;
