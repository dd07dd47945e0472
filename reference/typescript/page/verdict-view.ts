/** Shows everything about one stream. */

import { bytesView } from "./bytes-view.js";
import { curvesView } from "./curve-view.js";
import { html } from "./elements.js";
import { factsView } from "./facts-view.js";
import { grouped, size } from "./figures.js";
import { findingsView } from "./findings-view.js";
import type { Verdict } from "./judging.js";
import { summarize } from "./report.js";
import { counted, shownPath } from "./text-report.js";

/** Returns the details of a stream. */
export function verdictView(verdict: Verdict): HTMLElement {
  const { report, bytes, facts } = verdict;
  return html(
    "article",
    { class: "tc-verdict" },
    html("h2", { class: "tc-path", tabindex: -1 }, shownPath(report.path)),
    html("p", { class: "tc-state-line" }, stateChip(verdict), " ", html("span", {}, meaning(verdict))),
    report.profile && html("p", { class: "tc-counts" }, countsOf(verdict)),
    bytes && bytesView(bytes),
    findingsView(verdict),
    facts && curvesView(facts.curves),
    facts && factsView(facts),
  );
}

/** Returns the state of a stream as a coloured word. */
export function stateChip({ report }: Verdict): HTMLElement {
  return html("span", { class: `tc-state tc-state-${report.state ?? "missing"}` }, report.state ?? "no stream");
}

/** Returns how many findings a stream has, in words. */
export function findingCounts({ report }: Verdict): string {
  const { errors, warnings, infos } = summarize([report]);
  const counts: [number, string][] = [[errors, "error"], [warnings, "warning"], [infos, "info"]];
  return counts.filter(([count]) => count > 0).map(([count, noun]) => counted(count, noun)).join(", ") || "no findings";
}

function countsOf(verdict: Verdict): string {
  const { profile, events, bytes, valid } = verdict.report;
  const records = `${grouped(events)} ${events === 1 ? "record" : "records"}`;
  return [valid ? "valid" : "not valid", profile, records, size(bytes), findingCounts(verdict)].join(" · ");
}

function meaning({ report, bytes }: Verdict): string {
  switch (report.state) {
    case "complete":
      return report.profile === "toy/v1" ? "The run has ended, and every line can be read." : "Every line can be read, to the last byte.";
    case "torn":
      return bytes && bytes.fragment > 0
        ? "The last line was not finished. Everything before it can be read: the run was killed, or is still going."
        : "Every line can be read, but the run has not ended: it was killed, or is still going.";
    case "damaged":
      return `${counted(bytes?.gaps ?? 0, "line")} cannot be read. All others can, and are.`;
    default:
      return "There is no events.jsonl or metrics.jsonl in this folder or below.";
  }
}
