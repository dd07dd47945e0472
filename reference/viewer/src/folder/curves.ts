/** Makes the frames of a curve from its buckets: see "GET api/curve" of ../../PROTOCOL.md. */

import { firstAt, frameOf } from "../frames.js";
import { TOKEN_COUNTS } from "../generated/runs.js";
import type { Axis, CurveHeader, CurveRequest, Frame } from "../protocol.js";
import { type Buckets, type Columns, COLUMNS, fitting, part, type PlaceOf, type Pyramid } from "./pyramid.js";
import { goalOf } from "./rows.js";
import type { Scan } from "./scan.js";

export const MOST_FINE = 8192;

/** Returns finer buckets for the span of some buckets, null where there are none. */
export type Deepen = (whole: Buckets, begin: number, end: number) => Promise<Buckets | null>;

/** Returns the frames of one curve, none where the run has no such metric. */
export async function framesOf(scan: Scan, run: string, request: CurveRequest, deepen: Deepen): Promise<Frame[]> {
  const { metric, axis, buckets } = request;
  const pyramid = scan.latest.get(metric);
  const tokens = tokensOf(scan);
  const place = placing(axis, tokens);
  const common = { run, metric, axes: [axis], revision: String(scan.size) };
  const frames: Frame[] = [];
  if (pyramid && pyramid.points > 0) {
    const whole = placed(pyramid.buckets(), place);
    const chosen = await chosenOf(whole, request, place, deepen);
    const first = axis === "tokens" ? (place(whole)[0] ?? NaN) : pyramid.first[axis];
    const at = (step: number) => placeOfStep(whole, step, place);
    const { gaps, resumes } = scan;
    const where = ({ line, offset }: { line: number; offset: number }) => (scan.isPacked ? { line } : { line, offset });
    const alerts = scan.alerts.filter((alert) => alert.metric === null || alert.metric === metric);
    frames.push(
      frameFrom(
        {
          ...common, attempt: "latest", points: pyramid.points, level: chosen.level, buckets: chosen.count.length, ...rangeOf(axis, first, place(whole)),
          gaps: gaps.map((gap) => ({ [axis]: axis === "tokens" ? (gap.step === null ? null : at(gap.step)) : gap[axis], ...where(gap), length: gap.length })),
          resumes: resumes.map((resume) => ({ [axis]: axis === "tokens" ? (resume.step === null ? null : at(resume.step)) : resume[axis], line: resume.line })),
          ...(alerts.length > 0 ? { alerts: alerts.map((alert) => ({ [axis]: axis === "tokens" ? (alert.step === null ? null : at(alert.step)) : alert[axis], ...where(alert), rule: alert.rule, level: alert.level })) } : {}),
          best: bestOf(scan, metric, pyramid, (step) => (axis === "step" ? step : at(step)), axis),
        },
        chosen, place,
      ),
    );
  }
  const abandoned = scan.abandoned.flatMap((stretch) => stretch.get(metric) ?? []);
  if (abandoned.length > 0) {
    const joined = joinedStretches(abandoned.map((each) => fitting(each.buckets(), buckets)));
    frames.push(frameFrom({ ...common, attempt: "abandoned", points: abandoned.reduce((sum, { points }) => sum + points, 0), level: joined.level, buckets: joined.count.length, ...rangeOf(axis, place(joined)[0]!, place(joined)) }, joined, place));
  }
  return frames;
}

/** Returns the number of tokens up to each bucket as its `last`, null where the run counts none. */
export function tokensOf(scan: Scan): Buckets | null {
  const name = TOKEN_COUNTS.find((each) => scan.latest.has(each));
  return name === undefined ? null : tokenTotals(scan.latest.get(name)!.buckets());
}

/**
 * Returns buckets with the number of tokens up to the end of each one as `last`.
 *
 * A count that rises at every point is such a number already. Another one is that of each step, as `tokens` of toy/v1,
 * and is added up.
 */
function tokenTotals(tokens: Buckets): Buckets {
  const { mean, nan } = tokens.columns;
  const points = tokens.count.map((count, at) => count - nan[at]!);
  if (rises(tokens.columns, points)) return tokens;
  let total = 0;
  const last = mean.map((each, at) => (total += points[at]! > 0 ? each * points[at]! : 0));
  return { ...tokens, columns: { ...tokens.columns, last } };
}

/** Returns whether each bucket with finite points is above the one before, and its last point its highest. */
function rises({ min, max, last }: Columns, points: Float64Array): boolean {
  let before = -1;
  for (const [at, end] of last.entries()) {
    if (points[at] === 0) continue;
    if (min[at]! <= before || max[at]! > end || (min[at] === max[at] && points[at]! > 1)) return false;
    before = end;
  }
  return true;
}

/** Returns the number of tokens up to a step, null where one of the two is not known. */
export function tokensAt(tokens: Buckets | null, step: number | null): number | null {
  return tokens === null || step === null ? null : tokens.columns.last[indexAt(tokens.columns.step, step)]!;
}

type Place = (buckets: Buckets) => Float64Array;

/** Returns the function that gives the place of each bucket. */
function placing(axis: Axis, tokens: Buckets | null): Place {
  if (axis !== "tokens") return ({ columns }) => columns[axis];
  return ({ columns }) => columns.step.map((step) => tokensAt(tokens, step) ?? NaN);
}

function indexAt(ascending: Float64Array, value: number): number {
  return Math.min(firstAt(ascending, value), ascending.length - 1);
}

function placed(buckets: Buckets, place: Place): Buckets {
  const places = place(buckets);
  if (places.every(Number.isFinite)) return buckets;
  const kept = [...places.keys()].filter((at) => Number.isFinite(places[at]));
  const columns = Object.fromEntries(COLUMNS.map((name) => [name, Float64Array.from(kept, (at) => buckets.columns[name][at]!)])) as Columns;
  return { columns, count: Float64Array.from(kept, (at) => buckets.count[at]!), level: buckets.level };
}

/** Returns the buckets of the range, one more on each side, as many as were asked for or half as many, or all points. */
async function chosenOf(whole: Buckets, { buckets, from, to }: CurveRequest, place: Place, deepen: Deepen): Promise<Buckets> {
  const cut = (some: Buckets): [number, number] => {
    const places = place(some);
    return [from === undefined ? 0 : Math.max(0, firstAt(places, from) - 1), to === undefined ? places.length : Math.min(places.length, firstAt(places, to) + 2)];
  };
  const [begin, end] = cut(whole);
  let chosen = part(whole, begin, end);
  if (chosen.level > 1 && 2 * chosen.count.length < buckets) {
    const finer = await deepen(whole, begin, end);
    if (finer && finer.count.length > 0) {
      const some = placed(finer, place);
      chosen = part(some, ...cut(some));
    }
  }
  return fitting(chosen, buckets);
}

function rangeOf(axis: Axis, first: number, places: Float64Array): { range: CurveHeader["range"] } {
  const last = places.at(-1);
  if (last === undefined) return { range: {} };
  return { range: { [axis]: [Number.isFinite(first) ? first : places[0]!, last] } };
}

function placeOfStep(buckets: Buckets, step: number, place: Place): number | null {
  const found = place(buckets)[indexAt(buckets.columns.step, step)];
  return found !== undefined && Number.isFinite(found) ? found : null;
}

function bestOf(scan: Scan, metric: string, { lowest, highest }: Pyramid, at: (step: number) => number | null, axis: Axis): NonNullable<CurveHeader["best"]> | null {
  const goal = goalOf(scan, metric);
  const best = goal === "min" ? lowest : goal === "max" ? highest : null;
  return best === null || !Number.isFinite(best.value) ? null : { [axis]: at(best.step), value: best.value };
}

/** Returns all stretches with an empty bucket between them. */
function joinedStretches(stretches: readonly Buckets[]): Buckets {
  const names = new Set<string>(["step", "time", "epoch"] satisfies (keyof PlaceOf)[]);
  const pieces = stretches.flatMap((each, at) => (at === 0 ? [each] : [gapBefore(each, names), each]));
  const length = pieces.reduce((sum, { count }) => sum + count.length, 0);
  const join = (pick: (each: Buckets) => Float64Array) => {
    const all = new Float64Array(length);
    let at = 0;
    for (const each of pieces) {
      all.set(pick(each), at);
      at += each.count.length;
    }
    return all;
  };
  const columns = Object.fromEntries(COLUMNS.map((name) => [name, join((each) => each.columns[name])])) as Columns;
  return { columns, count: join(({ count }) => count), level: Math.max(...stretches.map(({ level }) => level)) };
}

function gapBefore({ columns, level }: Buckets, places: ReadonlySet<string>): Buckets {
  const one = (name: (typeof COLUMNS)[number]) => Float64Array.of(places.has(name) ? columns[name][0]! : name === "nan" ? 0 : NaN);
  return { columns: Object.fromEntries(COLUMNS.map((name) => [name, one(name)])) as Columns, count: Float64Array.of(0), level };
}

function frameFrom(header: Omit<CurveHeader, "columns">, buckets: Buckets, place: Place): Frame {
  const { columns: { min, max, mean, nan }, count } = buckets;
  const isRaw = header.level === 1 && header.attempt === "latest";
  return frameOf(header, { [header.axes[0]!]: place(buckets), ...(!isRaw && { min, max }), mean, count, nan });
}
