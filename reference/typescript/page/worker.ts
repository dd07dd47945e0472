/** Judges streams beside the page, one after the other, and tells it how far it is. */

import { MOST_PARTS } from "./curve.js";
import { judge } from "./judging.js";
import type { FromWorker, ToWorker } from "./messages.js";

interface Port {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker): void;
}

const port = self as unknown as Port;
const TELL_EVERY_MS = 100;
/** What the page holds of the curves of all runs together stays below a hundred megabytes. */
const ALL_PARTS = 200_000;
const LEAST_PARTS = 100;

port.onmessage = async (event) => {
  let told = 0;
  const { streams } = event.data;
  const mostParts = Math.min(MOST_PARTS, Math.max(LEAST_PARTS, Math.floor(ALL_PARTS / streams.length)));
  for (const [index, stream] of streams.entries()) {
    const onProgress = (bytes: number) => {
      if (performance.now() - told < TELL_EVERY_MS) return;
      told = performance.now();
      port.postMessage({ type: "progress", index, bytes });
    };
    try {
      port.postMessage({ type: "verdict", index, verdict: await judge(stream, onProgress, mostParts) });
    } catch (error) {
      const message = error instanceof DOMException ? "the file cannot be read; it may have changed since it was picked" : String(error);
      port.postMessage({ type: "error", index, error: { path: stream.path, message } });
    }
  }
  port.postMessage({ type: "done" });
};
