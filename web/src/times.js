// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Instants and lengths of time in words.

import { element } from "./words.js";

const [MINUTE_S, HOUR_S, DAY_S] = [60, 3600, 86400];
const MOST_AGO_S = 30 * DAY_S;

// About how long something takes.
export function duration(seconds) {
  if (seconds < 10) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 100) return `${5 * Math.round(seconds / 5)} s`;
  if (seconds < 600) return `${Math.round(seconds / MINUTE_S)} min`;
  if (seconds < 2 * HOUR_S) return `${5 * Math.round(seconds / 300)} min`;
  return `${Math.round(seconds / HOUR_S)} h`;
}

// How long ago a Unix time was; of more than a month its day.
export function ago(unix_s, now_s = Date.now() / 1000) {
  const passed = now_s - unix_s;
  if (passed < MINUTE_S) return "just now";
  if (passed < HOUR_S) return `${Math.floor(passed / MINUTE_S)} min ago`;
  if (passed < DAY_S) return `${Math.floor(passed / HOUR_S)} h ago`;
  if (passed < MOST_AGO_S) return `${Math.floor(passed / DAY_S)} d ago`;
  return clock(unix_s).slice(0, 10);
}

// A Unix time as the clock of this browser shows it.
export function clock(unix_s) {
  const date = new Date(unix_s * 1000);
  if (Number.isNaN(date.getTime())) return `${unix_s} s`;
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

// An element that says how long ago a time was, with the time itself on hover.
export function when(unix_s, now_s) {
  const date = new Date(unix_s * 1000);
  return element("time", { dateTime: Number.isNaN(date.getTime()) ? "" : date.toISOString(), title: clock(unix_s) }, ago(unix_s, now_s));
}
