// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A table of results, a part at a time.

import { element } from "../words.js";
import { View, address, table as tableOf } from "./parts.js";

export class Rows extends View {
  async open(place, page, { path: [, name], query }) {
    const table = query.get("table") ?? "flows";
    page.title(`${table} of ${name}`);
    const { first, count, columns, rows } = await page.server.get(`results/${name}/tables/${table}`, { first: query.get("first") });
    const classes = columns.map(({ is_number: isNumber }) => isNumber ? "" : "words");
    const body = rows.map((row) => element("tr", {}, ...row.map((text, at) => element("td", { className: classes[at] }, text ?? "–"))));
    const region = tableOf(`Rows of ${table}`, columns.map((column, at) => [column.name, classes[at]]), body);
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
