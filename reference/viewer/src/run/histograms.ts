/** Taps and gradients as histograms over the steps: dark where many elements are. */

import { fill, html } from "../../../typescript/page/elements.js";
import { colours } from "../charts/theme.js";
import type { Detail, Histogram, HistogramSeries } from "../protocol.js";
import { counted, grouped, plain, short } from "../text.js";
import { dataTable, longList } from "./lists.js";
import type { Part } from "./run-view.js";

const TITLES = { grad: "Gradient", tap: "Tap", histogram: "Histogram" } as const;
const HEIGHT = 150;
/** Pixels of the canvas for one of the page: text stays sharp where it is enlarged. */
const SHARPNESS = 2;
const MARGIN = { left: 48, right: 8, top: 6, bottom: 20 };

/** Returns the histograms of a run, those of gradients first. */
export function histogramsSection({ histograms, left_out }: Detail): Part | null {
  if (histograms.length === 0) return null;
  const list = longList(histograms, (series) => html("li", {}, card(series)), 12);
  list.firstElementChild!.classList.add("cards");
  return { title: "Distributions", count: histograms.length + (left_out["histograms"] ?? 0), element: list };
}

function card({ kind, name, records: logged }: HistogramSeries): HTMLElement {
  const records = logged.map(spanning);
  const canvas = html("canvas", { role: "img", "aria-label": `${TITLES[kind]} ${plain(name)} over ${counted(records.length, "record")}` });
  new ResizeObserver(() => drawOn(canvas, records)).observe(canvas);
  const facts = html("p", { class: "count" });
  canvas.addEventListener("pointermove", (event) => {
    const at = Math.floor((event.offsetX - MARGIN.left) / columnWidth(records, canvas.clientWidth));
    const record = records[Math.min(Math.max(at, 0), records.length - 1)];
    if (record) fill(facts, factsOf(record));
  });
  const last = records.at(-1);
  if (last) fill(facts, factsOf(last));
  const rows = records.slice(-20).map((record) => [record.step == null ? "" : grouped(record.step), ...[record.min, record.max, record.mean, record.l2].map(text)]);
  const table = html("div", { class: "unseen" }, dataTable(["step", "min", "max", "mean", "norm"], rows));
  return html("figure", { class: "chart histogram" }, html("figcaption", { class: "chart-head" }, html("h3", {}, plain(name)), html("span", { class: "tag" }, TITLES[kind].toLowerCase())), canvas, facts, table);
}

function text(value: number | null | undefined): string {
  return value === undefined || value === null ? "–" : short(value, 4);
}

function factsOf({ step, min, max, mean, l2, nan_count }: Histogram): string {
  const parts = [step == null ? "" : `step ${grouped(step)}: `, `${text(min)} to ${text(max)}`, mean == null ? "" : `, mean ${text(mean)}`, l2 == null ? "" : `, norm ${text(l2)}`];
  return parts.join("") + (nan_count ? `, ${grouped(nan_count)} not finite` : "");
}

function columnWidth(records: readonly Histogram[], width: number): number {
  return (width - MARGIN.left - MARGIN.right) / Math.max(records.length, 1);
}

/** Draws for the width that the canvas has, so that its text is as large as that of the charts. */
function drawOn(canvas: HTMLCanvasElement, records: readonly Histogram[]): void {
  const width = canvas.clientWidth;
  if (width === 0) return;
  canvas.width = width * SHARPNESS;
  canvas.height = HEIGHT * SHARPNESS;
  const pen = canvas.getContext("2d")!;
  pen.scale(SHARPNESS, SHARPNESS);
  drawAll(pen, records, width);
}

function drawAll(pen: CanvasRenderingContext2D, records: readonly Histogram[], wide: number): void {
  const { text: ink, grid, runs } = colours();
  const low = Math.min(...records.flatMap(({ min }) => min ?? []));
  const high = Math.max(...records.flatMap(({ max }) => max ?? []));
  const height = HEIGHT - MARGIN.top - MARGIN.bottom;
  const down = (value: number) => MARGIN.top + height * (1 - (high > low ? (value - low) / (high - low) : 0.5));
  const width = columnWidth(records, wide);
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = ink;
  pen.strokeStyle = grid;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  if (Number.isFinite(low)) for (const value of low === high ? [low] : [low, low / 2 + high / 2, high]) pen.fillText(short(value, 3), MARGIN.left - 6, down(value));
  pen.strokeRect(MARGIN.left, MARGIN.top, wide - MARGIN.left - MARGIN.right, height);
  for (const [at, record] of records.entries()) drawColumn(pen, record, { left: MARGIN.left + at * width, width, down, colour: runs[0]! });
  pen.fillStyle = ink;
  pen.globalAlpha = 1;
  pen.textBaseline = "top";
  const [first, last] = [records[0]?.step, records.at(-1)?.step];
  pen.textAlign = "left";
  if (first !== undefined && first !== null) pen.fillText(grouped(first), MARGIN.left, HEIGHT - MARGIN.bottom + 5);
  pen.textAlign = "right";
  if (last !== undefined && last !== null && last !== first) pen.fillText(grouped(last), wide - MARGIN.right, HEIGHT - MARGIN.bottom + 5);
}

/** Returns a histogram with bins of any width as one that drawing knows: from its first to its last edge. */
function spanning(record: Histogram): Histogram {
  const { edges, counts } = record;
  if (!Array.isArray(edges) || !Array.isArray(counts) || edges.length !== counts.length + 1 || counts.length === 0) return record;
  const all = counts.reduce((sum, count) => sum + count, 0);
  const mean = all > 0 ? counts.reduce((sum, count, bin) => sum + (count / all) * (edges[bin]! / 2 + edges[bin + 1]! / 2), 0) : null;
  return { ...record, mean, min: edges[0]!, max: edges.at(-1)!, histogram: counts };
}

function drawColumn(pen: CanvasRenderingContext2D, record: Histogram, at: { left: number; width: number; down(value: number): number; colour: string }): void {
  const { min, max } = record;
  if (min === null || min === undefined || max === null || max === undefined) return;
  const counts = record.histogram ?? [1];
  // Bins of different widths are compared by how many values they have for each unit.
  const weights = counts.map((count, bin) => (record.edges ? count / (record.edges[bin + 1]! - record.edges[bin]! || Infinity) : count));
  const most = Math.max(...weights, record.edges ? 0 : 1);
  pen.fillStyle = at.colour;
  for (const [bin, count] of counts.entries()) {
    if (count === 0) continue;
    const place = (edge: number) => (record.edges ? record.edges[edge]! : min + ((max - min) * edge) / counts.length);
    const [low, high] = [bin, bin + 1].map((edge) => at.down(place(edge)));
    pen.globalAlpha = 0.08 + 0.92 * Math.sqrt(weights[bin]! / most);
    pen.fillRect(at.left, high!, Math.max(at.width, 1), Math.max(low! - high!, 1));
  }
}
