/** Turns a line of another program's log into an object: JSON, CSV or text that matches a pattern. */

import { parsedForSure, reasonOf, validateText } from "../../../typescript/src/line-validation.js";
import { plainValue } from "../folder/plain-values.js";
import type { Json } from "../protocol.js";
import { type Dialect, expressionOf } from "./dialect.js";
import { type Members, notFinite } from "./mapping.js";

/** The object in a line, the rule by which it cannot be read, or null for what is not a record. */
export type Found = { value: Members } | { reason: string } | null;

/** How a line becomes a record; one object serves one pass over one file. */
export interface RowForm {
  read(data: Uint8Array, isFirst: boolean): Found;
}

const PAIR = /(?<![\w./()%@-])([a-z_][\w./()%@-]*)\s?[=: ]\s?([-+]?(?:\d+(?:[,_]\d{3})*(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+|nan\b|inf(?:inity)?\b))((?:\.\d+|[-+]?(?:nan|inf)\b)*)/gi;
const NUMBER = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/;
const ABSENT: ReadonlySet<string> = new Set(["", "NA", "N/A", "None", "null"]);
/** A string, or a word for a number that is not finite; the strings are kept. */
const WORD = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;
/** A console line that is longer is output of another kind, such as a dump of settings. */
const MOST_TEXT = 4096;
const NO_BYTES = new Uint8Array();
const BAD_ROW = { reason: "bad-format" };

const exact = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

export function formOf({ form, non_finite }: Dialect): RowForm {
  if (form.type === "csv") return new CsvForm(form.delimiter ?? ",");
  if (form.type === "pattern") return new PatternForm(form.patterns ?? []);
  return new JsonForm(new TextEncoder().encode(form.prefix ?? ""), non_finite?.includes("bare") ?? false);
}

/** A JSON object, alone on its line or after a prefix; bare NaN and Infinity are taken where the dialect has them. */
export class JsonForm implements RowForm {
  constructor(
    private readonly prefix: Uint8Array = NO_BYTES,
    private readonly takesBare = false,
  ) {}

  read(data: Uint8Array, isFirst: boolean): Found {
    if (this.prefix.length === 0) return this.objectIn(data, isFirst);
    const at = placeOf(data, this.prefix);
    return at < 0 ? null : this.objectIn(data.subarray(at + this.prefix.length), false);
  }

  private objectIn(data: Uint8Array, isFirst: boolean): Found {
    const text = asciiText(data);
    const sure = text === null ? undefined : parsedForSure({ number: 0, offset: 0, length: data.length, data, text, isTidy: false, head: NO_BYTES });
    if (sure) return { value: sure as Members };
    const validated = validateText(data, isFirst, text);
    if (validated.status === "blank") return null;
    if (validated.value) return { value: plainValue(validated.value) as Members };
    const reason = reasonOf(validated);
    const hasOnlyWords = [...validated.problems.map(({ rule }) => rule), ...validated.unlisted.keys()].every((rule) => rule === "non-finite-number" || rule === "duplicate-key");
    return (this.takesBare && hasOnlyWords ? withWords(lenient.decode(data)) : null) ?? { reason };
  }
}

/** Returns the object of a text in which bare words for numbers are all that is wrong; null where there is more. */
function withWords(text: string): Found {
  // Half of a surrogate pair is in no text that was decoded, so that no string of the log can be one of these.
  const marked = text.replace(WORD, (word) => (word.startsWith('"') ? word : `"\\ud800${word}"`));
  try {
    return { value: JSON.parse(marked, (_, value: Json) => (typeof value === "string" && value.startsWith("\ud800") ? Number(value.slice(1)) : value)) as Members };
  } catch {
    return null;
  }
}

/** Rows of cells under the header in the first line. A header that comes again is passed over. A repeated name has a number after it. */
export class CsvForm implements RowForm {
  private first: readonly string[] = [];
  /** Names of the columns; null before the first line. */
  header: readonly string[] | null = null;

  constructor(private readonly delimiter: string) {}

  read(data: Uint8Array, isFirst: boolean): Found {
    const hasMark = isFirst && data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf;
    const cells = this.cells(hasMark ? data.subarray(3) : data);
    if (cells === null) return { reason: validateText(data, isFirst).problems.find(({ rule }) => rule !== "invalid-json")?.rule ?? BAD_ROW.reason };
    if (cells.length === 0) return null;
    if (this.header === null) {
      this.first = cells;
      this.header = differentNames(cells);
      return null;
    }
    const { first, header } = this;
    if (cells.length === first.length && cells.every((cell, at) => cell === first[at])) return null;
    if (cells.length !== header.length) return BAD_ROW;
    return { value: Object.fromEntries(cells.flatMap((cell, at) => (ABSENT.has(cell) ? [] : [[header[at]!, cellOf(cell)]]))) };
  }

  /** Returns the cells of a line; null where it is not text. */
  private cells(data: Uint8Array): string[] | null {
    if (data.includes(0)) return null;
    try {
      const text = exact.decode(data).replace(/\r+$/, "");
      if (text === "") return [];
      return text.includes('"') ? quotedCells(text, this.delimiter) : text.split(this.delimiter);
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
    const isStart = at === 0 || text[at - 1] === delimiter;
    if (isQuoted && letter === '"' && text[at + 1] === '"') cell += text[at++]!;
    else if (letter === '"' && (isQuoted || isStart)) isQuoted = !isQuoted;
    else if (letter === delimiter && !isQuoted) {
      cells.push(cell);
      cell = "";
    } else cell += letter;
  }
  return [...cells, cell];
}

/** Text that matches one of some patterns; other lines are passed over. */
class PatternForm implements RowForm {
  private readonly patterns: readonly RegExp[];

  constructor(patterns: readonly string[]) {
    this.patterns = patterns.map(expressionOf);
  }

  read(data: Uint8Array): Found {
    if (data.length > MOST_TEXT) return null;
    const text = lenient.decode(data).replace(/\r+$/, "");
    for (const pattern of this.patterns) {
      const found = pattern.exec(text);
      if (!found) continue;
      const { pairs = "", eval_pairs: evaluation = "", ...groups } = found.groups ?? {};
      const cells = Object.entries(groups).flatMap(([name, part]) => (part === undefined ? [] : [[name, cellOf(part)] as const]));
      return { value: withPairs(withPairs(Object.fromEntries(cells), pairs), evaluation, "eval/") };
    }
    return null;
  }
}

/** Returns some members and the numbers in a text by a prefix and the names before them, each under a name of its own. */
function withPairs(members: Members, text: string, prefix = ""): Members {
  const pairs = [...text.matchAll(PAIR)];
  const known = Object.keys(members);
  const names = differentNames([...known, ...pairs.map(([, name]) => prefix + name!)]).slice(known.length);
  return { ...members, ...Object.fromEntries(pairs.map(([, , figure, glued], at) => [names[at]!, figureOf(figure!, glued!)])) };
}

/** Returns the number in a figure; the text where something follows that is not a part of one. */
function figureOf(figure: string, glued: string): Json {
  if (glued !== "") return figure + glued;
  const plain = figure.replaceAll(/[,_]/g, "");
  return notFinite(plain) ?? cellOf(plain);
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

/** Returns the number in the text of a cell, or the text. */
function cellOf(text: string): number | string {
  const plain = text.trim();
  return NUMBER.test(plain) ? Number(plain) : text;
}

function asciiText(data: Uint8Array): string | null {
  const text = lenient.decode(data);
  return text.length === data.length && !text.includes("\ufffd") ? text : null;
}

function placeOf(data: Uint8Array, part: Uint8Array): number {
  let at = data.indexOf(part[0]!);
  while (at >= 0 && !part.every((byte, index) => data[at + index] === byte)) at = data.indexOf(part[0]!, at + 1);
  return at;
}
