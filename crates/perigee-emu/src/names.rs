//! Names behind a link: what is asked at the link's near end is passed on to this host's own name server.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

/// A name server at the near end of a link, for the program behind it.
#[derive(Debug)]
pub(crate) struct Names {
    server: SocketAddr,
    datagrams: UdpSocket,
    connections: TcpListener,
    file: PathBuf,
    /// Questions under way.
    open: AtomicU32,
}

impl Names {
    /// Listens at an address of the calling thread's namespace; `None` where this host knows no name server, or where
    /// one answers at every address of it already.
    pub(crate) fn new(near: Ipv4Addr) -> io::Result<Option<Self>> {
        let text = fs::read_to_string(RESOLV_CONF).unwrap_or_default();
        let Some(server) = name_server(&text) else { return Ok(None) };
        let Ok(datagrams) = UdpSocket::bind((near, PORT)) else { return Ok(None) };
        let Ok(connections) = TcpListener::bind((near, PORT)) else { return Ok(None) };
        datagrams.set_read_timeout(Some(LOOK))?;
        connections.set_nonblocking(true)?;
        // Several of a process may have the same address, in namespaces of their own.
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("perigee-names-{}-{number}", std::process::id()));
        // Others may write in that folder: what lies there under the name is not written through.
        let _ = fs::remove_file(&file);
        File::create_new(&file)?.write_all(rewritten(&text, near).as_bytes())?;
        Ok(Some(Self { server: SocketAddr::new(server, PORT), datagrams, connections, file, open: AtomicU32::new(0) }))
    }

    /// What the program shall find as `/etc/resolv.conf`.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Takes the file's name away: the program has it mounted, and needs no name of it.
    pub(crate) fn unlink(&self) {
        let _ = fs::remove_file(&self.file);
    }

    /// Passes questions on until told to stop.
    pub(crate) fn serve<'s>(&'s self, scope: &'s Scope<'s, '_>, stop: &AtomicBool) {
        let mut question = [0; LARGEST];
        while !stop.load(Ordering::Relaxed) {
            if let Ok((size, asker)) = self.datagrams.recv_from(&mut question) {
                let question = question[..size].to_vec();
                self.aside(scope, move || self.pass_datagram(&question, asker));
            }
            while let Ok((asker, _)) = self.connections.accept() {
                self.aside(scope, move || pass_connection(&asker, self.server));
            }
        }
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

    fn pass_datagram(&self, question: &[u8], asker: SocketAddr) -> io::Result<()> {
        let any: IpAddr =
            if self.server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(self.server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send(question)?;
        let mut answer = [0; LARGEST];
        let size = socket.recv(&mut answer)?;
        self.datagrams.send_to(&answer[..size], asker)?;
        Ok(())
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.unlink();
    }
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

/// The first name server of a `resolv.conf`.
fn name_server(text: &str) -> Option<IpAddr> {
    text.lines().find_map(|line| line.strip_prefix("nameserver")?.trim().parse().ok())
}

/// A `resolv.conf` with this name server in the place of all others.
fn rewritten(text: &str, server: Ipv4Addr) -> String {
    let mut new = format!("nameserver {server}\n");
    for line in text.lines().filter(|line| line.starts_with("search") || line.starts_with("options")) {
        let _ = writeln!(new, "{line}");
    }
    new
}

pub(crate) const RESOLV_CONF: &str = "/etc/resolv.conf";
const PORT: u16 = 53;
/// Made by this process so far.
static FILES: AtomicU32 = AtomicU32::new(0);
/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(50);
/// A server that has not answered by then will not; resolvers ask again after five seconds (resolv.conf(5)).
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions at a time.
const MOST_OPEN: u32 = 100;
/// Largest datagram that name servers send in practice (EDNS0, RFC 6891, recommends 4096).
const LARGEST: usize = 4096;
/// Over TCP a message has at most 64 KiB; several may follow each other.
const MOST_BYTES: u64 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_near_end_takes_the_place_of_all_name_servers() {
        let text = "# ours\nsearch example.org\nnameserver 127.0.0.53\nnameserver 192.0.2.1\noptions edns0\n";
        assert_eq!(name_server(text), Some(Ipv4Addr::new(127, 0, 0, 53).into()));
        let near = Ipv4Addr::new(100, 64, 0, 1);
        assert_eq!(rewritten(text, near), "nameserver 100.64.0.1\nsearch example.org\noptions edns0\n");
        assert_eq!(name_server("nameserver nonsense\n"), None);
    }
}
