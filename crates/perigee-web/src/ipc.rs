//! A table as an Arrow IPC stream: one schema, one record batch ("Arrow Columnar Format", version 1.4, serialization and IPC).

use perigee_results::{ArrowColumn, Buffers, Table};

use crate::flatbuffer::{Builder, Place, Slot};

/// The table as a stream.
pub(crate) fn stream(table: &dyn Table) -> Vec<u8> {
    let columns = perigee_results::columns(table);
    let mut out = Vec::new();
    write_message(&mut out, &schema(&columns), &[]);
    let (mut nodes, mut places, mut body) = (Vec::new(), Vec::new(), Vec::new());
    let rows = table.len() as i64;
    for (_, _, Buffers { validity, offsets, data }) in &columns {
        nodes.push((rows, validity.as_deref().map_or(0, |bits| rows - ones(bits))));
        let validity = validity.as_deref().unwrap_or_default();
        for buffer in [Some(validity), offsets.as_deref(), Some(data)].into_iter().flatten() {
            places.push((body.len() as i64, buffer.len() as i64));
            body.extend_from_slice(buffer);
            body.resize(body.len().next_multiple_of(8), 0);
        }
    }
    let mut batch = Builder::default();
    let (nodes, buffers) = (batch.pairs(&nodes), batch.pairs(&places));
    let header = batch.table(&[Slot::Long(rows), Slot::Offset(nodes), Slot::Offset(buffers)]);
    write_message(&mut out, &message(batch, RECORD_BATCH, header, body.len()), &body);
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&0_u32.to_le_bytes());
    out
}

fn schema(columns: &[ArrowColumn]) -> Vec<u8> {
    let mut builder = Builder::default();
    let fields: Vec<Place> = columns.iter().map(|column| field(&mut builder, column)).collect();
    let fields = builder.list(&fields);
    let header = builder.table(&[Slot::Absent, Slot::Offset(fields)]);
    message(builder, SCHEMA, header, 0)
}

fn field(builder: &mut Builder, (name, kind, buffers): &ArrowColumn) -> Place {
    let (name, children) = (builder.text(name), builder.list(&[]));
    let (number, about) = match *kind {
        "u32" => (INT, builder.table(&[Slot::Int(32)])),
        "u64" => (INT, builder.table(&[Slot::Int(64)])),
        "f64" => (FLOATING_POINT, builder.table(&[Slot::Short(DOUBLE)])),
        "bool" => (BOOL, builder.table(&[])),
        _ => (LARGE_UTF8, builder.table(&[])),
    };
    let nullable = if buffers.validity.is_some() { Slot::Byte(1) } else { Slot::Absent };
    builder.table(&[
        Slot::Offset(name),
        nullable,
        Slot::Byte(number),
        Slot::Offset(about),
        Slot::Absent,
        Slot::Offset(children),
    ])
}

fn message(mut builder: Builder, kind: u8, header: Place, body_bytes: usize) -> Vec<u8> {
    let root = builder.table(&[
        Slot::Short(METADATA_V5),
        Slot::Byte(kind),
        Slot::Offset(header),
        Slot::Long(body_bytes as i64),
    ]);
    builder.finish(root)
}

/// A message's metadata, whose length is a multiple of 8, and its body.
fn write_message(out: &mut Vec<u8>, metadata: &[u8], body: &[u8]) {
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    out.extend_from_slice(metadata);
    out.extend_from_slice(body);
}

fn ones(bits: &[u8]) -> i64 {
    bits.iter().map(|byte| i64::from(byte.count_ones())).sum()
}

/// Begins a message.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// `MetadataVersion` of Message.fbs and Schema.fbs.
const METADATA_V5: i16 = 4;
/// Numbers of the union `MessageHeader`.
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;
/// Numbers of the union `Type`.
const INT: u8 = 2;
const FLOATING_POINT: u8 = 3;
const BOOL: u8 = 6;
const LARGE_UTF8: u8 = 20;
/// `Precision` of a floating point type.
const DOUBLE: i16 = 2;
