/** What a run comes to, taken from its records as they are checked; memory does not grow with the run. */

import { shortened } from "../src/escaping.js";
import type { Node, ObjectNode } from "../src/scanner.js";
import type { ProfileName } from "../src/tables.js";
import { type Curve, MOST_PARTS, Series } from "./curve.js";
import { LOSS_NAMES } from "./loss-names.js";

/** The facts about one run that fit on a screen. All text in it is inert. */
export interface RunFacts {
  /** Members of the first run_start, or of the manifest: flat names and values. */
  start: Fact[];
  /** Members of the last run_end. */
  end: Fact[];
  /** Number of records by kind, the most frequent first. */
  kinds: [kind: string, count: number][];
  steps: { first: number; last: number } | null;
  /** Seconds from the start to the last record. */
  seconds: number | null;
  /** Number of times that the run was resumed. */
  resumes: number;
  curves: Curve[];
  /** Places on the axis of the curves at which lines are missing or the run was resumed. */
  marks: Mark[];
  /** What the axis of the curves counts. */
  axis: string;
}

export type Fact = [name: string, value: string];

export interface Mark {
  kind: "gap" | "resume";
  /** The step after which it is. */
  step: number;
}

const MOST_FACTS = 60;
const MOST_NAMES = 40;
const MOST_CURVES = 100;
const MOST_MARKS = 500;
/** Where a check is of many runs, the page has to hold the curves of all of them. */
const FEW_CURVES = 8;
/** Curves other than that of the loss have this share of its parts. */
const SHARE_OF_OTHERS = 4;
const LONGEST_VALUE = 120;
/** A log of names without end does not fill memory. */
const LONGEST_NAME = 200;
const DEEPEST = 3;
/** What logs of other programs call a step, the best first. */
const STEP_KEYS = ["step", "global_step", "_step", "current_steps", "iteration", "iter", "update", "batch", "epoch"];
/** Members that place a record or name its subject, and are not measures. */
const NO_MEASURES: ReadonlySet<string> = new Set(["kind", "type", "t", "step", "phase", "epoch", "wall_time", "wall_time_ms", "_timestamp", "_runtime"]);
/** Members that distinguish records of one kind. */
const SUBJECTS = ["name", "region", "param", "tag"];

/** Takes in the records of a stream in order. */
export class FactsTaker {
  private start: Fact[] = [];
  private end: Fact[] = [];
  private readonly kinds = new Map<string, number>();
  private readonly series = new Map<string, Series>();
  private readonly marks: Mark[] = [];
  private steps: { first: number; last: number } | null = null;
  private at = 0;
  private firstTime: number | null = null;
  private lastTime: number | null = null;
  private profile: ProfileName | null = null;
  private phase = "train";
  private resumes = 0;
  private records = 0;
  private stepKey: string | null | undefined;

  /** Keeps at most *mostParts* parts of each curve. */
  constructor(private readonly mostParts: number = MOST_PARTS) {}

  record(record: ObjectNode, kind: string | null, profile: ProfileName | null): void {
    this.profile = profile;
    this.records++;
    const name = kind === null ? "without kind" : kind.slice(0, LONGEST_NAME);
    if (this.kinds.has(name) || this.kinds.size < MOST_NAMES) this.kinds.set(name, (this.kinds.get(name) ?? 0) + 1);
    if (profile === "toy/v1") this.toy(record, kind);
    else if (profile === "metrics/v1") this.entry(record);
    else if (profile === "kaun/v1") this.scalar(record);
    else this.other(record);
  }

  /** Takes note of a line that cannot be read. */
  gap(): void {
    this.mark("gap", this.at);
  }

  /** Takes in the manifest of a kaun run. */
  manifest(value: ObjectNode): void {
    this.start = flat(value);
  }

  facts(): RunFacts {
    const begin = this.profile === "kaun/v1" ? this.firstTime : 0;
    const seconds = begin === null || this.lastTime === null ? null : this.lastTime - begin;
    const kinds = this.profile === null ? [] : [...this.kinds].sort((a, b) => b[1] - a[1]);
    const { start, end, steps, resumes, marks } = this;
    const axis = this.profile === null ? (this.stepKey ?? "record") : "step";
    return {
      start, end, steps, seconds, resumes, marks, axis: shortened(axis, 40), curves: this.curves(),
      kinds: kinds.map(([kind, count]): [string, number] => [shortened(kind, 40), count]),
    };
  }

  private curves(): Curve[] {
    const curves = [...this.series.values()].map((series) => series.curve());
    const rank = (curve: Curve) => (LOSS_NAMES.includes(curve.name) ? 0 : 1);
    return curves.sort((a, b) => rank(a) - rank(b)).map((curve) => ({ ...curve, name: shortened(curve.name, 60) }));
  }

  private toy(record: ObjectNode, kind: string | null): void {
    this.time(numberAt(record, "t"));
    const phase = stringAt(record, "phase") ?? this.phase;
    if (kind === "run_start" && this.start.length === 0) {
      this.start = flat(record);
      this.phase = phase;
    } else if (kind === "run_resume") this.resume(numberAt(record, "from_step"));
    else if (kind === "run_end") this.end = flat(record);
    else if (kind === "step") this.place(record, (name) => (phase === "train" ? name : `${name} (${phase})`), phase === "train");
    else if (kind !== null) {
      const subject = SUBJECTS.map((name) => stringAt(record, name)).find((text) => text !== null);
      this.place(record, (name) => [kind, ...(subject === undefined ? [] : [subject]), name].join(" "), false);
    }
  }

  private resume(from: number | null): void {
    this.resumes++;
    if (from === null) return;
    for (const series of this.series.values()) series.restart(from);
    this.mark("resume", from);
    this.at = from;
  }

  private entry(record: ObjectNode): void {
    const milliseconds = numberAt(record, "wall_time_ms");
    this.time(milliseconds === null ? null : milliseconds / 1000);
    this.place(record, (name) => name.replace(/^extra\./, ""), true);
  }

  private scalar(record: ObjectNode): void {
    this.time(numberAt(record, "wall_time"));
    const tag = stringAt(record, "tag");
    const step = stepIn(record, "step");
    const value = record.members.get("value");
    if (tag === null || step === null || !value) return;
    this.reach(step);
    this.measure(tag, value, step);
  }

  /** Takes the numbers of a record of a format of its own. */
  private other(record: ObjectNode): void {
    if (this.stepKey === undefined) this.stepKey = STEP_KEYS.find((key) => stepIn(record, key) !== null) ?? null;
    const step = this.stepKey === null ? this.records : stepIn(record, this.stepKey);
    if (step === null) return;
    this.at = step;
    this.measures(record, (name) => name, step);
  }

  /** Takes the numbers of a record at its step, else at the last one. */
  private place(record: ObjectNode, named: (name: string) => string, counts: boolean): void {
    const step = stepIn(record, "step");
    if (counts && step !== null) this.reach(step);
    this.measures(record, named, step ?? this.at);
  }

  private reach(step: number): void {
    this.at = step;
    this.steps = { first: this.steps?.first ?? step, last: step };
  }

  private measures(value: ObjectNode, named: (name: string) => string, step: number, prefix = "", depth = 1): void {
    for (const [key, node] of value.members) {
      if (depth === 1 && (NO_MEASURES.has(key) || key === this.stepKey)) continue;
      if (node.type === "object" && depth < DEEPEST) this.measures(node, named, step, `${prefix}${key}.`, depth + 1);
      else if (node.type === "number" || (node.type === "null" && this.series.has(named(prefix + key)))) this.measure(named(prefix + key), node, step);
      else if (node.type === "null" && LOSS_NAMES.includes(key)) this.measure(named(prefix + key), node, step);
    }
  }

  private measure(whole: string, node: Node, step: number): void {
    if (node.type !== "number" && node.type !== "null") return;
    const name = whole.slice(0, LONGEST_NAME);
    let series = this.series.get(name);
    if (!series) {
      if (this.series.size === (this.mostParts < MOST_PARTS ? FEW_CURVES : MOST_CURVES)) return;
      const parts = LOSS_NAMES.includes(name) ? this.mostParts : Math.ceil(this.mostParts / SHARE_OF_OTHERS);
      this.series.set(name, (series = new Series(name, parts)));
    }
    series.add(step, node.type === "null" ? null : Number(node.text));
  }

  private mark(kind: Mark["kind"], step: number): void {
    const last = this.marks.at(-1);
    if (this.marks.length < MOST_MARKS && (last?.kind !== kind || last.step !== step)) this.marks.push({ kind, step });
  }

  private time(seconds: number | null): void {
    if (seconds === null) return;
    this.firstTime ??= seconds;
    this.lastTime = seconds;
  }
}

function numberAt(record: ObjectNode, name: string): number | null {
  const node = record.members.get(name);
  return node?.type === "number" ? Number(node.text) : null;
}

function stepIn(record: ObjectNode, name: string): number | null {
  const value = numberAt(record, name);
  return value !== null && (Number.isSafeInteger(value) || name === "epoch") ? value : null;
}

function stringAt(record: ObjectNode, name: string): string | null {
  const node = record.members.get(name);
  return node?.type === "string" ? node.value : null;
}

/** Returns every member that is not an object by its name, those of inner objects after the name and a dot. */
function flat(value: ObjectNode, prefix = ""): Fact[] {
  const found: Fact[] = [];
  for (const [key, node] of value.members) {
    if (found.length >= MOST_FACTS) break;
    if (node.type === "object" && node.members.size > 0) found.push(...flat(node, `${prefix}${key}.`));
    else found.push([shortened(prefix + key, 60), textOf(node)]);
  }
  return found.slice(0, MOST_FACTS);
}

function textOf(node: Node): string {
  switch (node.type) {
    case "string":
      return shortened(node.value, LONGEST_VALUE);
    case "number":
      return shortened(node.text, LONGEST_VALUE);
    case "array":
      return node.items.every((item) => item.type !== "object" && item.type !== "array")
        ? shortened(node.items.slice(0, 12).map(textOf).join(", ") + (node.items.length > 12 ? ", …" : ""), LONGEST_VALUE)
        : `[${node.items.length} items]`;
    case "object":
      return "{}";
    default:
      return node.type === "null" ? "null" : String(node.value);
  }
}
