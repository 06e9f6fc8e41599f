//! Names behind a link: what is asked at the link's near end is passed on to this host's own name server.

use std::fs;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use rustix::net::{bind, listen, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};

use crate::dns::{answers, name_server, question, rewritten};

/// A name server at the near end of a link, for the program behind it and nobody else: it listens at the link's device
/// only, since Linux otherwise takes packets to an address of its own at any device.
#[derive(Debug)]
pub(crate) struct Names {
    server: SocketAddr,
    /// The address of the far end, where questions come from.
    far: Ipv4Addr,
    datagrams: UdpSocket,
    connections: TcpListener,
    resolv_conf: String,
    /// Questions under way.
    open: AtomicU32,
}

impl Names {
    /// Listens at a device of the calling thread's namespace, between two addresses; `None` where this host knows no name
    /// server, or where one answers at every address of it already.
    pub(crate) fn new(device: &str, near: Ipv4Addr, far: Ipv4Addr) -> io::Result<Option<Self>> {
        let text = fs::read_to_string(RESOLV_CONF).unwrap_or_default();
        let Some(server) = name_server(&text) else { return Ok(None) };
        let Ok(datagrams) = bound(SocketType::DGRAM, device, near).map(UdpSocket::from) else { return Ok(None) };
        let Ok(connections) = bound(SocketType::STREAM, device, near) else { return Ok(None) };
        listen(&connections, MOST_OPEN as i32)?;
        let connections = TcpListener::from(connections);
        datagrams.set_read_timeout(Some(LOOK))?;
        connections.set_nonblocking(true)?;
        let (server, resolv_conf) = (SocketAddr::new(server, PORT), rewritten(&text, near));
        Ok(Some(Self { server, far, datagrams, connections, resolv_conf, open: AtomicU32::new(0) }))
    }

    /// What the program shall find as `/etc/resolv.conf`.
    pub(crate) fn resolv_conf(&self) -> &str {
        &self.resolv_conf
    }

    /// Passes questions on until told to stop.
    pub(crate) fn serve<'s>(&'s self, scope: &'s Scope<'s, '_>, stop: &AtomicBool) {
        let mut message = [0; LARGEST];
        while !stop.load(Ordering::Relaxed) {
            if let Ok((size, asker)) = self.datagrams.recv_from(&mut message) {
                if let Some(number) = question(&message[..size]).filter(|_| self.may_ask(asker)) {
                    let question = message[..size].to_vec();
                    self.aside(scope, move || self.pass_datagram(&question, number, asker));
                }
            }
            while let Ok((connection, asker)) = self.connections.accept() {
                if self.may_ask(asker) {
                    self.aside(scope, move || pass_connection(&connection, self.server));
                }
            }
        }
    }

    /// A program that is root may write any sender's address.
    fn may_ask(&self, asker: SocketAddr) -> bool {
        asker.ip() == self.far
    }

    /// Works on a question in a thread of its own. There are so many at a time at the most; who asks more asks again.
    fn aside<'s>(&'s self, scope: &'s Scope<'s, '_>, work: impl FnOnce() -> io::Result<()> + Send + 's) {
        if self.open.fetch_add(1, Ordering::Relaxed) >= MOST_OPEN {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        scope.spawn(move || {
            // A question without an answer is asked again by who asked it.
            let _ = work();
            self.open.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn pass_datagram(&self, question: &[u8], number: u16, asker: SocketAddr) -> io::Result<()> {
        let any: IpAddr =
            if self.server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(self.server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send(question)?;
        let mut message = [0; LARGEST];
        for _ in 0..MOST_ANSWERS {
            let size = socket.recv(&mut message)?;
            if answers(&message[..size], number) {
                self.datagrams.send_to(&message[..size], asker)?;
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A socket for what comes from a device to this address, port 53.
fn bound(kind: SocketType, device: &str, near: Ipv4Addr) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?;
    if kind == SocketType::STREAM {
        // Connections of the last one that had this address may be waiting for their end.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    let length = device.len() as libc::socklen_t;
    // SAFETY: the name lives for the call, and its length is given.
    let refused = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_ptr().cast(), length)
    };
    if refused != 0 {
        return Err(io::Error::last_os_error());
    }
    bind(&socket, &SocketAddrV4::new(near, PORT))?;
    Ok(socket)
}

/// One question over TCP, as those whose answers are long.
fn pass_connection(asker: &TcpStream, server: SocketAddr) -> io::Result<()> {
    asker.set_nonblocking(false)?;
    let upstream = TcpStream::connect_timeout(&server, PATIENCE)?;
    for stream in [asker, &upstream] {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut asker.take(MOST_BYTES), &mut &upstream);
            let _ = upstream.shutdown(Shutdown::Write);
        });
        let _ = io::copy(&mut (&upstream).take(MOST_BYTES), &mut &*asker);
        let _ = asker.shutdown(Shutdown::Both);
        // The other direction is waiting for more questions.
        let _ = upstream.shutdown(Shutdown::Both);
    });
    Ok(())
}

pub(crate) const RESOLV_CONF: &str = "/etc/resolv.conf";
const PORT: u16 = 53;
/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(50);
/// A server that has not answered by then will not; resolvers ask again after five seconds (resolv.conf(5)).
const PATIENCE: Duration = Duration::from_secs(5);
/// Messages read for one question: others may send to a port that they guess.
const MOST_ANSWERS: u32 = 16;
/// Questions at a time.
const MOST_OPEN: u32 = 100;
/// Largest datagram that name servers send in practice (EDNS0, RFC 6891, recommends 4096).
const LARGEST: usize = 4096;
/// Over TCP a message has at most 64 KiB; several may follow each other.
const MOST_BYTES: u64 = 1 << 22;
