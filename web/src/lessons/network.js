// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Flows of the lessons, and what their texts take from results.

import { milliseconds, three } from "../words.js";

const MSS_BYTES = 1448;

// Returns a flow from the server to the terminal.
export function flow(name, cc, lines) {
  return `[[flows]]\nname = "${name}"\nfrom = "server"\nto = "terminal"\ncc = "${cc}"\n${lines}\n`;
}

// Returns what a flow of a run came to.
export function result(run, name = "") {
  const flows = run.result.columns.flows.columns;
  const rows = [...flows.flow.keys()].filter((at) => !name || flows.flow[at] === name);
  const whole = rows.find((at) => !(flows.leg[at] > 0));
  return {
    mbps: flows.goodput_mbps[whole],
    seconds: flows.duration_s[whole],
    rtt_ms: flows.rtt_mean_ms[whole],
    least_ms: flows.rtt_min_ms[whole],
    again: Number(flows.retransmitted_packets[whole]),
  };
}

// A queue beside what the path holds.
export function ofPath(kB, mbps, trip_ms) {
  const times = three(kB * 8 / (mbps * trip_ms));
  return times === "1" ? "as much as" : `${times} times what`;
}

export function rate(mbps) {
  return `${three(mbps)} Mbit/s`;
}

export function time(seconds) {
  return milliseconds(1000 * seconds);
}

// Throughput by the formula of Mathis et al., Mbit/s.
export function mathis(rtt_ms, loss) {
  return loss ? MSS_BYTES * 8 / (1000 * rtt_ms) * Math.sqrt(3 / (2 * loss)) : Infinity;
}
