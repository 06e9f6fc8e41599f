//! The throughput of a split under random loss equals that of its slower leg alone.

mod grid;

use grid::{measure, LEGS};

#[test]
fn a_split_has_the_throughput_of_its_slower_leg() {
    for pair in [[0, 3], [3, 0], [1, 4], [4, 2], [2, 1]] {
        let split = measure(pair.map(|leg| LEGS[leg]), 60);
        assert!(split.error().abs() <= 0.05, "legs {pair:?}: {:.2} Mbit/s split, {:?} alone", split.split, split.alone);
    }
}
