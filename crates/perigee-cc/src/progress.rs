//! Progress of an author's code, noted in memory that another process reads.
//!
//! An author's code runs in a process of its own. If the code crashes or never returns, its process reports nothing; the
//! memory that it shares with the process that started it still holds the callback called last.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A note in shared memory. All zeros: nothing has happened yet.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ProgressNote {
    /// Counts events; a count that stands still is a hang.
    beats: AtomicU64,
    /// Bits of a float: the share of the run that is done.
    share: AtomicU64,
    time_ns: AtomicU64,
    flow: AtomicU32,
    /// A [`Callback`]; 0: none.
    callback: AtomicU32,
    sequence: AtomicU32,
    /// The event's place in its sequence, and 1; 0: the first event is still ahead.
    event: AtomicU32,
    /// Callbacks called since the run or the sequence began.
    calls: AtomicU64,
    /// The library in which `frames` are, by its place among those of the process.
    library: AtomicU32,
    /// How many of `frames` are there.
    depth: AtomicU32,
    /// Addresses within the library that a fault was met at: the instruction, and those that calls of it return to.
    frames: [AtomicU64; MOST_FRAMES],
}

/// Contents of a [`ProgressNote`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Counts events; a count that stands still is a hang.
    pub beats: u64,
    /// The share of the run that is done.
    pub share: f64,
    /// The callback that was called and has not returned.
    pub callback: Option<Callback>,
    /// The number of the flow, see [`crate::Selected::of_flow`].
    pub flow: u32,
    /// The flow's clock at the latest call, ns.
    pub time_ns: u64,
    /// The random sequence of events.
    pub sequence: u32,
    /// The event's place in the sequence; `None`: the first event is still ahead.
    pub event: Option<u32>,
    /// Callbacks called since the run or the sequence began, the latest included.
    pub calls: u64,
    /// Where a fault was met; `None`: nowhere, or outside of the libraries.
    pub fault: Option<Fault>,
}

/// The place of a fault in an author's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The library, by its place among those of the process.
    pub library: u32,
    /// How many of `frames` are there.
    pub depth: u32,
    /// Addresses of instructions within the library: that of the fault, that of the call before it, and so on.
    pub frames: [u64; MOST_FRAMES],
}

/// Calls of calls that a fault is followed through.
pub const MOST_FRAMES: usize = 8;

/// Slots of `struct tcp_congestion_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Callback {
    /// The connection is established.
    Init = 1,
    /// The connection ends.
    Release,
    /// The slow start threshold after a loss.
    Ssthresh,
    /// Packets were acknowledged: grow the window.
    CongAvoid,
    /// The state changes.
    SetState,
    /// Something happened to the window.
    CwndEvent,
    /// An ACK arrived.
    InAckEvent,
    /// Packets were acknowledged, with this round trip.
    PktsAcked,
    /// The smallest burst.
    MinTsoSegs,
    /// An ACK was processed: set window and pacing rate.
    CongControl,
    /// The window after a reduction that turned out to be wrong.
    UndoCwnd,
    /// How many windows the send buffer shall hold.
    SndbufExpand,
    /// Values of the state are written down.
    Watch,
}

impl ProgressNote {
    /// Bytes of the shared memory.
    pub const BYTES: usize = size_of::<Self>();

    /// Notes the share of the run that is done.
    pub fn beat(&self, share: f64) {
        self.share.store(share.to_bits(), Relaxed);
        self.beats.fetch_add(1, Relaxed);
    }

    /// Notes that a run begins: its calls are counted from 0.
    pub fn begin(&self) {
        self.calls.store(0, Relaxed);
    }

    /// Notes the place of a fault, one address after the other; the first is the instruction's. Only stores: a signal handler may
    /// call it.
    pub fn fault(&self, library: u32, depth: u32, address: u64) {
        if let Some(frame) = self.frames.get(depth as usize) {
            frame.store(address, Relaxed);
            self.library.store(library, Relaxed);
            self.depth.store(depth + 1, Relaxed);
        }
    }

    /// Notes the next event of a sequence; `None`: the sequence begins.
    pub fn event(&self, sequence: u32, event: Option<u32>) {
        if event.is_none() {
            self.begin();
        }
        self.sequence.store(sequence, Relaxed);
        self.event.store(event.map_or(0, |event| event + 1), Relaxed);
        self.beats.fetch_add(1, Relaxed);
    }

    /// Reads the note in these bytes; `None`: they are too few.
    pub fn read(bytes: &[u8]) -> Option<Progress> {
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (library, depth) =
            (u32_at(std::mem::offset_of!(Self, library))?, u32_at(std::mem::offset_of!(Self, depth))?);
        let mut frames = [0; MOST_FRAMES];
        for (place, frame) in frames.iter_mut().enumerate() {
            *frame = u64_at(std::mem::offset_of!(Self, frames) + 8 * place)?;
        }
        Some(Progress {
            beats: u64_at(std::mem::offset_of!(Self, beats))?,
            share: f64::from_bits(u64_at(std::mem::offset_of!(Self, share))?),
            callback: Callback::of_number(u32_at(std::mem::offset_of!(Self, callback))?),
            flow: u32_at(std::mem::offset_of!(Self, flow))?,
            time_ns: u64_at(std::mem::offset_of!(Self, time_ns))?,
            sequence: u32_at(std::mem::offset_of!(Self, sequence))?,
            event: u32_at(std::mem::offset_of!(Self, event))?.checked_sub(1),
            calls: u64_at(std::mem::offset_of!(Self, calls))?,
            // Wild code may have overwritten it.
            fault: (1..=MOST_FRAMES).contains(&(depth as usize)).then_some(Fault { library, depth, frames }),
        })
    }

    pub(crate) fn enter(&self, callback: Callback, flow: u32, time_ns: u64) {
        self.time_ns.store(time_ns, Relaxed);
        self.flow.store(flow, Relaxed);
        // One thread calls: an addition in one step would cost more.
        self.calls.store(self.calls.load(Relaxed).wrapping_add(1), Relaxed);
        self.callback.store(callback as u32, Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.callback.store(0, Relaxed);
    }
}

impl Callback {
    /// The slot's name in C.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Release => "release",
            Self::Ssthresh => "ssthresh",
            Self::CongAvoid => "cong_avoid",
            Self::SetState => "set_state",
            Self::CwndEvent => "cwnd_event",
            Self::InAckEvent => "in_ack_event",
            Self::PktsAcked => "pkts_acked",
            Self::MinTsoSegs => "min_tso_segs",
            Self::CongControl => "cong_control",
            Self::UndoCwnd => "undo_cwnd",
            Self::SndbufExpand => "sndbuf_expand",
            Self::Watch => "CC_WATCH",
        }
    }

    /// Its place in `struct tcp_congestion_ops`, counted in pointers from 0; `Watch`, which the kernel does not have, is behind the last.
    pub const fn slot(self) -> u64 {
        self as u64 - Self::Init as u64
    }

    fn of_number(number: u32) -> Option<Self> {
        ALL.into_iter().find(|callback| *callback as u32 == number)
    }
}

const ALL: [Callback; 13] = [
    Callback::Init,
    Callback::Release,
    Callback::Ssthresh,
    Callback::CongAvoid,
    Callback::SetState,
    Callback::CwndEvent,
    Callback::InAckEvent,
    Callback::PktsAcked,
    Callback::MinTsoSegs,
    Callback::CongControl,
    Callback::UndoCwnd,
    Callback::SndbufExpand,
    Callback::Watch,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that another process sees.
    fn bytes_of(note: &ProgressNote) -> Vec<u8> {
        let at = std::ptr::from_ref(note).cast::<u8>();
        // SAFETY: the note lives, is of that size, and has no padding: nothing of it is not initialised.
        unsafe { std::slice::from_raw_parts(at, ProgressNote::BYTES) }.to_vec()
    }

    #[test]
    fn another_process_reads_what_was_noted() {
        let note = ProgressNote::default();
        assert_eq!(ProgressNote::read(&bytes_of(&note)).unwrap().event, None);
        note.beat(0.25);
        note.event(7, Some(0));
        note.enter(Callback::UndoCwnd, 3, 1_500_000_000);
        note.fault(2, 0, 0x1234);
        note.fault(2, 1, 0x99);
        let noted = Progress {
            beats: 2,
            share: 0.25,
            callback: Some(Callback::UndoCwnd),
            flow: 3,
            time_ns: 1_500_000_000,
            sequence: 7,
            event: Some(0),
            calls: 1,
            fault: Some(Fault { library: 2, depth: 2, frames: [0x1234, 0x99, 0, 0, 0, 0, 0, 0] }),
        };
        assert_eq!(ProgressNote::read(&bytes_of(&note)), Some(noted));
        note.leave();
        assert_eq!(ProgressNote::read(&bytes_of(&note)), Some(Progress { callback: None, ..noted }));
        assert_eq!(ProgressNote::read(&bytes_of(&note)[1..]), None);
    }

    #[test]
    fn a_note_that_wild_code_has_overwritten_names_no_callback() {
        let noted = ProgressNote::read(&[0xff; ProgressNote::BYTES]).unwrap();
        assert_eq!((noted.callback, noted.fault), (None, None));
    }
}
