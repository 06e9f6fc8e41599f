// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The keys of each table of a study, with default and meaning: what messages of the editor lead to.

import { coded, element } from "../words.js";
import { View, address, chip, table as tableOf } from "./parts.js";

function row({ key, default: usual, text, values }) {
  const words = values.length && !text.includes(values[0])
    ? [" Can be ", ...values.flatMap((value, at) => [...(at ? [", "] : []), element("code", {}, value)]), "."] : [];
  return element("tr", {}, element("th", { scope: "row" }, element("code", {}, key)),
    element("td", { className: "words" }, ...(usual ? [element("code", {}, usual)] : [])),
    element("td", { className: "words long" }, ...coded(text), ...words));
}

function section([table, keys]) {
  const title = table || "the study";
  return element("section", { id: `keys-${table || "study"}`, ariaLabel: `Keys of ${title}` },
    element("h2", {}, table ? element("code", {}, table) : "The study"),
    tableOf(`Keys of ${title}, table`, [["Key"], ["Default", "words"], ["Meaning", "words"]], keys.map(row)));
}

export class Keys extends View {
  async open(place, page, route) {
    page.title("Keys of studies");
    const chosen = route.query.get("table");
    const tables = await page.server.get("completion");
    const chips = Object.keys(tables).map((table) => chip(table || "the study", address("keys", { table }), table === chosen));
    place.replaceChildren(
      element("h1", {}, "Keys of studies"),
      element("p", {}, "A study is one TOML file. Quantities are text with a unit: ", element("code", {}, '"290 ms"'), ", ", element("code", {}, '"50 Mbit/s"'), ", ", element("code", {}, '"4 MB"'), ", ", element("code", {}, '"0.1 %"'), "; counts are plain numbers."),
      element("nav", { className: "chips", ariaLabel: "Tables" }, ...chips),
      ...Object.entries(tables).map(section));
    if (chosen !== null) document.getElementById(`keys-${chosen || "study"}`)?.scrollIntoView();
  }
}
