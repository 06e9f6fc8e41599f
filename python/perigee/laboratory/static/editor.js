// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The editor of studies in the place of the plain text: lines, colours, the keys of the place of the cursor, and what is wrong, at its line.

import {
  EditorView, HighlightStyle, StreamLanguage, autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap,
  defaultKeymap, drawSelection, forceLinting, highlightActiveLine, highlightActiveLineGutter, highlightSelectionMatches, history,
  historyKeymap, keymap, lineNumbers, lintGutter, lintKeymap, linter, searchKeymap, syntaxHighlighting, tags, toml,
} from "./codemirror.js";

const form = document.getElementById("editor");
const text = document.getElementById("text");
const fault = document.getElementById("fault");
const WAIT_MS = 300;

let asked = 0;

// Returns a text as nodes, what stands between backticks as code.
function coded(said) {
  return said.split("`").map((part, number) => number % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part);
}

function reference(table) {
  const link = document.createElement("a");
  link.href = `${form.dataset.reference}${table in keys ? `#${table || "study"}` : ""}`;
  link.target = "_blank";
  link.textContent = table in keys && table ? `Keys of ${table}` : "Keys of studies";
  return link;
}

// Says what is wrong, or that nothing is, above the text.
function say(kind, line, ...parts) {
  fault.className = `fault ${kind}`;
  const go = [];
  if (line !== null) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "small", textContent: `Line ${line}` });
    button.addEventListener("click", () => select(line));
    go.push(button, " ");
  }
  fault.replaceChildren(...go, ...parts);
}

function select(number) {
  const line = editor.state.doc.line(Math.min(number, editor.state.doc.lines));
  editor.dispatch({ selection: { anchor: line.from, head: line.to }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
  editor.focus();
}

// Asks the reader of studies; returns what it finds wrong as CodeMirror marks it.
async function checked(view) {
  const mine = ++asked;
  const body = new URLSearchParams({ forms: form.dataset.forms, name: form.elements.name.value, text: view.state.doc.toString() });
  let found;
  try {
    const answer = await fetch(form.dataset.check, { method: "POST", body });
    if (!answer.ok) throw new Error(String(answer.status));
    found = (await answer.json()).fault;
  } catch {
    if (mine === asked) say("", null, "The text could not be checked; the server does not answer.");
    return [];
  }
  if (mine !== asked) return [];
  if (found === null) {
    say("right", null, "The reader accepts this study.");
    return [];
  }
  const line = found.line === null ? null : view.state.doc.line(Math.max(1, Math.min(found.line, view.state.doc.lines)));
  const table = line ? tableOf(view.state.doc.sliceString(0, line.to)) : "";
  say("wrong", found.line, ...coded(found.message), " ", reference(table));
  if (!line) return [];
  // The word that the message names is marked, else the line.
  const word = found.message.split("`")[1];
  const place = word ? line.text.indexOf(word) : -1;
  const [from, to] = place < 0 ? [line.from + line.text.search(/\S|$/), line.to] : [line.from + place, line.from + place + word.length];
  return [{ from, to, severity: "error", message: found.message, renderMessage: () => {
    const shown = document.createElement("span");
    shown.append(...coded(found.message), " ", reference(table));
    return shown;
  } }];
}

// Returns the table that the end of a text is in, with the inline tables that are open there.
function tableOf(before) {
  const heads = [...before.matchAll(/^[ \t]*\[\[?[ \t]*([\w.\-" ]+?)[ \t]*\]\]?[ \t]*(?:#.*)?$/gm)];
  const last = heads.at(-1);
  const path = last ? [last[1].replaceAll('"', "")] : [];
  const open = [];
  const line = before.slice(last ? last.index + last[0].length : 0).split("\n").at(-1);
  for (const found of line.matchAll(/"[^"]*"|([\w.\-]+)\s*=\s*\[?\s*\{|\{|\}/g)) {
    if (found[0] === "}") open.pop();
    else if (found[0].endsWith("{")) open.push(found[1] ?? "");
  }
  return [...path, ...open.filter(Boolean)].join(".");
}

// Returns the words that a key can be; a key path of `vary` ends in the key of a flow or link.
function wordsOf(table, key) {
  const path = key.split(".");
  const of = path.length > 1 ? { flow: "flows", link: "links" }[path[0]] ?? path[0] : table;
  return (keys[of] ?? []).find((one) => one.key === path.at(-1))?.values ?? [];
}

function completed(context) {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const word = /[\w.\-]*$/.exec(before)[0];
  const place = before.slice(0, before.length - word.length);
  const value = /"?([\w.\-]+)"?\s*=\s*(?:\[[^\]]*?)?("?)$/.exec(place);
  if (value) {
    const options = wordsOf(tableOf(context.state.doc.sliceString(0, context.pos)), value[1]).map((one) => ({ label: one, apply: value[2] ? one : `"${one}"` }));
    return options.length ? { from: context.pos - word.length, options, validFor: /^[\w.\-]*$/ } : null;
  }
  // A key begins a line or an inline table, or stands behind a comma there.
  const bare = place.replace(/"[^"]*"/g, "");
  const isOpen = bare.split("{").length > bare.split("}").length;
  const begins = /(^|\{)\s*$/.test(bare) || (isOpen && /,\s*$/.test(bare));
  if (!begins || bare.includes("#") || (!word && !context.explicit)) return null;
  const options = (keys[tableOf(context.state.doc.sliceString(0, context.pos))] ?? []).map((one) => ({
    label: one.key,
    apply: `${one.key} = `,
    type: "property",
    detail: one.default,
    info: () => {
      const shown = document.createElement("div");
      shown.append(...coded(one.text));
      return shown;
    },
  }));
  return options.length ? { from: context.pos - word.length, options, validFor: /^[\w.\-]*$/ } : null;
}

const look = EditorView.theme({
  "&": { border: "1px solid var(--line)", borderRadius: "6px", backgroundColor: "var(--raised)", fontSize: ".875rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", maxHeight: "75vh", minHeight: "16rem" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--pale)", color: "var(--soft)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "color-mix(in srgb, var(--accent) 25%, transparent)" },
  ".cm-selectionMatch, .cm-matchingBracket": { backgroundColor: "color-mix(in srgb, var(--accent) 18%, transparent) !important" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px", boxShadow: "var(--shadow)", overflowWrap: "anywhere" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxWidth: "min(32rem, 90vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-ink)" },
  ".cm-completionIcon": { display: "none" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: .75 },
  ".cm-completionInfo": { padding: ".5rem .75rem", maxWidth: "min(24rem, 90vw)", fontSize: ".8125rem" },
  ".cm-diagnostic": { padding: ".5rem .75rem", maxWidth: "min(36rem, 90vw)", borderLeftColor: "var(--bad)" },
  // The pictures of the library are data in its style, which the policy of pages forbids.
  ".cm-lint-marker-error": { content: "none", width: ".6rem", height: ".6rem", marginTop: ".35rem", borderRadius: "50%", backgroundColor: "var(--bad)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: ".2em" },
  ".cm-panels": { backgroundColor: "var(--pale)", color: "var(--ink)" },
  ".cm-panels input, .cm-panels button": { width: "auto", minHeight: 0 },
});
const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--text-string)" },
  { tag: tags.atom, color: "var(--text-number)" },
]);

const keys = await (await fetch(form.dataset.completion)).json();
const label = document.querySelector("label[for=text]");
label.id = "text-label";
const editor = new EditorView({
  doc: text.value,
  extensions: [
    EditorView.cspNonce.of(form.dataset.nonce),
    lineNumbers(), lintGutter(), highlightActiveLineGutter(), history(), drawSelection(), bracketMatching(), closeBrackets(),
    highlightActiveLine(), highlightSelectionMatches(), syntaxHighlighting(colours), look,
    StreamLanguage.define(toml),
    autocompletion({ override: [completed] }),
    linter(checked, { delay: WAIT_MS }),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap]),
    EditorView.contentAttributes.of({ tabindex: "0", "aria-labelledby": label.id, "aria-describedby": "fault", spellcheck: "false", autocapitalize: "off" }),
    EditorView.updateListener.of((update) => { if (update.docChanged) text.value = update.state.doc.toString(); }),
  ],
});
text.hidden = true;
text.after(editor.dom);
label.addEventListener("click", () => editor.focus());
form.elements.name.addEventListener("input", () => forceLinting(editor));
