//! Compares two captures of one connection: a packet in the capture near its sender that the other lacks was lost.
//!
//! Captures with equal addresses, ports and first sequence numbers are candidates (`candidates`): runs of one study, or
//! a machine that was reset, have equal ones without being one connection. They are read side by side (`comparison`),
//! which also tells whether they show the same packets; only where they do, their sides are settled and their losses
//! written.

use perigee_results::{CaptureTables, LossRow, Name};

use crate::candidates::Candidates;
use crate::comparison::{compare, PairedConnection};
use crate::error::AnalyzeError;
use crate::measure::Measured;
use crate::side::Side;
use crate::stream::{Source, Watch};
use crate::survey::Survey;

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

/// Reads both captures of a pair side by side.
pub(crate) fn compared(
    pair: &Candidates,
    sources: &[Source],
    surveys: &[Survey],
    watch: &mut Watch<'_>,
) -> Result<Compared, AnalyzeError> {
    let found = pair.connections.iter().zip(compare(pair, sources, surveys, watch)?);
    let same: Vec<Same> =
        found.filter(|(_, found)| found.is_same()).map(|(one, found)| Same { places: one.places, found }).collect();
    let unlike = (pair.connections.len() - same.len()) as u64;
    Ok(Compared { captures: pair.captures, same, unlike })
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
