/** What a record says in terms of any log, by the mapping of its profile: see schemas/records.json. */

import { LIMITS, type ProfileName, PROFILES } from "../../../typescript/src/tables.js";
import { flattened } from "../dialects/mapping.js";
import { RECORDS } from "../generated/records.js";
import type { Json } from "../protocol.js";
import type { Members } from "./scan.js";

export interface KindMapping {
  values: string;
  role?: string;
  names?: string;
  /** Alternatives, each the keys that name what a record speaks about. */
  thing?: readonly (readonly string[])[];
  pair?: readonly string[];
  minimize?: string;
  /** A member that a step may lack; with an invalid one it does not count. */
  valid?: string;
}

export interface RecordMapping {
  step: { key: string; type: string };
  time: { key: string; unit: string };
  epoch: string | null;
  phase: string | null;
  /** Keys of numbers that place a record, and are not metrics. */
  places: readonly string[];
  /** Keys of arrays of which each number is a metric. */
  arrays?: readonly string[];
  /** The kind of records that name none. */
  untagged?: string;
  kinds: { readonly [kind: string]: KindMapping };
  others: KindMapping;
  phases: readonly string[];
  tag: string | null;
}

const NUMERIC: ReadonlySet<string> = new Set(["number", "integer"]);
const PLACES = new Map(
  Object.entries(RECORDS).map(([profile, { step, time, epoch, phase, tag, places }]) => [profile, new Set([...places, step.key, time.key, epoch, phase, tag])]),
);

/** Returns the metrics of a record by name, NaN for null. */
export function valuesOf(value: Members, profile: ProfileName, kind: string | null): Map<string, number> {
  const read = kindOf(profile, kind);
  const prefix = prefixOf(value, read, kind);
  const found = prefix === null || read.values === "none" ? new Map<string, number>() : numbersBy(read, value, profile, kind);
  return prefix ? new Map([...found].map(([name, number]) => [prefix + name, number])) : found;
}

/** Returns whether a step counts: it may lack the member that its mapping names, and does not count with an invalid one. */
export function counts(value: Members, profile: ProfileName): boolean {
  const { valid } = RECORDS[profile]!.others;
  if (valid === undefined || !Object.hasOwn(value, valid)) return true;
  const member = value[valid];
  return member === null || (typeof member === "number" && Math.abs(member) < LIMITS.binary32_limit);
}

function kindOf(profile: ProfileName, kind: string | null): KindMapping {
  const { kinds, others, untagged } = RECORDS[profile]!;
  const name = kind ?? untagged ?? "";
  return Object.hasOwn(kinds, name) ? kinds[name]! : others;
}

function numbersBy(read: KindMapping, value: Members, profile: ProfileName, kind: string | null): Map<string, number> {
  if (read.values === "object") return numbersOf(value["values"]);
  if (read.values === "members") return membersOf(value, PLACES.get(profile)!);
  if (read.values === "pair") {
    const [name, number] = read.pair!.map((key) => value[key]);
    return typeof name === "string" && number !== undefined ? numbersOf({ [name]: number }) : new Map();
  }
  return treeOf(read, value, profile, kind);
}

/** Returns the members that are numbers, or null for one that is not finite. */
function numbersOf(members: Json | undefined): Map<string, number> {
  const found = new Map<string, number>();
  if (members === null || typeof members !== "object" || Array.isArray(members)) return found;
  for (const [name, value] of Object.entries(members)) if (typeof value === "number" || value === null) found.set(name, value ?? NaN);
  return found;
}

/** Returns the numbers of a record, and those of its extra. */
function membersOf(value: Members, places: ReadonlySet<string | null>): Map<string, number> {
  const own = numbersOf(Object.fromEntries(Object.entries(value).filter(([name]) => !places.has(name))));
  const inner = [...numbersOf(value["extra"])].map(([name, number]): [string, number] => [own.has(name) ? `extra/${name}` : name, number]);
  return new Map([...inner, ...own]);
}

/** Returns the numbers of a record and of its inner objects; null where the schema types a number. */
function treeOf({ thing = [] }: KindMapping, value: Members, profile: ProfileName, kind: string | null): Map<string, number> {
  const found = new Map<string, number>();
  if (kind === null) return found;
  const leftOut = new Set<string | null>([...PLACES.get(profile)!, ...thing.flat()]);
  const typed = new Set((Object.hasOwn(PROFILES[profile].kinds, kind) ? PROFILES[profile].kinds[kind]!.fields : []).filter(({ types }) => types.some((type) => NUMERIC.has(type))).map(({ name }) => name));
  for (const [name, member] of flattened(value)) {
    if (leftOut.has(name)) continue;
    if (typeof member === "number" || (member === null && typed.has(name))) found.set(name, member ?? NaN);
    else if (Array.isArray(member) && RECORDS[profile]!.arrays?.includes(name)) for (const [index, item] of member.entries()) if (typeof item === "number" || item === null) found.set(`${name}/${index}`, item ?? NaN);
  }
  return found;
}

/** Returns what precedes the names of metrics; null where the record does not say whose they are. */
function prefixOf(value: Members, { names, thing = [] }: KindMapping, kind: string | null): string | null {
  if (!names) return "";
  const name = thing.map((keys) => thingOf(value, keys)).find((text) => text !== "");
  if (names === "thing") return name === undefined ? null : `${name}/`;
  return name === undefined ? `${kind}/` : `${kind}/${name}/`;
}

/** Returns the name of what a record speaks about: texts, and integers after their keys; "" for nothing. */
function thingOf(value: Members, keys: readonly string[]): string {
  const parts = keys.map((key) => [key, value[key]] as const);
  return parts.flatMap(([key, part]) => (typeof part === "string" ? [part] : typeof part === "number" && Number.isInteger(part) ? [`${key}${part}`] : [])).join("/");
}
