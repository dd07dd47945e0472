/** Measures the work of the folder's worker on one stream, and prints seconds by name: `node speed.js STREAM ROUNDS`. */

import { readFileSync } from "node:fs";

import { StreamChecker } from "../../typescript/src/checker.js";
import { sectionsOf } from "../src/charts/grid.js";
import { Budget } from "../src/folder/pyramid.js";
import { Scan } from "../src/folder/scan.js";
import type { Run } from "../src/protocol.js";

const PIECE = 1 << 20;
const METRICS = 100_000;

const [path = "", rounds = "5"] = process.argv.slice(2);
const data = new Uint8Array(readFileSync(path));
const metrics = Object.fromEntries(Array.from({ length: METRICS }, (_, at) => [`x/${at}`, {}]));

function* pieces(): Generator<Uint8Array> {
  for (let at = 0; at < data.length; at += PIECE) yield data.slice(at, at + PIECE);
}

const works: { readonly [name: string]: () => void } = {
  scanner: () => {
    const scan = new Scan({ name: "events.jsonl", hasManifest: false, budget: new Budget() });
    for (const piece of pieces()) scan.feed(piece);
    scan.finish();
  },
  checker: () => {
    const checker = new StreamChecker({ name: "events.jsonl" });
    for (const piece of pieces()) checker.feed(piece);
    checker.finish();
  },
  parse: () => {
    const decoder = new TextDecoder();
    let rest = "";
    for (const piece of pieces()) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
      rest = lines.pop()!;
      for (const line of lines) JSON.parse(line);
    }
  },
  sections: () => void sectionsOf([{ metrics } as unknown as Run], ""),
};

const seconds: { [name: string]: number[] } = {};
for (let round = 0; round < Number(rounds); round++) {
  for (const [name, work] of Object.entries(works)) {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    (seconds[name] ??= []).push((user + system) / 1e6);
  }
}
console.log(JSON.stringify({ bytes: data.length, seconds }));
