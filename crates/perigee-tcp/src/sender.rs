//! The sending half: its state, and the counts every part of it keeps true.
//!
//! The parts are files: [`crate::ack`] takes acknowledgements in, [`crate::sack`] marks the queue,
//! [`crate::recovery`] is the state machine, [`crate::rack`] finds losses by time, [`crate::output`] sends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perigee_cc::{CaState, RateSample, Socket};
use perigee_units::Time;

use crate::config::Config;
use crate::queue::{mark, SendQueue};
use crate::rtt::RttEstimator;

/// The sending half. Positions are bytes since the initial sequence number.
#[derive(Debug)]
pub(crate) struct Sender {
    /// What algorithms see.
    pub(crate) sk: Socket,
    pub(crate) config: Features,
    pub(crate) queue: SendQueue,
    pub(crate) rtt: RttEstimator,
    pub(crate) iss: u32,
    pub(crate) now: Time,

    /// SND.UNA, SND.NXT.
    pub(crate) una: u64,
    pub(crate) nxt: u64,
    /// End of what was written.
    pub(crate) written: u64,
    pub(crate) fin_queued: bool,
    /// The peer's window ends here.
    pub(crate) window_end: u64,
    pub(crate) peer_window: u32,
    pub(crate) established: bool,

    pub(crate) high_seq: u64,
    /// End of the highest SACKed segment.
    pub(crate) highest_sack: u64,
    /// SACK blocks of the previous ACK: what they cover is marked.
    pub(crate) known_sacks: [(u64, u64); 4],
    /// Entries to retransmit, lowest first; stale ones are skipped.
    pub(crate) lost_entries: BinaryHeap<Reverse<u64>>,
    pub(crate) undo: Undo,
    pub(crate) prr: Prr,
    pub(crate) rack: crate::rack::Rack,
    /// Cursor of RFC 6675's rule where RACK is off: entries below it, and how many of them are `SACKed`.
    pub(crate) head_lost: (u64, u32),
    pub(crate) frto: bool,
    pub(crate) reordering_seen: bool,
    pub(crate) dsack_duplicates: u64,
    /// What to send after this ACK.
    pub(crate) retransmit: Retransmit,

    pub(crate) timer: Timer,
    pub(crate) backoff: u32,
    /// The first timeout since the last progress.
    pub(crate) silent_since: Time,
    /// Window probes since the last acknowledgement.
    pub(crate) unanswered_probes: u32,
    /// The other end is taken to be gone.
    pub(crate) given_up: bool,
    /// End of data when a tail loss probe was sent, and whether it was a retransmission.
    pub(crate) probe: Option<(u64, bool)>,
    pub(crate) pacing: Pacing,
    /// Round of window validation ends here.
    pub(crate) usage_end: u64,
    pub(crate) cwnd_used: u32,
    pub(crate) last_sent: Time,
    /// Something happened since output was last finished.
    pub(crate) push: bool,
    pub(crate) sent_in_push: u32,
    pub(crate) probe_new_data: bool,
    /// The data sent in this push is the tail loss probe.
    pub(crate) sent_probe: bool,
    pub(crate) window_probe: bool,
    /// An entry to send again whatever the windows say.
    pub(crate) forced: Option<u64>,
    /// Timestamp echoed by the newest ACK, ms.
    pub(crate) last_echo_ms: Option<u32>,

    pub(crate) ecn: SenderEcn,
    pub(crate) last_rtt: Option<Time>,
    pub(crate) counters: Counters,
    pub(crate) rate: RateSample,
}

/// Settings the sending half consults, copied out of [`Config`] and what was negotiated.
#[derive(Clone, Debug)]
pub(crate) struct Features {
    pub(crate) initial_window: u32,
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    pub(crate) dsack: bool,
    pub(crate) rack: bool,
    pub(crate) tlp: bool,
    pub(crate) frto: bool,
    pub(crate) prr: bool,
    pub(crate) slow_start_after_idle: bool,
    pub(crate) reordering: u32,
    pub(crate) rto_max_us: u64,
    /// Retransmissions of this end's SYN, and how many of them come before its timeout doubles.
    pub(crate) handshake_retries: u32,
    pub(crate) linear_timeouts: u32,
    pub(crate) longest_silence: Time,
    pub(crate) window_probes: u32,
    pub(crate) send_buffer: u64,
}

/// Undoing a reduction that proves needless.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undo {
    /// SND.UNA when the reduction began.
    pub(crate) marker: Option<u64>,
    /// Retransmissions not yet reported as duplicates; `None` before the first one.
    pub(crate) retransmissions: Option<u32>,
    /// Timestamp (ms) of the first retransmission of this episode.
    pub(crate) first_retransmit_ms: Option<u32>,
}

/// Proportional rate reduction (RFC 6937).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prr {
    pub(crate) delivered: u32,
    pub(crate) out: u32,
}

/// What recovery asks to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Retransmit {
    #[default]
    Nothing,
    /// Lost segments, as the window allows.
    Lost,
    /// New data first (F-RTO, step 2b).
    NewData,
}

/// The one retransmission timer and what it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    Off,
    Timeout(Time),
    TailProbe(Time),
    Reordering(Time),
    WindowProbe(Time),
}

impl Timer {
    #[inline]
    pub(crate) fn deadline(self) -> Time {
        match self {
            Self::Off => Time::MAX,
            Self::Timeout(at) | Self::TailProbe(at) | Self::Reordering(at) | Self::WindowProbe(at) => at,
        }
    }
}

/// Pacing by TCP itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacing {
    /// Segments that may still leave in the current burst.
    pub(crate) burst: u32,
    /// Departure of the current burst, ns.
    pub(crate) departure_ns: u64,
    /// Segments sent ever.
    pub(crate) segments: u64,
    /// Waiting until `tcp_wstamp_ns`.
    pub(crate) blocked: bool,
}

/// ECN (RFC 3168) of the sending half.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderEcn {
    pub(crate) on: bool,
    /// Put CWR into the next new segment.
    pub(crate) reduced: bool,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent_packets: u64,
    pub(crate) retransmitted_packets: u64,
    pub(crate) rto_count: u64,
    pub(crate) probes: u64,
}

impl Sender {
    pub(crate) fn new(config: &Config, sk: Socket, iss: u32) -> Self {
        let rto_min = u32::try_from(config.rto_min.as_micros()).unwrap_or(u32::MAX);
        let mut sender = Self {
            sk,
            config: Features {
                initial_window: config.initial_window,
                timestamps: config.timestamps,
                sack: config.sack,
                dsack: config.dsack,
                rack: config.rack,
                tlp: config.tlp,
                frto: config.frto,
                prr: config.prr,
                slow_start_after_idle: config.slow_start_after_idle,
                reordering: config.reordering,
                rto_max_us: config.rto_max.as_micros(),
                handshake_retries: config.synack_retries,
                linear_timeouts: 0,
                longest_silence: config.longest_silence(),
                window_probes: config.retries2,
                send_buffer: config.wmem[2].as_u64(),
            },
            queue: SendQueue::default(),
            rtt: RttEstimator::new(rto_min, config.rto_max.as_micros()),
            iss,
            now: Time::ZERO,
            una: 0,
            nxt: 0,
            written: 1,
            fin_queued: false,
            window_end: 1,
            peer_window: 0,
            established: false,
            high_seq: 0,
            highest_sack: 0,
            known_sacks: [(0, 0); 4],
            lost_entries: BinaryHeap::new(),
            undo: Undo::default(),
            prr: Prr::default(),
            rack: crate::rack::Rack::default(),
            head_lost: (0, 0),
            frto: false,
            reordering_seen: false,
            dsack_duplicates: 0,
            retransmit: Retransmit::Nothing,
            timer: Timer::Off,
            backoff: 0,
            silent_since: Time::ZERO,
            unanswered_probes: 0,
            given_up: false,
            probe: None,
            pacing: Pacing::default(),
            usage_end: 0,
            cwnd_used: 0,
            last_sent: Time::ZERO,
            push: false,
            sent_in_push: 0,
            probe_new_data: false,
            sent_probe: false,
            window_probe: false,
            forced: None,
            last_echo_ms: None,
            ecn: SenderEcn::default(),
            last_rtt: None,
            counters: Counters::default(),
            rate: RateSample::default(),
        };
        sender.sk.reordering = config.reordering;
        sender.sk.snd_cwnd_clamp = config.cwnd_clamp;
        if config.pacing {
            sender.sk.inet_conn.sk.sk_pacing_status = perigee_cc::pacing::NEEDED;
        }
        sender.sync_sequences();
        sender
    }

    /// Sets the clock for what follows.
    #[inline]
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = now;
        self.sk.tcp_clock_cache = now.as_nanos();
        self.sk.tcp_mstamp = now.as_micros();
    }

    #[inline]
    pub(crate) fn to_wire(&self, position: u64) -> u32 {
        self.iss.wrapping_add(position as u32)
    }

    /// The position that a sequence number means, near SND.UNA.
    #[inline]
    pub(crate) fn position(&self, sequence: u32) -> Option<u64> {
        let delta = sequence.wrapping_sub(self.to_wire(self.una)) as i32;
        self.una.checked_add_signed(i64::from(delta))
    }

    /// Puts the sequence numbers where algorithms read them.
    #[inline]
    pub(crate) fn sync_sequences(&mut self) {
        let iss = self.iss;
        let at = |position: u64| iss.wrapping_add(position as u32);
        self.sk.snd_una = at(self.una);
        self.sk.snd_nxt = at(self.nxt);
    }

    pub(crate) fn state(&self) -> CaState {
        match self.sk.inet_conn.icsk_ca_state {
            0 => CaState::Open,
            1 => CaState::Disorder,
            2 => CaState::Cwr,
            3 => CaState::Recovery,
            _ => CaState::Loss,
        }
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
        self.lost_entries.push(Reverse(number));
    }

    pub(crate) fn timestamp_ms(&self) -> u32 {
        self.now.as_millis() as u32
    }

    /// Slow start threshold to return to if this reduction is undone.
    pub(crate) fn current_ssthresh(&self) -> u32 {
        if self.in_cwnd_reduction() {
            self.sk.snd_ssthresh
        } else {
            self.sk.snd_ssthresh.max((self.sk.snd_cwnd >> 1) + (self.sk.snd_cwnd >> 2))
        }
    }

    /// The window was what held the sender back (Linux's `tcp_is_cwnd_limited`).
    pub(crate) fn is_cwnd_limited(&self) -> bool {
        self.sk.is_cwnd_limited != 0
            || (self.sk.in_slow_start() && self.sk.snd_cwnd < self.sk.max_packets_out.saturating_mul(2))
    }

    /// Milliseconds as algorithms count jiffies.
    pub(crate) fn jiffies(&self) -> u32 {
        self.now.as_millis() as u32
    }

    pub(crate) fn rto(&self) -> Time {
        let backed_off = self.rtt.rto_us().saturating_mul(1 << self.backoff.min(32));
        Time::from_micros(backed_off.min(self.config.rto_max_us))
    }

    /// Whether the timeout that has come is one too many.
    pub(crate) fn is_out_of_retries(&self) -> bool {
        let retransmits = u32::from(self.sk.inet_conn.icsk_retransmits);
        if !self.established {
            return retransmits >= self.config.handshake_retries;
        }
        retransmits > 0 && self.now - self.silent_since >= self.config.longest_silence
    }

    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
        self.timer = Timer::Off;
    }

    pub(crate) fn any_retransmission_done(&self) -> bool {
        self.sk.retrans_out > 0 || self.queue.head().is_some_and(|e| e.has(mark::EVER_RETRANS))
    }
}
