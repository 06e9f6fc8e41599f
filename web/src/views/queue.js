// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The queue: what runs, with a picture per congestion control, what waits, what comes every day, and what has ended.

import { addressOf, apart, name, resultOf } from "../entries.js";
import { clock, when } from "../times.js";
import { element } from "../words.js";
import { Cards } from "./running.js";
import { View, address, pagesOf } from "./parts.js";

const IDLE = "Nothing runs. Entries run one after the other, since each takes the whole machine. ";

function begins({ state, due, said }, now) {
  if (state === "paused") return said;
  return due > now ? `not before ${clock(due)}` : "in its turn";
}

function ended(entry) {
  return entry.state === "done" && entry.result ? element("a", { href: resultOf(entry) }, "finished") : entry.said;
}

// A table of entries: of each column its head and what it has of an entry.
function table(title, entries, columns) {
  const heads = Object.keys(columns).map((head) => element("th", { scope: "col", className: "words" }, head));
  const rows = entries.map((entry) => element("tr", {}, ...Object.values(columns).map((of, at) => {
    const content = [of(entry)].flat();
    return at === 0 ? element("th", { scope: "row" }, ...content) : element("td", { className: entry.state === "failed" && at === 1 ? "words bad" : "words" }, ...content);
  })));
  const whole = element("table", { className: "stacked", ariaLabel: title }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  for (const row of rows) [...row.cells].forEach((cell, at) => { cell.dataset.head = Object.keys(columns)[at]; });
  return element("section", { ariaLabel: title }, element("h2", {}, title), whole);
}

function entryOf(entry) {
  const address = entry.state === "done" ? `${addressOf(entry)}?details=1` : addressOf(entry);
  return [element("a", { href: address }, ...name(entry)), element("div", { className: "note" }, apart(entry))];
}

export class Queue extends View {
  #page;
  #place;
  #number;
  #asked = 0;
  #end = () => {};
  #shown = "";
  #running;

  async open(place, page, route) {
    this.#page = page;
    this.#place = place;
    this.#number = route.query.get("page") ?? "0";
    page.title("Queue");
    this.#running = new Cards(page, () => this.#read());
    await this.#read();
    if (!this.isClosed) this.#end = page.server.events((state) => this.#follow(state));
  }

  close() {
    super.close();
    this.#end();
  }

  async #read() {
    const mine = ++this.#asked;
    const found = await this.#page.server.get("queue", { page: this.#number });
    // An answer that a later one has overtaken is of before.
    if (this.isClosed || mine !== this.#asked) return;
    const { running, waiting, daily, ended: over, now } = found;
    this.#shown = keyOf(running.map(({ number }) => number), null);
    const who = (entry) => entry.who;
    this.#place.replaceChildren(
      element("h1", {}, "Queue"),
      element("section", { ariaLabel: "Running" }, element("h2", {}, "Running"), ...this.#running.of(running, IDLE)),
      ...(waiting.length ? [table("Waiting", waiting, { Study: entryOf, Place: ({ place }) => place ? String(place) : "–", Who: who, Begins: (entry) => begins(entry, now), Queued: ({ due }) => due > now ? "" : when(due, now) }), ...pagesOf(found, (page) => address("queue", { page }))] : []),
      ...(daily.length ? [table("Every day", daily, { Study: entryOf, Next: ({ due }) => clock(due), Who: who })] : []),
      ...(over.length ? [table("Finished", over, { Study: entryOf, State: ended, Who: who, When: ({ ended: at }) => at ? when(at, now) : "" })] : []));
  }

  // What has begun or ended, and what came, changes more than a bar.
  #follow({ running, count }) {
    const shown = keyOf(running.map(({ number }) => number), count);
    const isFirst = this.#shown === keyOf(running.map(({ number }) => number), null);
    if (shown !== this.#shown && !isFirst) this.#read();
    this.#shown = shown;
    this.#running.follow(running);
  }
}

function keyOf(numbers, count) {
  return JSON.stringify([numbers, count]);
}
