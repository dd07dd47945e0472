/** The fields of a run by name, for filters, columns and groups. */

import type { Lookup, Question, Value } from "./expression.js";
import type { MetricFacts, Run } from "./protocol.js";

const OWN: { [name: string]: (run: Run) => Value | readonly Value[] | undefined } = {
  name: (run) => run.name,
  run: (run) => run.name,
  id: (run) => run.id,
  path: (run) => run.id,
  run_id: (run) => run.run_id,
  root: (run) => run.root,
  group: (run) => run.group,
  tag: (run) => run.tags,
  tags: (run) => run.tags,
  state: (run) => run.state,
  profile: (run) => run.profile ?? run.dialect,
  started: (run) => run.started,
  started_at: (run) => run.started,
  took: (run) => run.seconds,
  seconds: (run) => run.seconds,
  duration: (run) => run.seconds,
  steps: (run) => run.steps,
  last_step: (run) => run.steps,
  final_loss: (run) => run.final_loss,
  reason: (run) => run.reason,
  sealed: (run) => run.sealed,
  progress: (run) => run.progress,
  bytes: (run) => run.bytes,
  size: (run) => run.bytes,
  errors: (run) => run.findings?.error,
  warnings: (run) => run.findings?.warning,
  findings: (run) => run.findings && run.findings.error + run.findings.warning + run.findings.info,
};

const own = (object: object, name: string): boolean => Object.hasOwn(object, name);

/** Returns what a filter may ask of a run. */
export function questionOf(run: Run): Question {
  const text = [run.name, run.id, run.group, run.state, run.profile, run.dialect, ...run.tags].join("\n").toLowerCase();
  return { text, field: lookupIn(run) };
}

function lookupIn(run: Run): Lookup {
  return (name) => fieldOf(run, name);
}

/**
 * Returns the value of a field: one of the list above, `config.NAME`, `last.NAME`, `best.NAME`, `nan.NAME`, and
 * without a prefix a setting, the end of the name of a setting, or the last value of a metric.
 */
export function fieldOf(run: Run, name: string): Value | readonly Value[] | undefined {
  if (own(OWN, name)) return OWN[name]!(run);
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
