//! The stream in sequence space, and the window that the peer offers for it.

use perigee_units::nearest_position;

/// Positions of the stream: bytes since the initial sequence number, in 64 bits, so that nothing wraps.
///
/// `una <= nxt`, and `nxt` passes `written` only by the FIN. The SYN takes position 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendStream {
    /// Initial sequence number.
    iss: u32,
    /// SND.UNA.
    pub(crate) una: u64,
    /// SND.NXT.
    pub(crate) nxt: u64,
    /// End of what the application has written.
    pub(crate) written: u64,
    /// The application writes no more: a FIN follows.
    pub(crate) fin_queued: bool,
    /// End of the last segment sent that was smaller than a full one (Linux's `snd_sml`).
    pub(crate) small_end: u64,
}

impl SendStream {
    pub(crate) fn new(iss: u32) -> Self {
        Self { iss, una: 0, nxt: 0, written: 1, fin_queued: false, small_end: 0 }
    }

    /// The sequence number of a position.
    #[inline]
    pub(crate) fn to_wire(self, position: u64) -> u32 {
        self.iss.wrapping_add(position as u32)
    }

    /// The position that a sequence number means, near SND.UNA.
    #[inline]
    pub(crate) fn position(&self, sequence: u32) -> Option<u64> {
        nearest_position(sequence.wrapping_sub(self.iss), self.una)
    }

    /// Payload bytes that the peer has acknowledged.
    #[inline]
    pub(crate) fn acked_payload(&self) -> u64 {
        self.una.min(self.written).saturating_sub(1)
    }

    /// Whether the FIN is acknowledged, and with it all that was written.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.fin_queued && self.una > self.written
    }

    /// Drops what was written and not sent.
    pub(crate) fn drop_unsent(&mut self) {
        self.written = self.nxt.max(1);
    }

    /// Bytes written and not sent yet.
    #[inline]
    pub(crate) fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.nxt)
    }

    /// Whether data, the SYN or the FIN wait to be sent for the first time.
    #[inline]
    pub(crate) fn has_new_data(&self) -> bool {
        self.nxt < self.written || (self.fin_queued && self.nxt == self.written) || self.nxt == 0
    }

    /// Payload of the next new segment, bytes; the SYN has none.
    #[inline]
    pub(crate) fn next_payload(&self, mss: u32) -> u64 {
        if self.nxt == 0 {
            0
        } else {
            self.unsent().min(u64::from(mss))
        }
    }
}

/// The window that the peer offers. Its end never moves back (RFC 9293, section 3.8.6).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerWindow {
    /// Position where the window ends.
    pub(crate) end: u64,
    /// Its size as advertised last, bytes.
    pub(crate) bytes: u32,
    /// Its largest size, bytes, for as long as that bounds the segments.
    pub(crate) largest: u32,
}

impl PeerWindow {
    pub(crate) fn new() -> Self {
        Self { end: 1, bytes: 0, largest: 0 }
    }

    /// Takes the window that a segment with this acknowledgement advertises; whether that is news.
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

    /// The payload of a segment that may have `full` bytes: no more than half of the largest window, so that two fit into it
    /// (`tcp_bound_to_half_wnd`), but for tiny windows. `header` is the size of the TCP header.
    pub(crate) fn bounded_segment(&mut self, full: u32, header: u32) -> u32 {
        self.largest = self.largest.max(self.bytes);
        let most = if self.largest > DEFAULT_MSS { self.largest / 2 } else { self.largest };
        if most == 0 {
            return full;
        }
        full.min(most.max(LEAST_MTU.saturating_sub(header)))
    }
}

/// MSS where none is announced (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u32 = 536;
/// Every network carries packets of this size (RFC 791).
const LEAST_MTU: u32 = 68;
