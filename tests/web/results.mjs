// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Calls the modules of graphs over time for tests/web/test_web_results.py: `node results.mjs NAME`, what it is given and returns as JSON.

import { readFileSync } from "node:fs";

import { cut, points, rangeAt } from "../../web/src/envelopes.js";
import { Names, curveOf, keyOf, overlay } from "../../web/src/overlay.js";

const numbers = (values) => Float64Array.from(values, (value) => value ?? NaN);
const plain = (values) => [...values].map((value) => Number.isNaN(value) ? null : value);

function tried(text) {
  try {
    return keyOf(curveOf(text, "one"), "one");
  } catch (error) {
    return `refused: ${error.message}`;
  }
}

const CALLS = {
  curves: (texts) => texts.map(tried),
  cut: ({ file, trace, windows }) => windows.map(([from, to, columns]) => {
    const found = cut(file, { low: numbers(trace.low), high: numbers(trace.high) }, from, to, columns);
    return [plain(found.low), plain(found.high)];
  }),
  ranges: ({ trace, window, times }) => times.map((time) => rangeAt({ low: numbers(trace.low), high: numbers(trace.high) }, window, time)),
  points: ({ trace, window, scale }) => points({ low: numbers(trace.low), high: numbers(trace.high) }, window, scale),
  overlaid: ({ curves, quantities, answers, menus }) => {
    const names = new Map(Object.entries(menus).map(([name, menu]) => [name, new Names(menu)]));
    const read = new Map(Object.entries(answers).map(([name, traces]) => [name, { traces: traces.map((trace) => ({ event: "", leg: 0, low: numbers([1]), high: numbers([trace.most ?? 1]), ...trace })) }]));
    const { lines, panels, common } = overlay({ curves: curves.map((text) => curveOf(text, Object.keys(menus)[0])), quantities, answers: read, names });
    return { common, lines: lines.map(({ label, look }) => [label, look.number, look.dash]), panels: panels.map(({ unit, scale, traces }) => [unit, scale, traces.map(({ line }) => lines.indexOf(line))]) };
  },
};

const given = readFileSync(0, "utf8");
console.log(JSON.stringify(CALLS[process.argv[2]](JSON.parse(given || "null"))));
