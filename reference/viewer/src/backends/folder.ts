/** Takes runs from a folder that the user opens: a worker reads it, and nothing is sent anywhere. */

import { MEDIA_FOLDER, type Selection, streamsIn } from "../../../typescript/page/selection.js";
import { EXTENSIONS } from "../generated/media.js";
import { HINTS } from "../dialects/usual-names.js";
import type { Answer, Asked, FromWorker, ToWorker } from "../folder/messages.js";
import type { Backend, Change, CurveRequest, Detail, Frame, Listing, Media, Ranks } from "../protocol.js";

/** The program of the worker: it is put in when the page is built, so that a saved page has it too. */
declare const WORKER_SOURCE: string;

interface Waiting {
  resolve(answer: unknown): void;
  reject(error: Error): void;
  take?: ((frame: Frame) => void) | undefined;
}

export class Folder implements Backend {
  readonly kind = "folder";
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  readonly #listeners = new Set<(change: Change) => void>();
  #asked = 0;
  #problems: readonly string[] = [];
  /** Media files by their hashes, and the addresses that were made of them. */
  #media: ReadonlyMap<string, Blob> = new Map();
  readonly #addresses = new Map<string, string>();

  constructor() {
    const address = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));
    this.#worker = new Worker(address);
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      for (const { reject } of this.#waiting.values()) reject(new Error(event.message || "the reader of the folder could not be started"));
      this.#waiting.clear();
    };
  }

  /** Shows the runs of a selection instead of those before, and what is to be said about it; returns how many streams are in it. */
  open(selection: Selection, problems: readonly string[] = []): number {
    this.#problems = problems;
    const streams = streamsIn(selection, HINTS).filter(({ blob }) => blob !== null);
    for (const address of this.#addresses.values()) URL.revokeObjectURL(address);
    this.#addresses.clear();
    this.#media = mediaIn(selection);
    this.#post({ open: { root: rootOf(selection), streams } });
    return streams.length;
  }

  async runs(since?: string): Promise<Listing> {
    const listing = await this.#ask<Answer<"runs">>("runs", [since]);
    return { ...listing, problems: [...this.#problems, ...listing.problems!] };
  }

  async curves(request: CurveRequest, take: (frame: Frame) => void, signal: AbortSignal): Promise<void> {
    await this.#ask("curves", [request], (frame) => {
      if (!signal.aborted) take(frame);
    });
  }

  detail(run: string): Promise<Detail> {
    return this.#ask<Answer<"detail">>("detail", [run]);
  }

  partings(): Promise<null> {
    return Promise.resolve(null);
  }

  ranks(run: string): Promise<Ranks | null> {
    return this.#ask<Answer<"ranks">>("ranks", [run]);
  }

  bytes(run: string, path: string, offset: number, length: number): Promise<Uint8Array> {
    return this.#ask<Answer<"bytes">>("bytes", [run, path, offset, length]);
  }

  mediaAddress(_run: string, { sha256, media_type }: Pick<Media, "sha256" | "media_type">): string | null {
    const blob = this.#media.get(sha256);
    if (!blob) return null;
    const type = Object.hasOwn(EXTENSIONS, media_type) ? media_type : "application/octet-stream";
    const key = `${sha256} ${type}`;
    const address = this.#addresses.get(key) ?? URL.createObjectURL(blob.slice(0, blob.size, type));
    this.#addresses.set(key, address);
    return address;
  }

  async mediaBytes(_run: string, { sha256 }: Pick<Media, "sha256">): Promise<Uint8Array> {
    const blob = this.#media.get(sha256);
    if (!blob) throw new Error(ABSENT);
    return new Uint8Array(await blob.arrayBuffer());
  }

  changes(take: (change: Change) => void): () => void {
    this.#listeners.add(take);
    return () => this.#listeners.delete(take);
  }

  #ask<Answered>(ask: Asked, given: unknown[], take?: (frame: Frame) => void): Promise<Answered> {
    return new Promise<Answered>((resolve, reject) => {
      const id = ++this.#asked;
      this.#waiting.set(id, { resolve: resolve as (answer: unknown) => void, reject, take });
      this.#post({ id, ask, with: given });
    });
  }

  #post(message: ToWorker): void {
    this.#worker.postMessage(message);
  }

  #receive(message: FromWorker): void {
    if ("changed" in message) {
      for (const listener of [...this.#listeners]) listener({ run: message.changed, bytes: 0 });
      return;
    }
    const waiting = this.#waiting.get(message.id);
    if ("frame" in message) {
      waiting?.take?.(message.frame);
      return;
    }
    this.#waiting.delete(message.id);
    if ("error" in message) waiting?.reject(new Error(message.error));
    else waiting?.resolve(message.answer);
  }
}

const ABSENT = "The file is not at hand here. See it with `toyspec view`.";

/** Returns the hash that a media file is named for; null for another file. */
export function digestIn(name: string): string | null {
  return /^([0-9a-f]{64})\.[a-z0-9]+$/.exec(name)?.[1] ?? null;
}

function mediaIn({ folders }: Selection): Map<string, Blob> {
  const files = folders.flatMap((folder) => folder.files).filter(({ path }) => path.split("/").at(-2) === MEDIA_FOLDER);
  return new Map(files.flatMap(({ path, blob }): [string, Blob][] => {
    const digest = digestIn(path.split("/").at(-1)!);
    // An editor names the files of media, and does not send them.
    return digest === null || blob.size === 0 ? [] : [[digest, blob]];
  }));
}

function rootOf({ folders, files }: Selection): string {
  if (folders.length === 1 && files.length === 0) return folders[0]!.name;
  return folders.length + files.length === 1 ? files[0]!.path : "files";
}
