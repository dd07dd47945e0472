/** Evaluations, samples, comparisons and notes of a run. */

import { fill, html } from "../../../typescript/page/elements.js";
import type { Detail, Evaluation, Sample } from "../protocol.js";
import { duration, grouped, plain, prose, short, valueText } from "../text.js";
import { dataTable, longList } from "./lists.js";
import type { Part } from "./run-view.js";

/** Columns of further values that a table has. */
const MOST_EXTRA = 12;
const MOST_ROWS = 200;

const stepText = (step: number | null | undefined) => (step == null ? "" : grouped(step));

/** Returns the evaluations as one table for each name. */
export function evaluationsSection({ evaluations, left_out }: Detail): Part | null {
  if (evaluations.length === 0) return null;
  const names = [...new Set(evaluations.map(({ name }) => name))];
  const tables = names.slice(0, 50).flatMap((name) => {
    const own = evaluations.filter((each) => each.name === name);
    return [html("h3", {}, plain(name)), evaluationTable(own)];
  });
  return { title: "Evaluations", count: evaluations.length + (left_out["evaluations"] ?? 0), element: html("div", {}, ...tables) };
}

function evaluationTable(all: readonly Evaluation[]): HTMLElement {
  const shown = all.slice(-MOST_ROWS);
  const fixed = (["loss", "ppl", "samples"] as const).filter((key) => shown.some((each) => each[key] !== undefined));
  const extra = [...new Set(shown.flatMap(({ extra }) => Object.keys(extra ?? {})))].slice(0, MOST_EXTRA);
  const rows = [...shown].reverse().map((each) => [
    stepText(each.step), ...fixed.map((key) => number(each[key])),
    ...extra.map((key) => (Object.hasOwn(each.extra ?? {}, key) ? valueText(each.extra![key], 60) : "")),
  ]);
  const heads = ["step", ...fixed, ...extra.map((key) => plain(key, 40))];
  return dataTable(heads, rows, new Set(heads.keys()));
}

function number(value: number | null | undefined): string {
  return value === undefined ? "" : value === null ? "not finite" : short(value);
}

/** Returns the samples of each prompt over the steps, two of them beside each other. */
export function samplesSection({ samples, left_out }: Detail): Part | null {
  if (samples.length === 0) return null;
  const prompts = new Map<string, Sample[]>();
  for (const sample of samples) prompts.set(sample.prompt, [...(prompts.get(sample.prompt) ?? []), sample]);
  const list = longList([...prompts], ([prompt, all]) => samplesOf(prompt, all), 10);
  return { title: "Samples", count: samples.length + (left_out["samples"] ?? 0), element: list };
}

function samplesOf(prompt: string, all: readonly Sample[]): HTMLElement {
  const pair = html("div", { class: "pair" });
  const show = (left: number, right: number) => fill(pair, ...[...new Set([left, right])].map((at) => sampleCard(all, at, (next) => (at === left ? show(next, right) : show(left, next)))));
  show(Math.max(0, all.length - 2), all.length - 1);
  return html("li", { class: "samples" }, html("blockquote", {}, prose(prompt, 2000)), pair);
}

function sampleCard(all: readonly Sample[], at: number, choose: (at: number) => void): HTMLElement {
  const options = all.map(({ step }, index) => html("option", { value: index }, step == null ? `sample ${index + 1}` : `step ${grouped(step)}`));
  const select = html("select", { class: "field", "aria-label": "Step of the sample" }, ...options);
  select.value = String(at);
  select.addEventListener("change", () => choose(Number(select.value)));
  return html("div", { class: "sample" }, select, html("p", { class: "prose" }, prose(all[at]!.text)));
}

/** Returns the verdicts on the run beside its baselines. */
export function comparisonsSection({ comparisons }: Detail): Part | null {
  if (comparisons.length === 0) return null;
  const rows = comparisons.slice(0, MOST_ROWS).map((each) => [stepText(each.step), plain(each.baseline_run_id), plain(each.verdict), number(each.loss_delta), number(each.ppl_ratio)]);
  return { title: "Comparisons", count: comparisons.length, element: dataTable(["step", "baseline", "verdict", "loss difference", "perplexity ratio"], rows, new Set([0, 3, 4])) };
}

/** Returns the notes, the last one first. */
export function notesSection({ notes, left_out }: Detail): Part | null {
  if (notes.length === 0) return null;
  const list = longList([...notes].reverse(), ({ step, t, text, line }) => {
    const where = [step != null && `step ${grouped(step)}`, t != null && duration(t), line > 0 && `line ${grouped(line)}`].filter(Boolean).join(", ");
    return html("li", { class: "note" }, html("p", { class: "count" }, where), html("p", { class: "prose" }, prose(text, 4000)));
  }, 20);
  return { title: "Notes", count: notes.length + (left_out["notes"] ?? 0), element: list };
}
