/** Several runs as one, as toyspec.core.runs.groups has it: which are together, in what order, and the mean of their curves with a band. */

import { compared, type Value } from "./expression.js";
import { lowered } from "./lowered.js";
import { type Look, lookOf, tintOf } from "./palette.js";
import type { Run } from "./protocol.js";
import { fieldOf, settingsOf, varietyOf } from "./run-fields.js";
import { counted } from "./text.js";

export type Band = "sd" | "se" | "range" | "quartiles";
type Field = Value | readonly Value[] | undefined;
type Numbers = ArrayLike<number>;

/** What a band is, the default first; the sd is that of a sample, by n - 1. */
export const BANDS: { readonly [band in Band]: string } = { sd: "± 1 sd", se: "± 1 standard error", range: "min to max", quartiles: "quartiles" };
/** Values that differ by less, as a share of the largest, differ by rounding alone. */
const PRECISION = 8 * Number.EPSILON;

export interface Group {
  /** One for each key. */
  values: readonly Field[];
  /** Places among all runs. */
  members: number[];
}

/** Returns the groups of rows of values, one row for each run: numbers by size, false and true, text by its numbers, then none. */
export function groupsOf(rows: readonly (readonly Field[])[]): Group[] {
  const found = new Map<string, Group>();
  rows.forEach((values, at) => {
    const key = JSON.stringify(values.map((value) => (rankOf(value) === 3 ? null : Array.isArray(value) ? value.join(", ") : value === 0 ? 0 : value)));
    const known = found.get(key);
    if (known) known.members.push(at);
    else found.set(key, { values, members: [at] });
  });
  const order = (a: Group, b: Group) => a.values.reduce<number>((sign, value, at) => sign || ordered(value, b.values[at]), 0);
  return [...found.values()].sort(order);
}

/** Returns whether groups are by one number: their colours are a scale then. */
export function areOrdered(groups: readonly Group[]): boolean {
  const ranks = groups.filter(({ values }) => values.length === 1).map(({ values }) => rankOf(values[0]));
  return ranks.filter((rank) => rank === 0).length > 1 && ranks.every((rank) => rank === 0 || rank === 3);
}

/** Returns `lr 0.001, wd none, 5 runs`. */
export function groupName(keys: readonly string[], { values, members }: Group): string {
  const ends = keys.map((key) => key.replace(/^config\.(.*\.)?/, ""));
  const names = new Set(ends).size === ends.length ? ends : keys;
  return [...names.map((name, at) => `${name} ${wholeText(values[at])}`), counted(members.length, "run")].join(", ");
}

/** Returns a value of a field whole: two values are never one text by rounding. */
export function wholeText(value: Field): string {
  return Array.isArray(value) ? value.join(", ") : value === undefined || value === null ? "none" : String(value);
}

/** Returns the settings that differ between runs but *name*; a text that is another one in every run does not count. */
export function keysWithout(runs: readonly Run[], name: string): string[] {
  const telling = runs.filter(({ config }) => Object.keys(config).length > 0);
  const isOfEach = (key: string) => varietyOf(runs, key) === runs.length && runs.every((run) => typeof fieldOf(run, key) === "string");
  return settingsOf(runs).filter((key) => varietyOf(telling, key) > 1 && !isNamed(key, name) && !isOfEach(key));
}

function isNamed(key: string, name: string): boolean {
  return key.replace("config", "").endsWith(`.${name.replace(/^config\./, "")}`);
}

/** How a group is asked for: `-seed` are the runs that differ in the seed alone, other keys are separated by commas. */
export function keysOf(runs: readonly Run[], group: string): string[] {
  return group.startsWith("-") ? keysWithout(runs, group.slice(1)) : group.split(",");
}

/** Returns the groups of runs by keys. */
export function runGroups(runs: readonly Run[], keys: readonly string[]): (Group & { runs: Run[]; name: string })[] {
  return groupsOf(runs.map((run) => keys.map((key) => fieldOf(run, key)))).map((group) => ({ ...group, runs: group.members.map((at) => runs[at]!), name: groupName(keys, group) }));
}

/** Returns the ways to group runs: over the seed, and by what some runs share and others do not. */
export function groupKeys(runs: readonly Run[]): string[] {
  const keys = settingsOf(runs);
  const found = ["root", "group", "tags", ...keys].filter((key) => {
    const variety = varietyOf(runs, key);
    return variety > 1 && variety < runs.length;
  });
  const seed = keys.find((key) => /[._]seed$/i.test(key) && varietyOf(runs, key) > 1);
  const over = `-${seed?.slice("config.".length)}`;
  return seed !== undefined && runGroups(runs, keysOf(runs, over)).some(({ members }) => members.length > 1) ? [over, ...found] : found;
}

/** Returns how the runs of each group are drawn, by their ids: those of a number by a scale. */
export function groupLooks(groups: readonly (Group & { runs: Run[] })[]): Map<string, Look> {
  const isOrdered = areOrdered(groups);
  return new Map(groups.flatMap(({ runs }, at) => {
    const look = isOrdered ? { colour: 0, dash: [], tint: tintOf(at / (groups.length - 1)) } : lookOf(at);
    return runs.map(({ id }): [string, Look] => [id, look]);
  }));
}

function rankOf(value: Field): number {
  return value === undefined || value === null ? 3 : typeof value === "number" ? 0 : typeof value === "boolean" ? 1 : 2;
}

function ordered(a: Field, b: Field): number {
  const rank = rankOf(a);
  if (rank !== rankOf(b)) return rank - rankOf(b);
  return rank < 2 ? Number(a) - Number(b) : rank === 3 ? 0 : naturally(wholeText(a), wholeText(b));
}

function naturally(a: string, b: string): number {
  const [one, other] = [a, b].map((text) => text.split(/([0-9]+)/)) as [string[], string[]];
  for (let at = 0; at < Math.min(one.length, other.length); at++) {
    const [x, y] = [one[at]!, other[at]!].map((part) => (at % 2 ? part.replace(/^0+/, "") : lowered(part))) as [string, string];
    const sign = (at % 2 ? x.length - y.length : 0) || compared(x, y);
    if (sign !== 0) return sign;
  }
  return one.length - other.length || compared(a, b);
}

/** The mean of curves at the same places with a band; NaN where none of them has a value. */
export interface Mean {
  mean: Float64Array;
  low: Float64Array;
  high: Float64Array;
  /** How many of the curves have a value. */
  number: Float64Array;
}

/**
 * Returns the mean at each place of rows, NaN where one has no value: within the values, and one number where they differ by rounding alone.
 * For the band `range`, *extremes* are the lowest and the highest values, where these are known.
 */
export function meanOf(rows: readonly Numbers[], band: Band, extremes?: readonly [Numbers, Numbers]): Mean {
  const { length } = rows[0]!;
  const [mean, low, high, number] = [NaN, NaN, NaN, 0].map((value) => new Float64Array(length).fill(value)) as [Float64Array, Float64Array, Float64Array, Float64Array];
  const values = new Float64Array(rows.length);
  let scale = 0;
  for (let at = 0; at < length; at++) {
    let count = 0;
    for (const row of rows) {
      const value = row[at]!;
      if (!Number.isFinite(value)) continue;
      values[count++] = value;
      if (Math.abs(value) > scale) scale = Math.abs(value);
    }
    const known = values.subarray(0, count);
    number[at] = count;
    if (known.length === 0) continue;
    const middle = meanValue(known);
    mean[at] = middle;
    [low[at], high[at]] = band !== "range" ? bandOf(known, middle, band) : extremes ? [Math.min(extremes[0][at]!, middle), Math.max(extremes[1][at]!, middle)] : [Math.min(...known), Math.max(...known)];
  }
  for (const column of [mean, low, high]) settle(column, scale);
  return low.every((value, at) => !(high[at]! - value > PRECISION * scale)) ? { mean, low: mean, high: mean, number } : { mean, low, high, number };
}

function meanValue(values: Float64Array): number {
  const [base, count] = [values[0]!, values.length];
  // Of equal values nothing is added, and no sum is infinite.
  let [total, least, most] = [base, base, base];
  for (const value of values) {
    total += value / count - base / count;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return Math.min(Math.max(total, least), most);
}

function bandOf(values: Float64Array, mean: number, band: Band): [number, number] {
  if (values.length < 2) return [mean, mean];
  if (band === "quartiles") {
    values.sort();
    return [quantile(values, 0.25), quantile(values, 0.75)];
  }
  // Halves, and shares of the farthest, keep squares of the largest numbers finite.
  const far = values.reduce((most, value) => Math.max(most, Math.abs(value / 2 - mean / 2)), 0);
  if (far === 0) return [mean, mean];
  const total = values.reduce((sum, value) => sum + ((value / 2 - mean / 2) / far) ** 2, 0);
  const spread = 2 * ((far * Math.sqrt(total / (values.length - 1))) / (band === "se" ? Math.sqrt(values.length) : 1));
  return [Math.max(mean - spread, -Number.MAX_VALUE), Math.min(mean + spread, Number.MAX_VALUE)];
}

function quantile(ordered: Float64Array, share: number): number {
  const place = share * (ordered.length - 1);
  const left = Math.floor(place);
  return between(ordered[left]!, ordered[Math.min(left + 1, ordered.length - 1)]!, place - left);
}

/** Returns the value on the line between two, and not beyond them; exactly theirs where they are equal. */
function between(left: number, right: number, share: number): number {
  let value = left + (right - left) * share;
  if (!Number.isFinite(value)) value = left * (1 - share) + right * share;
  return Math.min(Math.max(value, Math.min(left, right)), Math.max(left, right));
}

/** Makes derived values one number where they differ less than numbers as large as *scale* are precise. */
export function settle(values: Float64Array, scale: number): void {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  if (!(most - least <= PRECISION * scale)) return;
  const first = values.find((value) => !Number.isNaN(value))!;
  values.forEach((value, at) => {
    if (!Number.isNaN(value)) values[at] = first;
  });
}

/** Returns the values of a curve at ascending places, on the line between two points; NaN before *first*, after the last point, and beside a NaN. */
export function resampled(own: Numbers, values: Numbers, wanted: Numbers, first: number): Float64Array {
  const found = new Float64Array(wanted.length).fill(NaN);
  for (let index = 0, at = 0; index < wanted.length; index++) {
    const place = wanted[index]!;
    while (at < own.length && own[at]! < place) at++;
    if (at === own.length) break;
    if (own[at] === place || at === 0) found[index] = own[at] === place || place >= first ? values[at]! : NaN;
    else found[index] = between(values[at - 1]!, values[at]!, (place - own[at - 1]!) / (own[at]! - own[at - 1]!));
  }
  return found;
}

/** Returns where some of *total* members are missing: the first bucket, that after the last, and how many are there. */
export function incomplete(numbers: Numbers, total: number): [number, number, number][] {
  const found: [number, number, number][] = [];
  for (let begin = 0, at = 1; at <= numbers.length; at++) {
    if (numbers[at] === numbers[begin]) continue;
    if (numbers[begin]! > 0 && numbers[begin]! < total) found.push([begin, at, numbers[begin]!]);
    begin = at;
  }
  return found;
}
