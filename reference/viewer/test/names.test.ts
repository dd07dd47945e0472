import assert from "node:assert/strict";
import { test } from "node:test";

import { cutApart } from "../src/names.js";

test("names that share a start and an end stay different when they are cut", () => {
  const cuts = (names: string[], limit: number) => names.map((name) => cutApart(names, limit).get(name));
  const dates = ["llama", "llava", "gemma"].map((name) => `${name}-20261121-001`);
  assert.deepEqual(cuts(dates, 12), ["llama-…1-001", "llava-…1-001", "gemma-…1-001"]);
  assert.deepEqual(cuts(["run-a-and-more-last", "run-b-and-more-last"], 8), ["run-a…", "run-b…"]);
  assert.deepEqual(cuts(["run-a-and-more-last", "run-b-and-yet-more-last"], 9), ["run-a-and-more-last", "run-b-and-yet-more-last"]);
  assert.deepEqual(cuts(["short", "same", "same"], 8), ["short", "same", "same"]);
  assert.deepEqual(cuts(["runs/a/llama-001", "runs/a/mlp-001"], 9), ["llama-001", "mlp-001"]);
  const others = ["gpt-small-lr0.001-20261121-001", "gpt-small-lr0.0006-20261121-001", "mlp"];
  assert.deepEqual(cuts(others, 12), ["…lr0.001…", "…lr0.0006…", "mlp"]);
  assert.deepEqual(cuts(others, 16), ["gpt-sm…lr0.001…", "gpt-sm…lr0.0006…", "mlp"]);
  const sweep = ["lr-1", "lr-2"].flatMap((rate) => [1, 2].map((decay) => `llama-${rate}-wd-${decay}-20261121`));
  assert.deepEqual(cuts(sweep, 14), ["llama-lr-1…1…", "llama-lr-1…2…", "llama-lr-2…1…", "llama-lr-2…2…"]);
});

test("any names stay different when they are cut", () => {
  const names = Array.from({ length: 400 }, (_, at) => `${"a-".repeat(at % 7)}${"x".repeat(at % 40)}${at % 3 === 0 ? "😀" : "/"}${"long".repeat(9)}${at % 50}`);
  const cuts = cutApart(names, 9);
  assert.equal(new Set(cuts.values()).size, new Set(names).size);
  assert.ok([...cuts].every(([name, cut]) => cut === name || [...cut].length <= 9));
});
