/** A file of lines that is open for appending, and its one writer: see spec/writing.md. */

import { closeSync, constants, fstatSync, fsyncSync, ftruncateSync, mkdirSync, openSync, readdirSync, statSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";

import { hasLocks, lock, unlock } from "./locks.js";
import { rankOf } from "./profiles.js";
import { chunksOf, codeOf, moveEarlier, moveFragment, syncDirectory, takeBack, writeAll, writeSome } from "./side-files.js";

/** Thrown where a stream cannot be written to although the system would allow it; it is as it was. */
export class StreamRefusedError extends Error {}

/** Thrown where the system failed; the record that was to be written is not in the stream. */
export class StreamWriteError extends Error {
  readonly code: string;

  constructor(
    readonly path: string,
    what: string,
    cause: unknown,
  ) {
    super(`${path}: ${what}: ${reasonOf(cause)}`, { cause });
    this.code = codeOf(cause);
  }

  /** True for a failure after which a later record can be written: a full disk, an interruption. */
  get canPass(): boolean {
    return PASSING.has(this.code);
  }
}

const PASSING: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EFBIG", "EINTR", "EAGAIN"]);
const { O_APPEND, O_CREAT, O_EXCL, O_RDWR } = constants;
// Without O_NONBLOCK, opening a pipe waits for the other end.
const FLAGS = O_RDWR | O_APPEND | (constants.O_NONBLOCK ?? 0) | (constants.O_NOCTTY ?? 0);
const MODE = 0o666;
/** The file at a path may be replaced between opening and locking it; this often in a row is not an accident. */
const ATTEMPTS = 100;
let saidNoLocks = false;

export class AppendFile {
  private descriptor: number | null;
  private checkedAt = performance.now();

  private constructor(
    readonly path: string,
    opened: Opened,
    /** Milliseconds between two comparisons of the path with the descriptor. */
    private readonly checkEvery: number,
  ) {
    this.descriptor = opened.descriptor;
    this.isCreated = opened.isCreated;
  }

  /** True where this writer created the file and nothing is in it yet. */
  private isCreated: boolean;
  /** Moves the earlier log back, as long as nothing is written. */
  private restore: (() => void) | null = null;

  /** True where there was no file before, and nothing is in this one yet. */
  get isNew(): boolean {
    return this.isCreated;
  }

  /** Opens and locks the file at a path, which is made; throws StreamRefusedError where another writer has it. */
  static open(path: string, checkEvery = 1000): AppendFile {
    return new AppendFile(path, openLocked(path), checkEvery);
  }

  get isOpen(): boolean {
    return this.descriptor !== null;
  }

  /** Number of bytes in the file now. */
  get size(): number {
    return fstatSync(this.descriptor!).size;
  }

  /** Yields the bytes of the file. */
  chunks(): Generator<Uint8Array> {
    return chunksOf(this.descriptor!);
  }

  /** Keeps what follows an offset in a side file and cuts the file there. */
  moveFragment(offset: number): void {
    this.guard("the fragment cannot be moved to a side file", () => moveFragment(this.path, this.descriptor!, offset));
  }

  /** Moves the file that is at the path to `<path>.prev` and goes on with a new one. */
  replace(): void {
    const old = this.descriptor!;
    this.guard("the earlier log cannot be moved", () => {
      const undo = moveEarlier(this.path);
      try {
        this.adopt(createLocked(this.path));
      } catch (error) {
        undo();
        throw error;
      }
      this.restore = undo;
    });
    release(old);
  }

  /** Appends a line with its LF, all of it or nothing; throws StreamWriteError. */
  append(line: Uint8Array): void {
    const descriptor = this.descriptor!;
    let written = 0;
    try {
      while (written < line.length) written += writeSome(descriptor, line, written);
      this.isCreated = false;
      if (this.restore !== null) moveRanks(dirname(this.path));
      this.restore = null;
    } catch (error) {
      const failure = new StreamWriteError(this.path, "a record could not be written", error);
      if (written > 0 && !this.takesBack(line.subarray(0, written))) {
        this.release();
        throw new StreamWriteError(this.path, "half a record was written and cannot be taken back; the stream is closed", error);
      }
      if (!failure.canPass) this.close();
      throw failure;
    }
  }

  /** Forces the file and its directory to the device. A failure closes the file for good: it may not be asked twice. */
  sync(): void {
    try {
      fsyncSync(this.descriptor!);
      syncDirectory(dirname(this.path));
    } catch (error) {
      this.release();
      throw new StreamWriteError(this.path, "what was written may be lost with the power; the stream is closed", error);
    }
  }

  /** Returns whether the path is not this file any more; it is looked at once a second at most. */
  hasStrayed(): boolean {
    const now = performance.now();
    if (now - this.checkedAt < this.checkEvery) return false;
    this.checkedAt = now;
    return !this.isAtPath();
  }

  /** Writes what this descriptor can still read into a new file at the path, and goes on there. What is at the path is kept beside it. */
  startAgain(): void {
    const old = this.descriptor!;
    try {
      mkdirSync(dirname(this.path), { recursive: true });
      const opened = freshFile(this.path);
      try {
        for (const chunk of chunksOf(old)) writeAll(opened.descriptor, chunk);
        fsyncSync(opened.descriptor);
      } catch (error) {
        ftruncateSync(opened.descriptor, 0);
        release(opened.descriptor);
        throw error;
      }
      this.adopt({ ...opened, isCreated: false });
    } catch (error) {
      const failure = new StreamWriteError(this.path, "the stream was deleted, moved or replaced, and cannot be started again", error);
      if (!failure.canPass) this.release();
      throw failure;
    }
    release(old);
  }

  /** Releases the file; one that this writer created and left empty is taken away again, and an earlier log moves back. */
  close(): void {
    if (this.descriptor === null) return;
    if (this.isCreated && this.size === 0 && this.isAtPath()) {
      unlinkSync(this.path);
      this.restore?.();
    }
    this.release();
  }

  private adopt(opened: Opened): void {
    this.descriptor = opened.descriptor;
    this.isCreated = opened.isCreated;
  }

  private isAtPath(): boolean {
    const there = statSync(this.path, { bigint: true, throwIfNoEntry: false });
    return there !== undefined && isSameFile(there, this.descriptor!);
  }

  private takesBack(part: Uint8Array): boolean {
    try {
      return takeBack(this.descriptor!, part);
    } catch {
      return false;
    }
  }

  private release(): void {
    if (this.descriptor !== null) release(this.descriptor);
    this.descriptor = null;
  }

  private guard(what: string, action: () => void): void {
    try {
      action();
    } catch (error) {
      throw error instanceof StreamRefusedError ? error : new StreamWriteError(this.path, what, error);
    }
  }
}

interface Opened {
  descriptor: number;
  isCreated: boolean;
}

function openLocked(path: string): Opened {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    let descriptor: number;
    try {
      descriptor = openSync(path, FLAGS, MODE);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw refusal(path, error);
      try {
        return createLocked(path);
      } catch (failure) {
        // A link to nothing is there and cannot be opened.
        if (codeOf(failure) !== "EEXIST" || attempt === ATTEMPTS - 1) throw refusal(path, failure);
        continue;
      }
    }
    if (claimed(path, descriptor)) return { descriptor, isCreated: false };
    release(descriptor);
  }
  throw new StreamRefusedError(`${path}: other processes replace the file again and again`);
}

/**
 * Moves the logs of the other ranks of a run that was replaced, as that of rank 0 was. One that a writer holds is of a process
 * of the new run, which began before this one.
 */
function moveRanks(directory: string): void {
  for (const name of readdirSync(directory)) {
    if (!rankOf(name)) continue;
    const path = join(directory, name);
    let opened: Opened | null = null;
    try {
      opened = openLocked(path);
      if (fstatSync(opened.descriptor).size > 0) moveEarlier(path);
    } catch {
      // It stays, and belongs to the new run.
    } finally {
      if (opened) release(opened.descriptor);
    }
  }
}

/** Returns a file without content at a path, locked; a log that is there moves to a side file. */
function freshFile(path: string): Opened {
  const there = openLocked(path);
  if (fstatSync(there.descriptor).size === 0) return there;
  try {
    moveEarlier(path);
    return createLocked(path);
  } finally {
    release(there.descriptor);
  }
}

/** Creates the file at a path and locks it; throws an error with the code EEXIST where there is one. */
function createLocked(path: string): Opened {
  const descriptor = openSync(path, FLAGS | O_CREAT | O_EXCL, MODE);
  claimed(path, descriptor);
  return { descriptor, isCreated: true };
}

/** Locks a file that was opened; returns whether it still is what is at the path. Closes it where it is refused. */
function claimed(path: string, descriptor: number): boolean {
  try {
    if (!fstatSync(descriptor).isFile()) throw new StreamRefusedError(`${path}: not a regular file`);
    if (lock(descriptor) === "held") throw new StreamRefusedError(`${path}: another writer has the stream open`);
  } catch (error) {
    closeSync(descriptor);
    throw error instanceof StreamRefusedError ? error : new StreamWriteError(path, "the stream cannot be opened", error);
  }
  if (!hasLocks()) sayNoLocks(path);
  const there = statSync(path, { bigint: true, throwIfNoEntry: false });
  return there !== undefined && isSameFile(there, descriptor);
}

function isSameFile({ dev, ino }: { dev: bigint; ino: bigint }, descriptor: number): boolean {
  const opened = fstatSync(descriptor, { bigint: true });
  return opened.dev === dev && opened.ino === ino;
}

function release(descriptor: number): void {
  unlock(descriptor);
  closeSync(descriptor);
}

function refusal(path: string, error: unknown): Error {
  if (error instanceof StreamRefusedError || error instanceof StreamWriteError) return error;
  // A directory, a socket, a pipe without reader, a device that is not there.
  if (["EISDIR", "ENXIO"].includes(codeOf(error))) return new StreamRefusedError(`${path}: not a regular file`);
  return new StreamWriteError(path, "the stream cannot be opened", error);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function sayNoLocks(path: string): void {
  if (saidNoLocks) return;
  saidNoLocks = true;
  const advice = process.platform === "win32" ? "" : "; install the package koffi to have them";
  process.stderr.write(`toyspec: ${path}: Node.js has no file locks, so another process can write to this stream too${advice}\n`);
}
