//! The socket of a connection, with its congestion control.

use std::ops::{Deref, DerefMut};

use perigee_units::Stream;

use crate::algorithm::Algorithm;
use crate::progress::{Callback, ProgressNote};
use crate::raw::Ops;
use crate::selected::Selected;
use crate::sock::{ack, ecn, AckSample, CaEvent, CaState, RateSample, TcpSock, Words};

/// The kernel's view of a connection, and its congestion control.
///
/// The host fills the fields of [`TcpSock`] as Linux would and calls the methods where Linux would. A callback that the
/// algorithm does not have does nothing.
pub struct Socket {
    /// Not boxed: the host reads it for each segment. The algorithm's C code holds its address during a call only.
    sock: TcpSock,
    ops: &'static Ops,
    algorithm: &'static Algorithm,
    /// Where calls are noted, and the flow's number there.
    note: Option<(&'static ProgressNote, u32)>,
    /// The storage, whose address `sock` has, as large as the algorithm asks for: a population has thousands of sockets.
    storage: Vec<u64>,
}

impl Socket {
    /// A socket as it is before its first packet. [`Socket::init`] follows when the handshake is complete, with its
    /// round trip in `srtt_us`.
    ///
    /// # Panics
    /// Where the algorithm is only described, see [`Algorithm::is_loaded`]: an engine refuses such a run.
    pub fn new(selected: &Selected, mss: u32, initial_window: u32, seed: u64) -> Self {
        let mut sock = TcpSock::new(mss, initial_window);
        sock.cc_params = *selected.values();
        let algorithm = selected.algorithm();
        let ops = algorithm.ops.as_ref().expect("an engine simulates no algorithm that is only described");
        let note = algorithm.note().map(|note| (note, selected.flow()));
        let storage = vec![0; algorithm.storage_bytes().div_ceil(8) as usize];
        let mut socket = Self { sock, ops, algorithm, note, storage };
        socket.point_to_storage();
        socket.seed(seed);
        socket
    }

    /// The address holds wherever the socket is moved.
    fn point_to_storage(&mut self) {
        self.sock.cc_storage = Words(self.storage.as_mut_ptr());
    }

    /// Seeds the algorithm's random numbers anew.
    pub fn seed(&mut self, seed: u64) {
        // A generator of the xorshift kind never leaves zero.
        self.sock.cc_random = Stream::new(seed, "cc").next_u64() | 1;
    }

    /// The congestion control of this socket.
    pub fn algorithm(&self) -> &'static Algorithm {
        self.algorithm
    }

    /// The connection is established.
    pub fn init(&mut self) {
        self.sock.inet_conn.icsk_ca_priv.fill(0);
        if let Some(init) = self.ops.init {
            // SAFETY: see `call`.
            self.call(Callback::Init, |sk| unsafe { init(sk) });
        }
    }

    /// The connection ends.
    pub fn release(&mut self) {
        if let Some(release) = self.ops.release {
            // SAFETY: see `call`.
            self.call(Callback::Release, |sk| unsafe { release(sk) });
        }
    }

    /// The slow start threshold after a loss; called before the state changes.
    ///
    /// # Panics
    /// Never: no algorithm is registered without it.
    #[inline]
    pub fn ssthresh(&mut self) -> u32 {
        let ssthresh = self.ops.ssthresh.expect(REQUIRED);
        // SAFETY: see `call`.
        self.call(Callback::Ssthresh, |sk| unsafe { ssthresh(sk) })
    }

    /// `acked` packets were acknowledged, up to sequence number `ack`: grow the window.
    #[inline]
    pub fn cong_avoid(&mut self, ack: u32, acked: u32) {
        if let Some(cong_avoid) = self.ops.cong_avoid {
            // SAFETY: see `call`.
            self.call(Callback::CongAvoid, |sk| unsafe { cong_avoid(sk, ack, acked) });
        }
    }

    /// Calls the algorithm, which still sees the old state, and then changes the state.
    #[inline]
    pub fn set_state(&mut self, state: CaState) {
        if let Some(set_state) = self.ops.set_state {
            // SAFETY: see `call`.
            self.call(Callback::SetState, |sk| unsafe { set_state(sk, state as u8) });
        }
        self.sock.inet_conn.icsk_ca_state = state as u8;
    }

    /// Something happened to the window.
    #[inline]
    pub fn cwnd_event(&mut self, event: CaEvent) {
        if let Some(cwnd_event) = self.ops.cwnd_event {
            // SAFETY: see `call`.
            self.call(Callback::CwndEvent, |sk| unsafe { cwnd_event(sk, event as u32) });
        }
    }

    /// An ACK arrived; `flags` as Linux's `tcp_ca_ack_event_flags`.
    #[inline]
    pub fn in_ack_event(&mut self, flags: u32) {
        if let Some(in_ack_event) = self.ops.in_ack_event {
            // SAFETY: see `call`.
            self.call(Callback::InAckEvent, |sk| unsafe { in_ack_event(sk, flags) });
        }
    }

    /// Packets were acknowledged, with this round trip.
    #[inline]
    pub fn pkts_acked(&mut self, sample: &AckSample) {
        if let Some(pkts_acked) = self.ops.pkts_acked {
            // SAFETY: see `call`.
            self.call(Callback::PktsAcked, |sk| unsafe { pkts_acked(sk, sample) });
        }
    }

    /// Smallest burst that the algorithm asks for, packets.
    #[inline]
    pub fn min_tso_segs(&mut self) -> Option<u32> {
        let min_tso_segs = self.ops.min_tso_segs?;
        // SAFETY: see `call`.
        Some(self.call(Callback::MinTsoSegs, |sk| unsafe { min_tso_segs(sk) }))
    }

    /// An ACK was processed; the algorithm sets window and pacing rate.
    #[inline]
    pub fn cong_control(&mut self, ack: u32, flag: u32, sample: &RateSample) {
        if let Some(cong_control) = self.ops.cong_control {
            // SAFETY: see `call`.
            self.call(Callback::CongControl, |sk| unsafe { cong_control(sk, ack, flag as i32, sample) });
        }
    }

    /// The window after a reduction that turned out to be wrong.
    ///
    /// # Panics
    /// Never: no algorithm is registered without it.
    #[inline]
    pub fn undo_cwnd(&mut self) -> u32 {
        let undo_cwnd = self.ops.undo_cwnd.expect(REQUIRED);
        // SAFETY: see `call`.
        self.call(Callback::UndoCwnd, |sk| unsafe { undo_cwnd(sk) })
    }

    /// How many windows the send buffer shall hold, if the algorithm says so.
    pub fn sndbuf_expand(&mut self) -> Option<u32> {
        let sndbuf_expand = self.ops.sndbuf_expand?;
        // SAFETY: see `call`.
        Some(self.call(Callback::SndbufExpand, |sk| unsafe { sndbuf_expand(sk) }))
    }

    /// Writes the algorithm's [watched values](Algorithm::watched) into `values`; one that has no number now is [`crate::EMPTY`].
    pub fn watch(&mut self, values: &mut Vec<u64>) {
        values.clear();
        if let Some(read) = self.algorithm.read {
            values.resize(self.algorithm.watched().len(), crate::EMPTY);
            // SAFETY: see `call`; the algorithm writes a number for each of its watched values.
            self.call(Callback::Watch, |sk| unsafe { read(sk, values.as_mut_ptr()) });
        }
    }

    /// The algorithm sets window and pacing rate itself.
    #[inline]
    pub fn has_cong_control(&self) -> bool {
        self.ops.cong_control.is_some()
    }

    /// The algorithm reads round trips.
    #[inline]
    pub fn has_pkts_acked(&self) -> bool {
        self.ops.pkts_acked.is_some()
    }

    /// The algorithm is called on every ACK.
    #[inline]
    pub fn has_in_ack_event(&self) -> bool {
        self.ops.in_ack_event.is_some()
    }

    /// The algorithm decides how marks are acknowledged, see [`Algorithm::needs_ecn`].
    #[inline]
    pub fn needs_ecn(&self) -> bool {
        self.algorithm.needs_ecn()
    }

    /// Data have arrived up to `rcv_nxt`, in a segment with a congestion mark or without one; data before it wait for their ACK or
    /// none do. Returns whether one is due at once, and the ACK that leaves before it: what it acknowledges, and whether with ECE.
    pub fn report_mark(&mut self, marked: bool, rcv_nxt: u32, ack_waits: bool) -> (bool, Option<(u32, bool)>) {
        self.sock.rcv_nxt = rcv_nxt;
        self.sock.inet_conn.icsk_ack.pending = if ack_waits { ack::TIMER } else { 0 };
        self.cwnd_event(if marked { CaEvent::EcnIsCe } else { CaEvent::EcnNoCe });
        let early = std::mem::take(&mut self.sock.cc_early_ack_due)
            .then_some((self.sock.cc_early_ack, self.sock.cc_early_ack_ecn & ecn::DEMAND_CWR != 0));
        (self.sock.inet_conn.icsk_ack.pending & ack::NOW != 0, early)
    }

    /// Calls a callback, with the address it takes.
    ///
    /// Calls through it are sound: the layout is C's (compared by the build), the address is exclusive for the call,
    /// and an algorithm keeps no pointer beyond it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    fn call<R>(&mut self, callback: Callback, call: impl FnOnce(*mut TcpSock) -> R) -> R {
        let Some((note, flow)) = self.note else { return call(&raw mut self.sock) };
        note.enter(callback, flow, self.sock.tcp_clock_cache);
        let result = call(&raw mut self.sock);
        note.leave();
        result
    }
}

impl Clone for Socket {
    fn clone(&self) -> Self {
        let Self { sock, ops, algorithm, note, storage } = self;
        let mut copy = Self { sock: sock.clone(), ops, algorithm, note: *note, storage: storage.clone() };
        copy.point_to_storage();
        copy
    }

    /// Copies the socket into the memory of this one.
    fn clone_from(&mut self, from: &Self) {
        self.sock.clone_from(&from.sock);
        (self.ops, self.algorithm, self.note) = (from.ops, from.algorithm, from.note);
        self.storage.clone_from(&from.storage);
        self.point_to_storage();
    }
}

impl Deref for Socket {
    type Target = TcpSock;
    #[inline]
    fn deref(&self) -> &TcpSock {
        &self.sock
    }
}

impl DerefMut for Socket {
    #[inline]
    fn deref_mut(&mut self) -> &mut TcpSock {
        &mut self.sock
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket")
            .field("algorithm", &self.algorithm.name())
            .field("sock", &self.sock)
            .field("storage", &self.storage)
            .finish_non_exhaustive()
    }
}

/// Why `ssthresh` and `undo_cwnd` are there: Linux and [`crate::admit`] refuse an algorithm without them.
const REQUIRED: &str = "no algorithm is registered without ssthresh and undo_cwnd";
