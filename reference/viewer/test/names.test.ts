import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { cutShared, namesAmong } from "../src/names.js";

interface Vectors {
  called: { why: string; names: string[]; paths: string[]; called: string[] }[];
  cut: { why: string; limit: number; names: string[]; cut: string[] }[];
}

const VECTORS = JSON.parse(readFileSync(new URL("../../../../python/tests/names.json", import.meta.url), "utf8")) as Vectors;

test("runs are called, and names are cut, as the command line does", () => {
  for (const { why, names, paths, called } of VECTORS.called) assert.deepEqual(namesAmong(names, paths), called, why);
  for (const { why, names, limit, cut } of VECTORS.cut) assert.deepEqual(names.map((name) => cutShared(names, limit).get(name)), cut, why);
});

test("any names stay different when they are cut, and have all that differs", () => {
  const names = Array.from({ length: 400 }, (_, at) => `${"a-".repeat(at % 7)}${"x".repeat(at % 40)}${at % 3 === 0 ? "😀" : "/"}${"long".repeat(9)}${at % 50}`);
  const alike = names.map((name) => `runs/${name.replaceAll("-", "+")}-2026`);
  for (const some of [names, alike]) assert.equal(new Set(cutShared(some, 9).values()).size, new Set(some).size);
  assert.ok([...cutShared(alike, 9)].every(([name, cut]) => `…${name.split("/").at(-1)!.replace("-2026", "")}…`.endsWith(cut.split("/").at(-1)!)));
});
