// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The list of results: searched, narrowed, sorted, and two of them chosen to be compared.

import { when } from "../times.js";
import { element, three } from "../words.js";
import { inShort, small, spark, titleOf } from "./glance.js";
import { View, address, busy, chip, pagesOf } from "./parts.js";

const WANTED = 2;
const MOST_TRIES = 20;
const AGAIN_MS = 300;
const FILTERS = ["engine", "who", "tag"];

export class Results extends View {
  #place;
  #page;
  #query;

  async open(place, page, route) {
    this.#place = place;
    this.#page = page;
    this.#query = Object.fromEntries(route.query);
    page.title("Results");
    await this.#read();
  }

  // A server says in time what it has read; the findings of the others it knows soon. Who is at the list already keeps it.
  async #read(tries = MOST_TRIES) {
    const found = await this.#page.server.get("results", this.#query);
    const isInUse = this.#place.contains(document.activeElement) || this.#place.querySelector("input:checked");
    if (this.isClosed || isInUse) return;
    this.#show(this.#page.server.kind === "beside" ? narrowed(found, this.#query) : found);
    if (tries && found.results.some(({ state, finding }) => state === "finished" && !finding)) setTimeout(() => this.#read(tries - 1), AGAIN_MS * (MOST_TRIES - tries + 1));
  }

  #at(changed) {
    return address("results", { ...this.#query, page: "", ...changed });
  }

  #show(found) {
    const isNarrowed = ["q", ...FILTERS].some((name) => this.#query[name]);
    this.#place.replaceChildren(this.#head(found), this.#filters(found), ...(found.results.length ? this.#list(found) : [this.#empty(isNarrowed)]));
  }

  #head({ about }) {
    const input = element("input", { type: "search", name: "q", value: this.#query.q ?? "", placeholder: "Search" });
    const label = element("label", {}, element("span", { className: "unseen" }, "Search names, studies, settings, tags and notes"), input);
    const form = element("form", { className: "search" }, label, element("button", {}, "Search"));
    form.setAttribute("role", "search");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#page.go(this.#at({ q: input.value.trim() }));
    });
    return element("div", { className: "head" }, element("h1", {}, "Results"), form, ...(about ? [element("p", {}, about)] : []));
  }

  #filters({ engines, people, tags }) {
    const choices = (name, label, values) => {
      const chosen = this.#query[name];
      if (values.length < 2 && !chosen) return [];
      const items = values.map(([value, text]) => element("li", {}, chip(text, this.#at({ [name]: chosen === value ? "" : value }), chosen === value)));
      return [element("ul", { className: "chips", ariaLabel: label }, ...items)];
    };
    const plain = (values) => values.map((value) => [value, value]);
    return element("div", { className: "filters" },
      ...choices("engine", "Engines", plain(engines)),
      ...choices("who", "People", people.map(({ name, title }) => [name, title])),
      ...choices("tag", "Tags", plain(tags)));
  }

  #empty(isNarrowed) {
    const [said, path, text] = isNarrowed
      ? ["No results match. ", "results", "Show all"]
      : ["No results yet. Each run of a study leaves its tables, report and figures here. ", "studies", "Run a study"];
    return element("p", { className: "empty" }, said, element("a", { href: address(path) }, text));
  }

  #list({ results, page, pages, people }) {
    const mayCompare = this.#page.server.may("run");
    const hasPeople = people.length > 1;
    const hasTags = results.some(({ tags }) => tags.length);
    const columns = [
      ...(mayCompare ? [["Compare", null]] : []),
      ["Study", (one) => titleOf(one).toLowerCase()], ["Found", null], ["Over time", null],
      ["Runs", (one) => one.runs], ["Engine", (one) => one.engine],
      ...(hasPeople ? [["Who", (one) => one.owner]] : []), ["When", (one) => one.at], ...(hasTags ? [["Tags", (one) => one.tags.join(" ")]] : []),
    ];
    const body = element("tbody");
    const rows = results.map((one) => [one, this.#row(one, mayCompare, hasPeople, hasTags)]);
    body.append(...rows.map(([, row]) => row));
    const table = element("table", { className: "sortable stacked", ariaLabel: "Results" }, this.#heads(columns, rows, body), body);
    const region = element("div", { className: "scroll", tabIndex: 0, ariaLabel: "Results" }, table);
    region.setAttribute("role", "region");
    return [region, ...(mayCompare ? [this.#compare(table)] : []), ...pagesOf({ page, pages }, (number) => this.#at({ page: number }))];
  }

  #heads(columns, rows, body) {
    const row = element("tr");
    for (const [text, keyOf] of columns) {
      if (!keyOf) {
        row.append(text === "Compare" ? element("td", {}, element("span", { className: "unseen" }, text)) : element("th", { scope: "col", className: "words" }, text));
        continue;
      }
      const head = element("th", { scope: "col", className: text === "Runs" ? "" : "words" });
      const button = element("button", { type: "button", className: "sort" }, text);
      const sort = (order) => {
        for (const each of row.cells) each.removeAttribute("aria-sort");
        head.ariaSort = order;
        const sorted = rows.map(([one, each]) => [keyOf(one), each]).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (order === "descending" ? -1 : 1));
        body.append(...sorted.map(([, each]) => each));
      };
      button.addEventListener("click", () => {
        sort(head.ariaSort === "ascending" || (!head.ariaSort && typeof keyOf(rows[0][0]) === "number") ? "descending" : "ascending");
        Object.assign(this.#query, { sort: text, order: head.ariaSort });
        this.#page.replace(this.#at({ page: this.#query.page }));
      });
      if (this.#query.sort === text) sort(this.#query.order === "descending" ? "descending" : "ascending");
      head.append(button);
      row.append(head);
    }
    return element("thead", {}, row);
  }

  #row(one, mayCompare, hasPeople, hasTags) {
    const isComplete = one.state === "finished";
    const box = element("input", { type: "checkbox", value: one.name, ariaLabel: `Compare ${titleOf(one)}, ${one.name}` });
    box.dataset.study = one.study;
    const name = element("th", { scope: "row" }, ...small(one), element("a", { href: address(`results/${one.name}`) }, titleOf(one)),
      element("div", { className: "note" }, one.name, ...(one.settings.length ? [element("br"), one.settings.join(", ")] : [])));
    const said = isComplete ? inShort(one) : [element("span", { className: one.state === "damaged" ? "bad" : "note" }, one.state)];
    const picture = isComplete ? spark(one) : null;
    const cell = (label, className, ...content) => {
      const made = element("td", { className }, ...content);
      made.dataset.head = label;
      return made;
    };
    return element("tr", {},
      ...(mayCompare ? [element("td", {}, ...(isComplete ? [box] : []))] : []), name,
      cell("Found", "words means", ...said), cell("Over time", "words", ...(picture ? [picture] : [])),
      cell("Runs", "", three(one.runs)), cell("Engine", "words", element("span", { className: "chip" }, one.engine)),
      ...(hasPeople ? [cell("Who", "words", one.owner)] : []), cell("When", "words", one.at ? when(one.at) : ""), ...(hasTags ? [cell("Tags", "words", one.tags.join(" "))] : []));
  }

  #compare(table) {
    const button = element("button", { type: "button", className: "main", disabled: true }, "Compare");
    const said = element("span", { className: "note", role: "status" });
    const ticked = () => [...table.querySelectorAll("input:checked")];
    const show = () => {
      const chosen = ticked();
      const areAlike = new Set(chosen.map((one) => one.dataset.study)).size < 2;
      button.disabled = chosen.length !== WANTED || !areAlike;
      said.textContent = !areAlike ? "These are of different studies."
        : chosen.length === WANTED ? "The older one becomes A."
        : chosen.length > WANTED ? `${chosen.length} are ticked; two can be compared.`
        : "Tick two results of one study.";
    };
    table.addEventListener("change", show);
    show();
    button.addEventListener("click", () => busy(this.#page, button, "Comparing", async () => {
      const { key } = await this.#page.server.post("compare", { result: ticked().map((one) => one.value) });
      this.#page.go(address(`compared/${key}`));
    }));
    return element("div", { className: "sticky" }, button, said);
  }
}

// What a site has of its results by a query, which a server answers itself.
function narrowed(found, { q = "", engine = "", tag = "" }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const results = found.results.filter((one) => {
    const text = [one.name, one.study, titleOf(one), one.engine, ...one.settings, ...one.tags, one.notes].join(" ").toLowerCase();
    return words.every((word) => text.includes(word)) && (!engine || one.engine === engine) && (!tag || one.tags.includes(tag));
  });
  return { ...found, results, count: results.length };
}
