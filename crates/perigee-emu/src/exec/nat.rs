//! Address translation (NAT) between a link and the network beyond this host.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::pipe::{pipe_with, PipeFlags};
use thiserror::Error;

use crate::os::namespace::Namespace;

/// Why a program behind a link reaches this host only.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Isolation {
    /// This host does not forward packets; Perigee does not change that.
    #[error("this host does not forward packets (`sysctl net.ipv4.ip_forward=1` would let them pass)")]
    NotForwarding,
    /// `nft` is not installed.
    #[error("`nft` is not installed; install the package `nftables`")]
    NoNft,
    /// `nft` failed.
    #[error("nft refuses to translate addresses: {0}")]
    Refused(String),
}

/// Address translation for one link, while it lives.
///
/// It is an nftables table with an owner. The kernel removes the table when its owner ends, and the owner, an `nft`
/// that waits for input, ends with this process.
#[derive(Debug)]
pub(crate) struct Nat(Child);

impl Nat {
    /// Translates packets of a network of four addresses, in the namespace where they leave.
    pub(crate) fn new(outer: &Namespace, network: Ipv4Addr) -> Result<Self, Isolation> {
        let forwarding = outer.enter(|| fs::read_to_string("/proc/sys/net/ipv4/ip_forward"));
        if !forwarding.is_ok_and(|text| text.trim() == "1") {
            return Err(Isolation::NotForwarding);
        }
        let name = format!("perigee_{}", network.to_string().replace('.', "_"));
        let commands = format!(
            "add table ip {name} {{ flags owner; }}\n\
             add chain ip {name} out {{ type nat hook postrouting priority srcnat; }}\n\
             add rule ip {name} out ip saddr {network}/30 masquerade\n\
             list table ip {name}\n"
        );
        outer.enter(|| start(&commands)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Isolation::NoNft,
            _ => Isolation::Refused(error.to_string()),
        })
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        // It ends at the end of its input, or is killed.
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends commands to `nft`, the last of which lists the table, and reads until it is listed.
fn start(commands: &str) -> io::Result<Nat> {
    let (said, says) = pipe_with(PipeFlags::CLOEXEC)?;
    let errors = says.try_clone()?;
    let mut nft = Command::new("nft");
    // Ctrl-C must end the program, not the translation for data in flight: terminals do not signal other groups.
    nft.process_group(0);
    nft.arg("-i").stdin(Stdio::piped()).stdout(says).stderr(errors);
    let mut maker = Nat(nft.spawn()?);
    // Closes our copies of its outputs, so that reading ends with it.
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
