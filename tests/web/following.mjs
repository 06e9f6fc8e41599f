// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Follows the queue for tests/web/test_web_following.py, with a pretended server and clock; returns what the page does as JSON.

import { readFileSync } from "node:fs";

import { behind } from "../../web/src/server.js";

const done = [];
const turn = () => new Promise((resolve) => { setImmediate(resolve); });
const waiting = [];
let stream;
let person = { role: "look" };

globalThis.document = { querySelector: () => ({ content: "served" }) };
globalThis.EventSource = class {
  static CLOSED = 2;
  readyState = 1;

  constructor() {
    stream = this;
    done.push("follows");
  }

  close() {
    done.push("closes");
  }
};
globalThis.fetch = async () => ({ ok: true, json: async () => ({ person, forms: "" }) });
globalThis.setTimeout = (then, wait_ms) => waiting.push([then, wait_ms]);

const STEPS = {
  break: () => { stream.readyState = 0; stream.onerror(); },
  refuse: () => { stream.readyState = 2; stream.onerror(); },
  wait: () => { const [then, wait_ms] = waiting.shift(); done.push(`waits ${wait_ms / 1000} s`); then(); },
  state: () => stream.onmessage({ data: "{}" }),
  leave: () => { person = null; },
  close: () => close(),
};

const server = behind(() => done.push("has ended"), (text) => done.push(text ? "says so" : "says no more"));
await server.begin();
const close = server.events(() => done.push("shows"));
for (const step of JSON.parse(readFileSync(0, "utf8"))) {
  STEPS[step]();
  await turn();
}
console.log(JSON.stringify([done, waiting.length]));
