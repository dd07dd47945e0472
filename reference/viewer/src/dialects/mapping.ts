/** Reads the step, time, epoch, phase and metrics out of a record of another program's log. */

import type { Json } from "../protocol.js";
import type { ReadAs, TimeUnit } from "./dialect.js";

export type Members = { [name: string]: Json };
/** Since 1970, or since the start of the run. */
export type Origin = "unix" | "run";

/** What any log says in a record. Metrics that are not finite are NaN or an infinity, null is NaN. */
export interface Neutral {
  step: number | null;
  /** In seconds since its origin. */
  time: number | null;
  origin: Origin | null;
  epoch: number | null;
  phase: string | null;
  values: Map<string, number>;
}

const MOST_WORD = 9;
const WORDS = new Map([["nan", NaN], ["inf", Infinity], ["infinity", Infinity]]);
const FIRST_UNIX_SECONDS = 1e8;
const SCALES = [[1e11, 1], [1e14, 1e-3], [1e17, 1e-6], [1e20, 1e-9]] as const;
const MOST_DATE = 40;
const CLOCK = /^(?:(\d{1,6}) days?, )?(\d{1,6}):([0-5]?\d):([0-5]?\d(?:\.\d+)?)$/;
const DATE = /^(\d{4})-?(\d\d)-?(\d\d)(?:.(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?(?:Z|([+-])(\d\d):?(\d\d)(?::?(\d\d))?)?)?$/s;
/** Deeper objects are data, not metrics. */
const DEPTH = 8;
/** A list with more items is data, not metrics. */
export const MOST_LISTED = 256;

/** Returns the members of an object; those of inner ones after the outer key and a slash. */
export function flattened(value: Members): Map<string, Json> {
  const found = new Map<string, Json>();
  const add = (inner: Members, prefix: string, depth: number): void => {
    for (const [key, member] of Object.entries(inner)) {
      if (depth > 0 && isMembers(member) && Object.keys(member).length > 0) add(member, `${prefix}${key}/`, depth - 1);
      else found.set(prefix + key, member);
    }
  };
  add(value, "", DEPTH);
  return found;
}

/**
 * Yields members: those of inner objects after the outer key and a slash, as are numbers in a list. A list with anything but numbers,
 * booleans and null, or with more than `MOST_LISTED`, is one member, as is what is empty or nested too deep.
 */
export function* leaves(value: Members, depth = DEPTH): Iterable<[string, Json]> {
  for (const [key, member] of Object.entries(value)) {
    if (depth > 0 && isMembers(member) && Object.keys(member).length > 0) for (const [name, leaf] of leaves(member, depth - 1)) yield [`${key}/${name}`, leaf];
    else if (Array.isArray(member) && member.length > 0 && member.length <= MOST_LISTED && member.every((item) => item === null || typeof item === "number" || typeof item === "boolean"))
      for (const [index, item] of member.entries()) yield [`${key}/${index}`, item];
    else yield [key, member];
  }
}

/** Returns a member, or that of inner objects whose keys are joined by slashes. */
export function memberAt(value: Members, key: string): Json | undefined {
  if (Object.hasOwn(value, key)) return value[key];
  const at = key.indexOf("/");
  const inner = at < 0 ? undefined : value[key.slice(0, at)];
  return isMembers(inner) ? memberAt(inner, key.slice(at + 1)) : undefined;
}

export function isMembers(value: Json | undefined): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Maps the records of one file. */
export class Mapping {
  private readonly own: ReadonlySet<string>;

  constructor(private readonly readAs: ReadAs) {
    const { step, time, epoch, phase } = readAs;
    this.own = new Set([step, time?.key, epoch, phase].filter((key) => key != null));
  }

  neutral(value: Members): Neutral {
    const { step, time, epoch, phase, dialect } = this.readAs;
    const members = flattened(value);
    if (dialect.skip !== undefined && members.has(dialect.skip)) return { step: null, time: null, origin: null, epoch: null, phase: null, values: new Map() };
    const at = (key: string | null) => (key === null ? undefined : members.get(key));
    const moment = time === null ? null : timeOf(members.get(time.key), time.unit);
    const said = at(phase);
    const values = dialect.values?.name === undefined ? this.metrics(members) : this.metric(members, dialect.values.name);
    const prefix = typeof said === "string" ? prefixOf(said) : "";
    return {
      step: countIn(at(step)), time: moment?.seconds ?? null, origin: moment?.origin ?? null, epoch: countIn(at(epoch)), phase: typeof said === "string" ? said : null,
      values: prefix === "" ? values : new Map([...values].map(([name, value]) => [inPhase(name, prefix, values), value])),
    };
  }

  private metrics(members: ReadonlyMap<string, Json>): Map<string, number> {
    const found = new Map<string, number>();
    for (const [key, member] of members) {
      const name = this.metricName(key);
      const value = name === null ? undefined : this.value(member);
      if (value !== undefined) found.set(name!, value);
    }
    return found;
  }

  /** Returns the name of the metric in a flattened member; null where it is not one. */
  private metricName(key: string): string | null {
    const { prefix = "", except = [] } = this.readAs.dialect.values ?? {};
    const isExcepted = except.some((each) => (each.endsWith("/") ? key.startsWith(each) : key === each));
    return this.own.has(key) || isExcepted || !key.startsWith(prefix) ? null : key.slice(prefix.length);
  }

  private metric(members: ReadonlyMap<string, Json>, key: string): Map<string, number> {
    const { rank, values } = this.readAs.dialect;
    const of = values?.value ?? "";
    // A value without a name, as in an empty cell, is one all the same.
    const name = members.get(key) ?? (rank === "program" ? undefined : of);
    const member = members.get(of);
    const value = member === undefined ? undefined : this.value(member);
    return new Map(typeof name === "string" && value !== undefined ? [[name, value]] : []);
  }

  /** Returns the metric in a member, undefined where it is not one. */
  private value(member: Json): number | undefined {
    const kinds = this.readAs.dialect.non_finite ?? [];
    if (typeof member === "number") return member;
    if (member === null) return kinds.includes("null") ? NaN : undefined;
    return typeof member === "string" && kinds.includes("text") ? notFinite(member) : undefined;
  }
}

/** Returns what is before the names of the metrics of a phase; those of training have nothing. */
export function prefixOf(phase: string): string {
  return ["", "train", "training"].includes(phase.trim().toLowerCase()) ? "" : `${phase}/`;
}

/** Returns a metric with the prefix of its phase, unless it begins with the phase as a word. Of all names of the record, no two become one. */
function inPhase(name: string, prefix: string, names: ReadonlyMap<string, number>): string {
  const word = prefix.slice(0, -1);
  const begins = name.startsWith(word) && !/^[a-z]/.test(name.slice(word.length));
  const isTaken = name.startsWith(prefix) && names.has(name.slice(prefix.length));
  return begins && !isTaken ? name : prefix + name;
}

/** Returns NaN or an infinity where a text spells one. */
export function notFinite(text: string): number | undefined {
  if (text.length > MOST_WORD) return undefined;
  const [, sign, word] = /^([-+]?)([a-z]+)$/.exec(text.trim().toLowerCase()) ?? [];
  const value = WORDS.get(word ?? "");
  return value !== undefined && sign === "-" ? -value : value;
}

/** Returns a value in seconds and their origin; null where it is not a time of this unit. */
export function timeOf(value: Json | undefined, unit: TimeUnit): { seconds: number; origin: Origin } | null {
  if (typeof value === "string") return timeInText(value, unit);
  if (typeof value !== "number" || !(Math.abs(value) < 1e300)) return null;
  if (unit === "unix-seconds") return { seconds: value, origin: "unix" };
  if (unit === "unix-milliseconds") return { seconds: value / 1000, origin: "unix" };
  if ((unit === "unix" || unit === "any") && value >= FIRST_UNIX_SECONDS) {
    const scale = SCALES.find(([limit]) => value < limit)?.[1];
    return scale === undefined ? null : { seconds: value * scale, origin: "unix" };
  }
  return unit === "run-seconds" || unit === "any" ? { seconds: value, origin: "run" } : null;
}

function timeInText(text: string, unit: TimeUnit): { seconds: number; origin: Origin } | null {
  if (text.length > MOST_DATE) return null;
  if (unit === "run-clock" || unit === "run-seconds" || unit === "any") {
    const [whole, days = "0", hours, minutes, seconds] = CLOCK.exec(text) ?? [];
    if (whole !== undefined) return { seconds: Number(days) * 86400 + Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds), origin: "run" };
  }
  const seconds = unit === "date-time" || unit === "unix" || unit === "any" ? momentOf(text) : null;
  return seconds === null ? null : { seconds, origin: "unix" };
}

/** Returns the seconds since 1970 of a date and time in ISO 8601, UTC without a zone; null for other text. */
function momentOf(text: string): number | null {
  const found = DATE.exec(text);
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map((part) => Number(part ?? 0)) as [number, number, number, number, number, number];
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day || year < 1 || hour > 23 || minute > 59 || second > 59) return null;
  date.setUTCHours(hour, minute, second);
  const [sign, zoneHours, zoneMinutes, zoneSeconds] = found.slice(8);
  const zone = (sign === "-" ? -1 : 1) * (Number(zoneHours ?? 0) * 3600 + Number(zoneMinutes ?? 0) * 60 + Number(zoneSeconds ?? 0));
  return date.getTime() / 1000 - zone + Number((found[7] ?? "").padEnd(6, "0").slice(0, 6)) / 1e6;
}

/** Returns a member that can be a step or an epoch: a finite number; null for all else. */
function countIn(value: Json | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** Returns a member that is a number, null for all else. */
export function numberIn(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}
