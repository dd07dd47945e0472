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

/** Learns the resumptions of a stream; then it decides for each record whether one of them supersedes it. */
export class Attempts {
  /** An earlier resumption is listed only if it goes back less far than all later ones: both columns increase. */
  private readonly lines: number[] = [];
  private readonly fromSteps: number[] = [];
  private phase: string | null = null;

  get hasAny(): boolean {
    return this.lines.length > 0;
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
