//! One process of the service after another: a new version takes over from the one that runs.
//!
//! | the new process | the old process |
//! |---|---|
//! | connects | says what it is ([`Standing`]) |
//! | `offer`, with its version | its sockets, one in each message, then `all` |
//! | opens what is missing, is confined: `ready` | accepts no more; the clients that wait for their server, then `yours` |
//! | its rules and threads: `runs` | `done`; leaves rules and files, and drains |
//!
//! At its end, the old process hands over what accounting could not write: `unwritten` with a line each, then `lost` with a number, which
//! the new one answers with `taken`. Without that answer the log has it.
//!
//! Both have the same sockets, so that no connection is lost that waits in the queue of one. Until `done` the old process goes on where it
//! was if the new one ends, or says nothing for [`PATIENCE`]. Afterwards it drains, and ends with
//! `stop` of the new one, which outlives it: the rules are needed as long.

pub(crate) mod command;
pub(crate) mod new;
mod old;

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use perigee_units::Time;

use crate::config::Transparent;
use crate::host::channel::{Channel, Message};
use crate::service::accounting::Unwritten;

/// The other processes of the service.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// Those that this one has replaced, and that drain.
    older: Vec<Channel>,
    /// The one that has replaced this one.
    newer: Option<Channel>,
    is_replaced: bool,
    /// Whether a replaced process has to end sooner.
    is_stopping: bool,
}

/// A process of the service, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) version: String,
    pub(crate) process: u32,
    pub(crate) is_ending: bool,
    /// Port, mark and table of the interception.
    pub(crate) intercepts: Option<[u32; 3]>,
    /// Whether the legs to servers have a zone of their own.
    pub(crate) with_zone: bool,
    /// Commands that have added its routes.
    pub(crate) routes: Vec<String>,
}

impl Succession {
    /// For a new process.
    pub(crate) fn after(older: Vec<Channel>) -> Self {
        Self { older, ..Self::default() }
    }

    /// Hears what older processes say, who may have an answer, and forgets those that have ended.
    pub(crate) fn hear_older(&mut self, mut hear: impl FnMut(&Message) -> Option<&'static [u8]>) {
        self.older.retain(|older| loop {
            match older.arrived() {
                Ok(Some(message)) => {
                    // An error means that it waits no longer.
                    let _ = hear(&message).map(|answer| older.send(answer, None));
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        });
    }

    /// Whether older processes still drain.
    pub(crate) fn has_older(&self) -> bool {
        !self.older.is_empty()
    }

    /// The process that has replaced this one, if it still runs.
    pub(crate) fn take_newer(&mut self) -> Option<Channel> {
        self.newer.take()
    }

    /// Has older processes end sooner; a second time at once.
    pub(crate) fn stop_older(&self) {
        for older in &self.older {
            // An error means that it has ended.
            let _ = older.send(STOP, None);
        }
    }

    /// Waits for older processes no longer.
    pub(crate) fn forget_older(&mut self) {
        self.older.clear();
    }

    /// Whether the newer process wants this one to stop.
    pub(crate) fn is_told_to_stop(&mut self) -> bool {
        match self.newer.as_ref().map(Channel::arrived) {
            Some(Ok(Some(message))) => message.bytes == STOP,
            Some(Err(_)) => {
                // It has ended, maybe was killed: the connections that are left need no other process.
                self.newer = None;
                false
            }
            Some(Ok(None)) | None => false,
        }
    }

    /// Whether this process is a replaced one that has to end sooner, which it learns for the first time.
    pub(crate) fn begins_to_stop(&mut self) -> bool {
        self.is_replaced && !std::mem::replace(&mut self.is_stopping, true)
    }
}

impl Standing {
    /// Reads what a process says; the error says why this one cannot speak with it.
    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(PROTOCOL) {
            return Err("the running version speaks another language; restart it".to_owned());
        }
        let rows = lines.filter_map(|line| line.split_once(' '));
        let routes = rows.clone().filter(|(name, _)| *name == "route").map(|(_, line)| line.to_owned()).collect();
        let rows: BTreeMap<&str, &str> = rows.collect();
        let row =
            |name: &str| rows.get(name).copied().ok_or_else(|| format!("the running version does not say its {name}"));
        let numbers: Vec<u32> = row("intercepts")?.split(' ').map_while(|number| number.parse().ok()).collect();
        Ok(Self {
            version: row("version")?.to_owned(),
            process: row("process")?.parse().map_err(|_| "the running version has no process".to_owned())?,
            is_ending: row("state")? != RUNNING,
            intercepts: numbers.try_into().ok(),
            with_zone: row("zone")? == "yes",
            routes,
        })
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, process, .. } = self;
        let state = if self.is_ending { "ending" } else { RUNNING };
        let zone = if self.with_zone { "yes" } else { "no" };
        let numbers = self.intercepts.map(|numbers| numbers.map(|number| number.to_string()).join(" "));
        let intercepts = numbers.as_deref().unwrap_or("no");
        write!(
            out,
            "{PROTOCOL}\nversion {version}\nprocess {process}\nstate {state}\nintercepts {intercepts}\nzone {zone}\n"
        )?;
        self.routes.iter().try_for_each(|line| writeln!(out, "route {line}"))
    }
}

/// Hands over to the newer process what accounting has not written.
///
/// # Errors
/// If it has not taken all of it, as a version does that knows nothing of it.
pub(crate) fn bequeath(newer: &Channel, unwritten: &Unwritten) -> io::Result<()> {
    for line in &unwritten.lines {
        newer.send(format!("{UNWRITTEN} {line}").as_bytes(), None)?;
    }
    newer.send(format!("{LOST} {}", unwritten.lost).as_bytes(), None)?;
    loop {
        // It may tell this one to stop, too.
        if newer.receive()?.bytes == TAKEN {
            return Ok(());
        }
    }
}

/// Port, mark and table, which two processes have to have in common.
fn numbers(transparent: &Transparent) -> [u32; 3] {
    [u32::from(transparent.port), transparent.mark, transparent.table]
}

/// Checks which message this is.
fn expect(message: &Message, expected: &[u8]) -> io::Result<()> {
    if message.bytes == expected {
        return Ok(());
    }
    Err(io::Error::other(message.text().trim_end()))
}

/// Why one process has nothing more from the other: the last that it has said, if it has gone.
fn reason(channel: &Channel, who: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            match channel.arrived() {
                Ok(Some(message)) => message.text().trim_end().to_owned(),
                _ => format!("{who} has ended"),
            }
        }
        io::ErrorKind::TimedOut => format!("{who} did not answer in {} s", PATIENCE.as_nanos() / 1_000_000_000),
        _ => error.to_string(),
    }
}

/// How long the old process, and `upgrade`, wait for each answer of the new one.
const PATIENCE: Time = Time::from_secs(10);
/// Both of them, in errors.
const NEW_PROCESS: &str = "the new process";
const OLD_PROCESS: &str = "the running process";
const PROTOCOL: &str = "perigee-pep 1";
const RUNNING: &str = "running";
/// Requests of a new process, the first with its version after a space.
const OFFER: &str = "offer";
const RELOAD: &[u8] = b"reload";
/// Answers to them, the second with what else is to be said.
const ALL: &[u8] = b"all";
const RELOADED: &str = "reloaded";
/// Steps of both.
const READY: &[u8] = b"ready";
const YOURS: &[u8] = b"yours";
const RUNS: &[u8] = b"runs";
const DONE: &[u8] = b"done";
const STOP: &[u8] = b"stop";
/// Lines that accounting has not written, each with more after a space, and the answer.
const UNWRITTEN: &str = "unwritten";
const LOST: &str = "lost";
const TAKEN: &[u8] = b"taken";
/// Names of descriptors in messages.
const LISTENER: &str = "listener";
const CONTROL: &str = "control";
const SUCCESSORS: &str = "successors";
const METRICS: &str = "metrics";
const LOCK: &str = "lock";
const DEVICE: &str = "device";
const LOG: &str = "log";
const OLDER: &str = "older";
/// Begins the message of a client that waits.
const WAITS: &str = "waits";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_of_itself_is_understood_and_other_languages_are_refused() {
        let standing = Standing {
            version: "1.2.0.dev0+g123".to_owned(),
            process: 77,
            is_ending: false,
            intercepts: Some([3129, 5, 7065]),
            with_zone: true,
            routes: vec!["ip -4 rule add".to_owned(), "ip -6 rule add".to_owned()],
        };
        assert_eq!(Standing::parse(&standing.to_string()).unwrap(), standing);
        let other = Standing { is_ending: true, intercepts: None, with_zone: false, ..standing };
        // Later versions may say more.
        assert_eq!(Standing::parse(&format!("{other}more of it\n")).unwrap(), other);
        assert!(Standing::parse("state running\nrunning_s 5\n").unwrap_err().contains("restart"));
    }
}
