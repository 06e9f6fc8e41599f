// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What one takes along: a link, the study, tables, the figure, and the command that does the same on one's own machine.

import { separated, stream } from "./arrow.js";
import { drawing, picture, svgText } from "./drawing.js";
import { buttonFor, element } from "./words.js";
import { zipped } from "./zip.js";

const COMMAND = "perigee run study.toml";
const IN_A_FOLDER = "It leads to this page in your folder: to share it, send the page along, or put the part from # on behind the address of a page that others reach.";

// Gives a file to the browser to keep.
export function saved(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Returns the tables of runs by name, each of all runs.
function tables(runs) {
  const names = [...new Set(runs.flatMap(({ result }) => result.tables.map(([name]) => name)))];
  return names.map((name) => {
    const having = runs.filter(({ result }) => name in result.columns);
    return [name, having.map(({ result }) => new Map(result.tables).get(name)), having.map(({ result }) => result.columns[name])];
  });
}

export class Downloads {
  #figure;
  #batch = null;
  #said = element("span", { className: "note", role: "status" });
  #buttons = [];
  #command;

  constructor(place, figure) {
    this.#figure = figure;
    const button = (text, act) => {
      const made = Object.assign(buttonFor(text, act, "small"), { disabled: true });
      this.#buttons.push(made);
      return made;
    };
    const link = button("Copy link", () => this.#copy(location.href, location.protocol === "file:" ? IN_A_FOLDER : "The address has the whole study; who opens it sees this figure."));
    this.#command = element("code", {}, COMMAND);
    place.append(
      element("h2", {}, "Take it along"),
      element("div", { className: "actions" }, link,
        button("Study, TOML", () => saved(new Blob([this.#batch.text], { type: "text/plain" }), "study.toml")),
        button("Tables, CSV", () => this.#tables("csv")), button("Tables, Arrow", () => this.#tables("arrow")),
        button("Figure, SVG", () => saved(new Blob([svgText(this.#drawing())], { type: "image/svg+xml" }), "figure.svg")),
        button("Figure, PNG", async () => saved(await picture(this.#drawing()), "figure.png")), this.#said),
      element("p", { className: "note" }, "The same on your own machine, with the study file: ", this.#command, ". It uses all cores, and writes the same tables."),
    );
  }

  show(batch) {
    this.#batch = batch;
    this.#command.textContent = batch.study.reduced ? `${COMMAND} --reduced` : COMMAND;
    for (const button of this.#buttons) button.disabled = !batch.isComplete;
  }

  #drawing() {
    return drawing(this.#figure.panels, this.#figure.lines, this.#figure.until);
  }

  async #tables(form) {
    const files = [["study.toml", new TextEncoder().encode(this.#batch.text)]];
    for (const [name, arrow, columns] of tables(this.#batch.runs)) {
      if (form === "csv") files.push([`${name}.csv`, new TextEncoder().encode(separated(columns))]);
      else files.push([`${name}.arrows`, new Uint8Array(await stream(arrow).arrayBuffer())]);
    }
    saved(zipped(files), `tables-${form}.zip`);
  }

  async #copy(text, said) {
    try {
      await navigator.clipboard.writeText(text);
      this.#said.textContent = `Copied. ${said}`;
    } catch {
      this.#said.textContent = `Copy the address of this page. ${said}`;
    }
  }
}
