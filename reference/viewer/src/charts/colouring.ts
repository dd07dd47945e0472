/** Colours runs by a result or a setting: numbers by a scale, other values by group. */

import { groupLooks, runGroups, wholeText } from "../groups.js";
import { type Look, tintOf } from "../palette.js";
import type { Run } from "../protocol.js";
import { fieldOf, settingsOf, varietyOf } from "../run-fields.js";
import { MOST_GROUPS } from "./grouping.js";

/** Positive numbers that span more than this are coloured by their logarithms. */
const WIDE = 50;
/** More values of a setting than these are coloured by number, if they are numbers. */
const FEW = 3;

/** What the colours of runs mean. */
export interface Colouring {
  looks: ReadonlyMap<string, Look>;
  /** The scale of numbers; null where runs are coloured by group. */
  scale: { low: number; high: number; isLog: boolean } | null;
  /** Each group with the look of its runs. */
  groups: readonly { text: string; look: Look }[];
}

/** Returns the fields by which runs can be coloured: results, and settings that differ. */
export function colourKeys(runs: readonly Run[]): string[] {
  const results = new Set(runs.flatMap(({ metrics }) => Object.entries(metrics).map(([name, { best }]) => `${best === null ? "last" : "best"}.${name}`)));
  return [...results, "state", "reason", "root", "group", ...settingsOf(runs)].filter((key) => varietyOf(runs, key) > 1);
}

/** Returns how runs look by a field; runs without a value keep no look of it. */
export function colouringOf(runs: readonly Run[], key: string): Colouring {
  const values = runs.map((run) => fieldOf(run, key));
  const numbers = values.filter((value) => typeof value === "number" && Number.isFinite(value)) as number[];
  const isNumeric = numbers.length > 0 && values.every((value) => value === undefined || value === null || typeof value === "number");
  if (!isNumeric || (new Set(numbers).size <= FEW && key.startsWith("config."))) return byGroup(runs, key);
  const [low, high] = [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))];
  const isLog = low > 0 && high / low > WIDE;
  const share = (value: number) => (high === low ? 0.5 : isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  const looks = new Map<string, Look>();
  values.forEach((value, at) => {
    if (typeof value === "number" && Number.isFinite(value)) looks.set(runs[at]!.id, { colour: 0, dash: [], tint: tintOf(share(value)) });
  });
  return { looks, scale: { low, high, isLog }, groups: [] };
}

function byGroup(runs: readonly Run[], key: string): Colouring {
  const groups = runGroups(runs, [key]).slice(0, MOST_GROUPS);
  const looks = groupLooks(groups);
  return { looks, scale: null, groups: groups.map(({ values, runs: [first] }) => ({ text: wholeText(values[0]), look: looks.get(first!.id)! })) };
}
