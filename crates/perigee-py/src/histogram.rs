//! Distributions of durations, as Python counts them.

use perigee_units::Time;
use pyo3::prelude::*;

/// A distribution of durations in bins of `width_ns`.
#[pyclass(module = "perigee._core")]
pub(crate) struct Histogram(perigee_results::Histogram);

#[pymethods]
impl Histogram {
    #[new]
    fn new(width_ns: u64) -> Self {
        Self(perigee_results::Histogram::new(Time::from_nanos(width_ns)))
    }

    /// Adds a duration.
    fn add(&mut self, duration_ns: u64) {
        self.0.add(Time::from_nanos(duration_ns));
    }

    /// Number of durations.
    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    /// The shortest, exact; none without any.
    #[getter]
    fn min_ms(&self) -> Option<f64> {
        self.0.min().map(Time::as_millis_f64)
    }

    /// The longest, exact; none without any.
    #[getter]
    fn max_ms(&self) -> Option<f64> {
        self.0.max().map(Time::as_millis_f64)
    }

    /// Their mean, exact; none without any.
    #[getter]
    fn mean_ms(&self) -> Option<f64> {
        self.0.mean_ms()
    }

    /// The duration that this share of them does not exceed, linear within its bin; none without any.
    fn quantile_ms(&self, share: f64) -> Option<f64> {
        self.0.quantile_ms(share)
    }

    /// Lower edge in ms and count of each bin in use, growing.
    fn bins(&self) -> Vec<(f64, u64)> {
        self.0.bins().collect()
    }
}
