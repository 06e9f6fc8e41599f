// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Runs and flows of any results laid over each other: what an address names, what lines are called, and their looks.

import { lookOf, otherOf } from "./looks.js";

const NONE = { cc: "", look: null };
const SCALES = {
  B: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]],
  "Mbit/s": [[1e3, "Gbit/s"], [1, "Mbit/s"], [1e-3, "kbit/s"]],
  "µs": [[1e6, "s"], [1e3, "ms"]],
};

// Reads a curve of an address: RUN, RUN:FLOW, RUN:FLOW~LEG, or RESULTS/RUN:FLOW of other results.
export function curveOf(text, here) {
  const [place, ...rest] = text.split(":");
  const flow = rest.join(":");
  const [, results, run] = /^(?:(.*)\/)?(\d{1,9})$/s.exec(place) ?? [];
  if (run === undefined) throw new Error(`${text.slice(0, 80)}: no number of a run`);
  const split = /^(.+)~([1-9]\d{0,2})$/s.exec(flow);
  return { results: results ?? here, run: Number(run), flow: split ? split[1] : flow, leg: split ? Number(split[2]) : 0 };
}

export function keyOf({ results, run, flow, leg }, here) {
  return `${results === here ? "" : `${results}/`}${run}${flow ? `:${flow}` : ""}${leg ? `~${leg}` : ""}`;
}

// The names of the runs and flows of results, as `graphs` of their server has them.
export class Names {
  #points = new Map();

  constructor(menu) {
    this.menu = menu;
    for (const point of menu.points) for (const [round, run] of point.runs) this.#points.set(run, { point, round });
  }

  has(run) {
    return this.#points.has(run);
  }

  flows(run) {
    return this.#points.get(run).point.flows;
  }

  label(run) {
    const { point, round } = this.#points.get(run);
    return this.menu.rounds > 1 ? `${point.label}, round ${round + 1}` : point.label;
  }

  // The run of the same point in another round; the run itself where there is none.
  inRound(run, round) {
    return this.#points.get(run)?.point.runs.find(([number]) => number === round)?.[1] ?? run;
  }

  // What a flow of a run is called: as the run, where it has no other.
  labelOf(run, { name, leg, event }) {
    const flows = this.flows(run);
    const isAlone = new Set(flows.map((flow) => flow.name)).size < 2;
    const flow = flows.find((each) => each.name === name);
    return told(this.label(run), [...(isAlone ? [] : [flow?.label ?? name]), ...(leg ? [`leg ${leg}`] : []), ...(event ? [event] : [])]);
  }

  // The congestion control of a flow, `{ cc, look }`; without one that of the whole run, where it has one only.
  control(run, trace) {
    const flows = this.flows(run);
    if (trace) return flows.find((flow) => flow.name === trace.name && flow.leg === trace.leg) ?? NONE;
    const [first = NONE, ...others] = flows.filter((flow) => !flow.leg);
    return others.every(({ cc }) => cc === first.cc) ? first : NONE;
  }
}

export function told(label, words) {
  return words.length ? `${label}: ${words.join(", ")}` : label;
}

// Returns lines, each `{ label, curve, control, look }`, what all of their labels have in `common`, and panels, each `{ quantity, unit, scale, traces }` with a line and
// an envelope of each trace.
//
// `answers`: by the names of results, as `envelopes` returns them; `names`: of the same.
export function overlay({ curves, quantities, answers, names }) {
  const lines = new Map();
  const suffix = (results) => answers.size > 1 ? `, ${results}` : "";
  const line = (label, curve, control) => {
    if (!lines.has(label)) lines.set(label, { label, curve, control });
    return lines.get(label);
  };
  const panels = quantities.map((quantity, what) => {
    const taken = new Set();
    const traces = curves.flatMap((curve, at) => {
      const own = (answers.get(curve.results)?.traces ?? []).filter((trace) => trace.run === curve.run && trace.what === what);
      const wanted = isOfFlows(quantity) ? ofCurve(curve, own, names.get(curve.results)) : own;
      return wanted.filter((trace) => !taken.has(trace) && taken.add(trace)).map((trace) => {
        const known = names.get(curve.results);
        const [label, control] = isOfFlows(quantity)
          ? [known.labelOf(curve.run, trace), known.control(curve.run, trace)]
          : [ofLink(known, curve.run, quantity, trace), known.control(curve.run)];
        return { ...trace, isDotted: trace.event !== "", line: line(label + suffix(curve.results), at, control) };
      });
    });
    const most = traces.reduce((high, trace) => Math.max(high, largest(trace)), 0);
    const [scale, unit] = (SCALES[quantity.unit] ?? []).find(([bound]) => most >= bound) ?? [1, quantity.unit];
    return { quantity, scale, unit, traces };
  });
  const ordered = [...lines.values()].sort((a, b) => a.curve - b.curve);
  giveLooks(ordered);
  return { lines: ordered, panels, common: shortened(ordered) };
}

function isOfFlows({ of }) {
  return !/^(Link|Proxy) /.test(of);
}

// The links of a run with one flow are called, and look, as that flow.
function ofLink(known, run, quantity, trace) {
  const words = quantity.key.includes(":") ? [] : [trace.name];
  const [only, ...others] = [...new Set(known.flows(run).map((flow) => flow.name))];
  return !words.length && only !== undefined && !others.length ? known.labelOf(run, { name: only, leg: 0, event: "" }) : told(known.label(run), words);
}

// The traces of a curve: where a flow has no samples from end to end, those of its legs.
function ofCurve({ run, flow, leg }, own, known) {
  if (leg) return own.filter((trace) => trace.name === flow && trace.leg === leg);
  const wanted = flow ? [flow] : [...new Set(known.flows(run).map(({ name }) => name))];
  return wanted.flatMap((name) => {
    const all = own.filter((trace) => trace.name === name);
    const whole = all.filter((trace) => !trace.leg);
    return whole.length ? whole : all;
  });
}

function largest({ low, high }) {
  let most = 0;
  for (let at = 0; at < high.length; at += 1) if (!Number.isNaN(high[at])) most = Math.max(most, Math.abs(high[at]), Math.abs(low[at]));
  return most;
}

// Takes what all runs are called out of the labels, where each is still called something; returns that.
export function shortened(lines) {
  const parts = lines.map(({ label }) => {
    const [head, ...tail] = label.split(": ");
    return { words: head.split(", "), tail: tail.join(": ") };
  });
  const common = lines.length > 1 ? parts[0].words.filter((word) => parts.every(({ words }) => words.includes(word))) : [];
  const short = parts.map(({ words, tail }) => [words.filter((word) => !common.includes(word)).join(", "), tail].filter(Boolean).join(": "));
  if (!common.length || !short.every(Boolean)) return "";
  lines.forEach((line, at) => { line.label = short[at]; });
  return common.join(", ");
}

// Colours by congestion control; where all have the same one, each line one of its own. Lines of one colour differ in dashes.
function giveLooks(lines) {
  const numbers = new Map(lines.filter(({ control: { cc } }) => cc).map(({ control: { cc, look } }) => [cc, look]));
  const isOne = numbers.size === 1 && lines.length > 1;
  const count = new Map();
  lines.forEach((line, place) => {
    const number = isOne || !numbers.has(line.control.cc) ? otherOf(place) : numbers.get(line.control.cc);
    const again = count.get(number) ?? 0;
    count.set(number, again + 1);
    line.look = lookOf(number, false, again);
  });
}
