//! Moves bytes between the sockets of a connection: small amounts are copied through a buffer, bulk is spliced through a pipe.
//!
//! Buffers and pipes belong to the worker. A connection owns only the bytes that the receiving socket has not taken, in a buffer
//! of their size or, for a few connections, in the pipe; their total is limited. Beyond the limit each direction still has
//! [`SHARE`], which no other connection can use: unread bytes wait in the kernel's receive buffer, and other connections go on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice, PipeFlags, SpliceFlags};

use super::reader::{Untried, PIECE};
use crate::host::sys::limit_unsent;
use crate::relay::{Carrier, Side};
use crate::shared::tap::{FIRST_PIECE, WHOLE};

/// Memory of a worker for bytes that were read but not written yet.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Bytes that connections may keep, beside the share of each.
    limit: usize,
    /// Bytes that connections keep.
    used: usize,
    /// Directions that keep a pipe.
    kept_pipes: usize,
    may_splice: bool,
    buffers: Vec<Buffer>,
    pipes: Vec<Pipe>,
}

/// The sockets of a connection, and the bytes held between them.
#[derive(Debug)]
pub(crate) struct Sockets {
    ends: Arc<[OwnedFd; 2]>,
    /// Bytes held of the direction from each side.
    stores: [Store; 2],
    /// Whether the direction from each side is bulk.
    is_bulk: [bool; 2],
    /// The direction that is written in pieces, each a segment of the kernel's own, and their bytes, or [`WHOLE`].
    in_pieces: Side,
    piece: u32,
    /// The reader of the direction from each side, until it has shown that it reads.
    untried: [Option<Untried>; 2],
}

/// [`Sockets`] with the worker's memory.
pub(crate) struct SocketCarrier<'a> {
    pub(crate) sockets: &'a mut Sockets,
    pub(crate) memory: &'a mut Memory,
}

#[derive(Debug, Default)]
enum Store {
    #[default]
    Empty,
    /// The worker's buffer: bytes from the first index to the second, within a turn.
    Buffer(Buffer, usize, usize),
    /// The rest of a buffer or a pipe, from the index.
    Rest(Box<[u8]>, usize),
    /// The pipe, its bytes, and the number of them that are counted; zero within a turn.
    Pipe(Pipe, usize, usize),
}

type Buffer = Box<[u8; BUFFER]>;

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    size: u32,
}

impl Memory {
    /// Memory of at most `limit` bytes, but enough for one connection to be fast.
    pub(crate) fn new(limit: usize, may_splice: bool) -> Self {
        let limit = limit.max(2 * PIPE);
        Self { limit, used: 0, kept_pipes: 0, may_splice, buffers: Vec::new(), pipes: Vec::new() }
    }

    /// Changes the limits.
    pub(crate) fn allow(&mut self, limit: usize, may_splice: bool) {
        (self.limit, self.may_splice) = (limit.max(2 * PIPE), may_splice);
    }

    /// Bytes that connections keep.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes that a direction may read at a time.
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.used).max(SHARE)
    }

    fn buffer(&mut self) -> Buffer {
        self.buffers.pop().unwrap_or_else(|| vec![0; BUFFER].try_into().expect("a vector of this size"))
    }

    /// A pipe; `None` if the system refuses one.
    fn pipe(&mut self) -> Option<Pipe> {
        self.pipes.pop().or_else(Pipe::new)
    }

    /// Moves bytes that the receiving socket has not taken into memory of the connection.
    fn keep(&mut self, store: Store) -> io::Result<Store> {
        let rest: Box<[u8]> = match store {
            Store::Buffer(buffer, first, last) => {
                let rest = buffer[first..last].into();
                self.release(Store::Buffer(buffer, first, last));
                rest
            }
            Store::Pipe(pipe, held, 0) if self.kept_pipes < KEPT / 2 => {
                self.kept_pipes += 1;
                self.used += held;
                return Ok(Store::Pipe(pipe, held, held));
            }
            Store::Pipe(pipe, held, 0) => {
                let rest = pipe.drain(held)?;
                self.release(Store::Pipe(pipe, 0, 0));
                rest
            }
            kept => return Ok(kept),
        };
        self.used += rest.len();
        Ok(Store::Rest(rest, 0))
    }

    fn release(&mut self, store: Store) {
        match store {
            Store::Empty => {}
            Store::Buffer(buffer, ..) => {
                if self.buffers.len() < KEPT {
                    self.buffers.push(buffer);
                }
            }
            Store::Rest(rest, _) => self.used -= rest.len(),
            Store::Pipe(pipe, held, counted) => {
                self.used -= counted;
                self.kept_pipes -= usize::from(counted > 0);
                // A pipe with bytes in it is of no use to another connection.
                if held == 0 && self.pipes.len() + self.kept_pipes < KEPT {
                    self.pipes.push(pipe);
                }
            }
        }
    }
}

impl Sockets {
    pub(crate) fn new(client: OwnedFd, server: OwnedFd) -> Self {
        let (stores, untried) = (Default::default(), [Some(Untried::default()); 2]);
        Self {
            ends: Arc::new([client, server]),
            stores,
            is_bulk: [false; 2],
            in_pieces: Side::Client,
            piece: WHOLE as u32,
            untried,
        }
    }

    pub(crate) fn of(&self, side: Side) -> BorrowedFd<'_> {
        self.ends[side as usize].as_fd()
    }

    /// The sockets towards client and server.
    pub(crate) fn both(&self) -> &[OwnedFd] {
        &*self.ends
    }

    /// The sockets towards client and server, for observers while they are open.
    pub(crate) fn watched(&self) -> Weak<[OwnedFd; 2]> {
        Arc::downgrade(&self.ends)
    }

    /// Bytes that are written at a time of the direction from a side, or [`WHOLE`].
    fn piece(&self, from: Side) -> usize {
        if from == self.in_pieces {
            self.piece as usize
        } else {
            WHOLE
        }
    }

    /// Leaves the unsent bytes of a side to the thread that divides the link; until its first look they are few.
    pub(crate) fn put_on_link(&mut self, side: Side) {
        // Without the bound more would be written, no worse.
        let _ = limit_unsent(self.of(side), 2 * FIRST_PIECE as u32 + 1);
        self.untried[side.opposite() as usize] = Some(Untried::on_link());
    }

    /// Bounds what is written at a time to a side.
    pub(crate) fn write_at_a_time(&mut self, to: Side, bytes: usize) {
        (self.in_pieces, self.piece) = (to.opposite(), bytes as u32);
    }

    /// Gives back the memory that a connection holds.
    pub(crate) fn release(&mut self, memory: &mut Memory) {
        for store in &mut self.stores {
            memory.release(std::mem::take(store));
        }
    }
}

impl SocketCarrier<'_> {
    fn copy(&mut self, from: Side) -> io::Result<usize> {
        let mut buffer = self.memory.buffer();
        let untried = &mut self.sockets.untried[from as usize];
        let most = self.memory.room().min(if untried.is_some() { PIECE } else { BUFFER });
        let source = self.sockets.ends[from as usize].as_fd();
        let received = rustix::net::recv(source, &mut buffer[..most], RecvFlags::DONTWAIT);
        if let Some(untried) = untried
            && let Ok((bytes, _)) = received
        {
            untried.arrive(bytes == most, source);
        }
        match received {
            Ok((bytes, _)) if bytes > 0 => {
                self.sockets.is_bulk[from as usize] = bytes >= BULK;
                self.sockets.stores[from as usize] = Store::Buffer(buffer, 0, bytes);
                Ok(bytes)
            }
            other => {
                self.memory.release(Store::Buffer(buffer, 0, 0));
                Ok(other?.0)
            }
        }
    }

    /// Moves bytes into the pipe. Only [`SocketCarrier::copy`] can tell why none were moved: `splice` stops at an urgent mark, and
    /// reports the bytes behind it as not arrived, or as the end of the stream.
    fn splice(&mut self, from: Side, pipe: Pipe, most: usize) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        match splice(self.sockets.of(from), None, &pipe.write, None, most.min(pipe.size as usize), flags) {
            Ok(bytes) if bytes > 0 => {
                self.sockets.is_bulk[from as usize] = bytes >= SMALL;
                self.sockets.stores[from as usize] = Store::Pipe(pipe, bytes, 0);
                Ok(bytes)
            }
            other => {
                self.sockets.is_bulk[from as usize] = false;
                self.memory.release(Store::Pipe(pipe, 0, 0));
                match other {
                    Ok(_) | Err(Errno::AGAIN) => self.copy(from),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

impl Carrier for SocketCarrier<'_> {
    fn receive(&mut self, from: Side, budget: usize) -> io::Result<usize> {
        let room = self.memory.room();
        if self.memory.may_splice
            && self.sockets.is_bulk[from as usize]
            && self.sockets.piece(from) == WHOLE
            && room >= BUFFER
            && let Some(pipe) = self.memory.pipe()
        {
            return self.splice(from, pipe, budget.max(BUFFER).min(room));
        }
        self.copy(from)
    }

    fn send(&mut self, from: Side) -> io::Result<usize> {
        let [source, to] = [from, from.opposite()].map(|side| self.sockets.ends[side as usize].as_fd());
        let piece = self.sockets.piece(from);
        let untried = &mut self.sockets.untried[from as usize];
        let store = &mut self.sockets.stores[from as usize];
        let end = if piece == WHOLE { SendFlags::empty() } else { SendFlags::EOR };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | end;
        let of = |bytes: &[u8]| rustix::net::send(to, &bytes[..bytes.len().min(piece)], flags);
        let sent = match store {
            Store::Empty => return Ok(0),
            Store::Buffer(buffer, first, last) => of(&buffer[*first..*last]).inspect(|sent| *first += sent),
            Store::Rest(rest, first) => of(&rest[*first..]).inspect(|sent| *first += sent),
            Store::Pipe(pipe, held, _) => {
                let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                splice(&pipe.read, None, to, None, piece.min(*held), flags).inspect(|sent| *held -= sent)
            }
        };
        if sent == Err(Errno::AGAIN) {
            if let Some(untried) = untried {
                untried.refuse(to);
            }
            *store = self.memory.keep(std::mem::take(store))?;
        }
        let sent = sent?;
        untried.take_if(|untried| untried.take(sent, source, to));
        if self.held(from) == 0 {
            self.discard(from);
        }
        Ok(sent)
    }

    fn held(&self, from: Side) -> usize {
        match &self.sockets.stores[from as usize] {
            Store::Empty => 0,
            Store::Buffer(_, first, last) => last - first,
            Store::Rest(rest, first) => rest.len() - first,
            Store::Pipe(_, held, _) => *held,
        }
    }

    fn discard(&mut self, from: Side) {
        self.memory.release(std::mem::take(&mut self.sockets.stores[from as usize]));
    }

    fn finish(&mut self, to: Side) -> io::Result<()> {
        Ok(rustix::net::shutdown(self.sockets.of(to), Shutdown::Write)?)
    }
}

impl Pipe {
    /// A pipe that holds at least as much as a buffer; `None` if descriptors have run out. Past the user's limit of pipes, which
    /// holds without `CAP_SYS_RESOURCE`, the kernel returns one of two pages: copying is faster.
    fn new() -> Option<Self> {
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok()?;
        let size = fcntl_setpipe_size(&write, PIPE).or_else(|_| fcntl_getpipe_size(&write)).ok()?;
        (size >= BUFFER).then_some(Self { read, write, size: size as u32 })
    }

    /// Takes the bytes that it holds.
    fn drain(&self, held: usize) -> io::Result<Box<[u8]>> {
        let mut rest = vec![0; held];
        let mut done = 0;
        while done < held {
            done += rustix::io::read(&self.read, &mut rest[done..])?;
        }
        Ok(rest.into())
    }
}

/// Bytes that are read at a time by copying.
pub(crate) const BUFFER: usize = 64 << 10;
/// Descriptors of a worker's pipes.
pub(crate) const PIPE_DESCRIPTORS: usize = 2 * KEPT;
/// Size of a pipe, bytes.
const PIPE: usize = 256 << 10;
/// A direction becomes bulk when a copy reads this many bytes, until a splice moves fewer than [`SMALL`].
const BULK: usize = 48 << 10;
const SMALL: usize = 16 << 10;
/// Bytes guaranteed to each direction beyond the common limit.
const SHARE: usize = 4 << 10;
/// Number of unused buffers that a worker keeps, and of its pipes, half of which may wait for sockets.
const KEPT: usize = 64;

#[cfg(test)]
mod tests;
