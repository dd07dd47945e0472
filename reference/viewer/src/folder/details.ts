/** One run whole: what its page shows. See "GET api/run" of ../../PROTOCOL.md. */

import { Reading, type Report } from "../../../typescript/src/reader.js";
import type { FileReport } from "../../../typescript/src/checker.js";
import type { AxisPlace, Detail, Finding, Histogram, HistogramSeries, Json, Region, Run } from "../protocol.js";
import { chunks } from "../../../typescript/page/unpacking.js";
import type { Stream } from "../../../typescript/page/selection.js";
import { tokensAt, tokensOf } from "./curves.js";
import type { Buckets } from "./pyramid.js";
import type { Members, Scan } from "./scan.js";

type Account = Pick<Report, "records" | "committed" | "fragment" | "gapBytes" | "size"> & Pick<Detail, "gaps">;

const MOST_ITEMS = 2000;
const MOST_RECORDS = 500;
const MOST_BYTES = 8 << 20;
const MOST_REPORT = 4 << 20;
const LISTS: { readonly [kind: string]: string } = {
  run_resume: "resumes", eval: "evaluations", sample: "samples", note: "notes", compare: "comparisons", artifact: "artifacts", op_timing: "op_timings",
  media: "media", alert: "alerts", reference: "references",
};

const NOWHERE: AxisPlace = { step: null, t: null, epoch: null, tokens: null };

/** Returns what the page of a run shows; *report* is null where nothing has checked it. */
export async function detailOf(stream: Stream, scan: Scan, row: Run, report: FileReport | null): Promise<Detail> {
  const found = new Collected();
  const findings = (report?.findings ?? []).slice(0, MOST_ITEMS).map((each): Finding => {
    const { rule, severity, line, offset, pointer, message, help, sidecar } = each;
    return { rule, severity, file: sidecar ?? stream.name, line, offset: scan.isPacked && sidecar === undefined ? null : offset, pointer, message, help, ...NOWHERE };
  });
  const places = new FindingPlaces(findings, tokensOf(scan));
  const account = scan.dialect === null ? await recordsOf(stream, scan, found, places) : accountOf(scan);
  if (scan.dialect === null) places.finish();
  const { config, kind: _kind, t: _t, ...metadata } = scan.start ?? {};
  return {
    id: row.id, row, metadata, end: scan.end, config: config ?? {}, metrics: row.metrics,
    account: { records: account.records, committed: account.committed, fragment: account.fragment, gap_bytes: account.gapBytes, size: account.size },
    findings, gaps: account.gaps, ...found.lists(), histograms: [...found.histograms.values()], regions: found.regions,
    files: [{ path: stream.name, bytes: stream.blob!.size }, ...stream.sidecars.flatMap(({ name, blob }) => (blob ? [{ path: name, bytes: blob.size }] : []))],
    missing: found.missing, imported: await importOf(stream),
    left_out: { ...found.leftOut, ...more("findings", totalOf(report) - findings.length), ...more("gaps", scan.gapNumber - account.gaps.length) },
  };
}

/** Takes in the records of one of toyspec's own logs; returns what became of its bytes. */
async function recordsOf(stream: Stream, scan: Scan, found: Collected, places: FindingPlaces): Promise<Account> {
  const reading = new Reading({ mode: "salvage", name: stream.name, profile: scan.profile ?? undefined });
  for await (const chunk of chunks(stream.blob!, () => {})) {
    for (const record of reading.feed(chunk)) {
      found.take(record.kind, record.value as Members, { line: record.line, bytes: record.raw.length });
      places.take(record.line, record.value as Members);
      const note = record.kind === "note" ? found.last("notes") : undefined;
      if (note?.["line"] === record.line) places.addTo(note);
    }
  }
  return reading.finish();
}

/** Returns what became of the bytes of another program's log, whose records are numbers alone. */
function accountOf({ records, committed, fragment, gapBytes, size, gaps }: Scan): Account {
  return { records, committed, fragment, gapBytes, size, gaps };
}

/** Returns how many of a list are left out, for those lists of which some are. */
function more(list: string, count: number): { [list: string]: number } {
  return count > 0 ? { [list]: count } : {};
}

function totalOf(report: FileReport | null): number {
  return report === null ? 0 : Object.values(report.suppressed).reduce((sum, count) => sum + count, report.findings.length);
}

/** Returns what the import that made the run changed and dropped; null where none did, and where its report cannot be read. */
async function importOf({ imported }: Stream): Promise<NonNullable<Detail["imported"]> | null> {
  if (!imported || imported.size > MOST_REPORT) return null;
  try {
    const { format, item, items, losses } = JSON.parse(await imported.text()) as NonNullable<Detail["imported"]>;
    const isRight = typeof format === "string" && typeof item === "string" && typeof items === "number" && Array.isArray(losses) && losses.every((each) => typeof each.meaning === "string" && typeof each.count === "number");
    return isRight ? { format, item, items, losses: losses.slice(0, MOST_ITEMS).map(({ effect, meaning, count }) => ({ effect, meaning, count })) } : null;
  } catch {
    return null;
  }
}

/** Gives findings a place on each axis: that of the record of the line, or of the last one before it. */
class FindingPlaces {
  private readonly left: Finding[];
  private now: Omit<AxisPlace, "tokens"> = { step: null, t: null, epoch: null };

  constructor(findings: readonly Finding[], private readonly tokens: Buckets | null) {
    this.left = findings.filter(({ line }) => line > 0).sort((a, b) => b.line - a.line);
  }

  take(line: number, value: Members): void {
    this.place((each) => each < line);
    const { step, t, epoch } = value;
    for (const [name, found] of Object.entries({ step, t, epoch })) if (typeof found === "number") this.now = { ...this.now, [name]: found };
    this.place((each) => each === line);
  }

  /** Adds the place of the last record to a note, where it does not say its own. */
  addTo(note: Members): void {
    for (const [name, place] of Object.entries(this.here())) note[name] ??= place;
  }

  /** Places the findings after the last record. */
  finish(): void {
    this.place(() => true);
  }

  private place(isDue: (line: number) => boolean): void {
    for (let next = this.left.at(-1); next && isDue(next.line); next = this.left.at(-1)) Object.assign(this.left.pop()!, this.here());
  }

  private here(): AxisPlace {
    return { ...this.now, tokens: tokensAt(this.tokens, this.now.step) };
  }
}

interface RecordPlace {
  line: number;
  bytes: number;
}

/** The records of a run by what they are for, in bounded memory. */
class Collected {
  readonly histograms = new Map<string, HistogramSeries>();
  readonly regions: Region[] = [];
  readonly leftOut: { [list: string]: number } = {};
  private readonly found: { [list: string]: Json[] } = {};
  private readonly open: Region[] = [];
  private readonly lost = { left_out: new Map<string, number>(), dropped: new Map<string, number>() };
  private bytes = 0;

  take(kind: string | null, value: Members, place: RecordPlace): void {
    if (kind === null || kind === "step") return;
    const list = LISTS[kind];
    if (kind === "note") this.countMissing(value);
    if (list !== undefined) this.add(list, value, place);
    else if (kind === "scalars") this.addTexts(value, place);
    else if (kind === "tap" || kind === "grad" || kind === "histogram") this.addHistogram(kind, value, place);
    else if (kind === "region_enter" || kind === "region_exit") this.addRegion(kind, value, place);
  }

  /** What the log lacks by its own notes. */
  get missing(): NonNullable<Detail["missing"]> {
    return { left_out: Object.fromEntries(this.lost.left_out), dropped: Object.fromEntries(this.lost.dropped) };
  }

  private countMissing(note: Members): void {
    for (const key of ["left_out", "dropped"] as const) {
      const said = note[key];
      if (said === null || typeof said !== "object" || Array.isArray(said)) continue;
      for (const [name, count] of Object.entries(said)) if (Number.isSafeInteger(count)) this.lost[key].set(name, (this.lost[key].get(name) ?? 0) + (count as number));
    }
  }

  last(list: string): Members | undefined {
    return this.found[list]?.at(-1) as Members | undefined;
  }

  lists(): Pick<Detail, "resumes" | "evaluations" | "samples" | "notes" | "comparisons" | "artifacts" | "op_timings" | "media" | "alerts" | "references" | "texts"> {
    const all = Object.fromEntries([...Object.values(LISTS), "texts"].map((list) => [list, this.found[list] ?? []]));
    return all as unknown as ReturnType<Collected["lists"]>;
  }

  private fits(list: string, { bytes }: RecordPlace, isFull: boolean): boolean {
    this.bytes += bytes;
    if (!isFull && this.bytes <= MOST_BYTES) return true;
    this.leftOut[list] = (this.leftOut[list] ?? 0) + 1;
    return false;
  }

  private add(list: string, { kind: _kind, ...value }: Members, place: RecordPlace): void {
    const items = (this.found[list] ??= []);
    if (this.fits(list, place, items.length >= MOST_ITEMS)) items.push({ t: null, step: null, ...value, line: place.line });
  }

  private addTexts({ texts, t = null, step = null }: Members, place: RecordPlace): void {
    if (texts === null || typeof texts !== "object" || Array.isArray(texts)) return;
    for (const [name, text] of Object.entries(texts)) this.add("texts", { t, step, name, text }, place);
  }

  private addHistogram(kind: HistogramSeries["kind"], value: Members, place: RecordPlace): void {
    const parts = kind === "grad" ? [value["param"]] : kind === "histogram" ? [value["name"]] : [value["region"], value["layer"], value["head"]];
    const name = parts.filter((part) => typeof part === "string" || typeof part === "number").join(".");
    if (name === "") return;
    const key = `${kind} ${name}`;
    const series = this.histograms.get(key) ?? { kind, name, records: [] };
    if (!this.fits("histograms", place, series.records.length >= MOST_RECORDS || this.histograms.size >= MOST_ITEMS)) return;
    this.histograms.set(key, series);
    const { kind: _kind, gram: _gram, param: _param, name: _name, ...wanted } = value;
    series.records.push({ step: null, ...wanted, line: place.line } as unknown as Histogram);
  }

  private addRegion(kind: string, { region: name, t }: Members, place: RecordPlace): void {
    if (typeof name !== "string" || typeof t !== "number") return;
    if (kind === "region_enter") {
      if (!this.fits("regions", place, this.regions.length >= MOST_ITEMS)) return;
      const region = { region: name, from: t, to: null, depth: this.open.length };
      this.regions.push(region);
      this.open.push(region);
      return;
    }
    const at = this.open.findLastIndex(({ region }) => region === name);
    if (at >= 0) this.open.splice(at, 1)[0]!.to = t;
  }
}
