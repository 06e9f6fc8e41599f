// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What simulates in the tab: a link to try, and the lessons.

import { parts } from "../address.js";
import { Bench } from "../bench.js";
import { Lesson } from "../lesson.js";
import { element } from "../words.js";
import { View } from "./parts.js";

const ABSENT = "This page was put together without the simulator. In a checkout, make web compiles it; the packages have it.";

// Shows what `made(pool)` returns once the simulators have begun.
class InTab extends View {
  #shown = null;

  close() {
    super.close();
    this.#shown?.close();
    document.documentElement.classList.remove("figure-only");
  }

  async begin(place, page, made) {
    if (!page.pool) {
      place.replaceChildren(element("h1", {}, "No simulator in this page"), element("p", { className: "empty" }, ABSENT));
      return;
    }
    place.replaceChildren(element("p", { className: "note", role: "status" }, "Starting the simulator…"));
    try {
      await page.pool.ready;
    } catch (error) {
      place.replaceChildren(element("h1", {}, "The simulator could not be started"), element("p", {}, `${error.message}. It needs WebAssembly, workers and DecompressionStream: Chromium 103, Firefox 113 or Safari 16.4, or later ones.`));
      return;
    }
    if (!this.isClosed) this.#shown = made(page.pool);
  }
}

export class Try extends InTab {
  async open(place, page) {
    page.title("Try a link");
    const asked = parts(location.hash);
    await this.begin(place, page, (pool) => new Bench(place, pool, asked, (hash) => page.replace(hash)));
  }
}

export class Lessons extends InTab {
  async open(place, page, route) {
    await this.begin(place, page, (pool) => new Lesson(place, pool, Number(route.query.get("lesson") ?? 1)));
  }
}
