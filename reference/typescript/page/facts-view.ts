/** Shows the metadata of a run. */

import { html } from "./elements.js";
import { duration, figure, grouped } from "./figures.js";
import type { Fact, RunFacts } from "./run-facts.js";

const LEFT_OUT: ReadonlySet<string> = new Set(["kind", "schema", "schema_version", "t", "phase", "step"]);

/** Returns the facts, those of the start first; null where there are none. */
export function factsView(facts: RunFacts): HTMLElement | null {
  const rows = [...started(facts), ...course(facts), ...ended(facts)];
  if (rows.length === 0) return null;
  const list = rows.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value)));
  return html("section", { class: "tc-section" }, html("h3", {}, "Run"), html("dl", { class: "tc-facts" }, ...list));
}

function started(facts: RunFacts): Fact[] {
  const rows = new Map<string, string>();
  for (const [name, value] of facts.start) {
    if (LEFT_OUT.has(name)) continue;
    const [group, ...rest] = name.split(".");
    const text = rest.length > 0 ? `${rest.join(".")} ${value}` : value;
    rows.set(group!, rows.has(group!) ? `${rows.get(group!)}, ${text}` : text);
  }
  const first = ["run_id", "experiment", "model", "backend", "started_at", "created_at"];
  const rank = ([name]: Fact) => (first.includes(name) ? first.indexOf(name) : first.length);
  return [...rows].sort((a, b) => rank(a) - rank(b));
}

function course(facts: RunFacts): Fact[] {
  const rows: Fact[] = [];
  const { steps, seconds, resumes, kinds } = facts;
  if (seconds !== null && (steps !== null || facts.end.length > 0)) rows.push(["took", duration(seconds)]);
  if (steps !== null) rows.push(["steps", `${grouped(steps.first)} to ${grouped(steps.last)}`]);
  const loss = facts.curves.find((curve) => ["loss", "train_loss", "train/loss"].includes(curve.name));
  if (loss?.last && loss.last.value !== null) rows.push(["last loss", figure(loss.last.value)]);
  if (resumes > 0) rows.push(["resumed", resumes === 1 ? "once" : `${resumes} times`]);
  if (kinds.length > 0) rows.push(["records", kinds.map(([kind, count]) => `${grouped(count)} ${kind}`).join(", ")]);
  return rows;
}

function ended(facts: RunFacts): Fact[] {
  return facts.end.filter(([name]) => !LEFT_OUT.has(name)).map(([name, value]): Fact => [name.replaceAll("_", " "), value]);
}
