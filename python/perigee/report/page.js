"use strict";
// What a pointer does on a report: values under it, groups hidden, figures enlarged, tables sorted. The page reads without.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const NEAR_PX = 24;
  const SAME_PLACE = 0.7;
  const isFramed = parent !== window;
  document.documentElement.classList.add("scripted");

  function button(text, label, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    return made;
  }

  // Contents: folded on narrow screens, with the section in sight marked.
  const contents = document.querySelector("nav details");
  const narrow = matchMedia("(max-width: 64rem)");
  const fold = () => { contents.open = !narrow.matches; };
  fold();
  narrow.addEventListener("change", fold);
  const links = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  contents.addEventListener("click", (event) => {
    if (narrow.matches && event.target.closest("a")) contents.open = false;
  });
  const inSight = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.getAttribute("aria-labelledby"))?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  document.querySelectorAll("main section:not(.answers)").forEach((section) => inSight.observe(section));

  // Tables: a click on a heading sorts the rows, a second one the other way round.
  function sortable(table) {
    const body = table.tBodies[0];
    const heads = [...table.querySelectorAll("tr.heads th")];
    if (body.rows.length < 3 || heads.some((head) => head.colSpan > 1)) return;
    const value = (row, column) => {
      const text = row.cells[column].textContent.trim();
      const found = text.replaceAll("\u202f", "").replaceAll("\u2212", "-").match(/^[<>]?\s*([+-]?\d+(\.\d+)?(e[+-]?\d+)?)/i);
      return found ? Number(found[1]) : text;
    };
    heads.forEach((head, column) => {
      const unseen = head.querySelector(".unseen");
      const words = head.textContent;
      const press = button(words, `Sort by ${words}`, () => {
        const falling = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        table.classList.add("sorted");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const rows = [...body.rows].map((row) => [value(row, column), row]);
        const rank = (one) => (one === "" || one === "\u2013" ? 2 : typeof one === "number" ? 0 : 1);
        rows.sort(([a], [b]) => {
          if (rank(a) !== rank(b)) return rank(a) - rank(b);
          const order = rank(a) === 0 ? a - b : String(a).localeCompare(String(b));
          return falling ? -order : order;
        });
        body.append(...rows.map(([, row]) => row));
      });
      press.className = "sort";
      head.replaceChildren(press);
      if (unseen) press.textContent = "\u2003";
    });
  }
  document.querySelectorAll("figure.table table").forEach(sortable);

  // Figures.
  const said = document.createElement("div");
  said.className = "value";
  said.hidden = true;
  document.body.append(said);

  function toggle(svg, number, names) {
    const parts = svg.querySelectorAll(`g[data-entry="${number}"]`);
    const off = !parts[0].classList.contains("off");
    parts.forEach((part) => part.classList.toggle("off", off));
    svg.querySelectorAll(`g.entry[data-entry="${number}"]`).forEach((entry) => {
      entry.setAttribute("aria-pressed", String(!off));
      entry.setAttribute("aria-label", `${off ? "Show" : "Hide"} ${names[number]}`);
    });
  }

  function legend(svg, names) {
    const seen = new Set();
    for (const entry of svg.querySelectorAll("g.entry")) {
      const number = Number(entry.dataset.entry);
      if (!svg.querySelector(`g.series[data-entry="${number}"]`)) continue;
      const box = entry.getBBox();
      // The space between the strokes can be clicked as well.
      const area = document.createElementNS(SVG, "rect");
      for (const [key, size] of [["x", box.x], ["y", box.y - 2], ["width", box.width], ["height", box.height + 4]]) {
        area.setAttribute(key, size);
      }
      area.setAttribute("fill", "transparent");
      entry.prepend(area);
      entry.addEventListener("click", () => toggle(svg, number, names));
      if (seen.has(number)) continue;
      seen.add(number);
      entry.setAttribute("role", "button");
      entry.setAttribute("tabindex", "0");
      entry.setAttribute("aria-pressed", "true");
      entry.setAttribute("aria-label", `Hide ${names[number]}`);
      entry.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        toggle(svg, number, names);
      });
    }
    // What can be pressed is no part of an image.
    if (seen.size) svg.setAttribute("role", "group");
  }

  // The points of a series, as pairs of coordinates; curves have only their ends.
  const known = new WeakMap();
  function points(part) {
    if (!known.has(part)) {
      const found = [];
      for (const path of part.querySelectorAll("path[d]")) {
        if (!path.closest("defs")) found.push(...corners(path));
      }
      for (const mark of part.querySelectorAll("use")) {
        found.push([Number(mark.getAttribute("x")), Number(mark.getAttribute("y"))]);
      }
      known.set(part, found);
    }
    return known.get(part);
  }

  function corners(path) {
    const found = path.getAttribute("d").matchAll(/[ML]\s*(-?[\d.]+)[ ,]+(-?[\d.]+)/g);
    return [...found].map(([, x, y]) => [Number(x), Number(y)]);
  }

  // What a place on an axis means, with the interval that is drawn there.
  function inWords(axis, place, interval) {
    const { low, high, scale, label, words } = axis;
    if (!scale) return "";
    if (words) {
      const share = (place - axis.from) / (axis.to - axis.from);
      const near = words.reduce((best, one) => (Math.abs(one[0] - share) < Math.abs(best[0] - share) ? one : best), [Infinity, ""]);
      return near[1] ? `${label ? label + ": " : ""}${near[1]}` : "";
    }
    const rounded = (one) => {
      const step = Math.abs(scale === "log" ? one : high - low) / 1000;
      return Number(one.toFixed(Math.min(6, Math.max(0, Math.ceil(-Math.log10(step || 1))))));
    };
    const ends = interval.map((end) => rounded(valueAt(axis, end))).sort((a, b) => a - b);
    return `${label ? label + ": " : ""}${rounded(valueAt(axis, place))}${ends.length ? ` [${ends.join(", ")}]` : ""}`;
  }

  function valueAt({ from, to, low, high, scale }, place) {
    const share = (place - from) / (to - from);
    return scale === "log" ? low * (high / low) ** share : low + share * (high - low);
  }

  // The ends of the bar or band of uncertainty through a value, along an axis (0: the horizontal one); without one, nothing.
  function intervalAt(part, value, along) {
    const panel = part.closest("g[id*='axes_']");
    for (const interval of panel?.querySelectorAll(`g.interval[data-entry="${part.dataset.entry}"]`) ?? []) {
      for (const outline of outlines(interval)) {
        const ends = outline.filter((point) => Math.abs(point[1 - along] - value[1 - along]) < SAME_PLACE).map((point) => point[along]);
        const [low, high] = [Math.min(...ends), Math.max(...ends)];
        if (low < value[along] && value[along] < high) return [low, high];
      }
    }
    return [];
  }

  // The points of each bar or band; a band is drawn elsewhere, and used in its place.
  function outlines(part) {
    const bars = [...part.querySelectorAll("path[d]")].filter((path) => !path.closest("defs")).map((path) => corners(path));
    const bands = [...part.querySelectorAll("use")].map((use) => {
      const [x, y] = [Number(use.getAttribute("x")), Number(use.getAttribute("y"))];
      return corners(document.getElementById(use.getAttribute("xlink:href").slice(1))).map((point) => [point[0] + x, point[1] + y]);
    });
    return [...bars, ...bands];
  }

  function hover(svg, { names, axes }, event) {
    const matrix = svg.getScreenCTM();
    said.hidden = true;
    if (!matrix) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    const inside = axes.find(({ x, y }) => at.x >= x.from && at.x <= x.to && at.y <= y.from && at.y >= y.to);
    if (!inside) return;
    let best = null;
    for (const part of svg.querySelectorAll("g.series:not(.off)")) {
      for (const [x, y] of points(part)) {
        if (x < inside.x.from - 1 || x > inside.x.to + 1 || y > inside.y.from + 1 || y < inside.y.to - 1) continue;
        const far = Math.hypot(x - at.x, y - at.y) * matrix.a;
        if (far < NEAR_PX && (!best || far < best.far)) best = { far, value: [x, y], part };
      }
    }
    if (!best) return;
    const { part, value } = best;
    const values = [inside.x, inside.y].map((axis, along) => inWords(axis, value[along], intervalAt(part, value, along)));
    say([names[Number(part.dataset.entry)], ...values].filter(Boolean).join("\n"), event);
  }

  // Show a text beside the pointer; null: none.
  function say(text, event) {
    said.hidden = text === null;
    if (said.hidden) return;
    said.textContent = text;
    const { width, height } = said.getBoundingClientRect();
    said.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
    said.style.top = `${Math.max(8, event.clientY - height - 10)}px`;
  }

  const dialog = document.createElement("dialog");
  const stage = document.createElement("div");
  stage.className = "stage";
  const bar = document.createElement("div");
  bar.className = "bar";
  let back = null;
  let percent = 100;
  const scale = (factor) => {
    percent = Math.min(800, Math.max(50, percent * factor));
    stage.firstElementChild.style.width = `${percent}%`;
  };
  bar.append(
    button("+", "Larger", () => scale(1.5)),
    button("\u2212", "Smaller", () => scale(1 / 1.5)),
    button("Close", "Close", () => dialog.close()),
  );
  dialog.append(bar, stage);
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    const svg = stage.firstElementChild;
    svg.style.width = "";
    back.prepend(svg);
    back.querySelector(".tools button")?.focus();
    document.body.append(said);
  });
  function enlarge(svg) {
    back = svg.parentElement;
    // In a frame as high as the report, what is in sight is where the figure is.
    if (isFramed) dialog.style.top = `${back.getBoundingClientRect().top}px`;
    stage.replaceChildren(svg);
    percent = 100;
    scale(1);
    dialog.showModal();
    dialog.append(said);
  }

  for (const figure of document.querySelectorAll("figure.plot")) {
    const svg = figure.querySelector("svg");
    const scales = JSON.parse(figure.dataset.scales);
    legend(svg, scales.names);
    svg.addEventListener("pointermove", (event) => hover(svg, scales, event));
    svg.addEventListener("pointerleave", () => { said.hidden = true; });
    const tools = document.createElement("div");
    tools.className = "tools";
    const name = figure.querySelector(".number").textContent;
    if (figure.dataset.sequence) tools.append(stretchOf(figure, figure.querySelector(".card"), button, say), " ");
    tools.append(button("Enlarge", `Enlarge ${name}`, () => enlarge(svg)));
    figure.querySelector("figcaption").append(tools);
  }

  // On paper nothing can be unfolded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("figure details:not([open]):not(.long)")];
    folded.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));
})();
