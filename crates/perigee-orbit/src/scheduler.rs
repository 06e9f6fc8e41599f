//! Which satellite serves the user in a slot: a model, since no operator publishes its own.
//!
//! What is known of Starlink's is that it prefers satellites that are high in the sky and those that were launched late, and that
//! this does not explain all of its choices (H. B. Tanveer, M. Puchol, R. Singh, A. Bianchi, R. Nithyanand, "Making sense of
//! constellations", `CoNEXT` Companion 2023). Here each satellite has a score, the sum of three shares with a weight each; load,
//! which nobody outside can see, is drawn per satellite and slot.

use perigee_units::{encode_struct, Stream};

/// The weights of the choice of a satellite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Weight of the elevation, as its share of the way from the least one to the zenith.
    pub elevation: f64,
    /// Weight of youth: one for the latest launch, zero for the first.
    pub age: f64,
    /// Weight of the capacity that others leave, which is drawn.
    pub load: f64,
    /// Seed of these draws.
    pub seed: u64,
}

encode_struct!(Weights { elevation, age, load, seed });

impl Weights {
    /// The score of a satellite: elevation x (el - least) / (90 - least) + age x youth + load x free.
    pub(crate) fn score(&self, elevation_share: f64, youth: f64, satellite: u32, slot: i64) -> f64 {
        let mut score = self.elevation * elevation_share + self.age * youth;
        if self.load > 0.0 {
            let name = format!("orbit/load/{slot}/{satellite}");
            score += self.load * Stream::new(self.seed, &name).uniform();
        }
        score
    }
}

/// The youth of each satellite: the place of its launch among all launches, from 0 to 1; zero where no launch is known.
pub(crate) fn youths(launches: &[Option<u32>]) -> Vec<f64> {
    let mut known: Vec<u32> = launches.iter().flatten().copied().collect();
    known.sort_unstable();
    known.dedup();
    let last = known.len().saturating_sub(1).max(1) as f64;
    let place = |launch: &Option<u32>| launch.and_then(|launch| known.binary_search(&launch).ok());
    launches.iter().map(|launch| place(launch).map_or(0.0, |place| place as f64 / last)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_launch_is_the_youngest() {
        assert_eq!(youths(&[Some(2_023_001), None, Some(2_021_100), Some(2_022_005)]), [1.0, 0.0, 0.0, 0.5]);
        assert_eq!(youths(&[Some(2_023_001)]), [0.0]);
        assert_eq!(youths(&[]), [0.0; 0]);
    }

    #[test]
    fn each_weight_counts_its_own_share() {
        let weights = |elevation, age, load| Weights { elevation, age, load, seed: 1 };
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(weights(2.0, 0.0, 0.0).score(0.25, 1.0, 7, 9), 0.5);
        near(weights(0.0, 3.0, 0.0).score(0.25, 0.5, 7, 9), 1.5);
        let free = weights(0.0, 0.0, 1.0).score(0.25, 0.5, 7, 9);
        assert!((0.0..1.0).contains(&free));
        near(weights(1.0, 1.0, 2.0).score(0.25, 0.5, 7, 9), 0.75 + 2.0 * free);
        assert!((free - weights(0.0, 0.0, 1.0).score(0.25, 0.5, 7, 10)).abs() > 0.0, "another slot is another draw");
    }
}
