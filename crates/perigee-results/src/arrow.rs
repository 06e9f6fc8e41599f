//! Result tables as columns in Arrow's memory layout.
//!
//! A column needs at most three byte strings: values, offsets of texts, and validity bits. The Arrow crates would do the
//! same at ten times the build time.

use crate::{Table, Values};

/// The cells of a column.
#[derive(Debug)]
pub struct Buffers {
    /// Validity, a bit for each cell; `None`: all cells are valid.
    pub validity: Option<Vec<u8>>,
    /// Start of each text, and end of the last; `None`: the cells are not text.
    pub offsets: Option<Vec<u8>>,
    /// The values, little-endian; bits for booleans; texts one after the other.
    pub data: Vec<u8>,
}

impl Buffers {
    /// How many buffers they are in a stream, which has one for validity in any case.
    pub(crate) fn count(&self) -> usize {
        2 + usize::from(self.offsets.is_some())
    }

    /// The bytes of all, each filled up to a multiple of 8.
    pub(crate) fn padded(&self) -> usize {
        let parts = [self.validity.as_ref(), self.offsets.as_ref(), Some(&self.data)];
        parts.into_iter().flatten().map(|part| part.len().next_multiple_of(8)).sum()
    }
}

/// A column's name, the type of its cells in the schema, and the cells.
pub type ArrowColumn = (&'static str, &'static str, Buffers);

/// The columns of a table in their order.
pub fn columns(table: &dyn Table) -> Vec<ArrowColumn> {
    let columns = table.columns().iter().enumerate();
    let fixed = columns.filter_map(|(index, about)| Some((about.name, about.cell, table.values(index)?)));
    fixed.chain(table.further()).map(|(name, cell, values)| (name, cell.as_str(), buffers(values))).collect()
}

fn buffers(values: Values<'_>) -> Buffers {
    match values {
        Values::Text(cells) => text(cells.iter().map(|cell| &**cell), None),
        Values::OptionText(cells) => {
            let validity = bits(cells.iter().map(Option::is_some));
            text(cells.iter().map(|cell| cell.as_deref().unwrap_or_default()), Some(validity))
        }
        Values::Bool(cells) => plain(bits(cells.iter().copied())),
        Values::U32(cells) => plain(bytes(cells.iter().map(|cell| cell.to_le_bytes()))),
        Values::U64(cells) => plain(bytes(cells.iter().map(|cell| cell.to_le_bytes()))),
        Values::F64(cells) => plain(bytes(cells.iter().map(|cell| cell.to_le_bytes()))),
        Values::OptionU32(cells) => gaps(cells, u32::to_le_bytes),
        Values::OptionU64(cells) => gaps(cells, u64::to_le_bytes),
        Values::OptionF64(cells) => gaps(cells, f64::to_le_bytes),
    }
}

fn plain(data: Vec<u8>) -> Buffers {
    Buffers { validity: None, offsets: None, data }
}

/// Values and validity of optional cells; an empty cell holds zero.
fn gaps<T: Copy + Default, const N: usize>(cells: &[Option<T>], to_bytes: fn(T) -> [u8; N]) -> Buffers {
    Buffers {
        validity: Some(bits(cells.iter().map(Option::is_some))),
        offsets: None,
        data: bytes(cells.iter().map(|cell| to_bytes(cell.unwrap_or_default()))),
    }
}

fn text<'a>(cells: impl Iterator<Item = &'a str> + Clone, validity: Option<Vec<u8>>) -> Buffers {
    let ends = cells.clone().scan(0_i64, |end, cell| {
        *end += cell.len() as i64;
        Some(end.to_le_bytes())
    });
    Buffers {
        validity,
        offsets: Some(bytes(std::iter::once(0_i64.to_le_bytes()).chain(ends))),
        data: cells.flat_map(str::bytes).collect(),
    }
}

fn bytes<const N: usize>(cells: impl Iterator<Item = [u8; N]>) -> Vec<u8> {
    cells.flatten().collect()
}

/// Packs eight cells in a byte, the first in the lowest bit.
fn bits(cells: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut packed = Vec::with_capacity(cells.size_hint().0.div_ceil(8));
    for (index, cell) in cells.enumerate() {
        if index % 8 == 0 {
            packed.push(0);
        }
        if let Some(last) = packed.last_mut() {
            *last |= u8::from(cell) << (index % 8);
        }
    }
    packed
}
