/** Where a finding lies, and what of its line is kept for a person. */

import { LIMITS } from "./tables.js";
import type { Line } from "./lines.js";
import type { Node, ObjectNode } from "./scanner.js";

/** A part of a line around the place of a finding. */
export interface Excerpt {
  /** At most 400 bytes of the line, as they are in the file. */
  data: Uint8Array;
  /** Offset of the part from the start of the line, in bytes. */
  start: number;
  /** Offset of the place from the start of the line, in bytes. */
  mark: number;
  /** Number of bytes of the line that were at hand. */
  length: number;
}

/** A line, and a byte in it. */
export interface Place {
  /** Line number, from 1. */
  line: number;
  /** Byte offset of the line from the start of its file, from 0. */
  lineOffset: number;
  /** Byte offset of the place from the start of the line, from 0. */
  byte: number;
  /** The line, where a part of it helps. */
  data?: Uint8Array | undefined;
}

const EXCERPT_BYTES = 400;
const EXCERPT_BEFORE = LIMITS.excerpt_bytes;

/** Returns the part of the line around a place, undefined where the line is not known. */
export function excerptAt(place: Place): Excerpt | undefined {
  const { byte, data } = place;
  if (data === undefined || data.length === 0) return undefined;
  const start = Math.max(0, Math.min(byte - EXCERPT_BEFORE, data.length - EXCERPT_BYTES));
  // A copy: a view would keep the whole chunk that the line lies in.
  return { data: data.slice(start, start + EXCERPT_BYTES), start, mark: byte, length: data.length };
}

/** Returns the place of a byte of a line. */
export function placeIn(line: Line, byte: number): Place {
  return { line: line.number, lineOffset: line.offset, byte, data: line.data ?? line.head };
}

/** Returns the start of a line, without an excerpt. */
export function lineStart(line: Pick<Line, "number" | "offset">): Place {
  return { line: line.number, lineOffset: line.offset, byte: 0 };
}

/** Returns the place of the value at a pointer, of the object around it where that is missing. */
export function placeOf(line: Line, record: ObjectNode, pointer: string): Place {
  let node: Node = record;
  for (const part of pointer.slice(1).split("/")) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    const inner: Node | undefined = node.type === "object" ? node.members.get(key) : undefined;
    if (!inner) break;
    node = inner;
  }
  return placeIn(line, node.offset);
}

/** Returns the place of a byte of a text of several lines. */
export function placeInText(data: Uint8Array, offset: number): Place {
  let line = 1;
  let start = 0;
  for (let at = data.indexOf(0x0a); at >= 0 && at < offset; at = data.indexOf(0x0a, at + 1)) {
    line++;
    start = at + 1;
  }
  const end = data.indexOf(0x0a, offset);
  return { line, lineOffset: start, byte: offset - start, data: data.subarray(start, end < 0 ? undefined : end) };
}
