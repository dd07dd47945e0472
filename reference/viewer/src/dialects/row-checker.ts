/** Checks the log of another program: bytes, JSON or cells, its end, and steps that go back. There is no schema of it. */

import type { FileReport, Finding } from "../../../typescript/src/checker.js";
import { Collector } from "../../../typescript/src/collecting.js";
import { shortened } from "../../../typescript/src/escaping.js";
import { LineSplitter } from "../../../typescript/src/lines.js";
import * as messages from "../../../typescript/src/messages.js";
import { lineStart, type Place } from "../../../typescript/src/places.js";
import { LIMITS } from "../../../typescript/src/tables.js";
import type { AxisPlace } from "../protocol.js";
import type { ReadAs } from "./dialect.js";
import { flattened } from "./mapping.js";
import { type Row, RowReader } from "./row-reader.js";

const TORN_HELP = "a writer was killed or is still writing; readers leave these bytes out";
const CELLS_HELP = "a row was cut off, or two rows share the line; write one cell for each column of the header";
const NUL_HELP = "a power loss leaves NUL bytes where data was not written; readers leave these bytes out";
const HELPS: { readonly [rule: string]: string } = { "bad-format": CELLS_HELP, "nul-bytes": NUL_HELP };
const NUMBER_HELP = "it is left out: two writes were glued, or the program has its own spelling; write a number or NaN";
const STEP_HELP = "the record has no step: its values are where they are without one; write a whole number";
const NAME_HELP = "the members of an inner object follow its key and a slash; rename one of them";
const MOST_PHASES = 100;
/** A log with more keys is not a table of numbers. */
const MOST_KEYS = 10_000;
const LIKE_NUMBER = /^[-+]?\.?\d/;
const CR = 0x0d;
const encoder = new TextEncoder();

interface Piece {
  number: number;
  offset: number;
  length: number;
  data: Uint8Array | null;
}

/** Checks a log as it is fed. */
export class RowChecker {
  /** The place on each axis of a finding, as far as its record or one before it says it. */
  readonly places = new Map<Finding, AxisPlace>();
  private readonly collector = new Collector();
  private readonly splitter = new LineSplitter();
  private readonly rows: RowReader;
  private readonly steps = new Map<string | null, number>();
  private readonly numbers: NumbersAsText;
  private readonly isLines: boolean;
  private sawCarriageReturn: boolean;
  private records = 0;
  private gaps = 0;
  private now: AxisPlace = { step: null, t: null, epoch: null, tokens: null };

  constructor(
    private readonly path: string,
    private readonly readAs: ReadAs,
  ) {
    // Rules that need no schema have the severities and the help of metrics/v1, which is the nearest profile.
    this.collector.profile = "metrics/v1";
    this.rows = new RowReader(readAs, true);
    this.numbers = new NumbersAsText(readAs);
    const { type } = readAs.dialect.form;
    this.isLines = type === "lines" || type === "prefixed";
    this.sawCarriageReturn = !this.isLines;
  }

  /** Checks the lines that a chunk commits. */
  feed(chunk: Uint8Array): void {
    const { rows } = this;
    if (rows.document) for (const { line, ...cut } of rows.cut(chunk)) this.check({ number: line, ...cut });
    else for (const line of this.splitter.feed(chunk)) this.check(line);
  }

  /** Returns the verdict on everything fed; call it once, last. */
  finish(): FileReport {
    const { collector, records } = this;
    collector.findings.sort((a, b) => a.line - b.line);
    const { end, isOpen } = this.end();
    if (end?.allNul) this.add("nul-bytes", lineStart(end), { message: messages.nulBytesAtEnd({ count: end.length }), help: NUL_HELP, atEnd: true });
    else if (end) this.add("unterminated-line", lineStart(end), { message: end.message, help: TORN_HELP });
    else if (records === 0 && this.gaps === 0) this.add("stream-empty", lineStart({ number: 1, offset: 0 }), { message: `no record in ${this.size} bytes` });
    const state = this.gaps > 0 ? "damaged" : isOpen || records === 0 ? "torn" : "complete";
    return { path: this.path, profile: null, state, valid: !collector.hasError, records, bytes: this.size, findings: collector.findings, suppressed: Object.fromEntries(collector.suppressed) };
  }

  private get size(): number {
    return this.rows.document?.size ?? this.splitter.size;
  }

  /** Returns where the log is not finished; *end* is undefined where there is nothing to report about that. */
  private end(): { end?: { number: number; offset: number; length: number; allNul: boolean; message: string }; isOpen: boolean } {
    const { document } = this.rows;
    const fragment = document ? { number: document.nextLine, offset: document.committed, length: document.isClosed ? 0 : document.size - document.committed, allNul: false } : this.splitter.fragment();
    const isOpen = document ? !document.isClosed : fragment !== null;
    if (fragment && fragment.length > 0) return { end: { ...fragment, message: `${fragment.length} byte${fragment.length === 1 ? "" : "s"} after the last record` }, isOpen };
    return isOpen && this.records > 0 && fragment ? { end: { ...fragment, message: "the document has no end" }, isOpen } : { isOpen };
  }

  private add(rule: string, place: Place, { message, help, pointer = "", atEnd = false }: { message: string; help?: string; pointer?: string; atEnd?: boolean }): void {
    const finding = this.collector.add(rule, place, message, { pointer, atEnd });
    if (!finding) return;
    finding.help = help ?? finding.help;
    this.places.set(finding, this.now);
  }

  private check(piece: Piece): void {
    const { data, length } = piece;
    if (data === null) {
      this.gap();
      this.add("line-too-long", lineStart(piece), { message: messages.lineTooLong({ length, limit: LIMITS.max_line_bytes }) });
      return;
    }
    if (data.length === 0) return;
    const found = this.rows.find(data, piece.number === 1);
    const row = found !== null && "value" in found ? this.rows.rowOf(found.value) : null;
    if (row) this.take(row);
    for (const { rule, offset, message, pointer } of found?.verdict?.problems ?? []) {
      this.add(rule, { ...lineStart(piece), byte: offset, data }, { message, pointer, ...(HELPS[rule] !== undefined && { help: HELPS[rule] }) });
    }
    for (const [rule, count] of found?.verdict?.unlisted ?? []) this.collector.count(rule, count);
    if (found !== null && "reason" in found) this.gap();
    else this.checkCarriageReturn(piece, found !== null);
    if (row) this.compare(row, (found as { value: Parameters<RowReader["rowOf"]>[0] }).value, piece);
  }

  private gap(): void {
    this.gaps++;
    // What was lost may have been the reason why the step goes back.
    this.steps.clear();
  }

  private take({ step, time, epoch }: Row): void {
    this.records++;
    this.now = { step: step ?? this.now.step, t: time ?? this.now.t, epoch: epoch ?? this.now.epoch, tokens: null };
  }

  private checkCarriageReturn(piece: Piece, isRecord: boolean): void {
    const isOther = !isRecord && this.readAs.dialect.form.type === "prefixed";
    const at = this.sawCarriageReturn || isOther ? -1 : piece.data!.indexOf(CR);
    if (at < 0) return;
    this.sawCarriageReturn = true;
    this.add("carriage-return", { ...lineStart(piece), byte: at }, { message: messages.carriageReturn });
  }

  /** Compares a record with those before it. */
  private compare({ step, phase, time, values }: Row, value: Parameters<RowReader["rowOf"]>[0], piece: Piece): void {
    if (step !== null) {
      const last = this.steps.get(phase);
      if (this.readAs.dialect.steps === "increase" && last !== undefined && step < last) {
        this.add("step-goes-backwards", lineStart(piece), { message: messages.stepGoesBackwards({ found: step, before: last }), pointer: pointerOf(this.readAs.step ?? "") });
      }
      if (last !== undefined || this.steps.size < MOST_PHASES) this.steps.set(phase, step);
    }
    const hidden: string[] = [];
    const members = flattened(value, hidden);
    const key = this.readAs.step;
    const said = key === null || step !== null ? null : members.get(key);
    if (key !== null && typeof said === "number" && !Number.isFinite(said)) {
      const word = Number.isNaN(said) ? "nan" : said > 0 ? "inf" : "-inf";
      const message = messages.unexpected({ path: shortened(key), found: word, expected: "a finite number" });
      this.add("bad-format", lineStart(piece), { message, help: STEP_HELP, pointer: pointerOf(key) });
    }
    for (const [key, text] of this.numbers.find(members, (key) => values.has(this.rows.metricName(key) ?? "") || (key === this.readAs.time?.key && time !== null && time !== 0))) {
      const message = messages.unexpected({ path: shortened(key), found: shortened(pythonText(text)), expected: "a number as in earlier records" });
      this.add("bad-format", { ...lineStart(piece), byte: Math.max(0, placeOf(piece.data!, encoder.encode(text))), data: piece.data! }, { message, help: NUMBER_HELP, pointer: pointerOf(key) });
    }
    for (const name of hidden) {
      const message = `two values are named ${shortened(name)} once flattened; the later one is read`;
      this.add("duplicate-key", lineStart(piece), { message, help: NAME_HELP, pointer: pointerOf(name) });
    }
  }
}

/** Remembers which members are numbers, and finds the texts that have the place of one, such as `1.02nan`. */
class NumbersAsText {
  private readonly known = new Set<string>();
  private readonly hasNumbers: boolean;
  /** The members of a JSON object may be anything; a column has one type. */
  private readonly isTable: boolean;

  constructor({ dialect }: ReadAs) {
    this.hasNumbers = dialect.values?.name === undefined;
    this.isTable = dialect.form.type === "csv";
  }

  find(members: ReturnType<typeof flattened>, isRead: (key: string) => boolean): [string, string][] {
    if (!this.hasNumbers) return [];
    const found: [string, string][] = [];
    const fresh: string[] = [];
    for (const [key, member] of members) {
      if (typeof member === "number") fresh.push(key);
      else if (typeof member === "string" && this.known.has(key) && !isRead(key) && (this.isTable || LIKE_NUMBER.test(member))) found.push([key, member]);
    }
    if (this.known.size < MOST_KEYS) for (const key of fresh) this.known.add(key);
    return found;
  }
}

function pointerOf(key: string): string {
  return `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Returns a text in quotes, as messages of dialects have them. */
function pythonText(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r").replaceAll("\t", "\\t");
  return `${quote}${quote === "'" ? escaped.replaceAll("'", "\\'") : escaped}${quote}`;
}

function placeOf(data: Uint8Array, part: Uint8Array): number {
  if (part.length === 0) return 0;
  let at = data.indexOf(part[0]!);
  while (at >= 0 && !part.every((byte, index) => data[at + index] === byte)) at = data.indexOf(part[0]!, at + 1);
  return at;
}
