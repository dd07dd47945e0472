/** The metrics of one record, by name. */

import { PLACES } from "./number-lines.js";
import type { Members } from "./scan.js";

const PLACE_NAMES: ReadonlySet<string> = new Set([...PLACES, "kind", "phase", "extra"]);

/** Returns the members that are numbers, or null for one that is not finite. */
export function numbersOf(members: Members | null | undefined, prefix = ""): Map<string, number> {
  const found = new Map<string, number>();
  if (members === null || typeof members !== "object" || Array.isArray(members)) return found;
  for (const [name, value] of Object.entries(members)) if (typeof value === "number" || value === null) found.set(prefix + name, value ?? NaN);
  return found;
}

/** Returns the metrics of a record: its numbers, and those of its extra. */
export function membersOf(value: Members, prefix = ""): Map<string, number> {
  const own = Object.fromEntries(Object.entries(value).filter(([name]) => !PLACE_NAMES.has(name)));
  return new Map([...numbersOf(value["extra"] as Members, prefix), ...numbersOf(own, prefix)]);
}

/** Returns the numbers of a system record, which are not metrics of the training, by names of their own. */
export function systemNumbers({ t: _time, step: _step, extra, ...own }: Members): Map<string, number> {
  const found = new Map([...numbersOf(own, "system/"), ...numbersOf(extra as Members, "system/")]);
  for (const [name, value] of found) if (Number.isNaN(value)) found.delete(name);
  return found;
}
