import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ExpressionError, filterOf } from "../src/expression.js";
import type { Run } from "../src/protocol.js";
import { questionOf, requireField, stateText } from "../src/run-fields.js";

interface Vectors {
  run: Run;
  met: string[];
  not_met: string[];
  refused: [string, number][];
  states: [Run["state"], Run["ended"], Run["profile"], string | null, string][];
}

/** The specification of the language by example, which the command line passes too. */
const VECTORS = JSON.parse(readFileSync(new URL("../../../../python/tests/expressions.json", import.meta.url), "utf8")) as Vectors;

const holds = (expression: string) => filterOf(expression).holds(questionOf(VECTORS.run));

test("a run that meets an expression passes", () => {
  assert.deepEqual(VECTORS.met.filter((expression) => !holds(expression)), []);
});

test("a run that does not meet an expression is left out", () => {
  assert.deepEqual(VECTORS.not_met.filter(holds), []);
});

test("an expression that cannot be read is refused with the place", () => {
  for (const [expression, at] of VECTORS.refused) assert.throws(() => filterOf(expression), (error) => error instanceof ExpressionError && error.at === at, expression);
});

test("a run is called by its end, and every word of that can be filtered", () => {
  for (const [state, ended, profile, reason, text] of VECTORS.states) {
    const run = { ...VECTORS.run, state, ended, profile, reason };
    assert.equal(stateText(run), text);
    for (const word of [...text.split(", "), state]) assert.ok(filterOf(`state = "${word}"`).holds(questionOf(run)), word);
  }
});

test("a field that no run has is refused with those that are like it", () => {
  const refusal = (name: string) => {
    try {
      requireField([{ ...VECTORS.run, left_out: { metrics: 0, config: 0 } }], name, 0);
      return "";
    } catch (error) {
      return (error as Error).message;
    }
  };
  assert.deepEqual(["state", "lr", "config.optim.lr", "loss", "best.val/acc", "alerts", "duration"].map(refusal), Array<string>(7).fill(""));
  assert.match(refusal("lrr"), /^no run has a field "lrr"; did you mean "lr"/);
  assert.match(refusal("Final loss"), /did you mean "final_loss"/);
  assert.match(refusal("zzzz"), /^no run has a field "zzzz"$/);
});
