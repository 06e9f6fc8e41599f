//! The log of TCP senders in the kernel: `bpf/tcp_log.c` writes it, and a thread of this process reads it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, MapType, Object, ObjectBuilder, RingBufferBuilder};
use perigee_cc::CaState;
use rustix::time::{clock_getres, ClockId};
use thiserror::Error;

use crate::object::{last_lines, Listening};
use crate::requirements::{self, Missing};

/// Why there is no log.
#[derive(Debug, Error)]
pub enum TcpLogError {
    /// The machine lacks a requirement.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Perigee was built without the program.
    #[error("this perigee was built without the program that logs the kernel's TCP: {0}; build it again with that")]
    NotBuilt(&'static str),
    /// The kernel refused the programs.
    #[error(
        "this kernel's TCP cannot be logged: {reason}; it needs CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_EVENTS and \
         CONFIG_FUNCTION_TRACER\n{}",
        last_lines(log)
    )]
    Refused {
        /// The error of the system call.
        reason: String,
        /// The log of libbpf and the verifier.
        log: String,
    },
}

/// A sender to log: one end of a connection in a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedEnd {
    /// The namespace: inode of its file.
    pub namespace: u32,
    /// The listening port of the connection.
    pub port: u16,
    /// Whether the listening port is this end's own.
    pub is_local: bool,
    /// Label of the events of this end.
    pub flow: u32,
}

/// An event of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A segment leaves for the device.
    Sent {
        /// Sequence number of the first byte.
        seq: u32,
        /// Payload, bytes.
        bytes: u32,
    },
    /// An acknowledgement arrives from the device.
    Ack {
        /// The acknowledgement number.
        seq: u32,
    },
    /// A timer fires: retransmission, loss probe or reordering.
    Timer,
}

/// An event and the sender's state before it; the effect of an event is the state before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpEvent {
    /// Time of the event, on the machine's monotonic clock, ns.
    pub at_ns: u64,
    /// Label, from [`LoggedEnd::flow`].
    pub flow: u32,
    /// The event.
    pub what: What,
    /// First unacknowledged byte.
    pub una: u32,
    /// Next byte to be sent.
    pub next: u32,
    /// Window advertised by the receiver, bytes.
    pub window: u32,
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Upper bound of the congestion window, packets.
    pub clamp: u32,
    /// Slow start threshold, packets.
    pub ssthresh: u32,
    /// Packets sent and not yet acknowledged.
    pub packets_out: u32,
    /// Selectively acknowledged packets of these.
    pub sacked: u32,
    /// Packets of these that are marked lost.
    pub lost: u32,
    /// Retransmitted packets of these.
    pub retrans: u32,
    /// Smoothed round trip, us; 0 before the first sample.
    pub srtt_us: u32,
    /// Mean deviation of the round trip, us.
    pub deviation_us: u32,
    /// Round trip of the most recently sent of the delivered segments, us; 0 before the first sample.
    pub rtt_us: u32,
    /// When that segment was sent, us, on the clock of the kernel's TCP.
    pub delivered_sent_us: u64,
    /// Retransmission timeout, us.
    pub rto_us: u64,
    /// Pacing rate, bytes/s; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// State of congestion avoidance.
    pub ca_state: CaState,
}

/// A finished log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// The events, in order of time for each sender.
    pub events: Vec<TcpEvent>,
    /// Events dropped because the buffer was full.
    pub missing: u64,
}

/// A running log. Nothing of it outlives this process.
pub struct TcpLog {
    // The programs must outlive their links.
    links: Vec<Link>,
    object: Object,
    stop: Arc<AtomicBool>,
    reading: Option<JoinHandle<Vec<TcpEvent>>>,
}

impl TcpLog {
    /// Starts to log these senders.
    ///
    /// # Errors
    /// If the machine lacks a requirement, or the kernel refuses the programs.
    pub fn start(ends: &[LoggedEnd]) -> Result<Self, TcpLogError> {
        requirements::check_process()?;
        let bytes = OBJECT.map_err(TcpLogError::NotBuilt)?;
        let said = Listening::start();
        let refused = |error: libbpf_rs::Error| TcpLogError::Refused { reason: error.to_string(), log: said.text() };
        let foreign = || TcpLogError::Refused { reason: "the object is another".to_owned(), log: String::new() };
        let opened = ObjectBuilder::default().name("perigee_log").and_then(|builder| builder.open_memory(bytes));
        let mut object = opened.map_err(refused)?;
        for mut map in object.maps_mut().filter(|map| matches!(map.map_type(), MapType::Hash)) {
            map.set_max_entries(ends.len().max(1) as u32).map_err(refused)?;
        }
        let object = object.load().map_err(refused)?;
        let map = |name: &str| object.maps().find(|map| map.name() == name).ok_or_else(foreign);
        let flows = map("flows")?;
        for end in ends {
            let mut key = [0; 8];
            key[..4].copy_from_slice(&end.namespace.to_ne_bytes());
            key[4..6].copy_from_slice(&end.port.to_ne_bytes());
            key[6..].copy_from_slice(&u16::from(end.is_local).to_ne_bytes());
            flows.update(&key, &end.flow.to_ne_bytes(), MapFlags::ANY).map_err(refused)?;
        }
        let records = MapHandle::try_from(&map("records")?).map_err(refused)?;
        let links = object.progs_mut().map(|program| program.attach()).collect::<Result<_, _>>().map_err(refused)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reading = Builder::new().spawn(move || read(&records, &stopped)).map_err(|error| refused(error.into()))?;
        Ok(Self { links, object, stop, reading: Some(reading) })
    }

    /// Checks that this machine can log; a success is cached.
    ///
    /// # Errors
    /// As [`TcpLog::start`].
    pub fn check() -> Result<(), TcpLogError> {
        static PASSED: AtomicBool = AtomicBool::new(false);
        if !PASSED.load(Ordering::Relaxed) {
            Self::start(&[])?;
            PASSED.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Stops the log.
    pub fn finish(mut self) -> Logged {
        self.links.clear();
        let events = self.stop();
        Logged { events, missing: self.missing().unwrap_or(0) }
    }

    fn stop(&mut self) -> Vec<TcpEvent> {
        self.stop.store(true, Ordering::Release);
        self.reading.take().and_then(|reading| reading.join().ok()).unwrap_or_default()
    }

    fn missing(&self) -> Option<u64> {
        let map = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"))?;
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

impl Drop for TcpLog {
    fn drop(&mut self) {
        self.links.clear();
        self.stop();
    }
}

/// Reads until told to stop and the ring is empty.
fn read(records: &MapHandle, stop: &AtomicBool) -> Vec<TcpEvent> {
    let tick_us = tick_us();
    let (told, events) = channel();
    let mut read = Vec::new();
    let mut builder = RingBufferBuilder::new();
    let added = builder.add(records, move |bytes: &[u8]| {
        // The reader lives as long as the ring.
        let _ = event(bytes, tick_us).map(|event| told.send(event));
        0
    });
    if let Ok(ring) = added.map(drop).and_then(|()| builder.build()) {
        loop {
            let last = stop.load(Ordering::Acquire);
            let done = ring.consume();
            read.extend(events.try_iter());
            if done.is_err() || last {
                break;
            }
            let _ = rustix::thread::nanosleep(&rustix::time::Timespec { tv_sec: 0, tv_nsec: PAUSE_NS });
        }
    }
    read
}

/// A record of `bpf/tcp_log.c`.
fn event(record: &[u8], tick_us: u64) -> Option<TcpEvent> {
    let record: &[u8; RECORD] = record.first_chunk()?;
    let four = |at: usize| u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
    let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
    let pacing = eight(8);
    Some(TcpEvent {
        at_ns: eight(0),
        flow: four(16),
        what: match record[68] {
            0 => What::Sent { seq: four(20), bytes: four(24) },
            1 => What::Ack { seq: four(20) },
            _ => What::Timer,
        },
        una: four(28),
        next: four(72),
        clamp: four(76),
        deviation_us: four(80) >> 2,
        rtt_us: four(84),
        delivered_sent_us: eight(88),
        window: four(32),
        cwnd: four(36),
        ssthresh: four(40),
        packets_out: four(44),
        sacked: four(48),
        lost: four(52),
        retrans: four(56),
        srtt_us: four(60) >> 3,
        rto_us: u64::from(four(64)) * tick_us,
        pacing_rate: (pacing > 0 && pacing < u64::MAX).then_some(pacing),
        ca_state: CaState::try_from(record[69]).unwrap_or(CaState::Loss),
    })
}

/// The kernel's tick (1/HZ), the resolution of the coarse clock, us.
pub fn tick_us() -> u64 {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    tick.tv_sec as u64 * 1_000_000 + tick.tv_nsec as u64 / 1000
}

static OBJECT: Result<&[u8], &str> = include!(concat!(env!("OUT_DIR"), "/tcp_log.rs"));
/// Bytes of a `struct record`.
const RECORD: usize = 96;
/// Interval of reads: records fill at most 16 MB per second.
const PAUSE_NS: i64 = 5_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_the_program_writes_it() {
        let mut record = vec![];
        record.extend(7u64.to_ne_bytes());
        record.extend(1_000_000u64.to_ne_bytes());
        for word in 3u32..15 {
            record.extend(word.to_ne_bytes());
        }
        record.extend(50u32.to_ne_bytes());
        record.extend([0, 3, 0, 0]);
        for word in [60u32, 61, 62, 63] {
            record.extend(word.to_ne_bytes());
        }
        record.extend(64u64.to_ne_bytes());
        assert_eq!(event(&record[..RECORD - 1], 4000), None);
        let event = event(&record, 4000).expect("a record");
        assert_eq!((event.at_ns, event.flow, event.pacing_rate), (7, 3, Some(1_000_000)));
        assert_eq!(event.what, What::Sent { seq: 4, bytes: 5 });
        assert_eq!((event.una, event.window, event.cwnd, event.ssthresh), (6, 7, 8, 9));
        assert_eq!((event.packets_out, event.sacked, event.lost, event.retrans), (10, 11, 12, 13));
        assert_eq!((event.srtt_us, event.rto_us, event.ca_state), (14 >> 3, 200_000, CaState::Recovery));
        assert_eq!((event.next, event.clamp, event.deviation_us), (60, 61, 62 >> 2));
        assert_eq!((event.rtt_us, event.delivered_sent_us), (63, 64));
    }

    #[test]
    fn the_kernels_tick_is_one_that_kernels_have() {
        assert!([1000, 3333, 4000, 10_000].contains(&tick_us()), "{}", tick_us());
    }
}
