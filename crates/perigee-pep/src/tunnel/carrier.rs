//! The bytes of a connection between its socket at this box and its stream of the tunnel.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use perigee_quic::stack::{Connection, FinishError, ReadError, StreamId, VarInt, WriteError};
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use super::record::{Failure, Head, HEAD, MOST};
use crate::relay::{Carrier, Side};
use crate::shared::stats::Stats;

/// The two ends of a connection at this box, and the bytes held between them.
#[derive(Debug)]
pub(crate) struct Ends {
    /// Socket of the client at the terminal, of the server at the gateway.
    pub(crate) socket: OwnedFd,
    /// The side of the socket; the stream is the other.
    pub(crate) side: Side,
    pub(crate) stream: StreamId,
    /// Bytes for the stream: the opening, a record of data, or the last record.
    outgoing: Bytes,
    /// Bytes of `outgoing` other than data.
    overhead: usize,
    /// The stream ends after `outgoing`.
    is_last: bool,
    /// Unread bytes from the stream.
    arrived: Bytes,
    /// Further bytes, read ahead while the socket takes nothing, and the failure of the stream after them.
    ahead: VecDeque<Bytes>,
    ahead_failure: Option<io::ErrorKind>,
    /// The first byte of a head whose second one has not arrived.
    half: Option<u8>,
    /// Bytes of the current record that are not read yet.
    left: usize,
    stats: Arc<Stats>,
}

/// Bytes for the other box, which count as unacknowledged until QUIC has let go of the last of them.
struct Sent {
    bytes: Vec<u8>,
    stats: Arc<Stats>,
}

/// [`Ends`] with the tunnel; `None`: the stream has failed.
pub(crate) struct StreamCarrier<'a> {
    pub(crate) ends: &'a mut Ends,
    pub(crate) tunnel: Option<&'a mut Connection>,
}

impl Ends {
    /// `first` is the opening of this box; `arrived` are bytes of the other box after its own opening.
    pub(crate) fn new(
        (socket, side): (OwnedFd, Side),
        stream: StreamId,
        first: Vec<u8>,
        arrived: Bytes,
        stats: &Arc<Stats>,
    ) -> Self {
        Self {
            socket,
            side,
            stream,
            overhead: first.len(),
            outgoing: Sent::bytes(first, stats),
            is_last: false,
            arrived,
            ahead: VecDeque::new(),
            ahead_failure: None,
            half: None,
            left: 0,
            stats: stats.clone(),
        }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Bytes that wait for stream or socket.
    pub(crate) fn held(&self) -> usize {
        self.outgoing() + self.unread()
    }

    /// Bytes that wait for the stream.
    pub(crate) fn outgoing(&self) -> usize {
        self.outgoing.len()
    }

    /// Whether the reader at the socket is so far behind that no more is read ahead: the other box may fill the window of the
    /// stream.
    pub(crate) fn is_behind(&self) -> bool {
        self.unread() >= READ_AHEAD
    }

    fn unread(&self) -> usize {
        self.arrived.len() + self.ahead.iter().map(Bytes::len).sum::<usize>()
    }

    /// Bytes of data that wait for the stream.
    fn waiting(&self) -> usize {
        self.outgoing.len().saturating_sub(self.overhead)
    }
}

impl StreamCarrier<'_> {
    /// Writes waiting bytes to the stream as far as it takes them; true if nothing is left, its end included.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let Some(tunnel) = self.tunnel.as_deref_mut() else { return Err(io::ErrorKind::ConnectionReset.into()) };
        let ends = &mut *self.ends;
        while !ends.outgoing.is_empty() {
            match tunnel.send_stream(ends.stream).write_chunks(&mut std::slice::from_mut(&mut ends.outgoing)) {
                Ok(written) => ends.overhead = ends.overhead.saturating_sub(written),
                Err(WriteError::Blocked) => return Ok(false),
                Err(WriteError::Stopped(code)) => return Err(failure(code)),
                Err(WriteError::ClosedStream) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        if std::mem::take(&mut ends.is_last) {
            match tunnel.send_stream(ends.stream).finish() {
                Ok(()) | Err(FinishError::ClosedStream) => {}
                Err(FinishError::Stopped(code)) => return Err(failure(code)),
            }
        }
        Ok(true)
    }

    /// Reads ahead from the stream while the socket takes nothing, up to [`READ_AHEAD`]: the amount shows whether a reader is
    /// behind, which QUIC does not report.
    pub(crate) fn read_ahead(&mut self) {
        let Some(tunnel) = self.tunnel.as_deref_mut() else { return };
        while !self.ends.is_behind() && self.ends.ahead_failure.is_none() {
            match next_chunk(tunnel, self.ends.stream) {
                Ok(chunk) => self.ends.ahead.push_back(chunk),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.ends.ahead_failure = Some(error.kind()),
            }
        }
    }

    /// Appends the last record, after waiting bytes.
    pub(crate) fn say_last(&mut self, head: Head) -> io::Result<()> {
        let ends = &mut *self.ends;
        let last = [&ends.outgoing[..], &head.encode()].concat();
        ends.overhead += HEAD;
        (ends.outgoing, ends.is_last) = (Sent::bytes(last, &ends.stats), true);
        self.flush().map(|_| ())
    }

    /// Resets both directions of the stream at once.
    pub(crate) fn abandon(&mut self, why: Failure) {
        if let Some(tunnel) = self.tunnel.as_deref_mut() {
            release(tunnel, self.ends.stream, why);
        }
    }

    /// Asks the other box to send nothing more.
    pub(crate) fn stop(&mut self, why: Failure) {
        if let Some(tunnel) = self.tunnel.as_deref_mut() {
            let _ = tunnel.recv_stream(self.ends.stream).stop(VarInt::from_u32(u32::from(why.code())));
        }
    }

    /// Reads from the socket into a record.
    fn read_socket(&mut self) -> io::Result<usize> {
        let record = record(self.ends.socket())?;
        let length = record.len() - HEAD;
        if length > 0 {
            (self.ends.outgoing, self.ends.overhead) = (Sent::bytes(record, &self.ends.stats), HEAD);
        }
        Ok(length)
    }

    /// Reads from the stream until there are data, or it has ended.
    fn read_stream(&mut self) -> io::Result<usize> {
        loop {
            while self.ends.left == 0 && !self.ends.arrived.is_empty() {
                let byte = self.ends.arrived.get_u8();
                let Some(first) = self.ends.half.take() else {
                    self.ends.half = Some(byte);
                    continue;
                };
                match Head::decode([first, byte]) {
                    Head::Data(length) => self.ends.left = length,
                    Head::End => return Ok(0),
                    Head::Failed(failure) => return Err(failure.kind().into()),
                }
            }
            if !self.ends.arrived.is_empty() {
                return Ok(self.ends.left.min(self.ends.arrived.len()));
            }
            if let Some(chunk) = self.ends.ahead.pop_front() {
                self.ends.arrived = chunk;
                continue;
            }
            if let Some(kind) = self.ends.ahead_failure {
                return Err(kind.into());
            }
            let Some(tunnel) = self.tunnel.as_deref_mut() else { return Err(io::ErrorKind::ConnectionReset.into()) };
            self.ends.arrived = next_chunk(tunnel, self.ends.stream)?;
        }
    }
}

impl Sent {
    /// Counts bytes, and has them counted as long as there is any of them.
    fn bytes(bytes: Vec<u8>, stats: &Arc<Stats>) -> Bytes {
        stats.tunnel_unacknowledged.add(bytes.len() as u64);
        Bytes::from_owner(Self { bytes, stats: stats.clone() })
    }
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.stats.tunnel_unacknowledged.subtract(self.bytes.len() as u64);
    }
}

/// Reads a record from a socket, the head alone where the stream has ended. QUIC keeps it until it is acknowledged:
/// a short one takes little memory.
fn record(socket: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut record = Vec::with_capacity(HEAD + MOST);
    record.extend([0; HEAD]);
    rustix::net::recv(socket, spare_capacity(&mut record), RecvFlags::DONTWAIT)?;
    let length = record.len() - HEAD;
    record[..HEAD].copy_from_slice(&Head::Data(length).encode());
    if length < MOST / 2 {
        record.shrink_to_fit();
    }
    Ok(record)
}

/// The next bytes of a stream, in order. Its end is an error, since the last record comes before it.
pub(crate) fn next_chunk(tunnel: &mut Connection, stream: StreamId) -> io::Result<Bytes> {
    let mut receiving = tunnel.recv_stream(stream);
    let mut chunks = receiving.read(true).map_err(|_| io::Error::from(io::ErrorKind::ConnectionReset))?;
    let next = chunks.next(usize::MAX);
    // The caller sends the tunnel's packets after each turn.
    let _ = chunks.finalize();
    match next {
        Ok(Some(chunk)) => Ok(chunk.bytes),
        Ok(None) => Err(io::ErrorKind::ConnectionReset.into()),
        Err(ReadError::Blocked) => Err(io::ErrorKind::WouldBlock.into()),
        Err(ReadError::Reset(code)) => Err(failure(code)),
    }
}

/// Releases a stream. QUIC counts it as open, and opens no other in its place, until its end was read and all sent bytes are
/// acknowledged or reset.
pub(crate) fn release(tunnel: &mut Connection, stream: StreamId, why: Failure) {
    while next_chunk(tunnel, stream).is_ok() {}
    let code = VarInt::from_u32(u32::from(why.code()));
    // Fails if the stream has ended in order.
    let _ = tunnel.recv_stream(stream).stop(code);
    let _ = tunnel.send_stream(stream).reset(code);
}

fn failure(code: VarInt) -> io::Error {
    Failure::of_code(code.into_inner()).kind().into()
}

impl Carrier for StreamCarrier<'_> {
    fn receive(&mut self, from: Side, _budget: usize) -> io::Result<usize> {
        if from == self.ends.side {
            self.read_socket()
        } else {
            self.read_stream()
        }
    }

    fn send(&mut self, from: Side) -> io::Result<usize> {
        if from == self.ends.side {
            let before = self.ends.waiting();
            let is_empty = self.flush()?;
            let sent = before - self.ends.waiting();
            return if sent == 0 && !is_empty { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(sent) };
        }
        let held = self.held(from);
        let socket = self.ends.socket.as_fd();
        let sent = rustix::net::send(socket, &self.ends.arrived[..held], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        self.ends.arrived.advance(sent);
        self.ends.left -= sent;
        Ok(sent)
    }

    fn held(&self, from: Side) -> usize {
        if from == self.ends.side {
            self.ends.outgoing.len()
        } else {
            self.ends.left.min(self.ends.arrived.len())
        }
    }

    fn discard(&mut self, from: Side) {
        if from == self.ends.side {
            self.ends.outgoing.clear();
        } else {
            self.ends.left -= self.held(from);
            self.ends.arrived.clear();
            self.ends.ahead.clear();
        }
    }

    fn finish(&mut self, to: Side) -> io::Result<()> {
        if to == self.ends.side {
            Ok(rustix::net::shutdown(self.ends.socket(), Shutdown::Write)?)
        } else {
            self.say_last(Head::End)
        }
    }
}

/// Maximum bytes read ahead of a stream: more than an interactive exchange has in flight.
const READ_AHEAD: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_was_written_counts_until_nothing_of_it_is_left_and_little_takes_little_memory() {
        let stats = Arc::new(Stats::default());
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"hi").unwrap();
        let read = record(far.as_fd()).unwrap();
        assert_eq!(read, [&Head::Data(2).encode()[..], b"hi"].concat());
        assert!(read.capacity() < 64, "{}", read.capacity());
        let mut sent = Sent::bytes(read, &stats);
        let first = sent.split_to(1);
        assert_eq!(stats.tunnel_unacknowledged.get(), 4);
        drop(sent);
        assert_eq!(stats.tunnel_unacknowledged.get(), 4);
        drop(first);
        assert_eq!(stats.tunnel_unacknowledged.get(), 0);
    }
}
