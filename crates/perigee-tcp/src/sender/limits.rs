//! Limits of a connection and their durations: the chronographs of Linux (`tcp_chrono_start`), and the application.
//!
//! Every output turn ends because something keeps the next segment back. Linux asks the pacer, the congestion window
//! and the peer's window in this order (`tcp_write_xmit`), and the send buffer where all that it holds is sent and the
//! congestion window has space (`tcp_cwnd_validate`). The answer holds until the next turn.
//!
//! Differences from Linux: times are exact, not in jiffies.

use perigee_units::Time;

use super::state::limits::Limit;
use super::Sender;

/// Times since the handshake during which something limited what a connection sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Data were unsent or unacknowledged (`tcpi_busy_time`), limited by windows and buffers or not.
    pub busy: Time,
    /// The peer's window kept data back (`tcpi_rwnd_limited`).
    pub peer_window: Time,
    /// The send buffer kept the application from writing, and all that it held was sent (`tcpi_sndbuf_limited`).
    pub send_buffer: Time,
    /// The application had written nothing more to send, though the congestion window had space; acknowledged or not.
    pub application: Time,
}

impl Sender {
    /// The times until `now`.
    pub(crate) fn limits(&self, now: Time) -> Limits {
        let under = |limit| self.chronograph.under(limit, now);
        let [waiting, peer_window, send_buffer] = [Limit::Application, Limit::PeerWindow, Limit::SendBuffer].map(under);
        Limits {
            busy: waiting + under(Limit::Network) + peer_window + send_buffer,
            peer_window,
            send_buffer,
            application: under(Limit::Idle) + waiting,
        }
    }

    pub(crate) fn set_writer_blocked(&mut self, is_blocked: bool) {
        self.buffer.is_full = is_blocked;
    }

    /// Records what ended an output turn.
    #[inline(always)]
    pub(super) fn note_limit(&mut self, window_full: bool) {
        let limit = if window_full { Limit::Network } else { self.limit() };
        if limit != self.chronograph.limit {
            self.chronograph.switch(limit, self.now);
        }
    }

    /// Returns the limit that keeps the next segment back, where the congestion window has space.
    #[inline]
    fn limit(&self) -> Limit {
        if self.pacing.blocked || self.sk.lost_out > self.sk.retrans_out {
            return Limit::Network;
        }
        if !self.stream.has_new_data() {
            return match self.sk.packets_out {
                0 => Limit::Idle,
                _ if self.buffer.is_full => Limit::SendBuffer,
                _ => Limit::Application,
            };
        }
        let segment = self.stream.next_payload(self.sk.mss_cache);
        let accepted = self.peer_window.end.saturating_sub(self.stream.nxt);
        if accepted < segment {
            return Limit::PeerWindow;
        }
        if self.stream.nxt + segment > self.buffer.end {
            return Limit::SendBuffer;
        }
        if self.settings.nagle && self.awaits_ack(segment) {
            return Limit::Application;
        }
        // A train waits to grow: for the peer's window, if that ends within it.
        if accepted <= self.stream.unsplit().min(self.largest_payload()) {
            Limit::PeerWindow
        } else {
            Limit::Network
        }
    }
}
