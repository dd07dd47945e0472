/** Judges one line as bytes and as JSON: see spec/encoding.md#the-order-of-vetting. */

import type { Line } from "./lines.js";
import { type Fault, type ObjectNode, Scanner, ScanStopped } from "./scanner.js";

/** The verdict on one line. */
export interface Vetted {
  status: "readable" | "unreadable" | "blank";
  /** In byte order. */
  faults: Fault[];
  unlisted: ReadonlyMap<string, number>;
  /** Byte offset of the first raw CR in a readable or blank line, -1 where there is none. */
  carriageReturn: number;
  /** The object of a readable line, null for all others. */
  value: ObjectNode | null;
}

const NONE: ReadonlyMap<string, number> = new Map();

/** Returns the verdict on a committed line within the limit, or beyond it. */
export function vetLine(line: Line, limit: number): Vetted {
  if (line.data === null) return unreadable("line-too-long", 0, `the line has ${line.length} bytes, the limit is ${limit}`);
  return vet(line.data, line.number === 1);
}

/** Returns the verdict on a text, LF excluded; in a text that is a whole file LF is white space. */
export function vet(data: Uint8Array, first: boolean): Vetted {
  if (data.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === 0x0a)) {
    return { status: "blank", faults: [], unlisted: NONE, carriageReturn: data.indexOf(0x0d), value: null };
  }
  if (first && data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf) {
    return unreadable("byte-order-mark", 0, "the stream begins with the bytes ef bb bf");
  }
  const nul = data.indexOf(0);
  if (nul >= 0) return unreadable("nul-bytes", nul, "the line holds NUL");
  const wrong = firstNotUtf8(data);
  if (wrong >= 0) return unreadable("invalid-utf8", wrong, `byte ${data[wrong]!.toString(16)} is not UTF-8`);
  const scanner = new Scanner(data);
  try {
    const value = scanner.scan();
    if (value.type !== "object") return unreadable("not-an-object", value.offset, `the value is a ${value.type}`);
    const readable = scanner.faults.every((fault) => fault.rule === "duplicate-key");
    return {
      status: readable ? "readable" : "unreadable",
      faults: scanner.faults,
      unlisted: scanner.unlisted,
      carriageReturn: readable ? data.indexOf(0x0d) : -1,
      value: readable ? value : null,
    };
  } catch (error) {
    if (error instanceof ScanStopped) return unreadable(error.rule, error.offset, error.message);
    throw error;
  }
}

/** Returns the first rule that makes a line unreadable; a repeated key alone does not. */
export function reasonOf(vetted: Vetted): string {
  return vetted.faults.find((fault) => fault.rule !== "duplicate-key")!.rule;
}

function unreadable(rule: string, offset: number, message: string): Vetted {
  return { status: "unreadable", faults: [{ rule, offset, pointer: "", message }], unlisted: NONE, carriageReturn: -1, value: null };
}

/** Returns the offset of the first byte of what is not well-formed UTF-8, -1 where all is. */
function firstNotUtf8(data: Uint8Array): number {
  let at = 0;
  while (at < data.length) {
    const lead = data[at]!;
    if (lead < 0x80) {
      at++;
      continue;
    }
    const more = lead >= 0xc2 && lead < 0xe0 ? 1 : lead >= 0xe0 && lead < 0xf0 ? 2 : lead >= 0xf0 && lead < 0xf5 ? 3 : 0;
    if (more === 0) return at;
    const low = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
    const high = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
    const second = data[at + 1] ?? 0;
    if (second < low || second > high) return at;
    for (let i = 2; i <= more; i++) if (((data[at + i] ?? 0) & 0xc0) !== 0x80) return at;
    at += more + 1;
  }
  return -1;
}
