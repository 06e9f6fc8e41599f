//! One end of an emulated link, as the kernel sees it: a device with addresses.

use std::io;
use std::net::IpAddr;

use crate::namespace::Namespace;
use crate::netlink::{index, Netlink};
use crate::tun::Tun;

/// A device to be made, with what it is to have.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its name; see [`Tun::new`].
    pub name: String,
    /// Its addresses, each with the prefix length of the network that the other end shares.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Networks beyond the other end: `0.0.0.0/0` makes it the default. Packets into them come from the address that has the same
    /// version.
    pub routes: Vec<(IpAddr, u8)>,
    /// Largest packet, bytes.
    pub mtu: u32,
}

impl Endpoint {
    /// Makes the device in a namespace, with all that belongs to it.
    ///
    /// # Errors
    /// Where the kernel refuses any of it; then nothing is left.
    pub fn create(&self, namespace: &Namespace) -> io::Result<Tun> {
        namespace.enter(|| {
            let tun = Tun::new(&self.name)?;
            let index = index(tun.name())?;
            let mut netlink = Netlink::new()?;
            netlink.up(index, Some((self.mtu, QUEUE)))?;
            for address in &self.addresses {
                netlink.address(index, *address)?;
            }
            for route in &self.routes {
                let same = |(address, _): &&(IpAddr, u8)| address.is_ipv4() == route.0.is_ipv4();
                let Some((source, _)) = self.addresses.iter().find(same) else { continue };
                netlink.route(index, *route, *source, None)?;
            }
            Ok(tun)
        })
    }
}

/// Packets that the kernel keeps for a driver that is busy.
const QUEUE: u32 = 10_000;
