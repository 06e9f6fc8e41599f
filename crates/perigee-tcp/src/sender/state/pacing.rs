//! What pacing remembers between segments.

/// Pacing by TCP itself (as Linux without the fq queue).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacing {
    /// Segments that may still leave in the current burst.
    pub(crate) burst: u32,
    /// Departure of the current burst, ns.
    pub(crate) departure_ns: u64,
    /// Segments sent ever; the first ones are not paced.
    pub(crate) segments: u64,
    /// Output waits until `tcp_wstamp_ns`.
    pub(crate) blocked: bool,
}
