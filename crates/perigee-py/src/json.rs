//! JSON of the core as Python's own values.

use pyo3::prelude::*;

/// The dictionaries, lists, texts and numbers that a text in JSON stands for.
pub(crate) fn values<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}
