//! The service in a thread of another program, such as the emulator of a study.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use super::hold::{self, Hold, Waited};
use super::listener::{addresses, Listener};
use super::worker::{Order, Worker};
use crate::config::{Config, Rates};
use crate::error::ServiceError;
use crate::event_loop::Thread;
use crate::host::intercept::put;
use crate::link::Division;
use crate::shared::log::Log;
use crate::shared::stats::Stats;
use crate::shared::{Carried, Shared};

/// A service with one worker, in the network namespace of the thread that started it. It ends when this is dropped; its rules and
/// routes end with the namespace.
pub struct Embedded {
    /// Holds handshakes of clients until their server answers, if a rule asks for it. It ends before the worker, which would otherwise
    /// take a server that it dialled.
    #[expect(dead_code, reason = "its thread ends when it is dropped")]
    hold: Option<Hold>,
    #[expect(dead_code, reason = "its thread ends when it is dropped")]
    worker: Thread<Order>,
    division: Option<Division>,
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
        let division = Division::start(&shared, &config, &Arc::default()).map_err(ServiceError::system("link"))?;
        let listeners = Listener::open_all(&addresses(&config), 1, Vec::new())?.into_iter().flatten().collect();
        let worker = Worker::start(&shared, &config, listeners)?;
        let hold = config.uses_device().then(|| hold::start(&shared, &config, Waited::default())).transpose();
        let hold = hold.map_err(ServiceError::system("connect_first"))?;
        if let Some(transparent) = &config.transparent {
            put(&config, transparent, &[]).map_err(ServiceError::system("interception"))?;
        }
        Ok(Self { hold, worker, division, shared, lines: Mutex::new(lines) })
    }

    /// The open connections.
    pub fn carried(&self) -> Vec<Carried> {
        self.shared.carried()
    }

    /// Says the rates of the link whose queue the service owns, in place of those of its configuration.
    pub fn tell(&self, rates: Rates) {
        self.division.iter().for_each(|division| division.tell(rates));
    }

    /// Bytes held by the service itself: read, but not taken by a socket yet.
    pub fn held(&self) -> u64 {
        self.shared.stats.held.get()
    }

    /// Log lines since the last call: refused settings and reached limits, not those of connections or that a link is shared.
    pub fn notes(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let is_usual = |line: &String| line.starts_with("connection ") || line.starts_with("link shared ");
        lines.try_iter().filter(|line| !is_usual(line)).collect()
    }
}
