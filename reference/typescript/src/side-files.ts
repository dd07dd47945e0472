/** Files beside a stream that keep what a writer moves out of it; none of them is ever written over. */

import {
  closeSync, constants, existsSync, fstatSync, fsyncSync, ftruncateSync, linkSync, lstatSync, openSync, readSync, renameSync, unlinkSync, writeSync,
} from "node:fs";
import { constants as system } from "node:os";
import { dirname } from "node:path";

const CHUNK_BYTES = 1 << 16;
/** What systems report for a directory that cannot be synced, which is not a failure of the disk. */
const NOT_SYNCED: ReadonlySet<string> = new Set(["EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EPERM", "EBADF", "EISDIR", "EACCES"]);
/** What systems say where files have no second name. */
const NO_LINKS: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EACCES"]);

/** Returns the code of an error of the system, for example `ENOSPC`. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error) || !("code" in error)) return "";
  // Node.js has no name for this one.
  return "errno" in error && error.errno === -(system.errno.EDQUOT ?? 0) ? "EDQUOT" : String(error.code);
}

/** Forces a directory to the device, where the system can. */
export function syncDirectory(path: string): void {
  if (process.platform === "win32") return;
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } catch (error) {
    if (!NOT_SYNCED.has(codeOf(error))) throw error;
  } finally {
    closeSync(descriptor);
  }
}

/** Writes all of the bytes at the end of a file, in one write where the system takes them. */
export function writeAll(descriptor: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSome(descriptor, bytes, at);
}

/** Writes bytes from an index on by one write; returns how many the system took, which is never none. */
export function writeSome(descriptor: number, bytes: Uint8Array, at: number): number {
  const taken = writeSync(descriptor, bytes, at);
  if (taken === 0) throw Object.assign(new Error("a write took no byte"), { code: "EIO" });
  return taken;
}

/** Yields the bytes of a file from an offset on. */
export function* chunksOf(descriptor: number, from = 0): Generator<Uint8Array> {
  for (let at = from; ; ) {
    const chunk = new Uint8Array(CHUNK_BYTES);
    const size = readSync(descriptor, chunk, 0, chunk.length, at);
    if (size === 0) return;
    at += size;
    yield chunk.subarray(0, size);
  }
}

/** Moves the log at a path to `<path>.prev`, and one that is there to the first `.prev-N` that is free; returns how to undo it. */
export function moveEarlier(path: string): () => void {
  const previous = `${path}.prev`;
  const moves: [from: string, to: string][] = [];
  const move = (from: string, to: string) => moves.push([from, to]);
  if (isThere(previous)) move(previous, moveToFree(previous, (number) => `${previous}-${number}`));
  move(path, moveToFree(path, (number) => (number === 1 ? previous : `${previous}-${number - 1}`)));
  return () => moves.reverse().forEach(([from, to]) => moveIfFree(to, from));
}

/** Copies the bytes from an offset on to `<path>.torn-<offset>`, or the next name that is free, and cuts the stream there. */
export function moveFragment(path: string, descriptor: number, offset: number): void {
  const [sideFile, name] = createFree((number) => `${path}.torn-${offset}${number === 1 ? "" : `-${number}`}`);
  try {
    for (const chunk of chunksOf(descriptor, offset)) writeAll(sideFile, chunk);
    fsyncSync(sideFile);
    syncDirectory(dirname(name));
    ftruncateSync(descriptor, offset);
  } catch (error) {
    unlinkSync(name);
    throw error;
  } finally {
    closeSync(sideFile);
  }
  fsyncSync(descriptor);
}

/** Takes back the last bytes of a file where they are those given: what others appended or cut is left unchanged. */
export function takeBack(descriptor: number, bytes: Uint8Array): boolean {
  const { size } = fstatSync(descriptor);
  const found = Buffer.alloc(bytes.length);
  if (size < bytes.length || readSync(descriptor, found, 0, found.length, size - found.length) < found.length) return false;
  if (!found.equals(bytes)) return false;
  ftruncateSync(descriptor, size - bytes.length);
  return true;
}

/** Returns whether there is anything at a path, a broken link too. */
export function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function createFree(name: (number: number) => string): [descriptor: number, name: string] {
  for (let number = 1; ; number++) {
    try {
      return [openSync(name(number), constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o666), name(number)];
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
    }
  }
}

function moveToFree(from: string, name: (number: number) => string): string {
  for (let number = 1; ; number++) if (moveIfFree(from, name(number))) return name(number);
}

/** Moves a file; returns false where the new name is taken. A link, unlike a move, never replaces a file. */
function moveIfFree(from: string, to: string): boolean {
  try {
    linkSync(from, to);
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    if (!NO_LINKS.has(codeOf(error))) throw error;
    if (existsSync(to) || isThere(to)) return false;
    renameSync(from, to);
    return true;
  }
  unlinkSync(from);
  return true;
}
