/** What a record says in terms of any log, by the mapping of its profile: see schemas/records.json. */

import { LIMITS, type ProfileName, PROFILES } from "../../../typescript/src/tables.js";
import { flattened, isMembers, leaves } from "../dialects/mapping.js";
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

const NOT_FINITE: ReadonlySet<Json | undefined> = new Set(["nan", "inf", "-inf"]);
const NUMERIC: ReadonlySet<string> = new Set(["number", "integer"]);
const DECLARED = new Map(
  Object.entries(PROFILES).flatMap(([profile, { kinds }]) => Object.entries(kinds).map(([kind, { fields }]) => [`${profile} ${kind}`, new Map(fields.map(({ name, types }) => [name, types]))] as const)),
);
const PLACES = new Map(
  Object.entries(RECORDS).map(([profile, { step, time, epoch, phase, tag, places }]) => [profile, new Set([...places, step.key, time.key, epoch, phase, tag])]),
);

/** Returns the metrics of a record by name, NaN for null; a boolean is 1 or 0. */
export function valuesOf(value: Members, profile: ProfileName, kind: string | null): Map<string, number> {
  const read = kindOf(profile, kind);
  const prefix = prefixOf(value, read, kind);
  const found = prefix === null || read.values === "none" ? new Map<string, Json>() : dataBy(read, value, profile, kind);
  const values = new Map<string, number>();
  for (const [name, item] of found) {
    const number = numberIn(item);
    if (number !== undefined) values.set(prefix + name, number);
  }
  return values;
}

function numberIn(item: Json): number | undefined {
  if (typeof item === "boolean") return Number(item);
  return typeof item === "number" ? item : item === null ? NaN : undefined;
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

/** Returns what a record says beside what every record has, by name: numbers, null, booleans, and what is none of these. */
function dataBy(read: KindMapping, value: Members, profile: ProfileName, kind: string | null): Map<string, Json> {
  if (read.values === "object") return named(partsOf(membersIn(value["values"])), new Map());
  if (read.values === "members") return membersOf(value, profile, kind);
  if (read.values === "pair") {
    const [name, number] = read.pair!.map((key) => value[key]);
    return typeof name === "string" && (typeof number === "number" || number === null) ? new Map([[name, number]]) : new Map();
  }
  return treeOf(read, value, profile, kind);
}

function membersIn(value: Json | undefined): Members {
  return isMembers(value) ? value : {};
}

/** Returns the numbers of a record, what its schema does not declare, and what is in its extra. */
function membersOf(value: Members, profile: ProfileName, kind: string | null): Map<string, Json> {
  const [places, declared] = [PLACES.get(profile)!, fieldsOf(profile, kind)];
  const own = new Map<string, Json>();
  const others: [string, Json][] = [];
  for (const [name, member] of Object.entries(value)) {
    if (places.has(name)) continue;
    if (typeof member === "number" || member === null) own.set(name, member);
    else if (!declared.has(name)) others.push([name, member]);
  }
  for (const [name, member] of named(partsOf(Object.fromEntries(others)), own)) own.set(name, member);
  return new Map([...own, ...named(partsOf(membersIn(value["extra"])), own)]);
}

/** Yields members, and then what is in those that are objects and lists, so that the others keep their names. */
function* partsOf(members: Members): Iterable<[string, Json]> {
  const [whole, plain] = [true, false].map((isNested) => Object.entries(members).filter(([, member]) => isNested === (typeof member === "object" && member !== null)));
  yield* plain!;
  yield* leaves(Object.fromEntries(whole!));
}

/** Returns members by name; one whose name another has, or is taken, is in `extra/`. */
function named(members: Iterable<[string, Json]>, taken: ReadonlyMap<string, Json>): Map<string, Json> {
  const found = new Map<string, Json>();
  for (const [key, member] of members) {
    let name = key;
    while (taken.has(name) || found.has(name)) name = `extra/${name}`;
    found.set(name, member);
  }
  return found;
}

/** Returns the numbers of a record and of its inner objects; null where the schema types a number. What is not declared may be anything else. */
function treeOf({ thing = [] }: KindMapping, value: Members, profile: ProfileName, kind: string | null): Map<string, Json> {
  const found = new Map<string, Json>();
  if (kind === null) return found;
  const leftOut = new Set<string | null>([...PLACES.get(profile)!, ...thing.flat(), "nonfinite"]);
  const declared = fieldsOf(profile, kind);
  const words = new Map(Object.entries(membersIn(value["nonfinite"])));
  const wasNumber = (name: string) => NOT_FINITE.has(words.get(name)) || (declared.get(name) ?? []).some((type) => NUMERIC.has(type));
  const says = ([name, member]: [string, Json]) => !leftOut.has(name) && (member !== null || wasNumber(name));
  for (const [key, whole] of Object.entries(value)) {
    if (RECORDS[profile]!.arrays?.includes(key) && Array.isArray(whole)) {
      for (const [index, item] of whole.entries()) if (typeof item === "number" || item === null) found.set(`${key}/${index}`, item);
    } else if (!declared.has(key)) {
      for (const [name, member] of named([...leaves({ [key]: whole })].filter(says), found)) found.set(name, member);
    } else {
      for (const [name, member] of [...flattened({ [key]: whole })].filter(says)) if (typeof member === "number" || member === null) found.set(name, member);
    }
  }
  return found;
}

/** Returns the types of the members that the schema declares, by name. */
function fieldsOf(profile: ProfileName, kind: string | null): ReadonlyMap<string, readonly string[]> {
  const known = DECLARED.get(`${profile} ${kind ?? "entry"}`);
  return known ?? new Map();
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
