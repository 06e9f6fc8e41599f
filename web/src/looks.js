// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What algorithms are called and how they are drawn: a colour means an algorithm, dashes mean the setting that was kept.

export const NAMES = {
  cubic: "Cubic", bbr: "BBR", hybla: "Hybla", reno: "Reno", bbr3: "BBRv3", vivace: "PCC Vivace", copa: "Copa", vegas: "Vegas",
  westwood_plus: "Westwood+", illinois: "Illinois", htcp: "H-TCP", bic: "BIC", compound: "Compound", highspeed: "HighSpeed",
  westwood: "Westwood", ledbat_pp: "LEDBAT++", sicc: "SICC", dctcp: "DCTCP", fast: "FAST",
};
const COLOURS = 14;
const ORDER = Object.keys(NAMES);

export function nameOf(algorithm) {
  return NAMES[algorithm] ?? algorithm;
}

export function lookOf(number, isDashed = false) {
  const colour = number % COLOURS;
  return { number, class: `is-${colour}`, variable: `--c${colour}`, isDashed };
}

// The colour of each algorithm of a figure: its own, or the next free one where two would have the same.
export function colours(algorithms) {
  const taken = new Set();
  const places = new Map();
  for (const algorithm of algorithms) {
    let place = Math.max(0, ORDER.indexOf(algorithm)) % COLOURS;
    while (taken.has(place) && taken.size < COLOURS) place = (place + 1) % COLOURS;
    taken.add(place);
    places.set(algorithm, place);
  }
  return places;
}
