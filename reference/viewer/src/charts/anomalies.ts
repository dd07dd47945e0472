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
  spike?: Spike;
  /** The line of a gap or an alert. */
  line?: { line: number; offset: number; length?: number };
  /** What an alert says. */
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
      // The value of a bucket over all of a curve may be rounded to binary32.
      const isIts = (value: number) => Math.fround(value) === Math.fround(spike.value);
      const [place] = inside(points, (at) => isIts(points.max[at]!) || isIts(points.min[at]!), [spike.from, spike.to]);
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

function isInLog(mark: object): mark is NonNullable<Anomaly["line"]> {
  return "offset" in mark;
}

/** Returns everything that is marked of a run, within a range of x. */
export function anomaliesOf(series: Series, x: Range, isLog: boolean): Anomaly[] {
  const { curve, shift } = series;
  const places = (marks: CurveHeader["gaps"] | CurveHeader["resumes"] | CurveHeader["alerts"], kind: Anomaly["kind"]) =>
    (marks ?? []).flatMap((mark): Anomaly[] => {
      const place = mark[curve.axis];
      return place === null || place === undefined ? [] : [{ series, kind, from: place + shift, to: place + shift, ...(isInLog(mark) && { line: mark }) }];
    });
  const all: Anomaly[] = [
    ...spikesOf(curve, isLog).map((spike): Anomaly => ({ series, kind: "spike", from: spike.from + shift, to: spike.to + shift, spike })),
    ...notFiniteOf(curve).flatMap((at) => notFiniteSpans(curve, at)).map(([from, to]): Anomaly => ({ series, kind: "not finite", from: from + shift, to: to + shift })),
    ...places(curve.header.gaps, "gap"), ...places(curve.header.resumes, "resumption"),
    ...(curve.header.alerts ?? []).flatMap((alert) => places([alert], "alert").map((found) => ({ ...found, alert }))),
  ];
  return all.filter(({ from, to }) => to >= x.from && from <= x.to);
}

function isWhole({ points }: Curve["header"], count: Float64Array): boolean {
  return points <= count.length * count[0]!;
}

/** Returns the spikes of each stretch between buckets without a point: nothing in one says what is usual in another. */
function foundSpikes(curve: Curve, isLog: boolean): Spike[] {
  const found: Spike[] = [];
  for (let begin = 0, end = 0; begin < curve.length; begin = end + 1) {
    end = curve.count.indexOf(0, begin);
    if (end < 0) end = curve.length;
    found.push(...spikesBetween(curve, begin, end, isLog));
  }
  return found;
}

function spikesBetween(whole: Curve, begin: number, end: number, isLog: boolean): Spike[] {
  const part = (values: Float64Array) => values.subarray(begin, end);
  const max = part(whole.max);
  const min = whole.min === whole.max ? max : part(whole.min);
  const curve = { ...whole, min, max, mean: part(whole.mean), count: part(whole.count) };
  const scale = (value: number) => (value > 0 ? Math.log10(value) : NaN);
  const high = isLog ? max.map(scale) : max;
  const low = min === max ? high : isLog ? min.map(scale) : min;
  const ofHigh = farBuckets(high);
  const ofLow = low === high ? ofHigh : farBuckets(low);
  const upward = { curve, top: high, bottom: low, sign: 1 } as const;
  const downward = { curve, top: low, bottom: high, sign: -1 } as const;
  return [
    ...ofHigh.filter((far) => far.sign > 0 && isSpike(upward, far)).map(({ at, base }) => spikeAt(whole, at + begin, max[at]!, isLog ? 10 ** base : base)),
    ...ofLow.filter((far) => far.sign < 0 && isSpike(downward, far)).map(({ at, base }) => spikeAt(whole, at + begin, min[at]!, isLog ? 10 ** base : base)),
  ];
}

function spikeAt(curve: Curve, bucket: number, value: number, base: number): Spike {
  const [from, to] = spanOf(curve, bucket);
  return { bucket, from, to, value, base };
}

/** A bucket that is far above those around it, or below them. */
interface Far {
  at: number;
  sign: 1 | -1;
  /** The one of the medians on both sides that is nearer. */
  base: number;
  /** Whether one side has no value. */
  isFirst: boolean;
  isLast: boolean;
}

/** So many buckets in succession are compared with the same values, of which all but as many are neighbours of each. */
const STRIDE = 4;

/**
 * Returns the buckets that are so many interquartile ranges from both medians. Nearly all others are known not to be before their own
 * neighbours are looked at: at each place in ascending order, some of the values have one that is at least that of all values.
 */
function farBuckets(values: Float64Array): Far[] {
  const found: Far[] = [];
  const { length } = values;
  // The buckets around those that are looked at, by ascending values.
  let around = new Int32Array(2 * SIDE + STRIDE);
  let others = new Int32Array(2 * SIDE + STRIDE);
  const fresh = new Int32Array(STRIDE);
  let size = 0;
  for (let start = -SIDE; start < length; start += STRIDE) {
    let added = 0;
    for (let at = start + SIDE; at < Math.min(start + SIDE + STRIDE, length); at++) {
      const value = values[at]!;
      if (value !== value) continue;
      let to = added++;
      for (; to > 0 && values[fresh[to - 1]!]! > value; to--) fresh[to] = fresh[to - 1]!;
      fresh[to] = at;
    }
    let kept = 0;
    let taken = 0;
    for (let one = 0; one < size; one++) {
      const bucket = around[one]!;
      if (bucket < start - SIDE) continue;
      while (taken < added && values[fresh[taken]!]! < values[bucket]!) others[kept++] = fresh[taken++]!;
      others[kept++] = bucket;
    }
    while (taken < added) others[kept++] = fresh[taken++]!;
    const before = around;
    around = others;
    others = before;
    size = kept;
    const fewest = size - STRIDE;
    const lower = rankOf(0.25, fewest) + STRIDE;
    const middle = rankOf(0.5, fewest);
    const upper = rankOf(0.75, fewest);
    const isKnown = fewest >= FEWEST;
    const low = isKnown ? values[around[middle]!]! : -Infinity;
    const high = isKnown ? values[around[size - 1 - middle]!]! : Infinity;
    const above = isKnown ? Math.max(values[around[upper]!]! - values[around[lower]!]!, 0) : 0;
    const below = isKnown ? Math.max(values[around[size - 1 - lower]!]! - values[around[size - 1 - upper]!]!, 0) : 0;
    for (let bucket = Math.max(start, 0); bucket < Math.min(start + STRIDE, length); bucket++) {
      const value = values[bucket]!;
      const isAbove = value - low > FAR * above;
      if (!isAbove && !(high - value > FAR * below)) continue;
      const own = around.subarray(0, size);
      const far = (isAbove && farAmong(values, own, bucket, 1)) || farAmong(values, own, bucket, -1);
      if (far) found.push(far);
    }
  }
  return found;
}

const [ALL, LEFT, RIGHT] = [new Float64Array(2 * SIDE), new Float64Array(SIDE), new Float64Array(SIDE)] as const;

/** Returns a bucket if it is far from its neighbours, which are among those *around*, in ascending order. */
function farAmong(values: Float64Array, around: Int32Array, at: number, sign: 1 | -1): Far | null {
  let [left, right] = [0, 0];
  for (const bucket of around) {
    if (bucket === at || bucket < at - SIDE || bucket > at + SIDE) continue;
    const value = (ALL[left + right] = values[bucket]!);
    if (bucket < at) LEFT[left++] = value;
    else RIGHT[right++] = value;
  }
  const count = left + right;
  if (count < FEWEST) return null;
  const quantile = (ordered: Float64Array, size: number, share: number) => ordered[sign > 0 ? rankOf(share, size) : size - 1 - rankOf(share, size)]!;
  const [before, after] = [quantile(LEFT, left, 0.5), quantile(RIGHT, right, 0.5)];
  const base = left === 0 ? after : right === 0 ? before : sign > 0 ? Math.max(before, after) : Math.min(before, after);
  const isFar = sign * (values[at]! - base) > FAR * sign * (quantile(ALL, count, 0.75) - quantile(ALL, count, 0.25));
  return isFar ? { at, sign, base, isFirst: left === 0, isLast: right === 0 } : null;
}

/** The extremes of buckets on one side, and on the other one; logarithms where distances are theirs. */
interface Sided {
  curve: Curve;
  top: Float64Array;
  bottom: Float64Array;
  sign: 1 | -1;
}

/** Returns whether a bucket that is far from others is a spike: it is also far in heights of buckets, and no end of a curve that goes on from it. */
function isSpike(sided: Sided, { at, base, isFirst, isLast }: Far): boolean {
  const above = sided.sign * (sided.top[at]! - base);
  if (!(above > 1e-9 * Math.abs(base))) return false;
  if (sided.curve.header.level > 1 && !(above > FAR * SHARE * usualRange(sided, at))) return false;
  return !((isFirst && isFall(sided, at, 1)) || (isLast && isFall(sided, at, -1)));
}

/** Returns the median of the ranges of the neighbours of a bucket. */
function usualRange({ top, bottom, sign }: Sided, at: number): number {
  const found: number[] = [];
  for (let other = Math.max(0, at - SIDE); other < Math.min(top.length, at + SIDE + 1); other++) {
    const range = sign * (top[other]! - bottom[other]!);
    if (other !== at && !Number.isNaN(range)) found.push(range);
  }
  return found.sort((a, b) => a - b)[rankOf(0.5, found.length)] ?? 0;
}

/** Returns the place of a quantile among so many values in ascending order. */
function rankOf(share: number, count: number): number {
  return Math.floor(share * (count - 1));
}

/** Returns whether the values beside the first or last bucket go on from it: a loss that falls from its start has no spike there. */
function isFall({ curve, top, bottom, sign }: Sided, at: number, by: 1 | -1): boolean {
  const { count, header } = curve;
  const [value, next, second] = [sign * top[at]!, sign * top[at + by]!, sign * top[at + 2 * by]!];
  const pace = Math.abs(next - second);
  if (!(value - next > FAR * pace)) return true;
  if (header.level === 1 || count[at] === 1) return false;
  // One point of a bucket that is far from the others raises its mean by its share alone; the others are as far apart as those of the next bucket.
  const [high, low] = sign > 0 ? [curve.max, curve.min] : [curve.min, curve.max];
  const { mean } = curve;
  const usual = Math.max(sign * (mean[at + by]! - low[at + by]!), 0);
  return sign * bottom[at]! > next + pace || sign * (mean[at]! - low[at]!) > (1.3 / count[at]!) * sign * (high[at]! - low[at]!) + usual;
}
