// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Lessons on what satellite networks have of their own: proxies, capacity on demand, and paths that change.

import { size, three } from "../words.js";
import { flow, network, rate, result, time } from "./network.js";

const LOSSES = [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1];
const UNITS = 64;
const SLOT_BYTES = 500;
const SUPERFRAME_MS = 100;

export const THIRD_LESSONS = [
  {
    title: "Can somebody answer sooner?",
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
    text: [
      "Low orbits make the path short again: a round trip of tens of milliseconds. But a satellite is overhead for minutes, and the network hands a terminal from one to the next every few seconds. Each path has a length of its own.",
      "Here the path changes every {every}, by up to {change} each way, and no packet is lost. Cubic gets {cubic} of {rate}, Vegas {vegas}.",
      "Vegas takes the shortest round trip it has seen for the length of the path, and whatever is longer for a queue.",
    ],
    sliders: { change: { title: "Change of the delay, each way", least: 0, most: 40, start: 0, unit: "ms" } },
    fixed: { rate: 50, every: 15 },
    study: (p) => network({
      satellite: `rate = "${p.rate} Mbit/s"\nqueue = "400 kB"\ntimeline = ["time_s, delay_ms", "0, 12", "${p.every}, ${12 + p.change}", "${2 * p.every}, ${12 + p.change / 4}", "${3 * p.every}, ${12 + p.change * 0.75}"]`,
      flows: flow("download", "cubic", 'duration = "60 s"'),
      vary: '"flow.cc" = ["cubic", "vegas"]',
      series: 100,
    }),
    values: ([one, other], p) => {
      const [cubic, vegas] = [result(one), result(other)];
      return { every: `${p.every} s`, change: `${p.change} ms`, rate: rate(p.rate), cubic: rate(cubic.mbps), vegas: rate(vegas.mbps), share: vegas.mbps / p.rate };
    },
    quantities: ["goodput", "window", "rtt"],
    pictured: 1,
    question: {
      text: "Let the delay change by 20 ms at each handover. What does that cost Vegas, if no packet is lost?",
      choices: ["Nothing: the link is as fast as before", "A little", "Most of its throughput"],
      before: { change: 0 },
      after: { change: 20 },
      right: (before, now) => now.share > 0.97 * before.share ? 0 : now.share > 0.5 * before.share ? 1 : 2,
      answer: "{before.vegas} over a path that stays, {now.vegas} over one that changes; Cubic {now.cubic}. After the first handover the path is longer than Vegas has ever seen. It takes the difference for a queue of its own making, and shrinks its window round trip by round trip, beside an empty queue. A measurement of a path is worth as much as the path lasts.",
    },
  },
];
