// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A field for the text of a study: lines, colours, the keys of the place of the cursor, and what is wrong, at its line.

import {
  EditorView, HighlightStyle, StreamLanguage, autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap,
  defaultKeymap, drawSelection, forceLinting, highlightActiveLine, highlightActiveLineGutter, highlightSelectionMatches, history,
  historyKeymap, keymap, lineNumbers, lintGutter, lintKeymap, linter, searchKeymap, syntaxHighlighting, tags, toml,
} from "./codemirror.js";
import { buttonFor, coded, element } from "./words.js";

const WAIT_MS = 300;

// Returns the table that the end of a text is in, with the inline tables that are open there.
export function tableOf(before) {
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
function wordsOf(keys, table, key) {
  const path = key.split(".");
  const of = path.length > 1 ? { flow: "flows", link: "links" }[path[0]] ?? path[0] : table;
  return (keys[of] ?? []).find((one) => one.key === path.at(-1))?.values ?? [];
}

// Returns what completes the text at the cursor, given the keys of each table.
function completing(keys) {
  return (context) => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const word = /[\w.\-]*$/.exec(before)[0];
    const place = before.slice(0, before.length - word.length);
    const table = tableOf(context.state.doc.sliceString(0, context.pos));
    const value = /"?([\w.\-]+)"?\s*=\s*(?:\[[^\]]*?)?("?)$/.exec(place);
    const found = value ? wordsOf(keys, table, value[1]).map((one) => ({ label: one, apply: value[2] ? one : `"${one}"` })) : keysAt(keys[table] ?? [], place, word, context.explicit);
    return found.length ? { from: context.pos - word.length, options: found, validFor: /^[\w.\-]*$/ } : null;
  };
}

// A key begins a line or an inline table, or stands behind a comma there.
function keysAt(keys, place, word, isAsked) {
  const bare = place.replace(/"[^"]*"/g, "");
  const isOpen = bare.split("{").length > bare.split("}").length;
  const begins = /(^|\{)\s*$/.test(bare) || (isOpen && /,\s*$/.test(bare));
  if (!begins || bare.includes("#") || (!word && !isAsked)) return [];
  return keys.map((one) => ({ label: one.key, apply: `${one.key} = `, type: "property", detail: one.default, info: () => element("div", {}, ...coded(one.text)) }));
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
  { tag: tags.string, color: "var(--good)" },
  { tag: tags.atom, color: "var(--warn)" },
]);

export class CodeField {
  #view;
  #check;
  #more;
  #asked = 0;
  // What is wrong with the text, or that nothing is.
  fault = element("p", { className: "fault", id: "fault", role: "status" });

  // `label`: what the text is; `keys`: of each table what can stand there; `check(text)` returns the fault of a text,
  // `{message, line}`, or null; `more(table)` what to add to a fault in a table.
  constructor(text, { label, keys = {}, check, more = () => [] }) {
    this.#check = check;
    this.#more = more;
    this.label = element("p", { id: "text-label", className: "label" }, label);
    this.label.addEventListener("click", () => this.#view.focus());
    // Styles of the page have a nonce, without which its policy lets none in.
    const nonce = document.querySelector("style[nonce]")?.nonce ?? "";
    this.#view = new EditorView({
      doc: text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        lineNumbers(), lintGutter(), highlightActiveLineGutter(), history(), drawSelection(), bracketMatching(), closeBrackets(),
        highlightActiveLine(), highlightSelectionMatches(), syntaxHighlighting(colours), look,
        StreamLanguage.define(toml),
        autocompletion({ override: [completing(keys)] }),
        linter((view) => this.#checked(view), { delay: WAIT_MS }),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap]),
        EditorView.contentAttributes.of({ tabindex: "0", spellcheck: "false", autocapitalize: "off", "aria-labelledby": this.label.id, "aria-describedby": this.fault.id }),
      ],
    });
    this.place = this.#view.dom;
  }

  get text() {
    return this.#view.state.doc.toString();
  }

  set text(value) {
    if (value !== this.text) this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: value } });
  }

  // Checks the text again, which a name may have changed.
  check() {
    forceLinting(this.#view);
  }

  #select(number) {
    const line = this.#line(number);
    this.#view.dispatch({ selection: { anchor: line.from, head: line.to }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
    this.#view.focus();
  }

  close() {
    this.#asked += 1;
    this.#view.destroy();
  }

  #line(number) {
    return this.#view.state.doc.line(Math.max(1, Math.min(number, this.#view.state.doc.lines)));
  }

  #tell(fault) {
    this.fault.className = `fault ${fault ? "wrong" : "right"}`;
    if (!fault) {
      this.fault.replaceChildren("The reader accepts this study.");
      return;
    }
    const go = buttonFor(`Line ${fault.line}`, () => this.#select(fault.line), "small");
    const table = fault.line ? tableOf(this.#view.state.doc.sliceString(0, this.#line(fault.line).to)) : "";
    this.fault.replaceChildren(...(fault.line ? [go, " "] : []), ...coded(fault.message), ...this.#more(table));
  }

  // Returns what is wrong as the library marks it.
  async #checked(view) {
    const mine = ++this.#asked;
    const fault = await this.#check(view.state.doc.toString());
    if (mine !== this.#asked) return [];
    this.#tell(fault);
    if (!fault?.line) return [];
    const line = this.#line(fault.line);
    // The word that the message names is marked, of a path its last part, else the line.
    const path = fault.message.split("`")[1] ?? "";
    const word = [path, path.split(".").at(-1)].find((part) => part && line.text.includes(part));
    const from = line.from + (word ? line.text.indexOf(word) : Math.max(0, line.text.search(/\S/)));
    const to = word ? from + word.length : line.to;
    return [{ from, to, severity: "error", message: fault.message, renderMessage: () => element("span", {}, ...coded(fault.message)) }];
  }
}
