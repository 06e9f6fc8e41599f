//! The packets of datagrams: the key `packet`, and the check that they fit on their links.

use perigee_link::Ecn;
use perigee_text::{Reader, StrictError};
use perigee_units::Bytes;
use perigee_wire::IpVersion;

/// The packets of a flow, as far as its name, its version of IP and its links decide.
#[derive(Clone, Copy)]
pub(crate) struct Packets<'a> {
    pub(crate) flow: &'a str,
    pub(crate) ip: IpVersion,
    /// Largest packet of the links on both ways; `None`: as large as any.
    pub(crate) path_mtu: Option<u16>,
}

/// The size of packets: it has room for their headers, and fits on their links.
pub(crate) fn packet(table: &Reader<'_>, packets: Packets<'_>) -> Result<Bytes, StrictError> {
    let (packet, least) = (table.get::<Bytes>("packet")?, u64::from(packets.ip.header_bytes()) + 8);
    if packet.as_u64() < least {
        let message = format!("flow `{}`: packets of {packet} have no room for the headers of `v6`", packets.flow);
        return Err(table.error("packet", message, format!("give them {least} B or more")));
    }
    fits(table, packet, packets)
}

/// Low priority, as a flow names it.
pub(crate) const LOW: &str = "low";

/// The ECN field of the packets.
pub(crate) fn ecn(table: &Reader<'_>) -> Result<Ecn, StrictError> {
    match (table.get("ecn")?, table.get("l4s")?) {
        (true, true) => Ok(Ecn::L4s),
        (true, false) => Ok(Ecn::Capable),
        (false, false) => Ok(Ecn::NotCapable),
        (false, true) => Err(table.error("l4s", "`l4s` is without effect while ecn = false", "add ecn = true")),
    }
}

/// Refuses packets that do not fit on a link of their path.
pub(crate) fn fits(table: &Reader<'_>, packet: Bytes, packets: Packets<'_>) -> Result<Bytes, StrictError> {
    let Packets { flow, path_mtu, .. } = packets;
    if let Some(mtu) = path_mtu.filter(|mtu| packet.as_u64() > u64::from(*mtu)) {
        let message = format!("flow `{flow}`: packets of {packet} do not fit on a link on their way");
        return Err(table.error("packet", message, format!("give them {mtu} B or less, or raise the link's `mtu`")));
    }
    Ok(packet)
}
