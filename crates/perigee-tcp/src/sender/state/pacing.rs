//! Pacing state.

/// State of TCP's internal pacing (Linux without the fq qdisc).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacing {
    /// Full segments left in the current burst.
    pub(crate) burst: u32,
    /// Payload of the smaller segment that ends the burst and fills the peer's window; 0: none.
    pub(crate) tail: u16,
    /// The last segment of the burst has PSH.
    pub(crate) is_pushed: bool,
    /// Departure time of the current burst, ns.
    pub(crate) departure_ns: u64,
    /// Segments sent since the handshake; the first ones are not paced.
    pub(crate) segments: u64,
    /// Output is blocked until `tcp_wstamp_ns`.
    pub(crate) blocked: bool,
}

impl Pacing {
    /// Takes up to `most` full segments, at least one, from the burst, or all of them outside a burst; returns their
    /// number, and whether the last one has PSH.
    #[inline]
    pub(crate) fn take_segments(&mut self, most: u32) -> (u32, bool) {
        if self.burst == 0 {
            return (most, self.is_pushed);
        }
        let taken = most.min(self.burst);
        self.burst -= taken;
        (taken, self.is_pushed && self.burst == 0)
    }

    #[inline]
    pub(crate) fn end_burst(&mut self) {
        (self.burst, self.tail, self.is_pushed) = (0, 0, false);
    }
}
