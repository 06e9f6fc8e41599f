// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A report under the page's own navigation: in a frame without access to the page, as high as the report.

import { element } from "../words.js";
import { address } from "./parts.js";

const BAR_PX = 72;
const PATIENCE_MS = 2000;
const OLD = "This report was made by an earlier version, and does not say how high it is: it scrolls in its frame until it is made again.";

export class ReportView {
  #frame;
  #hear;

  constructor(place, page, route) {
    const name = route.path[1];
    const src = page.server.file(`results/${name}/report.html`);
    page.title(`Report of ${name}`);
    this.#frame = element("iframe", { className: "report", src, title: `Report of ${name}` });
    this.#frame.setAttribute("sandbox", "allow-scripts allow-downloads");
    this.#hear = (event) => { if (event.source === this.#frame.contentWindow) this.#take(event.data); };
    addEventListener("message", this.#hear);
    this.#open(place, page, name, src);
  }

  async #open(place, page, name, src) {
    const { contents } = await page.server.get(`results/${name}`);
    if (!contents?.has_report) {
      place.replaceChildren(
        element("h1", {}, "No report yet"),
        element("p", {}, "It is shown here once it has been made, on the page of ", element("a", { href: address(`results/${name}`) }, name), "."));
      return;
    }
    this.#frame.addEventListener("load", () => setTimeout(() => { if (!this.#frame.style.height) place.insertBefore(element("p", { className: "note" }, OLD), this.#frame); }, PATIENCE_MS));
    place.replaceChildren(
      element("h1", { className: "unseen" }, `Report of ${name}`),
      element("p", { className: "back" }, element("a", { href: address(`results/${name}`) }, name), " · ", element("a", { href: src, target: "_blank" }, "Open alone")),
      this.#frame);
  }

  close() {
    removeEventListener("message", this.#hear);
  }

  // A report tells its height, where in it one wants to go, and addresses elsewhere. It is somebody else's text.
  #take(said) {
    if (said?.perigee === "height" && said.height > 0) this.#frame.style.height = `${Math.ceil(said.height)}px`;
    if (said?.perigee === "scroll" && Number.isFinite(said.top)) scrollTo({ top: scrollY + this.#frame.getBoundingClientRect().top + said.top - BAR_PX });
    if (said?.perigee === "open" && /^https?:\/\//.test(said.href)) window.open(said.href, "_blank", "noopener,noreferrer");
  }
}
