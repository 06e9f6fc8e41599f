//! What every kind of population states about itself, and one of its connections.

use std::fmt::Display;

use perigee_results::Classes;
use perigee_units::{Bytes, Stream, Time};

/// One connection of a population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Its number, from 0.
    pub number: u32,
    /// When it is opened.
    pub at: Time,
    /// Payload of the request.
    pub request: u64,
    /// Payload of the response.
    pub response: u64,
    /// From the arrival of the request to the response.
    pub service: Time,
    /// Level of its access delay; see [`super::Access::delay`].
    pub access: u32,
}

/// What a source of visitors draws of one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Visitor {
    /// From the visitor before, s.
    pub(crate) gap_s: f64,
    pub(crate) request: u64,
    pub(crate) response: u64,
    pub(crate) service: Time,
}

/// What every kind of population states about itself; its text says in a few words who comes and what they ask for.
pub(crate) trait Source: Display {
    /// The name of the kind in studies and results.
    fn name(&self) -> &'static str;

    /// How many connections it opens per second in the mean.
    fn per_second(&self) -> f64;

    /// The size classes of its responses.
    fn classes(&self) -> Classes;

    /// Visitors without end; what is random in them is drawn from `random`.
    fn visitors(&self, random: Stream) -> Box<dyn Iterator<Item = Visitor> + Send>;
}

/// The largest response; larger ones are drawn once in many years of web traffic.
pub(crate) const LARGEST: Bytes = Bytes::new(1 << 30);
