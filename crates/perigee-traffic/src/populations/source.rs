//! The interface of every kind of population, and one of its connections.

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
    /// Time from the arrival of the request to the response.
    pub service: Time,
    /// Level of its access delay; see [`super::Access::delay`].
    pub access: u32,
}

/// A visitor as drawn by a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Visitor {
    /// Time since the previous visitor, s.
    pub(crate) gap_s: f64,
    pub(crate) request: u64,
    pub(crate) response: u64,
    pub(crate) service: Time,
}

/// A kind of population; its text describes its visitors and their requests in a few words.
pub(crate) trait Source: Display {
    /// The name of the kind in studies and results.
    fn name(&self) -> &'static str;

    /// Mean number of connections per second.
    fn per_second(&self) -> f64;

    /// The size classes of its responses.
    fn classes(&self) -> Classes;

    /// An endless sequence of visitors, with random numbers from `random`.
    fn visitors(&self, random: Stream) -> Box<dyn Iterator<Item = Visitor> + Send>;
}

/// The largest response; larger ones would occur once in many years of web traffic.
pub(crate) const LARGEST: Bytes = Bytes::new(1 << 30);
