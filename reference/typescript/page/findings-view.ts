/** Shows the findings of one stream, each with its place in the line. */

import type { Finding } from "../src/checker.js";
import { printable, printableBytes } from "../src/escaping.js";
import { adviceFor } from "../src/looks.js";
import type { Excerpt } from "../src/places.js";
import { button, fill, html } from "./elements.js";
import { grouped } from "./figures.js";
import type { Verdict } from "./verdicts.js";
import { keyBefore } from "./key-places.js";
import { ruleAddress } from "./rule-pages.js";
import { narrowed, wholeEnd, wholeStart } from "./text-report.js";

const FIRST_SHOWN = 12;
/** With fewer findings there is nothing to choose from. */
const MANY = 8;
const LONGEST_FRAGMENT = 400;
const LONGEST_MARK = 400;
/** Rules that are about a key, whatever its value. */
const KEY_RULES: ReadonlySet<string> = new Set(["unknown-key", "duplicate-key"]);
const NARROW = "(max-width: 37.5em)";

/** Returns the list of findings, the first of them at once; where there are many, with a choice of rules. */
export function findingsView(verdict: Verdict): HTMLElement {
  const { findings, suppressed } = verdict.report;
  const section = html("section", { class: "tc-section" }, html("h3", {}, "Findings"));
  const counts = Object.entries(suppressed);
  if (findings.length === 0 && counts.length === 0) {
    section.append(html("p", { class: "tc-none" }, "No findings."));
    return section;
  }
  const list = html("div", {});
  const show = (rule: string | null) => fill(list, ...listOf(findings.filter((finding) => rule === null || finding.rule === rule), verdict));
  show(null);
  if (findings.length >= MANY) section.append(rulesView(findings, show));
  section.append(list);
  if (counts.length > 0) section.append(suppressedView(counts));
  return section;
}

function listOf(findings: readonly Finding[], verdict: Verdict): HTMLElement[] {
  const list = html("ol", { class: "tc-findings" });
  const show = (from: number, to: number) => list.append(...findings.slice(from, to).map((finding) => findingView(finding, verdict)));
  show(0, FIRST_SHOWN);
  if (findings.length <= FIRST_SHOWN) return [list];
  const more = button(`Show ${findings.length - FIRST_SHOWN} more`, {}, () => {
    more.remove();
    show(FIRST_SHOWN, findings.length);
    list.children.item(FIRST_SHOWN)?.querySelector("a")?.focus();
  });
  return [list, more];
}

/** Returns a button for each rule that was broken, which leaves only its findings. */
function rulesView(findings: readonly Finding[], show: (rule: string | null) => void): HTMLElement | string {
  const rules = [...new Set(findings.map((finding) => finding.rule))];
  if (rules.length === 1) return "";
  const choices: (string | null)[] = [null, ...rules];
  const buttons = choices.map((rule, index) => {
    const count = findings.filter((finding) => rule === null || finding.rule === rule).length;
    return button(`${rule ?? "all"} ${count}`, { class: "tc-choice", "aria-pressed": String(index === 0) }, () => {
      buttons.forEach((made, at) => made.setAttribute("aria-pressed", String(at === index)));
      show(rule);
    });
  });
  return html("div", { class: "tc-choices", role: "group", "aria-label": "findings of one rule" }, ...buttons);
}

function findingView(finding: Finding, { fragment, look }: Verdict): HTMLElement {
  const { rule, severity, message } = finding;
  // NUL bytes in a text of two bytes a character are not what a power loss has left.
  const help = (look && adviceFor(look)) ?? finding.help;
  return html(
    "li",
    { class: `tc-finding tc-${severity}` },
    html(
      "p",
      { class: "tc-fact" },
      html("span", { class: "tc-severity" }, severity),
      " ",
      ruleView(rule),
      " ",
      html("span", { class: "tc-message" }, ...withCode(printable(message))),
    ),
    finding.excerpt && excerptView(finding.line, markedPart(finding)),
    rule === "unterminated-line" && fragmentView(finding.line, fragment),
    html("p", { class: "tc-place" }, placeOf(finding)),
    html("p", { class: "tc-help" }, html("span", {}, "help: "), ...withCode(help)),
  );
}

/** Returns the name of a rule, with a link to its page where the site is at hand. */
function ruleView(rule: string): HTMLElement {
  const href = ruleAddress(rule);
  return href === null ? html("span", { class: "tc-rule" }, rule) : html("a", { class: "tc-rule", href }, rule);
}

function placeOf(finding: Finding): string {
  if (finding.rule === "stream-missing") return "in the whole folder";
  const parts = [`line ${grouped(finding.line)}`];
  if (finding.excerpt) parts.push(`byte ${grouped(finding.excerpt.mark)} of the line`);
  parts.push(`byte ${grouped(finding.offset)} of ${finding.sidecar ?? "the stream"}`);
  if (finding.pointer !== "") parts.push(printable(finding.pointer));
  return parts.join(" · ");
}

/** A part of a line with the bytes of it that are marked. */
interface Marked {
  excerpt: Excerpt;
  /** Number of bytes that are marked, from the mark of the excerpt on. */
  count: number;
}

/** Returns what to mark: the key for a rule about keys, else the value, else the byte at which the line is wrong. */
function markedPart({ rule, pointer, excerpt }: Finding & { excerpt?: Excerpt }): Marked {
  const { data, start, mark, ...rest } = excerpt!;
  const at = mark - start;
  const key = KEY_RULES.has(rule) ? keyBefore(data, at) : null;
  if (key) return { excerpt: { ...rest, data, start, mark: start + key.from }, count: key.to - key.from };
  return { excerpt: excerpt!, count: pointer === "" ? 1 : valueLength(data, at) };
}

/** Returns a part of a line unchanged, with its place marked; what follows is cut where it is long. */
function excerptView(line: number, marked: Marked): HTMLElement {
  const { data, start, mark, length } = matchMedia(NARROW).matches ? narrowed(marked.excerpt) : marked.excerpt;
  const at = mark - start;
  const end = at + marked.count;
  const before = start > 0 ? `…${printableBytes(wholeStart(data.subarray(0, at)))}` : printableBytes(data.subarray(0, at));
  const isCut = start + data.length < length;
  const shown = at < data.length ? printableBytes(wholeCharacters(data, at, end)) : "";
  const rest = data.subarray(at + (at < data.length ? wholeCharacters(data, at, end).length : 0));
  const after = isCut ? `${printableBytes(wholeEnd(rest))}…` : printableBytes(rest);
  return lineView(line, before, shown === "" ? endMark("the line ends here") : html("mark", {}, shown), after);
}

function fragmentView(line: number, fragment: Uint8Array): HTMLElement {
  const shown = printableBytes(wholeEnd(fragment));
  return lineView(line, shown, endMark(fragment.length < LONGEST_FRAGMENT ? "no line feed" : "…"));
}

function lineView(line: number, ...text: (string | HTMLElement)[]): HTMLElement {
  return html("div", { class: "tc-line" }, html("span", { class: "tc-number", "aria-label": `line ${line}` }, String(line)), html("code", {}, ...text));
}

function endMark(text: string): HTMLElement {
  return html("mark", { class: "tc-end" }, text);
}

/** Takes the bytes from *at* to *end*, and as many more as the last character has. */
function wholeCharacters(data: Uint8Array, at: number, end: number): Uint8Array {
  let to = Math.min(end, data.length);
  while (to < data.length && (data[to]! & 0xc0) === 0x80) to++;
  return data.subarray(at, to);
}

/** Returns the length of the value that begins at a place: of a string or a word all of it, of others the first byte. */
function valueLength(data: Uint8Array, at: number): number {
  const most = Math.min(data.length, at + LONGEST_MARK);
  if (data[at] === 0x22) {
    for (let end = at + 1; end < most; end++) {
      if (data[end] === 0x5c) end++;
      else if (data[end] === 0x22) return end + 1 - at;
    }
    return most - at;
  }
  let end = at;
  while (end < most && /[-+.\w]/.test(String.fromCharCode(data[end]!))) end++;
  return Math.max(1, end - at);
}

function suppressedView(counts: [rule: string, count: number][]): HTMLElement {
  const items = counts.map(([rule, count]) =>
    html("li", {}, ruleView(rule), ` ${grouped(count)} more, counted but not listed`),
  );
  return html("ul", { class: "tc-suppressed" }, ...items);
}

/** Returns text with the parts in backticks as code. */
function withCode(text: string): (string | HTMLElement)[] {
  // A value of the log may have one of its own.
  if (text.split("`").length % 2 === 0) return [text];
  return text.split("`").map((part, index) => (index % 2 === 1 ? html("code", {}, part) : part));
}
