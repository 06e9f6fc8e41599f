//! The packets of a datagram without secrets (RFC 9000, section 17): headers and where their frames are.

use std::fmt;

/// Bytes that are read from the front.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// A number of two to eight bytes (RFC 9000, section 16).
    pub(super) fn number(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let bytes = self.take(1 << (first >> 6))?;
        let whole = bytes.iter().fold(0, |whole: u64, byte| whole << 8 | u64::from(*byte));
        Some(whole & (u64::MAX >> 2 >> (62 - (8 * bytes.len() - 2))))
    }

    /// A block of bytes behind its length.
    pub(super) fn block(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }
}

/// Bytes as hexadecimal digits.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Types of packets, by their names in qlog, in the order of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Initial,
    Handshake,
    Early,
    Data,
    Retry,
    VersionNegotiation,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Handshake => "handshake",
            Self::Early => "0RTT",
            Self::Data => "1RTT",
            Self::Retry => "retry",
            Self::VersionNegotiation => "version_negotiation",
        }
    }

    /// The packet number space, of packets with a number.
    pub(super) fn space(self) -> Option<usize> {
        match self {
            Self::Initial => Some(0),
            Self::Handshake => Some(1),
            Self::Early | Self::Data => Some(DATA),
            Self::Retry | Self::VersionNegotiation => None,
        }
    }
}

/// A packet of a datagram.
pub(super) struct Packet<'a> {
    pub(super) kind: Kind,
    pub(super) number: Option<u64>,
    pub(super) version: Option<u32>,
    pub(super) destination: &'a [u8],
    pub(super) source: Option<&'a [u8]>,
    /// Bytes in the datagram, header and tag included.
    pub(super) length: usize,
    pub(super) frames: &'a [u8],
}

/// Takes the next packet off a datagram; `next` are the packet numbers that each space would have next. `None` at the end, and where it is
/// none that the stack writes.
pub(super) fn take<'a>(datagram: &mut Bytes<'a>, next: &[u64; SPACES]) -> Option<Packet<'a>> {
    let whole = datagram.0.len();
    let first = datagram.byte()?;
    let mut packet = if first & LONG == 0 { short(datagram)? } else { long(datagram, first)? };
    if let Some(space) = packet.kind.space() {
        let mut body = Bytes(packet.frames);
        let bytes = body.take(usize::from(first & 3) + 1)?;
        packet.number = Some(expand(bytes, next[space]));
        packet.frames = &body.0[..body.0.len().checked_sub(TAG)?];
    }
    packet.length = whole - datagram.0.len();
    Some(packet)
}

/// A packet of the data's phase: it fills the rest of its datagram.
fn short<'a>(datagram: &mut Bytes<'a>) -> Option<Packet<'a>> {
    let destination = datagram.take(IDENTIFIER)?;
    let frames = datagram.take(datagram.0.len())?;
    Some(Packet { kind: Kind::Data, number: None, version: None, destination, source: None, length: 0, frames })
}

fn long<'a>(datagram: &mut Bytes<'a>, first: u8) -> Option<Packet<'a>> {
    let version = u32::from_be_bytes(datagram.take(4)?.try_into().ok()?);
    let length = datagram.byte()?;
    let destination = datagram.take(length.into())?;
    let length = datagram.byte()?;
    let source = datagram.take(length.into())?;
    let kind = match first >> 4 & 3 {
        _ if version == 0 => Kind::VersionNegotiation,
        0 => Kind::Initial,
        1 => Kind::Early,
        2 => Kind::Handshake,
        _ => Kind::Retry,
    };
    if kind == Kind::Initial {
        datagram.block()?;
    }
    let frames = if kind.space().is_some() { datagram.block()? } else { datagram.take(datagram.0.len())? };
    Some(Packet { kind, number: None, version: Some(version), destination, source: Some(source), length: 0, frames })
}

/// The packet number whose last bytes these are (RFC 9000, appendix A.3).
fn expand(bytes: &[u8], next: u64) -> u64 {
    let low = bytes.iter().fold(0, |whole: u64, byte| whole << 8 | u64::from(*byte));
    let window = 1 << (8 * bytes.len());
    let near = (next & !(window - 1)) | low;
    if near + window / 2 <= next {
        near + window
    } else if near > next + window / 2 && near >= window {
        near - window
    } else {
        near
    }
}

/// Packet number spaces, and that of data.
pub(super) const SPACES: usize = 3;
const DATA: usize = 2;
/// Bit of a packet with a long header.
const LONG: u8 = 0x80;
/// Bytes of an identifier of this crate's endpoints, which a short header does not say.
const IDENTIFIER: usize = 8;
/// Bytes of a tag.
const TAG: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_rfc_9000() {
        // Appendices A.1 and A.3.
        let read = |bytes: &[u8]| Bytes(bytes).number();
        assert_eq!(read(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]), Some(151_288_809_941_952_652));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some(494_878_333));
        assert_eq!((read(&[0x7b, 0xbd]), read(&[0x25]), read(&[0x40])), (Some(15_293), Some(37), None));
        assert_eq!(expand(&[0x9b, 0x32], 0xa82f_30eb), 0xa82f_9b32);
    }
}
