import assert from "node:assert/strict";
import { test } from "node:test";

import { ExpressionError, filterOf } from "../src/expression.js";
import type { Run } from "../src/protocol.js";
import { questionOf } from "../src/run-fields.js";

const RUN: Run = {
  id: "sweep/llama-004", name: "llama-004", group: "sweep", tags: ["baseline", "long"], state: "torn", profile: "toy/v1", dialect: null,
  started: "2026-11-22T10:30:00Z", seconds: 7200, steps: 10_000, progress: null, bytes: 2_000_000, findings: { error: 0, warning: 2, info: 0 },
  config: { "optim.lr": 3e-4, seed: 4, fused: true, "not": 1 },
  metrics: { loss: { last: 1.5, best: 1.25, goal: "min", count: 10, nan: 1 }, "val/acc": { last: 0.75, best: null, goal: null, count: 3, nan: 0 } },
  left_out: { metrics: 0, config: 0 }, message: null,
};

const holds = (expression: string) => filterOf(expression)(questionOf(RUN));

test("a run that meets an expression passes", () => {
  const expressions = [
    "", "llama", "LLAMA sweep", "lr < 1e-3 and val/acc > .7", "optim.lr = 0.0003", "config.seed=4", "best.loss <= 1.25", "nan.loss > 0", "tag = long",
    "took > 1h", "size >= 2mb", "state != complete", "not damaged", "(seed = 5 or seed = 4) and not (seed = 5)", "fused = true", "missing = null",
    '"val/acc" > 70%', "name ~ '004'", "name !~ 005", "started > 2026-11-01", "warnings = 2", "not = 1", "tags != short", "missing != 3",
  ];
  assert.deepEqual(expressions.filter((expression) => !holds(expression)), []);
});

test("a run that does not meet an expression is left out", () => {
  const expressions = ["gpt", "lr > 1e-3", "val/acc > .8", "best.val/acc > 0", "missing > 1", "seed < 4", "not llama", "tag = short", "tags != long", "name < 5", "constructor != null"];
  assert.deepEqual(expressions.filter(holds), []);
});

test("an expression that cannot be read is refused with the place", () => {
  const places: [string, number][] = [["lr <", 4], ["lr < < 3", 5], ["(lr < 3", 0], ["a) b", 1], ["< 3", 0], ['name = "x', 7], ["(".repeat(200), 100]];
  for (const [expression, at] of places) assert.throws(() => filterOf(expression), (error) => error instanceof ExpressionError && error.at === at, expression);
});
