// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The fragment of the address, which holds whole studies: nothing of it reaches a server. Texts are compressed, and bounded when they are read.

const MOST_COMPRESSED = 65536;
const MOST_TEXT = 262144;

async function through(bytes, stream, most) {
  const writer = stream.writable.getWriter();
  const written = writer.write(bytes).then(() => writer.close());
  const reader = stream.readable.getReader();
  const parts = [];
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > most) throw new Error(`it is longer than ${most / 1024} KiB`);
      parts.push(value);
    }
    await written;
  } catch (error) {
    reader.cancel().catch(() => {});
    written.catch(() => {});
    throw error;
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"), MOST_TEXT);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpacked(code) {
  if (code.length > MOST_COMPRESSED) throw new Error(`it is longer than ${MOST_COMPRESSED / 1024} KiB`);
  const binary = atob(code.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
  const text = await through(bytes, new DecompressionStream("deflate-raw"), MOST_TEXT);
  return new TextDecoder("utf-8", { fatal: true }).decode(text);
}

// Returns the parts of a fragment, `#study=...&beside=...` or `#lesson=3`.
export function parts(fragment) {
  return Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, "")));
}
