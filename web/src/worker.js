// SPDX-License-Identifier: GPL-2.0-only OR MIT
// One simulator in a worker. The page asks, each question with a number, and ends the worker to cancel what it does.

import { Engine } from "./perigee.js";

const SLICE = { events: 200000 };
const TELL_MS = 100;
// What somebody else's study may take of this machine.
const LIMITS = { memory: 512e6, events: 5e8, simulated_s: 3600 };

let engine = null;

function failure(error) {
  return { message: String(error?.message ?? error), kind: error?.kind ?? "fault", errors: error?.errors ?? [] };
}

function buffers(part) {
  return Object.values(part).filter(ArrayBuffer.isView).map((array) => array.buffer);
}

// Runs of a study beyond these are not carried out in a page.
const MOST_RUNS = 64;
// Flows and links beyond these are not drawn; the tables have all.
const MOST_TRACES = 96;

function told(id, now, { flows, links }) {
  const live = { flows: flows.slice(0, MOST_TRACES), links: links.slice(0, MOST_TRACES) };
  const moved = [...live.flows, ...live.links].flatMap(buffers);
  postMessage({ id, kind: "live", now, live }, moved);
}

// Frees a run; after a trap its instance is gone, and the run with it.
function free(handle, isWhole) {
  try {
    handle.free();
  } catch (error) {
    if (isWhole) throw error;
  }
}

// Simulates a run to its end, and tells how far it is.
function simulated(id, { text, ...options }) {
  const handle = engine.start(text, options);
  let isWhole = false;
  try {
    let [after, last, done] = [0, 0, false];
    while (!done) {
      const now = handle.advance(Infinity, SLICE);
      done = now.done;
      if (!done && performance.now() - last < TELL_MS) continue;
      last = performance.now();
      told(id, { t: now.t, share: done ? 1 : now.share }, handle.live(after));
      after = now.t;
    }
    const result = handle.finish();
    const columns = Object.fromEntries([...result.tables.keys()].map((name) => [name, result.columns(name)]));
    isWhole = true;
    return { tables: [...result.tables], columns };
  } finally {
    free(handle, isWhole);
  }
}

const ANSWERS = {
  load: async (_id, { module, algorithms }) => {
    engine = await Engine.load(module);
    engine.limits(LIMITS);
    for (const { bytes, file } of algorithms) engine.addAlgorithm(bytes, file);
    return { version: engine.version, algorithms: engine.algorithms(), studies: engine.studies() };
  },
  // Of a study that has a small size, `isSmall` asks for that. Its whole size may be a hundred thousand runs.
  check: (_id, { text, isSmall, file }) => {
    const reduced = isSmall && /^\s*(\[?\s*reduced\b)/m.test(text);
    const { errors } = engine.check(text, { file });
    return errors.length ? { errors, study: null } : { errors, study: { ...engine.describe(text, { reduced, file, most: MOST_RUNS }), reduced } };
  },
  algorithm: (_id, { bytes, file }) => ({ added: engine.addAlgorithm(bytes, file), algorithms: engine.algorithms() }),
  run: simulated,
};

onmessage = async ({ data: { id, kind, ...asked } }) => {
  try {
    postMessage({ id, kind: "answer", answer: await ANSWERS[kind](id, asked) });
  } catch (error) {
    postMessage({ id, kind: "failure", failure: failure(error) });
  }
};
