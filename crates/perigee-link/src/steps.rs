//! Step functions of time, the form of every recorded trace.

use std::fmt;

use perigee_units::{Encode, Time};

/// A step function of time. The first step begins at zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps<T> {
    /// Start times within the period, ascending from zero.
    starts: Vec<Time>,
    values: Vec<T>,
    /// Period of the steps, later than the last start; `None` if they do not repeat.
    period: Option<Time>,
}

impl<T: Encode> Encode for Steps<T> {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { starts, values, period } = self;
        ((starts, values), period).encode(out)
    }
}

/// Position in a step function, which makes queries at ascending times cheap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    index: usize,
    /// Start of the period that `index` refers to.
    base: Time,
}

impl<T: Copy + PartialEq> Steps<T> {
    /// Steps from `(start, value)` pairs. `None` if there are no pairs, the first is not at zero, they do not ascend, or the period ends
    /// before the last start. Adjacent equal values are merged.
    pub fn new(points: impl IntoIterator<Item = (Time, T)>, period: Option<Time>) -> Option<Self> {
        let mut steps = Self { starts: Vec::new(), values: Vec::new(), period };
        let mut last = None;
        for (start, value) in points {
            if last.map_or(start != Time::ZERO, |l| start <= l) {
                return None;
            }
            last = Some(start);
            if steps.values.last() != Some(&value) {
                steps.starts.push(start);
                steps.values.push(value);
            }
        }
        let last = last?;
        period.is_none_or(|p| p > last).then_some(steps)
    }

    /// Pieces of steps, one after the other: each is `(steps, from, to)`, two instants within a period. The result
    /// repeats after its length if `repeats`. `None` if a piece is empty or there are none.
    ///
    /// ```
    /// use perigee_link::Steps;
    /// use perigee_units::Time;
    /// let ms = Time::from_millis;
    /// let steps = Steps::new([(ms(0), 1), (ms(10), 2)], Some(ms(20))).unwrap();
    /// let joined = Steps::join([(&steps, ms(15), ms(20)), (&steps, ms(0), ms(20))], true).unwrap();
    /// assert_eq!([0, 4, 5, 14, 15, 24, 25].map(|t| joined.at(ms(t))), [2, 2, 1, 1, 2, 2, 2]);
    /// ```
    pub fn join<'a>(pieces: impl IntoIterator<Item = (&'a Self, Time, Time)>, repeats: bool) -> Option<Self>
    where
        T: 'a,
    {
        let (mut points, mut end) = (Vec::new(), Time::ZERO);
        for (steps, from, to) in pieces {
            if from >= to {
                return None;
            }
            let first = steps.starts.partition_point(|start| *start <= from) - 1;
            let inside = steps.iter().skip(first).take_while(|(start, _)| *start < to);
            points.extend(inside.map(|(start, value)| (end + (start.max(from) - from), value)));
            end += to - from;
        }
        Self::new(points, repeats.then_some(end))
    }

    /// These steps once, and then `last` for ever.
    #[must_use]
    pub fn then(mut self, last: T) -> Self {
        if let Some(period) = self.period.take().filter(|_| self.values.last() != Some(&last)) {
            self.starts.push(period);
            self.values.push(last);
        }
        self
    }

    /// The last value.
    pub fn last(&self) -> T {
        self.values[self.values.len() - 1]
    }

    /// A constant value.
    pub fn constant(value: T) -> Self {
        Self { starts: vec![Time::ZERO], values: vec![value], period: None }
    }

    /// The value at an instant.
    pub fn at(&self, t: Time) -> T {
        self.segment(&mut Cursor::default(), t).0
    }

    /// The period of the steps.
    pub fn period(&self) -> Option<Time> {
        self.period
    }

    /// Start and value of each step in one period.
    pub fn iter(&self) -> impl Iterator<Item = (Time, T)> + '_ {
        self.starts.iter().copied().zip(self.values.iter().copied())
    }

    /// The value at an instant, and how long it holds ([`Time::MAX`] if forever).
    pub(crate) fn segment(&self, cursor: &mut Cursor, t: Time) -> (T, Time) {
        let index = self.seek(cursor, t);
        let until = match (self.starts.get(index + 1), self.period) {
            (Some(next), _) => cursor.base + *next,
            (None, Some(period)) => cursor.base + period,
            (None, None) => Time::MAX,
        };
        (self.values[index], until)
    }

    fn seek(&self, cursor: &mut Cursor, t: Time) -> usize {
        if let Some(period) = self.period
            && (t < cursor.base || t - cursor.base >= period)
        {
            let cycle = t.as_nanos() / period.as_nanos();
            *cursor = Cursor { index: 0, base: period * cycle };
        }
        let inside = t - cursor.base;
        if self.starts[cursor.index] > inside {
            cursor.index = 0;
        }
        for _ in 0..NEAR {
            match self.starts.get(cursor.index + 1) {
                Some(next) if *next <= inside => cursor.index += 1,
                _ => return cursor.index,
            }
        }
        cursor.index = self.starts.partition_point(|s| *s <= inside) - 1;
        cursor.index
    }
}

/// Steps a cursor advances before it falls back to binary search.
const NEAR: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at_ms(points: &[(u64, u32)], period: Option<u64>) -> Option<Steps<u32>> {
        Steps::new(points.iter().map(|(t, v)| (Time::from_millis(*t), *v)), period.map(Time::from_millis))
    }

    #[test]
    fn steps_hold_until_the_next_and_repeat_after_the_period() {
        let steps = at_ms(&[(0, 1), (10, 2), (30, 3)], Some(40)).unwrap();
        let values: Vec<u32> = [0, 9, 10, 29, 30, 39, 40, 50, 399, 400].map(|t| steps.at(Time::from_millis(t))).into();
        assert_eq!(values, [1, 1, 2, 2, 3, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn steps_that_contradict_themselves_are_refused() {
        assert!(at_ms(&[], None).is_none());
        assert!(at_ms(&[(1, 1)], None).is_none());
        assert!(at_ms(&[(0, 1), (5, 2), (5, 3)], None).is_none());
        assert!(at_ms(&[(0, 1), (5, 2)], Some(5)).is_none());
    }

    proptest! {
        #[test]
        fn a_cursor_finds_what_a_search_finds(
            gaps in prop::collection::vec((1u64..50, 0u32..4), 1..60),
            wrap in any::<bool>(),
            jumps in prop::collection::vec(0u64..3000, 1..60),
        ) {
            let mut t = 0;
            let points: Vec<(u64, u32)> = gaps.iter().map(|(gap, v)| { let p = (t, *v); t += gap; p }).collect();
            let steps = at_ms(&points, wrap.then_some(t)).unwrap();
            let mut cursor = Cursor::default();
            for at in jumps {
                let inside = if wrap { at % t } else { at };
                let wanted = points.iter().rev().find(|p| p.0 <= inside).unwrap().1;
                prop_assert_eq!(steps.segment(&mut cursor, Time::from_millis(at)).0, wanted);
            }
        }
    }
}
