// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Results at a glance, for lists and heads: headline numbers, courses over time, thumbnail.

import { lookOf } from "../looks.js";
import { drawn, element, three } from "../words.js";

const SPARK_WIDTH = 100;
const SPARK_HEIGHT = 24;

// The class of the colour of what has a look, or has none.
function classOf({ look }) {
  return look === null ? "" : lookOf(look).class;
}

// The quantity that the report is about, by what varies first; nothing where results have none.
export function headline({ finding }) {
  const quantity = finding?.headline;
  if (!quantity?.levels.length) return [];
  const { noun, unit } = quantity;
  const levels = quantity.levels.map((level) => {
    const { label, look, least, most } = level;
    const [low, high] = [three(least), three(most)];
    const dot = look === null ? [] : [element("i", { ariaHidden: "true" })];
    return element("span", { className: `mean ${classOf(level)}` }, ...dot, `${label} `, element("strong", {}, low === high ? low : `${low} to ${high}`));
  });
  const more = quantity.more ? `and ${quantity.more} more, ` : "";
  const isOver = quantity.over.length && quantity.levels.some(({ least, most }) => three(least) !== three(most));
  const over = isOver ? `; over ${quantity.over.join(", ")}` : "";
  return [...levels.flatMap((one) => [one, " "]), element("span", { className: "note" }, `${more}${noun}${unit ? `, ${unit}` : ""}${over}`)];
}

// What results found, in a line: the answer of their report, else the numbers.
export function inShort(one) {
  const [sentence] = one.finding?.sentences ?? [];
  return sentence ? [sentence] : headline(one);
}

// Throughput over time of the first run of each level, without scales.
export function spark({ finding }) {
  const courses = finding?.courses ?? [];
  if (!courses.length) return null;
  const picture = drawn("svg", { class: "spark", viewBox: `0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": "Throughput over time of the first run of each" });
  picture.append(...courses.map((course) => drawn("polyline", {
    class: classOf(course),
    points: course.points.map(([x, y]) => `${(x * SPARK_WIDTH).toFixed(1)},${(SPARK_HEIGHT - 1 - (SPARK_HEIGHT - 2) * y).toFixed(1)}`).join(" "),
  })));
  return picture;
}

// The first figure of the report, or else the courses.
export function thumbnail({ server }, one) {
  if (one.finding?.has_figure) {
    return element("img", { className: `thumbnail${one.finding.is_tall ? " tall" : ""}`, src: server.file(`results/${one.name}/figure.svg`), alt: "", loading: "lazy" });
  }
  const picture = spark(one);
  return element("span", { className: "thumbnail" }, ...(picture ? [picture] : []));
}

export const REDUCED = "Reduced size: to try the set-up, not for conclusions";

// Whether results are of the small size of a study, as a chip before their title.
export function small({ reduced }) {
  return reduced ? [element("span", { className: "chip", title: REDUCED }, "small"), " "] : [];
}

export function titleOf(one) {
  return one.finding?.title || one.title;
}
