//! Streams as counts of bytes: what waits to be written, and what has been read.

use std::collections::BTreeMap;

use bytes::Bytes;
use noq_proto::{Connection, Dir, ReadError, WriteError};

use crate::events::{Event, StreamId};

/// The streams of a connection.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    sending: BTreeMap<StreamId, Sending>,
    received: BTreeMap<StreamId, u64>,
}

/// Data of a stream that the stack has not accepted yet.
#[derive(Debug, Default)]
struct Sending {
    waiting: u64,
    is_finished: bool,
}

impl Streams {
    /// Adds bytes to a stream.
    pub(crate) fn write(&mut self, connection: &mut Connection, stream: StreamId, bytes: u64) {
        self.sending.entry(stream).or_default().waiting += bytes;
        self.offer(connection, stream);
    }

    /// Ends a stream after what has been written to it.
    pub(crate) fn finish(&mut self, connection: &mut Connection, stream: StreamId) {
        self.sending.entry(stream).or_default().is_finished = true;
        self.offer(connection, stream);
    }

    /// Gives the stack as much of a stream as flow control and send window allow.
    pub(crate) fn offer(&mut self, connection: &mut Connection, stream: StreamId) {
        let Some(sending) = self.sending.get_mut(&stream) else { return };
        let mut send = connection.send_stream(stream.0);
        while sending.waiting > 0 {
            let len = sending.waiting.min(ZEROS.len() as u64) as usize;
            match send.write_chunks(&mut &mut [Bytes::from_static(&ZEROS[..len])][..]) {
                Ok(written) => sending.waiting -= written as u64,
                Err(WriteError::Blocked) => return,
                // The peer reads no more of it.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => sending.waiting = 0,
            }
        }
        if sending.is_finished {
            // An error says that the peer has stopped it before.
            let _ = send.finish();
            self.sending.remove(&stream);
        }
    }

    /// Takes back what waits for credit.
    pub(crate) fn withdraw(&mut self, stream: StreamId) {
        if let Some(sending) = self.sending.get_mut(&stream) {
            sending.waiting = 0;
        }
    }

    /// Forgets a stream that this end abandons.
    pub(crate) fn abandon(&mut self, stream: StreamId) {
        self.sending.remove(&stream);
    }

    /// Forgets all streams: the server has refused what was sent early.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether data wait for credit.
    pub(crate) fn are_waiting(&self) -> bool {
        self.sending.values().any(|sending| sending.waiting > 0)
    }

    /// Bytes of a stream that wait for credit.
    pub(crate) fn waiting(&self, stream: StreamId) -> u64 {
        self.sending.get(&stream).map_or(0, |sending| sending.waiting)
    }

    /// Bytes of a stream that were read, in order.
    pub(crate) fn received(&self, stream: StreamId) -> u64 {
        self.received.get(&stream).copied().unwrap_or(0)
    }

    /// Takes in the streams that the peer has opened.
    pub(crate) fn accept(&mut self, connection: &mut Connection, dir: Dir, mut report: impl FnMut(Event)) {
        while let Some(id) = connection.streams().accept(dir) {
            report(Event::Opened(StreamId(id)));
            self.read(connection, StreamId(id), &mut report);
        }
    }

    /// Reads all that is there of a stream.
    pub(crate) fn read(&mut self, connection: &mut Connection, stream: StreamId, mut report: impl FnMut(Event)) {
        let mut recv = connection.recv_stream(stream.0);
        let Ok(mut chunks) = recv.read(true) else { return };
        let mut bytes = 0;
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                Ok(None) => break Some(Event::Finished(stream)),
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(_)) => break Some(Event::Reset(stream)),
            }
        };
        // The next turn sends the credit that it may ask for.
        let _ = chunks.finalize();
        if bytes > 0 {
            *self.received.entry(stream).or_default() += bytes;
            report(Event::Received(stream));
        }
        if let Some(end) = end {
            report(end);
        }
    }
}

/// The content of every stream. Static, so that no stream has memory for what it sends.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
