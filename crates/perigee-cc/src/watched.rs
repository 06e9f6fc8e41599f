//! Values of an algorithm's state that results may show.

/// A watched value: a column of the table `states`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its name, which ends in its unit.
    pub name: &'static str,
    /// Its unit, as that of a [`crate::Param`].
    pub unit: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// The names of a choice by number; empty: it is a number.
    pub choices: Vec<&'static str>,
}

impl Watched {
    pub(crate) fn new(name: &'static str, unit: &'static str, doc: &'static str) -> Self {
        let choices = if unit.contains('|') { unit.split('|').collect() } else { Vec::new() };
        Self { name, unit, doc, choices }
    }
}

/// `CC_EMPTY`: a watched value that has no number now.
pub const EMPTY: u64 = u64::MAX;
/// The columns that the table `states` has for every algorithm, whose names no watched value may have.
pub const STATE_COLUMNS: &[&str] = &[
    "run",
    "flow",
    "leg",
    "t_s",
    "ca_state",
    "cwnd_packets",
    "ssthresh_packets",
    "pacing_mbps",
    "inflight_packets",
    "delivered_packets",
    "lost_packets",
    "rtt_ms",
    "app_limited",
];
