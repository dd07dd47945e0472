import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { streamsIn } from "../../typescript/page/selection.js";
import { Catalog } from "../src/folder/catalog.js";
import { demo } from "../src/folder/demo.js";
import { EPOCH, NumberLines, PLACES, STEP, TIME } from "../src/folder/number-lines.js";
import { Budget, fitting, Pyramid } from "../src/folder/pyramid.js";
import { rowOf } from "../src/folder/rows.js";
import { Scan } from "../src/folder/scan.js";
import { tokensOf } from "../src/folder/curves.js";
import { curveOf } from "../src/frames.js";
import type { Frame, MetricFacts, Ranks, Run } from "../src/protocol.js";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../../../../..");
const TOY = { kinds: { step: "extra", scalars: "values" }, nested: "extra" };

function scanned(data: Uint8Array, name: string, size = 1 << 16): Scan {
  const options = { name, hasManifest: false, budget: new Budget() };
  const first = new Scan(options);
  const feed = (scan: Scan) => {
    for (let at = 0; at < data.length; at += size) scan.feed(data.slice(at, at + size));
    scan.finish();
    return scan;
  };
  feed(first);
  return first.needsSecond ? feed(new Scan({ ...options, attempts: first.attempts })) : first;
}

/** Numbers differ by the rounding of a sum or of long digits at most. */
function near(one: number | null, other: number | null): boolean {
  return one === other || (one !== null && other !== null && Math.abs(one - other) <= 4e-16 * Math.abs(other));
}

function assertSame(found: Run, expected: { [name: string]: unknown }, path: string): void {
  for (const name of ["run_id", "name", "group", "reason", "error", "ended", "tags", "profile", "started_at", "first_step", "last_step", "progress", "remaining", "config"] as const) assert.deepEqual(found[name], expected[name], `${path}: ${name}`);
  assert.ok(near(found.final_loss, expected["final_loss"] as number | null), `${path}: final loss ${found.final_loss}`);
  assert.ok(near(found.seconds, expected["seconds"] as number | null), `${path}: ${found.seconds} seconds`);
  assert.equal(found.state, expected["state"] === "running" ? "torn" : expected["state"], path);
  const metrics = expected["metrics"] as { [name: string]: MetricFacts };
  assert.deepEqual(Object.keys(found.metrics).sort(), Object.keys(metrics).sort(), path);
  for (const [name, facts] of Object.entries(metrics)) {
    const own = found.metrics[name]!;
    assert.deepEqual([own.goal, own.count, own.nan], [facts.goal, facts.count, facts.nan], `${path}: ${name}`);
    assert.ok(near(own.last, facts.last) && near(own.best, facts.best), `${path}: ${name} ${JSON.stringify([own, facts])}`);
  }
}

test("runs of the corpus have the rows that the server lists, in pieces of any size", () => {
  const rows = JSON.parse(readFileSync(join(ROOT, "reference/viewer/test/rows.json"), "utf8")) as { [path: string]: { [name: string]: unknown } };
  assert.ok(Object.keys(rows).length > 100);
  for (const [path, expected] of Object.entries(rows)) {
    // Logs of other programs have tests of their own.
    if (expected["profile"] === null) continue;
    const made = expected["bytes"];
    const data = typeof made === "string" ? new TextEncoder().encode(made) : new Uint8Array(readFileSync(join(ROOT, "conformance/cases", path)));
    for (const size of [1 << 16, 7]) assertSame(rowOf(scanned(data, path.split("/").at(-1)!, size), path.split("/").at(-2)!), expected, path);
  }
});

test("numbers of a line are those that JSON.parse gives, and other lines are left to the exact reader", () => {
  const encoder = new TextEncoder();
  const random = sequence();
  const number = () => [random(), random() * 1e-9, -random() * 1e12, Math.floor(random() * 1e9), 0, 1e-7 * random(), 3.4e38 * random()][Math.floor(random() * 7)]!;
  const lines = new NumberLines(TOY, "train");
  for (let round = 0; round < 3000; round++) {
    const members = Object.fromEntries(Array.from({ length: Math.floor(random() * 5) }, (_, at) => [`m${at}`, random() < 0.1 ? null : number()]));
    const record = { kind: "step", t: Math.abs(number()), step: round, ...members, ...(random() < 0.5 ? { extra: { e: number() } } : {}), ...(random() < 0.2 ? { epoch: 3 } : {}) };
    const text = random() < 0.5 ? JSON.stringify(record) : JSON.stringify(record, null, 1).replaceAll(/\n\s*/g, "").replaceAll(",", ", ");
    const bytes = encoder.encode(`${text}\n`);
    assert.equal(lines.read(bytes, 0), bytes.length, text);
    const expected = { ...members, ...record.extra } as { [name: string]: number | null };
    const found = Object.fromEntries([...lines.slots.subarray(0, lines.count)].filter((slot) => slot >= PLACES.length).map((slot) => [lines.metrics[slot - PLACES.length]!, lines.values[slot]!]));
    assert.deepEqual(Object.keys(found).sort(), Object.keys(expected).sort());
    for (const [name, value] of Object.entries(expected)) assert.ok(value === null ? Number.isNaN(found[name]) : near(found[name]!, value), `${name}: ${found[name]} for ${value}`);
    assert.deepEqual([lines.values[STEP], near(lines.values[TIME]!, record.t), lines.has(EPOCH)], [round, true, "epoch" in record]);
  }
  const others = [
    "", "{}", "[]", '{"kind":"note","t":1}', '{"kind":"step","t":01,"step":1}', '{"kind":"step","t":1.,"step":1}', '{"kind":"step","t":1,"step":1,}', '{"kind":"step","t":1,"step":1,"loss":NaN}',
    '{"kind":"step","t":1,"step":1,"loss":1,"loss":2}', '{"kind":"step","t":1,"step":1,"loss":[1]}', '{"kind":"step","t":1,"step":1} ', '{"kind":"step","t":1,"step":1,"l\\u006fss":1}', '{"kind":"step","t":1,"step":1,"a":"é"}',
    '{"kind":"step","t":1,"step":1,"phase":"decode"}', '{"kind":"step","t":1,"step":"1"}', '{"kind":"step","t":1,"step":1', '{"kind":"step","t":1,"step":1,"loss":1e400}', '{"kind":"step","t":1,"step":1,"extra":{"a":{}}}', '{"kind":"step","t":-,"step":1}', '{"kind":"step","t":1,"step":1,"loss":nul}',
  ];
  assert.deepEqual(others.filter((text) => lines.read(encoder.encode(`${text}\n`), 0) >= 0), []);
});

function sequence(): () => number {
  let state = 7;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

test("a pyramid keeps every extreme and counts every point, however few buckets it has", () => {
  const random = sequence();
  for (const points of [0, 1, 5, 2047, 2048, 2049, 50_001]) {
    const values = Array.from({ length: points }, () => (random() < 0.01 ? NaN : random()));
    const pyramid = new Pyramid(new Budget());
    values.forEach((value, at) => pyramid.add(at + 1, at / 2, NaN, value, at * 10, at + 1));
    for (const most of [4096, 100, 2]) {
      const { columns, count, level } = fitting(pyramid.buckets(), most);
      assert.equal(count.reduce((sum, each) => sum + each, 0), points);
      for (let at = 0; at < count.length; at++) {
        const own = values.slice(at * level, at * level + count[at]!);
        const finite = own.filter((value) => !Number.isNaN(value));
        assert.equal(columns.nan[at], own.length - finite.length);
        assert.deepEqual([columns.min[at], columns.max[at], columns.last[at]], finite.length === 0 ? [NaN, NaN, NaN] : [Math.min(...finite), Math.max(...finite), finite.at(-1)]);
        const mean = finite.reduce((sum, value) => sum + value, 0) / finite.length;
        assert.ok(finite.length === 0 ? Number.isNaN(columns.mean[at]) : Math.abs(columns.mean[at]! - mean) < 1e-12);
        assert.deepEqual([columns.step[at], columns.line[at], columns.offset[at]], [at * level + own.length, at * level + 1, at * level * 10]);
      }
    }
  }
});

async function opened(lines: string, path = "runs/a/events.jsonl"): Promise<Catalog> {
  const catalog = new Catalog(1, "runs", streamsIn({ files: [], folders: [{ name: "runs", files: [{ path, blob: new Blob([lines]) }] }] }), () => undefined);
  await catalog.work();
  return catalog;
}

async function curve(catalog: Catalog, request: { buckets: number; from?: number; to?: number }, run = "a"): Promise<ReturnType<typeof curveOf>[]> {
  const frames: Frame[] = [];
  await catalog.curves({ metric: "loss", runs: [run], axis: "step", ...request }, (frame) => frames.push(frame));
  return frames.map((frame) => curveOf(frame, "step"));
}

const START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n';
const step = (at: number, loss: number | string = 1 / at) => `{"kind":"step","t":${at}.5,"step":${at},"loss":${loss}}\n`;

test("zooming leads to single points, in a run that is kept as buckets", async () => {
  const text = START + Array.from({ length: 20_000 }, (_, at) => step(at + 1, at === 11_110 ? 99 : 1)).join("");
  const catalog = await opened(text);
  const [whole] = await curve(catalog, { buckets: 300 });
  assert.ok(whole!.length <= 300 && whole!.max.includes(99) && whole!.header.level > 1);
  assert.deepEqual([whole!.header.range.step, whole!.header.best], [[1, 20_000], { step: 1, value: 1 }]);
  const [close] = await curve(catalog, { buckets: 300, from: 11_100, to: 11_120 });
  assert.equal(close!.header.level, 1);
  assert.equal(close!.mean[[...close!.place].indexOf(11_111)], 99);
});

test("alerts and the metric that counts the steps of another one are known", async () => {
  const define = '{"kind":"define","t":0.0,"name":"lo*","step_name":"env_steps"}\n';
  const alert = (metric: string) => `{"kind":"alert","t":2.5,"step":2,"rule":"spike","level":"error","text":"x","metric":"${metric}"}\n`;
  const catalog = await opened(`${START}${define}${step(1)}${step(2)}${alert("loss")}${alert("other")}${step(3)}`);
  const [latest] = await curve(catalog, { buckets: 100 });
  const { offset, ...mark } = latest!.header.alerts![0]!;
  assert.deepEqual([latest!.header.alerts!.length, mark], [1, { step: 2, line: 5, rule: "spike", level: "error" }]);
  assert.equal(new TextDecoder().decode(await catalog.bytes("a", "events.jsonl", offset!, 15)), '{"kind":"alert"');
  assert.equal((await catalog.runs()).runs[0]!.metrics["loss"]!.step_name, "env_steps");
});

test("what a resumption supersedes is apart, and lines that cannot be read are marked and found", async () => {
  const resume = '{"kind":"run_resume","t":9.0,"from_step":5}\n';
  const catalog = await opened(`${START}${[1, 2, 3, 4, 5, 6, 7, 8].map((at) => step(at)).join("")}broken\n${resume}${[6, 7].map((at) => step(at, 50)).join("")}`);
  const [latest, abandoned] = await curve(catalog, { buckets: 100 });
  assert.deepEqual([[...latest!.place], [...latest!.mean].slice(5)], [[1, 2, 3, 4, 5, 6, 7], [50, 50]]);
  assert.deepEqual([...abandoned!.place], [6, 7, 8]);
  assert.deepEqual([latest!.header.gaps!.length, latest!.header.gaps![0]!.step, latest!.header.resumes![0]!.step], [1, 8, 5]);
  const [run] = (await catalog.runs()).runs;
  assert.deepEqual([run!.state, run!.findings!.error > 0], ["damaged", true]);
  const { findings, account } = await catalog.detail("a");
  assert.deepEqual(findings.filter(({ rule }) => rule === "invalid-json").map(({ line }) => line), [10]);
  assert.equal(account.committed + account.fragment + account.gap_bytes, account.size);
});

test("what was not logged, what an import dropped and what is not listed are counted", async () => {
  const note = '{"kind":"note","t":1.0,"text":"a","left_out":{"acc":2},"dropped":{"step":1}}\n';
  const losses = [{ cause: "damaged", effect: "dropped", meaning: "cannot be read", count: 4, examples: [] }];
  const report = { format: "csv", source: "a", target: "b", run_id: "r", item: "cells", items: 9, losses };
  const folder = (imported: string) => streamsIn({ folders: [{ name: "runs", files: Object.entries({ "runs/a/events.jsonl": `${START}${note}${note}${"broken\n".repeat(2005)}`, "runs/a/import.json": imported }).map(([path, text]) => ({ path, blob: new Blob([text]) })) }], files: [] });
  const detail = async (imported: string) => {
    const catalog = new Catalog(1, "runs", folder(imported), () => undefined);
    await catalog.work();
    return catalog.detail("a");
  };
  const found = await detail(JSON.stringify(report));
  assert.deepEqual(found.missing, { left_out: { acc: 4 }, dropped: { step: 2 } });
  assert.deepEqual(found.imported, { format: "csv", item: "cells", items: 9, losses: [{ effect: "dropped", meaning: "cannot be read", count: 4 }] });
  assert.equal(found.gaps.length + found.left_out["gaps"]!, 2005);
  const all = Object.values(found.row.findings!).reduce((sum, count) => sum + count, 0);
  assert.equal(found.findings.length + found.left_out["findings"]!, all);
  assert.equal((await detail('{"format":1}')).imported, null);
});

test("the demo has complete, torn and damaged runs, and nothing else to object to", async () => {
  const catalog = new Catalog(1, "demo", streamsIn(demo()), () => undefined);
  await catalog.work();
  const { runs } = await catalog.runs();
  assert.deepEqual(runs.map(({ state }) => state), ["complete", "complete", "torn", "complete", "damaged", "complete"]);
  assert.deepEqual(runs.filter(({ state }) => state === "complete").map(({ findings }) => findings!.error), [0, 0, 0, 0]);
  assert.equal(runs[0]!.metrics["loss"]!.nan, 19);
});

test("a log without a profile has curves by what it counts, and files that are not logs are left out", async () => {
  const catalog = await opened('{"iter":10,"train":0.5}\n{"iter":20,"train":0.25}\n', "runs/a/metrics.jsonl");
  const [run] = (await catalog.runs()).runs;
  assert.deepEqual([run!.metrics["train"]!.count, run!.last_step], [2, 20]);
  assert.deepEqual((await (await opened("[1]\nnothing\n", "runs/a/x/metrics.jsonl")).runs()).runs.map(({ id, state }) => [id, state]), [["x", "damaged"]]);
});

test("tokens of each step are added up on their axis, and a count that rises at every step is the axis itself", () => {
  const cases: [string, number[], number[]][] = [
    ["tokens", [512, 512, 512], [512, 1024, 1536]], ["tokens", [512, 768, 640], [512, 1280, 1920]],
    ["tokens", [512, 1024, 1536], [512, 1024, 1536]], ["tokens_seen", [10, 20, 40], [10, 20, 40]],
  ];
  for (const [name, counts, places] of cases) {
    const lines = counts.map((count, at) => JSON.stringify({ kind: "step", t: at + 1, step: at + 1, loss: 1, ...(name === "tokens" ? { tokens: count } : { extra: { [name]: count } }) }));
    const text = ['{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}', ...lines, ""].join("\n");
    assert.deepEqual([...tokensOf(scanned(new TextEncoder().encode(text), "events.jsonl"))!.columns.last], places, `${name} ${counts}`);
  }
});

test("settings of a resumption are over those of run_start, also where that comes after it or not at all", async () => {
  const resume = '{"kind":"run_resume","t":1.0,"from_step":1,"config":{"lr":2}}\n';
  const start = '{"kind":"run_start","schema":"toy/v1","t":2.0,"run_id":"r","config":{"lr":1,"b":3}}\n';
  const runs = await Promise.all([resume + start, resume].map(async (text) => (await (await opened(step(1) + text)).runs()).runs[0]!));
  assert.deepEqual(runs.map(({ run_id, config }) => [run_id, config]), [["r", { lr: 2, b: 3 }], [null, { lr: 2 }]]);
});

test("flags are where the tokens of the latest attempt put them", async () => {
  const step = (at: number) => `{"kind":"step","t":${at}.0,"step":${at},"loss":1.0,"tokens":512}`;
  const note = (at: number) => `{"kind":"note","t":${at}.5,"text":"here"}`;
  const lines = ['{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}', step(1), step(2), note(2), step(3), note(3), '{"kind":"run_resume","t":4.0,"from_step":2}', note(4), ""];
  const { notes } = await (await opened(lines.join("\n"))).detail("a");
  assert.deepEqual(notes.map(({ tokens }) => tokens), [1024, 1024, 1024]);
});

/** A folder of one run with files of these names. */
function folderOf(files: { [name: string]: Uint8Array<ArrayBuffer> }): Catalog {
  const picked = Object.entries(files).map(([name, data]) => ({ path: `runs/run/${name}`, blob: new Blob([data]) }));
  return new Catalog(1, "runs", streamsIn({ files: [], folders: [{ name: "runs", files: picked }] }), () => undefined);
}

test("ranks are described as the server describes them, and only the run itself is listed", async () => {
  const cases = JSON.parse(readFileSync(join(ROOT, "reference/viewer/test/ranks.json"), "utf8")) as { [path: string]: unknown };
  assert.ok(Object.keys(cases).length > 15);
  for (const [path, expected] of Object.entries(cases)) {
    const isMade = path.endsWith("#made");
    const made = expected as { files: { [name: string]: string }; ranks: Ranks };
    const directory = join(ROOT, "conformance/cases", path);
    const names = isMade ? [] : readdirSync(directory).filter((name) => name.endsWith(".jsonl"));
    const files = isMade ? Object.fromEntries(Object.entries(made.files).map(([name, text]) => [name, new TextEncoder().encode(text)])) : Object.fromEntries(names.map((name) => [name, new Uint8Array(readFileSync(join(directory, name)))]));
    const catalog = folderOf(files);
    await catalog.work();
    const { runs } = await catalog.runs();
    assert.deepEqual(runs.map(({ id }) => id), ["run"], path);
    const [found, said] = [await catalog.ranks("run"), isMade ? made.ranks : (expected as Ranks)];
    const [known, others] = [said.ranks.map(({ rank }) => rank).filter((rank) => rank > 0), runs[0]!.other_ranks ?? []];
    assert.deepEqual([runs[0]!.world_size ?? said.world_size, others.filter((rank) => known.includes(rank))], [said.world_size, known], path);
    // Python says more of a file of another format.
    const shortly = (ranks: Ranks | null) => ranks && { ...ranks, errors: ranks.errors.map((error) => error.slice(0, error.indexOf(":"))) };
    assert.deepEqual(rounded(shortly(found)), rounded(shortly(said)), path);
  }
});

test("no line of a compressed stream can be looked up: its offsets are those of the text", async () => {
  const alert = '{"kind":"alert","t":1.5,"step":1,"rule":"spike","level":"error","text":"x"}\n';
  const catalog = folderOf({ "events.jsonl.gz": gzipSync(`${START}${step(1)}broken\n${alert}${step(2)}`) });
  await catalog.work();
  const [run] = (await catalog.runs()).runs;
  const [latest] = await curve(catalog, { buckets: 100 }, run!.id);
  const { gaps, alerts } = latest!.header;
  assert.deepEqual([...gaps!, ...alerts!].map((mark) => [mark.line, "offset" in mark]), [[3, false], [4, false]]);
  const broken = (await catalog.detail(run!.id)).findings.find(({ rule }) => rule === "invalid-json")!;
  assert.deepEqual([broken.line, broken.offset], [3, null]);
});

/** Numbers with the digits that do not depend on the order of a sum. */
function rounded(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_, each: unknown) => (typeof each === "number" ? Number(each.toPrecision(12)) : each)));
}

test("curves of other ranks and their lines have ids below that of the run", async () => {
  const start = (rank: number) => `{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run","rank":${rank},"world_size":2}\n`;
  const log = (rank: number) => new TextEncoder().encode(`${start(rank)}{"kind":"step","t":1.0,"step":1,"loss":${rank}.5}\n`);
  const catalog = folderOf({ "events.jsonl": log(0), "events.rank-1.jsonl": log(1) });
  await catalog.work();
  const values: [string, number][] = [];
  const runs = ["run", "run/events.rank-1.jsonl"];
  await catalog.curves({ metric: "loss", runs, axis: "step", buckets: 100 }, (frame) => values.push([frame.header.run, curveOf(frame, "step")!.mean[0]!]));
  assert.deepEqual(values, [["run", 0.5], ["run/events.rank-1.jsonl", 1.5]]);
  assert.deepEqual(await catalog.bytes(runs[1]!, "", 0, 20), log(1).slice(0, 20));
});

test("a run that was imported from a log without an end has no end mark, until it goes on", () => {
  const start = '{"kind":"run_start","schema":"toy/v1","t":0,"run_id":"a"}\n{"kind":"scalars","t":1,"step":1,"values":{"loss":2.5}}\n';
  const note = '{"kind":"note","t":1,"text":"the source does not say how the run ended","topic":"end-unknown"}\n';
  const more = '{"kind":"scalars","t":2,"step":2,"values":{"loss":2.25}}\n';
  for (const [text, ended] of [[start, "no"], [start + note, "unknown"], [start + note + more, "no"]] as const)
    assert.deepEqual(rowOf(scanned(new TextEncoder().encode(text), "a/events.jsonl"), "a").ended, ended, text);
});
