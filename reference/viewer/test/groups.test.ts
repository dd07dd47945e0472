import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { areOrdered, type Band, type Group, groupKeys, groupLooks, groupName, groupsOf, keysOf, keysWithout, meanOf, resampled, runGroups } from "../src/groups.js";
import type { Run } from "../src/protocol.js";

type Numbers = (number | null)[];
type Vector = { rows: Numbers[]; band: Band; mean: [Numbers, Numbers, Numbers, number[]] } | { places: number[]; values: Numbers; wanted: number[]; first: number; at: Numbers } | { keys: string[]; values: Group["values"][]; members: number[][]; names: string[]; ordered: boolean } | { settings: Record<string, string | number | null>[]; without: string; keys: string[] };

/** What Python answers of groups that are drawn at random: see reference/python/tests/viewer_rows.py. */
const VECTORS = JSON.parse(readFileSync(new URL("../../../test/groups.json", import.meta.url), "utf8")) as Vector[];

const numbers = (values: Numbers) => values.map((value) => value ?? NaN);

for (const [at, vector] of VECTORS.entries()) {
  test(`groups are as Python has them: ${at}`, () => {
    if ("rows" in vector) {
      const { mean, low, high, number } = meanOf(vector.rows.map(numbers), vector.band);
      assert.deepEqual([mean, low, high, number].map((column) => [...column]), vector.mean.map(numbers));
    } else if ("places" in vector) {
      assert.deepEqual([...resampled(vector.places, numbers(vector.values), vector.wanted, vector.first)], numbers(vector.at));
    } else if ("members" in vector) {
      const found = groupsOf(vector.values);
      assert.deepEqual([found.map(({ members }) => members), found.map((group) => groupName(vector.keys, group)), areOrdered(found)], [vector.members, vector.names, vector.ordered]);
    } else assert.deepEqual(keysWithout(vector.settings.map((config) => ({ config, metrics: {} }) as unknown as Run), vector.without), vector.keys);
  });
}

test("the mean over the seed is offered first, and a number is a scale", () => {
  const runs = [0.1, 0.1, 0.03, 0.03].map((lr, at) => ({ id: String(at), name: "", config: { lr, seed: at % 2, name: `run ${at}`, all: 1 }, metrics: {}, group: null, tags: [] }) as unknown as Run);
  assert.deepEqual(groupKeys(runs), ["-seed", "config.lr", "config.seed"]);
  const groups = runGroups(runs, keysOf(runs, "-seed"));
  assert.deepEqual(groups.map(({ name }) => name), ["lr 0.03, 2 runs", "lr 0.1, 2 runs"]);
  assert.equal(new Set([...groupLooks(groups).values()].map(({ tint }) => tint)).size, 2);
  assert.deepEqual(runGroups(runs, keysOf(runs, "lr,seed")).map(({ name }) => name)[1], "lr 0.03, seed 1, 1 run");
});
