/** What a check finds in a run, each with its line. */

import { html } from "../../../typescript/page/elements.js";
import type { Detail, Finding } from "../protocol.js";
import type { Store } from "../store.js";
import { grouped, plain, prose } from "../text.js";
import { rawLine } from "./raw-line.js";
import { longList } from "./lists.js";
import type { Part } from "./run-view.js";

/** Returns the findings of a run. */
export function findingsSection(detail: Detail, store: Store): Part {
  const { findings, left_out, row } = detail;
  const more = left_out["findings"] ?? 0;
  if (findings.length + more === 0) {
    const text = row.findings === null && row.state !== "running" ? "Nothing has checked this run yet. Run `toyspec check` on it." : row.state === "running" ? "The check finds nothing so far." : "The check finds nothing.";
    return { title: "Findings", element: html("p", { class: "nothing" }, text) };
  }
  const list = longList(findings, (finding) => item(finding, detail, store), 25);
  const rest = more > 0 && html("p", { class: "count" }, `${grouped(more)} more are counted, not listed. Run \`toyspec check\` for all.`);
  return { title: "Findings", count: findings.length + more, element: html("div", {}, list, rest) };
}

function item(finding: Finding, detail: Detail, store: Store): HTMLElement {
  const { severity, rule, message, help, file, line, offset, pointer, step } = finding;
  const where = html("span", { class: "where" }, plain(file, 80), step != null && ` step ${grouped(step)}`, pointer !== "" && html("code", {}, plain(pointer, 120)));
  return html(
    "li",
    { class: `finding finding-${severity}` },
    html("p", { class: "finding-head" }, html("span", { class: `severity severity-${severity}` }, severity), html("code", {}, plain(rule, 80)), where),
    html("p", {}, prose(message, 2000)),
    help !== "" && html("p", { class: "help-text" }, prose(help, 1000)),
    line > 0 && offset === null && html("p", { class: "count" }, `Line ${grouped(line)}`),
    line > 0 && offset !== null && rawLine(store, { run: detail.id, file, line, offset }),
  );
}
