/** The fields of a run by name, for filters, columns and groups. */

import { ExpressionError, type Question, type Value } from "./expression.js";
import { lowered } from "./lowered.js";
import { ALIASES, COUNTS, TITLES } from "./generated/runs.js";
import type { MetricFacts, Run } from "./protocol.js";
import { plain } from "./text.js";

/** What is not a member of the row by the name of its column. */
const MADE: { [name: string]: (run: Run) => Value | readonly Value[] | undefined } = {
  run: (run) => run.name,
  path: (run) => run.id,
  root: (run) => run.root,
  profile: (run) => run.profile ?? run.dialect,
  state: stateText,
  errors: (run) => run.findings?.error,
  warnings: (run) => run.findings?.warning,
  findings: (run) => run.findings && run.findings.error + run.findings.warning + run.findings.info,
  alerts: (run) => run.alerts,
  open_alerts: (run) => run.open_alerts,
};

/** How many pairs of letters of two names, as a share, make one the misspelling of the other. */
const ALIKE = 0.5;

const own = (object: object, name: string): boolean => Object.hasOwn(object, name);

/** Returns what a filter may ask of a run. */
export function questionOf(run: Run): Question {
  const words = [...new Set([...stateText(run).split(", "), ...warningsOf(run), run.state])];
  const text = [run.name, run.id, run.group, run.notes, run.profile, run.dialect, ...words, ...run.tags].join("\n");
  return { text: lowered(text), field: (name) => (name === "state" ? words : fieldOf(run, name)) };
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

/** Returns how the log and the run ended in words, as toyspec.core.findings.state_text does. */
export function stateText({ state, ended, profile, reason }: Pick<Run, "state" | "ended" | "profile" | "reason">): string {
  // A log of toyspec that was imported says that its source has no end mark.
  if (ended === "unknown" && (state === "complete" || (state === "torn" && profile === "toy/v1"))) return "no end mark";
  if (state === "complete" && ended === "no") return "not ended";
  if (state === "running" || state === "torn" || state === "unread" || (reason ?? "completed") === "completed") return state;
  return state === "complete" ? plain(reason!, 32) : `${plain(reason!, 32)}, ${state}`;
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

/** Throws ExpressionError for a field that no run has, which would let no run pass without a word. */
export function requireField(runs: Iterable<Run>, name: string, at: number): void {
  if ([TITLES, COUNTS, ALIASES, MADE].some((fields) => own(fields, name))) return;
  const names = new Map(Object.entries(TITLES).map(([field, title]) => [title as string, field]));
  let isEmpty = true;
  for (const run of runs) {
    isEmpty = false;
    if (fieldOf(run, name) !== undefined || own(run.metrics, name.replace(/^(last|best|nan)\./, "")) || run.left_out.metrics > 0) return;
    for (const key of Object.keys(run.config)) names.set(key, key).set(key.slice(key.lastIndexOf(".") + 1), key.slice(key.lastIndexOf(".") + 1));
    for (const key of [...Object.keys(run.metrics), ...Object.keys(TITLES)]) names.set(key, key);
  }
  if (isEmpty) return;
  const pairs = (text: string) => [...` ${lowered(text)} `].map((letter, i, all) => letter + all[i + 1]);
  const wanted = pairs(name);
  const alike = (text: string) => (2 * pairs(text).filter((pair) => wanted.includes(pair)).length) / (wanted.length + text.length + 2);
  const near = [...names].map(([text, field]) => ({ field, share: alike(text) })).filter(({ share }) => share > ALIKE).sort((a, b) => b.share - a.share);
  const meant = [...new Set(near.map(({ field }) => JSON.stringify(field)))].slice(0, 3).join(" or ");
  throw new ExpressionError(`no run has a field ${JSON.stringify(plain(name, 60))}${meant && `; did you mean ${plain(meant)}?`}`, at);
}

/** Settings of one run beyond these are not compared. */
const MOST_COMPARED = 400;

/** Returns the settings of runs as fields. */
export function settingsOf(runs: readonly Run[]): string[] {
  return [...new Set(runs.flatMap(({ config }) => Object.keys(config).slice(0, MOST_COMPARED).map((name) => `config.${name}`)))];
}

/** Returns how many values of a field runs have, none among them. */
export function varietyOf(runs: readonly Run[], field: string): number {
  return new Set(runs.map((run) => JSON.stringify(fieldOf(run, field) ?? null))).size;
}

function known({ last, best, nan }: MetricFacts): { last: number | undefined; best: number | undefined; nan: number } {
  return { last: last ?? undefined, best: best ?? undefined, nan };
}
