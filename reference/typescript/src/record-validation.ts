/** Checks one record by its schema: see spec/checking.md#the-record-layer. */

import { isDateTime } from "./date-times.js";
import { shortened } from "./escaping.js";
import * as messages from "./messages.js";
import { integerOf, isWhole } from "./numbers.js";
import { quoted, shown, typed, typeNames } from "./phrases.js";
import { memberType } from "./profiles.js";
import { type Node, type NumberNode, type ObjectNode, pointerTo } from "./scanner.js";
import { nearest } from "./suggestions.js";
import { LIMITS, type FieldTable, type TypeTable } from "./tables.js";

/** One problem in a record; `offset` counts from the start of the line. */
export interface RecordProblem {
  rule: string;
  offset: number;
  pointer: string;
  message: string;
  /** For unknown-key alone. */
  key?: UnknownKey;
}

/** A key that the schema does not declare. */
export interface UnknownKey {
  /** The key with those around it, array indexes left out. */
  path: string;
  /** Returns what was probably meant. */
  suggest: () => string | undefined;
}

/** Where a record declares the format that it follows. */
const DECLARES_SCHEMA: { [kind: string]: string } = { run_start: "/schema", run: "/schema_version" };

/** What a record is compared with. */
export interface RecordType {
  kind: string;
  fields: FieldTable[];
  /** True where integers may be written as `1.0`. */
  takesFloats: boolean;
  /** True where the first of these is reported. */
  reportsFloat: boolean;
}

/** Returns the problems of a record of a known kind; at most one for each pointer, integer-as-float not counted. */
export function validateRecord(record: ObjectNode, type: RecordType): RecordProblem[] {
  const validator = new RecordValidator(type.kind, type.takesFloats);
  validator.value(record, { types: ["object"], fields: type.fields }, []);
  const first = validator.firstFloat;
  if (type.reportsFloat && first) {
    const message = messages.integerAsFloat({ path: shownPath(first.path), literal: shortened(first.node.text) });
    validator.put("integer-as-float", first.node, first.path, message);
  }
  return validator.problems;
}

type Path = readonly (string | number)[];

class RecordValidator {
  readonly problems: RecordProblem[] = [];

  /** The first integer in the line that is written as `1.0`. */
  firstFloat: { node: NumberNode; path: Path } | null = null;

  constructor(
    private readonly kind: string,
    private readonly takesFloats: boolean,
  ) {}

  value(node: Node, table: TypeTable, path: Path): void {
    if (!this.hasType(node, table.types)) {
      this.add("wrong-type", node, path, typed(node), typeNames(table.types));
      return;
    }
    if (node.type === "object") this.object(node, table, path);
    else if (node.type === "array") this.array(node, table, path);
    else if (node.type === "string") this.string(node, table, path);
    else if (node.type === "number") this.number(node, table, path);
  }

  private object(node: ObjectNode, table: TypeTable, path: Path): void {
    for (const field of table.fields ?? []) {
      if (!field.required || node.members.has(field.name)) continue;
      const place = path.length === 0 ? this.kind : shownPath(path);
      this.put("missing-key", node, [...path, field.name], messages.missingKey({ key: field.name, place }));
    }
    for (const [key, member] of node.members) {
      const declared = memberType(table, key);
      const place = [...path, key];
      if (declared) this.value(member, declared, place);
      else if (table.fields) this.unknown(member, place, node, table.fields);
      else this.open(member, place);
      // A map of numbers is open too: an integer literal in it has to be exact.
      if (declared && table.values && member.type === "number") this.open(member, place);
    }
  }

  private array(node: Node & { type: "array" }, table: TypeTable, path: Path): void {
    const { minItems = 0, maxItems = Infinity, items } = table;
    const count = node.items.length;
    const expected =
      count < minItems ? messages.expectedAtLeast({ bound: minItems })
      : count > maxItems ? messages.expectedAtMost({ bound: maxItems })
      : "";
    if (expected) this.put("out-of-range", node, path, messages.unexpectedLength({ path: shownPath(path), count, expected }));
    if (items) node.items.forEach((item, index) => this.value(item, items, [...path, index]));
  }

  private string(node: Node & { type: "string" }, table: TypeTable, path: Path): void {
    if (table.const !== undefined && table.const !== node.value) this.unexpected(node, path, constant(table.const));
    else if (table.enum && !table.enum.includes(node.value)) this.unexpected(node, path, messages.expectedOneOf({ values: table.enum.map(constant).join(", ") }));
    else if (table.pattern && !new RegExp(table.pattern, "u").test(node.value)) {
      this.add("bad-format", node, path, shown(node), messages.expectedName);
    } else if (table.format && !isDateTime(node.value)) {
      this.add("bad-format", node, path, shown(node), messages.expectedDateTime);
    }
  }

  private number(node: NumberNode, table: TypeTable, path: Path): void {
    const value = Number(node.text);
    if (!node.isInteger && table.types.includes("integer") && node.offset < (this.firstFloat?.node.offset ?? Infinity)) this.firstFloat = { node, path };
    if (table.const !== undefined && table.const !== value) {
      this.unexpected(node, path, constant(table.const), shownAs(node, table));
      return;
    }
    const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = table;
    const expected =
      value < minimum ? messages.expectedAtLeast({ bound: minimum })
      : value > maximum ? messages.expectedAtMost({ bound: maximum })
      : value <= exclusiveMinimum || value >= exclusiveMaximum ? messages.expectedBinary32
      : "";
    if (expected) this.add("out-of-range", node, path, shownAs(node, table), expected);
    else if (table.types.includes("integer")) this.open(node, path);
  }

  /** Looks at a value of which the schema says nothing but that integers in it have to be exact. */
  private open(node: Node, path: Path): void {
    if (node.type === "object") node.members.forEach((member, key) => this.open(member, [...path, key]));
    else if (node.type === "array") node.items.forEach((item, index) => this.open(item, [...path, index]));
    else if (node.type === "number" && node.isInteger && !isSafe(node.text)) {
      if (this.problems.at(-1)?.pointer === pointerTo(path)) return;
      this.add("unsafe-integer", node, path, shown(node), messages.expectedSafeInteger({ limit: LIMITS.max_safe_integer }));
    }
  }

  private unknown(node: Node, path: Path, around: ObjectNode, fields: readonly FieldTable[]): void {
    const suggest = () => {
      const absent = fields.map((field) => field.name).filter((name) => !around.members.has(name));
      return nearest(String(path.at(-1)), absent);
    };
    this.put("unknown-key", node, path, "", { path: path.filter((part) => typeof part === "string").join("."), suggest });
  }

  private hasType(node: Node, types: string[]): boolean {
    if (types.includes(node.type)) return true;
    return node.type === "number" && types.includes("integer") && (node.isInteger || (this.takesFloats && isWhole(node)));
  }

  private unexpected(node: Node, path: Path, expected: string, found: string = shown(node)): void {
    const rule = pointerTo(path) === DECLARES_SCHEMA[this.kind] ? "unsupported-schema" : "unexpected-value";
    this.add(rule, node, path, found, expected);
  }

  private add(rule: string, node: Node, path: Path, found: string, expected: string): void {
    this.put(rule, node, path, messages.unexpected({ path: shownPath(path), found, expected }));
  }

  put(rule: string, node: Node, path: Path, message: string, key?: UnknownKey): void {
    this.problems.push({ rule, offset: node.offset, pointer: pointerTo(path), message, ...(key ? { key } : {}) });
  }
}

/** Returns a number of an integer place as the integer that it is, however it is written. */
function shownAs(node: NumberNode, table: TypeTable): string {
  return table.types.includes("integer") && !table.types.includes("number") ? shortened(String(integerOf(node))) : shown(node);
}

function shownPath(path: Path): string {
  return shortened(pointerTo(path).slice(1));
}

function constant(value: string | number): string {
  return typeof value === "string" ? quoted(value) : String(value);
}


/** Decides on the text, since numbers beyond 2^53 are rounded when they are read. */
function isSafe(text: string): boolean {
  if (text.length < String(LIMITS.max_safe_integer).length) return true;
  const value = BigInt(text);
  return value <= BigInt(LIMITS.max_safe_integer) && value >= -BigInt(LIMITS.max_safe_integer);
}
