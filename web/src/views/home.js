// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The start page: three ways to begin, what runs, and the latest results.

import { when } from "../times.js";
import { drawn, element } from "../words.js";
import { inShort, small, thumbnail, titleOf } from "./glance.js";
import { View, address } from "./parts.js";
import { Running } from "./running.js";

const LATEST = 5;
const PAPER = "claypool-2021";

function picture(...parts) {
  return drawn("svg", { viewBox: "0 0 200 72", "aria-hidden": "true" }, ...parts);
}

const GRID = { class: "grid", d: "M8 12H192M8 36H192M8 60H192" };

// Intervals of four algorithms, each with what was published.
function intervals() {
  const parts = [[40, 24, 50, 37], [80, 34, 58, 46], [120, 12, 32, 22], [160, 30, 62, 46]].map(([x, top, bottom, mean], number) => drawn("g", { class: `is-${number}` },
    drawn("path", { d: `M${x} ${top}V${bottom}` }), drawn("circle", { cx: x, cy: mean, r: 4 })));
  return picture(drawn("path", GRID), ...parts, drawn("g", { class: "mark-published" }, drawn("path", { d: "M33 34h14M73 45h14M113 24h14M153 42h14" })));
}

function satellite() {
  return picture(drawn("path", { class: "ink dashed", d: "M36 58Q100 -22 164 58" }), ...[36, 164].map((cx) => drawn("circle", { class: "hollow", cx, cy: 58, r: 6 })),
    drawn("g", { class: "hollow" }, drawn("rect", { x: 95, y: 13, width: 10, height: 10, rx: 2 }), drawn("path", { d: "M82 14.500h9v7h-9zM109 14.500h9v7h-9z" })));
}

function saw() {
  return picture(drawn("path", GRID), drawn("path", { class: "line is-0", d: "M8 62C24 60 34 34 44 16C60 14 76 14 86 12V34C100 22 122 14 138 12V34C152 22 174 14 192 12" }));
}

function start(href, drawing, title, text, action, note = "") {
  return element("a", { className: "start", href }, drawing, element("h2", {}, title), element("p", {}, text, note), element("span", { className: "button" }, action));
}

function starts(takes) {
  return element("div", { className: "starts" },
    start(`#/studies/${PAPER}`, intervals(), "Reproduce a paper", "Published measurements beside the same downloads, simulated.", `Open ${PAPER}`, takes),
    start("#/links", satellite(), "Compare on your link", "Choose a link, from geostationary to Starlink, and see which congestion control uses it best.", "Choose a link"),
    start("#/algorithms", saw(), "Test your algorithm", "Write it as one C file, and run it beside the others, in the simulator and in the kernel.", "See how"));
}

// Shows the newest results that are complete; returns how many there are in all.
async function latest(place, page, count) {
  const { results, count: all } = await page.server.get("results");
  const shown = results.filter(({ state }) => state === "finished").slice(0, count);
  place.replaceChildren(...(shown.length ? [element("ul", { className: "latest" }, ...shown.map((one) => item(page, one)))] : [empty()]));
  return all;
}

function item(page, one) {
  return element("li", {}, element("a", { className: "card-link", href: address(`results/${one.name}`) },
    thumbnail(page, one),
    element("div", {}, element("h3", {}, ...small(one), titleOf(one)),
      element("p", { className: "finding" }, ...inShort(one)),
      element("p", { className: "note" }, `${one.name} · `, when(one.at)))));
}

function empty() {
  return element("p", { className: "empty" }, "No results yet. Each run of a study leaves its tables, report and figures here. ", element("a", { href: address("studies") }, "Run a study"));
}

export class Home extends View {
  #running = null;

  open(place, page) {
    const { title = "", about = "", person } = page.server.me;
    page.title(title || "Start");
    const takes = element("span", { className: "note" });
    const head = person ? [element("h1", { className: "unseen" }, "Start"), starts(takes)] : [element("div", { className: "hero" }, element("h1", {}, title), element("p", { className: "question" }, about))];
    const results = element("div");
    const all = element("a", { className: "note", href: "#/results", hidden: true });
    const running = element("div");
    const live = person ? [element("section", {}, element("div", { className: "between" }, element("h2", {}, "Running"), element("a", { className: "note", href: "#/queue" }, "Queue")), running)] : [];
    const tab = page.pool ? [element("p", { className: "note" }, "A first look takes no study: ", element("a", { href: "#/try" }, "try a link here"), ", simulated in this tab, or follow ", element("a", { href: "#/lessons" }, "ten short lessons"), ".")] : [];
    place.replaceChildren(...head, ...tab, ...live,
      element("section", {}, element("div", { className: "between" }, element("h2", {}, person ? "Latest results" : "Results"), all), results));
    if (person) this.#running = new Running(running, page);
    if (person) page.server.get(`studies/${PAPER}`).then(({ outlook }) => { takes.textContent = ` ${outlook.all}.`; });
    this.#latest(results, all, page);
  }

  close() {
    super.close();
    this.#running?.close();
  }

  async #latest(place, all, page) {
    const count = await latest(place, page, LATEST);
    all.textContent = `All ${count}`;
    all.hidden = !count;
  }
}
