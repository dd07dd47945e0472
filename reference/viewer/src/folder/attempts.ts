/** Finds the records that a later attempt at the same steps supersedes: see spec/toy/v1/run_resume.md. */

import { PROFILES } from "../../../typescript/src/tables.js";
import type { Json } from "../protocol.js";

const TRAINING: readonly string[] = ["train", "eval"];
const PHASES: readonly string[] = [...TRAINING, "decode", "serve"];
/** Kinds that frame the run do not belong to a step, even if they name one. */
const FRAMES: readonly string[] = ["run_start", "run_resume", "run_config", "run_end"];
const OF_A_STEP: ReadonlySet<string> = new Set(
  Object.entries(PROFILES["toy/v1"].kinds).flatMap(([kind, { fields }]) => (!FRAMES.includes(kind) && fields.some(({ name }) => name === "step") ? [kind] : [])),
);

/** Returns the number of processes that a run has from a record on; null where the record does not say it. */
export function worldSizeOf(kind: string | null, size: Json | undefined): number | null {
  return (kind === "run_start" || kind === "run_resume") && typeof size === "number" && Number.isInteger(size) && size > 0 ? size : null;
}

const MOST_PHASES = 100;
const MOST_REACHED = 10_000;

/** Counts the trainings in the log of another program: another one begins where the steps of its first phase start again. */
export class StepOrder {
  /** Number of the training. */
  attempt = 1;
  private readonly phases = new Map<string | null, { last: number; base: number; grown: number; reached: Map<string, number> }>();

  /** Takes in the step of a record that has metrics with these names; returns whether another training begins with it. */
  take(step: number, phase: string | null, names: Iterable<string>): boolean {
    const all = [...names];
    const [first = phase] = this.phases.keys();
    let own = this.phases.get(phase);
    if (own === undefined && this.phases.size >= MOST_PHASES) return false;
    const isBack = own !== undefined && step < own.last && all.every((name) => (own!.reached.get(name) ?? -Infinity) >= step);
    const isStart = isBack && step <= own!.base && own!.grown > 1 && phase === first;
    if (isStart) {
      this.attempt++;
      this.phases.clear();
      own = undefined;
    }
    if (own === undefined) this.phases.set(phase, (own = { last: step, base: step, grown: 1, reached: new Map() }));
    else if (step > own.last) own.grown++;
    own.last = step;
    if (own.reached.size < MOST_REACHED) for (const name of all) own.reached.set(name, step);
    return isStart;
  }
}

/** Learns the resumptions of a stream; then it decides for each record whether one of them supersedes it. */
export class Attempts {
  /** Number of the last training in the log of another program, which may have several. */
  number = 1;
  /** An earlier resumption is listed only if it goes back less far than all later ones: both columns increase. */
  private readonly lines: number[] = [];
  private readonly fromSteps: number[] = [];
  private phase: string | null = null;

  get hasAny(): boolean {
    return this.lines.length > 0 || this.number > 1;
  }

  /** The phase of the run itself. */
  get ownPhase(): string {
    return this.phase ?? "train";
  }

  phaseIn(value: Json | undefined): string {
    return typeof value === "string" && PHASES.includes(value) ? value : this.ownPhase;
  }

  begin(phase: Json | undefined): void {
    this.phase ??= this.phaseIn(phase);
  }

  learn(fromStep: Json | undefined, line: number): void {
    if (typeof fromStep !== "number" || !Number.isInteger(fromStep) || fromStep < 0) return;
    while (this.fromSteps.length > 0 && this.fromSteps.at(-1)! >= fromStep) {
      this.fromSteps.pop();
      this.lines.pop();
    }
    this.fromSteps.push(fromStep);
    this.lines.push(line);
  }

  /** Returns whether a resumption after a line supersedes its record. */
  supersedes(line: number, kind: string | null, step: number, phase: Json | undefined): boolean {
    if (this.lines.length === 0 || kind === null || !(OF_A_STEP.has(kind) || !Object.hasOwn(PROFILES["toy/v1"].kinds, kind))) return false;
    const following = this.lines.findIndex((each) => each > line);
    if (following < 0 || step <= this.fromSteps[following]!) return false;
    const own = this.phaseIn(phase);
    return own === "train" || (TRAINING.includes(own) && kind !== "step");
  }
}
