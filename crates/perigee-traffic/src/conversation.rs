//! Facts and actions at the two ends of a connection, and the goal of the flow.

use std::fmt::Debug;

use perigee_results::{ExchangeLog, FlowId, Tables};
use perigee_units::Time;

use crate::exchanges::Exchanges;

/// An end of a flow's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The node with the data.
    From = 0,
    /// The node that receives the data.
    To = 1,
}

/// Facts at one end, on which alone the application there may decide: actions of the other end show only in these counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The instant.
    pub now: Time,
    /// Payload bytes that the application at this end has read so far.
    pub received: u64,
    /// Whether the other end has closed its half, and all its data has been read.
    pub closed: bool,
}

/// The next action of an application at one end.
///
/// A blocking driver executes it and asks again. An event-driven one asks again at once after actions that take no time
/// ([`Action::Write`], [`Action::Fill`], [`Action::Withdraw`], [`Action::HalfClose`], [`Action::Stop`]), and after the
/// others once the awaited event has happened. Asking too early is harmless: the answer is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Append bytes to the stream.
    Write(u64),
    /// Append as much as the send buffer takes, until this instant.
    Fill {
        /// When to stop.
        until: Time,
    },
    /// Take back what the send buffer has not taken, of bytes written or filled before.
    Withdraw,
    /// Close this half: FIN follows the written data.
    HalfClose,
    /// Stop here: unsent data may be dropped, and both halves close.
    Stop,
    /// Wait until this number of bytes has been read at this end since the start.
    Await(u64),
    /// Read all data until the other end closes its half.
    AwaitClose,
    /// Wait until this instant.
    Wait(Time),
    /// This end has finished.
    Done,
}

/// When a flow is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// When this number of bytes has been delivered to `to`.
    Bytes(u64),
    /// At this instant.
    Instant(Time),
    /// When this number of exchanges is complete.
    Exchanges(u32),
}

/// The behaviour of an application at both ends of its connection.
pub(crate) trait Conversation: Debug + Send {
    /// The next action at a connected end. Requests are announced to `exchanges` before they are written.
    fn next(&mut self, end: End, facts: Facts, exchanges: &mut Exchanges) -> Action;

    /// See [`Script::message_arrived`](crate::Script::message_arrived); without effect where counts of bytes say it.
    fn message_arrived(&mut self, _end: End, _stream: usize) {}

    /// Whether writes leave at once even if they do not fill a segment (`TCP_NODELAY`).
    fn is_interactive(&self) -> bool {
        true
    }

    /// Adds the rows specific to this kind for a flow that ended at `end`; `log` has its exchanges.
    fn write(&self, _id: FlowId<'_>, _log: &ExchangeLog, _end: Time, _tables: &mut Tables) {}
}

/// The last steps of an end that closes after the other one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closing {
    is_closed: bool,
}

impl Closing {
    /// The next action of an end that has nothing more to send.
    pub(crate) fn next(&mut self, facts: Facts) -> Action {
        if !facts.closed {
            Action::AwaitClose
        } else if std::mem::replace(&mut self.is_closed, true) {
            Action::Done
        } else {
            Action::HalfClose
        }
    }
}
