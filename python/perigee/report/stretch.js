"use strict";
// A stretch of a time sequence: segments, SACK blocks, acknowledgements and the receiver's window, drawn again for any time.
function stretchOf(figure, card, button, say) {
  const SVG = "http://www.w3.org/2000/svg";
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [900, 380, 80, 12, 10, 44];
  const LEAST_S = 0.001;
  const given = JSON.parse(figure.dataset.sequence);
  const [plotWidth, plotHeight] = [WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];

  // Instants and positions are written as differences, in units of 10 us and bytes.
  function marksOf(kind) {
    let [t, low] = [0, 0];
    return kind.marks.map(([later, lasts, higher, bytes, count]) => {
      t += later;
      low += higher;
      return { t: t / 1e5, end: (t + lasts) / 1e5, low, high: low + bytes, count };
    });
  }
  const kinds = given.kinds.map((kind) => ({ ...kind, marks: marksOf(kind) }));
  const whole = [0, Math.max(given.end_s, LEAST_S)];
  let [from, until] = given.close;
  let drag = null;
  let shown = [];

  function element(name, attributes, parent) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent?.append(made);
    return made;
  }
  const svg = element("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "stretch", tabindex: 0, role: "application",
    "aria-roledescription": "time sequence", "aria-label": "",
  });

  // Round values of an axis, about so many.
  function ticks(low, high, about) {
    const raw = (high - low) / about;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw);
    const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    const found = [];
    for (let number = Math.ceil(low / step); number * step <= high; number += 1) found.push([number * step, (number * step).toFixed(digits)]);
    return found;
  }

  function draw() {
    const within = ({ t, end }) => end >= from && t <= until;
    const seen = kinds.map((kind) => ({ ...kind, marks: kind.marks.filter(within) }));
    // An acknowledgement holds until the next one: the last one before the stretch counts too.
    seen.forEach((kind, at) => {
      if (!kind.line) return;
      const before = kinds[at].marks.filter(({ end }) => end < from).at(-1);
      if (before) kind.marks.unshift(before);
    });
    const framing = seen.filter((kind) => !kind.window).flatMap((kind) => kind.marks);
    let low = framing.reduce((least, one) => Math.min(least, one.low), Infinity);
    let high = framing.reduce((most, one) => Math.max(most, one.high), -Infinity);
    if (low > high) [low, high] = [0, 1];
    const room = Math.max((high - low) * 0.06, 1);
    [low, high] = [low - room, high + room];
    const x = (t) => LEFT + (plotWidth * (t - from)) / (until - from);
    const y = (bytes) => TOP + (plotHeight * (high - bytes)) / (high - low);
    svg.replaceChildren();
    const clip = `clip-${figure.id}`;
    const box = { x: LEFT, y: TOP, width: plotWidth, height: plotHeight };
    element("rect", box, element("clipPath", { id: clip }, svg));
    element("rect", { ...box, class: "ground" }, svg);
    for (const [value, text] of ticks(from, until, 8)) {
      element("line", { x1: x(value), x2: x(value), y1: TOP, y2: TOP + plotHeight, class: "grid" }, svg);
      element("text", { x: x(value), y: TOP + plotHeight + 16, "text-anchor": "middle" }, svg).textContent = text;
    }
    for (const [value, text] of ticks(low / 1e6, high / 1e6, 6)) {
      if (value < 0) continue;
      element("line", { x1: LEFT, x2: LEFT + plotWidth, y1: y(value * 1e6), y2: y(value * 1e6), class: "grid" }, svg);
      element("text", { x: LEFT - 6, y: y(value * 1e6) + 4, "text-anchor": "end" }, svg).textContent = text;
    }
    element("text", { x: LEFT + plotWidth / 2, y: HEIGHT - 8, "text-anchor": "middle" }, svg).textContent = "Time (s)";
    const upright = { x: 14, y: TOP + plotHeight / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${TOP + plotHeight / 2})` };
    element("text", upright, svg).textContent = "Position in the stream (MB)";
    const drawn = element("g", { "clip-path": `url(#${clip})` }, svg);
    shown = [];
    for (const kind of seen) {
      const path = kind.line
        ? kind.marks.map((one, at) => `${at ? "H" : "M"}${x(one.t).toFixed(1)}${at ? "V" : " "}${y(one.high).toFixed(1)}`).join("")
          + (kind.marks.length ? `H${LEFT + plotWidth}` : "")
        : kind.marks.map((one) => `M${x(one.t).toFixed(1)} ${y(one.low).toFixed(1)}L${x(one.end).toFixed(1)} ${y(one.high).toFixed(1)}`).join("");
      element("path", { d: path, fill: "none", style: `stroke: ${kind.color}`, "stroke-width": kind.width, "stroke-dasharray": kind.window ? "4 2" : "none" }, drawn);
      for (const one of kind.marks) shown.push({ kind, one, x: x(one.t), y1: y(kind.line ? one.high : one.low), y2: y(one.high) });
    }
    svg.setAttribute("aria-label", `Time sequence from ${from.toFixed(3)} s to ${until.toFixed(3)} s`);
    range.textContent = `${from.toFixed(3)} s to ${until.toFixed(3)} s`;
  }

  function show(start, end) {
    const length = Math.min(Math.max(end - start, LEAST_S), whole[1] - whole[0]);
    from = Math.min(Math.max(start, whole[0]), whole[1] - length);
    until = from + length;
    draw();
  }
  const zoom = (factor, middle = (from + until) / 2) => show(middle - (middle - from) * factor, middle + (until - middle) * factor);
  const move = (share) => show(from + share * (until - from), until + share * (until - from));

  function place(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return { x: Math.min(Math.max(at.x, LEFT), LEFT + plotWidth), y: at.y };
  }
  const time = (at) => from + ((at - LEFT) / plotWidth) * (until - from);

  function tell(event) {
    const at = place(event);
    let best = null;
    for (const mark of shown) {
      const far = Math.hypot(mark.x - at.x, at.y - Math.min(Math.max(at.y, mark.y2), mark.y1));
      if (far < 14 && (!best || far < best.far)) best = { ...mark, far };
    }
    if (!best) return say(null, event);
    const { kind, one } = best;
    const bytes = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");
    const when = one.count > 1 && one.end > one.t ? `${one.t.toFixed(5)} to ${one.end.toFixed(5)} s` : `${one.t.toFixed(5)} s`;
    const what = kind.line ? `byte ${bytes(one.high)}` : `bytes ${bytes(one.low)} to ${bytes(one.high)}`;
    return say([kind.name, when, what, one.count > 1 ? `${one.count} together` : ""].filter(Boolean).join("\n"), event);
  }

  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    drag = { start: place(event).x, box: element("rect", { y: TOP, height: plotHeight, width: 0, class: "chosen" }, svg) };
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!drag) return tell(event);
    const at = place(event).x;
    drag.box.setAttribute("x", Math.min(at, drag.start));
    drag.box.setAttribute("width", Math.abs(at - drag.start));
    return say(null, event);
  });
  svg.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const [start, end] = [drag.start, place(event).x].sort((a, b) => a - b).map(time);
    const wide = Number(drag.box.getAttribute("width")) > 4;
    drag.box.remove();
    drag = null;
    if (wide) show(start, end);
  });
  svg.addEventListener("pointercancel", () => { drag?.box.remove(); drag = null; });
  svg.addEventListener("pointerleave", (event) => say(null, event));
  svg.addEventListener("dblclick", () => show(...whole));
  svg.addEventListener("keydown", (event) => {
    const acts = {
      ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
      0: () => show(...whole), Home: () => show(0, until - from), End: () => show(whole[1] - (until - from), whole[1]),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });

  const bar = document.createElement("p");
  bar.className = "tools stretch-tools";
  const range = document.createElement("span");
  range.setAttribute("aria-live", "polite");
  bar.append(
    "A stretch: drag over it, or use the arrow keys, + and \u2212. ",
    button("\u2190", "Earlier", () => move(-0.25)), button("\u2192", "Later", () => move(0.25)),
    button("+", "Zoom in", () => zoom(0.5)), button("\u2212", "Zoom out", () => zoom(2)),
    button("Whole", "Show the whole flow", () => show(...whole)), " ", range,
  );
  for (const part of [bar, svg]) part.toggleAttribute("hidden", true);
  card.after(bar, svg);
  // The interactive graph takes the place of the drawn one, and gives it back.
  const swap = button("Zoom in time", "Zoom in time", () => {
    card.hidden = !card.hidden;
    for (const part of [bar, svg]) part.toggleAttribute("hidden", !card.hidden);
    swap.textContent = card.hidden ? "Whole figure" : "Zoom in time";
    swap.setAttribute("aria-label", swap.textContent);
    if (card.hidden) draw();
  });
  return swap;
}
