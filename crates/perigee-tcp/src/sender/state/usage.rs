//! What window validation remembers.

use perigee_units::Time;

/// How much of the congestion window is used (RFC 7661 in Linux's form).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowUsage {
    /// The round ends when this position is acknowledged.
    pub(crate) round_end: u64,
    /// Most packets out since the window was the limit.
    pub(crate) used: u32,
    /// When a segment was sent last.
    pub(crate) last_sent: Time,
}
