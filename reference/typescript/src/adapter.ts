/** Lets the conformance runner test this package: see conformance/PROTOCOL.md. */

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { encode, RefusedError } from "./canonical.js";
import { StreamChecker } from "./checker.js";
import { openBundle } from "./node.js";
import { fallbackProfile } from "./profiles.js";
import { type Mode, read, type Record, type Report, StreamError } from "./reader.js";
import { Sequence } from "./sequence.js";
import type { ProfileName } from "./tables.js";
import { tagRecord, untag } from "./tagging.js";
import type { Value } from "./values.js";

const HELLO = {
  hello: {
    protocol: 1,
    name: "toyspec-ts",
    language: "TypeScript",
    version: "0.1.0",
    profiles: ["toy/v1", "metrics/v1", "kaun/v1"],
    roles: ["reader", "writer", "canonical-writer", "checker"],
    lines: true,
    capabilities: ["line_limit", "own_kinds", "findings_offset"],
  },
};

interface Request {
  id?: number;
  role: string;
  stream?: string;
  directory?: string;
  mode?: Mode;
  name?: string;
  profile?: ProfileName;
  max_line_bytes?: number;
  records?: unknown[];
}

type Answer = { [key: string]: unknown };

function readerAnswer(request: Request, data: Uint8Array): Answer {
  const { mode, profile, name, max_line_bytes: maxLineBytes } = request;
  const records: Record[] = [];
  const reading = read([data], { mode, profile, name, maxLineBytes });
  let report: Report;
  let refused: StreamError | null = null;
  try {
    let step = reading.next();
    for (; !step.done; step = reading.next()) records.push(step.value);
    report = step.value;
  } catch (error) {
    if (!(error instanceof StreamError)) throw error;
    refused = error;
    report = error.report;
  }
  return {
    outcome: refused ? "fails" : "read",
    profile: report.profile,
    state: report.state,
    records: records.map((record) => tagRecord(record.node, report.profile)),
    count: report.records,
    committed: report.committed,
    fragment: report.fragment,
    gap_bytes: report.gapBytes,
    gaps: report.gaps.map(({ offset, length, reason }) => ({ offset, length, reason })),
    ...(refused && report.gaps.length > 0 ? { error: { line: refused.line, offset: refused.offset, reason: refused.reason } } : {}),
  };
}

function checkerAnswer(request: Request, data: Uint8Array | null): Answer {
  const { profile, name, max_line_bytes: maxLineBytes } = request;
  const bundle = data === null ? openBundle(request.directory!) : null;
  const checker = new StreamChecker({
    profile, maxLineBytes, fallback: bundle?.fallback ?? fallbackProfile(name), directory: bundle?.name,
  });
  checker.feed(data ?? bundle!.stream);
  const report = checker.finish(bundle?.sidecars ?? []);
  const findings = report.findings.map(({ rule, severity, line, offset, pointer, sidecar }) => ({
    rule, severity, line, offset, pointer, ...(sidecar ? { sidecar } : {}),
  }));
  return { profile: report.profile, state: report.state, valid: report.valid, suppressed: report.suppressed, findings };
}

function writerAnswer(request: Request): Answer {
  try {
    const sequence = request.role === "writer" && request.profile === "toy/v1" ? new Sequence() : null;
    const lines = (request.records ?? []).map((tagged) => {
      const record = untag(tagged) as { [key: string]: Value };
      const admitted = sequence?.admit(record) ?? record;
      sequence?.note(admitted);
      return encode(request.profile!, admitted);
    });
    return { outcome: "written", stream: Buffer.from(lines.join("")).toString("base64") };
  } catch (error) {
    if (error instanceof RefusedError) return { outcome: "refused", reason: error.message };
    throw error;
  }
}

function answer(request: Request, data: Uint8Array | null): Answer {
  switch (request.role) {
    case "reader":
      return data === null ? { untestable: "this adapter reads streams" } : readerAnswer(request, data);
    case "checker":
      return data === null && request.directory === undefined ? { untestable: "no stream" } : checkerAnswer(request, data);
    case "writer":
    case "canonical-writer":
      return request.records ? writerAnswer(request) : { untestable: "this adapter writes records" };
  }
  return { untestable: `no role ${request.role}` };
}

async function answerLines(): Promise<void> {
  console.log(JSON.stringify(HELLO));
  for await (const line of createInterface({ input: process.stdin })) {
    let reply: Answer;
    let id: number | undefined;
    try {
      const request = JSON.parse(line) as Request;
      id = request.id;
      reply = answer(request, request.stream === undefined ? null : Buffer.from(request.stream, "base64"));
    } catch (error) {
      reply = { error: String(error) };
    }
    console.log(JSON.stringify({ id, ...reply }));
  }
}

function answerOnce(role: string, options: string[]): number {
  const request: Request = { role };
  for (let i = 0; i + 1 < options.length; i += 2) {
    const name = options[i]!.slice(2).replaceAll("-", "_");
    Object.assign(request, { [name]: name === "max_line_bytes" ? Number(options[i + 1]) : options[i + 1] });
  }
  const input = readFileSync(0);
  if (role === "writer" || role === "canonical-writer") {
    request.records = input.toString().split("\n").filter(Boolean).map((line) => JSON.parse(line) as unknown);
    const reply = answer(request, null);
    if (reply["outcome"] !== "written") {
      console.error(reply["reason"]);
      return 1;
    }
    process.stdout.write(Buffer.from(reply["stream"] as string, "base64"));
    return 0;
  }
  const reply = answer(request, request.directory === undefined ? input : null);
  console.log(JSON.stringify(reply));
  return reply["outcome"] === "read" || reply["valid"] === true ? 0 : 1;
}

const [call, role, ...options] = process.argv.slice(2);
if (call === "--hello") console.log(JSON.stringify(HELLO));
else if (call === "--lines") await answerLines();
else if (call === "--oneshot" && role) process.exitCode = answerOnce(role, options);
else {
  console.error("usage: adapter --hello | --lines | --oneshot ROLE [--option value …]");
  process.exitCode = 2;
}
