//! TCP sockets of all network namespaces, with congestion control and TCP_INFO, from `sock_diag`.
//!
//! The layouts are those of `linux/netlink.h`, `linux/sock_diag.h`, `linux/inet_diag.h` and `linux/tcp.h`.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::{fs, io};

use perigee_cc::INFINITE_SSTHRESH;
use rustix::net::{netlink, recv, send, socket, AddressFamily, RecvFlags, SendFlags, SocketType};
use serde::Serialize;

use crate::namespaces;

/// A TCP socket and the state of its congestion control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SocketUse {
    /// Its congestion control.
    pub cc: String,
    /// The network namespace: empty for the current one, the name of `ip netns`, or a process in it.
    pub namespace: String,
    /// Local address and port.
    pub local: String,
    /// Remote address and port.
    pub peer: String,
    /// `ESTABLISHED`, `LISTEN`, ...
    pub state: &'static str,
    /// State of its congestion control: `slow start`, `avoidance`, `disorder`, `reduction`, `recovery` or `loss`.
    pub phase: &'static str,
    /// A process that holds it; `None` if there is none, or it is not visible to us.
    pub pid: Option<u32>,
    /// Name of that process.
    pub process: Option<String>,
    /// Congestion window, packets.
    pub cwnd_packets: u32,
    /// Slow start threshold, packets; `None` before it is set.
    pub ssthresh_packets: Option<u32>,
    /// Smoothed round-trip time, us.
    pub srtt_us: u32,
    /// Minimum round-trip time, us; `None` before the first sample.
    pub min_rtt_us: Option<u32>,
    /// Pacing rate, bit/s; `None` without pacing.
    pub pacing_bps: Option<u64>,
    /// Delivery rate of the newest sample, bit/s.
    pub delivery_bps: u64,
    /// Retransmitted segments.
    pub retransmissions: u32,
    /// Sent segments with data, retransmissions included.
    pub sent_packets: u32,
    /// Segments in flight that are marked lost now.
    pub lost_packets: u32,
    /// Acknowledged segments whose congestion mark (ECN) the receiver reported.
    pub marked_packets: u32,
    /// Bytes acknowledged.
    pub acked_bytes: u64,
    /// Bytes sent, retransmissions included.
    pub sent_bytes: u64,
    #[serde(skip)]
    inode: u32,
    /// The kernel's number of the socket, which no other gets.
    pub cookie: u64,
}

impl fmt::Display for SocketUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.state, self.local, self.peer)?;
        if let (Some(pid), Some(process)) = (self.pid, &self.process) {
            write!(f, ", {process} (process {pid})")?;
        }
        if !self.namespace.is_empty() {
            write!(f, ", namespace {}", self.namespace)?;
        }
        Ok(())
    }
}

/// The sockets with a congestion control of `wanted`, and the number of processes that may not be inspected.
pub(crate) fn using(wanted: impl Fn(&str) -> bool + Sync) -> io::Result<(Vec<SocketUse>, usize)> {
    let (namespaces, mut unseen) = namespaces::all();
    let mut found = Vec::new();
    for namespace in &namespaces {
        match namespace.enter(|| dump(&wanted)) {
            Ok(sockets) => {
                found.extend(
                    sockets.into_iter().map(|socket| SocketUse { namespace: namespace.name.clone(), ..socket }),
                );
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => unseen += 1,
            Err(error) => return Err(error),
        }
    }
    name_processes(&mut found);
    Ok((found, unseen))
}

/// The sockets of the calling thread's namespace.
fn dump(wanted: impl Fn(&str) -> bool) -> io::Result<Vec<SocketUse>> {
    let netlink = socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::SOCK_DIAG))?;
    let mut buffer = vec![0; 1 << 16];
    let mut found = Vec::new();
    for family in [AF_INET, AF_INET6] {
        send(&netlink, &request(family), SendFlags::empty())?;
        while {
            let (length, _) = recv(&netlink, &mut buffer[..], RecvFlags::empty())?;
            read_messages(&buffer[..length], &wanted, &mut found)?
        } {}
    }
    Ok(found)
}

/// Requests all TCP sockets of a family, with TCP_INFO and congestion control.
fn request(family: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes.extend([0; 8]); // sequence and port
    let extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
    bytes.extend([family, IPPROTO_TCP, extensions, 0]);
    bytes.extend(u32::MAX.to_ne_bytes()); // all states
    bytes.resize(REQUEST_BYTES, 0);
    bytes
}

/// Parses one received buffer; whether more will follow.
fn read_messages(mut bytes: &[u8], wanted: impl Fn(&str) -> bool, found: &mut Vec<SocketUse>) -> io::Result<bool> {
    while bytes.len() >= NLMSG_HDRLEN {
        let length = u32_at(bytes, 0) as usize;
        let message =
            bytes.get(NLMSG_HDRLEN..length).ok_or_else(|| io::Error::other("sock_diag: a message ends early"))?;
        match u16_at(bytes, 4) {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => return Err(io::Error::from_raw_os_error((u32_at(message, 0) as i32).wrapping_neg())),
            SOCK_DIAG_BY_FAMILY => found.extend(read_socket(message, &wanted)),
            _ => {}
        }
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(true)
}

/// Parses a `struct inet_diag_msg` and its attributes, if its congestion control is wanted.
fn read_socket(message: &[u8], wanted: impl Fn(&str) -> bool) -> Option<SocketUse> {
    let mut attributes = message.get(INET_DIAG_MSG_BYTES..)?;
    let (mut cc, mut info) = (None, &[][..]);
    while attributes.len() >= 4 {
        let length = usize::from(u16_at(attributes, 0));
        let value = attributes.get(4..length)?;
        match u16_at(attributes, 2) {
            INET_DIAG_INFO => info = value,
            INET_DIAG_CONG => cc = std::str::from_utf8(value).ok().map(|name| name.trim_end_matches('\0')),
            _ => {}
        }
        attributes = &attributes[length.next_multiple_of(4).min(attributes.len())..];
    }
    let cc = cc.filter(|name| wanted(name))?;
    let family = message[0];
    Some(SocketUse {
        cc: cc.to_owned(),
        namespace: String::new(),
        local: address(family, &message[8..24], &message[4..6]),
        peer: address(family, &message[24..40], &message[6..8]),
        phase: phase(info),
        state: STATES.get(usize::from(message[1])).copied().unwrap_or("?"),
        pid: None,
        process: None,
        cwnd_packets: u32_at(info, 80),
        ssthresh_packets: Some(u32_at(info, 76)).filter(|packets| *packets < INFINITE_SSTHRESH),
        srtt_us: u32_at(info, 68),
        min_rtt_us: Some(u32_at(info, 148)).filter(|us| *us != u32::MAX),
        pacing_bps: Some(u64_at(info, 104)).filter(|rate| *rate != u64::MAX).map(bits),
        delivery_bps: bits(u64_at(info, 160)),
        retransmissions: u32_at(info, 100),
        sent_packets: u32_at(info, 156),
        lost_packets: u32_at(info, 32),
        marked_packets: u32_at(info, 196),
        acked_bytes: u64_at(info, 120),
        sent_bytes: u64_at(info, 200),
        inode: u32_at(message, 68),
        cookie: u64::from(u32_at(message, 44)) | u64::from(u32_at(message, 48)) << 32,
    })
}

/// The phase of a congestion control, by the state of recovery and by window and threshold.
fn phase(info: &[u8]) -> &'static str {
    match info.get(1) {
        Some(1) => "disorder",
        Some(2) => "reduction",
        Some(3) => "recovery",
        Some(4) => "loss",
        _ if u32_at(info, 80) < u32_at(info, 76) => "slow start",
        _ => "avoidance",
    }
}

fn bits(bytes: u64) -> u64 {
    bytes.saturating_mul(8)
}

fn address(family: u8, ip: &[u8], port: &[u8]) -> String {
    let port = u16::from_be_bytes([port[0], port[1]]);
    let ip: IpAddr = if family == AF_INET6 {
        let mut octets = [0; 16];
        octets.copy_from_slice(ip);
        Ipv6Addr::from(octets).into()
    } else {
        Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3]).into()
    };
    SocketAddr::new(ip, port).to_string()
}

/// Finds a process for each socket, in the open files of all visible processes.
fn name_processes(sockets: &mut [SocketUse]) {
    if sockets.is_empty() {
        return;
    }
    let mut holders = HashMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        for file in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let inode = fs::read_link(file.path())
                .ok()
                .and_then(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u32>().ok());
            if let Some(inode) = inode {
                holders.entry(inode).or_insert(pid);
            }
        }
    }
    for socket in sockets {
        socket.pid = holders.get(&socket.inode).copied().filter(|_| socket.inode != 0);
        socket.process = socket.pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        socket.process = socket.process.take().map(|name| name.trim().to_owned());
    }
}

/// Fields that older kernels lack are zero.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
}

const NLMSG_HDRLEN: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_BYTES: usize = NLMSG_HDRLEN + 56;
const INET_DIAG_MSG_BYTES: usize = 72;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const STATES: [&str; 13] = [
    "?",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_sockets_of_this_process_are_found_with_its_name() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (local, peer) = (stream.local_addr().unwrap().to_string(), stream.peer_addr().unwrap().to_string());
        let (sockets, _) = using(|_| true).unwrap();
        let found = sockets.iter().find(|socket| socket.local == local && socket.peer == peer).unwrap();
        assert_eq!((found.state, found.pid), ("ESTABLISHED", Some(std::process::id())));
        // With what window a connection begins is up to the congestion control, which tests beside this one may have set.
        assert!((1..1000).contains(&found.cwnd_packets) && !found.cc.is_empty(), "{found:?}");
        assert_eq!((found.phase, found.lost_packets, found.marked_packets), ("slow start", 0, 0), "{found:?}");
        let listening = sockets.iter().find(|socket| socket.state == "LISTEN" && socket.local == peer);
        assert!(listening.is_some());
    }

    #[test]
    fn what_the_kernel_says_may_end_anywhere() {
        let mut message = vec![0; INET_DIAG_MSG_BYTES];
        message.extend([9, 0, INET_DIAG_CONG as u8, 0]);
        message.extend(*b"reno\0");
        assert!(read_socket(&message, |name| name == "reno").is_some());
        for end in 0..message.len() {
            assert_eq!(read_socket(&message[..end], |_| true), None, "{end}");
        }
    }
}
