// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The bench of Try: a link and algorithms on the left, as controls or as the text of a study, and what they give on the right.

import { packed, unpacked } from "./address.js";
import { Controls } from "./controls.js";
import { Downloads } from "./downloads.js";
import { Editor } from "./editor.js";
import { Figure } from "./figure.js";
import { finding } from "./finding.js";
import { Batch } from "./runs.js";
import { FIRST, apart, named, read, written } from "./study.js";
import { Summary } from "./summary.js";
import { buttonFor, coded, element } from "./words.js";

const WAIT_MS = 120;
const TO_KEEP = "Then change something: both are drawn, this one thin and dashed.";

export class Bench {
  #pool;
  #remember;
  #text = "";
  #study = null;
  #batch = null;
  #kept = null;
  #isDrawn = true;
  #isSmall = true;
  #timer = null;
  #asked = 0;
  #isClosed = false;

  // `asked`: parts of the address; `remember(hash)` puts another one there.
  constructor(place, pool, asked, remember) {
    this.#pool = pool;
    this.#remember = remember;
    this.#controls = new Controls(pool, (form, isAnew) => this.#take(written(form), WAIT_MS, isAnew ? "algorithm" : "controls"));
    this.#editor = new Editor((text) => this.#take(text, 0, "editor"), pool.studies);
    this.#finding = element("p", { className: "answer", role: "status" });
    const figure = element("div", { className: "figure" });
    const table = element("div", { className: "scroll" });
    this.#progress = element("progress", { max: 1, value: 0, hidden: true, ariaLabel: "Share of the runs that is simulated" });
    this.#stop = element("button", { type: "button", className: "small", hidden: true }, "Stop");
    this.#stop.addEventListener("click", () => this.#batch?.stop());
    this.#keep = buttonFor("Keep for comparison", () => this.#hold(this.#kept ? null : this.#batch));
    this.#took = element("span", { className: "note" });
    this.#all = element("button", { type: "button", className: "small", hidden: true });
    this.#all.addEventListener("click", () => { this.#isSmall = !this.#isSmall; this.#run(this.#text); });
    const downloads = element("section", { className: "take" });
    place.replaceChildren(
      element("div", { className: "top" }, element("h1", {}, "A satellite link, in this tab"), this.#notice, this.#finding),
      element("div", { className: "bench" },
        element("div", { className: "right" }, figure, table, element("div", { className: "doing" }, this.#stop, this.#progress, this.#took, this.#all)),
        element("div", { className: "left" }, this.#tabs(),
          element("div", { className: "compare" }, this.#keep, this.#keeps)),
        downloads),
    );
    this.#figure = new Figure(figure);
    this.#summary = new Summary(table);
    this.#downloads = new Downloads(downloads, this.#figure);
    this.#embed(place, asked.view === "figure");
    this.#open(asked);
  }

  // A page that has this one in a frame shows the figure alone, with a way to all the rest.
  #embed(place, isFigure) {
    document.documentElement.classList.toggle("figure-only", isFigure);
    if (!isFigure) return;
    this.#whole = element("a", { target: "_blank", rel: "noopener" }, "Change this in Try");
    place.append(element("p", { className: "note" }, this.#whole));
  }

  #whole = null;

  #controls;
  #editor;
  #finding;
  #notice = element("p", { className: "error", role: "alert", hidden: true });
  #fault = "";
  #said = "";
  #figure;
  #summary;
  #downloads;
  #progress;
  #stop;
  #keep;
  #keeps = element("span", { className: "note" }, TO_KEEP);
  #took;
  #all;
  #select;

  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#batch?.stop();
    this.#figure.play(false);
    this.#editor.close();
  }

  async #open(asked) {
    let text = written(named(asked) ?? FIRST);
    this.#isSmall = asked.size !== "all";
    let beside = null;
    try {
      if (asked.study) text = await unpacked(asked.study);
      if (asked.beside) beside = await unpacked(asked.beside);
    } catch (error) {
      this.#controls.show(FIRST);
      this.#editor.show(text);
      this.#notice.textContent = `The address holds no study: ${error.message}. This is the first one instead.`;
      this.#notice.hidden = false;
    }
    if (asked.study && read(text) === null) this.#select("text");
    this.#take(text, 0, "address");
    if (beside !== null) this.#beside(beside);
  }

  // Runs the study of an address for comparison.
  async #beside(text) {
    const { study } = await this.#pool.check(text, this.#isSmall);
    if (!study || this.#isClosed) return;
    this.#hold(new Batch(this.#pool, text, study, () => this.#draw()));
  }

  // Takes a text from `source`, and runs it after a while.
  #take(text, wait_ms, source) {
    if (text === this.#text && !["address", "algorithm"].includes(source)) return;
    this.#text = text;
    const form = read(text);
    if (source !== "controls") this.#controls.show(form);
    if (source !== "editor") this.#editor.show(text);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#run(text), wait_ms);
  }

  async #run(text) {
    const mine = ++this.#asked;
    let answer;
    try {
      answer = await this.#pool.check(text, this.#isSmall);
    } catch (error) {
      answer = { errors: [{ message: error.message, fix: "", line: 0, column: 0 }], study: null };
    }
    if (mine !== this.#asked || this.#isClosed) return;
    this.#editor.judge(answer.errors, text);
    if (answer.errors.length) {
      this.#batch?.stop();
      this.#fault = this.#batch ? "The study has a fault; what is shown is of the one before." : `The study has a fault: ${answer.errors[0].message}`;
      this.#say(this.#fault, true);
      return;
    }
    this.#batch?.stop();
    this.#fault = "";
    this.#figure.reset();
    this.#study = answer.study;
    this.#batch = new Batch(this.#pool, text, answer.study, (batch) => { if (batch === this.#batch) this.#draw(); });
    this.#address();
    this.#draw();
  }

  async #address() {
    const study = `study=${await packed(this.#batch.text)}`;
    const beside = this.#kept ? `&beside=${await packed(this.#kept.text)}` : "";
    const all = this.#isSmall ? "" : "&size=all";
    if (this.#isClosed) return;
    if (this.#whole) this.#whole.href = `#${study}${beside}${all}`;
    else this.#remember(`#${study}${beside}${all}`);
  }

  // Keeps a setting, or lets it go.
  #hold(batch) {
    this.#kept = batch;
    this.#keep.textContent = batch ? "Clear" : "Keep for comparison";
    this.#keeps.textContent = batch ? "The setting that is kept is drawn thin and dashed, beside what you set now." : TO_KEEP;
    this.#controls.compared(batch !== null);
    if (this.#batch) this.#address();
    this.#draw();
  }

  // Draws at most once a frame.
  #draw() {
    if (!this.#isDrawn) return;
    this.#isDrawn = false;
    const draw = () => {
      if (this.#isDrawn) return;
      this.#isDrawn = true;
      this.#drawNow();
    };
    requestAnimationFrame(draw);
    // A page that is not seen has no frames.
    setTimeout(draw, 200);
  }

  #drawNow() {
    const batch = this.#batch;
    if (!batch || this.#isClosed) return;
    const beside = this.#kept && this.#kept !== batch ? this.#kept : null;
    const [now, before] = (beside && apart(batch.text, beside.text)) ?? [beside ? "now" : "", "kept"];
    const batches = [{ batch, said: now, isKept: false }];
    if (beside) batches.push({ batch: beside, said: before, isKept: true });
    this.#figure.show(batches.filter(({ batch: one }) => one.runs.some(({ flows }) => flows.size)));
    this.#summary.show(this.#figure.lines);
    this.#stop.hidden = this.#progress.hidden = batch.isOver;
    this.#progress.value = batch.share;
    const failed = batch.runs.find(({ state }) => state === "failed");
    const { reduced } = batch.study;
    this.#all.hidden = !(reduced || !this.#isSmall) || !batch.isOver;
    this.#all.textContent = reduced ? "Run all, as it stands" : "Run small";
    const lines = this.#figure.lines.leftOut ? ` ${counted(this.#figure.lines.leftOut, "flow")} more are not drawn; the tables have all.` : "";
    const more = batch.leftOut ? ` ${batch.leftOut} further runs of the study are left out here; perigee run does all.` : "";
    const took = batch.isComplete && batch.took_ms ? `Simulated ${counted(batch.runs.length, "run")} in ${(batch.took_ms / 1000).toFixed(2)} s.` : "";
    this.#took.textContent = `${took}${lines}${more}`;
    this.#say(this.#fault || (failed ? failed.failure : finding(batch, this.#figure.lines, this.#study)), Boolean(this.#fault || failed));
    this.#downloads.show(batch);
    // What measures how long a reader waits.
    if (this.#figure.lines.length) performance.mark(batch.isComplete ? "whole" : "first");
  }

  #say(text, isWrong = false) {
    if (this.#said !== text) this.#finding.replaceChildren(...coded(text));
    this.#said = text;
    this.#finding.classList.toggle("bad", isWrong);
  }

  #tabs() {
    const pages = { controls: ["Controls", this.#controls.place], text: ["Study file", this.#editor.place] };
    const list = element("div", { className: "tabs", role: "tablist", ariaLabel: "The study as controls or as text" });
    const boxes = [];
    for (const [name, [title, content]] of Object.entries(pages)) {
      const tab = element("button", { type: "button", id: `tab-${name}`, role: "tab", className: "tab" }, title);
      tab.setAttribute("aria-controls", `page-${name}`);
      tab.addEventListener("click", () => this.#select(name));
      list.append(tab);
      const box = element("div", { id: `page-${name}`, role: "tabpanel", className: "tab-page" }, content);
      box.setAttribute("aria-labelledby", tab.id);
      boxes.push(box);
    }
    const tabs = [...list.children];
    this.#select = (name) => {
      tabs.forEach((tab, number) => {
        const isChosen = tab.id === `tab-${name}`;
        tab.setAttribute("aria-selected", String(isChosen));
        tab.tabIndex = isChosen ? 0 : -1;
        boxes[number].hidden = !isChosen;
      });
    };
    list.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
    this.#select("controls");
    return element("div", { className: "sheet" }, list, ...boxes);
  }
}

function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
