/** Takes in the lines of one run: its facts, and a pyramid of each of its curves. */

import { declaredKind, detectProfile, fallbackProfile, stateOf } from "../../../typescript/src/profiles.js";
import { parsedForSure, reasonOf, validateLine } from "../../../typescript/src/line-validation.js";
import { asciiText, joined } from "../../../typescript/src/lines.js";
import { LIMITS, type ProfileName, PROFILES } from "../../../typescript/src/tables.js";
import { isMembers } from "../dialects/mapping.js";
import type { Row, RowReader } from "../dialects/row-reader.js";
import type { Json } from "../protocol.js";
import { Attempts, StepOrder, worldSizeOf } from "./attempts.js";
import { EPOCH, type Layout, NumberLines, PLACES, STEP, TIME, WALL } from "./number-lines.js";
import { plainValue } from "./plain-values.js";
import { type Budget, type PlaceOf, Pyramid, TagPyramid } from "./pyramid.js";
import { RECORDS } from "../generated/records.js";
import { counts, valuesOf } from "./record-mapping.js";

export type Members = { [name: string]: Json };
export type Mark = Places & { line: number; offset: number; length: number };
type Places = { step: number | null; time: number | null; epoch: number | null };

const LF = 10;
/** Curves have places of 64 bits: a greater step counts as the last one, and is not drawn. */
const MOST_STEP = 2 ** 63;
const MOST_MARKS = 2000;
const MOST_STRETCHES = 20;
const LAYOUTS: { readonly [profile in ProfileName]?: Layout } = {
  "toy/v1": { kinds: { step: "extra", scalars: "values" }, nested: "extra" },
  "metrics/v1": { kinds: null, nested: "extra", valid: RECORDS["metrics/v1"]!.others.valid! },
};

export interface ScanOptions {
  name: string;
  hasManifest: boolean;
  budget: Budget;
  /** The resumptions of the whole stream, from a first scan. */
  attempts?: Attempts | undefined;
  wanted?: ((metric: string) => boolean) | undefined;
  /** Reads the log of another program. */
  rows?: RowReader | undefined;
  /** For a part of a stream: its profile, and the line and the offset at which it begins. */
  from?: { profile: ProfileName | null; line: number; offset: number; firstTime: number | null } | undefined;
}

export class Scan {
  /** What the times of another program's log are since; null before the first one. */
  origin: "unix" | "run" | null = null;
  /** Undefined until a record shows it. */
  profile: ProfileName | null | undefined;
  readonly attempts: Attempts;
  private readonly order = new StepOrder();
  start: Members | null = null;
  end: Members | null = null;
  firstTime: number | null = null;
  /** The first time of another program's log, which that of its last training may follow: curves count from it. */
  zero: number | null = null;
  lastTime: number | null = null;
  /** The first step in the run's own phase. */
  firstStep: number | null = null;
  private last: number | null = null;
  /** The loss of the last step of toy/v1 that has one, NaN where it was not finite. */
  stepLoss: number | null = null;
  records = 0;
  /** True for gzip data, in which no line is where its offset is. */
  isPacked = false;
  size = 0;
  committed = 0;
  gapBytes = 0;
  readonly gaps: (Mark & { reason: string })[] = [];
  /** Number of processes of the latest attempt; null where the run does not say it. */
  worldSize: number | null = null;
  readonly resumes: (Places & { line: number })[] = [];
  readonly alerts: (Places & { line: number; offset: number; rule: string; level: string; metric: string | null })[] = [];
  readonly goals = new Map<string, string>();
  /** The metric that counts the steps of another one. */
  readonly stepNames = new Map<string, string>();
  readonly latest = new Map<string, Pyramid>();
  /** What later attempts did again, one stretch for each resumption. */
  readonly abandoned: Map<string, Pyramid>[] = [];
  private readonly learns: boolean;
  private numbers: NumberLines | null = null;
  private bySlot: Pyramid[] = [];
  private rest = new Uint8Array(0);
  /** Bytes of a line beyond the limit that were dropped. */
  private dropped = 0;
  private line = 1;
  /** Where the line begins. */
  private offset = 0;
  private lastKind: string | null = null;
  /** Whether the last record is the note of an import that the end of the run is not known. */
  isEndUnknown = false;
  private place: PlaceOf = { step: NaN, time: NaN, epoch: NaN };
  private endsStretch = true;
  hasSteps = false;
  private planned: number | null = null;
  private firstPlace: number | null = null;
  private lastPlace = -Infinity;
  /** From one step to the next: a log may have every tenth step alone. */
  private interval = 0;
  /** True while a record is taken in that a later attempt supersedes. */
  private isOld = false;
  private gapCount = 0;

  constructor(private readonly options: ScanOptions) {
    this.learns = options.attempts === undefined;
    this.attempts = options.attempts ?? new Attempts();
    if (options.from) {
      this.line = options.from.line;
      this.committed = this.size = options.from.offset;
      this.firstTime = this.zero = options.from.firstTime;
    }
    if (options.from || options.rows) this.follow(options.from?.profile ?? null);
  }

  /** The last step in the run's own phase. */
  get lastStep(): number | null {
    return this.last;
  }

  set lastStep(step: number | null) {
    this.firstStep ??= step;
    this.last = step;
  }

  /** True after a first scan that found resumptions: only another one can say what they supersede. */
  get needsSecond(): boolean {
    return this.learns && this.attempts.hasAny;
  }

  get leftOut(): number {
    return this.numbers?.beyond.size ?? 0;
  }

  get state(): "complete" | "torn" | "damaged" {
    return stateOf(this.profile ?? null, { hasGap: this.gapCount > 0, hasFragment: this.fragment > 0, records: this.records, lastKind: this.lastKind });
  }

  get rows(): RowReader | undefined {
    return this.options.rows;
  }

  /** The name of the dialect of another program's log. */
  get dialect(): string | null {
    return this.options.rows?.name ?? null;
  }

  get gapNumber(): number {
    return this.gapCount;
  }

  /** Bytes after the last LF; of a document without its end, those after the last object. */
  get fragment(): number {
    const document = this.options.rows?.document;
    if (document) return document.isClosed ? 0 : Math.max(1, this.size - document.committed);
    return this.rest.length + this.dropped;
  }

  feed(chunk: Uint8Array): void {
    this.size += chunk.length;
    const { rows } = this.options;
    if (rows?.document) {
      for (const { line, offset, length, data } of rows.cut(chunk)) {
        Object.assign(this, { line, offset });
        this.takeRowIn(rows, data, length);
      }
      this.committed = rows.document.committed - this.gapBytes;
      return;
    }
    const bytes = this.rest.length === 0 ? chunk : joined([this.rest, chunk]);
    const end = bytes.lastIndexOf(LF) + 1;
    let at = 0;
    while (at < end) at = this.take(bytes, at);
    this.rest = bytes.slice(end);
    if (this.rest.length > LIMITS.max_line_bytes) {
      this.dropped += this.rest.length;
      this.rest = new Uint8Array(0);
    }
  }

  /** Settles what the whole stream decides. */
  finish(): void {
    if (this.profile === undefined) this.profile = fallbackProfile(this.options, this.gapCount > 0);
  }

  /** Takes in the line at a place; returns where the next one begins. */
  private take(bytes: Uint8Array, at: number): number {
    this.offset = this.committed + this.gapBytes;
    const next = this.numbers === null || this.dropped > 0 ? -1 : this.numbers.read(bytes, at);
    if (next >= 0) {
      this.takeNumbers(this.numbers!);
      this.records++;
      this.committed += next - at;
      this.line++;
      return next;
    }
    const end = bytes.indexOf(LF, at);
    this.takeLine(bytes.subarray(at, end));
    this.line++;
    return end + 1;
  }

  private takeLine(data: Uint8Array): void {
    const { offset } = this;
    const length = this.dropped + data.length;
    const isLong = length > LIMITS.max_line_bytes;
    if (this.options.rows) {
      this.dropped = 0;
      this.committed += this.takeRowIn(this.options.rows, isLong ? null : data, length + 1) ? length + 1 : 0;
      return;
    }
    const line = { number: this.line, offset, length, data: isLong ? null : data, text: isLong ? null : asciiText(data), isTidy: false, head: data.subarray(0, 100) };
    this.dropped = 0;
    const sure = this.profile === undefined ? undefined : parsedForSure(line);
    if (sure) {
      this.committed += length + 1;
      this.takeRecord(sure as Members);
      return;
    }
    const validated = validateLine(line, LIMITS.max_line_bytes);
    if (validated.status === "unreadable") {
      this.takeGap(length + 1, reasonOf(validated));
      return;
    }
    this.committed += length + 1;
    if (!validated.value) return;
    if (this.profile === undefined) this.follow(detectProfile(validated.value, this.options));
    this.takeRecord(plainValue(validated.value) as Members, declaredKind(validated.value, this.profile ?? null));
  }

  private takeGap(length: number, reason: string): void {
    this.gapBytes += length;
    this.gapCount++;
    if (this.gaps.length < MOST_MARKS) this.gaps.push({ ...placesOf(this.place), line: this.line, offset: this.offset, length, reason });
  }

  /** Takes in a line of another program's log; returns whether it can be read. */
  private takeRowIn(rows: RowReader, data: Uint8Array | null, length: number): boolean {
    const row = data === null ? { reason: "line-too-long" } : rows.read(data, this.line === 1);
    if (row && "reason" in row) this.takeGap(length, row.reason);
    else if (row) this.takeRow(row);
    return row === null || !("reason" in row);
  }

  /** Takes in how far a record is on the way to the last step that was planned. */
  private takePlan(planned: number | null, place: number | null): void {
    this.planned = planned ?? this.planned;
    if (place === null) return;
    if (this.firstPlace !== null && place > this.lastPlace) this.interval = place - this.lastPlace;
    this.firstPlace ??= place;
    this.lastPlace = planned === null ? Math.max(this.lastPlace, place) : place;
  }

  /** Whether the last step that was planned was reached; null where none is known, or the next step that the log would have is beyond it. What counts from 0 reaches one less. */
  get hasReached(): boolean | null {
    const planned = this.options.rows?.document?.beside ?? this.planned;
    if (planned === null || this.firstPlace === null) return null;
    const last = planned - Number(this.firstPlace === 0);
    if (this.lastPlace >= last) return true;
    return this.lastPlace + this.interval > last ? null : false;
  }

  private takeRow({ step, time, origin, epoch, phase, values, config, run, end, planned, goal }: Row): void {
    this.records++;
    if (step !== null && values.size > 0 && this.order.take(step, phase, values.keys())) this.startAgain();
    // A part is looked at of the last training alone.
    this.isOld = !this.learns && !this.options.from && this.order.attempt < this.attempts.number;
    this.takePlan(planned, values.size === 0 ? null : (step ?? epoch));
    const figure = step ?? this.lastStep ?? 0;
    this.origin ??= origin;
    if (time !== null && origin === this.origin) {
      this.zero ??= time;
      if (!this.isOld) this.takeTime(time);
    }
    this.start ??= {};
    if (config && Object.keys(config).length > 0) this.start["config"] ??= config;
    if (run !== null) this.start["name"] ??= run;
    if (end !== null) this.end = { reason: end };
    if (goal !== null) this.goals.set(...goal);
    if (step === null && values.size === 0) return;
    // An evaluation may have an earlier step, or count epochs.
    if (step !== null && Number.isSafeInteger(figure) && !this.isOld) this.lastStep = Math.max(this.lastStep ?? figure, figure);
    if (!Number.isFinite(figure)) return;
    const seconds = time === null ? NaN : origin === "unix" ? time - (this.zero ?? time) : time;
    this.place = { step: figure, time: seconds, epoch: epoch ?? NaN };
    for (const [name, value] of values) this.pyramid(name, this.isOld ? this.stretch() : this.latest)?.add(figure, seconds, this.place.epoch, Number.isFinite(value) ? value : NaN, this.offset, this.line);
  }

  /** Takes in that another training begins with this record. */
  private startAgain(): void {
    this.attempts.number = Math.max(this.attempts.number, this.order.attempt);
    if (this.resumes.length < MOST_MARKS) this.resumes.push({ ...placesOf({ step: NaN, time: NaN, epoch: NaN }), line: this.line });
    this.endsStretch = true;
  }

  private follow(profile: ProfileName | null): void {
    this.profile = profile;
    const layout = profile === null ? undefined : LAYOUTS[profile];
    if (layout) this.numbers = new NumberLines(layout, this.attempts.ownPhase, this.options.wanted);
  }

  /** Takes in a line whose numbers were read. */
  private takeNumbers(numbers: NumberLines): void {
    const { values, slots, count, kind } = numbers;
    const isToy = this.profile === "toy/v1";
    const written = isToy ? TIME : WALL;
    const time = numbers.has(written) ? (isToy ? values[TIME]! : values[WALL]! / 1000) : NaN;
    this.lastKind = isToy ? kind : null;
    this.isEndUnknown = false;
    const isOld = isToy && !this.learns && numbers.has(STEP) && this.attempts.supersedes(this.line, kind, values[STEP]!, null);
    if (time === time && !isOld) this.takeTime(time);
    const isPlaced = numbers.has(STEP) && Number.isInteger(values[STEP]!) && values[STEP]! >= 0;
    const step = isPlaced ? values[STEP]! : kind === "scalars" ? (this.lastStep ?? 0) : NaN;
    if (kind === "step") this.hasSteps = true;
    if (!(step >= 0) || (kind === "step" && !(time >= 0))) return;
    if (!isOld && (isPlaced || kind !== "scalars")) this.takeStepNumber(kind, step);
    if (step >= MOST_STEP) return;
    const epoch = numbers.has(EPOCH) ? values[EPOCH]! : NaN;
    this.place = { step, time, epoch };
    for (let index = 0; index < count; index++) {
      const slot = slots[index]!;
      if (slot < PLACES.length) continue;
      const pyramid = isOld ? this.pyramid(numbers.metrics[slot - PLACES.length]!, this.stretch()) : (this.bySlot[slot] ??= this.pyramid(numbers.metrics[slot - PLACES.length]!, this.latest)!);
      pyramid?.add(step, time, epoch, values[slot]!, this.offset, this.line);
      if (kind === "step" && !isOld && numbers.metrics[slot - PLACES.length] === "loss") this.stepLoss = values[slot]!;
    }
  }

  /** Steps of scalars count in a run that has no others. */
  private takeStepNumber(kind: string | null, step: number): void {
    if (kind !== "scalars") this.lastStep = step;
    else if (!this.hasSteps) this.lastStep = Math.max(this.lastStep ?? step, step);
  }

  private takeRecord(value: Members, known?: string | null): void {
    this.records++;
    if (this.profile === null || this.profile === undefined) {
      this.lastKind = null;
      return;
    }
    const { tag } = PROFILES[this.profile];
    const kind = known !== undefined ? known : tag === null ? null : typeof value[tag] === "string" ? value[tag] : null;
    this.lastKind = kind;
    if (this.profile === "toy/v1") this.takeToy(kind, value);
    else if (this.profile === "metrics/v1") this.takeEntry(value);
    else if (this.profile === "kaun/v1") this.takeScalar(kind, value);
  }

  private takeToy(kind: string | null, value: Members): void {
    this.isEndUnknown = kind === "note" && value["topic"] === "end-unknown";
    const time = figure(value["t"]);
    const step = value["step"];
    this.isOld = !this.learns && typeof step === "number" && this.attempts.supersedes(this.line, kind, step, value["phase"]);
    if (!this.isOld && kind !== null && Object.hasOwn(PROFILES["toy/v1"].kinds, kind) && time === time) this.takeTime(time);
    this.worldSize = worldSizeOf(kind, value["world_size"]) ?? this.worldSize;
    if (kind === "run_start") this.begin(value);
    else if (kind === "run_end") this.end = value;
    else if (kind === "run_resume") {
      // A run that goes on after its end has none, until it ends again.
      this.end = null;
      this.takeChangedSettings(value["config"]);
      this.resume(value, time);
    }
    else if (kind === "run_config") this.takeChangedSettings(value["config"]);
    else if (kind === "define" && typeof value["name"] === "string") {
      if (typeof value["goal"] === "string") this.goals.set(value["name"], value["goal"]);
      if (typeof value["step_name"] === "string") this.stepNames.set(value["name"], value["step_name"]);
    }
    else if (kind === "step") this.takeStep(value, time);
    else this.addAll(kind, value, valuesOf(value, "toy/v1", kind), time);
    if (kind === "alert") this.takeAlert(value, time);
  }

  private takeAlert({ step, rule, level, metric }: Members, time: number): void {
    const text = (value: Json | undefined) => (typeof value === "string" ? value.slice(0, 4096) : "");
    const at = typeof step === "number" ? step : this.place.step;
    if (this.alerts.length < MOST_MARKS) this.alerts.push({ ...placesOf({ step: at, time, epoch: NaN }), line: this.line, offset: this.offset, rule: text(rule), level: text(level), metric: typeof metric === "string" ? metric : null });
  }

  private begin(value: Members): void {
    // A resumption before it, in a log whose first lines are lost, has settings alone.
    const before = this.start ?? {};
    if (Object.keys(before).some((key) => key !== "config")) return;
    this.start = value;
    this.takeChangedSettings(before["config"]);
    if (this.learns) this.attempts.begin(value["phase"]);
    this.numbers = new NumberLines(LAYOUTS["toy/v1"]!, this.attempts.ownPhase, this.options.wanted);
    this.bySlot = [];
  }

  /** Takes in the settings that have changed: those of the run are the last ones. */
  private takeChangedSettings(changed: Json | undefined): void {
    const before = this.start?.["config"] ?? {};
    if (isMembers(changed) && isMembers(before) && Object.keys(changed).length > 0) this.start = { ...this.start, config: { ...before, ...changed } };
  }

  private takeStep(value: Members, time: number): void {
    const step = value["step"];
    const phase = this.attempts.phaseIn(value["phase"]);
    this.hasSteps = true;
    if (typeof step !== "number" || !Number.isInteger(step) || step < 0 || !(time >= 0)) return;
    const values = valuesOf(value, "toy/v1", "step");
    if (phase === this.attempts.ownPhase) {
      if (!this.isOld) {
        this.takeStepNumber("step", step);
        this.stepLoss = values.get("loss") ?? this.stepLoss;
      }
      this.addAll("step", value, values, time);
      return;
    }
    // Each phase counts its own steps.
    this.addAll("step", value, new Map([...values].map(([name, number]) => [`${phase}/${name}`, number])), time);
  }

  private resume(value: Members, time: number): void {
    const from = value["from_step"];
    if (this.learns) this.attempts.learn(from, this.line);
    const step = typeof from === "number" && Number.isInteger(from) ? from : NaN;
    if (this.resumes.length < MOST_MARKS) this.resumes.push({ ...placesOf({ step, time, epoch: NaN }), line: this.line });
    this.endsStretch = true;
  }

  private takeEntry(value: Members): void {
    if (!counts(value, "metrics/v1")) return;
    const milliseconds = figure(value["wall_time_ms"]);
    if (milliseconds === milliseconds) this.takeTime(milliseconds / 1000);
    const step = value["step"];
    if (typeof step !== "number" || !Number.isInteger(step) || step < 0) return;
    this.lastStep = step;
    this.addAll(null, value, valuesOf(value, "metrics/v1", null), milliseconds / 1000);
  }

  private takeScalar(kind: string | null, value: Members): void {
    const [tag, time] = [value["tag"], figure(value["wall_time"])];
    const metrics = valuesOf(value, "kaun/v1", kind);
    if (kind !== "scalar" && kind !== null) {
      const other = value["step"];
      if (metrics.size > 0 && typeof other === "number" && Number.isInteger(other) && other >= 0) this.lastStep = Math.max(this.lastStep ?? other, other);
      this.addAll(kind, value, metrics, time - (this.firstTime ?? time));
      return;
    }
    if (time === time) this.takeTime(time);
    if (typeof tag === "string" && typeof value["minimize"] === "boolean") this.goals.set(tag, value["minimize"] ? "min" : "max");
    const step = Math.trunc(figure(value["step"]));
    if (!(step >= 0 && step < Infinity) || metrics.size === 0) return;
    this.lastStep = step;
    this.addAll(null, { ...value, step }, metrics, time - (this.firstTime ?? time));
  }

  private addAll(kind: string | null, value: Members, metrics: ReadonlyMap<string, number>, time: number): void {
    const stated = value["step"];
    const isPlaced = typeof stated === "number" && Number.isInteger(stated) && stated >= 0;
    const step = isPlaced ? stated : (this.lastStep ?? 0);
    if (kind === "scalars" && !this.isOld && isPlaced) this.takeStepNumber(kind, step);
    if (step >= MOST_STEP || metrics.size === 0) return;
    this.place = { step, time, epoch: figure(value["epoch"]) };
    for (const [name, number] of metrics) this.pyramid(name, this.isOld ? this.stretch() : this.latest)?.add(step, time, this.place.epoch, number, this.offset, this.line);
  }

  private stretch(): Map<string, Pyramid> {
    if (this.endsStretch && this.abandoned.length < MOST_STRETCHES) this.abandoned.push(new Map());
    this.endsStretch = false;
    return this.abandoned.at(-1)!;
  }

  private pyramid(name: string, where: Map<string, Pyramid>): Pyramid | undefined {
    const known = where.get(name);
    if (known || (this.options.wanted && !this.options.wanted(name)) || !this.options.budget.hasRoom) return known;
    if ((this.numbers?.slot(name) ?? 0) < 0 || where.size >= 1000) return undefined;
    const made = this.profile === "kaun/v1" ? new TagPyramid(this.options.budget) : new Pyramid(this.options.budget);
    where.set(name, made);
    return made;
  }

  private takeTime(time: number): void {
    this.firstTime ??= time;
    this.lastTime = time;
  }
}

function placesOf(place: PlaceOf): Places {
  const known = (value: number) => (Number.isFinite(value) ? value : null);
  return { step: known(place.step), time: known(place.time), epoch: known(place.epoch) };
}

function figure(value: Json | undefined): number {
  return typeof value === "number" ? value : NaN;
}
