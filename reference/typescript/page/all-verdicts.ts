/** Checks streams one after the other, and reports how far it is. */

import { checkStream, type Progress, type ReadError, type Skipped, type Verdict } from "./verdicts.js";
import { noStream, onlyOtherFormats } from "../src/messages.js";
import type { FromWorker } from "./messages.js";
import type { Entry } from "./report.js";
import type { Stream } from "./selection.js";
import { UnpackingError } from "./unpacking.js";

const REPORT_EVERY_MS = 100;

/** Checks the streams; what comes of each goes to *post*, `done` last. */
export async function checkAll(streams: readonly Stream[], post: (message: FromWorker) => void): Promise<void> {
  let reported = 0;
  for (const [index, stream] of streams.entries()) {
    const onProgress = (bytes: number) => {
      if (performance.now() - reported < REPORT_EVERY_MS) return;
      reported = performance.now();
      post({ type: "progress", index, bytes });
    };
    post({ index, ...(await outcomeOf(stream, onProgress)) });
  }
  post({ type: "done" });
}

type OutcomeOf = { type: "verdict"; verdict: Verdict } | { type: "error"; error: ReadError } | { type: "skipped"; skipped: Skipped };

async function outcomeOf(stream: Stream, onProgress: Progress): Promise<OutcomeOf> {
  const { path, blob, isBundle, isBelow } = stream;
  if (blob === null && !isBundle) return { type: "error", error: { path, message: noStream } };
  try {
    const verdict = await checkStream(stream, onProgress);
    const { profile, findings } = verdict.report;
    // Damage can take the profile from a stream; only a broken seal shows then that it is a run.
    if (isBelow && profile === null && !verdict.breaksSeal) return { type: "skipped", skipped: { path, message: findings[0]!.message } };
    return { type: "verdict", verdict };
  } catch (error) {
    return { type: "error", error: { path, message: reasonOf(error) } };
  }
}

/** Returns an error for each folder in which nothing but files of other formats was found. */
export function emptyFolders(streams: readonly Stream[], skipped: readonly Skipped[]): Entry[] {
  const paths = new Set(skipped.map(({ path }) => path));
  const found = new Map<string, { runs: number; skipped: number }>();
  for (const { path, root } of streams) {
    if (root === undefined) continue;
    const counts = found.get(root) ?? { runs: 0, skipped: 0 };
    found.set(root, counts);
    counts[paths.has(path) ? "skipped" : "runs"]++;
  }
  const empty = [...found].filter(([, { runs }]) => runs === 0);
  return empty.map(([path, { skipped: count }]) => ({ type: "error", error: { path, message: onlyOtherFormats({ count }) } }));
}

function reasonOf(error: unknown): string {
  if (error instanceof UnpackingError) return error.message;
  return error instanceof DOMException ? "the file cannot be read; it may have changed since it was chosen" : String(error);
}
