/** Evaluations, samples, comparisons and notes of a run. */

import { fill, html } from "../../../typescript/page/elements.js";
import type { Detail, Evaluation, Json, NamedText, Sample } from "../protocol.js";
import { counted, duration, grouped, plain, prose, short, valueText } from "../text.js";
import { dataTable, longList } from "./lists.js";
import type { Part } from "./run-view.js";

/** Columns of further values that a table has; the others are counted. */
const MOST_EXTRA = 40;
/** Messages of a sample that are shown. */
const MOST_TURNS = 50;

const stepText = (step: number | null | undefined) => (step == null ? "" : grouped(step));

/** Returns the evaluations as one table for each name. */
export function evaluationsSection({ evaluations, left_out }: Detail): Part | null {
  if (evaluations.length === 0) return null;
  const names = [...new Set(evaluations.map(({ name }) => name))];
  const list = longList(names, (name) => html("li", {}, html("h3", {}, plain(name)), evaluationTable(evaluations.filter((each) => each.name === name))), 50);
  return { title: "Evaluations", count: evaluations.length + (left_out["evaluations"] ?? 0), element: list };
}

function evaluationTable(all: readonly Evaluation[]): HTMLElement {
  const fixed = (["loss", "ppl", "samples"] as const).filter((key) => all.some((each) => each[key] !== undefined));
  const names = [...new Set(all.flatMap(({ extra }) => Object.keys(extra ?? {})))];
  const extra = names.slice(0, MOST_EXTRA);
  const rows = [...all].reverse().map((each) => [
    stepText(each.step), ...fixed.map((key) => each[key] === null ? each.nonfinite?.[key] ?? "not finite" : number(each[key])),
    ...extra.map((key) => (Object.hasOwn(each.extra ?? {}, key) ? valueText(withWords(each.extra![key]!, `extra/${key}`, each.nonfinite ?? {}), 60) : "")),
  ]);
  const heads = ["step", ...fixed, ...extra.map((key) => plain(key, 40))];
  const table = dataTable(heads, rows, new Set(heads.keys()));
  return html("div", {}, table, names.length > extra.length && html("p", { class: "count" }, `${counted(names.length - extra.length, "column")} more: their values have charts`));
}

/** Returns a value with a word in place of each null of which the record says what it was. */
function withWords(value: Json, name: string, words: { readonly [name: string]: string }): Json {
  if (value === null) return Object.hasOwn(words, name) ? words[name]! : null;
  if (Array.isArray(value)) return value.map((item, index) => withWords(item, `${name}/${index}`, words));
  if (typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withWords(member, `${name}/${key}`, words)]));
}

function number(value: number | null | undefined): string {
  return value === undefined ? "" : value === null ? "not finite" : short(value);
}

/** Returns the samples of each prompt over the steps, two of them beside each other. */
export function samplesSection({ samples, left_out }: Detail): Part | null {
  if (samples.length === 0) return null;
  const prompts = new Map<string, Sample[]>();
  if (samples.some(({ reward, messages }) => reward !== undefined || messages !== undefined)) return { title: "Samples", count: samples.length + (left_out["samples"] ?? 0), element: rewardedSamples(samples) };
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

const ORDERS: { readonly [name: string]: (a: Sample, b: Sample) => number } = {
  "latest first": (a, b) => b.line - a.line,
  "highest reward first": (a, b) => known(b.reward, -Infinity) - known(a.reward, -Infinity) || a.line - b.line,
  "lowest reward first": (a, b) => known(a.reward, Infinity) - known(b.reward, Infinity) || a.line - b.line,
  "highest advantage first": (a, b) => known(b.advantage, -Infinity) - known(a.advantage, -Infinity) || a.line - b.line,
};
/** The order that was chosen last: a run that is written is shown again and again. */
let chosenOrder = "latest first";

const known = (value: number | null | undefined, other: number): number => (typeof value === "number" ? value : other);

/** Returns samples of reinforcement learning, in an order that the user chooses. */
function rewardedSamples(samples: readonly Sample[]): HTMLElement {
  const select = html("select", { class: "field", "aria-label": "Order of samples" }, ...Object.keys(ORDERS).map((name) => html("option", {}, name)));
  const list = html("div", {});
  const show = () => fill(list, longList([...samples].sort(ORDERS[chosenOrder]), rewardedSample, 10));
  select.value = chosenOrder;
  select.addEventListener("change", () => {
    chosenOrder = select.value;
    show();
  });
  show();
  return html("div", {}, html("label", { class: "samples-order" }, html("span", { class: "label" }, "Order"), select), list);
}

function rewardedSample({ step, id, group, reward, rewards = {}, advantage, tokens, truncated, messages, prompt, text }: Sample): HTMLElement {
  const facts = [step != null && `step ${grouped(step)}`, id !== undefined && plain(id, 80), group !== undefined && `group ${plain(group, 80)}`, tokens !== undefined && `${grouped(tokens)} tokens`, truncated === true && "cut off"].filter(Boolean);
  const values: [string, number | null | undefined][] = [["reward", reward], ...Object.entries(rewards).slice(0, MOST_EXTRA), ["advantage", advantage]];
  const shown = values.filter(([, value]) => value !== undefined).map(([name, value], at) => html("span", { class: at === 0 && name === "reward" ? "tag reward" : "tag" }, `${plain(name, 40)} ${number(value)}`));
  const more = [Array.isArray(messages) && messages.length > MOST_TURNS && `${grouped(messages.length - MOST_TURNS)} more messages`, Object.keys(rewards).length > MOST_EXTRA && `${grouped(Object.keys(rewards).length - MOST_EXTRA)} more rewards`].filter(Boolean).join(", ");
  const turns = Array.isArray(messages) && messages.length > 0 ? messages.slice(0, MOST_TURNS).map(({ role, content }) => turn(plain(String(role ?? ""), 40), contentText(content))) : [turn("prompt", prompt)];
  // The last message is often the answer itself.
  const isLast = Array.isArray(messages) && messages.length <= MOST_TURNS && messages.at(-1)?.content === text;
  return html("li", { class: "sample" }, html("p", { class: "count" }, facts.join(" · ")), html("p", { class: "rewards" }, ...shown), ...turns, more !== "" && html("p", { class: "count" }, more), !isLast && turn("answer", text));
}

function contentText(content: Json | undefined): string {
  return typeof content === "string" ? content : JSON.stringify(content ?? null);
}

function turn(role: string, text: string): HTMLElement {
  return html("div", { class: "turn" }, html("span", { class: "label" }, role), html("p", { class: "prose" }, prose(text, 4000)));
}

function sampleCard(all: readonly Sample[], at: number, choose: (at: number) => void): HTMLElement {
  const options = all.map(({ step }, index) => html("option", { value: index }, step == null ? `sample ${index + 1}` : `step ${grouped(step)}`));
  const select = html("select", { class: "field", "aria-label": "Step of the sample" }, ...options);
  select.value = String(at);
  select.addEventListener("change", () => choose(Number(select.value)));
  return html("div", { class: "sample" }, select, html("p", { class: "prose" }, prose(all[at]!.text)));
}

/** Returns the verdicts on the run beside its baselines. */
export function comparisonsSection({ comparisons, left_out }: Detail): Part | null {
  if (comparisons.length === 0) return null;
  const rows = comparisons.map((each) => [stepText(each.step), plain(each.baseline_run_id), plain(each.verdict), number(each.loss_delta), number(each.ppl_ratio)]);
  return { title: "Comparisons", count: comparisons.length + (left_out["comparisons"] ?? 0), element: dataTable(["step", "baseline", "verdict", "loss difference", "perplexity ratio"], rows, new Set([0, 3, 4])) };
}

/** Returns the texts that the run logged, by name, the last of each first. */
export function textsSection({ texts = [], left_out }: Detail): Part | null {
  if (texts.length === 0) return null;
  const names = new Map<string, NamedText[]>();
  for (const each of texts) names.set(each.name, [each, ...(names.get(each.name) ?? [])]);
  const list = longList([...names], ([name, all]) => html("li", { class: "texts" }, html("h3", {}, plain(name, 200)), longList(all, ({ step, t, text }) => {
    const where = step != null ? `step ${grouped(step)}` : t != null ? duration(t) : "";
    return html("li", { class: "note" }, html("p", { class: "count" }, where), html("p", { class: "prose" }, prose(contentText(text), 4000)));
  }, 3)), 20);
  return { title: "Texts", count: texts.length + (left_out["texts"] ?? 0), element: list };
}

/** Returns the notes, the last one first. */
export function notesSection({ notes, left_out }: Detail): Part | null {
  if (notes.length === 0) return null;
  const list = longList([...notes].reverse(), ({ step, t, text, line, topic, by }) => {
    const where = [typeof topic === "string" && plain(topic, 40), typeof by?.name === "string" && plain(by.kind === "human" || by.kind === undefined ? by.name : `${by.name} (${by.kind})`, 80), step != null && `step ${grouped(step)}`, t != null && duration(t), line > 0 && `line ${grouped(line)}`].filter(Boolean).join(", ");
    return html("li", { class: "note" }, html("p", { class: "count" }, where), html("p", { class: "prose" }, prose(text, 4000)));
  }, 20);
  return { title: "Notes", count: notes.length + (left_out["notes"] ?? 0), element: list };
}
