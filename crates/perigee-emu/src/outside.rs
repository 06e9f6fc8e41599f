//! The way from behind a link to the world beyond us: address translation.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::pipe::{pipe_with, PipeFlags};
use thiserror::Error;

use crate::namespace::Namespace;

/// Why only this host can be reached from behind a link.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Closed {
    /// This host does not forward packets, and nothing of it is changed.
    #[error("this host does not forward packets (`sysctl net.ipv4.ip_forward=1` would let them pass)")]
    NotForwarding,
    /// The program that sets up address translation is not here.
    #[error("`nft` is not installed; install the package `nftables`")]
    NoNft,
    /// It could not do so.
    #[error("nft refuses to translate addresses: {0}")]
    Refused(String),
}

/// Address translation for one link, as long as this lives.
///
/// It is a table of nftables that its maker owns. The kernel removes the table when the maker ends, and the maker, an
/// `nft` that waits for more input, ends with us, whatever ends us.
#[derive(Debug)]
pub(crate) struct Translation(Child);

impl Translation {
    /// Translates what comes from a network of four addresses, in the namespace where it goes out.
    pub(crate) fn new(outer: &Namespace, network: Ipv4Addr) -> Result<Self, Closed> {
        let forwarding = outer.enter(|| fs::read_to_string("/proc/sys/net/ipv4/ip_forward"));
        if !forwarding.is_ok_and(|text| text.trim() == "1") {
            return Err(Closed::NotForwarding);
        }
        let name = format!("perigee_{}", network.to_string().replace('.', "_"));
        let commands = format!(
            "add table ip {name} {{ flags owner; }}\n\
             add chain ip {name} out {{ type nat hook postrouting priority srcnat; }}\n\
             add rule ip {name} out ip saddr {network}/30 masquerade\n\
             list table ip {name}\n"
        );
        outer.enter(|| start(&commands)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Closed::NoNft,
            _ => Closed::Refused(error.to_string()),
        })
    }
}

impl Drop for Translation {
    fn drop(&mut self) {
        // The end of its input is its end; and if not that, then this.
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives `nft` commands of which the last lists the table, and reads until it has been listed.
fn start(commands: &str) -> io::Result<Translation> {
    let (said, says) = pipe_with(PipeFlags::CLOEXEC)?;
    let errors = says.try_clone()?;
    let mut nft = Command::new("nft");
    // Ctrl-C ends the program, not the way out of what it has sent: terminals do not signal other groups of processes.
    nft.process_group(0);
    nft.arg("-i").stdin(Stdio::piped()).stdout(says).stderr(errors);
    let mut maker = Translation(nft.spawn()?);
    // Our copies of what it writes to are closed, so that its end is the end of what we read.
    drop(nft);
    maker.0.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(commands.as_bytes())?;
    for line in BufReader::new(File::from(said)).lines() {
        let line = line?;
        if line == "}" {
            return Ok(maker);
        }
        if let Some(error) = line.strip_prefix("Error: ") {
            return Err(io::Error::other(error.to_owned()));
        }
    }
    Err(io::Error::other("it ended"))
}
