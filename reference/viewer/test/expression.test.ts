import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ExpressionError, filterOf } from "../src/expression.js";
import type { Run } from "../src/protocol.js";
import { questionOf } from "../src/run-fields.js";

interface Vectors {
  run: Run;
  met: string[];
  not_met: string[];
  refused: [string, number][];
}

/** The specification of the language by example, which the command line passes too. */
const VECTORS = JSON.parse(readFileSync(new URL("../../../../python/tests/expressions.json", import.meta.url), "utf8")) as Vectors;

const holds = (expression: string) => filterOf(expression)(questionOf(VECTORS.run));

test("a run that meets an expression passes", () => {
  assert.deepEqual(VECTORS.met.filter((expression) => !holds(expression)), []);
});

test("a run that does not meet an expression is left out", () => {
  assert.deepEqual(VECTORS.not_met.filter(holds), []);
});

test("an expression that cannot be read is refused with the place", () => {
  for (const [expression, at] of VECTORS.refused) assert.throws(() => filterOf(expression), (error) => error instanceof ExpressionError && error.at === at, expression);
});
