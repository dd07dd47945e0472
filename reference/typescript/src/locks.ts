/** Locks on open files, so that a stream has one writer: see spec/writing.md#one-writer. */

import { fstatSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";

/** Taken: the file is ours. Held: another writer has it. Unavailable: nothing here can lock it. */
export type LockResult = "taken" | "held" | "unavailable";

/** Locks by the system's calls; each returns 0, or the number of an error. */
interface SystemLocks {
  flock(descriptor: number): number;
  /** A record lock on the whole file that belongs to the descriptor; null where the system has none. */
  record: ((descriptor: number) => number) | null;
}

const { EACCES, EAGAIN, EINTR, EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP, ENOTSUP, EWOULDBLOCK } = constants.errno;
const HELD: ReadonlySet<number> = new Set([EACCES, EAGAIN, EWOULDBLOCK]);
const NOT_HERE: ReadonlySet<number> = new Set([EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP, ENOTSUP]);
const LOCK_EX_NB = 2 | 4;
const F_OFD_SETLK = 37;
const F_WRLCK = 1;
/** Where `struct flock` has two 16-bit and two 64-bit numbers first. */
const WIDE = ["arm64", "loong64", "ppc64", "riscv64", "s390x", "x64"];

/** Streams that this process writes to, by device and inode: without locks it would let itself in twice. */
const ours = new Set<string>();
let system: SystemLocks | null | undefined;

/** Locks the file of a descriptor until `unlock` and the end of the descriptor. */
export function lock(descriptor: number, locks: SystemLocks | null = systemLocks()): LockResult {
  const identity = identityOf(descriptor);
  if (ours.has(identity)) return "held";
  const results = locks === null ? [] : [attempt(locks.flock, descriptor), ...(locks.record ? [attempt(locks.record, descriptor)] : [])];
  if (results.includes("held")) return "held";
  ours.add(identity);
  return results.includes("taken") ? "taken" : "unavailable";
}

/** Lets this process in again. Call it before the descriptor is closed, which ends the locks of the system. */
export function unlock(descriptor: number): void {
  ours.delete(identityOf(descriptor));
}

/** Returns whether this system has locks for Node; the package koffi, which is optional, calls them. */
export function hasLocks(): boolean {
  return systemLocks() !== null;
}

function identityOf(descriptor: number): string {
  const { dev, ino } = fstatSync(descriptor, { bigint: true });
  return `${dev}:${ino}`;
}

function attempt(take: (descriptor: number) => number, descriptor: number): LockResult {
  let error = take(descriptor);
  while (error === EINTR) error = take(descriptor);
  if (error === 0) return "taken";
  if (HELD.has(error)) return "held";
  if (NOT_HERE.has(error)) return "unavailable";
  const name = Object.entries(constants.errno).find(([, number]) => number === error)?.[0] ?? String(error);
  throw Object.assign(new Error(`the file cannot be locked: ${name}`), { code: name });
}

function systemLocks(): SystemLocks | null {
  if (system === undefined) system = process.platform === "win32" ? null : loaded();
  return system;
}

/** The part of koffi that is used here. */
interface Koffi {
  load(path: null): { func(declaration: string): (...parameters: unknown[]) => number };
  struct(name: string, members: { [name: string]: string }): unknown;
  errno(): number;
}

function loaded(): SystemLocks | null {
  let koffi: Koffi;
  try {
    koffi = createRequire(import.meta.url)("koffi") as Koffi;
  } catch {
    return null;
  }
  const libc = koffi.load(null);
  const flock = libc.func("int flock(int descriptor, int operation)");
  const locks: SystemLocks = { flock: (descriptor) => (flock(descriptor, LOCK_EX_NB) === 0 ? 0 : koffi.errno()), record: null };
  // On macOS and the BSDs one kind of lock sees the other.
  if (process.platform !== "linux" || !WIDE.includes(process.arch)) return locks;
  koffi.struct("toyspec_flock", { type: "int16", whence: "int16", start: "int64", length: "int64", pid: "int32" });
  const fcntl = libc.func("int fcntl(int descriptor, int command, ...)");
  const whole = { type: F_WRLCK, whence: 0, start: 0, length: 0, pid: 0 };
  locks.record = (descriptor) => (fcntl(descriptor, F_OFD_SETLK, "toyspec_flock *", whole) === 0 ? 0 : koffi.errno());
  return locks;
}
