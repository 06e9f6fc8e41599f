//! Common parts of all tables: columns, types of cells, and access to them by number.
//!
//! The macro `table!` defines a table once, as column, type, unit and meaning. It generates the store (a `Vec` per
//! column), the row to push, and the [`Column`] descriptions from which `schema/results.json` and `schema/results.md` are
//! generated. The name of a column ends in its unit (`goodput_mbps`, `rtt_min_ms`), as everywhere outside Rust.

use std::sync::Arc;

/// The version of the tables. It grows when a column is removed or changes its meaning, not when one is added.
pub const TABLES_VERSION: u32 = 1;

/// A text, shared by many rows.
pub type Name = Arc<str>;

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name, ending in the unit, if any.
    pub name: &'static str,
    /// Type of its cells.
    pub cell: CellType,
    /// Whether a cell may be empty (null).
    pub nullable: bool,
    /// Unit, `""` for a pure number or a text.
    pub unit: &'static str,
    /// Its meaning, a sentence of the schema.
    pub meaning: &'static str,
}

/// The type of a column's cells.
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

/// The cells of one column, for a writer that does not know the column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// Cells of a text column.
    Text(&'a [Name]),
    /// Cells of a text column, some of them empty.
    OptionText(&'a [Option<Name>]),
    /// Cells of a yes-or-no column.
    Bool(&'a [bool]),
    /// Cells of a 32-bit column.
    U32(&'a [u32]),
    /// Cells of a 32-bit column, some of them empty.
    OptionU32(&'a [Option<u32>]),
    /// Cells of a 64-bit column.
    U64(&'a [u64]),
    /// Cells of a 64-bit column, some of them empty.
    OptionU64(&'a [Option<u64>]),
    /// Cells of a column of doubles.
    F64(&'a [f64]),
    /// Cells of a column of doubles, some of them empty.
    OptionF64(&'a [Option<f64>]),
}

/// A table of results: named columns of one length.
pub trait Table {
    /// The table's name; its file is `<name>.parquet`.
    fn name(&self) -> &'static str;
    /// The meaning of a row.
    fn meaning(&self) -> &'static str;
    /// The columns in their order.
    fn columns(&self) -> &'static [Column];
    /// The cells of the column at `index` of [`Table::columns`], `None` past the last.
    fn values(&self, index: usize) -> Option<Values<'_>>;
    /// Names, types and cells of the columns that only this table has, behind the fixed ones. Any of these cells may be empty.
    fn further(&self) -> Vec<(&'static str, CellType, Values<'_>)> {
        Vec::new()
    }
    /// Number of rows.
    fn len(&self) -> usize;
    /// Whether it has no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A type of cells.
pub(crate) trait Cell: Sized {
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

/// Defines a table: the store, its row, and the description of both.
macro_rules! table {
    ($table:ident, $row:ident, $name:literal, $about:literal {
        $($column:ident: $type:ty, $unit:literal, $meaning:literal;)+
    }) => {
        #[doc = concat!("The table `", $name, "`: ", $about)]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $table {
            $(#[doc = $meaning] pub $column: Vec<$type>,)+
        }

        #[doc = concat!("A row of the table `", $name, "`.")]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $row {
            $(#[doc = $meaning] pub $column: $type,)+
        }

        impl $table {
            /// Adds a row.
            pub fn push(&mut self, row: $row) {
                $(self.$column.push(row.$column);)+
            }

            /// Moves all rows of `other` to the end of this table.
            pub fn append(&mut self, other: &mut Self) {
                $(self.$column.append(&mut other.$column);)+
            }
        }

        impl Table for $table {
            fn name(&self) -> &'static str {
                $name
            }
            fn meaning(&self) -> &'static str {
                $about
            }
            fn columns(&self) -> &'static [Column] {
                const COLUMNS: &[Column] = &[$(Column {
                    name: stringify!($column),
                    cell: <$type as Cell>::TYPE,
                    nullable: <$type as Cell>::NULLABLE,
                    unit: $unit,
                    meaning: $meaning,
                },)+];
                COLUMNS
            }
            fn values(&self, index: usize) -> Option<Values<'_>> {
                // In the order of the definition, like `columns`.
                let columns = [$(Cell::values(&self.$column),)+];
                columns.get(index).copied()
            }
            fn len(&self) -> usize {
                [$(self.$column.len(),)+][0]
            }
        }
    };
}
pub(crate) use table;
