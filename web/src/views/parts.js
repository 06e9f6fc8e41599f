// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Views, and parts of them: addresses of the page, choices, and buttons that take their time.

import { element } from "../words.js";

// A view: `open(place, page, route)` shows it, and `close()` ends what it does once another one is shown.
export class View {
  isClosed = false;

  close() {
    this.isClosed = true;
  }
}

// Returns the address of a view in the page; of a query only what is given. Of a list each value is one of its own.
export function address(path, query = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) if (each !== "" && each !== null && each !== undefined) given.append(name, each);
  }
  const text = given.toString();
  return `#/${path.split("/").map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

// A table below its heads, each a text with a class, in a region that scrolls sideways.
export function table(label, heads, rows, className = "") {
  const head = element("tr", {}, ...heads.map(([text, kind = ""]) => element("th", { scope: "col", className: kind }, text)));
  return element("div", { className: "scroll", role: "region", tabIndex: 0, ariaLabel: label },
    element("table", { className, ariaLabel: label }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

// The way to the pages of a list before and after one; nothing where there is one only.
export function pagesOf({ page, pages }, addressOf) {
  if (pages < 2) return [];
  const link = (number, text) => element("a", { href: addressOf(String(number)) }, text);
  return [element("nav", { className: "pages", ariaLabel: "More" },
    ...(page > 0 ? [link(page - 1, "Previous")] : []), element("span", {}, `page ${page + 1} of ${pages}`), ...(page + 1 < pages ? [link(page + 1, "Next")] : []))];
}

// A choice as a link.
export function chip(text, href, isChosen = false) {
  const made = element("a", { className: "chip", href }, text);
  if (isChosen) made.setAttribute("aria-current", "true");
  return made;
}

// Carries out what a button asks for: the button says what it does and for how long, and the page why it failed.
export async function busy(page, button, said, act) {
  const text = button.textContent;
  const begun = performance.now();
  const tell = () => { button.textContent = `${said}, ${Math.round((performance.now() - begun) / 1000)} s`; };
  button.disabled = true;
  tell();
  const timer = setInterval(tell, 1000);
  try {
    await act();
  } catch (error) {
    page.say(error.message, true);
  } finally {
    clearInterval(timer);
    button.textContent = text;
    button.disabled = false;
  }
}
