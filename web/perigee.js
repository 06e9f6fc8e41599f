// SPDX-License-Identifier: GPL-2.0-only OR MIT
/**
 * Perigee's simulator in a browser, a Web Worker or Node: studies in, tables out.
 *
 *     const engine = await Engine.load('perigee.wasm');
 *     const result = engine.run(text, { run: 0, reduced: true });
 *     result.columns('flows').columns.goodput_mbps;
 *
 * The calls are synchronous and take as long as the simulation: use a worker. This file has no imports, so that its text may stand in
 * a page or in a Blob. `crates/perigee-web/README.md` describes the module behind it.
 */

/** An error of a study, a limit, an author's algorithm or the simulator. */
export class PerigeeError extends Error {
  /**
   * @param {string} kind 'study', 'limit', 'algorithm', 'fault', 'trap' or 'request'
   * @param {string} message the whole message, with what to do
   * @param {{message: string, fix: string, line: number, column: number}[]} errors places in the study
   */
  constructor(kind, message, errors = []) {
    super(message);
    this.name = 'PerigeeError';
    this.kind = kind;
    this.errors = errors;
  }
}

/** The bytes of a text in base64. */
export function decodeBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

/** The simulator with its limits, files and algorithms. */
export class Engine {
  #module;
  #instance;
  #limits = {};
  #files = new Map();
  #modules = new Map();
  #catalogue;

  /**
   * Loads the module.
   *
   * @param {BufferSource | WebAssembly.Module | Response | URL | string} source its bytes, the compiled module, or where to fetch it
   * @returns {Promise<Engine>}
   */
  static async load(source) {
    if (source instanceof WebAssembly.Module) return new Engine(source);
    if (ArrayBuffer.isView(source) || source instanceof ArrayBuffer) return new Engine(await WebAssembly.compile(source));
    const response = typeof Response !== 'undefined' && source instanceof Response ? source : await fetch(source);
    if (!response.ok) throw new PerigeeError('request', `${response.url}: ${response.status} ${response.statusText}`);
    return new Engine(await WebAssembly.compile(await response.arrayBuffer()));
  }

  /** @param {WebAssembly.Module} module */
  constructor(module) {
    this.#module = module;
    this.#begin();
  }

  /** The version of the simulator. */
  get version() {
    return this.#known().version;
  }

  /** The congestion controls: `{name, title, own, file, params: [{name, unit, default, min, max, doc}]}`. */
  algorithms() {
    return this.#known().algorithms;
  }

  /** The link profiles: `{name, text}`. */
  profiles() {
    return this.#known().profiles;
  }

  /** The shipped studies: `{name, file, title, about, reducible, text}`. */
  studies() {
    return this.#known().studies;
  }

  /** Limits the memory (bytes), events and simulated seconds of runs; what is missing keeps its limit. */
  limits({ memory, events, simulated_s } = {}) {
    Object.assign(this.#limits, JSON.parse(JSON.stringify({ memory, events, simulated_s })));
    this.#call({ do: 'limits', ...this.#limits });
  }

  /** Adds a recording or a profile that studies may name, such as 'profiles/mine.toml'. */
  addFile(name, bytes) {
    const copy = new Uint8Array(bytes);
    this.#call({ do: 'file', name, ...this.#instance.store(copy) });
    this.#files.set(name, copy);
  }

  /**
   * Adds an author's algorithm, compiled from one C file to a module with `-shared` (README of the crate). Studies name it by the
   * name of that file, `cc = "mycc.c"`, as they do natively.
   *
   * @param {BufferSource} bytes the module
   * @param {string} file the name of the C file
   * @returns {{name: string, title: string, own: true, file: string, params: object[]}}
   */
  addAlgorithm(bytes, file) {
    const name = file.split('/').pop();
    const copy = new Uint8Array(ArrayBuffer.isView(bytes) ? bytes : new Uint8Array(bytes));
    const added = this.#guard(() => this.#load(copy, name));
    this.#modules.set(name, copy);
    this.#catalogue = undefined;
    return added;
  }

  /** The errors of a study: `{errors: [{message, fix, line, column}]}`; the reader ends with the first. Options as of `start`. */
  check(text, options = {}) {
    return this.#call({ do: 'check', text, options: plain(options) });
  }

  /** The study, the `count` of its runs, the first `options.most` of these, and the network of `options.run`; links whose delay changes have `delays: {every_s, ms}`. Options as of `start`. */
  describe(text, options = {}) {
    return this.#call({ do: 'describe', text, options: plain(options) });
  }

  /**
   * Begins a run of a study.
   *
   * @param {string} text the study
   * @param {{run?: number, seed?: number, reduced?: boolean, overrides?: Object<string, string>, file?: string}} options the number
   *   of the run; the seed; whether to use the study's reduced size; key paths and their values; the name of the file in messages
   * @returns {Run}
   */
  start(text, options = {}) {
    const handle = this.#call({ do: 'start', text, options: plain(options) });
    const instance = this.#instance;
    return new Run((request) => {
      if (instance !== this.#instance) throw new PerigeeError('trap', 'the run is lost: its instance has ended; start it again');
      return [this.#call({ ...request, handle }), instance];
    });
  }

  /**
   * Carries out a run.
   *
   * @param {string} text the study
   * @param {object} options as of `start`
   * @param {(progress: {t: number, share: number}) => boolean | void} onProgress called every few 10 ms; `false` cancels
   * @returns {Result | null} null: cancelled
   */
  run(text, options = {}, onProgress = () => true) {
    const run = this.start(text, options);
    for (;;) {
      const { t, share, done } = run.advance(Infinity, { events: 200_000 });
      if (onProgress({ t, share }) === false) {
        run.free();
        return null;
      }
      if (done) break;
    }
    const result = run.finish();
    run.free();
    return result;
  }

  #known() {
    this.#catalogue ??= this.#call({ do: 'catalogue' });
    return this.#catalogue;
  }

  #begin() {
    this.#instance = new Instance(this.#module);
  }

  #call(request) {
    return this.#guard(() => this.#instance.call(request));
  }

  /** Carries out what may end the instance; another one takes its place then. */
  #guard(action) {
    try {
      return action();
    } catch (error) {
      if (!isTrap(error)) throw error;
      const problem = this.#instance.lastWords(error);
      this.#begin();
      const [files, modules] = [this.#files, this.#modules];
      this.#instance.call({ do: 'limits', ...this.#limits });
      files.forEach((bytes, name) => this.#instance.call({ do: 'file', name, ...this.#instance.store(bytes) }));
      modules.forEach((bytes, file) => this.#load(bytes, file));
      throw problem;
    }
  }

  #load(bytes, file) {
    const places = this.#instance.link(bytes);
    return this.#instance.call({ do: 'algorithm', file, ...places, ...this.#instance.store(bytes) });
  }
}

/** A run that has begun. A run that is not freed keeps its memory. */
export class Run {
  #ask;

  constructor(ask) {
    this.#ask = ask;
  }

  /**
   * Simulates until an instant, or until about so many events of work: 200,000 take some 20 ms.
   *
   * @returns {{t: number, done: boolean, share: number, events: number}} seconds simulated; whether the run is over; the completed
   *   share; events so far
   */
  advance(toSeconds = Infinity, { events } = {}) {
    return this.#ask({ do: 'advance', until: finite(toSeconds), events })[0];
  }

  /**
   * The series so far, rows after an instant.
   *
   * @returns {{flows: object[], links: object[]}} of each flow and each directed link its `name`, `leg`, and columns as Float64Arrays:
   *   `t`, `goodput_mbps`, `cwnd_packets`, `inflight_packets`, `rtt_ms`, `retransmitted_packets`; and `t`, `queue_bytes`,
   *   `delivered_mbps`, `dropped_packets`, `rate_mbps`. An empty cell is NaN.
   */
  live(afterSeconds = -1) {
    const [{ flows, links }, instance] = this.#ask({ do: 'live', after: Math.max(afterSeconds, 0) });
    const curve = ({ name, leg, columns, at, count }) => {
      const cells = instance.doubles(at, count);
      const rows = count / columns.length;
      const made = columns.map((column, place) => {
        const values = new Float64Array(rows);
        for (let row = 0; row < rows; row++) values[row] = cells[row * columns.length + place];
        return [column, values];
      });
      return { name, leg, ...Object.fromEntries(made) };
    };
    return { flows: flows.map(curve), links: links.map(curve) };
  }

  /**
   * Simulates the rest.
   *
   * @returns {Result}
   */
  finish() {
    const [{ tables, captures }, instance] = this.#ask({ do: 'finish' });
    const files = new Map(captures.map(({ node, file }) => [node, instance.bytes(file)]));
    const [streams, columns] = [new Map(), new Map()];
    for (const { name, rows } of tables) {
      const [stream] = this.#ask({ do: 'arrow', table: name });
      streams.set(name, instance.bytes(stream));
      const [buffers] = this.#ask({ do: 'columns', table: name });
      const copy = (buffer) => buffer && instance.bytes(buffer);
      columns.set(name, {
        rows,
        buffers: buffers.map((column) => ({
          name: column.name,
          kind: column.kind,
          validity: copy(column.validity),
          offsets: copy(column.offsets),
          data: copy(column.data),
        })),
      });
    }
    return new Result(streams, columns, files);
  }

  /** Forgets the run. */
  free() {
    this.#ask({ do: 'free' });
  }
}

/** The result of a run. */
export class Result {
  #columns;

  constructor(tables, columns, captures) {
    /** Each table with rows as an Arrow IPC stream (Map of names and Uint8Arrays); `schema/results.md` describes them. */
    this.tables = tables;
    /** The captures of nodes that the study names, as pcapng. */
    this.captures = captures;
    this.#columns = columns;
  }

  /** The buffers of a table's columns in Arrow's layout: `{name, kind, validity, offsets, data}`. */
  buffers(table) {
    return this.#columns.get(table)?.buffers ?? [];
  }

  /**
   * A table by columns.
   *
   * @returns {{rows: number, columns: Object<string, ArrayLike>}} numbers as typed arrays, or, where a column has empty cells, as a
   *   Float64Array with NaN; texts and booleans as arrays, with null where empty
   */
  columns(table) {
    const { rows, buffers } = this.#columns.get(table) ?? { rows: 0, buffers: [] };
    const columns = {};
    for (const column of buffers) columns[column.name] = cells(column, rows);
    return { rows, columns };
  }
}

/** One instance of the module: a trap ends it. */
class Instance {
  #exports;

  constructor(module) {
    this.#exports = new WebAssembly.Instance(module, {}).exports;
  }

  call(request) {
    const { at, count } = this.store(new TextEncoder().encode(JSON.stringify(request)));
    const { ok, problem } = JSON.parse(this.#text(this.#exports.perigee_call(at, count)));
    if (problem) throw new PerigeeError(problem.kind, problem.message, problem.errors);
    return ok;
  }

  /** Bytes in memory that the module will take over. */
  store(bytes) {
    const at = this.#exports.perigee_alloc(bytes.length) >>> 0;
    new Uint8Array(this.#exports.memory.buffer, at, bytes.length).set(bytes);
    return { at, count: bytes.length };
  }

  /** A copy of bytes of the module. */
  bytes({ at, count }) {
    return new Uint8Array(this.#exports.memory.buffer.slice(at, at + count));
  }

  /** A view of numbers of the module, until the next call. */
  doubles(at, count) {
    return new Float64Array(this.#exports.memory.buffer, at, count);
  }

  /** Why the instance has ended. */
  lastWords(error) {
    const { perigee_last_words, perigee_was_refused } = this.#exports;
    try {
      if (perigee_was_refused()) {
        const fix = 'shorten the study, or raise the limit of the memory';
        return new PerigeeError('limit', `the study takes more memory than it may have here; ${fix}`);
      }
      const words = this.#text(perigee_last_words());
      if (words) return new PerigeeError('fault', `a fault of the simulator: ${words}; please report it with the study`);
    } catch {
      // Its memory is not readable any more: the trap is all that is known.
    }
    return new PerigeeError('trap', `the code has ended with a trap (${error.message})`);
  }

  /**
   * Loads an author's module into the memory and the table of this instance, as the tool conventions for WebAssembly describe dynamic
   * linking.
   *
   * @returns {{layout: number, algorithm: number}} addresses of what it exports
   */
  link(bytes) {
    const { memory, __indirect_function_table: table, __stack_pointer: stack, perigee_alloc } = this.#exports;
    let module;
    try {
      module = new WebAssembly.Module(bytes);
    } catch (error) {
      throw new PerigeeError('algorithm', `it is no WebAssembly module (${error.message}); compile it as the guide says`);
    }
    const needs = dynamicNeeds(module);
    const align = 2 ** needs.memoryAlign;
    const room = perigee_alloc(needs.memoryBytes + align) >>> 0;
    const memoryBase = Math.ceil(room / align) * align;
    const tableBase = table.grow(needs.tableSlots);
    const constant = (value) => new WebAssembly.Global({ value: 'i32' }, value);
    const env = {
      memory,
      __indirect_function_table: table,
      __stack_pointer: stack,
      __memory_base: constant(memoryBase),
      __table_base: constant(tableBase),
      // What a compiler makes of assignments of structs and of loops.
      memcpy: (to, from, count) => (new Uint8Array(memory.buffer).copyWithin(to >>> 0, from >>> 0, (from >>> 0) + count), to),
      memmove: (to, from, count) => (new Uint8Array(memory.buffer).copyWithin(to >>> 0, from >>> 0, (from >>> 0) + count), to),
      memset: (to, value, count) => (new Uint8Array(memory.buffer).fill(value, to >>> 0, (to >>> 0) + count), to),
    };
    const later = [];
    const entry = (name) => {
      const global = new WebAssembly.Global({ value: 'i32', mutable: true }, 0);
      later.push([name, global]);
      return global;
    };
    const imports = { env };
    for (const { module: from, name } of WebAssembly.Module.imports(module)) {
      if (from === 'GOT.mem' || from === 'GOT.func') (imports[from] ??= {})[name] = entry(name);
      else if (from !== 'env' || !(name in env)) {
        throw new PerigeeError('algorithm', `it calls \`${name}\`, which no host of a congestion control has; use what tcp.h declares`);
      }
    }
    const { exports } = new WebAssembly.Instance(module, imports);
    const address = (name) => (name in exports ? exports[name].value + memoryBase : 0);
    for (const [name, global] of later) {
      const own = exports[name];
      if (typeof own === 'function') global.value = table.grow(1, own);
      else if (own) global.value = own.value + memoryBase;
      else throw new PerigeeError('algorithm', `it uses \`${name}\`, which it does not define`);
    }
    exports.__wasm_apply_data_relocs?.();
    exports.__wasm_call_ctors?.();
    return { layout: address('perigee_cc_layout'), algorithm: address('perigee_cc_algorithm') };
  }

  #text(about) {
    const [at, count] = new Uint32Array(this.#exports.memory.buffer, about, 2);
    return new TextDecoder().decode(new Uint8Array(this.#exports.memory.buffer, at, count));
  }
}

/** What a module that was linked with `-shared` needs of its host: the section `dylink.0`. */
function dynamicNeeds(module) {
  const [section] = WebAssembly.Module.customSections(module, 'dylink.0');
  if (!section) {
    throw new PerigeeError('algorithm', 'the module was not linked with `-shared`; compile it as the guide says');
  }
  const bytes = new Uint8Array(section);
  let at = 0;
  const number = () => {
    let [value, shift] = [0, 0];
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 0x7f) * 2 ** shift;
      shift += 7;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const kind = bytes[at++];
    const end = number() + at;
    if (kind === MEMORY_INFO) {
      const [memoryBytes, memoryAlign, tableSlots] = [number(), number(), number()];
      return { memoryBytes, memoryAlign, tableSlots };
    }
    at = end;
  }
  return { memoryBytes: 0, memoryAlign: 0, tableSlots: 0 };
}

/** `WASM_DYLINK_MEM_INFO` of the tool conventions. */
const MEMORY_INFO = 1;

/** Whether an error has ended the instance. */
function isTrap(error) {
  return error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
}

/** Options as the module takes them. */
function plain({ overrides = {}, run = 0, most, seed, reduced = false, file }) {
  const texts = Object.entries(overrides).map(([key, value]) => [key, String(value)]);
  return { overrides: Object.fromEntries(texts), run, most, seed, reduced, file };
}

/** A number as JSON has it; null: without end. */
function finite(number) {
  return Number.isFinite(number) ? number : null;
}

/** The cells of a column in Arrow's layout. */
function cells({ kind, validity, offsets, data }, rows) {
  const bit = (bits, row) => (bits[row >> 3] >> (row & 7)) & 1;
  const isEmpty = (row) => validity && !bit(validity, row);
  if (kind === 'text') {
    const ends = new BigInt64Array(offsets.buffer);
    const decoder = new TextDecoder();
    const text = (row) => decoder.decode(data.subarray(Number(ends[row]), Number(ends[row + 1])));
    return Array.from({ length: rows }, (_, row) => (isEmpty(row) ? null : text(row)));
  }
  if (kind === 'bool') return Array.from({ length: rows }, (_, row) => (isEmpty(row) ? null : bit(data, row) === 1));
  const numbers = new { u32: Uint32Array, u64: BigUint64Array, f64: Float64Array }[kind](data.buffer);
  if (!validity) return numbers;
  return Float64Array.from({ length: rows }, (_, row) => (isEmpty(row) ? NaN : Number(numbers[row])));
}
