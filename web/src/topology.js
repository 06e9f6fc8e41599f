// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The network of a study as a picture: nodes, links with rate and delay, and satellite links as dashed arcs.

import { drawn, element } from "./words.js";

const LARGE = { column: 168, row: 72, margin: 84 };
const SMALL = { width: 320, row: 52, margin: 40 };
const TOP = 62;
// How much further down each further link between the same two nodes bends.
const PARALLEL = 36;
// The height of the arc of a satellite link by its orbit.
const ARCS = { GEO: 50, MEO: 38, LEO: 26 };

// Returns the shortest path from a node to each that can be reached.
function paths(beside, start) {
  const found = new Map([[start, [start]]]);
  for (const [node, path] of found) {
    for (const other of [...beside.get(node)].sort()) {
      if (!found.has(other)) found.set(other, [...path, other]);
    }
  }
  return found;
}

// Returns column and row of each node: along the path from the first to the farthest, others beside it.
export function placed({ nodes, links }) {
  const beside = new Map(nodes.map((node) => [node, new Set()]));
  for (const { ends: [one, other] } of links) {
    for (const [from, to] of [[one, other], [other, one]]) {
      if (!beside.has(from)) beside.set(from, new Set());
      beside.get(from).add(to);
    }
  }
  const names = [...beside.keys()];
  const path = [...paths(beside, names[0]).values()].reduce((long, each) => each.length > long.length ? each : long);
  const columns = new Map(path.map((node, at) => [node, at]));
  for (const node of names.filter((each) => !columns.has(each))) {
    const ways = [...paths(beside, node).values()].sort((one, other) => one.length - other.length);
    const way = ways.find((each) => path.includes(each.at(-1))) ?? [node];
    const at = Math.max(0, path.indexOf(way.at(-1)));
    // Hosts of a dumbbell stand on the side of their router; the first node has all that it reaches on its right.
    const isLeft = at > 0 && at < (path.length - 1) / 2;
    columns.set(node, isLeft ? at - (way.length - 1) : at + way.length - 1);
  }
  const least = Math.min(...columns.values());
  const count = new Map();
  for (const column of columns.values()) count.set(column, (count.get(column) ?? 0) + 1);
  const most = Math.max(...count.values());
  const used = new Map();
  return new Map(names.map((node) => {
    const column = columns.get(node);
    const row = used.get(column) ?? 0;
    used.set(column, row + 1);
    return [node, [column - least, row + (most - count.get(column)) / 2]];
  }));
}

function wordsOf({ rate, delay }) {
  return [rate, delay].filter(Boolean).join(", ").replace(/(\d) us\b/g, "$1 µs");
}

// Returns the picture; nothing without links. A small one names the ends and the satellite links only.
export function topology(network, { isSmall = false } = {}) {
  const { links } = network;
  if (!links.length) return "";
  const places = placed(network);
  const columns = 1 + Math.max(...[...places.values()].map(([x]) => x));
  const rows = 1 + Math.max(...[...places.values()].map(([, y]) => y));
  const { margin, row } = isSmall ? SMALL : LARGE;
  const column = isSmall ? (SMALL.width - 2 * margin) / Math.max(columns - 1, 1) : LARGE.column;
  const between = new Map();
  const degrees = new Map();
  for (const { ends } of links) {
    const pair = [...ends].sort().join("\n");
    between.set(pair, (between.get(pair) ?? 0) + 1);
    for (const end of ends) degrees.set(end, (degrees.get(end) ?? 0) + 1);
  }
  const width = 2 * margin + (columns - 1) * column;
  const height = TOP + (rows > 1 ? 44 : 30) + (rows - 1) * row + PARALLEL * (Math.max(...between.values()) - 1);
  const at = (node) => [margin + places.get(node)[0] * column, TOP + places.get(node)[1] * row];
  const said = links.map((link) => `${link.ends.join(" to ")}, ${[link.orbit, wordsOf(link)].filter(Boolean).join(" ")}`).join("; ");
  const svg = drawn("svg", { class: "topology", viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": `Network: ${said}` });
  const seen = new Map();
  for (const link of [...links].sort((one, other) => (ARCS[other.orbit] ?? 0) - (ARCS[one.orbit] ?? 0))) {
    const [inner, outer] = [...link.ends].sort((one, other) => degrees.get(other) - degrees.get(one));
    const pair = [...link.ends].sort().join("\n");
    const before = seen.get(pair) ?? 0;
    seen.set(pair, before + 1);
    // Where links fan out, the words of one stand below the host at its end.
    svg.append(...linkOf(link, [at(inner), at(outer)], { before, isFan: rows > 1 && degrees.get(outer) === 1, isSmall }));
  }
  for (const [node, [x]] of places) {
    const [left, top] = at(node);
    svg.append(drawn("circle", { class: "node", cx: left, cy: top, r: 5 }));
    if (!isSmall || x === 0 || x === columns - 1) svg.append(drawn("text", { x: left, y: top + 22 }, node));
  }
  return svg;
}

// Draws a link from its inner to its outer end; of several between two nodes each later one bends further down.
function linkOf(link, [[x, y], [toX, toY]], { before, isFan, isSmall }) {
  const bend = before === 0 ? (ARCS[link.orbit] ?? 0) * (y === toY ? 1 : 0.5) : -PARALLEL * before;
  const control = [(x + toX) / 2, (y + toY) / 2 - 1.6 * bend];
  const middle = [x / 4 + control[0] / 2 + toX / 4, y / 4 + control[1] / 2 + toY / 4];
  const parts = [drawn("path", { class: link.orbit ? "air" : "wire", d: `M${x},${y}Q${control} ${toX},${toY}` })];
  if (link.orbit) {
    parts.push(drawn("g", { class: "satellite", transform: `translate(${middle.map((each) => each.toFixed(1))})` },
      drawn("rect", { x: -4, y: -4, width: 8, height: 8 }), drawn("path", { d: "M-13,-3h6v6h-6zM7,-3h6v6h-6z" })));
  }
  const both = isFan || !bend ? [wordsOf(link)] : [link.rate, link.delay];
  const lines = (isSmall ? [link.orbit && (link.rate || link.orbit)] : both).filter(Boolean);
  // A wide arc leaves room below it; other lines have it above.
  const isAbove = isSmall ? bend >= 0 : bend === 0;
  const [left, top] = isFan ? [toX, toY + 36] : [middle[0], middle[1] + (isAbove ? -12 : 20)];
  return [...parts, ...lines.map((text, line) => drawn("text", { class: "says", x: left.toFixed(1), y: (top + 14 * line).toFixed(1) }, text))];
}

// Returns the picture for wide screens and for narrow ones, where a list has the words that it leaves out.
export function networkOf(network) {
  if (!network.links.length) return [];
  const rows = network.links.map((link) => element("li", {}, element("strong", {}, link.name || link.ends.join(" to ")), ` ${[wordsOf(link), link.orbit].filter(Boolean).join(", ")}`));
  return [
    element("div", { className: "picture wide" }, topology(network)),
    element("div", { className: "picture narrow" }, topology(network, { isSmall: true }), element("ul", { className: "plain note" }, ...rows)),
  ];
}
