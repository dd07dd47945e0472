/** Finds what must not be lost on a chart: spikes, values that are not finite, gaps and resumptions. */

import type { Curve } from "../frames.js";
import { SPIKE } from "../generated/runs.js";
import type { CurveHeader } from "../protocol.js";
import type { Range, Series } from "./plot.js";

/** Buckets whose lowest or highest value is far from those around it. */
export interface Spike {
  bucket: number;
  /** The places that the bucket covers; the same twice for a single point. */
  from: number;
  /** Both are the exact place, once the points of the bucket were looked at. */
  to: number;
  /** The extreme value as it was logged. */
  value: number;
  /** What values around it are like. */
  base: number;
}

/** Buckets on each side that a bucket is compared with, of which fewer say nothing, and by how many ranges it is apart. */
const { side: SIDE, fewest: FEWEST, far: FAR } = SPIKE;
/** The part of the usual height of a bucket that counts as a range: in short windows the range of extremes is uncertain. */
const SHARE = 0.25;

const KNOWN = new WeakMap<Curve, { linear?: readonly Spike[]; log?: readonly Spike[] }>();

/** Returns the spikes of a curve; on a logarithmic axis distances are those of logarithms. */
export function spikesOf(curve: Curve, isLog: boolean): readonly Spike[] {
  const known = KNOWN.get(curve) ?? {};
  KNOWN.set(curve, known);
  return (known[isLog ? "log" : "linear"] ??= foundSpikes(curve, isLog));
}

/** Returns the places that a bucket covers: from the end of the one before to its own end. */
export function spanOf({ header, axis, place, count }: Curve, bucket: number): [number, number] {
  const to = place[bucket]!;
  if (count[bucket]! <= 1) return [to, to];
  const first = header.range[axis]?.[0] ?? to;
  // In a part of a curve, the first bucket is as long as the next one.
  const before = bucket > 0 ? (count[bucket - 1] === 0 ? to : place[bucket - 1]!) : Math.max(first, 2 * to - (place[1] ?? to));
  const from = bucket === 0 && header.attempt === "latest" && isWhole(header, count) ? first : before;
  return from <= to ? [from, to] : [to, from];
}

/** What is marked below a chart: a run, what happened, and between which places. */
export interface Anomaly {
  series: Series;
  kind: "spike" | "not finite" | "gap" | "resumption" | "alert";
  from: number;
  to: number;
  /** The extreme of a spike. */
  value: number | null;
  /** What an alert says, and its line. */
  alert?: NonNullable<CurveHeader["alerts"]>[number];
}

const BREAKS = new WeakMap<Curve, Set<number> | null>();

/** Returns the buckets before which lines of the log are lost; null for the most curves, which have none. */
export function breaksOf(curve: Curve): Set<number> | null {
  let found = BREAKS.get(curve);
  if (found !== undefined) return found;
  const gaps = (curve.header.gaps ?? []).flatMap((gap) => gap[curve.axis] ?? []);
  found = gaps.length === 0 ? null : new Set();
  for (const gap of gaps) {
    const at = curve.place.findIndex((place) => place > gap);
    if (at > 0) found!.add(at);
  }
  BREAKS.set(curve, found);
  return found;
}

const NOT_FINITE = new WeakMap<Curve, readonly number[]>();

/** Returns the buckets of a curve that have values which are not finite. */
export function notFiniteOf(curve: Curve): readonly number[] {
  let found = NOT_FINITE.get(curve);
  if (!found) {
    const buckets: number[] = [];
    for (let at = 0; at < curve.length; at++) if (curve.nan[at]! > 0) buckets.push(at);
    NOT_FINITE.set(curve, (found = buckets));
  }
  return found;
}

/** Places of values that are not finite, by bucket, once its points were looked at. */
const EXACT = new WeakMap<Curve, Map<number, readonly number[]>>();

/** Returns between which places the values of a bucket that are not finite are: a pair for each that is known. */
export function notFiniteSpans(curve: Curve, bucket: number): readonly (readonly [number, number])[] {
  const exact = EXACT.get(curve)?.get(bucket);
  return exact ? exact.map((place) => [place, place]) : [spanOf(curve, bucket)];
}

/** What is marked over more than a pixel, with how its exact place is taken in. */
export interface Wide {
  /** Names it among those of its curve. */
  key: string;
  from: number;
  to: number;
  settle(points: Curve): void;
}

/** Returns the marks of a curve that are wider than a width in places. */
export function wideMarks(curve: Curve, isLog: boolean, isWide: (from: number, to: number) => boolean): Wide[] {
  const inside = (points: Curve, holds: (at: number) => boolean, [from, to]: readonly [number, number]) =>
    [...points.place.keys()].filter((at) => holds(at) && points.place[at]! >= from && points.place[at]! <= to).map((at) => points.place[at]!);
  const spikes = (spikesOf(curve, isLog) as Spike[]).filter(({ from, to }) => isWide(from, to)).map((spike): Wide => ({
    key: `${spike.bucket} ${spike.value} ${isLog}`, from: spike.from, to: spike.to,
    settle: (points) => {
      const [place] = inside(points, (at) => points.max[at] === spike.value || points.min[at] === spike.value, [spike.from, spike.to]);
      if (place !== undefined) spike.from = spike.to = place;
    },
  }));
  const others = notFiniteOf(curve).filter((bucket) => notFiniteSpans(curve, bucket).some(([from, to]) => isWide(from, to))).map((bucket): Wide => {
    const [from, to] = spanOf(curve, bucket);
    return {
      key: `${bucket} not finite`, from, to,
      settle: (points) => {
        const places = inside(points, (at) => points.nan[at]! > 0, [from, to]);
        if (places.length === 0) return;
        const known = EXACT.get(curve) ?? new Map<number, readonly number[]>();
        EXACT.set(curve, known.set(bucket, places));
      },
    };
  });
  return [...spikes, ...others];
}

/** Returns everything that is marked of a run, within a range of x. */
export function anomaliesOf(series: Series, x: Range, isLog: boolean): Anomaly[] {
  const { curve, shift } = series;
  const places = (marks: CurveHeader["gaps"] | CurveHeader["resumes"] | CurveHeader["alerts"], kind: Anomaly["kind"]) =>
    (marks ?? []).flatMap((mark): Anomaly[] => {
      const place = mark[curve.axis];
      return place === null || place === undefined ? [] : [{ series, kind, from: place + shift, to: place + shift, value: null }];
    });
  const all: Anomaly[] = [
    ...spikesOf(curve, isLog).map(({ from, to, value }): Anomaly => ({ series, kind: "spike", from: from + shift, to: to + shift, value })),
    ...notFiniteOf(curve).flatMap((at) => notFiniteSpans(curve, at)).map(([from, to]): Anomaly => ({ series, kind: "not finite", from: from + shift, to: to + shift, value: null })),
    ...places(curve.header.gaps, "gap"), ...places(curve.header.resumes, "resumption"),
    ...(curve.header.alerts ?? []).flatMap((alert) => places([alert], "alert").map((found) => ({ ...found, alert }))),
  ];
  return all.filter(({ from, to }) => to >= x.from && from <= x.to);
}

function isWhole({ points }: Curve["header"], count: Float64Array): boolean {
  if (points <= count.length * count[0]!) return true;
  // In a report buckets have different numbers of points.
  return points <= count.reduce((sum, some) => sum + some, 0);
}

function foundSpikes(curve: Curve, isLog: boolean): Spike[] {
  const { min, max, mean, count } = curve;
  const [first] = min;
  // Many metrics stay the same, and then all of them would be put in order.
  if (min.every((value) => value === first) && max.every((value) => value === first)) return [];
  const scale = (value: number) => (value > 0 ? Math.log10(value) : NaN);
  const high = isLog ? max.map(scale) : max;
  const low = isLog ? min.map(scale) : min.slice();
  for (let at = 0; at < low.length; at++) low[at] = -low[at]!;
  const { level } = curve.header;
  const range = level === 1 ? null : high.map((value, at) => value + low[at]!);
  const spike = (values: Float64Array, sign: 1 | -1) => ({ at, base }: { at: number; base: number }): Spike => {
    const [from, to] = spanOf(curve, at);
    return { bucket: at, from, to, value: values[at]!, base: isLog ? 10 ** (sign * base) : sign * base };
  };
  const ups = { top: high, range, plain: { top: max, low: min, mean, sign: 1 }, count };
  const downs = { top: low, range, plain: { top: min, low: max, mean, sign: -1 }, count };
  const ordered = orderedOf(high);
  return [...peaks(ups, ordered).map(spike(max, 1)), ...peaks(downs, level === 1 ? turned(ordered, low) : orderedOf(low)).map(spike(min, -1))];
}

/** Buckets whose extremes on one side are looked at, turned so that this side is up. */
interface Sided {
  top: Float64Array;
  /** From the lowest to the highest value of each bucket; null for single points. */
  range: Float64Array | null;
  /** The values themselves times *sign*, where distances are those of logarithms; a mean is one of values. */
  plain: { top: Float64Array; low: Float64Array; mean: Float64Array; sign: number };
  /** Points of each bucket. */
  count: Float64Array;
}

function peaks(sided: Sided, ordered: Ordered): { at: number; base: number }[] {
  const { top, range } = sided;
  const { limit, before } = ordered;
  const found: { at: number; base: number }[] = [];
  for (let at = 0; at < top.length; at++) {
    const value = top[at]!;
    if (!(value > limit[at >> BLOCK_BITS]!)) continue;
    const base = baseOf(top, at, ordered);
    if (base === null || !(value - base > 1e-9 * Math.abs(base))) continue;
    if (range && !(value - base > FAR * SHARE * usualRange(range, top, at))) continue;
    const isFirst = before[at] === before[Math.max(0, at - SIDE)];
    const isLast = before[at + 1] === before[Math.min(top.length, at + SIDE + 1)];
    if (!((isFirst && isFall(sided, at, 1)) || (isLast && isFall(sided, at, -1)))) found.push({ at, base });
  }
  return found;
}

/** Returns the median of the ranges of the neighbours of a bucket. */
function usualRange(range: Float64Array, top: Float64Array, at: number): number {
  const values: number[] = [];
  for (let other = Math.max(0, at - SIDE); other < Math.min(top.length, at + SIDE + 1); other++) if (other !== at && !Number.isNaN(top[other]!) && !Number.isNaN(range[other]!)) values.push(range[other]!);
  return values.sort((a, b) => a - b)[rankOf(0.5, values.length)] ?? 0;
}

/** Returns the place of a quantile among so many values in ascending order. */
function rankOf(share: number, count: number): number {
  return Math.floor(share * (count - 1));
}

/** Returns whether the values beside the first or last bucket go on from it: a loss that falls from its start has no spike there. */
function isFall({ top, range, plain, count }: Sided, at: number, by: 1 | -1): boolean {
  const [value, next, second] = [top[at]!, top[at + by]!, top[at + 2 * by]!];
  const pace = Math.abs(next - second);
  if (!(value - next > FAR * pace)) return true;
  if (!range || count[at] === 1) return false;
  const lowest = value - range[at]!;
  // One point of a bucket that is far from the others raises its mean by its share alone; the others are as far apart as those of the next bucket.
  const { low, mean, sign } = plain;
  const usual = Math.max(sign * (mean[at + by]! - low[at + by]!), 0);
  return lowest > next + pace || sign * (mean[at]! - low[at]!) > (1.3 / count[at]!) * sign * (plain.top[at]! - low[at]!) + usual;
}

/** A block has as many buckets as the neighbours of one: they are all in two blocks. */
const BLOCK_BITS = 5;

/** The buckets of a curve in blocks, each of which is in order. */
interface Ordered {
  /** The buckets of each block that have a value, by ascending values. */
  order: Int32Array;
  /** How many buckets before each one have a value. */
  before: Int32Array;
  /** What a spike in a block exceeds at least. */
  limit: Float64Array;
}

function orderedOf(top: Float64Array): Ordered {
  const order = new Int32Array(top.length);
  const before = new Int32Array(top.length + 1);
  for (let start = 0; start < top.length; start += 1 << BLOCK_BITS) {
    let end = start;
    for (let at = start; at < Math.min(top.length, start + (1 << BLOCK_BITS)); at++) {
      const value = top[at]!;
      before[at + 1] = before[at]!;
      if (value !== value) continue;
      before[at + 1]!++;
      let to = end++;
      for (; to > start && top[order[to - 1]!]! > value; to--) order[to] = order[to - 1]!;
      order[to] = at;
    }
  }
  return { order, before, limit: limitsOf(top, order, before) };
}

/** Returns the order of the same values times −1, which are *top*. */
function turned({ order, before }: Ordered, top: Float64Array): Ordered {
  const reversed = order.slice();
  for (let start = 0; start < top.length; start += 1 << BLOCK_BITS) reversed.subarray(start, start + sizeOf(before, start >> BLOCK_BITS)).reverse();
  return { order: reversed, before, limit: limitsOf(top, reversed, before) };
}

/** Returns how many buckets of a block have a value. */
function sizeOf(before: Int32Array, block: number): number {
  const start = block << BLOCK_BITS;
  return start < 0 || start >= before.length ? 0 : before[Math.min(start + (1 << BLOCK_BITS), before.length - 1)]! - before[start]!;
}

function limitsOf(top: Float64Array, order: Int32Array, before: Int32Array): Float64Array {
  return Float64Array.from({ length: Math.ceil(top.length / (1 << BLOCK_BITS)) }, (_, block) => {
    const size = sizeOf(before, block);
    const quantile = (share: number) => top[order[(block << BLOCK_BITS) + rankOf(share, size)]!]!;
    return size < 2 * FEWEST ? -Infinity : quantile(0.5) + (quantile(0.75) - quantile(0.25)) / 2;
  });
}

/**
 * Returns the higher one of the medians on both sides of a bucket, if it is far above that, in interquartile ranges of all its
 * neighbours; else null. From the highest neighbour down, most buckets are known not to be before the lower half is looked at.
 */
function baseOf(top: Float64Array, at: number, { order, before }: Ordered): number | null {
  const value = top[at]!;
  const [begin, end] = [Math.max(0, at - SIDE), Math.min(top.length, at + SIDE + 1)];
  const [left, right] = [before[at]! - before[begin]!, before[end]! - before[at + 1]!];
  const count = left + right;
  if (count < FEWEST) return null;
  // The neighbours are in the block of the bucket and in the one beside it that is nearer.
  const block = at >> BLOCK_BITS;
  const beside = (at & ((1 << BLOCK_BITS) - 1)) < SIDE ? block - 1 : block + 1;
  const [start, other] = [block << BLOCK_BITS, beside << BLOCK_BITS];
  let one = start + sizeOf(before, block) - 1;
  let two = other + sizeOf(before, beside) - 1;
  const [upper, lower] = [count - 1 - rankOf(0.75, count), count - 1 - rankOf(0.25, count)];
  const [middleLeft, middleRight] = [left - 1 - rankOf(0.5, left), right - 1 - rankOf(0.5, right)];
  let [seen, seenLeft, seenRight] = [0, 0, 0];
  let [high, base] = [NaN, NaN];
  while (seen < count) {
    const isOne = two < other || (one >= start && top[order[one]!]! >= top[order[two]!]!);
    const next = isOne ? order[one--]! : order[two--]!;
    if (next < begin || next >= end || next === at) continue;
    const own = top[next]!;
    if (seen === upper) high = own;
    // Half of the neighbours are at most as high as the base, so that it is above the lower quartile.
    if (seen >= upper && value <= high) return null;
    const isMiddle = next < at ? seenLeft++ === middleLeft : seenRight++ === middleRight;
    if (isMiddle && base !== base) base = own;
    // Below are the lower quartile, or what it is at least as far from the upper one as this.
    if (seen <= lower && value - base <= FAR * (high - own)) return null;
    seen++;
  }
  return base;
}
