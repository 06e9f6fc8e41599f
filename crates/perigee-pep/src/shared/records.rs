//! Lines of accounting on their way to the thread that writes them.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};

use serde_json::{Map, Value};

use super::stats::Stats;
use crate::config::Accounting;

/// Takes lines of connections from any thread; those that find no room are counted as not written.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) to_writer: SyncSender<ForWriter>,
    has_connections: AtomicBool,
}

/// Messages for the thread that writes.
#[derive(Debug)]
pub(crate) enum ForWriter {
    /// A connection has ended.
    Connection(Map<String, Value>),
    /// A line of use that a process which this one has replaced could not write.
    Kept(String),
    /// Another configuration, and where its lines go.
    Configure(Accounting, Destination),
    /// No more lines of connections.
    End,
}

/// Where lines go after a reload.
#[derive(Debug)]
pub(crate) enum Destination {
    /// To a file that was opened; `None`: into the log.
    New(Option<File>),
    /// Where they went before, since the same file cannot be opened again.
    Old,
}

impl Records {
    /// For this configuration; and the messages.
    pub(crate) fn new(accounting: &Accounting) -> (Self, Receiver<ForWriter>) {
        let (to_writer, messages) = sync_channel(WAITING);
        (Self { to_writer, has_connections: AtomicBool::new(accounting.connections) }, messages)
    }

    /// Tells the end of a connection, if such lines are asked for.
    pub(crate) fn connection(&self, stats: &Stats, record: impl FnOnce() -> Map<String, Value>) {
        if self.has_connections.load(Ordering::Relaxed)
            && self.to_writer.try_send(ForWriter::Connection(record())).is_err()
        {
            stats.unwritten.add(1);
        }
    }

    /// Takes over a line of use of an older process. False: too many lines wait.
    pub(crate) fn keep(&self, line: &str) -> bool {
        self.to_writer.try_send(ForWriter::Kept(line.to_owned())).is_ok()
    }

    /// Goes on with another configuration. False: too many lines wait for a disk that takes none.
    pub(crate) fn configure(&self, accounting: Accounting, destination: Destination) -> bool {
        self.has_connections.store(accounting.connections, Ordering::Relaxed);
        self.to_writer.try_send(ForWriter::Configure(accounting, destination)).is_ok()
    }
}

/// Lines that may wait to be written.
const WAITING: usize = 8192;
