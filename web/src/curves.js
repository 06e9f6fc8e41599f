// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Curves before they are drawn: means over a round trip, and scales that a few extremes do not flatten.

import { largest } from "./words.js";

// A scale has room for half as much again as what each of its lines is below for this share of its time, and is cut where the largest value
// is so many times as large.
const USUAL_SHARE = 0.99;
const ROOM = 1.5;
const FLATTENED = 4;
const MOST_SORTED = 1000;

// Returns `{t, v}`: at each instant of `t` the mean over the last `span` seconds of the values `v`, each of which holds since the instant before.
export function sliding(t, v, span) {
  const ends = [Math.max(0, 2 * t[0] - (t[1] ?? 2 * t[0]))];
  const sums = [0];
  t.forEach((end, at) => {
    sums.push(sums[at] + (Number.isNaN(v[at]) ? 0 : v[at]) * (end - ends[at]));
    ends.push(end);
  });
  let from = 0;
  // The sum up to an instant, later than that of the call before; between two instants it grows evenly.
  const until = (time) => {
    while (from < t.length - 1 && ends[from + 1] <= time) from += 1;
    const share = Math.max(0, (time - ends[from]) / (ends[from + 1] - ends[from]));
    return sums[from] + share * (sums[from + 1] - sums[from]);
  };
  return { t, v: t.map((end, at) => (sums[at + 1] - until(end - span)) / span) };
}

// Returns where a scale ends, and the largest value where that lies beyond: a few extremes would flatten all the rest.
export function topOf(columns, share = USUAL_SHARE) {
  const most = columns.reduce((high, values) => largest(values, high), 0);
  const top = columns.reduce((high, values) => Math.max(high, Math.min(largest(values), ROOM * quantile(values, share))), 0);
  return top > 0 && most > FLATTENED * top ? { top, beyond: most } : { top: most, beyond: null };
}

function quantile(values, share) {
  const step = Math.ceil(values.length / MOST_SORTED);
  const known = values.filter((value, at) => at % step === 0 && value !== null && !Number.isNaN(value));
  return known.sort((one, other) => one - other)[Math.floor(share * (known.length - 1))] ?? 0;
}
