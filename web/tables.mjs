// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Carries out studies by the module, for a comparison with the native simulator (`tools/web_tables.py`): a line of JSON for each study
// on the input, a line for its runs on the output: of each table a digest of its Arrow
// stream, or why there are none.
//
//     node web/tables.mjs target/web/perigee.wasm
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

import { Engine, PerigeeError } from './perigee.js';

const engine = await Engine.load(readFileSync(process.argv[2]));
engine.limits({ memory: 3e9, events: 1e12, simulated_s: 1e6 });

function digests(files) {
  const each = [...files].map(([name, file]) => [name, createHash('sha256').update(file).digest('hex')]);
  return Object.fromEntries(each);
}

function carryOut({ text, options, runs }) {
  const found = [];
  const count = engine.describe(text, { ...options, most: 0 }).count;
  for (let run = 0; run < Math.min(count, runs ?? count); run++) {
    const result = engine.run(text, { ...options, run });
    found.push({ tables: digests(result.tables), captures: digests(result.captures) });
  }
  return { runs: found };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  try {
    for (const { file, module } of request.algorithms ?? []) engine.addAlgorithm(Buffer.from(module, 'base64'), file);
    console.log(JSON.stringify(carryOut(request)));
  } catch (error) {
    if (!(error instanceof PerigeeError)) throw error;
    console.log(JSON.stringify({ kind: error.kind, error: error.message }));
  }
}
