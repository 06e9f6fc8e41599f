// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Samples over time, reduced to columns of pixels: asked of the server, or cut out of the files of a site.

import { decodeBase64 } from "../perigee.js";

// Returns smallest and largest values of runs in columns of a window: `from, to, first, last, columns, samples, read,
// left_out`, and `traces`, each with `run, what, name, leg, event, low, high`. Without a window: of whole runs.
export async function envelopes(server, name, { runs, what, window, columns }) {
  if (server.kind === "beside") return ofSite(server, name, runs, what, window, columns);
  const [from, to] = window ?? [null, null];
  return unpacked(await server.bytes(`results/${name}/graph`, { run: runs, what, from, to, columns }));
}

// Reads an answer: the length of the head, the head, and of each trace the smallest and the largest values.
export function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const all = new Float64Array(buffer, 4 + length);
  const { columns } = head;
  return { ...head, traces: head.traces.map((trace, at) => ({ ...trace, low: all.subarray(2 * at * columns, (2 * at + 1) * columns), high: all.subarray((2 * at + 1) * columns, (2 * at + 2) * columns) })) };
}

async function ofSite(server, name, runs, what, window, columns) {
  const numbers = [...new Set(runs.map((each) => each.split(":")[0]))];
  const files = await Promise.all(numbers.map((number) => opened(server, name, number)));
  const first = Math.min(...files.map(({ from }) => from));
  const last = Math.max(...files.map(({ to }) => to));
  const [from, to] = window ?? [first, last];
  const traces = files.flatMap((file, at) => {
    const flows = runs.filter((each) => each.startsWith(`${numbers[at]}:`)).map((each) => each.slice(each.indexOf(":") + 1));
    const isWhole = runs.includes(numbers[at]);
    return file.traces
      .filter((trace) => what.includes(file.what[trace.what]) && (isWhole || !file.of_flows[trace.what] || flows.includes(trace.name)))
      .map((trace) => ({ ...trace, run: Number(numbers[at]), what: what.indexOf(file.what[trace.what]), ...cut(file, trace, from, to, columns) }));
  });
  const samples = traces.reduce((sum, { low }) => sum + low.reduce((count, value) => count + Number(!Number.isNaN(value)), 0), 0);
  return { from, to, first, last, columns, samples, read: 1, left_out: files.reduce((sum, file) => sum + file.left_out, 0), traces };
}

// Reads a run of a site: its envelopes are compressed 32-bit numbers.
async function opened(server, name, run) {
  const file = await server.get(`results/${name}/graph/${run}`);
  if (!file.ready) {
    const stream = new Blob([decodeBase64(file.values)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    file.ready = new Response(stream).arrayBuffer().then((buffer) => {
      const all = new Float32Array(buffer);
      const part = (at) => all.subarray(at * file.columns, (at + 1) * file.columns);
      file.traces.forEach((trace, at) => Object.assign(trace, { low: part(2 * at), high: part(2 * at + 1) }));
    });
  }
  await file.ready;
  return file;
}

// Brings the columns of a run to those of a window.
export function cut({ from: begin, to: end, columns: count }, trace, from, to, columns) {
  const [low, high] = [new Float64Array(columns).fill(NaN), new Float64Array(columns).fill(NaN)];
  const width = (end - begin) / count;
  const first = Math.max(0, Math.floor((from - begin) / width));
  for (let at = first; at < count; at += 1) {
    const column = Math.floor((begin + (at + 0.5) * width - from) / (to - from) * columns);
    if (column >= columns) break;
    if (column < 0 || Number.isNaN(trace.low[at])) continue;
    if (!(low[column] <= trace.low[at])) low[column] = trace.low[at];
    if (!(high[column] >= trace.high[at])) high[column] = trace.high[at];
  }
  return { low, high };
}

// Two points for each column that has samples, its smallest and its largest value, so that a line shows both.
export function points({ low, high }, { from, to, columns }, scale) {
  const width = (to - from) / columns;
  const [t, v] = [[], []];
  for (let column = 0; column < columns; column += 1) {
    if (Number.isNaN(low[column])) continue;
    t.push(from + (column + 0.25) * width);
    v.push(low[column] / scale);
    if (high[column] === low[column]) continue;
    t.push(from + (column + 0.75) * width);
    v.push(high[column] / scale);
  }
  return { t, v };
}

// Returns the smallest and the largest value at a time: of its column, or of the nearest one that is not far; without
// a time those of the whole window. Null where there is none.
export function rangeAt({ low, high }, { from, to, columns }, time, near = 0.01) {
  const inside = time === null ? null : around(low, Math.max(0, Math.min(columns - 1, Math.floor((time - from) / (to - from) * columns))), near * columns);
  let [least, most] = [Infinity, -Infinity];
  for (const column of inside ?? low.keys()) {
    if (low[column] < least) least = low[column];
    if (high[column] > most) most = high[column];
  }
  return least <= most ? [least, most] : null;
}

// Beyond the ends of a trace only near columns are read; between its samples the nearest one.
function around(low, column, near) {
  if (!Number.isNaN(low[column])) return [column];
  let [before, after] = [column, column];
  while (before >= 0 && Number.isNaN(low[before])) before -= 1;
  while (after < low.length && Number.isNaN(low[after])) after += 1;
  const [hasBefore, hasAfter] = [before >= 0, after < low.length];
  if (hasBefore && hasAfter) return [column - before <= after - column ? before : after];
  if (hasAfter) return after - column <= near ? [after] : [];
  return hasBefore && column - before <= near ? [before] : [];
}
