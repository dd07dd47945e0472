import assert from "node:assert/strict";
import { test } from "node:test";

import { columnOf, isNamed, usualColumns } from "../src/columns.js";
import type { Run } from "../src/protocol.js";
import { warningsOf } from "../src/run-fields.js";

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

test("each column has the text of its value", () => {
  const facts = { progress: 0.259, remaining: 61, seconds: 7500, last_step: 12_000, bytes: 1_500_000, findings: { error: 1, warning: 2, info: 9 }, alerts: 3, open_alerts: 1, profile: null, dialect: "csv" };
  const texts = { progress: "26 %", remaining: "1 min 01 s", took: "2 h 05 min", steps: "12\u202f000", size: "1.5 MB", findings: "1 error, 2 warnings", alerts: "3", open_alerts: "1", profile: "csv" };
  const shown = { ...run("a", "a"), ...facts } as Run;
  assert.deepEqual(Object.keys(texts).map((id) => columnOf(id)!.text(shown)), Object.values(texts));
  assert.equal(columnOf("profile")!.key(shown), "csv");
  assert.deepEqual(warningsOf({ ...shown, loss_not_finite: true, unended_ranks: [[1, "torn"]] }), ["loss not finite", "rank 1 torn"]);
});

test("a number that does not fit its cell is written with an exponent, not cut", () => {
  const texts = [0.000252984, -0.000252984, 0.0023989, 123456, 0.25].map((lr) => columnOf("config.lr")!.text({ ...run("a", "a"), config: { lr } }));
  assert.deepEqual(texts, ["2.53e-4", "-2.53e-4", "0.0023989", "123\u202f456", "0.25"]);
});
