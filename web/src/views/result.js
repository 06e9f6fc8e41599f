// SPDX-License-Identifier: GPL-2.0-only OR MIT
// One of the results: what it found, its first figure, what differs from the study, and what can be taken from it.

import { when } from "../times.js";
import { buttonFor, coded, element, size } from "../words.js";
import { REDUCED, headline, small, titleOf } from "./glance.js";
import { View, address, busy } from "./parts.js";

const FIGURES = ["Make figures and tables for papers", "Make figures and tables for papers again"];

export class Result extends View {
  #place;
  #page;
  #name;

  async open(place, page, route) {
    this.#place = place;
    this.#page = page;
    this.#name = route.path[1];
    page.title(this.#name);
    await this.#read();
  }

  async #read() {
    const one = await this.#page.server.get(`results/${this.#name}`);
    if (!this.isClosed) this.#show(one);
  }

  #show(one) {
    const { contents } = one;
    this.#place.replaceChildren(
      element("p", { className: "back" }, element("a", { href: address("results") }, "Results")),
      this.#head(one),
      ...(contents ? [this.#actions(one), ...this.#found(one), ...this.#settings(one), this.#details(one)] : []));
  }

  #head(one) {
    const chips = [element("li", { className: "key" }, one.name), ...[one.engine, ...one.tags].map((text) => element("li", { className: "chip" }, text))];
    const entry = one.entry === null ? [] : ["; ", element("a", { href: address(`queue/${one.entry}`, { details: 1 }) }, `entry ${one.entry}`), one.owner === this.#page.person?.title ? ", yours" : ` of ${one.owner}`];
    const paper = one.finding?.paper ? [". Paper: ", element("a", { href: one.finding.paper.url, rel: "noreferrer" }, one.finding.paper.words)] : [];
    const study = one.has_study ? [" of ", element("a", { href: address(`studies/${one.study}`) }, one.study)] : [];
    return element("div", { className: "head" },
      element("h1", {}, ...small(one), titleOf(one)), element("ul", { className: "chips" }, ...chips),
      element("p", {}, `${one.runs} ${one.runs === 1 ? "run" : "runs"}`, ...study, `, ${one.state}`, ...(one.at ? [", ", when(one.at)] : []), ...entry, ...paper, one.reduced ? `. ${REDUCED}.` : ""));
  }

  #actions(one) {
    const { contents } = one;
    const mayRun = this.#page.server.may("run");
    const link = (text, path, className = "button") => element("a", { className, href: address(path) }, text);
    const actions = element("div", { className: "actions" });
    if (contents.has_report) actions.append(link("Report", `results/${one.name}/report`, "button main"));
    else if (mayRun) actions.append(this.#maker("Make the report", "Making the report", {}, "main"));
    if (contents.has_graphs) actions.append(link("Graphs over time", `results/${one.name}/graphs`));
    const menu = this.#downloads(one);
    const button = element("button", { type: "button" }, "Download");
    button.setAttribute("popovertarget", menu.id);
    actions.append(button);
    if (mayRun && one.has_study) actions.append(element("a", { className: "button", href: address(`studies/${one.study}`, { again: one.name }) }, "Run again with changes"));
    return element("div", {}, actions, menu);
  }

  // A button that has the server make files of the report.
  #maker(text, said, fields, className = "") {
    const button = element("button", { type: "button", className }, text);
    button.addEventListener("click", () => busy(this.#page, button, said, async () => {
      await this.#page.server.post(`results/${this.#name}/report`, fields);
      if (!this.isClosed) await this.#read();
    }));
    return button;
  }

  #downloads({ name, contents }) {
    const { server } = this.#page;
    const file = (path, text) => element("a", { href: server.file(`results/${name}/${path}`), download: "" }, text);
    const items = [];
    if (contents.has_report) items.push([file("report.html", "Report (HTML)")]);
    if (contents.has_figures) items.push([file("figures.zip", "Figures and tables of the report (zip)")]);
    if (contents.has_captures) items.push([file("captures.zip", "Captures (zip)")]);
    for (const { name: table, rows, bytes } of contents.tables) {
      const shown = server.kind === "beside" ? [] : [", ", file(`tables/${table}.csv`, "CSV"), ", ", element("a", { href: address(`results/${name}/rows`, { table }) }, "look")];
      items.push(["Table ", element("code", {}, table), `, ${rows.toLocaleString("en")} rows: `, file(`tables/${table}.parquet`, "Parquet"), ` (${size(bytes)})`, ...shown]);
    }
    const menu = element("div", { id: "download", className: "menu" }, element("h2", {}, "Download"), element("ul", { className: "plain" }, ...items.map((each) => element("li", {}, ...each))));
    if (server.may("run") && contents.has_report) menu.append(this.#maker(FIGURES[Number(contents.has_figures)], "Making figures", { figures: "1" }));
    menu.append(element("p", { className: "actions" }, buttonFor("Close", () => menu.hidePopover())));
    menu.setAttribute("popover", "");
    return menu;
  }

  #found(one) {
    const { finding } = one;
    const numbers = headline(one);
    const sentences = finding?.sentences.map((text) => element("li", {}, text)) ?? [];
    const short = sentences.length || numbers.length
      ? [element("section", {}, element("h2", {}, "In short"), element("p", { className: "means" }, ...numbers), element("ul", { className: "short" }, ...sentences))]
      : [];
    if (!finding?.has_figure) return short;
    const picture = element("img", { className: "figure", src: this.#page.server.file(`results/${one.name}/figure.svg`), alt: "Figure 1 of the report: open the report" });
    const figure = element("figure", {}, element("a", { href: address(`results/${one.name}/report`) }, picture));
    return [element("div", { className: `answer-and-figure${finding.is_tall ? " tall" : ""}` }, ...short, figure)];
  }

  #settings({ settings, study }) {
    if (!settings.length) return [];
    const rows = settings.map((each) => each.split(/=(.*)/s)).map(([key, value = ""]) => element("tr", {}, element("th", { scope: "row" }, element("code", {}, key.trim())), element("td", { className: "words" }, value.trim())));
    return [element("section", {}, element("h2", {}, "Settings that differ"),
      element("p", { className: "note" }, `All else is as ${study} has it.`),
      element("table", { className: "narrow", ariaLabel: "Settings that differ from the study" }, element("tbody", {}, ...rows)))];
  }

  #details(one) {
    const facts = one.contents.facts.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, String(text))]);
    const made = element("details", { className: "made" }, element("summary", {}, "How they were made"), element("dl", {}, ...facts));
    if (this.#page.server.may("run") && one.contents.has_report) made.append(element("p", { className: "actions" }, this.#maker("Make the report again", "Making the report", {})));
    return element("section", { ariaLabel: "Details" }, this.#labels(one), made);
  }

  #labels(one) {
    const box = element("details", {}, element("summary", {}, "Tags and notes"));
    if (!this.#page.server.may("run")) {
      box.append(element("p", {}, one.tags.join(" ") || "No tags."), element("p", { className: "notes" }, ...coded(one.notes)));
      return box;
    }
    const tags = element("input", { name: "tags", value: one.tags.join(" ") });
    const notes = element("textarea", { name: "notes", rows: 4, value: one.notes });
    const button = element("button", {}, "Save");
    const form = element("form", { className: "fields" }, element("label", {}, "Tags ", tags), element("label", {}, "Notes ", notes), button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      busy(this.#page, button, "Saving", async () => {
        await this.#page.server.post(`results/${this.#name}/labels`, { tags: tags.value, notes: notes.value });
        if (this.isClosed) return;
        await this.#read();
        this.#page.say("Saved.");
      });
    });
    box.append(form);
    return box;
  }
}
