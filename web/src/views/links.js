// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The link profiles by orbit, each with its rate over a minute, its delays and its loss.

import { drawn, element, milliseconds, three } from "../words.js";
import { View, table } from "./parts.js";

const [WIDTH, HEIGHT] = [100, 24];

// Heads of the columns with their classes.
const HEAD = [["Link"], ["Rate over a minute", "words"], ["Down, up (Mbit/s)"], ["Delays, one way", "words"], ["Round trip"], ["Loss", "words"]];

// A strip with values evenly over its width, from 0.
function strip(values, label, className) {
  const most = Math.max(...values) || 1;
  const points = values.map((value, at) => `${(at / Math.max(1, values.length - 1) * WIDTH).toFixed(1)},${(HEIGHT - 1 - value / most * (HEIGHT - 3)).toFixed(1)}`);
  return drawn("svg", { class: `strip ${className}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    drawn("path", { class: "ground", d: `M0 ${HEIGHT - 0.5}H${WIDTH}` }), drawn("polyline", { points: points.join(" ") }));
}

// The bars of a histogram as a line of steps.
function bars(counts) {
  return [0, ...counts.flatMap((count) => [count, count]), 0];
}

function delays(one) {
  if (one.delay_ms === null) return [];
  const [least, most] = one.delay_ms;
  const range = most - least < 0.5 ? milliseconds(least) : `${milliseconds(least)} to ${milliseconds(most)}`;
  return [strip(bars(one.delays), `Distribution of the delays of ${one.name}`, "filled"), element("div", { className: "note" }, range)];
}

function row(one) {
  const cell = (number, className, ...content) => {
    const made = element("td", { className }, ...content);
    made.dataset.label = HEAD[number][0];
    return made;
  };
  return element("tr", {},
    element("th", { scope: "row" }, element("a", { href: `#/links/${encodeURIComponent(one.name)}` }, one.name), element("div", { className: "note" }, one.title)),
    cell(1, "words", ...(one.rate_mbps.length ? [strip(one.rate_mbps, `Rate of ${one.name} over a minute, from 0`, "")] : [])),
    cell(2, "", [one.down, one.up].map((rate) => typeof rate === "number" ? three(rate) : rate || "–").join(", ")),
    cell(3, "words", ...delays(one)),
    cell(4, "", one.rtt_ms === null ? "–" : milliseconds(one.rtt_ms)),
    cell(5, "words long", one.loss));
}

function section(title, links) {
  return element("section", {}, element("h2", {}, title), table(`Links, ${title.toLowerCase()}`, HEAD, links.map(row), "links"));
}

export class Links extends View {
  async open(place, page) {
    page.title("Links");
    const { orbits, links } = await page.server.get("links");
    const sections = Object.entries(orbits).map(([orbit, title]) => [title, links.filter((one) => one.orbit === orbit)]);
    place.replaceChildren(
      element("div", { className: "head" }, element("h1", {}, "Links"),
        element("p", {}, "Profiles of satellite links as data. A study takes one by its name: ", element("code", {}, 'profile = "geo"'), ".")),
      ...sections.filter(([, found]) => found.length).map(([title, found]) => section(title, found)));
  }
}
