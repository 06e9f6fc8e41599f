// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What the runs show, in a sentence.

import { summary } from "./figure.js";
import { delayWords, limitOf, rateOf } from "./path.js";
import { size, three } from "./words.js";

// Returns a sentence on the flows that are shown first; of a setting that was kept it says nothing.
export function finding(batch, lines, study) {
  const now = lines.filter(({ isKept }) => !isKept);
  if (!now.length) return batch.isOver ? "This study writes no series over time, so nothing is drawn; its tables are below." : "Simulating…";
  const found = now.map((line) => ({ line: { ...line, label: line.said ? line.label.replace(`, ${line.said}`, "") : line.label }, ...summary(line) }));
  const path = now[0].run.flow(now[0].trace.name)?.path ?? [];
  const link = study.links.filter((each) => path.includes(each.name) && limitOf(each)).reduce((least, each) => (each.mean_mbps ?? 0) < (least?.mean_mbps ?? Infinity) ? each : least, null);
  const over = link ? `Over ${[rateOf(link), delayWords(link) && `${delayWords(link)} each way`].filter(Boolean).join(" and ")}, ` : "";
  if (now.length > 4) return `${over}${best(found)}`;
  const [first, second] = [...found].sort((one, other) => other.mbps - one.mbps);
  const times = second && batch.isOver && first.mbps > 1.05 * second.mbps ? ` ${first.line.label} is ${three(first.mbps / second.mbps)} times as fast.` : "";
  return `${over}${delivered(found)}.${times}`;
}

// What each flow delivered; of those that deliver the same, how long that takes.
function delivered(found) {
  const isSame = found.every(({ bytes, seconds }) => seconds !== undefined && bytes === found[0].bytes);
  const until = Math.max(...found.map(({ line }) => line.run.t));
  if (isSame && found.length > 1) return found.map(({ line, seconds, bytes }, place) => place ? `${line.label} ${three(seconds)} s` : `${line.label} takes ${three(seconds)} s for ${size(bytes)}`).join(", ");
  return found.map(({ line, bytes }, place) => place ? `${line.label} ${size(bytes)}` : `${line.label} delivers ${size(bytes)} in ${three(until)} s`).join(", ");
}

function best(found) {
  const sorted = [...found].sort((one, other) => other.mbps - one.mbps);
  return `${sorted[0].line.label} is the fastest of ${found.length} flows with ${three(sorted[0].mbps)} Mbit/s, ${sorted.at(-1).line.label} the slowest with ${three(sorted.at(-1).mbps)} Mbit/s.`;
}
