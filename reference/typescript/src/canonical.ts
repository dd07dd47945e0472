/** Writes records in canonical form: see spec/encoding.md#canonical-form. */

import { isDateTime } from "./date-times.js";
import { binary32Text, binary64Text } from "./numbers.js";
import { kindTable, memberType } from "./profiles.js";
import { toWellFormed } from "./scanner.js";
import { type FieldTable, LIMITS, type ProfileName, PROFILES, type TypeTable } from "./tables.js";
import { Binary32, Float, type Value } from "./values.js";

/** Thrown for a record that no reader would accept; nothing was written. */
export class RefusedError extends Error {}

type Members = { [key: string]: Value };

/** Returns the canonical line of a record, LF included. NaN and infinities become null; throws RefusedError. */
export function encode(profile: ProfileName, record: Members): string {
  if (!isPlain(record)) throw new RefusedError("a record is a plain object");
  const tag = PROFILES[profile].tag;
  const kind = tag === null || !Object.hasOwn(record, tag) ? null : record[tag];
  if (tag !== null && typeof kind !== "string") throw new RefusedError(`${tag} is missing or not a string`);
  const table = kindTable(profile, typeof kind === "string" ? kind : null);
  const fields = table?.fields ?? [{ name: tag ?? "", types: ["string"], required: true }];
  const line = object(record, { types: ["object"], fields }, 1) + "\n";
  if (new TextEncoder().encode(line).length - 1 > LIMITS.max_line_bytes) throw new RefusedError("the line is too long");
  return line;
}

function object(value: Members, table: TypeTable | undefined, depth: number): string {
  if (depth > LIMITS.max_depth) throw new RefusedError(`nested deeper than ${LIMITS.max_depth}`);
  const fields: FieldTable[] = table?.fields ?? [];
  const parts: string[] = [];
  const written = new Set<string>();
  const write = (key: string, item: Value) => {
    if (item === undefined) return;
    const text = string(key);
    // Keys that are half a surrogate pair differ for JavaScript and are one in UTF-8.
    if (written.has(text)) throw new RefusedError(`two keys are ${text} when they are written`);
    written.add(text);
    parts.push(`${text}:${any(item, memberType(table, key), key, depth)}`);
  };
  for (const field of fields) {
    const item = Object.hasOwn(value, field.name) ? value[field.name] : undefined;
    if (item !== undefined) write(field.name, item);
    else if (field.required) throw new RefusedError(`${field.name} is missing`);
    else if (field.always_written) write(field.name, {});
  }
  const known = new Set(fields.map((field) => field.name));
  const others = Object.keys(value).filter((key) => !known.has(key));
  for (const key of others.sort(byUtf8)) write(key, value[key]!);
  return `{${parts.join(",")}}`;
}

/** Compares by the bytes of UTF-8, which is the order of code points. */
function byUtf8(a: string, b: string): number {
  const left = Array.from(a, (character) => character.codePointAt(0)!);
  const right = Array.from(b, (character) => character.codePointAt(0)!);
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i]) return left[i]! - right[i]!;
  }
  return left.length - right.length;
}

function any(value: Value, table: TypeTable | undefined, name: string, depth: number): string {
  if (value === null) return nothing(table, name);
  if (typeof value === "number" || typeof value === "bigint" || value instanceof Float || value instanceof Binary32) {
    return number(value, table, name);
  }
  const type = Array.isArray(value) ? "array" : typeof value;
  if (!["array", "boolean", "string"].includes(type) && !isPlain(value)) {
    throw new RefusedError(`${name} is not a JSON value: pass null, a boolean, number, bigint, string, array or plain object`);
  }
  if (table && !table.types.includes(type)) throw new RefusedError(`${name} has another type`);
  if (typeof value === "boolean") return String(value);
  if (typeof value === "string") return checkedString(value, table, name);
  return Array.isArray(value) ? array(value, table, name, depth + 1) : object(value, table, depth + 1);
}

function isPlain(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

function array(value: Value[], table: TypeTable | undefined, name: string, depth: number): string {
  if (depth > LIMITS.max_depth) throw new RefusedError(`nested deeper than ${LIMITS.max_depth}`);
  const { minItems = 0, maxItems = Infinity } = table ?? {};
  if (value.length < minItems || value.length > maxItems) throw new RefusedError(`${name} has ${value.length} items`);
  // Unlike map, Array.from visits holes, which are not values.
  return `[${Array.from(value, (item: Value) => any(item, table?.items, name, depth)).join(",")}]`;
}

function nothing(table: TypeTable | undefined, name: string): string {
  if (table && !table.types.includes("null")) throw new RefusedError(`null for ${name}`);
  return "null";
}

function number(value: number | bigint | Float | Binary32, table: TypeTable | undefined, name: string): string {
  const plain = value instanceof Float || value instanceof Binary32 ? value.value : value;
  const isInteger = typeof plain === "bigint" || (typeof value === "number" && Number.isSafeInteger(value) && !Object.is(value, -0));
  if (isInteger && (table === undefined || table.types.includes("integer"))) {
    if (!Number.isFinite(Number(plain))) throw new RefusedError(`${name} is an integer beyond the range of binary64`);
    checkRange(Number(plain), table, name);
    return String(plain);
  }
  if (table && !table.types.includes("number")) throw new RefusedError(`${name} is ${plain}, which has another type`);
  const wide = Number(plain);
  const float = table?.width === 32 ? Math.fround(wide) : wide;
  if (!Number.isFinite(float)) return nothing(table, name);
  checkRange(float, table, name);
  return table?.width === 32 ? binary32Text(float) : binary64Text(float);
}

function checkRange(value: number, table: TypeTable | undefined, name: string): void {
  const { minimum = -Infinity, maximum = Infinity } = table ?? {};
  if (value < minimum || value > maximum) throw new RefusedError(`${name} is ${value}, outside its range`);
}

function checkedString(value: string, table: TypeTable | undefined, name: string): string {
  const allowed = table?.enum ?? (table?.const === undefined ? undefined : [table.const]);
  if (allowed && !allowed.includes(value)) throw new RefusedError(`${name} is not one of ${allowed.join(", ")}`);
  if (table?.pattern && !new RegExp(table.pattern, "u").test(value)) throw new RefusedError(`${name} does not have the required form`);
  if (table?.format && !isDateTime(value)) throw new RefusedError(`${name} is not a date-time with a zone that exists`);
  return string(value);
}

const SHORT: Record<string, string> = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function string(text: string): string {
  const escaped = toWellFormed(text).replace(
    /["\\\u0000-\u001f]/g,
    (character) => SHORT[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `"${escaped}"`;
}
