/** Asks the server that the page came from: see ../../PROTOCOL.md. */

import { FrameReader } from "../frames.js";
import { Gathering, type Part } from "./gathering.js";
import { SharedChanges } from "./shared-changes.js";
import { type Backend, type Change, type CurveRequest, type Detail, type Frame, type Listing, type Media, type Parting, type Ranks, type Run, SERVER_IS_GONE } from "../protocol.js";

/** Longer addresses are refused by some servers and proxies. */
const LONGEST_ADDRESS = 6000;

/** What the server leaves out of the row of a run that it has not read yet. */
const UNREAD: Omit<Run, "id" | "name" | "bytes" | "root" | "state"> = {
  run_id: null, group: null, tags: [], notes: null, starred: false, hidden: false, profile: null, dialect: null, started_at: null, seconds: null, first_step: null, last_step: null, records: null,
  final_loss: null, ended: "unknown", reason: null, error: null, sealed: false, progress: null, remaining: null, findings: null, config: {}, metrics: {}, left_out: { metrics: 0, config: 0 }, message: null,
};

export class Served implements Backend {
  readonly kind = "served";
  readonly #gathering = new Gathering(async (metrics, part, take, signal) => {
    await Promise.all(addresses(metrics, part).map((address) => frames(address, take, signal)));
  });

  async runs(since?: string): Promise<Listing> {
    const listing: Listing = await json(since === undefined ? "api/runs" : `api/runs?since=${since}`);
    return { ...listing, runs: listing.runs.map((run) => (run.state === "unread" ? { ...UNREAD, ...run } : run)) };
  }

  curves(request: CurveRequest, take: (frame: Frame) => void, signal: AbortSignal): Promise<void> {
    return this.#gathering.curves(request, take, signal);
  }

  detail(run: string): Promise<Detail> {
    return json(`api/run?run=${encodeURIComponent(run)}`);
  }

  ranks(run: string): Promise<Ranks | null> {
    return json(`api/ranks?run=${encodeURIComponent(run)}`);
  }

  partings(a: string, b: string): Promise<Parting[] | null> {
    return json(`api/partings?${new URLSearchParams({ a, b }).toString()}`);
  }

  async bytes(run: string, path: string, offset: number, length: number): Promise<Uint8Array> {
    // The cache of a browser answers with the part of a file that it has, which may be shorter than the part that was asked for.
    const headers = { Range: `bytes=${offset}-${offset + length - 1}` };
    const answer = await asked(`files?${new URLSearchParams({ run, ...(path !== "" && { path }) }).toString()}`, { headers, cache: "no-store" });
    const data = new Uint8Array(await answer.arrayBuffer());
    return answer.status === 206 ? data : data.subarray(offset, offset + length);
  }

  mediaAddress(run: string, { sha256, media_type }: Pick<Media, "sha256" | "media_type">): string {
    return `media?${new URLSearchParams({ run, sha256, type: media_type }).toString()}`;
  }

  async mediaBytes(run: string, media: Pick<Media, "sha256" | "media_type">): Promise<Uint8Array> {
    return new Uint8Array(await (await asked(this.mediaAddress(run, media))).arrayBuffer());
  }

  changes(take: (change: Change) => void): () => void {
    return new SharedChanges(take).stop;
  }
}

/** Returns the addresses of a request, each with as many runs as fit. */
function addresses(metrics: ReadonlyMap<string, number>, { runs, axis, from, to }: Part): string[] {
  const fixed = new URLSearchParams([...[...metrics].flatMap(([metric, buckets]) => [["metric", metric], ["buckets", String(buckets)]]), ["x", axis]]);
  if (from !== undefined) fixed.set("from", String(from));
  if (to !== undefined) fixed.set("to", String(to));
  const start = `api/curve?${fixed.toString()}`;
  const made: string[] = [];
  let address = start;
  for (const run of runs) {
    const part = `&run=${encodeURIComponent(run)}`;
    if (address !== start && address.length + part.length > LONGEST_ADDRESS) {
      made.push(address);
      address = start;
    }
    address += part;
  }
  if (address !== start) made.push(address);
  return made;
}

async function frames(address: string, take: (frame: Frame) => void, signal: AbortSignal): Promise<void> {
  const answer = await asked(address, { signal });
  const reader = new FrameReader();
  for await (const bytes of answer.body!) for (const frame of reader.feed(bytes)) take(frame as Frame);
  reader.finish();
}

async function json<Answer>(address: string): Promise<Answer> {
  return (await asked(address)).json() as Promise<Answer>;
}

async function asked(address: string, init: RequestInit = {}): Promise<Response> {
  const answer = await reached(address, init);
  if (answer.ok) return answer;
  const { message } = (await answer.json().catch(() => ({}))) as { message?: unknown };
  throw new Error(typeof message === "string" ? message : `the server answered ${answer.status} ${answer.statusText}`);
}

async function reached(address: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(address, init);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Error(SERVER_IS_GONE);
  }
}
