/**
 * Writes training logs of toy/v1, in one file to copy into a project.
 *
 *     import { Run } from "./toyspec_emitter.mjs";
 *     const run = new Run("runs/demo");
 *     run.start({ config: { lr: 3e-4 } });
 *     for (let step = 1; step <= 100; step++) run.step(step, { loss: 2.5 });
 *     run.end();
 *
 * A call returns true when its record is in the file, whatever happens to the process afterwards. It throws nothing into
 * the training: it returns false, `run.error` says why, and the first failure is printed on standard error. No call is
 * asynchronous. Needs Node 18 or Deno 2 and nothing else. JavaScript has no file locks: within a process a stream is
 * opened once, but nothing keeps another process from writing to it. SPDX-License-Identifier: Apache-2.0
 */

import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const MAX_LINE_BYTES = 16_777_216;
const MAX_DEPTH = 64;
const STEP_KEYS = ["loss", "ppl", "lr", "grad_norm", "tokens", "compute_us", "wall_us", "token_id", "logprob", "mtp_loss"];
const { ENOSPC, EDQUOT, EFBIG, EINTR, EAGAIN } = os.constants.errno;
const { O_RDWR, O_APPEND, O_NONBLOCK = 0, O_CREAT, O_EXCL, O_WRONLY } = fs.constants;
const FLAGS = O_RDWR | O_APPEND | O_NONBLOCK;
const WINDOWS = path.sep === "\\";
const LONE_SURROGATE = /\p{Surrogate}/u;

try {
  // A limit of file size must not end the process; Node ignores the signal by itself.
  globalThis.Deno?.addSignalListener("SIGXFSZ", () => {});
} catch {
  // This system has no such signal.
}

/** The streams that this process holds, so that no two runs write to one file. */
const held = new Set();

/** Why a record or a stream is refused; never leaves this module. */
class Refused extends Error {}

/** One run: the stream `events.jsonl` in a directory. */
export class Run {
  /** Why the last call that failed did. */
  error = null;
  /** Number of records that are not in the file, since it could not be written. */
  dropped = 0;
  /** The last step in the file. */
  lastStep = 0;
  #exist; #file = -1; #fragment = Buffer.alloc(0); #isOpen = false; #isBegun = false; #wasReported = false;
  #origin = performance.now() / 1000; #lastT = 0; #looked = 0; #unsaid = 0;

  /**
   * `exist` says what happens to a stream that is there: "replace" keeps it as `events.jsonl.prev`, "fail" refuses it, and
   * "resume" goes on with it. `runId` is the name of the directory by default.
   */
  constructor(directory, { exist = "replace", runId } = {}) {
    this.directory = path.resolve(directory);
    this.path = path.join(this.directory, "events.jsonl");
    this.runId = runId ?? path.basename(this.directory);
    this.#exist = exist;
    this.#do(() => this.#open());
  }

  /** Writes `run_start` with metadata such as `config` and `model`; call it before computing. */
  start(metadata = {}) {
    const started_at = new Date().toISOString().replace(/\.\d+Z/, "Z");
    return this.#do(() => this.#begin({ kind: "run_start", schema: "toy/v1", t: this.#t(), run_id: this.runId, started_at, ...metadata }));
  }

  /** Goes on after `fromStep`, by default the last step in the file; without a record to resume, starts the run. */
  resume(fromStep = this.lastStep) {
    if (this.#isOpen && this.#file < 0) return this.start();
    return this.#do(() => this.#begin({ kind: "run_resume", t: this.#t(), from_step: fromStep }));
  }

  /** Writes one step of the training, such as `run.step(5, { loss: 2.5, lr: 3e-4 })`; other names go into `extra`. */
  step(step, values = {}) {
    return this.#do(() => {
      const own = {}, extra = {}, nonfinite = {};
      for (const [name, value] of Object.entries(values)) {
        const isKnown = STEP_KEYS.includes(name);
        (isKnown ? own : extra)[name] = finite(value, isKnown ? name : `extra/${name}`, nonfinite);
      }
      this.#write({ kind: "step", phase: "train", t: this.#t(), step, ...own, ...some({ extra, nonfinite }) });
    });
  }

  /** Writes values by name, such as `run.log({ "val/acc": 0.5 }, 5)`, at a step or without one. */
  log(values, step) {
    return this.#do(() => {
      const nonfinite = {};
      const kept = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, finite(value, name, nonfinite)]));
      this.#write({ kind: "scalars", t: this.#t(), ...(step === undefined ? {} : { step }), values: kept, ...some({ nonfinite }) });
    });
  }

  /** Writes a note. */
  note(text, members = {}) {
    return this.#do(() => this.#write({ kind: "note", t: this.#t(), text, ...members }));
  }

  /** Writes any record of toy/v1; `t` is filled in. */
  write(record) {
    return this.#do(() => this.#write({ t: this.#t(), ...record }));
  }

  /** Writes `run_end` and closes the stream. The reason is completed, interrupted, aborted or errored. */
  end(reason = "completed", members = {}) {
    const final = this.lastStep ? { final_step: this.lastStep } : {};
    const done = this.#do(() => this.#write({ kind: "run_end", t: this.#t(), reason, ...final, ...members }, true));
    this.close();
    return done;
  }

  /** Closes the stream without a record. */
  close() {
    if (this.#file >= 0) fs.closeSync(this.#file);
    if (this.#isOpen) held.delete(this.path);
    this.#file = -1;
    this.#isOpen = false;
  }

  #do(action) {
    try {
      action();
      return true;
    } catch (error) {
      this.error = `${this.path}: ${error.message}`;
      if (!this.#wasReported) report(`${this.error}; this call wrote nothing`);
      this.#wasReported = true;
      return false;
    }
  }

  #t() {
    this.#lastT = Math.max(this.#lastT, Math.round((performance.now() / 1000 - this.#origin) * 1e6) / 1e6);
    return this.#lastT;
  }

  /** Opens the stream that is there, and reads what a resumption needs; changes nothing. */
  #open() {
    fs.mkdirSync(this.directory, { recursive: true });
    if (held.has(this.path)) throw new Refused("another writer of this process holds this stream");
    if (exists(this.path)) {
      if (this.#exist === "fail") throw new Refused("there is a stream already; resume it, replace it, or use another directory");
      this.#file = opened(this.path, FLAGS);
      try {
        if (this.#exist === "resume") this.#scan();
      } catch (error) {
        this.close();
        throw error;
      }
    }
    this.#isOpen = true;
    held.add(this.path);
  }

  /** Takes in the last step and time of the stream; throws unless it is toy/v1 and not damaged. */
  #scan() {
    const bytes = content(this.#file);
    const end = bytes.lastIndexOf(10) + 1;
    this.#fragment = bytes.subarray(end);
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const lines = text.decode(bytes.subarray(0, end)).split("\n").filter((line) => line.trim() !== "");
    lines.map(parsed).forEach((record, index) => {
      if (index === 0 && (record.kind !== "run_start" || (record.schema ?? "toy/v1") !== "toy/v1")) throw new Refused("the stream is not of toy/v1");
      if (record.kind === "step" && typeof record.step === "number") this.lastStep = record.step;
      if (typeof record.t === "number") this.#lastT = Math.max(this.#lastT, record.t);
    });
    this.#origin = performance.now() / 1000 - this.#lastT;
  }

  /** Writes the first record of this process; if that fails, every file is as it was. */
  #begin(first) {
    if (!this.#isOpen || this.#isBegun) throw new Refused(this.#isOpen ? "the run has begun" : "the stream is not open");
    const line = lineOf(first), undo = [];
    let old = -1;
    try {
      if (first.kind === "run_start" && this.#file >= 0 && fs.fstatSync(this.#file).size > 0 && this.#exist === "replace") {
        [old, this.#file] = [this.#file, -1];
        undo.push(() => { this.#file = old; });
        keep(this.path, undo);
      }
      if (this.#file < 0) {
        fs.mkdirSync(this.directory, { recursive: true });
        this.#file = opened(this.path, FLAGS | O_CREAT | O_EXCL);
        undo.push(() => {
          fs.unlinkSync(this.path);
          fs.closeSync(this.#file);
          this.#file = -1;
        });
      }
      if (this.#fragment.length > 0) this.#moveFragment();
      this.#append(line, true);
    } catch (error) {
      for (const step of undo.reverse()) step();
      throw error;
    }
    if (old >= 0) fs.closeSync(old);
    this.#isBegun = true;
    this.#fragment = Buffer.alloc(0);
  }

  /** Copies the bytes after the last LF to a side file, then cuts them off. */
  #moveFragment() {
    const offset = fs.fstatSync(this.#file).size - this.#fragment.length;
    const side = free(`${this.path}.torn-${offset}`, 2);
    const copy = fs.openSync(side, O_WRONLY | O_CREAT | O_EXCL, 0o666);
    try {
      try {
        writeAll(copy, this.#fragment);
        fs.fsyncSync(copy);
      } finally {
        fs.closeSync(copy);
      }
      syncDirectory(this.directory);
      fs.ftruncateSync(this.#file, offset);
    } catch (error) {
      fs.unlinkSync(side);
      throw error;
    }
  }

  #write(record, sync = false) {
    if (!this.#isBegun || this.#file < 0) throw new Refused("the run is not open; call start() or resume() first");
    const line = lineOf(record);
    this.#followPath();
    try {
      this.#append(line, sync);
    } catch (error) {
      this.dropped++;
      this.#unsaid++;
      throw error;
    }
    if (record.kind === "step") this.lastStep = record.step;
    if (this.#unsaid === 0 || this.#file < 0) return;
    try {
      const text = `${this.#unsaid} records were dropped: they could not be written`;
      this.#append(lineOf({ kind: "note", t: this.#t(), text, topic: "left-out", dropped: { record: this.#unsaid } }), false);
      this.#unsaid = 0;
    } catch {
      // The next record that fits tries again.
    }
  }

  /** Writes a line whole, or takes back what was written of it; after a failure that may last, closes the stream. */
  #append(line, sync) {
    const begin = fs.fstatSync(this.#file).size;
    try {
      writeAll(this.#file, line);
    } catch (error) {
      let isSafe = true;
      try {
        // Only bytes of this line are removed: another process may have appended to the file, or emptied it.
        const end = fs.fstatSync(this.#file).size;
        if (begin < end && end < begin + line.length) {
          const part = Buffer.alloc(end - begin);
          fs.readSync(this.#file, part, 0, part.length, begin);
          isSafe = part.equals(line.subarray(0, part.length));
          if (isSafe) fs.ftruncateSync(this.#file, begin);
        }
      } catch {
        isSafe = false;
      }
      if (this.#isBegun && !(isSafe && [ENOSPC, EDQUOT, EFBIG, EINTR, EAGAIN].includes(errorNumber(error)))) this.close();
      throw error;
    }
    if (!sync) return;
    fs.fsyncSync(this.#file);
    syncDirectory(this.directory);
  }

  /** Once a second, starts the stream again at its path if another file, or none, is there. */
  #followPath() {
    const now = performance.now();
    if (now - this.#looked < 1000) return;
    this.#looked = now;
    if (isAt(this.#file, this.path)) return;
    report(`${this.path} was moved away; it is started again with its records`);
    const bytes = content(this.#file);
    fs.mkdirSync(this.directory, { recursive: true });
    if (exists(this.path)) keep(this.path, []);
    const again = opened(this.path, FLAGS | O_CREAT | O_EXCL);
    writeAll(again, bytes.subarray(0, bytes.lastIndexOf(10) + 1));
    fs.closeSync(this.#file);
    this.#file = again;
  }
}

/** Prints a fact on standard error, which may be full or closed. */
function report(fact) {
  try {
    fs.writeSync(2, `toyspec: ${fact}\n`);
  } catch {
    // There is nowhere else to say it.
  }
}

/** Returns the number of an error of the system; Node gives it, Deno has it in the text alone. */
function errorNumber(error) {
  return -error.errno || Number(/\(os error (\d+)\)$/.exec(error.message)?.[1]);
}

/** Returns the value as it is written: null for what is not finite, whose word goes into `nonfinite`. */
function finite(value, name, nonfinite) {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value !== "number" || Number.isFinite(value)) return value;
  nonfinite[name] = Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return null;
}

/** Returns the objects that are not empty, by name. */
function some(objects) {
  return Object.fromEntries(Object.entries(objects).filter(([, members]) => Object.keys(members).length > 0));
}

/** Returns a record as a line; throws for what cannot be written unchanged. */
function lineOf(record) {
  if (typeof record.kind !== "string") throw new Refused("a record needs a kind");
  const step = record.step ?? 0;
  if (!Number.isSafeInteger(step) || step < 0) throw new Refused(`step must be an integer from 0 to 2^53 - 1, not ${String(step).slice(0, 40)}`);
  check(record, MAX_DEPTH);
  const line = Buffer.from(JSON.stringify(record) + "\n");
  if (line.length > MAX_LINE_BYTES) throw new Refused(`a line has ${line.length} bytes; at most ${MAX_LINE_BYTES} can be read`);
  return line;
}

/** Throws for what JSON.stringify would drop or change: functions, undefined, gaps, dates, half a surrogate pair. */
function check(value, depth) {
  if (depth === 0) throw new Refused(`a record is nested more than ${MAX_DEPTH} levels deep`);
  if (typeof value === "string" && LONE_SURROGATE.test(value)) throw new Refused("text has half a surrogate pair");
  if (["string", "boolean"].includes(typeof value) || value === null || Number.isFinite(value)) return;
  if (Array.isArray(value)) {
    for (const item of value) check(item, depth - 1);
  } else if (typeof value === "object" && [Object.prototype, null].includes(Object.getPrototypeOf(value))) {
    for (const [key, member] of Object.entries(value)) {
      check(key, depth);
      check(member, depth - 1);
    }
  } else {
    throw new Refused(`${typeof value} ${String(value).slice(0, 40)} cannot be written as JSON`);
  }
}

function parsed(line) {
  try {
    const value = JSON.parse(line);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  } catch {
    // Said below.
  }
  throw new Refused("a line is damaged; `toyspec check` says where");
}

function content(file) {
  const bytes = Buffer.alloc(fs.fstatSync(file).size);
  let at = 0;
  for (let got; at < bytes.length && (got = fs.readSync(file, bytes, at, bytes.length - at, at)) > 0;) at += got;
  return bytes.subarray(0, at);
}

/** Writes bytes with one call, or with further ones where that was cut short. */
function writeAll(file, bytes) {
  for (let at = 0, tries = 0; at < bytes.length;) {
    let count = 0;
    try {
      count = fs.writeSync(file, bytes, at, bytes.length - at);
    } catch (error) {
      if (errorNumber(error) !== EINTR || tries > 100) throw error;
    }
    at += count;
    tries = count > 0 ? 0 : tries + 1;
    if (tries > 200) throw Object.assign(new Error("writes take no byte"), { errno: -ENOSPC });
  }
}

function exists(name) {
  return fs.lstatSync(name, { throwIfNoEntry: false }) !== undefined;
}

/** Returns a descriptor of the regular file at the path. */
function opened(name, flags) {
  const there = fs.statSync(name, { throwIfNoEntry: false });
  if (there && !there.isFile()) throw new Refused("this is not a regular file");
  const file = fs.openSync(name, flags, 0o666);
  if (fs.fstatSync(file).isFile()) return file;
  fs.closeSync(file);
  throw new Refused("this is not a regular file");
}

function isAt(file, name) {
  const mine = fs.fstatSync(file), there = fs.statSync(name, { throwIfNoEntry: false });
  return there !== undefined && mine.dev === there.dev && mine.ino === there.ino;
}

/** Renames the file at the path to `.prev`, and an earlier one of that name to the first free `.prev-N`. */
function keep(name, undo) {
  const previous = `${name}.prev`;
  if (exists(previous)) {
    const older = free(`${previous}-1`, 1, previous);
    fs.renameSync(previous, older);
    undo.push(() => fs.renameSync(older, previous));
  }
  fs.renameSync(name, previous);
  undo.push(() => fs.renameSync(previous, name));
}

/** Returns the name, or the first of its numbered siblings that is not there. */
function free(name, first, stem = name) {
  for (let number = first; exists(name); number++) name = `${stem}-${number}`;
  return name;
}

function syncDirectory(directory) {
  if (WINDOWS) return;
  const file = fs.openSync(directory, "r");
  try {
    fs.fsyncSync(file);
  } catch (error) {
    if (error.code !== "EINVAL") throw error; // some file systems cannot sync a directory
  } finally {
    fs.closeSync(file);
  }
}
