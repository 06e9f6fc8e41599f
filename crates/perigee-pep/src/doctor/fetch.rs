//! One transfer: a request over plain HTTP, and its answer to its end or to a limit.

use std::io;
use std::os::fd::OwnedFd;

use perigee_units::{Bytes, Time};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::net::{recv, send, sockopt, RecvFlags, SendFlags};

use super::content::Content;
use crate::host::clock::monotonic;

/// A transfer that has received bytes.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    /// Times from the start to the end of the handshake, to the first byte of the answer, and to its last.
    pub(crate) handshake: Time,
    pub(crate) first_byte: Time,
    pub(crate) total: Time,
    /// The file, without the head of the answer.
    pub(crate) content: Content,
}

/// Why a transfer has received nothing to compare.
#[derive(Debug)]
pub(crate) enum FetchError {
    /// The connection.
    Connection(io::Error),
    /// No handshake or no answer in time.
    Silent,
    /// Text received instead of an HTTP answer.
    NoHttp(String),
    /// The status line of an answer without a file.
    Status(String),
    /// The stream ended after the first number of bytes instead of the second.
    Cut(u64, u64),
}

/// Limits of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) longest: Time,
    pub(crate) most: Bytes,
}

/// Makes a transfer. `connect` opens the connection before the instant that it is given; `look` is called every [`INTERVAL`]
/// while the connection is open, and at the end.
pub(crate) fn fetch(
    connect: impl FnOnce(Time) -> io::Result<OwnedFd>,
    request: &str,
    bounds: Bounds,
    mut look: impl FnMut(&OwnedFd),
) -> Result<Fetched, FetchError> {
    let began = monotonic();
    let deadline = began + bounds.longest;
    let socket = connect(deadline)?;
    connected(&socket, deadline)?;
    let handshake = monotonic() - began;
    write(&socket, request.as_bytes(), deadline)?;
    let (mut buffer, mut looked) = (vec![0; BUFFER], monotonic());
    let mut answer = Answer::default();
    let mut times = [Time::ZERO; 2];
    loop {
        let length = match receive(&socket, &mut buffer, deadline) {
            Ok(length) => length,
            // The bytes received until then are the transfer.
            Err(error) if error.kind() == io::ErrorKind::TimedOut && answer.has_head => break,
            Err(error) => return Err(error.into()),
        };
        let now = monotonic();
        times[1] = now - began;
        if times[0] == Time::ZERO {
            times[0] = times[1];
        }
        let has_ended = answer.take(&buffer[..length], bounds.most)?;
        if now - looked >= INTERVAL {
            looked = now;
            look(&socket);
        }
        if has_ended {
            break;
        }
    }
    look(&socket);
    Ok(Fetched { handshake, first_byte: times[0], total: times[1], content: answer.content })
}

/// The part of an answer that has arrived.
#[derive(Debug, Default)]
struct Answer {
    head: Vec<u8>,
    /// Whether the head is complete, and the length of the file if it has that.
    has_head: bool,
    length: Option<u64>,
    content: Content,
}

impl Answer {
    /// Takes the next bytes, none at the end of the stream; true if the file is complete, or has `most` bytes.
    fn take(&mut self, part: &[u8], most: Bytes) -> Result<bool, FetchError> {
        let is_end = part.is_empty();
        let Some(part) = self.after_head(part)? else { return Ok(false) };
        let room = most.as_u64().min(self.length.unwrap_or(u64::MAX)) - self.content.bytes();
        self.content.add(&part[..part.len().min(room as usize)]);
        let bytes = self.content.bytes();
        if let Some(all) = self.length.filter(|all| is_end && bytes < *all) {
            return Err(FetchError::Cut(bytes, all));
        }
        self.content.is_complete = is_end || self.length == Some(bytes);
        Ok(self.content.is_complete || bytes >= most.as_u64())
    }

    /// The next bytes that are the file's; `None` while the head is incomplete.
    fn after_head<'p>(&mut self, part: &'p [u8]) -> Result<Option<&'p [u8]>, FetchError> {
        if self.has_head {
            return Ok(Some(part));
        }
        let before = self.head.len();
        self.head.extend_from_slice(part);
        let Some(end) = end_of_head(&self.head) else {
            let is_possible = !part.is_empty() && self.head.len() <= LONGEST_HEAD && is_http(&self.head);
            return if is_possible { Ok(None) } else { Err(FetchError::NoHttp(shown(&self.head))) };
        };
        self.length = read_head(&self.head[..end])?;
        self.has_head = true;
        Ok(Some(&part[end - before..]))
    }
}

/// Waits until a socket has connected.
pub(crate) fn connected(socket: &OwnedFd, deadline: Time) -> io::Result<()> {
    wait(socket, PollFlags::OUT, deadline)?;
    Ok(sockopt::socket_error(socket)??)
}

/// Waits without a socket.
pub(crate) fn pause(time: Time) {
    // A signal ends it early, which does no harm.
    let _ = poll(&mut [], Some(&timespec(time)));
}

impl From<io::Error> for FetchError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Connection(error),
        }
    }
}

fn write(socket: &OwnedFd, mut bytes: &[u8], deadline: Time) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(rustix::io::Errno::AGAIN) => wait(socket, PollFlags::OUT, deadline)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn receive(socket: &OwnedFd, buffer: &mut [u8], deadline: Time) -> io::Result<usize> {
    loop {
        // Also where bytes always wait.
        wait(socket, PollFlags::IN, deadline)?;
        match recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => return Ok(length),
            Err(rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn wait(socket: &OwnedFd, flags: PollFlags, deadline: Time) -> io::Result<()> {
    loop {
        let left = deadline - monotonic().min(deadline);
        if left == Time::ZERO {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match poll(&mut [PollFd::new(socket, flags)], Some(&timespec(left))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn timespec(time: Time) -> Timespec {
    let ns = time.as_nanos();
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// The offset of the file, after the head.
fn end_of_head(head: &[u8]) -> Option<usize> {
    let crlf = head.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
    // As RFC 9112, section 2.2, lets a recipient read it.
    crlf.or_else(|| head.windows(2).position(|two| two == b"\n\n").map(|at| at + 2))
}

fn is_http(head: &[u8]) -> bool {
    let begin = b"HTTP/1.";
    let known = head.len().min(begin.len());
    head[..known] == begin[..known]
}

/// The length of the file, if the head has it.
fn read_head(head: &[u8]) -> Result<Option<u64>, FetchError> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines();
    let status = lines.next().unwrap_or_default();
    if !is_http(head) {
        return Err(FetchError::NoHttp(shown(head)));
    }
    if status.split(' ').nth(1) != Some("200") {
        let moved = lines.find_map(|line| header(line, "location"));
        let to = moved.map_or_else(String::new, |to| format!(", to {to}"));
        return Err(FetchError::Status(format!("{}{to}", shown(status.as_bytes()))));
    }
    Ok(lines.find_map(|line| header(line, "content-length")).and_then(|length| length.parse().ok()))
}

fn header<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let (known, value) = line.split_once(':')?;
    known.eq_ignore_ascii_case(name).then(|| value.trim())
}

/// The first line, safe to print.
fn shown(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text: String = String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    if text.is_empty() {
        "nothing".to_owned()
    } else {
        format!("\"{text}\"")
    }
}

/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;
/// Longest head of an answer, bytes.
const LONGEST_HEAD: usize = 64 << 10;
/// Characters of an answer that an error quotes.
const SHOWN: usize = 80;
/// Time between two calls of `look`.
const INTERVAL: Time = Time::from_millis(100);
