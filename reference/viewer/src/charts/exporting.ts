/** Writes a chart as PNG, SVG or CSV. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import { cutShared } from "../names.js";
import { plain, short } from "../text.js";
import { type Look, tintOf } from "../palette.js";
import { AXIS_TITLES } from "../view-state.js";
import type { Chart, Point } from "./chart.js";
import type { Colouring } from "./colouring.js";
import { draw, type Manner, type Pen } from "./drawing.js";
import type { Curve } from "../frames.js";
import { spanOf } from "./anomalies.js";
import { isGroup } from "./grouping.js";
import { type Plot, seriesName, type Series } from "./plot.js";
import { SvgPen } from "./svg-pen.js";
import { coloursOnPaper } from "./theme.js";

/** A picture for a purpose: pixels of the layout, of which a PNG has *ratio* each. */
interface Layout {
  width: number;
  height: number;
  ratio: number;
}

/** An inch has 96 pixels of the layout: a PNG for print has 384 of its own. */
const LAYOUTS: { readonly [name: string]: Layout } = {
  "Screen, 960 × 480": { width: 960, height: 480, ratio: 2 },
  "One column, 3.5 in": { width: 336, height: 220, ratio: 4 },
  "Page, 7 in": { width: 672, height: 336, ratio: 4 },
  "Slide, 16:9": { width: 1280, height: 720, ratio: 2 },
};
const FONTS: { readonly [name: string]: string } = { "Sans serif": "system-ui, Helvetica, Arial, sans-serif", Serif: "'Times New Roman', Times, serif" };
const SIZES = [8, 9, 10, 11, 12, 14, 16, 18, 20];
/** Share of the width that names take at most, and the width of a letter as a share of its height. */
const [BESIDE, LETTER] = [0.3, 0.56];
/** Width of the mark before a name. */
const MARK = 22;

/** What the user chose last: a paper has several pictures. */
const chosen = { layout: Object.keys(LAYOUTS)[0]!, font: Object.keys(FONTS)[0]!, size: 12, isOnPaper: false };

/** Returns the menu of a chart that writes files. */
export function exportMenu(chart: Chart): HTMLElement {
  const choose = (text: string, write: (made: Made) => void) =>
    button(text, { class: "button" }, () => {
      menu.open = false;
      const made = layOut(chart);
      if (!made) return;
      const { x, y, box } = made.plot;
      chart.element.dataset["exported"] = JSON.stringify({ x, y, box });
      write(made);
    });
  const menu = html(
    "details",
    { class: "menu" },
    html("summary", { class: "plain", "aria-label": `Export ${plain(chart.metric)}` }, "Export"),
    html("div", { class: "menu-items" }),
  );
  // Built when it is opened: a page has many charts.
  menu.addEventListener("toggle", () => {
    if (!menu.open) return;
    fill(
      menu.lastElementChild!,
      select("Size", Object.keys(LAYOUTS), chosen.layout, (value) => (chosen.layout = value)),
      select("Font", Object.keys(FONTS), chosen.font, (value) => (chosen.font = value)),
      select("Text", SIZES.map((each) => `${each} px`), `${chosen.size} px`, (value) => (chosen.size = Number.parseInt(value))),
      select("Colours", ["of the page", "for paper"], chosen.isOnPaper ? "for paper" : "of the page", (value) => (chosen.isOnPaper = value === "for paper")),
      choose("PNG image", (made) => png(chart, made)),
      choose("SVG image", (made) => save(chart, "svg", new Blob([svg(chart, made)], { type: "image/svg+xml" }))),
      choose("CSV table", ({ plot }) => void rawPlot(chart, plot).then((raw) => save(chart, "csv", new Blob([csv(raw, chart.state.x)], { type: "text/csv" })))),
    );
  });
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget as Node)) menu.open = false;
  });
  return menu;
}

function select(label: string, values: readonly string[], value: string, choose: (value: string) => void): HTMLElement {
  const made = html("select", { class: "field" }, ...values.map((each) => html("option", {}, each)));
  made.value = value;
  made.addEventListener("change", () => choose(made.value));
  return html("label", {}, html("span", { class: "label" }, label), made);
}

interface Named {
  text: string;
  look: Look;
}

/** A picture that is laid out: its plot, and the names beside it. */
interface Made extends Layout {
  plot: Plot;
  manner: Manner;
  names: readonly Named[];
  scale: Colouring["scale"];
  beside: number;
}

function layOut(chart: Chart): Made | null {
  const layout = LAYOUTS[chosen.layout]!;
  const { width, height, ratio } = layout;
  const { size } = chosen;
  const first = chart.plotIn({ left: 0, top: 0, width, height }, ratio);
  if (!first) return null;
  const { scale = null, groups = [] } = chart.colouring ?? {};
  const means = first.series.filter(({ run }) => isGroup(run));
  const listed = first.hasGroups && means.length > 0 ? means : first.series.filter(({ isQuiet }) => !isQuiet);
  const names: Named[] = scale ? [] : groups.length > 0 ? [...groups] : listed.map((series) => ({ text: seriesName(series), look: series.look }));
  const longest = scale ? 8 : Math.max(0, ...names.map(({ text }) => [...text].length));
  const beside = longest === 0 || (names.length === 1 && means.length === 0) ? 0 : Math.min(width * BESIDE, longest * size * LETTER + MARK + 8);
  const left = 20 + 5 * size * LETTER;
  const top = 2.6 * size;
  const plot = chart.plotIn({ left, top, width: width - left - beside - size, height: height - top - 22 - 2.6 * size }, ratio);
  const manner = { ...chart.manner(), ...(chosen.isOnPaper ? { colours: coloursOnPaper() } : {}), hovered: null, ratio, font: FONTS[chosen.font]!, size };
  return plot && { ...layout, plot, manner, names, scale, beside };
}

function png(chart: Chart, made: Made): void {
  const { width, height, ratio } = made;
  const canvas = html("canvas", { width: width * ratio, height: height * ratio });
  const pen = canvas.getContext("2d")!;
  pen.scale(ratio, ratio);
  picture(pen, chart, made);
  canvas.toBlob((blob) => blob && save(chart, "png", blob));
}

function svg(chart: Chart, made: Made): string {
  const pen = new SvgPen(made.width, made.height);
  picture(pen, chart, made);
  return pen.text();
}

function picture(pen: Pen, chart: Chart, made: Made): void {
  const { plot, manner, width, height } = made;
  const { font, size } = manner;
  pen.fillStyle = manner.colours.surface;
  pen.beginPath();
  pen.rect(0, 0, width, height);
  pen.fill();
  draw(pen, plot, manner);
  pen.globalAlpha = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillStyle = manner.colours.text;
  pen.font = `600 ${size + 2}px ${font}`;
  pen.fillText(plain([chart.metric, chart.also].filter(Boolean).join(" and "), 100), plot.box.left, 1.3 * size);
  pen.font = `${size}px ${font}`;
  pen.textAlign = "right";
  pen.fillText(AXIS_TITLES[chart.state.x], plot.box.left + plot.box.width, height - 0.8 * size);
  beside(pen, made);
}

/** Writes what the colours mean to the right of the curves: a name for each, or the scale of numbers. */
function beside(pen: Pen, { plot: { box }, manner: { colours, size }, names, scale, beside: room }: Made): void {
  const left = box.left + box.width + 12;
  pen.textAlign = "left";
  if (scale) {
    for (let row = 0; row < SCALE_ROWS; row++) {
      pen.fillStyle = tintOf(1 - (row + 0.5) / SCALE_ROWS);
      pen.beginPath();
      pen.rect(left, box.top + (box.height * row) / SCALE_ROWS, 10, box.height / SCALE_ROWS + 0.5);
      pen.fill();
    }
    pen.fillStyle = colours.text;
    pen.fillText(short(scale.high, 4), left + 15, box.top + size / 2);
    pen.fillText(short(scale.low, 4), left + 15, box.top + box.height - size / 2);
    return;
  }
  if (room === 0) return;
  const line = 1.5 * size;
  const most = Math.max(1, Math.floor(box.height / line));
  const shown = names.length > most ? names.slice(0, most - 1) : names;
  const cuts = cutShared(shown.map(({ text }) => text), Math.floor((room - MARK) / (size * LETTER)));
  shown.forEach(({ text, look }, at) => {
    const y = box.top + line * (at + 0.5);
    pen.strokeStyle = look.tint ?? colours.runs[look.colour] ?? colours.text;
    pen.lineWidth = 2;
    pen.setLineDash([...look.dash]);
    pen.beginPath();
    pen.moveTo(left, y);
    pen.lineTo(left + MARK - 6, y);
    pen.stroke();
    pen.fillStyle = colours.text;
    pen.fillText(cuts.get(text)!, left + MARK, y);
  });
  pen.setLineDash([]);
  if (shown.length < names.length) pen.fillText(`${names.length - shown.length} more`, left, box.top + line * (shown.length + 0.5));
}

const SCALE_ROWS = 60;

/** Points of a run beyond which the table has its buckets: their `count` is the number of points of each. */
const MOST_RAW = 200_000;
/** Points that are asked for at once. */
const PIECE = 3000;

/** Returns a plot with the single points of each run in place of buckets. */
async function rawPlot(chart: Chart, plot: Plot): Promise<Plot> {
  const series: Series[] = [];
  // One after another: each piece reads a part of a log.
  // The slowest rank is in front of the others and among them.
  const others = plot.background.filter((each) => !plot.series.some(({ run, isSecond }) => run.id === each.run.id && isSecond === each.isSecond));
  for (const each of [...plot.series, ...others]) series.push(isGroup(each.run) ? each : { ...each, curve: (await rawCurve(chart, each.curve)) ?? each.curve });
  return { ...plot, series };
}

async function rawCurve(chart: Chart, curve: Curve): Promise<Curve | null> {
  const { header, axis } = curve;
  if (header.level === 1 || curve.steps || curve.count.reduce((sum, count) => sum + count, 0) > MOST_RAW) return null;
  const points: Point[] = [];
  for (let begin = 0; begin < curve.length; ) {
    let end = begin;
    for (let count = 0; end < curve.length && (end === begin || count + curve.count[end]! <= PIECE); end++) count += curve.count[end]!;
    const [from, to] = [begin === 0 ? -Infinity : curve.place[begin - 1]!, curve.place[end - 1]!];
    const found = await chart.pointsOf({ run: header.run, metric: header.metric, axis }, { from: begin === 0 ? spanOf(curve, 0)[0] : from, to });
    if (!found) return null;
    points.push(...found.filter(({ place }) => place > from && place <= to));
    begin = end;
  }
  const column = (name: "place" | "value" | "nan") => Float64Array.from(points, (point) => point[name]);
  const value = column("value");
  return { header: { ...header, level: 1, buckets: points.length }, axis, length: points.length, place: column("place"), last: value, min: value, max: value, mean: value, count: value.map(() => 1), nan: column("nan") };
}

/** Returns the points or buckets of all runs as a table. */
export function csv(plot: Plot, axis: string): string {
  const hasTwo = plot.series.some(({ isSecond }) => isSecond);
  const lines = [["run", ...(hasTwo ? ["metric"] : []), axis, "last", "min", "max", "mean", "count", "not_finite"].join(",")];
  for (const { run, metric, curve, shift } of plot.series) {
    for (let i = 0; i < curve.length; i++) {
      const numbers = [curve.place[i]! + shift, curve.last[i]!, curve.min[i]!, curve.max[i]!, curve.mean[i]!, curve.count[i]!, curve.nan[i]!];
      lines.push([quoted(isGroup(run) ? run.name : run.id), ...(hasTwo ? [quoted(metric)] : []), ...numbers.map((number) => (Number.isNaN(number) ? "" : String(number)))].join(","));
    }
  }
  return `${lines.join("\n")}\n`;
}

/** Returns a cell that no spreadsheet takes for a formula. */
function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function save(chart: Chart, ending: string, blob: Blob): void {
  const address = URL.createObjectURL(blob);
  const name = chart.metric.replace(/[^\w.-]+/g, "-").slice(0, 80) || "chart";
  html("a", { href: address, download: `${name}.${ending}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
