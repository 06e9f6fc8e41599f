//! Tables of results as Python takes them: by name, each with its columns as Arrow's buffers.

use perigee_results::{ArrowColumn, Buffers, Tables};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A table's name, its rows, its columns.
pub(crate) type Columns = (&'static str, usize, Vec<ArrowColumn>);

/// The columns of all tables, without the interpreter.
pub(crate) fn columns(tables: &Tables) -> Vec<Columns> {
    tables.all().into_iter().map(|table| (table.name(), table.len(), perigee_results::columns(table))).collect()
}

/// Tables by name.
pub(crate) fn to_python(py: Python<'_>, columns: Vec<Columns>) -> PyResult<Bound<'_, PyDict>> {
    let tables = PyDict::new(py);
    for (table, rows, columns) in columns {
        let cells = |bytes: Vec<u8>| PyBytes::new(py, &bytes);
        let columns = columns.into_iter().map(|(name, kind, Buffers { validity, offsets, data })| {
            (name, kind, validity.map(cells), offsets.map(cells), cells(data))
        });
        tables.set_item(table, (rows, columns.collect::<Vec<_>>()))?;
    }
    Ok(tables)
}
