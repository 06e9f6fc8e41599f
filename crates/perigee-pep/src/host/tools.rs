//! The host's programs `nft` and `ip`, and the names that the service has in their tables.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use super::at_end::changing;
use super::sys::with_default_signals;

/// Executes a command line of plain words; an error has its output.
pub(crate) fn execute(line: &str, input: Option<&str>) -> io::Result<()> {
    answer(line, input).map(drop)
}

/// Executes one that changes what the service removes in its end; nobody does so any more once a panic ends the process.
pub(super) fn change(line: &str, input: Option<&str>) -> io::Result<()> {
    let _changing = changing();
    execute(line, input)
}

/// Executes a command line of plain words, and returns what it prints; an error has its output.
pub(crate) fn answer(line: &str, input: Option<&str>) -> io::Result<String> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |error: io::Error| io::Error::new(error.kind(), format!("`{line}`: {error}"));
    let mut child = with_default_signals(&mut command).spawn().map_err(failed)?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        pipe.write_all(input.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("`{line}`: {}", said.lines().next().unwrap_or("it failed"))))
}

/// The TUN device that SYNs wait behind.
pub(crate) const DEVICE: &str = "perigee_pep";
/// The table of nftables.
pub(crate) const TABLE: &str = "perigee_pep";
/// The conntrack zone of the legs to servers.
pub(crate) const ZONE: u16 = 7065;
