// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Two results held against each other: one sentence, what differs in how they were made, and all means.

import { element } from "../words.js";
import { View, address, table } from "./parts.js";

export class Compared extends View {
  async open(place, page, { path: [, key] }) {
    page.title("Comparison");
    const found = await page.server.get(`compared/${key}`);
    const [answer, ...others] = found.said;
    const names = found.results.map(({ letter, name, made }) => element("li", {}, element("strong", {}, `${letter}: `), element("a", { href: address(`results/${name}`) }, name), element("span", { className: "note" }, ` ${made}`)));
    place.replaceChildren(
      element("p", { className: "back" }, element("a", { href: address("results") }, "Results")),
      element("div", { className: "head" }, element("h1", {}, `${found.results[0].study}: ${found.results.map(({ letter }) => letter).join(" beside ")}`)),
      element("p", { className: "finding-of-two" }, answer), ...others.map((text) => element("p", { className: "caution" }, text)),
      element("ul", { className: "plain" }, ...names),
      overlay(found.results), ...cells(found), ...changes(found),
      element("ul", { className: "short" }, ...found.remarks.map((text) => element("li", {}, text))));
  }
}

// The first runs of both in one graph.
function overlay([a, b]) {
  const run = ["0", `${b.name}/0`];
  return element("p", { className: "actions" }, element("a", { className: "button", href: address(`results/${a.name}/graphs`, { run }) }, "Both over time"));
}

function cells({ cells: all, results, confidence }) {
  const shown = all.filter((one) => !one.is_same);
  if (!shown.length) return [];
  const isTested = shown.some(({ words }) => words.interval);
  const [{ letter: a }, { letter: b }] = results;
  // On a telephone the columns of `wide` go.
  const wide = (text) => [text, "wide"];
  const heads = [["Flows", "words"], ["Quantity", "words"], [a], [b], wide(`${b} − ${a}`), ["%"], ...(isTested ? [wide(`${confidence} interval`), ["p"]] : []), wide("flows")];
  const rows = shown.map(({ words, is_clear: isClear }, at) => {
    const isFirst = at === 0 || shown[at - 1].words.group !== words.group;
    const name = element("th", { scope: "row", className: isFirst ? "" : "again" }, words.group);
    const texts = [[words.a], [words.b], wide(words.difference), [words.percent], ...(isTested ? [wide(words.interval), [words.p]] : []), wide(words.size)];
    return element("tr", { className: isClear ? "clear" : "" }, name, element("td", { className: "words" }, words.quantity), ...texts.map(([text, className = ""]) => element("td", { className }, text)));
  });
  return [element("h2", {}, "Mean by mean"), table("Means of both, and their differences", heads, rows, "compared")];
}

function changes({ changes: found, results }) {
  const title = element("h2", {}, "How they were made");
  if (!found.length) return [title, element("p", {}, "Study, settings, size, engine, seeds and versions are the same.")];
  const rows = found.map(({ what, values }) => element("tr", {}, element("th", { scope: "row" }, what), ...values.map((text) => element("td", { className: "words" }, text))));
  return [title, table("What differs in how they were made", [["What"], ...results.map(({ letter }) => [letter, "words"])], rows, "narrow")];
}
