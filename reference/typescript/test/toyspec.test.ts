import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import { binary32Text, binary64Text, check, encode, Float, isDateTime, read, RefusedError, type Report, StreamChecker, StreamError } from "../src/index.js";
import { StreamRefusedError, Writer } from "../src/node.js";

const START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n';
const END = '{"kind":"run_end","t":9.0,"reason":"completed"}\n';
const bytes = (text: string) => new TextEncoder().encode(text);

function readAll(stream: string, options: Parameters<typeof read>[1] = {}): { count: number; report: Report } {
  const reading = read([bytes(stream)], options);
  let count = 0;
  let step = reading.next();
  for (; !step.done; step = reading.next()) count++;
  const report = step.value;
  assert.equal(report.committed + report.fragment + report.gapBytes, bytes(stream).length);
  return { count, report };
}

test("every cut of a stream is accounted for, and torn", () => {
  const stream = START + '{"kind":"note","t":1.0,"text":"é"}\n' + END;
  for (let cut = 0; cut < stream.length; cut++) {
    const { count, report } = readAll(stream.slice(0, cut));
    assert.equal(report.state, "torn");
    assert.equal(count, stream.slice(0, cut).split("\n").length - 1);
  }
});

test("a mode refuses what it says", () => {
  assert.equal(readAll(START + "{\n" + END, { mode: "salvage" }).count, 2);
  assert.equal(readAll(START + "{\n" + END, { mode: "prefix" }).report.gaps.at(-1)?.reason, "stopped");
  assert.throws(() => readAll(START + "{\n" + END), (error: unknown) => error instanceof StreamError && error.line === 2 && error.reason === "invalid-json");
  assert.throws(() => readAll(START, { mode: "strict" }), StreamError);
});

test("digits have no sign of zero, a point or an exponent keeps it", () => {
  const line = '{"kind":"x","a":[-0,{"b":-0}],"__proto__":-0,"c":-0.0,"d":-0e1,"e":"-0","f":5}';
  const value = read([bytes(line + "\n")]).next().value as { value: { [key: string]: unknown } };
  const expected = JSON.parse(line.replace(/-0(?=[,}])/g, "0")) as { [key: string]: unknown };
  assert.deepStrictEqual(value.value, expected);
  assert.ok(Object.is(expected["c"], -0));
});

test("any chunking gives one report", () => {
  const stream = bytes(START + '{"kind":"step","t":1.0,"step":1,"lss":2}\n{"a":NaN}\n\r\n' + END + "\0\0");
  const whole = check(stream);
  for (let size = 1; size < 40; size++) {
    const checker = new StreamChecker();
    for (let at = 0; at < stream.length; at += size) checker.feed(stream.slice(at, at + size));
    assert.deepEqual(checker.finish(), whole);
  }
  assert.deepEqual(whole.findings.map((finding) => finding.rule), ["unknown-key", "non-finite-number", "carriage-return", "nul-bytes"]);
});

test("findings have their offset and severity", () => {
  const report = check(bytes(START + '{"kind":"step","t":1.0,"step":1.5}\n' + END));
  const [finding] = report.findings;
  assert.deepEqual([finding?.rule, finding?.severity, finding?.offset], ["wrong-type", "error", START.length + '{"kind":"step","t":1.0,"step":'.length]);
});

test("numbers have the shortest text in the layout of the specification", () => {
  const texts: [number, string][] = [
    [0, "0.0"], [-0, "-0.0"], [1, "1.0"], [1e-5, "0.00001"], [1.5e-6, "1.5e-6"], [1e15, "1000000000000000.0"], [1e16, "1e16"],
    [5e-324, "5e-324"], [1e23, "1e23"], [-123456.789, "-123456.789"], [2 ** -44, "5.684341886080802e-14"],
  ];
  for (const [number, text] of texts) assert.equal(binary64Text(number), text);
  assert.equal(binary32Text(0.1), "0.1");
  assert.equal(binary32Text(3.4028234663852886e38), "3.4028235e38");
});

test("binary32 text reads back", () => {
  let bits = 12345;
  const view = new DataView(new ArrayBuffer(4));
  for (let i = 0; i < 20_000; i++) {
    bits = (Math.imul(bits, 1664525) + 1013904223) >>> 0;
    view.setUint32(0, bits);
    const number = view.getFloat32(0);
    if (Number.isFinite(number)) assert.equal(Math.fround(Number(binary32Text(number))), number);
  }
});

test("records are written in canonical form, or refused", () => {
  const line = encode("toy/v1", { zz: 1n, step: 3, kind: "step", t: 1, loss: NaN, extra: { b: 2, a: 0.5 }, aa: new Float(1) });
  assert.equal(line, '{"kind":"step","t":1.0,"step":3,"loss":null,"extra":{"a":0.5,"b":2.0},"aa":1.0,"zz":1}\n');
  for (const record of [{ kind: "step", t: 1 }, { kind: "step", t: NaN, step: 1 }, { kind: "step", t: 1, step: 1.5 }, { t: 1 }]) {
    assert.throws(() => encode("toy/v1", record), RefusedError);
  }
});

test("dates have to exist", () => {
  assert.ok(isDateTime("2024-02-29T23:59:59.5+05:30"));
  for (const text of ["2023-02-29T00:00:00Z", "2026-05-31T09:30:00", "2026-05-31T09:30:00Z\n", "2026-05-31T09:30:60Z"]) assert.ok(!isDateTime(text));
});

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "toyspec-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

test("a writer keeps time and ends with run_end", () => {
  let now = 1000;
  const writer = Writer.open(directory, "replace", () => now);
  now = 2000;
  writer.write({ kind: "run_start", schema: "toy/v1", run_id: "run" });
  now = 1500;
  writer.write({ kind: "step", step: 1 });
  writer.write({ kind: "run_end", reason: "completed" });
  assert.throws(() => writer.write({ kind: "note", text: "late" }), StreamRefusedError);
  writer.close();
  const report = check(readFileSync(join(directory, "events.jsonl")));
  assert.deepEqual([report.state, report.findings], ["complete", []]);
});

test("resuming sets the fragment aside, and refuses what is complete or damaged", () => {
  const path = join(directory, "events.jsonl");
  writeFileSync(path, START + '{"kind":"st');
  Writer.open(directory, "resume").close();
  assert.equal(readFileSync(path, "utf8"), START);
  assert.equal(readFileSync(`${path}.torn-${START.length}`, "utf8"), '{"kind":"st');
  for (const stream of [START + END, START + "{\n"]) {
    writeFileSync(path, stream);
    assert.throws(() => Writer.open(directory, "resume"), StreamRefusedError);
    assert.equal(readFileSync(path, "utf8"), stream);
  }
  assert.throws(() => Writer.open(directory, "fail"), StreamRefusedError);
  Writer.open(directory, "replace").close();
  assert.ok(existsSync(`${path}.prev`));
});
