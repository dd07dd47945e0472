/**
 * Proves lines that differ from a proven one in their numbers alone: the text between the numbers is compared byte by byte,
 * and each number passes the test of its field. A line that is not proven here may still be right.
 */

import { nodeOf, ProvenNumber, type Test } from "./proven-records.js";
import type { Node, ObjectNode } from "./scanner.js";
import { LIMITS } from "./tables.js";

/** What the fields of a kind require of numbers. */
export interface NumberField {
  test: Test;
  isInteger: boolean;
}

/** A number of a line, after the text before it. */
interface Slot {
  before: Uint8Array;
  test: Test;
  isInteger: boolean;
  /** True in an open map, where an integer that binary64 does not hold exactly has to be reported. */
  isInner: boolean;
  /** The members that it is one of, and its name among them; null for a number that is not asked for. */
  wanted: { members: Map<string, Node>; name: string } | null;
}

/** More are not kept: lines that have a text of their own are proven one by one. */
const MOST_SHAPES = 64;
/** Learning a shape costs as much as eight lines read by one save. */
const [MOST_CREDIT, COST_OF_LEARNING] = [1024, 8];
/** With two digits of an exponent, no number of so many letters is beyond the range of binary64. */
const LONGEST_NUMBER = 200;
const EXACT = 2 ** 53;
const POWERS = Float64Array.from({ length: 23 }, (_, at) => Number(`1e${at}`));
const [MINUS, PLUS, POINT, ZERO, NINE, EXPONENT] = [45, 43, 46, 48, 57, 101];
const NO_KEYS = { count: 0 };
const [encoder, ascii] = [new TextEncoder(), new TextDecoder("latin1")];

/** A proven line without its numbers. */
class Shape {
  private readonly values: Float64Array;
  private at = 0;
  /** The shape of the line that followed the last one of this shape. */
  next: Shape | undefined;

  constructor(
    readonly kind: string,
    private readonly slots: readonly Slot[],
    private readonly after: Uint8Array,
    private readonly members: Map<string, Node>,
  ) {
    this.values = new Float64Array(slots.length);
  }

  /** Returns where the line that begins at *start* ends, after its LF; -1 where it is not proven. */
  read(bytes: Uint8Array, start: number): number {
    const { slots, values } = this;
    this.at = start;
    for (let index = 0; index < slots.length; index++) {
      const slot = slots[index]!;
      if (!this.passes(bytes, slot.before)) return -1;
      const value = this.number(bytes, slot.isInteger);
      if (!slot.test(value, NO_KEYS) || (slot.isInner && Math.abs(value) > LIMITS.max_safe_integer)) return -1;
      values[index] = value;
    }
    return this.passes(bytes, this.after) ? this.at : -1;
  }

  /** Returns of the line that was read last the members that are asked for; the next call changes it. */
  node(): ObjectNode {
    for (let index = 0; index < this.slots.length; index++) {
      const { wanted } = this.slots[index]!;
      // A rule may keep a number, but not the record.
      if (wanted !== null) wanted.members.set(wanted.name, new ProvenNumber(this.values[index]!));
    }
    return { type: "object", offset: 0, members: this.members };
  }

  private passes(bytes: Uint8Array, wanted: Uint8Array): boolean {
    const { at } = this;
    for (let index = 0; index < wanted.length; index++) if (bytes[at + index] !== wanted[index]) return false;
    this.at = at + wanted.length;
    return true;
  }

  /** Returns the number that begins here; NaN, which no test takes, for another text and for one that is unusual. */
  private number(bytes: Uint8Array, isInteger: boolean): number {
    let { at } = this;
    let byte = bytes[at]!;
    const isNegative = byte === MINUS;
    if (isNegative) byte = bytes[++at]!;
    if (!(byte >= ZERO && byte <= NINE)) return NaN;
    let digits = byte - ZERO;
    byte = bytes[++at]!;
    if (digits > 0) for (; byte >= ZERO && byte <= NINE; byte = bytes[++at]!) digits = digits * 10 + (byte - ZERO);
    let power = 0;
    if (byte === POINT && !isInteger) {
      const point = at;
      byte = bytes[++at]!;
      for (; byte >= ZERO && byte <= NINE; byte = bytes[++at]!) digits = digits * 10 + (byte - ZERO);
      power = point + 1 - at;
      if (power === 0) return NaN;
    }
    if ((byte | 32) === EXPONENT && !isInteger) {
      byte = bytes[++at]!;
      const isSmall = byte === MINUS;
      if (isSmall || byte === PLUS) byte = bytes[++at]!;
      const start = at;
      let written = 0;
      for (; byte >= ZERO && byte <= NINE; byte = bytes[++at]!) written = written * 10 + (byte - ZERO);
      if (at === start || at - start > 2) return NaN;
      power += isSmall ? -written : written;
    }
    if (at - this.at > LONGEST_NUMBER) return NaN;
    // Integers below 2^53 and powers up to 22 are exact, and so are rounded once.
    const isExact = digits < EXACT && Math.abs(power) <= 22;
    const value = !isExact ? Math.abs(Number(ascii.decode(bytes.subarray(this.at, at)))) : power < 0 ? digits / POWERS[-power]! : digits * POWERS[power]!;
    this.at = at;
    return isNegative ? -value : value;
  }
}

/** The shapes of the last lines. */
export class KnownShapes {
  private readonly known: Shape[] = [];
  private oldest = 0;
  private last: Shape | undefined;
  /** Lines read less what was lost on others. At 0 no shape is tried or learned any more: the lines differ in more than numbers. */
  private credit = MOST_CREDIT;

  /** Returns where the line that begins at *at* ends, after its LF; -1 where it is not proven. */
  read(bytes: Uint8Array, at: number): number {
    const { last } = this;
    if (last === undefined || this.credit <= 0) return -1;
    // Lines of several shapes mostly take turns.
    const likely = last.next ?? last;
    const end = likely.read(bytes, at);
    if (end < 0) return this.search(bytes, at, likely);
    this.found(likely);
    return end;
  }

  private search(bytes: Uint8Array, at: number, tried: Shape): number {
    for (const shape of this.known) {
      const end = shape === tried ? -1 : shape.read(bytes, at);
      if (end < 0) continue;
      this.found(shape);
      return end;
    }
    this.credit--;
    return -1;
  }

  private found(shape: Shape): void {
    this.last!.next = shape;
    this.last = shape;
    if (this.credit < MOST_CREDIT) this.credit++;
  }

  /** The kind of the line that was read last. */
  get kind(): string {
    return this.last!.kind;
  }

  /** Returns of the line that was read last the members that are asked for; the next call changes it. */
  node(): ObjectNode {
    return this.last!.node();
  }

  /**
   * Learns the shape of a proven line, which is ASCII. *fieldOf* returns what a member, or one of its own, has to be; *wanted* are the
   * members that are asked for, null for all.
   */
  learn(text: string, kind: string, parsed: { [key: string]: unknown }, fields: { fieldOf: (key: string, isInner: boolean) => NumberField | undefined; wanted: readonly string[] | null }): void {
    if (this.credit <= 0) return;
    this.credit -= COST_OF_LEARNING;
    const slots: Slot[] = [];
    const members = membersOf(parsed, fields.wanted);
    let start = 0;
    for (const { path, from, to } of numbersIn(text)) {
      const [outer = "", inner] = path;
      const field = path.length > 2 ? undefined : fields.fieldOf(outer, inner !== undefined);
      if (field === undefined) return;
      const wanted = place(members, path, fields.wanted);
      if (wanted === undefined) return;
      slots.push({ before: encoder.encode(text.slice(start, from)), ...field, isInner: inner !== undefined, wanted });
      start = to;
    }
    const shape = new Shape(kind, slots, encoder.encode(`${text.slice(start)}\n`), members);
    if (this.known.length < MOST_SHAPES) this.known.push(shape);
    else this.known[this.oldest++ % MOST_SHAPES] = shape;
    if (this.last !== undefined) this.last.next = shape;
    this.last = shape;
  }
}

/** Returns the members of a record that are *wanted*, all for null, in their order. */
function membersOf(parsed: { [key: string]: unknown }, wanted: readonly string[] | null): Map<string, Node> {
  if (wanted === null) return (nodeOf(parsed) as ObjectNode).members;
  return new Map(wanted.filter((name) => parsed[name] !== undefined && typeof parsed[name] !== "number").map((name) => [name, nodeOf(parsed[name])]));
}

/** Returns where the node of a number is to be put; null for nowhere, undefined where its key cannot be known from the text. */
function place(members: Map<string, Node>, [outer = "", inner]: readonly string[], wanted: readonly string[] | null): Slot["wanted"] | undefined {
  // No rule asks for a number within an object: these stay those of the line that was learned.
  if (wanted !== null) return inner === undefined && wanted.includes(outer) ? { members, name: outer } : null;
  if (outer.includes("\\") || inner?.includes("\\")) return undefined;
  if (inner === undefined) return members.has(outer) ? { members, name: outer } : undefined;
  const owner = members.get(outer);
  return owner?.type === "object" && owner.members.has(inner) ? { members: owner.members, name: inner } : undefined;
}

/** Yields the numbers of a text of JSON that is an object without arrays of numbers: the keys that lead to each, and where it is. */
function* numbersIn(text: string): Generator<{ path: string[]; from: number; to: number }> {
  const path: string[] = [];
  const tokens = /"((?:[^"\\]|\\.)*)"(\s*:)?|[{}[\]]|-?\d[\d.eE+-]*/g;
  for (const token of text.matchAll(tokens)) {
    const [whole, key, colon] = token;
    if (colon !== undefined) path[path.length - 1] = key!;
    else if (whole === "{" || whole === "[") path.push("");
    else if (whole === "}" || whole === "]") path.pop();
    else if (key === undefined) yield { path: [...path], from: token.index, to: token.index + whole.length };
  }
}
