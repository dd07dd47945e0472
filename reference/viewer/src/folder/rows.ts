/** A scanned run as a row of the table: see ../../PROTOCOL.md. */

import { PROFILES } from "../../../typescript/src/tables.js";
import { KAUN_SMALLER_IS_BETTER, LOSS_NAMES, PLANNED_STEPS, SMALLER_IS_BETTER } from "../generated/runs.js";
import type { Goal, Json, MetricFacts, Run, Scalar } from "../protocol.js";
import type { Pyramid } from "./pyramid.js";
import type { Members, Scan } from "./scan.js";

const MOST_SETTINGS = 100_000;
const MOST_TAGS = 100;
const LONGEST = 4096;

/** Returns the row of a run; nothing has checked it yet. */
export function rowOf(scan: Scan, id: string, isSealed = false): Run {
  const start = scan.start ?? {};
  const settings = [...flat(start["config"]), ...flat(start["model"], "model.")].map(([name, value]): [string, Scalar] => [cut(name), scalar(value)]);
  const name = start["name"];
  const ended = endedOf(scan);
  const begin = scan.profile === "kaun/v1" || scan.origin === "unix" ? scan.firstTime : 0;
  const finalLoss = finalLossOf(scan);
  const took = begin === null || scan.lastTime === null || hasNoTimes(scan) ? null : scan.lastTime - begin;
  return {
    id, run_id: textOf(start["run_id"]), name: typeof name === "string" && name !== "" ? cut(name) : lastPart(id),
    group: textOf(start["group"]),
    tags: (Array.isArray(start["tags"]) ? start["tags"] : []).filter((tag) => typeof tag === "string").slice(0, MOST_TAGS).map(cut),
    notes: textOf(start["notes"]), starred: false, hidden: false,
    state: scan.state, profile: scan.profile ?? null, dialect: scan.dialect, started_at: startOf(scan.origin === "unix" ? { created_at: scan.firstTime } : start),
    seconds: took,
    first_step: scan.firstStep, last_step: scan.lastStep, records: scan.records, final_loss: finite(finalLoss ?? NaN), ...(Number.isNaN(finalLoss) ? { loss_not_finite: true } : {}), ...(scan.worldSize === null ? {} : { world_size: scan.worldSize }),
    ended, reason: textOf(scan.end?.["reason"]), error: textOf(scan.end?.["error"]), sealed: isSealed, progress: progressOf(scan.lastStep, settings), remaining: ended === "yes" ? null : remainingOf(took, scan, settings), bytes: scan.size, findings: null,
    config: Object.fromEntries(settings.slice(0, MOST_SETTINGS)),
    metrics: Object.fromEntries([...scan.latest].map(([metric, pyramid]) => [cut(metric), { ...factsOf(pyramid, goalOf(scan, metric)), ...stepNameOf(scan, metric) }])),
    left_out: { metrics: scan.leftOut, config: Math.max(0, settings.length - MOST_SETTINGS) },
    message: null,
  };
}

/** Returns the row of a run that cannot be read. */
export function unreadableRow(id: string, message: string, bytes: number): Run {
  return {
    id, run_id: null, name: lastPart(id), group: null, tags: [], notes: null, starred: false, hidden: false, state: "damaged", profile: null, dialect: null, started_at: null, seconds: null, first_step: null, last_step: null, records: null,
    final_loss: null, ended: "unknown", reason: null, error: null, sealed: false, progress: null, remaining: null, bytes, findings: null, config: {}, metrics: {}, left_out: { metrics: 0, config: 0 }, message,
  };
}

function endedOf({ end, profile, hasReached, isEndUnknown }: Scan): Run["ended"] {
  if (end !== null || hasReached) return "yes";
  if (hasReached === false) return "no";
  return profile && PROFILES[profile].complete !== undefined && !isEndUnknown ? "no" : "unknown";
}

/** Returns the loss that the end of a run says, else that of its last step; NaN where it was not finite, null where it is unknown. */
function finalLossOf({ end, profile, latest, stepLoss, hasSteps }: Scan): number | null {
  const said = end?.["final_loss"];
  if (said === null || typeof said === "number") return finite(said ?? NaN) ?? NaN;
  // One that was logged beside the steps, as for steps that a program repeats, is not that of a step.
  if (stepLoss !== null) return finite(stepLoss) ?? NaN;
  const name = profile === "metrics/v1" || hasSteps ? "loss" : LOSS_NAMES.find((metric) => latest.has(metric));
  const loss = latest.get(name ?? "");
  return loss === undefined ? null : (finite(loss.final) ?? NaN);
}

/** Returns whether all steps are at 0: nothing took time by such a log. */
function hasNoTimes({ latest, lastTime, lastStep }: Scan): boolean {
  return lastTime === 0 && [...latest.values()].some(({ first }) => first.step !== lastStep);
}

function textOf(value: Json | undefined): string | null {
  return typeof value === "string" ? cut(value) : null;
}

function lastPart(id: string): string {
  return id.split("/").at(-1)!;
}

function factsOf({ last, final, lowest, highest, points, notFinite }: Pyramid, goal: Goal): MetricFacts {
  const best = goal === "min" ? lowest.value : goal === "max" ? highest.value : NaN;
  return { last: finite(last), best: finite(best), goal, count: points, nan: notFinite, ...(Number.isFinite(final) ? {} : { last_not_finite: true }), ...(points > 1 && notFinite === 0 && lowest.value === highest.value && { constant: true as const }) };
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** Returns the goal that the run states for a metric, or that its name implies. */
export function goalOf({ goals, profile }: Scan, name: string): Goal {
  const stated = defined(name, goals);
  if (stated !== undefined) return stated === "min" || stated === "max" ? stated : null;
  const lowered = name.toLowerCase();
  if (profile === "kaun/v1") return KAUN_SMALLER_IS_BETTER.some((word) => lowered.includes(word)) ? "min" : "max";
  return SMALLER_IS_BETTER.some((word) => lowered.includes(word)) ? "min" : null;
}

/** Returns the metric that counts the steps of another one, where the run defines it. */
function stepNameOf({ stepNames }: Scan, name: string): { step_name?: string } {
  const found = defined(name, stepNames);
  return found === undefined || found === name ? {} : { step_name: cut(found) };
}

/** Returns what definitions, whose names may end in *, say of a metric. */
function defined(name: string, definitions: ReadonlyMap<string, string>): string | undefined {
  const fitting = [...definitions.keys()].filter((key) => key.endsWith("*") && name.startsWith(key.slice(0, -1)));
  return definitions.get(name) ?? definitions.get(fitting.sort((a, b) => b.length - a.length)[0] ?? "");
}

function startOf(start: Members): string | null {
  const [started, created] = [start["started_at"], start["created_at"]];
  if (typeof started === "string") return started;
  return typeof created === "number" && created >= 0 && created < 1e11 ? new Date(created * 1000).toISOString().replace(/\.\d+Z$/, "Z") : null;
}

/** Returns every member that is not an object by its name; inner ones by the outer name, a dot and their own. */
export function flat(value: Json | undefined, prefix = ""): [string, Json][] {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([key, member]): [string, Json][] => {
    const isObject = member !== null && typeof member === "object" && !Array.isArray(member) && Object.keys(member).length > 0;
    return isObject ? flat(member, `${prefix}${key}.`) : [[prefix + key, member]];
  });
}

function scalar(value: Json): Scalar {
  if (typeof value === "string") return cut(value);
  if (value !== null && typeof value === "object") return cut(JSON.stringify(value));
  return value;
}

function progressOf(step: number | null, settings: readonly [string, Scalar][]): number | null {
  const planned = plannedOf(settings);
  return step === null || planned === null ? null : Math.min(1, Math.max(0, step / planned));
}

/** Returns the seconds until the planned steps are done, at the mean pace so far; null where it is not known. */
function remainingOf(seconds: number | null, { firstStep, lastStep }: Scan, settings: readonly [string, Scalar][]): number | null {
  const planned = plannedOf(settings);
  if (planned === null || firstStep === null || lastStep === null || lastStep < firstStep || seconds === null || seconds <= 0) return null;
  return (seconds / (lastStep - firstStep + 1)) * Math.max(0, planned - lastStep);
}

function plannedOf(settings: readonly [string, Scalar][]): number | null {
  const short = new Map([...settings].reverse().map(([name, value]) => [name.split(".").at(-1)!, value]));
  const planned = PLANNED_STEPS.map((name) => short.get(name)).find((value) => typeof value === "number");
  return typeof planned === "number" && planned > 0 ? planned : null;
}

/** Returns a text, cut where it is too long for a table, with the digest of all: different texts stay different. */
function cut(text: string): string {
  const letters = text.length <= LONGEST ? [] : [...text];
  return letters.length <= LONGEST ? text : `${letters.slice(0, LONGEST).join("")}… #${digest(text)}`;
}

/** Returns the FNV-1a digest of the UTF-8 of a text, 32 bits in hexadecimal. */
function digest(text: string): string {
  let found = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) found = Math.imul(found ^ byte, 0x01000193);
  return (found >>> 0).toString(16).padStart(8, "0");
}
