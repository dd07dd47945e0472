/** The columns of the table of runs: their values, texts and order. */

import type { Value } from "./expression.js";
import { COUNTS, TITLES } from "./generated/runs.js";
import { MINOR, rankedMetrics } from "./metric-ranks.js";
import type { Goal, Run } from "./protocol.js";
import { fieldOf, settingsOf, stateText, varietyOf } from "./run-fields.js";
import { duration, findingsLine, grouped, moment, plain, short, size, valueText } from "./text.js";

export interface Column {
  /** As in the address: `name`, `config.NAME`, `best.NAME`, … */
  id: string;
  title: string;
  isNumber: boolean;
  text(run: Run): string;
  /** What is said under the pointer, where the text does not say it all. */
  hint?(run: Run): string | undefined;
  /** The value that orders runs. */
  key(run: Run): Value | undefined;
}

function fixed(id: string, title: string, text: (run: Run) => string, isNumber = false): Column {
  return { id, title, isNumber, text, key: (run) => fieldOf(run, id) as Value | undefined };
}

const seconds = ({ seconds }: Run) => (seconds === null ? "" : duration(seconds));

const FIXED: readonly Column[] = [
  fixed("name", "Run", (run) => plain(run.name)),
  fixed("path", TITLES.path, (run) => plain(run.id)),
  fixed("curve", "Curve", () => ""),
  fixed("starred", TITLES.starred, (run) => (run.starred ? "★" : "")),
  fixed("state", TITLES.state, stateText),
  fixed("root", "Root", (run) => plain(run.root ?? "")),
  fixed("group", TITLES.group, (run) => plain(run.group ?? "")),
  fixed("tags", TITLES.tags, (run) => plain(run.tags.join(", "))),
  fixed("notes", TITLES.notes, (run) => plain(run.notes ?? "")),
  fixed("profile", TITLES.profile, (run) => plain(run.profile ?? run.dialect ?? "")),
  fixed("started", TITLES.started_at, (run) => moment(run.started_at, "short")),
  fixed("reason", TITLES.reason, (run) => plain(run.reason ?? "")),
  fixed("error", TITLES.error, (run) => plain(run.error ?? "")),
  fixed("took", TITLES.seconds, seconds, true),
  fixed("steps", TITLES.last_step, (run) => (run.last_step === null ? "" : grouped(run.last_step)), true),
  fixed("progress", TITLES.progress, (run) => (run.progress === null ? "" : `${Math.round(run.progress * 100)} %`), true),
  fixed("remaining", TITLES.remaining, ({ remaining }) => (remaining === null ? "" : duration(remaining)), true),
  fixed("size", TITLES.bytes, (run) => size(run.bytes), true),
  fixed("findings", COUNTS.findings, ({ findings }) => findingsLine(findings, ["error", "warning"])),
  fixed("alerts", COUNTS.alerts, (run) => countText(run.alerts), true),
  fixed("open_alerts", COUNTS.open_alerts, (run) => countText(run.open_alerts), true),
];

const countText = (count: number | null | undefined): string => (count == null ? "" : grouped(count));

/** Returns whether a run has a name beside the one of its path. */
export function isNamed(run: Run): boolean {
  return run.name !== run.id && run.name !== run.id.slice(run.id.lastIndexOf("/") + 1);
}

const KINDS = { config: "", last: "", best: "best " } as const;

/** A longer number is written with an exponent: in a cell it would lose its last digits. */
const MOST_DIGITS = 9;

/** Returns the column of an id; null for one that is none. */
export function columnOf(id: string): Column | null {
  const own = FIXED.find((column) => column.id === id);
  if (own) return own;
  const [, kind, name] = /^(config|last|best)\.(.+)$/s.exec(id) ?? [];
  if (kind === undefined || name === undefined) return null;
  const title = `${KINDS[kind as keyof typeof KINDS]}${plain(name, 60)}`;
  return {
    id, title, isNumber: true,
    text: (run) => (isLost(run, name) && kind === "last" ? NOT_FINITE : `${cellText(fieldOf(run, id) as Value | undefined)}${isLost(run, name) && kind === "best" ? " ×" : ""}`),
    key: (run) => (isLost(run, name) && kind === "last" ? undefined : (fieldOf(run, id) as Value | undefined)),
    ...(kind === "best" ? { hint: (run: Run) => (isLost(run, name) ? `${cellText(fieldOf(run, id) as Value | undefined)}; the last value is not finite` : undefined) } : {}),
  };
}

/** What stands for a value that is not finite: a log does not say which one it was. */
export const NOT_FINITE = "not finite";

/** Returns whether the last value of a metric is not finite: the one before it, or the best, would look healthy. */
function isLost({ metrics }: Run, name: string): boolean {
  return Object.hasOwn(metrics, name) && metrics[name]!.last_not_finite === true;
}

function cellText(value: Value | undefined): string {
  if (typeof value !== "number") return valueText(value, 60);
  const text = short(value);
  return text.length > MOST_DIGITS && Math.abs(value) < 1 ? value.toExponential(3).replace(/\.?0+e/, "e") : text;
}

/** Returns the ids of every column that some run has a value for, and how many runs. */
export function possibleColumns(runs: Iterable<Run>): Map<string, number> {
  const found = new Map(FIXED.map(({ id }) => [id, 0]));
  for (const run of runs) {
    for (const name of Object.keys(run.config)) add(found, `config.${name}`);
    for (const [name, { best }] of Object.entries(run.metrics)) {
      if (best !== null) add(found, `best.${name}`);
      add(found, `last.${name}`);
    }
  }
  return found;
}

function add(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

/** More columns than these are for the user to choose. */
const MOST_SETTINGS = 3;
const MOST_METRICS = 3;
/** Runs that are looked at to choose columns. */
const SAMPLED = 200;

/** Returns the columns that say most about runs: those that have values, settings that differ, metrics that most runs have. */
export function usualColumns(runs: readonly Run[]): string[] {
  const some = runs.filter(({ state }) => state !== "unread").slice(0, SAMPLED);
  const has = (id: string) => some.some((run) => columnOf(id)!.text(run) !== "");
  const differs = (id: string) => new Set(some.map((run) => columnOf(id)!.text(run))).size > 1;
  const own = ["name", ...(some.some(isNamed) ? ["path"] : []), "state", ...["starred"].filter(has)];
  const results = mostUsedMetrics(some);
  const rest = [...["progress", "remaining"].filter((id) => has(id) && some.some(({ state }) => state === "running")), ...["group", "tags", "root"].filter(has), "started", "took", "steps", ...["findings"].filter(has), ...(some.some(({ alerts }) => alerts) ? ["alerts"] : []), ...["profile"].filter(differs)];
  return [...own, ...results, ...(results.length > 0 ? ["curve"] : []), ...settingsThatDiffer(some), ...rest];
}

/** Returns the columns of the first settings that differ. */
export function settingsThatDiffer(runs: readonly Run[]): string[] {
  return settingsOf(runs).filter((key) => varietyOf(runs, key) > 1).slice(0, MOST_SETTINGS);
}

function mostUsedMetrics(runs: readonly Run[]): string[] {
  const measures = rankedMetrics(runs).filter(({ rank }) => rank < MINOR).sort((a, b) => Number(b.hasBest) - Number(a.hasBest) || b.runs - a.runs);
  return measures.slice(0, MOST_METRICS).map(({ name, hasBest }) => `${hasBest ? "best" : "last"}.${name}`);
}

/** Returns runs in the order of a column, `-` before its id reverses it; runs without a value come last. */
export function sorted(runs: readonly Run[], order: string): Run[] {
  const isReverse = order.startsWith("-");
  const column = columnOf(isReverse ? order.slice(1) : order) ?? columnOf("started")!;
  const sign = isReverse ? -1 : 1;
  const keyed = runs.map((run) => ({ run, key: column.key(run) ?? null }));
  const byName = new Intl.Collator("en", { numeric: true });
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null) return a.key === b.key ? byName.compare(a.run.id, b.run.id) : a.key === null ? 1 : -1;
    return sign * compared(a.key, b.key, byName) || byName.compare(a.run.id, b.run.id);
  });
  return keyed.map(({ run }) => run);
}

function compared(a: NonNullable<Value> | readonly Value[], b: NonNullable<Value> | readonly Value[], names: Intl.Collator): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number" || typeof b === "number") return typeof a === "number" ? -1 : 1;
  return names.compare(String(a), String(b));
}

/** Returns the metric by which runs are ranked: the one with a goal that most runs have, the training loss before others. */
export function rankingOf(runs: readonly Run[]): { metric: string | null; goal: Goal } {
  const [first] = rankedMetrics(runs).filter(({ hasBest }) => hasBest).sort((a, b) => b.runs - a.runs);
  return first ? { metric: first.name, goal: first.goal } : { metric: null, goal: null };
}
