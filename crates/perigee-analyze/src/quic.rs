//! What the outside of a datagram tells of QUIC (RFC 8999, RFC 9000 section 17): a long header, with the first bytes of a version.

/// A header of QUIC by the first four bytes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Of the handshake, with the version's place in [`VERSIONS`].
    Long(usize),
    /// After the handshake, if the connection is one of QUIC.
    Short,
}

impl Header {
    /// `None`: not one of QUIC.
    pub(crate) fn of(first_bytes: u32) -> Option<Self> {
        let (flags, version) = (first_bytes >> 24, first_bytes & 0x00ff_ffff);
        match flags & (LONG | FIXED) {
            both if both == LONG | FIXED => VERSIONS.iter().position(|(start, _)| *start == version).map(Self::Long),
            FIXED => Some(Self::Short),
            _ => None,
        }
    }
}

/// First three bytes of the version of a long header, and what it is called: RFC 9000, RFC 9369, drafts before.
pub(crate) const VERSIONS: [(u32, &str); 3] =
    [(0x00_0000, "version 1"), (0x6b_3343, "version 2"), (0xff_0000, "a draft")];
const LONG: u32 = 0x80;
const FIXED: u32 = 0x40;
