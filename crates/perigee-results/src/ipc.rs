//! A table as an Arrow IPC stream: one schema, one record batch ("Arrow Columnar Format", version 1.4, serialization and IPC).

use crate::arrow::{columns, ArrowColumn, Buffers};
use crate::flatbuffer::{Builder, Place, Slot};
use crate::Table;

/// The table as a stream.
///
/// Reading it needs no copy of the numbers, and it is written as it is: the shards of a study are such streams.
pub fn stream(table: &dyn Table) -> Vec<u8> {
    let rows = table.len() as i64;
    let columns = columns(table);
    let mut out =
        Vec::with_capacity(HEAD_BYTES + columns.iter().map(|(_, _, buffers)| buffers.padded()).sum::<usize>());
    write_metadata(&mut out, &schema(&columns));
    let mut nodes = vec![(rows, 0); columns.len()];
    let mut places = vec![(0, 0); columns.iter().map(|(_, _, buffers)| buffers.count()).sum()];
    // Numbers take the same room whatever they are, so the body can be written before it is known where its parts lie.
    let begin = out.len();
    write_metadata(&mut out, &batch(rows, &nodes, &places, 0));
    let body = out.len();
    let mut place = places.iter_mut();
    for ((_, _, buffers), node) in columns.into_iter().zip(&mut nodes) {
        let Buffers { validity, offsets, data } = buffers;
        node.1 = validity.as_deref().map_or(0, |bits| rows - ones(bits));
        for buffer in [Some(validity.unwrap_or_default()), offsets, Some(data)].into_iter().flatten() {
            if let Some(place) = place.next() {
                *place = ((out.len() - body) as i64, buffer.len() as i64);
            }
            out.extend_from_slice(&buffer);
            out.resize(body + (out.len() - body).next_multiple_of(8), 0);
        }
    }
    let mut head = Vec::new();
    write_metadata(&mut head, &batch(rows, &nodes, &places, out.len() - body));
    out[begin..body].copy_from_slice(&head);
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&0_u32.to_le_bytes());
    out
}

/// The metadata of the record batch: `nodes` are rows and empty cells of each column, `places` begin and length of each
/// buffer in the body.
fn batch(rows: i64, nodes: &[(i64, i64)], places: &[(i64, i64)], body_bytes: usize) -> Vec<u8> {
    let mut batch = Builder::default();
    let (nodes, buffers) = (batch.pairs(nodes), batch.pairs(places));
    let header = batch.table(&[Slot::Long(rows), Slot::Offset(nodes), Slot::Offset(buffers)]);
    message(batch, RECORD_BATCH, header, body_bytes)
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

/// A message's metadata, whose length is a multiple of 8.
fn write_metadata(out: &mut Vec<u8>, metadata: &[u8]) {
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    out.extend_from_slice(metadata);
}

fn ones(bits: &[u8]) -> i64 {
    bits.iter().map(|byte| i64::from(byte.count_ones())).sum()
}

/// Room for the metadata, more or less.
const HEAD_BYTES: usize = 8192;
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
