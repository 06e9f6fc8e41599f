// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Quantities over time, a panel each, on one axis of time; the cursor reads all of them.

import { topOf } from "./curves.js";
import { swatch } from "./looks.js";
import uPlot from "./uPlot.esm.js";
import { element, three } from "./words.js";

const TIME_AXIS_PX = 40;
const VALUE_AXIS_PX = 52;
const RIGHT_PX = 12;
const MOST_POINTS = 3000;
// From so many lines on their values have a row of their own.
const MANY_LINES = 5;
const MARK_PX = 5;
const LINE_PX = 1.75;
const KEPT_PX = 1.25;

// Returns times and values with the smallest and largest value of each part, where there are more than can be seen.
function thinned(times, values) {
  if (times.length <= MOST_POINTS) return [times, values];
  const step = Math.ceil(2 * times.length / MOST_POINTS);
  const [t, v] = [[], []];
  for (let from = 0; from < times.length; from += step) {
    let [low, high] = [from, from];
    for (let at = from; at < Math.min(from + step, times.length); at += 1) {
      if (values[at] < values[low]) low = at;
      if (values[at] > values[high]) high = at;
    }
    for (const at of low <= high ? [low, high] : [high, low]) {
      t.push(times[at]);
      v.push(values[at]);
    }
  }
  return [t, v];
}

// Brings traces to one axis of time.
function joined(traces) {
  const all = traces.map(({ t, v }) => thinned(t, v));
  const first = all[0]?.[0] ?? [];
  const gaps = (values) => values.map((value) => Number.isNaN(value) ? null : value);
  if (all.every(([t]) => t === first || (t.length === first.length && t.at(-1) === first.at(-1) && t[0] === first[0]))) return [first, ...all.map(([, v]) => gaps(v))];
  return uPlot.join(all.map(([t, v]) => [t, gaps(v)]));
}

// The value of a trace at a time: of the interval that it is in, or of the last before that has one.
export function valueAt({ t, v }, time) {
  let [low, high] = [0, t.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (t[middle] <= time) low = middle + 1;
    else high = middle;
  }
  let at = Math.min(low, t.length - 1);
  while (at > 0 && Number.isNaN(v[at])) at -= 1;
  const value = v[at];
  return value === undefined || Number.isNaN(value) ? null : value;
}

export class Panels {
  #place;
  #panels = [];
  #shape = "";
  #from = 0;
  #until = 1;
  #zoom = null;
  #time = null;
  #isMoving = false;
  #isPointed = false;

  // `moved(time)` is called with the time below the pointer; null when it has left. `zoomed(window)` is called with the part
  // that was chosen, null for the whole; without it, the graphs show that part themselves.
  constructor(place, moved = () => {}, zoomed = null) {
    this.#place = place;
    this.moved = moved;
    this.zoomed = zoomed;
    // uPlot reports its cursor again whenever an axis changes, after that, and as if a pointer had moved it.
    place.addEventListener("pointermove", () => { this.#isPointed = true; });
    place.addEventListener("pointerleave", () => { this.#isPointed = false; this.moved(null); });
    new ResizeObserver(() => this.#resize()).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#redraw());
  }

  // Shows panels `{title, unit, usual, traces: [{t, v, look, label, isDotted}]}`, until a time; `usual` as of `topOf`. Dots are events, which no line connects.
  show(panels, until, from = 0) {
    this.#from = from;
    this.#until = until;
    const shape = JSON.stringify(panels.map(({ title, unit, traces }) => [title, unit, traces.map(({ look, label }) => [look, label])]));
    const before = this.#panels;
    this.#panels = panels.map((panel, number) => ({ ...before[number], ...panel }));
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#zoom = null;
      this.#build(before);
    } else {
      for (const panel of this.#panels) panel.plot.setData(joined(panel.traces));
    }
    this.at(this.#time);
  }

  // Moves the cursor; without a time it is not shown.
  at(time) {
    this.#time = time;
    this.#isMoving = true;
    for (const { plot, readout, traces, looks } of this.#panels) {
      plot.setCursor(time === null ? { left: -10, top: -10 } : { left: plot.valToPos(time, "x"), top: 1 }, false);
      traces.forEach((trace, number) => {
        const value = time === null ? null : valueAt(trace, time);
        const text = value === null ? "" : three(value);
        if (looks[number].value.textContent !== text) looks[number].value.textContent = text;
      });
      readout.classList.toggle("away", time === null);
    }
    this.#isMoving = false;
  }

  get window() {
    return this.#zoom ?? [this.#from, this.#until];
  }

  #build(before) {
    for (const { plot } of before) plot?.destroy();
    this.#place.replaceChildren(...this.#panels.map((panel) => {
      panel.looks = panel.traces.map(({ look, label }) => {
        const value = element("b");
        return { value, item: element("span", { title: label }, swatch(look), value) };
      });
      panel.readout = element("span", { className: `readout ${panel.looks.length < MANY_LINES ? "" : "many"}` }, ...panel.looks.map(({ item }) => item));
      panel.isWhole = false;
      panel.beyond = element("button", { type: "button", className: "small beyond", hidden: true });
      panel.beyond.addEventListener("click", () => { panel.isWhole = !panel.isWhole; panel.plot.setData(panel.plot.data); });
      panel.box = element("div", { className: "plot" }, panel.beyond);
      return element("section", { className: "panel" }, element("h2", {}, `${panel.title} `, element("small", {}, panel.unit)), panel.readout, panel.box);
    }));
    this.#panels.forEach((panel, number) => { panel.plot = this.#plot(panel, number); });
  }

  #plot(panel, number) {
    const style = getComputedStyle(this.#place);
    const isLast = number === this.#panels.length - 1;
    const font = `12px ${style.fontFamily}`;
    const axis = {
      stroke: style.getPropertyValue("--soft"),
      font,
      grid: { stroke: style.getPropertyValue("--line"), width: 1 },
      ticks: { stroke: style.getPropertyValue("--line"), width: 1, size: 4 },
    };
    const time = isLast ? { label: "Time (s)", labelSize: 16, labelFont: font, size: TIME_AXIS_PX - 16 } : { values: () => [], size: 6 };
    const options = {
      width: Math.max(200, this.#place.clientWidth),
      height: this.#height() + (isLast ? TIME_AXIS_PX : 6),
      padding: [8, RIGHT_PX, 0, 0],
      scales: { x: { time: false, range: () => this.window }, y: { range: (plot, low, high) => panel.traces.some(({ isDotted }) => isDotted) ? [low, high || 1] : [0, (this.#top(panel, plot) || 1) * 1.06] } },
      axes: [{ ...axis, ...time }, { ...axis, size: VALUE_AXIS_PX, space: 28, values: (_plot, ticks) => ticks.map(three) }],
      series: [{}, ...panel.traces.map(({ look, isDotted }) => ({
        stroke: style.getPropertyValue(look.variable).trim(),
        width: look.isKept ? KEPT_PX : LINE_PX,
        dash: look.isKept ? look.dash : look.dash.map((length) => LINE_PX * length),
        alpha: look.isKept ? 0.85 : 1,
        spanGaps: true,
        ...(isDotted ? { paths: () => null, points: { show: true, size: 3, fill: style.getPropertyValue(look.variable).trim() } } : { points: { show: false } }),
      }))],
      legend: { show: false },
      cursor: {
        points: { show: false },
        y: false,
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => this.#zoomTo(null) },
      },
      hooks: {
        draw: [(plot) => this.#markBeyond(panel, plot, style)],
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          if (width < 4) return;
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          this.#zoomTo([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
        }],
        setCursor: [(plot) => {
          if (this.#isMoving || !this.#isPointed) return;
          const time = plot.cursor.left < 0 ? NaN : plot.posToVal(plot.cursor.left, "x");
          this.moved(Number.isFinite(time) ? time : null);
        }],
      },
    };
    return new uPlot(options, joined(panel.traces), panel.box);
  }

  // Where the scale of what is seen ends; the button says what lies beyond.
  #top(panel, plot) {
    const [from, until] = plot.series[0].idxs ?? [0, plot.data[0].length - 1];
    const { top, beyond } = topOf(plot.data.slice(1).map((values) => values.slice(from, until + 1)), panel.usual);
    panel.top = top;
    panel.beyond.hidden = beyond === null;
    panel.beyond.textContent = beyond === null ? "" : panel.isWhole ? `Cut at ${three(top)}` : `▲ up to ${three(beyond)}: show`;
    if (!panel.isWhole || beyond === null) return top;
    panel.top = beyond;
    return beyond;
  }

  // A triangle stands at the top where a line leaves the scale.
  #markBeyond({ traces, top }, plot, style) {
    const { ctx, bbox, data } = plot;
    traces.forEach(({ look }, number) => {
      const values = data[number + 1];
      ctx.fillStyle = style.getPropertyValue(look.variable).trim();
      values.forEach((value, at) => {
        if (!(value > top * 1.06) || value < values[at - 1] || value <= values[at + 1]) return;
        const x = plot.valToPos(data[0][at], "x", true);
        const size = MARK_PX * devicePixelRatio;
        if (x < bbox.left || x > bbox.left + bbox.width) return;
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x - size, bbox.top + 1.6 * size);
        ctx.lineTo(x + size, bbox.top + 1.6 * size);
        ctx.fill();
      });
    });
  }

  #zoomTo(window) {
    if (this.zoomed) {
      this.zoomed(window);
      return;
    }
    this.#zoom = window;
    for (const { plot } of this.#panels) plot.setData(plot.data);
    this.at(this.#time);
  }

  #height() {
    return this.#place.clientWidth < 500 ? 104 : this.#panels.length === 1 ? 240 : 118;
  }

  #resize() {
    for (const [number, { plot }] of this.#panels.entries()) {
      if (plot.width !== this.#place.clientWidth && this.#place.clientWidth) plot.setSize({ width: this.#place.clientWidth, height: this.#height() + (number === this.#panels.length - 1 ? TIME_AXIS_PX : 6) });
    }
    this.at(this.#time);
  }

  #redraw() {
    if (this.#panels.length) this.#build(this.#panels);
    this.at(this.#time);
  }
}
