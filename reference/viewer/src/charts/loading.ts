/** Gets the curves of a chart, what is seen first, and keeps them. */

import { type Curve, curveOf } from "../frames.js";
import type { Axis, Backend, CurveRequest } from "../protocol.js";

/** The latest attempt of a run, and what earlier ones did. */
export interface Pair {
  latest: Curve | null;
  abandoned: Curve | null;
}

/** Requests that are under way at once. */
const MOST_REQUESTS = 4;

interface Job {
  run(): Promise<void>;
  /** Lower is sooner. */
  rank: number;
}

/** Runs a few jobs at once, the most urgent first. */
export class Queue {
  private readonly waiting: Job[] = [];
  private active = 0;

  add(job: Job): void {
    const at = this.waiting.findIndex(({ rank }) => rank > job.rank);
    this.waiting.splice(at < 0 ? this.waiting.length : at, 0, job);
    this.next();
  }

  private next(): void {
    while (this.active < MOST_REQUESTS) {
      const job = this.waiting.shift();
      if (!job) return;
      this.active++;
      void job.run().finally(() => {
        this.active--;
        this.next();
      });
    }
  }
}

/** What a chart wants to have. */
export interface Wanted {
  runs: readonly string[];
  axis: Axis;
  buckets: number;
  range: readonly [number, number] | null;
}

/** The curves of one metric: over the whole axis, and of the range that is looked at. */
export class Curves {
  private whole = new Map<string, Pair>();
  private close = new Map<string, Pair>();
  private readonly stale = new Set<string>();
  private axis: Axis = "step";
  private range = "";
  private buckets = 0;
  private loading: AbortController | null = null;
  private loadingKey = "";
  isLoading = false;
  error = "";

  constructor(
    private readonly metric: string,
    private readonly backend: Backend,
    private readonly queue: Queue,
    private readonly arrived: () => void,
  ) {}

  /** The curve of a run as close as it is at hand. */
  pair(run: string): Pair | undefined {
    return this.close.get(run) ?? this.whole.get(run);
  }

  /** The curve of a run over the whole axis. */
  wholeOf(run: string): Curve | null {
    return this.whole.get(run)?.latest ?? null;
  }

  /** Forgets everything, so that a chart that is not seen takes no memory. */
  drop(): void {
    this.loading?.abort();
    this.loading = null;
    this.loadingKey = "";
    this.isLoading = false;
    this.whole.clear();
    this.close.clear();
    this.range = "";
  }

  /** Asks for a run again the next time, since its stream has grown; what is there stays until then. */
  grow(run: string): void {
    if (this.whole.has(run) || this.loadingKey !== "") this.stale.add(run);
  }

  /** Sees to it that the curves come which are not there yet. */
  want(wanted: Wanted): void {
    this.prepare(wanted);
    const range = wanted.range ? wanted.range.join(" ") : "";
    const isMissing = (known: Map<string, Pair>) => (run: string) => !known.has(run) || this.stale.has(run);
    const whole = wanted.runs.filter(isMissing(this.whole));
    const close = range === "" ? [] : wanted.runs.filter(isMissing(this.close));
    const key = `${range}|${wanted.axis}|${wanted.buckets}|${[...new Set([...whole, ...close])].join("\n")}`;
    if (whole.length + close.length === 0 || key === this.loadingKey) return;
    this.loading?.abort();
    this.load(wanted, { whole, close, key });
  }

  private prepare(wanted: Wanted): void {
    if (wanted.axis !== this.axis || wanted.buckets > this.buckets * 1.5) {
      // Curves by another axis are of no use; finer ones replace the coarse ones when they come.
      if (wanted.axis !== this.axis) this.drop();
      else for (const run of this.whole.keys()) this.stale.add(run);
      this.axis = wanted.axis;
      this.buckets = wanted.buckets;
    }
    const range = wanted.range ? wanted.range.join(" ") : "";
    if (range !== this.range) {
      this.close = new Map();
      this.range = range;
    }
  }

  private load(wanted: Wanted, { whole, close, key }: { whole: string[]; close: string[]; key: string }): void {
    const control = new AbortController();
    this.loading = control;
    this.loadingKey = key;
    this.isLoading = true;
    this.error = "";
    for (const run of [...whole, ...close]) this.stale.delete(run);
    const { axis, buckets, range } = wanted;
    const request = { metric: this.metric, axis, buckets };
    const run = async () => {
      try {
        const parts = [whole.length > 0 && this.fetch({ ...request, runs: whole }, this.whole, control.signal)];
        if (range) parts.push(close.length > 0 && this.fetch({ ...request, runs: close, from: range[0], to: range[1] }, this.close, control.signal));
        await Promise.all(parts);
      } catch (error) {
        if (!control.signal.aborted) this.error = (error as Error).message;
      }
      if (this.loading !== control) return;
      this.isLoading = false;
      this.loading = null;
      // After a failure the same request waits for a change.
      if (this.error === "") this.loadingKey = "";
      this.arrived();
    };
    this.queue.add({ run, rank: whole.length > 0 ? 1 : 0 });
  }

  private async fetch(request: CurveRequest, into: Map<string, Pair>, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const fresh = new Set<string>();
    await this.backend.curves(
      request,
      (frame) => {
        const { run, attempt, message } = frame.header;
        const pair = (fresh.has(run) && into.get(run)) || { latest: null, abandoned: null };
        fresh.add(run);
        if (message === undefined) pair[attempt] = curveOf(frame, request.axis);
        into.set(run, pair);
        this.arrived();
      },
      signal,
    );
    // A run without the metric has no frame and need not be asked for again.
    if (!signal.aborted) for (const run of request.runs) if (!fresh.has(run)) into.set(run, { latest: null, abandoned: null });
  }
}
