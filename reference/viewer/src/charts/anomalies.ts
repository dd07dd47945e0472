/** Finds what must not be lost on a chart: spikes, values that are not finite, gaps and resumptions. */

import type { Curve } from "../frames.js";
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

/** Buckets on each side that a bucket is compared with. */
const SIDE = 16;
/** A spike is so many interquartile ranges from its neighbours. */
const FAR = 5;
/** The part of the usual height of a bucket that counts as a range: in short windows the range of extremes is uncertain. */
const SHARE = 0.25;
/** Fewer neighbours say nothing. */
const FEWEST = 4;

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

const NOT_FINITE = new WeakMap<Curve, readonly number[]>();

/** Returns the buckets of a curve that have values which are not finite. */
export function notFiniteOf(curve: Curve): readonly number[] {
  let found = NOT_FINITE.get(curve);
  if (!found) {
    found = [...curve.nan.keys()].filter((at) => curve.nan[at]! > 0);
    NOT_FINITE.set(curve, found);
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
  const scale = (value: number) => (value > 0 ? Math.log10(value) : NaN);
  const high = isLog ? max.map(scale) : max;
  const low = min.map(isLog ? (value) => -scale(value) : (value) => -value);
  const { level } = curve.header;
  const range = level === 1 ? null : high.map((value, at) => value + low[at]!);
  const spike = (values: Float64Array, sign: 1 | -1) => ({ at, base }: { at: number; base: number }): Spike => {
    const [from, to] = spanOf(curve, at);
    return { bucket: at, from, to, value: values[at]!, base: isLog ? 10 ** (sign * base) : sign * base };
  };
  const ups = { top: high, range, plain: { top: max, low: min, mean, sign: 1 }, count };
  const downs = { top: low, range, plain: { top: min, low: max, mean, sign: -1 }, count };
  return [...peaks(ups).map(spike(max, 1)), ...peaks(downs).map(spike(min, -1))];
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

function peaks(sided: Sided): { at: number; base: number }[] {
  const { top, range } = sided;
  const found: { at: number; base: number }[] = [];
  const middles = middlesOf(top);
  const [left, right, both, ranges] = [new Window(), new Window(), new Window(), new Window()];
  for (let at = 0; at < top.length; at++) {
    const value = top[at]!;
    if (!(value > middles.limit[at >> BLOCK_BITS]!) || isNear(top, at, middles)) continue;
    for (const window of [left, right, both, ranges]) window.length = 0;
    for (let other = Math.max(0, at - SIDE); other < Math.min(top.length, at + SIDE + 1); other++) {
      if (other === at || Number.isNaN(top[other]!)) continue;
      (other < at ? left : right).add(top[other]!);
      both.add(top[other]!);
      if (range && !Number.isNaN(range[other]!)) ranges.add(range[other]!);
    }
    if (both.length < FEWEST) continue;
    const base = left.length === 0 ? right.quantile(0.5) : right.length === 0 ? left.quantile(0.5) : Math.max(left.quantile(0.5), right.quantile(0.5));
    const spread = Math.max(both.quantile(0.75) - both.quantile(0.25), ranges.length > 0 ? SHARE * ranges.quantile(0.5) : 0);
    if ((left.length === 0 && isFall(sided, at, 1)) || (right.length === 0 && isFall(sided, at, -1))) continue;
    if (value - base > FAR * spread && value - base > 1e-9 * Math.abs(base)) found.push({ at, base });
  }
  return found;
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

const BLOCK_BITS = 5;

/** What blocks of buckets have in their middle: most buckets need no closer look. */
interface Middles {
  /** What a spike in a block exceeds at least. */
  limit: Float64Array;
  /** Two values about the middle; NaN where a block has few values. */
  low: Float64Array;
  high: Float64Array;
}

function middlesOf(top: Float64Array): Middles {
  const count = Math.ceil(top.length / (1 << BLOCK_BITS));
  const found = { limit: new Float64Array(count).fill(-Infinity), low: new Float64Array(count).fill(NaN), high: new Float64Array(count).fill(NaN) };
  const values = new Window();
  for (let block = 0; block < count; block++) {
    values.length = 0;
    for (let at = block << BLOCK_BITS; at < Math.min(top.length, (block + 1) << BLOCK_BITS); at++) if (!Number.isNaN(top[at]!)) values.add(top[at]!);
    if (values.length < 2 * FEWEST) continue;
    found.limit[block] = values.quantile(0.5) + (values.quantile(0.75) - values.quantile(0.25)) / 2;
    found.low[block] = values.quantile(0.4);
    found.high[block] = values.quantile(0.6);
  }
  return found;
}

/**
 * Returns whether a bucket cannot be a spike, since half of its neighbours on one side reach it, or enough of all are about
 * the middle of its block: to count them takes a tenth of the time that their order takes.
 */
function isNear(top: Float64Array, at: number, middles: Middles): boolean {
  const [low, high, own] = [middles.low[at >> BLOCK_BITS]!, middles.high[at >> BLOCK_BITS]!, top[at]!];
  let [all, left] = [0, 0];
  let [lower, lowerLeft, below, belowLeft] = [0, 0, 0, 0];
  let [atMost, belowHigh] = [0, 0];
  for (let other = Math.max(0, at - SIDE); other < Math.min(top.length, at + SIDE + 1); other++) {
    const value = top[other]!;
    if (other === at) [left, lowerLeft, belowLeft] = [all, lower, below];
    else if (!Number.isNaN(value)) {
      all++;
      if (value < own) lower++;
      if (value < low) below++;
      if (value <= low) atMost++;
      if (value < high) belowHigh++;
    }
  }
  const right = all - left;
  if (reaches(left, lowerLeft) || reaches(right, lower - lowerLeft)) return true;
  const isBaseAbove = reaches(left, belowLeft) || reaches(right, below - belowLeft);
  return own - low <= FAR * (high - low) && isBaseAbove && atMost > Math.floor(0.25 * (all - 1)) && belowHigh <= Math.floor(0.75 * (all - 1));
}

/** Returns whether the median of so many values, of which *less* are below a value, is at least that value. */
function reaches(values: number, less: number): boolean {
  return values > 0 && less <= Math.floor(0.5 * (values - 1));
}

/** A few numbers in ascending order. */
class Window {
  length = 0;
  private readonly values = new Float64Array(2 * SIDE);

  add(value: number): void {
    let at = this.length++;
    for (; at > 0 && this.values[at - 1]! > value; at--) this.values[at] = this.values[at - 1]!;
    this.values[at] = value;
  }

  quantile(share: number): number {
    return this.values[Math.floor(share * (this.length - 1))]!;
  }
}
