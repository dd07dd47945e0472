/** Judges one stream, fed in pieces of any size: see spec/checking.md. */

import { type Fragment, type Line, LineSplitter } from "./lines.js";
import { declaredKind, detectProfile, kindTable } from "./profiles.js";
import type { State } from "./reader.js";
import { judgeRecord, type RecordFault, shown } from "./record-judge.js";
import { type Node, type ObjectNode } from "./scanner.js";
import { type Hit, StreamRules } from "./stream-rules.js";
import { LIMITS, type ProfileName, PROFILES, RULES, type RuleTable, type Severity } from "./tables.js";
import { vet, vetLine, type Vetted } from "./vetting.js";

/** One fault, at its cause. */
export interface Finding {
  rule: string;
  severity: Severity;
  /** Line number, from 1. */
  line: number;
  /** Byte offset of the place from the start of the stream, from 0. */
  offset: number;
  /** RFC 6901 JSON Pointer; "" is the whole line. */
  pointer: string;
  message: string;
  help: string;
  /** The file beside the stream that the place is in. */
  sidecar?: string;
}

/** The verdict on one stream. */
export interface FileReport {
  path: string;
  profile: ProfileName | null;
  state: State | null;
  valid: boolean;
  events: number;
  bytes: number;
  findings: Finding[];
  suppressed: { [rule: string]: number };
}

export interface CheckOptions {
  /** Shown in the report. */
  path?: string | undefined;
  profile?: ProfileName | undefined;
  /** The profile where the first record does not tell. */
  fallback?: ProfileName | undefined;
  /** Name of the directory that the run's id is held against; absent for a stream in no bundle. */
  directory?: string | undefined;
  maxLineBytes?: number | undefined;
}

/** A file beside the stream: its bytes, or why they could not be read. */
export interface Sidecar {
  name: "run.json" | "flow.json";
  data: Uint8Array | null;
  trouble?: string;
}

const RULE_TABLES = new Map<string, RuleTable>(RULES.map((rule) => [rule.id, rule]));
const RULE_ORDER = new Map<string, number>(RULES.map((rule, index) => [rule.id, index]));
const NOTHING_BAD: ReadonlySet<string> = new Set();

interface Place {
  line: number;
  offset: number;
}

/** Judges a stream as it is fed. */
export class StreamChecker {
  private readonly splitter: LineSplitter;
  private readonly limit: number;
  private readonly findings: Finding[] = [];
  private readonly suppressed = new Map<string, number>();
  private readonly listed = new Map<string, number>();
  private readonly tallies = new Map<string, { finding: Finding; count: number }>();
  private hasError = false;
  private profile: ProfileName | undefined;
  private rules: StreamRules | undefined;
  private records = 0;
  private gaps = 0;
  private lastKind: string | null = null;
  private last: Place = { line: 1, offset: 0 };
  private sawCarriageReturn = false;
  private directory: string | undefined;
  private mismatch: { place: Place; message: string } | undefined;

  constructor(private readonly options: CheckOptions = {}) {
    this.limit = options.maxLineBytes ?? LIMITS.max_line_bytes;
    this.splitter = new LineSplitter(this.limit);
    this.directory = options.directory;
    if (options.profile) this.follow(options.profile);
  }

  /** Number of bytes fed so far. */
  get size(): number {
    return this.splitter.size;
  }

  /** Judges the lines that the chunk commits. */
  feed(chunk: Uint8Array): void {
    for (const line of this.splitter.feed(chunk)) this.judgeLine(line);
  }

  /** Returns the verdict on everything fed and on the files beside it; call it once, last. */
  finish(sidecars: readonly Sidecar[] = []): FileReport {
    for (const { finding, count } of this.tallies.values()) if (count > 1) finding.message += ` (${count} times)`;
    const fragment = this.splitter.fragment();
    if (fragment) this.judgeFragment(fragment);
    else if (this.records === 0 && this.gaps === 0) this.add("stream-empty", { line: 1, offset: 0 }, "", `no record in ${this.size} bytes`);
    else if (this.records > 0) for (const hit of this.rules?.finish() ?? []) this.add(hit.rule, this.last, "", hit.message);
    if (this.mismatch) this.add("run-id-mismatch", this.mismatch.place, "/run_id", this.mismatch.message);
    const profile = this.profile ?? this.options.fallback ?? "toy/v1";
    for (const sidecar of sidecars) this.judgeSidecar(sidecar, profile);
    return {
      path: this.options.path ?? "-",
      profile,
      state: this.state(profile, fragment),
      valid: !this.hasError,
      events: this.records,
      bytes: this.size,
      findings: this.findings,
      suppressed: Object.fromEntries(this.suppressed),
    };
  }

  private state(profile: ProfileName, fragment: Fragment | null): State {
    if (this.gaps > 0) return "damaged";
    const complete = PROFILES[profile].complete?.last;
    return fragment || this.records === 0 || (complete !== undefined && this.lastKind !== complete) ? "torn" : "complete";
  }

  private follow(profile: ProfileName): void {
    this.profile = profile;
    this.rules = new StreamRules(profile);
    if (this.gaps > 0) this.rules.gap();
  }

  private judgeLine(line: Line): void {
    const vetted = vetLine(line, this.limit);
    if (vetted.value && !this.rules) this.follow(detectProfile(vetted.value, this.options.fallback ?? "toy/v1"));
    const start = this.findings.length;
    this.reportVetting(line, vetted);
    if (vetted.status === "unreadable") {
      this.gaps++;
      this.rules?.gap();
    }
    if (vetted.value) this.judgeRecord(line, vetted.value, start);
  }

  private reportVetting(line: Line, vetted: Vetted): void {
    for (const fault of vetted.faults) {
      this.add(fault.rule, { line: line.number, offset: line.offset + fault.offset }, fault.pointer, fault.message);
    }
    for (const [rule, count] of vetted.unlisted) this.suppress(rule, count);
    if (vetted.carriageReturn >= 0 && !this.sawCarriageReturn) {
      this.sawCarriageReturn = true;
      const place = { line: line.number, offset: line.offset + vetted.carriageReturn };
      this.add("carriage-return", place, "", "the line holds a carriage return");
    }
  }

  /** Judges a record, puts the findings of its line, from index *start* on, in order, and observes it. */
  private judgeRecord(line: Line, record: ObjectNode, start: number): void {
    const profile = this.profile!;
    const tag = PROFILES[profile].tag;
    const kind = tag === null ? "entry" : declaredKind(record, profile);
    const table = kindTable(profile, kind);
    this.records++;
    this.lastKind = kind;
    let bad = NOTHING_BAD;
    if (table) bad = this.judgeFields(line, kind!, judgeRecord(record, table.fields, tag === null ? null : "/schema"));
    else this.reportTag(line, record, tag!, kind);
    const found = this.findings.splice(start);
    this.findings.push(...found.sort((a, b) => a.offset - b.offset || RULE_ORDER.get(a.rule)! - RULE_ORDER.get(b.rule)!));
    this.last = { line: line.number, offset: line.offset };
    for (const hit of this.rules!.observe({ record, kind, known: table !== undefined, bad, line: line.number })) {
      this.add(hit.rule, placeOf(line, record, hit), hit.pointer, hit.message);
    }
    if (this.directory !== undefined && kind === "run_start") this.holdAgainstDirectory(line, record, bad);
  }

  private judgeFields(line: Line, kind: string, faults: RecordFault[]): ReadonlySet<string> {
    const bad = new Set<string>();
    for (const fault of faults) {
      const place = { line: line.number, offset: line.offset + fault.offset };
      if (fault.rule === "unknown-key") this.tally(`${kind} ${fault.path}`, fault.rule, place, fault.pointer, fault.message);
      else this.add(fault.rule, place, fault.pointer, fault.message);
      if (fault.rule !== "unknown-key" && fault.rule !== "unsafe-integer") bad.add(fault.pointer.split("/")[1]!);
    }
    return bad;
  }

  private reportTag(line: Line, record: ObjectNode, tag: string, kind: string | null): void {
    const node = record.members.get(tag);
    const place = { line: line.number, offset: line.offset + (node ?? record).offset };
    if (!node) this.add("missing-key", place, `/${tag}`, `the record has no ${tag}`);
    else if (kind === null) this.add("wrong-type", place, `/${tag}`, `${tag} is ${shown(node)}, not a string`);
    else this.tally(kind, "unknown-kind", place, `/${tag}`, `kind ${shown(node)} is not known`);
  }

  private holdAgainstDirectory(line: Line, record: ObjectNode, bad: ReadonlySet<string>): void {
    const node = record.members.get("run_id");
    if (node?.type === "string" && !bad.has("run_id") && node.value !== this.directory) {
      const place = { line: line.number, offset: line.offset + node.offset };
      this.mismatch = { place, message: `run_id is ${shown(node)}, which is not the name of the directory` };
    }
    this.directory = undefined;
  }

  private judgeFragment(fragment: Fragment): void {
    const place = { line: fragment.number, offset: fragment.offset };
    const rule = fragment.allNul ? "nul-bytes" : "unterminated-line";
    this.add(rule, place, "", `${fragment.length} bytes after the last committed record`, { atEnd: true });
  }

  private judgeSidecar(sidecar: Sidecar, profile: ProfileName): void {
    const { name, data } = sidecar;
    const vetted = data === null ? null : vet(data, true);
    if (data === null || vetted?.status !== "readable") {
      const fault = vetted?.faults[0];
      const message = `${name} cannot be read: ${sidecar.trouble ?? fault?.message ?? "it is empty"}`;
      this.add("sidecar-unreadable", placeInText(data, fault?.offset ?? 0), "", message, { sidecar: name });
      return;
    }
    if (name === "run.json" && profile === "kaun/v1") this.judgeManifest(data, vetted.value!);
  }

  private judgeManifest(data: Uint8Array, manifest: ObjectNode): void {
    const sidecar = "run.json";
    const faults = judgeRecord(manifest, PROFILES["kaun/v1"].kinds["run"]!.fields, "/schema_version");
    faults.sort((a, b) => a.offset - b.offset || RULE_ORDER.get(a.rule)! - RULE_ORDER.get(b.rule)!);
    for (const fault of faults) this.add(fault.rule, placeInText(data, fault.offset), fault.pointer, fault.message, { sidecar });
    const runId = manifest.members.get("run_id");
    const wrong = faults.some((fault) => fault.pointer === "/run_id");
    if (this.options.directory !== undefined && !wrong && runId?.type === "string" && runId.value !== this.options.directory) {
      const message = `run_id is ${shown(runId)}, which is not the name of the directory`;
      this.add("run-id-mismatch", placeInText(data, runId.offset), "/run_id", message, { sidecar });
    }
  }

  /** Counts a fault that is reported once for each name, at its first place. */
  private tally(name: string, rule: string, place: Place, pointer: string, message: string): void {
    const key = `${rule} ${name}`;
    const known = this.tallies.get(key);
    if (known) known.count++;
    else if (this.add(rule, place, pointer, message)) this.tallies.set(key, { finding: this.findings.at(-1)!, count: 1 });
  }

  private add(rule: string, place: Place, pointer: string, message: string, more: { atEnd?: boolean; sidecar?: string } = {}): boolean {
    const table = RULE_TABLES.get(rule)!;
    const listed = this.listed.get(rule) ?? 0;
    if (listed >= LIMITS.max_findings_per_rule) {
      this.suppress(rule, 1);
      return false;
    }
    const severity = more.atEnd && table.severity_at_end ? table.severity_at_end : this.severity(table);
    this.hasError ||= severity === "error";
    this.listed.set(rule, listed + 1);
    const finding: Finding = { rule, severity, line: place.line, offset: place.offset, pointer, message, help: table.help };
    if (more.sidecar) finding.sidecar = more.sidecar;
    this.findings.push(finding);
    return true;
  }

  private suppress(rule: string, count: number): void {
    this.suppressed.set(rule, (this.suppressed.get(rule) ?? 0) + count);
    this.hasError ||= this.severity(RULE_TABLES.get(rule)!) === "error";
  }

  private severity(table: RuleTable): Severity {
    return table.severity[this.profile ?? "toy/v1"] ?? "error";
  }
}

/** Returns the verdict on a stream that is held in memory. */
export function check(data: Uint8Array, options: CheckOptions = {}): FileReport {
  const checker = new StreamChecker(options);
  checker.feed(data);
  return checker.finish();
}

/** Returns the place of what a hit points at, of the object around it where that is missing. */
function placeOf(line: Line, record: ObjectNode, hit: Hit): Place {
  if (hit.pointer === "") return { line: line.number, offset: line.offset };
  let node: Node = record;
  for (const part of hit.pointer.slice(1).split("/")) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    const inner: Node | undefined = node.type === "object" ? node.members.get(key) : undefined;
    if (!inner) break;
    node = inner;
  }
  return { line: line.number, offset: line.offset + node.offset };
}

function placeInText(data: Uint8Array | null, offset: number): Place {
  let line = 1;
  for (let at = data?.indexOf(0x0a) ?? -1; at >= 0 && at < offset; at = data!.indexOf(0x0a, at + 1)) line++;
  return { line, offset };
}
