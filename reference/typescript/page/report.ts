/** Verdicts as `toyspec check --format json` writes them: see schemas/report/v1/report.json. */

import type { FileReport, Finding } from "../src/checker.js";
import { severityOf } from "../src/collecting.js";
import { toWellFormed } from "../src/scanner.js";
import type { ReadError, Skipped } from "./verdicts.js";
import { VERSION } from "./version.js";

/** Totals over reports; findings that were counted, not listed, are included. */
export interface Summary {
  files: number;
  errors: number;
  warnings: number;
  infos: number;
}

/** Returns the totals over reports. */
export function summarize(reports: readonly FileReport[]): Summary {
  const totals = { error: 0, warning: 0, info: 0 };
  for (const report of reports) {
    for (const finding of report.findings) totals[finding.severity]++;
    for (const [rule, count] of Object.entries(report.suppressed)) totals[severityOf(rule, report.profile)] += count;
  }
  return { files: reports.length, errors: totals.error, warnings: totals.warning, infos: totals.info };
}

/** What came of one path. */
export type Entry = { type: "report"; report: FileReport; earlier?: readonly string[] | undefined } | { type: "error"; error: ReadError } | { type: "skipped"; skipped: Skipped };

/** Returns entries by what they are, each in order. */
export function sorted(entries: readonly Entry[]): { reports: FileReport[]; errors: ReadError[]; skipped: Skipped[] } {
  return {
    reports: entries.flatMap((entry) => (entry.type === "report" ? [entry.report] : [])),
    errors: entries.flatMap((entry) => (entry.type === "error" ? [entry.error] : [])),
    skipped: entries.flatMap((entry) => (entry.type === "skipped" ? [entry.skipped] : [])),
  };
}

/** Returns the report on streams as one JSON object, all of it printable ASCII. */
export function jsonReport(entries: readonly Entry[]): string {
  const { reports, errors, skipped } = sorted(entries);
  const files = reports.map((report) => `\n${inertJson(fileObject(report))}`).join(",");
  return `{"toyspec":${inertJson(VERSION)},"files":[${files}],\n"errors":${inertJson(errors)},\n"skipped":${inertJson(skipped)},\n"summary":${inertJson(summarize(reports))}}\n`;
}

function fileObject(report: FileReport): object {
  const { path, profile, state, valid, records, bytes, suppressed } = report;
  return { path: toWellFormed(path), profile, state, valid, records, bytes, findings: report.findings.map(findingObject), suppressed };
}

function findingObject(finding: Finding): object {
  const { rule, severity, line, offset, pointer, message, help, sidecar } = finding;
  return { rule, severity, line, offset, pointer, message, help, ...(sidecar === undefined ? {} : { sidecar }) };
}

function inertJson(value: unknown): string {
  return JSON.stringify(value).replace(/[^\0-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
