/** Judges one record by its schema: see spec/checking.md#the-record-layer. */

import { isDateTime } from "./date-times.js";
import { memberType } from "./profiles.js";
import { type Node, type ObjectNode, pointerTo } from "./scanner.js";
import { LIMITS, type FieldTable, type TypeTable } from "./tables.js";

/** One fault in a record; `offset` counts from the start of the line. */
export interface RecordFault {
  rule: string;
  offset: number;
  pointer: string;
  message: string;
  /** For unknown-key: the key with those around it, array indexes left out. */
  path?: string;
}

/** Returns the faults of a record of a known kind; at most one for each pointer. */
export function judgeRecord(record: ObjectNode, fields: FieldTable[], declaresSchema: string | null): RecordFault[] {
  const judge = new Judge(declaresSchema);
  judge.value(record, { types: ["object"], fields }, []);
  return judge.faults;
}

type Path = readonly (string | number)[];

class Judge {
  readonly faults: RecordFault[] = [];

  constructor(private readonly declaresSchema: string | null) {}

  value(node: Node, table: TypeTable, path: Path): void {
    if (!hasType(node, table.types)) {
      this.add("wrong-type", node, path, `is ${shown(node)}, not ${table.types.join(" or ")}`);
      return;
    }
    if (node.type === "object") this.object(node, table, path);
    else if (node.type === "array") this.array(node, table, path);
    else if (node.type === "string") this.string(node, table, path);
    else if (node.type === "number") this.number(node, table, path);
  }

  private object(node: ObjectNode, table: TypeTable, path: Path): void {
    for (const field of table.fields ?? []) {
      if (field.required && !node.members.has(field.name)) {
        this.add("missing-key", node, [...path, field.name], "is missing");
      }
    }
    for (const [key, member] of node.members) {
      const declared = memberType(table, key);
      const place = [...path, key];
      if (declared) this.value(member, declared, place);
      else if (table.fields) this.unknown(member, place);
      else this.open(member, place);
      // A map of numbers is open too: an integer literal in it has to be exact.
      if (declared && table.values && member.type === "number") this.open(member, place);
    }
  }

  private array(node: Node & { type: "array" }, table: TypeTable, path: Path): void {
    const { minItems = 0, maxItems = Infinity, items } = table;
    const count = node.items.length;
    if (count < minItems || count > maxItems) this.add("out-of-range", node, path, `has ${count} items, not ${minItems}`);
    if (items) node.items.forEach((item, index) => this.value(item, items, [...path, index]));
  }

  private string(node: Node & { type: "string" }, table: TypeTable, path: Path): void {
    const allowed = table.enum ?? (table.const === undefined ? undefined : [table.const]);
    if (allowed && !allowed.includes(node.value)) this.unexpected(node, path, allowed);
    else if (table.pattern && !new RegExp(table.pattern, "u").test(node.value)) {
      this.add("bad-format", node, path, `is ${shown(node)}, which does not have the required form`);
    } else if (table.format && !isDateTime(node.value)) {
      this.add("bad-format", node, path, `is ${shown(node)}, not a date-time with a zone that exists`);
    }
  }

  private number(node: Node & { type: "number" }, table: TypeTable, path: Path): void {
    const value = Number(node.text);
    if (table.const !== undefined && table.const !== value) {
      this.unexpected(node, path, [table.const]);
      return;
    }
    const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = table;
    if (value < minimum || value > maximum || value <= exclusiveMinimum || value >= exclusiveMaximum) {
      this.add("out-of-range", node, path, `is ${shown(node)}, outside its range`);
    } else if (table.types.includes("integer")) this.open(node, path);
  }

  /** Looks at a value of which the schema says nothing but that integers in it have to be exact. */
  private open(node: Node, path: Path): void {
    if (node.type === "object") node.members.forEach((member, key) => this.open(member, [...path, key]));
    else if (node.type === "array") node.items.forEach((item, index) => this.open(item, [...path, index]));
    else if (node.type === "number" && node.isInteger && !isSafe(node.text)) {
      if (this.faults.at(-1)?.pointer !== pointerTo(path)) this.add("unsafe-integer", node, path, `is ${shown(node)}, which binary64 does not hold`);
    }
  }

  private unknown(node: Node, path: Path): void {
    this.add("unknown-key", node, path, "is not known");
    this.faults.at(-1)!.path = path.join(".");
  }

  private unexpected(node: Node, path: Path, allowed: readonly unknown[]): void {
    const pointer = pointerTo(path);
    const rule = pointer === this.declaresSchema ? "unsupported-schema" : "unexpected-value";
    this.add(rule, node, path, `is ${shown(node)}, not ${allowed.join(", ")}`);
  }

  private add(rule: string, node: Node, path: Path, message: string): void {
    this.faults.push({ rule, offset: node.offset, pointer: pointerTo(path), message: `${path.join(".")} ${message}` });
  }
}

function hasType(node: Node, types: string[]): boolean {
  return types.includes(node.type) || (node.type === "number" && node.isInteger && types.includes("integer"));
}

/** Decides on the text, since numbers beyond 2^53 are rounded when they are read. */
function isSafe(text: string): boolean {
  const value = BigInt(text);
  return value <= BigInt(LIMITS.max_safe_integer) && value >= -BigInt(LIMITS.max_safe_integer);
}

/** Returns a value for a message: its text, cut. */
export function shown(node: Node): string {
  if (node.type === "object") return "an object";
  if (node.type === "array") return "an array";
  if (node.type === "null") return "null";
  const text = node.type === "number" ? node.text : JSON.stringify(node.value);
  return text.length > LIMITS.max_message_value_chars ? text.slice(0, LIMITS.max_message_value_chars - 1) + "…" : text;
}
