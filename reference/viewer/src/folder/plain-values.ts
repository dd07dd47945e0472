/** Values of the exact reader as JSON.parse gives them. */

import { numberOf } from "../../../typescript/src/numbers.js";
import type { Node, ObjectNode } from "../../../typescript/src/scanner.js";
import type { Json } from "../protocol.js";

/** Returns a value as JSON.parse gives it. */
export function plainValue(node: Node | ObjectNode): Json {
  switch (node.type) {
    case "object":
      return Object.fromEntries([...node.members].map(([name, member]) => [name, plainValue(member)]));
    case "array":
      return node.items.map(plainValue);
    case "number":
      return numberOf(node.text);
    default:
      return "value" in node ? (node.value as Json) : null;
  }
}
