/** How soon charts and tables show a metric: what `core/runs/run_facts.py` decides in Python. */

import { COUNTER_NAMES, LOSS_NAMES, MINOR_WORDS, SMALLER_IS_BETTER, VALIDATION_WORDS } from "./generated/runs.js";
import type { Goal, Run } from "./protocol.js";

/** The rank of metrics that say little; up to `RESULT` they are results. */
export const [RESULT, MINOR] = [2, 4];

const wordOf = (words: readonly string[]) => new RegExp(`(?:^|[^a-z0-9])(?:${words.join("|").replaceAll("_", "[^a-z0-9]")})(?![a-z0-9])`);
const [LOSSES, COUNTERS, IS_MINOR, IS_VALIDATION] = [new Set(LOSS_NAMES), new Set(COUNTER_NAMES), wordOf(MINOR_WORDS), wordOf(VALIDATION_WORDS)];

/** Returns 0 for the training loss, 1 for a metric with a goal, 2 for one of validation, 3 for any other, and `MINOR` for a place, a schedule, a time and a value that is constant. */
export function metricRank(name: string, goal: Goal = null, isConstant = false): number {
  if (LOSSES.has(name)) return 0;
  const lowered = name.toLowerCase();
  if (COUNTERS.has(lowered.slice(1 + Math.max(lowered.lastIndexOf("/"), lowered.lastIndexOf(".")))) || IS_MINOR.test(lowered)) return MINOR;
  if (goal !== null || SMALLER_IS_BETTER.some((word) => lowered.includes(word))) return 1;
  return isConstant ? MINOR : IS_VALIDATION.test(lowered) ? 2 : 3;
}

/** What the metric of some runs is. */
export interface Ranked {
  name: string;
  rank: number;
  goal: Goal;
  /** How many of the runs have it. */
  runs: number;
  /** Whether it has one value in all of them. */
  isConstant: boolean;
  /** Whether some of them know its best value. */
  hasBest: boolean;
}

const ORDER = new Intl.Collator("en", { numeric: true });

/** Returns the metrics of runs in their order: by rank, those that most runs have, those without a slash, then by name. */
export function rankedMetrics(runs: Iterable<Run>): Ranked[] {
  const found = new Map<string, Ranked & { last: number | null }>();
  for (const { metrics } of runs) {
    for (const [name, { goal, best, constant, last }] of Object.entries(metrics)) {
      const known = found.get(name);
      if (!known) found.set(name, { name, rank: 0, runs: 1, hasBest: best !== null, goal, isConstant: constant === true, last });
      else {
        known.runs++;
        known.hasBest ||= best !== null;
        known.goal ??= goal;
        known.isConstant &&= constant === true && last === known.last;
      }
    }
  }
  const all = [...found.values()];
  for (const each of all) each.rank = metricRank(each.name, each.goal, each.isConstant);
  return all.sort((a, b) => a.rank - b.rank || b.runs - a.runs || Number(a.name.includes("/")) - Number(b.name.includes("/")) || ORDER.compare(a.name, b.name));
}
