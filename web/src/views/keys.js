// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The keys of each table of a study, with default and meaning: what messages of the editor lead to.

import { coded, element } from "../words.js";
import { address, chip } from "./parts.js";

function row({ key, default: usual, text, values }) {
  const words = values.length && !text.includes(values[0])
    ? [" Can be ", ...values.flatMap((value, at) => [...(at ? [", "] : []), element("code", {}, value)]), "."] : [];
  return element("tr", {}, element("th", { scope: "row" }, element("code", {}, key)),
    element("td", { className: "words" }, ...(usual ? [element("code", {}, usual)] : [])),
    element("td", { className: "words long" }, ...coded(text), ...words));
}

function section([table, keys]) {
  const title = table || "the study";
  const heads = [["Key", ""], ["Default", "words"], ["Meaning", "words"]].map(([text, className]) => element("th", { scope: "col", className }, text));
  const whole = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...keys.map(row)));
  return element("section", { id: `keys-${table || "study"}`, ariaLabel: `Keys of ${title}` },
    element("h2", {}, table ? element("code", {}, table) : "The study"),
    element("div", { className: "scroll", role: "region", ariaLabel: `Keys of ${title}, table`, tabIndex: 0 }, whole));
}

export class Keys {
  #isClosed = false;

  constructor(place, page, route) {
    page.title("Keys of studies");
    this.#open(place, page, route.query.get("table"));
  }

  close() {
    this.#isClosed = true;
  }

  async #open(place, page, chosen) {
    const tables = await page.server.get("completion");
    if (this.#isClosed) return;
    const chips = Object.keys(tables).map((table) => chip(table || "the study", address("keys", { table }), table === chosen));
    place.replaceChildren(
      element("h1", {}, "Keys of studies"),
      element("p", {}, "A study is one TOML file. Quantities are text with a unit: ", element("code", {}, '"290 ms"'), ", ", element("code", {}, '"50 Mbit/s"'), ", ", element("code", {}, '"4 MB"'), ", ", element("code", {}, '"0.1 %"'), "; counts are plain numbers."),
      element("nav", { className: "chips", ariaLabel: "Tables" }, ...chips),
      ...Object.entries(tables).map(section));
    if (chosen !== null) document.getElementById(`keys-${chosen || "study"}`)?.scrollIntoView();
  }
}
