/**
 * Proves a record right without looking at each byte: JSON.parse does the work, and what it does not show is looked for
 * in the text. What cannot be proven takes the exact path.
 */

import { PROFILES, type FieldTable, LIMITS, type ProfileName, type TypeTable } from "./tables.js";
import type { Node, ObjectNode } from "./scanner.js";

/** Returns whether a value is right by its type, and counts the keys in it; false where that is not known. */
type Test = (value: unknown, keys: { count: number }) => boolean;

interface Field {
  test: Test;
  isInteger: boolean;
  isRequired: boolean;
}

/** The kinds that a log has most of. */
const FREQUENT: readonly string[] = ["step", "entry", "scalar"];
const SPACE = 0x20;
const COMMA = 0x2c;
const CLOSING_BRACE = 0x7d;

/** Proves records of one profile. */
export class Prover {
  private readonly kinds = new Map<string, Map<string, Field>>();
  private readonly wanted: ReadonlySet<string>;

  constructor(private readonly profile: ProfileName) {
    for (const [kind, table] of Object.entries(PROFILES[profile].kinds)) {
      if (FREQUENT.includes(kind)) this.kinds.set(kind, new Map(table.fields.map((field) => [field.name, fieldOf(field)])));
    }
    this.wanted = wantedBy(profile);
  }

  /** Returns the kind of a record that has no problem, its integers written with digits alone; undefined where that is not proven. */
  kindOf(parsed: { [key: string]: unknown }, text: string): string | undefined {
    const { tag } = PROFILES[this.profile];
    const kind = tag === null ? "entry" : parsed[tag];
    const fields = typeof kind === "string" ? this.kinds.get(kind) : undefined;
    if (!fields || text.includes("\r") || text.includes('" ') || text.includes('"\t')) return undefined;
    return hasFields(parsed, fields, text) ? (kind as string) : undefined;
  }

  /** Returns of a proven record the members that the rules that relate records ask for. */
  node(parsed: { [key: string]: unknown }): ObjectNode {
    const members = new Map<string, Node>();
    for (const name of this.wanted) if (Object.hasOwn(parsed, name)) members.set(name, nodeOf(parsed[name]));
    return { type: "object", offset: 0, members };
  }
}

function hasFields(parsed: { [key: string]: unknown }, fields: Map<string, Field>, text: string): boolean {
  const keys = { count: 0 };
  const nested = text.indexOf("{", 1);
  let missing = 0;
  for (const field of fields.values()) if (field.isRequired) missing++;
  for (const key in parsed) {
    const field = fields.get(key);
    if (field === undefined) return false;
    keys.count++;
    const value = parsed[key];
    if (!field.test(value, keys)) return false;
    if (field.isRequired) missing--;
    if (field.isInteger && value !== null && !hasDigits(text, key, value as number, nested)) return false;
  }
  return missing === 0 && keysIn(text) === keys.count;
}

/** Returns whether an integer is written with digits alone: before any inner object, its key cannot be another's. */
function hasDigits(text: string, key: string, value: number, nested: number): boolean {
  const at = text.indexOf(`"${key}":`);
  if (at < 0 || (nested >= 0 && at > nested)) return false;
  const digits = String(value);
  const start = at + key.length + (text.charCodeAt(at + key.length + 3) === SPACE ? 4 : 3);
  if (!text.startsWith(digits, start)) return false;
  const next = text.charCodeAt(start + digits.length);
  return next === COMMA || next === CLOSING_BRACE;
}

/** Counts what looks like the end of a key. Where that is the number of keys that are left, no key was there twice. */
function keysIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf('":'); at >= 0; at = text.indexOf('":', at + 2)) count++;
  return count;
}

function fieldOf(field: FieldTable): Field {
  return { test: testOf(field), isInteger: field.types.includes("integer") && !field.types.includes("number"), isRequired: field.required };
}

function testOf(table: TypeTable): Test {
  const tests = table.types.map((type) => testOfType(type, table));
  if (tests.length === 1) return tests[0]!;
  return (value, keys) => tests.some((test) => test(value, keys));
}

function testOfType(type: string, table: TypeTable): Test {
  switch (type) {
    case "null":
      return (value) => value === null;
    case "boolean":
      return (value) => typeof value === "boolean";
    case "string":
      return stringTest(table);
    case "number":
    case "integer":
      return numberTest(table, type === "integer");
    case "object":
      return table.values ? mapTest(testOf(table.values)) : () => false;
    default:
      return () => false;
  }
}

function stringTest({ const: only, enum: some, pattern, format }: TypeTable): Test {
  if (pattern !== undefined || format !== undefined) return () => false;
  if (only !== undefined) return (value) => value === only;
  return some ? (value) => typeof value === "string" && some.includes(value) : (value) => typeof value === "string";
}

function numberTest(table: TypeTable, isInteger: boolean): Test {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = table;
  if (table.const !== undefined) return () => false;
  return (value) =>
    typeof value === "number" && value >= minimum && value <= maximum && value > exclusiveMinimum && value < exclusiveMaximum &&
    (!isInteger || Number.isSafeInteger(value));
}

/** An open map: an integer in it that binary64 does not hold exactly has to be reported. */
function mapTest(test: Test): Test {
  return (value, keys) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    for (const item of Object.values(value as { [key: string]: unknown })) {
      keys.count++;
      if (!test(item, keys) || (typeof item === "number" && Math.abs(item) > LIMITS.max_safe_integer)) return false;
    }
    return true;
  };
}

/** Returns the members that the rules between the lines of a profile look at. */
function wantedBy(profile: ProfileName): ReadonlySet<string> {
  const { rules, phase } = PROFILES[profile];
  const names = rules.flatMap((rule) => [rule.field, ...(rule.fields ?? []), rule.of?.field, rule.when?.field, rule.needs?.field, rule.restart?.field]);
  return new Set([...names, phase?.field].filter((name) => name !== undefined));
}

function nodeOf(value: unknown): Node {
  if (typeof value === "number") return { type: "number", offset: 0, text: String(value), isInteger: Number.isSafeInteger(value) };
  if (typeof value === "string") return { type: "string", offset: 0, value };
  if (typeof value === "boolean") return { type: "boolean", offset: 0, value };
  if (value === null || typeof value !== "object") return { type: "null", offset: 0 };
  if (Array.isArray(value)) return { type: "array", offset: 0, items: value.map(nodeOf) };
  return { type: "object", offset: 0, members: new Map(Object.entries(value).map(([key, item]) => [key, nodeOf(item)])) };
}
