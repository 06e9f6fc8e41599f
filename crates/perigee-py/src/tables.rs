//! Result tables as Arrow, column by column as their schema says.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use perigee_study::results::{CellType, Table, Values};

/// A table as an Arrow IPC stream.
pub(crate) fn stream(table: &dyn Table) -> Result<Vec<u8>, ArrowError> {
    let fields = table.columns().iter().map(|column| Field::new(column.name, kind(column.cell), column.nullable));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = (0..table.columns().len()).filter_map(|index| table.values(index)).map(array).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    if batch.num_rows() > 0 {
        writer.write(&batch)?;
    }
    writer.into_inner()
}

fn kind(cell: CellType) -> DataType {
    match cell {
        CellType::Text => DataType::Utf8,
        CellType::Bool => DataType::Boolean,
        CellType::U32 => DataType::UInt32,
        CellType::U64 => DataType::UInt64,
        CellType::F64 => DataType::Float64,
    }
}

fn array(values: Values<'_>) -> ArrayRef {
    match values {
        Values::Text(cells) => Arc::new(StringArray::from_iter_values(cells.iter().map(|cell| &**cell))),
        Values::Bool(cells) => Arc::new(BooleanArray::from(cells.to_vec())),
        Values::U32(cells) => Arc::new(UInt32Array::from(cells.to_vec())),
        Values::OptionU32(cells) => Arc::new(UInt32Array::from(cells.to_vec())),
        Values::U64(cells) => Arc::new(UInt64Array::from(cells.to_vec())),
        Values::OptionU64(cells) => Arc::new(UInt64Array::from(cells.to_vec())),
        Values::F64(cells) => Arc::new(Float64Array::from(cells.to_vec())),
        Values::OptionF64(cells) => Arc::new(Float64Array::from(cells.to_vec())),
    }
}
