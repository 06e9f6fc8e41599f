//! Quantities over time, for graphs.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Samples of one quantity over time, see `perigee_results::Trace`.
#[pyclass(module = "perigee._core")]
#[derive(Default)]
pub(crate) struct Trace(perigee_results::Trace);

#[pymethods]
impl Trace {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds samples; `times_s` and `values` are equally long.
    #[allow(clippy::needless_pass_by_value, reason = "buffers from Python arrive as owned ones")]
    fn extend(&mut self, py: Python<'_>, times_s: PyBuffer<f64>, values: PyBuffer<f64>) -> PyResult<()> {
        let (times, values) = (times_s.to_vec(py)?, values.to_vec(py)?);
        if times.len() != values.len() {
            return Err(PyValueError::new_err(format!("{} times and {} values", times.len(), values.len())));
        }
        self.0.extend(times.into_iter().zip(values));
        Ok(())
    }

    /// The number of samples.
    fn __len__(&self) -> usize {
        self.0.count()
    }

    /// The times of the first and the last sample, in s; none without any.
    #[getter]
    fn span_s(&self) -> Option<(f64, f64)> {
        self.0.span_s()
    }

    /// The smallest values of all columns and then the largest, as little-endian doubles; NaN where there is no sample.
    fn envelope<'py>(&self, py: Python<'py>, from_s: f64, to_s: f64, columns: usize) -> Bound<'py, PyBytes> {
        let (low, high) = py.detach(|| self.0.envelope(from_s, to_s, columns));
        let bytes: Vec<u8> = low.into_iter().chain(high).flat_map(f64::to_le_bytes).collect();
        PyBytes::new(py, &bytes)
    }
}
