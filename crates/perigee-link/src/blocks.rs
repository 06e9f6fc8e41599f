//! Recordings without end: a stationary bootstrap of their blocks.
//!
//! A run of any length consists of whole blocks of a recording, such as slots of a constellation. A block is the one that follows its
//! predecessor in the recording, or, with the probability 1 / `run`, one drawn evenly from all: runs of successive blocks have geometric
//! lengths of mean `run` (D. N. Politis, J. P. Romano, "The stationary bootstrap", Journal of the American Statistical Association 1994,
//! with blocks for its observations). The first block follows the last one, as there.
//!
//! Which block has a number depends only on the seed and the name of the link without its direction. So rate and delay of both directions
//! have blocks of the same time, and keep what a recording says of them together.

use std::sync::Arc;

use perigee_units::{Encode, Stream, Time};

use crate::slots::of_both_directions;
use crate::steps::{Cursor, Steps};

/// Blocks of a recording, or of several, from which runs are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks<T> {
    /// The blocks one after the other, of `length` each; repeats after the last.
    steps: Steps<T>,
    length: Time,
    run: f64,
}

impl<T: Encode> Encode for Blocks<T> {
    fn encode(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        let Self { steps, length, run } = self;
        ((steps, length), run).encode(out)
    }
}

impl<T: Copy + PartialEq> Blocks<T> {
    /// Blocks that begin at these instants of recordings, and last `length`; `run` is the mean number of successive blocks that stay
    /// together. `None` if there are none, the length is zero, or `run` is less than one.
    pub fn new<'a>(begins: impl IntoIterator<Item = (&'a Steps<T>, Time)>, length: Time, run: f64) -> Option<Self>
    where
        T: 'a,
    {
        let steps = Steps::join(begins.into_iter().map(|(steps, from)| (steps, from, from + length)), true)?;
        (run >= 1.0).then_some(Self { steps, length, run })
    }

    /// All blocks, one after the other.
    pub fn steps(&self) -> &Steps<T> {
        &self.steps
    }

    /// Length of a block.
    pub fn length(&self) -> Time {
        self.length
    }

    /// Number of blocks.
    pub fn count(&self) -> u64 {
        self.steps.period().map_or(0, |period| period.as_nanos() / self.length.as_nanos())
    }

    /// Mean number of successive blocks that stay together.
    pub fn run(&self) -> f64 {
        self.run
    }
}

/// A run made of blocks; see [`Blocks`].
#[derive(Clone, Debug)]
pub(crate) struct BlockReplay<T> {
    blocks: Arc<Blocks<T>>,
    draws: BlockDraws,
    /// The block of the latest query, and the recorded block that it is.
    current: Option<(u64, u64)>,
}

impl<T: Copy + PartialEq> BlockReplay<T> {
    pub(crate) fn new(blocks: &Arc<Blocks<T>>, seed: u64, name: &str) -> Self {
        let key = Stream::new(seed, &format!("{}/blocks", of_both_directions(name))).next_u64();
        let draws = BlockDraws { key, count: blocks.count(), begins: 1.0 / blocks.run };
        Self { blocks: blocks.clone(), draws, current: None }
    }

    /// The value at an instant, and how long it holds.
    pub(crate) fn segment(&mut self, cursor: &mut Cursor, t: Time) -> (T, Time) {
        let length = self.blocks.length;
        let number = t.as_nanos() / length.as_nanos();
        let source = match self.current {
            Some((current, source)) if current == number => source,
            _ => self.draws.source(number),
        };
        self.current = Some((number, source));
        let inside = self.blocks.recorded(number, source, t);
        let (value, until) = self.blocks.steps.segment(cursor, inside);
        (value, t + (until.min(length * (source + 1)) - inside))
    }

    /// The value at an instant.
    pub(crate) fn at(&self, t: Time) -> T {
        let number = t.as_nanos() / self.blocks.length.as_nanos();
        self.blocks.steps.at(self.blocks.recorded(number, self.draws.source(number), t))
    }
}

impl<T> Blocks<T> {
    /// The instant of the recorded blocks that a run has at `t`, in its block `number`, which is block `source` of them.
    fn recorded(&self, number: u64, source: u64, t: Time) -> Time {
        self.length * source + (t - self.length * number)
    }
}

/// Draws of blocks, by their number.
#[derive(Clone, Copy, Debug)]
struct BlockDraws {
    key: u64,
    count: u64,
    /// Probability that a block begins a new run.
    begins: f64,
}

impl BlockDraws {
    /// The recorded block that a block of the run is.
    fn source(&self, number: u64) -> u64 {
        let mut first = number;
        loop {
            let mut stream = Stream::new(self.key.wrapping_add(first), "block");
            let drawn = stream.below(self.count);
            if first == 0 || stream.chance(self.begins) {
                return (drawn + (number - first)) % self.count;
            }
            first -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(t: u64) -> Time {
        Time::from_millis(t)
    }

    /// `count` blocks of 10 ms, whose values are their numbers, in steps of 5 ms that differ by 100.
    fn replay(count: u64, run: f64, seed: u64, name: &str) -> BlockReplay<u64> {
        let points = (0..2 * count).map(|half| (ms(5 * half), half / 2 + 100 * (half % 2)));
        let steps = Steps::new(points, Some(ms(10 * count + 3))).unwrap();
        let blocks = Blocks::new((0..count).map(|block| (&steps, ms(10 * block))), ms(10), run).unwrap();
        assert_eq!(blocks.count(), count);
        BlockReplay::new(&Arc::new(blocks), seed, name)
    }

    fn sources(count: u64, run: f64, seed: u64, blocks: u64) -> Vec<u64> {
        let replay = replay(count, run, seed, "link/a.down");
        (0..blocks).map(|block| replay.at(ms(10 * block))).collect()
    }

    #[test]
    fn both_directions_of_a_link_have_the_same_blocks_and_other_links_their_own() {
        let blocks = |name: &str| -> Vec<u64> {
            let replay = replay(8, 1.0, 5, name);
            (0..100).map(|block| replay.at(ms(10 * block))).collect()
        };
        assert_eq!(blocks("link/a.down"), blocks("link/a.up"));
        assert_ne!(blocks("link/a.down"), blocks("link/b.down"));
        assert_ne!(sources(8, 1.0, 5, 100), sources(8, 1.0, 6, 100));
        // A run whose seed is one higher is no shifted copy.
        assert_ne!(sources(8, 1.0, 5, 100)[1..], sources(8, 1.0, 6, 99));
    }

    #[test]
    fn all_blocks_are_drawn_alike_and_stay_together_for_the_mean_run() {
        for run in [1.0, 4.0] {
            let blocks = sources(7, run, 3, 70_000);
            for block in 0..7 {
                let share = blocks.iter().filter(|drawn| **drawn == block).count();
                assert!((9_400..10_600).contains(&share), "run {run}: block {block} {share} times of 10000");
            }
            let together = blocks.windows(2).filter(|pair| pair[1] == (pair[0] + 1) % 7).count() as f64 / 69_999.0;
            // A new draw is the next block by chance once in seven.
            let expected = 1.0 - 1.0 / run + 1.0 / run / 7.0;
            assert!((together - expected).abs() < 0.01, "run {run}: {together} of {expected}");
        }
    }

    #[test]
    fn blocks_that_contradict_themselves_are_refused() {
        let steps = Steps::new([(ms(0), 1)], Some(ms(30))).unwrap();
        assert!(Blocks::new([(&steps, ms(0))], ms(10), 0.9).is_none());
        assert!(Blocks::new([(&steps, ms(0))], Time::ZERO, 1.0).is_none());
        assert!(Blocks::new(Vec::<(&Steps<u32>, Time)>::new(), ms(10), 1.0).is_none());
    }

    proptest! {
        #[test]
        fn a_value_does_not_depend_on_earlier_queries_and_holds_until_the_instant_with_it(
            seed in any::<u64>(),
            count in 1u64..9,
            run in 1.0f64..5.0,
            asked in prop::collection::vec(0u64..5_000_000, 1..60),
        ) {
            let (mut replay, mut cursor) = (replay(count, run, seed, "link/a.down"), Cursor::default());
            for at in asked.into_iter().map(Time::from_micros) {
                let (value, until) = replay.segment(&mut cursor, at);
                prop_assert_eq!(value, replay.at(at));
                prop_assert_eq!(value, replay.at(until - Time::from_nanos(1)));
                // The halves of blocks differ, so that each value ends with its half.
                prop_assert_eq!(until.as_nanos(), (at.as_nanos() / 5_000_000 + 1) * 5_000_000);
            }
        }
    }
}
