/** The fields of a run by name, for filters, columns and groups. */

import { type Lookup, type Question, type Value } from "./expression.js";
import { lowered } from "./lowered.js";
import { ALIASES, COUNTS, TITLES } from "./generated/runs.js";
import type { MetricFacts, Run } from "./protocol.js";

/** What is not a member of the row by the name of its column. */
const MADE: { [name: string]: (run: Run) => Value | readonly Value[] | undefined } = {
  run: (run) => run.name,
  path: (run) => run.id,
  root: (run) => run.root,
  profile: (run) => run.profile ?? run.dialect,
  errors: (run) => run.findings?.error,
  warnings: (run) => run.findings?.warning,
  findings: (run) => run.findings && run.findings.error + run.findings.warning + run.findings.info,
  alerts: (run) => run.alerts,
  open_alerts: (run) => run.open_alerts,
};

const own = (object: object, name: string): boolean => Object.hasOwn(object, name);

/** Returns what a filter may ask of a run. */
export function questionOf(run: Run): Question {
  const text = [run.name, run.id, run.group, run.notes, run.state, run.profile, run.dialect, ...run.tags].join("\n");
  return { text: lowered(text), field: lookupIn(run) };
}

/** Returns whether a rank is one of the processes of the latest attempt, as toyspec.core.reading.run_files does; true where their number is not known. */
export function isOfLatestAttempt(rank: number, worldSize: number | null | undefined): boolean {
  return worldSize == null || rank < worldSize;
}

/** Returns in words why a run is not as well as its state says, as toyspec.core.runs.run_facts.warnings_of does. */
export function warningsOf({ loss_not_finite, unended_ranks: ranks = [] }: Run): string[] {
  const found = loss_not_finite ? ["loss not finite"] : [];
  if (ranks.length === 1) return [...found, `rank ${ranks[0]![0]} ${ranks[0]![1]}`];
  return ranks.length > 0 ? [...found, `${ranks.length} ranks torn or damaged`] : found;
}

function lookupIn(run: Run): Lookup {
  return (name) => fieldOf(run, name);
}

/**
 * Returns the value of a field: one of schemas/runs.json or of the list above, `config.NAME`, `last.NAME`, `best.NAME`, `nan.NAME`, and
 * without a prefix a setting, the end of the name of a setting, or the last value of a metric.
 */
export function fieldOf(run: Run, name: string): Value | readonly Value[] | undefined {
  const column = own(ALIASES, name) ? ALIASES[name]! : name;
  // What nothing has counted is a value that the run does not have.
  if (own(COUNTS, column)) return MADE[column]!(run) ?? undefined;
  if (own(MADE, column)) return MADE[column]!(run);
  if (own(TITLES, column)) return run[column as Exclude<keyof typeof TITLES, "run" | "path">];
  const dot = name.indexOf(".");
  const [prefix, rest] = [name.slice(0, dot), name.slice(dot + 1)];
  if (prefix === "config" && own(run.config, rest)) return run.config[rest];
  if (own(run.config, name)) return run.config[name];
  if ((prefix === "last" || prefix === "best" || prefix === "nan") && own(run.metrics, rest)) return known(run.metrics[rest]!)[prefix];
  if (own(run.metrics, name)) return known(run.metrics[name]!).last;
  const long = Object.keys(run.config).find((key) => key.endsWith(`.${name}`));
  return long === undefined ? undefined : run.config[long];
}

function known({ last, best, nan }: MetricFacts): { last: number | undefined; best: number | undefined; nan: number } {
  return { last: last ?? undefined, best: best ?? undefined, nan };
}
