/** What the adapter answers to each role: see conformance/PROTOCOL.md. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type Bundle, openBundle } from "./bundles.js";
import { encode, RefusedError } from "./canonical.js";
import { type FileReport, reportMissing, StreamChecker } from "./checker.js";
import { hasLocks, ranksIn, StreamRefusedError, StreamWriteError, summarizeDirectory, Writer } from "./node.js";
import { type Mode, read, type Record, type Report, StreamError } from "./reader.js";
import { Sequence } from "./sequence.js";
import { type ProfileName, PROFILES } from "./tables.js";
import { tagRecord, tagValue, untag } from "./tagging.js";
import { Binary32, Float, type Value } from "./values.js";
import { type KaunSummary, type MetricsSummary, type Point, summarize, type ToySummary } from "./views.js";

export interface Request {
  id?: number;
  role: string;
  stream?: string;
  directory?: string;
  mode?: Mode;
  name?: string;
  profile?: ProfileName;
  max_line_bytes?: number;
  records?: unknown[];
  run_id?: string;
  exist?: "replace" | "fail" | "resume" | "append";
  end?: "closed" | "errored" | "interrupted" | "killed" | "held";
  error?: string;
  release?: string;
  media?: string[];
}

export type Answer = { [key: string]: unknown };

/** A stream with what determines its profile. */
interface Input {
  stream: Uint8Array;
  name: string | undefined;
  bundle: Bundle | undefined;
}

/** Writers that are kept open, by directory. */
const held = new Map<string, Writer>();

/** Returns the answer to a request; *data* is the stream that came with it. */
export function answer(request: Request, data: Uint8Array | null): Answer {
  switch (request.role) {
    case "reader":
      return withInput(request, data, readerAnswer);
    case "checker":
      return withInput(request, data, checkerAnswer);
    case "summarizer":
      return withInput(request, data, summarizerAnswer);
    case "writer":
      if (request.release !== undefined) return released(request.release);
      if (request.directory !== undefined) return sessionAnswer(request);
      return request.records ? writerAnswer(request) : { untestable: "this adapter writes records" };
    case "canonical-writer":
      return request.records ? writerAnswer(request) : { untestable: "this adapter writes records" };
  }
  return { untestable: `no role ${request.role}` };
}

function withInput(request: Request, data: Uint8Array | null, make: (request: Request, input: Input) => Answer): Answer {
  if (data !== null) return make(request, { stream: data, name: request.name, bundle: undefined });
  if (request.directory === undefined) return { untestable: "there is no stream" };
  const bundle = openBundle(request.directory, request.max_line_bytes, request.name);
  if (bundle === null) return request.role === "checker" ? verdictAnswer(reportMissing(request.directory)) : { error: "the directory holds no stream" };
  return make(request, { stream: bundle.stream, name: bundle.name, bundle });
}

function readerAnswer({ mode, profile, max_line_bytes: maxLineBytes, directory, name: named }: Request, { stream, name, bundle }: Input): Answer {
  const records: Record[] = [];
  const reading = read([stream], { mode, profile, name, maxLineBytes, hasManifest: bundle?.manifest !== undefined });
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
    ...(directory !== undefined && named === undefined ? { ranks: ranksIn(directory) } : {}),
    ...(refused && report.gaps.length > 0 ? { error: { line: refused.line, offset: refused.offset, reason: refused.reason } } : {}),
  };
}

function checkerAnswer({ profile, max_line_bytes: maxLineBytes }: Request, { stream, name, bundle }: Input): Answer {
  const directory = name === PROFILES["toy/v1"].file ? bundle?.directory : undefined;
  const hasManifest = bundle?.manifest !== undefined;
  const checker = new StreamChecker({ profile, maxLineBytes, name, hasManifest, directory, beside: bundle?.beside });
  checker.feed(stream);
  return verdictAnswer(checker.finish(bundle?.sidecars ?? []));
}

function verdictAnswer(report: FileReport): Answer {
  const findings = report.findings.map(({ rule, severity, line, offset, pointer, sidecar }) => ({
    rule, severity, line, offset, pointer, ...(sidecar ? { sidecar } : {}),
  }));
  return { profile: report.profile, state: report.state, valid: report.valid, suppressed: report.suppressed, findings };
}

function summarizerAnswer({ profile, max_line_bytes: maxLineBytes, directory }: Request, { stream, name }: Input): Answer {
  const options = { profile, maxLineBytes };
  const { report, ...found } = directory === undefined ? summarize([stream], { ...options, name }) : summarizeDirectory(directory, options)!;
  const summary =
    found.profile === "toy/v1" ? toyValue(found.views)
    : found.profile === "metrics/v1" ? metricsValue(found.views)
    : found.profile === "kaun/v1" ? kaunValue(found.views)
    : {};
  return { profile: report.profile, state: report.state, summary: tagValue(summary) };
}

type Members = { [key: string]: Value };
type Wrap = new (value: number) => Float | Binary32;

function wrapped(value: number | null | undefined, type: Wrap): Value {
  return typeof value === "number" ? new type(value) : (value as Value);
}

function toyValue({ steps, loss_curve, final_loss, duration_seconds, ranks, first_stopped: first, ...views }: ToySummary): Members {
  const rows = ranks?.map(({ rank, steps, ...row }): Members => ({ ...row, rank: BigInt(rank), steps: BigInt(steps) }));
  return {
    ...views, ranks: rows as Value, first_stopped: (first === undefined ? undefined : BigInt(first)) as Value, steps: BigInt(steps), loss_curve: loss_curve.map((loss) => wrapped(loss, Float)),
    final_loss: wrapped(final_loss, Float), duration_seconds: wrapped(duration_seconds, Float),
  };
}

function metricsValue({ steps, last_step, loss_curve, non_finite, duration_seconds, ...losses }: MetricsSummary): Members {
  const narrow = Object.entries(losses).map(([name, loss]) => [name, wrapped(loss, Binary32)]);
  return {
    ...(Object.fromEntries(narrow) as Members), steps: BigInt(steps), last_step: last_step as Value, non_finite: BigInt(non_finite),
    loss_curve: loss_curve.map((loss) => wrapped(loss, Binary32)), duration_seconds: wrapped(duration_seconds, Float),
  };
}

function kaunValue({ run_id, tags }: KaunSummary): Members {
  const found = Object.create(null) as Members;
  const point = ({ value, ...place }: Point): Members => ({ ...place, value: wrapped(value, Float) });
  for (const [name, { count, latest, best }] of tags) {
    found[name] = { count: BigInt(count), latest: point(latest), ...(best ? { best: point(best) } : {}) };
  }
  return { run_id: run_id as Value, tags: found };
}

/** Runs an action of a writer; what the writer refuses becomes an answer. */
function refusable(action: () => Answer): Answer {
  try {
    return action();
  } catch (error) {
    const isRefusal = error instanceof RefusedError || error instanceof StreamRefusedError || error instanceof StreamWriteError;
    if (isRefusal) return { outcome: "refused", reason: error.message };
    throw error;
  }
}

function recordsOf(request: Request): Members[] {
  return (request.records ?? []).map((tagged) => untag(tagged) as Members);
}

function writerAnswer(request: Request): Answer {
  return refusable(() => {
    if (request.role === "writer" && request.profile !== "toy/v1") return { outcome: "written", stream: appended(request) };
    const sequence = request.role === "writer" ? new Sequence() : null;
    const lines = recordsOf(request).map((record) => {
      const admitted = sequence?.admit(record) ?? record;
      sequence?.note(admitted);
      return encode(request.profile!, admitted);
    });
    return { outcome: "written", stream: Buffer.from(lines.join("")).toString("base64") };
  });
}

/** Writes the records with a Writer, into a directory of their own; returns the stream in base64. */
function appended(request: Request): string {
  const directory = mkdtempSync(join(tmpdir(), "adapter-"));
  try {
    const records = recordsOf(request);
    const writer = opened({ ...request, directory }, records);
    try {
      for (const record of records) writer.write(record);
    } finally {
      writer.close();
    }
    return readFileSync(writer.path).toString("base64");
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function sessionAnswer(request: Request): Answer {
  const { directory, end } = request;
  if (end === "held" && !hasLocks()) return { untestable: "Node.js has no file locks; the package koffi is not installed" };
  return refusable(() => {
    const records = recordsOf(request);
    const writer = opened(request, records);
    const contents = (request.media ?? []).map((text) => Buffer.from(text, "base64"));
    try {
      for (const record of records) {
        const content = record["kind"] === "media" ? contents.shift() : undefined;
        if (content) writer.writeMedia(record, content);
        else writer.write(record);
      }
      leave(writer, request);
      if (end === "held") held.set(directory!, writer);
    } finally {
      if (held.get(directory!) !== writer) writer.close();
    }
    return { outcome: "written" };
  });
}

function opened({ directory, profile, exist = "replace" }: Request, records: Members[]): Writer {
  if (profile !== "toy/v1") return Writer.append(join(directory!, PROFILES[profile!].file), profile!);
  if (exist === "append") throw new RefusedError("a toy/v1 stream holds one run; it is not appended to");
  // Records without times are written on the clock that programs have.
  return Writer.open(directory!, records.some((record) => "t" in record) ? { exist, now: () => 0 } : { exist });
}

function leave(writer: Writer, { end, error = "" }: Request): void {
  if (end === "closed") writer.end("completed");
  else if (end === "errored") writer.end("errored", { error });
  else if (end === "interrupted") writer.end("interrupted");
}

function released(directory: string): Answer {
  held.get(directory)?.close();
  held.delete(directory);
  return { outcome: "written" };
}
