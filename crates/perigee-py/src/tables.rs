//! Tables of results as Python takes them: by name, each an Arrow IPC stream.

use perigee_results::{stream, Table, Tables};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A table's name and its stream.
pub(crate) type Stream = (&'static str, Vec<u8>);

/// All tables that have rows, without the interpreter.
pub(crate) fn streams(tables: &Tables) -> Vec<Stream> {
    with_rows(tables.all())
}

/// The streams of some tables, of those that have rows.
pub(crate) fn with_rows<'a>(tables: impl IntoIterator<Item = &'a dyn Table>) -> Vec<Stream> {
    let all = tables.into_iter().filter(|table| !table.is_empty());
    all.map(|table| (table.name(), stream(table))).collect()
}

/// Tables by name.
pub(crate) fn to_python(py: Python<'_>, streams: Vec<Stream>) -> PyResult<Bound<'_, PyDict>> {
    let tables = PyDict::new(py);
    for (name, stream) in streams {
        tables.set_item(name, PyBytes::new(py, &stream))?;
    }
    Ok(tables)
}
