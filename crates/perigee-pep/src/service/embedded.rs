//! The service in a thread of another program, such as the emulator of a study.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use super::hold::Hold;
use super::team::Team;
use crate::config::Config;
use crate::error::ServiceError;
use crate::host::intercept::put;
use crate::shared::log::Log;
use crate::shared::stats::Stats;
use crate::shared::Carried;
use crate::shared::Shared;

/// A service with one worker, in the network namespace of the thread that started it. It ends when this is dropped; its rules and
/// routes end with the namespace.
pub struct Embedded {
    /// Holds handshakes of clients until their server answers, if a rule asks for it.
    hold: Option<Hold>,
    worker: Team,
    shared: Arc<Shared>,
    lines: Mutex<Receiver<String>>,
}

impl Embedded {
    /// Starts a service in the network namespace of the calling thread, which must not have its rules yet. `workers`, `control` and
    /// `metrics` of the configuration are ignored.
    ///
    /// # Errors
    /// If the system refuses a listening socket, the rules of nftables, the routes, or the device of held handshakes.
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

    /// The open connections.
    pub fn carried(&self) -> Vec<Carried> {
        self.shared.carried()
    }

    /// Bytes held by the service itself: read, but not taken by a socket yet.
    pub fn held(&self) -> u64 {
        self.shared.stats.held.get()
    }

    /// Log lines since the last call, except those of connections: refused settings and reached limits.
    pub fn notes(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.try_iter().filter(|line| !line.starts_with("connection ")).collect()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Ends before the worker, which would otherwise take a server that it dialled.
        drop(self.hold.take());
        self.worker.abort();
    }
}
