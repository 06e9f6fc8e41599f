// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A report under the page's own navigation: in a frame without access to the page, as high as the report.

import { buttonFor, element } from "../words.js";
import { View, address } from "./parts.js";

const BAR_PX = 72;
// A report has no more of the page.
const HIGHEST_PX = 200_000;
// Letters of an address that are shown; its host is among them.
const SHOWN = 300;

export class ReportView extends View {
  #frame;
  #leads = element("div", { className: "sticky", role: "status", hidden: true });
  #hear;

  async open(place, page, { path: [, name] }) {
    const src = page.server.file(`results/${name}/report.html`);
    page.title(`Report of ${name}`);
    this.#frame = element("iframe", { className: "report", src, title: `Report of ${name}` });
    this.#frame.setAttribute("sandbox", "allow-scripts allow-downloads");
    this.#hear = (event) => { if (event.source === this.#frame.contentWindow) this.#take(event.data); };
    addEventListener("message", this.#hear);
    const { contents } = await page.server.get(`results/${name}`);
    if (!contents?.has_report) {
      place.replaceChildren(
        element("h1", {}, "No report yet"),
        element("p", {}, "It is shown here once it has been made, on the page of ", element("a", { href: address(`results/${name}`) }, name), "."));
      return;
    }
    place.replaceChildren(
      element("h1", { className: "unseen" }, `Report of ${name}`),
      element("p", { className: "back" }, element("a", { href: address(`results/${name}`) }, name), " · ", element("a", { href: src, target: "_blank" }, "Open alone")),
      this.#frame, this.#leads);
  }

  close() {
    super.close();
    removeEventListener("message", this.#hear);
  }

  // A report tells its height, where in it one wants to go, and addresses elsewhere. It is somebody else's text: nothing
  // but the height is taken unless the reader has just pressed something, which browsers tell of frames too.
  #take(said) {
    if (said?.perigee === "height" && said.height > 0) this.#frame.style.height = `${Math.min(Math.ceil(said.height), HIGHEST_PX)}px`;
    if (!navigator.userActivation?.isActive) return;
    if (said?.perigee === "scroll" && Number.isFinite(said.top)) scrollTo({ top: scrollY + this.#frame.getBoundingClientRect().top + said.top - BAR_PX });
    if (said?.perigee === "open") this.#lead(elsewhere(said.href));
  }

  // The reader sees where a report leads, and goes there or not: this page has a session, and would open anything with it.
  #lead(href) {
    if (!href) return;
    const link = element("a", { href, target: "_blank", rel: "noopener noreferrer" }, href.length > SHOWN ? `${href.slice(0, SHOWN)}…` : href);
    const away = () => { this.#leads.hidden = true; };
    link.addEventListener("click", away);
    this.#leads.replaceChildren(element("span", {}, "The report leads to ", link), buttonFor("Stay here", away, "small"));
    this.#leads.hidden = false;
  }
}

// Returns an address of the web that is not of this page's own server, without a name that would look like another host; else nothing.
function elsewhere(href) {
  const url = URL.canParse(href) ? new URL(href) : null;
  if (!url || !["http:", "https:"].includes(url.protocol) || url.origin === location.origin) return "";
  url.username = url.password = "";
  return url.href;
}
