// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The study that the controls describe, as text, and back: a text that differs from theirs in values only moves the controls.

export const LINKS = {
  geo: { title: "Geostationary", rate: 50, delay: 300, bdp: 1, loss: 0 },
  meo: { title: "Medium orbit", rate: 100, delay: 75, bdp: 1, loss: 0 },
  leo: { title: "Low orbit", rate: 100, delay: 20, bdp: 1, loss: 0 },
  cable: { title: "Cable", rate: 100, delay: 10, bdp: 1, loss: 0 },
};

export const QUEUES = {
  "drop-tail": "Drop-tail",
  codel: "CoDel",
  "fq-codel": "FQ-CoDel",
  pie: "PIE",
  "codel-ecn": "CoDel that marks (ECN)",
  step: "Marks above 5 ms (ECN)",
};

// The tables of those that look at packets; the hosts of a queue that marks negotiate ECN.
const AQMS = {
  codel: '{ kind = "codel" }',
  "fq-codel": '{ kind = "fq-codel" }',
  pie: '{ kind = "pie" }',
  "codel-ecn": '{ kind = "codel", ecn = true }',
  step: '{ kind = "codel", ecn = true, ce_threshold = "5 ms" }',
};
const MARKING = ["codel-ecn", "step"];

export const FIRST = {
  rate: 50, delay: 300, queue: 3750, aqm: "drop-tail", loss: 0, duration: 30, proxy: false, cc: ["cubic", "bbr"],
};

// Bounds of what an address may set by name.
const BOUNDS = { rate: [1, 500], delay: [1, 500], bdp: [0.02, 10], loss: [0, 30], duration: [1, 300] };
const BYTES_PER_KB = 1000;
const BUFFERS = `# Buffers that leave the decision to the congestion window.
rmem = ["4096 B", "131072 B", "120 MB"]
wmem = ["4096 B", "131072 B", "120 MB"]`;
const NUMBER = "([0-9]+(?:\\.[0-9]+)?)";

// Bytes that the path holds in one round trip, kB.
export function bandwidthDelay({ rate, delay }) {
  return rate * 1e6 / 8 * 2 * delay / 1e3 / BYTES_PER_KB;
}

// Returns what an address says of the controls by name, such as `link=leo&cc=bbr,cubic&loss=0.1`; null where it says nothing of them.
export function named(parts) {
  const keys = ["link", "cc", "aqm", "proxy", ...Object.keys(BOUNDS)].filter((key) => key in parts);
  if (!keys.length) return null;
  const { rate, delay, bdp, loss } = LINKS[parts.link] ?? LINKS.geo;
  const form = { ...FIRST, rate, delay, loss };
  const given = { bdp };
  for (const [key, [least, most]] of Object.entries(BOUNDS)) {
    const value = Number(parts[key]);
    if (key in parts && value >= least && value <= most) given[key] = value;
  }
  Object.assign(form, given, { proxy: parts.proxy === "on" });
  if (parts.aqm in QUEUES) form.aqm = parts.aqm;
  const cc = (parts.cc ?? "").split(",").filter((name) => /^[\w-]+$/.test(name));
  if (cc.length) form.cc = cc;
  form.queue = Number((form.bdp * bandwidthDelay(form)).toPrecision(3));
  delete form.bdp;
  return form;
}

// The interval of the samples: about 300 over a run, at a round number of milliseconds.
export function interval(duration) {
  const wanted = duration * 1000 / 300;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= wanted * (1 - 1e-9));
  return Math.min(1000, Math.max(10, step));
}

function listed(names) {
  return names.map((name) => `"${name}"`).join(", ");
}

function plain(value) {
  return String(Number(value.toPrecision(6)));
}

// Returns a study of a server, a gateway and a terminal behind a satellite.
export function network({ name = "lesson", satellite, flows, vary = "", more = "", hosts = BUFFERS, wire = "100 us", series = 50, limit = "5 min" }) {
  return `name = "${name}"
nodes = ["server", "gateway", "terminal"]${limit && `\ntime_limit = "${limit}"`}

[measure]
series = "${series} ms"

[hosts]
${hosts}

[[links]]
name = "wire"
between = ["server", "gateway"]
rate = "1 Gbit/s"
delay = "${wire}"
queue = "2.5 MB"

[[links]]
name = "satellite"
between = ["gateway", "terminal"]
${satellite}

${flows}
${more}${vary ? `\n[vary]\n${vary}\n` : ""}`;
}

// Returns the text of a study.
export function written(form) {
  const queue = form.aqm === "drop-tail" ? `"${plain(form.queue)} kB"` : `{ bytes = "${plain(form.queue)} kB", aqm = ${AQMS[form.aqm]} }`;
  return network({
    name: "tab",
    hosts: MARKING.includes(form.aqm) ? `${BUFFERS}\necn = true` : BUFFERS,
    satellite: `rate = "${plain(form.rate)} Mbit/s"\ndelay = "${plain(form.delay)} ms"\nqueue = ${queue}\ndown = { loss = "${plain(form.loss)} %" }`,
    flows: `[[flows]]\nname = "download"\nfrom = "server"\nto = "terminal"\nduration = "${plain(form.duration)} s"\n`,
    more: `[[proxies]]\nname = "proxy"\nnode = "gateway"\nenabled = ${form.proxy}\n[proxies.sides.wire]\ncc = "cubic"\n[proxies.sides.satellite]\ncc = "hybla"\n`,
    vary: `"flow.cc" = [${listed(form.cc)}]`,
    series: interval(form.duration),
    limit: "",
  });
}

// Returns a study that compares algorithms over a link profile, as the tab runs it and as an author begins with it.
export function over(link, algorithms, duration) {
  return `# Congestion controls over one link. Every key: docs/reference/study.md.

name = "NAME"
title = "Congestion controls over ${link}"
about = "Which congestion control has the highest throughput over ${link}, and at which round trip?"
nodes = ["server", "client"]

[measure]
series = "100 ms"

[hosts]
${BUFFERS}

[[links]]
name = "satellite"
between = ["server", "client"]
profile = "${link}"

[[flows]]
name = "download"
from = "server"
to = "client"
duration = "${duration}"

[vary]
"flow.cc" = [${listed(algorithms)}]
`;
}

const WORDS = {
  rate: ({ rate }) => `${plain(rate)} Mbit/s`,
  delay: ({ delay }) => `${plain(2 * delay)} ms`,
  aqm: ({ aqm }) => QUEUES[aqm],
  loss: ({ loss }) => loss ? `${loss} % lost` : "no loss",
  duration: ({ duration }) => `${plain(duration)} s long`,
  proxy: ({ proxy }) => proxy ? "with a proxy" : "without a proxy",
};

// What tells two studies of the controls apart, in words for each; null where the controls cannot say it.
export function apart(text, other) {
  const forms = [read(text), read(other)];
  if (forms.includes(null)) return null;
  const [one, two] = forms;
  const keys = Object.keys(WORDS).filter((key) => one[key] !== two[key]);
  if (keys.length) return forms.map((form) => keys.map((key) => WORDS[key](form)).join(", "));
  return one.queue === two.queue ? null : forms.map(({ queue }) => `${plain(queue)} kB of queue`);
}

function found(text, pattern) {
  const match = new RegExp(pattern, "m").exec(text);
  return match ? match[1] : null;
}

// The key of a value.
function keyOf(values, wanted) {
  return Object.keys(values).find((key) => values[key] === wanted);
}

// Returns what the controls show of a text; null where it says something that they cannot.
export function read(text) {
  const link = text.slice(text.indexOf('name = "satellite"'));
  const cc = found(text, '^"flow\\.cc" = \\[(.*)\\]$');
  if (cc === null) return null;
  const form = {
    rate: Number(found(link, `^rate = "${NUMBER} Mbit/s"$`)),
    delay: Number(found(link, `^delay = "${NUMBER} ms"$`)),
    queue: Number(found(link, `^queue = (?:\\{ bytes = )?"${NUMBER} kB"`)),
    aqm: keyOf(AQMS, found(link, "^queue = \\{.*aqm = (\\{.*\\}) \\}$")) ?? "drop-tail",
    loss: Number(found(link, `^down = \\{ loss = "${NUMBER} %" \\}$`)),
    duration: Number(found(link, `^duration = "${NUMBER} s"$`)),
    proxy: found(link, "^enabled = (true|false)$") === "true",
    cc: [...cc.matchAll(/"([\w.-]+)"/g)].map((match) => match[1]),
  };
  const isWhole = form.rate > 0 && form.duration > 0 && form.aqm in QUEUES && form.cc.length > 0;
  return isWhole && written(form) === text ? form : null;
}
