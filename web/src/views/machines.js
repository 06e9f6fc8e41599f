// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The machines: what this one can, hosts between which live studies run, and how several machines share one study.

import { element } from "../words.js";
import { View, table } from "./parts.js";

const HEAD = ["Agent", "State", "Addresses", "Congestion controls", "Programs", "Captures", "Kernel", "Perigee"];
const SHARES = `perigee run STUDY --shard 1/2 --out first        on one machine
perigee run STUDY --shard 2/2 --out second       on the other
perigee merge first second --out results/STUDY   the bytes of one machine`;

function row({ name, busy, offer }) {
  const cell = (text, className = "words") => element("td", { className }, text);
  if (!offer) return element("tr", {}, element("th", { scope: "row" }, name), cell("offline", "words bad"), ...HEAD.slice(2).map(() => cell("")));
  return element("tr", {}, element("th", { scope: "row" }, name), cell(busy ? "in use" : "online"),
    cell(offer.interfaces.map((each) => `${each.name}: ${each.addresses.join(", ")}`).join("; ") || "none"),
    cell(offer.algorithms.join(", ")),
    cell(Object.entries(offer.programs).map((each) => each.join(" ")).join(", ") || "none"),
    cell(offer.captures ? "yes" : "no"), cell(offer.kernel), cell(offer.version));
}

function hosts({ open, agents }) {
  if (!open) return [element("p", { className: "empty" }, "Hosts cannot connect: the server was started without ", element("code", {}, "--agents ADDRESS:PORT"), ".")];
  if (!agents.length) return [element("p", { className: "empty" }, "No hosts yet. ", element("code", {}, "perigee agent invite NAME --controller HOST:PORT"), " makes the file that one joins with.")];
  return [
    table("Hosts", HEAD.map((text) => [text, "words"]), agents.map(row)),
    element("p", { className: "note" }, "A live study names them: ", element("code", {}, "live.agents.NODE=AGENT"), ", or ", element("code", {}, "AGENT@ADDRESS"), " for one of several addresses."),
  ];
}

export class Machines extends View {
  async open(place, page) {
    page.title("Machines");
    const found = await page.server.get("machines");
    const { is_root: isRoot, compiler } = page.server.me;
    const compiles = compiler.why ? ` It compiles no algorithms for the tab: ${compiler.why}.` : " It compiles algorithms for the tab.";
    place.replaceChildren(
      element("div", { className: "head" }, element("h1", {}, "Machines")),
      element("section", {}, element("h2", {}, "This server"),
        element("p", {}, `It simulates on all its cores${isRoot ? ", and emulates links: it runs as root" : "; entries with the engine emu need root, which it is not"}.${compiles}`)),
      element("section", {}, element("h2", {}, "Hosts of live studies"),
        element("p", {}, "Between them studies are measured in a real network, by agents that connect to this server."), ...hosts(found)),
      element("section", {}, element("h2", {}, "One study on several machines"),
        element("p", {}, "Each simulates or emulates a share of the runs; nothing but files goes between them."),
        element("pre", { tabIndex: 0, ariaLabel: "Commands" }, SHARES)));
  }
}
