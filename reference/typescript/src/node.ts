/** Files: what needs Node. Writes streams and opens bundles. */

import {
  closeSync, createReadStream, existsSync, fstatSync, fsyncSync, ftruncateSync, mkdirSync, openSync, readFileSync, readSync, renameSync, statSync, writeSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

import { encode } from "./canonical.js";
import { fallbackProfile } from "./profiles.js";
import { read, readAsync, type Record, type Report } from "./reader.js";
import { LIMITS, type ProfileName, PROFILES } from "./tables.js";
import { Sequence } from "./sequence.js";
import { hasManifest, type Sidecar, SIDECARS } from "./sidecars.js";
import { Float, type Value } from "./values.js";

/** What is in the directory of a run. */
export interface Bundle {
  /** Name that the run's id is held against; absent where the stream is metrics.jsonl. */
  name: string | undefined;
  stream: Uint8Array;
  sidecars: Sidecar[];
  fallback: ProfileName;
}

/** Returns the stream of a bundle and the files beside it; throws where there is no stream. */
export function openBundle(directory: string): Bundle {
  const name = existsSync(join(directory, "events.jsonl")) ? "events.jsonl" : "metrics.jsonl";
  if (name === "metrics.jsonl") return { name: undefined, stream: readFileSync(join(directory, name)), sidecars: [], fallback: "metrics/v1" };
  const sidecars: Sidecar[] = [];
  for (const name of SIDECARS) if (existsSync(join(directory, name))) sidecars.push(readSidecar(directory, name));
  const stream = readFileSync(join(directory, name));
  return { name: basename(resolve(directory)), stream, sidecars, fallback: fallbackProfile(name, hasManifest(sidecars)) };
}

function readSidecar(directory: string, name: Sidecar["name"]): Sidecar {
  const path = join(directory, name);
  try {
    const status = statSync(path);
    if (!status.isFile()) return { name, data: null, trouble: "it is no regular file" };
    if (status.size > LIMITS.max_line_bytes) return { name, data: null, trouble: `it is longer than ${LIMITS.max_line_bytes} bytes` };
    return { name, data: readFileSync(path) };
  } catch (error) {
    return { name, data: null, trouble: String(error) };
  }
}

/** Yields the records of a stream or bundle at a path, and returns the report; see `readAsync`. */
export async function* readFile(path: string, options: Parameters<typeof readAsync>[1] = {}): AsyncGenerator<Record, Report> {
  const stream = statSync(path).isDirectory() ? join(path, existsSync(join(path, "events.jsonl")) ? "events.jsonl" : "metrics.jsonl") : path;
  return yield* readAsync(createReadStream(stream), { name: stream, ...options });
}

/** What a writer does with a stream that is there. */
export type Exist = "replace" | "fail" | "resume";

/** Thrown where a stream cannot be written to: it is there, complete or damaged. */
export class StreamRefusedError extends Error {}

type Members = { [key: string]: Value };

/**
 * Appends records to one stream: one write for each record with its LF. Node has no file locks, so keep to one writer
 * for each stream. A toy/v1 record without t gets the seconds since the start.
 */
export class Writer {
  private descriptor: number | null;
  private committed: number;
  private readonly sequence = new Sequence();
  private start: number;

  private constructor(
    readonly path: string,
    private readonly profile: ProfileName,
    private readonly now: () => number,
  ) {
    this.descriptor = openSync(path, "a+");
    this.committed = fstatSync(this.descriptor).size;
    this.start = now();
  }

  /** Opens a toy/v1 stream in a directory, which is made. */
  static open(directory: string, exist: Exist = "replace", now: () => number = () => performance.now()): Writer {
    mkdirSync(directory, { recursive: true });
    const path = join(directory, PROFILES["toy/v1"].file);
    const size = existsSync(path) ? statSync(path).size : 0;
    if (size > 0 && exist === "fail") throw new StreamRefusedError(`${path}: the stream exists`);
    if (size > 0 && exist === "replace") renameSync(path, `${path}.prev`);
    return new Writer(path, "toy/v1", now).takenOver();
  }

  /** Opens a metrics/v1 or kaun/v1 stream and goes on at its end. */
  static append(path: string, profile: "metrics/v1" | "kaun/v1"): Writer {
    mkdirSync(dirname(path), { recursive: true });
    return new Writer(path, profile, () => 0).takenOver();
  }

  /** Appends a record; throws RefusedError for one that no reader would accept, and then nothing is written. */
  write(record: Members): void {
    if (this.descriptor === null || this.sequence.ended) throw new StreamRefusedError(`${this.path}: the writer is closed`);
    const toy = this.profile === "toy/v1";
    const admitted = toy ? this.sequence.admit({ t: new Float((this.now() - this.start) / 1000), ...record }) : record;
    this.append(Buffer.from(encode(this.profile, admitted)));
    if (!toy) return;
    this.sequence.note(admitted);
    if (this.sequence.ended || record["kind"] === "run_start") this.sync();
  }

  /** Lets go of the stream; a run without run_end stays torn. */
  close(): void {
    if (this.descriptor !== null) closeSync(this.descriptor);
    this.descriptor = null;
  }

  private append(line: Buffer): void {
    const descriptor = this.descriptor!;
    let written = 0;
    try {
      while (written < line.length) written += writeSync(descriptor, line, written);
      this.committed += line.length;
    } catch (error) {
      // Take back what was written of the line; where that fails too, write no more.
      try {
        ftruncateSync(descriptor, this.committed);
      } catch {
        this.close();
      }
      throw error;
    }
  }

  private sync(): void {
    fsyncSync(this.descriptor!);
    if (process.platform === "win32") return;
    const directory = openSync(dirname(this.path), "r");
    fsyncSync(directory);
    closeSync(directory);
  }

  /** Brings an existing stream to a line end, or says why it cannot be written to. */
  private takenOver(): this {
    if (this.committed === 0) return this;
    const reading = read(chunksOf(this.descriptor!), { mode: "salvage", profile: this.profile });
    let step = reading.next();
    for (; !step.done; step = reading.next()) this.sequence.note(step.value.value as Members);
    const { state, fragment, size } = step.value;
    if (state === "damaged" || (state === "complete" && this.profile === "toy/v1")) {
      this.close();
      throw new StreamRefusedError(`${this.path}: the stream is ${state}`);
    }
    this.start -= this.sequence.last * 1000;
    this.committed = size - fragment;
    if (fragment > 0) this.setAside(fragment);
    return this;
  }

  /** Keeps the fragment in a file beside the stream and cuts the stream after its last LF. */
  private setAside(length: number): void {
    const bytes = Buffer.alloc(length);
    readSync(this.descriptor!, bytes, 0, length, this.committed);
    const aside = openSync(`${this.path}.torn-${this.committed}`, "w");
    writeSync(aside, bytes);
    fsyncSync(aside);
    closeSync(aside);
    ftruncateSync(this.descriptor!, this.committed);
  }
}

function* chunksOf(descriptor: number): Generator<Uint8Array> {
  for (let at = 0; ; ) {
    const chunk = new Uint8Array(1 << 16);
    const size = readSync(descriptor, chunk, 0, chunk.length, at);
    if (size === 0) return;
    at += size;
    yield chunk.subarray(0, size);
  }
}
