//! Tells when other programs remove what interception needs: one that loads the firewall anew may flush all tables (`flush ruleset`),
//! and one that manages the network may remove policy rules of others (systemd-networkd).

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{SocketAddrNetlink, NETFILTER};
use rustix::net::{bind, recv, socket_with, AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType};

use super::netlink::{attribute, messages};
use super::tools::TABLE;

/// Sockets to which the kernel tells changes of the firewall and of policy rules.
#[derive(Debug)]
pub(super) struct Watch {
    firewall: OwnedFd,
    rules: OwnedFd,
    /// Marks of the service's own policy rules.
    marks: [u32; 2],
}

impl Watch {
    /// Watches from now on. It also sees what the service removes itself: its user looks what is there.
    pub(super) fn open(marks: [u32; 2]) -> io::Result<Self> {
        // Without a protocol it is `NETLINK_ROUTE`.
        Ok(Self { firewall: listen(Some(NETFILTER), NFTABLES)?, rules: listen(None, IPV4_RULES | IPV6_RULES)?, marks })
    }

    /// Whether something was removed since the last time.
    pub(super) fn sees_removal(&self) -> bool {
        let is_table = |message: &[u8]| {
            // The kernel has others of that name for each family.
            let is_of_family = message.first().is_some_and(|family| FAMILIES.contains(family));
            let name = message.get(FAMILY..).and_then(|attributes| attribute(attributes, TABLE_NAME));
            is_of_family && name.and_then(|name| name.strip_suffix(&[0])) == Some(TABLE.as_bytes())
        };
        let is_rule = |message: &[u8]| {
            let mark = message.get(RULE..).and_then(|attributes| attribute(attributes, RULE_MARK));
            self.marks.iter().any(|own| mark == Some(&own.to_ne_bytes()))
        };
        let is_removed = [
            (&self.firewall, TABLE_REMOVED, &is_table as &dyn Fn(&[u8]) -> bool),
            (&self.rules, libc::RTM_DELRULE, &is_rule),
        ];
        // Both are read to the end.
        is_removed.map(|(socket, kind, is_own)| has(socket, kind, is_own)).contains(&true)
    }
}

fn listen(protocol: Option<Protocol>, groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Whether such a message has arrived. If there was no room for all of them, it may have.
fn has(socket: &OwnedFd, kind: u16, is_own: &dyn Fn(&[u8]) -> bool) -> bool {
    let (mut bytes, mut found) = ([0; LONGEST], false);
    for _ in 0..MOST {
        match recv(socket, &mut bytes[..], RecvFlags::empty()) {
            Ok((length, _)) => found |= messages(&bytes[..length]).any(|(of, message)| of == kind && is_own(message)),
            Err(Errno::NOBUFS) => found = true,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    found
}

/// Groups of netlink, as bits: `NFNLGRP_NFTABLES`, `RTNLGRP_IPV4_RULE` and `RTNLGRP_IPV6_RULE`.
const NFTABLES: u32 = 1 << 6;
const IPV4_RULES: u32 = 1 << 7;
const IPV6_RULES: u32 = 1 << 18;
/// `NFT_MSG_DELTABLE` of `NFNL_SUBSYS_NFTABLES`; `NFTA_TABLE_NAME`, after a `struct nfgenmsg`.
const TABLE_REMOVED: u16 = 10 << 8 | 2;
const TABLE_NAME: u16 = 1;
const FAMILY: usize = 4;
/// `NFPROTO_INET` and `NFPROTO_BRIDGE`.
const FAMILIES: [u8; 2] = [1, 7];
/// `FRA_FWMARK`, after a `struct fib_rule_hdr`.
const RULE_MARK: u16 = 10;
const RULE: usize = 12;
/// Longest batch of messages, and how many of them are read at a time.
const LONGEST: usize = 16 << 10;
const MOST: usize = 256;
