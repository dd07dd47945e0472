/** The processes of a run in a folder, as toyspec.ranks_of finds them: see spec/ranks.md. */

import { chunks } from "../../../typescript/page/unpacking.js";
import type { Stream } from "../../../typescript/page/selection.js";
import { Reading } from "../../../typescript/src/reader.js";
import type { Json, RankProgress, Ranks, Run } from "../protocol.js";
import { isOfLatestAttempt } from "../run-fields.js";
import type { Attempts } from "./attempts.js";
import type { Members, Scan } from "./scan.js";

/** started_at has whole seconds, and clocks of machines differ. */
const CLOCK_SECONDS = 2;
/** What differs by less may differ by chance. */
const SLOWER = 1.1;
/** The size is what a log says, and any number may be in it. */
const MOST_RANKS = 2 ** 20;

/** The stream of one rank. */
export interface RankStream {
  rank: number;
  id: string;
  stream: Stream;
  row: Run;
  scan: Scan;
}

/** What the records of a rank show beside its row. */
interface RankLog {
  lastAt: number | null;
  stepTimes: number[];
  computeTimes: number[];
}

/** Returns what the ranks of a run have logged; *unread* are those whose streams cannot be read, with the reason. */
export async function ranksOf(streams: readonly RankStream[], unread: readonly { rank: number; error: string }[]): Promise<Ranks> {
  const logs = await Promise.all(streams.map(async ({ stream, scan }) => logOf(stream, scan)));
  // Of a run that went on with fewer processes, the streams of the others still have the earlier number.
  const size = streams.find(({ rank }) => rank === 0)?.scan.worldSize ?? Math.max(...streams.map(({ scan }) => scan.worldSize ?? 0));
  const within = streams.filter(({ rank }) => isOfLatestAttempt(rank, size || null));
  const latest = within.length > 0 ? within : streams;
  const furthest = Math.max(0, ...latest.flatMap(({ row }) => row.last_step ?? []));
  const lastOfAll = Math.max(0, ...latest.flatMap((each) => logs[streams.indexOf(each)]!.lastAt ?? []));
  const ranks = streams.map((each, at): RankProgress => {
    const { rank, id, row } = each;
    const isLatest = latest.includes(each);
    const { lastAt, stepTimes, computeTimes } = logs[at]!;
    return {
      rank, run: id, state: row.state, reason: row.reason, error: row.error, first_step: row.first_step, last_step: row.last_step,
      behind: row.last_step === null || !isLatest ? null : furthest - row.last_step,
      step_seconds: median(stepTimes), compute_seconds: median(computeTimes), silent_seconds: lastAt === null || !isLatest ? null : lastOfAll - lastAt,
    };
  });
  const own = ranks.filter((_, at) => latest.includes(streams[at]!));
  const known = new Set([...streams, ...unread].map(({ rank }) => rank));
  const first = streams[0]!.scan.latest;
  return {
    world_size: size || null, ranks,
    missing: Array.from({ length: Math.min(size, MOST_RANKS) }, (_, rank) => rank).filter((rank) => !known.has(rank)),
    errors: unread.map(({ error }) => error),
    first_to_stop: firstToStop(own, own.map((each) => logs[ranks.indexOf(each)]!)), slowest: slowestOf(own),
    metrics_elsewhere: [...new Set(streams.flatMap(({ scan }) => [...scan.latest.keys()]))].filter((name) => !first.has(name)),
  };
}

async function logOf(stream: Stream, scan: Scan): Promise<RankLog> {
  const log = new LogReader(scan.attempts);
  const reading = new Reading({ mode: "salvage", name: stream.name, profile: scan.profile ?? undefined });
  for await (const chunk of chunks(stream.blob!, () => {})) for (const { kind, value, line } of reading.feed(chunk)) log.take(kind, value as Members, line);
  return log;
}

class LogReader implements RankLog {
  lastAt: number | null = null;
  readonly stepTimes: number[] = [];
  readonly computeTimes: number[] = [];
  private base: readonly [number, number] | null = null;
  private step: readonly [number, number] | null = null;

  constructor(private readonly attempts: Attempts) {}

  take(kind: string | null, value: Members, line: number): void {
    const [time, step] = [numberIn(value["t"]), numberIn(value["step"])];
    if (step !== null && this.attempts.supersedes(line, kind, step, value["phase"])) return;
    const isStart = kind === "run_start" || kind === "run_resume";
    if (time === null) return;
    if (isStart) {
      // The clock of the log stands still between two attempts.
      const at = value[kind === "run_start" ? "started_at" : "resumed_at"];
      const wall = typeof at === "string" ? Date.parse(at) / 1000 : NaN;
      if (!Number.isNaN(wall)) this.base = [wall, time];
      this.step = null;
    }
    if (kind !== "run_end" && this.base) this.lastAt = this.base[0] + time - this.base[1];
    if (step === null || (kind !== "step" && kind !== "scalars")) return;
    if (this.step && step > this.step[0]) this.stepTimes.push((time - this.step[1]) / (step - this.step[0]));
    if (!this.step || step > this.step[0]) this.step = [step, time];
    const compute = numberIn(value["compute_us"]);
    if (compute !== null) this.computeTimes.push(compute / 1e6);
  }
}

function numberIn(value: Json | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function firstToStop(ranks: readonly RankProgress[], logs: readonly RankLog[]): Ranks["first_to_stop"] {
  const cameTo = ({ last_step }: RankProgress) => last_step ?? -1;
  const isLevel = new Set(ranks.map(({ last_step }) => last_step)).size === 1;
  const endedWell = ranks.every(({ state, reason }) => state === "complete" && (reason === null || reason === "completed"));
  if (ranks.length === 1 || (isLevel && endedWell)) return null;
  const [furthest, lowest] = [Math.max(...ranks.map(cameTo)), Math.min(...ranks.map(cameTo))];
  const left = ranks.filter((each) => cameTo(each) === lowest);
  if (left.length === 1 && lowest < furthest) {
    const came = left[0]!.last_step === null ? "it has no step" : `its last is step ${lowest}`;
    return { rank: left[0]!.rank, why: `${came}, and the furthest rank came to step ${furthest}` };
  }
  return firstAt(left, ranks, logs);
}

/** Returns which of the ranks that came to the lowest step stopped first. */
function firstAt(left: readonly RankProgress[], ranks: readonly RankProgress[], logs: readonly RankLog[]): Ranks["first_to_stop"] {
  const unended = left.filter(({ state }) => state === "torn" || state === "damaged");
  if (unended.length === 1 && left.length > 1) return { rank: unended[0]!.rank, why: "it has no run_end, and the others have one" };
  const logOfRank = (rank: RankProgress) => logs[ranks.indexOf(rank)]!;
  const times = (unended.length > 0 ? unended : left)
    .flatMap((each): [number, number][] => (logOfRank(each).lastAt === null ? [] : [[logOfRank(each).lastAt!, each.rank]]))
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const apart = times.length > 1 ? times[1]![0] - times[0]![0] : 0;
  return apart <= CLOCK_SECONDS ? null : { rank: times[0]![1], why: `its last record is ${apart.toFixed(1)} s before that of the next` };
}

/** Ranks that wait for each other take equally long from step to step: only what each computes tells them apart. */
function slowestOf(ranks: readonly RankProgress[]): Ranks["slowest"] {
  for (const [by, timeOf] of [["compute_us", ({ compute_seconds }: RankProgress) => compute_seconds], ["step time", ({ step_seconds }: RankProgress) => step_seconds]] as const) {
    const known = ranks.flatMap((each): [number, number][] => (timeOf(each) === null ? [] : [[timeOf(each)!, each.rank]]));
    if (known.length < 2) continue;
    const [seconds, rank] = known.reduce((most, each) => (each[0] > most[0] ? each : most));
    const others = median(known.filter(([, each]) => each !== rank).map(([each]) => each))!;
    if (others > 0 && seconds / others >= SLOWER) return { rank, factor: seconds / others, by };
  }
  return null;
}

function median(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  const ordered = [...values].sort((a, b) => a - b);
  const middle = ordered.length >> 1;
  return ordered.length % 2 === 1 ? ordered[middle]! : (ordered[middle - 1]! + ordered[middle]!) / 2;
}
