//! Counters of a network interface, asked by netlink: the files of sysfs may be those of another network namespace.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::netlink::{attribute, half, HEAD};

/// Asks for the counters of interfaces of the thread's network namespace.
#[derive(Debug)]
pub(crate) struct Counters(OwnedFd);

/// Packets and bytes that have passed an interface, at the level of IP: sent, and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) packets: [u64; 2],
    pub(crate) bytes: [u64; 2],
}

impl Counters {
    pub(crate) fn open() -> io::Result<Self> {
        // Protocol 0 is `NETLINK_ROUTE`.
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?))
    }

    pub(crate) fn of(&self, interface: &str) -> io::Result<Passed> {
        send(&self.0, &request(interface), SendFlags::empty())?;
        let mut answer = [0; LONGEST];
        let (length, _) = recv(&self.0, &mut answer[..], RecvFlags::empty())?;
        parse(&answer[..length])
    }
}

/// `RTM_GETLINK` for an interface by its name (rtnetlink(7)).
fn request(interface: &str) -> Vec<u8> {
    let name = [interface.as_bytes(), &[0]].concat();
    let attribute = 4 + name.len();
    let length = HEAD + INTERFACE + attribute.next_multiple_of(4);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(libc::RTM_GETLINK.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.resize(HEAD + INTERFACE, 0);
    bytes.extend((attribute as u16).to_ne_bytes());
    bytes.extend(libc::IFLA_IFNAME.to_ne_bytes());
    bytes.extend(name);
    bytes.resize(length, 0);
    bytes
}

fn parse(answer: &[u8]) -> io::Result<Passed> {
    if half(answer, 4) == Some(libc::NLMSG_ERROR as u16) {
        let error = answer.get(HEAD..HEAD + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
        return Err(io::Error::from_raw_os_error(-error));
    }
    let is_ethernet = half(answer, HEAD + 2) == Some(libc::ARPHRD_ETHER);
    let attributes = answer.get(HEAD + INTERFACE..).unwrap_or_default();
    let Some(stats) = attribute(attributes, libc::IFLA_STATS64) else {
        return Err(io::Error::other("the kernel says no counters"));
    };
    // `struct rtnl_link_stats64`: packets received and sent, then bytes.
    let long = |at: usize| stats.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
    let [received, sent, bytes_received, bytes_sent] = [0, 8, 16, 24].map(long);
    let head = if is_ethernet { ETHERNET } else { 0 };
    let at_ip = |bytes: u64, packets: u64| bytes.saturating_sub(packets * head);
    let bytes = [at_ip(bytes_sent, sent), at_ip(bytes_received, received)];
    Ok(Passed { packets: [sent, received], bytes })
}

/// Size of `struct ifinfomsg`.
const INTERFACE: usize = 16;
/// Longest description of an interface.
const LONGEST: usize = 16 << 10;
/// Header of Ethernet, which its interfaces count.
const ETHERNET: u64 = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn what_passes_loopback_is_counted_and_a_missing_interface_is_an_error() {
        let counters = Counters::open().unwrap();
        let before = counters.of("lo").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 972], socket.local_addr().unwrap()).unwrap();
        let after = counters.of("lo").unwrap();
        for way in 0..2 {
            assert!(after.packets[way] > before.packets[way]);
            // Loopback counts headers of Ethernet, too; its type is its own.
            assert!(after.bytes[way] >= before.bytes[way] + 1000, "{before:?} {after:?}");
        }
        assert_eq!(counters.of("no0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
