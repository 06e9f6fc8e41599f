// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The text of the study, with what its reader finds wrong at the line.

import { coded, element, selectLine } from "./words.js";

export class Editor {
  #area = element("textarea", { id: "study-text", spellcheck: false, autocapitalize: "off", wrap: "off", rows: 34 });
  #lines = element("div", { className: "line-numbers", ariaHidden: "true" });
  #fault = element("p", { className: "fault", id: "fault", role: "status" });
  #wrong = 0;

  // `changed(text)` is called as one types; `studies` come with the simulator.
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
    this.#area.setAttribute("aria-describedby", "fault");
    this.#area.addEventListener("input", () => { this.#number(); changed(this.#area.value); });
    this.#area.addEventListener("scroll", () => { this.#lines.scrollTop = this.#area.scrollTop; });
    this.place = element("div", { className: "editing" }, shelf,
      element("label", { htmlFor: this.#area.id }, "The study as `perigee run` reads it".replaceAll("`", "")),
      this.#fault, element("div", { className: "lined" }, this.#lines, this.#area));
  }

  show(text) {
    this.#area.value = text;
    this.#number();
  }

  // Says what is wrong.
  judge(errors) {
    const [first] = errors;
    this.#wrong = first?.line ?? 0;
    this.#fault.className = `fault ${first ? "wrong" : "right"}`;
    this.#area.setAttribute("aria-invalid", String(Boolean(first)));
    if (!first) {
      this.#fault.replaceChildren("The reader accepts this study.");
    } else {
      const go = element("button", { type: "button", className: "small" }, `Line ${first.line}`);
      go.addEventListener("click", () => selectLine(this.#area, first.line));
      const says = [first.message, first.fix && !first.message.includes(first.fix) ? first.fix : ""].filter(Boolean).join("; ");
      this.#fault.replaceChildren(...(first.line ? [go, " "] : []), ...coded(says));
    }
    this.#number();
  }

  #number() {
    const count = this.#area.value.split("\n").length;
    this.#lines.replaceChildren(...Array.from({ length: count }, (_, at) => element("span", { className: at + 1 === this.#wrong ? "wrong" : "" }, String(at + 1))));
    this.#lines.scrollTop = this.#area.scrollTop;
  }
}
