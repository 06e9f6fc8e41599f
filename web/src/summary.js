// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The table below the graphs: what each flow came to. It is the legend too.

import { summary } from "./figure.js";
import { swatch } from "./looks.js";
import { element, milliseconds, size, three } from "./words.js";

const HEADS = ["Flow", "Delivered", "Duration", "Throughput, Mbit/s", "Mean round trip", "Retransmitted"];

export class Summary {
  #table = element("table", { className: "summary" });

  constructor(place) {
    place.tabIndex = 0;
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", "What each flow came to");
    place.append(this.#table);
    const more = element("p", { className: "note", hidden: true }, "The table goes on to the right: scroll it.");
    place.after(more);
    const look = () => {
      more.hidden = place.scrollWidth <= place.clientWidth;
      place.classList.toggle("more-right", place.scrollLeft + place.clientWidth < place.scrollWidth - 1);
    };
    const resized = new ResizeObserver(look);
    for (const each of [place, this.#table]) resized.observe(each);
    place.addEventListener("scroll", look);
    this.#table.createTHead().append(element("tr", {}, ...HEADS.map((text) => element("th", { scope: "col" }, text))));
    this.#body = element("tbody");
    this.#table.append(this.#body);
  }

  #body;

  show(lines) {
    this.#body.replaceChildren(...lines.map((line) => {
      const found = summary(line);
      const cells = [
        size(found.bytes), found.seconds === null ? "" : `${three(found.seconds)} s`, three(found.mbps),
        found.rtt_ms === null ? "" : milliseconds(found.rtt_ms), found.again === null ? "" : `${three(100 * found.again)} %`,
      ];
      return element("tr", {}, element("th", { scope: "row" }, swatch(line.look), line.label), ...cells.map((text) => element("td", {}, text)));
    }));
  }
}
