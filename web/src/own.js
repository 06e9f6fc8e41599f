// SPDX-License-Identifier: GPL-2.0-only OR MIT
// An author's own algorithm: a C text that the server of the page compiles, or a module that the author has compiled.

import { nameOf as shipped } from "./looks.js";
import { decodeBase64 } from "./perigee.js";
import { buttonFor, coded, element, selectLine } from "./words.js";

const COMMAND = "clang @algorithms/compile_flags.txt @algorithms/compile_flags_wasm.txt -I algorithms -o mycc.wasm mycc.c";
const FIRST_NAME = "mycc.c";
const MOST_TRIES = 5;
// Names that algorithms of this tab give themselves, by their files.
const OWN = new Map();

// Returns what an algorithm is called, an author's own too.
export function nameOf(algorithm) {
  return OWN.get(algorithm) ?? shipped(algorithm);
}

// Returns the part of the controls that takes an algorithm; `added(file)` is called with its name in a study. It stays in this tab.
// `pool.compiler`: `start`, a text to begin with, `why` nothing can be compiled, and `ask(fields)`; null without a server.
export function ownAlgorithm(pool, added) {
  const said = element("div", { className: "note", role: "status" });
  const take = async (bytes, file) => {
    const { title, name, file: called } = await pool.addAlgorithm(bytes, file);
    OWN.set(called, name);
    said.replaceChildren(`${title || name} is here; a study says cc = "${called}".`);
    added(called);
  };
  const found = pool.compiler;
  const why = found ? found.why && `Nothing is compiled here: ${found.why}.` : "A page without a server of its own compiles nothing; the one that perigee serve offers does.";
  const box = element("details", { className: "own" }, element("summary", {}, "Your own algorithm"),
    ...(why ? [element("p", { className: "note" }, why)] : written(found, take, said)),
    ...module(take, said), said);
  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) dropped(event.dataTransfer.files[0], take, said);
  });
  return box;
}

// Asks the compiler, and again where it is busy; `said` has what is waited for.
async function inTurn(ask, fields, said) {
  for (let left = MOST_TRIES; ; left -= 1) {
    try {
      return await ask(fields);
    } catch (error) {
      if (!error.busy_s || left <= 1) throw error;
      said.replaceChildren(`Many compile at the moment; your text waits, and is sent again in ${error.busy_s} s.`);
      await new Promise((resolve) => { setTimeout(resolve, error.busy_s * 1000); });
      said.replaceChildren("Compiling…");
    }
  }
}

// The field for C.
function written({ start, ask }, take, said) {
  const name = element("input", { id: "own-name", value: FIRST_NAME, spellcheck: false, autocapitalize: "off" });
  const area = element("textarea", { id: "own-text", value: start, spellcheck: false, autocapitalize: "off", wrap: "off", rows: 24 });
  const button = element("button", { type: "button", id: "own-compile" }, "Compile and run");
  const list = element("ul", { className: "faults" });
  const wrong = element("div", { role: "alert" }, list);
  const show = (errors) => {
    area.setAttribute("aria-invalid", String(errors.length > 0));
    list.replaceChildren(...errors.map(({ line, said: message }) => {
      const go = buttonFor(`${name.value}, line ${line}`, () => selectLine(area, line), "small");
      return element("li", {}, ...(line ? [go, " "] : []), ...coded(message));
    }));
  };
  button.addEventListener("click", async () => {
    button.disabled = true;
    said.replaceChildren("Compiling…");
    show([]);
    try {
      const answer = await inTurn(ask, { file: name.value, text: area.value }, said);
      said.replaceChildren();
      show(answer.errors);
      if (!answer.errors.length) await take(decodeBase64(answer.module), name.value);
    } catch (error) {
      said.replaceChildren();
      show([{ line: 0, said: error.message }]);
    }
    button.disabled = false;
  });
  return [
    element("p", { className: "note" }, "The server of this page compiles the text, and runs nothing of it: the module comes into this tab."),
    element("label", { htmlFor: name.id }, "Name of the file, for the study"), name,
    element("label", { htmlFor: area.id }, "The algorithm as a C file with tcp.h"), area, wrong, button,
  ];
}

// The file of an author's own compiler.
function module(take, said) {
  const input = element("input", { type: "file", accept: ".wasm", id: "own" });
  input.addEventListener("change", () => { if (input.files.length) dropped(input.files[0], take, said); });
  return [
    element("p", { className: "note" }, "Or a module: one C file, compiled in a checkout of Perigee with Debian's clang and lld:"),
    element("pre", { tabIndex: 0, ariaLabel: "Command that compiles a module" }, COMMAND),
    element("label", { htmlFor: input.id }, "The module, or drop it here"), input,
  ];
}

async function dropped(file, take, said) {
  try {
    await take(await file.arrayBuffer(), file.name.replace(/\.wasm$/, ".c"));
  } catch (error) {
    said.replaceChildren(`${file.name}: ${error.message}`);
  }
}
