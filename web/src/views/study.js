// SPDX-License-Identifier: GPL-2.0-only OR MIT
// One study: what it asks, its network, and the form that puts it into the queue. What is changed stands in the address.

import { packed } from "../address.js";
import { Settings } from "../settings.js";
import { when } from "../times.js";
import { networkOf } from "../topology.js";
import { coded, element } from "../words.js";
import { View, address } from "./parts.js";

const PAUSE_MS = 250;
const SILENT_MS = 300;
const MOST_ADDRESS = 8000;

function radio(name, value, isChosen, ...words) {
  return element("label", {}, element("input", { type: "radio", name, value, checked: isChosen }), " ", ...words);
}

function results(last, now) {
  const rows = last.map((one) => {
    const said = [`${one.reduced ? "Small, " : ""}${one.runs} runs, ${one.engine}`, ...one.settings].join(", ");
    return element("li", {}, element("a", { href: address(`results/${one.name}`) }, said), " ", element("span", { className: "note" }, when(one.at, now)));
  });
  return element("section", { ariaLabel: "Last results" }, element("h2", {}, "Last results"), element("ul", { className: "plain" }, ...rows));
}

export class Study extends View {
  #form = null;

  close() {
    super.close();
    this.#form?.close();
  }

  async open(place, page, { path: [, name], query }) {
    page.title(name);
    const { server, pool } = page;
    const found = await server.get(`studies/${name}`, { again: query.get("again") });
    const there = Object.keys(found.inputs).length ? "" : await packed(found.text);
    if (this.isClosed) return;
    page.title(found.title || name);
    const tags = [element("li", { className: "key" }, name), ...found.tags.map((tag) => element("li", { className: "chip" }, tag))];
    const tries = pool && there && there.length <= MOST_ADDRESS
      ? [element("p", { className: "note" }, element("a", { href: `#study=${there}` }, "Try it here"), ": the study in this tab, and nothing of the server's time.")] : [];
    place.replaceChildren(
      element("p", { className: "back" }, element("a", { href: "#/studies" }, "Studies")),
      element("div", { className: "head" }, element("h1", {}, found.title || name), element("ul", { className: "chips" }, ...tags)),
      ...(found.about ? [element("p", { className: "question" }, found.about)] : []),
      ...networkOf(found.network), ...tries);
    if (server.may("run")) {
      this.#form = new Form(page, found, query);
      place.append(this.#form.place);
    }
    if (found.last?.length) place.append(results(found.last, found.now));
    place.append(element("details", {}, element("summary", {}, "The study file"), element("pre", { tabIndex: 0, ariaLabel: "Study file" }, found.text)));
  }
}

// What is run of a study, and when.
class Form {
  #page;
  #study;
  #settings;
  #timer = null;
  #asked = 0;
  #isOpen;
  #sizes = {};
  #wrong = element("p", { className: "bad", role: "status" });
  #reset = element("button", { type: "button", className: "small", hidden: true });
  #choices = [];

  constructor(page, study, query) {
    this.#page = page;
    this.#study = study;
    const given = [...study.given, ...query.getAll("set")];
    this.#settings = new Settings(study.groups, () => this.#changed());
    this.#settings.take(given.filter((line) => !line.startsWith("experiments=")));
    const chosen = given.find((line) => line.startsWith("experiments="))?.slice("experiments=".length).split(",");
    const engine = query.get("engine") ?? "sim";
    this.#isOpen = given.length > 0 || engine !== "sim";
    this.place = element("form", { className: "fields", id: "run" }, this.#bar(),
      element("details", { open: this.#isOpen }, element("summary", {}, "Change settings"),
        ...this.#settings.groups, ...this.#experiments(chosen), this.#settings.more, this.#engines(engine), this.#when(), this.#labels()));
    this.place.addEventListener("input", () => this.#changed());
    // Enter in a field is no order to run it.
    this.place.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.matches("input")) event.preventDefault(); });
    this.place.addEventListener("submit", (event) => { event.preventDefault(); this.#run(event.submitter); });
    this.#show(study.outlook);
    if (this.#isOpen) this.#changed();
  }

  close() {
    clearTimeout(this.#timer);
    this.#asked += 1;
  }

  // Buttons with how much they start, which stay in view while one goes through the settings.
  #bar() {
    const { has_reduced: hasReduced, own, name, inputs } = this.#study;
    const button = (size, title, value) => {
      this.#sizes[size] = element("small");
      return element("button", { className: size === "small" || !hasReduced ? "main" : "", name: "reduced", value }, title, " ", this.#sizes[size]);
    };
    this.#reset.addEventListener("click", () => {
      this.#settings.reset();
      for (const box of this.#choices) box.checked = true;
      this.#changed();
    });
    const edit = element("a", { className: "button", href: address(`edit/${name}`) }, own ? "Edit the file" : "Copy and edit");
    const needs = Object.entries(inputs).map(([file, text]) => element("p", { className: "note" }, "It needs the file ", element("code", {}, `inputs.${file}`), ` (${text}), which only the command line may name.`));
    return element("div", { className: "run-bar" },
      element("div", { className: "actions" }, ...(hasReduced ? [button("small", "Run small", "1")] : []), button("all", "Run all", ""), edit, this.#reset),
      this.#wrong, ...needs);
  }

  #experiments(chosen) {
    const { experiments } = this.#study;
    if (!experiments.length) return [];
    const rows = experiments.map(({ name, title, varies }) => {
      const box = element("input", { type: "checkbox", name: "experiment", value: name, checked: !chosen || chosen.includes(name) });
      this.#choices.push(box);
      return element("label", {}, box, ` ${title} `, element("span", { className: "key" }, [name, ...varies].join(", ")));
    });
    return [element("fieldset", {}, element("legend", {}, "Experiments"), ...rows)];
  }

  #engines(chosen) {
    const rows = Object.entries(this.#study.engines).map(([name, text]) =>
      radio("engine", name, name === chosen, `${text[0].toUpperCase()}${text.slice(1)} `, element("span", { className: "key" }, name)));
    const note = this.#page.server.me.is_root ? [] : [element("p", { className: "note" }, "The server does not run as root, so emulated runs will fail.")];
    return element("fieldset", {}, element("legend", {}, "Engine"), ...rows, ...note);
  }

  #when() {
    const [now, zone] = [this.#study.clock.slice(0, 16), this.#study.clock.slice(16)];
    return element("fieldset", {}, element("legend", {}, "When"),
      radio("when", "now", true, "Now"),
      radio("when", "at", false, "At ", element("input", { type: "datetime-local", name: "at", value: now, ariaLabel: "Day and time" })),
      radio("when", "daily", false, "Every day at ", element("input", { type: "time", name: "daily", value: "03:00", ariaLabel: "Time of day" })),
      element("p", { className: "note" }, `Times of the server's clock, where it is ${now.slice(11)} (UTC${zone}).`));
  }

  #labels() {
    return element("fieldset", {}, element("legend", {}, "Tags and notes"),
      element("label", {}, "Tags ", element("input", { name: "tags" })),
      element("label", {}, "Notes ", element("textarea", { name: "notes", rows: 2 })));
  }

  #fields() {
    const form = new FormData(this.place);
    const experiments = form.getAll("experiment");
    const isAll = experiments.length === this.#choices.length;
    return { ...Object.fromEntries(form), settings: this.#settings.lines.join("\n"), experiment: isAll ? [] : experiments };
  }

  #changed() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), PAUSE_MS);
  }

  async #ask() {
    const mine = ++this.#asked;
    const { engine, settings, experiment } = this.#fields();
    const lines = [...settings.split("\n").filter(Boolean), ...(experiment.length ? [`experiments=${experiment.join(",")}`] : [])];
    this.#page.replace(address(`studies/${this.#study.name}`, { set: lines, engine: engine === "sim" ? "" : engine }));
    this.#reset.hidden = lines.length === 0;
    this.#reset.textContent = `Undo ${lines.length} change${lines.length === 1 ? "" : "s"}`;
    const waiting = setTimeout(() => this.#show({ all: "counting…", small: "counting…" }), SILENT_MS);
    const said = this.#fault() ?? await this.#page.server.post(`studies/${this.#study.name}/outlook`, { engine, settings, experiment });
    clearTimeout(waiting);
    if (mine === this.#asked) this.#show(said);
  }

  // What cannot be run: something that has nothing left in it, or variants of which an experiment takes one itself.
  #fault() {
    if (this.#settings.empty) return { error: `\`${this.#settings.empty}\` has no value left; tick one` };
    const isNone = this.#choices.length > 0 && this.#choices.every(({ checked }) => !checked);
    if (isNone) return { error: "No experiment is left; tick one" };
    const varied = this.#settings.lines.map((line) => /^vary\.(\w+)=/.exec(line)?.[1]).filter(Boolean);
    const chosen = this.#study.experiments.filter(({ name }) => this.#choices.some(({ checked, value }) => checked && value === name));
    const own = varied.map((key) => [key, chosen.filter(({ sets }) => sets.includes(key)).map(({ name }) => `\`${name}\``)]).find(([, names]) => names.length);
    return own ? { error: `\`${own[0]}\` is one of its variants in ${own[1].join(", ")}; leave these experiments out` } : null;
  }

  #show({ error = "", ...words }) {
    this.#wrong.replaceChildren(...coded(error));
    for (const [size, place] of Object.entries(this.#sizes)) place.textContent = words[size] ?? "";
  }

  async #run(button) {
    const empty = this.#fault();
    if (empty) return this.#show(empty);
    button.disabled = true;
    this.#sizes[button.value ? "small" : "all"].textContent = "into the queue…";
    try {
      const { number } = await this.#page.server.post(`studies/${this.#study.name}/queue`, { ...this.#fields(), reduced: button.value });
      this.#page.go(`#/queue/${number}`);
    } catch (error) {
      this.#show({ error: error.message });
      this.#wrong.scrollIntoView({ block: "nearest" });
    }
    button.disabled = false;
  }
}
