//! Captures that may show the same connections, by addresses, ports and first sequence numbers.

use rustc_hash::FxHashMap;

use crate::survey::{ConnectionSummary, Survey};

/// Captures that may show the same connections.
pub(crate) struct Candidates {
    /// Numbers of the captures.
    pub(crate) captures: [usize; 2],
    pub(crate) connections: Vec<Candidate>,
}

/// A connection that two captures may show.
pub(crate) struct Candidate {
    /// Its places among what each survey has chosen.
    pub(crate) places: [usize; 2],
    /// The capture that is nearer to the sender, by direction.
    pub(crate) near: [usize; 2],
}

/// Finds captures that may show the same connections from two places.
pub(crate) fn find(surveys: &[Survey]) -> Vec<Candidates> {
    let mut pairs = Vec::new();
    for first in 0..surveys.len() {
        for second in first + 1..surveys.len() {
            let connections = common(&surveys[first].chosen, &surveys[second].chosen);
            if !connections.is_empty() {
                pairs.push(Candidates { captures: [first, second], connections });
            }
        }
    }
    pairs
}

fn common(first: &[ConnectionSummary], second: &[ConnectionSummary]) -> Vec<Candidate> {
    let mut by_key: FxHashMap<_, Vec<usize>> = FxHashMap::default();
    for (place, summary) in second.iter().enumerate().filter(|(_, summary)| !summary.key.is_udp()) {
        by_key.entry(summary.key).or_default().push(place);
    }
    let found = first.iter().enumerate().filter_map(|(place, summary)| {
        let candidate = |other: &usize| {
            let near = near(summary, &second[*other]).filter(|_| may_be_same(summary, &second[*other]))?;
            Some(Candidate { places: [place, *other], near })
        };
        by_key.get(&summary.key)?.iter().find_map(candidate)
    });
    found.collect()
}

/// Whether two captures may show the same connection.
fn may_be_same(first: &ConnectionSummary, second: &ConnectionSummary) -> bool {
    let ways = first.ways.iter().zip(&second.ways);
    ways.clone().all(|(a, b)| !(a.has_syn && b.has_syn) || a.beginning == b.beginning)
        && ways.clone().any(|(a, b)| a.has_syn && b.has_syn || a.payload > 0 && a.overlaps(b))
}

/// The capture that is nearer to the sender, by direction; `None` if both were taken at one place.
fn near(first: &ConnectionSummary, second: &ConnectionSummary) -> Option<[usize; 2]> {
    // One and the same packets tell best: the answer to a SYN comes sooner where it was given.
    let handshakes = [first.opening.to_responder(), second.opening.to_responder()];
    if let ([Some(a), Some(b)], Some(way)) = (handshakes, first.opening.way)
        && a != b
    {
        let by_responder = usize::from(b < a);
        let mut near = [1 - by_responder; 2];
        near[1 - way] = by_responder;
        return Some(near);
    }
    let of = |way: usize| match [first.reach(1 - way), second.reach(1 - way), first.reach(way), second.reach(way)] {
        [Some(a), Some(b), ..] if a != b => Some(usize::from(b < a)),
        [_, _, Some(a), Some(b)] if a != b => Some(usize::from(b > a)),
        _ => None,
    };
    let near = [of(0)?, of(1)?];
    (near[0] != near[1]).then_some(near)
}
