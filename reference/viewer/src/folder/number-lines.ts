/** Reads the numbers of lines that look like those before, without making an object of each: see `read`. */

import { LIMITS } from "../../../typescript/src/tables.js";

/** What lines of a profile may hold so that they are read here. */
export interface Layout {
  /** Kinds whose lines are read, and the one object of each whose members are metrics; null where lines have no kind. */
  kinds: { readonly [kind: string]: string } | null;
  /** The object whose members are metrics in lines without a kind. */
  nested: string;
  /** A member whose values other than a number within binary32 are for the exact reader. */
  valid?: string;
}

/** Members of the line itself that place its values; they have the first slots, in this order. */
export const PLACES = ["step", "t", "epoch", "wall_time_ms", "layer", "head", "token_id"] as const;
export const [STEP, TIME, EPOCH, WALL] = [0, 1, 2, 3] as const;
export const MOST_METRICS = 1000;
/** Lines with more members are for the exact reader. */
const MOST_MEMBERS = 4096;
const LONGEST_KEY = 1024;
/** Longer numbers are rounded more than once, which here changes at most the last bit. */
const MOST_DIGITS = 1e18;

/** A member as it is written: its key with quotes and colon. */
interface Member {
  name: string;
  key: Uint8Array;
  depth: number;
  /** Where its number goes, -1 for what is not kept. */
  slot: number;
  role: "value" | "valid" | "kind" | "phase" | "nested";
  /** The line that it was last in: a second one of the same name is for the exact reader. */
  line: number;
}

const POWERS = Float64Array.from({ length: 23 }, (_, at) => 10 ** at);
const [QUOTE, COMMA, COLON, SPACE, LF, BACKSLASH] = [34, 44, 58, 32, 10, 92];
const [OPEN, CLOSE, MINUS, PLUS, POINT, ZERO, NINE] = [123, 125, 45, 43, 46, 48, 57];
const LITERALS = new Map<number, Uint8Array>(["null", "true", "false"].map((text) => [text.charCodeAt(0), new TextEncoder().encode(text)]));
const ascii = new TextDecoder("latin1");

export class NumberLines {
  /** The numbers of the last line by slot; a slot that the line does not have keeps an older one. */
  readonly values = new Float64Array(MOST_METRICS + PLACES.length);
  /** The slots that the last line has, in its order. */
  readonly slots = new Int32Array(MOST_MEMBERS);
  count = 0;
  /** The kind of the last line, "" without one. */
  kind = "";
  /** Names of the metrics, from the slot `PLACES.length` on. */
  readonly metrics: string[] = [];
  /** Names beyond `MOST_METRICS`. */
  readonly beyond = new Set<string>();
  private readonly stamps = new Float64Array(MOST_METRICS + PLACES.length);
  private readonly slotOf = new Map<string, number>();
  private readonly members = new Map<string, Member>();
  /** The members of the last line of each kind, in their order. */
  private readonly shapes: { [kind: string]: Member[] } = { "": [], step: [], scalars: [] };
  private shape: Member[] = [];
  private line = 0;
  private at = 0;
  private depth = 0;
  private nested = "";

  /** *phase* is that of the run: lines of another one are for the exact reader. */
  constructor(
    private readonly layout: Layout,
    private readonly phase: string,
    private readonly wanted: (metric: string) => boolean = () => true,
  ) {}

  /** True where the last line has a slot. */
  has(slot: number): boolean {
    return this.stamps[slot] === this.line;
  }

  /**
   * Returns where the line after the one at *at* begins; -1 for a line that the exact reader has to read. What is read here is
   * JSON in ASCII, without escapes and arrays, whose keys differ. Digits beyond the sixteenth may change the last bit.
   */
  read(bytes: Uint8Array, at: number): number {
    this.line++;
    this.count = 0;
    this.depth = 0;
    this.kind = "";
    this.shape = this.shapes[""]!;
    this.nested = this.layout.nested;
    if (bytes[at] !== OPEN) return -1;
    this.at = at + 1;
    for (let index = 0; index < MOST_MEMBERS; index++) {
      const member = this.member(bytes, index);
      if (member === null || member.line === this.line) return -1;
      member.line = this.line;
      if (member.role === "nested") {
        if (bytes[this.at] !== OPEN || this.depth > 0) return -1;
        this.depth = 1;
        this.at++;
        if (bytes[this.at] === CLOSE) return -1;
        continue;
      }
      if (!this.value(bytes, member)) return -1;
      while (bytes[this.at] === CLOSE) {
        this.at++;
        if (this.depth-- === 0) return bytes[this.at] === LF ? this.at + 1 : -1;
      }
      if (bytes[this.at] !== COMMA) return -1;
      this.at += bytes[this.at + 1] === SPACE ? 2 : 1;
    }
    return -1;
  }

  /** Returns the member that begins here, which most often is the one at the same place of the line before. */
  private member(bytes: Uint8Array, index: number): Member | null {
    const expected = this.shape[index];
    if (expected !== undefined && expected.depth === this.depth && isAt(bytes, this.at, expected.key)) {
      this.at += expected.key.length;
      if (bytes[this.at] === SPACE) this.at++;
      if (expected.role !== "nested") return expected;
      return expected.name === this.nested ? expected : null;
    }
    const found = this.lookUp(bytes);
    if (found !== null) this.shape[index] = found;
    return found;
  }

  private lookUp(bytes: Uint8Array): Member | null {
    const start = this.at;
    if (bytes[start] !== QUOTE) return null;
    let end = start + 1;
    while (end - start < LONGEST_KEY && isPlain(bytes[end]!)) end++;
    if (bytes[end] !== QUOTE || bytes[end + 1] !== COLON) return null;
    const name = ascii.decode(bytes.subarray(start + 1, end));
    end += 2;
    const id = `${this.depth}${this.kind === "scalars" ? "s" : ""}${ascii.decode(bytes.subarray(start, end))}`;
    let found = this.members.get(id);
    if (!found) {
      if (this.members.size > 4 * MOST_METRICS) return null;
      found = { name, key: bytes.slice(start, end), depth: this.depth, line: 0, ...this.meaning(name) };
      this.members.set(id, found);
    }
    this.at = bytes[end] === SPACE ? end + 1 : end;
    return found;
  }

  private meaning(name: string): { slot: number; role: Member["role"] } {
    const { kinds } = this.layout;
    if (this.depth === 0) {
      if (kinds !== null && name === "kind") return { slot: -1, role: "kind" };
      if (kinds !== null && name === "phase") return { slot: -1, role: "phase" };
      if (name === this.nested) return { slot: -1, role: "nested" };
      if (name === this.layout.valid) return { slot: this.slot(name), role: "valid" };
      const place = (PLACES as readonly string[]).indexOf(name);
      if (place >= 0) return { slot: place, role: "value" };
      if (this.kind === "scalars") return { slot: -1, role: "value" };
    }
    return { slot: this.slot(name), role: "value" };
  }

  /** Returns the slot of a metric, -1 for one that is not kept. */
  slot(name: string): number {
    const known = this.slotOf.get(name);
    if (known !== undefined) return known;
    if (!this.wanted(name)) return -1;
    if (this.metrics.length === MOST_METRICS) {
      if (this.beyond.size < 100 * MOST_METRICS) this.beyond.add(name);
      return -1;
    }
    const slot = PLACES.length + this.metrics.push(name) - 1;
    this.slotOf.set(name, slot);
    return slot;
  }

  private value(bytes: Uint8Array, member: Member): boolean {
    const byte = bytes[this.at]!;
    if (byte === MINUS || (byte >= ZERO && byte <= NINE)) return this.number(bytes, member);
    if (byte === QUOTE) return this.text(bytes, member);
    const literal = LITERALS.get(byte);
    if (literal === undefined || member.role !== "value" || !isAt(bytes, this.at, literal)) return false;
    // A boolean is a value too, which is 1 or 0: it is for the exact reader.
    if (byte !== 110 && member.slot >= PLACES.length) return false;
    this.at += literal.length;
    return byte !== 110 || this.keep(member.slot, NaN);
  }

  private keep(slot: number, value: number): boolean {
    if (slot < 0) return true;
    if (this.stamps[slot] === this.line) return false;
    this.stamps[slot] = this.line;
    this.values[slot] = value;
    this.slots[this.count++] = slot;
    return true;
  }

  private text(bytes: Uint8Array, { role, slot }: Member): boolean {
    if (role === "valid") return false;
    const start = this.at + 1;
    let end = start;
    while (isPlain(bytes[end]!)) end++;
    if (bytes[end] !== QUOTE) return false;
    this.at = end + 1;
    if (role === "phase") return ascii.decode(bytes.subarray(start, end)) === this.phase;
    // A text where a step or a time belongs is for the exact reader.
    if (role === "value") return slot < 0 || slot >= PLACES.length;
    const kind = end - start === 4 ? "step" : "scalars";
    if (this.count > 0 || !isAt(bytes, start, KINDS[kind]) || end - start !== KINDS[kind].length) return false;
    this.kind = kind;
    this.shape = this.shapes[kind]!;
    this.nested = this.layout.kinds![kind]!;
    return true;
  }

  private number(bytes: Uint8Array, { role, slot }: Member): boolean {
    let at = this.at;
    let byte = bytes[at]!;
    const isNegative = byte === MINUS;
    if (isNegative) byte = bytes[++at]!;
    if (byte < ZERO || byte > NINE) return false;
    let digits = byte - ZERO;
    byte = bytes[++at]!;
    if (digits > 0) {
      for (; byte >= ZERO && byte <= NINE; byte = bytes[++at]!) digits = digits * 10 + (byte - ZERO);
    }
    let exponent = 0;
    if (byte === POINT) {
      const point = at;
      byte = bytes[++at]!;
      for (; byte >= ZERO && byte <= NINE; byte = bytes[++at]!) digits = digits * 10 + (byte - ZERO);
      exponent = point + 1 - at;
      if (exponent === 0) return false;
    }
    if ((byte | 32) === 101) {
      byte = bytes[++at]!;
      const isSmall = byte === MINUS;
      if (isSmall || byte === PLUS) byte = bytes[++at]!;
      const start = at;
      let power = 0;
      for (; byte >= ZERO && byte <= NINE; byte = bytes[++at]!) power = power * 10 + (byte - ZERO);
      if (at === start || power > 300) return false;
      exponent += isSmall ? -power : power;
    }
    if ((role !== "value" && role !== "valid") || at - this.at > 300) return false;
    const value = exponent > 22 || exponent < -44 || digits > MOST_DIGITS ? Math.abs(Number(ascii.decode(bytes.subarray(this.at, at)))) : scaled(digits, exponent);
    if (role === "valid" && value >= LIMITS.binary32_limit) return false;
    this.at = at;
    return this.keep(slot, isNegative ? -value : value);
  }
}

const KINDS = { step: new TextEncoder().encode("step"), scalars: new TextEncoder().encode("scalars") };

/** Returns digits · 10^exponent, for -44 ≤ exponent ≤ 22. */
function scaled(digits: number, exponent: number): number {
  if (exponent >= 0) return digits * POWERS[exponent]!;
  return exponent >= -22 ? digits / POWERS[-exponent]! : digits / 1e22 / POWERS[-exponent - 22]!;
}

/** Returns whether a byte is a letter of a text without escapes. */
function isPlain(byte: number): boolean {
  return byte >= 32 && byte < 127 && byte !== QUOTE && byte !== BACKSLASH;
}

function isAt(bytes: Uint8Array, at: number, wanted: Uint8Array): boolean {
  for (let index = 0; index < wanted.length; index++) if (bytes[at + index] !== wanted[index]) return false;
  return true;
}
