/** The rules that relate records, made from schemas/<profile>/v1/stream.json: see spec/stream.md. */

import { shortened } from "./escaping.js";
import * as messages from "./messages.js";
import { integerOf, isWhole } from "./numbers.js";
import { shownNumber } from "./phrases.js";
import { fieldNamed } from "./profiles.js";
import { type Node, type ObjectNode, pointerTo } from "./scanner.js";
import { LIMITS, MEDIA, type ProfileName, PROFILES, type ProfileTable, type StreamRule } from "./tables.js";

/** A broken rule, at the record that is being observed. */
export interface Hit {
  rule: string;
  pointer: string;
  message: string;
}

/** One record as the rules see it. */
export interface Observation {
  record: ObjectNode;
  /** Null where the tag is missing or no string. */
  kind: string | null;
  /** True for a kind that this revision knows. */
  known: boolean;
  /** Members with a finding of their own, which take no part. */
  bad: ReadonlySet<string>;
  line: number;
}

/** What the bundle has beside a stream, for the rules that ask. */
export interface Beside {
  /** The rank that the name of the stream's file implies. */
  rank: number;
  /** Returns a text in the first record of the stream of rank 0; undefined unless that record is of the kind. */
  first(kind: string, field: string): string | undefined;
  /** Returns whether a regular file is at a path of the bundle. */
  isFile(path: string): boolean;
}

const NO_HITS: readonly Hit[] = [];
/** A path that is absolute or has the part `..`, on POSIX systems or on Windows. */
export const LEAVES = /^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)/;
const NO_FIELDS: readonly string[] = [];

interface Rule {
  observe(seen: Observation): readonly Hit[];
  gap?(): void;
  /** Opens again what the end of the stream has closed. */
  reopen?(): void;
  finish?(): Hit[];
}

function member(seen: Observation, name: string): Node | undefined {
  return seen.bad.has(name) ? undefined : seen.record.members.get(name);
}

function text(seen: Observation, name: string): string | undefined {
  const node = member(seen, name);
  return node?.type === "string" ? node.value : undefined;
}

/** A number that is compared exactly: integers by their digits, all others as binary64. */
type Exact = bigint | number;

function exact(node: Node | undefined): Exact | undefined {
  if (node?.type !== "number") return undefined;
  return node.isInteger ? BigInt(node.value ?? node.text) : (node.value ?? Number(node.text));
}

/** Returns the value of a field that the schema types as integer, undefined where it has none. */
function integer(node: Node | undefined): bigint | undefined {
  if (node?.type !== "number") return undefined;
  if (node.isInteger && node.value !== undefined) return BigInt(node.value);
  return isWhole(node) ? integerOf(node) : undefined;
}

/** A field that the schema types as number is binary64, however it is written. */
function binary64(node: Node | undefined): number | undefined {
  return node?.type === "number" ? (node.value ?? Number(node.text)) : undefined;
}

/** What the first record of a kind says for the whole stream, and whether a gap came before. */
class Facts {
  gapSeen = false;
  phase: string;
  /** Kinds of which the first record is kept. */
  private readonly wanted: ReadonlySet<string | undefined>;
  private readonly seen = new Map<string, Observation["record"]>();

  constructor(private readonly table: ProfileTable, readonly beside: Beside | null) {
    this.phase = table.phase?.default ?? "";
    this.wanted = new Set([table.phase?.from, ...table.rules.flatMap(({ needs, skipped }) => [needs?.kind, skipped?.unless.kind])]);
  }

  observe(seen: Observation): void {
    if (seen.kind === null || !seen.known || !this.wanted.has(seen.kind) || this.seen.has(seen.kind)) return;
    const members = new Map<string, Node>();
    for (const rule of this.table.rules) {
      if (rule.needs?.kind === seen.kind) keep(members, rule.needs.field, seen.record.members.get(rule.needs.field));
      if (rule.skipped?.unless.kind === seen.kind) {
        const [first = ""] = rule.skipped.unless.pointer.slice(1).split("/");
        keep(members, first, member(seen, first));
      }
    }
    this.seen.set(seen.kind, { type: "object", offset: 0, members });
    if (this.table.phase?.from === seen.kind) this.phase = text(seen, this.table.phase.field) ?? this.phase;
  }

  /** Returns whether the field that a rule is about has integers. */
  isInteger({ kind, field }: StreamRule): boolean {
    const fields = kind === undefined ? undefined : this.table.kinds[kind]?.fields;
    return fieldNamed(fields, field ?? "")?.types.includes("integer") ?? false;
  }

  has(kind: string): boolean {
    return this.seen.has(kind);
  }

  /** Returns what the first record of a kind has at a pointer. */
  at(kind: string, pointer: string): Node | undefined {
    let node: Node | undefined = this.seen.get(kind);
    for (const key of pointer.slice(1).split("/")) node = node?.type === "object" ? node.members.get(key) : undefined;
    return node;
  }

  phaseOf(seen: Observation): string {
    return text(seen, this.table.phase?.field ?? "") ?? this.phase;
  }
}

function keep(members: Map<string, Node>, key: string, node: Node | undefined): void {
  if (node) members.set(key, node);
}

const MAKERS: { [type: string]: (rule: StreamRule, facts: Facts) => Rule } = {
  first(rule, facts) {
    let done = false;
    return {
      observe(seen) {
        if (done) return NO_HITS;
        done = true;
        const fine = seen.kind === rule.kind || seen.kind === null || facts.gapSeen;
        return fine ? NO_HITS : [{ rule: rule.rule, pointer: "", message: messages.runStartMissing({ found: shortened(seen.kind!), kind: rule.kind! }) }];
      },
    };
  },
  once(rule) {
    let line = 0;
    return {
      observe(seen) {
        if (seen.kind !== rule.kind) return NO_HITS;
        if (line) return [{ rule: rule.rule, pointer: "", message: messages.runStartRepeated({ kind: rule.kind!, line }) }];
        line = seen.line;
        return NO_HITS;
      },
    };
  },
  last(rule) {
    let line = 0;
    return {
      observe(seen) {
        if (line) return [{ rule: rule.rule, pointer: "", message: messages.eventAfterRunEnd({ kind: rule.kind!, line }) }];
        if (seen.kind === rule.kind) line = seen.line;
        return NO_HITS;
      },
      reopen() {
        line = 0;
      },
    };
  },
  present(rule) {
    let found = false;
    return {
      observe(seen) {
        found ||= seen.kind === rule.kind;
        return NO_HITS;
      },
      reopen() {
        found = false;
      },
      finish: () => (found ? [] : [{ rule: rule.rule, pointer: "", message: messages.runEndMissing({ kind: rule.kind! }) }]),
    };
  },
  monotone(rule) {
    let last: Exact | undefined;
    const field = rule.field!;
    return {
      observe(seen) {
        const node = seen.known ? member(seen, field) : undefined;
        const value = rule.repeats === "refused" ? exact(node) : binary64(node);
        if (value === undefined) return NO_HITS;
        const before = last;
        last = value;
        const goesBack = before !== undefined && (value < before || (rule.repeats === "refused" && value === before));
        const message = () => messages.goesBackwards({ field, found: shownNumber(value), before: shownNumber(before!) });
        return goesBack ? [{ rule: rule.rule, pointer: `/${field}`, message: message() }] : NO_HITS;
      },
      gap() {
        if (rule.cleared_by_gap) last = undefined;
      },
    };
  },
  "sequence-per-phase"(rule, facts) {
    const bases = new Map<string, bigint>();
    const restart = rule.restart!;
    const skipped = rule.skipped!;
    return {
      observe(seen) {
        if (seen.kind === restart.kind) {
          bases.clear();
          const from = integer(member(seen, restart.field));
          if (from !== undefined) bases.set(restart.phase, from);
          return NO_HITS;
        }
        const value = seen.kind === rule.kind ? integer(member(seen, rule.field!)) : undefined;
        if (value === undefined) return NO_HITS;
        const phase = facts.phaseOf(seen);
        const base = bases.get(phase);
        bases.set(phase, value);
        if (base === undefined || value === base + 1n) return NO_HITS;
        const pointer = `/${rule.field}`;
        const [found, before] = [shownNumber(value), shownNumber(base)];
        if (value <= base) return [{ rule: rule.rule, pointer, message: messages.stepGoesBackwards({ found, before }) }];
        const unless = facts.at(skipped.unless.kind, skipped.unless.pointer);
        if (unless && unless.type !== "null") return NO_HITS;
        const missing = shownNumber(value - base - 1n);
        return [{ rule: skipped.rule, pointer, message: messages.stepSkipped({ found, before, missing }) }];
      },
      gap() {
        if (rule.cleared_by_gap) bases.clear();
      },
    };
  },
  "same-as-last"(rule, facts) {
    let last: Node | undefined;
    let done = false;
    const of = rule.of!;
    const valueOf = facts.isInteger(rule) ? integer : binary64;
    return {
      observe(seen) {
        if (seen.kind === of.kind && seen.known) {
          if (facts.phaseOf(seen) === of.phase) last = member(seen, of.field);
          return NO_HITS;
        }
        if (seen.kind !== rule.kind) return NO_HITS;
        const value = member(seen, rule.field!);
        const silent = done || facts.gapSeen || !value || !last;
        done = true;
        if (silent || isSame(value, last, valueOf) || (rule.smaller && valueOf(value)! < valueOf(last)!)) return NO_HITS;
        const [found, expected] = [shownNumber(valueOf(value) ?? null), shownNumber(valueOf(last) ?? null)];
        const message = messages.differsFromLast({ field: rule.field!, found, expected, phase: of.phase, kind: of.kind });
        return [{ rule: rule.rule, pointer: `/${rule.field}`, message }];
      },
      reopen() {
        done = false;
      },
    };
  },
  nested(rule) {
    const open: { region: string; line: number }[] = [];
    let off = false;
    const hit = (pointer: string, message: string): Hit => ({ rule: rule.rule, pointer, message });
    return {
      observe(seen) {
        if (off) return NO_HITS;
        if (seen.kind === rule.closed_by) {
          off = true;
          return open.reverse().map(({ region, line }) => hit("", messages.regionLeftOpen({ region: shortened(region), line })));
        }
        const region = seen.kind === rule.enter || seen.kind === rule.exit ? text(seen, rule.field!) : undefined;
        if (region === undefined) return NO_HITS;
        const pointer = `/${rule.field}`;
        if (seen.kind === rule.enter) {
          if (open.length === LIMITS.max_open_regions) {
            off = true;
            open.length = 0;
            return [hit(pointer, messages.regionTooMany({ limit: LIMITS.max_open_regions }))];
          }
          open.push({ region, line: seen.line });
          return NO_HITS;
        }
        const index = open.findLastIndex((entry) => entry.region === region);
        if (index < 0) return [hit(pointer, messages.regionNotEntered({ region: shortened(region) }))];
        const inner = open.at(-1)!;
        const [left] = open.splice(index, 1);
        if (left === inner) return NO_HITS;
        return [hit(pointer, messages.regionNotInnermost({ region: shortened(region), inner: shortened(inner.region) }))];
      },
      gap() {
        if (rule.cleared_by_gap) open.length = 0;
      },
      reopen() {
        off = false;
        open.length = 0;
      },
    };
  },
  requires(rule, facts) {
    return {
      observe(seen) {
        if (seen.kind !== rule.kind) return NO_HITS;
        if (rule.when && text(seen, rule.when.field) !== rule.when.equals) return NO_HITS;
        const { kind, field } = rule.needs!;
        if (kind === undefined) {
          return seen.record.members.has(field) ? [] : [{ rule: rule.rule, pointer: `/${field}`, message: missingMember(rule, field) }];
        }
        const missing = facts.has(kind) && facts.at(kind, `/${field}`) === undefined;
        return missing ? [{ rule: rule.rule, pointer: "", message: messages.requiredInOther({ kind: rule.kind!, other: kind, key: field }) }] : NO_HITS;
      },
    };
  },
  "less-than"(rule) {
    const field = rule.field!;
    const than = rule.than!;
    return {
      observe(seen) {
        if (seen.kind !== rule.kind) return NO_HITS;
        const [value, bound] = [integer(member(seen, field)), integer(member(seen, than))];
        if (value === undefined || bound === undefined || value < bound) return NO_HITS;
        const message = messages.notLess({ field, found: shownNumber(value), bound: shownNumber(bound), than });
        return [{ rule: rule.rule, pointer: `/${field}`, message }];
      },
    };
  },
  differs(rule) {
    const [first = "", ...rest] = rule.pointer!.slice(1).split("/");
    return {
      observe(seen) {
        if (seen.kind !== rule.kind) return NO_HITS;
        const own = text(seen, rule.field!);
        let node = member(seen, first);
        for (const key of rest) node = node?.type === "object" ? node.members.get(key) : undefined;
        if (own === undefined || node?.type !== "string" || node.value !== own) return NO_HITS;
        return [{ rule: rule.rule, pointer: rule.pointer!, message: messages.namesItself({ found: shortened(own), field: rule.field! }) }];
      },
    };
  },
  inside(rule) {
    return {
      observe(seen) {
        const path = seen.kind === rule.kind ? text(seen, rule.field!) : undefined;
        if (path === undefined || !LEAVES.test(path)) return NO_HITS;
        return [{ rule: rule.rule, pointer: `/${rule.field}`, message: messages.leavesBundle({ field: rule.field!, found: shortened(path) }) }];
      },
    };
  },
  counted(rule) {
    const field = rule.field!;
    return {
      observe(seen) {
        const node = seen.kind === rule.kind ? member(seen, field) : undefined;
        const counts = node?.type === "object" ? [...node.members].map(([name, count]) => ({ name, count: integer(count) ?? 0n })) : [];
        const [first, ...others] = counts.filter(({ count }) => count > 0n);
        if (!first) return NO_HITS;
        const most = others.reduce((found, each) => (each.count > found.count ? each : found), first);
        const of = { field, count: shownNumber(most.count), name: shortened(most.name) };
        const message = others.length ? messages.logLacksMore({ ...of, others: others.length }) : messages.logLacks(of);
        return [{ rule: rule.rule, pointer: `/${field}`, message }];
      },
    };
  },
  "rank-of-file"(rule, { beside }) {
    return {
      observe(seen) {
        const rank = seen.kind === rule.kind && beside ? integer(member(seen, rule.field!)) : undefined;
        if (rank === undefined || rank === BigInt(beside!.rank)) return NO_HITS;
        const message = messages.otherRank({ field: rule.field!, found: shownNumber(rank), expected: String(beside!.rank) });
        return [{ rule: rule.rule, pointer: `/${rule.field}`, message }];
      },
    };
  },
  "same-run"(rule, { beside }) {
    return {
      observe(seen) {
        const found = seen.kind === rule.kind && beside && beside.rank > 0 ? text(seen, rule.field!) : undefined;
        const expected = found === undefined ? undefined : beside!.first(rule.kind!, rule.field!);
        if (expected === undefined || expected === found) return NO_HITS;
        const of = { field: rule.field!, found: shortened(found!), expected: shortened(expected), name: PROFILES["toy/v1"].file };
        return [{ rule: rule.rule, pointer: `/${rule.field}`, message: messages.otherRun(of) }];
      },
    };
  },
  filed(rule, { beside }) {
    return {
      observe(seen) {
        const [hash, type] = seen.kind === rule.kind && beside ? [text(seen, rule.hash!), text(seen, rule.media_type!)] : [];
        const path = hash === undefined || type === undefined ? undefined : mediaFile(hash, type);
        if (path === undefined || beside!.isFile(path)) return NO_HITS;
        return [{ rule: rule.rule, pointer: `/${rule.hash}`, message: messages.mediaMissing({ name: path }) }];
      },
    };
  },
  "null-number"(rule) {
    let done = false;
    return {
      observe(seen) {
        if (done || !seen.known || (rule.kind !== undefined && seen.kind !== rule.kind)) return NO_HITS;
        if ((rule.fields ?? NO_FIELDS).every((name) => hasNoNull(member(seen, name)))) return NO_HITS;
        const nulls = (rule.fields ?? []).flatMap((name) => nullsIn(member(seen, name), name));
        const first = nulls.sort((a, b) => a.offset - b.offset)[0];
        if (first) {
          done = true;
          const pointer = pointerTo(first.path);
          const message = messages.unexpected({ path: shortened(pointer.slice(1)), found: "null", expected: messages.expectedNumber });
          return [{ rule: rule.rule, pointer, message }];
        }
        return NO_HITS;
      },
    };
  },
};

/** Returns the path of a media file from the bundle; undefined where the hash is not one. */
export function mediaFile(sha256: string, mediaType: string): string | undefined {
  if (!/^[0-9a-f]{64}$/.test(sha256)) return undefined;
  const type = mediaType.split(";", 1)[0]!.replace(/^[ \t]+|[ \t]+$/g, "").toLowerCase();
  return `media/${sha256}.${Object.hasOwn(MEDIA.extensions, type) ? MEDIA.extensions[type] : MEDIA.other}`;
}

function missingMember({ kind, when }: StreamRule, key: string): string {
  if (!when) return messages.missingKey({ key, place: kind! });
  return messages.requiredIf({ kind: kind!, field: when.field, value: when.equals, key });
}

function isSame(a: Node | undefined, b: Node | undefined, valueOf: (node: Node | undefined) => Exact | undefined): boolean {
  if (a?.type !== "number" || b?.type !== "number") return a?.type === b?.type;
  return valueOf(a) === valueOf(b);
}

function hasNoNull(node: Node | undefined): boolean {
  return node === undefined || (node.type !== "null" && node.type !== "object");
}

function nullsIn(node: Node | undefined, name: string): { path: string[]; offset: number }[] {
  if (node?.type === "null") return [{ path: [name], offset: node.offset }];
  if (node?.type !== "object") return [];
  return [...node.members].flatMap(([key, item]) => (item.type === "null" ? [{ path: [name, key], offset: item.offset }] : []));
}

/** All rules that relate records of one profile, in the order of its stream.json. */
export class StreamRules {
  private readonly facts: Facts;
  private readonly rules: Rule[];
  private readonly end: ProfileTable["complete"];
  private hasEnded = false;

  constructor(profile: ProfileName, beside: Beside | null = null) {
    const table = PROFILES[profile];
    this.end = table.complete;
    this.facts = new Facts(table, beside);
    this.rules = table.rules.map((rule) => MAKERS[rule.type]!(rule, this.facts));
  }

  /** Returns what is wrong at a record. */
  observe(seen: Observation): readonly Hit[] {
    let hits = NO_HITS;
    if (this.hasEnded && seen.kind !== null && seen.kind === this.end?.reopened_by?.kind) {
      this.hasEnded = false;
      for (const rule of this.rules) rule.reopen?.();
    }
    this.hasEnded ||= seen.kind !== null && seen.kind === this.end?.last;
    for (const rule of this.rules) {
      const found = rule.observe(seen);
      if (found.length > 0) hits = [...hits, ...found];
    }
    this.facts.observe(seen);
    return hits;
  }

  /** Takes note of an unreadable line. */
  gap(): void {
    this.facts.gapSeen = true;
    for (const rule of this.rules) rule.gap?.();
  }

  /** Returns what is wrong at the end of a stream that has records and no fragment. */
  finish(): Hit[] {
    return this.rules.flatMap((rule) => rule.finish?.() ?? []);
  }
}
