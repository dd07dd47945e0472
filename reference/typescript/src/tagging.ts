/** Values as tagged JSON, the form in which the conformance protocol moves them: see conformance/PROTOCOL.md. */

import { RefusedError } from "./canonical.js";
import { binary32Text, binary64Text, integerOf, numberOf } from "./numbers.js";
import { declaredKind, kindTable, memberType, numberType, takesFloatsAsIntegers } from "./profiles.js";
import type { Node, NumberNode, ObjectNode } from "./scanner.js";
import type { ProfileName, TypeTable } from "./tables.js";
import { Binary32, Float, type Value } from "./values.js";

const TAGS = new Set(["int", "float", "f32", "object"]);

/** Returns a record that was read in tagged form. */
export function tagRecord(record: ObjectNode, profile: ProfileName | null): unknown {
  const table = kindTable(profile, declaredKind(record, profile));
  return tagNode(record, table && { types: ["object"], fields: table.fields }, takesFloatsAsIntegers(profile));
}

function tagNode(node: Node, table: TypeTable | undefined, takesFloats: boolean): unknown {
  switch (node.type) {
    case "null":
      return null;
    case "boolean":
    case "string":
      return node.value;
    case "number":
      return tagNumber(node, table, takesFloats);
    case "array":
      return node.items.map((item) => tagNode(item, table?.items, takesFloats));
    case "object": {
      const entries = [...node.members].map(([key, item]) => [key, tagNode(item, memberType(table, key), takesFloats)] as const);
      // No prototype, so that a key such as __proto__ is a key.
      const members = Object.assign(Object.create(null) as object, {}) as { [key: string]: unknown };
      for (const [key, item] of entries) Object.defineProperty(members, key, { value: item, enumerable: true });
      return entries.length === 1 && TAGS.has(entries[0]![0]) ? { object: members } : members;
    }
  }
}

function tagNumber(node: NumberNode, table: TypeTable | undefined, takesFloats: boolean): unknown {
  const type = numberType(table, node, takesFloats);
  if (type === "int") return { int: String(integerOf(node)) };
  const number = numberOf(node.text);
  return type === "f32" ? { f32: binary32Text(number) } : { float: binary64Text(number) };
}

/** Returns a value that is not of a record in tagged form; members that are undefined are left out. */
export function tagValue(value: Value): unknown {
  if (typeof value === "bigint") return { int: String(value) };
  if (value instanceof Float) return { float: binary64Text(value.value) };
  if (value instanceof Binary32) return { f32: binary32Text(value.value) };
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(tagValue);
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  const members = Object.create(null) as { [key: string]: unknown };
  for (const [key, item] of entries) Object.defineProperty(members, key, { value: tagValue(item), enumerable: true });
  return entries.length === 1 && TAGS.has(entries[0]![0]) ? { object: members } : members;
}

/** Returns the value that a tagged one stands for; throws TypeError where it is none. */
export function untag(tagged: unknown): Value {
  if (Array.isArray(tagged)) return tagged.map(untag);
  if (typeof tagged !== "object" || tagged === null) {
    if (typeof tagged === "number") throw new TypeError(`the bare number ${tagged} has no tag`);
    return tagged as Value;
  }
  const entries = Object.entries(tagged);
  const [tag, inner] = entries[0] ?? [];
  if (entries.length === 1 && tag !== undefined && TAGS.has(tag)) {
    if (tag === "object") return members(inner as object);
    return untagNumber(tag, inner as string);
  }
  return members(tagged);
}

function members(object: object): Value {
  const found = Object.create(null) as { [key: string]: Value };
  for (const [key, item] of Object.entries(object)) Object.defineProperty(found, key, { value: untag(item), enumerable: true });
  return found;
}

function untagNumber(tag: string, text: string): Value {
  if (tag === "int") {
    if (!/^-?(0|[1-9][0-9]*)$/.test(text)) throw new RefusedError(`the integer ${text} is not written with digits alone`);
    return BigInt(text);
  }
  const number = { nan: NaN, inf: Infinity, "-inf": -Infinity }[text] ?? Number(text);
  return tag === "f32" ? new Binary32(number) : new Float(number);
}
