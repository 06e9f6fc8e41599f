//! Where the segments of an endpoint become packets.

use perigee_tcp::Header;

use crate::compact::Bare;

/// Puts the segments of an endpoint into packets.
#[derive(Clone, Copy)]
pub(crate) struct Outlet {
    pub(crate) way: u32,
    /// Length of the IP header, bytes.
    pub(crate) ip_header: u16,
}

impl Outlet {
    /// The packet of a segment without rare options.
    #[inline]
    pub(crate) fn packet(self, header: &Header) -> Bare<'_> {
        Bare::new(header, self.way, self.ip_header + header.plain_bytes() + header.len)
    }
}
