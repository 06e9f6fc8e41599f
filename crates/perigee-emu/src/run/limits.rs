//! Limits of a sender: those that `TCP_INFO` has at its end, and those that samples of the socket add to it.
//!
//! Linux does not say for how long the application did. And it counts a full send buffer only if a write has found it full before the last
//! data left (`tcp_cwnd_validate`): not if a whole write fits, leaves at once, and the next one has to wait.

use perigee_results::SenderLimits;
use perigee_units::Time;

use crate::os::tcp_info::TcpInfo;

/// The samples of a socket. Each stands for the time since the one before.
#[derive(Default)]
pub(crate) struct Limits {
    /// When the next sample is due.
    next: Time,
    /// Time and `tcpi_sndbuf_limited` of the last one; `None` before the connection.
    last: Option<(Time, u64)>,
    by_application: Time,
    /// Time limited by the send buffer, where the kernel does not count it.
    by_buffer: Time,
}

impl Limits {
    /// Takes a sample if one is due; returns when the next one is. `ask` reads the state of the socket, if it is connected.
    pub(crate) fn step(&mut self, now: Time, ask: impl FnOnce() -> Option<TcpInfo>) -> Time {
        if self.next <= now {
            self.next = now + INTERVAL;
            self.add(now, ask());
        }
        self.next
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, now: Time, info: Option<TcpInfo>) {
        let Some(info) = info else { return };
        let has_sent_all = info.unsent == 0 && info.in_flight() < info.cwnd;
        if let Some((at, _)) = self.last.filter(|last| has_sent_all && last.1 == info.sndbuf_limited_us) {
            let limited = if info.has_space { &mut self.by_application } else { &mut self.by_buffer };
            *limited += now.checked_sub(at).unwrap_or(Time::ZERO);
        }
        self.last = Some((now, info.sndbuf_limited_us));
    }

    /// The limits of a connection that ended in this state; empty if it was never connected.
    pub(crate) fn at_end(&self, info: Option<TcpInfo>) -> SenderLimits {
        let Some((info, _)) = info.zip(self.last) else { return SenderLimits::default() };
        SenderLimits {
            busy: Some(Time::from_micros(info.busy_us)),
            peer_window: Some(Time::from_micros(info.rwnd_limited_us)),
            send_buffer: Some(Time::from_micros(info.sndbuf_limited_us) + self.by_buffer),
            application: Some(self.by_application),
        }
    }
}

/// Interval of the samples.
const INTERVAL: Time = Time::from_millis(10);
