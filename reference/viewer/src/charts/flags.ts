/** Notes and findings of runs, as flags on their curves. */

import type { AxisPlace, Detail, Run } from "../protocol.js";
import type { Store } from "../store.js";
import type { XAxis } from "../view-state.js";
import type { Flag } from "./plot.js";
import { nameOf } from "../names.js";

/** A flag before its place on the axis of a chart is known. */
export interface PlacedFlag extends Omit<Flag, "place">, AxisPlace {
  /** When the run started, in seconds since 1970; NaN where that is not known. */
  started: number;
  /** The one metric that it is about. */
  metric?: string | undefined;
}

/** Each run is read whole for its flags, so only so many selected ones have them. */
const MOST_FLAGGED = 5;

/** Returns the notes and the findings of a run. */
export function flagsOf(detail: Detail): PlacedFlag[] {
  const started = Date.parse(detail.row.started_at ?? "") / 1000;
  const notes = detail.notes.map(({ text, ...place }): PlacedFlag => ({ ...place, kind: "note", text, started }));
  const findings = detail.findings.flatMap(({ severity, rule, message, ...place }): PlacedFlag[] => (severity === "info" ? [] : [{ ...place, kind: severity, text: `${rule}: ${message}`, started }]));
  const alerts = (detail.alerts ?? []).map(({ level, rule, text, step, t, metric }): PlacedFlag => ({
    step, t, epoch: null, tokens: null, kind: level === "error" ? "error" : level === "info" ? "note" : "warning", text: `${rule}: ${text}`, started, metric,
  }));
  return [...notes, ...findings, ...alerts];
}

/** Returns where a flag is on an axis; null if it has no place there. */
export function placeOf(flag: PlacedFlag, axis: XAxis): number | null {
  if (axis === "wall") return flag.t === null || Number.isNaN(flag.started) ? null : flag.started + flag.t;
  return axis === "defined" ? null : (flag[axis === "time" ? "t" : axis] ?? null);
}

/** The flags of the selected runs, if they are few. */
export class SelectedFlags {
  /** The bytes that each run had when its flags were asked for, and the flags. */
  readonly #known = new Map<string, { bytes: number; flags: readonly PlacedFlag[] }>();

  constructor(
    private readonly store: Store,
    private readonly arrived: () => void,
  ) {}

  /** Returns the flags that are known, and asks for those that are not. */
  shown(): PlacedFlag[] {
    const { selected } = this.store.state;
    const runs = selected.length > MOST_FLAGGED ? [] : selected.flatMap((id) => this.store.all.get(id) ?? []);
    const flags = runs.map((run) => this.#of(run, runs.length > 1));
    return flags.flat();
  }

  #of(run: Run, isNamed: boolean): readonly PlacedFlag[] {
    const found = this.#known.get(run.id);
    // What is written now is asked for when it has ended: each answer reads the run whole.
    if (!found || (found.bytes !== run.bytes && run.state !== "running")) void this.#ask(run, found?.flags ?? []);
    const flags = found?.flags ?? [];
    return isNamed ? flags.map((flag) => ({ ...flag, text: `${nameOf(run)}: ${flag.text}` })) : flags;
  }

  async #ask(run: Run, flags: readonly PlacedFlag[]): Promise<void> {
    this.#known.set(run.id, { bytes: run.bytes, flags });
    try {
      this.#known.set(run.id, { bytes: run.bytes, flags: flagsOf(await this.store.backend.detail(run.id)) });
      this.arrived();
    } catch {
      // The page of the run says why it cannot be read.
    }
  }
}
