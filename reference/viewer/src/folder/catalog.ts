/** The runs of a folder: scans them, answers what the viewer asks, then checks them. It knows nothing of workers. */

import { addSealFindings } from "../../../typescript/page/seals.js";
import type { Stream } from "../../../typescript/page/selection.js";
import { readSidecar } from "../../../typescript/page/sidecar-files.js";
import { chunks, isGzip } from "../../../typescript/page/unpacking.js";
import { type FileReport, type Sidecar, StreamChecker } from "../../../typescript/src/checker.js";
import { validateText } from "../../../typescript/src/line-validation.js";
import { detectProfile, streamName } from "../../../typescript/src/profiles.js";
import { hasManifest, manifestIn, objectIn } from "../../../typescript/src/sidecars.js";
import { PROFILES } from "../../../typescript/src/tables.js";
import { memberAt } from "../dialects/mapping.js";
import { HEAD_BYTES } from "../dialects/recognition.js";
import { headOf, RowReader, readAsOf } from "../dialects/row-reader.js";
import type { CurveRequest, Detail, Frame, Listing, Ranks, Run, Severity } from "../protocol.js";
import { isOfLatestAttempt } from "../run-fields.js";
import { framesOf, MOST_FINE } from "./curves.js";
import { detailOf } from "./details.js";
import { Budget, type Buckets } from "./pyramid.js";
import { annotated, readAnnotations } from "./annotations.js";
import { rowOf, unreadableRow } from "./rows.js";
import { ranksOf } from "./ranks.js";
import { plainValue } from "./plain-values.js";
import { type Members, Scan } from "./scan.js";

/** A part of a file that is read for one finer curve, in bytes. */
const MOST_PART = 256 << 20;
const PIECE = 1 << 20;
/** Names of files that are not read; the others are counted. */
const MOST_NAMED = 5;

interface Entry {
  id: string;
  stream: Stream;
  scan: Scan | null;
  row: Run;
  /** The revision in which the row last changed. */
  revision: number;
  /** Null before the check, and for the log of another program. */
  report: FileReport | null;
}

export class Catalog {
  private readonly entries = new Map<string, Entry>();
  /** The streams of other ranks, by the id of their run and their name. */
  private readonly ranked = new Map<string, Entry>();
  /** Ids of what is not a run, with the revision in which that was found. */
  private readonly removed = new Map<string, number>();
  /** Paths of files that are of no format which is read here. */
  private readonly notRead: string[] = [];
  private revision = 1;
  private ready: () => void = () => undefined;
  /** Resolves when rows can be shown. */
  private readonly first = new Promise<void>((resolve) => (this.ready = resolve));
  private readonly budget = new Budget();
  private isClosed = false;

  /** *serial* distinguishes folders; *changed* is called with the id of each run whose row has changed. */
  constructor(
    private readonly serial: number,
    private readonly root: string,
    streams: readonly Stream[],
    private readonly changed: (run: string) => void,
  ) {
    const isOther = ({ place }: Stream) => place !== undefined && place.rank > 0;
    for (const [id, stream] of named(streams.filter((each) => !isOther(each)))) this.entries.set(id, newEntry(id, stream));
    const owners = new Map([...this.entries.values()].map(({ id, stream }) => [stream.blob, id]));
    for (const stream of streams.filter(isOther)) {
      const id = `${owners.get(stream.place!.ofRankZero)}/${stream.name}`;
      this.ranked.set(id, newEntry(id, stream));
    }
  }

  close(): void {
    this.isClosed = true;
  }

  /** Scans every run, then checks every run; what is drawn comes first. */
  async work(): Promise<void> {
    for (const entry of this.entries.values()) await this.guarded(entry, () => this.scan(entry));
    this.ready();
    for (const entry of this.ranked.values()) await this.guarded(entry, () => this.scan(entry));
    for (const entry of this.entries.values()) this.takeRanks(entry);
    for (const entry of this.entries.values()) if (entry.scan) await this.guarded(entry, () => this.check(entry));
  }

  async runs(since?: string): Promise<Listing> {
    await this.first;
    const [serial, revision] = (since ?? "").split(":").map(Number);
    const known = serial === this.serial ? revision! : 0;
    const runs = [...this.entries.values()].filter((entry) => entry.revision > known).map(({ row }) => row);
    const removed = [...this.removed].filter(([, at]) => at > known).map(([id]) => id);
    return { revision: `${this.serial}:${this.revision}`, complete: known === 0, root: this.root, version: "", runs, removed, problems: problemsOf(this.notRead) };
  }

  async curves(request: CurveRequest, take: (frame: Frame) => void): Promise<void> {
    for (const run of request.runs) {
      const entry = this.entries.get(run) ?? this.ranked.get(run);
      if (!entry?.scan) continue;
      const { scan } = entry;
      const frames = await framesOf(scan, run, request, (whole, begin, end) => finer(entry.stream, scan, request.metric, { whole, begin, end }));
      for (const frame of frames) take(frame);
    }
  }

  async detail(run: string): Promise<Detail> {
    const entry = this.entry(run);
    if (!entry.scan) throw new Error(entry.row.message ?? "the run was not read yet");
    if (!entry.report) await this.check(entry);
    return detailOf(entry.stream, entry.scan, entry.row, entry.report);
  }

  /** Returns what the ranks of a run have logged; null where only one has a stream. */
  async ranks(run: string): Promise<Ranks | null> {
    const own = this.entry(run);
    const others = this.othersOf(own);
    if (others.length === 0) return null;
    for (const entry of others) if (!entry.scan && entry.row.message === "") await this.guarded(entry, () => this.scan(entry));
    const all = [own, ...others];
    const read = all.flatMap(({ id, stream, row, scan }) => (scan ? [{ rank: stream.place!.rank, id, stream, row, scan }] : []));
    return ranksOf(read, all.flatMap(({ scan, stream, row }) => (scan ? [] : [{ rank: stream.place!.rank, error: `${stream.name}: ${row.message ?? "it cannot be read"}` }])));
  }

  /** Returns the streams of the other ranks of a run, in the order of `streamsIn`: that of the ranks. */
  private othersOf({ stream: { blob } }: Entry): Entry[] {
    return [...this.ranked.values()].filter(({ stream: { place } }) => place!.ofRankZero === blob);
  }

  /** Puts into the row of a run which of its other ranks are not whole. */
  private takeRanks(entry: Entry): void {
    const others = this.othersOf(entry);
    const unended = others.flatMap(({ row: { state }, stream: { place } }): [number, "torn" | "damaged"][] => (state === "damaged" || (state === "torn" && isOfLatestAttempt(place!.rank, entry.row.world_size)) ? [[place!.rank, state]] : []));
    if (others.length > 0) this.put(entry, { ...entry.row, other_ranks: others.map(({ stream: { place } }) => place!.rank), ...(unended.length > 0 ? { unended_ranks: unended } : {}) });
  }

  async bytes(run: string, path: string, offset: number, length: number): Promise<Uint8Array> {
    const { stream } = this.entry(run);
    const blob = path === "" || path === stream.name ? stream.blob : stream.sidecars.find(({ name }) => name === path)?.blob;
    if (!blob) throw new Error("the run has no such file");
    return new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer());
  }

  private entry(run: string): Entry {
    const found = this.entries.get(run) ?? this.ranked.get(run);
    if (!found) throw new Error("no such run in the folder");
    return found;
  }

  private async guarded(entry: Entry, work: () => Promise<void>): Promise<void> {
    if (this.isClosed) return;
    try {
      await work();
    } catch (error) {
      const { name, message } = error as Error;
      const reason = name === "NotReadableError" ? "the file has changed since the folder was opened; open the folder again" : message;
      this.put(entry, unreadableRow(entry.id, reason, entry.stream.blob?.size ?? 0));
    }
  }

  private async scan(entry: Entry): Promise<void> {
    const { stream } = entry;
    const sidecars = await Promise.all(stream.sidecars.map(readSidecar));
    const environment = { name: stream.name, hasManifest: hasManifest(sidecars) };
    const readAs = await readAsOf(stream.blob!, environment);
    const options = () => ({ ...environment, budget: this.budget, rows: readAs ? new RowReader(readAs) : undefined });
    let scan = new Scan(options());
    await feed(stream.blob!, scan, () => this.isClosed);
    if (scan.needsSecond) {
      scan = new Scan({ ...options(), attempts: scan.attempts });
      await feed(stream.blob!, scan, () => this.isClosed);
    }
    scan.finish();
    if (scan.profile === "kaun/v1") scan.start = manifestOf(sidecars);
    const members = readAs?.dialect.manifest;
    const beside = members && objectIn(sidecars);
    if (beside) scan.start = { ...startIn(members, plainValue(beside) as Members), ...scan.start };
    entry.scan = scan;
    // A file of another format below a folder is not a run, nor is one object of another program, which needs no LF.
    const isOther = scan.profile === null || (scan.records === 0 && (await isOtherDocument(stream)));
    if (isOther && scan.dialect === null) {
      if (stream.isBelow && this.ranked.has(entry.id)) {
        entry.scan = null;
        this.put(entry, unreadableRow(entry.id, "it is not of a known format", scan.size));
        return;
      }
      if (stream.isBelow || scan.records === 0) {
        this.notRead.push(stream.path);
        this.entries.delete(entry.id);
        this.removed.set(entry.id, ++this.revision);
        this.changed(entry.id);
        return;
      }
    }
    const row = rowOf(scan, entry.id, stream.sealed !== undefined);
    this.put(entry, stream.annotations ? annotated(row, await readAnnotations(stream.annotations, stream.name)) : row);
  }

  private async check(entry: Entry): Promise<void> {
    const { stream } = entry;
    // The rules for logs of other programs are those of `toyspec check` alone.
    if (entry.scan!.rows) return;
    const sidecars = await Promise.all(stream.sidecars.map(readSidecar));
    const checker = new StreamChecker({ path: stream.path, name: stream.name, hasManifest: hasManifest(sidecars), directory: stream.directory });
    for await (const chunk of chunks(stream.blob!, () => {})) {
      checker.feed(chunk);
      if (this.isClosed) return;
    }
    const report = checker.finish(streamName(stream.name) === PROFILES["toy/v1"].file ? sidecars : []);
    if (stream.sealed) await addSealFindings(report, stream.name, stream.sealed);
    entry.report = report;
    const findings: { [severity in Severity]: number } = { error: 0, warning: 0, info: 0 };
    for (const { severity } of report.findings) findings[severity]++;
    const severities = new Map(report.findings.map(({ rule, severity }) => [rule, severity]));
    for (const [rule, count] of Object.entries(report.suppressed)) findings[severities.get(rule) ?? "error"] += count;
    this.put(entry, { ...entry.row, findings });
  }

  private put(entry: Entry, row: Run): void {
    entry.row = row;
    entry.revision = ++this.revision;
    // A folder with one run shows that run: the first list must not have one of many.
    if (this.revision > 2) this.ready();
    this.changed(entry.id);
  }
}

function newEntry(id: string, stream: Stream): Entry {
  return { id, stream, scan: null, row: unreadableRow(id, "", 0), revision: 0, report: null };
}

/** Returns what is to be said about files that are not read here. */
function problemsOf(paths: readonly string[]): string[] {
  if (paths.length === 0) return [];
  const more = paths.length > MOST_NAMED ? ` and ${paths.length - MOST_NAMED} more` : "";
  return [`Not read here: ${paths.slice(0, MOST_NAMED).join(", ")}${more}. \`toyspec view FOLDER\` also reads console output and other formats.`];
}

/** Yields each stream with the shortest end of its path that no other has. */
function named(streams: readonly Stream[]): [string, Stream][] {
  const here = streams.filter(({ blob }) => blob !== null);
  const folders = here.map(({ path, directory, root }) => (directory !== undefined || root !== undefined ? path.split("/").slice(0, -1).join("/") : path));
  const places = new Set(folders).size === folders.length ? folders : here.map(({ path }) => path);
  const parts = places.map((place) => place.split("/").slice(0, -1));
  const shared = parts.reduce((common, each) => common.slice(0, Math.max(0, common.findIndex((part, at) => part !== each[at]) < 0 ? Math.min(common.length, each.length) : common.findIndex((part, at) => part !== each[at]))), parts[0] ?? []);
  return here.map((stream, at) => [places[at]!.split("/").slice(shared.length).join("/") || ".", stream]);
}

async function feed(blob: Blob, scan: Scan, isOver: () => boolean): Promise<void> {
  scan.isPacked = await isGzip(blob);
  if (scan.isPacked) {
    for await (const chunk of chunks(blob, () => {})) scan.feed(chunk);
    return;
  }
  for (let at = 0; at < blob.size && !isOver(); at += PIECE) scan.feed(new Uint8Array(await blob.slice(at, at + PIECE).arrayBuffer()));
}

/** Returns the points of some buckets of a curve, from the file; null if they are too much, or the file is compressed. */
async function finer({ blob, name }: Stream, scan: Scan, metric: string, { whole, begin, end }: { whole: Buckets; begin: number; end: number }): Promise<Buckets | null> {
  const { offset, line } = whole.columns;
  const first = offset[begin]!;
  const last = end < offset.length ? offset[end]! : scan.committed + scan.gapBytes;
  const { rows } = scan;
  if (last - first > MOST_PART || (rows && !rows.canBegin) || scan.isPacked) return null;
  const options = { name, hasManifest: false, budget: new FineBudget(), attempts: scan.attempts, rows, wanted: (each: string) => each === metric };
  const fine = new Scan({ ...options, from: { profile: scan.profile ?? null, line: line[begin]!, offset: first, firstTime: scan.zero ?? scan.firstTime } });
  for (let at = first; at < last; at += PIECE) fine.feed(new Uint8Array(await blob!.slice(at, Math.min(at + PIECE, last)).arrayBuffer()));
  return fine.latest.get(metric)?.buckets() ?? null;
}

class FineBudget extends Budget {
  override get most(): number {
    return MOST_FINE;
  }
}

/** Returns what the run.json beside another program's log has about its run, in the members of run_start. */
function startIn(members: { readonly [member: string]: string }, manifest: Members): Members {
  const found: Members = {};
  for (const [name, key] of Object.entries(members)) {
    const value = memberAt(manifest, key);
    const [outer, inner] = name.split("/") as [string, string?];
    if (value === undefined || value === null) continue;
    if (inner === undefined) found[outer] = value;
    else found[outer] = { ...(found[outer] as Members | undefined), [inner]: value };
  }
  return found;
}

function manifestOf(sidecars: readonly Sidecar[]): Members | null {
  const manifest = manifestIn(sidecars);
  return manifest ? (plainValue(manifest) as Members) : null;
}

/** Returns whether a JSON file is one object without an LF that follows no profile: half a record is not an object, and a whole one of toyspec names its profile. */
async function isOtherDocument({ blob, name }: Stream): Promise<boolean> {
  const head = await headOf(blob!);
  if (!name.endsWith(".json") || head.length >= HEAD_BYTES || head.includes(0x0a)) return false;
  const { value } = validateText(head, true);
  return value !== null && detectProfile(value) === null;
}
