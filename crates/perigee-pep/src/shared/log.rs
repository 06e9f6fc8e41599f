//! The log: lines on standard error, written by a thread of its own so that a slow reader delays no connection.

use std::collections::HashSet;
use std::io::Write as _;
use std::iter;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::stats::Stats;

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

    /// Logs a line, or counts it if too many wait.
    pub(crate) fn line(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            self.stats.unlogged.add(1);
        }
    }

    /// Logs a line, but only once.
    pub(crate) fn once(&self, line: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < MOST_SAID && said.insert(line.clone()) {
            self.line(line);
        }
    }
}

/// Starts the thread that writes the lines on standard error; it ends after the last [`Log`].
///
/// A line after a pause is written at once. What follows it is gathered for [`GATHERED`]: the thread is not woken for each short
/// connection, which a busy core would pay with switches of context.
pub(crate) fn write(lines: Receiver<String>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let error = std::io::stderr();
        let mut text = String::new();
        while let Ok(first) = lines.recv() {
            text.clear();
            for line in iter::once(first).chain(lines.try_iter().take(MOST_GATHERED)) {
                text.push_str(&line);
                text.push('\n');
            }
            // An error means that the reader has gone.
            let _ = error.lock().write_all(text.as_bytes());
            #[allow(clippy::disallowed_methods, reason = "nothing waits for this thread")]
            std::thread::sleep(GATHERED);
        }
    })
}

/// How long lines are gathered.
const GATHERED: Duration = Duration::from_millis(10);
/// Lines that are written at once.
const MOST_GATHERED: usize = 256;
/// Lines that may wait to be written.
const WAITING: usize = 8192;
/// Number of lines that [`Log::once`] remembers.
const MOST_SAID: usize = 1000;
