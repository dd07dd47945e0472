/** Findings as `toyspec check -v` prints them into a file: a finding a line, its place in the line, what to do. */

import { LIMITS, PROFILES } from "../src/tables.js";
import type { FileReport, Finding } from "../src/checker.js";
import { printable, printableBytes } from "../src/escaping.js";
import type { Excerpt } from "../src/places.js";
import { type Entry, sorted, summarize } from "./report.js";

const COLUMNS = 120;
const INDENT = "    ";
const EXCERPT_BYTES = LIMITS.excerpt_bytes;
const EXCERPT_BEFORE = 60;
const MOST_NAMED = 3;
const STATES: readonly string[] = ["complete", "no end mark", "torn", "damaged"];
/** Of the streams of one run, the last counts: one without an end mark says nothing where another has an end. */
const RANKED: readonly string[] = ["no end mark", "complete", "torn", "damaged"];
const WITHOUT = "without a stream";

/** Returns the report as text, its last line the summary. */
export function textReport(entries: readonly Entry[]): string {
  const helped = new Set<string>();
  const lines = entries.flatMap((entry) => {
    if (entry.type === "report") return fileLines(entry.report, helped);
    if (entry.type === "error") return [`${shownPath(entry.error.path)}: ${printable(entry.error.message)}`];
    return [`${shownPath(entry.skipped.path)}: skipped  ${printable(entry.skipped.message)}`];
  });
  return [...lines, sentence(entries), ""].join("\n");
}

/** Returns the summary, for example `2 runs: 1 complete, 1 torn · 1 warning`. */
export function sentence(entries: readonly Entry[]): string {
  const { reports, errors, skipped } = sorted(entries);
  const foreign = reports.filter(({ profile, state }) => profile === null && state !== null).length;
  const parts = foreign < reports.length || foreign === 0 ? [runs(reports)] : [];
  if (foreign > 0) parts.push(`${counted(foreign, "file")} of another format`);
  parts.push(findingsOf(reports));
  const earlier = entries.flatMap((entry) => (entry.type === "report" ? (entry.earlier ?? []) : []));
  if (earlier.length > 0) parts.push(`${counted(earlier.length, "earlier log")} not checked: ${some([...new Set(earlier)])}`);
  if (skipped.length > 0) parts.push(`${counted(skipped.length, "file")} of another format skipped`);
  if (errors.length > 0) parts.push(`${counted(errors.length, "path")} could not be read`);
  return parts.join(" · ");
}

function some(names: readonly string[]): string {
  const more = names.length - MOST_NAMED;
  return names.slice(0, MOST_NAMED).join(", ") + (more > 0 ? `, and ${more} more` : "");
}

/** Returns a number with a noun, in the plural unless it is one. */
function counted(number: number, noun: string): string {
  return number === 1 ? `${number} ${noun}` : `${number} ${noun}s`;
}

/** Returns the place of a finding: the file, and the line where there is one. */
export function placeText(report: FileReport, finding: Finding): string {
  const folder = report.path.includes("/") ? report.path.slice(0, report.path.lastIndexOf("/") + 1) : "";
  const path = shownPath(finding.sidecar === undefined ? report.path : folder + finding.sidecar);
  return finding.rule === "stream-missing" ? path : `${path}:${finding.line}`;
}

/** Returns a path for a person, inert. */
export function shownPath(path: string): string {
  return printable(path);
}

/** Returns the state of a stream for people: a whole one is complete only where its format says that the run ended. */
export function stateText({ state, profile }: FileReport): string | null {
  return state === "complete" && profile !== null && PROFILES[profile].complete?.last === undefined ? "no end mark" : state;
}

function runs(reports: readonly FileReport[]): string {
  const counts = new Map<string, number>([...STATES, WITHOUT].map((state) => [state, 0]));
  for (const state of runStates(reports)) counts.set(state, counts.get(state)! + 1);
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const named = [...counts].filter(([, count]) => count > 0).map(([state, count]) => (total === 1 ? state : `${count} ${state}`));
  return named.length > 0 ? `${counted(total, "run")}: ${named.join(", ")}` : counted(total, "run");
}

/** Returns the state of each run: the worse of both where one has two streams, which come one after the other. */
function runStates(reports: readonly FileReport[]): string[] {
  const states: string[] = [];
  let last: string | undefined;
  for (const report of reports) {
    const { path, profile } = report;
    const state = stateText(report);
    if (profile === null && state !== null) continue;
    const run = path.replace(/(^|\/)(events|metrics)\.jsonl(\.gz)?$/, "");
    if (state !== null && run === last) {
      const before = states.pop()!;
      states.push(RANKED.indexOf(before) > RANKED.indexOf(state) ? before : state);
    } else states.push(state ?? WITHOUT);
    if (state !== null) last = run;
  }
  return states;
}

function findingsOf(reports: readonly FileReport[]): string {
  const { errors, warnings, infos } = summarize(reports);
  const counts: [number, string][] = [[errors, "error"], [warnings, "warning"], [infos, "info"]];
  return counts.filter(([count]) => count > 0).map(([count, noun]) => counted(count, noun)).join(", ") || "no findings";
}

function fileLines(report: FileReport, helped: Set<string>): string[] {
  const lines: string[] = [];
  const rules = new Set<string>();
  for (const finding of report.findings) {
    rules.add(finding.rule);
    lines.push(`${placeText(report, finding)}: ${finding.rule}  ${printable(finding.message)}`);
    if (finding.excerpt) lines.push(...excerptLines(finding.line, finding.excerpt));
    if (helped.has(finding.rule)) continue;
    helped.add(finding.rule);
    lines.push(`${INDENT}help: ${finding.help}; \`toyspec explain ${finding.rule}\``);
  }
  for (const [rule, count] of Object.entries(report.suppressed)) {
    if (rules.has(rule)) lines.push(`${shownPath(report.path)}: ${rule}  ${counted(count, "more finding")}, counted but not listed`);
  }
  return lines;
}

function excerptLines(line: number, excerpt: Excerpt): string[] {
  const gutter = `${INDENT}${line} | `;
  const [before, after] = visible(excerpt, COLUMNS - gutter.length);
  const caret = `${INDENT}${" ".repeat(String(line).length)} | ${" ".repeat(width(before))}^ byte ${excerpt.mark}`;
  return [gutter + before + after, caret];
}

/** Returns the part of an excerpt that the command shows. */
export function narrowed(excerpt: Excerpt): Excerpt {
  const start = Math.max(0, Math.min(excerpt.mark - EXCERPT_BEFORE, excerpt.length - EXCERPT_BYTES));
  const from = start - excerpt.start;
  return { ...excerpt, start, data: excerpt.data.subarray(from, from + EXCERPT_BYTES) };
}

/** Returns what to show before and from the mark, together at most *room* columns. */
function visible(excerpt: Excerpt, room: number): [string, string] {
  const { data, start } = narrowed(excerpt);
  const head = data.subarray(0, excerpt.mark - start);
  const tail = data.subarray(excerpt.mark - start);
  const isCut = data.length >= EXCERPT_BYTES;
  let before = (start > 0 ? "…" : "") + printableBytes(start > 0 ? wholeStart(head) : head);
  const after = printableBytes(isCut ? wholeEnd(tail) : tail) + (isCut ? "…" : "");
  // Half of the room stays for what follows the place, as far as something does.
  before = cutStart(before, room - Math.min(width(after), Math.floor(room / 2)));
  return [before, cut(after, room - width(before))];
}

/** Returns bytes without the rest of a character that was cut at their start. */
export function wholeStart(data: Uint8Array): Uint8Array {
  let at = 0;
  while (at < data.length && (data[at]! & 0xc0) === 0x80) at++;
  return data.subarray(at);
}

/** Returns bytes without the part of a character that was cut at their end. */
export function wholeEnd(data: Uint8Array): Uint8Array {
  for (let length = 1; length <= Math.min(3, data.length); length++) {
    const lead = data[data.length - length]!;
    if (lead >= 0xc0) {
      const wanted = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      return wanted > length ? data.subarray(0, -length) : data;
    }
    if (lead < 0x80) break;
  }
  return data;
}

const WIDE =
  /[\u1100-\u115f\u231a\u231b\u2329\u232a\u23e9-\u23ec\u23f0\u23f3\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6b\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u;

/** Returns the number of columns of text: two for a wide character, none for a combining one. */
function width(text: string): number {
  let sum = 0;
  for (const character of text) sum += /\p{Mn}/u.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return sum;
}

function cut(text: string, limit: number): string {
  return width(text) <= limit ? text : fitting([...text], limit - 1).join("") + "…";
}

function cutStart(text: string, limit: number): string {
  return width(text) <= limit ? text : "…" + fitting([...text].reverse(), limit - 1).reverse().join("");
}

function fitting(characters: string[], limit: number): string[] {
  let taken = 0;
  const end = characters.findIndex((character) => (taken += width(character)) > limit);
  return end < 0 ? characters : characters.slice(0, end);
}
