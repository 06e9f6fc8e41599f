// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Tables of several runs as one: Arrow IPC streams one after the other, and comma-separated values.

const CONTINUES = 0xffffffff;

// The length of a message's body: the fourth field of the flatbuffer `Message`.
function bodyLength(view, at) {
  const table = at + view.getUint32(at, true);
  const fields = table - view.getInt32(table, true);
  const length = view.getUint16(fields, true);
  const place = length > 10 ? view.getUint16(fields + 10, true) : 0;
  return place ? Number(view.getBigInt64(table + place, true)) : 0;
}

// Returns the messages of a stream, its schema first.
function messages(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = [];
  let at = 0;
  while (at + 8 <= bytes.length) {
    const isNew = view.getUint32(at, true) === CONTINUES;
    const head = isNew ? 8 : 4;
    const size = view.getUint32(at + head - 4, true);
    if (!size) break;
    const end = at + head + size + bodyLength(view, at + head);
    found.push(bytes.subarray(at, end));
    at = end;
  }
  return found;
}

// Returns one stream with the rows of streams of one schema.
export function stream(parts) {
  const all = parts.map(messages);
  const end = new Uint8Array([255, 255, 255, 255, 0, 0, 0, 0]);
  return new Blob([all[0][0], ...all.flatMap((each) => each.slice(1)), end]);
}

function cell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value !== "string") return String(value);
  return /[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

// Returns tables of one form as comma-separated values.
export function separated(parts) {
  const heads = Object.keys(parts[0].columns);
  const lines = [heads.join(",")];
  for (const { rows, columns } of parts) {
    const values = heads.map((head) => columns[head]);
    for (let row = 0; row < rows; row += 1) lines.push(values.map((column) => cell(column[row])).join(","));
  }
  return `${lines.join("\n")}\n`;
}
