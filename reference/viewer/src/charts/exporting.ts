/** Writes a chart as PNG, SVG or CSV. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import { columnOf } from "../columns.js";
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
import { ticks } from "./ticks.js";

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
/** Share of the height that the legend takes at most, and the height of its lines as a share of that of the text. */
const [MOST_LEGEND, LINE] = [0.45, 1.5];
/** Width of the mark before a name and of the gap after it, and height of the numbers of the axis x. */
const [MARK, GAP, X_NUMBERS] = [22, 14, 17];

/** What the user chose last: a paper has several pictures. */
const chosen = { layout: Object.keys(LAYOUTS)[0]!, font: Object.keys(FONTS)[0]!, size: 12, isOnPaper: false, hasLegend: true, hasMarks: true };

/** Returns the menu of a chart that writes files. */
export function exportMenu(chart: Chart): HTMLElement {
  const choose = (text: string, write: (made: Made) => void) =>
    button(text, { class: "button" }, () => {
      menu.open = false;
      const made = layOut(chart);
      if (!made) return;
      const { x, y, box, ticked } = made.plot;
      chart.element.dataset["exported"] = JSON.stringify({ x, y, box, hasTicks: ticked!.size > 0 });
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
      select("Legend", ["below", "left out"], chosen.hasLegend ? "below" : "left out", (value) => (chosen.hasLegend = value === "below")),
      select("Marks", ["shown", "left out"], chosen.hasMarks ? "shown" : "left out", (value) => (chosen.hasMarks = value === "shown")),
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

/** A name of the legend, in lines that fit, and where it begins. */
interface Entry extends Named {
  lines: readonly string[];
  x: number;
  y: number;
}

/** A picture that is laid out: its plot, and the legend below it. */
interface Made extends Layout {
  plot: Plot;
  manner: Manner;
  entries: readonly Entry[];
  /** How many names have no room, and where the legend begins. */
  more: number;
  below: number;
  scale: Colouring["scale"];
  scaleTitle: string;
}

type Measure = (text: string) => number;

function layOut(chart: Chart): Made | null {
  const layout = LAYOUTS[chosen.layout]!;
  const { width, height, ratio } = layout;
  const { size } = chosen;
  const first = chart.plotIn({ left: 0, top: 0, width, height }, ratio);
  if (!first) return null;
  const font = FONTS[chosen.font]!;
  const ruler = html("canvas", {}).getContext("2d")!;
  ruler.font = `${size}px ${font}`;
  const measure: Measure = (text) => ruler.measureText(text).width;
  const { scale = null, groups = [] } = chosen.hasLegend ? (chart.colouring ?? {}) : {};
  const means = first.series.filter(({ run }) => isGroup(run));
  const listed = first.hasGroups && means.length > 0 ? means : first.series.filter(({ isQuiet }) => !isQuiet);
  const all: Named[] = scale ? [] : groups.length > 0 ? [...groups] : listed.map((series) => ({ text: seriesName(series), look: series.look }));
  const names = !chosen.hasLegend || (all.length === 1 && means.length === 0) ? [] : all;
  const line = LINE * size;
  const legend = legendOf(names, { left: size, width: width - 2 * size, line, rows: Math.floor((MOST_LEGEND * height) / line) }, measure);
  const rows = scale ? 1 : legend.rows;
  const below = height - rows * line - (rows > 0 ? size / 2 : 0);
  // The axis x has its numbers and its name below it.
  const box = { left: 0, top: size, width: width - size, height: below - size - X_NUMBERS - 2.4 * size };
  const numbers = ticks(first.y, "value", Math.max(2, Math.round(box.height / (3.8 * size)))).map(({ text }) => measure(text));
  box.left = 1.6 * size + Math.max(...numbers, 0) + 12;
  box.width -= box.left;
  const plot = chart.plotIn(box, ratio);
  const manner = { ...chart.manner(), ...(chosen.isOnPaper ? { colours: coloursOnPaper() } : {}), hovered: null, ratio, font, size, isBare: !chosen.hasMarks };
  return plot && { ...layout, plot, manner, scale, scaleTitle: columnOf(chart.state.colour)?.title ?? "", below, more: legend.more, entries: legend.entries.map((each) => ({ ...each, y: below + each.y })) };
}

/** Returns names in as many columns as fit, each whole, or on several lines where it is wider than the picture. */
export function legendOf(names: readonly Named[], room: { left: number; width: number; line: number; rows: number }, measure: Measure): { entries: Entry[]; rows: number; more: number } {
  const cuts = cutShared(names.map(({ text }) => text), room.width - MARK, measure);
  const texts = names.map(({ text }) => broken(cuts.get(text)!, room.width - MARK, measure));
  const cell = MARK + GAP + Math.max(0, ...texts.flat().map(measure));
  const columns = Math.max(1, Math.min(names.length, Math.floor((room.width + GAP) / cell)));
  const entries: Entry[] = [];
  let used = 0;
  for (let at = 0; at < names.length; at += columns) {
    const row = texts.slice(at, at + columns);
    const lines = Math.max(...row.map(({ length }) => length));
    // The last row says how many have no room.
    if (used + lines > room.rows - (at + columns < names.length ? 1 : 0)) break;
    for (const [column, each] of row.entries()) entries.push({ ...names[at + column]!, lines: each, x: room.left + column * cell, y: used * room.line });
    used += lines;
  }
  const more = names.length - entries.length;
  return { entries, rows: used + (more > 0 ? 1 : 0), more };
}

/** Returns a text in lines of a width, broken after what is between words, or anywhere in a long word. */
function broken(text: string, width: number, measure: Measure): string[] {
  const lines = [""];
  const put = (part: string) => (lines.at(-1) === "" || measure(lines.at(-1)! + part) <= width ? (lines[lines.length - 1] += part) : lines.push(part));
  for (const word of text.split(/(?<=[-_/ ,=:·])/)) measure(word) > width ? [...word].forEach(put) : put(word);
  return lines;
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
  pen.textAlign = "center";
  pen.fillStyle = manner.colours.text;
  pen.font = `${size}px ${font}`;
  const { box } = plot;
  pen.fillText(plain(chart.state.over) || AXIS_TITLES[chart.state.x], box.left + box.width / 2, box.top + box.height + X_NUMBERS + 1.6 * size);
  const about = plot.series.find((series) => series.about)?.about;
  const title = plain(`${[chart.metric, chart.also].filter(Boolean).join(" and ")}${about ? `, mean (${about})` : ""}`, 200);
  // A name that is longer than its axis has smaller letters.
  const ruler = html("canvas", {}).getContext("2d")!;
  ruler.font = pen.font;
  pen.font = `${Math.min(1, (height - 4) / ruler.measureText(title).width) * size}px ${font}`;
  pen.save();
  pen.translate(0.9 * size, Math.max(box.top + box.height / 2, ruler.measureText(title).width / 2 + 2));
  pen.rotate(-Math.PI / 2);
  pen.fillText(title, 0, 0);
  pen.restore();
  pen.font = `${size}px ${font}`;
  pen.textAlign = "left";
  legend(pen, made);
}

/** Writes what the colours mean below the curves: a name for each, or the scale of numbers. */
function legend(pen: Pen, { plot: { box }, manner: { colours, size }, entries, more, below, scale, scaleTitle, height }: Made): void {
  const line = LINE * size;
  if (scale) {
    const width = Math.min(box.width / 2, 200);
    const [left, y] = [box.left + (box.width - width) / 2, below + line / 2];
    for (let at = 0; at < SCALE_STEPS; at++) {
      pen.fillStyle = tintOf((at + 0.5) / SCALE_STEPS);
      pen.beginPath();
      pen.rect(left + (width * at) / SCALE_STEPS, y - 4, width / SCALE_STEPS + 0.5, 8);
      pen.fill();
    }
    pen.fillStyle = colours.text;
    pen.fillText(short(scale.high, 4), left + width + 6, y);
    pen.textAlign = "right";
    pen.fillText(`${scaleTitle} ${short(scale.low, 4)}`, left - 6, y);
    return;
  }
  for (const { lines, look, x, y } of entries) {
    pen.strokeStyle = look.tint ?? colours.runs[look.colour] ?? colours.text;
    pen.lineWidth = 2;
    pen.setLineDash([...look.dash]);
    pen.beginPath();
    pen.moveTo(x, y + line / 2);
    pen.lineTo(x + MARK - 6, y + line / 2);
    pen.stroke();
    pen.fillStyle = colours.text;
    for (const [at, text] of lines.entries()) pen.fillText(text, x + MARK, y + line * (at + 0.5));
  }
  pen.setLineDash([]);
  if (more > 0) pen.fillText(`and ${more} more`, size + MARK, height - line / 2 - size / 2);
}

const SCALE_STEPS = 60;

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
  return { header: { ...header, level: 1, buckets: points.length }, axis, length: points.length, place: column("place"), min: value, max: value, mean: value, count: value.map(() => 1), nan: column("nan") };
}

/** Returns the points or buckets of all runs as a table. */
export function csv(plot: Plot, axis: string): string {
  const hasTwo = plot.series.some(({ isSecond }) => isSecond);
  const lines = [["run", ...(hasTwo ? ["metric"] : []), axis, "mean", "min", "max", "count", "not_finite"].join(",")];
  for (const { run, metric, curve, shift, about } of plot.series) {
    for (let i = 0; i < curve.length; i++) {
      const numbers = [curve.place[i]! + shift, curve.mean[i]!, curve.min[i]!, curve.max[i]!, curve.count[i]!, curve.nan[i]!];
      lines.push([quoted(about ? `${run.name} (${about})` : run.id), ...(hasTwo ? [quoted(metric)] : []), ...numbers.map((number) => (Number.isNaN(number) ? "" : String(number)))].join(","));
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
