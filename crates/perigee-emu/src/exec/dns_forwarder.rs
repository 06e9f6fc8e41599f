//! DNS behind a link: the near end forwards queries to this host's name server.

use std::fs;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, Builder, Scope};
use std::time::Duration;

use rustix::net::{bind, listen, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};

use crate::exec::dns::{answers, name_server, question, rewritten};

/// A DNS forwarder at the near end of a link, for the program behind it only: it binds to the link's device,
/// since Linux otherwise accepts packets to a local address at any device.
#[derive(Debug)]
pub(crate) struct DnsForwarder {
    server: SocketAddr,
    /// The address of the far end, the only client.
    far: Ipv4Addr,
    datagrams: UdpSocket,
    connections: TcpListener,
    resolv_conf: String,
    /// Queries in progress.
    open: AtomicU32,
}

impl DnsForwarder {
    /// Listens at a device of the calling thread's namespace, between two addresses; `None` if this host has no name
    /// server, or one of its own already listens at every address.
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

    /// The content of `/etc/resolv.conf` for the program.
    pub(crate) fn resolv_conf(&self) -> &str {
        &self.resolv_conf
    }

    /// Forwards queries until stopped.
    pub(crate) fn serve<'s>(&'s self, scope: &'s Scope<'s, '_>, stop: &AtomicBool) {
        let mut message = [0; LARGEST];
        while !stop.load(Ordering::Relaxed) {
            if let Ok((size, asker)) = self.datagrams.recv_from(&mut message)
                && let Some(number) = question(&message[..size]).filter(|_| self.may_ask(asker))
            {
                let question = message[..size].to_vec();
                self.aside(scope, move || self.pass_datagram(&question, number, asker));
            }
            while let Ok((connection, asker)) = self.connections.accept() {
                if self.may_ask(asker) {
                    self.aside(scope, move || pass_connection(&connection, self.server));
                }
            }
        }
    }

    /// A program with root rights can forge its source address.
    fn may_ask(&self, asker: SocketAddr) -> bool {
        asker.ip() == self.far
    }

    /// Handles a query in a thread of its own, up to a limit of concurrent ones; resolvers repeat queries.
    fn aside<'s>(&'s self, scope: &'s Scope<'s, '_>, work: impl FnOnce() -> io::Result<()> + Send + 's) {
        if self.open.fetch_add(1, Ordering::Relaxed) >= MOST_OPEN {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let started = Builder::new().spawn_scoped(scope, move || {
            // The resolver repeats a query without an answer.
            let _ = work();
            self.open.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
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

/// A socket bound to a device, this address and port 53.
fn bound(kind: SocketType, device: &str, near: Ipv4Addr) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?;
    if kind == SocketType::STREAM {
        // Connections of the previous user of the address may be in TIME_WAIT.
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

/// A query over TCP, used for long answers.
fn pass_connection(asker: &TcpStream, server: SocketAddr) -> io::Result<()> {
    asker.set_nonblocking(false)?;
    let upstream = TcpStream::connect_timeout(&server, PATIENCE)?;
    for stream in [asker, &upstream] {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
    }
    thread::scope(|scope| {
        Builder::new().spawn_scoped(scope, || {
            let _ = io::copy(&mut asker.take(MOST_BYTES), &mut &upstream);
            let _ = upstream.shutdown(Shutdown::Write);
        })?;
        let _ = io::copy(&mut (&upstream).take(MOST_BYTES), &mut &*asker);
        let _ = asker.shutdown(Shutdown::Both);
        // The other direction waits for more queries.
        let _ = upstream.shutdown(Shutdown::Both);
        Ok(())
    })
}

pub(crate) const RESOLV_CONF: &str = "/etc/resolv.conf";
const PORT: u16 = 53;
/// Interval of checks of `stop`.
const LOOK: Duration = Duration::from_millis(50);
/// Time-out of a query; resolvers repeat it after five seconds (resolv.conf(5)).
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum messages read per query: other hosts may send to a guessed port.
const MOST_ANSWERS: u32 = 16;
/// Concurrent queries.
const MOST_OPEN: u32 = 100;
/// Largest datagram that name servers send in practice (EDNS0, RFC 6891, recommends 4096).
const LARGEST: usize = 4096;
/// Over TCP a message has at most 64 KiB; several may follow each other.
const MOST_BYTES: u64 = 1 << 22;
