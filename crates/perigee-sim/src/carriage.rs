//! Which fast paths a run may use.

use perigee_study::Scenario;

/// How packets are carried. Every choice gives the same results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carriage {
    /// Offers packets to the next link ahead of time where that is safe.
    pub(crate) cut_through: bool,
    /// Feed-forward links store their packets, like links that decide on departure.
    pub(crate) links_store_packets: bool,
    /// Enables the fast paths of links and endpoints.
    pub(crate) fast_paths: bool,
    /// Payload bytes per packet in captures.
    pub(crate) capture_payload: usize,
}

impl Carriage {
    /// No optimisation: each link stores every packet and has an event for it, and neither links nor endpoints have a fast path.
    pub(crate) const PLAIN: Self =
        Self { cut_through: false, links_store_packets: true, fast_paths: false, capture_payload: 0 };

    /// The carriage of a scenario.
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
        Self { cut_through: true, links_store_packets: false, fast_paths: true, capture_payload: 0 }
    }
}
