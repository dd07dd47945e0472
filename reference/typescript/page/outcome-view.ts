/** Shows what came of a check: one stream in full, or a list to choose from. */

import type { Outcome } from "./checking.js";
import { button, fill, html } from "./elements.js";
import { grouped } from "./figures.js";
import type { Verdict } from "./verdicts.js";
import { sorted } from "./report.js";
import { shownPath } from "./text-report.js";
import { findingCounts, stateChip, verdictView } from "./verdict-view.js";

const FIRST_SHOWN = 200;
/** With fewer runs there is nothing to choose from. */
const MANY = 8;

/** Returns the view of an outcome. */
export function outcomeView(outcome: Outcome): HTMLElement {
  const { verdicts, entries } = outcome;
  const { errors, skipped } = sorted(entries);
  const details = html("div", { class: "tc-details" });
  const unread = errors.map((error) => html("li", {}, `${shownPath(error.path)}: ${error.message}`));
  const passed = skipped.slice(0, FIRST_SHOWN).map(({ path, message }) => html("li", {}, `${shownPath(path)}: skipped, ${message}`));
  const view = html(
    "div",
    {},
    unread.length > 0 && html("ul", { class: "tc-errors" }, ...unread),
    passed.length > 0 && html("ul", { class: "tc-skipped" }, ...passed),
  );
  if (verdicts.length === 1) fill(details, verdictView(verdicts[0]!));
  else if (verdicts.length > 1) view.append(listView(verdicts, details));
  view.append(details);
  return view;
}

function listView(verdicts: readonly Verdict[], details: HTMLElement): HTMLElement {
  const list = html("ol", { class: "tc-streams", "aria-label": "streams" });
  const worst = verdicts.findIndex(({ report }) => report.state === "damaged" || !report.valid);
  let opened = Math.max(worst, 0);
  const open = (index: number) => {
    opened = index;
    for (const made of list.querySelectorAll(".tc-stream")) made.setAttribute("aria-pressed", String(made.id === idOf(index)));
    fill(details, verdictView(verdicts[index]!));
  };
  const entry = (index: number) => {
    const verdict = verdicts[index]!;
    const made = button("", { class: "tc-stream", id: idOf(index), "aria-pressed": String(index === opened) }, () => {
      open(index);
      details.querySelector<HTMLElement>(".tc-path")?.focus();
    });
    const path = html("span", { class: "tc-stream-path" }, shownPath(verdict.report.path));
    fill(made, stateChip(verdict), path, html("span", { class: "tc-stream-counts" }, findingCounts(verdict)));
    return html("li", {}, made);
  };
  const show = (indexes: number[]) => {
    fill(list, ...indexes.slice(0, FIRST_SHOWN).map(entry));
    if (indexes.length <= FIRST_SHOWN) return;
    const more = button(`Show ${grouped(indexes.length - FIRST_SHOWN)} more`, {}, () => {
      more.parentElement?.remove();
      list.append(...indexes.slice(FIRST_SHOWN).map(entry));
      list.children.item(FIRST_SHOWN)?.querySelector("button")?.focus();
    });
    list.append(html("li", {}, more));
  };
  const all = [...verdicts.keys()];
  show(all);
  open(opened);
  const odd = all.filter((index) => verdicts[index]!.report.findings.length > 0);
  const isMixed = all.length >= MANY && odd.length > 0 && odd.length < all.length;
  return html("div", {}, isMixed && onlyOdd((only) => show(only ? odd : all)), list);
}

function onlyOdd(choose: (only: boolean) => void): HTMLElement {
  const box = html("input", { type: "checkbox" });
  box.addEventListener("change", () => choose(box.checked));
  return html("label", { class: "tc-only" }, box, " only runs with findings");
}

function idOf(index: number): string {
  return `tc-stream-${index}`;
}
