/** Puts many curves together: the mean of a group with its band, and the envelope of all that are only background. */

import { type Curve, curveOfColumns, firstAt } from "../frames.js";
import { type Band, BANDS, incomplete, meanOf, resampled, runGroups, settle } from "../groups.js";
import type { Look } from "../palette.js";
import type { Run } from "../protocol.js";
import { spanOf } from "./anomalies.js";
import { lineOf, placer, type Range, type Series, visible } from "./plot.js";

/** A mean has about so many numbers to make in all, and of each curve at least so many places. */
const [MOST_NUMBERS, FEWEST_PLACES] = [24_000, 240];
/** More groups are not drawn: each needs a colour of its own. */
export const MOST_GROUPS = 12;
/** No path of a run begins like this. */
export const GROUP = "\0group ";

/** Returns whether a series is the mean of a group. */
export function isGroup({ id }: Run): boolean {
  return id.startsWith(GROUP);
}

/** How groups are made and drawn. */
export interface Grouping {
  keys: readonly string[];
  band: Band;
  look(run: string): Look;
}

/** Returns the mean of each group over its runs with its band; the runs become background. */
export function grouped(series: readonly Series[], { keys, band, look }: Grouping): Series[] {
  const groups = runGroups(series.map(({ run }) => run), keys).slice(0, MOST_GROUPS);
  const means = groups.map(({ members, name, runs }): Series => {
    const own = look(runs[0]!.id);
    const mean = meanSeries(members.map((at) => series[at]!), band, `${GROUP}${name}`, name);
    return mean.isSecond ? { ...mean, look: SECOND(own) } : { ...mean, look: own };
  });
  return [...series.map((each) => ({ ...each, isQuiet: true, abandoned: null })), ...means];
}

/** Returns how the second metric of a chart is drawn: in the same colour, dashed. */
export const SECOND = ({ dash: _, ...look }: Look): Look => ({ ...look, dash: [6, 3] });

/** By its first curve, the last mean that was made: most pictures are of the same curves. */
const KNOWN = new WeakMap<Curve, { of: readonly unknown[]; curve: Curve }>();

/** Returns the mean of curves with its band; that from smallest to largest keeps every spike. */
export function meanSeries(series: readonly Series[], band: Band, id: string, name: string): Series {
  const [first] = series as [Series];
  const of = [band, ...series.flatMap((each) => [each.curve, lineOf(each), each.shift])];
  const known = KNOWN.get(first.curve);
  const isKnown = known?.of.length === of.length && known.of.every((each, at) => each === of[at]);
  const curve = isKnown ? known.curve : meanCurve(series, band);
  if (!isKnown) KNOWN.set(first.curve, { of, curve });
  return { ...first, run: { ...first.run, id, name }, isQuiet: false, curve, abandoned: null, smooth: null, shift: 0, members: series.length, about: BANDS[band] };
}

function meanCurve(series: readonly Series[], band: Band): Curve {
  const places = placesOf(series, band === "range" ? Infinity : Math.max(FEWEST_PLACES, MOST_NUMBERS / series.length));
  const { mean, low, high, number: count } = meanOf(series.map((each) => seriesAt(each, places)), band, band === "range" ? extremesOf(series, places) : undefined);
  return curveOfColumns(series[0]!.curve, { places, mean, low, high, count });
}

/** Returns how many members a mean has at a bucket, where some are missing: `3 of 5`; else "". */
export function missingText({ members = 0, curve }: Series, at: number): string {
  return curve.count[at]! < members ? `${curve.count[at]} of ${members}` : "";
}

/** Returns where a mean lacks members: the first bucket, and that after the last. */
export function incompleteOf({ members, curve }: Series): [number, number, number][] {
  return members === undefined ? [] : incomplete(curve.count, members);
}

/** Returns the lowest and the highest value of any bucket over each place. */
function extremesOf(series: readonly Series[], places: Float64Array): [Float64Array, Float64Array] {
  const [low, high] = [new Float64Array(places.length).fill(Infinity), new Float64Array(places.length).fill(-Infinity)];
  for (const { curve, shift } of series) {
    for (let bucket = 0; bucket < curve.length; bucket++) {
      const [least, most] = [curve.min[bucket]!, curve.max[bucket]!];
      if (Number.isNaN(least)) continue;
      const [from, to] = spanOf(curve, bucket);
      const last = Math.min(firstAt(places, to + shift), places.length - 1);
      // Most buckets end at a place, and begin at the one before.
      let first = last;
      if (from < to) while (first > 0 && places[first - 1]! > from + shift) first--;
      for (let at = first; at <= last; at++) {
        if (least < low[at]!) low[at] = least;
        if (most > high[at]!) high[at] = most;
      }
    }
  }
  return [low, high];
}

/** Returns the places of all curves; where they have few in common, those of the longest and what is beyond it. */
function placesOf(series: readonly Series[], most: number): Float64Array {
  const own = series.map(({ curve, shift }) => (shift === 0 ? curve.place : curve.place.map((place) => place + shift)));
  const longest = own.reduce((a, b) => (b.length > a.length ? b : a));
  const all = new Set<number>();
  for (const places of own) if (places === longest || places.length !== longest.length || places.some((place, at) => place !== longest[at])) for (const place of places) all.add(place);
  const [first, last] = [longest[0]!, longest.at(-1)!];
  const kept = all.size <= 2 * longest.length ? [...all] : [...new Set([...longest, ...[...all].filter((place) => place < first || place > last)])];
  const every = Math.max(1, Math.ceil(kept.length / most));
  return Float64Array.from(kept).sort().filter((_, at) => at % every === 0 || at === kept.length - 1);
}

/** Returns what each curve has above that of a run; the curves unchanged where that run is not among them. */
export function differences(series: readonly Series[], base: string): Series[] {
  const references = series.filter(({ run }) => run.id === base);
  if (references.length === 0) return [...series];
  return series.filter((each) => !references.includes(each)).flatMap((each) => {
    const reference = references.find(({ metric }) => metric === each.metric);
    if (!reference) return [];
    const { curve } = each;
    const under = seriesAt(reference, curve.place.map((place) => place + each.shift));
    const scale = [...curve.max, ...under].reduce((most, value) => (Math.abs(value) > most ? Math.abs(value) : most), 0);
    const minus = (values: Float64Array) => {
      const found = values.map((value, at) => value - under[at]!);
      settle(found, scale);
      return found;
    };
    const own = { ...curve, header: { ...curve.header, best: null }, mean: minus(curve.mean), min: minus(curve.min), max: minus(curve.max) };
    return [{ ...each, curve: own, abandoned: null, smooth: each.smooth && minus(each.smooth) }];
  });
}

/** Returns the drawn values of a curve at ascending places. */
function seriesAt(series: Series, places: Float64Array): Float64Array {
  const { curve, shift } = series;
  const own = shift === 0 ? curve.place : curve.place.map((place) => place + shift);
  return resampled(own, lineOf(series), places, (curve.header.range[curve.axis]?.[0] ?? curve.place[0]!) + shift);
}

/** No picture has so many columns. */
const FARTHEST = 1 << 30;

/** The lowest and the highest value of many runs in each column of pixels; infinite where no run is. */
export interface Envelope {
  low: Float64Array;
  high: Float64Array;
  /** Width of a column. */
  cell: number;
}

/** Returns an envelope of *count* columns of *cell* pixels in which no run is. */
export function emptyEnvelope({ count, cell }: { count: number; cell: number }): Envelope {
  return { low: new Float64Array(count).fill(Infinity), high: new Float64Array(count).fill(-Infinity), cell };
}

/** Adds the extremes of curves; each bucket counts in every column that it covers. */
export function addToEnvelope({ low, high }: Envelope, series: readonly Series[], x: Range): void {
  const count = low.length;
  const take = (at: number, least: number, most: number) => {
    if (least < low[at]!) low[at] = least;
    if (most > high[at]!) high[at] = most;
  };
  const across = placer(x, 0, count);
  const columnOf = (place: number) => (x.isLog && place <= 0 ? -1 : Math.min(Math.max(Math.floor(across(place)), -FARTHEST), FARTHEST));
  let known: { place: Float64Array; shift: number; columns: Int32Array } = { place: new Float64Array(), shift: 0, columns: new Int32Array() };
  for (const { curve, shift } of series) {
    const { min, max, mean: values, place, count: points } = curve;
    const [first, last] = visible(curve, x, shift);
    // Most curves have the same places.
    if (known.place !== place || known.shift !== shift) known = { place, shift, columns: Int32Array.from(place, (each) => columnOf(each + shift)) };
    const { columns } = known;
    for (let i = first; i < last; i++) {
      const [least, most] = [min[i]!, max[i]!];
      if (least !== least) continue;
      const isPoint = points[i]! <= 1;
      const own = columns[i]!;
      const before = isPoint ? own : i > 0 && points[i - 1] !== 0 ? columns[i - 1]! : columnOf(spanOf(curve, i)[0] + shift);
      const begin = Math.min(before, own);
      const end = Math.min(Math.max(before, own), count - 1);
      // The last place is the border of the last column.
      for (let at = begin === count ? count - 1 : Math.max(begin, 0); at <= end; at++) take(at, least, most);
      if (!isPoint || i === 0 || min[i - 1] !== min[i - 1]) continue;
      // Between two points there is a line.
      const start = columns[i - 1]!;
      for (let at = start + 1; at < own; at++) {
        const share = (at - start) / (own - start);
        const value = values[i - 1]! * (1 - share) + values[i]! * share;
        take(at, value, value);
      }
    }
  }
}
