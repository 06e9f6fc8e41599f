// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The page: starts the simulators, and shows the laboratory or a lesson, as the address says.

import { parts } from "./address.js";
import { Pool } from "./engine.js";
import { Laboratory } from "./laboratory.js";
import { Lesson } from "./lesson.js";
import { decodeBase64 } from "./perigee.js";
import { element } from "./words.js";

const place = document.getElementById("main");

// The module is in the page: base64 of what DecompressionStream reads.
async function simulator() {
  const packed = decodeBase64(document.getElementById("simulator").textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

async function started() {
  const script = document.getElementById("worker").textContent;
  const source = URL.createObjectURL(new Blob([JSON.parse(script)], { type: "text/javascript" }));
  const pool = new Pool(source, await simulator());
  const { version, algorithms, studies } = await pool.ready;
  Object.assign(pool, { algorithms, studies });
  document.getElementById("version").textContent = `Perigee ${version}.`;
  return pool;
}

let shown = null;
let written = null;

async function show(pool) {
  const asked = parts(location.hash);
  const page = asked.lesson ? "lessons" : "laboratory";
  for (const link of document.querySelectorAll("[data-page]")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown?.close();
  shown = page === "lessons" ? new Lesson(place, pool, Number(asked.lesson)) : new Laboratory(place, pool, asked, (hash) => {
    written = hash;
    history.replaceState(null, "", hash);
  });
}

try {
  place.append(element("p", { className: "note", role: "status" }, "Starting the simulator…"));
  const pool = await started();
  await show(pool);
  addEventListener("hashchange", () => {
    if (location.hash === written) return;
    show(pool);
    scrollTo(0, 0);
  });
} catch (error) {
  place.replaceChildren(element("h1", {}, "The simulator could not be started"), element("p", {}, `${error.message}. It needs WebAssembly, workers and DecompressionStream: Chromium 103, Firefox 113 or Safari 16.4, or later ones.`));
}
