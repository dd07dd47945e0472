/** Recognizes the dialect of a file by its first bytes, and chooses the keys of its step and time. */

import { reasonOf, validateText } from "../../../typescript/src/line-validation.js";
import { detectProfile, type Environment, streamName } from "../../../typescript/src/profiles.js";
import type { ObjectNode } from "../../../typescript/src/scanner.js";
import type { Json } from "../protocol.js";
import { type Dialect, expressionOf, namePattern, type ReadAs } from "./dialect.js";
import { DocumentCutter } from "./documents.js";
import { CsvForm, formOf } from "./forms.js";
import { flattened, notFinite, numberIn, timeOf } from "./mapping.js";
import { DIALECTS } from "./tables.js";

/** Number of bytes by which a file is recognized. */
export const HEAD_BYTES = 1 << 16;

const RANKS: readonly string[] = ["program", "shape", "guess"];
const MOST_ROWS = 50;
/** Number of rows in which the key of the phase is looked for where the first ones lack it. */
const LATE_ROWS = 500;
/** A longer first line may have NUL bytes after these. */
const FIRST_LINE_BYTES = 256;
/** Keys of the kind of a record in logs that name it so, and what the kinds are where it is the phase. */
const KIND_KEYS = ["event", "type", "kind", "subset", "dataset", "set", "tag", "prefix"];
const PHASE_WORDS: ReadonlySet<string> = new Set(["train", "training", "val", "valid", "validation", "eval", "evaluate", "evaluation", "test", "testing", "dev"]);
/** Keys of the name and the value of a metric, where a record has one. */
const NAMES = ["name", "metric", "metric_name", "metricName", "key", "tag", "variable"];
const VALUES = ["value", "metric_value", "metricValue", "scalar", "val"];
/** The column of an index whose name is empty, and what the names of metrics have. */
const INDEX = "Unnamed: 0";
/** Beside metrics: how long each took. */
const TIMING = /^(?:(?:.*[_ ])?(?:time|seconds|secs|duration)|elapsed)(?:_s|_sec|_ms|[_ ]?\(\w+\))?$/i;
const MEASURED = /loss|acc|reward|return|error|score|perplexity|ppl|f1|mse|mae|auc|bleu|iou|dice|wer|cer/i;
const [LF, BRACE] = [0x0a, 0x7b];
const BARE_WORDS = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;

type Row = ReadonlyMap<string, Json>;

/** Returns how to read the file that begins with *head*; null for one of toyspec's own profiles, and for all others. */
export function recognize(head: Uint8Array, environment: Environment): ReadAs | null {
  // A power loss leaves NUL bytes in a log, but its first line was on the disk long before.
  const nul = head.subarray(0, FIRST_LINE_BYTES).indexOf(0);
  if (nul >= 0 && !head.subarray(0, nul).includes(LF)) return null;
  const first = firstObject(head);
  const profile = first === null ? null : detectProfile(first, environment);
  if (profile !== null && (profile !== "kaun/v1" || detectProfile(first!) !== null)) return null;
  const name = streamName(environment.name ?? "");
  // A manifest beside the file counts less than a dialect of one program.
  const known = DIALECTS.filter(({ rank }) => profile === null || rank === "program");
  const ordered = [...known].sort((a, b) => RANKS.indexOf(a.rank) - RANKS.indexOf(b.rank) || Number(isNamed(b, name)) - Number(isNamed(a, name)));
  const text = plainText(head);
  for (const dialect of ordered) {
    const mark = dialect.recognize.text;
    if (mark !== undefined && !expressionOf(mark).test(text)) continue;
    const rows = firstRows(head, dialect);
    if (fits(dialect, rows)) return readAs(dialect, rows, head);
  }
  return null;
}

/** Returns bytes as letters, without a terminal's colours, which are between the words. */
function plainText(head: Uint8Array): string {
  return Array.from(head, (byte) => String.fromCharCode(byte)).join("").replaceAll(/\x1b\[[0-9;]*[A-Za-z]/g, "");
}

function isNamed({ files = [] }: Dialect, name: string): boolean {
  return files.some((pattern) => namePattern(pattern).test(name));
}

function readAs(dialect: Dialect, rows: readonly Row[], head: Uint8Array): ReadAs {
  const { step, time = [], epoch = [], phase = [], rank } = dialect;
  const isExact = rank === "program";
  const chosen = firstKey(step, rows, isExact) ?? (isExact ? (step[0] ?? null) : null);
  const present = keysOf(rows, () => true);
  const texts = keysOf(rows, (value) => typeof value === "string");
  const spelt = (keys: readonly string[]) => (isExact ? keys : keys.flatMap((key) => foundKey(key, present) ?? []));
  const times = time.flatMap(({ key, unit }) => spelt([key]).map((found) => ({ key: found, unit })));
  return {
    dialect: rank === "guess" ? long(dialect, rows, chosen) : dialect, step: chosen,
    time: times.find(({ key, unit }) => rows.some((row) => row.has(key) && timeOf(row.get(key), unit) !== null)) ?? null,
    epoch: spelt(epoch).find((key) => key !== chosen && present.includes(key)) ?? null,
    phase: spelt(phase).find((key) => texts.includes(key)) ?? latePhase(dialect, head) ?? (rank === "guess" ? KIND_KEYS.find((key) => texts.includes(key) && namesPhases(rows, key)) : undefined) ?? null,
  };
}

/** Returns the key of the phase that the first records lack and others may have; null if there is none. */
function latePhase(dialect: Dialect, head: Uint8Array): string | null {
  const { phase = [], rank } = dialect;
  if (rank === "program") return null;
  const text = plainText(head);
  const keys = phase.filter((key) => text.includes(`"${key}"`));
  const texts = keys.length > 0 ? keysOf(firstRows(head, dialect, LATE_ROWS), (value) => typeof value === "string") : [];
  return keys.find((key) => texts.includes(key)) ?? null;
}

/** Returns whether the texts under a key are phases in most rows that have it. */
function namesPhases(rows: readonly Row[], key: string): boolean {
  const words = rows.flatMap((row) => (row.has(key) ? [PHASE_WORDS.has(String(row.get(key)).toLowerCase())] : []));
  return 2 * words.filter(Boolean).length >= words.length;
}

/** Returns a dialect with the keys of the metric's name and value, where rows have one metric each: several names occur, or there is no other number. */
function long(dialect: Dialect, rows: readonly Row[], step: string | null): Dialect {
  const first = (keys: readonly string[], fits: (value: Json | undefined) => boolean) => {
    const present = keysOf(rows, fits);
    return keys.flatMap((key) => foundKey(key, present) ?? []).find((key) => 2 * rows.filter((row) => fits(row.get(key))).length >= rows.length);
  };
  const [name, value] = [first(NAMES, (text) => typeof text === "string"), first(VALUES, isMeasure)];
  if (name === undefined || value === undefined || name === value) return dialect;
  const own = [step, value, ...(dialect.time ?? []).map(({ key }) => key), ...(dialect.epoch ?? [])];
  const isAlone = keysOf(rows, (other) => typeof other === "number").every((key) => own.includes(key));
  return isAlone || new Set(rows.map((row) => row.get(name))).size > 1 ? { ...dialect, values: { ...dialect.values, name, value } } : dialect;
}

function isMeasure(value: Json | undefined): boolean {
  return typeof value === "number" || (typeof value === "string" && notFinite(value) !== undefined);
}

/** Returns the first of some keys under which rows have numbers, as they spell it: unless it is exact, case and marks between words do not count. */
function firstKey(keys: readonly string[], rows: readonly Row[], isExact: boolean): string | null {
  const present = keysOf(rows, (value) => numberIn(value) !== null);
  if (isExact) return keys.find((key) => present.includes(key)) ?? null;
  const whole = keys.map((key) => foundKey(key, present)).find((key) => key !== null);
  if (whole !== undefined) return whole;
  const ends = new Map([...present].reverse().filter((key) => key.includes("/")).map((key) => [plainName(key.slice(key.lastIndexOf("/") + 1)), key]));
  return keys.map((key) => ends.get(plainName(key))).find((key) => key !== undefined) ?? null;
}

function keysOf(rows: readonly Row[], fits: (value: Json | undefined) => boolean): string[] {
  return [...new Set(rows.flatMap((row) => [...row].filter(([, value]) => fits(value)).map(([key]) => key)))];
}

/** Returns a key as it is spelt among others. */
function foundKey(key: string, present: readonly string[]): string | null {
  const plain = plainName(key);
  return present.includes(key) ? key : (present.find((each) => plainName(each) === plain) ?? null);
}

function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "_").replaceAll(/^_+|_+$/g, "");
}

function fits(dialect: Dialect, rows: readonly Row[]): boolean {
  const { keys, any, text, absent = [] } = dialect.recognize;
  if (!rows.some((row) => hasMarks(dialect, row)) || absent.some((key) => rows.some((row) => row.has(key)))) return false;
  if (dialect.rank === "program") return Boolean(text || keys || any);
  const key = firstKey(dialect.step, rows, false);
  // A table of data has an index too.
  if (key === null || (key === INDEX && !keysOf(rows, () => true).some((each) => MEASURED.test(each)))) return false;
  if (key === dialect.form.index && dialect.form.type === "csv" && !rows.every((row) => isAllMeasured(row, key))) return false;
  const stepped = rows.filter((row) => numberIn(row.get(key)) !== null);
  return 2 * stepped.length >= rows.length && stepped.some((row) => [...row].some(([name, value]) => name !== key && isMeasure(value)));
}

/** Returns whether all that a row has are metrics and times, by their names; a table of results has settings too. */
function isAllMeasured(row: Row, index: string): boolean {
  const others = [...row].filter(([key]) => key !== index);
  return others.some(([key]) => MEASURED.test(key)) && others.every(([key, value]) => (MEASURED.test(key) || TIMING.test(key)) && isMeasure(value));
}

function hasMarks({ rank, recognize: { keys = [], any = [], equals = {} } }: Dialect, row: Row): boolean {
  const isThere = (key: string) => (rank === "program" ? row.has(key) : foundKey(key, [...row.keys()]) !== null);
  return keys.every((key) => row.has(key)) && (any.length === 0 || any.some(isThere)) && Object.entries(equals).every(([key, value]) => row.get(key) === value);
}

/** Returns the first records in the head of a file as a dialect reads them. */
function firstRows(head: Uint8Array, dialect: Dialect, most = MOST_ROWS): Row[] {
  const form = formOf(dialect);
  const isJson = !(form instanceof CsvForm);
  const rows: Row[] = [];
  const lines = dialect.form.type === "document" ? new DocumentCutter(dialect.form.rows ?? "").feed(head).map(({ data }) => data) : linesOf(head);
  const all = [...lines];
  for (const [at, line] of all.entries()) {
    // To find out what is wrong with a line takes long, and most lines of other files hold no object.
    if (line === null || (isJson && !line.includes(BRACE))) continue;
    const found = form.read(line, at === 0);
    if (found && "value" in found) rows.push(flattened(found.value));
    if (rows.length === most) break;
  }
  // A header alone: its names say what the file will be.
  if (form instanceof CsvForm && rows.length === 0 && form.header !== null && all.length === 1 && dialect.form.delimiter !== " ") rows.push(new Map(form.header.map((name) => [name, 0])));
  return rows;
}

function* linesOf(head: Uint8Array): Generator<Uint8Array> {
  for (let from = 0, end = head.indexOf(LF); end >= 0; from = end + 1, end = head.indexOf(LF, from)) yield head.subarray(from, end);
}

/** Returns the first object on a line; one with bare NaN counts too, since a profile has its keys. */
function firstObject(head: Uint8Array): ObjectNode | null {
  let isFirst = true;
  for (const line of linesOf(head)) {
    if (!line.includes(BRACE)) {
      isFirst = false;
      continue;
    }
    const validated = validateText(line, isFirst);
    isFirst = false;
    if (validated.value) return validated.value;
    if (validated.status === "blank" || reasonOf(validated) !== "non-finite-number") continue;
    const plain = new TextDecoder().decode(line).replace(BARE_WORDS, (word) => (word.startsWith('"') ? word : "null"));
    const again = validateText(new TextEncoder().encode(plain), false).value;
    if (again) return again;
  }
  return null;
}
