// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A figure of runs: the path as a picture that moves, and quantities over time below it, at one instant.

import { sliding } from "./curves.js";
import { PLAIN, colours, lookOf, otherOf, swatch } from "./looks.js";
import { nameOf } from "./own.js";
import { Panels } from "./panels.js";
import { PathPicture } from "./path.js";
import { buttonFor, element, size, three } from "./words.js";

const PLAYED_S = 15;
const WIDE_PX = 620;
const KEY_STEPS = 100;
const MOST_LINES = 24;
// Hybla opens a window that nothing fills for several round trips after its start.
const USUAL_WINDOWS = 0.8;
// The bar at the top of the page, below which a graph stays in view.
const BAR_PX = 56;
const FAR_PX = 100000;
// Means of the throughput are over this share of the figure at the least.
const SPANS = 60;

const QUANTITIES = {
  goodput: "Throughput",
  window: "Congestion window",
  queue: "Queue",
  rtt: "Round trip",
};

// Returns the flows of runs as lines: with a label and a look each.
export function linesOf(batches) {
  const lines = [];
  batches.forEach(({ batch, said, isKept }) => {
    for (const run of batch.runs) {
      const traces = [...run.flows.values()];
      for (const trace of traces.filter(({ leg }) => !leg)) {
        const legs = traces.filter((each) => each.name === trace.name && each.leg);
        if (run.flow(trace.name)?.kind === "ping") continue;
        lines.push({ run, trace, window: legs.at(-1) ?? trace, algorithm: run.algorithm(trace.name), said, isKept });
      }
    }
  });
  const shown = lines.slice(0, MOST_LINES);
  shown.leftOut = lines.length - shown.length;
  const algorithms = [...new Set(shown.map(({ algorithm }) => algorithm))];
  const places = colours(algorithms);
  const isOne = algorithms.length === 1;
  const count = new Map();
  for (const line of shown) {
    const key = `${line.isKept} ${places.get(line.algorithm)}`;
    const before = count.get(key) ?? 0;
    count.set(key, before + 1);
    // Flows of one algorithm differ in something else, which has other colours.
    const isOfAlgorithm = line.algorithm && !(isOne && shown.some((other) => other !== line && other.isKept === line.isKept));
    line.look = isOfAlgorithm ? lookOf(places.get(line.algorithm), line.isKept, before) : lookOf(otherOf(before), line.isKept);
    line.label = labelOf(line, lines.filter(({ run, algorithm }) => run === line.run && algorithm === line.algorithm).length === 1);
  }
  return shown;
}

function labelOf({ run, trace, algorithm, said }, isAlone) {
  const name = algorithm ? nameOf(algorithm) : trace.name;
  return [isAlone ? name : `${trace.name}, ${name}`, ...varied(run), said].filter(Boolean).join(", ");
}

// What varies in a run beside the algorithm, in words.
function varied(run) {
  const round = run.study.runs.some((other) => other.round !== run.round) ? [`round ${run.round + 1}`] : [];
  return [...Object.entries(run.values).filter(([key]) => !key.endsWith(".cc")).map(([key, value]) => typeof value === "object" ? value.name ?? JSON.stringify(value) : `${key.split(".").at(-1)} ${value}`), ...round];
}

// The link whose queue is drawn: the slowest on the way of the data.
function bottleneck(run, { name }) {
  const { path } = run.flow(name) ?? run.study.flows[0];
  const links = run.study.links.filter((link) => path.includes(link.name));
  const slowest = links.reduce((least, link) => (link.mean_mbps ?? 0) < (least.mean_mbps ?? 0) ? link : least);
  return run.links.get(slowest.name);
}

// The shortest round trip of lines, s; 0 before there is one.
function tripOf(lines) {
  const least = lines.reduce((shortest, { window }) => window.rtt_ms.reduce((other, ms) => ms < other ? ms : other, shortest), Infinity);
  return Number.isFinite(least) ? least / 1000 : 0;
}

// Means of the throughput are over the shortest round trip: packets of a window arrive in a bunch.
function panelsOf(quantities, lines, until) {
  const least = until / SPANS;
  const isShort = lines.every((line) => tripOf([line]) < least);
  const said = isShort ? `mean of ${three(least)} s` : "mean of a round trip";
  return quantities.map((quantity) => {
    if (quantity === "goodput") return { title: QUANTITIES.goodput, unit: `Mbit/s, ${said}`, traces: lines.map((line) => ({ ...line, ...sliding(line.trace.t, line.trace.goodput_mbps, Math.max(least, tripOf([line]))) })) };
    if (quantity === "window") return { title: QUANTITIES.window, unit: "packets", usual: USUAL_WINDOWS, traces: lines.filter(({ algorithm }) => algorithm).map((line) => ({ ...line, t: line.window.t, v: line.window.cwnd_packets })) };
    if (quantity === "rtt") return { title: QUANTITIES.rtt, unit: "ms", traces: lines.map((line) => ({ ...line, t: line.window.t, v: line.window.rtt_ms })) };
    const seen = new Set();
    const ofRuns = lines.filter(({ run }) => !seen.has(run) && seen.add(run)).map((line) => [line, bottleneck(line.run, line.trace)]).filter(([, trace]) => trace);
    const most = ofRuns.reduce((high, [, { queue_bytes }]) => queue_bytes.reduce((other, bytes) => Math.max(other, bytes), high), 0);
    const [unit, scale] = most >= 1e6 ? ["MB", 1e6] : ["kB", 1e3];
    // The queue that several flows share has the colour of none of them.
    const isShared = ({ run }) => lines.filter((other) => other.run === run).length > 1;
    const ofQueue = (line) => isShared(line) ? { look: PLAIN, label: "Queue" } : {};
    return { title: QUANTITIES.queue, unit, traces: ofRuns.map(([line, trace]) => ({ ...line, ...ofQueue(line), t: trace.t, v: trace.queue_bytes.map((bytes) => bytes / scale) })) };
  });
}

export class Figure {
  lines = [];
  panels = [];
  until = 1;
  #pictures = [];
  #time = 0;
  #hover = null;
  #isPlaying = false;
  #last = 0;
  #turn = 0;
  #isOver = false;

  // `quantities`: the panels; `pictures`: how many runs are drawn as a path at most; `pictured`: the run of which both settings are.
  constructor(place, { quantities = Object.keys(QUANTITIES), pictures = 2, pictured = 0, label = "Runs over time" } = {}) {
    this.#quantities = quantities;
    this.#most = pictures;
    this.#pictured = pictured;
    this.#legend = element("ul", { className: "legend" });
    this.#paths = element("div", { className: "paths" });
    this.#few = element("p", { className: "note", hidden: true });
    const button = (text, ariaLabel, act) => Object.assign(buttonFor(text, act, "small"), ariaLabel && { ariaLabel, title: ariaLabel });
    this.#button = button("", null, () => this.play(!this.#isPlaying));
    this.#range = element("input", { type: "range", min: 0, max: 1000, value: 0, className: "time", ariaLabel: "Time in the run" });
    this.#said = element("output", { className: "clock" });
    const controls = element("div", { className: "player" }, this.#button, button("|◀", "To the beginning", () => this.#go(0)),
      button("▶|", "A step forward: a round trip, or a hundredth of the run", () => this.#go(this.#time + Math.max(tripOf(this.lines), this.until / KEY_STEPS))), this.#range, this.#said);
    this.#charts = element("div", { className: "panels", tabIndex: 0, role: "group", ariaLabel: `${label}. Left and right arrow move the time, space plays.` });
    place.replaceChildren(this.#paths, this.#few, controls, this.#legend, this.#charts);
    this.#pin();
    this.#plots = new Panels(this.#charts, (time) => { this.#hover = time; this.#draw(0); });
    this.#range.addEventListener("input", () => this.#go(this.#range.value / 1000 * this.until));
    this.#charts.addEventListener("keydown", (event) => this.#key(event));
    this.#say();
  }

  #quantities;
  #most;
  #pictured;
  #legend;
  #named = "";
  #paths;
  #few;
  #asked = null;
  #button;
  #range;
  #said;
  #charts;
  #plots;

  // Shows batches `{batch, said, isKept}`; the first is the one that goes on.
  show(batches) {
    this.lines = linesOf(batches);
    this.until = Math.max(1e-3, ...batches.flatMap(({ batch }) => batch.runs.map(({ t }) => t)));
    const planned = Math.max(this.until, ...batches.map(({ batch }) => batch.isOver ? 0 : spanOf(batch.study)));
    this.panels = panelsOf(this.#quantities, this.lines, planned).filter(({ traces }) => traces.length);
    this.#plots.show(this.panels, planned);
    this.#name();
    this.#drawPaths();
    const isOver = batches.every(({ batch }) => batch.isOver);
    if (isOver && !this.#isOver) this.#begin();
    this.#isOver = isOver;
    if (!isOver) this.#time = this.until;
    this.#draw(0);
  }

  // What was shown is about to be replaced.
  reset() {
    this.#isOver = false;
    this.play(false);
  }

  play(isPlaying) {
    if (this.#isPlaying === isPlaying) return;
    this.#isPlaying = isPlaying;
    this.#say();
    if (!isPlaying) return;
    if (this.#time >= this.until * 0.999) this.#time = 0;
    this.#last = performance.now();
    this.#turn += 1;
    this.#step(this.#last, this.#turn);
  }

  get isPlaying() {
    return this.#isPlaying;
  }

  #begin() {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.#time = this.until;
      return;
    }
    this.#time = 0;
    this.play(true);
  }

  // A step of the turn of `play` that began last.
  #step(now, turn) {
    if (!this.#isPlaying || turn !== this.#turn) return;
    const passed = Math.min(100, Math.max(0, now - this.#last));
    this.#last = now;
    if (document.visibilityState === "visible") {
      this.#time += passed / 1000 * this.until / PLAYED_S;
      if (this.#time >= this.until) {
        this.#time = this.until;
        this.play(false);
      }
      this.#draw(passed);
    }
    if (this.#isPlaying) requestAnimationFrame((later) => this.#step(later, turn));
  }

  // Names the lines; where not all runs have a picture, pressing a name asks for its run's.
  #name() {
    const runs = new Set(this.lines.map(({ run }) => run)).size;
    const named = JSON.stringify([runs <= this.#room, this.lines.map(({ look, label }) => [look, label])]);
    if (named === this.#named) return;
    this.#named = named;
    this.#legend.replaceChildren(...this.lines.map(({ look, label }) => {
      if (runs <= this.#room) return element("li", {}, swatch(look), label);
      const press = buttonFor(label, () => { this.#asked = label; this.#drawPaths(); });
      press.prepend(swatch(look));
      return element("li", {}, press);
    }));
  }

  // How many pictures fit.
  get #room() {
    return this.#paths.clientWidth < WIDE_PX ? 1 : this.#most;
  }

  #drawPaths() {
    const runs = [...new Set(this.lines.map(({ run }) => run))];
    const kept = runs.filter((run) => this.lines.some((line) => line.run === run && line.isKept));
    const now = runs.filter((run) => !kept.includes(run));
    const most = this.#room;
    // Of two settings one picture each, of the same algorithm.
    const ofBoth = [kept, now].map((of) => of[Math.min(this.#pictured, of.length - 1)]);
    const first = kept.length && now.length ? ofBoth.slice(-most) : now.slice(0, most);
    const asked = this.lines.find(({ label }) => label === this.#asked)?.run;
    const chosen = asked && !first.includes(asked) ? [...first.slice(0, most - 1), asked] : first;
    this.#few.hidden = runs.length <= chosen.length;
    this.#few.textContent = `${chosen.length} of ${runs.length} runs as a picture; press a name below for its own.`;
    for (const [number, { run }] of this.lines.entries()) this.#legend.children[number]?.querySelector("button")?.setAttribute("aria-pressed", String(chosen.includes(run)));
    while (this.#pictures.length < chosen.length) {
      const box = element("div", { className: "path-box" });
      this.#paths.append(box);
      this.#pictures.push({ box, picture: new PathPicture(box) });
    }
    while (this.#pictures.length > chosen.length) this.#pictures.pop().box.remove();
    this.#pictures.forEach(({ picture }, number) => {
      const lines = this.lines.filter(({ run }) => run === chosen[number]);
      picture.show(chosen[number], lines, lines.length === 1 ? lines[0].label : [...varied(chosen[number]), lines[0].said].filter(Boolean).join(", "));
    });
  }

  #draw(passed) {
    const time = this.#hover ?? this.#time;
    for (const { picture } of this.#pictures) picture.at(time, passed);
    this.#plots.at(this.lines.length ? time : null);
    this.#range.value = String(Math.round(1000 * time / this.until));
    this.#range.setAttribute("aria-valuetext", `${time.toFixed(1)} seconds`);
    this.#said.textContent = `${time.toFixed(1)} s`;
  }

  #say() {
    this.#button.textContent = this.#isPlaying ? "Pause" : "Play";
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target !== this.#charts) return;
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!direction && event.key !== " ") return;
    event.preventDefault();
    if (!direction) {
      this.play(!this.#isPlaying);
      return;
    }
    this.#go(this.#time + direction * this.until / KEY_STEPS);
  }

  // Holds the figure at a time.
  #go(time) {
    this.play(false);
    this.#time = Math.max(0, Math.min(this.until, time));
    this.#draw(0);
  }

  // On a narrow screen the first graph stays in view, while one scrolls on to what it depends on.
  #pin() {
    const above = element("div");
    this.#charts.before(above);
    new IntersectionObserver(([{ isIntersecting }]) => {
      const first = this.#charts.firstElementChild;
      if (first) this.#charts.style.setProperty("--first", `${first.offsetHeight}px`);
      this.#charts.classList.toggle("pinned", !isIntersecting);
    }, { rootMargin: `-${BAR_PX}px 0px ${FAR_PX}px 0px` }).observe(above);
  }
}

// How long the runs of a study last at most, as far as that is known before: the end of its flows, or its time limit.
function spanOf(study) {
  return Math.min(study.time_limit_s, ...[Math.max(0, ...study.flows.map((flow) => flow.start_s + lengthOf(flow)))].filter((end) => Number.isFinite(end) && end > 0));
}

function lengthOf({ words }) {
  const said = words.find(([key]) => key === "duration")?.[1] ?? "";
  const match = /([\d.]+)\s*(ms|s|min|h)\b/.exec(said);
  return match ? Number(match[1]) * { ms: 1e-3, s: 1, min: 60, h: 3600 }[match[2]] : Infinity;
}

// What the flows of a figure came to, as far as they are.
export function summary(line) {
  const { run, trace } = line;
  const flows = run.result?.columns.flows?.columns;
  if (!flows) {
    const bytes = trace.t.reduce((sum, t, at) => sum + trace.goodput_mbps[at] * (t - (trace.t[at - 1] ?? 0)) * 125000, 0);
    return { bytes, mbps: run.t ? bytes / run.t / 125000 : 0, seconds: null, rtt_ms: null, again: null };
  }
  const row = flows.flow.findIndex((name, at) => name === trace.name && !hasLeg(flows.leg[at]));
  const legs = flows.flow.map((name, at) => at).filter((at) => flows.flow[at] === trace.name && hasLeg(flows.leg[at]));
  const sender = legs.at(-1) ?? row;
  const sent = Number(flows.sent_packets[sender]);
  return {
    bytes: Number(flows.received_bytes[row]),
    mbps: flows.goodput_mbps[row],
    seconds: flows.duration_s[row],
    isComplete: flows.completed[row],
    rtt_ms: flows.rtt_mean_ms[sender],
    again: sent ? Number(flows.retransmitted_packets[sender]) / sent : null,
    moved: size(Number(flows.received_bytes[row])),
  };
}

function hasLeg(leg) {
  return leg !== null && leg !== undefined && !Number.isNaN(Number(leg)) && Number(leg) > 0;
}
