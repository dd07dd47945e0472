// Lets `toyspec conform` ask your emitter; the protocol is conformance/PROTOCOL.md. Edit HELLO and `write`.

import fs from "node:fs";
import { createInterface } from "node:readline";

const HELLO = {
  protocol: 1,
  name: "my-emitter",
  language: "JavaScript",
  version: "0.1",
  roles: ["writer"],
  profiles: ["toy/v1"],
  revisions: ["1.3"],
  lines: true,
  capabilities: [],
};

// Throw this if your emitter refuses a record; the text says why.
class Refused extends Error {}

// Returns the text that your emitter writes for the records; an integer beyond 2^53 is a BigInt, any other number a
// number, NaN and infinities among them. The `t` of a record is the time on the clock of the run.
function write(records) {
  throw new Error("still to do: call your emitter in `write` of adapter.mjs");
}

// A value with the numbers that its tags stand for.
function untagged(value) {
  if (Array.isArray(value)) return value.map(untagged);
  if (typeof value !== "object" || value === null) return value;
  const [[tag, inner] = [], ...others] = Object.entries(value);
  if (others.length === 0 && tag === "int") return Number.isSafeInteger(Number(inner)) ? Number(inner) : BigInt(inner);
  if (others.length === 0 && (tag === "float" || tag === "f32")) {
    return inner.endsWith("inf") ? (inner.startsWith("-") ? -Infinity : Infinity) : Number(inner);
  }
  const members = others.length === 0 && tag === "object" ? inner : value;
  return Object.fromEntries(Object.entries(members).map(([key, item]) => [key, untagged(item)]));
}

// The answer to a request; no error ends the program.
function answer(records) {
  try {
    return { outcome: "written", stream: Buffer.from(write(records.map(untagged))).toString("base64") };
  } catch (error) {
    return error instanceof Refused ? { outcome: "refused", reason: error.message } : { error: String(error) };
  }
}

const say = (message) => fs.writeSync(1, `${JSON.stringify(message)}\n`);

if (process.argv[2] === "--oneshot") {
  const lines = fs.readFileSync(0, "utf8").split("\n").filter(Boolean);
  const found = answer(lines.map((line) => JSON.parse(line)));
  process.stderr.write(found.reason ?? found.error ?? "");
  process.stdout.write(Buffer.from(found.stream ?? "", "base64"));
  process.exitCode = "error" in found ? 2 : Number(found.outcome === "refused");
} else {
  say({ hello: HELLO });
  if (process.argv[2] === "--lines") {
    for await (const line of createInterface({ input: process.stdin })) {
      const { id, records } = JSON.parse(line);
      say({ id, ...answer(records) });
    }
  }
}
