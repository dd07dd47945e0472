import assert from "node:assert/strict";
import { test } from "node:test";

import { columnOf, isNamed, usualColumns } from "../src/columns.js";
import type { Run } from "../src/protocol.js";

const run = (id: string, name: string): Run =>
  ({ id, run_id: id, name, group: null, tags: [], root: null, notes: null, state: "complete", profile: "toy/v1", starred: false, started_at: null, seconds: null, last_step: null, progress: null, remaining: null, findings: null, bytes: 0, config: {}, metrics: {} }) as unknown as Run;

test("a run with a name is shown with its path beside it", () => {
  const unnamed = [run("a", "a"), run("sweep/b", "b")];
  assert.deepEqual(unnamed.map(isNamed), [false, false]);
  assert.ok(!usualColumns(unnamed).includes("path"));
  const named = [...unnamed, run("sweep/c", "first try")];
  assert.deepEqual(usualColumns(named).slice(0, 2), ["name", "path"]);
  assert.equal(columnOf("path")!.text(named[2]!), "sweep/c");
});

test("a number that does not fit its cell is written with an exponent, not cut", () => {
  const texts = [0.000252984, -0.000252984, 0.0023989, 123456, 0.25].map((lr) => columnOf("config.lr")!.text({ ...run("a", "a"), config: { lr } }));
  assert.deepEqual(texts, ["2.53e-4", "-2.53e-4", "0.0023989", "123\u202f456", "0.25"]);
});
