/** Compares the files of a bundle with its seal, SHA256SUMS: see spec/rules/seal-broken.md. */

import { Collector } from "../src/collecting.js";
import { shortened } from "../src/escaping.js";
import * as messages from "../src/messages.js";
import { LIMITS } from "../src/tables.js";
import type { FileReport } from "../src/checker.js";
import { Sha256 } from "./sha256.js";

/** Name of the seal in a bundle. */
export const SEAL = "SHA256SUMS";

/** A seal, and the files that it may name; the page has no others. */
export interface SealedBundle {
  /** Null where it is not a regular file. */
  seal: Blob | null;
  /** Path and content of every file in the bundle. */
  files: ReadonlyMap<string, Blob>;
  /** Paths of the directories in the bundle. */
  directories: ReadonlySet<string>;
}

interface SealLine {
  digest: string;
  name: string;
}

const LINE = /^(\\?)([0-9a-f]{64}) [ *]([^\0]+)$/s;
const ESCAPED = /^(?:[^\\]|\\[\\nr])+$/s;
const SHOWN_DIGITS = 12;
const LF = 0x0a;

/** Adds to the report on the stream *name* what differs from the seal; returns whether anything does. */
export async function addSealFindings(report: FileReport, name: string, bundle: SealedBundle): Promise<boolean> {
  const collector = new Collector();
  await new SealCheck(name, bundle, collector).run();
  report.findings.push(...collector.findings);
  Object.assign(report.suppressed, Object.fromEntries(collector.suppressed));
  report.valid &&= !collector.hasError;
  return collector.hasError;
}

class SealCheck {
  private readonly firstLines = new Map<string, number>();

  constructor(
    private readonly name: string,
    private readonly bundle: SealedBundle,
    private readonly collector: Collector,
  ) {}

  async run(): Promise<void> {
    const { seal } = this.bundle;
    if (seal === null || seal.size > LIMITS.max_line_bytes) {
      const reason = seal === null ? messages.sidecarNotAFile : messages.sidecarTooLong({ limit: LIMITS.max_line_bytes });
      this.report(1, 0, messages.sidecarUnreadable({ name: SEAL, reason }));
      return;
    }
    await this.checkLines(new Uint8Array(await seal.arrayBuffer()));
    if (!this.firstLines.has(this.name)) this.report(1, 0, messages.sealWithoutStream({ name: shortened(this.name) }));
  }

  private async checkLines(data: Uint8Array): Promise<void> {
    for (let start = 0, number = 1; start < data.length; number++) {
      const end = data.indexOf(LF, start);
      const line = data.subarray(start, end < 0 ? data.length : end);
      const sealed = end < 0 ? null : parsed(line);
      if (sealed === null) {
        this.report(number, start, end < 0 ? messages.sealCutOff : messages.sealLine, line);
      } else {
        const message = await this.problem(sealed, number);
        if (message !== null) this.report(number, start, message);
      }
      start += line.length + 1;
    }
  }

  /** Returns what is wrong with the file that a line names, null where nothing is. */
  private async problem(sealed: SealLine, number: number): Promise<string | null> {
    const name = shortened(sealed.name);
    const path = pathOf(sealed.name);
    if (path === null) return messages.sealedOutside({ name });
    const first = this.firstLines.get(path);
    if (first !== undefined) return messages.sealedTwice({ name, line: first });
    this.firstLines.set(path, number);
    const blob = this.bundle.files.get(path);
    if (blob === undefined) {
      const isDirectory = path === "" || this.bundle.directories.has(path);
      return isDirectory ? messages.sealedIrregular({ name }) : messages.sealedMissing({ name });
    }
    const found = await digestOf(blob);
    if (found === sealed.digest) return null;
    const [now, then] = [found, sealed.digest].map((digest) => digest.slice(0, SHOWN_DIGITS)) as [string, string];
    return messages.sealedChanged({ name, found: now, expected: then, size: blob.size });
  }

  private report(line: number, lineOffset: number, message: string, data?: Uint8Array): void {
    this.collector.add("seal-broken", { line, lineOffset, byte: 0, data }, message, { sidecar: SEAL });
  }
}

/** Returns what a line without its LF says, null where it is not one of sha256sum. */
function parsed(line: Uint8Array): SealLine | null {
  // A name that is not UTF-8 is the name of no file that a page is given.
  const match = LINE.exec(new TextDecoder("utf-8", { ignoreBOM: true }).decode(line));
  if (match === null) return null;
  const [, mark, digest, name] = match as unknown as [string, string, string, string];
  if (mark === "") return { digest, name };
  return ESCAPED.test(name) ? { digest, name: name.replace(/\\([\\nr])/g, (_, letter: string) => ({ n: "\n", r: "\r" })[letter] ?? "\\") } : null;
}

/** Returns the parts of a path that count, null where it leaves the bundle. */
function pathOf(name: string): string | null {
  const parts = name.split("/");
  if (name.startsWith("/") || parts.includes("..")) return null;
  return parts.filter((part) => part !== "" && part !== ".").join("/");
}

async function digestOf(blob: Blob): Promise<string> {
  const digest = new Sha256();
  const reader = blob.stream().getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) digest.update(read.value);
  return digest.digest();
}
