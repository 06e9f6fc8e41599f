// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The congestion controls with their windows over one link, how to write one, and what this machine's kernel has.

import { nameOf } from "../looks.js";
import { drawn, element } from "../words.js";
import { BDP_PACKETS, LINK, SPAN_S, windows } from "../windows.js";
import { View } from "./parts.js";

const [WIDTH, HEIGHT] = [100, 40];
// Window at the top of a picture, bandwidth-delay products.
const LARGEST = 2.2;

const OWN = `perigee cc new mycc               a working algorithm, a study beside Cubic, and tests
perigee cc check mycc/mycc.c      compiles it, and runs it over hard links
perigee run mycc/study.toml       its results are listed here under Results`;

function height(packets) {
  return (HEIGHT - 1 - (HEIGHT - 2) * Math.min(1, (packets || 0) / BDP_PACKETS / LARGEST)).toFixed(1);
}

function picture(name, points) {
  return drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `Congestion window of ${nameOf(name)} over ${SPAN_S} s` },
    drawn("path", { class: "ground", d: `M0 ${HEIGHT - 0.5}H${WIDTH}M0 ${height(BDP_PACKETS)}H${WIDTH}` }),
    drawn("polyline", { points: points.map(([t, packets]) => `${(t / SPAN_S * WIDTH).toFixed(1)},${height(packets)}`).join(" ") }));
}

// Returns what stands behind the page at a path, or else what the simulators say of themselves.
export async function read(page, path) {
  if (page.server?.isOpen) return page.server.get(path);
  await page.pool.ready;
  const algorithms = page.pool.algorithms.filter(({ own }) => !own);
  const name = path.split("/")[1];
  return name ? algorithms.find((one) => one.name === name) : { algorithms, kernel: null };
}

function kernel({ why, loaded, others, default: usual }) {
  const found = loaded.map(({ name, sockets }) => `${name} (${sockets} sockets)`).join(", ") || "none";
  const said = why ? [element("p", { className: "note" }, `Not known: ${why}`)] : [element("p", {}, `Default: ${usual}. Its own: ${others.join(", ")}. Loaded by Perigee: ${found}.`)];
  return element("section", {}, element("h2", {}, "In this machine's kernel"), ...said);
}

export class Algorithms extends View {
  #stop = null;

  close() {
    super.close();
    this.#stop?.();
  }

  async open(place, page) {
    page.title("Algorithms");
    const { algorithms, kernel: found, standing = false } = await read(page, "algorithms");
    const boxes = new Map(algorithms.map(({ name }) => [name, element("div", { className: "window" })]));
    const pictures = page.pool ? ` The pictures show the congestion window of one download over ${SPAN_S} s and ${LINK}; the line is the bandwidth-delay product.` : "";
    const cards = algorithms.map(({ name, title, loaded }) => element("li", { className: "card" },
      ...(page.pool ? [boxes.get(name)] : []),
      element("h2", {}, element("a", { href: `#/algorithms/${encodeURIComponent(name)}` }, nameOf(name))),
      element("p", { className: "finding" }, title),
      ...(loaded ? [element("ul", { className: "chips" }, element("li", { className: "chip" }, loaded))] : [])));
    place.replaceChildren(
      element("div", { className: "head" }, element("h1", {}, "Algorithms"), element("p", {}, `Congestion controls, each one C file for the simulator and the kernel.${pictures}`),
        ...(standing ? [element("p", {}, element("a", { href: "#/standing" }, "Standing"), " of each by the criteria of RFC 9743.")] : [])),
      element("ul", { className: "cards" }, ...cards),
      element("section", { id: "own" }, element("h2", {}, "Test your algorithm"),
        element("p", {}, "In ", element("a", { href: "#/try" }, "Try"), " an algorithm of your own runs in this tab. With the command line, in the simulator and in the kernel:"),
        element("pre", { tabIndex: 0, ariaLabel: "Commands" }, OWN)),
      ...(found ? [kernel(found)] : []));
    if (!page.pool) return;
    await page.pool.ready;
    if (this.isClosed) return;
    this.#stop = windows(page.pool, (known) => {
      for (const [name, points] of known) {
        const box = boxes.get(name);
        if (box && !box.childNodes.length) box.append(picture(name, points));
      }
    });
  }
}
