/** Splits a stream of bytes into lines at LF, in pieces of any size. */

import { hasEscapesOrPowers } from "./line-validation.js";
import { isTidyText } from "./proven-records.js";
import { LIMITS } from "./tables.js";

const LF = 0x0a;
const EMPTY = new Uint8Array();

/** One committed line. */
export interface Line {
  /** Line number, from 1. */
  number: number;
  /** Byte offset from the start of the stream, from 0. */
  offset: number;
  /** Number of bytes before the LF. */
  length: number;
  /** The bytes before the LF; null where there are more than the limit. */
  data: Uint8Array | null;
  /** The same as text where all bytes are ASCII and came in one piece; null where that is not known. */
  text: string | null;
  /** True where the text has nothing that takes a closer look: no CR, no space or tab after a quote, no escape by number, no large power of ten. */
  isTidy: boolean;
  /** The first bytes of a line without data, at most `excerpt_bytes`; empty for all others. */
  head: Uint8Array;
}

/** A line that is known as text: few are looked at as bytes. */
class TextLine implements Line {
  readonly length: number;
  readonly text: string;
  readonly head = EMPTY;

  constructor(
    readonly number: number,
    readonly offset: number,
    private readonly place: { chunk: Uint8Array; from: number; text: string },
    readonly isTidy: boolean,
  ) {
    this.text = place.text;
    this.length = place.text.length;
  }

  get data(): Uint8Array {
    return this.place.chunk.subarray(this.place.from, this.place.from + this.length);
  }
}

/**
 * Takes the line that begins at index *from* of a chunk, and returns where it ends, after its LF; -1 where it does not take it.
 * *number* and *offset* are those of the line in the stream.
 */
export type Known = (chunk: Uint8Array, from: number, number: number, offset: number) => number;

/** The bytes after the last LF. */
export interface Fragment {
  number: number;
  offset: number;
  length: number;
  allNul: boolean;
  /** The first bytes, at most `excerpt_bytes`. */
  head: Uint8Array;
}

const HEAD_BYTES = LIMITS.excerpt_bytes;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Cuts what is fed into committed lines; how the bytes arrive changes nothing. */
export class LineSplitter {
  private number = 1;
  private offset = 0;
  private length = 0;
  private held: Uint8Array[] = [];
  private head: Uint8Array = EMPTY;
  private allNul = true;

  constructor(private readonly limit: number = LIMITS.max_line_bytes) {}

  /** Number of bytes fed so far. */
  get size(): number {
    return this.offset + this.length;
  }

  /** Returns the lines that the chunk commits, except those that *known* takes. The chunk may be kept; do not change it afterwards. */
  *feed(chunk: Uint8Array, known?: Known): Generator<Line> {
    let text: string | null | undefined;
    let isTidy = false;
    let from = 0;
    for (;;) {
      const next = this.length === 0 && known !== undefined ? known(chunk, from, this.number, this.offset) : -1;
      if (next >= 0) {
        this.offset += next - from;
        this.number++;
        from = next;
        continue;
      }
      const end = chunk.indexOf(LF, from);
      if (end < 0) break;
      // Only lines that begin in this chunk need its text.
      if (text === undefined && this.length === 0) {
        text = asciiText(chunk);
        isTidy = text !== null && isTidyText(text) && !hasEscapesOrPowers(text);
      }
      if (this.length === 0 && typeof text === "string" && end - from <= this.limit) {
        yield new TextLine(this.number++, this.offset, { chunk, from, text: text.slice(from, end) }, isTidy);
        this.offset += end - from + 1;
      } else {
        this.hold(chunk.subarray(from, end));
        yield this.commit();
      }
      from = end + 1;
    }
    if (from < chunk.length) this.hold(chunk.slice(from));
  }

  /** Returns the bytes after the last LF as they stand, null when there are none. */
  fragment(): Fragment | null {
    if (this.length === 0) return null;
    return { number: this.number, offset: this.offset, length: this.length, allNul: this.allNul, head: this.start() };
  }

  /** Returns the first bytes of the line that is not finished. */
  private start(): Uint8Array {
    if (this.held.length === 0) return this.head;
    const parts: Uint8Array[] = [];
    for (let length = 0, index = 0; length < HEAD_BYTES && index < this.held.length; index++) {
      parts.push(this.held[index]!.subarray(0, HEAD_BYTES));
      length += parts.at(-1)!.length;
    }
    return joined(parts).slice(0, HEAD_BYTES);
  }

  private hold(piece: Uint8Array): void {
    this.length += piece.length;
    this.allNul &&= piece.every((byte) => byte === 0);
    if (this.length <= this.limit) {
      if (piece.length > 0) this.held.push(piece);
      return;
    }
    if (this.head.length < HEAD_BYTES) {
      const parts = [this.head, ...this.held, piece].map((part) => part.subarray(0, HEAD_BYTES));
      this.head = joined(parts).slice(0, HEAD_BYTES);
    }
    this.held = [];
  }

  private commit(): Line {
    const data = this.length > this.limit ? null : joined(this.held);
    const line = { number: this.number, offset: this.offset, length: this.length, data, text: null, isTidy: false, head: this.head };
    this.number++;
    this.offset += this.length + 1;
    this.length = 0;
    this.held = [];
    this.head = EMPTY;
    this.allNul = true;
    return line;
  }
}

/** Returns bytes as text where all are ASCII, so that places in it are those in the bytes; null for all others. */
export function asciiText(chunk: Uint8Array): string | null {
  const text = decoder.decode(chunk);
  return text.length === chunk.length && !text.includes("\ufffd") ? text : null;
}

/** Returns pieces as one. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  if (pieces.length === 1) return pieces[0]!;
  const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
