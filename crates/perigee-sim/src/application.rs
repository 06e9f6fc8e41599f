//! Runs the application at one end of a connection; what it, and a proxy, need of a transport.

use perigee_tcp::Endpoint;
use perigee_traffic::{Action, End, Facts, Script};
use perigee_units::Time;

/// An end of a connection as applications and proxies see it, whatever its transport: the border at which another one than TCP would stand.
/// Byte counts begin with the connection.
pub(crate) trait Stream {
    /// Bytes given to [`Stream::write`].
    fn written(&self) -> u64;
    /// Bytes written that the other end has acknowledged.
    fn acked(&self) -> u64;
    /// Bytes received in order.
    fn received(&self) -> u64;
    /// Bytes received that have not been read, if they are read on demand.
    fn unread(&self) -> u64;
    /// Whether the other end has closed its half, and all its bytes have been received.
    fn peer_closed(&self) -> bool;
    fn write(&mut self, bytes: u64);
    /// Takes back what is written and the send buffer has not taken.
    fn withdraw(&mut self);
    fn read(&mut self, now: Time, bytes: u64);
    /// Closes its half after the last byte written.
    fn close(&mut self);
    /// Closes its half at once, without what is not yet sent.
    fn stop(&mut self);
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

impl Stream for Endpoint {
    own_methods! {
        asks {
            written() -> u64;
            acked() -> u64;
            received() -> u64;
            unread() -> u64;
            peer_closed() -> bool;
        }
        does {
            write(bytes: u64);
            withdraw();
            read(now: Time, bytes: u64);
            close();
            stop();
            set_writer_blocked(is_blocked: bool);
        }
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
pub(crate) fn act(now: Time, end: End, host: &mut impl Stream, script: &mut Script) -> Wait {
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
