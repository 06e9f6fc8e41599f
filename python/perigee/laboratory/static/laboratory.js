// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Follows the queue: progress, time left, the throughput of the runs that are done, and its curve in one that goes on. Without it pages show the state of their time.

const COLOURS = ["#0b5394", "#c05a00", "#1a6b3c", "#8e2a8b", "#a3260f", "#4d5c00", "#00697a", "#6b4a2b"];
const LABELS_A_LINE = 5;
const SVG = "http://www.w3.org/2000/svg";
const live = document.getElementById("live");

function duration(seconds) {
  const rest = Math.round(seconds);
  const two = (number) => String(number).padStart(2, "0");
  return `${Math.floor(rest / 3600)}:${two(Math.floor(rest / 60) % 60)}:${two(rest % 60)}`;
}

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A graph's axes from 0 upwards, with names of what is drawn: its picture, and where a value is in it.
function axes(title, names, { first, last, most, ends }) {
  const width = 720, height = 240, left = 52, right = 12, bottom = 34;
  const top = 14 + 12 * Math.max(1, Math.ceil(names.length / LABELS_A_LINE));
  const x = (place) => left + ((place - first) / (last - first)) * (width - left - right);
  const y = (value) => height - bottom - (value / most) * (height - top - bottom);
  const picture = element("svg", { viewBox: `0 0 ${width} ${height}` });
  picture.append(element("path", { class: "axis", d: `M${left},${top}V${height - bottom}H${width - right}` }));
  for (const share of [0, 0.5, 1]) {
    const value = share * most;
    picture.append(element("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value.toPrecision(3)));
  }
  picture.append(element("text", { x: left, y: height - 14 }, ends[0]));
  picture.append(element("text", { x: width - right, y: height - 14, "text-anchor": "end" }, ends[1]));
  picture.append(element("text", { x: 2, y: 12 }, title));
  names.forEach((name, place) => {
    const label = element("text", { x: 230 + (place % LABELS_A_LINE) * 98, y: 12 + 12 * Math.floor(place / LABELS_A_LINE) }, `● ${name || "other"}`);
    // The content policy allows no attribute `style`.
    label.style.fill = COLOURS[place % COLOURS.length];
    picture.append(label);
  });
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
  const { picture, x, y } = axes("Throughput (Mbit/s)", names, { first, last, most, ends: [`run ${first}`, `run ${last}`] });
  for (const [run, name, value] of points) {
    picture.append(element("circle", { cx: x(run), cy: y(value), r: 2.5, fill: COLOURS[names.indexOf(name) % COLOURS.length] }));
  }
  put(place, picture);
}

function drawCurve(place, { run, flows, t_s: times, mbps }) {
  const last = times[times.length - 1];
  const most = Math.max(...mbps.flat()) * 1.05 || 1;
  const { picture, x, y } = axes(`Run ${run}, throughput (Mbit/s)`, flows, { first: 0, last, most, ends: ["0 s", `${last.toPrecision(3)} s`] });
  mbps.forEach((values, flow) => {
    const line = values.map((value, at) => `${at ? "L" : "M"}${x(times[at]).toFixed(1)},${y(value).toFixed(1)}`).join("");
    picture.append(element("path", { d: line, fill: "none", stroke: COLOURS[flow % COLOURS.length] }));
  });
  put(place, picture);
}

function show(state) {
  const shown = [...live.querySelectorAll("[data-entry]")].map((one) => Number(one.dataset.entry));
  const running = state.running.map((one) => one.id);
  // What has begun or ended changes more than its bar.
  if (String(shown) !== String(running)) {
    location.reload();
    return;
  }
  for (const one of state.running) {
    const place = live.querySelector(`[data-entry="${one.id}"]`);
    const bar = place.querySelector("progress");
    bar.max = one.total || 1;
    bar.value = one.done;
    const left = one.left_s === null || !one.total ? "" : `, about ${duration(one.left_s)} left`;
    place.querySelector(".count").textContent = one.total ? `${Math.floor(one.done)} of ${one.total} runs${left}` : "reading the study";
    const says = place.querySelector(".says");
    if (says) says.textContent = one.says;
    if (one.curve && one.curve.t_s.length > 1) drawCurve(place.querySelector(".curve"), one.curve);
    if (state.points.length) drawRuns(place.querySelector(".done"), state.points);
  }
}

if (live) {
  const events = new EventSource(live.dataset.events);
  events.onmessage = (event) => show(JSON.parse(event.data));
  addEventListener("pagehide", () => events.close());
}
