// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The page after the lessons: each idea in a sentence, and questions that go on from them.

import { element } from "../words.js";

const QUESTIONS = [
  ["Which of four congestion controls suits a geostationary link that loses a packet in a thousand?", "link=geo&cc=cubic,bbr,hybla,reno&loss=0.1"],
  ["Does the same hold over a low orbit?", "link=leo&cc=cubic,bbr,hybla,reno&loss=0.1"],
  ["What does a proxy gain there, and with which congestion control is it of no use?", "link=geo&cc=cubic,bbr&loss=0.1&proxy=on"],
  ["Which queue keeps the round trip short over a geostationary path, and at what price?", "link=geo&cc=cubic,bbr&aqm=codel"],
];

// Returns what the page shows: `lessons`, and by lesson whether its answer was foreseen.
export function known(lessons, foreseen) {
  const right = [...foreseen.values()].filter(Boolean).length;
  const ideas = lessons.map((lesson, number) => element("li", {},
    element("a", { href: `#lesson=${number + 1}` }, lesson.title), element("p", {}, lesson.idea), ...said(foreseen.get(lesson))));
  const questions = QUESTIONS.map(([question, address]) => element("li", {}, element("a", { href: `#${address}` }, question)));
  return [
    element("p", { className: "question" }, foreseen.size ? `Foreseen so far: ${right} of ${foreseen.size}. ` : "", "What surprised you is worth a second look: change its sliders."),
    element("ol", { className: "known" }, ...ideas),
    element("h2", {}, "Ask on"),
    element("p", {}, "Each of these opens with a first setting. Keep it for comparison, then change one thing."),
    element("ul", {}, ...questions, element("li", {}, "Would an algorithm of your own do better? ", element("a", { href: "#link=geo" }, "Put it beside the others"), ", below their names.")),
  ];
}

function said(isRight) {
  if (isRight === undefined) return [];
  return [element("p", { className: isRight ? "note good" : "note bad" }, isRight ? "✓ foreseen" : "✗ it surprised you")];
}
