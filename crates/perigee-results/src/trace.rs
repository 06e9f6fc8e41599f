//! A quantity over time, and its smallest and largest value in each pixel column of a graph.

/// Samples of one quantity in the order of their times. A sample takes 16 bytes.
///
/// ```
/// let mut trace = perigee_results::Trace::default();
/// trace.extend([(0.0, 5.0), (0.4, 9.0), (0.6, 7.0), (2.5, 1.0)].into_iter());
/// let (low, high) = trace.envelope(0.0, 3.0, 3);
/// assert_eq!((low[0], high[0]), (5.0, 9.0));
/// assert!(low[1].is_nan() && high[1].is_nan());
/// assert_eq!((low[2], high[2]), (1.0, 1.0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Trace {
    samples: Vec<(f64, f64)>,
}

impl Trace {
    /// Adds samples, each with its time in s. Samples without a finite time and value are skipped.
    pub fn extend(&mut self, samples: impl Iterator<Item = (f64, f64)>) {
        let last = self.samples.len().saturating_sub(1);
        self.samples.extend(samples.filter(|(time_s, value)| time_s.is_finite() && value.is_finite()));
        if !self.samples.iter().skip(last).is_sorted_by(|one, next| one.0 <= next.0) {
            // A stable sort: samples of one time keep their order.
            self.samples.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
    }

    /// The number of samples.
    #[must_use]
    pub fn count(&self) -> usize {
        self.samples.len()
    }

    /// The times of the first and the last sample, in s; `None` without samples.
    #[must_use]
    pub fn span_s(&self) -> Option<(f64, f64)> {
        Some((self.samples.first()?.0, self.samples.last()?.0))
    }

    /// The smallest and the largest value of each of `columns` equal parts of the time from `from_s` to `to_s`, both included;
    /// NaN in a part without samples.
    #[must_use]
    pub fn envelope(&self, from_s: f64, to_s: f64, columns: usize) -> (Vec<f64>, Vec<f64>) {
        let (mut low, mut high) = (vec![f64::NAN; columns], vec![f64::NAN; columns]);
        let first = self.samples.partition_point(|sample| sample.0 < from_s);
        let behind = self.samples.partition_point(|sample| sample.0 <= to_s);
        let per_s = columns as f64 / (to_s - from_s).max(f64::MIN_POSITIVE);
        for &(time_s, value) in self.samples.get(first..behind).unwrap_or_default() {
            #[allow(
                clippy::cast_sign_loss,
                clippy::cast_possible_truncation,
                reason = "not before `from_s`; bounded below"
            )]
            let column = (((time_s - from_s) * per_s) as usize).min(columns.saturating_sub(1));
            if let (Some(low), Some(high)) = (low.get_mut(column), high.get_mut(column)) {
                // `min` and `max` ignore NaN.
                (*low, *high) = (low.min(value), high.max(value));
            }
        }
        (low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::Trace;

    fn ramp(count: u32) -> Trace {
        let mut trace = Trace::default();
        trace.extend((0..count).map(|number| (f64::from(number), f64::from(number * 7 % 101))));
        trace
    }

    #[test]
    fn an_envelope_has_the_extremes_of_every_column_and_of_no_other_time() {
        let trace = ramp(1000);
        let (low, high) = trace.envelope(200.0, 700.0, 10);
        let values = |column: u32| {
            // The last column includes the end.
            let last = if column == 9 { 51 } else { 50 };
            (0..last).map(move |offset| f64::from((200 + column * 50 + offset) * 7 % 101))
        };
        let extremes =
            |of: fn(f64, f64) -> f64| (0..10).map(|column| values(column).fold(f64::NAN, of)).collect::<Vec<_>>();
        assert_eq!((low, high), (extremes(f64::min), extremes(f64::max)));
    }

    #[test]
    fn samples_may_come_in_any_order_and_those_that_are_not_finite_are_left_out() {
        let mut trace = Trace::default();
        trace.extend([(3.0, 1.0), (f64::NAN, 2.0), (1.0, f64::NAN), (1.0, 4.0)].into_iter());
        trace.extend([(2.0, 8.0), (4.0, f64::INFINITY)].into_iter());
        assert_eq!((trace.count(), trace.span_s()), (3, Some((1.0, 3.0))));
        assert_eq!(trace.envelope(0.5, 3.5, 3).0, [4.0, 8.0, 1.0]);
    }

    #[test]
    fn a_window_without_samples_or_without_length_or_columns_is_no_failure() {
        let trace = ramp(10);
        assert!(trace.envelope(20.0, 30.0, 2).0.iter().all(|value| value.is_nan()));
        assert!(trace.envelope(9.0, 2.0, 2).0.iter().all(|value| value.is_nan()));
        assert_eq!(trace.envelope(3.0, 3.0, 1).1, [21.0]);
        assert!(trace.envelope(0.0, 9.0, 0).0.is_empty());
    }
}
