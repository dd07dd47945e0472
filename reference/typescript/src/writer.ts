/** Writes streams: see spec/writing.md. */

import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";

import { AppendFile, StreamRefusedError, StreamWriteError } from "./append-file.js";
import { sidecarsIn } from "./bundles.js";
import { encode, RefusedError } from "./canonical.js";
import { storeOnce } from "./media-files.js";
import { read } from "./reader.js";
import { type Members, Sequence } from "./sequence.js";
import { hasManifest } from "./sidecars.js";
import { LEAVES, mediaFile } from "./stream-rules.js";
import { LIMITS, type ProfileName, PROFILES } from "./tables.js";
import { Float, type Value } from "./values.js";

/** What a writer does with a stream that is there. */
export type Exist = "replace" | "fail" | "resume";

export interface WriterOptions {
  /** What to do with a stream that is there: move it to `.prev` (the default), refuse it, or go on at its end. */
  exist?: Exist | undefined;
  /** What a failure of the system does: throw (the default), or drop the record and report it once, so that training goes on. */
  onError?: "raise" | "disable" | undefined;
  /** Milliseconds of a monotonic clock; in kaun/v1, since the Unix epoch. */
  now?: (() => number) | undefined;
  /** Takes what a person has to know; standard error by default. */
  warn?: ((message: string) => void) | undefined;
  /** Milliseconds between two looks whether the path still is the open file. */
  checkEvery?: number | undefined;
}

/** Run ids that are a safe name of a directory on every system. */
const SAFE_RUN_ID = new RegExp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,${LIMITS.max_safe_run_id_chars - 1}}$`);

/**
 * Appends records to one stream, each with its LF by one write, and keeps other writers out. A toy/v1 record without t
 * gets the seconds since the start, a kaun/v1 scalar without wall_time the current time.
 */
export class Writer {
  /** Number of records that were lost to failures of the system. */
  dropped = 0;
  /** Records lost since the stream last said how many, and why. */
  private unsaid = { count: 0, reason: "" };
  /** A run_start or run_resume that has still to be written. */
  private owed: Uint8Array | null = null;
  private replaces = false;
  private readonly saidOnce = new Set<string>();
  private readonly sequence = new Sequence();
  private readonly now: () => number;
  private start: number;

  private constructor(
    private readonly file: AppendFile,
    private readonly profile: ProfileName,
    private readonly options: WriterOptions,
  ) {
    this.now = options.now ?? (profile === "kaun/v1" ? () => Date.now() : () => performance.now());
    this.start = this.now();
  }

  /** Opens a toy/v1 stream in a directory, which is made; throws StreamRefusedError or StreamWriteError. */
  static open(directory: string, options: WriterOptions = {}): Writer {
    const { exist = "replace" } = options;
    const path = join(directory, PROFILES["toy/v1"].file);
    return opened(path, (file) => {
      const writer = new Writer(file, "toy/v1", options);
      // An empty file too: its creator may be about to write to it.
      if (exist === "fail" && !file.isNew) throw new StreamRefusedError(`${path}: the stream exists; choose another directory, or replace or resume it`);
      if (file.size === 0) return writer;
      if (exist === "resume") writer.reopen();
      else writer.replaces = true;
      return writer;
    }, options);
  }

  /** Opens a metrics/v1 or kaun/v1 stream and goes on at its end. */
  static append(path: string, profile: "metrics/v1" | "kaun/v1", options: Omit<WriterOptions, "exist"> = {}): Writer {
    if (!["metrics/v1", "kaun/v1"].includes(profile)) throw new RefusedError(`a ${profile} stream holds one run; open it to resume or replace it`);
    return opened(path, (file) => {
      const writer = new Writer(file, profile, options);
      if (file.size > 0) writer.reopen();
      return writer;
    }, options);
  }

  /** Path of the stream. */
  get path(): string {
    return this.file.path;
  }

  /** Appends a record and returns whether it is in the stream; throws RefusedError for one that no reader would accept. */
  write(record: Members): boolean {
    if (this.sequence.ended) throw new StreamRefusedError(`${this.path}: the run has ended`);
    if (!this.file.isOpen) return this.closedFor();
    const isToy = this.profile === "toy/v1";
    const admitted = isToy ? this.sequence.admit({ ...record, t: record["t"] ?? new Float((this.now() - this.start) / 1000) }) : this.timed(record);
    if (isToy) checkNames(admitted);
    const line = Buffer.from(encode(this.profile, admitted));
    try {
      this.deliver(line, admitted);
    } catch (error) {
      if (!(error instanceof StreamWriteError)) throw error;
      return this.drop(error, line, admitted);
    }
    if (isToy) this.sequence.note(admitted);
    return true;
  }

  /**
   * Writes a picture, a sound, a table or another file into the folder `media` of the bundle, and then the media record that
   * names it; returns whether both are there. The record has name and media_type; its sha256 follows from the content.
   * Throws RefusedError for another sha256, and StreamRefusedError where `media` is not a folder of the bundle.
   */
  writeMedia(record: Members, content: Uint8Array): boolean {
    if (this.profile !== "toy/v1") throw new RefusedError(`a ${this.profile} stream has no media`);
    if (!this.file.isOpen) return this.closedFor();
    const sha256 = createHash("sha256").update(content).digest("hex");
    const named = { ...record, kind: "media", sha256 };
    if ((record["sha256"] ?? sha256) !== sha256) throw new RefusedError(`the content has the sha256 ${sha256}, and not that of the record`);
    // What is refused leaves no file.
    encode("toy/v1", this.sequence.admit({ ...named, t: record["t"] ?? new Float(0) }));
    try {
      storeOnce(join(dirname(this.path), mediaFile(sha256, String(record["media_type"]))!), content);
    } catch (error) {
      if (!(error instanceof StreamWriteError) || this.options.onError !== "disable") throw error;
      this.dropped++;
      this.sayOnce(error.message);
      return false;
    }
    return this.write(named);
  }

  /** Writes run_end with the last step of phase train, where the run can end, and closes. */
  end(reason: "completed" | "interrupted" | "aborted" | "errored" = "completed", members: Members = {}): void {
    try {
      if (!this.sequence.canEnd) return;
      const { step, loss } = this.sequence.lastStep ?? {};
      const final: Members = { ...(step === undefined ? {} : { final_step: step }), ...(loss === undefined ? {} : { final_loss: loss }) };
      this.write({ kind: "run_end", reason, ...final, ...members });
    } finally {
      this.close();
    }
  }

  /** Releases the stream; a run without run_end stays torn. */
  close(): void {
    this.file.close();
  }

  /** Returns a record with its wall_time, where it is a scalar that has none. */
  private timed(record: Members): Members {
    const lacksTime = this.profile === "kaun/v1" && record["type"] === "scalar" && record["wall_time"] === undefined;
    return lacksTime ? { ...record, wall_time: new Float(this.now() / 1000) } : record;
  }

  private deliver(line: Uint8Array, record: Members): void {
    if (this.replaces) {
      this.file.replace();
      this.replaces = false;
    }
    this.followPath();
    if (this.owed) this.file.append(this.owed);
    this.owed = null;
    this.sayDropped(record);
    this.file.append(line);
    if (this.profile === "toy/v1" && (record["kind"] === "run_start" || record["kind"] === "run_end")) this.file.sync();
  }

  /** Says in a toy/v1 stream how many records it lacks; where that finds no room either, the next record tries again. */
  private sayDropped({ t = 0 }: Members): void {
    const { count, reason } = this.unsaid;
    if (count === 0 || this.profile !== "toy/v1") return;
    const text = `${count === 1 ? "1 record was" : `${count} records were`} dropped here: ${reason}`;
    try {
      this.file.append(Buffer.from(encode("toy/v1", { kind: "note", t, text })));
    } catch (error) {
      if (error instanceof StreamWriteError && error.canPass) return;
      throw error;
    }
    this.unsaid = { count: 0, reason: "" };
  }

  /** Takes note of a record that could not be written, and throws or says why. */
  private drop(error: StreamWriteError, line: Uint8Array, record: Members): boolean {
    this.dropped++;
    this.unsaid = { count: this.unsaid.count + 1, reason: error.code };
    if (this.options.onError !== "disable") throw error;
    this.sayOnce(error.message);
    if (this.profile === "toy/v1" && (record["kind"] === "run_start" || record["kind"] === "run_resume")) {
      // What follows makes no sense without it: it is tried again with the next record.
      this.owed = line;
      this.unsaid.count--;
      this.sequence.note(record);
    }
    return false;
  }

  private closedFor(): boolean {
    if (this.options.onError !== "disable") throw new StreamRefusedError(`${this.path}: the writer is closed`);
    this.dropped++;
    this.sayOnce(`${this.path}: records are dropped, since the stream is closed`);
    return false;
  }

  /** Starts the stream again where its path no longer is the open file: what is written to that would be nowhere. */
  private followPath(): void {
    if (!this.file.hasStrayed()) return;
    this.file.startAgain();
    this.sayOnce(`${this.path}: the stream was deleted, moved or replaced while it was open; it was started again with all records so far`);
  }

  private sayOnce(message: string): void {
    if (this.saidOnce.has(message)) return;
    this.saidOnce.add(message);
    this.warn(message);
  }

  private warn(message: string): void {
    if (this.options.warn) this.options.warn(message);
    else process.stderr.write(`toyspec: ${message}\n`);
  }

  /** Brings an existing stream to a line end, or says why it cannot be written to. */
  private reopen(): void {
    const { path, profile } = this;
    const manifest = profile === "kaun/v1" && hasManifest(sidecarsIn(dirname(path)));
    const reading = read(this.file.chunks(), { mode: "salvage", name: path, hasManifest: manifest });
    let step = reading.next();
    for (; !step.done; step = reading.next()) this.sequence.note(step.value.value as Members);
    const { profile: found, state, records, fragment, size } = step.value;
    if (found === null) throw new StreamRefusedError(`${path}: the stream follows no profile that toyspec knows; it was not changed`);
    if (records > 0 && found !== profile) throw new StreamRefusedError(`${path}: the stream follows ${found}, not ${profile}`);
    if (state === "damaged") throw new StreamRefusedError(`${path}: the stream is damaged; \`toyspec check\` shows where`);
    // A time that no clock reaches stays the smallest that is written.
    if (Math.abs(this.sequence.last) < 1e12) this.start -= this.sequence.last * 1000;
    if (fragment > 0) this.file.moveFragment(size - fragment);
    this.sequence.resume();
  }
}

/** Opens a file and lets *make* have it; closes it where that throws. */
function opened(path: string, make: (file: AppendFile) => Writer, { checkEvery }: WriterOptions): Writer {
  try {
    mkdirSync(dirname(path), { recursive: true });
  } catch (error) {
    throw new StreamWriteError(path, "the directory cannot be made", error);
  }
  const file = AppendFile.open(path, checkEvery);
  try {
    return make(file);
  } catch (error) {
    file.close();
    throw error;
  }
}

function checkNames({ kind, run_id: runId, path }: { [key: string]: Value }): void {
  if (kind === "artifact" && typeof path === "string" && LEAVES.test(path)) {
    throw new RefusedError("the path of this artifact leaves the bundle: copy the file into it, or write a reference");
  }
  if (kind !== "run_start" || typeof runId !== "string" || SAFE_RUN_ID.test(runId)) return;
  throw new RefusedError(`this run_id is not allowed: use 1-${LIMITS.max_safe_run_id_chars} letters, digits, ".", "_", "-", starting with a letter or digit`);
}
