//! Relays bytes, ends of streams and failures between the two legs of a connection, without sockets.
//!
//! Sockets are edge-triggered: a [`Relay`] remembers the readiness of an event until an operation would block.

pub(crate) mod wait;

use std::io;

/// An end of a connection through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The side that opened the connection.
    Client,
    /// The side that was dialled.
    Server,
}

/// The operations on both sockets. A *direction* has the name of the side that its bytes come from.
pub(crate) trait Carrier {
    /// Reads about `budget` bytes at most of a direction with no held bytes; returns zero at the end of the stream.
    fn receive(&mut self, from: Side, budget: usize) -> io::Result<usize>;
    /// Writes held bytes of a direction, or a part of them, to the opposite side.
    fn send(&mut self, from: Side) -> io::Result<usize>;
    /// Bytes of a direction that were read but not written yet.
    fn held(&self, from: Side) -> usize;
    /// Drops the held bytes of a direction.
    fn discard(&mut self, from: Side);
    /// Ends the stream towards a side.
    fn finish(&mut self, to: Side) -> io::Result<()>;
}

/// Outcome of an advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Waits for the next event.
    Waiting,
    /// Has more work, after the turn of other connections.
    OutOfBudget,
    /// Both streams were passed on to their ends.
    Complete,
    /// The other side has failed: this one is to be reset once it has acknowledged all written bytes.
    Reset(Side),
    /// Both sides have failed.
    Lost,
}

/// State of an open connection.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    /// State of each side's socket, and of the direction from it.
    sides: [State; 2],
}

/// State of one side.
#[derive(Debug, Default)]
struct State {
    is_readable: bool,
    is_writable: bool,
    /// Its stream has ended, or it has failed and all bytes that arrived before were read.
    has_ended: bool,
    /// The end of its stream was passed on.
    is_finished: bool,
    failure: Option<io::ErrorKind>,
    /// Bytes that were passed on.
    passed: u64,
}

impl Side {
    /// The other side.
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Its name in logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl Relay {
    /// Handles an event of a socket.
    pub(crate) fn on_ready(&mut self, side: Side, is_readable: bool, is_writable: bool) {
        let state = &mut self.sides[side as usize];
        state.is_readable |= is_readable;
        state.is_writable |= is_writable;
    }

    /// Handles a failure of a socket. Bytes that it received before can still be read.
    pub(crate) fn on_failure(&mut self, side: Side, error: &io::Error) {
        let state = &mut self.sides[side as usize];
        state.failure.get_or_insert(error.kind());
        state.is_readable = true;
    }

    /// The first failure of a side.
    pub(crate) fn failure(&self, side: Side) -> Option<io::ErrorKind> {
        self.sides[side as usize].failure
    }

    /// Bytes that were passed on from a side.
    pub(crate) fn passed(&self, from: Side) -> u64 {
        self.sides[from as usize].passed
    }

    /// Moves about `budget` bytes in each direction.
    pub(crate) fn advance(&mut self, carrier: &mut impl Carrier, budget: usize) -> Progress {
        let mut progress = Progress::Waiting;
        for from in [Side::Client, Side::Server] {
            match self.pass(carrier, from, budget) {
                Progress::Waiting => {}
                other if progress == Progress::Waiting || other == Progress::OutOfBudget => progress = other,
                _ => {}
            }
        }
        for side in [Side::Client, Side::Server] {
            if self.sides[side as usize].failure.is_none() {
                continue;
            }
            let other = side.opposite();
            // The failed side cannot take it.
            carrier.discard(other);
            if self.sides[other as usize].failure.is_some() {
                carrier.discard(side);
                return Progress::Lost;
            }
            if self.sides[side as usize].has_ended && carrier.held(side) == 0 {
                return Progress::Reset(other);
            }
        }
        if self.sides.iter().all(|state| state.is_finished) {
            return Progress::Complete;
        }
        progress
    }

    /// Moves bytes of one direction, and its end.
    fn pass(&mut self, carrier: &mut impl Carrier, from: Side, mut budget: usize) -> Progress {
        let to = from.opposite();
        loop {
            let (source, sink) = (&self.sides[from as usize], &self.sides[to as usize]);
            if source.is_finished || sink.failure.is_some() {
                return Progress::Waiting;
            }
            if carrier.held(from) > 0 {
                if !sink.is_writable {
                    return Progress::Waiting;
                }
                match carrier.send(from) {
                    Ok(bytes) => self.sides[from as usize].passed += bytes as u64,
                    Err(error) if is_retry(&error) => {}
                    Err(error) if would_block(&error) => self.sides[to as usize].is_writable = false,
                    Err(error) => self.on_failure(to, &error),
                }
            } else if source.has_ended {
                if source.failure.is_some() {
                    return Progress::Waiting;
                }
                match carrier.finish(to) {
                    Ok(()) => self.sides[from as usize].is_finished = true,
                    Err(error) => self.on_failure(to, &error),
                }
            } else if !source.is_readable {
                return Progress::Waiting;
            } else if budget == 0 {
                return Progress::OutOfBudget;
            } else {
                match carrier.receive(from, budget) {
                    Ok(0) => self.sides[from as usize].has_ended = true,
                    Ok(bytes) => budget = budget.saturating_sub(bytes),
                    Err(error) if is_retry(&error) => {}
                    Err(error) if would_block(&error) => self.sides[from as usize].is_readable = false,
                    Err(error) => {
                        self.on_failure(from, &error);
                        self.sides[from as usize].has_ended = true;
                    }
                }
            }
        }
    }
}

fn is_retry(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests;
