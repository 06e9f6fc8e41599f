// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A table of results, a part at a time.

import { element } from "../words.js";
import { address } from "./parts.js";

export class Rows {
  #isClosed = false;

  constructor(place, page, route) {
    this.#open(place, page, route.path[1], route.query);
  }

  close() {
    this.#isClosed = true;
  }

  async #open(place, page, name, query) {
    const table = query.get("table") ?? "flows";
    page.title(`${table} of ${name}`);
    const { first, count, columns, rows } = await page.server.get(`results/${name}/tables/${table}`, { first: query.get("first") });
    if (this.#isClosed) return;
    const classes = columns.map(({ is_number: isNumber }) => isNumber ? "" : "words");
    const head = element("tr", {}, ...columns.map((column, at) => element("th", { scope: "col", className: classes[at] }, column.name)));
    const body = rows.map((row) => element("tr", {}, ...row.map((text, at) => element("td", { className: classes[at] }, text ?? "–"))));
    const region = element("div", { className: "scroll", role: "region", tabIndex: 0, ariaLabel: `Rows of ${table}` },
      element("table", { ariaLabel: table }, element("thead", {}, head), element("tbody", {}, ...body)));
    const link = (begin, text) => element("a", { href: address(`results/${name}/rows`, { table, first: begin }) }, text);
    const more = [
      ...(first > 0 ? [link(0, "First"), link(Math.max(0, first - rows.length || first - 100), "Previous")] : []),
      element("span", {}, `rows ${(first + 1).toLocaleString("en")} to ${(first + rows.length).toLocaleString("en")} of ${count.toLocaleString("en")}`),
      ...(first + rows.length < count ? [link(first + rows.length, "Next")] : []),
    ];
    place.replaceChildren(
      element("p", { className: "back" }, element("a", { href: address(`results/${name}`) }, name)),
      element("div", { className: "head" }, element("h1", {}, `Table ${table}`),
        element("p", {}, "The whole table: ", ...["parquet", "csv"].flatMap((kind, at) => [at ? ", " : "", element("a", { href: page.server.file(`results/${name}/tables/${table}.${kind}`), download: "" }, kind === "csv" ? "CSV" : "Parquet")]), ".")),
      region, element("nav", { className: "pages", ariaLabel: "Parts" }, ...more));
  }
}
