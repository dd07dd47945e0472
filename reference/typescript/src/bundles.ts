/** Opens bundles: the stream in the directory of a run, and the files beside it. */

import { createReadStream, existsSync, lstatSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

import { rankOf } from "./profiles.js";
import { read, type ReadOptions, readAsync, type Record, type Report, textIn } from "./reader.js";
import type { ObjectNode } from "./scanner.js";
import { manifestIn, type Sidecar, SIDECARS } from "./sidecars.js";
import type { Beside } from "./stream-rules.js";
import { LIMITS, PROFILES } from "./tables.js";

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

/** Returns the stream of a bundle and the files beside it, none of which may be longer than a line; null where there is no stream. */
export function openBundle(directory: string, maxLineBytes: number = LIMITS.max_line_bytes): Bundle | null {
  const name = streamIn(directory);
  if (!existsSync(join(directory, name))) return null;
  const stream = readFileSync(join(directory, name));
  const beside = sidecarsIn(directory, maxLineBytes);
  const sidecars = name === EVENTS ? beside : [];
  return { directory: basename(resolve(directory)), name, stream, sidecars, manifest: manifestIn(beside), beside: besideIn(directory, name) };
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
