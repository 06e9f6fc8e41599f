//! What the two ends of a connection may know and do: facts, actions, the goal of the flow.

use std::fmt::Debug;

use perigee_results::{ExchangeLog, FlowId, Tables};
use perigee_units::Time;

use crate::exchanges::Exchanges;

/// An end of a flow's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The node that has the data.
    From = 0,
    /// The node that gets them.
    To = 1,
}

/// What is known at one end. Nothing else may decide what the application does there: what the other end has done
/// shows in these counts only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The instant.
    pub now: Time,
    /// Payload bytes that the application at this end has read so far.
    pub received: u64,
    /// The other end has closed its half, and all that it sent has been read.
    pub closed: bool,
}

/// What an application does next at one end.
///
/// A driver that blocks carries it out and asks again. A driver of events asks again at once after those that take no time
/// ([`Action::Write`], [`Action::Fill`], [`Action::HalfClose`], [`Action::Stop`]), and after the others once what they
/// wait for has happened. To ask too early is harmless: the answer is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Append so many bytes to the stream.
    Write(u64),
    /// Append as much as there is room for, until this instant.
    Fill {
        /// When to stop.
        until: Time,
    },
    /// Close this half: FIN follows what has been written.
    HalfClose,
    /// Stop here: what has not been sent yet may be dropped, and both halves close.
    Stop,
    /// Wait until so many bytes have been read at this end since the beginning.
    Await(u64),
    /// Read all that comes until the other end closes its half.
    AwaitClose,
    /// Wait until this instant.
    Wait(Time),
    /// Nothing more is to be done at this end.
    Done,
}

/// When a flow is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// So many bytes have been delivered to `to`.
    Bytes(u64),
    /// This instant has come.
    Instant(Time),
    /// So many exchanges are complete.
    Exchanges(u32),
}

/// The behaviour of an application at both ends of its connection.
pub(crate) trait Conversation: Debug + Send {
    /// What happens next at an end that is connected. Requests are announced to `exchanges` before they are written.
    fn next(&mut self, end: End, facts: Facts, exchanges: &mut Exchanges) -> Action;

    /// Whether what is written has to leave at once, also where it does not fill a segment (`TCP_NODELAY`).
    fn is_interactive(&self) -> bool {
        true
    }

    /// Adds what is known of a flow of this kind alone, which ended at `end`; `log` has its exchanges.
    fn write(&self, _id: FlowId<'_>, _log: &ExchangeLog, _end: Time, _tables: &mut Tables) {}
}

/// The last steps of an end that closes after the other one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closing {
    is_closed: bool,
}

impl Closing {
    /// What happens next at an end that has nothing more to do.
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
