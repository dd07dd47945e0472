/** Reads a whole stream: records in order, and an account of every byte that gave none. */

import { type Line, LineSplitter } from "./lines.js";
import { knownStart } from "./looks.js";
import { numberOf } from "./numbers.js";
import { declaredKind, detectProfile, fallbackProfile, type State, stateOf } from "./profiles.js";
import { type Node, type ObjectNode, Scanner } from "./scanner.js";
import { LIMITS, type ProfileName, PROFILES } from "./tables.js";
import { parsedForSure, reasonOf, validateLine } from "./line-validation.js";

/** What reading does with a stream that is not complete. */
export type Mode = "strict" | "tail" | "prefix" | "salvage";
export type { State } from "./profiles.js";

/** One committed JSON object. */
export class Record {
  constructor(
    /** The line without its LF, as it is in the stream. */
    readonly raw: Uint8Array,
    /** Line number, from 1. */
    readonly line: number,
    /** Byte offset of the line, from 0. */
    readonly offset: number,
    /** What the record declares to be; null where it declares nothing. */
    readonly kind: string | null,
    private scanned: ObjectNode | null,
    private parsed: JsonObject | null,
  ) {}

  /** The object with the text of its numbers and the places of its values. */
  get node(): ObjectNode {
    return (this.scanned ??= new Scanner(this.raw).scan() as ObjectNode);
  }

  /** The object as JSON.parse gives it, but -0 without a point is 0: integers beyond 2^53 are rounded. */
  get value(): JsonObject {
    return (this.parsed ??= this.parse());
  }

  private parse(): JsonObject {
    const text = new TextDecoder().decode(this.raw);
    const value = JSON.parse(text) as JsonObject;
    return text.includes("-0") ? (withoutSigns(value, this.node) as JsonObject) : value;
  }
}

/** Returns a text of a record; undefined unless it is there and the record is of the kind. */
export function textIn(record: Record, kind: string, field: string): string | undefined {
  const value = record.kind === kind ? record.value[field] : undefined;
  return typeof value === "string" ? value : undefined;
}

type JsonObject = { [key: string]: unknown };

/** Takes the sign off every zero of digits alone; JSON.parse gives the same for it and for -0.0. */
function withoutSigns(value: unknown, node: Node): unknown {
  if (node.type === "number") return numberOf(node.text);
  if (node.type === "array") (value as unknown[]).forEach((item, i, items) => (items[i] = withoutSigns(item, node.items[i]!)));
  if (node.type === "object") {
    const members = value as { [key: string]: unknown };
    for (const [key, item] of node.members) members[key] = withoutSigns(members[key], item);
  }
  return value;
}

/** Bytes that gave no record. */
export interface Gap {
  line: number;
  offset: number;
  length: number;
  /** The rule that the line breaks, or `stopped` for what was left unread. */
  reason: string;
}

/** The account of one reading. Always: committed + fragment + gapBytes = size. */
export interface Report {
  /** Null for a stream that follows none. */
  profile: ProfileName | null;
  state: State;
  records: number;
  /** Bytes of readable and blank lines, with their LFs. */
  committed: number;
  /** Bytes after the last LF. */
  fragment: number;
  /** The first `max_listed_gaps`, then what was left unread. */
  gaps: Gap[];
  gapBytes: number;
  size: number;
}

/** Thrown where a mode refuses a stream. */
export class StreamError extends Error {
  constructor(
    readonly report: Report,
    readonly reason: string,
    readonly line: number,
    readonly offset: number,
    name: string,
  ) {
    super(`${name}:${line}: ${reason} at byte ${offset}`);
  }
}

export interface ReadOptions {
  mode?: Mode | undefined;
  profile?: ProfileName | undefined;
  /** Name of the file, which helps to determine the profile where the records do not. */
  name?: string | undefined;
  /** True where a manifest of kaun/v1 is beside the stream. */
  hasManifest?: boolean | undefined;
  maxLineBytes?: number | undefined;
}

/** Yields the records of a stream and returns the report; throws StreamError where the mode refuses the stream. */
export function* read(chunks: Iterable<Uint8Array>, options: ReadOptions = {}): Generator<Record, Report> {
  const reading = new Reading(options);
  for (const chunk of chunks) yield* reading.feed(chunk);
  return reading.finish();
}

/** Like `read`, for chunks that arrive one by one: a stream of Node or of the browser. */
export async function* readAsync(chunks: AsyncIterable<Uint8Array>, options: ReadOptions = {}): AsyncGenerator<Record, Report> {
  const reading = new Reading(options);
  for await (const chunk of chunks) yield* reading.feed(chunk);
  return reading.finish();
}

/** One reading of a stream, fed in pieces of any size. */
export class Reading {
  private readonly mode: Mode;
  private readonly limit: number;
  private readonly splitter: LineSplitter;
  /** Undefined until a record or the user determines it. */
  profile: ProfileName | null | undefined;
  private last: string | null = null;
  private records = 0;
  private committed = 0;
  private readonly gaps: Gap[] = [];
  private gapBytes = 0;
  private stop: Gap | null = null;
  private extra = 0;

  constructor(private readonly options: ReadOptions) {
    this.mode = options.mode ?? "tail";
    this.limit = options.maxLineBytes ?? LIMITS.max_line_bytes;
    this.splitter = new LineSplitter(this.limit);
    this.profile = options.profile;
  }

  *feed(chunk: Uint8Array): Generator<Record> {
    if (this.stop) {
      this.extra += chunk.length;
      return;
    }
    const before = this.splitter.size;
    for (const line of this.splitter.feed(chunk)) {
      const parsed = line.data === null || !this.profile ? undefined : parsedForSure(line);
      if (parsed) {
        yield this.proven(line, parsed);
        continue;
      }
      const validated = validateLine(line, this.limit);
      if (validated.status === "unreadable") {
        const gap = { line: line.number, offset: line.offset, length: line.length + 1, reason: reasonOf(validated) };
        this.note(gap);
        if (this.mode !== "salvage") {
          this.stop = gap;
          this.extra = before + chunk.length - (gap.offset + gap.length);
          return;
        }
        continue;
      }
      this.committed += line.length + 1;
      if (!validated.value) continue;
      if (this.profile === undefined) this.profile = detectProfile(validated.value, this.options);
      this.last = declaredKind(validated.value, this.profile);
      this.records++;
      yield new Record(line.data!, line.number, line.offset, this.last, validated.value, null);
    }
  }

  /** Takes in a line that needs no validation; most lines are like that. */
  private proven(line: Line, parsed: JsonObject): Record {
    this.committed += line.length + 1;
    this.records++;
    const { tag } = PROFILES[this.profile!];
    const kind = tag === null ? null : parsed[tag];
    this.last = typeof kind === "string" ? kind : null;
    return new Record(line.data!, line.number, line.offset, this.last, null, line.text!.includes("-0") ? null : parsed);
  }

  finish(): Report {
    const stop = this.stop;
    if (stop && this.extra > 0) {
      this.note({ line: stop.line + 1, offset: stop.offset + stop.length, length: this.extra, reason: "stopped" });
    }
    const last = stop ? null : this.splitter.fragment();
    const fragment = last?.length ?? 0;
    // A file without a line that begins like an archive is not a run of which nothing is left.
    const isForeign = this.gapBytes > 0 || (last !== null && knownStart(last.head) !== undefined);
    const profile = this.profile === undefined ? fallbackProfile(this.options, isForeign) : this.profile;
    const { records, committed, gaps, gapBytes } = this;
    const report: Report = {
      profile, state: this.state(profile, fragment > 0), records, committed, fragment, gaps, gapBytes, size: committed + fragment + gapBytes,
    };
    const name = this.options.name ?? "<stream>";
    if (stop && this.mode !== "prefix") throw new StreamError(report, stop.reason, stop.line, stop.offset, name);
    if (this.mode === "strict" && report.state !== "complete") throw new StreamError(report, report.state, 1, committed, name);
    return report;
  }

  private note(gap: Gap): void {
    this.gapBytes += gap.length;
    if (this.gaps.length < LIMITS.max_findings_per_rule || gap.reason === "stopped") this.gaps.push(gap);
  }

  private state(profile: ProfileName | null, hasFragment: boolean): State {
    return stateOf(profile, { hasGap: this.gapBytes > 0, hasFragment, records: this.records, lastKind: this.last });
  }
}
