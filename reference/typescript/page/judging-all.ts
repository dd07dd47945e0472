/** Checks streams one after the other, and reports how far it is. */

import { MOST_PARTS } from "./curve.js";
import { judge } from "./judging.js";
import type { FromWorker } from "./messages.js";
import type { Stream } from "./selection.js";
import { UnpackingError } from "./unpacking.js";

const REPORT_EVERY_MS = 100;
/** What the page holds of the curves of all runs together stays below a hundred megabytes. */
const ALL_PARTS = 200_000;
const LEAST_PARTS = 100;

/** Checks the streams; what comes of each goes to *post*, `done` last. */
export async function judgeAll(streams: readonly Stream[], post: (message: FromWorker) => void): Promise<void> {
  let reported = 0;
  const mostParts = Math.min(MOST_PARTS, Math.max(LEAST_PARTS, Math.floor(ALL_PARTS / streams.length)));
  for (const [index, stream] of streams.entries()) {
    const onProgress = (bytes: number) => {
      if (performance.now() - reported < REPORT_EVERY_MS) return;
      reported = performance.now();
      post({ type: "progress", index, bytes });
    };
    try {
      post({ type: "verdict", index, verdict: await judge(stream, onProgress, mostParts) });
    } catch (error) {
      post({ type: "error", index, error: { path: stream.path, message: reasonOf(error) } });
    }
  }
  post({ type: "done" });
}

function reasonOf(error: unknown): string {
  if (error instanceof UnpackingError) return error.message;
  return error instanceof DOMException ? "the file cannot be read; it may have changed since it was chosen" : String(error);
}
