/** Smooths curves by an exponential moving average with bias correction. */

import type { Curve } from "../frames.js";

/** As many steps of the average as the whole axis has: then a weight means the same for short and for long runs. */
const STEPS = 1000;

/** An average on its way; its value is sum / weight. */
export interface Average {
  sum: number;
  weight: number;
}

/**
 * Returns the smoothed values of a curve, NaN where it has none. *span* is the length of the whole axis; *from* is
 * the average before the first bucket.
 */
export function smoothed(curve: Curve, weight: number, span: number, from: Average = { sum: 0, weight: 0 }): Float64Array {
  const values = new Float64Array(curve.length);
  const average = { ...from };
  let before = NaN;
  for (let i = 0; i < curve.length; i++) {
    const value = curve.mean[i]!;
    if (Number.isNaN(value)) {
      values[i] = NaN;
      continue;
    }
    advance(average, value, kept(weight, curve.place[i]! - before, span));
    before = curve.place[i]!;
    values[i] = average.sum / average.weight;
  }
  return values;
}

const SMOOTHED = new WeakMap<Curve, { key: string; values: Float64Array }>();

/** Returns the same as the last time where nothing has changed: nothing may write into it. */
export function smoothedOnce(curve: Curve, weight: number, span: number, from: Average = { sum: 0, weight: 0 }): Float64Array {
  const key = [weight, span, from.sum, from.weight].join();
  const known = SMOOTHED.get(curve);
  if (known?.key === key) return known.values;
  const values = smoothed(curve, weight, span, from);
  SMOOTHED.set(curve, { key, values });
  return values;
}

/** Returns the average over the buckets of a curve that are before a place. */
export function averageBefore(curve: Curve, place: number, weight: number, span: number): Average {
  const average = { sum: 0, weight: 0 };
  let before = NaN;
  for (let i = 0; i < curve.length && curve.place[i]! < place; i++) {
    const value = curve.mean[i]!;
    if (Number.isNaN(value)) continue;
    advance(average, value, kept(weight, curve.place[i]! - before, span));
    before = curve.place[i]!;
  }
  return average;
}

/** Returns the share of the old average that stays over a distance; the first value counts as one step. */
function kept(weight: number, distance: number, span: number): number {
  return distance > 0 && span > 0 ? weight ** ((distance / span) * STEPS) : weight;
}

function advance(average: Average, value: number, kept: number): void {
  average.sum = average.sum * kept + value * (1 - kept);
  average.weight = average.weight * kept + (1 - kept);
}
