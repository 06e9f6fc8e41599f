// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Graphs over time of any runs and flows, of these and of other results, laid over each other. The address has the view.

import { saved } from "../downloads.js";
import { drawing, picture, svgText } from "../drawing.js";
import { envelopes, points, rangeAt } from "../envelopes.js";
import { swatch } from "../looks.js";
import { Names, curveOf, keyOf, overlay } from "../overlay.js";
import { Panels } from "../panels.js";
import { buttonFor, element, three } from "../words.js";
import { View, address } from "./parts.js";

const MOST_COLUMNS = 1400;
const AXES_PX = 64;
const STEP = 0.25;
const KEY_STEPS = 100;
const STEPS = { "Zoom in": [STEP, -STEP], "Zoom out": [-2 * STEP, 2 * STEP], Earlier: [-STEP, -STEP], Later: [STEP, STEP] };
const KEYS = { "+": "Zoom in", "=": "Zoom in", "-": "Zoom out", 0: "Whole run", Home: "Whole run" };
const HELP = "Graphs over time: arrow keys read values, with Shift they move the window, + and - zoom, 0 shows whole runs";

export class GraphsView extends View {
  #place;
  #page;
  #here;
  #names = new Map();
  #curves = [];
  #what = [];
  #window = null;
  #shown = null;
  #asked = null;
  #wanted = null;
  #cursor = null;

  close() {
    super.close();
    this.#watch?.disconnect();
  }

  #watch;
  #panels;
  #charts;
  #choices;
  #legend;
  #values;
  #said;
  #spoken;

  async open(place, page, { path: [, here], query }) {
    this.#place = place;
    this.#page = page;
    this.#here = here;
    page.title(`Graphs of ${here}`);
    const given = query.getAll("run").map((text) => curveOf(text, this.#here));
    await Promise.all([...new Set([this.#here, ...given.map(({ results }) => results)])].map((name) => this.#read(name)));
    if (this.isClosed) return;
    const { first, quantities } = this.#names.get(this.#here).menu;
    const missing = given.find(({ results, run }) => !this.#names.get(results).has(run));
    if (missing) throw new Error(`run ${missing.run}: not in these results; choose one from the list`);
    this.#curves = given.length ? given : first.runs.map((run) => ({ results: this.#here, run, flow: "", leg: 0 }));
    const keys = query.getAll("what").length ? query.getAll("what") : first.what;
    this.#what = keys.map((key) => quantities.find((one) => one.key === key)).filter(Boolean);
    const [from, to] = ["from", "to"].map((name) => query.has(name) ? Number(query.get(name)) : NaN);
    this.#window = from < to ? [from, to] : null;
    this.#build();
    this.#tellChoices();
    await this.#show();
  }

  async #read(name) {
    if (!this.#names.has(name)) this.#names.set(name, new Names(await this.#page.server.get(`results/${name}/graphs`)));
  }

  #build() {
    this.#choices = element("div", { className: "choices-of-graphs" });
    this.#legend = element("div", { className: "legend-of-runs" });
    this.#values = element("table", { className: "read-values" });
    this.#said = element("span", { className: "note", role: "status" });
    this.#spoken = element("p", { className: "unseen", role: "status" });
    this.#charts = element("div", { className: "panels of-results", tabIndex: 0, role: "group", ariaLabel: HELP });
    const step = (name) => buttonFor(name, () => this.#step(name), "small");
    const choose = element("details", { open: !matchMedia("(max-width: 44rem)").matches }, element("summary", {}, "Add runs and quantities"), this.#choices);
    const steps = [...Object.keys(STEPS), "Whole run"].map(step);
    this.#place.replaceChildren(
      element("p", { className: "back" }, element("a", { href: address(`results/${this.#here}`) }, this.#here)),
      element("h1", {}, "Graphs over time"), choose,
      element("p", { className: "actions" }, ...steps, this.#said), this.#legend, this.#charts,
      element("div", { className: "scroll", role: "region", ariaLabel: "Values", tabIndex: 0 }, this.#values),
      this.#spoken, this.#downloads());
    this.#panels = new Panels(this.#charts, (time) => this.#tellValues(time), (window) => this.#zoom(window));
    this.#charts.addEventListener("keydown", (event) => this.#key(event));
    let width = this.#charts.clientWidth;
    this.#watch = new ResizeObserver(() => {
      if (this.#charts.clientWidth === width || !this.#charts.clientWidth) return;
      width = this.#charts.clientWidth;
      this.#show();
    });
    this.#watch.observe(this.#charts);
  }

  #downloads() {
    const svg = () => drawing(this.#shown.panels, this.#shown.lines, this.#shown.to, this.#shown.from);
    const kind = this.#page.server.kind === "beside" ? "parquet" : "csv";
    const leftOut = this.#names.get(this.#here).menu.left_out;
    const absent = leftOut ? ` ${leftOut} runs of later rounds are not in this site; the tables have them.` : "";
    const tables = [...new Set(this.#what.map(({ table }) => table))];
    const links = tables.flatMap((table, at) => [at ? ", " : "", element("a", { href: this.#page.server.file(`results/${this.#here}/tables/${table}.${kind}`), download: "" }, `${table}.${kind}`)]);
    return element("div", {},
      element("p", { className: "note" }, "Drag over a part to zoom into it, double-click for whole runs. The address of this page is a link to what it shows. A column of pixels shows the smallest and the largest sample in its time. The tables: ", ...links, `.${absent}`),
      element("p", { className: "actions" },
        buttonFor("Figure, SVG", () => saved(new Blob([svgText(svg())], { type: "image/svg+xml" }), `${this.#here}.svg`), "small"),
        buttonFor("Figure, PNG", async () => saved(await picture(svg()), `${this.#here}.png`), "small")));
  }

  // Menus of what can be added.
  #tellChoices() {
    const select = (label, options) => {
      const made = element("select", {}, ...options);
      return [made, element("label", {}, `${label} `, made)];
    };
    const option = (value, text) => element("option", { value }, text);
    const groups = (many) => [...many].map(([label, options]) => element("optgroup", { label }, ...options));
    const adder = (text, act, ...fields) => {
      const form = element("form", { className: "search" }, ...fields, element("button", {}, text));
      form.addEventListener("submit", (event) => { event.preventDefault(); act(); });
      return form;
    };
    const runs = [...this.#names].map(([name, { menu }]) => [name, menu.points.map((point) => option(keyOf({ results: name, run: point.runs[0][1], flow: "", leg: 0 }, this.#here), point.label))]);
    const [point, ofPoint] = select("Run", runs.length > 1 ? groups(runs) : runs[0][1]);
    const rounds = Math.max(...[...this.#names.values()].map(({ menu }) => menu.rounds));
    const round = element("input", { type: "number", min: 1, max: rounds, value: 1, required: true });
    const [flow, ofFlow] = select("Flow", [option("", "All flows"), ...this.#flows().map(([value, text]) => option(value, text))]);
    const quantities = grouped(this.#left());
    const [quantity, ofQuantity] = select("Quantity", groups([...quantities].map(([of, many]) => [of, many.map(({ key, title, unit }) => option(key, unit ? `${title} (${unit})` : title))])));
    this.#choices.replaceChildren(
      adder("Add run", () => this.#addRun(point.value, Number(round.value) - 1, flow.value), ofPoint,
        ...(rounds > 1 ? [element("label", {}, "Round ", round)] : []), ...(flow.options.length > 2 ? [ofFlow] : [])),
      ...(quantity.options.length ? [adder("Add panel", () => this.#go({ what: [...this.#what.map(({ key }) => key), quantity.value] }), ofQuantity)] : []),
      this.#others());
  }

  #flows() {
    const all = [...this.#names.values()].flatMap(({ menu }) => menu.points.flatMap(({ flows }) => flows));
    return [...new Map(all.map(({ name, leg, label }) => [leg ? `${name}~${leg}` : name, leg ? `${label}, leg ${leg}` : label]))].slice(0, 500);
  }

  #left() {
    return this.#names.get(this.#here).menu.quantities.filter((one) => !this.#what.includes(one));
  }

  // Other results, whose runs come into the menu.
  #others() {
    const box = element("form", { className: "search" });
    this.#page.server.get("results").then(({ results }) => {
      const names = results.filter(({ name, state }) => state === "finished" && !this.#names.has(name)).map(({ name }) => name);
      if (!names.length) return;
      const menu = element("select", {}, ...names.map((name) => element("option", {}, name)));
      box.append(element("label", {}, "Other results ", menu), element("button", {}, "List its runs"));
      box.addEventListener("submit", async (event) => {
        event.preventDefault();
        await this.#read(menu.value);
        this.#tellChoices();
      });
    });
    return box;
  }

  #addRun(key, round, flow) {
    const curve = curveOf(key, this.#here);
    const named = curveOf(`0:${flow}`, this.#here);
    const added = { ...curve, run: this.#names.get(curve.results).inRound(curve.run, round), flow: named.flow, leg: named.leg };
    this.#go({ run: [...new Set([...this.#curves, added].map((one) => keyOf(one, this.#here)))] });
  }

  #query(changed = {}) {
    const [from, to] = this.#window ?? [];
    const rounded = (value) => value === undefined ? "" : Number(value.toPrecision(9));
    return { run: this.#curves.map((one) => keyOf(one, this.#here)), what: this.#what.map(({ key }) => key), from: rounded(from), to: rounded(to), ...changed };
  }

  #go(changed) {
    this.#page.go(address(`results/${this.#here}/graphs`, this.#query(changed)));
  }

  // A link that takes a run or a quantity away.
  #away(text, changed) {
    return element("a", { className: "away", href: address(`results/${this.#here}/graphs`, this.#query(changed)), ariaLabel: `Take away ${text}` }, "×");
  }

  // The lines by name, each with what takes its run away; a run without samples has its name only.
  #tellLegend() {
    const { lines, common } = this.#shown;
    const items = this.#curves.flatMap((curve, at) => {
      const own = lines.filter((line) => line.curve === at);
      const label = `${this.#names.get(curve.results).label(curve.run)}${curve.flow ? `: ${curve.flow}` : ""}`;
      const away = this.#curves.length > 1 ? [this.#away(label, { run: this.#curves.filter((one) => one !== curve).map((one) => keyOf(one, this.#here)) })] : [];
      if (!own.length) return [element("li", {}, `${label}: no samples `, ...away)];
      return own.map((line, place) => element("li", {}, swatch(line.look), `${line.label} `, ...(place ? [] : away)));
    });
    this.#legend.replaceChildren(element("ul", { className: "legend" }, ...items), ...(common ? [element("p", { className: "note" }, `All: ${common}`)] : []));
  }

  // Asks for what is shown, one request at a time: of those wanted meanwhile the last is made next.
  async #show() {
    this.#wanted = this.#window ?? [];
    if (this.#asked) return;
    try {
      while (this.#wanted && !this.isClosed) {
        this.#asked = this.#wanted;
        this.#wanted = null;
        const begun = this.#shown ? performance.now() : 0;
        const answers = await this.#answers(this.#asked.length ? this.#asked : null);
        if (this.isClosed) return;
        this.#draw(answers);
        performance.measure("graph", { start: begun, end: performance.now() });
        if (this.#shown.read < 1) this.#wanted ??= this.#asked;
        else performance.mark("whole");
      }
    } finally {
      this.#asked = null;
    }
  }

  async #answers(window) {
    const columns = Math.max(64, Math.min(MOST_COLUMNS, this.#charts.clientWidth - AXES_PX));
    const asked = async (part) => new Map(await Promise.all([...new Set(this.#curves.map(({ results }) => results))].map(async (name) => {
      const runs = this.#curves.filter(({ results }) => results === name).map(({ run, flow }) => flow ? `${run}:${flow}` : String(run));
      const there = this.#names.get(name).menu.quantities;
      const what = this.#what.map(({ key }) => key).filter((key) => there.some((one) => one.key === key));
      if (!what.length) return [name, null];
      const found = await envelopes(this.#page.server, name, { runs: [...new Set(runs)], what, window: part, columns });
      // The numbers of quantities are those of the view.
      return [name, { ...found, traces: found.traces.map((trace) => ({ ...trace, what: this.#what.findIndex(({ key }) => key === what[trace.what]) })) }];
    })));
    const found = await asked(window);
    const some = [...found.values()].filter(Boolean);
    const whole = [Math.min(...some.map(({ first }) => first)), Math.max(...some.map(({ last }) => last))];
    // Of several results each has the axis of all.
    return window || some.every(({ from, to }) => from === whole[0] && to === whole[1]) ? found : asked(whole);
  }

  #draw(answers) {
    const known = new Map([...answers].filter(([, answer]) => answer));
    const some = [...known.values()];
    if (!some.length) throw new Error("these results have none of these quantities");
    const { from, to, columns } = some[0];
    const { lines, panels, common } = overlay({ curves: this.#curves, quantities: this.#what, answers: known, names: this.#names });
    const drawn = panels.map(({ quantity: { title }, unit, scale, traces }) => ({
      title, unit, traces: traces.map((trace) => ({ ...points(trace, { from, to, columns }, scale), look: trace.line.look, label: trace.line.label, isDotted: trace.isDotted })),
    }));
    const sum = (name) => some.reduce((all, one) => all + one[name], 0);
    this.#shown = { from, to, columns, lines, common, panels: drawn, of: panels, samples: sum("samples"), leftOut: sum("left_out"), read: Math.min(...some.map(({ read }) => read)) };
    this.#panels.show(drawn, to, from);
    this.#page.replace(address(`results/${this.#here}/graphs`, this.#query()));
    this.#tell();
    this.#tellLegend();
    this.#tellTable();
  }

  #tell() {
    const { from, to, samples, leftOut, read } = this.#shown;
    const counted = `${samples.toLocaleString("en").replaceAll(",", "\u202f")} ${samples === 1 ? "sample" : "samples"}`;
    const more = leftOut ? `; ${leftOut} more flows, links or events are not drawn` : "";
    const part = read < 1 ? ` so far: ${Math.floor(100 * read)} % of the tables is read` : more;
    this.#said.textContent = `${this.#seconds(from)} s to ${this.#seconds(to)} s; ${counted} in all${read === 1 && !samples ? ": these runs have no such quantity" : ""}${part}`;
  }

  // As many decimals as tell a thousandth of the window.
  #seconds(value) {
    return value.toFixed(Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(this.#shown.to - this.#shown.from)))));
  }

  // The values at the cursor.
  #tellTable() {
    const { lines, panels } = this.#shown;
    const away = (number) => panels.length > 1 ? [" ", this.#away(panels[number].title, { what: this.#what.filter((_, at) => at !== number).map(({ key }) => key) })] : [];
    const heads = [[""], ...panels.map(({ title, unit }, number) => [element("span", {}, unit ? `${title} (${unit})` : title), ...away(number)])];
    const rows = lines.map(({ label, look }) => element("tr", {}, element("th", { scope: "row" }, element("i", { className: `swatch ${look.class}${look.isDashed ? " dashed" : ""}` }), label), ...panels.map(() => element("td"))));
    this.#values.replaceChildren(element("thead", {}, element("tr", {}, ...heads.map((content) => element("th", { scope: "col" }, ...content)))), element("tbody", {}, ...rows));
    const { from, to } = this.#shown;
    // An instant that is out of the window has no values there.
    this.#tellValues(this.#cursor >= from && this.#cursor <= to ? this.#cursor : null);
  }

  #tellValues(time) {
    this.#cursor = time;
    if (!this.#shown || !this.#values.tHead) return;
    this.#panels.at(time);
    const { lines, of } = this.#shown;
    this.#values.tHead.rows[0].cells[0].textContent = time === null ? "Smallest and largest" : `At ${this.#seconds(time)} s`;
    lines.forEach((line, row) => of.forEach(({ traces, scale }, column) => {
      const texts = traces.filter((trace) => trace.line === line).map((trace) => rangeAt(trace, this.#shown, time)).map((range) => {
        const [low, high] = range?.map((value) => three(value / scale)) ?? ["–", "–"];
        return low === high ? low : `${low} to ${high}`;
      });
      this.#values.tBodies[0].rows[row].cells[column + 1].textContent = texts.join("; ");
    }));
  }

  #zoom(window) {
    this.#window = window;
    this.#show();
  }

  #step(name) {
    if (name === "Whole run" || !this.#shown) return this.#zoom(null);
    const { from, to } = this.#shown;
    const [begin, end] = STEPS[name].map((share) => share * (to - from));
    return this.#zoom([from + begin, to + end]);
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target !== this.#charts || !this.#shown) return;
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!direction && !KEYS[event.key]) return;
    event.preventDefault();
    if (!direction) this.#step(KEYS[event.key]);
    else if (event.shiftKey) this.#step(direction < 0 ? "Earlier" : "Later");
    else this.#move(direction);
  }

  // Moves the cursor, and says the values there.
  #move(direction) {
    const { from, to } = this.#shown;
    const step = (to - from) / KEY_STEPS;
    const begin = this.#cursor ?? (direction > 0 ? from - step : to + step);
    this.#tellValues(Math.max(from, Math.min(to, begin + direction * step)));
    const [head, ...titles] = [...this.#values.tHead.rows[0].cells].map((cell) => (cell.querySelector("span") ?? cell).textContent);
    const rows = [...this.#values.tBodies[0].rows].map((row) => {
      const [label, ...values] = [...row.cells].map((cell) => cell.textContent);
      return `${label}: ${values.map((text, at) => text && `${titles[at]} ${text}`).filter(Boolean).join(", ")}`;
    });
    this.#spoken.textContent = `${head}. ${rows.join("; ")}.`;
  }
}

// Quantities by the table, link or proxy that they are of.
function grouped(quantities) {
  const found = new Map();
  for (const one of quantities) found.set(one.of, [...(found.get(one.of) ?? []), one]);
  return found;
}
