// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The page: its navigation, who is signed in, and the view of the address.

import { Pool } from "./engine.js";
import { decodeBase64 } from "./perigee.js";
import { PAGES, routeOf, viewOf } from "./routes.js";
import { behind } from "./server.js";
import { form } from "./views/enter.js";
import { buttonFor, element } from "./words.js";

const main = document.getElementById("main");
const said = document.getElementById("said");
const SILENT_MS = 300;
const reading = element("p", { className: "note", role: "status" }, "Reading…");

// The simulator is in the page: base64 of what DecompressionStream reads, and the script of its workers.
async function simulator() {
  const packed = decodeBase64(document.getElementById("simulator").textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const script = JSON.parse(document.getElementById("worker").textContent);
  return {
    source: URL.createObjectURL(new Blob([script], { type: "text/javascript" })),
    module: await WebAssembly.compile(await new Response(stream).arrayBuffer()),
  };
}

// Once a session has ended, what is shown is gone if it was for that person alone.
const server = behind(() => {
  known();
  if (!open(routed().path)) show();
}, (text) => page.say(text));

// What views have of the page around them.
const page = {
  pool: document.getElementById("simulator") ? new Pool(simulator) : null,
  server,
  person: null,
  // Somebody has signed in.
  entered() {
    known();
    if (routed().path[0] === "enter") page.go("#/");
    else show();
  },
  // Goes to an address, `#/results`.
  go(address) {
    if (location.hash === address) show();
    else location.hash = address;
  },
  // Gives what is shown another address.
  replace(address) {
    if (routeOf(address).path[0] === "try") tried = address;
    history.replaceState(null, "", address);
  },
  title(text) {
    document.title = `${text} - Perigee`;
  },
  // Says a sentence above the view, until another one is shown.
  say(text, isError = false) {
    said.textContent = text;
    said.className = isError ? "error" : "said";
    said.hidden = !text;
    if (isError) reading.remove();
  },
};

let shown = null;
// The study that was tried last, which the navigation leads back to.
let tried = "#/try";

// Whether a path is for who looks at this page: a stranger to the server has what needs none.
function open([first = ""]) {
  return server === null || server.isOpen || first === "enter" || PAGES.some(({ address, in: kinds }) => kinds.includes("alone") && address === first);
}

// The address that is shown where the one that was asked for is nobody's start page.
function routed() {
  const route = routeOf(location.hash);
  return route.path.length || server?.isOpen ? route : { ...route, path: [page.pool || !server ? "try" : "enter"] };
}

function show() {
  const route = routed();
  shown?.close();
  page.say("");
  const place = element("div", { className: "view" });
  main.querySelector(".view").replaceWith(place);
  navigation(route.path[0] ?? "");
  setTimeout(() => {
    if (!place.childNodes.length && said.className !== "error") place.append(reading);
  }, SILENT_MS);
  const View = open(route.path) ? viewOf(route.path) : viewOf(["enter"]);
  if (View) {
    shown = new View();
    shown.open(place, page, route);
    return;
  }
  shown = null;
  page.title("No such page");
  place.append(element("h1", {}, "No such page"), element("p", {}, "Nothing is at this address."));
}

function navigation(current) {
  const kind = server?.isOpen ? server.kind : "alone";
  document.getElementById("pages").replaceChildren(...PAGES.filter((one) => one.in.includes(kind)).map(({ address, title, also = [] }) => {
    const link = element("a", { href: address === "try" ? tried : `#/${address}` }, title);
    if ([address, ...also].includes(current)) link.setAttribute("aria-current", "page");
    return link;
  }));
}

// What is known of who is here: name, role and what one may have in the queue, or the way to sign in.
function known() {
  const { person, compiler, version } = server.me;
  page.person = person;
  if (page.pool) page.pool.compiler = compiler && { ...compiler, ask: (fields) => server.post("compile", fields) };
  document.getElementById("version").textContent = version ? `Perigee ${version}` : "";
  const account = document.getElementById("account");
  account.replaceChildren();
  if (server.kind !== "served") return;
  const menu = element("div", { id: "menu" });
  menu.setAttribute("popover", "");
  const button = element("button", { type: "button", className: "who small" }, person ? "You" : "Sign in");
  button.setAttribute("popovertarget", "menu");
  if (person) {
    const quota = person.quota === null ? "" : `, with ${person.quota} entries in the queue at once`;
    const leave = async () => {
      await server.leave();
      known();
      page.go("#/enter");
    };
    menu.append(element("p", {}, `${person.title} · may ${person.role}${quota}`), buttonFor("Sign out", leave));
  } else {
    menu.append(form(page, () => page.entered()));
  }
  account.append(button, menu);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
// Views do not catch what a server or a simulator refuses.
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  const place = main.querySelector(".view");
  if (!place.querySelector("h1")) place.prepend(element("h1", {}, "This page cannot be shown"));
  page.say(event.reason?.message ?? String(event.reason), true);
});
addEventListener("hashchange", () => {
  show();
  if (!main.contains(document.activeElement)) main.focus({ preventScroll: true });
  scrollTo(0, 0);
});

// The simulators begin meanwhile.
if (["try", "lessons"].includes(routeOf(location.hash).path[0])) page.pool?.ready.catch(() => {});
let failure = "";
if (server) {
  try {
    await server.begin();
  } catch (error) {
    failure = error.message;
  }
  known();
}
show();
if (failure) page.say(failure, true);
