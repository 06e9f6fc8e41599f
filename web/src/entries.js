// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Entries of the queue in words, and what one can do about them.

import { address } from "./views/parts.js";
import { element } from "./words.js";

const ENDED = ["stopped", "done", "failed"];

export function addressOf({ number }) {
  return `#/queue/${number}`;
}

export function resultOf({ result }) {
  return address(`results/${result}`);
}

export function isOver({ state }) {
  return ENDED.includes(state);
}

// What tells an entry from others of its study: size, engine, settings, tags.
export function apart({ number, reduced, size, engine, settings, tags }) {
  return [`Entry ${number}`, size || (reduced ? "small" : "all runs"), engine, ...settings, ...tags].join(" · ");
}

export function name(entry) {
  return [...(entry.reduced ? [element("span", { className: "chip" }, "small"), " "] : []), entry.title || entry.study];
}

// Buttons for what can be done; `done(entry)` gets the answer, which is empty of one that was removed.
export function buttons(page, entry, done) {
  return entry.actions.map((action) => {
    const button = element("button", { type: "button", className: "small" }, `${action[0].toUpperCase()}${action.slice(1)}`, element("span", { className: "unseen" }, ` entry ${entry.number}`));
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        done(await page.server.post(`queue/${entry.number}/${action}`));
      } catch (error) {
        page.say(error.message, true);
        button.disabled = false;
      }
    });
    return button;
  });
}
