//! Answers queries for the state of the service: `status` over a Unix socket, metrics over HTTP.
//!
//! They share a thread with signals, so every socket is non-blocking. A client that stays silent or does not read is dropped
//! after [`PATIENCE`], or sooner in favour of a newer one.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use perigee_units::Time;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{accept_with, recv, send, RecvFlags, SendFlags, SocketFlags};
use rustix::process::geteuid;

use crate::config::successors;
use crate::error::ServiceError;
use crate::host::at_end::AtEnd;
use crate::host::channel::Channel;
use crate::shared::counts::open_metrics;

/// The listening sockets, and their clients.
#[derive(Debug)]
pub(crate) struct Answers {
    control: Option<Control>,
    metrics: Option<TcpListener>,
    /// Oldest first.
    open: VecDeque<Visitor>,
}

/// The sockets that `status` and a process that is to replace this one connect to. Their files are removed with them, unless they are
/// another process's.
#[derive(Debug)]
pub(crate) struct Control {
    /// Removes the files, if they are this process's.
    removal: Option<AtEnd>,
    listener: UnixListener,
    successors: OwnedFd,
    path: PathBuf,
}

/// A client.
#[derive(Debug)]
struct Visitor {
    socket: OwnedFd,
    state: Conversation,
    /// When it is dropped.
    deadline: Time,
}

#[derive(Debug)]
enum Conversation {
    /// The part of its request that has arrived.
    Asking(Vec<u8>),
    /// The unsent part of the answer.
    Answered(Vec<u8>),
}

impl Answers {
    /// Answers at these sockets.
    pub(crate) fn new(control: Option<Control>, metrics: Option<TcpListener>) -> Self {
        Self { control, metrics, open: VecDeque::new() }
    }

    /// The next process that is to replace this one, or asks for a reload: one of root, or of the user of this one.
    pub(crate) fn successor(&self) -> Option<Channel> {
        let channel = Channel::accept(&self.control.as_ref()?.successors)?;
        channel.peer().is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid()).then_some(channel)
    }

    /// The listening sockets: of `status`, of successors, and of metrics.
    pub(crate) fn listening(&self) -> [Option<BorrowedFd<'_>>; 3] {
        let control = self.control.as_ref();
        [
            control.map(|control| control.listener.as_fd()),
            control.map(|control| control.successors.as_fd()),
            self.metrics.as_ref().map(|metrics| metrics.as_fd()),
        ]
    }

    /// Leaves them to another process.
    pub(crate) fn leave(&mut self) {
        let control = self.control.take();
        control.and_then(|control| control.removal).into_iter().for_each(AtEnd::leave);
        self.metrics = None;
    }

    /// The sockets that have work for [`Answers::serve`] or [`Answers::successor`], and when.
    pub(crate) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let visitors = self.open.iter().map(|visitor| match visitor.state {
            Conversation::Asking(_) => (visitor.socket.as_fd(), PollFlags::IN),
            Conversation::Answered(_) => (visitor.socket.as_fd(), PollFlags::OUT),
        });
        let listening = self.listening().into_iter().flatten();
        listening
            .map(|socket| (socket, PollFlags::IN))
            .chain(visitors)
            .map(|(socket, flags)| PollFd::from_borrowed_fd(socket, flags))
    }

    /// Advances all clients as far as possible without waiting.
    pub(crate) fn serve(&mut self, now: Time, status: impl Fn() -> String, metrics: impl Fn() -> String) {
        let deadline = now + PATIENCE;
        if let Some(control) = &self.control {
            for socket in accepted(&control.listener) {
                let state = Conversation::Answered(status().into_bytes());
                self.open.push_back(Visitor { socket, state, deadline });
            }
        }
        if let Some(listener) = &self.metrics {
            for socket in accepted(listener) {
                self.open.push_back(Visitor { socket, state: Conversation::Asking(Vec::new()), deadline });
            }
        }
        self.open.retain_mut(|visitor| visitor.deadline > now && visitor.goes_on(&metrics));
        // The newest clients are the likeliest to complete a request.
        let beyond = self.open.len().saturating_sub(MOST);
        self.open.drain(..beyond);
    }
}

impl Visitor {
    /// Reads and writes what it can; false: it is done, or has failed.
    fn goes_on(&mut self, metrics: impl Fn() -> String) -> bool {
        if let Conversation::Asking(request) = &mut self.state {
            let mut part = [0; LONGEST_REQUEST];
            match recv(&self.socket, &mut part[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((bytes, _)) => request.extend(&part[..bytes]),
                Err(error) => return would_block(error),
            }
            let is_whole = request.windows(HEAD_END.len()).any(|bytes| bytes == HEAD_END);
            if !is_whole {
                return request.len() < LONGEST_REQUEST;
            }
            self.state = Conversation::Answered(answer(request, metrics));
        }
        if let Conversation::Answered(left) = &mut self.state {
            while !left.is_empty() {
                match send(&self.socket, left, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Ok(bytes) => drop(left.drain(..bytes)),
                    Err(error) => return would_block(error),
                }
            }
        }
        false
    }
}

impl Control {
    /// The sockets of an older process, whose files are not this one's before [`Control::own`].
    pub(crate) fn inherited(listener: OwnedFd, successors: OwnedFd, path: &Path) -> Self {
        Self { removal: None, listener: listener.into(), successors, path: path.to_owned() }
    }

    /// Makes the files those of this process, which removes them at its end.
    pub(crate) fn own(&mut self) {
        self.removal.get_or_insert_with(|| removal(&self.path));
    }
}

/// Removes the files of the sockets in the end.
fn removal(path: &Path) -> AtEnd {
    let files = [path.to_owned(), successors(path)];
    AtEnd::new(move || files.iter().for_each(|file| drop(fs::remove_file(file))))
}

/// Listens at a path, for its owner only. A socket without a listener is replaced, and nothing else.
pub(crate) fn control_socket(path: &Path) -> Result<Control, ServiceError> {
    let system = |error| ServiceError::System { what: format!("service.control {}", path.display()), error };
    match UnixStream::connect(path) {
        Ok(_) => return Err(ServiceError::Taken(path.display().to_string())),
        // So is one to a file that is no socket.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            if !fs::metadata(path).map_err(system)?.file_type().is_socket() {
                return Err(system(io::Error::other("this file is no socket; name a path that nothing else has")));
            }
            fs::remove_file(path).map_err(system)?;
        }
        Err(_) => {}
    }
    let beside = successors(path);
    // A killed service has left it: another one would have answered.
    if fs::symlink_metadata(&beside).is_ok_and(|left| left.file_type().is_socket()) {
        fs::remove_file(&beside).map_err(system)?;
    }
    let listener = UnixListener::bind(path).map_err(system)?;
    let successors = Channel::listener(&beside).map_err(|error| {
        let _ = fs::remove_file(path);
        ServiceError::System { what: format!("service.control {}", beside.display()), error }
    })?;
    let control = Control { removal: Some(removal(path)), listener, successors, path: path.to_owned() };
    for path in [path, &beside] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(system)?;
    }
    control.listener.set_nonblocking(true).map_err(system)?;
    Ok(control)
}

/// Asks a running service for its state.
pub(crate) fn ask(path: &Path) -> io::Result<String> {
    let mut socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(ANSWERED_WITHIN))?;
    let mut state = String::new();
    socket.read_to_string(&mut state)?;
    Ok(state)
}

/// Why no service answers at an address.
pub(crate) fn silent(path: &Path, error: io::Error) -> ServiceError {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            ServiceError::Silent(format!("not running ({path} is left from one that was killed)"))
        }
        io::ErrorKind::NotFound => ServiceError::Silent(format!("not running (nothing is at {path})")),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            ServiceError::Silent(format!("not running ({path} was closed right now)"))
        }
        io::ErrorKind::PermissionDenied => {
            let what = format!("{path}: run it as root");
            ServiceError::System { what, error }
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            let error = io::Error::other("it is busy, or was stopped; try again");
            ServiceError::System { what: format!("{path}: the service does not answer"), error }
        }
        _ => ServiceError::System { what: format!("{path}: no service answers"), error },
    }
}

/// Clients that wait to be accepted, at most [`AT_ONCE`].
fn accepted(listener: impl std::os::fd::AsFd) -> impl Iterator<Item = OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    (0..AT_ONCE).map_while(move |_| accept_with(&listener, flags).ok())
}

fn answer(request: &[u8], metrics: impl Fn() -> String) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let mut words = text.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // A query asks for nothing else here.
    let path = target.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") if accepts(&text, OPEN_METRICS) => {
            ("200 OK", OPEN_METRICS, open_metrics(&metrics()))
        }
        ("GET" | "HEAD", "/metrics") => ("200 OK", PROMETHEUS, metrics()),
        ("GET" | "HEAD", "/") => ("200 OK", "text/html; charset=utf-8", PAGE.concat()),
        _ => ("404 Not Found", PROMETHEUS, "metrics are at /metrics, and drawn at /\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // An answer to HEAD has the head of that to GET alone (RFC 9110, section 9.3.2).
    (if method == "HEAD" { head } else { head + &body }).into_bytes()
}

/// Whether a request accepts a kind of answer, but for its parameters.
fn accepts(request: &str, kind: &str) -> bool {
    let name = kind.split(';').next().unwrap_or(kind);
    let mut headers = request.lines().filter_map(|line| line.split_once(':'));
    headers.any(|(header, value)| header.eq_ignore_ascii_case("accept") && value.contains(name))
}

fn would_block(error: rustix::io::Errno) -> bool {
    matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
}

/// Time for a client to send its request and read the answer.
const PATIENCE: Time = Time::from_secs(1);
/// How long `status` waits for an answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// Maximum number of clients; beyond it the oldest is dropped.
const MOST: usize = 32;
/// Clients accepted at each socket before signals are handled.
const AT_ONCE: usize = 64;
/// The page that draws the metrics; it looks as all pages of the project do.
const PAGE: [&str; 4] = [
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
     <title>Proxy</title>\n<style>\n",
    include_str!("../../../../python/perigee/data/look.css"),
    "</style>\n",
    include_str!("page.html"),
];
/// Kinds of answers.
const PROMETHEUS: &str = "text/plain; version=0.0.4";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The end of the head of a request.
const HEAD_END: &[u8] = b"\r\n\r\n";
/// The longest head of a request, bytes.
const LONGEST_REQUEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_answered_with_a_query_and_to_head_without_a_body() {
        let said = |line: &str| {
            let answered = answer(format!("{line} HTTP/1.1\r\n\r\n").as_bytes(), || "open 1\n".to_owned());
            String::from_utf8(answered).unwrap()
        };
        let whole = said("GET /metrics");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.ends_with("\r\n\r\nopen 1\n"), "{whole}");
        assert_eq!(said("GET /metrics?x=1"), whole);
        assert_eq!(said("HEAD /metrics") + "open 1\n", whole);
        for line in ["GET /metrics2", "POST /metrics", "GET", ""] {
            assert!(said(line).starts_with("HTTP/1.1 404 "), "{line}");
        }
    }

    #[test]
    fn a_socket_that_was_left_is_replaced_and_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let [left, file] = ["left", "file"].map(|name| folder.path().join(name));
        drop(UnixListener::bind(&left).unwrap());
        drop(control_socket(&left).unwrap());
        assert!(!left.exists());
        fs::write(&file, "text").unwrap();
        let said = control_socket(&file).unwrap_err().to_string();
        assert!(said.ends_with("this file is no socket; name a path that nothing else has"), "{said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    }
}
