// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The entries that run, each with a picture per congestion control: as a part of the queue, and of the start page.

import { addressOf, apart, buttons, name } from "../entries.js";
import { Multiples } from "../multiples.js";
import { element } from "../words.js";

// The cards of what runs; `changed()` is called once an entry was asked to do something else.
export class Cards {
  #page;
  #changed;
  #shown = new Map();

  constructor(page, changed) {
    this.#page = page;
    this.#changed = changed;
  }

  // Returns a card for each entry; what they have drawn stays. `idle` says that there is none.
  of(entries, idle) {
    const before = this.#shown;
    this.#shown = new Map(entries.map((entry) => [entry.number, before.get(entry.number) ?? new Multiples(entry.study)]));
    return entries.length ? entries.map((entry) => this.#card(entry)) : [element("p", { className: "empty" }, idle, element("a", { href: "#/studies" }, "Run a study"))];
  }

  // Shows how far they are.
  follow(running) {
    for (const state of running) this.#shown.get(state.number)?.show(state);
  }

  #card(entry) {
    const multiples = this.#shown.get(entry.number);
    multiples.show({ ...entry.progress, wish: entry.wish });
    return element("article", { className: "running" },
      element("div", { className: "between" },
        element("p", { className: "name" }, element("a", { href: addressOf(entry) }, ...name(entry))),
        element("div", { className: "actions" }, ...buttons(this.#page, entry, this.#changed))),
      element("p", { className: "note" }, apart(entry)),
      ...multiples.parts);
  }
}

// What runs, by itself.
export class Running {
  #page;
  #place;
  #cards;
  #numbers = "";
  #isClosed = false;
  #asked = 0;
  #end = () => {};

  constructor(place, page) {
    this.#page = page;
    this.#place = place;
    this.#cards = new Cards(page, () => this.#read());
    this.#read().then(() => {
      if (!this.#isClosed) this.#end = page.server.events(({ running }) => this.#follow(running));
    });
  }

  close() {
    this.#isClosed = true;
    this.#end();
  }

  async #read() {
    const mine = ++this.#asked;
    const { running } = await this.#page.server.get("queue");
    // An answer that a later one has overtaken is of before.
    if (this.#isClosed || mine !== this.#asked) return;
    this.#numbers = numbersOf(running);
    this.#place.replaceChildren(...this.#cards.of(running, "Nothing runs. What you run appears here with its throughput as it comes. "));
  }

  #follow(running) {
    if (numbersOf(running) === this.#numbers) this.#cards.follow(running);
    else this.#read();
  }
}

function numbersOf(running) {
  return String(running.map(({ number }) => number));
}
