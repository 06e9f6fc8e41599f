//! The service in a thread of another program, as the emulator of a study has it.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use crate::carried::Carried;
use crate::config::Config;
use crate::error::ServiceError;
use crate::hold::Hold;
use crate::intercept::put;
use crate::log::Log;
use crate::shared::Shared;
use crate::stats::Stats;
use crate::team::Team;

/// A service with one worker, in the network namespace of the thread that has started it. It ends with this value; its rules and
/// routes end with the namespace.
pub struct Embedded {
    /// Clients whose handshake waits for their server, where a rule has that.
    hold: Option<Hold>,
    worker: Team,
    shared: Arc<Shared>,
    lines: Mutex<Receiver<String>>,
}

impl Embedded {
    /// Starts a service in the network namespace of the calling thread, which has none of its rules. `workers`, `control` and
    /// `metrics` of the configuration are not used.
    ///
    /// # Errors
    /// If a listening socket, the rules of nftables or the routes are refused, or what clients need that wait for their server.
    pub fn start(config: Config) -> Result<Self, ServiceError> {
        let config = Arc::new(Config { workers: 1, ..config });
        let stats = Arc::new(Stats::default());
        let (log, lines) = Log::new(stats.clone());
        let shared = Arc::new(Shared::new(stats, log, config.limits.connections).watched());
        let worker = Team::start(&shared, &config)?;
        let mut service = Self { hold: None, worker, shared, lines: Mutex::new(lines) };
        if config.uses_device() {
            let hold = Hold::begin(&service.shared, &config).map_err(ServiceError::system("connect_first"))?;
            service.hold = Some(hold);
        }
        if let Some(transparent) = &config.transparent {
            put(&config, transparent).map_err(ServiceError::system("interception"))?;
        }
        Ok(service)
    }

    /// The connections that are open.
    pub fn carried(&self) -> Vec<Carried> {
        self.shared.carried()
    }

    /// Bytes that were read and that no socket has taken yet; sockets have theirs beside them.
    pub fn held(&self) -> u64 {
        self.shared.stats.held.get()
    }

    /// Lines of the log since the last call, but for those of connections: settings that were refused, limits that were reached.
    pub fn notes(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.try_iter().filter(|line| !line.starts_with("connection ")).collect()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Before the worker: what it has dialled is no longer taken.
        drop(self.hold.take());
        self.worker.abort();
    }
}
