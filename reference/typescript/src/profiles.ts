/** Tells which profile a stream follows, and what the schema says of a place in a record. */

import type { Node, ObjectNode } from "./scanner.js";
import { type FieldTable, type KindTable, type ProfileName, PROFILES, type TypeTable } from "./tables.js";

/** Returns the profile that a record shows by its keys, else the fallback. */
export function detectProfile(first: ObjectNode | null, fallback: ProfileName): ProfileName {
  const has = (key: string) => first !== null && first.members.has(key);
  if (has("kind")) return "toy/v1";
  if (has("type")) return "kaun/v1";
  return has("step") && has("wall_time_ms") ? "metrics/v1" : fallback;
}

/** Returns the profile that the name of a stream's file and the manifest beside it tell. */
export function fallbackProfile(name: string | undefined, hasManifest = false): ProfileName {
  if (name?.split(/[\\/]/).at(-1) === PROFILES["metrics/v1"].file) return "metrics/v1";
  return hasManifest ? "kaun/v1" : "toy/v1";
}

/** Returns the kind that a record declares; null where it declares none, or no string. */
export function declaredKind(record: ObjectNode, profile: ProfileName): string | null {
  const tag = PROFILES[profile].tag;
  const value = tag === null ? undefined : record.members.get(tag);
  return value?.type === "string" ? value.value : null;
}

/** Returns the table of a kind of records, undefined for one that is not known. */
export function kindTable(profile: ProfileName, kind: string | null): KindTable | undefined {
  const { tag, kinds } = PROFILES[profile];
  if (tag === null) return kinds["entry"];
  const table = kind !== null && Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  return table?.is_record ? table : undefined;
}

/** Returns what the schema says of a member of an object of declared members. */
export function fieldNamed(fields: FieldTable[] | undefined, name: string): FieldTable | undefined {
  return fields?.find((field) => field.name === name);
}

/** Returns the type of a member of a value of type *table*, undefined where nothing is said of it. */
export function memberType(table: TypeTable | undefined, key: string): TypeTable | undefined {
  return table?.fields ? fieldNamed(table.fields, key) : (table?.values ?? undefined);
}

/** Returns the type that a number has by its place: integer and open places go by the text. */
export function numberType(table: TypeTable | undefined, node: Node & { type: "number" }): "int" | "float" | "f32" {
  if (table?.types.includes("number")) {
    return table.width === 32 && Math.abs(Number(node.text)) < BINARY32_LIMIT ? "f32" : "float";
  }
  return node.isInteger ? "int" : "float";
}

/** The middle between the largest binary32 number and the next power of two. */
export const BINARY32_LIMIT = 3.4028235677973366e38;
