// SPDX-License-Identifier: GPL-2.0-only OR MIT
// An entry that runs: how far it is, and a small picture per congestion control that fills as its runs are done.

import { lookOf, colours, nameOf } from "./looks.js";
import { duration } from "./times.js";
import { drawn, element, largest, three } from "./words.js";

const [WIDTH, HEIGHT] = [240, 56];
const ROOM = 4;
// More congestion controls than are drawn large.
const MANY = 8;

// How far an entry is, in words.
export function said({ done, total, left_s: left, writing, wish }) {
  const asked = wish ? `; asked to ${wish}` : "";
  if (writing) return `Writing the report${asked}`;
  if (!total) return `Reading the study${asked}`;
  return `${Math.floor(done)} of ${total} runs${left === null ? "" : `, about ${duration(left)} left`}${asked}`;
}

function scale(most) {
  return (value) => (HEIGHT - ROOM) * (1 - value / most) + ROOM / 2;
}

function picture(label, ...parts) {
  return drawn("svg", { class: "multiple", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, drawn("path", { class: "ground", d: `M0,${HEIGHT - 0.5}H${WIDTH}` }), ...parts);
}

// The runs that are done, from left to right; those that are to come leave room.
function runs({ name, runs: all, done, mean, per, values }, most) {
  const y = scale(most);
  const places = Math.max(1, all ? Math.ceil(all / per) : values.length);
  const dots = values.map((value, at) => drawn("circle", { class: "dot", cx: ((at + 0.5) / places * WIDTH).toFixed(1), cy: y(value).toFixed(1), r: places > 40 ? 1.75 : 2.5 }));
  const line = mean === null ? [] : [drawn("path", { class: "mean-line", d: `M0,${y(mean).toFixed(1)}H${WIDTH}` })];
  return picture(`Throughput of the ${done} runs of ${nameOf(name)} that are done`, ...line, ...dots);
}

// The run that went on last, over time.
function course({ name, t_s: times, mbps }, most) {
  const y = scale(most);
  const x = (time) => time / (times.at(-1) || 1) * WIDTH;
  const lines = mbps.map((values) => drawn("polyline", { class: "line", points: values.map((value, at) => `${x(times[at]).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }));
  return picture(`Throughput over time of ${name}`, ...lines);
}

export class Multiples {
  #count = element("span", { className: "count" });
  #says = element("p", { className: "says note" });
  #bar;
  #grid = element("div", { className: "multiples" });
  #scale = element("p", { className: "note", hidden: true });
  // The last course of each congestion control stays until it has a newer one.
  #courses = new Map();

  constructor(study) {
    this.#bar = element("progress", { max: 1, value: 0, ariaLabel: `Progress of ${study}` });
    this.parts = [this.#bar, this.#count, this.#says, this.#grid, this.#scale];
  }

  // Shows the progress of an entry; with `panels` what it has so far.
  show(state) {
    this.#bar.max = state.total || 1;
    this.#bar.value = state.done;
    this.#count.textContent = said(state);
    this.#says.textContent = state.says;
    const { curve, panels = [] } = state;
    if (curve?.t_s.length > 1) this.#courses.set(curve.algorithm, curve);
    const courses = [...this.#courses.values()];
    const all = [...panels, ...courses.filter(({ algorithm }) => !panels.some(({ name }) => name === algorithm)).map(({ algorithm }) => ({ name: algorithm, runs: null, done: 0, mean: null, per: 1, values: [] }))];
    const most = largest([...all.flatMap(({ values }) => values), ...courses.flatMap(({ mbps }) => mbps.flat())]) * 1.05;
    if (!most) return;
    const places = colours(all.map(({ name }) => name));
    this.#grid.classList.toggle("many", all.length > MANY);
    this.#grid.replaceChildren(...all.map((panel) => this.#panel(panel, lookOf(places.get(panel.name)), most)));
    this.#scale.hidden = false;
    this.#scale.textContent = `Throughput in Mbit/s, the mean of the runs so far; all pictures from 0 to ${three(most)}.`;
  }

  #panel(panel, look, most) {
    const { name, runs: all, done, mean } = panel;
    const found = this.#courses.get(name);
    const count = all === null ? `${done} runs` : `${done} of ${all} run${all === 1 ? "" : "s"}`;
    return element("section", { className: `multiple-box ${look.class}` },
      element("h3", {}, element("i", { className: `swatch ${look.class}` }), name ? nameOf(name) : "All flows", ...(mean === null ? [] : [" ", element("strong", {}, three(mean))])),
      element("p", { className: "note" }, count),
      ...(done ? [runs(panel, most)] : []),
      ...(found ? [course(found, most), element("p", { className: "note" }, `${found.name}, ${three(found.t_s.at(-1))} s`)] : []));
  }
}
