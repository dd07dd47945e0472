/** Checks one line as bytes and as JSON: see spec/encoding.md#order-of-line-validation. */

import { characterLength } from "./escaping.js";
import type { Line } from "./lines.js";
import * as messages from "./messages.js";
import { nounOf } from "./phrases.js";
import { type Problem, type ObjectNode, Scanner, ScanStopped } from "./scanner.js";
import { LIMITS } from "./tables.js";

/** The verdict on one line. */
export interface ValidatedLine {
  status: "readable" | "unreadable" | "blank";
  /** In byte order. */
  problems: Problem[];
  unlisted: ReadonlyMap<string, number>;
  /** Byte offset of the first raw CR in a readable or blank line, -1 where there is none. */
  carriageReturn: number;
  /** The object of a readable line, null for all others. */
  value: ObjectNode | null;
}

// Longer lines are not looked at more than once.
const LONG_LINE_BYTES = 1 << 20;
const RECORD_STARTS = ['{"kind":', '{"type":', '{"step":'].map((start) => new TextEncoder().encode(start));
const NONE: ReadonlyMap<string, number> = new Map();

/** Returns the verdict on a committed line within the limit, or beyond it. */
export function validateLine(line: Line, limit: number): ValidatedLine {
  if (line.data === null) return unreadable("line-too-long", 0, messages.lineTooLong({ length: line.length, limit }));
  return validateText(line.data, line.number === 1, line.text);
}

/**
 * Returns the verdict on a text, LF excluded; in a text that is a whole file LF is white space. *ascii* is the same
 * where all of it is known to be ASCII.
 */
export function validateText(data: Uint8Array, first: boolean, ascii: string | null = null): ValidatedLine {
  if (data.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === 0x0a)) {
    return { status: "blank", problems: [], unlisted: NONE, carriageReturn: data.indexOf(0x0d), value: null };
  }
  if (first && data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf) {
    return unreadable("byte-order-mark", 0, messages.byteOrderMark);
  }
  const nul = ascii === null ? data.indexOf(0) : ascii.indexOf("\0");
  if (nul >= 0) return unreadable("nul-bytes", nul, messages.nulBytes({ count: countNul(data), length: data.length }));
  const wrong = ascii === null ? firstNotUtf8(data) : -1;
  if (wrong >= 0) return unreadable("invalid-utf8", wrong, messages.invalidUtf8({ byte: data[wrong]!.toString(16), reason: whyNotUtf8(data, wrong) }));
  const scanner = new Scanner(data, ascii);
  try {
    const value = scanner.scan();
    if (value.type !== "object") return unreadable("not-an-object", value.offset, messages.notAnObject({ found: nounOf(value) }));
    const readable = scanner.problems.every((problem) => problem.rule === "duplicate-key");
    return {
      status: readable ? "readable" : "unreadable",
      problems: scanner.problems,
      unlisted: scanner.unlisted,
      carriageReturn: readable ? data.indexOf(0x0d) : -1,
      value: readable ? value : null,
    };
  } catch (error) {
    if (error instanceof ScanStopped) return unreadable(error.rule, error.offset, explained(error, data));
    throw error;
  }
}

const OPENING_BRACE = 0x7b;
/** What may be a number beyond the range of binary64. */
const LARGE_EXPONENT = /[eE]\+?\d{3}/;
const MOST_DIGITS = 300;
const MANY_DIGITS = /\d{300}/;

/**
 * Returns the object of a line that is readable for sure, undefined for one that has to be validated. What JSON.parse
 * takes and this format does not is looked for in the text: numbers without an end, half surrogate pairs, depth.
 */
export function parsedForSure({ text, isTidy }: Line): { [key: string]: unknown } | undefined {
  if (text === null || text.charCodeAt(0) !== OPENING_BRACE) return undefined;
  if (!isTidy && hasEscapesOrPowers(text)) return undefined;
  if (text.length >= MOST_DIGITS && MANY_DIGITS.test(text)) return undefined;
  if (mayBeDeep(text)) return undefined;
  try {
    return JSON.parse(text) as { [key: string]: unknown };
  } catch {
    return undefined;
  }
}

/** Returns whether a text may have half a surrogate pair, or a number that its power takes beyond the range of binary64. */
export function hasEscapesOrPowers(text: string): boolean {
  return text.includes("\\u") || LARGE_EXPONENT.test(text);
}

function mayBeDeep(text: string): boolean {
  if (text.length <= LIMITS.max_depth) return false;
  let opened = 0;
  for (const bracket of ["{", "["]) {
    for (let at = text.indexOf(bracket); at >= 0 && opened <= LIMITS.max_depth; at = text.indexOf(bracket, at + 1)) opened++;
  }
  return opened > LIMITS.max_depth;
}

/** Returns the first rule that makes a line unreadable; a repeated key alone does not. */
export function reasonOf(validated: ValidatedLine): string {
  return validated.problems.find((problem) => problem.rule !== "duplicate-key")!.rule;
}

function unreadable(rule: string, offset: number, message: string): ValidatedLine {
  return { status: "unreadable", problems: [{ rule, offset, pointer: "", message }], unlisted: NONE, carriageReturn: -1, value: null };
}

/** Returns the offset of the first byte of what is not well-formed UTF-8, -1 where all is. */
function firstNotUtf8(data: Uint8Array): number {
  let at = 0;
  while (at < data.length) {
    if (data[at]! < 0x80) {
      at++;
      continue;
    }
    const length = characterLength(data, at);
    if (length === 0) return at;
    at += length;
  }
  return -1;
}

function whyNotUtf8(data: Uint8Array, at: number): string {
  const lead = data[at]!;
  if (lead < 0xc2 || lead > 0xf4) return "invalid start byte";
  // What ends too early would be whole with the right bytes after it.
  const rest = data.subarray(at);
  const length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (rest.length >= length) return "invalid continuation byte";
  const second = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  const filled = Uint8Array.from({ length }, (_, index) => rest[index] ?? (index === 1 ? second : 0x80));
  return characterLength(filled, 0) > 0 ? "unexpected end of data" : "invalid continuation byte";
}

function countNul(data: Uint8Array): number {
  let count = 0;
  for (const byte of data) if (byte === 0) count++;
  return count;
}

/** Returns why the line is not JSON: where a record begins inside another, that. */
function explained({ rule, offset, message }: ScanStopped, data: Uint8Array): string {
  if (rule !== "invalid-json" || data.length > LONG_LINE_BYTES) return message;
  for (const start of RECORD_STARTS) {
    const glue = lastIndexOf(data, start);
    if (glue > 0 && validateText(data.subarray(glue), false).value !== null) return messages.invalidJsonSecondRecord({ at: offset });
  }
  return message;
}

function lastIndexOf(data: Uint8Array, part: Uint8Array): number {
  let at = data.lastIndexOf(part[0]!);
  while (at >= 0 && !part.every((byte, index) => data[at + index] === byte)) at = at === 0 ? -1 : data.lastIndexOf(part[0]!, at - 1);
  return at;
}
