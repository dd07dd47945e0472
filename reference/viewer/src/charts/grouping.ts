/** Puts many curves together: the mean of a group with its spread, and the envelope of all that are only background. */

import { type Curve, curveOfColumns } from "../frames.js";
import { COLOURS, type Look } from "../palette.js";
import type { Run } from "../protocol.js";
import { fieldOf } from "../run-fields.js";
import { counted, valueText } from "../text.js";
import { spanOf } from "./anomalies.js";
import { drawn, placer, type Range, type Series, visible } from "./plot.js";

const PLACES = 240;
/** More groups are not drawn: each needs a colour of its own. */
export const MOST_GROUPS = 12;
const DASHES: readonly (readonly number[])[] = [[], [6, 3]];
/** No path of a run begins like this. */
export const GROUP = "\0group ";

/** Returns whether a series is the mean of a group. */
export function isGroup({ id }: Run): boolean {
  return id.startsWith(GROUP);
}

/** Returns the values of a setting that runs have, and the runs of each, the largest group first. */
export function groupsOf(runs: readonly Run[], key: string): Map<string, Run[]> {
  const found = new Map<string, Run[]>();
  for (const run of runs) {
    const value = fieldOf(run, key);
    const text = Array.isArray(value) ? value.join(", ") : valueText(value as Parameters<typeof valueText>[0], 60);
    const known = found.get(text);
    if (known) known.push(run);
    else found.set(text, [run]);
  }
  const order = new Intl.Collator("en", { numeric: true });
  return new Map([...found].sort(([a], [b]) => order.compare(a, b)));
}

/** Returns the settings by which runs can be grouped: those of which some runs share a value and others do not. */
export function groupKeys(runs: readonly Run[]): string[] {
  const keys = new Set(runs.flatMap(({ config }) => Object.keys(config).map((name) => `config.${name}`)));
  return ["root", "group", "tags", ...keys].filter((key) => {
    const values = new Set(runs.map((run) => JSON.stringify(fieldOf(run, key) ?? null)));
    return values.size > 1 && values.size < runs.length;
  });
}

/** Returns the mean of each group over its runs, with one standard deviation on each side; the runs become background. */
export function grouped(series: readonly Series[], key: string, x: Range): Series[] {
  const runs = series.map(({ run }) => run);
  const groups = [...groupsOf(runs, key)].slice(0, MOST_GROUPS);
  const name = key.replace(/^config\./, "");
  const means = groups.map(([value, members], at): Series => {
    const own = series.filter(({ run }) => members.includes(run));
    const look = lookOf(at);
    const run: Run = { ...members[0]!, id: `${GROUP}${value}`, name: `${name} ${value === "" ? "absent" : value} (${counted(members.length, "run")})` };
    const { metric, isSecond } = series[0]!;
    return { run, metric, isSecond, look: isSecond ? SECOND(look) : look, isQuiet: false, curve: meanOf(own, x), abandoned: null, smooth: null, shift: 0 };
  });
  return [...series.map((each) => ({ ...each, isQuiet: true, abandoned: null })), ...means];
}

/** Returns how the second metric of a chart is drawn: in the same colour, dashed. */
export const SECOND = ({ dash: _, ...look }: Look): Look => ({ ...look, dash: [6, 3] });

export function lookOf(at: number): Look {
  return { colour: at % COLOURS, dash: DASHES[Math.floor(at / COLOURS) % DASHES.length]! };
}

/** Returns how the mean of the group of each run is drawn, by the id of the run. */
export function groupLooks(runs: readonly Run[], key: string): Map<string, Look> {
  const groups = [...groupsOf(runs, key).values()].slice(0, MOST_GROUPS);
  return new Map(groups.flatMap((members, at) => members.map(({ id }): [string, Look] => [id, lookOf(at)])));
}

function meanOf(series: readonly Series[], x: Range): Curve {
  const places = gridOf(x);
  const [mean, low, high, count] = [0, 0, 0, 0].map(() => new Float64Array(PLACES).fill(NaN)) as [Float64Array, Float64Array, Float64Array, Float64Array];
  const rows = series.map((each) => resampled(each, places, (at) => drawn(each, at)));
  for (let at = 0; at < PLACES; at++) {
    const values = rows.map((row) => row[at]!).filter((value) => !Number.isNaN(value));
    count[at] = values.length;
    if (values.length === 0) continue;
    const middle = values.reduce((sum, value) => sum + value / values.length, 0);
    const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2 / values.length, 0));
    [mean[at], low[at], high[at]] = [middle, middle - spread, middle + spread];
  }
  return curveOfColumns(series[0]!.curve, { places, mean, low, high, count });
}

/** Returns what each curve has above that of a run; the curves unchanged where that run is not among them. */
export function differences(series: readonly Series[], base: string): Series[] {
  const references = series.filter(({ run }) => run.id === base);
  if (references.length === 0) return [...series];
  return series.filter((each) => !references.includes(each)).flatMap((each) => {
    const reference = references.find(({ metric }) => metric === each.metric);
    if (!reference) return [];
    const { curve } = each;
    const places = curve.place.map((place) => place + each.shift);
    const under = resampled(reference, places, (at) => drawn(reference, at));
    const minus = (values: Float64Array) => values.map((value, at) => value - under[at]!);
    const own = { ...curve, header: { ...curve.header, best: null }, last: minus(curve.last), mean: minus(curve.mean), min: minus(curve.min), max: minus(curve.max) };
    return [{ ...each, curve: own, abandoned: null, smooth: each.smooth && minus(each.smooth) }];
  });
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
    const { min, max, last: values, place, count: points } = curve;
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

function gridOf({ from, to, isLog }: Range): Float64Array {
  return Float64Array.from({ length: PLACES }, (_, at) => {
    const share = at / (PLACES - 1);
    return isLog ? from * (to / from) ** share : from + share * (to - from);
  });
}

/** Returns values of a run at places, NaN before its first, after its last, and where it has none; between them a line. */
export function resampled(series: Series, places: Float64Array, value: (at: number) => number): Float64Array {
  const found = new Float64Array(places.length).fill(NaN);
  atPlaces(series, places, (index, left, right, share) => {
    found[index] = left === right ? value(left) : value(left) * (1 - share) + value(right) * share;
  });
  return found;
}

/** Calls *take* with each of ascending places that a run has, the buckets beside it, and how far it is from *left* to *right*. */
function atPlaces({ curve, shift }: Series, places: Float64Array, take: (index: number, left: number, right: number, share: number) => void): void {
  const { place, length } = curve;
  const first = curve.header.range[curve.axis]?.[0] ?? place[0]!;
  let at = 0;
  for (let index = 0; index < places.length; index++) {
    const wanted = places[index]! - shift;
    while (at < length && place[at]! < wanted) at++;
    if (at === length) return;
    if (at === 0) {
      if (wanted >= first) take(index, 0, 0, 0);
      continue;
    }
    const [left, right] = [place[at - 1]!, place[at]!];
    take(index, at - 1, at, right > left ? (wanted - left) / (right - left) : 1);
  }
}
