/** Collects the findings of one stream within bounds: full detail first, then counts. */

import { excerptAt, type Excerpt, type Place } from "./places.js";
import { LIMITS, type ProfileName, RULES, type RuleTable, type Severity } from "./tables.js";

/** One problem, at its cause. */
export interface Finding {
  rule: string;
  severity: Severity;
  /** Line number, from 1. */
  line: number;
  /** Byte offset of the place from the start of its file, from 0. */
  offset: number;
  /** RFC 6901 JSON Pointer; "" is the whole line. */
  pointer: string;
  /** The fact, with the value found; log text in it is inert and cut. */
  message: string;
  help: string;
  /** The file beside the stream that the place is in. */
  sidecar?: string;
  /** The place in the line, where it helps. */
  excerpt?: Excerpt;
}

/** What a finding has beside its rule, place and message. */
export interface Details {
  pointer?: string;
  atEnd?: boolean;
  sidecar?: string;
}

interface Tally {
  finding: Finding;
  count: number;
  message: (count: number) => string;
}

const RULE_TABLES = new Map<string, RuleTable>(RULES.map((rule) => [rule.id, rule]));
const RULE_ORDER = new Map<string, number>(RULES.map((rule, index) => [rule.id, index]));

/** Returns the severity of a rule in a profile. */
export function severityOf(rule: string, profile: ProfileName | null | undefined): Severity {
  return RULE_TABLES.get(rule)?.severity[profile ?? "toy/v1"] ?? "error";
}

/** Returns what is negative where the first of two problems comes first, by place and then by rule. */
export function byPlace(a: { offset: number; rule: string }, b: { offset: number; rule: string }): number {
  return a.offset - b.offset || RULE_ORDER.get(a.rule)! - RULE_ORDER.get(b.rule)!;
}

/** Lists a bounded number of findings for each rule and counts the rest. */
export class Collector {
  readonly findings: Finding[] = [];
  readonly suppressed = new Map<string, number>();
  /** Undefined until it is known, null where the stream follows none. */
  profile: ProfileName | null | undefined;
  hasError = false;
  private isMuted = false;
  private readonly listed = new Map<string, number>();
  private readonly tallies = new Map<string, Tally>();

  /** Drops what was found and takes nothing more: of a stream without a profile there is one thing to say, by `addOnly`. */
  mute(): void {
    this.isMuted = true;
    this.hasError = false;
    this.findings.length = 0;
    for (const map of [this.suppressed, this.listed, this.tallies]) map.clear();
  }

  /** Lists the finding of a stream without a profile. */
  addOnly(rule: string, place: Place, message: string, advice?: string): void {
    this.isMuted = false;
    const finding = this.add(rule, place, message);
    if (finding && advice !== undefined) finding.help = advice;
    this.isMuted = true;
  }

  /** Lists a finding; returns undefined where it is counted instead. */
  add(rule: string, place: Place, message: string, details: Details = {}): Finding | undefined {
    if (this.isMuted) return undefined;
    const listed = this.listed.get(rule) ?? 0;
    if (listed >= LIMITS.max_findings_per_rule) {
      this.count(rule, 1);
      return undefined;
    }
    this.listed.set(rule, listed + 1);
    const { help: helps, severity_at_end: atEnd } = RULE_TABLES.get(rule)!;
    const help = typeof helps === "string" ? helps : (helps[this.profile ?? "toy/v1"] ?? "");
    const severity = (details.atEnd ? atEnd : undefined) ?? severityOf(rule, this.profile);
    this.hasError ||= severity === "error";
    const offset = place.lineOffset + place.byte;
    const finding: Finding = { rule, severity, line: place.line, offset, pointer: details.pointer ?? "", message, help };
    if (details.sidecar !== undefined) finding.sidecar = details.sidecar;
    const excerpt = excerptAt(place);
    if (excerpt) finding.excerpt = excerpt;
    this.findings.push(finding);
    return finding;
  }

  /** Counts a problem that is reported once for each name, at its first place. */
  tally(rule: string, name: string, place: () => Place, message: (count: number) => string, pointer: string): void {
    const key = `${rule} ${name}`;
    const known = this.tallies.get(key);
    if (known) {
      known.count++;
      return;
    }
    const finding = this.add(rule, place(), message(1), { pointer });
    // Only listed names are remembered, so that a log full of invented keys costs no memory.
    if (finding) this.tallies.set(key, { finding, count: 1, message });
  }

  /** Puts the final counts into the messages of what was tallied. */
  settle(): void {
    for (const { finding, count, message } of this.tallies.values()) finding.message = message(count);
  }

  /** Puts the findings from an index on, all of one line, into the order of their places and rules. */
  arrange(start: number): void {
    const found = this.findings.splice(start);
    this.findings.push(...found.sort(byPlace));
  }

  /** Counts problems that are not listed. */
  count(rule: string, number: number): void {
    if (this.isMuted) return;
    this.suppressed.set(rule, (this.suppressed.get(rule) ?? 0) + number);
    this.hasError ||= severityOf(rule, this.profile) === "error";
  }
}
