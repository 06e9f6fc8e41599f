// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The studies as cards: network, title, question, runs with their time, and the last result. Tags and words narrow the list.

import { when } from "../times.js";
import { topology } from "../topology.js";
import { element } from "../words.js";
import { View, address, chip } from "./parts.js";

function card(one) {
  const about = [element("span", { className: "key" }, one.name), ...(one.outlook ? [` · ${one.outlook}`] : [])];
  const last = one.last ? [element("p", { className: "note" }, "Last result: ", element("a", { href: address(`results/${one.last.name}`) }, when(one.last.at)))] : [];
  return element("li", { className: "card" },
    element("div", { className: "picture" }, topology(one.network, { isSmall: true })),
    element("h2", {}, element("a", { href: address(`studies/${one.name}`) }, one.title)),
    element("p", { className: "finding" }, one.question),
    element("p", { className: "note" }, ...about),
    element("ul", { className: "chips" }, ...one.tags.map((tag) => element("li", { className: "chip" }, tag))),
    ...last);
}

export class Studies extends View {
  #page;
  #tag;
  #words;
  #all = [];
  #tags = [];
  #cards = element("ul", { className: "cards" });
  #chips = element("ul", { className: "chips" });
  #none = element("p", { className: "empty", role: "status", hidden: true });

  async open(place, page, route) {
    this.#page = page;
    this.#tag = route.query.get("tag") ?? "";
    this.#words = route.query.get("q") ?? "";
    page.title("Studies");
    const { studies, tags } = await page.server.get("studies");
    this.#all = studies;
    this.#tags = tags;
    const search = element("input", { type: "search", id: "words", value: this.#words, placeholder: "Question, title or name" });
    search.addEventListener("input", () => {
      this.#words = search.value;
      this.#page.replace(this.#address(this.#tag));
      this.#show();
    });
    const head = element("div", { className: "head" }, element("h1", {}, "Studies"));
    if (this.#page.server.may("run")) head.append(element("a", { className: "button", href: "#/edit" }, "New study"));
    place.replaceChildren(head,
      element("div", { className: "filters" },
        element("label", { htmlFor: search.id, className: "unseen" }, "Search"), search,
        element("nav", { ariaLabel: "Show" }, this.#chips)),
      this.#none, this.#cards);
    this.#show();
  }

  #address(tag) {
    return address("studies", { tag, q: this.#words });
  }

  #show() {
    const tag = this.#tags.includes(this.#tag) ? this.#tag : "";
    const words = this.#words.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = this.#all.filter((one) => {
      const text = [one.name, one.title, one.question].join(" ").toLowerCase();
      return (!tag || one.tags.includes(tag)) && words.every((word) => text.includes(word));
    });
    const chips = ["", ...this.#tags].map((each) => chip(each || "All", this.#address(each), each === tag));
    this.#chips.replaceChildren(...chips.map((each) => element("li", {}, each)));
    this.#cards.replaceChildren(...shown.map(card));
    this.#none.hidden = shown.length > 0;
    this.#none.replaceChildren("No study has these words. ", element("a", { href: "#/studies" }, "Show all"));
  }
}
