//! The burst time plan of a super-frame: the terminal of each slot.
//!
//! The terminals' units are placed consecutively on the carriers, continuing from one carrier to the next (the wrap-around rule of machine
//! scheduling), so that no terminal has two slots at one instant. The instants of a multi-frame are then permuted by a step near the golden
//! section, which spreads each terminal's slots over the multi-frame.

use perigee_units::Time;

/// The slots of a super-frame, by terminal.
pub(super) struct BurstTimePlan {
    pub(super) number: u64,
    /// Start of each terminal's slots in `places`, and the end.
    first: Vec<u32>,
    /// Places in the multi-frame, ascending per terminal.
    places: Vec<u32>,
}

/// The time grid of a channel: super-frame k starts at k times its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) superframe: Time,
    pub(super) multiframes: u32,
    /// Consecutive slots in a multi-frame.
    pub(super) slots_in_line: u32,
    pub(super) guard: Time,
    /// Place of the first unit, less than `slots_in_line`.
    pub(super) first_place: u32,
}

impl BurstTimePlan {
    /// The plan of a super-frame in which terminal i has `units[i]` slots per multi-frame, at most `grid.slots_in_line`.
    pub(super) fn new(number: u64, units: &[u32], grid: &Grid) -> Self {
        let (length, step) = (grid.slots_in_line, spreading_step(grid.slots_in_line));
        let mut first = Vec::with_capacity(units.len() + 1);
        let mut places = Vec::with_capacity(units.iter().map(|n| *n as usize).sum());
        let mut next = 0u32;
        for n in units {
            first.push(places.len() as u32);
            for _ in 0..*n {
                places.push(
                    ((u64::from(next) * u64::from(step) + u64::from(grid.first_place)) % u64::from(length)) as u32,
                );
                next = (next + 1) % length;
            }
            let begin = first.last().map_or(0, |first| *first as usize);
            places[begin..].sort_unstable();
        }
        first.push(places.len() as u32);
        Self { number, first, places }
    }

    /// The terminal's slots per multi-frame.
    pub(super) fn units_of(&self, terminal: usize) -> u32 {
        self.first[terminal + 1] - self.first[terminal]
    }

    /// Start of the terminal's first slot at or after `from`.
    pub(super) fn next_slot(&self, grid: &Grid, terminal: usize, from: Time) -> Option<Time> {
        let (multiframe, place) = self.position(grid, from)?;
        let places = self.places_of(terminal);
        let later = places.partition_point(|p| *p < place);
        let (multiframe, place) = match places.get(later) {
            Some(place) => (multiframe, *place),
            None => (multiframe + 1, *places.first()?),
        };
        (multiframe < grid.multiframes).then(|| grid.slot(self.number, multiframe, place))
    }

    /// Number of the terminal's slots that start at or after `from`.
    pub(super) fn slots_from(&self, grid: &Grid, terminal: usize, from: Time) -> u32 {
        let Some((multiframe, place)) = self.position(grid, from) else { return 0 };
        let places = self.places_of(terminal);
        let passed = places.partition_point(|p| *p < place) as u32;
        (grid.multiframes - multiframe) * places.len() as u32 - passed
    }

    fn places_of(&self, terminal: usize) -> &[u32] {
        &self.places[self.first[terminal] as usize..self.first[terminal + 1] as usize]
    }

    /// Multi-frame and place of the first slot that starts at or after `from`; `None` if it is in a later super-frame.
    fn position(&self, grid: &Grid, from: Time) -> Option<(u32, u32)> {
        let since = (from - grid.begin(self.number)).as_nanos();
        let slots = u128::from(grid.slots_in_line) * u128::from(grid.multiframes);
        let slot = (u128::from(since) * slots).div_ceil(u128::from(grid.superframe.as_nanos()));
        (slot < slots).then(|| {
            let slot = slot as u32;
            (slot / grid.slots_in_line, slot % grid.slots_in_line)
        })
    }
}

impl Grid {
    pub(super) fn begin(&self, number: u64) -> Time {
        self.superframe * number
    }

    /// The super-frame at an instant.
    pub(super) fn number_at(&self, t: Time) -> u64 {
        t.as_nanos() / self.superframe.as_nanos()
    }

    /// Start of a slot, to the nanosecond.
    fn slot(&self, number: u64, multiframe: u32, place: u32) -> Time {
        let slot = u64::from(multiframe) * u64::from(self.slots_in_line) + u64::from(place);
        self.begin(number) + self.offset(slot)
    }

    /// End of the burst in the slot that starts at `begin`.
    pub(super) fn burst_end(&self, begin: Time) -> Time {
        let number = self.number_at(begin);
        let since = (begin - self.begin(number)).as_nanos();
        let slots = u128::from(self.slots_in_line) * u128::from(self.multiframes);
        let slot = (u128::from(since) * slots).div_ceil(u128::from(self.superframe.as_nanos())) as u64;
        self.begin(number) + self.offset(slot + 1) - self.guard
    }

    fn offset(&self, slot: u64) -> Time {
        let slots = u128::from(self.slots_in_line) * u128::from(self.multiframes);
        Time::from_nanos((u128::from(self.superframe.as_nanos()) * u128::from(slot) / slots) as u64)
    }
}

/// The step near the golden section of `length` that visits every place once.
fn spreading_step(length: u32) -> u32 {
    let near = ((f64::from(length) * 0.618_034).round() as u32).max(1);
    (near..near + length).find(|step| greatest_common_divisor(*step, length) == 1).unwrap_or(1)
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(slots_in_line: u32, multiframes: u32) -> Grid {
        Grid { superframe: Time::from_millis(820), multiframes, slots_in_line, guard: Time::ZERO, first_place: 0 }
    }

    #[test]
    fn every_slot_is_one_terminals_and_no_terminal_has_two_at_an_instant() {
        for (carriers, length) in [(1, 48), (4, 12), (3, 7), (2, 1)] {
            let units = match length {
                48 => vec![27, 1, 20],
                12 => vec![12, 7, 11, 5, 1, 12],
                7 => vec![7, 7, 7],
                _ => vec![1, 1],
            };
            assert_eq!(units.iter().sum::<u32>(), carriers * length, "the example fills all carriers");
            let plan = BurstTimePlan::new(0, &units, &grid(length, 1));
            let mut times = vec![0; length as usize];
            for terminal in 0..units.len() {
                let places = plan.places_of(terminal);
                assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
                for place in places {
                    times[*place as usize] += 1;
                }
            }
            assert!(times.iter().all(|count| *count == carriers), "{times:?}");
        }
    }

    #[test]
    fn the_slots_of_a_terminal_are_spread() {
        let plan = BurstTimePlan::new(0, &[4, 12, 24], &grid(48, 1));
        for (terminal, most) in [(0, 21), (1, 8), (2, 5)] {
            let places = plan.places_of(terminal);
            let around = places.iter().zip(places.iter().skip(1).copied().chain([places[0] + 48]));
            let widest = around.map(|(a, b)| b - a).max();
            assert!(widest <= Some(most), "terminal {terminal}: {places:?}");
        }
    }

    #[test]
    fn slots_are_found_forward_in_time_and_counted() {
        let grid = grid(48, 3);
        let plan = BurstTimePlan::new(5, &[2, 3], &grid);
        let (mut from, mut found) = (grid.begin(5), 0);
        while let Some(slot) = plan.next_slot(&grid, 1, from) {
            assert!(slot >= from && slot < grid.begin(6));
            assert_eq!(plan.slots_from(&grid, 1, from), 9 - found, "remaining slots");
            assert!(grid.burst_end(slot) <= grid.begin(6));
            (from, found) = (slot + Time::from_nanos(1), found + 1);
        }
        assert_eq!((found, plan.slots_from(&grid, 1, from)), (9, 0), "3 in each of 3 multi-frames");
    }
}
