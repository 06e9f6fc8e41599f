// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The interface of the module for browsers, under Node: `node --test tests/web/`. PERIGEE_WASM is the module, PERIGEE_AUTHORED a folder of
// authors' modules, which tests/web/test_web.py compiles.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';

import { decodeBase64, Engine, PerigeeError } from '../../web/perigee.js';

const bytes = readFileSync(process.env.PERIGEE_WASM);
const authored = (name) => readFileSync(join(process.env.PERIGEE_AUTHORED, name));
const engine = await Engine.load(bytes);

const study = ({ duration = '5 s', count = 1, measure = '', cc = 'cubic' } = {}) => `
name = "tab"
title = "A download in a tab"
time_limit = "10 min"
rounds = 2
nodes = ["server", "gateway", "home"]
[measure]
series = "500 ms"
${measure}
[[links]]
name = "wire"
between = ["server", "gateway"]
rate = "1 Gbit/s"
delay = "1 ms"
[[links]]
name = "satellite"
between = ["gateway", "home"]
down = { rate = "20 Mbit/s", delay = "300 ms", queue = "1 MB" }
up = { rate = "5 Mbit/s", delay = "300 ms" }
[[flows]]
name = "download"
from = "server"
to = "home"
duration = "${duration}"
count = ${count}
cc = "${cc}"
[vary]
"links.satellite.down.loss" = ["0 %", "1 %"]
`;

const problem = (action, kind, words) =>
  assert.throws(action, (error) => error instanceof PerigeeError && error.kind === kind && words.test(error.message));

test('the module says what it carries with it', () => {
  assert.match(engine.version, /^\d+\.\d+\.\d+(-dev\.\d+)?$/);
  const cubic = engine.algorithms().find(({ name }) => name === 'cubic');
  assert.ok(cubic.params.some(({ name, doc }) => name === 'slow_start' && doc));
  assert.ok(engine.profiles().some(({ name, text }) => name === 'geo' && text.includes('delay')));
  const claypool = engine.studies().find(({ name }) => name === 'claypool-2021');
  assert.equal(claypool.file, 'claypool-2021/study.toml');
  assert.deepEqual(engine.check(claypool.text, { file: claypool.file }), { errors: [] });
});

test('an error of a study has its line and its column', () => {
  const { errors } = engine.check(study().replace('duration = "5 s"', '  duraton = "5 s"'));
  assert.equal(errors.length, 1);
  const [{ message, fix, line, column }] = errors;
  assert.match(message, /duraton/);
  assert.match(fix, /duration/);
  assert.equal(study().split('\n')[line - 1], 'duration = "5 s"');
  assert.equal(column, 3);
  const [override] = engine.check(study(), { overrides: { 'flow.cc': 'cubi' } }).errors;
  assert.equal(override.line, 0);
  assert.match(override.message, /--set flow\.cc=cubi/);
});

test('a study is described by its runs and the network of one of them', () => {
  const described = engine.describe(study(), { run: 1 });
  assert.equal(described.title, 'A download in a tab');
  assert.deepEqual(described.runs.map(({ round, label }) => `${round} ${label}`), ['0 loss=0 %', '0 loss=1 %', '1 loss=0 %', '1 loss=1 %']);
  assert.deepEqual(described.nodes, ['server', 'gateway', 'home']);
  const down = described.links.find(({ name }) => name === 'satellite.down');
  assert.deepEqual([down.from, down.to, down.mean_mbps], ['gateway', 'home', 20]);
  assert.ok(down.words.some(([key, words]) => key === 'loss' && words.includes('1 %')));
  assert.deepEqual(described.flows[0].path, ['wire.down', 'satellite.down']);
  problem(() => engine.describe(study(), { run: 4 }), 'request', /no run 4/);
});

test('a run in pieces shows its series and has the tables of the run', () => {
  const run = engine.start(study());
  const seen = [];
  for (let t = 0.7; ; t += 0.7) {
    const { done, t: reached } = run.advance(t);
    const [flow] = run.live(seen.at(-1) ?? -1).flows;
    seen.push(...(flow?.t ?? []));
    if (done) break;
    assert.ok(Math.abs(reached - t) < 1e-9);
  }
  const links = run.live().links;
  assert.deepEqual(links.map(({ name }) => name), ['wire.down', 'wire.up', 'satellite.down', 'satellite.up']);
  const result = run.finish();
  const series = result.columns('series');
  assert.deepEqual(seen, [...series.columns.t_s]);
  const whole = engine.run(study());
  for (const [name, stream] of whole.tables) assert.deepEqual(result.tables.get(name), stream, name);
  const { rows, columns } = result.columns('flows');
  assert.equal(rows, 1);
  assert.deepEqual([columns.flow[0], columns.completed[0], columns.leg[0]], ['download', true, NaN]);
  assert.equal(typeof columns.received_bytes[0], 'bigint');
  run.free();
  problem(() => run.advance(1), 'request', /was freed/);
});

test('a run can be cancelled, and another seed is another run', () => {
  assert.equal(engine.run(study(), {}, () => false), null);
  const series = (seed) => engine.run(study(), { seed, run: 1 }).tables.get('series');
  assert.deepEqual(series(1), series(1));
  assert.notDeepEqual(series(1), series(2));
});

test('a study that takes too much ends with an error that names the limit', () => {
  const small = (limits) => Engine.load(bytes).then((one) => (one.limits(limits), one));
  const endless = study({ duration: '9 min' });
  return Promise.all([
    small({ events: 100_000 }).then((one) => problem(() => one.run(endless), 'limit', /100000 events/)),
    small({ simulated_s: 60 }).then((one) => problem(() => one.run(endless), 'limit', /60 s/)),
    small({ memory: 40e6 }).then((one) => {
      problem(() => one.run(study({ duration: '9 min', measure: 'events = true' })), 'limit', /memory/);
      assert.equal(one.run(study()).columns('flows').rows, 1);
    }),
  ]);
});

test('memory that is refused ends the instance, and the engine goes on with another', async () => {
  const one = await Engine.load(bytes);
  one.addFile('profiles/mine.toml', new TextEncoder().encode('name = "mine"\ntitle = "Mine"\nsource = "a test"\n[link]\nrate = "3 Mbit/s"\ndelay = "20 ms"\n'));
  const before = one.start(study());
  one.limits({ memory: 1e6 });
  problem(() => one.studies(), 'limit', /memory/);
  one.limits({ memory: 50e6 });
  problem(() => before.advance(1), 'trap', /start it again/);
  const down = 'down = { rate = "20 Mbit/s", delay = "300 ms", queue = "1 MB" }\nup = { rate = "5 Mbit/s", delay = "300 ms" }';
  const mine = study().replace(down, 'profile = "mine"').replace('links.satellite.down.loss', 'links.satellite.loss');
  assert.equal(one.describe(mine).links[2].mean_mbps, 3);
});

test('a file that a study names is added, and is not there before', async () => {
  const one = await Engine.load(bytes);
  const timed = study().replaceAll('delay = "300 ms", ', '').replace(', delay = "300 ms"', '').replace('down = { rate', 'timeline = "mine/delays.csv"\ndown = { rate');
  assert.match(one.check(timed).errors[0].message, /mine\/delays\.csv/);
  one.addFile('mine/delays.csv', new TextEncoder().encode('time_s,delay_ms\n0,300\n2,310\n'));
  assert.deepEqual(one.check(timed).errors, []);
});

test("an author's algorithm is named by its C file", () => {
  const text = study({ cc: './half.c' });
  assert.match(engine.check(text).errors[0].message, /half\.c/);
  const { name, own, params } = engine.addAlgorithm(authored('half.wasm'), 'half.c');
  assert.deepEqual([name, own, params.map((one) => one.name)], ['half', true, ['keep']]);
  assert.equal(engine.run(text).columns('flows').columns.cc[0], 'half');
  const series = (keep) => {
    const overrides = { 'flow.cc': `{ name = "half.c", keep = "${keep}" }` };
    return engine.run(study({ duration: '30 s' }), { run: 1, overrides }).tables.get('series');
  };
  assert.notDeepEqual(series('50 %'), series('90 %'));
});

test('a module with a constant table computes what the same file does natively', () => {
  engine.addAlgorithm(authored('hybla.wasm'), 'hybla.c');
  const bytes = (cc) => engine.run(study({ duration: '30 s', cc }), { run: 1 }).columns('flows').columns.received_bytes[0];
  assert.ok(bytes('hybla') !== bytes('reno'));
  assert.equal(bytes('hybla.c'), bytes('hybla'));
});

test("a trap in an author's code is an error, and the engine goes on", () => {
  engine.addAlgorithm(authored('trapping.wasm'), 'trapping.c');
  problem(() => engine.run(study({ cc: 'trapping.c' })), 'trap', /trap/);
  assert.equal(engine.run(study({ cc: 'half.c' })).columns('flows').columns.cc[0], 'half');
});

test('what is no module of an algorithm is refused', () => {
  problem(() => engine.addAlgorithm(new Uint8Array([1, 2, 3]), 'x.c'), 'algorithm', /no WebAssembly module/);
  problem(() => engine.addAlgorithm(bytes, 'x.c'), 'algorithm', /-shared/);
  problem(() => engine.addAlgorithm(authored('calling.wasm'), 'x.c'), 'algorithm', /calls `printk`/);
});

test('base64 is decoded', () => {
  assert.deepEqual(decodeBase64('AP+A'), new Uint8Array([0, 255, 128]));
});
