// SPDX-License-Identifier: GPL-2.0-only OR MIT
// One congestion control beside Cubic over a geostationary link, its parameters, and its source.

import { Figure } from "../figure.js";
import { nameOf } from "../looks.js";
import { Batch } from "../runs.js";
import { element } from "../words.js";
import { LINK, studyOf } from "../windows.js";
import { read } from "./algorithms.js";
import { View } from "./parts.js";

const BESIDE = "cubic";

function parameters(params) {
  if (!params.length) return [];
  const rows = params.flatMap(({ name, default: usual, min, max, doc }) => [
    element("dt", {}, element("code", {}, name), ` = ${usual} `, element("span", { className: "note" }, `${min} to ${max}`)), element("dd", {}, doc)]);
  return [element("section", {}, element("h2", {}, "Parameters"), element("dl", { className: "parameters" }, ...rows))];
}

// What the head of a C file says: title, publication, differences from it.
function head(source) {
  const text = /\/\*([\s\S]*?)\*\//.exec(source)?.[1] ?? "";
  return text.split("\n").map((line) => line.replace(/^\s*\* ?/, "")).join("\n").trim();
}

export class Algorithm extends View {
  #batch = null;
  #figure = null;

  close() {
    super.close();
    this.#batch?.stop();
    this.#figure?.play(false);
  }

  async open(place, page, { path: [, name] }) {
    page.title(nameOf(name));
    const found = await read(page, `algorithms/${name}`);
    if (!found) throw new Error(`${name}: no congestion control of that name`);
    const compared = [...new Set([name, BESIDE])];
    const figure = element("div", { className: "figure" });
    const actions = page.pool ? [element("p", { className: "actions" }, element("a", { className: "button main", href: `#cc=${compared.join(",")}` }, "Try it here"))] : [];
    const pictured = page.pool ? [element("section", {}, element("h2", {}, name === BESIDE ? "Over a geostationary link" : "Beside Cubic over a geostationary link"), element("p", { className: "note" }, `${LINK[0].toUpperCase()}${LINK.slice(1)}; simulated in this tab.`), figure)] : [];
    place.replaceChildren(
      element("p", { className: "back" }, element("a", { href: "#/algorithms" }, "Algorithms")),
      element("div", { className: "head" }, element("h1", {}, nameOf(name)), element("p", {}, found.title)),
      ...actions, ...pictured, ...parameters(found.params),
      ...(found.source ? [element("section", {}, element("h2", {}, "Source"), element("pre", { tabIndex: 0, ariaLabel: "Source" }, head(found.source)),
        element("details", {}, element("summary", {}, found.file), element("pre", { tabIndex: 0, ariaLabel: "C file" }, found.source)))] : []),
      element("p", { className: "note" }, "In a study: ", element("code", {}, `cc = "${name}"`), "."));
    if (page.pool) await this.#run(page.pool, figure, compared);
  }

  async #run(pool, place, algorithms) {
    await pool.ready;
    const text = studyOf(algorithms);
    const { study } = await pool.check(text);
    if (this.isClosed) return;
    this.#figure = new Figure(place, { quantities: ["window", "goodput", "queue"], label: `Window, throughput and queue of ${algorithms.map(nameOf).join(" and ")}` });
    this.#batch = new Batch(pool, text, study, (batch) => { if (!this.isClosed && batch.runs.some(({ flows }) => flows.size)) this.#figure.show([{ batch, said: "", isKept: false }]); });
  }
}
