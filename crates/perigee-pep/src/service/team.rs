//! The thread of a worker, with its initial listening sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::worker::{Command, Listener, Worker};
use crate::config::Config;
use crate::error::ServiceError;
use crate::host::intercept::listening_addresses;
use crate::legs::socket::listening;
use crate::shared::Shared;

/// A worker's thread.
pub(crate) struct Team {
    thread: Option<JoinHandle<io::Result<()>>>,
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
}

impl Team {
    /// Starts the thread in the network namespace of the calling one.
    pub(crate) fn start(shared: &Arc<Shared>, config: &Arc<Config>) -> Result<Self, ServiceError> {
        let listeners = addresses(config).into_iter().map(open_listener).collect::<Result<Vec<_>, _>>()?;
        Self::listen(shared, config, listeners)
    }

    /// Starts the thread with open listening sockets.
    pub(crate) fn listen(
        shared: &Arc<Shared>,
        config: &Arc<Config>,
        listeners: Vec<Listener>,
    ) -> Result<Self, ServiceError> {
        let (commands, received) = channel();
        let (worker, wake) = Worker::new(shared.clone(), config.clone(), listeners, received)
            .map_err(ServiceError::system("event loop"))?;
        let thread = thread::Builder::new().name("pep-worker".to_owned()).spawn(move || worker.run());
        Ok(Self { thread: Some(thread.map_err(ServiceError::system("thread"))?), commands, wake })
    }

    /// Sends a command.
    pub(crate) fn tell(&self, command: Command) {
        // An error means that the worker has ended.
        let _ = self.commands.send(command);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }

    /// The result of the thread, once it has ended.
    pub(crate) fn result(&mut self) -> Option<io::Result<()>> {
        if !self.thread.as_ref()?.is_finished() {
            return None;
        }
        let panicked = || Err(io::Error::other("a worker panicked"));
        Some(self.thread.take()?.join().unwrap_or_else(|_| panicked()))
    }

    /// Whether the thread's result was not taken yet.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.is_some()
    }

    /// Resets all connections and waits for the end of the thread.
    pub(crate) fn abort(&mut self) {
        self.tell(Command::Abort);
        // A panic was printed where it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Listening addresses, and whether each gets intercepted connections.
pub(crate) fn addresses(config: &Config) -> Vec<(SocketAddr, bool)> {
    let forwards = config.forwards.iter().map(|forward| (forward.listen, false));
    let ports = config.transparent.iter().map(|transparent| transparent.port);
    let intercepted = ports
        .flat_map(|port| listening_addresses().into_iter().map(move |address| (SocketAddr::new(address, port), true)));
    forwards.chain(intercepted).collect()
}

/// A listening socket at an address.
pub(crate) fn open_listener((address, is_transparent): (SocketAddr, bool)) -> Result<Listener, ServiceError> {
    let socket =
        listening(address, is_transparent).map_err(ServiceError::system(&format!("listening at {address}")))?;
    Ok(Listener { socket, address, is_transparent })
}
