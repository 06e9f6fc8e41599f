// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Draws quantities over time, a panel each, on one axis of time. The server reduces the samples of the window that is shown to
// the columns of pixels.

import uPlot from "./uPlot.esm.js";

const TIME_AXIS_PX = 46;
const VALUE_AXIS_PX = 56;
const RIGHT_PX = 16;
const NARROW_PX = 600;
const STEP = 0.25;
const KEY_STEPS = 100;
// Samples further away than this share of the window are not read at the cursor beyond the ends of a trace.
const NEAR = 0.01;
const place = document.getElementById("graph");
const said = document.getElementById("window");
const values = document.getElementById("values");
const reading = document.getElementById("reading");
const sections = [...place.querySelectorAll(".panel")];

let graph = null;
let plots = [];
let drawn = "";
let wanted = null;
let asked = null;
let cursor = null;
let held = 0;

function decoded(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const all = new Float64Array(buffer, 4 + length);
  let begin = 0;
  for (const panel of head.panels) {
    panel.envelopes = panel.traces.map(() => all.subarray(begin, begin += 2 * head.columns));
  }
  return head;
}

// Two points for each column, its smallest and its largest value, so that a line shows both.
function points({ from, to, columns }, { envelopes, scale }) {
  const width = (to - from) / columns;
  const times = Array.from({ length: 2 * columns }, (_, place) => from + (place / 2 + 0.25) * width);
  return [times, ...envelopes.map((envelope) => Array.from({ length: 2 * columns }, (_, place) => {
    const value = envelope[(place % 2) * columns + (place >> 1)];
    return Number.isNaN(value) ? null : value / scale;
  }))];
}

// At most three significant digits, with thin spaces between thousands.
function three(value) {
  return Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 20 }).replaceAll(",", "\u202f").replace("-", "\u2212");
}

// As many decimals as tell a thousandth of the window.
function seconds(value) {
  const decimals = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(graph.to - graph.from))));
  return value.toFixed(decimals);
}

function colour(line) {
  const style = getComputedStyle(place);
  return line.look === null ? style.color : style.getPropertyValue(`--c${line.look % 14}`).trim();
}

function height() {
  const room = plots.length > 3 || place.clientWidth < NARROW_PX ? 150 : 190;
  return sections.length === 1 ? 320 : room;
}

function made(panel, number, data) {
  const style = getComputedStyle(place);
  const isLast = number === sections.length - 1;
  const series = panel.traces.map((trace) => {
    const line = graph.lines[trace];
    const stroke = colour(line);
    const dots = { show: true, size: 3, fill: line.dash.length ? style.getPropertyValue("--paper") : stroke };
    return {
      stroke,
      width: 1.5,
      dash: line.dash,
      spanGaps: true,
      ...(panel.dotted ? { paths: () => null, points: dots } : { points: { show: false } }),
    };
  });
  const axis = {
    stroke: style.color,
    font: `12px ${style.fontFamily}`,
    grid: { stroke: style.getPropertyValue("--line"), width: 1 },
    ticks: { stroke: style.getPropertyValue("--line"), width: 1, size: 4 },
  };
  const time = isLast ? { label: "Time (s)", labelSize: 18, labelFont: `12px ${style.fontFamily}`, size: TIME_AXIS_PX - 18 } : { values: () => [], size: 6 };
  const options = {
    width: place.clientWidth,
    height: height() + (isLast ? TIME_AXIS_PX : 6),
    padding: [8, RIGHT_PX, 0, 0],
    scales: { x: { time: false, range: () => [graph.from, graph.to] } },
    axes: [{ ...axis, ...time }, { ...axis, size: VALUE_AXIS_PX, values: (_, ticks) => ticks.map(spaced) }],
    series: [{}, ...series],
    legend: { show: false },
    cursor: {
      sync: { key: "time" },
      points: { show: false },
      drag: { x: true, y: false, setScale: false },
      bind: { dblclick: () => () => show() },
    },
    hooks: {
      setSelect: [(plot) => {
        const { left, width } = plot.select;
        if (width < 2) return;
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        // The other panels show the same selection.
        if (number === held) show(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
      }],
      setCursor: [(plot) => {
        if (plot === plots[0]) read(plot.cursor.left < 0 ? null : plot.posToVal(plot.cursor.left, "x"));
      }],
      draw: [() => { if (isLast) place.dispatchEvent(new Event("drawn")); }],
    },
  };
  return new uPlot(options, data, sections[number].querySelector(".plot"));
}

function spaced(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 9 }).replaceAll(",", "\u202f").replace("-", "\u2212");
}

// Returns the columns around one that have samples of a trace: it, or those before and after.
function around(envelope, column) {
  if (!Number.isNaN(envelope[column])) return [column];
  let [before, after] = [column, column];
  while (before >= 0 && Number.isNaN(envelope[before])) before--;
  while (after < graph.columns && Number.isNaN(envelope[after])) after++;
  const far = (one, end) => one === end || Math.abs(one - column) > NEAR * graph.columns;
  if (before < 0) return far(after, graph.columns) ? [] : [after];
  if (after === graph.columns) return far(before, -1) ? [] : [before];
  return [column - before <= after - column ? before : after];
}

// Returns a trace at the cursor in words; without a cursor its smallest and largest values in the window.
function valueOf(panel, envelope) {
  const columns = cursor === null ? null : around(envelope, Math.max(0, Math.min(graph.columns - 1, Math.floor((cursor - graph.from) / (graph.to - graph.from) * graph.columns))));
  let [least, most] = [Infinity, -Infinity];
  for (const column of columns ?? Array(graph.columns).keys()) {
    const [low, high] = [envelope[column], envelope[graph.columns + column]];
    if (low < least) least = low;
    if (high > most) most = high;
  }
  if (least > most) return "–";
  const [low, high] = [three(least / panel.scale), three(most / panel.scale)];
  return low === high ? low : `${low} to ${high}`;
}

function read(time) {
  cursor = time;
  if (!graph || values.hidden) return;
  values.tHead.rows[0].cells[0].textContent = cursor === null ? "Smallest and largest" : `At ${seconds(cursor)} s`;
  graph.panels.forEach((panel, column) => {
    for (const row of values.tBodies[0].rows) row.cells[column + 1].textContent = "";
    panel.traces.forEach((trace, place) => {
      const cell = values.tBodies[0].rows[trace].cells[column + 1];
      const text = valueOf(panel, panel.envelopes[place]);
      cell.textContent = cell.textContent ? `${cell.textContent}; ${text}` : text;
    });
  });
}

function headed(panel, number) {
  const unit = sections[number].querySelector(".unit");
  if (unit) unit.textContent = panel.unit;
  return sections[number].querySelector(".title").textContent + (panel.unit ? ` (${panel.unit})` : "");
}

const NS = "http://www.w3.org/2000/svg";

function swatch(line) {
  const drawing = document.createElementNS(NS, "svg");
  const stroke = document.createElementNS(NS, "line");
  for (const [key, value] of Object.entries({ x1: 0, y1: 6, x2: 28, y2: 6, stroke: colour(line), "stroke-width": 2.5, "stroke-dasharray": line.dash.join(" ") || "none" })) stroke.setAttribute(key, value);
  drawing.setAttribute("viewBox", "0 0 28 12");
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(stroke);
  return drawing;
}

// The legend, which has the values at the cursor too.
function table() {
  const head = document.createElement("tr");
  const cells = ["", ...graph.panels.map(headed)];
  head.append(...cells.map((text) => Object.assign(document.createElement("th"), { scope: "col", textContent: text })));
  const away = [...document.querySelectorAll("#curves li")].map((item) => item.querySelector("a"));
  const rows = graph.lines.map((line, number) => {
    const row = document.createElement("tr");
    const name = Object.assign(document.createElement("th"), { scope: "row" });
    name.append(swatch(line), line.label);
    const isFirst = graph.lines.findIndex((other) => other.curve === line.curve) === number;
    if (isFirst && away[line.curve]) name.append(" ", away[line.curve].cloneNode(true));
    row.append(name, ...graph.panels.map(() => document.createElement("td")));
    return row;
  });
  const body = document.createElement("tbody");
  body.append(...rows);
  values.replaceChildren();
  values.createTHead().append(head);
  values.append(body);
  values.hidden = rows.length === 0;
  // The table has what the list has; a curve without samples stays in the list.
  const there = new Set(graph.lines.map((line) => line.curve));
  document.querySelectorAll("#curves li").forEach((item, curve) => { item.hidden = there.has(curve); });
}

function redraw() {
  for (const plot of plots) plot.destroy();
  plots = graph.panels.map((panel, number) => made(panel, number, points(graph, panel)));
  table();
}

// Whether the panels are as they were drawn: a flow may begin in a part of a table that is read later.
function shape() {
  return JSON.stringify([graph.lines, graph.panels.map((panel) => [panel.traces, panel.dotted])]);
}

// The address has the window, and so have the links and forms of the page.
function remember(window) {
  const decimals = Math.max(0, Math.min(15, 5 - Math.floor(Math.log10(graph.to - graph.from))));
  const span = { from: String(Number(graph.from.toFixed(decimals))), to: String(Number(graph.to.toFixed(decimals))) };
  const changed = (address) => {
    const url = new URL(address, location.href);
    for (const key of ["from", "to"]) {
      if (window) url.searchParams.set(key, span[key]);
      else url.searchParams.delete(key);
    }
    return url.href;
  };
  history.replaceState(null, "", changed(place.dataset.address));
  for (const link of document.querySelectorAll("a.away")) link.href = changed(link.href);
  for (const form of document.querySelectorAll("#choose form")) {
    for (const key of ["from", "to"]) {
      form.querySelector(`input[name=${key}]`)?.remove();
      if (window) form.append(Object.assign(document.createElement("input"), { type: "hidden", name: key, value: span[key] }));
    }
  }
}

function counted(count, noun) {
  return `${spaced(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function tell() {
  const window = `${seconds(graph.from)} s to ${seconds(graph.to)} s`;
  const more = graph.left_out ? `; ${graph.left_out} more flows, links or events are not drawn` : "";
  const part = graph.read < 1 ? ` so far: ${Math.floor(100 * graph.read)} % of the tables is read` : more;
  const none = graph.read === 1 && graph.samples === 0 ? ": these runs have no such quantity" : "";
  said.textContent = `${window}; ${counted(graph.samples, "sample")} in all${none}${part}`;
}

// Asks for a window, one at a time: of those wanted meanwhile the last is asked for next. Without a window: whole runs.
async function show(from, to) {
  wanted = from === undefined ? [] : [from, to];
  if (asked) {
    if (String(asked) === String(wanted)) wanted = null;
    return;
  }
  try {
    while (wanted) {
      asked = wanted;
      wanted = null;
      const begun = plots.length ? performance.now() : 0;
      const columns = Math.max(64, Math.min(2000, place.clientWidth - VALUE_AXIS_PX - RIGHT_PX));
      const window = asked.length ? `&from=${asked[0]}&to=${asked[1]}` : "";
      const answer = await fetch(`${place.dataset.graph}&columns=${columns}${window}`);
      if (!answer.ok) throw new Error(answer.status === 404 ? await reason(answer) : `the server says ${answer.status}`);
      graph = decoded(await answer.arrayBuffer());
      place.addEventListener("drawn", () => performance.measure("graph", { start: begun, end: performance.now() }), { once: true });
      if (shape() === drawn) {
        graph.panels.forEach((panel, number) => { plots[number].setData(points(graph, panel)); headed(panel, number); });
        graph.panels.forEach((panel, number) => { values.tHead.rows[0].cells[number + 1].textContent = headed(panel, number); });
      } else {
        redraw();
        drawn = shape();
      }
      remember(asked.length > 0);
      read(null);
      tell();
      if (graph.read < 1) wanted ??= asked;
      else performance.mark("whole");
    }
  } catch (error) {
    said.textContent = `The graphs could not be drawn: ${error.message}.`;
  } finally {
    asked = null;
  }
}

// The page of an error has its sentence in the text.
async function reason(answer) {
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return page.querySelector("main p:not(.said)")?.textContent.trim().replace(/\.$/, "") ?? "the server says 404";
}

const STEPS = { in: [STEP, -STEP], out: [-2 * STEP, 2 * STEP], earlier: [-STEP, -STEP], later: [STEP, STEP] };

function step(name) {
  if (name === "whole" || !graph) return show();
  const length = graph.to - graph.from;
  return show(graph.from + STEPS[name][0] * length, graph.to + STEPS[name][1] * length);
}

// Moves the cursor, and says the values there.
function move(steps) {
  if (!plots.length) return;
  const length = graph.to - graph.from;
  const begin = cursor ?? (steps > 0 ? graph.from - length / KEY_STEPS : graph.to + length / KEY_STEPS);
  const time = Math.max(graph.from, Math.min(graph.to, begin + steps * length / KEY_STEPS));
  for (const plot of plots) plot.setCursor({ left: plot.valToPos(time, "x"), top: 1 }, false);
  read(time);
  const heads = [...values.tHead.rows[0].cells].map((cell) => cell.textContent);
  const rows = [...values.tBodies[0].rows].map((row) => {
    const cells = [...row.cells].slice(1).map((cell, column) => [heads[column + 1], cell.textContent]);
    return `${row.cells[0].textContent.replace(" ×", "")}: ${cells.filter(([, text]) => text).map((pair) => pair.join(" ")).join(", ")}`;
  });
  reading.textContent = `${heads[0]}. ${rows.join("; ")}.`;
}

const KEYS = { "+": "in", "=": "in", "-": "out", 0: "whole", Home: "whole" };

place.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target !== place) return;
  const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!direction && !KEYS[event.key]) return;
  event.preventDefault();
  if (!direction) step(KEYS[event.key]);
  else if (event.shiftKey) step(direction < 0 ? "earlier" : "later");
  else move(direction);
});
document.getElementById("steps").hidden = false;
// On a telephone the graphs come first.
if (place.clientWidth < NARROW_PX) document.getElementById("choose").open = false;
for (const button of document.querySelectorAll("[data-step]")) button.addEventListener("click", () => step(button.dataset.step));

sections.forEach((section, number) => section.addEventListener("mousedown", () => { held = number; }, true));

let width = place.clientWidth;
new ResizeObserver(() => {
  if (!plots.length || place.clientWidth === width) return;
  width = place.clientWidth;
  plots.forEach((plot) => plot.setSize({ width, height: plot.height }));
  show(...(new URL(location.href).searchParams.has("from") ? [graph.from, graph.to] : []));
}).observe(place);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (graph) redraw(); });
show(...(place.dataset.from ? [Number(place.dataset.from), Number(place.dataset.to)] : []));
