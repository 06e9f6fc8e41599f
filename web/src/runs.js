// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A study that is carried out: its runs, and what each has so far.

const FLOW_COLUMNS = ["t", "goodput_mbps", "cwnd_packets", "inflight_packets", "rtt_ms", "retransmitted_packets"];
const LINK_COLUMNS = ["t", "queue_bytes", "delivered_mbps", "dropped_packets", "rate_mbps"];

function baseOf(name) {
  return name.replace(/\.\d+$/, "");
}

// Columns that grow.
class Trace {
  constructor(name, leg, columns) {
    this.name = name;
    this.leg = leg;
    for (const column of columns) this[column] = [];
    this.columns = columns;
  }

  add(part) {
    for (const column of this.columns) for (const value of part[column]) this[column].push(value);
  }
}

export class Run {
  flows = new Map();
  links = new Map();
  t = 0;
  share = 0;
  state = "waiting";
  failure = "";
  result = null;

  constructor({ index, label, values, round }, study) {
    this.index = index;
    this.values = values;
    this.round = round;
    this.label = label + (study.rounds > 1 ? `${label ? ", " : ""}round ${round + 1}` : "");
    this.study = study;
  }

  // Rows of `measure.series` that are new.
  add({ t, share }, { flows, links }) {
    this.t = t;
    this.share = share;
    this.state = "running";
    for (const part of flows) this.#trace(this.flows, `${part.name}~${part.leg}`, part, FLOW_COLUMNS).add(part);
    for (const part of links) this.#trace(this.links, part.name, part, LINK_COLUMNS).add(part);
  }

  // What the study says of a flow; how many there are of a name may vary.
  flow(name) {
    const { flows } = this.study;
    return flows.find((each) => each.name === name) ?? flows.find((each) => baseOf(each.name) === baseOf(name));
  }

  // The congestion control of a flow of this run.
  algorithm(flow) {
    const name = baseOf(flow);
    const given = this.values[`flows.${name}.cc`] ?? this.values["flow.cc"] ?? this.flow(flow)?.cc ?? "";
    return typeof given === "string" ? given : given.name;
  }

  #trace(all, key, { name, leg = 0 }, columns) {
    if (!all.has(key)) all.set(key, new Trace(name, leg, columns));
    return all.get(key);
  }
}

export class Batch {
  runs = [];
  leftOut = 0;
  took_ms = 0;
  #handles = [];
  #begun = performance.now();

  // Calls `changed(batch)` whenever there is something new.
  constructor(pool, text, study, changed) {
    this.text = text;
    this.study = study;
    this.runs = study.runs.map((run) => new Run(run, study));
    this.leftOut = study.count - this.runs.length;
    const all = this.runs.map((run) => {
      const handle = pool.run({ text, run: run.index, reduced: study.reduced, file: pool.fileOf(text) }, (now, live) => {
        run.add(now, live);
        changed(this);
      });
      this.#handles.push(handle);
      return handle.done.then(
        (result) => Object.assign(run, { result, state: "done", share: 1 }),
        (error) => Object.assign(run, { state: error.kind === "cancelled" ? "stopped" : "failed", failure: error.message }),
      ).then(() => changed(this));
    });
    this.done = Promise.all(all).then(() => {
      this.took_ms = performance.now() - this.#begun;
      changed(this);
    });
  }

  get isOver() {
    return this.runs.every(({ state }) => !["waiting", "running"].includes(state));
  }

  get isComplete() {
    return this.runs.every(({ state }) => state === "done");
  }

  get share() {
    return this.runs.reduce((sum, run) => sum + run.share, 0) / this.runs.length;
  }

  stop() {
    for (const handle of this.#handles) handle.cancel();
  }
}
