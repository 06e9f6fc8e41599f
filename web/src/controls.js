// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The controls of the first study: link, queue, loss, algorithms, length, proxy.

import { NAMES, colours } from "./looks.js";
import { nameOf, ownAlgorithm } from "./own.js";
import { FIRST, LINKS, QUEUES, bandwidthDelay } from "./study.js";
import { buttonFor, element, milliseconds, size, three } from "./words.js";

const STEPS = 200;
const SHOWN = 6;
const LOSSES = [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];

// A slider whose positions are powers: equal steps multiply.
function between(least, most) {
  const ratio = Math.log(most / least);
  return {
    at: (value) => Math.round(STEPS * Math.log(value / least) / ratio),
    value: (at) => Number((least * Math.exp(at / STEPS * ratio)).toPrecision(2)),
    most: STEPS,
  };
}

const SLIDERS = {
  rate: { title: "Rate", scale: between(1, 500), says: (form) => `${three(form.rate)} Mbit/s` },
  delay: { title: "Round trip", scale: between(5, 500), says: (form) => milliseconds(2 * form.delay) },
  bdp: { title: "Queue", scale: between(0.02, 10), says: (form) => `${size(form.queue * 1000)}, ${three(form.queue / bandwidthDelay(form))} BDP` },
  loss: { title: "Random loss", scale: { at: (value) => nearest(LOSSES, value), value: (at) => LOSSES[at], most: LOSSES.length - 1 }, says: (form) => form.loss ? `${form.loss} % of packets` : "none" },
  duration: { title: "Length of the download", scale: between(2, 300), says: (form) => `${three(form.duration)} s` },
};

// What a link is, beside its delay.
const OF_LINK = ["rate", "bdp", "loss"];

// The link that has the delay of a form, if any.
function linkOf(form) {
  return Object.values(LINKS).find(({ delay }) => delay === form.delay);
}

function nearest(values, wanted) {
  return values.reduce((best, value, at) => Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? at : best, 0);
}

export class Controls {
  #changed;
  #form = { ...FIRST };
  #bdp = 1;
  #sliders = {};
  // Settings of a link that were chosen by themselves: they stay when another orbit is chosen.
  #chosen = new Set();
  #own = [];

  // `changed(form, isAnew)` is called with what the controls say; `isAnew`: an algorithm of it is another one now.
  constructor(pool, changed) {
    this.#changed = changed;
    this.#pool = pool;
    this.#orbits = element("div", { className: "chips orbits", role: "group", ariaLabel: "Link" }, ...Object.entries(LINKS).map(([name, { title }]) => {
      const button = element("button", { type: "button", className: "chip-button" }, title);
      button.dataset.link = name;
      button.addEventListener("click", () => this.#choose(LINKS[name]));
      return button;
    }));
    this.#stays = element("p", { className: "note", role: "status", hidden: true });
    this.#algorithms = element("div", { className: "chips algorithms", role: "group", ariaLabel: "Congestion controls" });
    const sliders = Object.entries(SLIDERS).map(([name, slider]) => this.#slider(name, slider));
    const queue = element("select", { id: "aqm" }, ...Object.entries(QUEUES).map(([value, text]) => element("option", { value }, text)));
    queue.addEventListener("change", () => this.#set({ aqm: queue.value }));
    this.#queue = queue;
    this.#proxy = element("input", { type: "checkbox", id: "proxy" });
    this.#proxy.addEventListener("change", () => this.#set({ proxy: this.#proxy.checked }));
    const back = buttonFor("Back to the controls", () => { this.show(this.#form); this.#changed({ ...this.#form }); }, "small");
    this.#note = element("p", { className: "note", hidden: true }, "The study file says something that these controls cannot show. ", back);
    this.#fields = element("fieldset", { className: "controls" },
      element("legend", { className: "unseen" }, "Controls"),
      element("h2", {}, "Link"), this.#orbits, this.#stays, ...sliders.slice(0, 3),
      element("div", { className: "slider" }, element("label", { htmlFor: "aqm" }, "Kind of queue"), queue),
      sliders[3],
      element("h2", {}, "Congestion control"), this.#algorithms, ownAlgorithm(pool, (file) => this.add(file)),
      element("h2", {}, "Download"), sliders[4],
      element("label", { className: "check", htmlFor: "proxy" }, this.#proxy, element("span", {}, "A proxy splits the connection at the gateway, with Hybla over the satellite")));
    this.place = element("div", {}, this.#note, this.#fields);
    this.show(this.#form);
  }

  #pool;
  #orbits;
  #stays;
  #algorithms;
  #queue;
  #proxy;
  #note;
  #fields;

  // Shows what a study says; null: it says more than the controls do.
  show(form) {
    this.#note.hidden = form !== null;
    this.#fields.disabled = form === null;
    if (form === null) return;
    this.#form = { ...form };
    this.#bdp = form.queue / bandwidthDelay(form);
    const link = linkOf(form);
    if (link) this.#chosen = new Set(OF_LINK.filter((name) => three(this.#value(name)) !== three(link[name])));
    this.#stays.hidden = true;
    this.#refresh();
  }

  // Offers an author's own algorithm, and runs it, even if one of this name ran before.
  add(name) {
    this.#own = [...this.#own.filter((other) => other !== name), name];
    this.#set({ cc: [...this.#form.cc.filter((other) => other !== name), name] }, true);
  }

  compared(isCompared) {
    this.place.classList.toggle("compared", isCompared);
  }

  #set(part, isAnew = false) {
    Object.assign(this.#form, part);
    this.#form.queue = Math.max(3, Number((this.#bdp * bandwidthDelay(this.#form)).toPrecision(3)));
    this.#refresh();
    this.#changed({ ...this.#form, cc: [...this.#form.cc] }, isAnew);
  }

  // Chooses a link; what was chosen by itself stays, and the page says so.
  #choose(link) {
    const stays = OF_LINK.filter((name) => this.#chosen.has(name) && three(this.#value(name)) !== three(link[name]));
    const part = Object.fromEntries(["rate", "loss"].filter((name) => !stays.includes(name)).map((name) => [name, link[name]]));
    if (!stays.includes("bdp")) this.#bdp = link.bdp;
    this.#set({ ...part, delay: link.delay });
    this.#stays.hidden = !stays.length;
    const own = buttonFor(`Those of ${link.title.toLowerCase()}`, () => { this.#chosen.clear(); this.#choose(link); }, "small");
    this.#stays.replaceChildren(`As you chose: ${stays.map((name) => SLIDERS[name].title.toLowerCase()).join(", ")}. `, own);
  }

  #value(name) {
    return name === "bdp" ? this.#bdp : this.#form[name];
  }

  #slider(name, { title, scale }) {
    const input = element("input", { type: "range", min: 0, max: scale.most, step: 1, id: `slide-${name}` });
    const output = element("output", { htmlFor: input.id });
    input.addEventListener("input", () => {
      const value = scale.value(Number(input.value));
      if (OF_LINK.includes(name)) this.#chosen.add(name);
      if (name === "bdp") this.#bdp = value;
      this.#set(name === "bdp" ? {} : { [name]: value });
    });
    this.#sliders[name] = { input, output };
    return element("div", { className: "slider" }, element("label", { htmlFor: input.id }, title), output, input);
  }

  #refresh() {
    const form = this.#form;
    const values = { ...form, bdp: this.#bdp };
    for (const [name, { scale, says }] of Object.entries(SLIDERS)) {
      const { input, output } = this.#sliders[name];
      const at = String(scale.at(values[name]));
      if (input.value !== at && document.activeElement !== input) input.value = at;
      output.textContent = says(form);
      input.setAttribute("aria-valuetext", output.textContent);
    }
    for (const button of this.#orbits.children) {
      button.setAttribute("aria-pressed", String(LINKS[button.dataset.link].delay === form.delay));
    }
    this.#queue.value = form.aqm;
    this.#proxy.checked = form.proxy;
    this.#chips();
  }

  #chips() {
    const { cc } = this.#form;
    const known = [...this.#own, ...Object.keys(NAMES)].filter((name) => this.#own.includes(name) || this.#pool.algorithms.some((one) => one.name === name));
    const shown = known.filter((name, place) => place < SHOWN || cc.includes(name));
    const places = colours(cc);
    const chip = (name) => {
      const isChosen = cc.includes(name);
      const button = element("button", { type: "button", className: `chip-button ${isChosen ? `is-${places.get(name)}` : ""}`, title: this.#pool.algorithms.find((one) => one.name === name || one.file === name)?.title ?? "" }, element("i"), nameOf(name));
      button.dataset.cc = name;
      button.setAttribute("aria-pressed", String(isChosen));
      button.addEventListener("click", () => {
        const next = isChosen ? cc.filter((other) => other !== name) : [...cc, name];
        if (!next.length) return;
        this.#set({ cc: next });
        this.#algorithms.querySelector(`[data-cc="${name}"]`)?.focus();
      });
      return button;
    };
    const rest = known.filter((name) => !shown.includes(name));
    const more = element("select", { className: "more", ariaLabel: "Add a congestion control" }, element("option", { value: "" }, `${rest.length} more…`), ...rest.map((name) => element("option", { value: name }, nameOf(name))));
    more.addEventListener("change", () => { if (more.value) this.#set({ cc: [...cc, more.value] }); });
    this.#algorithms.replaceChildren(...shown.map(chip), ...(rest.length ? [more] : []));
  }
}
