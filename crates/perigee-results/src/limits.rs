//! Limits of a flow's sender, and for how long each held.

use perigee_units::Time;

use crate::tables::FlowRow;

/// Times since the handshake during which something limited what a connection sends, as in `TCP_INFO` of Linux; each `None` where
/// the engine cannot know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderLimits {
    /// Data were unsent or unacknowledged.
    pub busy: Option<Time>,
    /// The peer's window kept data back.
    pub peer_window: Option<Time>,
    /// The send buffer kept the application from writing.
    pub send_buffer: Option<Time>,
    /// The application had nothing more to send, though the congestion window had space.
    pub application: Option<Time>,
}

impl FlowRow {
    /// Sets the times that a sender was limited.
    pub fn set_limits(&mut self, limits: &SenderLimits) {
        let seconds = |time: Option<Time>| time.map(Time::as_secs_f64);
        self.busy_s = seconds(limits.busy);
        self.rwnd_limited_s = seconds(limits.peer_window);
        self.sndbuf_limited_s = seconds(limits.send_buffer);
        self.app_limited_s = seconds(limits.application);
    }
}
