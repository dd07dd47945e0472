/** The views of a run: what a list of runs shows of each. See spec/views.md. */

import { severityOf } from "./collecting.js";
import { integerOf, numberOf } from "./numbers.js";
import { declaredKind, kindTable, takesFloatsAsIntegers } from "./profiles.js";
import { type ReadOptions, Reading, type Report, type State } from "./reader.js";
import { validateRecord } from "./record-validation.js";
import type { Node, ObjectNode } from "./scanner.js";
import { type ProfileName, PROFILES } from "./tables.js";

/** The views of a toy/v1 run; a member that has no value is absent, null means "not finite". */
export interface ToySummary {
  run_id?: string;
  phase: string;
  steps: number;
  last_step?: bigint;
  loss_curve: (number | null)[];
  final_loss?: number | null;
  duration_seconds?: number;
  reason?: string;
  /** Of a bundle in which other ranks have streams: all ranks, in order. */
  ranks?: RankSummary[];
  /** The rank that came less far than all others. */
  first_stopped?: number;
}

/** The views of the stream of one process of a run. */
export interface RankSummary {
  rank: number;
  state: State;
  steps: number;
  last_step?: bigint;
  reason?: string;
}

/** The views of a metrics/v1 log; losses are binary32. */
export interface MetricsSummary {
  steps: number;
  last_step?: bigint;
  loss_curve: (number | null)[];
  final_loss?: number | null;
  duration_seconds?: number;
  loss_min?: number;
  loss_mean?: number;
  loss_max?: number;
  non_finite: number;
}

/** Where a scalar of kaun/v1 is. */
export interface PlaceOfScalar<Count> {
  step: Count;
  epoch?: Count;
}

/** A value of a metric. */
export interface Point extends PlaceOfScalar<bigint> {
  value: number | null;
}

export interface TagSummary {
  count: number;
  latest: Point;
  best?: Point;
}

/** The views of a kaun/v1 run. */
export interface KaunSummary {
  run_id?: string;
  tags: Map<string, TagSummary>;
}

/** The account of the reading, and the views; a stream without profile has none. */
export type Summary =
  | { profile: "toy/v1"; report: Report; views: ToySummary }
  | { profile: "metrics/v1"; report: Report; views: MetricsSummary }
  | { profile: "kaun/v1"; report: Report; views: KaunSummary }
  | { profile: null; report: Report; views: Record<string, never> };

export interface SummarizeOptions extends Omit<ReadOptions, "mode"> {
  /** The manifest beside a kaun/v1 stream. */
  manifest?: ObjectNode | undefined;
  /** Name of the directory of a kaun/v1 run. */
  directory?: string | undefined;
}

/** Returns the views of a stream, computed from every readable record. */
export function summarize(chunks: Iterable<Uint8Array>, options: SummarizeOptions = {}): Summary {
  const reading = new Reading({ hasManifest: options.manifest !== undefined, ...options, mode: "salvage" });
  const toy = new ToyViews();
  const metrics = new MetricsViews();
  const kaun = new KaunViews();
  for (const chunk of chunks) {
    for (const { node } of reading.feed(chunk)) {
      const { profile } = reading;
      if (profile === "toy/v1") toy.take(validMembers(node, profile));
      else if (profile === "metrics/v1") metrics.take(validMembers(node, profile));
      else if (profile === "kaun/v1") kaun.take(node);
    }
  }
  const report = reading.finish();
  switch (report.profile) {
    case "toy/v1":
      return { profile: report.profile, report, views: toy.views() };
    case "metrics/v1":
      return { profile: report.profile, report, views: metrics.views() };
    case "kaun/v1":
      return { profile: report.profile, report, views: kaun.views(options) };
    default:
      return { profile: null, report, views: {} };
  }
}

/** Returns the views of one rank, given those of its stream, which is read as toy/v1. */
export function rankSummary(rank: number, { report, views }: Summary): RankSummary {
  const { steps, last_step: last, reason } = views as ToySummary;
  return { rank, state: report.state, steps, ...(last === undefined ? {} : { last_step: last }), ...(reason === undefined ? {} : { reason }) };
}

/** Returns the rank that came least far; of several, the only one whose stream is not complete. */
export function firstStopped(ranks: readonly RankSummary[]): number | undefined {
  const cameTo = ({ last_step: last = -1n }: RankSummary): bigint => last;
  const lowest = ranks.map(cameTo).reduce((one, other) => (other < one ? other : one));
  const lowestRanks = ranks.filter((rank) => cameTo(rank) === lowest);
  const left = lowestRanks.length > 1 ? lowestRanks.filter(({ state }) => state !== "complete") : lowestRanks;
  return left.length === 1 ? left[0]!.rank : undefined;
}

/** A record of a known kind without its invalid members. */
interface Valid {
  kind: string;
  members: Map<string, Node>;
  /** True where a required member is missing or invalid. */
  isInvalid: boolean;
}

function validMembers(node: ObjectNode, profile: ProfileName): Valid | null {
  const kind = profile === "metrics/v1" ? "entry" : declaredKind(node, profile);
  const table = kindTable(profile, kind);
  if (!table || kind === null) return null;
  const problems = validateRecord(node, { kind, fields: table.fields, takesFloats: takesFloatsAsIntegers(profile), reportsFloat: false });
  const bad = new Set(problems.filter(({ rule }) => severityOf(rule, profile) === "error").map(({ pointer }) => pointer.split("/")[1]!));
  const isInvalid = table.fields.some((field) => field.required && bad.has(field.name));
  return { kind, members: bad.size === 0 ? node.members : new Map([...node.members].filter(([key]) => !bad.has(key))), isInvalid };
}

function numberAt(members: Map<string, Node>, key: string): number | undefined {
  const node = members.get(key);
  return node?.type === "number" ? numberOf(node.text) : undefined;
}

/** Returns a number, or null where that is written. */
function valueAt(members: Map<string, Node>, key: string): number | null | undefined {
  return members.get(key)?.type === "null" ? null : numberAt(members, key);
}

function integerAt(members: Map<string, Node>, key: string): bigint | undefined {
  const node = members.get(key);
  return node?.type === "number" ? integerOf(node) : undefined;
}

function textAt(members: Map<string, Node>, key: string): string | undefined {
  const node = members.get(key);
  return node?.type === "string" ? node.value : undefined;
}

/** Returns an object without its members that are undefined. */
function present<Members extends object>(members: Members): { [Key in keyof Members]: Exclude<Members[Key], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
}

interface ToyEvent {
  kind: string;
  /** Its own phase; undefined where it has that of the run, which a later record may determine. */
  phase: string | undefined;
  /** Of a run_resume its from_step; undefined for an event that belongs to no step. */
  step: bigint | undefined;
  loss: number | null | undefined;
  t: number | undefined;
  /** True for a step event that lacks nothing required. */
  isStep: boolean;
}

const STEPLESS = new Set(["run_start", "run_config", "run_end"]);

class ToyViews {
  private started = false;
  private phase = "train";
  private readonly events: ToyEvent[] = [];
  private runId: string | undefined;
  private reason: string | undefined;
  private finalLoss: number | null | undefined;

  take(record: Valid | null): void {
    if (record === null) return;
    const { kind, members } = record;
    if (kind === "run_start" && !this.started) {
      this.started = true;
      this.runId = textAt(members, "run_id");
      this.phase = textAt(members, "phase") ?? "train";
    } else if (kind === "run_resume") {
      // The run goes on after its end.
      this.reason = this.finalLoss = undefined;
    } else if (kind === "run_end") {
      this.reason = textAt(members, "reason");
      this.finalLoss = valueAt(members, "final_loss");
    }
    const step = STEPLESS.has(kind) ? undefined : integerAt(members, kind === "run_resume" ? "from_step" : "step");
    this.events.push({
      kind, step, phase: textAt(members, "phase"), loss: valueAt(members, "loss"), t: numberAt(members, "t"), isStep: kind === "step" && !record.isInvalid,
    });
  }

  views(): ToySummary {
    const latest = this.latest();
    const own = latest.filter((event) => event.isStep && (event.phase ?? this.phase) === this.phase);
    const curve = own.flatMap(({ loss }) => (loss === undefined ? [] : [loss]));
    return present({
      run_id: this.runId, phase: this.phase, steps: own.length, last_step: own.at(-1)?.step, loss_curve: curve,
      final_loss: this.finalLoss === undefined ? curve.at(-1) : this.finalLoss,
      duration_seconds: latest.filter(({ t }) => t !== undefined).at(-1)?.t, reason: this.reason,
    }) as ToySummary;
  }

  /** Returns the events but those of training steps that a later resumption does again. */
  private latest(): ToyEvent[] {
    let limit: bigint | undefined;
    return [...this.events].reverse().filter((event) => {
      const { kind, step } = event;
      if (step === undefined) return true;
      if (kind !== "run_resume") return limit === undefined || step <= limit || !this.trains(event);
      if (limit === undefined || step < limit) limit = step;
      return true;
    }).reverse();
  }

  /** Returns whether an event with a step is of the training; what is decoded, or evaluated by steps, counts by itself. */
  private trains({ kind, phase = this.phase }: ToyEvent): boolean {
    return phase === "train" || (phase === "eval" && kind !== "step");
  }
}

class MetricsViews {
  private readonly losses: (number | null)[] = [];
  private lastStep: bigint | undefined;
  private milliseconds: number | undefined;

  take(record: Valid | null): void {
    if (record === null || record.isInvalid) return;
    const loss = valueAt(record.members, "loss");
    this.losses.push(loss === null || loss === undefined ? null : Math.fround(loss));
    this.lastStep = integerAt(record.members, "step");
    this.milliseconds = numberAt(record.members, "wall_time_ms") ?? this.milliseconds;
  }

  views(): MetricsSummary {
    const { losses } = this;
    const finite = losses.filter((loss) => loss !== null);
    const sum = finite.reduce((total, loss) => total + loss, 0);
    const some = finite.length > 0;
    return present({
      steps: losses.length, last_step: this.lastStep, loss_curve: losses, final_loss: losses.at(-1),
      duration_seconds: this.milliseconds === undefined ? undefined : this.milliseconds / 1000,
      loss_min: some ? finite.reduce((low, loss) => (loss < low ? loss : low)) : undefined, loss_mean: some ? Math.fround(sum / finite.length) : undefined,
      loss_max: some ? finite.reduce((high, loss) => (loss > high ? loss : high)) : undefined, non_finite: losses.length - finite.length,
    }) as MetricsSummary;
  }
}

/** What is known of a tag so far. */
interface Tag {
  count: number;
  latest: Point;
  least: Point | undefined;
  greatest: Point | undefined;
  minimize: boolean | undefined;
}

class KaunViews {
  private readonly tags = new Map<string, Tag>();

  /** Is lenient, as readers of the source system are: a fraction is cut off a step, an invalid epoch is absent. */
  take({ members }: ObjectNode): void {
    if (textAt(members, "type") !== "scalar") return;
    const name = textAt(members, "tag");
    const step = wholePart(members.get("step"));
    const value = valueAt(members, "value");
    if (name === undefined || step === undefined || value === undefined) return;
    const epoch = wholePart(members.get("epoch"));
    const point: Point = epoch === undefined ? { step, value } : { step, epoch, value };
    const tag = this.tags.get(name) ?? { count: 0, latest: point, least: undefined, greatest: undefined, minimize: undefined };
    this.tags.set(name, tag);
    tag.count++;
    if (isLater(point, tag.latest)) tag.latest = point;
    if (value !== null && (tag.least === undefined || value < tag.least.value!)) tag.least = point;
    if (value !== null && (tag.greatest === undefined || value > tag.greatest.value!)) tag.greatest = point;
    const minimize = members.get("minimize");
    if (minimize?.type === "boolean") tag.minimize = minimize.value;
  }

  views({ manifest, directory }: SummarizeOptions): KaunSummary {
    const tags = [...this.tags].map(([name, tag]): [string, TagSummary] => {
      const isSmallerBetter = tag.minimize ?? /loss|error/.test(name.toLowerCase());
      const best = isSmallerBetter ? tag.least : tag.greatest;
      return [name, { count: tag.count, latest: tag.latest, ...(best ? { best } : {}) }];
    });
    return present({ run_id: manifestRunId(manifest) ?? directory, tags: new Map(tags) }) as KaunSummary;
  }
}

function manifestRunId(manifest: ObjectNode | undefined): string | undefined {
  if (manifest === undefined) return undefined;
  const { fields } = PROFILES["kaun/v1"].kinds["run"]!;
  const problems = validateRecord(manifest, { kind: "run", fields, takesFloats: true, reportsFloat: false });
  return problems.some(({ pointer }) => pointer === "/run_id") ? undefined : textAt(manifest.members, "run_id");
}

/** Returns the integer next to a number towards zero; undefined for one that is negative or not a number. */
function wholePart(node: Node | undefined): bigint | undefined {
  if (node?.type !== "number") return undefined;
  const whole = node.isInteger ? BigInt(node.text) : BigInt(Math.trunc(Number(node.text)));
  return whole < 0n ? undefined : whole;
}

/** Returns whether a scalar of kaun/v1 is later than another one of its tag: of two that are equal, the first stays. */
export function isLater<Count extends number | bigint>(a: PlaceOfScalar<Count>, b: PlaceOfScalar<Count>): boolean {
  return a.step !== b.step ? a.step > b.step : (a.epoch ?? -1) > (b.epoch ?? -1);
}
