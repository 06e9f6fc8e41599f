// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The simulators of the page: one that reads studies, and as many as the machine has cores for runs. Runs are cancelled by ending their workers.

const MOST_WORKERS = 8;
// A run that takes longer than this is given up; nobody's address may keep a machine busy.
const MOST_RUN_MS = 120000;
// A study that takes longer to read has more runs than a page can list.
const MOST_READ_MS = 10000;

export class EngineError extends Error {
  constructor({ message, kind, errors }) {
    super(message);
    this.kind = kind;
    this.errors = errors ?? [];
  }
}

class Simulator {
  #worker;
  #asked = new Map();
  #number = 0;
  #limit = null;
  isEnded = false;

  constructor(source, module, algorithms) {
    this.#worker = new Worker(source);
    this.#worker.onmessage = ({ data }) => this.#take(data);
    this.#worker.onerror = (event) => this.end({ message: event.message || "the worker could not be started", kind: "fault" });
    this.ready = this.ask("load", { module, algorithms });
    this.ready.catch(() => {});
  }

  ask(kind, what = {}, live = () => {}) {
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject, live });
      this.#worker.postMessage({ id, kind, ...what });
    });
  }

  end(failure = { message: "cancelled", kind: "cancelled" }) {
    this.isEnded = true;
    clearTimeout(this.#limit);
    this.#worker.terminate();
    this.#fail(failure);
  }

  async run(asked, live) {
    await this.ready;
    this.#limit = setTimeout(() => this.end({ kind: "limit", message: `the run took longer than ${MOST_RUN_MS / 1000} s and was ended; make it shorter, or run the study with perigee run` }), MOST_RUN_MS);
    try {
      return await this.ask("run", asked, live);
    } finally {
      clearTimeout(this.#limit);
    }
  }

  #take({ id, kind, answer, failure, now, live }) {
    const asked = this.#asked.get(id);
    if (!asked) return;
    if (kind === "live") return asked.live(now, live);
    this.#asked.delete(id);
    if (kind === "answer") asked.resolve(answer);
    else asked.reject(new EngineError(failure));
  }

  #fail(failure) {
    for (const { reject } of this.#asked.values()) reject(new EngineError(failure));
    this.#asked.clear();
  }
}

export class Pool {
  #source;
  #module;
  #own = new Map();
  #version = 0;
  #load;
  #begun = null;
  version = "";
  algorithms = [];
  studies = [];
  // The server's compiler for authors' algorithms, see own.js.
  compiler = null;
  #reader;
  #idle = [];
  #waiting = [];
  #most = Math.max(1, Math.min(MOST_WORKERS, navigator.hardwareConcurrency || 2));

  // `load()` returns the address of the worker's script, `source`, and the compiled simulator, `module`; it is called once somebody wants to simulate.
  constructor(load) {
    this.#load = load;
  }

  // The simulators have begun.
  get ready() {
    this.#begun ??= this.#begin();
    return this.#begun;
  }

  async #begin() {
    const { source, module } = await this.#load();
    this.#source = source;
    this.#module = module;
    this.#reader = this.#made();
    for (let count = 0; count < this.#most; count += 1) this.#idle.push(this.#made());
    const { version, algorithms, studies } = await this.#reader.ready;
    Object.assign(this, { version, algorithms, studies });
  }

  get workers() {
    return this.#most;
  }

  // Reads a study: what is wrong with it, or its network and runs, of its small size if `isSmall` and it has one.
  check(text, isSmall = false) {
    return this.#asked("check", { text, isSmall, file: this.fileOf(text) });
  }

  // Asks the reader, which is replaced if it does not answer in time.
  async #asked(kind, what) {
    await this.#reader.ready;
    const reader = this.#reader;
    const limit = setTimeout(() => {
      this.#reader = this.#made();
      reader.end({ kind: "limit", message: `the study takes longer than ${MOST_READ_MS / 1000} s to read: it has too many runs or flows for a page; run it with perigee run` });
    }, MOST_READ_MS);
    try {
      return await reader.ask(kind, what);
    } finally {
      clearTimeout(limit);
    }
  }

  // The file of a study that comes with the simulator: beside it are files that it names.
  fileOf(text) {
    return this.studies.find((study) => study.text === text)?.file;
  }

  // Takes an author's algorithm; all simulators from now on have it.
  async addAlgorithm(bytes, file) {
    const { added, algorithms } = await this.#reader.ask("algorithm", { bytes, file });
    this.#own.set(added.file, { bytes, file });
    this.algorithms = algorithms;
    this.#version += 1;
    for (const simulator of this.#idle) simulator.end();
    this.#idle = this.#idle.map(() => this.#made());
    return added;
  }

  // Simulates a run `{text, run, reduced}` as soon as a simulator is free; the handle cancels it.
  run(asked, live) {
    const job = { asked, live, simulator: null, isOver: false };
    const done = new Promise((resolve, reject) => Object.assign(job, { resolve, reject }));
    this.#waiting.push(job);
    this.#next();
    return { done, cancel: () => this.#cancel(job) };
  }

  #made() {
    return Object.assign(new Simulator(this.#source, this.#module, [...this.#own.values()]), { version: this.#version });
  }

  #next() {
    while (this.#idle.length && this.#waiting.length) {
      const job = this.#waiting.shift();
      job.simulator = this.#idle.shift();
      job.simulator.run(job.asked, job.live).then(job.resolve, job.reject).finally(() => this.#freed(job));
    }
  }

  #freed(job) {
    const { simulator } = job;
    job.simulator = null;
    job.isOver = true;
    // One that was at work has the algorithms of before.
    const isOld = simulator.version !== this.#version;
    if (isOld) simulator.end();
    this.#idle.push(simulator.isEnded || isOld ? this.#made() : simulator);
    this.#next();
  }

  #cancel(job) {
    if (job.isOver) return;
    if (job.simulator) {
      job.simulator.end();
    } else {
      this.#waiting = this.#waiting.filter((other) => other !== job);
      job.isOver = true;
      job.reject(new EngineError({ message: "cancelled", kind: "cancelled" }));
    }
  }
}
