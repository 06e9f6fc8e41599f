// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Lessons on what satellite networks have of their own: proxies, capacity on demand, and paths that change.

import { network } from "../study.js";
import { size, three } from "../words.js";
import { flow, rate, result, time } from "./network.js";

const LOSSES = [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1];
const UNITS = 64;
const SLOT_BYTES = 500;
const SUPERFRAME_MS = 100;
const SHORTEST_MS = 12;

export const THIRD_LESSONS = [
  {
    title: "Can somebody answer sooner?",
    idea: "A proxy makes no path shorter; it answers losses sooner, and climbs faster after them.",
    text: [
      "Operators put a proxy in front of the satellite. It ends the server's connection at the gateway, acknowledges what arrives there, and sends it on over a connection of its own, with a congestion control made for long paths: Hybla, which climbs as fast as if the round trip were short.",
      "With {loss} of the packets lost on the satellite, the download gets {without} without the proxy and {with} with it.",
    ],
    sliders: { loss: { title: "Packets lost at random", values: LOSSES, start: 0.1, unit: "%" } },
    fixed: {},
    study: (p) => network({
      wire: "10 ms",
      satellite: `rate = "50 Mbit/s"\ndelay = "290 ms"\nqueue = "3.75 MB"\ndown = { loss = "${p.loss} %" }`,
      flows: flow("download", "cubic", 'duration = "30 s"'),
      more: '\n[[proxies]]\nname = "proxy"\nnode = "gateway"\n[proxies.sides.wire]\ncc = "cubic"\n[proxies.sides.satellite]\ncc = "hybla"\n',
      vary: 'proxy = [{ name = "without a proxy", "proxies.proxy.enabled" = false }, { name = "with a proxy", "proxies.proxy.enabled" = true }]',
    }),
    values: ([one, other], p) => {
      const [off, on] = [result(one), result(other)];
      return { loss: `${p.loss} %`, without: rate(off.mbps), with: rate(on.mbps), times: three(on.mbps / off.mbps), gain: on.mbps / off.mbps };
    },
    quantities: ["goodput", "window", "queue"],
    pictured: 1,
    question: {
      text: "Now the satellite loses nothing. How much does the proxy still gain?",
      choices: ["As much as before", "Little", "Nothing: it is slower"],
      before: { loss: 0.1 },
      after: { loss: 0 },
      right: (before, now) => now.gain > 0.7 * before.gain ? 0 : now.gain > 1.02 ? 1 : 2,
      answer: "{before.times} times as much with {before.loss} lost, {now.times} times as much without losses. The path is as long as ever, with a proxy too. What changes is who answers a loss, and how fast it climbs afterwards; where nothing is lost, only the start is left to gain.",
    },
  },
  {
    title: "What if capacity must be requested?",
    idea: "Where capacity must be requested, data wait longer than a round trip for it, and every new window waits again.",
    text: [
      "Thousands of terminals share the way up to a satellite. Each has a few slots of its own, and for more it asks: the request goes up and down to the control centre, the plan comes back the same way. That takes longer than a round trip.",
      "This terminal has {fixed} of {units} slots in each frame of {frame} for itself. It uploads {size} in {duration}, and a round trip takes {rtt} on average.",
      "Data that come before their slots wait. Watch the queue of the terminal: it drains when the grant arrives, and by then the next packets are there.",
    ],
    sliders: { fixed: { title: "Slots of its own", least: 1, most: UNITS, start: 1, unit: "", isLog: true } },
    fixed: { kB: 100 },
    study: (p) => network({
      satellite: `down = { rate = "50 Mbit/s", delay = "270 ms", queue = "3.75 MB" }
[links.up]
delay = "270 ms"
queue = "600 kB"
[links.up.rate]
kind = "tdma"
superframe = "${SUPERFRAME_MS} ms"
slots = ${UNITS}
payload = "${SLOT_BYTES} B"
fixed = ${p.fixed}
requests = "both"
processing = "50 ms"
assignment = "100 ms"
propagation = "540 ms"`,
      flows: `[[flows]]\nname = "upload"\nfrom = "terminal"\nto = "server"\nsize = "${p.kB} kB"\n`,
      series: 20,
    }),
    values: ([run], p) => {
      const { seconds, rtt_ms } = result(run);
      return { fixed: String(p.fixed), units: String(UNITS), frame: `${SUPERFRAME_MS} ms`, size: size(1000 * p.kB), duration: time(seconds), rtt: time(rtt_ms / 1000), seconds };
    },
    quantities: ["goodput", "window", "queue", "rtt"],
    question: {
      text: "Give the terminal all slots for good, so that it never has to ask. How long does the upload take then?",
      choices: ["As long: the path is the same", "About half the time", "A tenth of the time"],
      before: { fixed: 1 },
      after: { fixed: UNITS },
      right: (before, now) => now.seconds > 0.8 * before.seconds ? 0 : now.seconds > 0.2 * before.seconds ? 1 : 2,
      answer: "{before.duration} with one slot and requests, {now.duration} with all slots. Every time the window grows, the new packets wait for a grant, and the wait counts as part of the round trip. The rest of the time is the path, and slow start.",
    },
  },
  {
    title: "What if the satellite moves?",
    idea: "A measurement of a path is worth as much as the path lasts.",
    text: [
      "Low orbits make the path short again: a round trip of tens of milliseconds. But a satellite is overhead for minutes, and the network hands a terminal from one to the next every few seconds. Each path has a length of its own.",
      "Here the path changes every {every}: each handover makes it {change} {longer}, each way, and the air loses no packet. Watch the satellite, which stands the higher the longer its path is. Cubic gets {cubic} of {rate}, Vegas {vegas}.",
      "Vegas takes the shortest round trip it has seen for the length of the path, and whatever is longer for a queue.",
    ],
    sliders: { change: { title: "Change of the delay at each handover, each way", least: -6, most: 6, start: 5, unit: "ms" } },
    fixed: { rate: 50, every: 15 },
    study: (p) => network({
      satellite: `rate = "${p.rate} Mbit/s"\nqueue = "400 kB"\ntimeline = ["time_s, delay_ms", ${[0, 1, 2, 3].map((handover) => `"${handover * p.every}, ${SHORTEST_MS + Math.max(0, -3 * p.change) + handover * p.change}"`).join(", ")}]`,
      flows: flow("download", "cubic", 'duration = "60 s"'),
      vary: '"flow.cc" = ["cubic", "vegas"]',
      series: 100,
    }),
    values: ([one, other], p) => {
      const [cubic, vegas] = [result(one), result(other)];
      return { every: `${p.every} s`, change: `${Math.abs(p.change)} ms`, longer: p.change < 0 ? "shorter" : "longer", rate: rate(p.rate), cubic: rate(cubic.mbps), vegas: rate(vegas.mbps), share: vegas.mbps / p.rate };
    },
    quantities: ["goodput", "window", "rtt"],
    pictured: 1,
    question: {
      text: "Fly the same satellites in the opposite order: each handover makes the path shorter by as much. What is left to Vegas?",
      choices: ["As little: it is the change that misleads it", "About half", "All: it fills the link"],
      before: { change: 5 },
      after: { change: -5 },
      right: (before, now) => now.share > 0.9 ? 2 : now.share > 1.5 * before.share ? 1 : 0,
      answer: "{before.vegas} where the path grew, {now.vegas} where it shrinks; Cubic {before.cubic} and {now.cubic}. A shorter round trip is believed at once. A longer one Vegas takes for a queue of its own making: it shrinks its window round trip by round trip, beside an empty queue. A measurement of a path is worth as much as the path lasts.",
    },
  },
];
