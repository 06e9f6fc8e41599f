//! How a run carries its packets.

use perigee_study::Scenario;

/// How packets are carried; the results are the same in every way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carriage {
    /// Ask the next link ahead of time where that is safe.
    pub(crate) cut_through: bool,
    /// Let feed-forward links keep their packets, as those that decide on departure do.
    pub(crate) links_keep_packets: bool,
    /// Links and endpoints have their fast paths.
    pub(crate) fast_paths: bool,
    /// Payload bytes of each packet in captures.
    pub(crate) capture_payload: usize,
}

impl Carriage {
    /// Every packet by itself: each link keeps it and has an event for it, and neither links nor endpoints have a fast path.
    pub(crate) const PLAIN: Self =
        Self { cut_through: false, links_keep_packets: true, fast_paths: false, capture_payload: 0 };

    /// That of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        if scenario.is_plain {
            Self::PLAIN
        } else {
            Self::default()
        }
    }
}

impl Default for Carriage {
    fn default() -> Self {
        Self { cut_through: true, links_keep_packets: false, fast_paths: true, capture_payload: 0 }
    }
}
