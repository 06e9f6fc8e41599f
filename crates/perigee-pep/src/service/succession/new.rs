//! The process that takes over.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use perigee_text::one_line;
use perigee_units::Time;
use rustix::net::{socket, AddressFamily, SocketType};
use rustix::stdio::{dup2_stderr, dup2_stdout};

use super::{
    expect, numbers, reason, Standing, ALL, CONTROL, DEVICE, DONE, LISTENER, LOCK, LOG, METRICS, OFFER, OLDER,
    OLD_PROCESS, READY, RUNS, SUCCESSORS, WAITS, YOURS,
};
use crate::config::{successors, Config};
use crate::error::ServiceError;
use crate::host::channel::{Channel, Message};
use crate::host::sys::network_cookie;
use crate::service::answers::{ask, silent};
use crate::service::hold::Waited;
use crate::shared::handover::Left;
use crate::version::VERSION;

/// Sockets and knowledge from an older process; nothing, if this is the first.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    channel: Option<Channel>,
    sockets: Vec<(String, OwnedFd)>,
    standing: Option<Standing>,
}

impl Inherited {
    /// Asks the process that runs for its sockets. From here on the log is where that one's is.
    ///
    /// # Errors
    /// If none answers, or cannot be replaced by one with this configuration.
    pub(crate) fn ask(&mut self, config: &Config) -> Result<(), ServiceError> {
        let (channel, standing) = connect(config)?;
        let channel = &*self.channel.insert(channel);
        self.standing = Some(standing);
        let sockets = &mut self.sockets;
        let mut take = || -> io::Result<()> {
            tell(channel, format!("{OFFER} {VERSION}").as_bytes())?;
            loop {
                match channel.receive()? {
                    Message { bytes, .. } if bytes == ALL => return Ok(()),
                    Message { bytes, descriptor: Some(socket) } => {
                        sockets.push((String::from_utf8_lossy(&bytes).into_owned(), socket));
                    }
                    message => return Err(io::Error::other(message.text())),
                }
            }
        };
        take().map_err(|error| lost(channel, &error))?;
        self.check_network()?;
        if let Some(log) = self.take(LOG) {
            dup2_stderr(log).map_err(|error| ServiceError::system("log")(error.into()))?;
        }
        Ok(())
    }

    /// Tells the older process, whose log has it then, why this one does not take over.
    pub(crate) fn refuse(&self, error: &ServiceError) {
        // Without a channel it has taken over, or has not asked.
        let _ = self.channel.as_ref().map(|channel| channel.send(one_line(&error.to_string()).as_bytes(), None));
    }

    fn check_network(&self) -> Result<(), ServiceError> {
        let Some((_, theirs)) = self.sockets.iter().find(|(name, _)| name == LISTENER) else { return Ok(()) };
        let own = socket(AddressFamily::INET, SocketType::STREAM, None);
        let cookies = own.map_err(io::Error::from).and_then(|own| Ok((network_cookie(own)?, network_cookie(theirs)?)));
        match cookies {
            Ok((own, theirs)) if own != theirs => {
                let message = "the service runs in another network namespace; run this there: `ip netns exec NAME ...`";
                Err(ServiceError::Input(message.to_owned()))
            }
            // Before Linux 5.14 it is unknown.
            _ => Ok(()),
        }
    }

    /// Takes a socket.
    fn take(&mut self, name: &str) -> Option<OwnedFd> {
        let at = self.sockets.iter().position(|(of, _)| of == name)?;
        Some(self.sockets.remove(at).1)
    }

    fn take_all(&mut self, name: &str) -> Vec<OwnedFd> {
        self.sockets.extract_if(.., |(of, _)| of == name).map(|(_, socket)| socket).collect()
    }

    pub(crate) fn listeners(&mut self) -> Vec<OwnedFd> {
        self.take_all(LISTENER)
    }

    /// The sockets of `status` and of successors.
    pub(crate) fn control(&mut self) -> Option<[OwnedFd; 2]> {
        Some([self.take(CONTROL)?, self.take(SUCCESSORS)?])
    }

    pub(crate) fn metrics(&mut self) -> Option<OwnedFd> {
        self.take(METRICS)
    }

    pub(crate) fn lock(&mut self) -> Option<OwnedFd> {
        self.take(LOCK)
    }

    /// The older process; `None`: this one is the first.
    pub(crate) fn standing(&self) -> Option<&Standing> {
        self.standing.as_ref()
    }

    /// Has the older process accept no more; returns the clients that it leaves.
    pub(crate) fn begin(&mut self) -> Result<Waited, ServiceError> {
        let Some(channel) = &self.channel else { return Ok(Waited::default()) };
        let mut clients = Vec::new();
        let mut receive = || -> io::Result<()> {
            tell(channel, READY)?;
            loop {
                match channel.receive()? {
                    Message { bytes, .. } if bytes == YOURS => return Ok(()),
                    Message { bytes, descriptor: Some(server) } => clients.extend(read_left(&bytes, server)),
                    message => return Err(io::Error::other(message.text())),
                }
            }
        };
        receive().map_err(|error| lost(channel, &error))?;
        Ok(Waited { device: self.take(DEVICE).map(|device| Arc::new(device.into())), clients })
    }

    /// Tells the older process that this one runs; returns all that are older. On an error the older process goes on.
    pub(crate) fn conclude(&mut self) -> Result<Vec<Channel>, ServiceError> {
        let Some(channel) = self.channel.take() else { return Ok(Vec::new()) };
        let done = tell(&channel, RUNS).and_then(|()| expect(&channel.receive()?, DONE));
        done.map_err(|error| lost(&channel, &error))?;
        let older = self.take_all(OLDER).into_iter().filter_map(|socket| Channel::of(socket).ok());
        // Sockets that this configuration does not need are closed.
        self.sockets.clear();
        Ok(older.chain([channel]).collect())
    }
}

/// Connects to the process that runs.
///
/// # Errors
/// If none answers, or cannot be replaced by one with this configuration.
pub(super) fn connect(config: &Config) -> Result<(Channel, Standing), ServiceError> {
    let Some(control) = &config.control else {
        let message = "`reload` and `upgrade` need `control` in `[service]`; add it, and restart the service";
        return Err(ServiceError::Input(message.to_owned()));
    };
    let path = successors(control);
    let connected = Channel::connect(&path).and_then(|channel| Ok((channel.receive()?, channel)));
    let (standing, channel) = connected.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound && ask(control).is_ok() {
            return ServiceError::Upgrade("a version without `upgrade` runs; restart it".to_owned());
        }
        silent(&path, error)
    })?;
    let standing = Standing::parse(standing.text()).map_err(ServiceError::Upgrade)?;
    if standing.is_ending {
        return Err(ServiceError::Upgrade("the service is being stopped".to_owned()));
    }
    Ok((channel, standing))
}

/// Why a process cannot be replaced by one with this configuration.
///
/// # Errors
/// With the reason and the fix.
pub(super) fn check(config: &Config, running: &Standing) -> Result<(), ServiceError> {
    if config.transparent.as_ref().map(numbers) != running.intercepts {
        let message = "`[transparent]`, its port, mark and table change with a restart only";
        return Err(ServiceError::Input(message.to_owned()));
    }
    if config.tunnel.as_ref().is_some_and(|tunnel| tunnel.listens().is_some()) {
        let message =
            "the connections of terminals cannot be handed over: a gateway changes its version with a restart only, \
                       which resets what is open";
        return Err(ServiceError::Input(message.to_owned()));
    }
    Ok(())
}

/// Reads a client that waits.
fn read_left(message: &[u8], server: OwnedFd) -> Option<Left> {
    let mut parts = message.splitn(5, |byte| *byte == b' ');
    let mut next = || parts.next();
    let mut word = || std::str::from_utf8(next()?).ok();
    if word()? != WAITS {
        return None;
    }
    let mut time = || word()?.parse().ok().map(Time::from_nanos);
    let (began, deadline, connected) = (time()?, time()?, time()?);
    let connected = Some(connected).filter(|time| *time > Time::ZERO);
    Some(Left { syn: parts.next()?.to_vec(), server, began, deadline, connected })
}

/// Begins a step of the older process. `upgrade` sees the line, and knows that this process goes on.
fn tell(channel: &Channel, step: &[u8]) -> io::Result<()> {
    // An error means that nobody waits for it.
    let _ = rustix::io::write(io::stdout(), b"\n");
    channel.send(step, None)
}

fn lost(channel: &Channel, error: &io::Error) -> ServiceError {
    ServiceError::Upgrade(reason(channel, OLD_PROCESS, error))
}

/// Tells `upgrade`, which reads this process's output to its end, that it runs, and in place of which one.
pub(crate) fn tell_ready(before: &Standing) {
    let Standing { process, version, .. } = before;
    // An error means that nobody waits for it.
    let _ = rustix::io::write(io::stdout(), format!("{READY_WORD} {process} {version}\n").as_bytes());
    let _ = dup2_stdout(io::stderr());
}

/// Begins the output of a process that runs.
pub(super) const READY_WORD: &str = "ready";
