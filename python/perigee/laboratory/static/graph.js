// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Draws a quantity of a run over time. The server reduces the samples of the window that is shown to the columns of pixels.

import uPlot from "./uPlot.esm.js";

const COLOURS = ["#0b5394", "#c05a00", "#1a6b3c", "#8e2a8b", "#a3260f", "#4d5c00", "#00697a", "#6b4a2b"];
const AXES_PX = 80;
const HEIGHT_PX = 360;
const STEP = 0.25;
const place = document.getElementById("graph");
const said = document.getElementById("window");

let graph = null;
let plot = null;
let drawn = [];
let wanted = null;
let busy = false;

function decoded(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return { ...head, values: new Float64Array(buffer, 4 + length) };
}

// Two points for each column, its smallest and its largest value, so that a line shows both.
function points({ from, to, columns, traces, values }) {
  const width = (to - from) / columns;
  const times = Array.from({ length: 2 * columns }, (_, place) => from + (place / 2 + 0.25) * width);
  return [times, ...traces.map((_, trace) => Array.from({ length: 2 * columns }, (_, place) => {
    const value = values[(2 * trace + (place % 2)) * columns + (place >> 1)];
    return Number.isNaN(value) ? null : value;
  }))];
}

function made(data) {
  const series = graph.traces.map((label, number) => ({
    label,
    stroke: COLOURS[number % COLOURS.length],
    width: 1,
    spanGaps: true,
    ...(graph.dotted ? { paths: () => null, points: { show: true, size: 3 } } : { points: { show: false } }),
  }));
  const ink = getComputedStyle(place).color;
  const options = {
    width: place.clientWidth,
    height: HEIGHT_PX,
    scales: { x: { time: false, range: () => [graph.from, graph.to] } },
    axes: [{ label: "Time (s)", stroke: ink }, { label: place.dataset.quantity, stroke: ink, size: 64 }],
    series: [{ label: "Time (s)" }, ...series],
    cursor: { drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => whole() } },
    hooks: {
      setSelect: [(made) => {
        const { left, width } = made.select;
        if (width < 2) return;
        made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        show(made.posToVal(left, "x"), made.posToVal(left + width, "x"));
      }],
      draw: [() => place.dispatchEvent(new Event("drawn"))],
    },
  };
  return new uPlot(options, data, place);
}

// Asks for a window, one at a time: of those wanted meanwhile the last is asked for next. Without a window: the whole run.
async function show(from, to) {
  wanted = [from, to];
  if (busy) return;
  busy = true;
  try {
    while (wanted) {
      const [first, last] = wanted;
      wanted = null;
      const begun = plot ? performance.now() : 0;
      const columns = Math.max(64, Math.min(2000, place.clientWidth - AXES_PX));
      const window = first === undefined ? "" : `&from=${first}&to=${last}`;
      const answer = await fetch(`${place.dataset.graph}&columns=${columns}${window}`);
      if (!answer.ok) throw new Error(`the server says ${answer.status}`);
      graph = decoded(await answer.arrayBuffer());
      place.addEventListener("drawn", () => performance.measure("graph", { start: begun, end: performance.now() }), { once: true });
      // A flow may begin in a part of the table that is read later.
      if (plot && String(drawn) !== String(graph.traces)) {
        plot.destroy();
        plot = null;
      }
      drawn = graph.traces;
      if (plot) plot.setData(points(graph));
      else plot = made(points(graph));
      const more = graph.left_out ? `; ${graph.left_out} more are not drawn` : "";
      const shown = `${graph.from.toPrecision(6)} s to ${graph.to.toPrecision(6)} s; ${graph.samples.toLocaleString("en")} samples`;
      said.textContent = graph.read < 1 ? `${shown} so far: ${Math.floor(100 * graph.read)} % of the table is read` : `${shown} in the run${more}`;
      if (graph.read < 1) wanted ??= [first, last];
      else performance.mark("whole");
    }
  } catch (error) {
    said.textContent = `The graph could not be drawn: ${error.message}.`;
  } finally {
    busy = false;
  }
}

function whole() {
  show(undefined, undefined);
}

const STEPS = { in: [STEP, -STEP], out: [-2 * STEP, 2 * STEP], earlier: [-STEP, -STEP], later: [STEP, STEP] };

function step(name) {
  if (name === "whole" || !graph) return whole();
  const length = graph.to - graph.from;
  return show(graph.from + STEPS[name][0] * length, graph.to + STEPS[name][1] * length);
}

const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "earlier", ArrowRight: "later", 0: "whole", Home: "whole" };

place.addEventListener("keydown", (event) => {
  const name = KEYS[event.key];
  if (!name || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  step(name);
});
document.getElementById("steps").hidden = false;
for (const button of document.querySelectorAll("[data-step]")) button.addEventListener("click", () => step(button.dataset.step));

let width = place.clientWidth;
new ResizeObserver(() => {
  if (!plot || place.clientWidth === width) return;
  width = place.clientWidth;
  plot.setSize({ width, height: HEIGHT_PX });
  show(graph.from, graph.to);
}).observe(place);
whole();
