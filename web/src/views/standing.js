// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The standing of the congestion controls, as `perigee cc standing` measured it; each cell opens its study in Try.

import { packed } from "../address.js";
import { nameOf } from "../looks.js";
import { element, three } from "../words.js";
import { View, address, table } from "./parts.js";

const CANDIDATE = /CANDIDATE/g;
const BESIDE = /BESIDE/g;
const WORDS = { "pass": "pass", "fail": "fail", "not met, document it": "document", "undecided": "undecided", "not measured": "–" };

// The address of a study with an algorithm in it; one that is measured against CUBIC has Reno beside CUBIC itself.
async function open(study, name) {
  const text = study.replace(CANDIDATE, name).replace(BESIDE, name === "cubic" ? "reno" : "cubic");
  return `#study=${await packed(text)}`;
}

async function cell(text, study, name, title) {
  return element("td", { title }, study && text !== WORDS["not measured"] ? element("a", { href: await open(study, name) }, text) : text);
}

function interval({ mean, half_width: half }) {
  if (mean === null) return "–";
  return half === null ? three(mean) : `${three(mean)} ± ${three(half)}`;
}

async function verdicts(found) {
  const head = [["Criterion", "words"], ...found.algorithms.map(({ name }) => [nameOf(name), "words"])];
  const rows = found.criteria.map(async ({ id, title, study }) => element("tr", {},
    element("th", { scope: "row", className: "words" }, `${id} ${title}`),
    ...await Promise.all(found.algorithms.map(({ name, verdicts: of }) => {
      const { verdict, figure, reason } = of.find((one) => one.id === id) ?? { verdict: "not measured" };
      return cell(WORDS[verdict] ?? verdict, study, name, figure ?? reason ?? "");
    }))));
  return table("Verdicts by RFC 9743", head, await Promise.all(rows));
}

async function satellites(found) {
  const head = [["Algorithm"], ["Link", "words"], ["Goodput (Mbit/s)"], ["Round trip (ms)"], ["Sent again (%)"]];
  const rows = found.satellites.flatMap(({ profile, study }) => found.algorithms.map(async ({ name, satellites: of }) => {
    const one = of.find((each) => each.profile === profile);
    return element("tr", {}, element("th", { scope: "row" }, nameOf(name)), await cell(profile, study, name, ""),
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
          + "A cell opens its study in this tab, beside Cubic. Measured again by ", element("code", {}, found.command), ".")),
      element("section", {}, element("h2", {}, "Verdicts"), tables[0]),
      element("section", {}, element("h2", {}, "Satellite links"), element("p", {}, "A download of 60 s, mean with the 95 % interval."), tables[1]),
      element("section", {}, element("h2", {}, "In the kernel"),
        table("In the kernel", [["Algorithm"], ["Title", "words"], ["Loads", "words"], ["Measured"]], found.algorithms.map(kernel))));
  }
}
