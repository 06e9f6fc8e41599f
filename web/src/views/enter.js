// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What a stranger sees who asks for something of the server: a field for their link.

import { element } from "../words.js";
import { View } from "./parts.js";

const WHY = {
  site: "A page opened this link. Sign in with it if it is yours.",
  wrong: "No link of this laboratory has that token; it may have been replaced.",
};

// The form that takes a link; `entered()` is called once it has signed in.
export function form(page, entered, token = "") {
  const input = element("input", { value: token, type: "password", autocomplete: "current-password", required: true, placeholder: "https://…/enter?token=…" });
  const fault = element("p", { className: "error", role: "alert", hidden: true });
  const made = element("form", {}, element("label", {}, "Your link, or its token ", input), fault,
    element("p", { className: "actions" }, element("button", { className: "main" }, "Sign in")));
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await page.server.enter(input.value);
      entered();
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
    }
  });
  return made;
}

export class Enter extends View {
  open(place, page, route) {
    page.title("Sign in");
    const why = WHY[route.query.get("why")];
    place.classList.add("narrow");
    place.replaceChildren(
      element("h1", {}, "Your link"),
      ...(why ? [element("p", { className: "error", role: "alert" }, why)] : []),
      element("p", { className: "question" }, "Studies, queue and results are for who has a link to this laboratory: the one that ", element("code", {}, "perigee serve"), " printed, or a personal one."),
      form(page, () => page.entered(), route.query.get("token") ?? ""),
      ...(page.pool ? [element("p", { className: "note" }, "Without one there are ", element("a", { href: "#/try" }, "a link to try"), " and ", element("a", { href: "#/lessons" }, "ten lessons"), ".")] : []));
    place.querySelector("input").focus();
  }
}
