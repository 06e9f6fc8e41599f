// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Opens the view of a standing over a document of lists, and prints its text and its links: `node standing.mjs < standing.json`.

import { readFileSync } from "node:fs";

class Node {
  constructor(name) {
    this.name = name;
    this.children = [];
    this.dataset = {};
    this.classList = { add() {} };
  }

  append(...children) {
    this.children.push(...children);
  }

  replaceChildren(...children) {
    this.children = children;
  }

  setAttribute(name, value) {
    this[name] = value;
  }

  get textContent() {
    return this.children.map((one) => typeof one === "string" ? one : one.textContent).join(" ");
  }

  all(name) {
    const below = this.children.filter((one) => one instanceof Node).flatMap((one) => one.all(name));
    return this.name === name ? [this, ...below] : below;
  }
}

globalThis.document = { createElement: (name) => new Node(name), createElementNS: (_space, name) => new Node(name) };
const { Standing } = await import("../../web/src/views/standing.js");
const place = new Node("main");
const given = JSON.parse(readFileSync(0, "utf8"));
const page = { title() {}, server: { get: async (path) => path === "standing" ? given : undefined } };
await new Standing().open(place, page, {});
const links = place.all("a").filter(({ href }) => href.startsWith("#study=")).map((one) => [one.textContent, one.href]);
console.log(JSON.stringify({ text: place.textContent, links }));
