/** Scans one JSON text strictly, byte by byte from the left: see spec/encoding.md#order-of-line-validation. */

import { printable, shortened } from "./escaping.js";
import * as messages from "./messages.js";
import { LIMITS } from "./tables.js";

/** A JSON value with the place of its first byte in the line. */
export type Node =
  | { type: "null"; offset: number }
  | { type: "boolean"; offset: number; value: boolean }
  | { type: "string"; offset: number; value: string }
  | NumberNode
  | { type: "array"; offset: number; items: Node[] }
  | ObjectNode;

export interface NumberNode {
  type: "number";
  offset: number;
  /** The number as it is written. */
  text: string;
  /** True where it is written with digits alone. */
  isInteger: boolean;
  /** The same as binary64, where it is known. */
  value?: number;
}

export interface ObjectNode {
  type: "object";
  offset: number;
  /** In the order of their first appearance; of a repeated key the last value. */
  members: Map<string, Node>;
}

/** One problem of the bytes or JSON layer. */
export interface Problem {
  rule: string;
  /** Byte offset in the line, from 0. */
  offset: number;
  pointer: string;
  message: string;
}

/** Thrown where a text stops being JSON, or is nested too deep. */
export class ScanStopped extends Error {
  constructor(
    readonly rule: string,
    readonly offset: number,
    message: string,
  ) {
    super(message);
  }
}

const RANK: Record<string, number> = { "non-finite-number": 0, "lone-surrogate": 1, "duplicate-key": 2 };
/** A line can repeat one long key in the pointers of all its problems; beyond this they are counted only. */
const POINTER_BUDGET = 1 << 20;

const HALF_PAIR = /(?<![\ud800-\udbff])[\udc00-\udfff]|[\ud800-\udbff](?![\udc00-\udfff])/;
const ESCAPE = /\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\(.)/gs;
const SHORT_TEXT = 24;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** One scan of one text, which is well-formed UTF-8 without NUL. Call `scan` once. */
export class Scanner {
  readonly problems: Problem[] = [];
  /** Number of further problems for each rule that are counted, not listed. */
  readonly unlisted = new Map<string, number>();
  private at = 0;
  private readonly path: (string | number)[] = [];
  private budget = POINTER_BUDGET;
  /** True after an escape by number: only these can make half a surrogate pair. */
  private sawCode = false;
  private readonly listed = new Map<string, number>();

  /** Takes bytes, and the same as text where all of them are ASCII. */
  constructor(
    private readonly data: Uint8Array,
    private readonly text: string | null = null,
  ) {}

  /** Returns the value of the whole text; throws ScanStopped. */
  scan(): Node {
    this.space();
    const value = this.value(0);
    this.space();
    if (this.at < this.data.length) throw this.unexpected(this.at, messages.expectedEndOfLine);
    this.problems.sort((a, b) => a.offset - b.offset || RANK[a.rule]! - RANK[b.rule]!);
    return value;
  }

  private space(): void {
    for (;;) {
      const byte = this.data[this.at];
      if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d && byte !== 0x0a) return;
      this.at++;
    }
  }

  private value(depth: number): Node {
    const offset = this.at;
    const byte = this.data[offset];
    switch (byte) {
      case QUOTE: {
        const value = this.string();
        return { type: "string", offset, value };
      }
      case 0x7b: // {
      case 0x5b: // [
        if (depth === LIMITS.max_depth) {
          throw new ScanStopped("nested-too-deep", offset, messages.nestedTooDeep({ limit: LIMITS.max_depth }));
        }
        this.at++;
        return byte === 0x7b ? this.object(offset, depth) : this.array(offset, depth);
      case 0x74:
        this.word("true");
        return { type: "boolean", offset, value: true };
      case 0x66:
        this.word("false");
        return { type: "boolean", offset, value: false };
      case 0x6e:
        this.word("null");
        return { type: "null", offset };
      case 0x4e:
        return this.notFinite("NaN");
      case 0x49:
        return this.notFinite("Infinity");
    }
    if (byte === 0x2d && this.data[offset + 1] === 0x49) return this.notFinite("-Infinity");
    if (byte === 0x2d || isDigit(byte)) return this.number();
    throw this.unexpected(offset, messages.expectedValue);
  }

  private object(offset: number, depth: number): ObjectNode {
    const members = new Map<string, Node>();
    this.space();
    if (this.data[this.at] === 0x7d) {
      this.at++;
      return { type: "object", offset, members };
    }
    for (;;) {
      const start = this.at;
      if (this.data[start] !== QUOTE) throw this.unexpected(start, messages.expectedKey);
      this.path.push("");
      const key = this.string(true);
      this.space();
      if (this.data[this.at] !== 0x3a) throw this.unexpected(this.at, messages.expectedColon);
      this.at++;
      this.space();
      if (members.has(key)) this.note("duplicate-key", this.at, messages.duplicateKey({ key: shortened(key) }));
      members.set(key, this.value(depth + 1));
      this.path.pop();
      if (this.isLast(0x7d, messages.expectedMemberOfObject)) return { type: "object", offset, members };
    }
  }

  private array(offset: number, depth: number): Node {
    const items: Node[] = [];
    this.space();
    if (this.data[this.at] === 0x5d) {
      this.at++;
      return { type: "array", offset, items };
    }
    for (;;) {
      this.path.push(items.length);
      items.push(this.value(depth + 1));
      this.path.pop();
      if (this.isLast(0x5d, messages.expectedMemberOfArray)) return { type: "array", offset, items };
    }
  }

  /** Goes over what follows a member; returns whether it was the last. */
  private isLast(end: number, expected: string): boolean {
    this.space();
    const byte = this.data[this.at];
    if (byte !== end && byte !== 0x2c) throw this.unexpected(this.at, expected);
    this.at++;
    if (byte === end) return true;
    this.space();
    return false;
  }

  private word(word: string): void {
    for (let i = 0; i < word.length; i++) {
      if (this.data[this.at + i] !== word.charCodeAt(i)) throw this.unexpected(this.at + i, messages.expectedWord({ word }));
    }
    this.at += word.length;
  }

  private notFinite(word: string): Node {
    const offset = this.at;
    this.word(word);
    this.note("non-finite-number", offset, messages.nonFiniteNumber({ literal: word }));
    return { type: "number", offset, text: word, isInteger: false };
  }

  private number(): Node {
    const offset = this.at;
    let isInteger = true;
    if (this.data[this.at] === 0x2d) this.at++;
    if (this.data[this.at] === 0x30) this.at++;
    else this.digits();
    if (this.data[this.at] === 0x2e) {
      isInteger = false;
      this.at++;
      this.digits();
    }
    if (this.data[this.at] === 0x65 || this.data[this.at] === 0x45) {
      isInteger = false;
      this.at++;
      if (this.data[this.at] === 0x2b || this.data[this.at] === 0x2d) this.at++;
      this.digits();
    }
    const text = this.part(offset, this.at);
    if (!Number.isFinite(Number(text))) {
      this.note("non-finite-number", offset, messages.nonFiniteNumberTooLarge({ literal: shortened(text.slice(0, 200)) }));
    }
    return { type: "number", offset, text, isInteger };
  }

  private digits(): void {
    const start = this.at;
    while (isDigit(this.data[this.at])) this.at++;
    if (this.at === start) throw this.unexpected(start, messages.expectedDigit);
  }

  /** Goes over a string and returns its characters; a key becomes the last part of the path. */
  private string(isKey = false): string {
    const start = this.at;
    const text = this.characters();
    if (isKey) this.path[this.path.length - 1] = text;
    if (this.sawCode && HALF_PAIR.test(text)) this.note("lone-surrogate", start, messages.loneSurrogate({ escape: this.halfEscape(start) }));
    return text;
  }

  /** Returns the first escape of half a surrogate pair in the string that begins at *start* and ends here, as it is written. */
  private halfEscape(start: number): string {
    for (const found of decoder.decode(this.data.subarray(start, this.at)).matchAll(ESCAPE)) {
      if (/^[dD][89a-fA-F]/.test(found[3] ?? "")) return found[0];
    }
    return "";
  }

  private characters(): string {
    let from = ++this.at;
    let text = "";
    for (;;) {
      const byte = this.data[this.at];
      if (byte === undefined || byte < 0x20) throw this.unexpected(this.at, messages.expectedEndOfString);
      if (byte !== QUOTE && byte !== BACKSLASH) {
        this.at++;
        continue;
      }
      if (from < this.at) text += this.part(from, this.at);
      this.at++;
      if (byte === QUOTE) return text;
      text += this.escape();
      from = this.at;
    }
  }

  private part(from: number, to: number): string {
    return this.text === null ? textOf(this.data, from, to) : this.text.slice(from, to);
  }

  private escape(): string {
    const byte = this.data[this.at];
    if (byte === 0x75) {
      this.sawCode = true;
      let code = 0;
      for (let i = 1; i <= 4; i++) {
        const digit = hexDigit(this.data[this.at + i]);
        if (digit < 0) throw this.unexpected(this.at + i, messages.expectedHex);
        code = code * 16 + digit;
      }
      this.at += 5;
      return String.fromCharCode(code);
    }
    const meant = byte === undefined ? undefined : ESCAPES[byte];
    if (meant === undefined) throw this.unexpected(this.at, messages.expectedEscape);
    this.at++;
    return meant;
  }

  private note(rule: string, offset: number, message: string): void {
    const listed = this.listed.get(rule) ?? 0;
    if (listed < LIMITS.max_findings_per_rule && (this.budget > 0 || listed === 0)) {
      const pointer = pointerTo(this.path);
      this.budget -= pointer.length;
      this.listed.set(rule, listed + 1);
      this.problems.push({ rule, offset, pointer, message });
    } else {
      this.unlisted.set(rule, (this.unlisted.get(rule) ?? 0) + 1);
    }
  }

  private unexpected(offset: number, expected: string): ScanStopped {
    const end = this.data.length;
    const at = Math.min(offset, end);
    const [character = ""] = new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.data.subarray(at, at + 4));
    const found =
      at === end ? messages.foundEndOfLine
      : character === '"' ? messages.foundDoubleQuote
      : messages.foundCharacter({ character: printable(character) });
    return new ScanStopped("invalid-json", at, messages.invalidJson({ expected, found }));
  }
}

const ESCAPES: Record<number, string> = {
  0x22: '"', 0x5c: "\\", 0x2f: "/", 0x62: "\b", 0x66: "\f", 0x6e: "\n", 0x72: "\r", 0x74: "\t",
};

/** Returns a part of well-formed UTF-8 as text. */
function textOf(data: Uint8Array, from: number, to: number): string {
  // Names and numbers are short and ASCII: a call of the decoder costs more than they do.
  if (to - from > SHORT_TEXT) return decoder.decode(data.subarray(from, to));
  let text = "";
  for (let at = from; at < to; at++) {
    const byte = data[at]!;
    if (byte >= 0x80) return decoder.decode(data.subarray(from, to));
    text += String.fromCharCode(byte);
  }
  return text;
}

/** Returns the RFC 6901 JSON Pointer of a path; half a surrogate pair shows as U+FFFD. */
export function pointerTo(path: readonly (string | number)[]): string {
  return path.map((part) => "/" + toWellFormed(String(part)).replaceAll("~", "~0").replaceAll("/", "~1")).join("");
}

/** Returns text in which half a surrogate pair is U+FFFD. */
export function toWellFormed(text: string): string {
  return text.replace(new RegExp(HALF_PAIR, "g"), "\ufffd");
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (isDigit(byte)) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
