// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Elements and numbers. Text from a study reaches the page as text only.

const SVG = "http://www.w3.org/2000/svg";

// Returns an element with properties and children; strings are text.
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// Returns a button that does something.
export function buttonFor(text, act, className = "") {
  const made = element("button", { type: "button", className }, text);
  made.addEventListener("click", act);
  return made;
}

// Returns an SVG element with attributes and children.
export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// At most three significant digits, with thin spaces between thousands.
export function three(value) {
  const rounded = Number(value.toPrecision(3));
  return rounded.toLocaleString("en", { maximumFractionDigits: 6 }).replaceAll(",", "\u202f").replace("-", "\u2212");
}

// The largest of values, and of a least one.
export function largest(values, least = 0) {
  let most = least;
  for (const value of values) if (value > most) most = value;
  return most;
}

// A size in the unit that suits it.
export function size(bytes) {
  const unit = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]].find(([, scale]) => bytes >= scale * 0.9995) ?? ["B", 1];
  return `${three(bytes / unit[1])} ${unit[0]}`;
}

export function milliseconds(ms) {
  return ms >= 999.5 ? `${three(ms / 1000)} s` : `${three(ms)} ms`;
}

// Returns a text as nodes, what stands between backticks as code.
export function coded(said) {
  return said.split("`").map((part, number) => number % 2 ? element("code", {}, part) : part);
}

// Selects a line of a text field, from 1, and shows it.
export function selectLine(area, line) {
  const lines = area.value.split("\n");
  const begin = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  area.focus();
  area.setSelectionRange(begin, begin + (lines[line - 1] ?? "").length);
  area.scrollTop = (line - 4) * parseFloat(getComputedStyle(area).lineHeight);
}
