/** Hands a selection to the worker and takes what comes back. */

import type { Verdict } from "./verdicts.js";
import { emptyFolders, checkAll } from "./all-verdicts.js";
import type { FromWorker, ToWorker } from "./messages.js";
import { type Entry, sorted } from "./report.js";
import type { Stream } from "./selection.js";

/** The program of the worker: it is put in when the page is built, so that a saved page has it too. */
declare const WORKER_SOURCE: string;

/** What came of a selection, in the order of its streams. */
export interface Outcome {
  streams: Stream[];
  verdicts: Verdict[];
  /** What came of each stream, the verdicts as reports, and then of the folders without a run. */
  entries: Entry[];
}

export interface Listener {
  progress(done: number, total: number, path: string): void;
  done(outcome: Outcome): void;
  failed(reason: string): void;
}

/** One check at a time; a new one ends the one before. */
export class Checking {
  private worker: Worker | null = null;
  /** Counts the checks, so that what comes of an earlier one is not taken for a later one's. */
  private current = 0;

  start(streams: Stream[], listener: Listener): void {
    this.cancel();
    const check = this.current;
    const sizes = streams.map((stream) => stream.blob?.size ?? 0);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const outcome: Outcome = { streams, verdicts: [], entries: [] };
    let before = 0;
    const take = (message: FromWorker) => {
      if (check !== this.current) return;
      if (message.type === "done") {
        this.cancel();
        outcome.entries.push(...emptyFolders(streams, sorted(outcome.entries).skipped));
        listener.done(outcome);
        return;
      }
      const { path, earlier } = streams[message.index]!;
      if (message.type === "verdict") {
        outcome.verdicts.push(message.verdict);
        outcome.entries.push({ type: "report", report: message.verdict.report, earlier });
      } else if (message.type !== "progress") outcome.entries.push(message);
      if (message.type === "progress") listener.progress(before + message.bytes, total, path);
      else listener.progress((before += sizes[message.index]!), total, path);
    };
    this.run(streams, take, listener);
  }

  /** Ends the check that runs, if one does. */
  cancel(): void {
    this.current++;
    this.worker?.terminate();
    this.worker = null;
  }

  private run(streams: Stream[], take: (message: FromWorker) => void, listener: Listener): void {
    const worker = (this.worker = newWorker());
    if (worker === null) {
      void checkAll(streams, take);
      return;
    }
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => take(data);
    worker.onerror = (event) => {
      event.preventDefault();
      this.cancel();
      listener.failed(event.message || "the checker could not be started");
    };
    worker.postMessage({ streams } satisfies ToWorker);
  }
}

/** Returns a worker; null where the browser has none for this page, such as one that was opened from a file. */
function newWorker(): Worker | null {
  const address = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));
  try {
    return new Worker(address);
  } catch {
    return null;
  } finally {
    // The worker holds what it was made of.
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }
}
