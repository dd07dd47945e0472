/** Opens bundles: the stream in the directory of a run, and the files beside it. */

import { createReadStream, existsSync, lstatSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

import { rankOf } from "./profiles.js";
import { read, type ReadOptions, readAsync, type Record, type Report, textIn } from "./reader.js";
import type { ObjectNode } from "./scanner.js";
import { manifestIn, type Sidecar, SIDECARS } from "./sidecars.js";
import type { Beside } from "./stream-rules.js";
import { LIMITS, PROFILES } from "./tables.js";
import { firstStopped, rankSummary, summarize, type SummarizeOptions, type Summary } from "./views.js";

const EVENTS = PROFILES["toy/v1"].file;

/** What is in the directory of a run. */
export interface Bundle {
  /** Name of the directory. */
  directory: string;
  /** Name of the stream's file. */
  name: string;
  stream: Uint8Array;
  /** What takes part in the verdict on events.jsonl; empty for metrics.jsonl. */
  sidecars: Sidecar[];
  /** The manifest of kaun/v1 beside the stream. */
  manifest: ObjectNode | undefined;
  /** What else the rules of the stream ask for; undefined where its name implies no rank. */
  beside: Beside | undefined;
}

/**
 * Returns a stream of a bundle, of rank 0 unless another file is named, and the files beside it, none of which may be
 * longer than a line; null where there is no such stream.
 */
export function openBundle(directory: string, maxLineBytes: number = LIMITS.max_line_bytes, name: string = streamIn(directory)): Bundle | null {
  if (!existsSync(join(directory, name))) return null;
  const stream = readFileSync(join(directory, name));
  const beside = sidecarsIn(directory, maxLineBytes);
  const sidecars = name === EVENTS ? beside : [];
  return { directory: basename(resolve(directory)), name, stream, sidecars, manifest: manifestIn(beside), beside: besideIn(directory, name) };
}

/** Returns the ranks from 1 on that have a stream in the directory of a run, in order. */
export function ranksIn(directory: string): number[] {
  const ranks = readdirSync(directory).filter((name) => statSync(join(directory, name), { throwIfNoEntry: false })?.isFile()).map(rankOf);
  return ranks.filter((rank) => rank !== undefined && rank > 0).sort((a, b) => a! - b!) as number[];
}

/** Returns the name of the stream of a rank, which `readFile` reads in the directory of its run. */
export function rankFile(rank: number): string {
  return rank === 0 ? EVENTS : `events.rank-${rank}.jsonl`;
}

/** Returns the views of the run in a directory, those of its ranks included; null where there is no stream. */
export function summarizeDirectory(directory: string, options: Omit<SummarizeOptions, "manifest" | "directory" | "name"> = {}): Summary | null {
  const bundle = openBundle(directory, options.maxLineBytes);
  if (bundle === null) return null;
  const { stream, manifest, name } = bundle;
  const found = summarize([stream], { ...options, manifest, name, directory: bundle.directory });
  const others = ranksIn(directory);
  if (found.profile !== "toy/v1" || others.length === 0) return found;
  const ranks = [rankSummary(0, found), ...others.map((rank) => {
    const name = rankFile(rank);
    return rankSummary(rank, summarize([readFileSync(join(directory, name))], { ...options, name, profile: "toy/v1" }));
  })];
  const first = firstStopped(ranks);
  return { ...found, views: { ...found.views, ranks, ...(first === undefined ? {} : { first_stopped: first }) } };
}

/** Returns what the rules of the stream of a name in a directory ask for; undefined where the name implies no rank. */
export function besideIn(directory: string, name: string): Beside | undefined {
  const rank = rankOf(name);
  if (rank === undefined) return undefined;
  return {
    rank,
    first(kind, field) {
      if (!existsSync(join(directory, EVENTS))) return undefined;
      const first = read([readFileSync(join(directory, EVENTS))], { mode: "salvage", name: EVENTS }).next();
      return first.done ? undefined : textIn(first.value, kind, field);
    },
    isFile(path) {
      // No link is followed, and none on the way.
      const parts = path.split("/");
      return parts.every((_, at) => {
        const found = lstatSync(join(directory, ...parts.slice(0, at + 1)), { throwIfNoEntry: false });
        return found !== undefined && (at === parts.length - 1 ? found.isFile() : found.isDirectory());
      });
    },
  };
}

/** Yields the records of a stream or bundle at a path, and returns the report; see `readAsync`. */
export async function* readFile(path: string, options: ReadOptions = {}): AsyncGenerator<Record, Report> {
  const stream = statSync(path).isDirectory() ? join(path, streamIn(path)) : path;
  const manifest = manifestIn(sidecarsIn(dirname(stream), options.maxLineBytes));
  return yield* readAsync(createReadStream(stream), { name: stream, hasManifest: manifest !== undefined, ...options });
}

function streamIn(directory: string): string {
  return existsSync(join(directory, EVENTS)) ? EVENTS : PROFILES["metrics/v1"].file;
}

/** Returns the files beside a stream in a directory; one of more bytes than the limit is not read. */
export function sidecarsIn(directory: string, limit: number = LIMITS.max_line_bytes): Sidecar[] {
  return SIDECARS.filter((name) => existsSync(join(directory, name))).map((name) => readSidecar(directory, name, limit));
}

function readSidecar(directory: string, name: Sidecar["name"], limit: number): Sidecar {
  const path = join(directory, name);
  try {
    const status = statSync(path);
    if (!status.isFile()) return { name, data: null, failure: "it is not a regular file" };
    if (status.size > limit) return { name, data: null, failure: `it is longer than ${limit} bytes` };
    return { name, data: readFileSync(path) };
  } catch (error) {
    return { name, data: null, failure: String(error) };
  }
}
