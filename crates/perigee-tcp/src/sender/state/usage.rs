//! State of congestion window validation.

use perigee_units::Time;

/// Use of the congestion window (Linux's form of RFC 7661).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowUsage {
    /// The round ends when this position is acknowledged.
    pub(crate) round_end: u64,
    /// Maximum packets out since the window was the limit.
    pub(crate) used: u32,
    /// Time of the latest transmission.
    pub(crate) last_sent: Time,
}
