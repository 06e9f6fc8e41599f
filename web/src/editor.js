// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The text of the study, with what its reader finds wrong at the line.

import { CodeField } from "./code-field.js";
import { element } from "./words.js";

export class Editor {
  #field;
  #judged = { text: "", fault: null };
  #answer = () => {};

  // `changed(text)` is called as one types, and answered by `judge`; `studies` come with the simulator.
  constructor(changed, studies) {
    const shelf = element("select", { ariaLabel: "A study that comes with Perigee" }, element("option", { value: "" }, "Open a study of Perigee…"),
      ...studies.map(({ name, title }, number) => element("option", { value: String(number) }, `${name}: ${title}`)));
    shelf.addEventListener("change", () => {
      const study = studies[Number(shelf.value)];
      if (!shelf.value || !study) return;
      shelf.value = "";
      this.show(study.text);
      changed(study.text);
    });
    this.#field = new CodeField("", { label: "The study as perigee run reads it", check: (text) => this.#check(text, changed) });
    this.place = element("div", { className: "editing" }, shelf, this.#field.label, this.#field.fault, this.#field.place);
  }

  show(text) {
    this.#field.text = text;
  }

  close() {
    this.#field.close();
  }

  // Says what is wrong with a text.
  judge([first], text) {
    const said = first && [first.message, first.fix && !first.message.includes(first.fix) ? first.fix : ""].filter(Boolean).join("; ");
    const fault = first ? { message: said, line: first.line } : null;
    this.#judged = { text, fault };
    this.#answer(fault);
  }

  // Returns what is wrong with a text, as soon as it is judged.
  #check(text, changed) {
    if (text === this.#judged.text) return this.#judged.fault;
    changed(text);
    return new Promise((resolve) => { this.#answer = resolve; });
  }
}
