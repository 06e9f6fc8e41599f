//! Compares two captures of one connection: a packet in the capture near its sender that the other lacks was lost.
//!
//! Captures with equal addresses, ports and first sequence numbers are candidates (`find`): runs of one study, or a machine that was reset,
//! have equal ones without being one connection. They are read side by side (`comparison`), which also tells whether they show the same
//! packets; only where they do, their sides are settled and their losses written.

use perigee_results::{CaptureTables, LossRow, Name};
use rustc_hash::FxHashMap;

use crate::comparison::{compare, PairedConnection};
use crate::error::AnalyzeError;
use crate::measure::Measured;
use crate::side::Side;
use crate::stream::{Source, Watch};
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

/// Two captures that were read side by side.
pub(crate) struct Compared {
    captures: [usize; 2],
    /// The connections that both show.
    same: Vec<Same>,
    /// Connections of equal addresses, ports and first sequence numbers with other packets.
    pub(crate) unlike: u64,
}

/// A connection that both captures show.
struct Same {
    /// Its places among what each survey has chosen.
    places: [usize; 2],
    found: PairedConnection,
}

impl Candidates {
    /// Reads both captures side by side.
    pub(crate) fn compare(
        &self,
        sources: &[Source],
        surveys: &[Survey],
        watch: &mut Watch<'_>,
    ) -> Result<Compared, AnalyzeError> {
        let found = self.connections.iter().zip(compare(self, sources, surveys, watch)?);
        let same: Vec<Same> =
            found.filter(|(_, found)| found.is_same()).map(|(one, found)| Same { places: one.places, found }).collect();
        let unlike = (self.connections.len() - same.len()) as u64;
        Ok(Compared { captures: self.captures, same, unlike })
    }
}

impl Compared {
    /// Whether it is about this capture.
    pub(crate) fn has(&self, capture: usize) -> bool {
        self.captures.contains(&capture)
    }

    /// Settles the sides of the captures: the one nearer to a sender is not at its receiver.
    pub(crate) fn settle_sides(&self, surveys: &mut [Survey]) {
        for Same { places, found } in &self.same {
            for (number, capture) in self.captures.into_iter().enumerate() {
                let summary = &mut surveys[capture].chosen[places[number]];
                let beside = |way: usize| Some(Side::of(summary, way).beside(found.near[way] == number));
                summary.sides = [beside(0), beside(1)];
            }
        }
    }

    /// Writes the losses into the tables of both captures.
    pub(crate) fn write(&self, measured: &mut [Measured]) {
        for Same { places, found } in &self.same {
            for (side, capture) in self.captures.into_iter().enumerate() {
                let Measured { flows, captured, .. } = &mut measured[capture];
                for (name, place, way) in flows.iter() {
                    if *place == places[side] {
                        found.write(name, *way, found.near[*way] == side, captured);
                    }
                }
            }
        }
    }
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
    if let ([Some(a), Some(b)], Some(way)) = (handshakes, first.opening.way) {
        if a != b {
            let by_responder = usize::from(b < a);
            let mut near = [1 - by_responder; 2];
            near[1 - way] = by_responder;
            return Some(near);
        }
    }
    let of = |way: usize| match [first.reach(1 - way), second.reach(1 - way), first.reach(way), second.reach(way)] {
        [Some(a), Some(b), ..] if a != b => Some(usize::from(b < a)),
        [_, _, Some(a), Some(b)] if a != b => Some(usize::from(b > a)),
        _ => None,
    };
    let near = [of(0)?, of(1)?];
    (near[0] != near[1]).then_some(near)
}

impl PairedConnection {
    /// Writes the losses of one direction into the tables of one capture.
    fn write(&self, flow: &Name, way: usize, is_near: bool, captured: &mut CaptureTables) {
        let (data, answers) = (&self.ways[way], &self.ways[1 - way]);
        let rows = &mut captured.connections;
        let Some(row) = rows.flow.iter().position(|name| name == flow) else { return };
        let lost = data.data.lost();
        rows.matched_packets[row] = Some(data.data.sent());
        rows.matched_lost_packets[row] = Some(lost.len() as u64);
        rows.matched_acknowledgements[row] = Some(answers.others.sent());
        rows.matched_lost_acknowledgements[row] = Some(answers.others.lost().len() as u64);
        let run = rows.run[row];
        if !is_near {
            return;
        }
        let beginning = self.beginning[way];
        let mut then = data.data.known.map_or(0, |(first, _)| first);
        for event in lost.chunk_by(|a, b| a.number + 1 == b.number) {
            let first = event[0];
            captured.losses.push(LossRow {
                run,
                flow: flow.clone(),
                t_s: first.at.as_secs_f64(),
                how: "matched".into(),
                packets: event.len() as u32,
                since_packets: first.number.saturating_sub(then),
                // Beyond 4 GiB only where in them.
                offset_bytes: first.sequence.wrapping_sub(beginning).wrapping_sub(1).into(),
            });
            then = first.number + event.len() as u64;
        }
    }
}
