/** What the page and the worker that has the runs of a folder send to each other. */

import type { Stream } from "../../../typescript/page/selection.js";
import type { Backend, Frame } from "../protocol.js";

/** The questions of a back end that have one answer. */
export type Asked = "runs" | "detail" | "ranks" | "bytes" | "curves";

export type ToWorker = { open: { root: string; streams: Stream[] } } | { id: number; ask: Asked; with: unknown[] };

export type FromWorker = { changed: string } | { id: number; frame: Frame } | { id: number; answer: unknown } | { id: number; error: string };

export type Answer<Name extends Exclude<Asked, "curves">> = Awaited<ReturnType<Backend[Name]>>;
