//! The memory that the connections of a proxy share, and one direction of a connection through a proxy.

use perigee_study::{Handshake, ProxySpec};
use perigee_units::Time;

use crate::application::Stream;

#[derive(Debug)]
pub(crate) struct Proxy {
    handshake: Handshake,
    /// Maximum bytes held per connection and direction.
    buffer: u64,
    /// Room in the buffer from which on a full one may be written again, bytes: a third of it.
    writable: u64,
    /// Maximum bytes held in total.
    memory: u64,
    held: u64,
    held_max: u64,
    /// Event sources of the sessions that wait for memory.
    waiting: Vec<u32>,
    has_room_again: bool,
}

/// State of a proxy at an instant.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProxyState {
    /// Open connections.
    pub(crate) connections: u32,
    /// Bytes received and not read.
    pub(crate) unread_bytes: u64,
}

impl Proxy {
    pub(crate) fn new(spec: &ProxySpec) -> Self {
        Self {
            handshake: spec.handshake,
            buffer: spec.buffer.as_u64(),
            writable: spec.buffer.as_u64().div_ceil(3),
            memory: spec.memory.as_u64(),
            held: 0,
            held_max: 0,
            waiting: Vec::new(),
            has_room_again: false,
        }
    }

    pub(crate) fn handshake(&self) -> Handshake {
        self.handshake
    }

    /// Bytes read and not acknowledged by the next legs: current and maximum.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.held, self.held_max)
    }

    /// Whether memory is available for waiting flows.
    #[inline]
    pub(crate) fn has_room_again(&self) -> bool {
        self.has_room_again
    }

    /// Takes the event sources of the waiting flows.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = u32> {
        self.has_room_again = false;
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// Whether memory is left.
    #[inline]
    fn has_room(&self) -> bool {
        self.held < self.memory
    }

    fn hold(&mut self, bytes: u64) {
        self.held += bytes;
        self.held_max = self.held_max.max(self.held);
    }

    #[inline]
    fn release(&mut self, bytes: u64) {
        self.held -= bytes;
        self.has_room_again |= bytes > 0 && !self.waiting.is_empty();
    }

    fn wait(&mut self, source: u32) {
        if !self.waiting.contains(&source) {
            self.waiting.push(source);
        }
    }
}

/// One direction of a connection through a proxy.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    /// Bytes read and not yet acknowledged.
    held: u64,
    /// The buffer was full, and is not yet empty enough to be written again.
    is_full: bool,
    is_closed: bool,
}

impl Pipe {
    /// Reads what `from` has received and writes it to `to`, as far as buffer and memory allow, followed by the end of the stream. Like a
    /// socket's, a full buffer becomes writable again when a third of it is free. `source` is the event source to wake when memory becomes
    /// available. Returns whether anything was passed on.
    #[inline(always)]
    pub(crate) fn pump(
        &mut self,
        now: Time,
        from: &mut impl Stream,
        to: &mut impl Stream,
        proxy: &mut Proxy,
        source: u32,
    ) -> bool {
        if self.held > 0 {
            let held = to.unacked();
            proxy.release(self.held - held);
            self.held = held;
        }
        if from.unread() == 0 {
            return !self.is_closed && from.peer_closed() && self.pass_on(now, from, to, proxy, source);
        }
        let stays_full = self.is_full && proxy.buffer.saturating_sub(self.held) < proxy.writable && proxy.has_room();
        !stays_full && self.pass_on(now, from, to, proxy, source)
    }

    #[inline(never)]
    fn pass_on(
        &mut self,
        now: Time,
        from: &mut impl Stream,
        to: &mut impl Stream,
        proxy: &mut Proxy,
        source: u32,
    ) -> bool {
        let unread = from.unread();
        let (room, memory) = (proxy.buffer.saturating_sub(self.held), proxy.memory.saturating_sub(proxy.held));
        self.is_full &= room < proxy.writable;
        let bytes = if self.is_full { 0 } else { unread.min(room).min(memory) };
        if unread > 0 {
            self.is_full |= bytes < unread && bytes == room;
            to.set_writer_blocked(self.is_full);
        }
        if bytes > 0 {
            to.write(bytes);
            from.read(now, bytes);
            self.held += bytes;
            proxy.hold(bytes);
        }
        if bytes < unread {
            if bytes == memory {
                proxy.wait(source);
            }
            return bytes > 0;
        }
        let ends = !self.is_closed && from.peer_closed();
        if ends {
            self.is_closed = true;
            to.close();
        }
        bytes > 0 || ends
    }

    /// The connection failed: releases what it held.
    pub(crate) fn drop_held(&mut self, proxy: &mut Proxy) {
        proxy.release(std::mem::take(&mut self.held));
    }
}
