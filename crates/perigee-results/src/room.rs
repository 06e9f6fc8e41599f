//! The size of a row of a table, in memory and in a file.

use crate::{CellType, Column, Table};

/// Bytes of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowBytes {
    /// In memory, in its columns here and in those of Arrow, which both exist during a copy.
    pub memory: u64,
    /// In a file, before compression.
    pub file: u64,
}

impl RowBytes {
    /// The size of a row of a table, with texts of at most `text` bytes.
    pub fn of(table: &dyn Table, text: u64) -> Self {
        let cells = table.columns().iter().map(|column| cell(column, text));
        let (stored, file) = cells.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        Self { memory: stored + file, file }
    }
}

/// Bytes of a cell in its column here, and in that of Arrow.
fn cell(column: &Column, text: u64) -> (u64, u64) {
    let plain = match column.cell {
        CellType::Text => return (16, 8 + text),
        CellType::Bool => 1,
        CellType::U32 => 4,
        CellType::U64 | CellType::F64 => 8,
    };
    (if column.nullable { 2 * plain } else { plain }, plain)
}
