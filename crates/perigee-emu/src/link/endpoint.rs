//! One end of an emulated link: a device with addresses.

use std::io;
use std::net::IpAddr;

use crate::os::namespace::Namespace;
use crate::os::netlink::{index, Netlink, Place};
use crate::os::tun::{Tun, QUEUE_PACKETS};

/// A device to create, with its configuration.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Name of the device; see [`Tun::new`].
    pub name: String,
    /// Addresses, each with the prefix length of the network shared with the other end.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Networks routed to the other end; `0.0.0.0/0` is the default route. The source address of packets to them is the
    /// one of the same IP version.
    pub routes: Vec<(IpAddr, u8)>,
    /// Largest packet, bytes.
    pub mtu: u32,
}

impl Endpoint {
    /// Creates and configures the device in a namespace.
    ///
    /// # Errors
    /// If the kernel refuses a part of it; then nothing is left.
    pub fn create(&self, namespace: &Namespace) -> io::Result<Tun> {
        namespace.enter(|| {
            let tun = Tun::new(&self.name, true)?;
            let index = index(tun.name())?;
            let mut netlink = Netlink::new()?;
            netlink.up(index, Some((self.mtu, QUEUE_PACKETS)))?;
            for address in &self.addresses {
                netlink.address(index, *address)?;
            }
            for route in &self.routes {
                let same = |(address, _): &&(IpAddr, u8)| address.is_ipv4() == route.0.is_ipv4();
                let Some((source, _)) = self.addresses.iter().find(same) else { continue };
                netlink.route(index, *route, *source, None, Place::New)?;
            }
            Ok(tun)
        })
    }
}
