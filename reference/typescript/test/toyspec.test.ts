import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import {
  binary32Text, binary64Text, check, encode, Float, isDateTime, read, RefusedError, type Report, StreamChecker, StreamError, summarize, type Value,
} from "../src/index.js";
import { Prover } from "../src/proven-records.js";
import type { Node } from "../src/scanner.js";

const START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n';
const END = '{"kind":"run_end","t":9.0,"reason":"completed"}\n';
const CASES = fileURLToPath(new URL("../../../../conformance/cases/", import.meta.url));
/** A checker with a watch looks at every byte: it needs each record as it is written. */
const WATCH = { record: () => undefined, gap: () => undefined };
/** Returns the verdict on a stream, and what a watch saw of it: kinds and values, with the order of the members. */
function watched(data: Uint8Array, takesValues: boolean, name?: string): unknown[] {
  const seen: unknown[] = [];
  const watch = {
    takesValues,
    record: (record: Node, kind: string | null, profile: string | null) => void seen.push([kind, profile, plain(record)]),
    gap: (...gap: unknown[]) => void seen.push(gap),
  };
  return [check(data, { name, watch }), seen];
}

function plain(node: Node): unknown {
  if (node.type === "object") return [...node.members].map(([key, value]) => [key, plain(value)]);
  if (node.type === "array") return { items: node.items.map(plain) };
  return node.type === "number" ? Number(node.text) : node.type === "null" ? null : node.value;
}

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

test("an integer may be written as 1.0 in toy/v1, which is said once, and is invalid in metrics/v1", () => {
  const steps = '{"kind":"step","t":1.0,"step":1.0,"loss":2}\n{"kind":"step","t":2.0,"step":2e0}\n{"kind":"step","t":3.0,"step":2.5}\n';
  const { findings } = check(bytes(START + steps + END));
  assert.deepEqual(findings.map(({ rule, line, message }) => [rule, line, message]), [
    ["integer-as-float", 2, "`step` is written 1.0, expected an integer without fraction and exponent"],
    ["wrong-type", 4, "`step` is the number 2.5, expected an integer"],
  ]);
  const entry = '{"step":1.0,"wall_time_ms":1,"loss":1,"grad_norm":1,"throughput_samples_per_sec":1}\n';
  assert.deepEqual(check(bytes(entry)).findings.map((finding) => finding.rule), ["wrong-type"]);
});

test("integers written as 1.0 are compared as integers", () => {
  const steps = '{"kind":"step","t":1.0,"step":1.0}\n{"kind":"step","t":2.0,"step":1}\n{"kind":"run_end","t":9.0,"reason":"completed","final_step":1.0,"exit_code":3e2}\n';
  const rules = check(bytes(START + steps)).findings.map(({ rule, pointer }) => `${rule} ${pointer}`);
  assert.deepEqual(rules, ["integer-as-float /step", "step-goes-backwards /step", "out-of-range /exit_code"]);
});

test("a line that differs from a proven one in its numbers has the findings of one that is looked at byte by byte", () => {
  const lines = [
    '{"kind":"step","t":1.0,"step":1,"loss":2.5,"tokens":3,"extra":{"acc":0.5,"n":-3}}', '{"kind":"step","phase":"eval","t":1.0,"step":1,"loss":null}', '{"kind":"step", "t":1.0, "step":1}',
  ];
  const numbers = [
    "0", "-0", "-1", "1", "2", "7.5", "01", "1.", ".5", "1e3", "1E-2", "-1.5e+22", "1e30", "1e400", "123456789.123456789", "9007199254740993", "0.1234567890123456789", "null", '"1"', "1 ", "1e", "-", "true", "",
  ];
  let chance = 1;
  const random = (below: number) => (chance = (chance * 48271) % 2147483647) % below;
  for (let round = 0; round < 400; round++) {
    const made = Array.from({ length: 6 }, (_, at) => {
      const line = lines[random(lines.length)]!.replace(/"step":1/, `"step":${at + 1}`);
      const places = [...line.matchAll(/-?\d[\d.]*/g)];
      const place = places[random(places.length)]!;
      return random(2) === 0 ? line : line.slice(0, place.index) + numbers[random(numbers.length)] + line.slice(place.index + place[0].length);
    });
    const stream = bytes(`${START}${made.join(["\n", "\n", "\r\n"][random(3)])}\n${END}`);
    assert.deepEqual(check(stream), check(stream, { watch: WATCH }), made.join("\n"));
    assert.deepEqual(watched(stream, true), watched(stream, false), made.join("\n"));
  }
});

test("a watch that takes values is given every member in its order, those of objects too", () => {
  const lines = ['{"b":0,"10":1,"2":2}', '{"b":1,"10":2,"2":3}', '{"a\\u0062":1,"ab":2,"c":"x"}', '{"a\\u0062":3,"ab":4,"c":"x"}', '{"z":-0,"y":1e2}', '{"z":-0,"y":2E2}', '{"\\\\":1,"\\\\\\\\":null}', '{"\\\\":3,"\\\\\\\\":null}'];
  const stream = bytes(START + lines.map((extra, at) => `{"kind":"step","t":${at}.5,"step":${at + 1},"loss":${at}.25,"extra":${extra}}\n`).join("") + END);
  const [report, seen] = watched(stream, true);
  assert.deepEqual([report, seen], watched(stream, false));
  assert.equal((seen as unknown[]).length, lines.length + 2);
});

test("a line is known by the shape of a proven one, until too many lines have a shape of their own", () => {
  const prover = new Prover("toy/v1");
  const learn = (text: string) => prover.learn(JSON.parse(text) as { [key: string]: unknown }, "step", text);
  learn('{"kind":"step","t":1.0,"step":1,"loss":2.5}');
  for (const known of ['{"kind":"step","t":20.25,"step":300,"loss":-7e-3}', '{"kind":"step","t":0,"step":0,"loss":0}']) {
    assert.equal(prover.shapes.read(bytes(`${known}\n`), 0), known.length + 1, known);
  }
  for (const other of ['{"kind":"step","t":1.0,"step":1.0,"loss":2}', '{"kind":"step","t":1,"step":-1,"loss":2}', '{"kind":"step","t":1.0,"step":1,"loss":2} ']) {
    assert.equal(prover.shapes.read(bytes(`${other}\n`), 0), -1, other);
  }
  for (let at = 0; at < 1000; at++) learn(`{"kind":"step","t":1.0,"step":1,"phase":"${at}"}`);
  assert.equal(prover.shapes.read(bytes('{"kind":"step","t":1.0,"step":1,"phase":"999"}\n'), 0), -1);
});

test("a line beyond the limit is not known by its shape", () => {
  const stream = bytes(`${START}{"kind":"step","t":1.0,"step":1}\n{"kind":"step","t":1.${"0".repeat(60)},"step":2}\n${END}`);
  assert.deepEqual(check(stream, { maxLineBytes: 80 }).findings.map(({ rule, line }) => [rule, line]), [["line-too-long", 3]]);
});

test("a stream that follows no profile has one finding, which says what it looks like", () => {
  const looks: [text: string, name: string, message: string][] = [
    ['{"type":"user","message":"hi"}\n{"a":1', "log.jsonl", "the first record is not of a known format: keys type, message"],
    ['{"a":1,"b":2,"c":3,"d":4,"\x9b":5,"f":6}\nNaN\n', "events.jsonl", "the first record is not of a known format: keys a, b, c, d, \\x9b, …"],
    ["{}\n", "x", "the first record is not of a known format: it has no keys"],
    ['{\n  "epoch": 1.0,\n  "log_history": []\n}\n', "trainer_state.json", "a JSON document over several lines"],
    ["step,loss\n1,2.5\n", "log.csv", "comma-separated values (CSV)"],
    ["step\tloss\n1\t2.5\n", "log.tsv", "tab-separated values (TSV)"],
    ["[1,2]\n", "a.json", "a JSON array on one line"],
    ["version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a.jsonl", "a Git LFS pointer"],
    ["Epoch 1, loss 2.5\n", "train.log", "text that is not JSON Lines"],
    ["\x01\0\n", "blob", "binary data"],
  ];
  for (const [text, name, message] of looks) {
    const report = check(bytes(text), { name });
    assert.deepEqual([report.profile, report.findings.map((finding) => [finding.rule, finding.message])], [null, [["unknown-format", message]]], name);
  }
  const named = check(bytes('{"type":"user"}\n'), { profile: "toy/v1" });
  assert.equal(named.profile, "toy/v1");
});

test("the state of a stream without a profile follows from its bytes", () => {
  const states = ['{"a":1}\n', '{"a":1}\n{', '{"a":1}\n{\n'].map((text) => check(bytes(text)).state);
  assert.deepEqual(states, ["complete", "torn", "damaged"]);
  assert.equal(readAll('{"a":1}\n{', { mode: "salvage" }).report.state, "torn");
});

test("views are those of the latest attempt", () => {
  const steps = '{"kind":"step","t":1.0,"step":1,"loss":3}\n{"kind":"step","t":2.0,"step":2,"loss":null}\n{"kind":"step","t":2.5,"step":9,"phase":"decode"}\n';
  const resumed = '{"kind":"run_resume","t":3.0,"from_step":1}\n{"kind":"step","t":4.0,"step":2.0,"loss":2.5}\n{"kind":"step","t":5.0,"step":3,"loss":"x"}\n';
  const { views } = summarize([bytes(START + steps + resumed)]);
  assert.deepEqual(views, { run_id: "run", phase: "train", steps: 3, last_step: 3n, loss_curve: [3, 2.5], final_loss: 2.5, duration_seconds: 5 });
});

test("what JSON cannot say, or two readers would read differently, is refused", () => {
  const sparse: Value[] = [];
  sparse[1] = 1;
  const refused: unknown[] = [sparse, 10n ** 400n, { "\ud800": 1, "\ud801": 2 }, new Date(), new Map(), () => 1, Symbol("x"), [undefined]];
  for (const value of refused) {
    assert.throws(() => encode("toy/v1", { kind: "own", t: 1, x: value as Value }), RefusedError, String(value));
  }
  assert.throws(() => encode("toy/v1", null as never), RefusedError);
});

test("what is proven fast has the findings of what is looked at byte by byte", () => {
  const members = [
    '"step":1', '"step":1.0', '"step":1e0', '"step": 1', '"step" :1', '"step":-0', '"step":"1"', '"step":null', '"step":9007199254740993', '"step":1,"step":2',
    '"step":1,"loss":1e999', '"step":1,"loss":-1.5e3', '"step":1,"extra":{"a":1,"step":1.0}', '"extra":{"step":1},"step":1.0', '"step":1,"extra":{"a":9007199254740993}',
    '"step":1,"extra":{"a":1,"a":2}', '"step":1,"extra":{"a":"x"}', '"step":1,"lss":2', '"step":1,"phase":"trian"', '"step":1,"loss":"\\ud800"', '"step":1,"t":2.0',
    '"step":1,"tokens":3', '"step":1,"tokens":3.0', '"step":1,"tokens":-3', '"step":1,"phase":"\\"step\\":1"', '"step":1,"__proto__":1', '"step":1}\r', '"loss":1',
  ];
  const streams = members.map((member) => START + `{"kind":"step","t":1.0,${member}}\n`.replace("}\r}", "}\r") + END);
  for (const stream of [...streams, START + members.map((member) => `{"kind":"step","t":1.0,${member}}\n`).join("") + END]) {
    const slow = new StreamChecker();
    // A line that comes in pieces is never proven.
    for (const byte of bytes(stream)) slow.feed(Uint8Array.of(byte));
    assert.deepEqual(check(bytes(stream)), slow.finish(), stream);
    const values = (chunks: Uint8Array[]) => [...read(chunks, { mode: "salvage" })].map(({ kind, node, value }) => [kind, node, value]);
    assert.deepEqual(values([bytes(stream)]), values(Array.from(bytes(stream), (byte) => Uint8Array.of(byte))), stream);
  }
});

test("every stream of the corpus has the same verdict with and without a watch", () => {
  const paths = readdirSync(CASES, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".jsonl"));
  assert.ok(paths.length > 1500);
  for (const path of paths) {
    const data = readFileSync(join(CASES, path));
    const name = basename(path);
    assert.deepEqual(check(data, { name }), check(data, { name, watch: WATCH }), path);
    assert.deepEqual(watched(data, true, name), watched(data, false, name), path);
  }
});
