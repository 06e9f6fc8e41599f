// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Lessons on one sender: window, slow start, queue, and what keeps a queue short.

import { network } from "../study.js";
import { size, three } from "../words.js";
import { flow, ofPath, rate, result, time } from "./network.js";

// What a receive buffer advertises of its size: a segment of 1448 bytes takes 2304.
const WINDOW_SHARE = 160 / 256;
const BUFFER_MB = 1.6;
const CODEL_TARGET_MS = 5;

export const FIRST_LESSONS = [
  {
    title: "Why is a satellite slow?",
    idea: "One window per round trip is all that gets through, however fast the link is.",
    text: [
      "A sender may have only so much data on its way before it must hear that some of it has arrived. That much is its window; here the receiver's memory limits it to {window}.",
      "One window per round trip is all that gets through, however fast the link is. Over a round trip of {trip} that is {predicted} at most; the simulated download, slow start included, gets {goodput} of the link's {rate}.",
      "Watch the packets. On a short path they follow each other closely. On a long one they travel in a bunch, and most of the path is empty.",
    ],
    sliders: { trip: { title: "Round trip", least: 10, most: 600, start: 600, unit: "ms" } },
    fixed: { rate: 100 },
    study: (p) => network({
      hosts: `rmem = ["4096 B", "131072 B", "${BUFFER_MB} MB"]`,
      satellite: `rate = "${p.rate} Mbit/s"\ndelay = "${p.trip / 2} ms"\nqueue = "10 MB"`,
      flows: flow("download", "cubic", 'duration = "15 s"'),
      series: 10,
    }),
    values: ([run], p) => {
      const window = BUFFER_MB * WINDOW_SHARE * 1e6;
      const { mbps } = result(run);
      return { window: size(window), trip: `${p.trip} ms`, rate: rate(p.rate), predicted: rate(Math.min(p.rate, window * 8 / 1000 / p.trip)), goodput: rate(mbps), mbps };
    },
    quantities: ["goodput", "window", "rtt"],
    question: {
      text: "The operator sells you a link ten times as fast. How much faster is the download over 600 ms?",
      choices: ["Ten times as fast", "Twice as fast", "No faster"],
      before: { trip: 600, rate: 100 },
      after: { trip: 600, rate: 1000 },
      right: (before, now) => now.mbps > 5 * before.mbps ? 0 : now.mbps > 1.5 * before.mbps ? 1 : 2,
      answer: "{before.goodput} over {before.rate}, {now.goodput} over {now.rate}. The window sets the pace, and the faster link is idle for longer. What helps is a larger window or a shorter path: move the slider.",
    },
  },
  {
    title: "Why does a download begin slowly?",
    idea: "A sender begins with a few packets and doubles them every round trip; most pages are over before the link is full.",
    text: [
      "A sender does not know the path when it begins, so it asks carefully. It sends {initial} packets, waits for their acknowledgements, and sends two packets for each of them: the window doubles once per round trip. This is slow start.",
      "On a short path nobody notices. Here a round trip takes {trip}, and a download of {size} takes {duration}: {trips} round trips, with the one that opens the connection.",
    ],
    sliders: {
      kB: { title: "Size of the download", least: 10, most: 10000, start: 100, unit: "kB", isLog: true },
      trip: { title: "Round trip", least: 20, most: 600, start: 600, unit: "ms" },
    },
    fixed: { initial: 10 },
    study: (p) => network({
      satellite: `rate = "50 Mbit/s"\ndelay = "${p.trip / 2} ms"\nqueue = "3.75 MB"`,
      flows: flow("download", "cubic", `size = "${p.kB} kB"`),
      series: 20,
    }),
    values: ([run], p) => {
      const { seconds } = result(run);
      return { initial: String(p.initial), trip: `${p.trip} ms`, size: size(1000 * p.kB), duration: time(seconds), trips: three(1000 * seconds / p.trip), seconds };
    },
    quantities: ["window", "goodput"],
    question: {
      text: "A file of 1 MB has ten times the data of one of 100 kB. How much longer does it take over 600 ms?",
      choices: ["Ten times as long", "About twice as long", "No longer"],
      before: { kB: 100, trip: 600 },
      after: { kB: 1000, trip: 600 },
      right: (before, now) => now.seconds > 5 * before.seconds ? 0 : now.seconds > 1.3 * before.seconds ? 1 : 2,
      answer: "{before.duration} for {before.size}, {now.duration} for {now.size}. Each further round trip carries as much as all before it, so ten times the data take a few more. Most pages of the web are over before the link is full: their time is a number of round trips.",
    },
  },
  {
    title: "Where do packets wait?",
    idea: "A queue beyond what the path holds buys delay and hardly any throughput.",
    text: [
      "Packets that arrive faster than the link can send wait in its queue. Reno adds a packet to its window every round trip until the queue is full and drops one. Then it halves the window and climbs again.",
      "This queue holds {queue}: {bdp} the path itself holds. The download gets {goodput} of {rate}. A round trip takes {rtt} on average; without a queue it would be {least}.",
      "Shorten the queue, and the link runs dry whenever Reno halves its window. Lengthen it, and see what that buys.",
    ],
    sliders: { kB: { title: "Length of the queue", least: 10, most: 1000, start: 100, unit: "kB", isLog: true } },
    fixed: { rate: 20, trip: 40 },
    study: (p) => network({
      satellite: `rate = "${p.rate} Mbit/s"\ndelay = "${p.trip / 2} ms"\nqueue = "${p.kB} kB"`,
      flows: flow("download", "reno", 'duration = "30 s"'),
    }),
    values: ([run], p) => {
      const { mbps, rtt_ms, least_ms } = result(run);
      return { queue: size(1000 * p.kB), bdp: ofPath(p.kB, p.rate, p.trip), goodput: rate(mbps), rate: rate(p.rate), rtt: `${three(rtt_ms)} ms`, least: `${three(least_ms)} ms`, mbps, rtt_ms };
    },
    quantities: ["goodput", "window", "queue", "rtt"],
    question: {
      text: "The queue holds one round trip of data now. Make it ten times as long: what does the download gain?",
      choices: ["Much throughput", "A little throughput and no delay", "Delay, and hardly any throughput"],
      before: { kB: 100 },
      after: { kB: 1000 },
      right: (before, now) => now.mbps > 1.1 * before.mbps ? 0 : now.rtt_ms > 1.5 * before.rtt_ms ? 2 : 1,
      answer: "{before.goodput} and {before.rtt} with {before.queue}, {now.goodput} and {now.rtt} with {now.queue}. The link was busy all the time already; what is added to the queue only waits there, and with it every call and every page that shares the link.",
    },
  },
  {
    title: "Can a queue stay short?",
    idea: "A queue stays short if packets are dropped early, by a rule that knows how long the round trip is.",
    text: [
      "A queue should absorb bursts and be empty otherwise. CoDel watches how long packets wait: if for a whole interval not one waited less than {target}, it drops a packet, and the sender slows down long before the queue is full.",
      "Two downloads, each on a link of its own with a queue of {queue}. With the plain queue the mean round trip is {rtt_tail} at {mbps_tail}; with CoDel it is {rtt_codel} at {mbps_codel}.",
    ],
    sliders: {
      trip: { title: "Round trip of the path", least: 20, most: 600, start: 40, unit: "ms" },
      interval: { title: "CoDel's interval", least: 50, most: 1000, start: 100, unit: "ms" },
    },
    fixed: { kB: 1000 },
    study: (p) => network({
      satellite: `rate = "20 Mbit/s"\ndelay = "${p.trip / 2} ms"\nqueue = "${p.kB} kB"`,
      flows: flow("download", "cubic", 'duration = "30 s"'),
      vary: `queue = [
  { name = "plain queue", "links.satellite.down.queue" = "${p.kB} kB" },
  { name = "CoDel", "links.satellite.down.queue" = { bytes = "${p.kB} kB", aqm = { kind = "codel", interval = "${p.interval} ms", target = "${Math.max(CODEL_TARGET_MS, p.interval / 20)} ms" } } },
]`,
    }),
    values: ([tail, codel], p) => {
      const [one, other] = [result(tail), result(codel)];
      return {
        target: `${three(Math.max(CODEL_TARGET_MS, p.interval / 20))} ms`, queue: size(1000 * p.kB), interval: `${p.interval} ms`, trip: `${p.trip} ms`,
        rtt_tail: time(one.rtt_ms / 1000), mbps_tail: rate(one.mbps), rtt_codel: time(other.rtt_ms / 1000), mbps_codel: rate(other.mbps), share: other.mbps / one.mbps,
      };
    },
    quantities: ["goodput", "queue", "rtt"],
    pictured: 1,
    question: {
      text: "CoDel's interval is 100 ms, meant for the Internet on the ground. What happens to the download with CoDel if the path is geostationary, 600 ms?",
      choices: ["It is as fast as with the plain queue", "It gets about half as much", "It stops"],
      before: { trip: 40, interval: 100 },
      after: { trip: 600, interval: 100 },
      right: (_before, now) => now.share > 0.8 ? 0 : now.share > 0.1 ? 1 : 2,
      answer: "{now.mbps_codel}, and {now.mbps_tail} with the plain queue. The interval, {now.interval}, is shorter than the round trip of {now.trip}: CoDel drops again before the sender's answer to the first drop can have reached it. Give it an interval as long as the round trip with the slider.",
    },
  },
];
