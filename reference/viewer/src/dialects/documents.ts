/** Cuts the objects of an array out of one JSON document, in pieces of any size. */

import { joined } from "../../../typescript/src/lines.js";
import { LIMITS } from "../../../typescript/src/tables.js";

/** An object in a document; its data is null where it is longer than a line may be. */
export interface Cut {
  /** Number of the line on which it begins, from 1. */
  line: number;
  offset: number;
  length: number;
  data: Uint8Array | null;
}

const [QUOTE, ESCAPE, LF] = [0x22, 0x5c, 0x0a];
const OPENING: ReadonlySet<number> = new Set([0x7b, 0x5b]);
const CLOSING: ReadonlySet<number> = new Set([0x7d, 0x5d]);
const [BRACE, BRACKET] = [0x7b, 0x5b];

/** Gives each object of the array under a key, or of the array that the document is where the key is empty. */
export class DocumentCutter {
  /** Byte offset after the last object; the size once the document is closed. */
  committed = 0;
  size = 0;
  isClosed = false;
  /** Number of the line after the last object, counted from 1. */
  nextLine = 1;
  private readonly key: Uint8Array;
  private readonly level: number;
  private line = 1;
  private depth = 0;
  private isInside: boolean;
  private isInString = false;
  private isEscaped = false;
  /** Length of the longest key that is looked for. */
  private readonly longest: number;
  /** The last string, as far as it can be a key. */
  private last: number[] = [];
  private open: { line: number; offset: number; from: number; kept: Uint8Array[]; length: number } | null = null;

  /** Digits of a number beside the array, and the largest such number under one of the keys. */
  private digits = "";
  beside: number | null = null;

  constructor(key: string, private readonly numbers: readonly string[] = []) {
    this.key = new TextEncoder().encode(key);
    this.longest = Math.max(this.key.length, ...numbers.map(({ length }) => length));
    this.level = key === "" ? 1 : 2;
    this.isInside = key === "";
  }

  /** Returns the objects that a chunk completes, in order. */
  feed(chunk: Uint8Array): Cut[] {
    const found: Cut[] = [];
    if (this.open) this.open.from = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]!;
      if (byte === LF) this.line++;
      if (this.depth === 1 && this.numbers.length > 0 && !this.isInString) this.takeBeside(byte);
      if (this.isInString) this.takeInString(byte);
      else if (byte === QUOTE) {
        this.isInString = true;
        this.last = [];
      } else if (OPENING.has(byte)) this.begin(byte, at);
      else if (CLOSING.has(byte)) this.end(chunk, at, found);
    }
    this.size += chunk.length;
    if (this.open) this.keep(chunk.subarray(this.open.from));
    if (this.isClosed) this.committed = this.size;
    return found;
  }

  private takeBeside(byte: number): void {
    const letter = String.fromCharCode(byte);
    if (/[\d.eE+-]/.test(letter)) this.digits += letter;
    else if (this.digits !== "") {
      if (/^\d{1,18}$/.test(this.digits) && this.numbers.includes(String.fromCharCode(...this.last))) this.beside = Math.max(this.beside ?? 0, Number(this.digits));
      this.digits = "";
    }
  }

  private takeInString(byte: number): void {
    if (this.isEscaped) this.isEscaped = false;
    else if (byte === ESCAPE) this.isEscaped = true;
    else if (byte === QUOTE) {
      this.isInString = false;
      return;
    }
    if (this.depth < this.level && this.last.length <= this.longest) this.last.push(byte);
  }

  private begin(byte: number, at: number): void {
    if (!this.open && this.depth === 1 && this.level === 2) this.isInside = byte === BRACKET && this.last.length === this.key.length && this.key.every((each, index) => each === this.last[index]);
    if (!this.open && byte === BRACE && this.isInside && this.depth === this.level) this.open = { line: this.line, offset: this.size + at, from: at, kept: [], length: 0 };
    this.depth++;
  }

  private end(chunk: Uint8Array, at: number, found: Cut[]): void {
    this.depth--;
    if (this.open && this.depth === this.level) {
      this.keep(chunk.subarray(this.open.from, at + 1));
      const { line, offset, kept, length } = this.open;
      found.push({ line, offset, length, data: length > LIMITS.max_line_bytes ? null : joined(kept) });
      this.committed = offset + length;
      this.nextLine = this.line;
      this.open = null;
    }
    this.isClosed ||= this.depth <= 0;
    this.isInside &&= this.depth >= this.level;
  }

  private keep(part: Uint8Array): void {
    this.open!.length += part.length;
    if (this.open!.length <= LIMITS.max_line_bytes) this.open!.kept.push(part.slice());
    else this.open!.kept = [];
  }
}
