// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Lessons on losses, models of the path, and two senders on one link.

import { network } from "../study.js";
import { flow, mathis, ofPath, rate, result, time } from "./network.js";

const LOSSES = [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 15, 20, 30];

function share(percent) {
  return percent ? `${percent} %` : "0 %";
}

export const SECOND_LESSONS = [
  {
    title: "What does a lost packet mean?",
    idea: "Reno takes each loss for a full queue, and the longer the path, the more a loss costs.",
    text: [
      "To Reno a lost packet means that a queue was full, and that it is to send half as fast. But radio loses packets that no queue has dropped: in rain, at low elevation, behind a tree. Reno cannot tell one from the other.",
      "With {loss} of the packets lost at random and a round trip of {trip}, the download gets {goodput} of {rate}.",
      "Mathis, Semke, Mahdavi and Ott (1997) found what such a window comes to: throughput falls with the root of the loss, and with the round trip itself, since a long path takes longer to climb back. Their formula, which is about the long run and leaves out the start, gives {formula} here.",
    ],
    sliders: {
      loss: { title: "Packets lost at random", values: LOSSES.slice(0, 9), start: 0.1, unit: "%" },
      trip: { title: "Round trip", least: 20, most: 600, start: 40, unit: "ms" },
    },
    fixed: { rate: 50 },
    study: (p) => network({
      satellite: `rate = "${p.rate} Mbit/s"\ndelay = "${p.trip / 2} ms"\nqueue = "500 kB"\ndown = { loss = "${share(p.loss)}" }`,
      flows: flow("download", "reno", 'duration = "60 s"'),
      series: 100,
    }),
    values: ([run], p) => {
      const { mbps } = result(run);
      const formula = Math.min(p.rate, mathis(p.trip, p.loss / 100));
      return { loss: share(p.loss), trip: `${p.trip} ms`, goodput: rate(mbps), rate: rate(p.rate), formula: rate(formula), mbps };
    },
    quantities: ["goodput", "window", "rtt"],
    question: {
      text: "One packet in a thousand is lost, and the path becomes fifteen times as long: 600 ms in place of 40 ms. What is left of the throughput?",
      choices: ["All of it: the losses are the same", "About half", "Less than a fifth"],
      before: { loss: 0.1, trip: 40 },
      after: { loss: 0.1, trip: 600 },
      right: (before, now) => now.mbps > 0.8 * before.mbps ? 0 : now.mbps > 0.2 * before.mbps ? 1 : 2,
      answer: "{before.goodput} over {before.trip}, {now.goodput} over {now.trip}. Reno climbs by one packet per round trip, and a loss comes long before it is back at the top. The same losses cost a satellite far more than a cable.",
    },
  },
  {
    title: "What if a sender measures instead?",
    idea: "A sender that measures what is delivered bears losses, until they exceed what its probes can show.",
    text: [
      "BBR does not take losses as orders. It measures two things: the rate at which its packets are delivered, and the round trip when nothing waits. It sends at that rate, and tries a quarter more every now and then to see whether more is delivered.",
      "With {loss} lost at random, BBR gets {bbr} of {rate}, and Cubic {cubic}.",
    ],
    sliders: {
      loss: { title: "Packets lost at random", values: LOSSES, start: 1, unit: "%" },
      trip: { title: "Round trip", least: 20, most: 600, start: 40, unit: "ms" },
    },
    fixed: { rate: 50 },
    study: (p) => network({
      satellite: `rate = "${p.rate} Mbit/s"\ndelay = "${p.trip / 2} ms"\nqueue = "500 kB"\ndown = { loss = "${share(p.loss)}" }`,
      flows: flow("download", "cubic", 'duration = "30 s"'),
      vary: '"flow.cc" = ["cubic", "bbr"]',
    }),
    values: ([one, other], p) => {
      const [cubic, bbr] = [result(one), result(other)];
      return { loss: share(p.loss), rate: rate(p.rate), cubic: rate(cubic.mbps), bbr: rate(bbr.mbps), share: bbr.mbps / p.rate };
    },
    quantities: ["goodput", "queue", "rtt"],
    pictured: 1,
    question: {
      text: "One packet in five is lost. How much of the link does BBR still fill?",
      choices: ["Four fifths: all that can arrive", "About half", "Almost nothing"],
      before: { loss: 10, trip: 40 },
      after: { loss: 20, trip: 40 },
      right: (_before, now) => now.share > 0.65 ? 0 : now.share > 0.15 ? 1 : 2,
      answer: "{before.bbr} at {before.loss}, {now.bbr} at {now.loss}. A probe with a quarter more, of which a fifth is lost, delivers no more than before. From there on no probe finds anything, what is measured only falls, and BBR follows it down.",
    },
  },
  {
    title: "Who gets how much?",
    idea: "Nobody shares out a link: the rules of the senders and the length of the queue decide.",
    text: [
      "Nobody shares out the capacity of a link. Each sender takes what its rules let it take, and the queue decides who notices whom.",
      "Cubic and BBR on one link of {rate}, with a queue that holds {bdp} the path does: in {time} Cubic gets {cubic}, BBR {bbr}.",
    ],
    sliders: {
      kB: { title: "Length of the queue", least: 25, most: 800, start: 200, unit: "kB", isLog: true },
      seconds: { title: "Length of the downloads", least: 10, most: 240, start: 30, unit: "s", isLog: true },
    },
    fixed: { rate: 20, trip: 40 },
    study: (p) => network({
      satellite: `rate = "${p.rate} Mbit/s"\ndelay = "${p.trip / 2} ms"\nqueue = "${p.kB} kB"`,
      flows: `${flow("one", "cubic", `duration = "${p.seconds} s"`)}\n${flow("other", "bbr", `duration = "${p.seconds} s"`)}`,
      series: 100,
    }),
    values: ([run], p) => {
      const [cubic, bbr] = [result(run, "one"), result(run, "other")];
      return { rate: rate(p.rate), bdp: ofPath(p.kB, p.rate, p.trip), time: time(p.seconds), cubic: rate(cubic.mbps), bbr: rate(bbr.mbps), ratio: bbr.mbps / cubic.mbps };
    },
    quantities: ["goodput", "window", "queue"],
    question: {
      text: "A queue of a quarter of what the path holds, then one of eight times as much: who gets the larger share of the first half minute?",
      choices: ["BBR, both times", "Cubic, both times", "BBR with the short queue, Cubic with the long one"],
      before: { kB: 25, seconds: 30 },
      after: { kB: 800, seconds: 30 },
      right: (before, now) => before.ratio > 1 === now.ratio > 1 ? (now.ratio > 1 ? 0 : 1) : 2,
      answer: "Short: Cubic {before.cubic}, BBR {before.bbr}. Long: Cubic {now.cubic}, BBR {now.bbr}. A short queue drops often, which slows Cubic and not BBR. A long one lets Cubic fill it, while BBR keeps to about two round trips of data. Neither is fair; the buffer decides. Let the downloads last longer with the slider: Cubic's queue never empties, BBR comes to take it for part of the path, its window grows, and in the long run the shares come near each other.",
    },
  },
];
