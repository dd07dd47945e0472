/** Gets the curves of a chart, what is seen first, and keeps them. */

import { type Curve, curveOf } from "../frames.js";
import type { Axis, Backend, CurveRequest } from "../protocol.js";

/** The latest attempt of a run, and what earlier ones did. */
export interface Pair {
  latest: Curve | null;
  abandoned: Curve | null;
}

/** Charts whose curves are under way at once; those that ask together share a request. */
const MOST_REQUESTS = 24;

interface Job {
  run(): Promise<void>;
  /** Lower is sooner. */
  rank: number;
}

/** Runs a few jobs at once, the most urgent first. */
export class Queue {
  readonly #waiting: Job[] = [];
  #active = 0;

  add(job: Job): void {
    const at = this.#waiting.findIndex(({ rank }) => rank > job.rank);
    this.#waiting.splice(at < 0 ? this.#waiting.length : at, 0, job);
    this.#next();
  }

  #next(): void {
    while (this.#active < MOST_REQUESTS) {
      const job = this.#waiting.shift();
      if (!job) return;
      this.#active++;
      void job.run().finally(() => {
        this.#active--;
        this.#next();
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

/** Curves of one range, and what is under way. */
class Layer {
  readonly pairs = new Map<string, Pair>();
  /** Runs that are asked for, or whose request failed. */
  readonly asked = new Set<string>();
  readonly control = new AbortController();

  /** Returns the runs to ask for now. */
  missing(runs: readonly string[], stale: ReadonlySet<string>): string[] {
    return runs.filter((run) => !this.asked.has(run) && (!this.pairs.has(run) || stale.has(run)));
  }
}

/** The curves of one metric: over the whole axis, and of the range that is looked at. */
export class Curves {
  #whole = new Layer();
  #close = new Layer();
  #stale = { whole: new Set<string>(), close: new Set<string>() };
  #axis: Axis = "step";
  #range = "";
  #buckets = 0;
  #active = 0;
  error = "";

  /** *arrived* is called with the curves of each frame and whether every run of its request has one, and *finished* after each request. */
  constructor(
    private readonly metric: string,
    private readonly backend: Backend,
    private readonly queue: Queue,
    private readonly on: { arrived(pair: Pair, isWhole: boolean): void; finished(): void },
  ) {}

  get isLoading(): boolean {
    return this.#active > 0;
  }

  /** The curve of a run as close as it is at hand. */
  pair(run: string): Pair | undefined {
    return this.#close.pairs.get(run) ?? this.#whole.pairs.get(run);
  }

  /** The curve of a run over the whole axis. */
  wholeOf(run: string): Curve | null {
    return this.#whole.pairs.get(run)?.latest ?? null;
  }

  /** Forgets everything, so that a chart that is not seen takes no memory. */
  drop(): void {
    this.#whole.control.abort();
    this.#whole = new Layer();
    this.#dropClose("");
  }

  /** Asks for a run again the next time, since its stream has grown; what is there stays until then. */
  grow(run: string): void {
    this.#stale.whole.add(run);
    this.#stale.close.add(run);
    // A request that failed is worth another try.
    if (this.error !== "") for (const layer of [this.#whole, this.#close]) layer.asked.delete(run);
  }

  /** Requests the curves that are not there yet. */
  want(wanted: Wanted): void {
    if (wanted.axis !== this.#axis) this.drop();
    // Finer curves replace the coarse ones when they come.
    else if (wanted.buckets > this.#buckets * 1.5) for (const run of this.#whole.pairs.keys()) this.#stale.whole.add(run);
    this.#axis = wanted.axis;
    this.#buckets = Math.max(this.#buckets, wanted.buckets);
    const range = wanted.range ? wanted.range.join(" ") : "";
    if (range !== this.#range) this.#dropClose(range);
    this.#load(wanted, "whole", undefined);
    if (wanted.range) this.#load(wanted, "close", wanted.range);
  }

  #dropClose(range: string): void {
    this.#close.control.abort();
    this.#close = new Layer();
    this.#range = range;
  }

  #load({ runs, axis, buckets }: Wanted, name: "whole" | "close", range: readonly [number, number] | undefined): void {
    const layer = name === "close" ? this.#close : this.#whole;
    const missing = layer.missing(runs, this.#stale[name]);
    if (missing.length === 0) return;
    for (const run of missing) {
      layer.asked.add(run);
      this.#stale[name].delete(run);
    }
    this.error = "";
    this.#active++;
    const request = { metric: this.metric, runs: missing, axis, buckets, from: range?.[0], to: range?.[1] };
    this.queue.add({ run: () => this.#fetch(request, layer), rank: name === "whole" ? 1 : 0 });
  }

  async #fetch(request: CurveRequest, layer: Layer): Promise<void> {
    try {
      if (!layer.control.signal.aborted) await this.#receive(request, layer);
      for (const run of request.runs) layer.asked.delete(run);
    } catch (error) {
      if (!layer.control.signal.aborted) this.error = (error as Error).message;
    }
    this.#active--;
    this.on.finished();
  }

  async #receive(request: CurveRequest, { pairs, control }: Layer): Promise<void> {
    const fresh = new Set<string>();
    await this.backend.curves(
      request,
      (frame) => {
        const { run, attempt, message } = frame.header;
        const pair = (fresh.has(run) && pairs.get(run)) || { latest: null, abandoned: null };
        fresh.add(run);
        if (message === undefined) pair[attempt] = curveOf(frame, request.axis);
        pairs.set(run, pair);
        this.on.arrived(pair, fresh.size === request.runs.length);
      },
      control.signal,
    );
    // A run without the metric has no frame and need not be asked for again.
    for (const run of request.runs) if (!fresh.has(run)) pairs.set(run, { latest: null, abandoned: null });
  }
}
