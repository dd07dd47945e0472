import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { streamsIn } from "../../typescript/page/selection.js";
import { namePattern } from "../src/dialects/dialect.js";
import { recognize } from "../src/dialects/recognition.js";
import { type Row, RowReader } from "../src/dialects/row-reader.js";
import { HINTS } from "../src/dialects/usual-names.js";
import { Catalog } from "../src/folder/catalog.js";
import { Budget } from "../src/folder/pyramid.js";
import { type Curve, curveOf } from "../src/frames.js";
import { rowOf } from "../src/folder/rows.js";
import { Scan } from "../src/folder/scan.js";
import type { MetricFacts } from "../src/protocol.js";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../../../../..");
const LF = 0x0a;

interface Said {
  read_as: { name: string; step: string | null; time: string | null; epoch: string | null; phase: string | null };
  state: string;
  gaps: [number, number, number, string][];
  /** What is in a log that was made for these tests. */
  bytes?: string;
  rows: { line: number; offset: number; step: number | null; time: number | null; epoch: number | null; phase: string | null; values: { [name: string]: number | string | null } }[];
  row?: { [name: string]: unknown };
}

/** What Python reads of each log, the damaged ones too: see reference/python/tests/viewer_rows.py. */
const LOGS = JSON.parse(readFileSync(join(ROOT, "reference/viewer/test/dialect-rows.json"), "utf8")) as { [path: string]: Said };

function bytesOf(name: string): Uint8Array {
  const [path, isDamaged] = name.split("#") as [string, string?];
  const { bytes } = LOGS[name]!;
  if (bytes !== undefined) return new Uint8Array(Buffer.from(bytes, "latin1"));
  const data = readFileSync(join(ROOT, path));
  if (isDamaged === undefined) return new Uint8Array(data);
  const middle = data.indexOf(LF, Math.floor(data.length / 2)) + 1;
  return new Uint8Array(Buffer.concat([data.subarray(0, middle), Buffer.from("\0 lost \xff\n", "latin1"), data.subarray(middle, -5)]));
}

function nameOf(path: string): string {
  return path.split("#")[0]!.split("/").at(-1)!;
}

/** Keeps the rows that a reader gives. */
class Recorded extends RowReader {
  readonly rows: Row[] = [];

  override read(data: Uint8Array, isFirst: boolean): ReturnType<RowReader["read"]> {
    const found = super.read(data, isFirst);
    if (found && !("reason" in found)) this.rows.push(found);
    return found;
  }
}

function scanned(data: Uint8Array, name: string, size: number): { scan: Scan; rows: Recorded } {
  const readAs = recognize(data.subarray(0, 1 << 16), { name });
  assert.ok(readAs, name);
  const once = (attempts?: Scan["attempts"]) => {
    const rows = new Recorded(readAs);
    const scan = new Scan({ name, hasManifest: false, budget: new Budget(), rows, attempts });
    for (let at = 0; at < data.length; at += size) scan.feed(data.slice(at, at + size));
    scan.finish();
    return { scan, rows };
  };
  const first = once();
  return first.scan.needsSecond ? once(first.scan.attempts) : first;
}

function textOf(value: number): number | string | null {
  return Number.isFinite(value) ? value : Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

test("logs of other programs are read as Python reads them, whole, damaged, and in pieces of any size", () => {
  assert.ok(Object.keys(LOGS).length >= 50);
  for (const [path, expected] of Object.entries(LOGS)) {
    const data = bytesOf(path);
    for (const size of [1 << 16, 7]) {
      const { scan, rows } = scanned(data, nameOf(path), size);
      const { dialect, step, time, epoch, phase } = rows.readAs;
      assert.deepEqual({ name: dialect.name, step, time: time?.key ?? null, epoch, phase }, expected.read_as, path);
      assert.deepEqual(scan.gaps.map(({ line, offset, length, reason }) => [line, offset, length, reason]), expected.gaps, path);
      assert.equal(scan.state, expected.state, path);
      assert.equal(rows.rows.length, expected.rows.length, path);
      rows.rows.forEach((row, at) => {
        const own = expected.rows[at]!;
        assert.deepEqual([row.step, row.time, row.epoch, row.phase], [own.step, own.time, own.epoch, own.phase], `${path}: row ${at}`);
        const values = Object.fromEntries(Object.entries(own.values).map(([name, value]) => [name, value ?? "nan"]));
        assert.deepEqual(Object.fromEntries([...row.values].map(([name, value]) => [name, textOf(value)])), values, `${path}: row ${at}`);
      });
    }
  }
});

test("logs of other programs have the rows that the server lists", () => {
  for (const [path, { row: listed }] of Object.entries(LOGS)) {
    if (!listed) continue;
    const name = nameOf(path);
    // Trackio names its runs in their logs, all others are named for their files.
    const id = listed["dialect"] === "trackio" ? "a folder" : String(listed["name"]);
    const found = rowOf(scanned(bytesOf(path), name, 1 << 16).scan, id);
    for (const fact of ["dialect", "profile", "name", "started_at", "seconds", "first_step", "last_step", "final_loss", "progress", "remaining", "config", "reason", "error", "ended"] as const) assert.deepEqual(found[fact], listed[fact], `${path}: ${fact}`);
    const metrics = listed["metrics"] as { [name: string]: MetricFacts };
    assert.deepEqual(Object.keys(found.metrics).sort(), Object.keys(metrics).sort(), path);
    for (const [metric, facts] of Object.entries(metrics)) assert.deepEqual(found.metrics[metric], facts, `${path}: ${metric}`);
  }
});

test("a folder has the logs of other programs that its names point to, and nothing of files that are none", async () => {
  const file = (path: string, text: string | Uint8Array) => ({ path, blob: new Blob([text as BlobPart]) });
  const files = [
    file("runs/hf/checkpoint-1/trainer_state.json", '{"log_history":[{"step":1,"loss":2.5}]}'),
    file("runs/hf/checkpoint-20/trainer_state.json", '{"log_history":[{"step":1,"loss":2.5},{"step":20,"loss":2.25}]}'),
    file("runs/hf/trainer_state.json", '{"log_history":[{"step":1,"loss":2.5},{"step":2,"loss":NaN}],"best_metric":null}'),
    file("runs/csv/metrics.csv", "step,loss\n1,0.5\n2,0.25\n"),
    file("runs/own/events.jsonl", '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"own"}\n'),
    file("runs/own/metrics.csv", "step,loss\n1,0.5\n"),
    file("runs/table/progress.csv", "name,city\na,b\n"),
    file("runs/deep/list.json", "[1, 2]"),
  ];
  const catalog = new Catalog(1, "runs", streamsIn({ files: [], folders: [{ name: "runs", files }] }, HINTS), () => undefined);
  await catalog.work();
  const { runs } = await catalog.runs();
  const seen = runs.map(({ id, name, dialect, last_step, final_loss }) => [id, name, dialect, last_step, final_loss]);
  assert.deepEqual(seen.sort(), [["csv", "csv", "csv", 2, 0.25], ["hf", "hf", "hf-trainer", 2, null], ["own", "own", null, null, null]]);
  const detail = await catalog.detail("hf");
  assert.deepEqual([detail.account.records, detail.gaps, detail.findings, detail.row.findings], [2, [], [], null]);
});

test("a log that is not read here is named with what shows it, and leaves no row", async () => {
  const console = "step 1: train loss 4.3, val loss 4.2\niter 1: loss 4.5, time 250.00ms, mfu 1.50%\n";
  const files = [["log.txt", console], ["results.json", '{"a": 1}'], ["metrics.csv", "step,loss\n1,0.5\n"]].map(([name, text]) => ({ path: `a/${name}`, blob: new Blob([text!]) }));
  const alone = ["1.out", "2.out", "3.out", "4.out", "5.out"].map((path) => ({ path, blob: new Blob([console]) }));
  const catalog = new Catalog(1, "a", streamsIn({ files: alone, folders: [{ name: "a", files }] }, HINTS), () => undefined);
  await catalog.work();
  const { runs, problems } = await catalog.runs();
  assert.deepEqual(runs.map(({ name, state, findings }) => [name, state, findings]), [["metrics.csv", "complete", null]]);
  assert.deepEqual(problems, ["Not read here: 1.out, 2.out, 3.out, 4.out, 5.out and 1 more. `toyspec view FOLDER` also reads console output and other formats."]);
});

test("a run of munin has what the file beside its log says", async () => {
  const folder = join(ROOT, "reference/python/tests/samples/munin/experiments/toyspec/runs");
  const [run] = readdirSync(folder);
  const files = ["events.jsonl", "run.json"].map((name) => ({ path: `runs/${run}/${name}`, blob: new Blob([readFileSync(join(folder, run!, name))]) }));
  const catalog = new Catalog(1, "runs", streamsIn({ files: [], folders: [{ name: "runs", files }] }, HINTS), () => undefined);
  await catalog.work();
  const [row] = (await catalog.runs()).runs;
  assert.deepEqual([row!.name, row!.tags, row!.reason, row!.config["lr"], row!.metrics["val/acc"]!.best], ["first try", ["small"], "completed", 0.001, 0.75]);
});

test("several trainings in one log are apart, and their times count from the first of all", async () => {
  const files = [{ path: "a/metrics.jsonl", blob: new Blob([LOGS["metrics.jsonl#several"]!.bytes!]) }];
  const catalog = new Catalog(1, "a", streamsIn({ files: [], folders: [{ name: "a", files }] }, HINTS), () => undefined);
  await catalog.work();
  const found: Curve[] = [];
  await catalog.curves({ metric: "loss", runs: ["a"], axis: "time", buckets: 300 }, (frame) => found.push(curveOf(frame, "time")!));
  const [first, second, last] = [8, 7, 6].map((count, at) => Array.from({ length: count }, (_, step) => 1000 * at + step));
  assert.deepEqual(found.map(({ header, place }) => [header.attempt, [...place]]), [["latest", last], ["abandoned", [...first!, second![0], ...second!]]]);
});

test("zooming into a long table reaches its single rows", async () => {
  const text = `step,loss\n${Array.from({ length: 20_000 }, (_, at) => `${at},${at === 11_110 ? 99 : 1}\n`).join("")}`;
  const files = [{ path: "a/metrics.csv", blob: new Blob([text]) }];
  const catalog = new Catalog(1, "a", streamsIn({ files: [], folders: [{ name: "a", files }] }, HINTS), () => undefined);
  await catalog.work();
  const found: Curve[] = [];
  await catalog.curves({ metric: "loss", runs: ["a"], axis: "step", buckets: 300, from: 11_100, to: 11_120 }, (frame) => found.push(curveOf(frame, "step")!));
  assert.deepEqual([found[0]!.header.level, found[0]!.mean[found[0]!.place.indexOf(11_110)]], [1, 99]);
});

test("patterns of file names are those of a shell", () => {
  const cases: [string, string, boolean][] = [["*.mllog", "a.mllog", true], ["*.mllog", "amllog", false], ["[0-9][0-9].jsonl", "07.jsonl", true], ["[0-9][0-9].jsonl", "7a.jsonl", false], ["a?c", "abc", true], ["a+b", "a+b", true], ["a+b", "aab", false]];
  for (const [pattern, name, fits] of cases) assert.equal(namePattern(pattern).test(name), fits, `${pattern} ${name}`);
});
