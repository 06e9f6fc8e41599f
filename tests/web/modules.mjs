// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Calls the modules of web/src for tests/web/test_web_modules.py: `node modules.mjs NAME`, what it is given and returns as JSON.

import { readFileSync } from "node:fs";

import { packed, parts, unpacked } from "../../web/src/address.js";
import { separated, stream } from "../../web/src/arrow.js";
import { sliding, topOf } from "../../web/src/curves.js";
import { FIRST_LESSONS } from "../../web/src/lessons/first.js";
import { SECOND_LESSONS } from "../../web/src/lessons/second.js";
import { THIRD_LESSONS } from "../../web/src/lessons/third.js";
import { FIRST, QUEUES, named, read, over, written } from "../../web/src/study.js";
import { addressOf } from "../../web/src/server.js";
import { split } from "../../web/src/settings.js";
import { ago, duration } from "../../web/src/times.js";
import { placed } from "../../web/src/topology.js";
import { zipped } from "../../web/src/zip.js";

async function opened(code) {
  try {
    return await unpacked(code);
  } catch (error) {
    return `refused: ${error.message}`;
  }
}

function pathed(path) {
  try {
    return addressOf(path);
  } catch (error) {
    return `refused: ${error.message}`;
  }
}

function ends({ least, most, values }) {
  return values ? [values[0], values.at(-1)] : [least, most];
}

// The studies of a lesson: as it begins, of its question, and at the ends of its sliders.
function studies({ fixed, sliders, question, study }) {
  const start = { ...fixed };
  for (const [name, one] of Object.entries(sliders)) start[name] = one.start;
  const moved = Object.entries(sliders).flatMap(([name, one]) => ends(one).map((value) => ({ [name]: value })));
  return [{}, question.before, question.after, ...moved].map((values) => study({ ...start, ...values }));
}

const CALLS = {
  addresses: async ({ codes, texts }) => [
    await Promise.all(codes.map(opened)),
    await Promise.all(texts.map(async (text) => opened(await packed(text)))),
  ],
  paths: (paths) => paths.map(pathed),
  forms: () => {
    const forms = [
      FIRST,
      { ...FIRST, aqm: "fq-codel", loss: 0.01, proxy: true, cc: ["hybla"] },
      { ...FIRST, rate: 2.5, delay: 7.5, queue: 3.1 },
      ...Object.keys(QUEUES).map((aqm) => ({ ...FIRST, aqm })),
    ];
    const same = forms.map((form) => JSON.stringify(read(written(form))) === JSON.stringify(form));
    const short = named({ link: "leo", cc: "bbr,<b>,reno", loss: "0.1", rate: "1e9", bdp: "2" });
    return [same, [short.cc, short.loss, short.rate, short.delay, short.queue], named({ study: "x" }), read(`${written(FIRST)}# mine\n`), read("name = 1"), read("")];
  },
  // What the controls make of addresses: texts of studies, and what they show of them.
  named: (addresses) => addresses.map((address) => {
    const form = named(parts(address));
    return [written(form), form];
  }),
  means: ({ t, v, span }) => sliding(t, v, span).v,
  tops: (all) => all.map((columns) => topOf(columns)),
  archive: async ({ streams, columns }) => {
    const whole = await stream(streams.map((bytes) => Uint8Array.from(bytes))).arrayBuffer();
    const text = new TextEncoder().encode(separated(columns));
    const archive = zipped([["a.arrows", new Uint8Array(whole)], ["ü.csv", text]]);
    return [...new Uint8Array(await archive.arrayBuffer())];
  },
  lists: (texts) => texts.map(split),
  times: ({ lengths, passed }) => [lengths.map(duration), passed.map((seconds) => ago(1e9 - seconds, 1e9))],
  networks: (networks) => networks.map((network) => [...placed(network)]),
  studies: () => [
    ...[...FIRST_LESSONS, ...SECOND_LESSONS, ...THIRD_LESSONS].flatMap(studies),
    ...Object.keys(QUEUES).map((aqm) => written({ ...FIRST, aqm })),
    over("geo", ["cubic", "bbr"], "30 s"),
  ],
};

const given = readFileSync(0, "utf8");
console.log(JSON.stringify(await CALLS[process.argv[2]](JSON.parse(given || "null"))));
