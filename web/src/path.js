// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The network of a run as a picture that moves: how full its path and its queues are at an instant.

import { valueAt } from "./panels.js";
import { drawn, largest, milliseconds, size, three } from "./words.js";

const BELOW_PX = 42;
const LEAST_GROUND_PX = 112;
const ABOVE_ARC_PX = 56;
const MARGIN_PX = 36;
const SHORT_HOP_PX = 96;
// One-way delays from which on a hop is drawn as a satellite's: its least delay and the height of its arc.
const ARCS = [[200, 92], [40, 66], [12, 44]];
const SLOTS_PER_PX = 1 / 7;
// A packet drawn takes this long over a hop on the screen, however short the real delay is.
const CROSSING_MS = 900;
const CROSS_MS = 500;
const MOST_WORDS = 16;
// The arc of a delay that changes is by so much higher or lower than that of its mean at most, and moves so quickly.
const MOST_BEND = 0.5;
const BEND_MS = 250;
// Arcs that are higher have room for words below them.
const ROOMY_PX = 60;
// Words take so much a letter, and this share of a hop is free below its arc.
const LETTER_PX = 6.5;
const INSIDE = 0.7;
// What waits needs so much room beside its queue.
const EDGE_PX = 84;
const BUCKET = { width: 22, height: 62, up: 18 };

// A number between 0 and 1 that looks random, the same for the same whole number.
function noise(number) {
  let bits = Math.imul(number ^ 0x9e3779b9, 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return ((bits ^ (bits >>> 16)) >>> 0) / 2 ** 32;
}

// Returns a delay in words as ms; NaN where it is none.
export function delayOf(link) {
  const said = link.words.find(([key]) => key === "delay")?.[1] ?? "";
  const match = /([\d.]+)\s*(us|ms|s)\b/.exec(said);
  return match ? Number(match[1]) * { us: 1e-3, ms: 1, s: 1e3 }[match[2]] : NaN;
}

// The rate in a few words; of one that changes its mean. So the delay; of one that changes none.
export function rateOf(link) {
  const said = link.words.find(([key]) => key === "rate")?.[1] ?? "";
  return said.length <= MOST_WORDS ? said : link.mean_mbps ? `about ${three(link.mean_mbps)} Mbit/s` : "";
}

export function delayWords(link) {
  const said = link.words.find(([key]) => key === "delay")?.[1] ?? "";
  return said.length <= MOST_WORDS ? said : "";
}

// The height of the arc of a hop; 0 on the ground. A delay that is no number in words is a satellite's.
function arcOf(delay) {
  return Number.isNaN(delay) ? ARCS.at(-1)[1] : ARCS.find(([least]) => delay >= least)?.[1] ?? 0;
}

// The delay of a link that changes, at a time, ms; null where there is no path.
function delayAt({ every_s, ms }, time) {
  return ms[Math.min(ms.length - 1, Math.max(0, Math.floor(time / every_s + 1e-9)))];
}

function meanDelay({ ms }) {
  const known = ms.filter((each) => each !== null);
  return known.reduce((sum, each) => sum + each, 0) / known.length;
}

// Returns the queue's limit in words as bytes; NaN without one.
export function limitOf(link) {
  const said = link.words.find(([key]) => key === "queue")?.[1] ?? "";
  const match = /([\d.]+)\s*(B|kB|MB|GB|KiB|MiB|GiB)\b/.exec(said);
  return match ? Number(match[1]) * { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }[match[2]] : NaN;
}

function mixed([x, y], [toX, toY], share) {
  return [x + (toX - x) * share, y + (toY - y) * share];
}

export class PathPicture {
  #place;
  #hops = [];
  #run = null;
  #lines = [];
  #time = 0;
  #phase = 0;
  #clock = null;
  #falling = [];
  #waiting = new Map();

  constructor(place) {
    this.#place = place;
    new ResizeObserver(() => {
      if (!this.#run || this.#width === place.clientWidth) return;
      this.#build();
      this.at(this.#time, 0);
    }).observe(place);
  }

  // Shows a run; `lines` are its flows as the panels have them, with their looks.
  show(run, lines, name) {
    const isSame = this.#run?.study === run.study && this.#name === name && this.#lines.length === lines.length;
    this.#run = run;
    this.#lines = lines;
    this.#name = name;
    if (!isSame || !this.#hops.length) this.#build();
    this.at(this.#time, 0);
  }

  #name = "";
  #ground = LEAST_GROUND_PX;
  #width = 0;

  #build() {
    const { study } = this.#run;
    const flow = (this.#lines[0] && this.#run.flow(this.#lines[0].trace.name)) ?? study.flows[0];
    const links = new Map(study.links.map((link) => [link.name, link]));
    const path = flow.path.map((name) => links.get(name));
    const back = new Map(flow.back.map((name) => links.get(name)).map((link) => [`${link.to} ${link.from}`, link]));
    this.#width = Math.max(280, this.#place.clientWidth);
    const delays = path.map((link) => link.delays ? meanDelay(link.delays) : delayOf(link));
    const isMoving = path.some((link) => link.delays);
    // Packets are drawn on the way through the air; where all is on the ground, on the longest hop.
    const isShort = delays.map((delay) => delays.some(arcOf) ? !arcOf(delay) : delay < Math.max(...delays));
    const short_px = Math.min(SHORT_HOP_PX, this.#width * 0.2);
    const shorts = isShort.filter(Boolean).length;
    const long_px = (this.#width - 2 * MARGIN_PX - shorts * short_px) / (path.length - shorts);
    const arc = Math.max(...delays.map(arcOf)) * (isMoving ? 1 + MOST_BEND : 1);
    this.#ground = Math.max(LEAST_GROUND_PX, arc + ABOVE_ARC_PX);
    const height = this.#ground + BELOW_PX;
    let x = MARGIN_PX;
    const svg = drawn("svg", { viewBox: `0 0 ${this.#width} ${height}`, height, class: "path", role: "img", "aria-label": this.#words(path) });
    const nodes = [[x, path[0].from]];
    this.#hops = path.map((link, number) => {
      const from = [x, this.#ground];
      x += isShort[number] ? short_px : long_px;
      nodes.push([x, link.to]);
      return this.#hop(svg, link, back.get(`${link.from} ${link.to}`), from, [x, this.#ground], delays[number], isShort[number]);
    });
    nodes.forEach(([at, name], number) => {
      const anchor = number === 0 ? "start" : number === nodes.length - 1 ? "end" : "middle";
      const words = drawn("text", { x: anchor === "start" ? 4 : anchor === "end" ? this.#width - 4 : at, y: this.#ground + 24, "text-anchor": anchor }, name);
      svg.append(drawn("circle", { class: "node", cx: at, cy: this.#ground, r: 5.5 }), words);
    });
    this.#title = drawn("text", { class: "says", x: 4, y: 16 });
    this.#state = drawn("text", { class: "says", x: 4, y: this.#ground + 40 });
    svg.append(this.#title, this.#state);
    const lines = this.#lines.map(({ look }) => look.class);
    this.#title.append(drawn("tspan", { class: `strong ${lines.length === 1 ? lines[0] : ""}` }, this.#name));
    this.#falls = drawn("g", { class: "falls" });
    svg.append(this.#falls);
    this.#falling = [];
    this.#waiting.clear();
    this.#place.replaceChildren(svg);
  }

  #title;
  #state;
  #falls;

  #words(path) {
    return `Path of the packets: ${path.map((link) => `${link.from} to ${link.to}, ${link.words.map((pair) => pair.join(" ")).join(", ")}`).join("; ")}`;
  }

  #hop(svg, link, back, from, to, delay, isShort) {
    const height = arcOf(delay);
    const way = drawn("path", { class: height ? "air" : "wire" });
    svg.append(way);
    const length = Math.hypot(to[0] - from[0], 1.6 * height);
    const slots = !isShort ? Math.round(length * SLOTS_PER_PX) : 0;
    const dots = drawn("g");
    const forward = Array.from({ length: slots }, () => drawn("circle", { r: 2.6, class: "data" }));
    const backward = Array.from({ length: slots }, () => drawn("circle", { r: 1.5, class: "ack" }));
    dots.append(...backward, ...forward);
    svg.append(dots);
    const craft = drawn("g", { class: "satellite" }, drawn("rect", { x: -4, y: -4, width: 8, height: 8 }), drawn("path", { d: "M-14,-3.5h7v7h-7zM7,-3.5h7v7h-7z" }));
    const words = `${rateOf(link)}, ${delayWords(link)}`.replace(/^, |, $/g, "");
    const said = drawn("text", { class: "says", x: (from[0] + to[0]) / 2, "text-anchor": "middle" }, words);
    if (!isShort && height) svg.append(craft);
    if (!isShort) svg.append(said);
    const room_px = to[0] - from[0];
    const words_px = LETTER_PX * (words.length + (link.delays ? 8 : 0));
    const isInside = height > ROOMY_PX && !link.delays && words_px < INSIDE * room_px;
    const isAbove = !isInside && words_px > room_px - LETTER_PX * (link.from.length / 2 + link.to.length) - 12;
    const hop = { link, back, from, to, way, craft, said, isAbove, height, delay: Number.isNaN(delay) ? ARCS.at(-1)[0] : delay, mean: delay, forward, backward, slots, bucket: null };
    this.#bend(hop, height);
    if (!isAbove) said.setAttribute("y", isInside ? this.#ground - height + 50 : this.#ground + 24);
    if (!isShort) hop.bucket = this.#bucket(svg, from, limitOf(link));
    return hop;
  }

  // Gives a hop's arc its height, and the satellite its place on it.
  #bend(hop, height) {
    const { from, to, way, craft, said, isAbove } = hop;
    const middle = [(from[0] + to[0]) / 2, this.#ground - 2 * height];
    const lower = [middle[0], middle[1] + (height ? 26 : -16)];
    Object.assign(hop, { height, middle, lower });
    way.setAttribute("d", `M${from}Q${middle} ${to}`);
    craft.setAttribute("transform", `translate(${middle[0]} ${this.#ground - height})`);
    if (isAbove) said.setAttribute("y", this.#ground - height - 14);
  }

  // Where a delay changes, so does the arc: a longer path is higher.
  #move(hop, time, passed) {
    const { link, mean } = hop;
    const delay = delayAt(link.delays, time);
    hop.said.textContent = `${rateOf(link)}, ${delay === null ? "no path" : milliseconds(delay)}`;
    hop.craft.setAttribute("visibility", delay === null ? "hidden" : "visible");
    if (delay === null) return;
    hop.delay = delay;
    const bend = Math.max(-MOST_BEND, Math.min(MOST_BEND, delay / mean - 1));
    const height = arcOf(mean) * (1 + bend);
    const step = passed ? Math.min(1, passed / BEND_MS) : 1;
    if (Math.abs(height - hop.height) > 0.1) this.#bend(hop, hop.height + step * (height - hop.height));
  }

  #bucket(svg, [x], limit) {
    const { width, height, up } = BUCKET;
    const bottom = this.#ground - up;
    const fill = drawn("rect", { class: "fill", x: x - width / 2, width, y: bottom, height: 0 });
    // At the edge of the picture there is room above it only.
    const words = x < EDGE_PX ? drawn("text", { class: "says", x: x - width / 2, y: bottom - height - 10 }) : drawn("text", { class: "says", x: x - width / 2 - 8, y: bottom - height / 2 + 4, "text-anchor": "end" });
    const box = drawn("path", { class: "bucket", d: `M${x - width / 2},${bottom - height}V${bottom}H${x + width / 2}V${bottom - height}` });
    svg.append(fill, box, words, drawn("path", { class: "wire", d: `M${x},${bottom}V${this.#ground - 6}` }));
    return { fill, words, bottom, limit };
  }

  // Draws an instant of the run; `passed` is the time on the screen since the last, in ms.
  at(time, passed) {
    if (!this.#run || !this.#hops.length) return;
    this.#time = time;
    this.#phase += passed / CROSSING_MS;
    for (const hop of this.#hops) {
      if (hop.link.delays && hop.slots) this.#move(hop, time, passed);
      this.#queue(hop, time);
      if (hop.slots) this.#pipe(hop, time);
    }
    this.#wordsAt(time);
    this.#fall(time, passed);
  }

  #queue({ link, bucket }, time) {
    const trace = this.#run.links.get(link.name);
    if (!bucket || !trace) return;
    const bytes = valueAt({ t: trace.t, v: trace.queue_bytes }, time) ?? 0;
    const most = bucket.limit || (bucket.most ??= largest(trace.queue_bytes, 1));
    const height = BUCKET.height * Math.min(1, bytes / most);
    bucket.fill.setAttribute("y", bucket.bottom - height);
    bucket.fill.setAttribute("height", height);
    bucket.words.textContent = bytes >= 1 ? size(bytes) : "empty";
  }

  // Packets stand in slots that move; a slot is taken as often as the link was busy when its packets left the queue.
  #pipe(hop, time) {
    const { forward, backward, slots, delay, from, to, middle, lower } = hop;
    const step = this.#phase * slots;
    const whole = Math.floor(step);
    const [rate, up] = [this.#run.links.get(hop.link.name), hop.back && this.#run.links.get(hop.back.name)];
    const most = rate ? valueAt({ t: rate.t, v: rate.rate_mbps }, time) || 1 : 1;
    const flows = this.#lines.map(({ trace, look }) => ({ trace, look }));
    for (let slot = 0; slot < slots; slot += 1) {
      const share = (slot + step - whole) / slots;
      const id = slot - whole;
      const chance = noise(id);
      // What is here arrives at the end of the hop after the rest of the delay.
      let taken = null, sum = 0;
      for (const { trace, look } of flows) {
        sum += (valueAt({ t: trace.t, v: trace.goodput_mbps }, time + (1 - share) * delay / 1e3) ?? 0) / most;
        if (!taken && chance < sum) taken = look;
      }
      const dot = forward[slot];
      place(dot, taken, from, middle, to, share);
      if (taken) dot.setAttribute("class", `data ${taken.class}`);
      const acks = up ? ackShare(up, time + (1 - share) * delay / 1e3) : 0;
      place(backward[slot], noise(id + 7919) < acks, to, lower, from, share);
    }
  }

  #wordsAt(time) {
    const line = this.#lines[0];
    const window = line && valueAt({ t: line.window.t, v: line.window.cwnd_packets }, time);
    const rtt = line && valueAt({ t: line.window.t, v: line.window.rtt_ms }, time);
    const said = [`${time.toFixed(1)} s`, this.#lines.length === 1 && window ? `window ${three(window)} packets` : "", rtt ? `round trip ${milliseconds(rtt)}` : ""];
    this.#state.textContent = said.filter(Boolean).join(" · ");
  }

  // Lost packets fall out of the picture: at the queue where it was full, at the satellite where the air lost them.
  #fall(time, passed) {
    const columns = this.#run.result?.columns.links?.columns;
    this.#clock ??= time;
    if (!passed) this.#waiting.clear();
    if (columns && passed > 0 && time > this.#clock && time - this.#clock < 2) {
      for (const hop of this.#hops.filter(({ slots }) => slots)) {
        const lost = count(columns, hop.link.name, this.#clock, time);
        const top = mixed(mixed(hop.from, hop.middle, 0.5), mixed(hop.middle, hop.to, 0.5), 0.5);
        this.#lose(`${hop.link.name} queue`, [hop.from[0] + 4, this.#ground - BUCKET.up - BUCKET.height - 2], lost.queue);
        this.#lose(`${hop.link.name} air`, [top[0] + 30, top[1] + 6], lost.air);
      }
    }
    this.#clock = time;
    this.#falling = this.#falling.filter((one) => {
      one.age += passed;
      const share = one.age / CROSS_MS;
      one.mark.setAttribute("transform", `translate(${one.x + 14 * share} ${one.y + 34 * share * share})`);
      one.mark.setAttribute("opacity", String(1 - share));
      if (share >= 1) one.mark.remove();
      return share < 1;
    });
  }

  // One mark falls from a place at a time; those that are lost meanwhile are counted on the next.
  #lose(from, [x, y], lost) {
    const count = (this.#waiting.get(from) ?? 0) + lost;
    const isFalling = this.#falling.some((one) => one.from === from);
    this.#waiting.set(from, isFalling ? count : 0);
    if (!count || isFalling) return;
    const mark = drawn("g", {}, drawn("path", { d: "M-4,-4L4,4M4,-4L-4,4" }));
    if (count > 1) mark.append(drawn("text", { x: 8, y: 4 }, three(count)));
    this.#falls.append(mark);
    this.#falling.push({ mark, x, y, from, age: 0 });
  }
}

function place(dot, isTaken, from, control, to, share) {
  if (!isTaken) {
    if (dot.getAttribute("visibility") !== "hidden") dot.setAttribute("visibility", "hidden");
    return;
  }
  const [x, y] = mixed(mixed(from, control, share), mixed(control, to, share), share);
  dot.setAttribute("visibility", "visible");
  dot.setAttribute("cx", x.toFixed(1));
  dot.setAttribute("cy", y.toFixed(1));
}

function ackShare(trace, time) {
  trace.most ??= 0;
  if (trace.seen !== trace.t.length) {
    trace.seen = trace.t.length;
    trace.most = largest(trace.delivered_mbps, 1e-9);
  }
  return (valueAt({ t: trace.t, v: trace.delivered_mbps }, time) ?? 0) / trace.most;
}

function count(columns, link, after, until) {
  const lost = { queue: 0, air: 0 };
  for (let row = 0; row < columns.t_s.length; row += 1) {
    if (columns.t_s[row] > after && columns.t_s[row] <= until && columns.link[row] === link) {
      lost.queue += Number(columns.dropped_queue_full_packets[row]) + Number(columns.dropped_aqm_packets[row]);
      lost.air += Number(columns.lost_packets[row]);
    }
  }
  return lost;
}
