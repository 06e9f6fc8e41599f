//! Tables of results as Python takes them: by name, each an Arrow IPC stream.

use perigee_results::{stream, Table, Tables};
use perigee_sim::Logged;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A table's name and its stream.
pub(crate) type Stream = (&'static str, Vec<u8>);

/// All tables that have rows, without the interpreter.
pub(crate) fn streams(tables: &Tables) -> Vec<Stream> {
    with_rows(tables.all())
}

/// Streams of the tables that have rows.
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

/// Files by name, as Python takes them.
pub(crate) fn contents(py: Python<'_>, files: Vec<(String, Vec<u8>)>) -> PyResult<Bound<'_, PyDict>> {
    let contents = PyDict::new(py);
    for (name, content) in files {
        contents.set_item(name, PyBytes::new(py, &content))?;
    }
    Ok(contents)
}

/// Logs by the names of their files.
pub(crate) fn named(qlogs: Vec<Logged>) -> Vec<(String, Vec<u8>)> {
    qlogs.into_iter().map(|one| (one.name, one.qlog)).collect()
}
