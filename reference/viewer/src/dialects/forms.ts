/** Turns a line of another program's log into an object: JSON or CSV. */

import { parsedForSure, reasonOf, validateText } from "../../../typescript/src/line-validation.js";
import { asciiText } from "../../../typescript/src/lines.js";
import { plainValue } from "../folder/plain-values.js";
import type { Json } from "../protocol.js";
import type { Dialect } from "./dialect.js";
import { isMembers, type Members, MOST_LISTED, notFinite } from "./mapping.js";

/** The object in a line, the rule by which it cannot be read, or null for what is not a record. */
export type Found = { value: Members } | { reason: string } | null;

/** How a line becomes a record; one object serves one pass over one file. */
export interface RowForm {
  read(data: Uint8Array, isFirst: boolean): Found;
}

const DECIMAL_COMMA = /^[-+]?\d+,\d+(?:[eE][-+]?\d+)?$/;
/** Fortran writes an exponent of double precision with D, always with a sign. */
const FORTRAN = /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)[dD][-+]\d+$/;
const NUMBER = /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?$/;
/** As people write numbers: with a comma between thousands, or a percent sign. */
const GROUPED = /^[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?$/;
const PERCENT = /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)\s?%$/;
/** What a text that is a number can begin with. */
const NUMBER_START = /^[-+.\d ]/;
/** Colours of a terminal. */
const ESCAPES = /\x1b\[[0-9;]*[A-Za-z]/g;
const ABSENT: ReadonlySet<string> = new Set(["", "NA", "N/A", "n/a", "None", "null"]);
/** A string, or a word for a number that is not finite; the strings are kept. */
const WORD = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;
const NO_BYTES = new Uint8Array();
const [COMMENT, BLANK] = [0x23, 0x20];

const exact = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns the form of a dialect. */
export function formOf({ form, non_finite, values = {} }: Dialect): RowForm {
  if (form.type === "csv") return new CsvForm(form.delimiter ?? ",", form.index);
  return new JsonForm(non_finite?.includes("bare") ?? false, values.texts ?? false, values.lists ?? false);
}

/** A JSON object, alone on its line; bare NaN and Infinity are taken where the dialect has them. */
export class JsonForm implements RowForm {
  constructor(
    private readonly takesBare: boolean,
    private readonly texts: boolean,
    private readonly lists: boolean,
  ) {}

  read(data: Uint8Array, isFirst: boolean): Found {
    const found = this.objectIn(data, isFirst);
    return found && "value" in found && (this.texts || this.lists) ? { value: this.unfolded(found.value) } : found;
  }

  /** Returns an object with numbers in place of texts that spell them, and objects in place of lists of numbers. */
  private unfolded(value: Members): Members {
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, this.member(member)]));
  }

  private member(member: Json): Json {
    if (typeof member === "string") return this.texts && NUMBER_START.test(member) ? cellOf(member) : member;
    if (Array.isArray(member)) {
      if (!this.lists || member.length === 0 || member.length > MOST_LISTED) return member;
      const found = member.map((each) => this.member(each));
      return found.every((each) => typeof each === "number") ? Object.fromEntries(found.map((each, at) => [String(at), each])) : member;
    }
    return isMembers(member) ? this.unfolded(member) : member;
  }

  private objectIn(data: Uint8Array, isFirst: boolean): Found {
    const text = asciiText(data);
    const sure = text === null ? undefined : parsedForSure({ number: 0, offset: 0, length: data.length, data, text, isTidy: false, head: NO_BYTES });
    if (sure) return { value: sure as Members };
    const validated = validateText(data, isFirst, text);
    if (validated.status === "blank") return null;
    if (validated.value) return { value: plainValue(validated.value) as Members };
    const rules = new Set([...validated.problems.map(({ rule }) => rule), ...validated.unlisted.keys()]);
    rules.delete("duplicate-key");
    const hasWords = this.takesBare && rules.delete("non-finite-number");
    const value = hasWords && rules.size === 0 ? withWords(lenient.decode(data)) : null;
    return value ? { value } : { reason: [...rules][0] ?? reasonOf(validated) };
  }
}

/** Returns the object of a text in which bare words for numbers are all that is wrong; null where there is more. */
function withWords(text: string): Members | null {
  // Half of a surrogate pair is in no text that was decoded, so that no string of the log can be one of these.
  const marked = text.replace(WORD, (word) => (word.startsWith('"') ? word : `"\\ud800${word}"`));
  try {
    return JSON.parse(marked, (_, value: Json) => (typeof value === "string" && value.startsWith("\ud800") ? Number(value.slice(1)) : value)) as Members;
  } catch {
    return null;
  }
}

/**
 * Rows of cells under the header in the first line. A header that comes again is passed over, and so are lines before it that begin with `#`, one of which
 * is the header of a table that begins with numbers. A repeated name has a number after it.
 */
export class CsvForm implements RowForm {
  private heads: readonly (readonly string[])[] = [];
  /** The names of a header that may have blanks. */
  private wide: readonly string[] = [];
  /** Whether the header may still come: what is drawn for people may have lines before it. */
  private isSought: boolean;
  private comment: readonly string[] = [];
  private hasDecimalCommas = false;
  /** Names of the columns; null before the first line. */
  header: readonly string[] | null = null;

  private rows = 0;

  constructor(private readonly delimiter: string, private readonly index?: string) {
    this.isSought = this.isDrawn;
  }

  private get isDrawn(): boolean {
    return this.delimiter === "|" || this.delimiter === " ";
  }

  read(data: Uint8Array, isFirst: boolean): Found {
    const hasMark = isFirst && data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf;
    const cells = this.cells(hasMark ? data.subarray(3) : data);
    if (cells === null) return { reason: validateText(data, isFirst).problems.find(({ rule }) => rule !== "invalid-json")?.rule ?? "bad-format" };
    if (cells.length === 0) return null;
    if (this.isSought && this.header !== null && cells.some(isNumber)) {
      if (this.wide.length === cells.length) this.header = differentNames(this.wide);
      this.isSought = cells.length !== this.header.length;
    } else if ((this.header === null || this.isSought) && !this.takesHeader(cells, hasMark ? data.subarray(3) : data)) return null;
    const { header, heads } = this;
    if (header === null || heads.some((head) => head.length === cells.length && cells.every((cell, at) => cell === head[at]))) return null;
    if (cells.length !== header.length && data[0] === COMMENT) return null;
    if (cells.length !== header.length) return { reason: "bad-format" };
    // 1,234 may be less than two in a table with 0,5: it stays a text.
    if (this.delimiter !== ";") this.hasDecimalCommas ||= cells.some((cell) => DECIMAL_COMMA.test(cell) && !GROUPED.test(cell));
    const valueOf = this.delimiter === ";" ? cellWithComma : this.hasDecimalCommas ? cellWithoutComma : cellOf;
    const value = Object.fromEntries(cells.flatMap((cell, at) => (ABSENT.has(cell) ? [] : [[header[at]!, valueOf(cell)]]))) as Members;
    if (this.index !== undefined) value[this.index] ??= this.rows++;
    return { value };
  }

  /** Takes the header from some cells; returns whether they are a row under a header that came before. */
  private takesHeader(cells: readonly string[], data: Uint8Array): boolean {
    if (data[0] === COMMENT) {
      this.comment = this.cells(data.subarray(data.findIndex((byte) => byte !== COMMENT && byte !== BLANK))) ?? [];
      return false;
    }
    if (this.comment.length === cells.length && cells.every(isNumber) && !this.comment.some(isNumber)) {
      this.header = differentNames(this.comment);
      return true;
    }
    // The names of a table with bars may be of several lines.
    const isMore = this.delimiter === "|" && cells.length === this.header?.length;
    this.heads = isMore ? [...this.heads, cells] : [cells];
    const [first = "", ...others] = cells.map((_, at) => this.heads.map((head) => head[at]!).filter(Boolean).join(" "));
    // pandas names the column of an index so that it reads back without a name.
    this.header = differentNames([first || "Unnamed: 0", ...others]);
    this.wide = this.delimiter === " " ? exact.decode(data).trim().split(/\s{2,}|\t/) : [];
    return false;
  }

  /** Returns the cells of a line; null where it is not text. */
  private cells(data: Uint8Array): string[] | null {
    if (data.includes(0)) return null;
    try {
      const plain = exact.decode(data).replaceAll(ESCAPES, "").replace(/\r+$/, "");
      const text = this.isDrawn ? plain.replaceAll(/[│┃║]/g, "|") : plain;
      if (text.trim() === "" || (this.isDrawn && (/^[-=+:| \t─━═]*$/.test(text) || !text.includes(this.delimiter)))) return [];
      if (this.delimiter === " ") return text.trim().split(/\s+/);
      const cells = text.includes('"') ? quotedCells(text, this.delimiter) : text.split(this.delimiter);
      return cells.map((cell) => cell.trim());
    } catch {
      return null;
    }
  }
}

function quotedCells(text: string, delimiter: string): string[] {
  const cells: string[] = [];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]!;
    const isStart = cell.trim() === "" && !isQuoted;
    if (isQuoted && letter === '"' && text[at + 1] === '"') cell += text[at++]!;
    else if (letter === '"' && (isQuoted || isStart)) isQuoted = !isQuoted;
    else if (letter === delimiter && !isQuoted) {
      cells.push(cell);
      cell = "";
    } else cell += letter;
  }
  return [...cells, cell];
}

/** Returns names that differ: one that occurred before has a number after it. */
function differentNames(names: readonly string[]): string[] {
  const taken = new Set(names);
  const found = new Set<string>();
  for (const name of names) {
    let unused = name;
    for (let count = 1; found.has(unused) || (count > 1 && taken.has(unused)); count++) unused = `${name}.${count}`;
    found.add(unused);
  }
  return [...found];
}

function isNumber(text: string): boolean {
  return NUMBER.test(text) || FORTRAN.test(text) || notFinite(text) !== undefined;
}

/** Returns the number in the text of a cell, or the text. */
function cellOf(text: string): number | string {
  const plain = text.trim();
  if (FORTRAN.test(plain)) return Number(plain.replace(/[dD]/, "e"));
  if (NUMBER.test(plain)) return Number(plain);
  return PERCENT.test(plain) ? Number(plain.slice(0, -1)) : GROUPED.test(plain) ? Number(plain.replaceAll(",", "")) : text;
}

/** Returns the number in the text of a cell, or the text; a number with a comma is text. */
function cellWithoutComma(text: string): number | string {
  return text.includes(",") ? text : cellOf(text);
}

/** Returns the number in the text of a cell, whose decimal mark may be a comma, or the text. */
function cellWithComma(text: string): number | string {
  return DECIMAL_COMMA.test(text) ? Number(text.replace(",", ".")) : cellOf(text);
}
