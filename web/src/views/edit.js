// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The editor of studies: a new one, a copy of one that comes with Perigee, or one's own.

import { CodeField } from "../code-field.js";
import { over } from "../study.js";
import { coded, element } from "../words.js";
import { View, address } from "./parts.js";

export class Edit extends View {
  #page;
  #field = null;
  #refused = element("p", { className: "error", role: "alert", hidden: true });
  #before = "";
  #keys = {};

  close() {
    super.close();
    this.#field?.close();
  }

  async open(place, page, { path: [, name], query }) {
    this.#page = page;
    page.title(name ?? "New study");
    const { server } = page;
    const [found, keys] = await Promise.all([
      name ? server.get(`studies/${name}`) : query.has("link") ? { text: over(query.get("link"), ["cubic", "bbr", "hybla", "reno"], "60 s") } : server.get("template"),
      server.get("completion"),
    ]);
    if (this.isClosed) return;
    this.#keys = keys;
    this.#before = found.stamp ?? "";
    const title = found.own ? name : "New study";
    const field = element("input", { id: "name", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}", title: "letters, digits, - and _", value: found.own ? name : "", spellcheck: false, autocapitalize: "off" });
    field.addEventListener("input", () => this.#field.check());
    this.#field = new CodeField(found.text, { label: "Study file", keys, check: (text) => this.#check(field.value, text), more: (table) => [" ", this.#reference(table)] });
    const form = element("form", { className: "fields", id: "editor" },
      ...(found.own ? [] : [element("label", { htmlFor: field.id }, "Name"), field]),
      this.#field.fault, this.#field.label,
      element("p", { className: "note" }, "Ctrl+Space lists the keys of this place, Ctrl+F searches. ", this.#reference("")),
      this.#field.place,
      element("div", { className: "actions" }, element("button", { className: "main" }, "Save"), ...(found.own ? [element("a", { className: "button", href: address(`studies/${name}`) }, "Cancel")] : [])));
    form.addEventListener("submit", (event) => { event.preventDefault(); this.#save(field.value, event.submitter); });
    place.replaceChildren(element("p", { className: "back" }, element("a", { href: "#/studies" }, "Studies")), element("h1", {}, title), this.#refused, form);
  }

  async #check(name, text) {
    try {
      return (await this.#page.server.post("check", { name, text })).fault;
    } catch (error) {
      return { message: `The text could not be checked: ${error.message}`, line: null };
    }
  }

  #reference(table) {
    const isKnown = table && table in this.#keys;
    return element("a", { href: address("keys", { table: isKnown ? table : "" }), target: "_blank" }, isKnown ? `Keys of ${table}` : "Keys of studies");
  }

  async #save(name, button) {
    button.disabled = true;
    try {
      const saved = await this.#page.server.post("studies", { name, text: this.#field.text, before: this.#before });
      this.#page.go(address(`studies/${saved.name}`));
    } catch (error) {
      this.#refused.replaceChildren(...coded(error.message));
      this.#refused.hidden = false;
      this.#refused.scrollIntoView({ block: "center" });
    }
    button.disabled = false;
  }
}
