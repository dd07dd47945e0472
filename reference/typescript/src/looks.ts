/** Determines what a stream without a profile looks like: see schemas/meta/looks.json. */

import { shortened } from "./escaping.js";
import * as messages from "./messages.js";
import type { ObjectNode } from "./scanner.js";
import { LOOKS } from "./tables.js";

/** What a file is known as, and the program that reads or converts it, where one is known. */
export interface Look {
  look: string;
  read_with?: string | undefined;
}

interface Context {
  /** True where the head is the whole stream. */
  isAll: boolean;
  /** The first readable record. */
  first?: ObjectNode | undefined;
}

const STARTS = LOOKS.starts.map(({ hex, ...look }) => ({ ...look, bytes: Uint8Array.from(hex.match(/../g)!, (pair) => parseInt(pair, 16)) }));
const FIRST_LINES = LOOKS.first_lines.map(({ pattern, ...look }) => ({ ...look, pattern: new RegExp(`^(?:${pattern})$`) }));

/** Keeps the first bytes of a stream. */
export class StreamHead {
  bytes = new Uint8Array();

  feed(chunk: Uint8Array): void {
    const room = LOOKS.head_bytes - this.bytes.length;
    if (room === 0) return;
    const whole = new Uint8Array(this.bytes.length + Math.min(room, chunk.length));
    whole.set(this.bytes);
    whole.set(chunk.subarray(0, room), this.bytes.length);
    this.bytes = whole;
  }
}

/** Returns what a file that begins with bytes of its own is known as, such as an archive; undefined for all others. */
export function knownStart(head: Uint8Array): Look | undefined {
  return STARTS.find(({ at, bytes }) => bytes.every((byte, index) => head[at + index] === byte));
}

/** Returns what the first bytes of a stream are known as, undefined where they are not. */
export function knownLook(head: Uint8Array, isAll: boolean): Look | undefined {
  const start = knownStart(head);
  if (start) return start;
  const line = firstLine(head, isAll);
  return line === null ? undefined : FIRST_LINES.find(({ pattern }) => pattern.test(line));
}

/** Returns what a stream without a profile looks like: the message of unknown-format. */
export function lookOf(head: Uint8Array, { isAll, first }: Context): Look {
  const known = knownLook(head, isAll);
  if (known) return known;
  if (!first) return { look: head.includes(0) ? LOOKS.binary : LOOKS.text };
  return { look: first.members.size === 0 ? LOOKS.empty_record : LOOKS.record.replace("{keys}", () => shownKeys(first)) };
}

/** Returns what to do about a file that is known, undefined where no program is known that reads it. */
export function adviceFor({ read_with: program }: Look): string | undefined {
  return program === undefined ? undefined : messages.otherFormatAdvice({ command: program });
}

function shownKeys({ members }: ObjectNode): string {
  const keys = [...members.keys()];
  const shown = keys.slice(0, LOOKS.shown_keys).map((key) => shortened(key));
  return [...shown, ...(keys.length > shown.length ? ["…"] : [])].join(", ");
}

/** Returns the first line that is not blank, each byte as one character; null where it does not end in the head. */
function firstLine(head: Uint8Array, isAll: boolean): string | null {
  const start = head.findIndex((byte) => !isSpace(byte));
  if (start < 0) return null;
  const feed = head.indexOf(0x0a, start);
  if (feed < 0 && !isAll) return null;
  let end = feed < 0 ? head.length : feed;
  while (isSpace(head[end - 1]!)) end--;
  return Array.from(head.subarray(start, end), (byte) => String.fromCharCode(byte)).join("");
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === 0x0a;
}
