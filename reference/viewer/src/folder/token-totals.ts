/** Tokens as an axis: how many a run has had, where it logs how many each step had. */

import type { Buckets, Columns } from "./pyramid.js";

export { TOKEN_COUNTS as TOKENS } from "../generated/runs.js";

/**
 * Returns buckets with the number of tokens up to the end of each one as `last`.
 *
 * A count that rises at every point is such a number already. Another one is that of each step, as `tokens` of toy/v1,
 * and is added up.
 */
export function tokenTotals(tokens: Buckets): Buckets {
  const { mean, nan } = tokens.columns;
  const points = tokens.count.map((count, at) => count - nan[at]!);
  if (rises(tokens.columns, points)) return tokens;
  let total = 0;
  const last = mean.map((each, at) => (total += points[at]! > 0 ? each * points[at]! : 0));
  return { ...tokens, columns: { ...tokens.columns, last } };
}

/** Returns whether each bucket with finite points is above the one before, and its last point its highest. */
function rises({ min, max, last }: Columns, points: Float64Array): boolean {
  let before = -1;
  for (const [at, end] of last.entries()) {
    if (points[at] === 0) continue;
    if (min[at]! <= before || max[at]! > end || (min[at] === max[at] && points[at]! > 1)) return false;
    before = end;
  }
  return true;
}

/** The place of records among the tokens of a run, as `tokenTotals` gives it. */
export class TokenPlaces {
  private last: number | null = null;
  private total: number | null = 0;
  private step: unknown;
  private rises = true;
  private readonly waiting: [item: { tokens?: unknown }, last: number, total: number | null][] = [];

  /** Takes in the next record, which counts tokens or none. */
  take(record: { readonly [key: string]: unknown }, tokens: unknown): void {
    // How many tokens the abandoned steps had is not kept.
    if (record["kind"] === "run_resume" && record["from_step"] !== this.step) this.total = null;
    if (typeof record["step"] === "number") this.step = record["step"];
    if (typeof tokens !== "number" || !Number.isFinite(tokens)) return;
    this.rises &&= tokens > (this.last ?? -1);
    this.last = tokens;
    if (this.total !== null) this.total += tokens;
  }

  /** Gives an item the place of the last record, once `finish` is called; null where it is not known. */
  place(item: { tokens?: unknown }): void {
    item.tokens = null;
    if (this.last !== null) this.waiting.push([item, this.last, this.total]);
  }

  /** Gives their places to all items. */
  finish(): void {
    for (const [item, last, total] of this.waiting.splice(0)) item.tokens = this.rises ? last : total;
  }
}
