// SPDX-License-Identifier: GPL-2.0-only OR MIT
// One link profile: its rate and delay over a minute without traffic, its source and its text.

import { packed } from "../address.js";
import { PLAIN, swatch } from "../looks.js";
import { Panels } from "../panels.js";
import { over } from "../study.js";
import { element } from "../words.js";
import { View } from "./parts.js";

const SIDES = { down: { label: "towards the user", look: PLAIN }, up: { label: "from the user", look: { class: "accent", variable: "--accent", dash: [] } } };
const QUANTITIES = { rate_mbps: ["Rate", "Mbit/s"], delay_ms: ["One-way delay", "ms"] };

function panels({ t_s: t, ...sides }) {
  return Object.entries(QUANTITIES).map(([quantity, [title, unit]]) => {
    const traces = Object.entries(SIDES).map(([side, { label, look }]) => ({ t, v: sides[side][quantity].map((value) => value ?? NaN), look, label }));
    return { title, unit, traces: traces.filter(({ v }) => v.some((value) => !Number.isNaN(value))) };
  }).filter(({ traces }) => traces.length);
}

export class Link extends View {
  async open(place, page, { path: [, name] }) {
    page.title(name);
    const found = await page.server.get(`links/${name}`);
    const study = await packed(over(name, ["cubic", "bbr"], "30 s"));
    if (this.isClosed) return;
    const charts = element("div", { className: "panels brief", role: "group", ariaLabel: `Rate and delay of ${name} over a minute without traffic` });
    const actions = element("p", { className: "actions" });
    if (page.pool) actions.append(element("a", { className: "button main", href: `#study=${study}` }, "Try it here"));
    if (page.server.may("run")) actions.append(element("a", { className: "button", href: `#/edit?link=${encodeURIComponent(name)}` }, "Study over this link"));
    const legend = element("ul", { className: "legend" }, ...Object.values(SIDES).map(({ label, look }) => element("li", {}, swatch(look), label)));
    place.replaceChildren(
      element("p", { className: "back" }, element("a", { href: "#/links" }, "Links")),
      element("div", { className: "head" }, element("h1", {}, name), element("p", {}, found.title)),
      actions,
      ...(found.over_time ? [legend, charts] : [element("p", { className: "empty" }, "This profile replays a recording of its user's, and has no picture.")]),
      element("p", { className: "note" }, `Source: ${found.source}`),
      element("details", {}, element("summary", {}, "The profile"), element("pre", { tabIndex: 0, ariaLabel: "Profile" }, found.text)));
    if (found.over_time) new Panels(charts).show(panels(found.over_time), found.over_time.t_s.at(-1));
  }
}
