/** The messages between the page and its worker. */

import type { ReadError, Skipped, Verdict } from "./verdicts.js";
import type { Stream } from "./selection.js";

export interface ToWorker {
  streams: Stream[];
}

export type FromWorker =
  | { type: "progress"; index: number; bytes: number }
  | { type: "verdict"; index: number; verdict: Verdict }
  | { type: "error"; index: number; error: ReadError }
  | { type: "skipped"; index: number; skipped: Skipped }
  | { type: "done" };
