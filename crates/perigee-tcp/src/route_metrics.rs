//! Memory of a route.

/// Memory of a route of the connections that have ended on it: a slow start threshold, a round trip and its deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteMetrics {
    /// Packets; zero if none is known.
    pub(crate) ssthresh: u32,
    /// Smoothed, in eighths of a microsecond; zero if none is known.
    pub(crate) srtt_us: u32,
    /// In quarters of a microsecond.
    pub(crate) deviation_us: u32,
}
