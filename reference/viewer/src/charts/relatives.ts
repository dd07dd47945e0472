/** What the charts of one run draw beside its own curve: its other ranks, and the runs that it was forked from. */

import { type Curve, picked } from "../frames.js";
import { type Look, lookOf } from "../palette.js";
import type { Axis, Ranks, Run } from "../protocol.js";
import type { Store } from "../store.js";
import { counted } from "../text.js";
import type { RankManner, ViewState } from "../view-state.js";
import { GROUP, meanSeries } from "./grouping.js";
import type { Curves, Pair, Wanted } from "./loading.js";
import type { Series } from "./plot.js";
import { nameOf } from "../names.js";

/** A run that this one started from, directly or through others. */
export interface Ancestor {
  run: Run;
  /** The last of its steps that this run goes on from. */
  step: number;
}

export interface Relatives {
  /** Null where only one process has a log. */
  ranks: Ranks | null;
  /** The parent first. */
  ancestors: readonly Ancestor[];
}

export const NONE: Relatives = { ranks: null, ancestors: [] };

/** Returns the only run that the charts show; null where they show several, means or differences. */
export function onlyShown({ shown, state }: Store): Run | null {
  return shown.length === 1 && state.group === "" && state.base === "" ? shown[0]! : null;
}

/** Returns a run with the metrics that only its other ranks have, so that each has a chart. */
export function withMetricsElsewhere(run: Run, { ranks }: Relatives): Run {
  const elsewhere = ranks?.metrics_elsewhere ?? [];
  if (elsewhere.length === 0) return run;
  const absent = { last: null, best: null, goal: null, count: 0, nan: 0 };
  return { ...run, metrics: { ...run.metrics, ...Object.fromEntries(elsewhere.map((name) => [name, absent])) } };
}

/** How the one rank looks that the others wait for. */
export const SLOWEST_LOOK: Look = { colour: 1, dash: [] };
/** How the runs before a fork look. */
export const ANCESTOR_LOOK: Look = { colour: 3, dash: [6, 3] };

/** The curves of the relatives of a run, of one metric. */
export class RelativeCurves {
  #ranks: Curves | null = null;
  readonly #ancestors = new Map<string, Curves>();

  constructor(
    private readonly relatives: () => Relatives,
    private readonly make: () => Curves,
  ) {}

  get all(): Curves[] {
    return [...(this.#ranks ? [this.#ranks] : []), ...this.#ancestors.values()];
  }

  /** Asks for what is missing; the curve of an ancestor only up to the fork, so that it is as fine as the others. */
  want(wanted: Omit<Wanted, "runs">, manner: RankManner): void {
    const { ranks, ancestors } = this.relatives();
    const others = ranks === null || manner === "first" ? [] : ranks.ranks.filter(({ rank }) => rank !== 0).map(({ run }) => run);
    if (others.length > 0) (this.#ranks ??= this.make()).want({ ...wanted, runs: others });
    if (wanted.axis !== "step") return;
    for (const { run, step } of ancestors) {
      const [from, to] = wanted.range ?? [run.first_step ?? 0, step];
      if (from > step) continue;
      const own = this.#ancestors.get(run.id) ?? this.make();
      this.#ancestors.set(run.id, own);
      own.want({ ...wanted, runs: [run.id], range: [from, Math.max(Math.min(to, step), from + 1)] });
    }
  }

  /** The curve of a relative over the whole axis. */
  wholeOf(run: string): Curve | null {
    return this.all.map((curves) => curves.wholeOf(run)).find((curve) => curve !== null) ?? null;
  }

  /** Returns the series of the relatives of the run that *own* is of, its own among them as that of rank 0. */
  beside(own: readonly Series[], run: Run, { metric, isSecond, axis, manner }: { metric: string; isSecond: boolean; axis: Axis; manner: RankManner }): Series[] {
    const { ranks, ancestors } = this.relatives();
    const shift = own[0]?.shift ?? 0;
    const seriesOf = (of: Run, pair: Pair | undefined, more: Pick<Series, "look" | "isQuiet" | "kin">): Series[] =>
      pair?.latest ? [{ run: of, metric, isSecond, curve: pair.latest, abandoned: pair.abandoned, smooth: null, shift, ...more }] : [];
    const older = axis !== "step" ? [] : ancestors.flatMap(({ run: each, step }) => {
      const latest = this.#ancestors.get(each.id)?.pair(each.id)?.latest;
      const before = latest ? upTo(latest, step) : null;
      return seriesOf({ ...each, name: `${each.name}, before the fork` }, { latest: before, abandoned: null }, { look: ANCESTOR_LOOK, isQuiet: false, kin: "ancestor" });
    });
    if (ranks === null || manner === "first") return [...own, ...older];
    const isQuiet = manner === "range";
    const slowest = ranks.slowest?.rank;
    const all = ranks.ranks.flatMap(({ rank, run: id }, at) => {
      const look = lookOf(at);
      const name = `rank ${rank}${rank === slowest ? ", slowest" : ""}`;
      if (rank === 0) return own.map((each) => ({ ...each, run: { ...each.run, name }, look, isQuiet, kin: "rank" as const }));
      return seriesOf({ ...run, id, name, metrics: {} }, this.#ranks?.pair(id), { look, isQuiet, kin: "rank" });
    });
    return [...all, ...older];
  }
}

/** Returns what is drawn of the ranks of a run: their mean with the range from smallest to largest, and the slowest; the others are background. */
export function asRange(series: readonly Series[], slowest: number | undefined): { series: Series[]; background: Series[] } {
  const ranks = series.filter(({ kin }) => kin === "rank");
  const others = series.filter(({ kin }) => kin !== "rank");
  if (ranks.some(({ rankOf }) => rankOf !== undefined)) return { series: [...others, ...bandsOf(ranks)], background: ranks };
  if (ranks.length < 2) return { series: [...ranks.map((each) => ({ ...each, isQuiet: false })), ...others], background: [] };
  const named = ranks.filter(({ run }) => run.name === `rank ${slowest}, slowest`).map((each) => ({ ...each, isQuiet: false, look: SLOWEST_LOOK }));
  const bands = [false, true].flatMap((isSecond) => {
    const own = ranks.filter((each) => each.isSecond === isSecond);
    if (own.length === 0) return [];
    const look = { colour: 0, dash: own[0]!.isSecond ? [6, 3] : [] };
    return [{ ...meanSeries(own, "range", `${GROUP}ranks`, rankName(own)), look }];
  });
  return { series: [...others, ...bands, ...named], background: ranks };
}

/** Returns the mean with the range of the ranks of each of several runs, in the colour of the run. */
function bandsOf(ranks: readonly Series[]): Series[] {
  const runs = new Map<string, Series[]>();
  for (const each of ranks) {
    const key = `${each.isSecond} ${each.rankOf!.id}`;
    runs.set(key, [...(runs.get(key) ?? []), each]);
  }
  return [...runs.values()].map((own) => {
    const [first] = own as [Series];
    // The curves of the others are not there yet, or it is alone in having the metric.
    if (own.length === 1) return { ...first, isQuiet: false };
    return meanSeries(own, "range", `${GROUP}ranks ${first.rankOf!.id}`, `${nameOf(first.rankOf!)}, ${rankName(own)}`);
  });
}

function rankName({ length }: readonly Series[]): string {
  return `mean of ${counted(length, "rank")}`;
}

/** The most streams of ranks that are drawn of several runs. */
export const MOST_RANKS_DRAWN = 256;

/** Returns which of several runs have other ranks, and whether these are drawn. */
export function severalRanks(runs: readonly Run[], { group, base, ranks }: ViewState, isCrowded: boolean): { runs: readonly Run[]; count: number; areDrawn: boolean } {
  const found = runs.filter(({ other_ranks }) => other_ranks !== undefined);
  const count = found.reduce((sum, { other_ranks }) => sum + other_ranks!.length, 0);
  return { runs: found, count, areDrawn: ranks !== "first" && group === "" && base === "" && !isCrowded && count <= MOST_RANKS_DRAWN };
}

/** Returns the id of the stream of a rank from 1 on. */
export function rankId({ id }: Run, rank: number): string {
  return `${id}/events.rank-${rank}.jsonl`;
}

/** Returns the series of several runs with those of their other ranks, in the colour of the run. */
export function withOtherRanks(own: readonly Series[], pairOf: (metric: string, id: string) => Pair | undefined, manner: RankManner): Series[] {
  const isQuiet = manner === "range";
  return own.flatMap((each): Series[] => {
    const { run, metric, shift } = each;
    if (run.other_ranks === undefined) return [each];
    const ranked = { kin: "rank", rankOf: run, isQuiet } as const;
    const others = run.other_ranks.flatMap((rank): Series[] => {
      const pair = pairOf(metric, rankId(run, rank));
      return pair?.latest ? [{ ...each, ...ranked, run: { ...run, id: rankId(run, rank), name: `${nameOf(run)}, rank ${rank}` }, curve: pair.latest, abandoned: pair.abandoned, smooth: null, shift }] : [];
    });
    return [{ ...each, ...ranked, run: { ...run, name: `${nameOf(run)}, rank 0` } }, ...others];
  });
}

const CUT = new WeakMap<Curve, { step: number; before: Curve | null }>();

/** Returns the part of a curve by step up to a step; null if it has no point there. A bucket that reaches beyond is left out. */
export function upTo(curve: Curve, step: number): Curve | null {
  const known = CUT.get(curve);
  if (known?.step === step) return known.before;
  const kept = [...curve.place.keys()].filter((at) => curve.place[at]! <= step);
  const isBefore = (mark: { step?: number | null }) => typeof mark.step === "number" && mark.step <= step;
  const of = picked(curve, kept);
  const { gaps = [], resumes = [], alerts = [], best } = curve.header;
  const header = {
    ...curve.header, buckets: kept.length, range: { step: [curve.header.range.step?.[0] ?? of.place[0]!, of.place.at(-1)!] as [number, number] },
    gaps: gaps.filter(isBefore), resumes: resumes.filter(isBefore), alerts: alerts.filter(isBefore), best: best && isBefore(best) ? best : null,
  };
  const before = kept.length === 0 ? null : { ...of, header };
  CUT.set(curve, { step, before });
  return before;
}
