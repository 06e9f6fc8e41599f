// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Follows the queue: progress, time left, the throughput of the runs that are done, and its curve in one that goes on. Without it pages show the state of their time.

const COLOURS = 14;
const WIDTH = 480, PLOT = 128, LEFT = 44, RIGHT = 12, BOTTOM = 26;
const SVG = "http://www.w3.org/2000/svg";
const live = document.getElementById("live");

function duration(seconds) {
  if (seconds < 10) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 100) return `${5 * Math.round(seconds / 5)} s`;
  if (seconds < 600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 7200) return `${5 * Math.round(seconds / 300)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Round values for the lines of a grid, from the first to the last.
function ticks(first, last, about) {
  const rough = (last - first) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough);
  const found = [];
  for (let place = Math.ceil(first / step); place * step <= last * (1 + 1e-9); place += 1) found.push(place * step);
  return found;
}

function written(value) {
  return Number(value.toPrecision(3)).toLocaleString("en");
}

// A graph with a grid from 0 upwards, with names of what is drawn: its picture, and where a value is in it.
function axes(title, names, { first, last, most, unit }) {
  const top = 30 + (names.length > 1 ? 16 * Math.ceil(names.length / 4) : 0);
  const height = top + PLOT + BOTTOM;
  const x = (value) => LEFT + ((value - first) / (last - first)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => top + PLOT * (1 - value / most);
  const picture = element("svg", { viewBox: `0 0 ${WIDTH} ${height}` });
  picture.append(element("text", { x: 0, y: 12, class: "title" }, title));
  for (const value of ticks(0, most, 3)) {
    picture.append(element("path", { class: "grid", d: `M${LEFT},${y(value)}H${WIDTH - RIGHT}` }));
    picture.append(element("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, written(value)));
  }
  for (const value of ticks(first, last, 4)) {
    picture.append(element("text", { x: x(value), y: height - 8, "text-anchor": "middle" }, unit === "run" && !Number.isInteger(value) ? "" : `${written(value)}${unit === "s" ? " s" : ""}`));
  }
  picture.append(element("path", { class: "axis", d: `M${LEFT},${height - BOTTOM}H${WIDTH - RIGHT}` }));
  if (names.length > 1) {
    names.forEach((name, place) => {
      const at = { x: LEFT + (place % 4) * 106, y: 30 + 16 * Math.floor(place / 4) };
      picture.append(element("circle", { cx: at.x + 4, cy: at.y - 4, r: 4, class: `dot is-${place % COLOURS}` }));
      picture.append(element("text", { x: at.x + 12, y: at.y }, name || "other"));
    });
  }
  return { picture, x, y };
}

function put(place, picture) {
  place.replaceChildren(picture);
  place.hidden = false;
}

function drawRuns(place, points) {
  const runs = points.map((point) => point[0]);
  const first = Math.min(...runs), last = Math.max(...runs, first + 1);
  const most = Math.max(...points.map((point) => point[2])) * 1.05 || 1;
  const names = [...new Set(points.map((point) => point[1]))].sort();
  const title = `Throughput by run${names.length === 1 && names[0] ? `, ${names[0]}` : ""} (Mbit/s)`;
  const { picture, x, y } = axes(title, names, { first, last, most, unit: "run" });
  for (const [run, name, value] of points) {
    picture.append(element("circle", { cx: x(run), cy: y(value), r: 2.5, class: `dot is-${names.indexOf(name) % COLOURS}` }));
  }
  put(place, picture);
}

function drawCurve(place, { name, flows, t_s: times, mbps }) {
  const last = times[times.length - 1];
  const most = Math.max(...mbps.flat()) * 1.05 || 1;
  const { picture, x, y } = axes(`Throughput of ${name} (Mbit/s)`, flows, { first: 0, last, most, unit: "s" });
  mbps.forEach((values, flow) => {
    const line = values.map((value, at) => `${at ? "L" : "M"}${x(times[at]).toFixed(1)},${y(value).toFixed(1)}`).join("");
    picture.append(element("path", { d: line, class: `line is-${flow % COLOURS}` }));
  });
  put(place, picture);
}

function said({ done, total, left_s: left, writing, wish }) {
  const asked = wish ? `; asked to ${wish}` : "";
  if (writing) return `Writing the report${asked}`;
  if (!total) return `Reading the study${asked}`;
  return `${Math.floor(done)} of ${total} runs${left === null ? "" : `, about ${duration(left)} left`}${asked}`;
}

function show(state) {
  const shown = [...live.querySelectorAll("[data-entry]")].map((one) => Number(one.dataset.entry));
  const running = state.running.map((one) => one.id);
  // What has begun or ended changes more than its bar; the page of an entry follows this one alone.
  const only = Number(live.dataset.only);
  const expected = only ? running.filter((id) => id === only) : running;
  if (String(shown) !== String(expected)) {
    location.reload();
    return;
  }
  for (const one of state.running) {
    const place = live.querySelector(`[data-entry="${one.id}"]`);
    if (!place) continue;
    const bar = place.querySelector("progress");
    bar.max = one.total || 1;
    bar.value = one.done;
    place.querySelector(".count").textContent = said(one);
    place.querySelector(".says").textContent = one.says;
    if (one.curve && one.curve.t_s.length > 1) drawCurve(place.querySelector(".curve"), one.curve);
    if (state.points.length) drawRuns(place.querySelector(".done"), state.points);
  }
}

if (live) {
  const events = new EventSource(live.dataset.events);
  events.onmessage = (event) => show(JSON.parse(event.data));
  addEventListener("pagehide", () => events.close());
}
