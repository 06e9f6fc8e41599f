//! A connection that crosses the shared link, as the thread that divides the link sees it.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, Weak};

use perigee_share::Transfer;
use perigee_units::Time;

use crate::config::{Config, Rates};
use crate::relay::Side;

/// A connection whose bytes cross the link. Its worker says when it becomes active, once, and nothing else: bytes pass without a lock.
#[derive(Debug)]
pub(crate) struct Tap {
    pub(crate) sockets: Weak<[OwnedFd; 2]>,
    pub(crate) crossing: Crossing,
    is_active: AtomicBool,
    /// Bytes that are written at a time, [`WHOLE`] without a bound.
    piece: AtomicUsize,
    to_link: Sender<ForLink>,
    /// The state of a connection that is not active.
    pub(crate) state: Mutex<Option<TapState>>,
}

/// How a connection crosses the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// The leg on the link.
    pub(crate) leg: Side,
    pub(crate) client: IpAddr,
    /// Bytes of the headers of IP and TCP without options.
    pub(crate) headers: u64,
    /// Limit of unsent bytes that its leg has of its own.
    pub(crate) unsent: Option<u64>,
}

/// The link's thread's knowledge of a connection; pairs are of what is sent onto the link, and received from it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TapState {
    /// When it was last seen.
    pub(crate) seen: Time,
    /// Payload and segments so far.
    pub(crate) moved: [u64; 2],
    pub(crate) segments: [u32; 2],
    pub(crate) transfers: [Transfer; 2],
    /// Limits that its socket has: rate, bytes per second, and window, bytes.
    pub(crate) limits: [Option<u64>; 2],
    /// Its copy of [`Tap::piece`], which sets the bound of its unsent bytes; `None` before the first look.
    pub(crate) piece: Option<usize>,
}

/// Messages for the link's thread.
#[derive(Debug)]
pub(crate) enum ForLink {
    /// Bytes pass again.
    Active(Arc<Tap>),
    /// Another configuration.
    Configure(Arc<Config>),
    /// Rates of the link, from now on.
    Rates(Rates),
    /// The service ends.
    Stop,
}

impl Tap {
    pub(crate) fn new(sockets: Weak<[OwnedFd; 2]>, crossing: Crossing, to_link: Sender<ForLink>) -> Self {
        Self {
            sockets,
            crossing,
            is_active: AtomicBool::new(false),
            piece: AtomicUsize::new(FIRST_PIECE),
            to_link,
            state: Mutex::new(None),
        }
    }

    /// Says that bytes have passed.
    pub(crate) fn touch(self: &Arc<Self>) {
        if !self.is_active.load(Ordering::Relaxed) && !self.is_active.swap(true, Ordering::AcqRel) {
            // It fails if the service is ending.
            let _ = self.to_link.send(ForLink::Active(self.clone()));
        }
    }

    /// Bytes that its worker writes at a time onto the link.
    pub(crate) fn piece(&self) -> usize {
        self.piece.load(Ordering::Relaxed)
    }

    /// Changes [`Tap::piece`].
    pub(crate) fn write_at_a_time(&self, bytes: usize) {
        self.piece.store(bytes, Ordering::Relaxed);
    }

    /// Lets the next byte make it active again.
    pub(crate) fn rest(&self) {
        self.is_active.store(false, Ordering::Release);
    }
}

/// Bytes written at a time before the first look: two segments on most paths, and far less than of the loopback device.
pub(crate) const FIRST_PIECE: usize = 4 << 10;
/// No bound of what is written at a time.
pub(crate) const WHOLE: usize = u32::MAX as usize;
