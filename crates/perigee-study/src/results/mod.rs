//! What a run writes down: one plain column store per table, and the schema of it from the same definition.
//!
//! A table is defined once, in `tables.rs`, as column, type, unit, meaning; the macro makes the store (a `Vec` per
//! column), the row to push, and the [`Column`] descriptions that `schema/results.json` and `schema/results.md` are
//! generated from. Units are part of a column's name (`goodput_mbps`, `rtt_min_ms`), as everywhere outside Rust.

mod outcome;
mod tables;

pub use outcome::Outcome;
pub use tables::{
    CaptureTables, ConnectionRow, Connections, EventRow, Events, ExchangeRow, Exchanges, FlowRow, Flows, GapRow, Gaps,
    LinkRow, Links, LossRow, Losses, MilestoneRow, Milestones, ReleaseRow, Releases, Rtt, RttRow, Series, SeriesRow,
    Tables,
};

use std::sync::Arc;

/// The version of the tables: it grows when a column changes its meaning or goes; a new column leaves it.
pub const FORMAT_VERSION: u32 = 1;

/// A text that many rows share.
pub type Name = Arc<str>;

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name, ending in the unit where there is one.
    pub name: &'static str,
    /// What its cells are.
    pub cell: CellType,
    /// Whether a cell may be empty (null).
    pub nullable: bool,
    /// Unit, `""` for a pure number or a text.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellType {
    /// UTF-8 text.
    Text,
    /// Yes or no.
    Bool,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE 754 double.
    F64,
}

impl CellType {
    /// Its name in the schema.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bool => "bool",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F64 => "f64",
        }
    }
}

/// The cells of one column, for whoever writes tables without knowing which one it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// Of a text column.
    Text(&'a [Name]),
    /// Of a yes-or-no column.
    Bool(&'a [bool]),
    /// Of a 32-bit column.
    U32(&'a [u32]),
    /// Of a 32-bit column with empty cells.
    OptionU32(&'a [Option<u32>]),
    /// Of a 64-bit column.
    U64(&'a [u64]),
    /// Of a 64-bit column with empty cells.
    OptionU64(&'a [Option<u64>]),
    /// Of a column of doubles.
    F64(&'a [f64]),
    /// Of a column of doubles with empty cells.
    OptionF64(&'a [Option<f64>]),
}

/// A table of results: named columns of one length.
pub trait Table {
    /// The table's name; its file is `<name>.parquet`.
    fn name(&self) -> &'static str;
    /// What a row is.
    fn meaning(&self) -> &'static str;
    /// The columns in their order.
    fn columns(&self) -> &'static [Column];
    /// The cells of the column at `index` of [`Table::columns`], `None` past the last.
    fn values(&self, index: usize) -> Option<Values<'_>>;
    /// Number of rows.
    fn len(&self) -> usize;
    /// Whether it has no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A type that cells can have.
trait Cell: Sized {
    const TYPE: CellType;
    const NULLABLE: bool;
    fn values(cells: &[Self]) -> Values<'_>;
}

macro_rules! cell {
    ($($type:ty: $variant:ident, $cell:ident, $nullable:literal;)+) => {$(
        impl Cell for $type {
            const TYPE: CellType = CellType::$cell;
            const NULLABLE: bool = $nullable;
            fn values(cells: &[Self]) -> Values<'_> {
                Values::$variant(cells)
            }
        }
    )+};
}
cell! {
    Name: Text, Text, false;
    bool: Bool, Bool, false;
    u32: U32, U32, false;
    Option<u32>: OptionU32, U32, true;
    u64: U64, U64, false;
    Option<u64>: OptionU64, U64, true;
    f64: F64, F64, false;
    Option<f64>: OptionF64, F64, true;
}
