// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Files as one archive, ZIP without compression.

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value >>> 0;
});

export function checksum(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = TABLE[(value ^ byte) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

function record(signature, numbers, name) {
  const bytes = new Uint8Array(4 + numbers.reduce((sum, [size]) => sum + size, 0) + name.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, signature, true);
  let at = 4;
  for (const [size, value] of numbers) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  bytes.set(name, at);
  return bytes;
}

// Returns an archive of files `[name, bytes]`. All have the date of its format's beginning, so that equal files make equal archives.
export function zipped(files) {
  const DATE = 33;
  const [parts, entries] = [[], []];
  let at = 0;
  for (const [title, bytes] of files) {
    const name = new TextEncoder().encode(title);
    const shared = [[2, 20], [2, 0x800], [2, 0], [2, 0], [2, DATE], [4, checksum(bytes)], [4, bytes.length], [4, bytes.length], [2, name.length], [2, 0]];
    const head = record(0x04034b50, shared, name);
    entries.push(record(0x02014b50, [[2, 20], ...shared, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]], name));
    parts.push(head, bytes);
    at += head.length + bytes.length;
  }
  const size = entries.reduce((sum, entry) => sum + entry.length, 0);
  const end = record(0x06054b50, [[2, 0], [2, 0], [2, files.length], [2, files.length], [4, size], [4, at], [2, 0]], new Uint8Array());
  return new Blob([...parts, ...entries, end], { type: "application/zip" });
}
