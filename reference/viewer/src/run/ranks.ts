/** The processes of a run: how far each came, which stopped first, which is slowest, and how charts show them. */

import { fill, html } from "../../../typescript/page/elements.js";
import { ANCESTOR_LOOK, MOST_RANKS_DRAWN, type Relatives, type severalRanks, SLOWEST_LOOK } from "../charts/relatives.js";
import { type Look, lookOf } from "../palette.js";
import type { Ranks } from "../protocol.js";
import { isOfLatestAttempt } from "../run-fields.js";
import type { Store } from "../store.js";
import { brief, counted, duration, grouped, plain } from "../text.js";
import type { RankManner } from "../view-state.js";
import { dataTable } from "./lists.js";
import type { Part } from "./run-view.js";
import { nameOf } from "../names.js";

const MOST_RANKS = 1024;
const MOST_MISSING = 20;
const MOST_KEYS = 14;
const MANNERS: readonly (readonly [RankManner, string])[] = [["range", "mean and range"], ["each", "each rank"], ["first", "rank 0 alone"]];

/** Returns the table of the ranks, with what is to be said about all of them above it. */
export function ranksSection(ranks: Ranks | null): Part | null {
  if (ranks === null) return null;
  const columns: readonly (readonly [string, (rank: Ranks["ranks"][number]) => string])[] = [
    ["Rank", ({ rank }) => String(rank)],
    ["State", ({ rank, state }) => (isOfLatestAttempt(rank, ranks.world_size) ? state : `${state}, earlier attempt`)],
    ["End", ({ reason }) => plain(reason ?? "", 60)],
    ["Last step", ({ last_step }) => (last_step === null ? "" : grouped(last_step))],
    ["Behind", ({ behind }) => (behind ? grouped(behind) : "")],
    ["Step time", ({ step_seconds }) => (step_seconds === null ? "" : brief(step_seconds))],
    ["Compute", ({ compute_seconds }) => (compute_seconds === null ? "" : brief(compute_seconds))],
    ["Silent", ({ silent_seconds }) => (silent_seconds !== null && silent_seconds > 1 ? duration(silent_seconds) : "")],
    ["Error", ({ error }) => plain(error ?? "", 200)],
  ];
  const all = ranks.ranks.slice(0, MOST_RANKS);
  // A column without anything in it is left out.
  const kept = columns.filter(([, text]) => all.some((rank) => text(rank) !== ""));
  const numbers = new Set(kept.flatMap(([head], at) => (["State", "End", "Error"].includes(head) ? [] : [at])));
  const more = ranks.ranks.length - all.length;
  return {
    title: "Ranks",
    count: ranks.ranks.length,
    element: html(
      "div",
      { class: "ranks" },
      html("ul", { class: "ranks-facts" }, ...factsOf(ranks).map((fact) => html("li", {}, fact))),
      dataTable(kept.map(([head]) => head), all.map((rank) => kept.map(([, text]) => text(rank))), numbers),
      more > 0 && html("p", { class: "count" }, `${counted(more, "rank")} more`),
    ),
  };
}

/** Returns the mark of ranks that did not end as rank 0 did, whose mark is that of the run; null where all did. */
export function ranksChip(ranks: Ranks | null): HTMLElement | null {
  const [first, ...others] = ranks?.ranks ?? [];
  const odd = others.filter(({ rank, state, reason }) => isOfLatestAttempt(rank, ranks!.world_size) && (state !== first!.state || reason !== first!.reason));
  const absent = ranks?.missing.length ?? 0;
  if (odd.length + absent === 0) return null;
  const isBad = odd.some(({ state, reason }) => state === "damaged" || (reason !== null && reason !== "completed"));
  const text = odd.length === 1 && absent === 0 ? `rank ${odd[0]!.rank} ${plain(odd[0]!.state === "complete" ? (odd[0]!.reason ?? "complete") : odd[0]!.state, 40)}` : [odd.length > 0 && `${counted(odd.length, "rank")} differ`, absent > 0 && `${counted(absent, "rank")} without a log`].filter(Boolean).join(", ");
  return html("span", { class: `chip chip-${isBad ? "damaged" : "torn"}`, title: factsOf(ranks!).join(" ") }, text);
}

/** Returns what is to be said about the ranks together. */
export function factsOf({ world_size, ranks, missing, errors, first_to_stop, slowest }: Ranks): string[] {
  const size = world_size === null ? "" : ` of ${grouped(world_size)}`;
  const earlier = ranks.filter(({ rank }) => !isOfLatestAttempt(rank, world_size)).length;
  const unended = ranks.filter(({ rank, state }) => rank !== 0 && (state === "damaged" || (state === "torn" && isOfLatestAttempt(rank, world_size)))).map(({ rank }) => rank);
  const isOver = ranks.some(({ rank, state }) => rank === 0 && state === "complete");
  return [
    `${grouped(ranks.length - earlier)}${size} ranks${earlier > 0 ? `, and ${grouped(earlier)} of an earlier attempt,` : ""} have a log.`,
    missing.length > 0 ? `No log of rank ${listed(missing)}.` : "",
    ...errors.map((error) => plain(error, 400)),
    isOver && unended.length > 0 ? `The run is complete, but the log of rank ${listed(unended)} is torn or damaged.` : "",
    first_to_stop === null ? "" : `Rank ${first_to_stop.rank} stopped first: ${plain(first_to_stop.why, 300)}.`,
    slowest === null ? "" : `Rank ${slowest.rank} is the slowest: ${slowestText(slowest)}.`,
  ].filter(Boolean);
}

function listed(numbers: readonly number[]): string {
  const rest = numbers.length > MOST_MISSING ? ` and ${grouped(numbers.length - MOST_MISSING)} more` : "";
  return numbers.slice(0, MOST_MISSING).join(", ") + rest;
}

function slowestText({ factor, by }: NonNullable<Ranks["slowest"]>): string {
  return `${factor.toFixed(2)} times the median of the others, by ${plain(by)}`;
}

/** Says above the charts of a run what their lines are, and lets the user choose how ranks are shown. */
export class RelativesLine {
  readonly element = html("div", { class: "relatives", hidden: true });
  readonly #choice = html("select", { class: "field", "aria-label": "How ranks are shown" }, ...MANNERS.map(([value, text]) => html("option", { value }, text)));

  constructor(private readonly store: Store) {
    this.#choice.addEventListener("change", () => store.update({ ranks: this.#choice.value as RankManner }, { isSmall: true }));
  }

  /** Shows what is drawn of the ranks of several runs. */
  #updateSeveral({ runs, count, areDrawn }: ReturnType<typeof severalRanks>): void {
    const { ranks: manner, x } = this.store.state;
    const isDrawn = areDrawn && x !== "defined";
    const some = `${counted(runs.length, "run")} of those shown ${runs.length === 1 ? "has" : "have"} several ranks`;
    const why = manner === "first" ? "" : count > MOST_RANKS_DRAWN ? "; select fewer runs to see their other ranks" : "; with groups, differences, a defined step or many runs, other ranks are not drawn";
    const what = !isDrawn ? `only rank 0 of each is drawn${why}` : manner === "each" ? "each rank is drawn in the colour of its run" : "the mean is drawn, with the range from smallest to largest";
    this.element.hidden = runs.length === 0;
    fill(this.element, html("label", {}, html("span", { class: "label" }, "Ranks"), this.#choice), html("span", { class: "count" }, `${some}: ${what}.`));
  }

  update({ ranks, ancestors }: Relatives, several?: ReturnType<typeof severalRanks>): void {
    const { ranks: manner, x } = this.store.state;
    this.#choice.value = manner;
    if (several) {
      this.#updateSeveral(several);
      return;
    }
    const isRange = ranks !== null && manner === "range";
    const slowest = isRange ? ranks.slowest : null;
    const [nearest] = ancestors;
    this.element.hidden = ranks === null && !nearest;
    fill(
      this.element,
      ranks !== null && html("label", {}, html("span", { class: "label" }, "Ranks"), this.#choice),
      isRange && key({ colour: 0, dash: [] }, `mean of ${counted(ranks.ranks.length, "rank")}, with the range from smallest to largest`),
      ...(ranks !== null && manner === "each" ? ranks.ranks.slice(0, MOST_KEYS).map(({ rank }, at) => key(lookOf(at), `rank ${rank}${rank === ranks.slowest?.rank ? ", the slowest" : ""}`)) : []),
      ranks !== null && manner === "each" && ranks.ranks.length > MOST_KEYS && html("span", { class: "count" }, `and ${counted(ranks.ranks.length - MOST_KEYS, "rank")} more`),
      slowest && key(SLOWEST_LOOK, `rank ${slowest.rank}, the slowest: ${slowestText(slowest)}`),
      nearest && (x === "step" ? key(ANCESTOR_LOOK, `${nameOf(nearest.run)} up to step ${grouped(nearest.step)}, where this run was forked from it`) : html("span", { class: "count" }, "The run before the fork is drawn by step alone.")),
    );
  }
}

function key({ colour, dash }: Look, text: string): HTMLElement {
  return html("span", { class: "legend-group" }, html("span", { class: `swatch run-${colour} dash-${dash.length === 0 ? 0 : 1}` }), text);
}
