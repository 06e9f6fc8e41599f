//! A TCP segment as a value: the header fields that the endpoint uses, and the length of the payload.

use std::ops::{Deref, DerefMut};

/// Maximum number of SACK blocks beside the timestamps option (RFC 2018, section 3).
pub const MAX_SACK_BLOCKS: usize = 3;

/// Header flags (RFC 9293, section 3.1) in wire order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u8);

#[allow(missing_docs, reason = "the names are the RFC's")]
impl Flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    /// The packet has low priority: a DSCP, kept in the place of URG, which no segment here has.
    pub const LOW: u8 = 0x20;
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;

    /// Whether all of `bits` are set.
    #[inline]
    pub const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
}

/// The fields that every segment carries: a header without the rare options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Advertised window in bytes, scaling applied.
    pub window: u32,
    /// Timestamp value, ms.
    pub tsval: u32,
    /// Timestamp echo, ms.
    pub tsecr: u32,
    /// Payload bytes.
    pub len: u16,
    /// Flags.
    pub flags: Flags,
    /// Whether the timestamps option is present.
    pub timestamps: bool,
}

impl Header {
    /// Whether the segment is a pure ACK.
    #[inline]
    pub fn is_acknowledgement(&self) -> bool {
        self.flags.0 & !Flags::ECE == Flags::ACK && self.len == 0
    }

    /// Length of the TCP header on the wire, in bytes, without rare options.
    #[inline]
    pub fn plain_bytes(&self) -> u16 {
        if self.timestamps {
            32
        } else {
            20
        }
    }
}

/// Segments of one size, in sequence, in sequence, that leave at one instant or wait together.
#[derive(Clone, Copy, Debug)]
pub struct Train {
    /// Header of the first segment.
    pub first: Header,
    /// Number of segments.
    pub segments: u32,
    /// The last segment has PSH.
    pub is_pushed: bool,
}

impl Train {
    /// A single segment.
    #[inline(always)]
    #[must_use]
    pub fn of(first: Header) -> Self {
        Self { first, segments: 1, is_pushed: false }
    }

    /// Takes up to `most` segments off the front.
    #[inline(always)]
    #[must_use]
    pub fn take_first(&mut self, most: u32) -> Self {
        let segments = self.segments.min(most);
        let part = Self { segments, is_pushed: self.is_pushed && segments == self.segments, ..*self };
        self.first.seq = self.first.seq.wrapping_add(segments * u32::from(self.first.len));
        self.segments -= segments;
        part
    }

    /// The header of each segment.
    #[inline(always)]
    pub fn headers(self) -> impl Iterator<Item = Header> {
        let Self { first, segments, is_pushed } = self;
        (0..segments).map(move |number| {
            let push = if is_pushed && number + 1 == segments { Flags::PSH } else { 0 };
            let seq = first.seq.wrapping_add(number.wrapping_mul(u32::from(first.len)));
            Header { seq, flags: Flags(first.flags.0 | push), ..first }
        })
    }
}

/// A segment. It is small enough to copy and is never allocated. Dereferences to its [`Header`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Segment {
    /// The common header.
    pub header: Header,
    /// SACK blocks (start, end); the newest first.
    pub sack: [(u32, u32); MAX_SACK_BLOCKS],
    /// Number of SACK blocks in use.
    pub sack_count: u8,
    /// The packet is ECN-capable (ECT). Only new data are (RFC 3168, section 6.1.5), unless the congestion control needs ECN.
    pub ect: bool,
    /// Maximum segment size option; 0 without SYN.
    pub mss: u16,
    /// Window scale option (shift); only with SYN.
    pub window_scale: Option<u8>,
    /// SACK-permitted option; only with SYN.
    pub sack_permitted: bool,
}

impl Segment {
    /// An empty segment: no payload, flags or options.
    pub const EMPTY: Self = Self {
        header: Header { seq: 0, ack: 0, window: 0, tsval: 0, tsecr: 0, len: 0, flags: Flags(0), timestamps: false },
        sack: [(0, 0); MAX_SACK_BLOCKS],
        sack_count: 0,
        ect: false,
        mss: 0,
        window_scale: None,
        sack_permitted: false,
    };

    /// Whether the segment carries no rare options.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.sack_count == 0 && !self.flags.has(Flags::SYN)
    }

    /// Length of the TCP header on the wire, in bytes, including options.
    #[inline]
    pub fn header_bytes(&self) -> u32 {
        let syn = if self.flags.has(Flags::SYN) { self.opening_bytes() } else { 0 };
        let sack = if self.sack_count > 0 { 4 + 8 * u32::from(self.sack_count) } else { 0 };
        u32::from(self.plain_bytes()) + syn + sack
    }

    /// Bytes of the options that only a SYN carries. As in Linux, SACK-permitted fits into the padding of the timestamps option
    /// (`tcp_syn_options`, `tcp_synack_options`).
    #[cold]
    fn opening_bytes(&self) -> u32 {
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let sack = if self.sack_permitted && !self.timestamps { 4 } else { 0 };
        4 + scale + sack
    }

    /// Length of the IPv4 packet, in bytes.
    #[inline]
    pub fn ip_bytes(&self) -> u32 {
        20 + self.header_bytes() + u32::from(self.len)
    }
}

impl From<Header> for Segment {
    /// A segment with this header and without rare options.
    #[inline]
    fn from(header: Header) -> Self {
        Self { header, ..Self::EMPTY }
    }
}

impl Deref for Segment {
    type Target = Header;
    #[inline]
    fn deref(&self) -> &Header {
        &self.header
    }
}

impl DerefMut for Segment {
    #[inline]
    fn deref_mut(&mut self) -> &mut Header {
        &mut self.header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TCP header length of a SYN with these options and the maximum segment size.
    fn syn(timestamps: bool, window_scale: Option<u8>, sack_permitted: bool) -> u32 {
        let flags = Flags(Flags::SYN);
        let header = Header { flags, timestamps, ..Header::default() };
        Segment { mss: 1460, window_scale, sack_permitted, ..Segment::from(header) }.header_bytes()
    }

    #[test]
    fn a_syn_is_as_long_as_in_linux() {
        assert_eq!(syn(true, Some(7), true), 40, "the SYN of a default host is an IPv4 packet of 60 bytes");
        assert_eq!(syn(true, Some(7), false), 40, "without SACK-permitted the padding remains");
        assert_eq!(syn(false, Some(7), true), 32, "without timestamps, SACK-permitted takes four bytes");
        assert_eq!(syn(true, None, true), 36);
        assert_eq!(syn(false, None, false), 24);
    }
}
