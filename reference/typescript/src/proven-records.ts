/**
 * Proves a record right without looking at each byte: JSON.parse does the work, and what it does not show is looked for
 * in the text. What cannot be proven takes the exact path.
 */

import { PROFILES, type FieldTable, LIMITS, type ProfileName, type TypeTable } from "./tables.js";
import { KnownShapes, type NumberField } from "./known-shapes.js";
import type { Node, NumberNode, ObjectNode } from "./scanner.js";

/** Returns whether a value is right by its type, and counts the keys in it; false where that is not known. */
export type Test = (value: unknown, keys: { count: number }) => boolean;

interface Field {
  /** As it is written, with quotes and colon. */
  key: string;
  test: Test;
  isInteger: boolean;
  isRequired: boolean;
  /** That of the members of an open map. */
  inner: Test | undefined;
}

/** The fields of a kind. */
interface Fields {
  byName: Map<string, Field>;
  /** Number of those that every record has. */
  required: number;
  /** Those that the rules that relate records ask for. */
  wanted: readonly string[];
}

/** The kinds that a log has most of. */
const FREQUENT: readonly string[] = ["step", "entry", "scalar"];
/** JSON.parse puts such keys before the others. */
const INTEGER_KEY = /"\d+":/;
const SPACE = 0x20;
const COMMA = 0x2c;
const CLOSING_BRACE = 0x7d;
const [ZERO, NINE] = [0x30, 0x39];

/** Proves records of one profile. */
export class Prover {
  /** Lines that differ from a proven one in their numbers alone. */
  readonly shapes = new KnownShapes();
  private readonly kinds = new Map<string, Fields>();

  /** With *isWhole* nodes have all members of their records, else those that the rules that relate records ask for. */
  constructor(
    private readonly profile: ProfileName,
    private readonly isWhole = false,
  ) {
    const wanted = wantedBy(profile);
    for (const [kind, { fields }] of Object.entries(PROFILES[profile].kinds)) {
      if (!FREQUENT.includes(kind)) continue;
      const byName = new Map(fields.map((field) => [field.name, fieldOf(field)]));
      const names = fields.map(({ name }) => name);
      this.kinds.set(kind, { byName, required: fields.filter(({ required }) => required).length, wanted: names.filter((name) => wanted.has(name)) });
    }
  }

  /**
   * Returns the kind of a record that has no problem, its integers written with digits alone; undefined where that is not proven.
   * *isTidy* says that the text has no CR, and no space or tab after a quote.
   */
  kindOf(parsed: { [key: string]: unknown }, text: string, isTidy: boolean): string | undefined {
    const { tag } = PROFILES[this.profile];
    const kind = tag === null ? "entry" : parsed[tag];
    const fields = typeof kind === "string" ? this.kinds.get(kind) : undefined;
    if (!fields || (!isTidy && !isTidyText(text)) || (this.isWhole && INTEGER_KEY.test(text))) return undefined;
    return hasFields(parsed, fields, text) ? (kind as string) : undefined;
  }

  /** Learns what a proven record looks like, whose text is ASCII. */
  learn(parsed: { [key: string]: unknown }, kind: string, text: string): void {
    const { byName, wanted } = this.kinds.get(kind)!;
    const fieldOf = (key: string, isInner: boolean): NumberField | undefined => {
      const field = byName.get(key);
      const test = isInner ? field?.inner : field?.test;
      return test && { test, isInteger: !isInner && field!.isInteger };
    };
    this.shapes.learn(text, kind, parsed, { fieldOf, wanted: this.isWhole ? null : wanted });
  }

  /** Returns a proven record, with the members that this prover gives. */
  node(parsed: { [key: string]: unknown }, kind: string): ObjectNode {
    if (this.isWhole) return nodeOf(parsed) as ObjectNode;
    const members = new Map<string, Node>();
    for (const name of this.kinds.get(kind)!.wanted) {
      const value = parsed[name];
      if (value !== undefined) members.set(name, nodeOf(value));
    }
    return { type: "object", offset: 0, members };
  }
}

/** Returns whether a text has no CR, and no space or tab after a quote. */
export function isTidyText(text: string): boolean {
  return !text.includes("\r") && !text.includes('" ') && !text.includes('"\t');
}

function hasFields(parsed: { [key: string]: unknown }, { byName, required }: Fields, text: string): boolean {
  const keys = { count: 0 };
  const nested = text.indexOf("{", 1);
  let missing = required;
  let from = 1;
  for (const key in parsed) {
    const field = byName.get(key);
    if (field === undefined) return false;
    keys.count++;
    const value = parsed[key];
    if (!field.test(value, keys)) return false;
    if (field.isRequired) missing--;
    if (field.isInteger && value !== null) {
      from = digitsEnd(text, field.key, { from, nested, value: value as number });
      if (from < 0) return false;
    }
  }
  return missing === 0 && keysIn(text) === keys.count;
}

/** Returns where an integer ends, -1 if it is not written with digits alone: before any inner object, its key cannot be another's. */
function digitsEnd(text: string, key: string, { from, nested, value }: { from: number; nested: number; value: number }): number {
  const found = text.indexOf(key, from);
  // Keys that are numbers come before the others.
  const start = found < 0 ? text.indexOf(key) : found;
  if (start < 0 || (nested >= 0 && start > nested)) return -1;
  let at = start + key.length;
  if (text.charCodeAt(at) === SPACE) at++;
  if (value < 0) at++;
  const first = at;
  let code = text.charCodeAt(at);
  while (code >= ZERO && code <= NINE) code = text.charCodeAt(++at);
  return at > first && (code === COMMA || code === CLOSING_BRACE) ? at : -1;
}

/** Counts what looks like the end of a key. Where that is the number of keys that are left, no key was there twice. */
function keysIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf('":'); at >= 0; at = text.indexOf('":', at + 2)) count++;
  return count;
}

function fieldOf(field: FieldTable): Field {
  const isInteger = field.types.includes("integer") && !field.types.includes("number");
  const inner = field.values ? testOf(field.values) : undefined;
  return { key: `"${field.name}":`, test: testOf(field), isInteger, isRequired: field.required, inner };
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

/** A number whose text few rules ask for. */
export class ProvenNumber implements NumberNode {
  readonly type = "number";
  readonly offset = 0;
  readonly isInteger: boolean;

  constructor(readonly value: number) {
    this.isInteger = Number.isSafeInteger(value);
  }

  get text(): string {
    return Object.is(this.value, -0) ? "-0" : String(this.value);
  }
}

export function nodeOf(value: unknown): Node {
  if (typeof value === "number") return new ProvenNumber(value);
  if (typeof value === "string") return { type: "string", offset: 0, value };
  if (typeof value === "boolean") return { type: "boolean", offset: 0, value };
  if (value === null || typeof value !== "object") return { type: "null", offset: 0 };
  if (Array.isArray(value)) return { type: "array", offset: 0, items: value.map(nodeOf) };
  return { type: "object", offset: 0, members: new Map(Object.entries(value).map(([key, item]) => [key, nodeOf(item)])) };
}
