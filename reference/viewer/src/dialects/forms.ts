/** Turns a line of another program's log into an object: JSON, CSV or text that matches a pattern. */

import { parsedForSure, validateText } from "../../../typescript/src/line-validation.js";
import { invalidJsonSecondRecord } from "../../../typescript/src/messages.js";
import type { Problem } from "../../../typescript/src/scanner.js";
import { plainValue } from "../folder/plain-values.js";
import type { Json } from "../protocol.js";
import { type Dialect, expressionOf } from "./dialect.js";
import { isMembers, type Members, MOST_LISTED, notFinite } from "./mapping.js";

/** What is wrong with a line, in byte order. */
export interface Verdict {
  problems: readonly Problem[];
  /** Number of further problems by rule. */
  unlisted: ReadonlyMap<string, number>;
}

/** The object in a line, the rule by which it cannot be read, or null for what is not a record; each with what is wrong with it. */
export type Found = { value: Members; verdict?: Verdict } | { reason: string; verdict: Verdict } | null;

/** How a line becomes a record; one object serves one pass over one file. */
export interface RowForm {
  read(data: Uint8Array, isFirst: boolean): Found;
}

const PAIR = /((?:(?<![\w./()%@-])|(?<=[\s,]\()(?=[\w./%@-]+\s?[=:]))[a-z_][\w./()%@-]*)['"]?(?:\s{0,6}[=:]\s{0,8}|\s{1,3}|(?:\sso\sfar)?\sis:?\s{1,3})['"]?(?!\d+%\|[\s\u2588-\u258f#\d]*\||\d+:\d|\d{4}-\d\d-|\d+\s?(?:d|h|m|days?|hours?|min(?:utes)?)\b[\s,]*\d|\d+[dhm]\d|0x[\da-f])([-+]?(?:\d+(?:[,_]\d{3})*(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+|nan(?:\b|(?=m?s\b))|inf(?:inity)?\b))([km]\b|(?:\.\d+|[-+]?(?:nan|inf)\b)*)/gi;
/** A number as NumPy writes it: np.float64(0.5). */
const WRAPPED = /^[A-Za-z_][\w.]*\((.*)\)$/;
const SIGN = /[=:]|\bis\b/;
/** What is before the last word of a name. */
/** A line of nothing but pairs begins with a name, and so does what is after a headline: "Epoch 1: Average loss: 0.5". */
const START = /^(?:(?=\p{L})|\s*[:-]\s+)/u;
const WORDS_BEFORE = /(?:[|;,>\]})]|\s-)\s*((?:\p{L}[\p{L}\p{N}_/-]{0,30} ){1,3})$/u;
const PHASE_BEFORE = /(?:^|[^\w])((?:train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|dev) )$/i;
const FIRST_NUMBER = /^\s*['"]?([-+]?(?:\d+(?:,\d{3})*(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan(?:\b|(?=m?s\b))|inf(?:inity)?\b))/i;
/** In what is before the last mark of a part that has several pairs. */
const NAMES_END = /[:=,\d]/;
const SLASHED_DATE = /^(\d{4})\/(\d\d)\/(\d\d)(?=[ T])/;
/** Of a line that was overwritten more often, the last states are looked at. */
const MOST_STATES = 100;
const MULTIPLES: Readonly<Record<string, string>> = { k: "e3", K: "e3", M: "e6" };
const DECIMAL_COMMA = /^[-+]?\d+,\d+(?:[eE][-+]?\d+)?$/;
/** Fortran writes an exponent of double precision with D, always with a sign. */
const FORTRAN = /^[-+]?(?:\d+\.?\d*|\.\d+)[dD][-+]\d+$/;
const NUMBER = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/;
/** As people write numbers: with a comma between thousands, or a percent sign. */
const GROUPED = /^[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?$/;
const PERCENT = /^[-+]?(?:\d+\.?\d*|\.\d+)\s?%$/;
const ITEM = /(?:[A-Za-z_][\w.]{0,30}\()?[-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?)\)?/.source;
/** Numbers in brackets after a name: "losses=[0.5, 0.25]", "[0.5 0.25]" as NumPy prints it, "betas: (0.9, 0.99)". */
const LIST = new RegExp(`(?<=[\\w/%)'"])(\\s{0,6}[=:]\\s{0,8}|\\s{1,3})(?:\\[\\s*(${ITEM}(?:(?:\\s*,\\s*|\\s+)${ITEM})*)\\s*,?\\s*\\]|\\(\\s*(${ITEM}(?:\\s*,\\s*${ITEM})+)\\s*,?\\s*\\))(?![\\w[(/])`, "gi");
/** Numbers as their libraries print them: tensor(0.5, grad_fn=<MeanBackward0>), np.float64(0.5), array([0.5, 0.25]). */
const PRINTED = /([=:]\s{0,8})[A-Za-z_][\w.]{0,30}\(\s*([-+]?(?:\d[\d_.]{0,40}(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf)|\[[^[\]()]*\])\s*(?:,[^()[\]]{0,100})?\)/gi;
/** One integer in brackets is more often a place, as in "Epoch: [3]". */
const PLACE = /^\s*\d+\s*$/;
const IN_BRACKETS = /(?<![\w\])])([A-Za-z_][\w.-]*)\[([^[\]]*=[^[\]]*)\]/g;
/** What a text that is a number can begin with. */
const NUMBER_START = /^[-+.\d ]/;
/** Colours of a terminal. */
const ESCAPES = /\x1b\[[0-9;]*[A-Za-z]/g;
const ABSENT: ReadonlySet<string> = new Set(["", "NA", "N/A", "n/a", "None", "null"]);
/** A string, or a word for a number that is not finite; the strings are kept. */
const WORD = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;
/** A console line that is longer is output of another kind, such as a dump of settings. */
const MOST_TEXT = 4096;
const NO_BYTES = new Uint8Array();
const NONE: ReadonlyMap<string, number> = new Map();
/** A longer line is not looked at for a second record. */
const LONG_LINE = 1 << 20;
const SPACED_COLON = /"[ \t\r]+:/;
const [COLON, OPENING, CLOSING, COMMENT, BLANK] = [0x3a, 0x7b, 0x7d, 0x23, 0x20];

const exact = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns the form of a dialect; *isForCheck* where keys that occur twice have to be known. */
export function formOf(dialect: Dialect, isForCheck = false): RowForm {
  const { form, non_finite, values = {} } = dialect;
  if (form.type === "csv") return new CsvForm(form.delimiter ?? ",", form.index);
  if (form.type === "pattern") return new PatternForm(dialect);
  return new JsonForm(new TextEncoder().encode(form.prefix ?? ""), non_finite?.includes("bare") ?? false, isForCheck, values.texts ?? false, values.lists ?? false);
}

/** A JSON object, alone on its line or after a prefix; bare NaN and Infinity are taken where the dialect has them. */
export class JsonForm implements RowForm {
  constructor(
    private readonly prefix: Uint8Array = NO_BYTES,
    private readonly takesBare = false,
    private readonly isForCheck = false,
    private readonly texts = false,
    private readonly lists = false,
  ) {}

  read(data: Uint8Array, isFirst: boolean): Found {
    const found = this.lineOf(data, isFirst);
    return found && "value" in found && (this.texts || this.lists) ? { ...found, value: this.unfolded(found.value) } : found;
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

  private lineOf(data: Uint8Array, isFirst: boolean): Found {
    if (this.prefix.length === 0) return this.objectIn(data, isFirst);
    const at = placeOf(data, this.prefix);
    if (at < 0) return null;
    const start = at + this.prefix.length;
    const found = this.objectIn(data.subarray(start), false);
    if (found?.verdict) found.verdict = { ...found.verdict, problems: found.verdict.problems.map((each) => ({ ...each, offset: each.offset + start })) };
    return found;
  }

  private objectIn(data: Uint8Array, isFirst: boolean): Found {
    const text = asciiText(data);
    const sure = text === null ? undefined : parsedForSure({ number: 0, offset: 0, length: data.length, data, text, isTidy: false, head: NO_BYTES });
    if (sure && !(this.isForCheck && mayRepeatKeys(text!, sure as Members))) return { value: sure as Members };
    const validated = validateText(data, isFirst, text);
    if (validated.status === "blank") return null;
    const verdict: Verdict = validated;
    if (validated.value) return { value: plainValue(validated.value) as Members, verdict };
    const found = this.takesBare ? withoutWords(verdict, data) : null;
    if (found?.value) return { value: found.value, verdict: found.verdict };
    const rest = found?.verdict ?? verdict;
    return { reason: (rest.problems.find(({ rule }) => rule !== "duplicate-key") ?? verdict.problems[0]!).rule, verdict: explained(rest, data) };
  }
}

/** Returns whether one of the objects of a line may have a key twice; false is certain. */
function mayRepeatKeys(text: string, value: Members): boolean {
  return SPACED_COLON.test(text) || text.split('":').length - 1 !== keysIn(value);
}

function keysIn(value: Json): number {
  if (value === null || typeof value !== "object") return 0;
  const members = Object.values(value) as Json[];
  return members.reduce<number>((sum, member) => sum + keysIn(member), Array.isArray(value) ? 0 : members.length);
}

/** Returns the object of a line in which bare words for numbers are all that is wrong; else what else is wrong. */
function withoutWords({ problems, unlisted }: Verdict, data: Uint8Array): { value: Members | null; verdict: Verdict } {
  const isOther = (rule: string) => rule !== "non-finite-number";
  const verdict = { problems: problems.filter(({ rule }) => isOther(rule)), unlisted: new Map([...unlisted].filter(([rule]) => isOther(rule))) };
  const isReadable = [...verdict.problems.map(({ rule }) => rule), ...verdict.unlisted.keys()].every((rule) => rule === "duplicate-key");
  const value = isReadable ? withWords(lenient.decode(data)) : null;
  return { value, verdict: isReadable && !value ? { problems, unlisted } : verdict };
}

/** Returns a verdict whose message names the second record of a line, if there is one. */
function explained(verdict: Verdict, data: Uint8Array): Verdict {
  const [first] = verdict.problems;
  if (first?.rule !== "invalid-json" || data.length > LONG_LINE) return verdict;
  // The records of a log begin with the same key, or at least with a brace.
  const start = data.subarray(0, data.indexOf(COLON) + 1);
  const glue = Math.max(lastPlaceOf(data, start.length > 0 ? start : Uint8Array.of(OPENING)), lastPlaceOf(data, Uint8Array.of(CLOSING, OPENING)) + 1);
  if (glue <= 0 || validateText(data.subarray(glue), false).value === null) return verdict;
  return { problems: [{ ...first, message: invalidJsonSecondRecord({ at: glue }) }], unlisted: NONE };
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
  private first: readonly string[] = [];
  private comment: readonly string[] = [];
  private hasDecimalCommas = false;
  /** Names of the columns; null before the first line. */
  header: readonly string[] | null = null;

  private rows = 0;

  constructor(private readonly delimiter: string, private readonly index?: string) {}

  read(data: Uint8Array, isFirst: boolean): Found {
    const hasMark = isFirst && data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf;
    const cells = this.cells(hasMark ? data.subarray(3) : data);
    if (cells === null) {
      const bad = validateText(data, isFirst).problems.filter(({ rule }) => rule !== "invalid-json");
      return unreadable(bad.length > 0 ? bad : [badRow("the line is not a row of cells")]);
    }
    if (cells.length === 0) return null;
    if (this.header === null && !this.takesHeader(cells, hasMark ? data.subarray(3) : data)) return null;
    if (this.header === null) return null;
    const { first, header } = this;
    if (cells.length === first.length && cells.every((cell, at) => cell === first[at])) return null;
    if (cells.length !== header.length && data[0] === COMMENT) return null;
    if (cells.length !== header.length) return unreadable([badRow(`the row has ${cells.length} cell${cells.length === 1 ? "" : "s"}, the header has ${header.length}`)]);
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
    this.first = cells;
    // pandas names the column of an index so that it reads back without a name.
    this.header = differentNames(cells[0] === "" ? ["Unnamed: 0", ...cells.slice(1)] : cells);
    return false;
  }

  /** Returns the cells of a line; null where it is not text. */
  private cells(data: Uint8Array): string[] | null {
    if (data.includes(0)) return null;
    try {
      const text = exact.decode(data).replaceAll(ESCAPES, "").replace(/\r+$/, "");
      if (text.trim() === "") return [];
      if (this.delimiter === " ") return text.trim().split(/\s+/);
      const cells = text.includes('"') ? quotedCells(text, this.delimiter) : text.split(this.delimiter);
      return cells.map((cell) => cell.trim());
    } catch {
      return null;
    }
  }
}

function badRow(message: string): Problem {
  return { rule: "bad-format", offset: 0, pointer: "", message };
}

function unreadable(problems: readonly Problem[]): Found {
  return { reason: problems[0]!.rule, verdict: { problems, unlisted: NONE } };
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

/** Text that matches one of some patterns; other lines are passed over. */
class PatternForm implements RowForm {
  private readonly patterns: readonly RegExp[];
  private readonly carried: Map<string, Json>;
  /** Names of columns by their number: two streams may be written to one file, with a header of another width between. */
  private readonly columns = new Map<number, readonly string[]>();
  private firstOuter: number;
  private lastOuter = -1;
  private furthest = -1;
  private before = 0;
  private interval = 1;
  private rows = 0;

  constructor(private readonly dialect: Dialect) {
    const { patterns = [], carry = [], place } = dialect.form;
    this.patterns = patterns.map(expressionOf);
    this.carried = new Map(carry.map((name) => [name, null]));
    this.firstOuter = place?.first ?? 0;
  }

  read(data: Uint8Array): Found {
    const groups = this.groupsOf(data);
    const value = groups && this.recordOf(groups);
    return value && { value };
  }

  /** Returns the named parts of the first pattern that matches. A progress bar overwrites its line: what a terminal shows in the end is read. */
  private groupsOf(data: Uint8Array): { [name: string]: string | undefined } | null {
    const states = lenient.decode(data).replace(/\r+$/, "").split("\r");
    for (const state of states.slice(-MOST_STATES - 1).reverse()) {
      if (state.length > MOST_TEXT) continue;
      const text = state.replaceAll(ESCAPES, "");
      for (const pattern of this.patterns) {
        const found = pattern.exec(text);
        if (found) return found.groups ?? {};
      }
    }
    return null;
  }

  private recordOf({ pairs = "", eval_pairs: evaluation = "", columns, cells = "", ...groups }: { [name: string]: string | undefined }): Members | null {
    const { separator, index } = this.dialect.form;
    if (columns !== undefined) {
      const names = columns.trim().split(/\s+/);
      this.columns.set(names.length, differentNames(names));
      return null;
    }
    const parts = Object.entries(groups).flatMap(([name, part]) => (part === undefined ? [] : (this.listed(name, part) ?? [[name, cellOf(part.replace(SLASHED_DATE, "$1-$2-$3"))] as const])));
    const value: Members = Object.fromEntries(parts);
    this.putStep(value);
    const own = new Set(Object.keys(value));
    if (!this.carry(value)) return null;
    const texts = cells === "" ? [] : cells.trim().split(/\s+/);
    for (const [at, name] of (this.columns.get(texts.length) ?? []).entries()) value[name] = cellOf(texts[at]!.replace(/G$/, ""));
    if (separator === undefined) this.putOwnPlaces(value, own, pairs);
    const found = withPairs(withPairs(value, pairs, "", separator), evaluation, "eval/", separator);
    if (index !== undefined) {
      found[index] ??= this.rows;
      this.rows++;
    }
    return found;
  }

  /** Puts the step or epoch that a pair of the line says in place of one that was carried. */
  private putOwnPlaces(value: Members, own: ReadonlySet<string>, pairs: string): void {
    const isNamed = [...this.carried.keys()].some((name) => !own.has(name) && pairs.includes(name));
    const said = new Map(!isNamed ? [] : pairsIn(pairs).map(([name, figure, glued]) => [name, figureOf(figure, glued)]));
    for (const name of this.carried.keys()) {
      const figure = said.get(name);
      if (own.has(name) || typeof figure !== "number" || !isPlace(figure)) continue;
      value[name] = figure;
      if (Number.isFinite(figure)) this.carried.set(name, figure);
    }
  }

  /** Returns the numbers of a list by a name and their place in it; null where it is not one. */
  private listed(name: string, part: string): (readonly [string, number])[] | null {
    if (!this.dialect.values?.lists || !part.startsWith("[") || !part.endsWith("]")) return null;
    const items = part.slice(1, -1).split(",").slice(0, MOST_LISTED).map((item) => figureOf(WRAPPED.exec(item.trim())?.[1] ?? item.trim(), ""));
    return items.every((item) => typeof item === "number") ? items.map((item, at) => [`${name}/${at}`, item] as const) : null;
  }

  /** Puts what earlier lines said into a record; returns whether it is one, and not of the settings. */
  private carry(value: Members): boolean {
    const follows = this.dialect.rank !== "program" && this.carried.size > 0;
    if (follows && [...this.carried].every(([name, last]) => !Object.hasOwn(value, name) && last === null)) return false;
    for (const [name, last] of this.carried) {
      if (Object.hasOwn(value, name)) this.carried.set(name, value[name]!);
      else if (last !== null) value[name] = last;
    }
    return true;
  }

  private putStep(value: Members): void {
    const { place } = this.dialect.form;
    if (!place) return;
    const [outer, size, inner] = [value[place.outer], value[place.size], value[place.inner]];
    if (!isInteger(outer) || !isInteger(inner)) return;
    if (size === undefined) value[place.key] = this.countedOn(outer, inner);
    if (!isInteger(size)) return;
    // Who counts epochs from 0 begins with it.
    if (outer >= 0) this.firstOuter = Math.min(this.firstOuter, outer);
    value[place.key] = (outer - this.firstOuter) * size + inner;
  }

  /** Returns the step of a place in an epoch whose length is not known: a count that starts again goes on after the last place of the epoch before. */
  private countedOn(outer: number, inner: number): number {
    if (outer !== this.lastOuter) {
      if (inner <= this.furthest) this.before += this.furthest + (inner ? 0 : this.interval);
      this.furthest = -1;
    } else if (inner > this.furthest && this.furthest >= 0) this.interval = inner - this.furthest;
    this.lastOuter = outer;
    this.furthest = Math.max(inner, this.furthest);
    return this.before + inner;
  }
}

function isInteger(value: Json | undefined): value is number {
  return typeof value === "number" && Number.isInteger(value);
}

/** Returns some members and the numbers in a text by a prefix and the names before them, each under a name of its own. */
function withPairs(members: Members, text: string, prefix = "", separator?: string): Members {
  const found = text === "" ? [] : separator === undefined ? pairsIn(text) : separated(text, separator);
  const pairs = found.map(([name, figure, glued]) => [prefix + name, figureOf(figure, glued)] as const);
  // A pattern may name a part of the pairs, such as the epoch.
  const others = pairs.filter(([name, figure]) => members[name] !== figure && !Object.is(members[name], figure));
  const known = Object.keys(members);
  const names = differentNames([...known, ...others.map(([name]) => name)]).slice(known.length);
  return { ...members, ...Object.fromEntries(others.map(([, figure], at) => [names[at]!, figure])) };
}

/** A name, its number, and what is glued to it. */
type Pair = readonly [string, string, string];

/** Returns names and numbers in a text; those in `total[loss=1.5, lr=0.1]` are `total/loss` and `total/lr`. */
function pairsIn(printed: string): Pair[] {
  const text = printed.replaceAll(PRINTED, "$1$2");
  const groups = [...text.matchAll(IN_BRACKETS)];
  const ends = [0, ...groups.map(({ index, 0: { length } }) => index + length)];
  return [...groups, null].flatMap((group, at) => [
    ...namedPairs(text.slice(ends[at], group?.index)),
    ...(group ? namedPairs(group[2]!).map(([name, figure, glued]): Pair => [`${group[1]!}/${name}`, figure, glued]) : []),
  ]);
}

/** Returns whether a figure was written for a step: a whole number ≥ 0, or one that is not finite, which is none. */
function isPlace(figure: number): boolean {
  return !Number.isFinite(figure) || (figure >= 0 && Number.isInteger(figure));
}

/** Returns names and numbers in a text. A name has the words before it, back to a mark between pairs; without one, those that name a phase. Each number of a list is named after the list and its index. */
function namedPairs(given: string): Pair[] {
  const { text, lists } = withoutLists(given);
  const found: Pair[] = [];
  let at = 0;
  for (const { index, 0: all, 1: name, 2: figure, 3: glued } of text.matchAll(PAIR)) {
    const before = at === 0 ? text.slice(0, index).replace(START, "|") : text.slice(at, index);
    const hasSign = SIGN.test(all.slice(name!.length, all.length - figure!.length - glued!.length));
    const words = (hasSign ? WORDS_BEFORE.exec(before) : null) ?? PHASE_BEFORE.exec(before);
    const whole = (words?.[1] ?? "") + name!;
    const items = lists.get(index + all.length - figure!.length - glued!.length);
    if (items) found.push(...indexed(whole, items));
    else found.push([whole, figure!, glued!]);
    at = index + all.length;
  }
  return found;
}

/** Returns a text with 0 in place of each list of numbers after a name, and those numbers by the place of the 0. */
function withoutLists(given: string): { text: string; lists: ReadonlyMap<number, readonly string[]> } {
  const lists = new Map<number, readonly string[]>();
  let [text, at] = ["", 0];
  for (const match of given.matchAll(LIST)) {
    const items = itemsOf(match);
    if (!items) continue;
    const end = match.index + match[1]!.length;
    text += given.slice(at, end);
    lists.set(text.length, items);
    text += "0";
    at = match.index + match[0].length;
  }
  return { text: text + given.slice(at), lists };
}

/** Returns the numbers of a list; null if they are too many or it is a place. */
function itemsOf([, sign, brackets, parentheses]: readonly (string | undefined)[]): string[] | null {
  const items = (brackets ?? parentheses)!.split(/[\s,]+/).map((item) => WRAPPED.exec(item)?.[1] ?? item);
  const isPlaceAlone = brackets !== undefined && PLACE.test(brackets) && !sign!.includes("=");
  return items.length <= MOST_LISTED && !isPlaceAlone && (sign!.trim() !== "" || parentheses === undefined) ? items : null;
}

function indexed(name: string, items: readonly string[]): Pair[] {
  return items.map((item, at) => [`${name}/${at}`, item, ""]);
}

/** Returns name and number of each part of a text between separators that has both. */
function separated(text: string, separator: string): Pair[] {
  return text.split(separator).flatMap((part) => {
    const [listed] = [...part.matchAll(LIST)];
    const items = listed ? itemsOf(listed) : null;
    if (listed && items) {
      const before = part.slice(0, listed.index).replaceAll(/^[ \t,;'"]+|[ \t,;'"]+$/g, "");
      const isAlone = !NAMES_END.test(before) && part.slice(listed.index + listed[0].length).search(PAIR) < 0;
      return isAlone ? indexed(before, items) : namedPairs(part);
    }
    const several = [...part.matchAll(PAIR)].map(([, name, figure, glued]): Pair => [name!, figure!, glued!]);
    const mark = Math.max(part.lastIndexOf(":"), part.lastIndexOf("="));
    // A name of words may have one of a number that is none: "number of nan iterations: 0".
    const isOne = mark >= 0 && !NAMES_END.test(part.slice(0, mark)) && FIRST_NUMBER.test(part.slice(mark + 1));
    if (several.length > 1 && !isOne) return several;
    const place = mark >= 0 ? mark : part.trimEnd().lastIndexOf(" ");
    const name = part.slice(0, Math.max(place, 0)).replaceAll(/^[ \t,;]+|[ \t,;]+$/g, "");
    const number = FIRST_NUMBER.exec(part.slice(place + 1));
    return place > 0 && name !== "" && number ? [[name, number[1]!, ""] as const] : [];
  });
}

/** Returns the number in a figure; the text where something follows that is not a part of one. */
function figureOf(figure: string, glued: string): Json {
  const plain = figure.replaceAll(/[,_]/g, "");
  const multiple = MULTIPLES[glued];
  if (multiple !== undefined) return cellOf(plain + multiple);
  if (glued !== "" && glued !== "m") return figure + glued;
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

function asciiText(data: Uint8Array): string | null {
  const text = lenient.decode(data);
  return text.length === data.length && !text.includes("\ufffd") ? text : null;
}

function placeOf(data: Uint8Array, part: Uint8Array): number {
  let at = data.indexOf(part[0]!);
  while (at >= 0 && !part.every((byte, index) => data[at + index] === byte)) at = data.indexOf(part[0]!, at + 1);
  return at;
}

function lastPlaceOf(data: Uint8Array, part: Uint8Array): number {
  let at = data.lastIndexOf(part[0]!);
  while (at >= 0 && !part.every((byte, index) => data[at + index] === byte)) at = at === 0 ? -1 : data.lastIndexOf(part[0]!, at - 1);
  return at;
}
