// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The settings of a study as controls: fields and menus, and of what varies the values that it takes. They come to lines of KEY=VALUE.

import { element } from "./words.js";

// More settings than a group shows at once.
const MANY = 12;

// Splits a list of values at its commas, but for those in quotes, brackets and braces.
export function split(text) {
  const found = [""];
  let [depth, isQuoted, isEscaped] = [0, false, false];
  for (const letter of text) {
    if (isQuoted) {
      isQuoted = isEscaped || letter !== '"';
      isEscaped = !isEscaped && letter === "\\";
    } else if (letter === '"') {
      isQuoted = true;
    } else if ("[{".includes(letter)) {
      depth += 1;
    } else if ("]}".includes(letter)) {
      depth -= 1;
    }
    if (letter === "," && !isQuoted && depth === 0) found.push("");
    else found[found.length - 1] += letter;
  }
  return found.map((each) => each.trim()).filter(Boolean);
}

// A value as it stands in a list of values.
function listed(value) {
  const isList = /^[[{"]/.test(value);
  return value.includes(",") && !isList ? JSON.stringify(value) : value;
}

function menu(choices, value, first) {
  const known = value && !choices.includes(value) ? [value, ...choices] : choices;
  const select = element("select", {}, ...(first === undefined ? [] : [element("option", { value: "" }, first)]), ...known.map((one) => element("option", { value: one }, one)));
  select.value = value;
  return select;
}

// A setting with one value.
class Single {
  constructor({ key, value, choices }, id) {
    this.key = key;
    this.field = choices.length ? menu(choices, value) : element("input", { value, spellcheck: false, autocomplete: "off" });
    this.field.id = id;
    this.first = value;
    this.parts = [this.field];
  }

  get line() {
    const value = this.field.value.trim();
    return value && value !== this.first ? `${this.key}=${value}` : "";
  }

  take(value) {
    if (this.field instanceof HTMLSelectElement && ![...this.field.options].some((option) => option.value === value)) this.field.append(element("option", { value }, value));
    this.field.value = value;
  }

  reset() {
    this.field.value = this.first;
  }
}

// A setting that varies: each value can be left out, and more can be added.
class Several {
  #list = element("div", { className: "values" });
  #boxes = [];

  constructor({ key, values, choices, is_open: isOpen, words }, id, changed) {
    this.key = key;
    this.#changed = changed;
    this.#values = values;
    this.parts = [this.#list];
    this.#list.id = id;
    this.reset();
    const others = choices.filter((choice) => !values.some(({ text }) => text === choice));
    if (isOpen && !choices.length) this.parts.push(this.#field(words));
    else if (others.length) this.parts.push(this.#menu(others, words));
  }

  #changed;
  #values;

  get line() {
    const chosen = this.#chosen();
    const isSame = chosen.length === this.#values.length && chosen.every((text, at) => text === this.#values[at].text);
    return isSame ? "" : `vary.${this.key}=${chosen.join(",")}`;
  }

  get isEmpty() {
    return this.#chosen().length === 0;
  }

  take(text) {
    const wanted = text.startsWith("+") ? [...this.#values.map((one) => one.text), ...split(text.slice(1))] : split(text);
    for (const box of this.#boxes) box.checked = wanted.includes(box.value);
    for (const one of wanted) this.#add(one);
  }

  reset() {
    this.#boxes = [];
    this.#list.replaceChildren();
    for (const { text, label, detail } of this.#values) this.#box(text, label, detail);
  }

  #chosen() {
    return this.#boxes.filter(({ checked }) => checked).map(({ value }) => value);
  }

  #box(text, label, detail = "") {
    const box = element("input", { type: "checkbox", value: text, checked: true });
    this.#boxes.push(box);
    this.#list.append(element("label", {}, box, element("span", {}, label, ...(detail ? [" ", element("span", { className: "key" }, detail)] : []))));
  }

  #add(text) {
    const there = this.#boxes.find(({ value }) => value === text);
    if (there) there.checked = true;
    else this.#box(text, text);
  }

  #menu(choices, words) {
    const select = menu(choices, "", "Add…");
    select.ariaLabel = `${words}: add a value`;
    select.addEventListener("change", () => {
      if (select.value) this.#add(select.value);
      select.value = "";
      this.#changed();
    });
    return select;
  }

  #field(words) {
    const field = element("input", { placeholder: "Add a value", ariaLabel: `${words}: add a value`, spellcheck: false, autocomplete: "off" });
    const take = () => {
      if (!field.value.trim()) return;
      this.#add(listed(field.value.trim()));
      field.value = "";
      this.#changed();
    };
    field.addEventListener("change", take);
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      take();
    });
    return field;
  }
}

export class Settings {
  #all = [];
  #more = element("textarea", { id: "more-settings", rows: 3, spellcheck: false });

  // `groups` as the server has them; `changed()` is called when something is another one.
  constructor(groups, changed) {
    this.groups = groups.map(({ name, settings }) => element("fieldset", {}, element("legend", {}, name), ...this.#things(settings, changed)));
    this.more = element("fieldset", {}, element("legend", {}, "Other settings"),
      element("label", { htmlFor: this.#more.id, className: "note" }, "One ", element("code", {}, "KEY=VALUE"), " in a line, such as ", element("code", {}, "flow.size=10 MB")), this.#more);
  }

  // What is changed, a line each.
  get lines() {
    return [...this.#all.map(({ line }) => line).filter(Boolean), ...this.#more.value.split("\n").map((line) => line.trim()).filter(Boolean)];
  }

  // The key of a setting that has no value any more.
  get empty() {
    return this.#all.find(({ isEmpty }) => isEmpty)?.key ?? "";
  }

  // Shows what lines say, in the place of what was changed.
  take(lines) {
    this.reset();
    const others = [];
    for (const line of lines) {
      const [key, value] = [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()];
      const one = this.#all.find((each) => each instanceof Several ? key === `vary.${each.key}` : key === each.key);
      if (one) {
        one.take(value);
        const folded = one.parts[0].closest("details");
        if (folded) folded.open = true;
      } else {
        others.push(line);
      }
    }
    this.#more.value = others.join("\n");
  }

  reset() {
    for (const one of this.#all) one.reset();
    this.#more.value = "";
  }

  // The rows of a group: first those of all its links or flows, then each one's, which are folded where there are many.
  #things(settings, changed) {
    const rows = new Map();
    for (const one of settings) rows.set(one.of, [...(rows.get(one.of) ?? []), one]);
    const isLong = settings.length > MANY;
    return [...rows].flatMap(([of, own]) => {
      const found = own.map((one) => this.#row(one, changed));
      if (!of) return found;
      if (!isLong) return [element("p", { className: "thing" }, of), ...found];
      const open = own.some(({ values }) => values.length > 0);
      return [element("details", { open }, element("summary", {}, of, " ", element("span", { className: "note" }, own.map(({ words }) => words).join(", "))), ...found)];
    });
  }

  #row(setting, changed) {
    const id = `setting-${this.#all.length}`;
    const varies = setting.values.length > 0;
    const one = varies ? new Several(setting, id, changed) : new Single(setting, id);
    this.#all.push(one);
    const words = [setting.words, " ", element("span", { className: "key" }, setting.key)];
    if (!varies) return element("div", { className: "setting" }, element("label", { htmlFor: id }, ...words), ...one.parts);
    const name = element("span", { id: `${id}-name` }, element("span", { className: "unseen" }, "varies: "), ...words);
    const row = element("div", { className: "setting varies", role: "group" }, name, element("div", {}, ...one.parts));
    row.setAttribute("aria-labelledby", name.id);
    return row;
  }
}
