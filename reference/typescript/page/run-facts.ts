/** What a run comes to, taken from its records as they are judged; memory does not grow with the run. */

import { shortened } from "../src/escaping.js";
import type { Node, ObjectNode } from "../src/scanner.js";
import type { ProfileName } from "../src/tables.js";
import { type Curve, MOST_PARTS, Series } from "./curve.js";

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
}

export type Fact = [name: string, value: string];

const MOST_FACTS = 60;
const MOST_NAMES = 40;
/** Where a check is of many runs, the page has to hold the curves of all of them. */
const FEW_CURVES = 8;
const LONGEST_VALUE = 120;
/** A log of names without end does not fill memory. */
const LONGEST_NAME = 200;
const MEASURES: ReadonlySet<string> = new Set(["loss", "grad_norm", "throughput_samples_per_sec"]);
const LOSS_NAMES = ["loss", "train_loss", "train/loss"];

/** Takes in the records of a stream in order. */
export class FactsTaker {
  private start: Fact[] = [];
  private end: Fact[] = [];
  private readonly kinds = new Map<string, number>();
  private readonly series = new Map<string, Series>();
  private steps: { first: number; last: number } | null = null;
  private firstTime: number | null = null;
  private lastTime: number | null = null;
  private profile: ProfileName | null = null;
  private phase = "train";
  private resumes = 0;

  /** Keeps at most *mostParts* parts of each curve. */
  constructor(private readonly mostParts: number = MOST_PARTS) {}

  record(record: ObjectNode, kind: string | null, profile: ProfileName): void {
    this.profile = profile;
    const name = kind === null ? "without kind" : kind.slice(0, LONGEST_NAME);
    if (this.kinds.has(name) || this.kinds.size < MOST_NAMES) this.kinds.set(name, (this.kinds.get(name) ?? 0) + 1);
    if (profile === "toy/v1") this.toy(record, kind);
    else if (profile === "metrics/v1") this.entry(record);
    else this.scalar(record);
  }

  /** Takes in the manifest of a kaun run. */
  manifest(value: ObjectNode): void {
    this.start = flat(value);
  }

  facts(): RunFacts {
    const begin = this.profile === "kaun/v1" ? this.firstTime : 0;
    const seconds = begin === null || this.lastTime === null ? null : this.lastTime - begin;
    const kinds = [...this.kinds].sort((a, b) => b[1] - a[1]).map(([kind, count]): [string, number] => [shortened(kind, 40), count]);
    const { start, end, steps, resumes } = this;
    return { start, end, kinds, steps, seconds, resumes, curves: this.curves() };
  }

  private curves(): Curve[] {
    const curves = [...this.series.values()].map((series) => series.curve());
    const rank = (curve: Curve) => (LOSS_NAMES.includes(curve.name) ? 0 : 1);
    return curves.sort((a, b) => rank(a) - rank(b)).map((curve) => ({ ...curve, name: shortened(curve.name, 40) }));
  }

  private toy(record: ObjectNode, kind: string | null): void {
    this.time(numberAt(record, "t"));
    const phase = stringAt(record, "phase") ?? this.phase;
    if (kind === "step") {
      const loss = record.members.get("loss");
      const name = phase === "train" ? "loss" : `loss (${phase})`;
      this.step(record, loss ? [[name, loss]] : [], phase === "train");
    } else if (kind === "run_start" && this.start.length === 0) {
      this.start = flat(record);
      this.phase = phase;
    } else if (kind === "run_resume") {
      this.resumes++;
      const from = numberAt(record, "from_step");
      if (from !== null) this.series.get("loss")?.restart(from);
    } else if (kind === "run_end") this.end = flat(record);
  }

  private entry(record: ObjectNode): void {
    const milliseconds = numberAt(record, "wall_time_ms");
    this.time(milliseconds === null ? null : milliseconds / 1000);
    const extra = record.members.get("extra");
    const measures = [...record.members].filter(([name]) => MEASURES.has(name));
    this.step(record, [...measures, ...(extra?.type === "object" ? extra.members : [])], true);
  }

  private scalar(record: ObjectNode): void {
    this.time(numberAt(record, "wall_time"));
    const tag = stringAt(record, "tag");
    const value = record.members.get("value");
    if (tag !== null && value) this.step(record, [[tag, value]], true);
  }

  private step(record: ObjectNode, measures: Iterable<[string, Node]>, counts: boolean): void {
    const step = numberAt(record, "step");
    if (step === null || !Number.isSafeInteger(step)) return;
    if (counts) this.steps = { first: this.steps?.first ?? step, last: step };
    for (const [whole, node] of measures) {
      const name = whole.slice(0, LONGEST_NAME);
      if (node.type !== "number" && node.type !== "null") continue;
      let series = this.series.get(name);
      if (!series) {
        if (this.series.size === (this.mostParts < MOST_PARTS ? FEW_CURVES : MOST_NAMES)) continue;
        this.series.set(name, (series = new Series(name, this.mostParts)));
      }
      series.add(step, node.type === "null" ? null : Number(node.text));
    }
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

function stringAt(record: ObjectNode, name: string): string | null {
  const node = record.members.get(name);
  return node?.type === "string" ? node.value : null;
}

/** Returns every member that is no object by its name, those of inner objects behind the name and a dot. */
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
