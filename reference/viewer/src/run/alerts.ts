/** Alerts of a run: what rules reported while it was written. */

import { html } from "../../../typescript/page/elements.js";
import type { Alert, Detail } from "../protocol.js";
import { duration, grouped, plain, prose, short } from "../text.js";
import { longList } from "./lists.js";
import type { Part } from "./run-view.js";

/** Returns the alerts, the last one first. */
export function alertsSection({ alerts = [], left_out }: Detail): Part | null {
  if (alerts.length === 0) return null;
  return { title: "Alerts", count: alerts.length + (left_out["alerts"] ?? 0), element: longList([...alerts].reverse(), item, 25) };
}

function item({ level, rule, text, step, t, metric, value, threshold, rank }: Alert): HTMLElement {
  const severity = level === "error" || level === "info" ? level : "warning";
  const facts = [
    step != null ? `step ${grouped(step)}` : t != null && duration(t), metric !== undefined && plain(metric, 120) + (value === undefined ? "" : ` = ${value === null ? "not finite" : short(value)}`),
    typeof threshold === "number" && `threshold ${short(threshold)}`, rank !== undefined && `rank ${rank}`,
  ].filter(Boolean);
  return html(
    "li",
    { class: `finding finding-${severity}` },
    html("p", { class: "finding-head" }, html("span", { class: `severity severity-${severity}` }, severity), html("code", {}, plain(rule, 80)), html("span", { class: "where" }, facts.join(" · "))),
    html("p", {}, prose(text, 2000)),
  );
}
