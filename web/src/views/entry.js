// SPDX-License-Identifier: GPL-2.0-only OR MIT
// One entry of the queue: what it is, what it has so far, and what can be done about it. One that is finished leads to its result.

import { buttons, isOver, name, resultOf } from "../entries.js";
import { Multiples } from "../multiples.js";
import { clock, when } from "../times.js";
import { element } from "../words.js";
import { View, address } from "./parts.js";

export class Entry extends View {
  #page;
  #place;
  #number;
  #end = () => {};
  #entry = null;
  #multiples = null;
  #isDetailed;

  async open(place, page, route) {
    this.#page = page;
    this.#place = place;
    this.#number = route.path[1];
    this.#isDetailed = route.query.has("details");
    page.title(`Entry ${this.#number}`);
    await this.#read();
    if (!this.isClosed) this.#end = page.server.events((state) => this.#follow(state));
  }

  close() {
    super.close();
    this.#end();
  }

  async #read() {
    const entry = await this.#page.server.get(`queue/${this.#number}`);
    if (this.isClosed) return;
    if (entry.state === "done" && entry.result && !this.#isDetailed) {
      // In its place, so that the way back leads to where one came from.
      location.replace(resultOf(entry));
      return;
    }
    this.#show(entry);
  }

  #show(entry) {
    this.#entry = entry;
    this.#page.title(`${entry.title || entry.study}, entry ${entry.number}`);
    const actions = buttons(this.#page, entry, (answer) => answer.number ? this.#show(answer) : this.#page.go("#/queue"));
    if (entry.state === "done" && entry.result) actions.unshift(element("a", { className: "button main", href: resultOf(entry) }, "Open the result"));
    const running = entry.state === "running" ? [this.#running(entry)] : [];
    if (!running.length) this.#multiples = null;
    this.#place.replaceChildren(
      element("p", { className: "back" }, element("a", { href: "#/queue" }, "Queue")),
      element("h1", {}, ...name(entry)),
      ...(entry.message ? [element("p", { className: "error", role: "alert" }, entry.message)] : []),
      ...running,
      element("div", { className: "actions" }, ...actions),
      this.#facts(entry),
      ...(entry.text ? [element("details", {}, element("summary", {}, "The study file as it was queued"), element("pre", { tabIndex: 0, ariaLabel: "Study file" }, entry.text))] : []));
  }

  #running(entry) {
    this.#multiples ??= new Multiples(entry.study);
    this.#multiples.show({ ...entry.progress, wish: entry.wish });
    return element("section", { className: "running", ariaLabel: "Progress" }, ...this.#multiples.parts);
  }

  #facts(entry) {
    const { now, settings, due, daily, began, ended, starts, result, parent, tags, notes } = entry;
    const place = entry.place ? `, number ${entry.place} in the queue` : "";
    const facts = [
      ["State", [element("span", { id: "state" }, `${entry.said}${place}${entry.wish ? `; asked to ${entry.wish}` : ""}`)]],
      ["Entry", [String(entry.number)]],
      ["Study", [element("a", { href: address(`studies/${entry.study}`) }, entry.study)]],
      ["Size", [entry.size || (entry.reduced ? "small" : "all runs")]],
      ["Engine", [entry.engine]],
      ["Settings", [settings.join(", ") || "those of the study"]],
      [daily ? "Next" : "Not before", daily || due > now ? [`${clock(due)}${daily ? `, every day at ${daily}` : ""}`] : []],
      ["Begun", began ? [when(began, now), starts > 1 ? ` (${starts} starts)` : ""] : []],
      ["Ended", ended ? [when(ended, now)] : []],
      ["Results", result ? [element("code", {}, `results/${result}`)] : []],
      ["Who", [entry.who]],
      ["Made of", parent ? [element("a", { href: `#/queue/${parent}` }, `entry ${parent}`)] : []],
      ["Tags", tags.length ? [tags.join(" ")] : []],
      ["Notes", notes ? [element("span", { className: "notes" }, notes)] : []],
    ].filter(([, content]) => content.length);
    return element("div", { className: "made" }, element("dl", {}, ...facts.flatMap(([head, content]) => [element("dt", {}, head), element("dd", {}, ...content)])));
  }

  #follow({ running, count }) {
    const state = running.find(({ number }) => number === this.#entry?.number);
    if (state && this.#multiples) this.#multiples.show(state);
    const isOther = Boolean(state) !== (this.#entry?.state === "running") || (state?.wish ?? null) !== (this.#entry?.wish ?? null);
    if (isOther || this.#counted(count)) this.#read();
  }

  // Whether its place in the queue may be another one.
  #counted(count) {
    const key = JSON.stringify(count);
    const isOther = this.#count !== "" && key !== this.#count;
    this.#count = key;
    return isOther && !isOver(this.#entry ?? {});
  }

  #count = "";
}
