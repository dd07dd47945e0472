/** Values and numbers in the words of messages. */

import { shortened } from "./escaping.js";
import { times as timesText } from "./messages.js";
import { binary64Text } from "./numbers.js";
import type { Node } from "./scanner.js";

const NOT_PLAIN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

/** Returns a value for a message: its JSON text, cut; what is inside objects and arrays is left out. */
export function shown(node: Node): string {
  switch (node.type) {
    case "object":
      return "an object";
    case "array":
      return "an array";
    case "number":
      return shortened(numberText(node));
    case "string":
      return quoted(node.value);
    default:
      return node.type === "null" ? "null" : String(node.value);
  }
}

/** Returns a string in double quotes, cut. */
export function quoted(text: string): string {
  const start = [...text.slice(0, 400)].slice(0, 200).join("");
  return shortened(NOT_PLAIN.test(start) ? `"${start}"` : JSON.stringify(start));
}

/** Returns the type of a value with the value, as a noun. */
export function typed(node: Node): string {
  if (node.type === "boolean" || node.type === "string" || node.type === "number") return `the ${node.type} ${shown(node)}`;
  return shown(node);
}

/** Returns the names of JSON types as nouns. */
export function typeNames(types: readonly string[]): string {
  const nouns: { [type: string]: string } = { integer: "an integer", object: "an object", array: "an array", null: "null" };
  return types.map((type) => nouns[type] ?? `a ${type}`).join(" or ");
}

/** Returns what a value is by its first byte, as a noun. */
export function nounOf(node: Node): string {
  if (node.type === "array" || node.type === "object") return `an ${node.type}`;
  return node.type === "boolean" ? String(node.value) : node.type === "null" ? "null" : `a ${node.type}`;
}

/** Returns a number for a message, the same for 1 and 1.0. */
export function shownNumber(value: bigint | number | null): string {
  if (typeof value !== "number") return value === null ? "null" : shortened(String(value));
  return Number.isInteger(value) && Math.abs(value) < 1e16 ? String(value === 0 ? 0 : value) : floatText(value);
}

/** Returns "" for one, else the count. */
export function times(count: number): string {
  return count === 1 ? "" : timesText({ count });
}

function numberText(node: Node & { type: "number" }): string {
  return node.isInteger ? String(BigInt(node.text)) : binary64Text(Number(node.text));
}

/** Shortest digits; an exponent below 1e-4 and from 1e16 on, with two digits. */
function floatText(value: number): string {
  const [mantissa, exponent] = value.toExponential().split("e") as [string, string];
  const power = Number(exponent);
  if (power >= -4 && power < 16) return binary64Text(value);
  return `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}
