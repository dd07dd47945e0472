/** Takes runs from the page itself, as `toyspec report` wrote it: see "A report" in ../../PROTOCOL.md. */

import { type AnyFrame, FrameReader } from "../frames.js";
import { EXTENSIONS } from "../generated/media.js";
import type { Backend, CurveRequest, Detail, Frame, Listing, Media, Ranks, ReportHeader } from "../protocol.js";

const ABSENT = "This file is not in the report: it has small files only. Open the runs with `toyspec view`.";

export class Embedded implements Backend {
  readonly kind = "embedded";

  private constructor(
    private readonly header: ReportHeader,
    private readonly frames: Map<string, Frame[]>,
  ) {}

  /** Reads the text of `#toyspec-data`. */
  static async from(text: string): Promise<Embedded> {
    const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const reader = new FrameReader();
    const all: AnyFrame[] = [];
    for await (const bytes of stream) all.push(...reader.feed(bytes));
    reader.finish();
    const frames = new Map<string, Frame[]>();
    for (const frame of all.slice(1) as Frame[]) {
      const { metric } = frame.header;
      frames.set(metric, [...(frames.get(metric) ?? []), frame]);
    }
    if (all.length === 0) throw new Error("the report has no data; write it again with `toyspec report`");
    return new Embedded(all[0]!.header as ReportHeader, frames);
  }

  /** When the report was written, RFC 3339. */
  get written(): string {
    return this.header.written;
  }

  runs(): Promise<Listing> {
    return Promise.resolve(this.header.listing);
  }

  curves({ metric, runs }: CurveRequest, take: (frame: Frame) => void): Promise<void> {
    const wanted = new Set(runs);
    for (const frame of this.frames.get(metric) ?? []) if (wanted.has(frame.header.run)) take(frame);
    return Promise.resolve();
  }

  detail(run: string): Promise<Detail> {
    const found = this.header.details[run];
    return found ? Promise.resolve(found) : Promise.reject(new Error("the report has no details of this run"));
  }

  partings(): Promise<null> {
    return Promise.resolve(null);
  }

  ranks(run: string): Promise<Ranks | null> {
    const { ranks = {} } = this.header;
    return Promise.resolve(Object.hasOwn(ranks, run) ? ranks[run]! : null);
  }

  bytes(): Promise<Uint8Array> {
    return Promise.reject(new Error("a report has no raw lines; open the runs with `toyspec view`"));
  }

  mediaAddress(_run: string, { sha256, media_type }: Pick<Media, "sha256" | "media_type">): string | null {
    const data = this.#dataOf(sha256);
    const type = Object.hasOwn(EXTENSIONS, media_type) ? media_type : "application/octet-stream";
    return data === null ? null : `data:${type};base64,${data}`;
  }

  mediaBytes(_run: string, { sha256 }: Pick<Media, "sha256">): Promise<Uint8Array> {
    const data = this.#dataOf(sha256);
    return data === null ? Promise.reject(new Error(ABSENT)) : Promise.resolve(Uint8Array.from(atob(data), (character) => character.charCodeAt(0)));
  }

  #dataOf(sha256: string): string | null {
    const { media } = this.header;
    return media && Object.hasOwn(media, sha256) ? media[sha256]! : null;
  }

  changes(): () => void {
    return () => undefined;
  }
}
