// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A lesson: one idea, one picture that moves, and one question that an experiment answers. All numbers in its text are results.

import { packed } from "./address.js";
import { Figure } from "./figure.js";
import { FIRST_LESSONS } from "./lessons/first.js";
import { known } from "./lessons/known.js";
import { SECOND_LESSONS } from "./lessons/second.js";
import { THIRD_LESSONS } from "./lessons/third.js";
import { Batch } from "./runs.js";
import { buttonFor, element } from "./words.js";

export const LESSONS = [...FIRST_LESSONS, ...SECOND_LESSONS, ...THIRD_LESSONS];
const STEPS = 100;
const WAIT_MS = 100;
const KNOWN = "What you know now";
// Whether the first answer to a lesson's question was right; nothing of it leaves the tab.
const foreseen = new Map();

// Returns the positions of a slider: its values, evenly or by powers, or those of a list.
function scale({ values, least, most, isLog }) {
  if (values) return { most: values.length - 1, value: (at) => values[at], at: (value) => values.reduce((best, each, at) => Math.abs(each - value) < Math.abs(values[best] - value) ? at : best, 0) };
  const ratio = Math.log(most / least);
  const steps = isLog ? STEPS : Math.min(STEPS, most - least);
  return {
    most: steps,
    value: (at) => isLog ? Math.min(most, Math.max(least, Math.round(Number((least * Math.exp(at / steps * ratio)).toPrecision(2))))) : Math.round(least + at / steps * (most - least)),
    at: (value) => Math.round(isLog ? steps * Math.log(value / least) / ratio : (value - least) / (most - least) * steps),
  };
}

// Returns a text as nodes; what stands in braces are places for results.
function placed(text) {
  return text.split(/\{([\w.]+)\}/).map((part, number) => {
    if (number % 2 === 0) return part;
    const place = element("output", { className: "live" }, "…");
    place.dataset.value = part;
    return place;
  });
}

export class Lesson {
  #pool;
  #lesson;
  #values = {};
  #sliders = {};
  #batch = null;
  #before = null;
  #chosen = null;
  #timer = null;
  #turn = 0;
  #isClosed = false;

  constructor(place, pool, number) {
    this.#pool = pool;
    const at = Math.min(LESSONS.length + 1, Math.max(1, Math.round(number) || 1));
    if (at > LESSONS.length) {
      document.title = `${KNOWN} - Perigee`;
      place.replaceChildren(this.#steps(at), element("h1", {}, KNOWN), ...known(LESSONS, foreseen), this.#all(at));
      return;
    }
    this.#lesson = LESSONS[at - 1];
    const { title, text, question, quantities, pictured = 0, sliders, fixed } = this.#lesson;
    document.title = `${title} - Perigee`;
    this.#values = { ...fixed, ...Object.fromEntries(Object.entries(sliders).map(([name, { start }]) => [name, start])) };
    this.#prose = element("div", { className: "prose" }, ...text.map((part) => element("p", {}, ...placed(part))));
    const controls = element("div", { className: "controls" }, ...Object.entries(sliders).map(([name, slider]) => this.#slider(name, slider)));
    this.#fault = element("p", { className: "bad", role: "status" });
    const figure = element("div", { className: "figure" });
    this.#answer = element("div", { className: "verdict", role: "status", hidden: true });
    this.#choices = question.choices.map((choice, number) => buttonFor(choice, () => this.#predict(number)));
    this.#open = element("a", { href: "#" }, "Open this in Try");
    place.replaceChildren(
      this.#steps(at),
      element("h1", {}, title),
      element("div", { className: "lesson" },
        element("div", { className: "reading" }, this.#prose, controls, this.#fault),
        element("div", { className: "shown" }, figure, element("p", { className: "note" }, this.#open, ", with all its settings and tables.")),
        element("section", { className: "asked" }, element("h2", {}, "What do you think?"), element("p", {}, question.text),
          element("div", { className: "choices", role: "group", ariaLabel: "Answers" }, ...this.#choices), this.#answer)),
      this.#all(at),
    );
    this.#figure = new Figure(figure, { quantities, pictures: 2, pictured, label: title });
    this.#run();
  }

  #prose;
  #fault;
  #answer;
  #choices;
  #open;
  #figure;

  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#stop();
    this.#figure?.play(false);
    document.title = "Perigee in a browser tab";
  }

  #stop() {
    this.#batch?.stop();
    this.#before?.stop();
  }

  #slider(name, slider) {
    const positions = scale(slider);
    const input = element("input", { type: "range", min: 0, max: positions.most, step: 1, id: `lesson-${name}`, value: positions.at(slider.start) });
    const output = element("output", { htmlFor: input.id });
    const say = () => {
      output.textContent = `${this.#values[name]} ${slider.unit}`.replace("-", "\u2212").trim();
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", () => {
      this.#values[name] = positions.value(Number(input.value));
      say();
      this.#before?.stop();
      this.#before = null;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#run(), WAIT_MS);
    });
    this.#sliders[name] = (value) => { input.value = String(positions.at(value)); say(); };
    say();
    return element("div", { className: "slider" }, element("label", { htmlFor: input.id }, slider.title), output, input);
  }

  // Simulates what is set; after a prediction also what was before.
  async #run(before = null) {
    const turn = ++this.#turn;
    this.#stop();
    this.#figure.reset();
    try {
      const made = await Promise.all([this.#values, before].filter(Boolean).map(async (values) => {
        const text = this.#lesson.study(values);
        const { errors, study } = await this.#pool.check(text);
        if (errors.length) throw new Error(errors[0].message);
        return { text, study, values };
      }));
      if (turn !== this.#turn || this.#isClosed) return;
      const [now, then] = made.map(({ text, study, values }) => Object.assign(new Batch(this.#pool, text, study, () => this.#draw()), { values }));
      [this.#batch, this.#before] = [now, then ?? null];
      this.#fault.textContent = "";
      const hash = `#study=${await packed(now.text)}${then ? `&beside=${await packed(then.text)}` : ""}`;
      if (turn === this.#turn) this.#open.href = hash;
    } catch (error) {
      this.#fault.textContent = error.message;
    }
  }

  #draw() {
    const batch = this.#batch;
    if (!batch || this.#isClosed) return;
    const shown = [{ batch, said: this.#before ? "after" : "", isKept: false }];
    if (this.#before) shown.push({ batch: this.#before, said: "before", isKept: true });
    this.#figure.show(shown.filter(({ batch: one }) => one.runs.some(({ flows }) => flows.size)));
    if (batch.isComplete) fill(this.#prose, this.#lesson.values(batch.runs, batch.values));
    const failed = batch.runs.find(({ state }) => state === "failed");
    if (failed) this.#fault.textContent = failed.failure;
    if (this.#chosen !== null && this.#before?.isComplete && batch.isComplete) this.#judge();
  }

  // The reader has an answer: both settings are simulated.
  #predict(choice) {
    const { before, after } = this.#lesson.question;
    this.#chosen = choice;
    this.#choices.forEach((button, number) => button.setAttribute("aria-pressed", String(number === choice)));
    this.#answer.hidden = false;
    this.#answer.replaceChildren("Simulating both…");
    const base = { ...this.#lesson.fixed, ...Object.fromEntries(Object.entries(this.#lesson.sliders).map(([name, { start }]) => [name, start])) };
    this.#values = { ...base, ...after };
    for (const [name, set] of Object.entries(this.#sliders)) set(this.#values[name]);
    this.#run({ ...base, ...before });
  }

  #judge() {
    const { question, values } = this.#lesson;
    const [before, now] = [this.#before, this.#batch].map((batch) => values(batch.runs, batch.values));
    const right = question.right(before, now);
    const chosen = this.#chosen;
    this.#chosen = null;
    if (!foreseen.has(this.#lesson)) foreseen.set(this.#lesson, chosen === right);
    this.#choices.forEach((button, number) => { button.dataset.verdict = number === right ? "right" : number === chosen ? "wrong" : ""; });
    const said = chosen === right ? "✓ That is what happens. " : `✗ What happens: “${question.choices[right]}”. `;
    const text = element("p", {}, element("strong", { className: chosen === right ? "good" : "bad" }, said), ...placed(question.answer));
    fill(text, { ...prefixed("before", before), ...prefixed("now", now) });
    this.#answer.dataset.right = String(right);
    this.#answer.replaceChildren(text);
  }

  #steps(at) {
    return element("nav", { className: "steps", ariaLabel: "Lessons" }, ...[...LESSONS, { title: KNOWN }].map(({ title }, number) => {
      const isLast = number === LESSONS.length;
      const link = element("a", { href: `#lesson=${number + 1}`, title, ariaLabel: isLast ? title : `Lesson ${number + 1}: ${title}` }, isLast ? "✓" : String(number + 1));
      if (number + 1 === at) link.setAttribute("aria-current", "page");
      return link;
    }));
  }

  #all(at) {
    const next = LESSONS[at]?.title ?? KNOWN;
    const on = at > LESSONS.length ? element("a", { className: "button main", href: "#link=geo" }, "Now ask a question of your own") : element("a", { className: "button main", href: `#lesson=${at + 1}` }, `Next: ${next}`);
    const back = at > 1 ? [element("a", { className: "button", href: `#lesson=${at - 1}` }, "Back")] : [];
    return element("div", { className: "actions turn" }, on, ...back);
  }
}

function prefixed(name, values) {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [`${name}.${key}`, value]));
}

// Puts results in their places of a text.
function fill(place, values) {
  for (const output of place.querySelectorAll("output[data-value]")) output.textContent = values[output.dataset.value] ?? `(no ${output.dataset.value})`;
}
