/** Holds a toy/v1 stream to what its records owe to each other. */

import { RefusedError } from "./canonical.js";
import { Float, type Value } from "./values.js";

type Members = { [key: string]: Value };

/** run_start first and once, nothing behind run_end, t and the steps of a phase never back. */
export class Sequence {
  private started = false;
  private phase = "train";
  private readonly bases = new Map<string, bigint>();
  /** The t of the last record. */
  last = 0;
  ended = false;

  /** Returns the record to be written, its t not smaller than the one before; throws RefusedError. */
  admit(record: Members): Members {
    const kind = record["kind"];
    if (this.ended) throw new RefusedError("the run has ended");
    if (!this.started && kind !== "run_start") throw new RefusedError("the first record is a run_start");
    if (this.started && kind === "run_start") throw new RefusedError("the run has started");
    const base = this.bases.get(this.phaseOf(record));
    const step = kind === "step" ? integer(record["step"]) : undefined;
    if (base !== undefined && step !== undefined && step <= base) {
      throw new RefusedError(`step ${step} after step ${base}; write run_resume first`);
    }
    const t = float(record["t"]);
    return t !== undefined && t < this.last ? { ...record, t: new Float(this.last) } : record;
  }

  /** Takes in a record that is in the stream. */
  note(record: Members): void {
    const step = integer(record["step"]);
    const from = integer(record["from_step"]);
    this.last = Math.max(this.last, float(record["t"]) ?? 0);
    if (record["kind"] === "run_start" && !this.started && typeof record["phase"] === "string") this.phase = record["phase"];
    if (record["kind"] === "run_end") this.ended = true;
    if (record["kind"] === "run_resume") {
      this.bases.clear();
      if (from !== undefined) this.bases.set("train", from);
    }
    if (record["kind"] === "step" && step !== undefined) this.bases.set(this.phaseOf(record), step);
    this.started = true;
  }

  private phaseOf(record: Members): string {
    return typeof record["phase"] === "string" ? record["phase"] : this.phase;
  }
}

function integer(value: Value | undefined): bigint | undefined {
  if (typeof value === "bigint") return value;
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : undefined;
}

function float(value: Value | undefined): number | undefined {
  if (typeof value === "number") return value;
  if (typeof value === "bigint") return Number(value);
  return value instanceof Float ? value.value : undefined;
}
