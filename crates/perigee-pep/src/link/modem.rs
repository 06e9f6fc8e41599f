//! Asks the modem for the rates of the link: a program that prints them, or an HTTP server. A thread of its own, since either may be slow.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{kill_process_group, Pid, Signal};
use serde_json::Value;

use super::told::{plain, rate, Told};
use crate::config::{Asking, RateSource, Rates};
use crate::host::clock::monotonic;
use crate::host::sys::for_others;

/// The thread; it ends after its last question when this is dropped, which does not wait for an answer.
#[derive(Debug)]
pub(super) struct Modem(#[expect(dead_code, reason = "the thread sees its end")] Sender<()>);

impl Modem {
    pub(super) fn start(source: RateSource, told: Arc<Told>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let run = move || loop {
            let (answer, asking, name) = match &source {
                RateSource::Command(words, asking) => {
                    (execute(words, asking.within), asking, format!("`{}`", words[0]))
                }
                RateSource::Http(address, path, asking) => {
                    (get(*address, path, asking.within), asking, format!("http://{address}{path}"))
                }
                _ => return,
            };
            let rates = answer.map_err(|error| error.to_string()).and_then(|text| understand(&text, asking));
            told.put(rates.map_err(|why| format!("{name}: {why}")), monotonic());
            let pause = Duration::from_nanos(asking.every.as_nanos());
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        };
        Builder::new().name("pep-modem".to_owned()).spawn(run)?;
        Ok(Self(stop))
    }
}

/// The rates in an answer: text, or JSON where a key says where they are.
fn understand(text: &str, asking: &Asking) -> Result<Rates, String> {
    if asking.send_key.is_none() && asking.receive_key.is_none() {
        return plain(text).map_err(|why| match serde_json::from_str(text) {
            Ok(Value::Object(_)) => {
                "the answer is JSON; say where it has the rates: `send_key`, `receive_key`".to_owned()
            }
            _ => why,
        });
    }
    let answer: Value = serde_json::from_str(text).map_err(|error| format!("the answer is no JSON: {error}"))?;
    let find = |key: &Option<String>| {
        let Some(key) = key else { return Ok(None) };
        match key.split('.').try_fold(&answer, |value, name| value.get(name)) {
            Some(Value::Number(number)) => rate(&number.to_string()),
            Some(Value::String(text)) => rate(text),
            _ => Err(format!("the answer has no rate `{key}`")),
        }
    };
    Ok(Rates { send: find(&asking.send_key)?, receive: find(&asking.receive_key)? })
}

/// The output of a program that ends in time.
fn execute(words: &[String], within: Time) -> io::Result<String> {
    let deadline = monotonic() + within;
    let mut command = Command::new(&words[0]);
    // Pipes, since the confined service cannot open `/dev/null`. A group of its own, which ends with all that it has started.
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = for_others(&mut command).spawn().map_err(|error| match error.kind() {
        // Confinement is of the start, and allows the program that was named then.
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => {
            io::Error::new(error.kind(), format!("{error}; if a reload has named it, restart the service to allow it"))
        }
        _ => error,
    })?;
    let output = child.stdout.take().map_or(Ok(String::new()), |pipe| read_until(pipe, deadline, &mut |_| false));
    if output.is_err() {
        // It may have ended meanwhile.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait()?;
    let kind = match &output {
        Ok(_) if status.success() => return output,
        Ok(_) => io::ErrorKind::Other,
        Err(error) => error.kind(),
    };
    let mut why = output.map_or_else(|error| error.to_string(), |_| status.to_string());
    let said = child.stderr.as_mut().map(last_line).unwrap_or_default();
    if !said.is_empty() {
        why = format!("{why}, it says `{said}`");
    }
    if let Some(NOT_EXECUTED | NOT_FOUND) = status.code() {
        why += "; the service lets it execute nothing but the interpreter of its first line: name that itself there, not `env`";
    }
    Err(io::Error::new(kind, why))
}

/// The last line that a program has written to a pipe; of a long one the beginning. What it has started may still have the pipe open.
fn last_line(pipe: &mut (impl Read + AsFd)) -> String {
    let mut all = Vec::new();
    let mut part = [0; 4096];
    while all.len() < LONGEST && poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&Timespec::default())) == Ok(1) {
        match pipe.read(&mut part) {
            Ok(bytes) if bytes > 0 => all.extend(&part[..bytes]),
            _ => break,
        }
    }
    let text = String::from_utf8_lossy(&all);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    last.trim().chars().take(LONGEST_LINE).collect()
}

/// The body that an HTTP server answers with, in time.
fn get(address: SocketAddr, path: &str, within: Time) -> io::Result<String> {
    let deadline = monotonic() + within;
    let mut socket = TcpStream::connect_timeout(&address, Duration::from_nanos(within.as_nanos()))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let answer = read_until(&socket, deadline, &mut |text| body(text, false).is_some_and(|body| body.is_ok()))?;
    match body(&answer, true) {
        Some(whole) => whole.map_err(io::Error::other),
        None => Err(io::Error::other("the answer has no head of HTTP")),
    }
}

/// Body of an answer whose head is whole; the error if the body is not, or the status is not 200. A body without a length ends with the
/// connection (RFC 9112, section 6.3), as does one that is cut: it is whole if it ends with a line or an object of JSON.
fn body(answer: &str, has_ended: bool) -> Option<Result<String, String>> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Some(Err(format!("the answer is `{status}`")));
    }
    let fields: Vec<(String, &str)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
        .collect();
    let field = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
    let cut = || Err("the answer is cut short".to_owned());
    if field("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Some(unchunked(body).map_or_else(cut, Ok));
    }
    let length = field("content-length").and_then(|length| length.parse::<usize>().ok());
    Some(match length {
        Some(length) => body.get(..length).map_or_else(cut, |body| Ok(body.to_owned())),
        None if !has_ended => cut(),
        None if body.ends_with(['\n', '}']) => Ok(body.to_owned()),
        None => Err("the answer may be cut short: it has no Content-Length, and its last line no end".to_owned()),
    })
}

/// A body in chunks (RFC 9112, section 7.1); `None` if its end is missing.
fn unchunked(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..size)?);
        body = rest.get(size..)?.strip_prefix("\r\n")?;
    }
}

/// Reads to the end, or until the text is whole, before a deadline.
fn read_until(
    mut from: impl Read + AsFd,
    deadline: Time,
    is_whole: &mut dyn FnMut(&str) -> bool,
) -> io::Result<String> {
    let mut all = Vec::new();
    loop {
        let left = deadline - monotonic();
        let timeout =
            Timespec { tv_sec: (left.as_millis() / 1000) as i64, tv_nsec: (left.as_nanos() % 1_000_000_000) as _ };
        if left == Time::ZERO || poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&timeout))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no whole answer in time (`link.within`)"));
        }
        let mut part = [0; 4096];
        let bytes = from.read(&mut part)?;
        all.extend(&part[..bytes]);
        let text = String::from_utf8_lossy(&all);
        if bytes == 0 || is_whole(&text) {
            return Ok(text.into_owned());
        }
        if all.len() > LONGEST {
            return Err(io::Error::other("the answer is too long"));
        }
    }
}

/// Longest answer, bytes, and line of an error, letters.
const LONGEST: usize = 64 << 10;
const LONGEST_LINE: usize = 120;
/// Exit codes of a shell, and of `env`, for a program that cannot be executed.
const NOT_EXECUTED: i32 = 126;
const NOT_FOUND: i32 = 127;

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_units::Rate;
    use std::fs;
    use std::net::TcpListener;

    const SECOND: Time = Time::from_secs(1);

    fn words(script: &str) -> Vec<String> {
        ["/bin/sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_program_has_its_time_and_says_why_it_failed() {
        assert_eq!(execute(&words("echo 20 Mbit/s"), Time::from_secs(20)).unwrap(), "20 Mbit/s\n");
        let began = monotonic();
        assert_eq!(
            execute(&words("exec sleep 60"), Time::from_millis(250)).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert!(monotonic() - began < Time::from_secs(20));
        // And with it what it has started.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("process");
        let script = format!("sleep 60 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        execute(&words(&script), SECOND).unwrap_err();
        let stat = format!("/proc/{}/stat", fs::read_to_string(file).unwrap().trim());
        while fs::read_to_string(&stat).is_ok_and(|state| !state.contains(") Z ")) {
            assert!(monotonic() - began < Time::from_secs(20));
            std::thread::yield_now();
        }
        let fails = |script: &str| execute(&words(script), Time::from_secs(20)).unwrap_err().to_string();
        assert_eq!(fails("exit 3"), "exit status: 3");
        assert_eq!(
            fails("echo first >&2; echo 'no route' >&2; echo >&2; exit 1"),
            "exit status: 1, it says `no route`"
        );
        assert_eq!(
            fails("head -c 60000 /dev/zero | tr '\\0' x >&2; exit 1").len(),
            "exit status: 1, it says ``".len() + 120
        );
        let [refused, other] = ["exec /dev/null", "exit 2"].map(fails);
        assert!(refused.contains("; the service lets it execute nothing but the interpreter"), "{refused}");
        assert_eq!(other, "exit status: 2");
        assert!(execute(&["/no/such".to_owned()], SECOND).is_err());
    }

    #[test]
    fn an_http_server_is_asked_for_a_number_or_json() {
        let json = "{\"link\": {\"up\": 2000000, \"down\": \"20 Mbit/s\"}}";
        let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{json}\r\n0\r\n\r\n", json.len());
        let keys = Asking {
            every: SECOND,
            within: SECOND,
            send_key: Some("link.up".to_owned()),
            receive_key: Some("link.down".to_owned()),
        };
        assert!(understand(json, &Asking { send_key: None, receive_key: None, ..keys.clone() })
            .is_err_and(|why| why.contains("`send_key`")));
        let none = Asking { send_key: None, receive_key: None, ..keys.clone() };
        let both = [Some(Rate::from_bps(2_000_000)), Some(Rate::from_bps(20_000_000))];
        for (rest, asking, expected) in [
            ("200 OK\r\nContent-Length: 7\r\n\r\n2000000", &none, Some([both[0], None])),
            (&*format!("200 OK\r\n{chunked}"), &keys, Some(both)),
            (&*format!("200 OK\r\n\r\n{json}"), &keys, Some(both)),
            ("200 OK\r\nContent-Length: 9\r\n\r\n2000000", &none, None),
            ("200 OK\r\n\r\n2000000", &none, None),
            ("200 OK\r\n\r\n2000000\n", &none, Some([both[0], None])),
            ("503 Busy\r\n\r\n2000000\n", &none, None),
            ("200 OK\r\n\r\n{}", &keys, None),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (address, answer) = (listener.local_addr().unwrap(), format!("HTTP/1.1 {rest}"));
            let server = std::thread::spawn(move || {
                let (mut socket, _) = listener.accept().unwrap();
                let read = socket.read(&mut [0; 1024]).unwrap();
                assert!(read > 0);
                socket.write_all(answer.as_bytes()).unwrap();
            });
            let got = get(address, "/rate", Time::from_secs(20)).map_err(|error| error.to_string());
            let got = got.and_then(|text| understand(&text, asking)).ok().map(|rates| [rates.send, rates.receive]);
            assert_eq!(got, expected, "{rest}");
            server.join().unwrap();
        }
    }
}
