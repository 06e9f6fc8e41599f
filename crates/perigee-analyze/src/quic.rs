//! QUIC as the outside of a datagram tells (RFC 8999, RFC 9000 section 17): a long header, with the first bytes of a version.

/// A long header, by the first four bytes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongHeader {
    /// Place of its version in [`VERSIONS`].
    pub(crate) version: usize,
    /// A server asks the client to begin again (RFC 9000, section 17.2.5).
    pub(crate) is_retry: bool,
}

impl LongHeader {
    /// `None`: not one of QUIC.
    pub(crate) fn of(first_bytes: u32) -> Option<Self> {
        let (flags, version) = (first_bytes >> 24, first_bytes & 0x00ff_ffff);
        let version = VERSIONS.iter().position(|(start, _)| *start == version)?;
        (flags & LONG == LONG).then_some(Self { version, is_retry: flags & TYPE == RETRY })
    }
}

/// First three bytes of the version of a long header, and what it is called: RFC 9000, RFC 9369, drafts before.
pub(crate) const VERSIONS: [(u32, &str); 3] =
    [(0x00_0000, "version 1"), (0x6b_3343, "version 2"), (0xff_0000, "a draft")];
/// Bits of the form and the fixed bit.
const LONG: u32 = 0xc0;
const TYPE: u32 = 0x30;
const RETRY: u32 = 0x30;
