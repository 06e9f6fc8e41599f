//! Which satellites a station may see in which slots, without moving each satellite to each slot.

use crate::frames::{angle, Station};
use crate::{Satellite, Utc};

/// Satellites that may be in view, by slot: all that are, and few others.
///
/// A satellite's direction from the centre of the Earth moves over the ground no faster than its sweep. So from its angle to the
/// station in the middle of a stretch of slots follows whether it can get within its reach in that stretch at all; those that can
/// are asked again in both halves. `reaches` has an angle per satellite, see `Satellite::reach`.
pub(crate) fn candidates(
    satellites: &[Satellite],
    reaches: &[f64],
    station: &Station,
    begins: &[Utc],
    period_s: f64,
) -> Vec<Vec<u32>> {
    let mut found = vec![Vec::new(); begins.len()];
    let search = Search { satellites, reaches, station, begins, period_s };
    search.narrow(0, (0..satellites.len() as u32).collect(), &mut found);
    found
}

struct Search<'a> {
    satellites: &'a [Satellite],
    reaches: &'a [f64],
    station: &'a Station,
    begins: &'a [Utc],
    period_s: f64,
}

impl Search<'_> {
    /// Puts into `found`, which begins with slot `first`, those of the satellites that can be in reach.
    fn narrow(&self, first: usize, among: Vec<u32>, found: &mut [Vec<u32>]) {
        let count = found.len();
        if among.is_empty() || count == 0 {
            return;
        }
        let half_s = self.period_s * count as f64 / 2.0;
        let middle = self.begins[first].plus_nanos((half_s * 1e9) as i64);
        let station = self.station.at(middle).position;
        let can_reach = |i: &u32| {
            let satellite = &self.satellites[*i as usize];
            let limit = self.reaches[*i as usize] + satellite.bounds().sweep_rad_s * half_s;
            satellite.position(middle).is_some_and(|place| angle(place, station) <= limit)
        };
        let kept: Vec<u32> = among.into_iter().filter(can_reach).collect();
        if count == 1 {
            found[0] = kept;
            return;
        }
        let (before, after) = found.split_at_mut(count / 2);
        self.narrow(first, kept.clone(), before);
        self.narrow(first + count / 2, kept, after);
    }
}
