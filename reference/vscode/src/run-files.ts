/** Reads the files of runs for a panel: everything once, then what has changed. */

import { open, readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import { SIDECARS } from "../../typescript/src/sidecars.js";
import { SEAL } from "../../typescript/page/seals.js";
import { ANNOTATIONS, isStreamName, MEDIA_FOLDER } from "../../typescript/page/selection.js";
import { HINTS } from "../../viewer/src/dialects/usual-names.js";
import type { ToPage } from "./messages.js";

const PIECE_BYTES = 8 * 1024 * 1024;
const COMPARED_BYTES = 4096;
const NOT_SEARCHED: ReadonlySet<string> = new Set(["node_modules", ".git"]);
const BUNDLE: ReadonlySet<string> = new Set([...SIDECARS, ANNOTATIONS]);

/** How much a panel takes. */
export interface Limits {
  /** Bytes of all files together. */
  bytes: number;
  /** Names that are looked at in a folder and below it. */
  names: number;
}

const USUAL: Limits = { bytes: 512 * 1024 * 1024, names: 100_000 };

/** What was sent of a file. */
interface Sent {
  size: number;
  inode: number;
  changed: number;
  /** The last bytes that were sent: where they differ, the file was rewritten. */
  end: Uint8Array;
}

interface Found {
  path: string;
  file: string;
  /** True for a file whose name alone is asked for. */
  isNamedOnly: boolean;
}

/** The files of one panel. */
export class RunFiles {
  private readonly sent = new Map<string, Sent>();
  private leftOut: string[] = [];
  private last = "";

  private constructor(
    /** The folder or file that is shown. */
    readonly target: string,
    private readonly scope: "folder" | "run" | "log",
    private readonly limits: Limits,
  ) {}

  /** Every run in *folder* and below it. */
  static ofFolder(folder: string, limits = USUAL): RunFiles {
    return new RunFiles(folder, "folder", limits);
  }

  /** The run whose stream, or whose stream of a rank, is *file*: the files beside it. */
  static ofRun(file: string, limits = USUAL): RunFiles {
    return new RunFiles(dirname(file), "run", limits);
  }

  /** One log, whatever its name. */
  static ofLog(file: string, limits = USUAL): RunFiles {
    return new RunFiles(file, "log", limits);
  }

  /** The folder whose changes concern the panel. */
  get watched(): string {
    return this.scope === "log" ? dirname(this.target) : this.target;
  }

  /** Gives *post* what the page does not have yet, the listing last; nothing if nothing has changed. */
  async send(post: (message: ToPage) => void, { isWhole = false } = {}): Promise<void> {
    if (isWhole) {
      this.sent.clear();
      this.last = "";
    }
    this.leftOut = [];
    const paths: string[] = [];
    let [total, hasChanged] = [0, false];
    for (const { path, file, isNamedOnly } of await this.found()) {
      try {
        const { size, ino, mtimeMs } = await stat(file);
        if (!isNamedOnly && total + size > this.limits.bytes) {
          this.leftOut.push(`${path} has ${size} bytes; a panel takes ${this.limits.bytes} in all. Use toyspec view`);
          continue;
        }
        if (!isNamedOnly) {
          total += size;
          hasChanged = (await this.update(path, file, { size, inode: ino, changed: mtimeMs }, post)) || hasChanged;
        }
        paths.push(path);
      } catch (error) {
        this.leftOut.push(`${path}: ${(error as Error).message}`);
      }
    }
    for (const path of [...this.sent.keys()]) if (!paths.includes(path)) this.sent.delete(path);
    const shown: ToPage = { type: "shown", root: basename(this.target), isFolder: this.scope !== "log", paths, leftOut: this.leftOut };
    const listing = JSON.stringify(shown);
    if (hasChanged || listing !== this.last) post(shown);
    this.last = listing;
  }

  /** Sends what *file* has beyond what was sent, or all of it; returns whether there was something. */
  private async update(path: string, file: string, now: Omit<Sent, "end">, post: (message: ToPage) => void): Promise<boolean> {
    const before = this.sent.get(path);
    if (before && before.inode === now.inode && before.size === now.size && before.changed === now.changed) return false;
    const handle = await open(file, "r");
    try {
      let from = 0;
      if (before && before.inode === now.inode && before.size <= now.size) {
        const end = await bytesAt(handle, before.size - before.end.length, before.end.length);
        if (Buffer.compare(end, before.end) === 0) from = before.size;
      }
      let at = from;
      do {
        const bytes = await bytesAt(handle, at, Math.min(PIECE_BYTES, now.size - at));
        post({ type: "piece", path, from: at, bytes });
        if (bytes.length === 0) break;
        at += bytes.length;
      } while (at < now.size);
      const length = Math.min(COMPARED_BYTES, at);
      this.sent.set(path, { ...now, size: at, end: await bytesAt(handle, at - length, length) });
      return true;
    } finally {
      await handle.close();
    }
  }

  private async found(): Promise<Found[]> {
    if (this.scope === "log") return [{ path: basename(this.target), file: this.target, isNamedOnly: false }];
    const found: Found[] = [];
    const pending = [{ folder: this.target, path: basename(this.target) }];
    let names = 0;
    for (let next = pending.pop(); next; next = pending.pop()) {
      const { folder, path } = next;
      const isMedia = basename(folder) === MEDIA_FOLDER;
      const entries = await readdir(folder, { withFileTypes: true }).catch((error: Error) => {
        this.leftOut.push(`${path}: ${error.message}`);
        return [];
      });
      for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
        if (++names > this.limits.names) {
          this.leftOut.push(`Folders with more than ${this.limits.names} files: the rest of ${path} was not searched. Use toyspec view`);
          return found;
        }
        const isSearched = this.scope === "folder" ? !NOT_SEARCHED.has(entry.name) : entry.name === MEDIA_FOLDER && folder === this.target;
        const here = { path: `${path}/${entry.name}`, file: join(folder, entry.name) };
        // Links are not followed: they may lead out of the folder, or round in it.
        if (entry.isDirectory() && isSearched) pending.push({ folder: here.file, path: here.path });
        if (!entry.isFile()) continue;
        if (entry.name === SEAL) this.leftOut.push(`${here.path}: seals are not compared here. Use toyspec check`);
        else if (isWanted(entry.name)) found.push({ ...here, isNamedOnly: false });
        else if (isMedia) found.push({ ...here, isNamedOnly: true });
      }
    }
    return found;
  }
}

function isWanted(name: string): boolean {
  return isStreamName(name) || BUNDLE.has(name) || HINTS.isLog(name);
}

async function bytesAt(handle: Awaited<ReturnType<typeof open>>, from: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let at = 0;
  while (at < length) {
    const { bytesRead } = await handle.read(bytes, at, length - at, from + at);
    if (bytesRead === 0) break;
    at += bytesRead;
  }
  return bytes.subarray(0, at);
}
