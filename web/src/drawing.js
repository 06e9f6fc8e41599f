// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The graphs as a drawing that stands alone, for papers: SVG, and PNG made from it.

import { topOf } from "./curves.js";
import { INKS } from "./looks_table.js";
import { drawn, three } from "./words.js";

const WIDTH = 720, LEFT = 64, RIGHT = 16, TOP = 26, PLOT = 120, GAP = 30, BOTTOM = 44, LEGEND = 18;
const SCALE = 3;
const STROKE = 1.6;
// A drawing has a white ground.
const [INK, SOFT, LINE, PAPER] = ["ink", "soft", "line", "paper"].map((name) => INKS[name].light);

function ticks(most, about) {
  const rough = most / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, place) => place * step);
}

// Returns an SVG element of panels as `Panels.show` takes them, between two times.
export function drawing(panels, lines, until, from = 0) {
  const rows = Math.ceil(lines.length / 2);
  const begin = TOP + rows * LEGEND;
  const height = begin + panels.length * (PLOT + GAP) + BOTTOM - GAP;
  const svg = drawn("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, "font-family": "sans-serif", "font-size": 12, fill: INK });
  svg.append(drawn("rect", { width: WIDTH, height, fill: PAPER }));
  lines.forEach(({ look, label }, place) => {
    const [x, y] = [LEFT + (place % 2) * (WIDTH - LEFT) / 2, 18 + Math.floor(place / 2) * LEGEND];
    svg.append(stroke(look, `M${x},${y - 4}h24`), drawn("text", { x: x + 30, y }, label));
  });
  const x = (time) => LEFT + (time - from) / (until - from) * (WIDTH - LEFT - RIGHT);
  panels.forEach(({ title, unit, usual, traces }, number) => {
    const top = begin + number * (PLOT + GAP);
    const { top: end, beyond } = topOf(traces.map(({ v }) => v), usual);
    const most = 1.06 * end || 1;
    const y = (value) => top + PLOT * (1 - Math.min(value, most) / most);
    if (beyond !== null) svg.append(drawn("text", { x: WIDTH - RIGHT, y: top - 7, "text-anchor": "end", fill: SOFT }, `▲ up to ${three(beyond)}`));
    svg.append(drawn("text", { x: LEFT, y: top - 7, "font-weight": 600 }, `${title} (${unit})`));
    for (const value of ticks(most, 4)) {
      svg.append(drawn("path", { d: `M${LEFT},${y(value).toFixed(1)}H${WIDTH - RIGHT}`, stroke: LINE }), drawn("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end", fill: SOFT }, three(value)));
    }
    for (const { t, v, look, isDotted } of traces) svg.append(isDotted ? dots(look, course(t, v, x, y)) : stroke(look, course(t, v, x, y)));
    svg.append(drawn("path", { d: `M${LEFT},${top + PLOT}H${WIDTH - RIGHT}`, stroke: SOFT }));
  });
  const bottom = height - BOTTOM;
  for (const value of ticks(until - from, 8).map((step) => from + step)) svg.append(drawn("text", { x: x(value), y: bottom + 18, "text-anchor": "middle", fill: SOFT }, three(value)));
  svg.append(drawn("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: bottom + 36, "text-anchor": "middle" }, "Time (s)"));
  return svg;
}

function stroke(look, d) {
  const dash = look.dash.map((length) => look.isKept ? length : length * STROKE).join(" ");
  return drawn("path", { d, fill: "none", stroke: look.colour, "stroke-width": STROKE, "stroke-linejoin": "round", ...(dash ? { "stroke-dasharray": dash } : {}) });
}

// Events, which no line connects.
function dots(look, d) {
  return drawn("path", { d: d.replaceAll("L", "M").replaceAll(/(M[^M]+)/g, "$1h0"), stroke: look.colour, "stroke-width": 2.5, "stroke-linecap": "round" });
}

function course(t, v, x, y) {
  let d = "", isDrawn = false;
  t.forEach((time, at) => {
    if (v[at] === null || Number.isNaN(v[at])) return;
    d += `${isDrawn ? "L" : "M"}${x(time).toFixed(1)},${y(v[at]).toFixed(1)}`;
    isDrawn = true;
  });
  return d;
}

export function svgText(svg) {
  return new XMLSerializer().serializeToString(svg);
}

// Returns a drawing as PNG.
export async function picture(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = SCALE * Number(svg.getAttribute("width"));
  canvas.height = SCALE * Number(svg.getAttribute("height"));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}
