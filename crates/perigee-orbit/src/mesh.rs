//! Paths from satellite to satellite.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::elements::GridPlace;
use crate::frames::{dot, minus, norm, Vector, EQUATOR_KM};
use crate::walker::{Constellation, Pattern};

/// The laser links of generated shells: each satellite has one to its neighbour on either side in its plane and in the planes
/// beside it ("+Grid"), where the Earth and its lower air are not between them.
#[derive(Debug)]
pub(crate) struct Mesh {
    neighbours: Vec<Vec<u32>>,
}

impl Mesh {
    pub(crate) fn new(constellation: &Constellation) -> Self {
        let at: BTreeMap<(u32, u32, u32), u32> = constellation
            .satellites
            .iter()
            .enumerate()
            .filter_map(|(i, satellite)| {
                satellite.grid.map(|GridPlace { shell, plane, number }| ((shell, plane, number), i as u32))
            })
            .collect();
        let mut neighbours = vec![Vec::new(); constellation.satellites.len()];
        for (&(shell, plane, number), &i) in &at {
            let about = &constellation.shells[shell as usize];
            let in_plane = (shell, plane, (number + 1) % about.per_plane);
            // The plane after the last one is the first, by as many satellites ahead as the phasing adds up to.
            let beside = if plane + 1 < about.planes {
                Some((shell, plane + 1, number))
            } else {
                let ahead = libm::round(about.phasing) as i64;
                let number = (i64::from(number) + ahead).rem_euclid(i64::from(about.per_plane)) as u32;
                (about.pattern == Pattern::Delta).then_some((shell, 0, number))
            };
            for other in [Some(in_plane), beside].into_iter().flatten().filter_map(|place| at.get(&place)) {
                if *other != i && !neighbours[i as usize].contains(other) {
                    neighbours[i as usize].push(*other);
                    neighbours[*other as usize].push(i);
                }
            }
        }
        Self { neighbours }
    }

    /// The shortest way from a satellite to an exit, with the distance that each exit adds, km: the satellites on it, both ends
    /// among them. Distances are compared in whole millimetres, and equal ones by the satellites' numbers.
    pub(crate) fn shortest(
        &self,
        places: &[Option<Vector>],
        from: u32,
        exits: &BTreeMap<u32, f64>,
    ) -> Option<Vec<u32>> {
        let mut nearest: Vec<u64> = vec![u64::MAX; self.neighbours.len()];
        let mut before: Vec<u32> = vec![from; self.neighbours.len()];
        let mut waiting = BinaryHeap::from([Reverse((0, from))]);
        nearest[from as usize] = 0;
        let mut best: Option<(u64, u32)> = None;
        while let Some(Reverse((so_far, i))) = waiting.pop() {
            if so_far > nearest[i as usize] {
                continue;
            }
            if best.is_some_and(|(total, _)| so_far >= total) {
                break;
            }
            if let Some(rest) = exits.get(&i) {
                let total = so_far + millimetres(*rest);
                if best.is_none_or(|known| (total, i) < known) {
                    best = Some((total, i));
                }
            }
            let Some(here) = places[i as usize] else { continue };
            for &next in &self.neighbours[i as usize] {
                let Some(there) = places[next as usize].filter(|there| sees(here, *there)) else { continue };
                let distance = so_far + millimetres(norm(minus(here, there)));
                if distance < nearest[next as usize] {
                    nearest[next as usize] = distance;
                    before[next as usize] = i;
                    waiting.push(Reverse((distance, next)));
                }
            }
        }
        let (_, mut i) = best?;
        let mut chain = vec![i];
        while i != from {
            i = before[i as usize];
            chain.push(i);
        }
        chain.reverse();
        Some(chain)
    }
}

/// Whether the line between two satellites stays above the lower air.
fn sees(a: Vector, b: Vector) -> bool {
    let line = minus(b, a);
    let along = (-dot(a, line) / dot(line, line).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    let nearest = [0, 1, 2].map(|i| a[i] + along * line[i]);
    norm(nearest) > EQUATOR_KM + AIR_KM
}

fn millimetres(km: f64) -> u64 {
    libm::round(km * 1e6) as u64
}

/// Laser light passes no lower than this, km.
const AIR_KM: f64 = 80.0;
