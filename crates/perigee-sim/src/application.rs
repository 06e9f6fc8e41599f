//! Runs the application at one end of a connection; what sessions, applications and proxies need of a transport.

use perigee_tcp::{Endpoint, Failure};
use perigee_traffic::{Action, End, Facts, Script};
use perigee_units::Time;

/// An end of a connection as applications see it, whatever its transport. Byte counts begin with the connection.
pub(crate) trait Socket {
    /// Whether its application may read and write: its handshake is complete and it has not failed.
    fn is_established(&self) -> bool;
    /// Bytes given to [`Socket::write`].
    fn written(&self) -> u64;
    /// Bytes received in order.
    fn received(&self) -> u64;
    /// Whether the other end has closed its half, and all its bytes have been received.
    fn peer_closed(&self) -> bool;
    fn write(&mut self, bytes: u64);
    /// Takes back what is written and the send buffer has not taken.
    fn withdraw(&mut self);
    /// Closes its half after the last byte written.
    fn close(&mut self);
    /// Closes its half at once, without what is not yet sent.
    fn stop(&mut self);
}

/// An end of a connection as sessions, proxies and meters see it.
pub(crate) trait Stream: Socket {
    /// Whether its handshake was ever complete.
    fn was_established(&self) -> bool;
    /// Why it failed, if it did.
    fn failure(&self) -> Option<Failure>;
    /// Whether it needs nothing more: the other end has acknowledged everything including its end, or it has failed.
    fn is_closed(&self) -> bool;
    /// When its next timer is due; [`Time::MAX`] if none is set.
    fn deadline(&self) -> Time;
    /// Whether it has something to send now.
    fn has_output(&self) -> bool;
    /// Bytes written that the other end has not acknowledged.
    fn unacked(&self) -> u64;
    /// Bytes received, in order or behind a gap.
    fn arrived(&self) -> u64;
    /// Bytes received that have not been read, if they are read on demand.
    fn unread(&self) -> u64;
    /// Takes the latest round trip that it has measured since the last call.
    fn take_rtt(&mut self) -> Option<Time>;
    /// Opens the connection.
    fn open(&mut self, now: Time);
    /// Bytes wait until they are [read](Stream::read).
    fn read_on_demand(&mut self);
    /// Runs the timers that are due.
    fn on_timer(&mut self, now: Time);
    fn read(&mut self, now: Time, bytes: u64);
    /// Fails, and tells the other end.
    fn abort(&mut self);
    /// Whether its application has more to write, and may not until data is acknowledged.
    fn set_writer_blocked(&mut self, is_blocked: bool);
}

/// Methods that an endpoint of TCP has itself.
macro_rules! own_methods {
    (asks { $($name:ident() -> $result:ty;)* } does { $($change:ident($($argument:ident: $kind:ty),*);)* }) => {
        $(#[inline(always)]
        fn $name(&self) -> $result {
            Endpoint::$name(self)
        })*
        $(#[inline(always)]
        fn $change(&mut self $(, $argument: $kind)*) {
            Endpoint::$change(self $(, $argument)*);
        })*
    };
}

impl Socket for Endpoint {
    own_methods! {
        asks {
            is_established() -> bool;
            written() -> u64;
            received() -> u64;
            peer_closed() -> bool;
        }
        does {
            write(bytes: u64);
            withdraw();
            close();
            stop();
        }
    }
}

impl Stream for Endpoint {
    own_methods! {
        asks {
            was_established() -> bool;
            failure() -> Option<Failure>;
            is_closed() -> bool;
            deadline() -> Time;
            has_output() -> bool;
            unacked() -> u64;
            arrived() -> u64;
            unread() -> u64;
        }
        does {
            open(now: Time);
            read_on_demand();
            on_timer(now: Time);
            read(now: Time, bytes: u64);
            abort();
            set_writer_blocked(is_blocked: bool);
        }
    }

    #[inline(always)]
    fn take_rtt(&mut self) -> Option<Time> {
        Endpoint::take_rtt(self)
    }
}

/// Bytes or time that an end waits for; [`u64::MAX`] and [`Time::MAX`] if for nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Number of bytes received.
    pub(crate) bytes: u64,
    pub(crate) until: Time,
}

impl Wait {
    pub(crate) const NOTHING: Self = Self { bytes: u64::MAX, until: Time::MAX };
}

/// Runs the application at a connected end as far as possible.
pub(crate) fn act(now: Time, end: End, host: &mut impl Socket, script: &mut Script) -> Wait {
    let mut wait = Wait::NOTHING;
    loop {
        let facts = Facts { now, received: host.received(), closed: host.peer_closed() };
        match script.next(end, facts) {
            Action::Write(bytes) => host.write(bytes),
            Action::Fill { .. } => host.write(ENDLESS),
            Action::Withdraw => host.withdraw(),
            Action::HalfClose => host.close(),
            Action::Stop => host.stop(),
            Action::Await(bytes) => {
                wait.bytes = bytes;
                break;
            }
            Action::Wait(at) => {
                wait.until = at;
                break;
            }
            Action::AwaitClose | Action::Done => break,
        }
    }
    if end == End::To {
        script.request_sent(now, host.written());
        wait.bytes = wait.bytes.min(script.awaited());
    }
    wait
}

/// Bytes written by an application that fills the connection.
const ENDLESS: u64 = u64::MAX / 2;
