/** Hands a selection to the worker and takes what comes back. */

import type { ReadError, Verdict } from "./judging.js";
import type { FromWorker, ToWorker } from "./messages.js";
import type { Stream } from "./selection.js";

/** What came of a selection, in the order of its streams. */
export interface Outcome {
  streams: Stream[];
  verdicts: Verdict[];
  errors: ReadError[];
}

export interface Listener {
  progress(done: number, total: number, path: string): void;
  done(outcome: Outcome): void;
  failed(reason: string): void;
}

/** One check at a time; a new one ends the one before. */
export class Checking {
  private worker: Worker | null = null;

  start(streams: Stream[], listener: Listener): void {
    this.cancel();
    const sizes = streams.map((stream) => stream.blob?.size ?? 0);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const outcome: Outcome = { streams, verdicts: [], errors: [] };
    let before = 0;
    const worker = (this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" }));
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.type === "done") {
        this.cancel();
        listener.done(outcome);
        return;
      }
      if (data.type === "progress") {
        listener.progress(before + data.bytes, total, streams[data.index]!.path);
        return;
      }
      if (data.type === "verdict") outcome.verdicts.push(data.verdict);
      else outcome.errors.push(data.error);
      before += sizes[data.index]!;
      listener.progress(before, total, streams[data.index]!.path);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.cancel();
      listener.failed(event.message || "the checker could not be started");
    };
    worker.postMessage({ streams } satisfies ToWorker);
  }

  /** Ends the check that runs, if one does. */
  cancel(): void {
    this.worker?.terminate();
    this.worker = null;
  }
}
