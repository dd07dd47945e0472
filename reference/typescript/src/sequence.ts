/** Holds a toy/v1 stream to what its records owe to each other. */

import { RefusedError } from "./canonical.js";
import { kindTable } from "./profiles.js";
import { Float, type Value } from "./values.js";

const PHASES = kindTable("toy/v1", "step")?.fields.find(({ name }) => name === "phase")?.enum ?? [];

export type Members = { [key: string]: Value };

/** run_start first and once, nothing after run_end, t and the steps of a phase never back, run_resume first where a run is resumed. */
export class Sequence {
  private started = false;
  private mustResume = false;
  private phase = "train";
  private readonly bases = new Map<string, bigint>();
  /** The t of the last record. */
  last = 0;
  ended = false;
  /** The last step of phase train. */
  lastStep: { step: bigint; loss: Value | undefined } | null = null;

  /** True where a run_end may come next. */
  get canEnd(): boolean {
    return this.started && !this.ended && !this.mustResume;
  }

  /** Expects a run_resume next, unless there is no record to go on from; a run may go on after its end. */
  resume(): void {
    this.mustResume = this.started;
    this.ended = false;
  }

  /** Returns the record to be written, its t not smaller than the one before; throws RefusedError. */
  admit(record: Members): Members {
    const kind = record["kind"];
    if (this.ended && kind !== "run_resume") throw new RefusedError("the run has ended; it goes on with run_resume");
    if (!this.started && kind !== "run_start") throw new RefusedError(`${shownKind(kind)} before run_start: write run_start first`);
    if (this.started && kind === "run_start") throw new RefusedError("a second run_start: a stream holds one run; resume it with run_resume");
    if (this.mustResume && kind !== "run_resume") throw new RefusedError(`${shownKind(kind)} in a resumed stream: write run_resume first`);
    const base = this.bases.get(this.phaseOf(record));
    const step = kind === "step" ? integer(record["step"]) : undefined;
    if (base !== undefined && step !== undefined && step <= base) {
      throw new RefusedError(`step ${step} after step ${base}: to repeat steps, write run_resume first`);
    }
    const t = timeOf(record);
    return t !== undefined && t < this.last ? { ...record, t: new Float(this.last) } : record;
  }

  /** Takes in a record that is in the stream. */
  note(record: Members): void {
    const kind = record["kind"];
    this.last = Math.max(this.last, timeOf(record) ?? 0);
    if (kind === "run_start" && !this.started) this.phase = this.phaseOf(record);
    if (kind === "run_end") this.ended = true;
    if (kind === "run_resume") this.noteResume(integer(record["from_step"]));
    if (kind === "step") this.noteStep(record, integer(record["step"]));
    this.started = true;
  }

  private noteResume(from: bigint | undefined): void {
    this.mustResume = this.ended = false;
    this.bases.clear();
    if (from !== undefined) this.bases.set("train", from);
  }

  private noteStep(record: Members, step: bigint | undefined): void {
    if (step === undefined || step < 0n) return;
    const phase = this.phaseOf(record);
    this.bases.set(phase, step);
    const { loss } = record;
    const isLoss = loss === null || typeof loss === "number" || typeof loss === "bigint" || loss instanceof Float;
    if (phase === "train") this.lastStep = { step, loss: isLoss ? loss : undefined };
  }

  private phaseOf(record: Members): string {
    const phase = record["phase"];
    return typeof phase === "string" && PHASES.includes(phase) ? phase : this.phase;
  }
}

function shownKind(kind: Value | undefined): string {
  return typeof kind === "string" ? kind : "a record";
}

function integer(value: Value | undefined): bigint | undefined {
  if (typeof value === "bigint") return value;
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : undefined;
}

/** Returns the t of a record of a known kind: that of any other takes part in nothing. */
function timeOf(record: Members): number | undefined {
  const kind = record["kind"];
  return typeof kind === "string" && kindTable("toy/v1", kind) ? float(record["t"]) : undefined;
}

function float(value: Value | undefined): number | undefined {
  if (typeof value === "number") return value;
  if (typeof value === "bigint") return Number(value);
  return value instanceof Float ? value.value : undefined;
}
