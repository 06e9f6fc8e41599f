// SPDX-License-Identifier: GPL-2.0-only OR MIT
// How algorithms are called and drawn: a colour means an algorithm and nothing else. What is none, as flows of one algorithm, has colours of its own.

import { DASHES, INKS, OWN, ROWS } from "./looks_table.js";
import { element } from "./words.js";

const KEPT = [5, 4];
const FIRST_OTHER = OWN + 1;
const NUMBERS = new Map(ROWS.slice(0, OWN).map(({ key }, number) => [key, number]));

export const NAMES = Object.fromEntries(ROWS.slice(0, OWN).map(({ key, name }) => [key, name]));

export function nameOf(algorithm) {
  return NAMES[algorithm] ?? algorithm;
}

// The look of what is of no algorithm and alone of its kind.
export const PLAIN = { class: "ink", variable: "--ink", colour: INKS.ink.light, dash: [], isDashed: false, isKept: false };

// The number of an algorithm's look; all authors' algorithms have one.
export function numberOf(algorithm) {
  return NUMBERS.get(algorithm) ?? OWN;
}

// A stroke of a look, for legends.
export function swatch({ class: colour, isKept, isDashed }) {
  return element("i", { className: `swatch ${colour} ${isKept ? "kept" : isDashed ? "dashed" : ""}` });
}

// The number of the look of what is no algorithm, by its place among its like.
export function otherOf(place) {
  return FIRST_OTHER + place;
}

// The numbers of the algorithms of a figure.
export function colours(algorithms) {
  return new Map(algorithms.map((algorithm) => [algorithm, numberOf(algorithm)]));
}

// The look of a number. `isKept`: of a setting that was kept; `again`: how many of the same colour stand before it.
export function lookOf(number, isKept = false, again = 0) {
  const others = ROWS.length - FIRST_OTHER;
  const row = number < FIRST_OTHER ? number : FIRST_OTHER + (number - FIRST_OTHER) % others;
  const names = Object.keys(DASHES);
  const turns = again + (number - row) / others;
  const dash = isKept ? KEPT : DASHES[names[(names.indexOf(ROWS[row].dash) + turns) % names.length]];
  return { number: row, class: `is-${row}`, variable: `--c${row}`, colour: ROWS[row].light, dash, isDashed: dash.length > 0, isKept };
}
