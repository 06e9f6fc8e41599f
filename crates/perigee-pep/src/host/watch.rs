//! Tells when other programs remove what interception needs: one that loads the firewall anew may flush all tables (`flush ruleset`),
//! and one that manages the network may remove policy rules and routes of others (systemd-networkd).

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{SocketAddrNetlink, NETFILTER};
use rustix::net::{bind, recv, socket_with, AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType};

use super::netlink::{attribute, messages, HEAD};
use super::sys::filter;
use super::tools::TABLE;

/// Sockets to which the kernel tells changes of the firewall, and of policy rules and routes.
#[derive(Debug)]
pub(super) struct Watch {
    firewall: OwnedFd,
    routing: OwnedFd,
    /// Marks and tables of the service's own policy rules.
    marks: [u32; 2],
    tables: [u32; 2],
}

impl Watch {
    /// Watches from now on. It also sees what the service removes itself: its user looks what is there.
    pub(super) fn open(marks: [u32; 2], tables: [u32; 2]) -> io::Result<Self> {
        let firewall = listen(Some(NETFILTER), NFTABLES)?;
        // Without a protocol it is `NETLINK_ROUTE`.
        let routing = listen(None, IPV4_RULES | IPV6_RULES | IPV4_ROUTES | IPV6_ROUTES)?;
        filter(&routing, &few())?;
        Ok(Self { firewall, routing, marks, tables })
    }

    /// Whether something was removed since the last time.
    pub(super) fn sees_removal(&self) -> bool {
        let is_table = |message: &[u8]| {
            // The kernel has others of that name for each family.
            let is_of_family = message.first().is_some_and(|family| FAMILIES.contains(family));
            let name = message.get(FAMILY..).and_then(|attributes| attribute(attributes, TABLE_NAME));
            is_of_family && name.and_then(|name| name.strip_suffix(&[0])) == Some(TABLE.as_bytes())
        };
        let is_of = |message: &[u8], kind: u16, own: [u32; 2]| {
            let value = message.get(ROUTING..).and_then(|attributes| attribute(attributes, kind));
            own.iter().any(|own| value == Some(&own.to_ne_bytes()))
        };
        let is_rule = |message: &[u8]| is_of(message, RULE_MARK, self.marks);
        let is_route = |message: &[u8]| is_of(message, libc::RTA_TABLE, self.tables);
        let is_own = |(kind, message): (u16, &[u8])| match kind {
            TABLE_REMOVED => is_table(message),
            libc::RTM_DELRULE => is_rule(message),
            libc::RTM_DELROUTE => is_route(message),
            _ => false,
        };
        // Both are read to the end.
        [&self.firewall, &self.routing].map(|socket| has(socket, is_own)).contains(&true)
    }
}

fn listen(protocol: Option<Protocol>, groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Passes removals of policy rules and of default routes, as the service's are: of the routes of the whole Internet, which come and go
/// all the time, it is not told.
fn few() -> [libc::sock_filter; 7] {
    use libc::{BPF_ABS, BPF_B, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET};
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    // It reads numbers in the order of the network, and netlink has the host's.
    let is = |kind: u16, jt: u8, jf: u8| step(BPF_JMP | BPF_JEQ | BPF_K, u32::from(kind.to_be()), jt, jf);
    [
        step(BPF_LD | BPF_H | BPF_ABS, MESSAGE_TYPE, 0, 0),
        is(libc::RTM_DELRULE, 3, 0),
        is(libc::RTM_DELROUTE, 0, 3),
        step(BPF_LD | BPF_B | BPF_ABS, PREFIX_LENGTH, 0, 0),
        is(0, 0, 1),
        step(BPF_RET | BPF_K, u32::MAX, 0, 0),
        step(BPF_RET | BPF_K, 0, 0, 0),
    ]
}

/// Whether a message that `is_own` has arrived. If there was no room for all of them, it may have.
fn has(socket: &OwnedFd, is_own: impl Fn((u16, &[u8])) -> bool) -> bool {
    let (mut bytes, mut found) = ([0; LONGEST], false);
    for _ in 0..MOST {
        match recv(socket, &mut bytes[..], RecvFlags::empty()) {
            Ok((length, _)) => found |= messages(&bytes[..length]).any(&is_own),
            Err(Errno::NOBUFS) => found = true,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    found
}

/// Groups of netlink, as bits: `NFNLGRP_NFTABLES`, `RTNLGRP_IPV4_RULE` and `RTNLGRP_IPV4_ROUTE`, and those of IPv6.
const NFTABLES: u32 = 1 << 6;
const IPV4_RULES: u32 = 1 << 7;
const IPV4_ROUTES: u32 = 1 << 6;
const IPV6_RULES: u32 = 1 << 18;
const IPV6_ROUTES: u32 = 1 << 10;
/// `NFT_MSG_DELTABLE` of `NFNL_SUBSYS_NFTABLES`; `NFTA_TABLE_NAME`, after a `struct nfgenmsg`.
const TABLE_REMOVED: u16 = 10 << 8 | 2;
const TABLE_NAME: u16 = 1;
const FAMILY: usize = 4;
/// `NFPROTO_INET` and `NFPROTO_BRIDGE`.
const FAMILIES: [u8; 2] = [1, 7];
/// `FRA_FWMARK`.
const RULE_MARK: u16 = 10;
/// Size of `struct fib_rule_hdr` and of `struct rtmsg`.
const ROUTING: usize = 12;
/// Places of `nlmsg_type` in a message, and of `rtm_dst_len`.
const MESSAGE_TYPE: u32 = 4;
const PREFIX_LENGTH: u32 = HEAD as u32 + 1;
/// Longest batch of messages, and how many of them are read at a time.
const LONGEST: usize = 16 << 10;
const MOST: usize = 256;
