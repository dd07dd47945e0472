/** Determines which profile a stream follows, and what the schema requires at a place in a record. */

import { isWhole } from "./numbers.js";
import type { NumberNode, ObjectNode } from "./scanner.js";
import { type FieldTable, type KindTable, type ProfileName, PROFILES, RULES, type TypeTable, LIMITS } from "./tables.js";

export type State = "complete" | "torn" | "damaged";

/** What determines the profile of a stream besides its records: see spec/bundle.md. */
export interface Environment {
  /** Name or path of the file. */
  name?: string | undefined;
  /** True where a manifest of kaun/v1 is beside it. */
  hasManifest?: boolean | undefined;
}

/** Returns the profile that the first readable record of a stream shows; null where it follows none. */
export function detectProfile(first: ObjectNode, { hasManifest }: Environment = {}): ProfileName | null {
  const { members } = first;
  const kind = members.get("kind");
  const type = members.get("type");
  if (kind?.type === "string" && (kind.value === "run_start" || members.get("t")?.type === "number")) return "toy/v1";
  if (type?.type === "string" && type.value === "scalar") return "kaun/v1";
  if (members.has("step") && members.has("wall_time_ms")) return "metrics/v1";
  return hasManifest ? "kaun/v1" : null;
}

/** Returns the profile of a stream without a readable record; null for a damaged one with a name of its own. */
export function fallbackProfile({ name, hasManifest }: Environment, hasGap: boolean): ProfileName | null {
  const base = name === undefined ? undefined : streamName(name);
  if (base === PROFILES["metrics/v1"].file) return "metrics/v1";
  if (hasManifest) return "kaun/v1";
  return hasGap && base !== undefined && base !== PROFILES["toy/v1"].file ? null : "toy/v1";
}

/** Returns the name of the file at a path, without what compression appends to it. */
export function streamName(path: string): string {
  return path.split(/[\\/]/).at(-1)!.replace(/\.gz$/, "");
}

/** Returns the rank whose stream a file name is: 0 for events.jsonl; undefined for a name of another form. */
export function rankOf(name: string): number | undefined {
  if (name === PROFILES["toy/v1"].file) return 0;
  const digits = /^events\.rank-([1-9][0-9]{0,8})\.jsonl$/.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** Returns whether integers may be written with a fraction or an exponent, as `1.0`. */
export function takesFloatsAsIntegers(profile: ProfileName | null): boolean {
  return profile !== null && FLOATS_AS_INTEGERS.includes(profile);
}

const FLOATS_AS_INTEGERS: readonly ProfileName[] = RULES.find((rule) => rule.id === "integer-as-float")?.profiles ?? [];

/** Returns the state of a stream that was read to its end. */
export function stateOf(profile: ProfileName | null, seen: { hasGap: boolean; hasFragment: boolean; records: number; lastKind: string | null }): State {
  if (seen.hasGap) return "damaged";
  const last = profile === null ? undefined : PROFILES[profile].complete?.last;
  return seen.hasFragment || seen.records === 0 || (last !== undefined && seen.lastKind !== last) ? "torn" : "complete";
}

/** Returns the kind that a record declares; null where it declares none, or no string. */
export function declaredKind(record: ObjectNode, profile: ProfileName | null): string | null {
  const tag = profile === null ? null : PROFILES[profile].tag;
  const value = tag === null ? undefined : record.members.get(tag);
  return value?.type === "string" ? value.value : null;
}

/** Returns the table of a kind of records, undefined for one that is not known. */
export function kindTable(profile: ProfileName | null, kind: string | null): KindTable | undefined {
  if (profile === null) return undefined;
  const { tag, kinds } = PROFILES[profile];
  if (tag === null) return kinds["entry"];
  const table = kind !== null && Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  return table?.is_record ? table : undefined;
}

/** Returns what the schema requires of a member of an object of declared members. */
export function fieldNamed(fields: FieldTable[] | undefined, name: string): FieldTable | undefined {
  return fields?.find((field) => field.name === name);
}

/** Returns the type of a member of a value of type *table*, undefined where the schema does not restrict it. */
export function memberType(table: TypeTable | undefined, key: string): TypeTable | undefined {
  return table?.fields ? fieldNamed(table.fields, key) : (table?.values ?? undefined);
}

/** Returns the type that a number has by its place: an integer place goes by the value, an open place by the text. */
export function numberType(table: TypeTable | undefined, node: NumberNode, takesFloats: boolean): "int" | "float" | "f32" {
  if (table?.types.includes("number")) {
    return table.width === 32 && Math.abs(Number(node.text)) < BINARY32_LIMIT ? "f32" : "float";
  }
  return node.isInteger || (takesFloats && table?.types.includes("integer") && isWhole(node)) ? "int" : "float";
}

/** The middle between the largest binary32 number and the next power of two. */
export const BINARY32_LIMIT = LIMITS.binary32_limit;
