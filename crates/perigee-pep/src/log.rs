//! The log: lines on standard error, written by a thread of its own so that a slow reader delays no connection.

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::stats::Stats;

/// Takes lines from any thread.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    lines: SyncSender<String>,
    stats: Arc<Stats>,
    said: Arc<Mutex<HashSet<String>>>,
}

impl Log {
    /// A log, and its lines.
    pub(crate) fn new(stats: Arc<Stats>) -> (Self, Receiver<String>) {
        let (lines, written) = sync_channel(WAITING);
        (Self { lines, stats, said: Arc::default() }, written)
    }

    /// A line; it is counted instead where too many wait.
    pub(crate) fn line(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            self.stats.unlogged.add(1);
        }
    }

    /// A line that is written once, however often it is said.
    pub(crate) fn once(&self, line: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < MOST_SAID && said.insert(line.clone()) {
            self.line(line);
        }
    }
}

/// Starts the thread that writes the lines on standard error; it ends after the last [`Log`].
pub(crate) fn write(lines: Receiver<String>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let error = std::io::stderr();
        for line in lines {
            // Without a reader there is nobody to tell.
            let _ = writeln!(error.lock(), "{line}");
        }
    })
}

/// Lines that may wait to be written.
const WAITING: usize = 8192;
/// Lines that are remembered as said.
const MOST_SAID: usize = 1000;
