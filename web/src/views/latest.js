// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The latest results with what they found, for the start page.

import { when } from "../times.js";
import { element } from "../words.js";
import { headline, small, thumbnail, titleOf } from "./glance.js";
import { address } from "./parts.js";

// Shows the newest results that are complete; returns how many there are in all.
export async function latest(place, page, count) {
  const { results, count: all } = await page.server.get("results");
  const shown = results.filter(({ state }) => state === "finished").slice(0, count);
  place.replaceChildren(...(shown.length ? [element("ul", { className: "latest" }, ...shown.map((one) => item(page, one)))] : [empty()]));
  return all;
}

function item(page, one) {
  const [sentence] = one.finding?.sentences ?? [];
  return element("li", {}, element("a", { className: "card-link", href: address(`results/${one.name}`) },
    thumbnail(page, one),
    element("div", {}, element("h3", {}, ...small(one), titleOf(one)),
      element("p", { className: "finding" }, ...(sentence ? [sentence] : headline(one))),
      element("p", { className: "note" }, `${one.name} · `, when(one.at)))));
}

function empty() {
  return element("p", { className: "empty" }, "No results yet. Each run of a study leaves its tables, report and figures here. ", element("a", { href: address("studies") }, "Run a study"));
}
