/** Writes the requested records, one for each line of input, for the problem runner: see conformance/problems/programs.py. */

import { createInterface } from "node:readline";

import { Float, RefusedError, type Value } from "../src/index.js";
import { readFile, StreamRefusedError, StreamWriteError, Writer, type Exist } from "../src/node.js";

type Members = { [key: string]: Value };

let writer: Writer | undefined;

const note = (text: string): Members => ({ kind: "note", text });
const step = (number: Value, loss = 0.5): Members => ({ kind: "step", phase: "train", step: number, loss: new Float(loss) });

function nested(levels: number): Value {
  return levels === 0 ? [] : [nested(levels - 1)];
}

const VALUES: { [name: string]: () => Members } = {
  "long-integer": () => step(10n ** 400n),
  "bad-utf8": () => note("\ud800"),
  "twin-keys": () => ({ kind: "mine", m: { "\ud800": 1, "\ud801": 2 } }),
  sparse: () => ({ kind: "mine", m: new Array<Value>(2) }),
  nan: () => step(1000, NaN),
  deep: () => ({ kind: "mine", m: nested(100) }),
  long: () => note("x".repeat(17_000_000)),
  "no-kind": () => ({ m: 1 }),
};

function record(command: string, rest: string): Members {
  const [number = 0, size = 0] = rest.split(" ").map(Number);
  switch (command) {
    case "start": return { kind: "run_start", run_id: "demo" };
    case "resume": return { kind: "run_resume", from_step: number };
    case "step": return step(number);
    case "note": return { ...note("x".repeat(size)), step: number };
    case "entry": return { step: number, wall_time_ms: 1, loss: 0.5, grad_norm: 0.5, throughput_samples_per_sec: 1, extra: {} };
    case "end": return { kind: "run_end", reason: "completed" };
    default: throw new RefusedError("no such command");
  }
}

function cut(text: string): [string, string] {
  const at = text.indexOf(" ");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

async function readAll(path: string): Promise<void> {
  const records = readFile(path);
  while (!(await records.next()).done);
}

async function obey(line: string): Promise<string> {
  const [command, rest] = cut(line);
  if (command === "open") {
    const [exist, directory] = cut(rest);
    writer = Writer.open(directory, { exist: exist as Exist });
  } else if (command === "append") writer = Writer.append(rest, "metrics/v1");
  else if (command === "fork") return "untestable Node.js programs do not fork";
  else if (command === "close") writer?.close();
  else if (command === "read") await readAll(rest);
  else if (!writer) throw new RefusedError("nothing is open");
  else if (command === "dropped") return `ok ${writer.dropped}`;
  else if (command !== "value") writer.write(record(command, rest));
  else if (VALUES[rest]) writer.write(VALUES[rest]());
  else return "untestable JavaScript has no such value";
  return "ok";
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer: string;
  try {
    answer = await obey(line);
  } catch (error) {
    if (!(error instanceof RefusedError || error instanceof StreamRefusedError || error instanceof StreamWriteError)) throw error;
    answer = `failed ${error.message}`.replaceAll("\n", " ");
  }
  console.log(answer);
}
