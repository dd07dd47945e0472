/** Judges one stream of a selection, with the files beside it. */

import { type FileReport, reportMissing, type Sidecar, StreamChecker } from "../src/checker.js";
import { hasManifest } from "../src/sidecars.js";
import { LIMITS } from "../src/tables.js";
import { vet } from "../src/vetting.js";
import { ByteCounter, type ByteMap } from "./byte-map.js";
import { MOST_PARTS } from "./curve.js";
import { FactsTaker, type RunFacts } from "./run-facts.js";
import type { SidecarFile, Stream } from "./selection.js";

/** Everything that the page shows of one stream; it can be moved between threads. */
export interface Verdict {
  report: FileReport;
  bytes: ByteMap | null;
  /** The first bytes after the last LF. */
  fragment: Uint8Array;
  facts: RunFacts | null;
}

/** A stream that could not be read to its end. */
export interface ReadError {
  path: string;
  message: string;
}

export type Progress = (bytes: number) => void;

const CHUNK_BYTES = 1 << 18;
const FRAGMENT_BYTES = 400;

/** Returns the verdict on a stream, with at most *mostParts* parts of each curve; rejects where it cannot be read. */
export async function judge(stream: Stream, onProgress: Progress = () => {}, mostParts: number = MOST_PARTS): Promise<Verdict> {
  const { path, blob } = stream;
  if (blob === null) return { report: reportMissing(path), bytes: null, fragment: new Uint8Array(), facts: null };
  const sidecars = await Promise.all(stream.sidecars.map(readSidecar));
  const counter = new ByteCounter(blob.size);
  const facts = new FactsTaker(mostParts);
  const watch = {
    record: facts.record.bind(facts),
    gap: counter.gap.bind(counter),
  };
  const checker = new StreamChecker({ path, name: stream.name, hasManifest: hasManifest(sidecars), directory: stream.directory, watch });
  let committed = 0;
  for await (const chunk of chunks(blob)) {
    const end = chunk.lastIndexOf(0x0a);
    if (end >= 0) committed = checker.size + end + 1;
    checker.feed(chunk);
    onProgress(checker.size);
  }
  const report = checker.finish(sidecars);
  if (report.profile === "kaun/v1") takeManifest(facts, sidecars);
  const bytes = counter.map(report.bytes, report.bytes - committed);
  const fragment = new Uint8Array(await blob.slice(committed, committed + FRAGMENT_BYTES).arrayBuffer());
  return { report, bytes, fragment, facts: facts.facts() };
}

/** Reads slice by slice, which holds one of them in memory; the stream of a blob reads ahead as it likes. */
async function* chunks(blob: Blob): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < blob.size; at += CHUNK_BYTES) yield new Uint8Array(await blob.slice(at, at + CHUNK_BYTES).arrayBuffer());
}

async function readSidecar({ name, blob }: SidecarFile): Promise<Sidecar> {
  if (blob === null) return { name, data: null, trouble: "it is no regular file" };
  if (blob.size > LIMITS.max_line_bytes) return { name, data: null, trouble: `it is longer than ${LIMITS.max_line_bytes} bytes` };
  return { name, data: new Uint8Array(await blob.arrayBuffer()) };
}

function takeManifest(facts: FactsTaker, sidecars: readonly Sidecar[]): void {
  const manifest = sidecars.find((sidecar) => sidecar.name === "run.json")?.data;
  const value = manifest ? vet(manifest, true).value : null;
  if (value) facts.manifest(value);
}
