//! An active connection on the link: how much it moves, what it could use, and the limits of its socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use perigee_share::{Connection, Policy, Segment, Sender};
use perigee_units::{Bytes, Rate, Time};

use crate::host::sys::{limit_rate, limit_unsent, limit_window, tcp_info};
use crate::shared::tap::{Tap, TapState, FIRST_PIECE, WHOLE};

/// An active connection.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) tap: Arc<Tap>,
    /// Index of its subscriber.
    pub(super) subscriber: u32,
    pub(super) state: TapState,
    /// Rates on the link that it could use, and full segments, of each direction.
    demands: [Rate; 2],
    segments: [Segment; 2],
    round_trip: Time,
    /// Since when nothing is under way.
    quiet_since: Option<Time>,
}

/// Bytes and segments that a connection has moved since it was last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) bytes: [u64; 2],
    pub(super) segments: [u64; 2],
}

/// Fields of `struct tcp_info` (`linux/tcp.h`).
#[derive(Clone, Copy, Debug)]
struct Info {
    has_timestamps: bool,
    segment: [u32; 2],
    in_flight: u32,
    round_trip: Time,
    sender: Sender,
    moved: [u64; 2],
    segments: [u32; 2],
}

impl Info {
    fn of(socket: impl AsFd) -> io::Result<Self> {
        let (bytes, known) = tcp_info(socket)?;
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let own = u64::from(word(80)) * u64::from(word(16));
        let least = word(148);
        Ok(Self {
            has_timestamps: bytes[5] & TIMESTAMPS != 0,
            segment: [word(16), word(20)],
            in_flight: word(24),
            round_trip: Time::from_micros(u64::from(if least == u32::MAX { word(68) } else { least }.max(1))),
            sender: Sender {
                // Linux before 5.4 does not say the peer's, which is zero of one that reads nothing.
                window: Bytes::new(if known < 232 { own } else { own.min(u64::from(word(228))) }),
                is_slow_start: word(80) < word(76),
                has_more: word(144) > 0,
            },
            moved: [long(200), long(128)],
            segments: [word(156), word(152)],
        })
    }
}

impl Flow {
    pub(super) fn new(tap: Arc<Tap>, subscriber: u32, now: Time) -> Self {
        let state = tap.state.lock().map_or(None, |mut state| state.take());
        let state = state.unwrap_or(TapState { seen: now - FIRST, ..TapState::default() });
        Self {
            tap,
            subscriber,
            state,
            demands: [Rate::ZERO; 2],
            segments: [Segment { payload: 1, headers: 0 }; 2],
            round_trip: Time::ZERO,
            quiet_since: None,
        }
    }

    /// Looks at the socket; the error if it has none any more.
    pub(super) fn look(&mut self, policy: &Policy, overhead: u64, now: Time) -> io::Result<Moved> {
        let sockets = self.tap.sockets.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        let info = Info::of(&sockets[self.tap.crossing.leg as usize])?;
        let elapsed = (now - self.state.seen).max(Time::from_micros(1));
        let headers = self.tap.crossing.headers + if info.has_timestamps { TIMESTAMP_BYTES } else { 0 } + overhead;
        let mut moved = Moved::default();
        for (way, sender) in [Some(info.sender), None].into_iter().enumerate() {
            moved.bytes[way] = info.moved[way].saturating_sub(self.state.moved[way]);
            moved.segments[way] = u64::from(info.segments[way].wrapping_sub(self.state.segments[way]));
            let segment = Segment { payload: u64::from(info.segment[way].max(1)), headers };
            let bytes = Bytes::new(moved.bytes[way]);
            let could = self.state.transfers[way].look(policy, bytes, elapsed, info.round_trip, sender);
            (self.segments[way], self.demands[way]) = (segment, segment.on_link(could));
        }
        (self.state.moved, self.state.segments, self.state.seen) = (info.moved, info.segments, now);
        self.round_trip = info.round_trip;
        let is_quiet = !info.sender.has_more && info.in_flight == 0 && moved.bytes == [0; 2];
        self.quiet_since = if is_quiet { self.quiet_since.or(Some(now)) } else { None };
        Ok(moved)
    }

    /// Whether it needs no look until its next byte.
    pub(super) fn is_quiet(&self, now: Time) -> bool {
        self.quiet_since.is_some_and(|since| now >= since + QUIET.max(self.round_trip))
    }

    /// Bytes that the headers of a segment add on the link.
    pub(super) fn headers(&self) -> u64 {
        self.segments[0].headers
    }

    pub(super) fn connection(&self, way: usize) -> Connection {
        let (spent, demand) = (self.state.transfers[way].spent, self.demands[way]);
        Connection { subscriber: self.subscriber, spent, demand }
    }

    /// Limits what it sends to its share.
    pub(super) fn send_at(&mut self, share: Rate, link: Rate) -> io::Result<()> {
        let before = self.state.limits[0];
        let pace = self.state.transfers[0].pace(share, self.demands[0], link, self.segments[0], before.is_some());
        let Some(rate) = pace else {
            return match self.state.piece {
                Some(_) => Ok(()),
                // Much would be written before there is a limit, and go out in bursts.
                None if self.round_trip < SHORT_PATH => self.bound(link.as_bps() / 8, link, false),
                None => self.free(),
            };
        };
        if before.is_some_and(|before| before.abs_diff(rate) <= before / STEP) {
            return Ok(());
        }
        self.state.limits[0] = Some(rate);
        self.bound(rate, link, before.is_none())?;
        self.with_socket(|socket| limit_rate(socket, rate))
    }

    /// Bounds what it writes at a time at a rate, bytes per second, and what waits unsent.
    fn bound(&mut self, rate: u64, link: Rate, is_first: bool) -> io::Result<()> {
        let piece = self.piece(rate);
        if self.state.piece.replace(piece) == Some(piece) && !is_first {
            return Ok(());
        }
        self.tap.write_at_a_time(piece);
        let unsent = match piece {
            WHOLE => link.bytes_in(UNSENT).as_u64().max(LEAST_UNSENT),
            // Its worker hears of room when half of this is left.
            piece => 2 * piece as u64 + 1,
        };
        let unsent = unsent.min(self.tap.crossing.unsent.unwrap_or(u64::MAX)).min(1 << 30);
        self.with_socket(|socket| limit_unsent(socket, unsent as u32))
    }

    /// Takes these bounds away.
    fn free(&mut self) -> io::Result<()> {
        self.state.piece = Some(WHOLE);
        self.tap.write_at_a_time(WHOLE);
        // Zero is the host's.
        let own = self.tap.crossing.unsent.unwrap_or(0);
        self.with_socket(|socket| limit_unsent(socket, own as u32))
    }

    /// Bytes that are written at a time at a rate, bytes per second. On a path so short that the kernel sends 64 KiB at once however slow
    /// the rate is (`tcp_tso_rtt_log`, ip-sysctl), they are what it sends at once.
    fn piece(&self, rate: u64) -> usize {
        let least = (LEAST_SEGMENTS * self.segments[0].payload).min(FIRST_PIECE as u64);
        let bytes = (rate * PIECE.as_millis() / 1000).max(least);
        if self.round_trip < SHORT_PATH && bytes < BURST {
            bytes as usize
        } else {
            WHOLE
        }
    }

    /// Limits what it is sent by the window that it offers, which a round trip later is the sender's rate.
    pub(super) fn receive_at(&mut self, share: Rate) -> io::Result<()> {
        let window = if self.state.transfers[1].is_enough(share, self.demands[1]) {
            NO_WINDOW
        } else {
            let rate = self.segments[1].payload_of(share);
            let standing = STANDING.min(Time::from_nanos(self.round_trip.as_nanos() / STANDING_PART));
            rate.bytes_in(self.round_trip + standing)
                .as_u64()
                .max(LEAST_SEGMENTS * self.segments[1].payload)
                .min(NO_WINDOW)
        };
        let before = self.state.limits[1].unwrap_or(NO_WINDOW);
        if before.abs_diff(window) <= before / STEP {
            return Ok(());
        }
        self.state.limits[1] = Some(window);
        self.with_socket(|socket| limit_window(socket, window as u32))
    }

    /// Takes the limit of a direction away.
    pub(super) fn release(&mut self, way: usize) {
        self.state.transfers[way].is_held = false;
        let had_limit = self.state.limits[way].take().is_some();
        // Each fails for a socket that has ended.
        if had_limit {
            let _ = self.with_socket(|socket| match way {
                0 => limit_rate(socket, u64::MAX),
                _ => limit_window(socket, NO_WINDOW as u32),
            });
        }
        if way == 0 && (had_limit || self.state.piece != Some(WHOLE)) {
            let _ = self.free();
        }
    }

    /// Lets it rest without limits.
    pub(super) fn let_go(mut self) {
        self.release(0);
        self.release(1);
        self.rest();
    }

    /// Lets its next byte make it active again, as it is now.
    pub(super) fn rest(&self) {
        if let Ok(mut state) = self.tap.state.lock() {
            *state = Some(self.state);
        }
        self.tap.rest();
    }

    fn with_socket(&self, set: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
        match self.tap.sockets.upgrade() {
            Some(sockets) => set(sockets[self.tap.crossing.leg as usize].as_fd()),
            None => Ok(()),
        }
    }
}

/// `TCPI_OPT_TIMESTAMPS`, and their bytes in each segment (RFC 7323, appendix A).
const TIMESTAMPS: u8 = 1;
const TIMESTAMP_BYTES: u64 = 12;
/// Time that the first bytes of a connection are taken to have come in.
const FIRST: Time = Time::from_millis(20);
/// Time without a byte after which a connection is not looked at; a round trip at least, since what is received may come in one burst
/// each, and its share is others' once it is not looked at.
const QUIET: Time = Time::from_millis(200);
/// Part of a limit below which it is not changed.
const STEP: u64 = 64;
/// Round trip below which the kernel's bursts grow, up to this size; and time that what is written there at a time is sent in.
const SHORT_PATH: Time = Time::from_millis(4);
const BURST: u64 = 64 << 10;
const PIECE: Time = Time::from_millis(20);
/// Unsent bytes in a socket with a limit: what the link sends in this time, but enough to fill a segment of the kernel's.
const UNSENT: Time = Time::from_millis(50);
const LEAST_UNSENT: u64 = 64 << 10;
/// Beyond a round trip's, bytes that wait at the other end for their turn: without them, the link would be idle whenever
/// it pauses. On a short path at most a quarter of a round trip's, since a path that is faster than the rate exceeds it
/// by as much.
const STANDING: Time = Time::from_millis(50);
const STANDING_PART: u64 = 4;
/// Least window, in segments: with one the sender would wait for a delayed acknowledgement (RFC 9293, section 3.8.6.3).
pub(super) const LEAST_SEGMENTS: u64 = 2;
/// A window that limits nothing.
const NO_WINDOW: u64 = 1 << 30;
