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
/** A longer first line may have NUL bytes after these. */
const FIRST_LINE_BYTES = 256;
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
  const text = Array.from(head, (byte) => String.fromCharCode(byte)).join("");
  for (const dialect of ordered) {
    const mark = dialect.recognize.text;
    if (mark !== undefined && !expressionOf(mark).test(text)) continue;
    const rows = firstRows(head, dialect);
    if (fits(dialect, rows)) return readAs(dialect, rows);
  }
  return null;
}

function isNamed({ files = [] }: Dialect, name: string): boolean {
  return files.some((pattern) => namePattern(pattern).test(name));
}

function readAs(dialect: Dialect, rows: readonly Row[]): ReadAs {
  const { step, time = [], epoch = [], phase = [], rank } = dialect;
  const chosen = firstKey(step, rows) ?? (rank === "program" ? (step[0] ?? null) : null);
  return {
    dialect, step: chosen,
    time: time.find(({ key, unit }) => rows.some((row) => row.has(key) && timeOf(row.get(key), unit) !== null)) ?? null,
    epoch: epoch.find((key) => key !== chosen && rows.some((row) => row.has(key))) ?? null,
    phase: phase.find((key) => rows.some((row) => typeof row.get(key) === "string")) ?? null,
  };
}

function firstKey(keys: readonly string[], rows: readonly Row[]): string | null {
  return keys.find((key) => rows.some((row) => numberIn(row.get(key)) !== null)) ?? null;
}

function fits(dialect: Dialect, rows: readonly Row[]): boolean {
  const { keys, any, text, absent = [] } = dialect.recognize;
  // The text may be in lines without metrics, which some programs print first.
  if (dialect.form.type === "pattern" && dialect.rank === "program" && text) return true;
  if (!rows.some((row) => hasMarks(dialect, row)) || absent.some((key) => rows.some((row) => row.has(key)))) return false;
  if (dialect.form.type === "pattern") return true;
  if (dialect.rank === "program") return Boolean(text || keys || any);
  const key = firstKey(dialect.step, rows);
  if (key === null) return false;
  const stepped = rows.filter((row) => numberIn(row.get(key)) !== null);
  return 2 * stepped.length >= rows.length && stepped.some((row) => [...row].some(([name, value]) => name !== key && (typeof value === "number" || (typeof value === "string" && notFinite(value) !== undefined))));
}

function hasMarks({ recognize: { keys = [], any = [], equals = {} } }: Dialect, row: Row): boolean {
  return keys.every((key) => row.has(key)) && (any.length === 0 || any.some((key) => row.has(key))) && Object.entries(equals).every(([key, value]) => row.get(key) === value);
}

/** Returns the first records in the head of a file as a dialect reads them. */
function firstRows(head: Uint8Array, dialect: Dialect): Row[] {
  const form = formOf(dialect);
  const isJson = !(form instanceof CsvForm) && dialect.form.type !== "pattern";
  const rows: Row[] = [];
  const lines = dialect.form.type === "document" ? new DocumentCutter(dialect.form.rows ?? "").feed(head).map(({ data }) => data) : linesOf(head);
  for (const [at, line] of [...lines].entries()) {
    // To find out what is wrong with a line takes long, and most lines of other files hold no object.
    if (line === null || (isJson && !line.includes(BRACE))) continue;
    const found = form.read(line, at === 0);
    if (found && "value" in found) rows.push(flattened(found.value));
    if (rows.length === MOST_ROWS) break;
  }
  // A header alone: its names say what the file will be.
  if (form instanceof CsvForm && rows.length === 0 && form.header !== null) rows.push(new Map(form.header.map((name) => [name, 0])));
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
