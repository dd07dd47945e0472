/** One request for the charts that ask at the same time for the same part of the same runs. */

import type { CurveRequest, Frame } from "../protocol.js";

/** What several charts want, each of another metric and by its own width. */
export type Part = Omit<CurveRequest, "metric" | "buckets">;

/** Gets the curves of *metrics*, each with its number of buckets, and gives each frame to *take*. */
export type Ask = (metrics: ReadonlyMap<string, number>, part: Part, take: (frame: Frame) => void, signal: AbortSignal) => Promise<void>;

interface Asking {
  metric: string;
  buckets: number;
  take: (frame: Frame) => void;
  signal: AbortSignal;
}

export class Gathering {
  readonly #open = new Map<string, { askings: Asking[]; done: Promise<void> }>();

  constructor(private readonly ask: Ask) {}

  /** Resolves after the last frame of *metric*; what else is asked for before the current task ends is asked with it. */
  curves({ metric, buckets, ...part }: CurveRequest, take: (frame: Frame) => void, signal: AbortSignal): Promise<void> {
    const key = JSON.stringify(part);
    const shared = this.#open.get(key) ?? this.#begin(key, part);
    shared.askings.push({ metric, buckets, take, signal });
    return shared.done;
  }

  #begin(key: string, part: Part): { askings: Asking[]; done: Promise<void> } {
    const askings: Asking[] = [];
    const done = Promise.resolve().then(() => {
      this.#open.delete(key);
      return this.#send(part, askings);
    });
    const shared = { askings, done };
    this.#open.set(key, shared);
    return shared;
  }

  #send(part: Part, askings: readonly Asking[]): Promise<void> {
    const control = new AbortController();
    const stop = () => {
      if (askings.every(({ signal }) => signal.aborted)) control.abort();
    };
    for (const { signal } of askings) signal.addEventListener("abort", stop);
    // Whoever left before this task began is not heard of any more.
    stop();
    const metrics = new Map<string, number>();
    for (const { metric, buckets } of askings) metrics.set(metric, Math.max(buckets, metrics.get(metric) ?? 0));
    const give = (frame: Frame) => {
      for (const { metric, take, signal } of askings) if (metric === frame.header.metric && !signal.aborted) take(frame);
    };
    return this.ask(metrics, part, give, control.signal);
  }
}
