// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The standing of the congestion controls, as `perigee cc standing` measured it; each cell opens its study in Try.

import { packed } from "../address.js";
import { nameOf } from "../looks.js";
import { element, three } from "../words.js";
import { View, address, table } from "./parts.js";

const CANDIDATE = /CANDIDATE/g;
const BESIDE = /BESIDE/g;
const MOST_DECIMALS = 4;
const WORDS = { "pass": "pass", "fail": "fail", "not met, document it": "document", "undecided": "undecided", "not measured": "–" };

// The address of a study with an algorithm in it; one that is measured against CUBIC has Reno beside CUBIC itself.
async function open(study, name) {
  const text = study.replace(CANDIDATE, name).replace(BESIDE, name === "cubic" ? "reno" : "cubic");
  return `#study=${await packed(text)}`;
}

async function cell(text, study, name, title) {
  const className = text === WORDS.fail ? "bad" : "";
  const shown = element(className ? "strong" : "span", { className }, text);
  return element("td", { title, className: "words" },
    study && text !== WORDS["not measured"] ? element("a", { href: await open(study, name), className }, shown) : shown);
}

// A mean with as many decimals as show two digits of its interval, and at most four of its own.
function interval({ mean, half_width: half }) {
  if (mean === null) return "–";
  if (half === null) return three(mean);
  const decimals = (value, digits) => digits - 1 - Math.floor(Math.log10(Math.abs(value)));
  const digits = Math.max(0, Math.min(decimals(half, 2), mean ? decimals(mean, 4) : MOST_DECIMALS));
  const written = (value) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replaceAll(",", "\u202f");
  const least = 10 ** -digits;
  return `${written(mean)} ± ${half < least / 2 ? `<${written(least)}` : written(half)}`;
}

// The criteria that are not in the RFC have a word for their number.
const called = ({ id, title }) => /^\d/.test(id) ? `${id} ${title}` : title;

async function verdicts(found) {
  const head = [["Criterion", "words"], ...found.algorithms.map(({ name }) => [nameOf(name), "words"])];
  const rows = found.criteria.map(async (criterion) => element("tr", {},
    element("th", { scope: "row" }, called(criterion)),
    ...await Promise.all(found.algorithms.map(({ name, verdicts: of }) => {
      const { verdict, figure, reason } = of.find((one) => one.id === criterion.id) ?? { verdict: "not measured" };
      return cell(WORDS[verdict] ?? verdict, criterion.study, name, figure ?? reason ?? "");
    }))));
  return table("Verdicts by RFC 9743", head, await Promise.all(rows), "held");
}

// What fails, with the figure that decides it.
function failures(found) {
  const rows = found.algorithms.flatMap(({ name, verdicts: of }) => of.filter(({ verdict }) => verdict === "fail").map(({ id, figure }) => element("tr", {},
    element("th", { scope: "row" }, nameOf(name)),
    element("td", { className: "words" }, called(found.criteria.find((one) => one.id === id))),
    element("td", { className: "words long" }, figure ?? ""))));
  return rows.length ? table("What fails", [["Algorithm"], ["Criterion", "words"], ["Figure", "words"]], rows, "stacked") : element("p", {}, "Nothing.");
}

async function satellites(found) {
  const head = [["Link"], ["Algorithm", "words"], ["Goodput (Mbit/s)"], ["Round trip (ms)"], ["Sent again (%)"]];
  const rows = found.satellites.flatMap(({ profile, study }) => found.algorithms.map(async ({ name, satellites: of }) => {
    const one = of.find((each) => each.profile === profile);
    return element("tr", {}, element("th", { scope: "row" }, element("a", { href: await open(study, name) }, profile)), element("td", { className: "words" }, nameOf(name)),
      ...["goodput_mbps", "rtt_ms", "retransmitted_percent"].map((key) => element("td", {}, one ? interval(one[key]) : "–")));
  }));
  return table("Downloads of 60 s over satellite links", head, await Promise.all(rows));
}

function kernel({ name, title, date, kernel: said }) {
  const text = said ? `${said.loads ? "yes" : `no: ${said.said}`}, ${said.release}` : "";
  return element("tr", {}, element("th", { scope: "row" }, element("a", { href: address(`algorithms/${name}`) }, nameOf(name))),
    element("td", { className: "words" }, title), element("td", { className: "words" }, text), element("td", {}, date));
}

export class Standing extends View {
  async open(place, page) {
    page.title("Standing");
    const found = await page.server.get("standing");
    const tables = await Promise.all([verdicts(found), satellites(found)]);
    if (this.isClosed) return;
    place.replaceChildren(
      element("div", { className: "head" }, element("h1", {}, "Standing"),
        element("p", {}, `Congestion controls by the criteria of RFC 9743, ${found.size} size, Perigee ${found.version}, criteria version ${found.criteria_version}. `
          + "A verdict opens its study in this tab, beside Cubic; document is a threshold that is not met, which an author has to document. Measured again by ", element("code", {}, found.command), ".")),
      element("section", {}, element("h2", {}, "Verdicts"), tables[0]),
      element("section", {}, element("h2", {}, "What fails, and by how much"), failures(found)),
      element("section", {}, element("h2", {}, "Satellite links"), element("p", {}, "A download of 60 s, mean with the 95 % interval."), tables[1]),
      element("section", {}, element("h2", {}, "In the kernel"),
        table("In the kernel", [["Algorithm"], ["Title", "words"], ["Loads", "words"], ["Measured"]], found.algorithms.map(kernel))));
  }
}
