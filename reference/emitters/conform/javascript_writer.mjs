// Lets the fault runner drive the JavaScript emitter: see PROTOCOL.md, durable writers.

import fs from "node:fs";
import { createInterface } from "node:readline";

import { Run } from "../toyspec_emitter.mjs";

const nested = (levels) => (levels === 0 ? [] : [nested(levels - 1)]);
const RECORDS = {
  "long-integer": { kind: "step", step: 10n ** 400n },
  "bad-utf8": { kind: "note", text: "\ud800" },
  "twin-keys": { kind: "mine", m: { "\ud800": 1, "\ud801": 2 } },
  sparse: { kind: "mine", m: new Array(2) },
  deep: { kind: "mine", m: nested(100) },
  long: { kind: "note", text: "x".repeat(17_000_000) },
  "no-kind": { m: 1 },
};

let run;

const said = (isWritten) => (isWritten ? "ok" : `failed ${run.error}`.replaceAll("\n", " "));

function answer(line) {
  const [command, ...words] = line.split(" ");
  const rest = words.join(" ");
  if (["append", "entry", "bundle"].includes(command)) return "untestable the emitter writes toy/v1 alone, without a RunBundle";
  if (command === "fork") return "untestable JavaScript programs do not fork";
  if (command === "open") {
    const next = new Run(words.slice(1).join(" "), { exist: words[0], runId: "demo" });
    if (next.error !== null) return `failed ${next.error}`;
    run = next;
  } else if (command === "start") return said(run.start());
  else if (command === "resume") return said(run.resume(Number(rest)));
  else if (command === "step") return said(run.step(Number(rest), { loss: 0.5 }));
  else if (command === "note") return said(run.note("x".repeat(Number(words[1])), { step: Number(words[0]) }));
  else if (command === "end") return said(run.end());
  else if (command === "dropped") return `ok ${run.dropped}`;
  else if (command === "read") fs.readFileSync(rest);
  else if (command === "close") run?.close();
  else if (command === "value" && rest === "nan") return said(run.step(1000, { loss: NaN }));
  else if (command === "value") return rest in RECORDS ? said(run.write(RECORDS[rest])) : "untestable JavaScript has no such value";
  return "ok";
}

for await (const line of createInterface({ input: process.stdin })) fs.writeSync(1, `${answer(line)}\n`);
