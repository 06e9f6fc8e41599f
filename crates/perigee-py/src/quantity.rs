//! Quantities with units, as studies have them.

use pyo3::prelude::*;

/// The number and the unit of a text that is a quantity: ms, Mbit/s, B or %; `None` where it is none.
#[pyfunction]
pub(crate) fn quantity(text: &str) -> Option<(f64, &'static str)> {
    perigee_units::in_column_unit(text)
}
