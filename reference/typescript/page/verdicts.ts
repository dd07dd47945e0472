/** Checks one stream of a selection, with the files beside it. */

import { type FileReport, reportMissing, StreamChecker } from "../src/checker.js";
import type { Look } from "../src/looks.js";
import { streamName } from "../src/profiles.js";
import { readAsync, type Record, textIn } from "../src/reader.js";
import { hasManifest } from "../src/sidecars.js";
import type { Beside } from "../src/stream-rules.js";
import { PROFILES } from "../src/tables.js";
import { ByteCounter, type ByteMap } from "./byte-map.js";
import { addSealFindings } from "./seals.js";
import type { RunPlace, Stream } from "./selection.js";
import { readSidecar } from "./sidecar-files.js";
import { chunks, isGzip } from "./unpacking.js";

/** Everything that the page shows of one stream; it can be moved between threads. */
export interface Verdict {
  report: FileReport;
  bytes: ByteMap | null;
  /** The first bytes after the last LF. */
  fragment: Uint8Array;
  /** What the file is known as, if it is not a log. */
  look: Look | null;
  /** True where the file is compressed, and what it holds was checked. */
  isPacked: boolean;
  /** True where the bundle differs from its seal. */
  breaksSeal: boolean;
}

/** A stream that could not be read to its end. */
export interface ReadError {
  path: string;
  message: string;
}

/** A file below a folder that has the name of a stream and another format. */
export interface Skipped {
  path: string;
  /** What the file looks like. */
  message: string;
}

export type Progress = (bytes: number) => void;

const FRAGMENT_BYTES = 400;
const NOTHING = new Uint8Array();

/** Returns the verdict on a stream; rejects where it cannot be read. */
export async function checkStream(stream: Stream, onProgress: Progress = () => {}): Promise<Verdict> {
  const { path, blob } = stream;
  if (blob === null) return { report: reportMissing(path), bytes: null, fragment: NOTHING, look: null, isPacked: false, breaksSeal: false };
  const sidecars = await Promise.all(stream.sidecars.map(readSidecar));
  const counter = new ByteCounter(blob.size);
  const watch = { gap: counter.gap.bind(counter) };
  const { name, directory } = stream;
  const beside = stream.place && (await besideAt(stream.place));
  const checker = new StreamChecker({ path, name, hasManifest: hasManifest(sidecars), directory, beside, watch });
  let committed = 0;
  let fragment: Uint8Array = NOTHING;
  for await (const chunk of chunks(blob, onProgress)) {
    const end = chunk.lastIndexOf(0x0a);
    if (end >= 0) committed = checker.size + end + 1;
    fragment = joined(end >= 0 ? NOTHING : fragment, chunk.subarray(end + 1));
    checker.feed(chunk);
  }
  const report = checker.finish(streamName(stream.name) === PROFILES["toy/v1"].file ? sidecars : []);
  const isBroken = stream.sealed !== undefined && (await addSealFindings(report, stream.name, stream.sealed));
  const bytes = counter.map(report.bytes, report.bytes - committed);
  return { report, bytes, fragment, look: checker.look ?? null, isPacked: await isGzip(blob), breaksSeal: isBroken };
}

/** Returns what the rules of the stream of a rank ask for. */
async function besideAt({ rank, ofRankZero, media }: RunPlace): Promise<Beside> {
  const first = rank > 0 ? await firstRecord(ofRankZero) : undefined;
  return {
    rank,
    first: (kind, field) => first && textIn(first, kind, field),
    isFile: (file) => media.has(file.slice(file.indexOf("/") + 1)),
  };
}

/** Returns the first readable record of a stream; undefined where there is none. */
async function firstRecord(blob: Blob): Promise<Record | undefined> {
  try {
    const first = await readAsync(chunks(blob, () => {}), { mode: "salvage", name: PROFILES["toy/v1"].file }).next();
    return first.done ? undefined : first.value;
  } catch {
    // Its own verdict says why it cannot be read.
    return undefined;
  }
}

/** Returns the first bytes of what is after the last LF so far. */
function joined(start: Uint8Array, more: Uint8Array): Uint8Array {
  if (more.length === 0 || start.length >= FRAGMENT_BYTES) return start;
  const whole = new Uint8Array(Math.min(start.length + more.length, FRAGMENT_BYTES));
  whole.set(start);
  whole.set(more.subarray(0, whole.length - start.length), start.length);
  return whole;
}
