/** Shows what came of a check: one stream in full, or a list to choose from. */

import type { Outcome } from "./checking.js";
import { button, fill, html } from "./elements.js";
import { grouped } from "./figures.js";
import type { Verdict } from "./judging.js";
import { shownPath } from "./text-report.js";
import { findingCounts, stateChip, verdictView } from "./verdict-view.js";

const FIRST_SHOWN = 200;

/** Returns the view of an outcome. */
export function outcomeView(outcome: Outcome): HTMLElement {
  const { verdicts, errors } = outcome;
  const details = html("div", { class: "tc-details" });
  const unread = errors.map((error) => html("li", {}, `${shownPath(error.path)}: ${error.message}`));
  const view = html("div", {}, unread.length > 0 && html("ul", { class: "tc-errors" }, ...unread));
  if (verdicts.length === 1) fill(details, verdictView(verdicts[0]!));
  else if (verdicts.length > 1) view.append(listView(verdicts, details));
  view.append(details);
  return view;
}

function listView(verdicts: readonly Verdict[], details: HTMLElement): HTMLElement {
  const list = html("ol", { class: "tc-streams", "aria-label": "streams" });
  const buttons: HTMLButtonElement[] = [];
  const open = (index: number, moves: boolean) => {
    buttons.forEach((made, at) => made.setAttribute("aria-pressed", String(at === index)));
    fill(details, verdictView(verdicts[index]!));
    if (moves) details.querySelector<HTMLElement>(".tc-path")?.focus();
  };
  const show = (from: number, to: number) => {
    for (const [at, verdict] of verdicts.slice(from, to).entries()) {
      const made = button("", { class: "tc-stream", "aria-pressed": "false" }, () => open(from + at, true));
      fill(made, stateChip(verdict), html("span", { class: "tc-stream-path" }, shownPath(verdict.report.path)), html("span", { class: "tc-stream-counts" }, findingCounts(verdict)));
      buttons.push(made);
      list.append(html("li", {}, made));
    }
  };
  show(0, FIRST_SHOWN);
  if (verdicts.length > FIRST_SHOWN) {
    const more = button(`Show ${grouped(verdicts.length - FIRST_SHOWN)} more`, {}, () => {
      more.parentElement?.remove();
      show(FIRST_SHOWN, verdicts.length);
      buttons[FIRST_SHOWN]?.focus();
    });
    list.append(html("li", {}, more));
  }
  const worst = verdicts.findIndex(({ report }) => report.state === "damaged" || !report.valid);
  open(Math.max(worst, 0), false);
  return list;
}
