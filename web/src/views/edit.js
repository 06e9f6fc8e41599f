// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The editor of studies: a new one, a copy of one that comes with Perigee, or one's own.

import { CodeField } from "../code-field.js";
import { coded, element } from "../words.js";
import { address } from "./parts.js";

export class Edit {
  #page;
  #isClosed = false;
  #field = null;
  #fault = element("p", { className: "fault", id: "fault", role: "status" });
  #refused = element("p", { className: "error", role: "alert", hidden: true });
  #before = "";
  #keys = {};

  constructor(place, page, route) {
    this.#page = page;
    page.title(route.path[1] ?? "New study");
    this.#open(place, route);
  }

  close() {
    this.#isClosed = true;
    this.#field?.close();
  }

  async #open(place, { path: [, name], query }) {
    const { server } = this.#page;
    const [found, keys] = await Promise.all([
      name ? server.get(`studies/${name}`) : server.get("template", { link: query.get("link") }),
      server.get("completion"),
    ]);
    if (this.#isClosed) return;
    this.#keys = keys;
    this.#before = found.stamp ?? "";
    const title = found.own ? name : "New study";
    const field = element("input", { id: "name", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}", title: "letters, digits, - and _", value: found.own ? name : "", spellcheck: false, autocapitalize: "off" });
    field.addEventListener("input", () => this.#field.check());
    const label = element("p", { id: "text-label", className: "label" }, "Study file");
    label.addEventListener("click", () => this.#field.focus());
    this.#field = new CodeField(found.text, {
      keys,
      check: (text) => this.#check(field.value, text),
      judged: (fault) => this.#judge(fault),
      attributes: { "aria-labelledby": label.id, "aria-describedby": this.#fault.id },
    });
    const form = element("form", { className: "fields", id: "editor" },
      ...(found.own ? [] : [element("label", { htmlFor: field.id }, "Name"), field]),
      this.#fault, label,
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

  // Says what is wrong, or that nothing is, above the text.
  #judge(fault) {
    this.#fault.className = `fault ${fault ? "wrong" : "right"}`;
    if (!fault) {
      this.#fault.replaceChildren("The reader accepts this study.");
      return;
    }
    const go = element("button", { type: "button", className: "small" }, `Line ${fault.line}`);
    go.addEventListener("click", () => this.#field.select(fault.line));
    const table = fault.line ? this.#field.tableAt(fault.line) : "";
    this.#fault.replaceChildren(...(fault.line ? [go, " "] : []), ...coded(fault.message), " ", this.#reference(table));
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
