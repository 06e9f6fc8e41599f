//! The sending half: its state, and the packet counts that every step keeps consistent.
//!
//! `state` defines the parts of the state. The steps are separate files: `ack` processes ACKs on a slow path and two fast paths, `gap`
//! recognises ACKs of one of these, `sack` marks the queue, `losses` detects losses, `recovery` and `undo` are the congestion state
//! machine, `buffer` limits what the application writes ahead, `output` sends, `batch` sends new data only, `pacing`, `probe`, `timer`
//! and `validation` decide when and how much, and `limits` records what kept more from leaving.

mod ack;
mod batch;
mod buffer;
mod limits;
mod losses;
mod output;
mod pacing;
mod probe;
mod recovery;
mod report;
mod sack;
mod sack_advance;
pub(crate) mod state;
mod timer;
mod trains;
mod undo;
mod validation;

pub use limits::Limits;

use perigee_cc::{CaState, RateSample, Socket};
use perigee_units::Time;

use perigee_settings::Config;
use state::limits::Chronograph;
use state::output::{Counters, PendingOutput, SenderEcn};
use state::pacing::Pacing;
use state::queue::{mark, SendQueue};
use state::rack::Rack;
use state::recovery::Recovery;
use state::rtt::RttEstimator;
use state::scoreboard::{LostEntries, Scoreboard};
use state::stream::{PeerWindow, SendBuffer, SendStream};
use state::timer::{RetransmissionTimer, TailProbe};
use state::usage::WindowUsage;

use crate::tick::Tick;

/// The sending half. Positions are bytes since the initial send sequence number.
#[derive(Debug)]
pub(crate) struct Sender {
    /// The socket that congestion controls see, including the packet counts of the queue.
    pub(crate) sk: Socket,
    /// The settings, reduced to what the peer supports.
    pub(crate) settings: Config,
    pub(crate) patience: Patience,
    pub(crate) tick: Tick,
    pub(crate) now: Time,
    /// `now` in whole milliseconds, the unit of timestamps. What Linux stamps in jiffies is stamped with it, and cut to ticks where
    /// it is read.
    pub(crate) now_ms: u32,
    pub(crate) established: bool,

    pub(crate) stream: SendStream,
    pub(crate) peer_window: PeerWindow,
    buffer: SendBuffer,
    pub(crate) queue: SendQueue,
    scoreboard: Scoreboard,
    lost: LostEntries,
    pub(crate) rtt: RttEstimator,
    /// Rate sample of the ACK being processed.
    pub(crate) rate: RateSample,

    recovery: Recovery,
    pub(crate) rack: Rack,
    pub(crate) tail_probe: TailProbe,
    pub(crate) timer: RetransmissionTimer,

    pub(crate) output: PendingOutput,
    pub(crate) pacing: Pacing,
    usage: WindowUsage,
    chronograph: Chronograph,
    pub(crate) ecn: SenderEcn,
    pub(crate) counters: Counters,
}

clone_by_field!(Sender {
    sk,
    settings,
    patience,
    tick,
    now,
    now_ms,
    established,
    stream,
    peer_window,
    buffer,
    queue,
    scoreboard,
    lost,
    rtt,
    rate,
    recovery,
    rack,
    tail_probe,
    timer,
    output,
    pacing,
    usage,
    chronograph,
    ecn,
    counters,
});

#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Maximum retransmissions of the SYN or SYN-ACK.
    pub(crate) handshake_retries: u32,
    /// Number of initial SYN retransmissions without exponential back-off.
    pub(crate) linear_timeouts: u32,
    /// Maximum time from the first timeout of the SYN; see [`Config::longest_handshake`].
    pub(crate) longest_handshake: Time,
    /// Maximum time without an acknowledgement of data; see [`Config::longest_silence`].
    pub(crate) longest_silence: Time,
}

impl Sender {
    pub(crate) fn new(config: &Config, sk: Socket) -> Self {
        let mut sender = Self {
            sk,
            settings: config.clone(),
            patience: Patience {
                handshake_retries: config.synack_retries,
                linear_timeouts: 0,
                longest_handshake: Time::MAX,
                longest_silence: config.longest_silence(),
            },
            tick: Tick::new(config.tick),
            now: Time::ZERO,
            now_ms: 0,
            established: false,
            stream: SendStream::new(),
            peer_window: PeerWindow::new(),
            buffer: SendBuffer::new(config.wmem[1].as_u64()),
            queue: SendQueue::default(),
            scoreboard: Scoreboard::default(),
            lost: LostEntries::default(),
            rtt: RttEstimator::new(config),
            rate: RateSample::default(),
            recovery: Recovery::default(),
            rack: Rack::default(),
            tail_probe: TailProbe::default(),
            timer: RetransmissionTimer::default(),
            output: PendingOutput::default(),
            pacing: Pacing::default(),
            usage: WindowUsage::default(),
            chronograph: Chronograph::default(),
            ecn: SenderEcn::default(),
            counters: Counters::default(),
        };
        sender.sk.reordering = config.reordering;
        sender.sk.snd_cwnd_clamp = config.cwnd_clamp;
        sender.sk.cc_tick_us = config.tick.as_micros() as u32;
        if config.pacing {
            sender.sk.inet_conn.sk.sk_pacing_status = perigee_cc::pacing::NEEDED;
        }
        sender
    }

    /// The memory of the queue, for [`Sender::reuse`].
    pub(crate) fn take_memory(&mut self) -> SendQueue {
        std::mem::take(&mut self.queue)
    }

    /// Uses the memory of another queue for its own, which must be empty.
    pub(crate) fn reuse(&mut self, memory: SendQueue) {
        self.queue = memory.emptied();
    }

    /// Begins the stream, from which nothing has been sent, at this sequence number, and seeds the congestion control.
    pub(crate) fn seed(&mut self, iss: u32, seed: u64) {
        self.stream.begin(iss);
        (self.sk.snd_una, self.sk.snd_nxt) = (iss, iss);
        self.sk.seed(seed);
    }

    /// Advances the clock.
    #[inline]
    pub(crate) fn set_now(&mut self, now: Time) {
        if now == self.now {
            return;
        }
        if self.timer.probe_due {
            self.set_due_probe();
        }
        self.set_clock(now);
    }

    /// [`Sender::set_now`] when no probe timer is pending.
    #[inline]
    fn set_clock(&mut self, now: Time) {
        self.now = now;
        self.sk.tcp_clock_cache = now.as_nanos();
        self.sk.tcp_mstamp = now.as_micros();
        self.now_ms = now.as_millis() as u32;
    }

    pub(crate) fn state(&self) -> CaState {
        CaState::try_from(self.sk.inet_conn.icsk_ca_state).unwrap_or(CaState::Loss)
    }

    pub(crate) fn in_cwnd_reduction(&self) -> bool {
        matches!(self.state(), CaState::Cwr | CaState::Recovery)
    }

    pub(crate) fn set_state(&mut self, state: CaState) {
        self.sk.set_state(state);
    }

    /// Marks an entry lost, or its retransmission lost again.
    pub(crate) fn mark_lost(&mut self, number: u64) {
        let entry = self.queue.get_mut(number);
        if entry.has(mark::SACKED) {
            return;
        }
        if entry.has(mark::LOST) {
            if !entry.has(mark::RETRANS) {
                return;
            }
            entry.marks &= !mark::RETRANS;
            self.sk.retrans_out -= 1;
        } else {
            entry.marks |= mark::LOST;
            self.sk.lost_out += 1;
        }
        self.sk.lost += 1;
        self.lost.push(number);
    }

    /// Slow start threshold to restore if the coming reduction is undone.
    pub(crate) fn current_ssthresh(&self) -> u32 {
        if self.in_cwnd_reduction() {
            self.sk.snd_ssthresh
        } else {
            self.sk.snd_ssthresh.max((self.sk.snd_cwnd >> 1) + (self.sk.snd_cwnd >> 2))
        }
    }

    /// Whether the congestion window limits sending (Linux's `tcp_is_cwnd_limited`).
    pub(crate) fn is_cwnd_limited(&self) -> bool {
        self.sk.is_cwnd_limited != 0
            || (self.sk.in_slow_start() && self.sk.snd_cwnd < self.sk.max_packets_out.saturating_mul(2))
    }

    pub(crate) fn any_retransmission_done(&self) -> bool {
        self.sk.retrans_out > 0 || self.queue.head().is_some_and(|e| e.has(mark::EVER_RETRANS))
    }
}
