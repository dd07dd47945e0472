/** Where curves are on a chart: ranges, places in pixels, and what is near a point. */

import { type Curve, firstAt } from "../frames.js";
import { nameOf } from "../names.js";
import type { Look } from "../palette.js";
import type { Run } from "../protocol.js";
import { plain } from "../text.js";
import type { Envelope } from "./grouping.js";

export interface Range {
  from: number;
  to: number;
  isLog: boolean;
}

/** One run on a chart. */
export interface Series {
  run: Run;
  metric: string;
  /** Whether it is of the second metric of a chart with two. */
  isSecond: boolean;
  look: Look;
  /** True for one of many that only give the background. */
  isQuiet: boolean;
  curve: Curve;
  abandoned: Curve | null;
  smooth: Float64Array | null;
  /** Added to places: the start of the run on the wall clock. */
  shift: number;
  /** Number of curves that it is the mean of. */
  members?: number;
  /** What is around a mean. */
  about?: string;
  /** What it is of the one run that is shown. */
  kin?: "rank" | "ancestor";
  /** The run that it is a rank of, where several runs are shown. */
  rankOf?: Run;
}

/** A note or a finding beside a curve. */
export interface Flag {
  kind: "note" | "error" | "warning";
  place: number;
  text: string;
}

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Plot {
  series: readonly Series[];
  /** From the lowest to the highest value of the runs that are only background. */
  envelope: Envelope | null;
  /** Runs that are seen as the envelope alone, for their marks. */
  background: readonly Series[];
  /** Which curves leave the field of the others; absent where none does. */
  leaving?: Leaving;
  /** Those whose spikes are ticks at the upper edge: drawn whole, they would hide the curves. */
  ticked?: ReadonlySet<Series>;
  /** Whether some of the series are means of groups. */
  hasGroups: boolean;
  /** Notes and findings of the one run that is shown. */
  flags: readonly Flag[];
  x: Range;
  y: Range;
  box: Box;
}

/** Returns the function that maps values of a range to pixels. */
export function placer(range: Range, start: number, length: number): (value: number) => number {
  if (range.isLog) {
    const [low, high] = [Math.log10(range.from), Math.log10(range.to)];
    const scale = length / (high - low || 1);
    return (value) => start + (Math.log10(value) - low) * scale;
  }
  const scale = length / (range.to - range.from || 1);
  const { from } = range;
  return (value) => start + (value - from) * scale;
}

/** Returns the functions that map places and values to pixels of a plot. */
export function placers({ x, y, box }: Pick<Plot, "x" | "y" | "box">): { across(place: number): number; down(value: number): number } {
  return { across: placer(x, box.left, box.width), down: placer(y, box.top + box.height, -box.height) };
}

/** Returns the value at a pixel: the inverse of `placer`. */
export function valueAt(range: Range, start: number, length: number, pixel: number): number {
  const share = (pixel - start) / (length || 1);
  if (range.isLog) return 10 ** (Math.log10(range.from) + share * (Math.log10(range.to) - Math.log10(range.from)));
  return range.from + share * (range.to - range.from);
}

/** Returns the range of x over whole curves; null without any point. */
export function wholeRange(series: readonly Series[], isLog: boolean): Range | null {
  let [from, to] = [Infinity, -Infinity];
  for (const { curve, shift } of series) {
    const known = curve.header.range[curve.axis];
    if (!known) continue;
    from = Math.min(from, known[0] + shift);
    to = Math.max(to, known[1] + shift);
  }
  if (!(from <= to)) return null;
  // Zero has no place on a logarithmic axis; the first step after it begins the axis.
  if (isLog && from <= 0) from = Math.min(1, to / 10);
  if (isLog && !(from > 0)) return null;
  // A single place is in the middle.
  if (from === to) return { from: isLog ? from : from - 1, to: to + 1, isLog };
  return { from, to, isLog };
}

/** Curves that leave the field which most have in common, and the range of the others. */
export interface Leaving {
  above: number;
  below: number;
  range: Range;
  /** Whether the chart shows the range of the others. */
  isFolded: boolean;
}

/** At most this share of curves leaves at each side, by more than the height of the field, and makes the range so many times higher. */
const [FEW, PRESSED] = [0.2, 3];

/** Returns which of several curves are far from what nearly all of them have in common; undefined where the range of all shows each. */
export function leavingOf(series: readonly Series[], x: Range, isLog: boolean): Omit<Leaving, "isFolded"> | undefined {
  const scale = (value: number) => (isLog ? Math.log10(value) : value);
  const all = series.map(({ curve, shift }) => extentOf(curve, visible(curve, x, shift), isLog)).filter(([low, high]) => low <= high && (!isLog || low > 0));
  const few = Math.floor(all.length * FEW);
  const at = (side: 0 | 1, place: number) => scale(all.map((each) => each[side]).sort((a, b) => a - b)[place]!);
  if (few === 0) return undefined;
  const [low, high] = [at(0, few), at(1, all.length - 1 - few)];
  const height = high - low;
  const above = all.filter((each) => scale(each[1]) > high + height);
  const below = all.filter((each) => scale(each[0]) < low - height);
  const others = all.filter((each) => !above.includes(each) && !below.includes(each));
  const ends = (some: readonly Extent[]) => [Math.min(...some.map(([least]) => least)), Math.max(...some.map(([, most]) => most))] as const;
  const [[from, to], [least, most]] = [ends(others), ends(all)];
  const isPressed = height > 0 && others.length < all.length && scale(most) - scale(least) > PRESSED * (scale(to) - scale(from));
  return isPressed ? { above: above.length, below: below.length, range: padded(from, to, isLog) } : undefined;
}

/** Returns the range of y over what is visible of curves, with a margin. */
export function valueRange(series: readonly Series[], x: Range, isLog: boolean): Range {
  const all = series.map(({ curve, shift }) => extentOf(curve, visible(curve, x, shift), isLog));
  return padded(Math.min(...all.map(([low]) => low)), Math.max(...all.map(([, high]) => high)), isLog);
}

type Extent = readonly [number, number];

/** The extents of whole curves, by linear and logarithmic axis. */
const EXTENTS = { linear: new WeakMap<Curve, Extent>(), log: new WeakMap<Curve, Extent>() };

/** Returns the lowest and the highest value of a part of a curve that has a place on an axis; infinite where there is none. */
function extentOf(curve: Curve, [first, last]: readonly [number, number], isLog: boolean): Extent {
  const known = EXTENTS[isLog ? "log" : "linear"];
  const isWhole = first === 0 && last === curve.length;
  const kept = isWhole ? known.get(curve) : undefined;
  if (kept) return kept;
  const { min, max } = curve;
  let [low, high] = [Infinity, -Infinity];
  for (let i = first; i < last; i++) {
    const least = min[i]!;
    if (max[i]! > high) high = max[i]!;
    // On a logarithmic axis a 0 has no place, but the other values of its bucket have.
    const lowest = isLog && least <= 0 ? leastPositive(curve, i) : least;
    if (lowest < low) low = lowest;
  }
  if (isWhole) known.set(curve, [low, high]);
  return [low, high];
}

function leastPositive(curve: Curve, bucket: number): number {
  const positive = [curve.mean[bucket]!, curve.max[bucket]!].filter((value) => value > 0);
  return Math.min(...positive);
}

/** Returns whether a visible value is above 0: without one, a logarithmic axis has no place for any. */
export function hasPositive(series: readonly Series[], x: Range): boolean {
  return series.some(({ curve, shift }) => {
    const [first, last] = visible(curve, x, shift);
    return curve.max.subarray(first, last).some((most) => most > 0);
  });
}

function padded(low: number, high: number, isLog: boolean): Range {
  if (isLog) {
    if (!(low > 0 && high > 0 && low <= high)) return { from: 1, to: 10, isLog };
    const margin = low === high ? 2 : (high / low) ** 0.04;
    return { from: Math.max(low / margin, Number.MIN_VALUE), to: Math.min(high * margin, Number.MAX_VALUE), isLog };
  }
  if (!(low <= high)) return { from: 0, to: 1, isLog };
  // Halves keep the span of the largest numbers finite.
  const margin = low === high ? Math.abs(low) * 0.1 || 1 : (high / 2 - low / 2) * 0.1;
  return { from: Math.max(low - margin, -Number.MAX_VALUE / 4), to: Math.min(high + margin, Number.MAX_VALUE / 4), isLog };
}

/** Returns the first bucket of a curve that is to be drawn, and the one after the last. */
export function visible(curve: Curve, x: Range, shift: number): [number, number] {
  if (!isSorted(curve)) return [0, curve.length];
  return [Math.max(0, firstAt(curve.place, x.from - shift) - 1), Math.min(curve.length, firstAt(curve.place, x.to - shift) + 1)];
}

/** By places, which curves share. */
const ORDERS = new WeakMap<Float64Array, boolean>();

function isSorted({ place: places }: Curve): boolean {
  let known = ORDERS.get(places);
  if (known === undefined) {
    known = places.every((place, i) => i === 0 || place >= places[i - 1]!);
    ORDERS.set(places, known);
  }
  return known;
}

/** Returns the bucket of a curve that is next to a place; -1 for a curve without buckets. */
export function nearest(curve: Curve, place: number): number {
  if (curve.length === 0) return -1;
  if (isSorted(curve)) {
    const at = Math.min(firstAt(curve.place, place), curve.length - 1);
    return at > 0 && place - curve.place[at - 1]! < curve.place[at]! - place ? at - 1 : at;
  }
  let best = 0;
  curve.place.forEach((each, i) => {
    if (Math.abs(each - place) < Math.abs(curve.place[best]! - place)) best = i;
  });
  return best;
}

/** Returns the name of a series: that of its run, with the metric in a chart of two. */
export function seriesName({ run, metric, isSecond }: Series): string {
  return isSecond ? `${nameOf(run)} · ${plain(metric, 60)}` : nameOf(run);
}

/** Returns the value that is drawn at a bucket. */
export function drawn(series: Series, at: number): number {
  return lineOf(series)[at]!;
}

/** Returns the values through which the line of a run goes. */
export function lineOf(series: Series): Float64Array {
  return series.smooth ?? series.curve.mean;
}
