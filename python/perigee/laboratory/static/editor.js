// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The editor of studies: says what is wrong, at its line, as one types, and lists the keys that a place can have.

const form = document.getElementById("editor");
const text = document.getElementById("text");
const fault = document.getElementById("fault");
const list = document.getElementById("keys");
const WAIT_MS = 300;

let waiting = 0;
let asked = 0;
let keys = {};
let chosen = 0;

async function check() {
  const mine = ++asked;
  const name = form.elements.name.value;
  const body = new URLSearchParams({ forms: form.dataset.forms, name, text: text.value });
  let found;
  try {
    const answer = await fetch(form.dataset.check, { method: "POST", body });
    if (!answer.ok) throw new Error(String(answer.status));
    found = (await answer.json()).fault;
  } catch {
    if (mine === asked) say("The text could not be checked; the server does not answer.", null, "");
    return;
  }
  if (mine !== asked) return;
  if (found === null) say("The reader accepts this study.", null, "right");
  else say(found.message, found.line, "wrong");
}

function say(message, line, kind) {
  fault.className = `fault ${kind}`;
  text.setAttribute("aria-invalid", String(kind === "wrong"));
  if (line === null) {
    fault.textContent = message;
    return;
  }
  const go = document.createElement("button");
  go.type = "button";
  go.textContent = `Line ${line}`;
  go.addEventListener("click", () => select(line));
  fault.replaceChildren(go, ` ${message}`);
}

function select(line) {
  const lines = text.value.split("\n");
  const begin = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  text.focus();
  text.setSelectionRange(begin, begin + (lines[line - 1] ?? "").length);
  text.scrollTop = (line - 5) * parseFloat(getComputedStyle(text).lineHeight);
}

function table(before) {
  const heads = [...before.matchAll(/^\s*\[\[?\s*([\w.\-]+)\s*\]\]?/gm)];
  return heads.length ? heads[heads.length - 1][1] : "";
}

function complete() {
  const before = text.value.slice(0, text.selectionStart);
  const word = /[\w.\-]*$/.exec(before)[0];
  const found = (keys[table(before)] ?? keys[""] ?? []).filter((one) => one.key.startsWith(word));
  list.replaceChildren(...found.map((one, place) => {
    const item = document.createElement("li");
    item.role = "option";
    item.id = `key-${place}`;
    const name = document.createElement("b");
    name.textContent = one.key;
    item.append(name, ` ${one.text}${one.default ? ` Default: ${one.default}` : ""}`);
    item.addEventListener("mousedown", (event) => { event.preventDefault(); take(one.key, word); });
    return item;
  }));
  list.hidden = found.length === 0;
  list.dataset.word = word;
  choose(0);
}

function choose(place) {
  const items = [...list.children];
  chosen = Math.max(0, Math.min(place, items.length - 1));
  items.forEach((item, number) => item.setAttribute("aria-selected", String(number === chosen)));
  items[chosen]?.scrollIntoView({ block: "nearest" });
  if (items.length) text.setAttribute("aria-activedescendant", `key-${chosen}`);
}

function take(key, word) {
  const end = text.selectionStart;
  text.setRangeText(`${key} = `, end - word.length, end, "end");
  close();
  text.dispatchEvent(new Event("input"));
}

function close() {
  list.hidden = true;
  text.removeAttribute("aria-activedescendant");
}

text.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(check, WAIT_MS);
  if (!list.hidden) complete();
});
text.addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.code === "Space") {
    event.preventDefault();
    complete();
  } else if (!list.hidden && ["ArrowDown", "ArrowUp", "Enter", "Escape"].includes(event.key)) {
    event.preventDefault();
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter") take(list.children[chosen].querySelector("b").textContent, list.dataset.word);
    else close();
  }
});
text.addEventListener("blur", close);
keys = await (await fetch(form.dataset.completion)).json();
check();
