/** A metric that counts the steps of others, as `define` names it, as their axis x. */

import { type Curve, firstAt, picked } from "../frames.js";
import type { Places } from "../protocol.js";

const KNOWN = new WeakMap<Curve, { steps: Curve; placed: Curve | null }>();

/**
 * Returns a curve by step at the values that another metric of the run had at these steps; null where it had none.
 *
 * Both are by step. The places are exact where both have single points or were logged together; between two points of the other
 * metric they are on the line between them.
 */
export function placedBy(curve: Curve, steps: Curve): Curve | null {
  const known = KNOWN.get(curve);
  if (known?.steps === steps) return known.placed;
  const placed = withPlaces(curve, steps);
  KNOWN.set(curve, { steps, placed });
  return placed;
}

function withPlaces(curve: Curve, steps: Curve): Curve | null {
  const at = (step: number) => valueAt(steps, step);
  const places = curve.place.map(at);
  const kept = [...places.keys()].filter((index) => Number.isFinite(places[index]));
  if (kept.length === 0) return null;
  const place = Float64Array.from(kept, (index) => places[index]!);
  const of = picked(curve, kept);
  const known = curve.header.range[curve.axis];
  const first = known ? at(known[0]) : NaN;
  const moved = <Mark extends Places>(mark: Mark): Mark => {
    const found = typeof mark.step === "number" ? at(mark.step) : NaN;
    return { ...mark, step: Number.isFinite(found) ? found : null };
  };
  const { gaps = [], resumes = [], alerts = [], best } = curve.header;
  const header = {
    ...curve.header, buckets: kept.length, range: { step: [Number.isFinite(first) ? first : place[0]!, place.at(-1)!] as [number, number] },
    gaps: gaps.map(moved), resumes: resumes.map(moved), alerts: alerts.map(moved), best: best ? moved(best) : null,
  };
  return { ...of, header, axis: "step", place, steps: of.place };
}

/** Returns the value of a metric at a step; NaN before its first point. What counts steps rises, so that a bucket ends at its highest. */
function valueAt({ place, max: last, length, header }: Curve, step: number): number {
  const low = firstAt(place, step);
  if (low === length) return length > 0 ? last[length - 1]! : NaN;
  if (place[low] === step) return last[low]!;
  if (low === 0) return header.level > 1 && step >= (header.range.step?.[0] ?? Infinity) ? last[0]! : NaN;
  if (header.level === 1) return last[low - 1]!;
  const share = (step - place[low - 1]!) / (place[low]! - place[low - 1]!);
  return last[low - 1]! * (1 - share) + last[low]! * share;
}
