/** Checks one stream, fed in pieces of any size: see spec/checking.md. */

import { Collector, type Finding } from "./collecting.js";
import { shortened } from "./escaping.js";
import { type Fragment, type Known, type Line, LineSplitter } from "./lines.js";
import * as messages from "./messages.js";
import { times, typed } from "./phrases.js";
import { lineStart, type Place, placeIn, placeOf } from "./places.js";
import { adviceFor, knownLook, knownStart, type Look, lookOf, StreamHead } from "./looks.js";
import { declaredKind, detectProfile, fallbackProfile, kindTable, type State, stateOf, takesFloatsAsIntegers } from "./profiles.js";
import { Prover } from "./proven-records.js";
import { validateRecord, type RecordProblem, type UnknownKey } from "./record-validation.js";
import { type ObjectNode } from "./scanner.js";
import { checkSidecars, type Sidecar } from "./sidecars.js";
import { type Beside, type Hit, StreamRules } from "./stream-rules.js";
import { nearest } from "./suggestions.js";
import { LIMITS, type ProfileName, PROFILES } from "./tables.js";
import { parsedForSure, reasonOf, validateLine, type ValidatedLine } from "./line-validation.js";

export type { Finding } from "./collecting.js";
export type { Excerpt } from "./places.js";
export type { Sidecar } from "./sidecars.js";

/** The verdict on one stream. */
export interface FileReport {
  path: string;
  profile: ProfileName | null;
  state: State | null;
  valid: boolean;
  records: number;
  bytes: number;
  findings: Finding[];
  suppressed: { [rule: string]: number };
}

/** Receives each line as it is checked: what a viewer shows beside the verdict. */
export interface Watch {
  /**
   * True where the values of a record suffice, which is checked faster then: a number may have another text, such as 1 for 1.0,
   * offsets are 0, and a record is right until the next one comes.
   */
  takesValues?: boolean;
  record?(record: ObjectNode, kind: string | null, profile: ProfileName | null): void;
  gap(offset: number, length: number, reason: string): void;
}

export interface CheckOptions {
  /** Shown in the report. */
  path?: string | undefined;
  profile?: ProfileName | undefined;
  /** Name of the file, which helps to determine the profile where the records do not. */
  name?: string | undefined;
  /** True where a manifest of kaun/v1 is beside the stream. */
  hasManifest?: boolean | undefined;
  /** Name of the directory that the run's id is compared with; absent for a stream in no bundle. */
  directory?: string | undefined;
  /** What the bundle has beside the stream; absent for a stream in no bundle. */
  beside?: Beside | undefined;
  maxLineBytes?: number | undefined;
  watch?: Watch | undefined;
}

const NOTHING_BAD: ReadonlySet<string> = new Set();
const NO_BYTES = new Uint8Array();
const STREAM_START: Place = { line: 1, lineOffset: 0, byte: 0 };
/** Rules whose findings do not make a field invalid. */
const HARMLESS: ReadonlySet<string> = new Set(["unsafe-integer", "integer-as-float"]);

/** Checks a stream as it is fed. */
export class StreamChecker {
  private readonly splitter: LineSplitter;
  private readonly limit: number;
  private readonly collector = new Collector();
  private rules: StreamRules | undefined;
  private prover: Prover | undefined;
  private records = 0;
  private gaps = 0;
  private lastKind: string | null = null;
  private last: Place = STREAM_START;
  private firstGap: Place = STREAM_START;
  private firstRecord: { place: Place; node: ObjectNode } | undefined;
  private readonly head = new StreamHead();
  private sawCarriageReturn = false;
  private sawFloat = false;
  private directory: string | undefined;
  private mismatch: { place: Place; message: string } | undefined;

  constructor(private readonly options: CheckOptions = {}) {
    this.limit = options.maxLineBytes ?? LIMITS.max_line_bytes;
    this.splitter = new LineSplitter(this.limit);
    this.directory = options.directory;
    if (options.profile) this.follow(options.profile);
  }

  /** Number of bytes fed so far. */
  get size(): number {
    return this.splitter.size;
  }

  /** What the first bytes are known as, undefined for what may be a log. */
  get look(): Look | undefined {
    return knownLook(this.head.bytes, this.size <= this.head.bytes.length);
  }

  /** Checks the lines that the chunk commits. */
  feed(chunk: Uint8Array): void {
    this.head.feed(chunk);
    for (const line of this.splitter.feed(chunk, this.takeKnown)) this.checkLine(line);
  }

  /** Returns the verdict on everything fed and on the files beside it; call it once, last. */
  finish(sidecars: readonly Sidecar[] = []): FileReport {
    const { collector, records, lastKind } = this;
    collector.settle();
    const fragment = this.splitter.fragment();
    const hasGap = this.gaps > 0;
    // A file without a line that begins like an archive is not a run of which nothing is left.
    const isForeign = hasGap || (fragment !== null && knownStart(fragment.head) !== undefined);
    if (collector.profile === undefined) this.follow(fallbackProfile(this.options, isForeign));
    const profile = collector.profile ?? null;
    if (profile === null) this.reportFormat();
    else this.checkEnd(fragment, sidecars);
    return {
      path: this.options.path ?? "-",
      profile,
      state: stateOf(profile, { hasGap, hasFragment: fragment !== null, records, lastKind }),
      valid: !collector.hasError,
      records: this.records,
      bytes: this.size,
      findings: collector.findings,
      suppressed: Object.fromEntries(collector.suppressed),
    };
  }

  /** Checks what the end of the stream and the files beside it add. */
  private checkEnd(fragment: Fragment | null, sidecars: readonly Sidecar[]): void {
    const { collector } = this;
    if (fragment) this.checkFragment(fragment);
    else if (this.records === 0 && this.gaps === 0) collector.add("stream-empty", STREAM_START, messages.streamEmpty({ size: this.size }));
    else if (this.records > 0) for (const hit of this.rules?.finish() ?? []) collector.add(hit.rule, this.last, hit.message);
    if (this.mismatch) collector.add("run-id-mismatch", this.mismatch.place, this.mismatch.message, { pointer: "/run_id" });
    checkSidecars(sidecars, this.options.directory, collector);
  }

  /** Says what a stream without a profile looks like, once. */
  private reportFormat(): void {
    const look = lookOf(this.head.bytes, { isAll: this.size <= this.head.bytes.length, first: this.firstRecord?.node });
    this.collector.addOnly("unknown-format", this.firstRecord?.place ?? this.firstGap, look.look, adviceFor(look));
  }

  private follow(profile: ProfileName | null): void {
    this.collector.profile = profile;
    if (profile === null) {
      this.collector.mute();
      return;
    }
    this.rules = new StreamRules(profile, this.options.beside);
    const { watch } = this.options;
    // Who watches is given every member of a record, mostly with its text.
    if (!watch?.record || watch.takesValues) this.prover = new Prover(profile, watch?.record !== undefined);
    if (this.gaps > 0) this.rules.gap();
  }

  /** Takes in a line that differs from a proven one in its numbers alone. */
  private readonly takeKnown: Known = (chunk, from, number, offset) => {
    const shapes = this.prover?.shapes;
    const end = shapes === undefined ? -1 : shapes.read(chunk, from);
    const length = end - from - 1;
    if (end < 0 || length > this.limit) return -1;
    const { kind } = shapes!;
    this.records++;
    this.lastKind = kind;
    this.last = { line: number, lineOffset: offset, byte: 0 };
    const record = shapes!.node();
    const hits = this.rules!.observe({ record, kind, known: true, bad: NOTHING_BAD, line: number });
    this.options.watch?.record?.(record, kind, this.collector.profile!);
    if (hits.length > 0) {
      const line: Line = { number, offset, length, data: chunk.subarray(from, end - 1), text: null, isTidy: false, head: NO_BYTES };
      this.reportHits(line, validateLine(line, this.limit).value!, hits);
    }
    return end;
  };

  private checkLine(line: Line): void {
    const parsed = this.prover === undefined || line.text === null ? undefined : parsedForSure(line);
    const kind = parsed && this.prover!.kindOf(parsed, line.text!, line.isTidy);
    if (kind === undefined) {
      this.checkExactly(line);
      return;
    }
    this.takeProven(line, kind, this.prover!.node(parsed!, kind));
    this.prover!.learn(parsed!, kind, line.text!);
  }

  /** Takes in a record without findings; only the rules that relate records can have something to say about it. */
  private takeProven(line: Line, kind: string, record: ObjectNode): void {
    this.records++;
    this.lastKind = kind;
    this.last = lineStart(line);
    const hits = this.rules!.observe({ record, kind, known: true, bad: NOTHING_BAD, line: line.number });
    this.options.watch?.record?.(record, kind, this.collector.profile!);
    if (hits.length > 0) this.reportHits(line, validateLine(line, this.limit).value!, hits);
  }

  private reportHits(line: Line, record: ObjectNode, hits: readonly Hit[]): void {
    for (const hit of hits) {
      const place = hit.pointer === "" ? lineStart(line) : placeOf(line, record, hit.pointer);
      this.collector.add(hit.rule, place, hit.message, { pointer: hit.pointer });
    }
  }

  private checkExactly(line: Line): void {
    const validated = validateLine(line, this.limit);
    if (validated.value && !this.firstRecord) {
      this.firstRecord = { place: lineStart(line), node: validated.value };
      if (this.collector.profile === undefined) this.follow(detectProfile(validated.value, this.options));
    }
    const start = this.collector.findings.length;
    this.reportLine(line, validated);
    if (validated.status === "unreadable") {
      if (this.gaps++ === 0) this.firstGap = lineStart(line);
      this.rules?.gap();
      this.options.watch?.gap(line.offset, line.length + 1, reasonOf(validated));
    }
    if (validated.value) this.validateRecord(line, validated.value, start);
  }

  private reportLine(line: Line, validated: ValidatedLine): void {
    for (const problem of validated.problems) {
      this.collector.add(problem.rule, placeIn(line, problem.offset), problem.message, { pointer: problem.pointer });
    }
    for (const [rule, count] of validated.unlisted) this.collector.count(rule, count);
    if (validated.carriageReturn >= 0 && !this.sawCarriageReturn) {
      this.sawCarriageReturn = true;
      this.collector.add("carriage-return", { ...lineStart(line), byte: validated.carriageReturn }, messages.carriageReturn);
    }
  }

  /** Checks a record, puts the findings of its line, from index *start* on, in order, and observes it. */
  private validateRecord(line: Line, record: ObjectNode, start: number): void {
    const profile = this.collector.profile ?? null;
    this.records++;
    if (profile === null) {
      this.options.watch?.record?.(record, null, profile);
      return;
    }
    const tag = PROFILES[profile].tag;
    const kind = tag === null ? "entry" : declaredKind(record, profile);
    const table = kindTable(profile, kind);
    this.lastKind = kind;
    let bad = NOTHING_BAD;
    const takesFloats = takesFloatsAsIntegers(profile);
    if (table) bad = this.reportFields(line, kind!, validateRecord(record, { kind: kind!, fields: table.fields, takesFloats, reportsFloat: !this.sawFloat }));
    else this.reportTag(line, record, tag!, kind);
    if (this.collector.findings.length > start) this.collector.arrange(start);
    this.last = lineStart(line);
    this.reportHits(line, record, this.rules!.observe({ record, kind, known: table !== undefined, bad, line: line.number }));
    if (this.directory !== undefined && table && kind === "run_start") this.compareWithDirectory(line, record, bad);
    this.options.watch?.record?.(record, kind, profile);
  }

  private reportFields(line: Line, kind: string, problems: RecordProblem[]): ReadonlySet<string> {
    if (problems.length === 0) return NOTHING_BAD;
    const bad = new Set<string>();
    for (const problem of problems) {
      const { rule, pointer, key } = problem;
      const place = placeIn(line, problem.offset);
      if (key) this.collector.tally(rule, `${kind} ${key.path}`, () => place, unknownKey(kind, key), pointer);
      else this.collector.add(rule, place, problem.message, { pointer });
      this.sawFloat ||= rule === "integer-as-float";
      if (!key && !HARMLESS.has(rule)) bad.add(pointer.split("/")[1]!);
    }
    return bad;
  }

  private reportTag(line: Line, record: ObjectNode, tag: string, kind: string | null): void {
    const node = record.members.get(tag);
    const place = placeIn(line, (node ?? record).offset);
    const pointer = `/${tag}`;
    if (!node) this.collector.add("missing-key", place, messages.missingTag({ key: tag }), { pointer });
    else if (kind === null) this.collector.add("wrong-type", place, messages.unexpected({ path: tag, found: typed(node), expected: messages.expectedString }), { pointer });
    else this.collector.tally("unknown-kind", kind, () => place, unknownKind(kind, this.collector.profile as ProfileName), pointer);
  }

  private compareWithDirectory(line: Line, record: ObjectNode, bad: ReadonlySet<string>): void {
    const node = record.members.get("run_id");
    if (node?.type === "string" && !bad.has("run_id") && node.value !== this.directory) {
      const message = messages.runIdMismatch({ found: shortened(node.value), directory: shortened(this.directory!) });
      this.mismatch = { place: placeIn(line, node.offset), message };
    }
    this.directory = undefined;
  }

  private checkFragment(fragment: Fragment): void {
    const count = fragment.length;
    if (fragment.allNul) this.collector.add("nul-bytes", lineStart(fragment), messages.nulBytesAtEnd({ count }), { atEnd: true });
    else this.collector.add("unterminated-line", lineStart(fragment), messages.unterminatedLine({ count }));
  }
}

function unknownKey(kind: string, key: UnknownKey): (count: number) => string {
  return (count) => messages.unknownKey({ key: shortened(key.path), kind }) + times(count) + meant(key.suggest());
}

function unknownKind(kind: string, profile: ProfileName): (count: number) => string {
  const known = Object.entries(PROFILES[profile].kinds).flatMap(([name, table]) => (table.is_record ? [name] : []));
  return (count) => messages.unknownKind({ kind: shortened(kind) }) + times(count) + meant(nearest(kind, known));
}

function meant(suggestion: string | undefined): string {
  return suggestion === undefined ? "" : messages.suggestion({ name: suggestion });
}

/** Returns the verdict on a directory that holds no stream. */
export function reportMissing(path: string): FileReport {
  const collector = new Collector();
  collector.add("stream-missing", STREAM_START, messages.streamMissing);
  const { findings } = collector;
  return { path, profile: null, state: null, valid: false, records: 0, bytes: 0, findings, suppressed: {} };
}

/** Returns the verdict on a stream that is held in memory. */
export function check(data: Uint8Array, options: CheckOptions = {}): FileReport {
  const checker = new StreamChecker(options);
  checker.feed(data);
  return checker.finish();
}
