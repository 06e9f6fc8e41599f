// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The congestion window of each algorithm over one geostationary link, simulated in the tab once.

import { Batch } from "./runs.js";
import { FIRST, bandwidthDelay, interval, written } from "./study.js";

const FORM = { ...FIRST, rate: 20, duration: 90 };
const PACKET_BYTES = 1460;

// The link of the pictures in words.
export const LINK = "20 Mbit/s, 600 ms round trip, a queue of one bandwidth-delay product";
export const SPAN_S = FORM.duration;
// What the path holds, packets.
export const BDP_PACKETS = bandwidthDelay(FORM) * 1000 / PACKET_BYTES;

// The study of these windows, of some algorithms.
export function studyOf(algorithms) {
  return written({ ...FORM, queue: bandwidthDelay(FORM), cc: algorithms });
}

let known = null;

// Calls `changed(windows)` as more is simulated: the windows by algorithm, as points `[t, packets]`. Returns what stops that.
export function windows(pool, changed) {
  const algorithms = pool.algorithms.filter(({ own }) => !own).map(({ name }) => name);
  if (known) {
    changed(known);
    return () => {};
  }
  let batch = null;
  let isStopped = false;
  const begin = async () => {
    const text = studyOf(algorithms).replace(`series = "${interval(FORM.duration)} ms"`, 'series = "500 ms"');
    const { study } = await pool.check(text);
    if (isStopped) return;
    batch = new Batch(pool, text, study, () => {
      const found = new Map(batch.runs.filter(({ state }) => state === "done").map((run) => {
        const [trace] = run.flows.values();
        return [run.algorithm(trace.name), trace.t.map((t, at) => [t, trace.cwnd_packets[at]])];
      }));
      if (batch.isComplete) known = found;
      changed(found);
    });
  };
  begin();
  return () => {
    isStopped = true;
    batch?.stop();
  };
}
