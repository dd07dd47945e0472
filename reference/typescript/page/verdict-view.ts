/** Shows everything about one stream. */

import { bytesView } from "./bytes-view.js";
import { html } from "./elements.js";
import { counted, grouped, size } from "./figures.js";
import { findingsView } from "./findings-view.js";
import type { Verdict } from "./verdicts.js";
import { summarize } from "./report.js";
import { shownPath, stateText } from "./text-report.js";

/** Returns the details of a stream. */
export function verdictView(verdict: Verdict): HTMLElement {
  const { report, bytes, look } = verdict;
  return html(
    "article",
    { class: "tc-verdict" },
    html("h2", { class: "tc-path", tabindex: -1 }, shownPath(report.path)),
    html("p", { class: "tc-state-line" }, stateChip(verdict), " ", html("span", {}, meaning(verdict))),
    report.state && html("p", { class: "tc-counts" }, countsOf(verdict)),
    bytes && !look && bytesView(bytes),
    findingsView(verdict),
  );
}

/** Returns the state of a stream as a coloured word. */
export function stateChip({ report }: Verdict): HTMLElement {
  // The state of a file of another format says nothing that helps.
  if (report.profile === null && report.state !== null) return html("span", { class: "tc-state tc-state-foreign" }, "not a log");
  return html("span", { class: `tc-state tc-state-${report.state ?? "missing"}` }, stateText(report) ?? "no stream");
}

/** Returns how many findings a stream has, in words. */
export function findingCounts({ report }: Verdict): string {
  const { errors, warnings, infos } = summarize([report]);
  const counts: [number, string][] = [[errors, "error"], [warnings, "warning"], [infos, "info"]];
  return counts.filter(([count]) => count > 0).map(([count, noun]) => counted(count, noun)).join(", ") || "no findings";
}

function countsOf(verdict: Verdict): string {
  const { profile, records, bytes, valid } = verdict.report;
  const count = counted(records, "record");
  const unpacked = verdict.isPacked ? `${size(bytes)} unpacked from gzip` : size(bytes);
  return [valid ? "valid" : "not valid", profile ?? "no profile", count, unpacked, findingCounts(verdict)].join(" · ");
}

function meaning(verdict: Verdict): string {
  const { report, bytes, look } = verdict;
  if (look) return `This looks like ${look.look}, not like a training log in JSON Lines.`;
  if (report.profile === null && report.state !== null) return "This is not a log in a format that toyspec knows.";
  switch (report.state) {
    case "complete":
      return report.profile === "toy/v1" ? "The run has ended, and every line can be read." : "Every line can be read, to the last byte.";
    case "torn":
      return bytes && bytes.fragment > 0
        ? "The last line is not finished. Everything before it can be read. The run was killed, or is still going."
        : "Every line can be read, but the run has not ended. It was killed, or is still going.";
    case "damaged":
      return `${counted(bytes?.gaps ?? 0, "line")} of ${grouped(report.records + (bytes?.gaps ?? 0))} cannot be read. All others were.`;
    default:
      return "There is no events.jsonl or metrics.jsonl in this folder or below.";
  }
}
